"""A news feed: named features that come and go, and a taste that changes."""

import math
import random
from collections.abc import Iterator
from typing import Any

from online_rank import PerceptronRanker, StreamQuantileMap, rank_one
from online_rank.metrics import metric
from online_rank.support.progress import progress
from online_rank.walkthrough._say import course, heading, say, show

_TOPICS = ("election", "football", "weather", "markets", "film", "science")
_N_PAGES, _CHANGE = 3000, 1500
_WINDOW = 50


def pages(seed: int = 7) -> Iterator[tuple[dict[str, dict[str, float]], dict[str, int]]]:
    """Pages of 12 articles and what readers did: 0 nothing, 1 a click, 2 read to the end, 3 shared.

    Halfway, the election is over and football begins; only then do articles have a feature "live".
    """
    rng = random.Random(seed)
    for t in range(_N_PAGES):
        after = t >= _CHANGE
        taste = {"football": 2.0, "science": 0.5} if after else {"election": 2.0, "markets": 0.5}
        articles: dict[str, dict[str, float]] = {}
        reactions: dict[str, int] = {}
        for number in range(12):
            topic, hours, live = rng.choice(_TOPICS), rng.expovariate(0.2), after and rng.random() < 0.2
            article = {f"topic={topic}": 1.0, "hours": hours}
            if rng.random() < 0.5:
                article["picture"] = 1.0
            if live:
                article["live"] = 1.0
            interest = taste.get(topic, 0.0) - 0.8 * math.log1p(hours) + 0.4 * article.get("picture", 0.0) + 1.5 * live
            name = f"{topic}-{t}-{number}"
            articles[name] = article
            reactions[name] = sum(interest + rng.gauss(0.0, 0.5) > bar for bar in (0.0, 1.0, 2.0))
        yield articles, reactions


def run() -> None:
    """Rank every page, then learn from what readers did with it."""
    heading("A news feed")
    say(f"""{_N_PAGES:,} pages of 12 articles. An article is a dict of the features it has; a page is {{article: features}}. The
        model ranks each page before readers see it, and learns from their reactions afterwards. No list of features is given
        to it, and nothing is tuned.""")
    models: dict[str, Any] = {
        "remembers all": StreamQuantileMap() | PerceptronRanker(average=True),
        "half-life 100": StreamQuantileMap() | PerceptronRanker(average=100),
    }
    seen = {name: [metric("ndcg@10")] for name in models}
    page, reactions = next(pages())
    say("The first page, and what readers did:")
    for article in list(page)[:3]:
        features = ", ".join(f"{feature} {value:.2g}" for feature, value in page[article].items())
        show(f"{article:<16} {features:<42} reaction {reactions[article]}")
    with progress("learning", _N_PAGES, "pages") as met:
        for t, (page, reactions) in enumerate(pages()):
            for name, model in models.items():
                if t and t % _WINDOW == 0:
                    seen[name].append(metric("ndcg@10"))
                seen[name][-1].update(reactions, model.predict_one(page))
                model.learn_one(page, reactions)
            met(t + 1)
    values = {name: [each.get() for each in windows] for name, windows in seen.items()}
    heading(f"At page {_CHANGE:,} readers turn from the election to football")
    low, high = min(map(min, values.values())), max(map(max, values.values()))
    for name, course_of in values.items():
        show(f"{name:<14}{course(course_of, low, high)}  {course_of[-1]:.3f}")
    show(f"{'':<14}{' ' * (_CHANGE // _WINDOW)}^")
    say(f"NDCG@10 in windows of {_WINDOW} pages, from {low:.2f} to {high:.2f}. Rankings are served by an average of the "
        "weights: of all so far, or of the latest, which follows when the taste changes.")  # fmt: skip
    model = models["half-life 100"]
    ranker = model["PerceptronRanker"]
    heading("What it learned")
    weights = dict(zip(ranker.feature_names, ranker.served_weights.tolist(), strict=True))
    for feature in sorted(weights, key=weights.__getitem__, reverse=True):
        show(f"{feature:<24} {weights[feature]:+.2f}")
    say('"live" was not in the first half of the stream: the model grew when it appeared.')
    heading("The last page, best first")
    for name in [str(article) for article in rank_one(model, page)[:5]]:
        show(f"{name:<18} reaction {reactions[name]}")
