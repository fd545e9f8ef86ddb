"""A news feed: a category, features that come and go, and a taste that changes. Run: python examples/news.py"""

import math
import random

from online_rank import AdditiveRanker, rank_one
from online_rank.metrics import metric

TOPICS = ("election", "football", "weather", "markets", "film", "science")
N_PAGES, CHANGE, WINDOW = 3000, 1500, 500


def pages():
    """Pages of 12 articles and what readers did: 0 nothing, 1 a click, 2 read to the end, 3 shared.

    Halfway, the election is over and football begins; only then do articles have a feature "live".
    """
    rng = random.Random(7)
    for t in range(N_PAGES):
        after = t >= CHANGE
        taste = {"football": 2.0, "science": 0.5} if after else {"election": 2.0, "markets": 0.5}
        articles, reactions = {}, {}
        for number in range(12):
            topic, hours = rng.choice(TOPICS), rng.expovariate(0.2)
            article = {"topic": topic, "hours": hours, "picture": float(rng.random() < 0.5)}
            if after and rng.random() < 0.2:
                article["live"] = 1.0
            interest = taste.get(topic, 0.0) - 0.8 * math.log1p(hours)
            interest += 0.4 * article["picture"] + 1.5 * article.get("live", 0.0)
            name = f"{topic}-{t}-{number}"
            articles[name] = article
            reactions[name] = sum(interest + rng.gauss(0.0, 0.5) > bar for bar in (0.0, 1.0, 2.0))
        yield articles, reactions


model = AdditiveRanker()
print(f"NDCG@10 of each page before it was learned; readers change their taste at page {CHANGE:,}")
for t, (page, reactions) in enumerate(pages()):
    if t % WINDOW == 0:
        quality = metric("ndcg@10")
    quality.update(reactions, model.predict_one(page))
    model.learn_one(page, reactions)
    if t % WINDOW == WINDOW - 1:
        print(f"up to page {t + 1:,}: {quality.get():.3f}")

print("\nWhat it learned of hours; the model grew when the first article was live")
values, own, ranked = model.curve("hours")
for value, score in list(zip(values, own + ranked, strict=True))[::12]:
    print(f"  {value:6.2f} {score:+.2f}")

print("\nThe last page, best first")
for name in rank_one(model, page)[:5]:
    print(f"  {name:<20} reaction {reactions[name]}")
