"""What do several learners of one stream lose against one, in quality and in time?

    python -m benchmarks.learners [--only quality,real,cost] [--keep FILE] [--models curves,default] [--streams linear,forest]

quality  K learners, each of which learns every K-th query of a stream, and whose models are mixed after every n queries of the
         stream: NDCG@10 of what is served, by the last mix, less NDCG@10 of one learner whose model is served as late. One
         process learns for all in turn, which gives the same model.
real     Two processes that learn one stream by `Learner` and a folder, without kills and with: NDCG@10 on held-out queries
         and processor time, compared with one process that learns all in one loop.
cost     What learning, ranking and exchanging take, by model: from which rate of queries another learner pays.

No setting was chosen on these streams.
"""

import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._additive_streams import Query, _drifting, _web
from benchmarks._common import parser, save, table
from benchmarks._kept import Kept, add_keep
from benchmarks._learners import in_one_process, in_processes, times_of
from online_rank import AdditiveRanker, PerceptronRanker, StreamScaler
from online_rank.distributed import fork, from_bytes, mix, to_bytes
from online_rank.distributed.learners import Learner, exchange_at
from online_rank.metrics import NDCG

STREAMS: dict[str, Callable[[int], list[Query]]] = {
    "linear": _web(1200, "linear"),
    "additive": _web(1200, "additive"),
    "forest": _web(1200, "forest"),
    "three sudden turns": _drifting((300, 600, 900), 0),
    "gradual drift": _drifting((300,), 600),
}
MODELS: dict[str, Callable[[], Any]] = {
    "curves": lambda: AdditiveRanker(trees=0),
    "default": AdditiveRanker,
    "perceptron": lambda: StreamScaler() | PerceptronRanker(),
}
LEARNERS = (2, 4, 8)
PERIODS = (64, 256)
#: Queries that are learned and held out in processes, seconds between exchanges, and between queries of a learner.
_LEARNED, _HELD_OUT, _SECONDS, _PAUSE, _KILLS = 6000, 600, 10.0, 0.005, 6
#: Queries before an exchange is timed: the window of trees is full.
_BEFORE = 1000


def served(make: Callable[[], Any], queries: Sequence[Query], K: int, period: int) -> list[float]:
    """NDCG@10 of each query, ranked by the last mix; with period 1 by a model that learned all queries before."""
    model, found = make(), []
    for first in range(0, len(queries), period):
        chunk = queries[first : first + period]
        shards = [fork(model, number=k) for k in range(min(K, len(chunk)))] if period > 1 else [model]
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


def simulated(kept: Kept, model: str, name: str, K: int, period: int, seed: int) -> float:
    """Mean NDCG@10 of the second half of a stream."""

    def measure() -> float:
        values = served(MODELS[model], STREAMS[name](seed), K, period)
        print(model, name, K, period, seed, f"{np.nanmean(values[len(values) // 2 :]):.4f}", flush=True)
        return float(np.nanmean(values[len(values) // 2 :]))

    return kept.part(f"{model}/{name}/{K}/{period}/{seed}", measure)


def quality(kept: Kept, model: str, streams: Sequence[str], n_seeds: int) -> list[list[str]]:
    """Rows (stream, period, NDCG@10 of one learner at once, of one served as late, less it of K learners)."""
    rows = []
    for name, period in product(streams, PERIODS):
        values = {
            (K, n): np.array([simulated(kept, model, name, K, n, seed) for seed in range(n_seeds)])
            for K, n in ((1, 1), *((K, period) for K in (1, *LEARNERS)))
        }
        late = values[1, period]
        less = [with_error(values[K, period] - late) for K in LEARNERS]
        rows.append([name, str(period), f"{values[1, 1].mean():.4f}", f"{late.mean():.4f}", *less])
    return rows


def with_error(values: Any) -> str:
    """Mean and standard error; of one value the value."""
    if len(values) == 1:
        return f"{values[0]:+.4f}"
    return f"{np.mean(values):+.4f} ± {statistics.stdev(values) / len(values) ** 0.5:.4f}"


def real(kept: Kept, models: Sequence[str], streams: Sequence[str], n_seeds: int) -> list[list[str]]:
    """Rows (model, stream, NDCG@10 of one process, less it of two, of two that are killed, processor times, kills, queries,
    queries learned again).
    """
    rows = []
    for model, name in product(models, streams):
        parts = {seed: f"real/{model}/{name}/{seed}" for seed in range(n_seeds)}
        found = np.array([kept.part(part, partial(pair, model, name, seed)) for seed, part in parts.items()])
        one, two, killed, ratio, exchanged, kills, learned, each, again = found.T
        less = with_error(two - one), with_error(killed - one)
        counts = f"{kills.sum():.0f}", f"{learned.sum():,.0f} of {len(found) * _LEARNED:,}", f"{again.sum():,.0f}"
        rows.append(
            [
                model,
                name,
                f"{one.mean():.4f}",
                *less,
                *(f"{np.median(times):.2f}" for times in (exchanged, ratio, each)),
                *counts,
            ]
        )
    return rows


def pair(model: str, name: str, seed: int) -> list[float]:
    """NDCG@10 on held-out queries of one process, of two, and of two that are killed. Processor time of two, over one process
    and over two without exchanging. Kills, queries in the last mix, processor time with kills for each query that was learned,
    over one process, and how many were learned again.
    """
    make, queries = MODELS[model], _web(_LEARNED + _HELD_OUT, name)(seed)
    learned, test = queries[:_LEARNED], queries[_LEARNED:]
    begun = taught(make(), learned[:260])  # Kernels are loaded before anything is measured.
    mix([taught(fork(begun), learned[:3])] * 2, begun).predict_one(test[0][0])
    with tempfile.TemporaryDirectory() as folder:
        alone, used = in_one_process(Path(folder) / "one.npz", make, learned, _PAUSE)
        two, _, seconds, _ = in_processes(Path(folder) / "a", make, learned, 2, seconds=_SECONDS, pause=_PAUSE)
        both, exchanging = times_of(Path(folder) / "a", 2)
        killed, kills, more, acts = in_processes(
            Path(folder) / "b", make, learned, 2, seconds=_SECONDS, pause=_PAUSE, n_kills=_KILLS, seed=seed
        )
    values = [float(np.nanmean([ndcg(each, X, y) for X, y in test])) for each in (alone, two.model, killed.model)]
    again = float(acts - _LEARNED)
    found = [*values, seconds / used, both / (both - exchanging), float(kills), float(killed.n_queries)]
    found += [more / used * _LEARNED / acts, again]
    print(model, name, seed, *(f"{value:.4f}" for value in found), two.round, killed.round, flush=True)
    return found


def cost(model: Any, queries: Sequence[Query]) -> list[float]:
    """Least milliseconds to learn and to rank a query, and of a learner to exchange with 1, 3 and 7 others; the model's MB."""
    base, further = taught(model, queries[:_BEFORE]), queries[_BEFORE:]
    content = to_bytes(base)
    copies = iter([from_bytes(content) for _ in range(4)])

    def learn() -> None:
        taught(next(copies), further[:50])

    learned = least(learn, 4) / 50, least(lambda: [base.predict_one(X) for X, _ in further[:50]], 5) / 50
    return [*learned, *(min(exchanged(base, further, K) for _ in range(3)) / K for K in LEARNERS), len(content) / 1e6]


def exchanged(base: Any, queries: Sequence[Query], K: int) -> float:
    """Milliseconds of processor time that K learners, in threads, take to exchange models; each has learned 20 queries."""
    with tempfile.TemporaryDirectory() as place:
        learners = [Learner(exchange_at(place), base, number=k, of=K, seconds=1e9) for k in range(K)]
        for place_of, (X, y) in enumerate(queries[: 20 * K]):
            learners[place_of % K].learn(X, y, partition=place_of % K, offset=place_of)
        threads = [threading.Thread(target=each.exchange) for each in learners]

        def exchange() -> None:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        return least(exchange, 1)


def least(act: Callable[[], Any], times: int) -> float:
    """Milliseconds of processor time, the least of several."""
    found = []
    for _ in range(times):
        begun = time.process_time()
        act()
        found.append(1e3 * (time.process_time() - begun))
    return min(found)


def cost_rows(kept: Kept, models: Sequence[str]) -> list[list[str]]:
    """Rows (model, MB, learn, rank, exchange with 2, 4 and 8 learners, queries between exchanges for a tenth)."""
    rows = []
    for model in models:
        found = kept.part(f"cost/{model}", lambda m=model: cost(MODELS[m](), STREAMS["additive"](0)))
        learn, rank, *each, size = found
        figures = f"{size:.2f}", f"{learn:.2f}", f"{rank:.2f}", *(f"{ms:.0f}" for ms in each), f"{10.0 * each[0] / learn:,.0f}"
        rows.append([model, *figures])
    return rows


def taught(model: Any, queries: Sequence[Query], pause: float = 0.0) -> Any:
    for X, y in queries:
        model.learn_one(X, y)
        time.sleep(pause)
    return model


def _save(text: str, rows: str) -> None:
    """Write a section of the page."""
    save("learners", f"# Several learners of one stream\n\n{text}\n\n{rows}", part=True)


def main(arguments: Any = None) -> None:
    options = parser(__doc__)
    options.add_argument("--only", default="quality,real,cost")
    options.add_argument("--seeds", type=int, default=2)
    options.add_argument("--models", default="curves,default")
    options.add_argument("--streams", default=",".join(STREAMS))
    add_keep(options)
    given = options.parse_args(arguments)
    kept, models, streams = Kept(given.keep), given.models.split(","), given.streams.split(",")
    for model in models if "quality" in given.only else ():
        header = ["stream", "queries between mixes", "one learner, at once", "one, served as late",
                  *(f"{K} learners, less the latter" for K in LEARNERS)]  # fmt: skip
        text = (
            f"## Several learners of one stream, simulated: {model}\n\n"
            f"1,200 queries, seeds from 0 to {given.seeds - 1}; NDCG@10 of the second half, by what is served. Differences are "
            "paired, ± standard error over seeds. Curves: `AdditiveRanker(trees=0)`. One learner that is served as late has "
            "learned all queries before the last mix; what it is below one that is served at once is what staleness costs."
        )
        _save(text, table(header, quality(kept, model, streams, given.seeds)))
    if "real" in given.only:
        header = ["model", "stream", "NDCG@10 of one process", "of two, less one", "of two that are killed, less one",
                  "processor time, without exchanging 1", "of one", "with kills", "kills", "learned with kills",
                  "learned again"]  # fmt: skip
        text = (
            "## Two learners in processes\n\n"
            f"{_LEARNED:,} queries, of which each learner learns its half, {1 / _PAUSE:.0f} a second at most; models are "
            f"exchanged every {_SECONDS:.0f} seconds in a folder. NDCG@10 on {_HELD_OUT} further queries by the last mix, "
            f"seeds from 0 to {given.seeds - 1}. Processor time of both: over their time without exchanging, and over one "
            "process that learns all at the same pace; with kills for each query, also for one that is learned again. SIGKILL "
            f"ends a process up to {_KILLS} times a run, at random instants, and the process is started again."
        )
        rows = real(kept, models, [name for name in streams if name in ("linear", "additive", "forest")], given.seeds)
        _save(text, table(header, rows))
    if "cost" in given.only:
        header = ["model", "MB", "learn", "rank", *(f"exchange, {K} learners" for K in LEARNERS), "queries for a tenth"]
        text = (
            "## What an exchange takes\n\n"
            "Milliseconds of processor time, the least of several; queries of 40 to 80 documents with 136 features, after "
            f"{_BEFORE:,} of them. An exchange is what one learner takes in a round, with a folder: to put its model, to take "
            "the mix and fork it, and its share of reading all models, mixing them, and putting the mix. The last column is "
            "how many queries a learner has to learn between two exchanges so that exchanging takes a tenth of learning, with "
            "two learners."
        )
        _save(text, table(header, cost_rows(kept, [*models, "perceptron"])))


if __name__ == "__main__":
    main()
