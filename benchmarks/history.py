"""What are rates and ages of documents worth as features, and does `History` keep them as well as counters made by hand?

    python -m benchmarks.history [--days 15] [--queries 100] [--seeds 5]

A feed of 40 new documents a day, each of which lives for four days. The appeal of a document is hidden: a
quality, of which one feature shows half, a brand, and freshness, which wears off by half a logit a day. Each query has 20
live documents, which the reader engages with or not (grades 1 and 0). Every query is ranked by what is known then; rankers
that learn online then learn it. LightGBM's lambdarank is retrained after each day on all rows so far, with the counters
as they were when each query was ranked, and serves the next day; on the first it has no model. Counters by hand are
dictionaries in plain Python. Shown are means of NDCG@10 over the queries with a relevant document from the second day on,
and differences paired over seeds.
"""

import collections
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks._common import environment, parser, save, table
from online_rank import AdditiveRanker, History, measure

DAY = 86_400.0
NEW, LIVES, SHOWN, BRANDS = 40, 4, 20, 20
BEGIN = 1.76e9
HALF_LIFE, PRIOR = 7 * DAY, 20.0

#: A query: its time, the ids of documents, their features, grades.
Query = tuple[float, list[str], list[dict[str, Any]], np.ndarray]


def feed(days: int, queries: int, seed: int) -> Iterator[list[Query]]:
    """The queries of each day."""
    rng = np.random.default_rng(seed)
    of_brand = 0.7 * rng.normal(size=BRANDS)
    ids, born, appeal, features = [], [], [], []
    for day in range(-LIVES, days):
        for k in range(NEW):
            quality, brand = rng.normal(), int(rng.integers(BRANDS))
            ids.append(f"d{day}-{k}")
            born.append((day + rng.random()) * DAY)
            appeal.append(1.2 * quality + of_brand[brand])
            shows = float(0.7 * quality + 0.7 * rng.normal())
            features.append({"brand": f"b{brand}", "content": shows, "noise": float(rng.normal())})
        if day < 0:
            continue
        today = []
        for at in np.sort((day + rng.random(queries)) * DAY):
            live = [i for i, b in enumerate(born) if b <= at < b + LIVES * DAY]
            chosen = rng.choice(live, SHOWN, replace=False)
            logit = np.array([appeal[i] - 2.0 - 0.5 * (at - born[i]) / DAY for i in chosen])
            grades = (rng.random(SHOWN) < 1.0 / (1.0 + np.exp(-logit))).astype(np.int64)
            today.append((BEGIN + float(at), [ids[i] for i in chosen], [features[i] for i in chosen], grades))
        yield today


class ByHand:
    """Counters in dictionaries, as teams make them: for each key its impressions and engagement when it was last touched."""

    def __init__(self) -> None:
        self.rows: dict[Any, list[float]] = collections.defaultdict(lambda: [0.0, 0.0, -1.0, -1.0])

    def at(self, key: Any, at: float) -> list[float]:
        """Impressions, engagement and age of a key at a time."""
        n, engaged, last, first = self.rows.get(key, (0.0, 0.0, at, at))
        left = 0.5 ** ((at - last) / HALF_LIFE)
        return [n * left, engaged * left, at - first]

    def features(self, ids: list[str], documents: list[dict[str, Any]], at: float) -> list[dict[str, Any]]:
        """The documents with the three features of each key."""
        made = []
        for name, x in zip(ids, documents, strict=True):
            row = dict(x)
            for by, key in (("document", name), ("brand", x["brand"])):
                (n, engaged, age), (every, of_all, _) = self.at((by, key), at), self.at((by, None), at)
                overall = of_all / every if every else 0.0
                row |= {f"{by} n": n, f"{by} rate": (engaged + PRIOR * overall) / (n + PRIOR), f"{by} age": age}
            made.append(row)
        return made

    def learn(self, ids: list[str], documents: list[dict[str, Any]], grades: np.ndarray, at: float) -> None:
        """Count what was shown."""
        for name, x, grade in zip(ids, documents, grades.tolist(), strict=True):
            for key in (("document", name), ("brand", x["brand"]), ("document", None), ("brand", None)):
                n, engaged, _ = self.at(key, at)
                first = self.rows[key][3] if self.rows[key][3] >= 0.0 else at
                self.rows[key] = [n + 1.0, engaged + grade, at, first]


class Nightly:
    """LightGBM, retrained after each day, on rows as they were ranked."""

    def __init__(self) -> None:
        self.X: list[np.ndarray] = []
        self.y: list[np.ndarray] = []
        self.model: Any = None

    def serve(self, documents: list[dict[str, Any]], grades: np.ndarray) -> np.ndarray:
        """Scores by the model of last night; the query is kept."""
        X = np.array([[float(v[1:]) if name == "brand" else v for name, v in x.items()] for x in documents])
        self.X.append(X)
        self.y.append(grades)
        return np.zeros(len(X)) if self.model is None else self.model.predict(X)

    def end_of_day(self) -> None:
        """Train on all days so far."""
        import lightgbm

        self.model = lightgbm.LGBMRanker(objective="lambdarank", n_estimators=100, verbose=-1, n_jobs=1)
        X, sizes = np.concatenate(self.X), [len(y) for y in self.y]
        self.model.fit(X, np.concatenate(self.y), group=sizes, categorical_feature=[0])


MADE: dict[str, Callable[[], Any]] = {
    "`History('document') \\| History('brand') \\| AdditiveRanker()`": lambda: (
        History("document") | History("brand") | AdditiveRanker()
    ),
    "counters by hand, `AdditiveRanker()`": AdditiveRanker,
    "`AdditiveRanker()` without them": AdditiveRanker,
}
HISTORY, COUNTED, BARE = MADE
RETRAINED = "counters by hand, LightGBM retrained nightly"


def lived(days: int, queries: int, seed: int) -> dict[str, list[float]]:
    """NDCG@10 of each query with a relevant document from the second day on, and seconds of the processor, by contestant."""
    models, ndcg = {name: make() for name, make in MADE.items()}, measure("ndcg@10")
    nightly, counters = Nightly(), ByHand()
    values: dict[str, list[float]] = {name: [] for name in (*MADE, RETRAINED)}
    for day, today in enumerate(feed(days, queries, seed)):
        for at, ids, documents, grades in today:
            counted = counters.features(ids, documents, at)
            scores: dict[str, Any] = {RETRAINED: nightly.serve(counted, grades)}
            for name, model in models.items():
                x = dict(zip(ids, counted if name == COUNTED else documents, strict=True))
                known = {"at": at} if name == HISTORY else {}
                scores[name] = np.array([*model.predict_one(x, **known).values()])
                model.learn_one(x, grades, **known)
            counters.learn(ids, documents, grades, at)
            if day and grades.any():
                for name, each in values.items():
                    each.append(ndcg.value(scores[name], grades))
        nightly.end_of_day()
    return values


def quality(days: int, queries: int, seeds: int) -> str:
    """The table of the quality."""
    found = [{name: float(np.mean(each)) for name, each in lived(days, queries, seed).items()} for seed in range(seeds)]
    rows = []
    for name in (HISTORY, COUNTED, RETRAINED, BARE):
        means = np.array([each[name] for each in found])
        difference = np.array([each[HISTORY] for each in found]) - means
        error = difference.std(ddof=1) / np.sqrt(seeds)
        rows.append([name, f"{means.mean():.4f}", "" if name == HISTORY else f"{difference.mean():+.4f} ± {error:.4f}"])
    return f"""## A feed with new documents every day

{days} days of {queries} queries of {SHOWN} documents, {NEW} new ones a day, {seeds} seeds. *History ahead by*: the mean
difference over seeds ± its standard error. {environment("lightgbm")}

{table(["served NDCG@10", "mean", "History ahead by"], rows)}
"""


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--days", type=int, default=15)
    arguments.add_argument("--queries", type=int, default=100)
    arguments.add_argument("--seeds", type=int, default=5)
    chosen = arguments.parse_args()
    save("history", "# Rates and ages as features\n\n" + quality(chosen.days, chosen.queries, chosen.seeds))


if __name__ == "__main__":
    main()
