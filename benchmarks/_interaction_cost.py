"""What the default of `benchmarks.interactions` costs: processor time in turns, size, and the first result without a cache."""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks._common import ROOT, table
from benchmarks._interaction_runs import BASE, DEFAULT, Runs
from benchmarks._other import OtherModel, root_of
from online_rank.storage.files import to_bytes

#: Documents, features, and the most that learning and ranking may cost, in costs of the learner before; None: only shown.
SHAPES = ((20, 8, None), (20, 46, (2.0, 1.5)), (120, 136, (2.0, 1.5)))
_TURN, _FIRST, _TAIL = 25, 300, 2.0
_MOST_MEGABYTES, _MOST_SECONDS = 12.0, 22.0

_FIRST_RESULT = """
import numpy as np
from online_rank import AdditiveRanker
rng, model = np.random.default_rng(0), AdditiveRanker()
for _ in range(30):
    X = rng.normal(size=(20, 10))
    model.learn_one(X, rng.integers(0, 4, 20))
    model.rank_one(X)
"""

Query = tuple[np.ndarray, np.ndarray]


def queries_of(m: int, d: int, n: int) -> list[Query]:
    """Queries whose grades follow a product and a sum, so that trees grow as they do on data."""
    rng = np.random.default_rng(0)
    drawn = (rng.normal(size=(m, d)) for _ in range(n))
    return [(X, np.digitize(X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.normal(size=m), (0.5, 1.0, 1.8))) for X in drawn]


def timed(model: OtherModel, queries: list[Query]) -> list[tuple[float, float]]:
    """Processor seconds of ranking and of learning, of each query."""
    found = []
    for X, y in queries:
        model.asked(X, y)
        found.append(model.last_seconds)
    return found


def in_turns(runs: Runs, queries: list[Query]) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of ranking and learning of each query (2, n), of the default and of the learner before, each in a process."""
    models, found = (runs.apart(DEFAULT), runs.apart(BASE)), ([], [])
    try:
        for first in range(0, len(queries), _TURN):
            for model, seconds in zip(models, found, strict=True):
                seconds += timed(model, queries[first : first + _TURN])
    finally:
        for model in models:
            model.close()
    own, before = (np.array(seconds).T for seconds in found)
    return own, before


def cost(runs: Runs, n_queries: int = 1300) -> str:
    """Ratios of all time, and the 99th percentile of learning in medians, after the first queries, whose sketches are small.

    The first query of a turn is left out of the percentile: the other process has filled the caches, which takes the time of a
    further query, and one in 25 is more than one in a hundred.
    """
    rows, continued = [], np.arange(_FIRST, n_queries) % _TURN > 0
    for m, d, most in SHAPES:
        own, before = (each[:, _FIRST:] for each in in_turns(runs, queries_of(m, d, n_queries)))
        rank, learn = own.sum(axis=1) / before.sum(axis=1)
        learning = own[1, continued], before[1, continued]
        tails = [float(np.quantile(each, 0.99) / np.median(each)) for each in learning]
        verdict = "" if most is None else "met" if learn <= most[0] and rank <= most[1] and tails[0] <= _TAIL else "missed"
        milliseconds = [f"{1e3 * float(np.mean(each)):.2f}" for each in (own[1], before[1], own[0], before[0])]
        bars = "shown" if most is None else f"{most[0]}, {most[1]}; {_TAIL}"
        rows.append(
            (f"{m} x {d}", *milliseconds, f"{learn:.2f}", f"{rank:.2f}", *(f"{each:.2f}" for each in tails), bars, verdict)
        )
    header = ("query", "learn, ms", "before", "rank, ms", "before", "learn, ratio of times", "rank, ratio of times")
    header += ("99th percentile, medians", "the same before", "at most", "")
    return table(header, rows)


def size(runs: Runs) -> str:
    """Size after 1,500 queries of 60 documents, and processor seconds of a first result without a cache."""
    model = runs.made(DEFAULT)
    for X, y in queries_of(60, 136, 1500):
        model.learn_one(X, y)
    rows = [_row("a saved model of 136 features, MB", len(to_bytes(model)) / 1e6, _MOST_MEGABYTES)]
    rows.append(_row("first result in a fresh clone, processor seconds", first_result(ROOT), _MOST_SECONDS))
    if runs.other is not None:
        rows.append(("the same before", f"{first_result(root_of(runs.other)):.1f}", "", ""))
    return table(("", "found", "at most", ""), rows)


def _row(name: str, found: float, most: float) -> tuple[str, ...]:
    return name, f"{found:.1f}", f"{most:.0f}", "met" if found <= most else "missed"


def first_result(root: Path) -> float:
    """Processor seconds of a process that learns and ranks 30 queries by a checkout, with no kernel compiled before."""
    with tempfile.TemporaryDirectory() as folder:
        empty = {"NUMBA_CACHE_DIR": f"{folder}/numba", "ONLINE_RANK_CACHE_DIR": f"{folder}/objects", "PYTHONPATH": str(root)}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", _FIRST_RESULT], cwd=folder, env=os.environ | empty, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


PARTS: dict[str, tuple[str, Callable[[Runs], str]]] = {
    "cost": ("Processor time over `AdditiveRanker()` before, in turns; percentiles without the first query of a turn", cost),
    "size": ("Size, and the first result without a cache", size),
}
