"""How many queries a second? This package, the limit of the machine, and what people would use instead; one run.

    python -m benchmarks.throughput [--queries 2000] [--repetitions 5]

Graded synthetic queries (120 documents, 136 features, grades 0..4 in the shares of web search).
Everybody is timed once a repetition, by turns, on one thread; figures are medians, and ratios medians of the ratios within a
repetition. Before that, everybody learns from all queries in a process of his own: that gives NDCG@10 and memory. NDCG@10 on
synthetic queries is the mean over five streams, because on a single one chance decides between good rankers.
"""

import argparse
import importlib
import importlib.metadata
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import _contestants as who
from benchmarks._common import ROOT, environment, parser, save, table
from benchmarks._contestants import CONTESTANTS, Contestant
from benchmarks._data import Queries
from benchmarks._timing import megabytes, seconds_of
from online_rank.metrics import NDCG
from online_rank.query import query_offsets
from online_rank.stream.synth import NoisyTeacher

HELD_OUT = 1000
STREAMS = 5
#: Contestants that were timed for this many seconds in all are not timed again.
ENOUGH = 10.0


def store_synthetic(folder: Path, n_queries: int, seed: int) -> None:
    """Queries to learn from, and after them the held-out ones."""
    X, y, qid = NoisyTeacher(n_queries + HELD_OUT, n_features=136, n_documents=120, seed=seed).block()
    np.savez(folder / "data.npz", X=X, y=y, offsets=query_offsets(qid, len(y)), n_queries=n_queries)


def load(folder: Path) -> tuple[Queries, Queries]:
    """What is learned from, and what the outcome is tested on."""
    with np.load(folder / "data.npz") as file:
        X, y, offsets, n_queries = file["X"], file["y"], file["offsets"], int(file["n_queries"])
    row = offsets[n_queries]
    return (
        Queries(X[:row], y[:row], offsets[: n_queries + 1], folder),
        Queries(X[row:], y[row:], offsets[n_queries:] - row, folder),
    )


def learn_all(number: int, folder: Path) -> dict[str, float]:
    """One pass over all queries: NDCG@10 on the held-out ones, and the memory that it took."""
    contestant = CONTESTANTS[number]
    train, test = load(folder)
    contestant.prepare(train.first(2))()
    run = contestant.prepare(train.first(contestant.learned))
    before = megabytes("VmHWM")
    score = run()
    memory = megabytes("VmHWM") - before
    if score is None:
        return {"ndcg": math.nan, "memory": memory}
    values = NDCG(k=10).value_many(test.y, np.asarray(score(test.X)), test.qid)
    return {"ndcg": float(np.nanmean(values)), "memory": memory}


def learn_in_process(number: int, folders: list[Path]) -> list[dict[str, float]]:
    """`learn_all` in its own process, on one stream after the other."""
    command = [sys.executable, "-m", "benchmarks.throughput", "--learn-all", str(number), *map(str, folders)]
    done = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


class Figures(NamedTuple):
    """What was measured of one contestant on one data set."""

    contestant: Contestant
    seconds: list[float]
    """Seconds a query; one number a repetition."""
    documents: float
    """Documents a query."""
    timed: int
    learned: int
    ndcgs: list[float]
    """NDCG@10, one number a stream."""
    memory: float

    @property
    def median(self) -> float:
        """Seconds a query."""
        return statistics.median(self.seconds)

    @property
    def ndcg(self) -> float:
        return statistics.mean(self.ndcgs)

    def over(self, other: "Figures") -> float:
        """How many times the other's time this one takes."""
        return statistics.median(a / b for a, b in zip(self.seconds, other.seconds, strict=False))


def measure(train: Queries, repetitions: int, outcomes: dict[str, list[dict[str, float]]]) -> dict[str, Figures]:
    """Time everybody of whom there are `outcomes`: one a stream, the stream of `train` first."""
    present = [contestant for contestant in CONTESTANTS if contestant.name in outcomes]
    runs = {}
    for contestant in present:
        contestant.prepare(train.first(2))()
        runs[contestant.name] = contestant.prepare(train.first(contestant.timed))
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repetitions):
        for name, run in runs.items():
            if sum(seconds[name]) < ENOUGH:
                seconds[name].append(seconds_of(run))
    figures = {}
    for contestant in present:
        name = contestant.name
        timed, learned = (train.first(n).n_queries for n in (contestant.timed, contestant.learned))
        a_query, documents = [s / timed for s in seconds[name]], train.offsets[timed] / timed
        ndcgs = [outcome["ndcg"] for outcome in outcomes[name]]
        figures[name] = Figures(contestant, a_query, documents, timed, learned, ndcgs, outcomes[name][0]["memory"])
    return figures


def speeds(figures: dict[str, Figures]) -> str:
    """The table of everybody."""
    header = ["", "queries/s", "documents/s", "time / X @ w", "NDCG@10", "memory, MB", "queries timed", "remark"]
    limit = figures[who.LIMIT]
    most = limit.timed
    rows = []
    for contestant in CONTESTANTS:
        one = figures.get(contestant.name)
        if one is None:
            rows.append([contestant.name, *[""] * 6, f"{contestant.module} is not installed"])
            continue
        ndcg = "" if math.isnan(one.ndcg) else f"{one.ndcg:.4f}"
        rows.append(
            [
                one.contestant.name,
                f"{1 / one.median:,.0f}",
                f"{one.documents / one.median:,.0f}",
                f"{one.over(limit):,.2f}",
                ndcg if one.learned == most else f"{ndcg} ({one.learned} queries)",
                "" if math.isnan(one.memory) else f"{one.memory:.0f}",
                f"{one.timed:,}",
                contestant.remark,
            ]
        )
    return table(header, rows)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--queries", type=int, default=2000)
    arguments.add_argument("--repetitions", type=int, default=5)
    arguments.add_argument("--learn-all", nargs="+", metavar="", help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    # The limit holds for what is loaded: numba takes its BLAS from scipy, when it first needs one.
    importlib.import_module("scipy.linalg")
    with threadpool_limits(1):
        if chosen.learn_all:
            number, *folders = chosen.learn_all
            print(json.dumps([learn_all(int(number), Path(folder)) for folder in folders]))
        else:
            report(chosen.queries, chosen.repetitions)


def report(n_queries: int, repetitions: int) -> None:
    """Measure everything and write it down."""
    with tempfile.TemporaryDirectory() as temporary:
        folders = [Path(temporary) / f"synthetic-{seed}" for seed in range(STREAMS)]
        for seed, folder in enumerate(folders):
            folder.mkdir()
            store_synthetic(folder, n_queries, seed)
        outcomes = {
            contestant.name: learn_in_process(number, folders[: contestant.streams])
            for number, contestant in enumerate(CONTESTANTS)
            if not contestant.missing
        }
        train, _ = load(folders[0])
        shown = speeds(measure(train, repetitions, outcomes))
    n, d = train.X.shape
    title = f"## synthetic: {train.n_queries:,} queries, {n / train.n_queries:.3g} documents each, {d} features"
    save(
        "throughput",
        f"""# Throughput

Medians of {repetitions} interleaved repetitions, on one thread. {environment(*installed())}

*time / X @ w*: to one pass of `X @ w` over the same features in float64, the limit. *NDCG@10* on held-out queries after one
pass over all queries, defaults everywhere, mean over {STREAMS} synthetic streams (one for batch learners); *memory*: by how
much that pass raises the peak of a process that has the data. All learners of pairs get the same {who.PAIRS} random pairs of
different grades a query. VW keeps its constant, and reads ahead on a second thread. A batch learner's pass is its
whole training.

{title}

{shown}
""",
    )


def installed() -> list[str]:
    """The peers' distributions that are here."""
    peers = ("scikit-learn", "vowpalwabbit", "lightgbm", "xgboost-cpu", "xgboost")
    return [name for name in peers if any(importlib.metadata.distributions(name=name))]


if __name__ == "__main__":
    main()
