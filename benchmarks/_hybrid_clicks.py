"""How a fusion that learns from clicks is set at its beginning: lists around today's fusion, or in random order."""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks._common import table
from benchmarks._fusion_streams import fusion_stream
from online_rank import Impression, PlackettLuce, RunFeatures, SwapRanker
from online_rank.evaluate import Spread
from online_rank.rankers.rules import FAST_SWAP_BEGINNING, SWAP_BEGINNING
from online_rank.stream.clicks import User, user

#: Impressions after which the greedy ranking is judged.
MARKS = (300, 1000, 3000)
#: Lists at the beginning.
FIRST = 30
#: How a begun ranker is set; of the others that `strengths` compares, the best that does not fall behind.
STRENGTH, WEALTH = SWAP_BEGINNING["strength"], SWAP_BEGINNING["wealth"]
SETTINGS = (
    *((1.0, 0.1), (1.0, 1.0), (3.0, 1.0), (3.0, 3.0), (3.0, 10.0)),
    *((10.0, 3.0), (10.0, 5.0), (10.0, 10.0), (20.0, 5.0), (20.0, 10.0)),
)
USERS = ("navigational", "informational", "position", "trust")


class Prepared(NamedTuple):
    """A query: features (m, r), grades (m,), and its best DCG@10."""

    X: np.ndarray
    y: np.ndarray
    ideal: float


class Course(NamedTuple):
    """What one learner did in one run.

    Attributes
    ----------
    first
        For each of the first lists, its NDCG@10 minus NDCG@10 of today's fusion for the same query.
    greedy
        (marks, queries): NDCG@10 of the greedy ranking.
    """

    first: np.ndarray
    greedy: np.ndarray


def ndcg(order: Sequence[int] | np.ndarray, query: Prepared) -> float:
    """NDCG@10 of documents in order."""
    gains = np.exp2(query.y[list(order)[:10]]) - 1.0
    return float(gains @ (1.0 / np.log2(np.arange(len(gains)) + 2.0))) / query.ideal


def visitor(name: str, queries: Sequence[Prepared], seed: int) -> User:
    """A user who knows the grades of the queries."""
    return user(name, max_grade=max(int(query.y.max()) for query in queries), seed=50 + seed)


def begun(d: int, run: int, strength: float, wealth: float) -> SwapRanker:
    """A `SwapRanker` that begins with the sum of all features."""
    return SwapRanker.from_weights(np.ones(d), strength=strength, wealth=wealth, policy=PlackettLuce(10, seed=run))


def greedy(queries: Sequence[Prepared], weights: np.ndarray) -> np.ndarray:
    """NDCG@10 of each query by its scores."""
    return np.array([ndcg(np.argsort(-(query.X @ weights), kind="stable"), query) for query in queries])


def courses(
    learners: Sequence[SwapRanker], name: str, queries: Sequence[Prepared], today: np.ndarray, run: int
) -> list[Course]:
    """Learners show ten documents and learn from the same users; `today` is the NDCG@10 to beat."""
    drawn = np.random.default_rng(1000 + run).integers(len(queries), size=MARKS[-1])
    who, found = visitor(name, queries, run), []
    for learner in learners:
        first, after = [], []
        for t, q in enumerate(drawn.tolist()):
            query, shown = queries[q], learner.show_one(queries[q].X)
            learner.learn_one(query.X, who.clicks(shown, query.y, t))
            if t < FIRST:
                first.append(ndcg(shown.order, query) - today[q])
            if t + 1 in MARKS:
                after.append(greedy(queries, np.array(learner.weights)))
        found.append(Course(np.array(first), np.array(after)))
    return found


#: Synthetic worlds for the settings: retrievers that differ, and that are as good as one another, where little can be learned.
WORLDS = {"differ": (0.2, 1.2), "as good": (0.7, 0.7)}


def strengths(worlds: int) -> str:
    """The section on the settings: synthetic worlds of 100 queries."""
    rows, d = [], 5
    found: dict[tuple[str, str], np.ndarray] = {}
    for kind, signals in WORLDS.items():
        streams = [[*_world(seed, signals)] for seed in range(worlds)]
        for name in USERS:
            of_stream = []
            for seed, queries in enumerate(streams):
                today = greedy(queries, np.ones(d))
                learners = [begun(d, seed, *setting) for setting in SETTINGS]
                made = courses(learners, name, queries, today, seed)
                of_stream.append([[course.first.mean(), *(course.greedy - today).mean(axis=1)] for course in made])
            found[kind, name] = np.array(of_stream)
            print(kind, name, flush=True)
    for i, (strength, wealth) in enumerate(SETTINGS):
        row = [f"{strength:g}", f"{wealth:g}"]
        for kind in WORLDS:
            own = np.array([found[kind, name][:, i] for name in USERS])
            means = own.mean(axis=1)
            row.append(f"{means[:, 0].min():+.4f}")
            for mark in (1, len(MARKS)):
                worst = int(np.argmin(means[:, mark]))
                row.append(f"{Spread.of(own[worst, :, mark]):+.4f}")
                row += [f"{means[:, mark].mean():+.4f}"] * (kind == "differ")
        rows.append(row)
    ends = [f"after {m:,}" for m in (MARKS[0], MARKS[-1])]
    header = ["strength", "wealth", "differ: first 30"]
    header += [f"differ: {end}{what}" for end in ends for what in ("", ", mean")] + ["as good: first 30"]
    header += [f"as good: {end}" for end in ends]
    return f"""## Strength of the beginning

On synthetic fusion streams (`benchmarks/_fusion_streams.py`): NDCG@10 of the greedy ranking, minus NDCG@10 of the mean of
min-max scores, for the kind of user (of navigational, informational, position, trust) for whom it is smallest, and the mean
over these users; {worlds} worlds whose retrievers differ, and as many whose retrievers are as good as one another, so that
little can be learned. Standard errors over worlds. Chosen: {STRENGTH:g} and {WEALTH:g}, of the settings that are below by no
more than .001 after 300 and 3,000 impressions, and .01 in the first {FIRST} lists, the one with the largest mean gain after
3,000.

{table(header, rows)}
"""


#: Lists in random order after which greedy rankings are judged, and the users and settings.
LOG_MARKS = (100, 300, 1000, 3000)
LOG_USERS = ("navigational", "informational")
LOG_SETTINGS = ((10.0, 3.0), (10.0, 10.0), (3.0, 3.0), (3.0, 10.0), (1.0, 1.0))


def logs(worlds: int) -> str:
    """The section on lists in random order: the first ten by today's rule, shuffled; the same clicks for every setting."""
    rows = []
    for kind, signals in WORLDS.items():
        for name in LOG_USERS:
            found = np.array([_from_log([*_world(seed, signals)], name, seed) for seed in range(worlds)])
            for i, (strength, wealth) in enumerate(LOG_SETTINGS):
                cells = (f"{Spread.of(cell):+.4f}" for cell in found[:, i].T)
                rows.append((f"{kind}, {name}", f"{strength:g}", f"{wealth:g}", *cells))
            print(kind, name, flush=True)
    strength, wealth = FAST_SWAP_BEGINNING["strength"], FAST_SWAP_BEGINNING["wealth"]
    return f"""## Lists in random order

The synthetic worlds of the section before, {worlds} of each kind: `SwapRanker` learns from clicks on the first ten documents by
the mean of min-max scores, in random order. NDCG@10 of the greedy ranking, minus NDCG@10 of the mean; standard errors over
worlds. Chosen by the same rule: {strength:g} and {wealth:g}.

{table(("retrievers, users", "strength", "wealth", *(f"after {m:,}" for m in LOG_MARKS)), rows)}
"""


def _from_log(queries: Sequence[Prepared], name: str, seed: int) -> list[list[float]]:
    """For each setting, NDCG@10 of the greedy rankings minus NDCG@10 of today's, after each number of lists."""
    ones = np.ones(queries[0].X.shape[1])
    today, rng = greedy(queries, ones).mean(), np.random.default_rng(seed)
    who = visitor(name, queries, seed)
    first = [np.argsort(-(query.X @ ones), kind="stable")[:10] for query in queries]
    drawn, clicks = rng.integers(len(queries), size=LOG_MARKS[-1]).tolist(), []
    for t, i in enumerate(drawn):
        shown = Impression.shuffled(rng.permutation(len(first[i])).tolist())
        clicks.append(who.clicks(shown, queries[i].y[first[i]].tolist(), t))
    features = [query.X[rows] for query, rows in zip(queries, first, strict=True)]
    found = []
    for strength, wealth in LOG_SETTINGS:
        model, after = SwapRanker.from_weights(ones, strength=strength, wealth=wealth), []
        for begin, end in itertools.pairwise((0, *LOG_MARKS)):
            lists = [features[i] for i in drawn[begin:end]]
            model.learn_many(np.concatenate(lists), clicks[begin:end], np.repeat(np.arange(len(lists)), [*map(len, lists)]))
            after.append(float(greedy(queries, model.served_weights).mean() - today))
        found.append(after)
    return found


def _world(seed: int, signals: tuple[float, float]) -> Iterator[Prepared]:
    """The queries of a synthetic world that have a relevant candidate."""
    runs = [f"r{r}" for r in range(5)]
    features = RunFeatures(runs, parts=("minmax",))
    for query, grades in fusion_stream(100, seed=seed, signals_of=signals):
        made = features.transform_one(query)
        y = np.array([grades[document] for document in query.ids])
        gains = np.exp2(np.sort(y)[::-1][:10]) - 1.0
        if gains.any():
            X = np.array([[made[document][f"{run} minmax"] for run in runs] for document in query.ids])
            yield Prepared(X, y, float(gains @ (1.0 / np.log2(np.arange(len(gains)) + 2.0))))
