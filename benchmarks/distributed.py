"""What does learning on several machines cost, in quality and in time?

    python -m benchmarks.distributed [--only quality,real,cost]

quality  K shards that are mixed after every 16, 64 or 256 queries of each: NDCG@10 of what is then served, cumulative loss and
         its bound, on synthetic streams. Shards are learned one after the other here: their number is all that matters.
real     The same on the folds of MQ2008, compared with one process.
cost     Processor and wall seconds of one process, of Spark on a DataFrame, and of Spark that maps `learn_files`, over the same
         parquet files of a stream like MQ2008; bytes of models sent, and NDCG@10 on held-out queries.

Each part writes its file. No setting was chosen on any of these data.
"""

import contextlib
import itertools
import math
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np

from benchmarks._common import RESULTS, parser, save, table
from benchmarks._data import MQ2008, folds, known_folders
from online_rank import AdditiveRanker, LossTracker, PerceptronRanker, StreamScaler, read
from online_rank.distributed import fork, learn_files, mix
from online_rank.distributed.spark import train as spark_train
from online_rank.metrics import metric
from online_rank.query import query_offsets
from online_rank.stream.synth import NoisyTeacher
from online_rank.stream.weblike import WebLike

SHARDS = (1, 4, 16, 64, 256)
PERIODS = (16, 64, 256)
PASSES = (1, 5, 20)
_STREAM, _HELD_OUT = 16_384, 1_000
_FEATURES, _DOCUMENTS = 40, 20
_HELD_OUT_SEED = 10_000

Query = tuple[np.ndarray, np.ndarray]


def in_rounds(model: Any, queries: Sequence[Query], K: int, period: int) -> Any:
    """The model after K shards learned the queries, mixed after every `period` of each; with K = 1 nothing is mixed."""
    if K == 1:
        return taught(model, queries)
    for first in range(0, len(queries), K * period):
        chunk = queries[first : first + K * period]
        bounds = [k * len(chunk) // K for k in range(K + 1)]
        shards = [taught(fork(model), chunk[a:b]) for a, b in pairwise(bounds) if b > a]
        model = mix(shards, model)
    return model


def taught(model: Any, queries: Sequence[Query]) -> Any:
    if queries:
        X, y = zip(*queries, strict=True)
        model.learn_many(np.concatenate(X), np.concatenate(y), np.repeat(np.arange(len(y)), [len(grades) for grades in y]))
    return model


def held_out(model: Any, queries: Sequence[Query]) -> float:
    measured: Any = metric("ndcg@10")
    for X, y in queries:
        measured.update(y, model.predict_one(X))
    return measured.get()


def with_error(values: Sequence[float]) -> str:
    """Mean and standard error."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{statistics.mean(values):.4f} ± {error:.4f}"


def synthetic(n_seeds: int) -> dict[tuple[int, int], np.ndarray]:
    """By shards and period, of each seed: NDCG@10, loss, mass, bound, float64 (n_seeds, 4)."""
    found: dict[tuple[int, int], list[tuple[float, float, float, float]]] = {}
    for seed in range(n_seeds):
        stream = NoisyTeacher(_STREAM + _HELD_OUT, n_features=_FEATURES, n_documents=_DOCUMENTS, seed=seed)
        queries = list(stream)
        learned, test = queries[:_STREAM], queries[_STREAM:]
        u = stream.teacher / np.linalg.norm(stream.teacher)
        for K in SHARDS:
            for period in PERIODS if K > 1 else (0,):
                tracker = in_rounds(LossTracker(PerceptronRanker(), {"u": u}), learned, K, period)
                certificate = tracker.certificate("u")
                bound = certificate.bound("mixing_data_bound" if K > 1 else "mass_data_bound")
                figures = held_out(tracker, test), certificate.loss, tracker.totals.mass, bound
                found.setdefault((K, period), []).append(figures)
    return {key: np.array(figures) for key, figures in found.items()}


def synthetic_rows(found: dict[tuple[int, int], np.ndarray]) -> list[list[str]]:
    """Rows (K, period, NDCG@10, less one process, loss, mass, bound)."""
    rows = []
    for (K, period), values in found.items():
        served, less = values[:, 0], values[:, 0] - found[1, 0][:, 0]
        sums = [f"{total:,.0f}" for total in values[:, 1:].mean(axis=0)]
        rows.append([str(K), str(period or ""), with_error(served.tolist()), with_error(less.tolist()) if K > 1 else "", *sums])
    return rows


#: NDCG@10 by passes, shards, fold and order.
Found = dict[tuple[int, int, int, int], float]


def real(n_orders: int) -> Found:
    """What models serve on the test parts of MQ2008."""
    found: Found = {}
    for number, fold in enumerate(folds(known_folders(MQ2008)[0])):
        train, test = (split(block) for block in (fold.train, fold.test))
        for order in range(n_orders):
            shuffled = [train[i] for i in np.random.default_rng(order).permutation(len(train))]
            for K in (1, 4, 16, 64):
                model = StreamScaler() | PerceptronRanker()
                for passes in range(1, max(PASSES) + 1):
                    model = in_rounds(model, shuffled, K, 64)
                    if passes in PASSES:
                        found[passes, K, number, order] = held_out(model, test)
    return found


def real_rows(found: Found) -> list[list[str]]:
    """Rows (passes, K, NDCG@10, less one process with its error over folds, its error over orders)."""
    rows = []
    n_orders = 1 + max(order for *_, order in found)
    tables: dict[tuple[int, int], list[float]] = {}
    for (passes, K, _, _), value in sorted(found.items()):
        tables.setdefault((passes, K), []).append(value)
    for (passes, K), values in sorted(tables.items()):
        served = np.reshape(values, (-1, n_orders))
        row = [str(passes), str(K), with_error(served.mean(axis=1).tolist()), "", ""]
        if K > 1:
            less = served - np.reshape(tables[passes, 1], (-1, n_orders))
            # Orders of one fold are not independent, nor are folds of one order: means of the others.
            row[3:] = [with_error(less.mean(axis=axis).tolist()) for axis in (1, 0)]
            row[4] = row[4].split()[-1]
        rows.append(row)
    return rows


def split(block: Any) -> list[Query]:
    """The queries of a block of LETOR text."""
    offsets = query_offsets(block.qid, len(block.y))
    return [(block.X[a:b], block.y[a:b]) for a, b in pairwise(offsets)]


def mq2008_like(n_queries: int, seed: int, truth: str) -> WebLike:
    """A stream with as many features, documents and grades of each as MQ2008 has."""
    shares = 0.81, 0.13, 0.06
    return WebLike(n_queries, truth=truth, n_features=46, n_documents=(8, 30), grade_shares=shares, seed=seed, world_seed=0)


def written(path: Path, n_queries: int, seed: int, truth: str) -> str:
    """Write a parquet file of a stream, a row for each document; gives its path."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    queries = list(mq2008_like(n_queries, seed, truth))
    X, y = (np.concatenate(part) for part in zip(*queries, strict=True))
    ids = np.repeat(np.arange(n_queries) + seed * n_queries, [len(grades) for _, grades in queries])
    pq.write_table(pa.table({"query": ids, "grade": y, **{f"f{j}": X[:, j] for j in range(X.shape[1])}}), path)
    return str(path)


class Spent(threading.Thread):
    """Processor seconds of this process and all that it has started, within a context.

    Workers of Spark end when they are idle, and nobody waits for them, so their time is in no sum of the system. Here it is as
    of the last look, a second before at most.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        #: Seconds of each process, by its number and when it began.
        self._used: dict[tuple[str, str], float] = {}
        self._is_over, self._looking = threading.Event(), threading.Lock()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self.join()

    def run(self) -> None:
        while not self._is_over.wait(1.0):
            self.seconds()

    def seconds(self) -> float:
        """Those so far."""
        with self._looking:
            self._look()
            return sum(self._used.values())

    def _look(self) -> None:
        parents, found = {}, {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields, pid = stat.read_text().rpartition(")")[2].split(), stat.parent.name
                parents[pid] = fields[1]
                found[pid, fields[19]] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        mine = {str(os.getpid())}
        while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
            mine |= more
        self._used |= {process: used for process, used in found.items() if process[0] in mine or process in self._used}


def cost(truth: str, n_files: int, n_queries: int, shards: int, rounds: int, turns: int) -> list[list[str]]:
    """Rows (who, processor s, of one process, wall s, MB of models sent, NDCG@10 on held-out queries, less one process)."""
    found: dict[str, list[list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder, local_spark() as spark, Spent() as spent:
        files = [written(Path(folder) / f"{k:03}.parquet", n_queries, k, truth) for k in range(n_files)]
        test = list(read(written(Path(folder) / "test.parquet", 3_000, _HELD_OUT_SEED, truth), query="query", grade="grade"))

        def on_spark(model: Any, files: Sequence[str] = files) -> float:
            rows = spark.read.parquet(*files)
            return spark_train(rows, "query", "grade", model, shards=shards, rounds=rounds, measure=None).bytes_sent

        def on_parts(model: Any, files: Sequence[str] = files) -> float:
            def run(learn: Any, parts: Sequence[Any]) -> Any:
                return spark.sparkContext.parallelize(parts, len(parts)).map(learn).collect()

            options = {"shards": shards, "rounds": rounds, "query": "query", "grade": "grade"}
            return learn_files(model, files, run=run, measure=None, **options).bytes_sent

        # Loads the kernels; workers import what they need, and the JVM compiles.
        taught_by_read(AdditiveRanker(), files[:1], 500)
        on_spark(AdditiveRanker(), files[:1])
        on_parts(AdditiveRanker(), files[:1])
        size = f"{shards} shards, {rounds} rounds"
        ways = {
            "one process": lambda model: taught_by_read(model, files),
            f"Spark, {size}": on_spark,
            f"Spark over the files, {size}": on_parts,
        }
        for _ in range(turns):
            for who, learn in ways.items():
                model, before, start = AdditiveRanker(), spent.seconds(), time.perf_counter()
                sent = learn(model)
                used, wall = spent.seconds() - before, time.perf_counter() - start
                found.setdefault(who, []).append([used, wall, sent, *each_ndcg(model, test)])
                print(f"{who}: {used:.1f} processor s, {wall:.0f} s, NDCG@10 {np.mean(found[who][-1][3:]):.4f}", flush=True)
    rows, alone = [], np.median(found["one process"], axis=0)
    for who, figures in found.items():
        middle = np.median(figures, axis=0)
        less = with_error((middle[3:] - alone[3:]).tolist()) if who != "one process" else ""
        sums = [f"{middle[0]:.1f}", f"{middle[0] / alone[0]:.2f}", f"{middle[1]:.0f}", f"{middle[2] / 1e6:.0f}"]
        rows.append([who, *sums, f"{middle[3:].mean():.4f}", less])
    return rows


def taught_by_read(model: Any, files: Sequence[str], most: int | None = None) -> float:
    for X, y in itertools.islice(read(files, query="query", grade="grade"), most):
        model.learn_one(X, y)
    return 0.0


def each_ndcg(model: Any, queries: Sequence[Query]) -> list[float]:
    """NDCG@10 of each query in which it is defined."""
    found = []
    for x, y in queries:
        if (y != y[0]).any():
            measured: Any = metric("ndcg@10")
            measured.update(y, model.predict_one(x))
            found.append(measured.get())
    return found


@contextlib.contextmanager
def local_spark() -> Iterator[Any]:
    """Spark on this machine, with two cores, after its start and one job."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "4g"}
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    spark.range(1000).repartition(4).mapInArrow(lambda batches: batches, "id long").collect()
    try:
        yield spark
    finally:
        spark.stop()


def picture(found: dict[tuple[int, int], np.ndarray]) -> str:
    """By the number of shards: NDCG@10 minus NDCG@10 of one process, a line a period; loss, mass and bound of one period."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (served, lost) = plt.subplots(1, 2, figsize=(9.6, 3.8), layout="constrained")
    several = [K for K in SHARDS if K > 1]
    for n, period in enumerate(PERIODS):
        less = np.array([found[K, period][:, 0] - found[1, 0][:, 0] for K in several])
        error = less.std(axis=1, ddof=1) / math.sqrt(less.shape[1])
        # Side by side, so that no error bar hides another.
        places = np.array(several) * 1.1 ** (n - 1)
        served.errorbar(places, less.mean(axis=1), error, marker="o", markersize=4, linewidth=1, label=f"{period} queries")
    served.axhline(0.0, color="black", linewidth=1)
    served.set_ylabel("NDCG@10 minus NDCG@10 of one process")
    served.legend(frameon=False, title="each between mixings", loc="upper left")
    served.margins(y=0.25)
    period = PERIODS[1]
    sums = np.array([found[K, period if K > 1 else 0][:, 1:].mean(axis=0) for K in SHARDS])
    for name, values, style in zip(("loss", "mass", "bound"), sums.T, ("-", "-", "--"), strict=True):
        lost.plot(SHARDS, values, style, marker="o", markersize=4, linewidth=1, label=name)
    lost.set_ylim(0.0)
    lost.set_ylabel(f"sum over the stream, {period} queries each")
    lost.legend(frameon=False, loc="upper left")
    for ax, shards in ((served, several), (lost, SHARDS)):
        ax.set_xscale("log")
        ax.set_xticks(shards, [str(K) for K in shards])
        ax.minorticks_off()
        ax.set_xlabel("shards")
    figure.savefig(RESULTS / "distributed.png", dpi=150)
    plt.close(figure)
    return "![NDCG@10, and loss, mass and bound, against the number of shards](distributed.png)"


def main(arguments: Any = None) -> None:
    options = parser(__doc__)
    options.add_argument("--only", default="quality,real,cost")
    options.add_argument("--seeds", type=int, default=5, help="streams, or orders of each fold")
    options.add_argument("--files", type=int, default=20)
    options.add_argument("--queries", type=int, default=5_000, help="in each file")
    options.add_argument("--shards", type=int, default=4)
    options.add_argument("--rounds", type=int, default=4)
    options.add_argument("--turns", type=int, default=1)
    options.add_argument("--truth", default="additive", help="linear, additive or forest")
    given = options.parse_args(arguments)
    for part in given.only.split(","):
        if part == "quality":
            found = synthetic(given.seeds)
            header = ["shards", "queries each between mixings", "NDCG@10", "less one process", "loss", "mass", "bound"]
            text = (
                f"# Mixing on synthetic streams\n\n{_STREAM:,} queries of {_DOCUMENTS} documents x {_FEATURES} features "
                f"(`NoisyTeacher`), {given.seeds} seeds, `PerceptronRanker()`; NDCG@10 of the weights that serve on "
                f"{_HELD_OUT:,} further queries, ± standard error; differences are paired. Loss and mass are sums over all "
                "queries of all shards. The mass of a query is the square root of its loss, so it is never less than the loss. "
                "The bound holds for both: `mixing_data_bound`, for one process `mass_data_bound`, against the teacher with "
                "norm 1."
            )
            save("distributed", "\n\n".join([text, table(header, synthetic_rows(found)), picture(found)]))
        elif part == "real":
            text = (
                f"# Mixing on MQ2008\n\nFive folds, {given.seeds} orders of each; `StreamScaler() | PerceptronRanker()`, "
                "shards mixed after every 64 queries of each, or at the end of a pass where a shard has fewer (471 queries: 29 "
                "for each of 16). NDCG@10 on the test parts of the weights that "
                "serve. Differences are paired, ± standard error over folds, then over orders, which shows what "
                "another order of the same folds would change."
            )
            header = ["passes", "shards", "NDCG@10", "less one process", "± over orders"]
            save("distributed_mq2008", "\n\n".join([text, table(header, real_rows(real(given.seeds)))]))
        elif part == "cost":
            text = (
                f"# Spark and one process\n\n{given.files * given.queries:,} queries of 8 to 30 documents x 46 features "
                f"(`WebLike`, {given.truth} truth, grades in the shares of MQ2008) in {given.files} parquet files; "
                f"`AdditiveRanker()`; medians of {given.turns} turn(s) on {len(os.sched_getaffinity(0))} cores. Processor "
                "seconds are of all processes: driver, JVM and Python workers; the start of Spark, and learning the first file "
                "once before, are not counted. NDCG@10 on 3,000 held-out queries; the difference is paired, ± standard error."
            )
            header = ["who", "processor s", "of one process", "wall s", "MB of models sent", "NDCG@10", "less one process"]
            rows = cost(given.truth, given.files, given.queries, given.shards, given.rounds, given.turns)
            save("distributed_cost", "\n\n".join([text, table(header, rows)]))
        else:
            raise SystemExit(f"--only {part}: there are quality, real and cost")


if __name__ == "__main__":
    main()
