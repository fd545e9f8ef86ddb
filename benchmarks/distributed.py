"""What does learning on several machines cost, in quality and in time?

    python -m benchmarks.distributed [--only quality,real,cost]

quality  K shards that are mixed after every 16, 64 or 256 queries of each: NDCG@10 of what is then served, cumulative loss and
         its bound, on synthetic streams. Shards are learned one after the other here: their number is all that matters.
real     The same on the folds of MQ2008, compared with one process.
cost     Processor and wall seconds of Dask with one and two workers and of a plain loop over the same files, bytes on the wire.

Each part writes its file. No setting was chosen on any of these data.
"""

import hashlib
import math
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._common import RESULTS, parser, save, table
from benchmarks._data import MQ2008, folds, known_folders
from online_rank import LossTracker, PerceptronRanker, StreamScaler, read
from online_rank.distributed import fork, learn_shard, mix, to_bytes
from online_rank.metrics import metric
from online_rank.query import query_offsets
from online_rank.stream import write_letor
from online_rank.stream.synth import NoisyTeacher

SHARDS = (1, 4, 16, 64, 256)
PERIODS = (16, 64, 256)
PASSES = (1, 5, 20)
_STREAM, _HELD_OUT = 16_384, 1_000
_FEATURES, _DOCUMENTS = 40, 20

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


def seconds(call: Callable[[], None]) -> tuple[float, float]:
    """Processor seconds, of ended child processes too, and wall seconds of a call."""

    def used() -> float:
        both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(usage.ru_utime + usage.ru_stime for usage in both)

    before, start = used(), time.perf_counter()
    call()
    return used() - before, time.perf_counter() - start


def digest(model: Any) -> str:
    return hashlib.sha256(to_bytes(model)).hexdigest()[:12]


def cost(n_files: int, n_queries: int, repeats: Sequence[int], turns: int) -> list[list[str]]:
    """Rows (MB read, who, processor s, of the plain loop, of it the client, wall s, MB sent, digest).

    The files are read `repeats` times, as if there were this many copies.
    """
    from online_rank.distributed.dask import local_client, train

    def model() -> Any:
        return StreamScaler() | PerceptronRanker()

    rows: dict[tuple[int, str], list[tuple[float, float, float, float]]] = {}
    digests: dict[tuple[int, str], str] = {}
    sent: dict[tuple[int, str], int] = {}
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{k}.txt" for k in range(n_files)]
        for k, file in enumerate(files):
            queries = list(NoisyTeacher(n_queries, n_features=136, n_documents=100, seed=k))
            X, y = (np.concatenate(part) for part in zip(*queries, strict=True))
            write_letor(file, np.round(X, 4), y, np.repeat(np.arange(n_queries) + k * n_queries, 100))
        size = sum(file.stat().st_size for file in files)

        def plain(repeat: int) -> None:
            alone = model()
            for X, y in read(files * repeat):
                alone.learn_one(X, y)
            digests[repeat, "plain loop"] = digest(alone)

        for turn in range(turns + 1):
            # The first turn is not counted, nor need it be long.
            for repeat in repeats if turn else repeats[:1]:
                used, wall = seconds(lambda repeat=repeat: plain(repeat))  # type: ignore[misc]
                measured = {"plain loop": (used, used, wall)}
                for n in (1, 2):
                    # Dask's memory of what its workers used ends with them: they are asked while they live.
                    with local_client(n) as client:
                        client.run(warm)
                        before = sum(client.run(own_seconds).values())
                        mixed = model()
                        mine, start = time.process_time(), time.perf_counter()
                        training = train(client, mixed, files * repeat, shards=n_files * repeat, measure=None)
                        wall = time.perf_counter() - start
                        mine = time.process_time() - mine
                        used = mine + sum(client.run(own_seconds).values()) - before
                    name = f"Dask, {n} worker{'s' * (n > 1)}"
                    measured[name] = used, mine, wall
                    digests[repeat, name], sent[repeat, name] = digest(mixed), training.bytes_sent
                for name, figures in measured.items():
                    if turn:
                        rows.setdefault((repeat, name), []).append((*figures, figures[0] / measured["plain loop"][0]))
    return [
        [
            f"{size * repeat / 1e6:,.0f}",
            name,
            f"{statistics.median(v[0] for v in values):.2f}",
            f"{statistics.median(v[3] for v in values):.3f}",
            f"{statistics.median(v[1] for v in values):.2f}" if (repeat, name) in sent else "",
            f"{statistics.median(v[2] for v in values):.2f}",
            f"{sent.get((repeat, name), 0) / 1e6:.2f}",
            digests[repeat, name],
        ]
        for (repeat, name), values in sorted(rows.items(), key=lambda row: row[0][0])
    ]


def warm() -> None:
    """Import what learning a shard needs, and load its kernels."""
    import io

    learn_shard(to_bytes(StreamScaler() | PerceptronRanker()), read(io.StringIO("1 qid:1 1:1 2:0\n0 qid:1 1:0 2:1\n")))


def own_seconds() -> float:
    """Processor seconds of this process."""
    return time.process_time()


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
    options.add_argument("--files", type=int, default=8)
    options.add_argument("--queries", type=int, default=500, help="in each file")
    options.add_argument("--repeats", default="1,8", help="how often the files are read, for each size of the job")
    options.add_argument("--turns", type=int, default=5)
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
                f"# Processor time on Dask\n\n{given.files} files of LETOR text, {given.queries} queries of 100 x 136 each, "
                f"read {given.repeats.replace(',', ' or ')} times; a shard for each file and time, one round; medians of "
                f"{given.turns} turns after one that is not counted, on {len(os.sched_getaffinity(0))} core(s). The plain loop "
                "reads all files with `read` and learns each query with `learn_one`. Workers have started, with the "
                "settings of `local_client`, and have imported what they need; client, scheduler and nannies are one process, "
                "and counted."
            )
            header = ["MB read", "who", "processor s", "of the plain loop", "client s", "wall s", "MB of models sent", "digest"]
            repeats = [int(repeat) for repeat in given.repeats.split(",")]
            save("distributed_cost", "\n\n".join([text, table(header, cost(given.files, given.queries, repeats, given.turns))]))
        else:
            raise SystemExit(f"--only {part}: there are quality, real and cost")


if __name__ == "__main__":
    main()
