"""A neural ranker in a river pipeline."""

import itertools
from collections.abc import Iterator

import numpy as np

from online_rank import PerceptronRanker, StreamQuantileMap, evaluate
from online_rank.rankers.direct import DirectRanker
from online_rank.walkthrough._say import heading, say, show

_N_QUERIES = 1200


def offers(n_queries: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Queries of 24 offers with 5 features; the grade depends on how close the price is to the usual one."""
    rng = np.random.default_rng(seed)
    for _ in range(n_queries):
        X = rng.normal(size=(24, 5))
        price, rating = X[:, 0], X[:, 1]
        appeal = -2.0 * np.abs(price) + rating + rng.normal(scale=0.3, size=24)
        yield X * [20.0, 0.5, 3.0, 1.0, 1.0] + [100.0, 4.0, 5.0, 0.0, 0.0], np.digitize(appeal, [-1.5, 0.0])


def run() -> None:
    """Learn a function that no linear ranker can, in a pipeline; then cut a ranked list into grades."""
    heading("A function that no weighting of features can represent")
    say("Offers: a price far from the usual one is suspicious, whether high or low; a good rating helps; three features are "
        "irrelevant. Grades are 0, 1 and 2.")  # fmt: skip
    models = {
        "linear": StreamQuantileMap() | PerceptronRanker(),
        "neural": StreamQuantileMap() | DirectRanker(hidden=(16, 8), learning_rate=1e-2, average=200, seed=0),
    }
    for name, model in models.items():
        trace = evaluate.progressive(offers(_N_QUERIES, seed=1), model, "ndcg@10", every=_N_QUERIES // 6)
        values = "  ".join(f"{value:.3f}" for value in trace.columns["ndcg@10"])
        show(f"{name:<8} NDCG@10 so far, after each {trace.every} queries:  {values}")
    say("Both are rankers like any other: the same map before them, the same learn_one and rank_one.")

    heading("Comparing two documents")
    quantiles, ranker = models["neural"]["StreamQuantileMap"], models["neural"]["DirectRanker"]
    X, y = next(offers(1, seed=2))
    documents = quantiles.transform_one(X)
    best, worst = documents[int(np.argmax(y))], documents[int(np.argmin(y))]
    forth, back = ranker.compare_one(best, worst), ranker.compare_one(worst, best)
    show(f"r(a, b) = {forth:+.3f}    r(b, a) = {back:+.3f}")
    say("Exactly antisymmetric and transitive, since each document has a single score.")

    heading("Cutting a ranked list into grades")
    order, gaps = ranker.rank_one(documents), ranker.neighbour_gaps_one(documents)
    segments = ranker.segment_one(documents, n_grades=3)
    widest = max(gaps)
    for position, (i, below) in enumerate(itertools.zip_longest(order, gaps, fillvalue=0.0)):
        i = int(i)
        show(f"{position + 1:>3}  true grade {y[i]}  segment {segments[i]}  {'█' * round(30 * below / widest)}")
    say("A bar is the gap to the next document; cuts at wide gaps should be where the true grade changes. "
        "online_rank.plot.neighbour_gaps draws it.")  # fmt: skip
