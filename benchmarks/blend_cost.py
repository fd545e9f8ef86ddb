"""What do curves, ridge and the blend cost: a query, in memory, and in all?

    python -m benchmarks.blend_cost [--queries 4000]

Web-like queries of 60 documents with 136 raw features (`WebLike`, additive truth). Rankers take turns, 100 queries each, so
that what else the machine does hits all alike; the default perceptron is among them. Shown are milliseconds of processor time
of `learn_one`, which ranks the query before it learns it, over all queries after the first 100; memory is the growth of the
peak of a separate process, after a short run that compiles. Last comes the time by the clock of a whole pass, query by
query, and of one fit of LightGBM's lambdarank of 200 rounds on two threads, on the same 4,000 queries.
"""

import argparse
import json
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._common import ROOT, environment, parser, save, table
from benchmarks._timing import megabytes
from online_rank import AdditiveRanker, BlendRanker, PerceptronRanker, RidgeRanker, StreamQuantileMap
from online_rank.base import Ranker
from online_rank.stream import WebLike
from online_rank.support.progress import progress

DEFAULT, RIDGE, CURVES, BLEND = "PerceptronRanker()", "map | RidgeRanker()", "AdditiveRanker()", "BlendRanker()"
RANKERS: dict[str, Callable[[], Ranker]] = {
    DEFAULT: PerceptronRanker,
    "map | PerceptronRanker()": lambda: StreamQuantileMap() | PerceptronRanker(),
    RIDGE: lambda: StreamQuantileMap() | RidgeRanker(),
    CURVES: lambda: AdditiveRanker(),
    BLEND: lambda: BlendRanker(),
}
TURN, FIRST = 100, 100
#: A pass over `PASS` queries is compared with a fit of `ROUNDS` rounds on `THREADS` threads.
PASS, ROUNDS, THREADS = 4000, 200, 2


def stream(n_queries: int) -> WebLike:
    return WebLike(n_queries, truth="additive", n_documents=60, seed=7)


def times(n_queries: int) -> dict[str, dict[str, Any]]:
    """Of each ranker: milliseconds of each query, by processor and by clock; of predicting; bytes of its state."""
    queries = list(stream(n_queries))
    models = {name: make() for name, make in RANKERS.items()}
    processor: dict[str, list[float]] = {name: [] for name in RANKERS}
    clock: dict[str, list[float]] = {name: [] for name in RANKERS}
    predicting = dict.fromkeys(RANKERS, 0.0)
    with progress("learning", n_queries) as show:
        for first in range(0, n_queries, TURN):
            for name, model in models.items():
                for X, y in queries[first : first + TURN]:
                    start, began = time.thread_time(), time.perf_counter()
                    model.learn_one(X, y)
                    processor[name].append(time.thread_time() - start)
                    clock[name].append(time.perf_counter() - began)
                start = time.thread_time()
                for X, _ in queries[:10]:
                    model.predict_one(X)
                predicting[name] += time.thread_time() - start
            show(first + TURN)
    return {
        name: {
            "processor": 1e3 * np.array(processor[name]),
            "clock": 1e3 * np.array(clock[name]),
            "predicting": 1e3 * predicting[name] / (10 * len(range(0, n_queries, TURN))),
            "bytes": len(pickle.dumps(models[name])),
        }
        for name in RANKERS
    }


def memory(name: str, n_queries: int) -> float:
    """Megabytes by which the peak of this process grows while a ranker learns."""
    warm = RANKERS[name]()
    for X, y in stream(40):
        warm.learn_one(X, y)
    del warm
    queries = iter(stream(n_queries))
    X, y = next(queries)
    model = RANKERS[name]()
    before = megabytes("VmHWM")
    model.learn_one(X, y)
    for X, y in queries:
        model.learn_one(X, y)
    return megabytes("VmHWM") - before


def memory_in_process(name: str, n_queries: int) -> float:
    command = [sys.executable, "-m", "benchmarks.blend_cost", "--queries", str(n_queries), "--memory", name]
    done = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def pass_and_fit() -> tuple[float, float]:
    """Seconds by the clock: the default blend learns `PASS` queries, one by one; LightGBM is fitted to them."""
    import lightgbm

    queries = list(stream(PASS))
    X, y = (np.concatenate(parts) for parts in zip(*queries, strict=True))
    start = time.perf_counter()
    model = RANKERS[BLEND]()
    for own in queries:
        model.learn_one(*own)
    learned = time.perf_counter()
    settings: dict[str, Any] = {"objective": "lambdarank", "n_estimators": ROUNDS, "n_jobs": THREADS, "verbose": -1}
    lightgbm.LGBMRanker(**settings).fit(X, y, group=[len(y) for _, y in queries])
    return learned - start, time.perf_counter() - learned


def row(name: str, found: dict[str, Any], default: float, megabytes: float) -> list[str]:
    """One row of the table."""
    milliseconds, clock = found["processor"][FIRST:], found["clock"][FIRST:]
    mean = milliseconds.mean()
    return [
        name,
        f"{mean:.3f}",
        f"{mean / default:.1f}",
        *(f"{np.quantile(milliseconds, q):.2f}" for q in (0.5, 0.99, 0.999)),
        f"{np.quantile(clock, 0.999):.2f}",
        f"{found['predicting']:.3f}",
        f"{1e-3 * found['processor'].sum():.1f}",
        f"{found['bytes'] / 1e6:.1f}",
        f"{megabytes:.0f}",
    ]


def run(chosen: argparse.Namespace) -> None:
    # Everything is compiled, or loaded, before it is timed.
    times(2 * TURN)
    found = times(chosen.queries)
    default = found[DEFAULT]["processor"][FIRST:].mean()
    megabytes = {name: memory_in_process(name, min(chosen.queries, 2000)) for name in RANKERS}
    seconds, fit = pass_and_fit()
    header = ["ms a query", "mean", "x default", "median", "p99", "p99.9", "p99.9, clock"]
    header += ["predict_one", "seconds in all", "state, MB", "growth of peak, MB"]
    rows = [row(name, found[name], default, megabytes[name]) for name in RANKERS]
    bars = [
        ("map \\| ridge, ms", found[RIDGE]["processor"][FIRST:].mean(), 0.4),
        ("AdditiveRanker(), ms", found[CURVES]["processor"][FIRST:].mean(), 1.2),
        ("default blend, ms", found[BLEND]["processor"][FIRST:].mean(), 4.0),
        ("default blend, p99.9, ms", float(np.quantile(found[BLEND]["processor"][FIRST:], 0.999)), 20.0),
        ("default blend, growth of peak, MB", megabytes[BLEND], 64.0),
        ("default blend, state, MB", found[BLEND]["bytes"] / 1e6, 11.0),
        (f"default blend, a pass over {PASS:,} queries, s", seconds, fit),
        *(
            (f"{name.replace('|', chr(92) + '|')}, time / {DEFAULT}", found[name]["processor"][FIRST:].mean() / default, bar)
            for name, bar in ((RIDGE, 10.0), (CURVES, 30.0), (BLEND, 100.0))
        ),
    ]
    reached = [[name, f"{value:.2f}", f"<= {bar:.3g}", "met" if value <= bar else "missed"] for name, value, bar in bars]
    save(
        "blend_cost",
        f"""# What the map, ridge, curves and the blend cost

{chosen.queries} queries of 60 documents with 136 raw features; processor time of `learn_one`, which ranks before it learns.
`map` is `StreamQuantileMap()`. The bars are for a quiet machine; ratios to the default perceptron depend less on what
else runs. The bar of the whole pass is one fit of LightGBM ({ROUNDS} rounds, {THREADS} threads) to the same queries; both in
seconds by the clock. {environment("lightgbm")}

{table(header, [[cell.replace("|", chr(92) + "|") for cell in cells] for cells in rows])}

{table(["", "measured", "bar", ""], reached)}
""",
    )


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--queries", type=int, default=4000)
    arguments.add_argument("--memory", choices=[*RANKERS], help="print the growth of this process and end")
    chosen = arguments.parse_args()
    if chosen.memory:
        print(json.dumps(memory(chosen.memory, chosen.queries)))
        return
    run(chosen)


if __name__ == "__main__":
    main()
