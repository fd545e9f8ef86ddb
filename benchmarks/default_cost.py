"""What does the default cost, in queries of the perceptron alone?

    python -m benchmarks.default_cost [--queries 1500]

Both learn the same queries with raw features, in turns of 100: `PerceptronRanker()` on the features as they are, and
`StreamQuantileMap() | PerceptronRanker()`. Processor time of the thread; the ratio is the median over turns after the first 300
queries, and that of all time spent, sketches of the first queries included.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._common import environment, parser, save, table
from online_rank import PerceptronRanker, StreamQuantileMap
from online_rank.stream import WebLike

Queries = list[tuple[np.ndarray, np.ndarray]]

SHAPES = ((20, 46), (120, 136))
TURN, FIRST, BAR = 100, 300, 4.0


def learn_one(model: Any, queries: Queries) -> None:
    """One query after the other."""
    for X, y in queries:
        model.learn_one(X, y)


def rank_and_learn(model: Any, queries: Queries) -> None:
    """Each query is ranked, then learned."""
    for X, y in queries:
        model.rank_one(X)
        model.learn_one(X, y)


def learn_many(model: Any, queries: Queries) -> None:
    """A block."""
    X, y = (np.concatenate(parts) for parts in zip(*queries, strict=True))
    model.learn_many(X, y, np.repeat(np.arange(len(queries)), [len(y) for _, y in queries]))


WAYS: dict[str, Callable[[Any, Queries], None]] = {
    "learn_one": learn_one,
    "rank_one, learn_one": rank_and_learn,
    "learn_many": learn_many,
}


def times(queries: Queries, way: Callable[[Any, Queries], None]) -> tuple[list[float], list[float]]:
    """Seconds of each turn, of the perceptron alone and of the default."""
    models = PerceptronRanker(), StreamQuantileMap() | PerceptronRanker()
    seconds: tuple[list[float], list[float]] = ([], [])
    for first in range(0, len(queries), TURN):
        turn = queries[first : first + TURN]
        for model, own in zip(models, seconds, strict=True):
            start = time.thread_time()
            way(model, turn)
            own.append(time.thread_time() - start)
    return seconds


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--queries", type=int, default=1500)
    chosen = arguments.parse_args()
    rows = []
    for m, d in SHAPES:
        queries = list(WebLike(chosen.queries, n_features=d, n_documents=m, seed=3))
        for name, way in WAYS.items():
            # Kernels are loaded, or compiled, before anything is timed.
            times(queries[:TURN], way)
            alone, default = times(queries, way)
            late = slice(FIRST // TURN, None)
            ratio = statistics.median(b / a for a, b in zip(alone[late], default[late], strict=True))
            each = [f"{1e6 * statistics.median(own[late]) / TURN:.1f}" for own in (alone, default)]
            whole = sum(default) / sum(alone)
            rows.append([f"{m} x {d}, {name}", *each, f"{ratio:.2f}", f"{whole:.2f}", "met" if ratio <= BAR else "missed"])
    save(
        "default_cost",
        f"""# What the default costs

{chosen.queries} queries of additive `WebLike`, by turns of {TURN}; processor time in microseconds a query, median over turns
after {FIRST} queries. *ratio*: median over these turns of `StreamQuantileMap() | PerceptronRanker()` to `PerceptronRanker()`;
*in all*: of the time of all queries. {environment()}

{table(["documents x features", "perceptron", "default", "ratio", "in all", f"<= {BAR:g}"], rows)}
""",
    )


if __name__ == "__main__":
    main()
