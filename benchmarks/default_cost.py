"""What does the default cost, in queries of linear weights?

    python -m benchmarks.default_cost [--queries 1500] [--others]

All learn the same queries with raw features, in turns of 100: `PerceptronRanker()` on the features as they are,
`StreamQuantileMap() | PerceptronRanker()`, and `AdditiveRanker()`. Processor time of the thread; the ratio is the median over
turns after the first 300 queries, and the ratio of all time spent, sketches of the first queries included.

`--others` measures the default next to learners of `benchmarks.throughput`, of other libraries, and replaces this
section of the page.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import _contestants as who
from benchmarks._common import environment, parser, save, table
from benchmarks._data import Queries as Block
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


#: Who is measured with `--others`, and on at most how many queries.
OTHERS = {
    "AdditiveRanker()": (who.learn_many(AdditiveRanker), 1500),
    "LightGBM lambdarank, 100 trees": (who.lightgbm, 1500),
    "Vowpal Wabbit --csoaa_ldf m": (who.vowpal_wabbit("--csoaa_ldf m"), 1500),
    "river LogisticRegression, learn_many, 120 pairs": (who.river_frames, 300),
}
REPETITIONS = 3


def others(queries: Queries) -> str:
    """Queries learned a second of processor time, a row for each learner; medians of interleaved repetitions."""
    with tempfile.TemporaryDirectory() as folder:
        X, y = (np.concatenate(parts) for parts in zip(*queries, strict=True))
        block = Block(X, y, np.cumsum([0, *(len(y) for _, y in queries)]), Path(folder))
        passes = {}
        for name, (prepare, most) in OTHERS.items():
            prepare(block.first(2))()
            passes[name] = prepare(block.first(most)), block.first(most).n_queries
        seconds: dict[str, list[float]] = {name: [] for name in OTHERS}
        for _ in range(REPETITIONS):
            for name, (run, n_queries) in passes.items():
                start = time.process_time()
                run()
                seconds[name].append((time.process_time() - start) / n_queries)
    rates = [[name, f"{1 / statistics.median(each):,.0f}", f"{passes[name][1]:,}"] for name, each in seconds.items()]
    return table(["", "queries learned a second", "queries timed"], rates)


def save_others(n_queries: int) -> None:
    """Write the section of other libraries."""
    _, (m, d, _) = SHAPES
    shown = others(list(WebLike(n_queries, n_features=d, n_documents=m, seed=3)))
    save(
        "default_cost",
        f"""## Next to other libraries

{n_queries} queries of {m} documents with {d} raw features; queries learned a second of processor time, medians of {REPETITIONS}
passes by turns. river learns 120 random pairs of each query, unscaled; Vowpal Wabbit reads its binary cache. LightGBM's pass is
its whole training. {environment("lightgbm", "vowpalwabbit")}

{shown}
""",
        part=True,
    )


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
    arguments.add_argument("--others", action="store_true")
    chosen = arguments.parse_args()
    if chosen.others:
        save_others(chosen.queries)
        return
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
