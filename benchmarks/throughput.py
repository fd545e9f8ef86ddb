"""How many queries a second? This package, the limit of the machine, and what people would use instead; one run.

    python -m benchmarks.throughput [--queries 2000] [--repetitions 5]

Graded synthetic queries (120 documents, 136 features, grades 0..4 in the shares of web search), and MQ2008, where it is there.
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
from benchmarks._data import MQ2008, Queries, data_folder, folds, offsets_of
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


def store_mq2008(folder: Path, source: Path) -> None:
    """Fold 1 of MQ2008: its training part, then its test part."""
    fold = next(folds(source))
    parts = (fold.train, fold.test)
    first, second = map(offsets_of, parts)
    np.savez(
        folder / "data.npz",
        X=np.concatenate([part.X for part in parts]),
        y=np.concatenate([part.y for part in parts]),
        offsets=np.concatenate((first, first[-1] + second[1:])),
        n_queries=len(first) - 1,
    )


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
    """`learn_all` in its own process, on one data set after the other: the smallest first (for the peaks)."""
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

    def better_than(self, other: "Figures") -> tuple[float, float]:
        """By how much this one's NDCG@10 is better, over the streams that both have: mean and its standard error."""
        differences = [a - b for a, b in zip(self.ndcgs, other.ndcgs, strict=False)]
        spread = statistics.stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else math.nan
        return statistics.mean(differences), spread

    def more_than(self, other: "Figures") -> float:
        """How many microseconds a query this one takes more."""
        return 1e6 * statistics.median(a - b for a, b in zip(self.seconds, other.seconds, strict=False))


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


def bars(figures: dict[str, Figures]) -> str:
    """The table of what has to be reached."""
    ours = figures[who.DEFAULT]
    peers = [one for one in figures.values() if one.contestant.is_peer]
    fastest = min(peers, key=lambda one: one.median)
    best = max(peers, key=lambda one: one.ndcg)
    spread = figures[who.SPREAD]
    limit, limit_32 = figures[who.LIMIT], figures[who.LIMIT_32]
    claims = [
        ("default, queries/s / numpy's two products", figures[who.TWO_PRODUCTS].over(ours), ">=", 0.7),
        ("argmax, time / X @ w", figures[who.ARGMAX].over(limit), "<=", 1.6),
        ("argmax, float32, time / X @ w in float32", figures[who.ARGMAX_32].over(limit_32), "<=", 1.6),
        ("spread, time / X @ w", spread.over(limit), "<=", 2.2),
        ("spread, float32, time / X @ w in float32", figures[who.SPREAD_32].over(limit_32), "<=", 2.2),
        ("default (adaptive), time / spread", ours.over(spread), "<=", 1.6),
        ("learn_one, µs a query more than learn_many", figures[who.LEARN_ONE].more_than(ours), "<=", 4.0),
        ("predict_one, µs a query more than X @ w", figures[who.PREDICT_ONE].more_than(figures[who.PRODUCT]), "<=", 4.0),
        ("default, queries/s / river's, learn_one on 120 pairs", figures[who.RIVER].over(ours), ">=", 150.0),
        (f"default, queries/s / fastest online peer's ({fastest.contestant.name})", fastest.over(ours), ">=", 1.0),
    ]
    rows = []
    for what, value, sign, bar in claims:
        met = value <= bar if sign == "<=" else value >= bar
        rows.append([what, f"{value:,.4g}", f"{sign} {bar:g}", "met" if met else "missed"])
    mean, error = ours.better_than(best)
    name = f"default, NDCG@10 less the best online peer's ({best.contestant.name}), {STREAMS} streams"
    rows.append([name, f"{mean:+.4f} ± {error:.4f}", ">= 0", "met" if mean >= 0.0 else "missed"])
    return table(["", "measured", "bar", ""], rows)


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
    source = data_folder() / MQ2008
    with tempfile.TemporaryDirectory() as temporary:
        folders = {"MQ2008": [Path(temporary) / "MQ2008"]} if source.exists() else {}
        folders["synthetic"] = [Path(temporary) / f"synthetic-{seed}" for seed in range(STREAMS)]
        for folder in (folder for each in folders.values() for folder in each):
            folder.mkdir()
        for seed, folder in enumerate(folders["synthetic"]):
            store_synthetic(folder, n_queries, seed)
        if source.exists():
            store_mq2008(folders["MQ2008"][0], source)
        outcomes: dict[str, dict[str, list[dict[str, float]]]] = {name: {} for name in folders}
        for number, contestant in enumerate(CONTESTANTS):
            if not contestant.missing:
                chosen = {name: each[: contestant.streams] for name, each in folders.items()}
                done = iter(learn_in_process(number, [folder for each in chosen.values() for folder in each]))
                for name, each in chosen.items():
                    outcomes[name][contestant.name] = [next(done) for _ in each]
        parts = []
        for name, each in folders.items():
            train, _ = load(each[0])
            figures = measure(train, repetitions, outcomes[name])
            n, d = train.X.shape
            title = f"## {name}: {train.n_queries:,} queries, {n / train.n_queries:.3g} documents each, {d} features"
            part = [title, speeds(figures)]
            if name == "synthetic":
                part += ["## What was to be reached, on the synthetic data", bars(figures)]
            parts.append("\n\n".join(part))
    text = "\n\n".join(reversed(parts))
    save(
        "throughput",
        f"""# Throughput

Medians of {repetitions} interleaved repetitions, on one thread. {environment(*installed())}

*time / X @ w*: to one pass of `X @ w` over the same features in float64, the limit. *NDCG@10* on held-out queries after one
pass over all queries, defaults everywhere, mean over {STREAMS} synthetic streams (one for batch learners); *memory*: by how
much that pass raises the peak of a process that has the data. All learners of pairs get the same {who.PAIRS} random pairs of
different grades a query. VW keeps its constant, and reads ahead on a second thread. A batch learner's pass is its
whole training.

{text}
""",
    )


def installed() -> list[str]:
    """The peers' distributions that are here."""
    peers = ("scikit-learn", "vowpalwabbit", "lightgbm", "xgboost-cpu", "xgboost")
    return [name for name in peers if any(importlib.metadata.distributions(name=name))]


if __name__ == "__main__":
    main()
