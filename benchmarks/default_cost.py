"""What does the default cost, in queries of linear weights?

    python -m benchmarks.default_cost [--queries 1500]

All learn the same queries with raw features, in turns of 100: `PerceptronRanker()` on the features as they are,
`StreamQuantileMap() | PerceptronRanker()`, and `AdditiveRanker()`. Processor time of the thread; the ratio is the median over
turns after the first 300 queries, and the ratio of all time spent, sketches of the first queries included.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._common import environment, parser, save, table
from online_rank import AdditiveRanker, PerceptronRanker, StreamQuantileMap
from online_rank.stream import WebLike

Queries = list[tuple[np.ndarray, np.ndarray]]

#: Documents and features, and the most that the default may cost, in queries of a perceptron behind a map.
SHAPES = ((20, 46, 2.0), (120, 136, 3.0))
TURN, FIRST = 100, 300


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


def times(queries: Queries, way: Callable[[Any, Queries], None]) -> tuple[list[float], ...]:
    """Seconds of each turn, of the perceptron alone, behind a map, and of the default."""
    models = PerceptronRanker(), StreamQuantileMap() | PerceptronRanker(), AdditiveRanker()
    seconds: tuple[list[float], ...] = ([], [], [])
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
    for m, d, bar in SHAPES:
        queries = list(WebLike(chosen.queries, n_features=d, n_documents=m, seed=3))
        for name, way in WAYS.items():
            # Kernels are loaded, or compiled, before anything is timed.
            times(queries[:TURN], way)
            found = times(queries, way)
            _, mapped, default = found
            late = slice(FIRST // TURN, None)
            ratio = statistics.median(b / a for a, b in zip(mapped[late], default[late], strict=True))
            each = [f"{1e6 * statistics.median(own[late]) / TURN:.1f}" for own in found]
            whole = sum(default) / sum(mapped)
            met = "met" if ratio <= bar else "missed"
            rows.append([f"{m} x {d}, {name}", *each, f"{ratio:.2f}", f"{whole:.2f}", f"{bar:g}", met])
    save(
        "default_cost",
        f"""# What the default costs

{chosen.queries} queries of additive `WebLike`, by turns of {TURN}; processor time in microseconds a query, median over turns
after {FIRST} queries. *ratio*: median over these turns of `AdditiveRanker()` to `StreamQuantileMap() | PerceptronRanker()`;
*in all*: of the time of all queries. {environment()}

{table(["documents x features", "perceptron", "behind a map", "default", "ratio", "in all", "at most", ""], rows)}
""",
    )


if __name__ == "__main__":
    main()
