"""What do several learners of one stream lose against one, in quality and in time?

    python -m benchmarks.learners [--only quality,real]

quality  K learners of one stream, each of which learns every K-th query, and whose models are mixed after every `n` queries of
         the stream: NDCG@10 of the rankings that are served, by the last mix, against one learner that serves at once, and
         against one whose model is served as late as the mix. One process learns all shards in turn: the result is the same.
real     Two processes that learn one stream by `Learner` and a folder, and are killed in the middle.

No setting was chosen on these data.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks._additive_streams import Query, _drifting, _web
from benchmarks._common import parser, table
from online_rank import AdditiveRanker
from online_rank.distributed import fork, mix
from online_rank.metrics import NDCG

STREAMS: dict[str, Callable[[int], list[Query]]] = {
    "linear": _web(1200, "linear"),
    "additive": _web(1200, "additive"),
    "forest": _web(1200, "forest"),
    "three sudden turns": _drifting((300, 600, 900), 0),
    "gradual drift": _drifting((300,), 600),
}
LEARNERS = (1, 2, 4, 8)
PERIODS = (64, 256)


def served(make: Callable[[], Any], queries: Sequence[Query], K: int, period: int) -> list[float]:
    """NDCG@10 of each query, ranked by the last mix; with K = 1 by the model of `period` queries ago at most."""
    model, found = make(), []
    for first in range(0, len(queries), period):
        chunk = queries[first : first + period]
        # With period 1 the fork is the model: nothing is copied.
        shards = [fork(model) for _ in range(min(K, len(chunk)))] if period > 1 else [model]
        found += [ndcg(model, X, y) for X, y in chunk]
        for number, (X, y) in enumerate(chunk):
            shards[number % len(shards)].learn_one(X, y)
        if period > 1:
            model = mix(shards, model)
    return found


def ndcg(model: Any, X: Any, y: Any) -> float:
    measured = NDCG(10)
    measured.update(y, model.predict_one(X))
    return measured.get() if measured.n_queries else float("nan")


def simulated(make: Callable[[], Any], seeds: Sequence[int], streams: Sequence[str]) -> dict[tuple[str, int, int], np.ndarray]:
    """By stream, learners and period, of each seed: NDCG@10 of all queries, and of the second half, float64 (n_seeds, 2)."""
    found: dict[tuple[str, int, int], list[tuple[float, float]]] = {}
    for name in streams:
        for seed in seeds:
            queries = STREAMS[name](seed)
            for K, period in ((1, 1), *((K, period) for K in LEARNERS for period in PERIODS)):
                values = served(make, queries, K, period)
                pair = float(np.nanmean(values)), float(np.nanmean(values[len(values) // 2 :]))
                found.setdefault((name, K, period), []).append(pair)
                print(name, seed, K, period, *(f"{value:.4f}" for value in pair), flush=True)
    return {key: np.array(values) for key, values in found.items()}


def with_error(values: np.ndarray) -> str:
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{values.mean():.4f} ± {error:.4f}"


def simulated_rows(found: dict[tuple[str, int, int], np.ndarray]) -> list[list[str]]:
    """Rows (stream, learners, period, NDCG@10, less one, less one served as late, the same of the second half)."""
    rows = []
    for (name, K, period), values in found.items():
        at_once, late = values - found[name, 1, 1], values - found[name, 1, max(period, 1)]
        row = [name, str(K), str(period), with_error(values[:, 0]), with_error(at_once[:, 0]), with_error(late[:, 0])]
        rows.append([*row, with_error(late[:, 1])])
    return rows


def main(arguments: Any = None) -> None:
    options = parser(__doc__)
    options.add_argument("--only", default="quality,real")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--streams", default=",".join(STREAMS))
    options.add_argument("--trees", type=int, default=None, help="trees of the model; its default without")
    given = options.parse_args(arguments)
    make = AdditiveRanker if given.trees is None else lambda: AdditiveRanker(trees=given.trees)
    if "quality" in given.only:
        header = ["stream", "learners", "queries between mixes", "NDCG@10", "less one learner", "less one served as late",
                  "the same, second half"]  # fmt: skip
        print(table(header, simulated_rows(simulated(make, range(given.seeds), given.streams.split(",")))))


if __name__ == "__main__":
    main()
