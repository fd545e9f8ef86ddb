"""Vectors that learn: LSA vectors of Cranfield, ranked by the cosine and by learned weights of dimensions."""

from collections.abc import Sequence

import numpy as np

from benchmarks._common import table
from benchmarks._hybrid_clicks import FIRST, MARKS, Course, Prepared, begun, courses, ndcg, over_runs, summary
from benchmarks._retrievers import Collection, latent
from online_rank import PerceptronRanker, Vectors

#: How many documents the cosine returns.
DEPTH = 100
#: How a perceptron begins with the cosine, and whether it averages; of the others that `strengths` compares, the best that does
#: not fall behind.
STRENGTH, HALF_LIFE = 2.0, 0.0
SETTINGS = tuple((strength, half_life) for strength in (1.0, 2.0, 3.0, 5.0, 10.0) for half_life in (None, 0.0))
#: The same for clicks, with the wealth of bets: the defaults of `from_weights`.
CLICK_STRENGTH, CLICK_WEALTH = 1.0, 0.1
CLICK_SETTINGS = ((1.0, 0.1), (10.0, 1.0), (10.0, 3.0))
CLICK_USERS = ("navigational", "informational")
#: Synthetic worlds: the standard deviation of the logarithms of the true weights of dimensions.
WORLDS = {"differ": 0.7, "differ little": 0.3, "as good": 0.0}


def prepared(collection: Collection, dimensions: int) -> list[Prepared]:
    """The questions with the products of the vectors of what the cosine returns."""
    ids = [x["id"] for x in collection.documents]
    vectors, vector_of = latent([f"{x['title']} {x['body']}" for x in collection.documents], dimensions)
    found = []
    for question, text in collection.questions.items():
        left_out, relevant = collection.left_out.get(question, set()), collection.grades.get(question, {})
        q = vector_of(text)
        cosines = np.where([document in left_out for document in ids], -np.inf, vectors @ q)
        best = np.argsort(-cosines, kind="stable")[:DEPTH]
        y = np.array([relevant.get(ids[i], 0) for i in best])
        gains = np.exp2(sorted(relevant.values(), reverse=True)[:10]) - 1.0
        ideal = float(gains @ (1.0 / np.log2(np.arange(len(gains)) + 2.0)))
        found.append(Prepared(Vectors(q, vectors[best]).products, y, ideal))
    return found


def from_grades(queries: Sequence[Prepared], begun: bool, orders: int) -> np.ndarray:
    """(orders, questions): NDCG@10 of rank, then learn."""
    d, values = queries[0].X.shape[1], np.empty((orders, len(queries)))
    for number in range(orders):
        model = _begun(d) if begun else PerceptronRanker()
        for i in np.random.default_rng(number).permutation(len(queries)).tolist():
            values[number, i] = ndcg(model.rank_one(queries[i].X), queries[i])
            model.learn_one(queries[i].X, queries[i].y)
    return values


def _begun(d: int, strength: float = STRENGTH, half_life: float | None = HALF_LIFE) -> PerceptronRanker:
    """A perceptron that begins as the cosine."""
    return PerceptronRanker.from_weights(np.ones(d), strength=strength, half_life=half_life)


def strengths(worlds: int) -> str:
    """The section on how a perceptron begins with the cosine: synthetic worlds."""
    columns = []
    for spread in WORLDS.values():
        found = []
        for seed in range(worlds):
            queries = _world(seed, spread)
            cosine = np.mean([ndcg(range(10), query) for query in queries])
            found.append([_learned(queries, *setting) - cosine for setting in SETTINGS])
        columns.append([over_runs(np.array(values)) for values in np.array(found).T])
    rows = [
        (f"{strength:g}", "yes" if half_life is None else "no", *cells)
        for (strength, half_life), cells in zip(SETTINGS, zip(*columns, strict=True), strict=True)
    ]
    return f"""## Strength of the cosine

Synthetic vectors of 200 dimensions, 150 queries, {worlds} worlds of each kind: what is relevant depends on weights of the
dimensions that differ, differ little, or are equal, so that nothing can be learned. NDCG@10 of a perceptron begun with the
cosine, rank, then learn, less the cosine; standard errors over worlds. Chosen: {STRENGTH:g}, without averaging, of the settings
that are below by no more than .001 where nothing can be learned, the one that gains most where weights differ.

{table(("weights", "averages", *(f"weights {kind}" for kind in WORLDS)), rows)}
"""


def _learned(queries: Sequence[Prepared], strength: float, half_life: float | None) -> float:
    """Mean NDCG@10 of rank, then learn."""
    model, values = _begun(queries[0].X.shape[1], strength, half_life), []
    for query in queries:
        values.append(ndcg(model.rank_one(query.X), query))
        model.learn_one(query.X, query.y.astype(np.int64))
    return float(np.mean(values))


def _world(seed: int, spread: float, d: int = 200, n: int = 1400, relevant: int = 8) -> list[Prepared]:
    """Queries near documents of a synthetic collection; relevant are the best by weighted products and noise."""
    rng = np.random.default_rng(seed)
    scale = 1.0 / np.sqrt(1.0 + np.arange(d) / 10.0)
    vectors = rng.standard_t(4, size=(n, d)) * scale
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    weights, found = np.exp(spread * rng.normal(size=d)), []
    for _ in range(150):
        query = vectors[rng.integers(n)] + 0.08 * rng.normal(size=d) * scale
        products = Vectors(query, vectors).products
        worth = products @ weights
        y = np.zeros(n, dtype=np.int64)
        y[np.argsort(-(worth / worth.std() + 0.8 * rng.normal(size=n)))[:relevant]] = 1
        best = np.argsort(-products.sum(axis=1), kind="stable")[:DEPTH]
        found.append(Prepared(products[best], y[best], float((1.0 / np.log2(np.arange(relevant) + 2.0)).sum())))
    return found


def from_clicks(queries: Sequence[Prepared], cosine: np.ndarray, runs: int, impressions: int) -> tuple[str, str]:
    """The first lists shown, ten times as often, and the greedy ranking at the end, less the cosine; navigational users."""

    def course(run: int, length: int) -> Course:
        learner = begun(queries[0].X.shape[1], run, CLICK_STRENGTH, CLICK_WEALTH)
        return courses([learner], "navigational", queries, cosine, run, length)[0]

    shown = over_runs(np.array([course(run, FIRST).first.mean() for run in range(10 * runs)]))
    return shown, summary(np.array([course(run, impressions).greedy[-1] for run in range(runs)]) - cosine)


def click_strengths(worlds: int, d: int = 400) -> str:
    """The section on how a click ranker begins with the cosine: synthetic worlds."""
    rows = []
    for kind, spread in WORLDS.items():
        found: dict[str, list[list[list[float]]]] = {name: [] for name in CLICK_USERS}
        for seed in range(worlds):
            queries = _world(seed, spread, d)
            cosine = np.array([ndcg(range(10), query) for query in queries])
            for name, of_user in found.items():
                learners = [begun(d, seed, *setting) for setting in CLICK_SETTINGS]
                made = courses(learners, name, queries, cosine, seed, MARKS[-2])
                of_user.append([[course.first.mean(), *(course.greedy - cosine).mean(axis=1)] for course in made])
            print(kind, seed, flush=True)
        for name, of_user in found.items():
            for (strength, wealth), values in zip(CLICK_SETTINGS, np.array(of_user).transpose(1, 2, 0), strict=True):
                rows.append((f"{kind}, {name}", f"{strength:g}", f"{wealth:g}", *map(over_runs, values)))
    header = ("weights, users", "strength", "wealth", f"first {FIRST} shown", *(f"greedy after {m:,}" for m in MARKS[:-1]))
    return f"""## Strength of the cosine for clicks

The synthetic vectors of the section before, of {d} dimensions, {worlds} worlds of each kind:
`SwapRanker.from_weights(np.ones(d))` shows ten documents and learns from clicks. NDCG@10 less the cosine; standard errors over
worlds. Step sizes are per dimension, so a wealth that suits five retrievers is too aggressive here: it raises the loss of the
first lists beyond the price of exploring. Chosen: {CLICK_STRENGTH:g} and {CLICK_WEALTH:g}, the defaults of `from_weights`.

{table(header, rows)}
"""


def section(collection: Collection, orders: int, runs: int, sizes: Sequence[int] = (100, 200, 400)) -> str:
    """The section of the page."""
    rows = []
    for dimensions in sizes:
        queries = prepared(collection, dimensions)
        cosine = np.array([ndcg(range(10), query) for query in queries])
        grades = [summary(from_grades(queries, begun, orders) - cosine) for begun in (True, False)]
        rows.append((str(dimensions), f"{cosine.mean():.4f}", *grades, *from_clicks(queries, cosine, runs, MARKS[-2])))
        print("|".join(rows[-1]), flush=True)
    clicked = f"clicks: first {FIRST} shown", f"greedy after {MARKS[-2]:,}"
    header = ("dimensions", "cosine", "grades, begun", "grades, cold", *clicked)
    return f"""## Vectors that learn

LSA vectors of Cranfield; the first {DEPTH} documents by the cosine, NDCG@10, the rest less the cosine. Grades: perceptron begun
with weights of {STRENGTH:g}, without averaging, rank, then learn, {orders} orders. Clicks: navigational users,
`SwapRanker.from_weights(np.ones(d))`, {10 * runs} runs of the first lists and {runs} of {MARKS[-2]:,}. Standard errors over
questions, of the lists shown over runs.

{table(header, rows)}
"""
