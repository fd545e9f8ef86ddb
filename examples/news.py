"""A news feed: named features that come and go, and a taste that changes. Run: python examples/news.py"""

import math
import random

from online_rank import PerceptronRanker, StreamQuantileMap, rank_one
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
            article = {f"topic={topic}": 1.0, "hours": hours}
            if rng.random() < 0.5:
                article["picture"] = 1.0
            if after and rng.random() < 0.2:
                article["live"] = 1.0
            interest = taste.get(topic, 0.0) - 0.8 * math.log1p(hours)
            interest += 0.4 * article.get("picture", 0.0) + 1.5 * article.get("live", 0.0)
            name = f"{topic}-{t}-{number}"
            articles[name] = article
            reactions[name] = sum(interest + rng.gauss(0.0, 0.5) > bar for bar in (0.0, 1.0, 2.0))
        yield articles, reactions


models = {
    "remembers all": StreamQuantileMap() | PerceptronRanker(half_life=None),
    "half-life 100": StreamQuantileMap() | PerceptronRanker(half_life=100),
}
print(f"NDCG@10 of each page before it was learned; readers change their taste at page {CHANGE:,}")
for t, (page, reactions) in enumerate(pages()):
    if t % WINDOW == 0:
        quality = {name: metric("ndcg@10") for name in models}
    for name, model in models.items():
        quality[name].update(reactions, model.predict_one(page))
        model.learn_one(page, reactions)
    if t % WINDOW == WINDOW - 1:
        print(f"up to page {t + 1:,}:", ", ".join(f"{name} {value.get():.3f}" for name, value in quality.items()))

model = models["half-life 100"]
ranker = model["PerceptronRanker"]
weights = dict(zip(ranker.feature_names, ranker.served_weights.tolist(), strict=True))
print("\nWhat it learned; the model grew when the first article was live")
for feature in sorted(weights, key=weights.get, reverse=True):
    print(f"  {feature:<16} {weights[feature]:+.2f}")

print("\nThe last page, best first")
for name in rank_one(model, page)[:5]:
    print(f"  {name:<20} reaction {reactions[name]}")
