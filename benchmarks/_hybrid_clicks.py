"""Learning fusion from clicks: lists drawn around today's fusion, and what users of several kinds teach."""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from benchmarks._common import table
from benchmarks._fusion_streams import fusion_stream
from benchmarks._kept import Kept
from online_rank import PlackettLuce, RunFeatures, SwapRanker
from online_rank.stream.clicks import CascadeUser, User, user

#: Impressions after which the greedy ranking is judged.
MARKS = (300, 1000, 3000)
#: Lists at the beginning.
FIRST = 30
#: How a begun ranker is set, chosen on synthetic fusion streams (`strengths`).
STRENGTH, WEALTH = 3.0, 10.0
#: A cold start is far enough behind to be seen in fewer runs.
COLD_RUNS = 10
USERS = ("navigational", "informational", "position", "trust", "adversarial")


class Prepared(NamedTuple):
    """A query: features (m, r), grades (m,), and its best DCG@10, with the relevant documents that were not returned."""

    X: np.ndarray
    y: np.ndarray
    ideal: float


class Course(NamedTuple):
    """What one learner did in one run.

    Attributes
    ----------
    first
        For each of the first lists, its NDCG@10 less that of today's fusion for the same query.
    greedy
        (marks, queries): NDCG@10 of the greedy ranking.
    """

    first: np.ndarray
    greedy: np.ndarray


def ndcg(order: Sequence[int] | np.ndarray, query: Prepared) -> float:
    """NDCG@10 of documents in order."""
    gains = np.exp2(query.y[list(order)[:10]]) - 1.0
    return float(gains @ (1.0 / np.log2(np.arange(len(gains)) + 2.0))) / query.ideal


def visitor(name: str, best: int, seed: int) -> User:
    """A user; the adversarial one clicks what is irrelevant, as a perfect one clicks what is relevant."""
    if name == "adversarial":
        click = tuple(1.0 - grade / best for grade in range(best + 1))
        return CascadeUser(click, tuple(0.0 for _ in click), seed=seed)
    return user(name, max_grade=best, seed=seed)


def taught(model: SwapRanker, who: User, queries: Sequence[Prepared], drawn: np.ndarray, today: np.ndarray) -> Course:
    """Show, take clicks, learn."""
    first, greedy = [], []
    for t, i in enumerate(drawn.tolist()):
        query = queries[i]
        shown = model.show_one(query.X)
        if t < FIRST:
            first.append(ndcg(shown.order, query) - today[i])
        model.learn_one(query.X, who.clicks(shown, query.y, t))
        if t + 1 in MARKS:
            greedy.append([ndcg(model.rank_one(each.X), each) for each in queries])
    return Course(np.array(first), np.array(greedy))


def begun_with_today(d: int, policy: PlackettLuce, strength: float = STRENGTH, wealth: float = WEALTH) -> SwapRanker:
    """A ranker that begins with the mean of min-max scores."""
    return SwapRanker.from_weights(np.ones(d), strength=strength, policy=policy, wealth=wealth)


def summary(values: np.ndarray) -> str:
    """Mean and standard error over queries, of (runs, queries)."""
    means = values.mean(axis=0)
    return f"{means.mean():+.4f} ± {means.std(ddof=1) / math.sqrt(len(means)):.4f}"


def section(queries: Sequence[Prepared], runs: int, kept: Kept, impressions: int = MARKS[-1]) -> str:
    """The section of the page: each user, begun with the mean of min-max scores and from nothing."""
    d, best = queries[0].X.shape[1], max(int(query.y.max()) for query in queries)
    today = np.array([ndcg(np.argsort(-query.X.sum(axis=1), kind="stable"), query) for query in queries])
    marks = [m for m in MARKS if m <= impressions]

    def course(name: str, begun: bool, run: int) -> list[list]:
        policy = PlackettLuce(k=10, seed=run)
        model = begun_with_today(d, policy) if begun else SwapRanker(policy)
        drawn = np.random.default_rng(1000 + run).integers(len(queries), size=impressions)
        return [each.tolist() for each in taught(model, visitor(name, best, 50 + run), queries, drawn, today)]

    pairs = [(name, begun) for name in USERS for begun in (True, False) if begun or name != "adversarial"]
    courses: dict[tuple[str, bool], list[Course]] = {pair: [] for pair in pairs}
    # A run of all users after the other, so that what is kept is of as many runs of each; cold ones, which say less, are last.
    order = [(run, pair) for begun in (True, False) for run in range(runs) for pair in pairs if pair[1] == begun]
    for run, (name, begun) in order:
        if begun or run < COLD_RUNS:
            how = f"begun with {STRENGTH:g} and {WEALTH:g}" if begun else "cold"
            measured = kept.part(f"{name}, {how}, {impressions}, run {run}", partial(course, name, begun, run))
            courses[name, begun].append(Course(*map(np.array, measured)))
    rows = []
    for (name, begun), found in courses.items():
        first = np.array([each.first.mean() for each in found])
        shown = f"{first.mean():+.4f} ± {first.std(ddof=1) / math.sqrt(len(first)):.4f}"
        after = [summary(np.array([each.greedy[m] for each in found]) - today) for m in range(len(marks))]
        rows.append((f"{name}, {'begun' if begun else 'cold'}", shown, *after))
    header = ("users, learner", f"first {FIRST} lists shown", *(f"greedy after {m:,}" for m in marks))
    return f"""## From clicks

NDCG@10 less that of the mean of min-max scores ({today.mean():.4f}), for the same queries. Each of {impressions:,} impressions
is a question drawn at random; `SwapRanker(PlackettLuce(k=10))` shows ten documents, and begins with that mean
(`from_rule("minmax", runs, strength={STRENGTH:g}, wealth={WEALTH:g})`) or with nothing. {runs} runs, cold ones
{min(runs, COLD_RUNS)}; the standard error of the lists shown is over runs, of greedy rankings over questions. Adversarial users
click documents that are not relevant.

{table(header, rows)}

{kept.code}
"""


def strengths() -> str:
    """The section on the settings: three synthetic worlds of 100 queries, 1,000 impressions."""
    rows = []
    worlds = [[*_world(seed)] for seed in range(3)]
    for strength, wealth in ((1.0, 0.1), (3.0, 0.1), (1.0, 1.0), (1.0, 10.0), (3.0, 10.0), (10.0, 10.0), (3.0, 100.0)):
        row = [f"{strength:g}", f"{wealth:g}"]
        for name in ("navigational", "trust"):
            first, greedy = [], []
            for seed, queries in enumerate(worlds):
                today = np.array([ndcg(np.argsort(-query.X.sum(axis=1), kind="stable"), query) for query in queries])
                drawn = np.random.default_rng(seed).integers(len(queries), size=1000)
                model = begun_with_today(5, PlackettLuce(k=10, seed=seed), strength, wealth)
                course = taught(model, visitor(name, 2, seed), queries, drawn, today)
                first.append(course.first.mean())
                greedy.append((course.greedy - today).mean(axis=1))
            row += [f"{np.mean(first):+.4f}", *(f"{value:+.4f}" for value in np.mean(greedy, axis=0))]
        rows.append(row)
        print("|".join(row), flush=True)
    header = (
        "strength",
        "wealth",
        *(f"{who}: {what}" for who in ("navigational", "trust") for what in ("first 30", "300", "1,000")),
    )
    return f"""## Strength of the beginning

On synthetic fusion streams (`benchmarks/_fusion_streams.py`): NDCG@10 less that of the mean of min-max scores, three worlds.
Chosen: {STRENGTH:g} and {WEALTH:g}.

{table(header, rows)}
"""


def _world(seed: int) -> Iterator[Prepared]:
    """The queries of a synthetic world that have a relevant candidate."""
    runs = [f"r{r}" for r in range(5)]
    features = RunFeatures(runs, parts=("minmax",))
    for query, grades in fusion_stream(100, seed=seed):
        made = features.transform_one(query)
        y = np.array([grades[document] for document in query.ids])
        gains = np.exp2(np.sort(y)[::-1][:10]) - 1.0
        if gains.any():
            X = np.array([[made[document][f"{run} minmax"] for run in runs] for document in query.ids])
            yield Prepared(X, y, float(gains @ (1.0 / np.log2(np.arange(len(gains)) + 2.0))))
