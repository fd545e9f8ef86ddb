"""Years of one model behind a `History`: queries with categories, missing values, documents and names of features that come and
go, drift, and grades that come late.

Rounds continue one another: the model and the readings are kept in the folder that `LIFETIME` names, or in a new one. A round
is a hundredth of the life, and ends in a reading: memory, the largest of its files, and processor time over the time of a
fixed loop that runs in between, which cancels what a busy machine does to both. The loop is the beginning of the life, which a
new model lives once more: the same work in each round, of the same kind as what it is compared with. After a tenth of the life
all three must stay.
"""

import itertools
import json
import os
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks._timing import megabytes
from online_rank import AdditiveRanker, History, load, save
from online_rank.storage.files import to_bytes
from tests.campaigns.found import Found

#: Queries of a chunk of the stream, queries between two turns of the fixed loop and of one such turn, and queries that wait for
#: their grades.
_CHUNK, _TURN, _LOOP, _LATE = 1000, 100, 10, 50
_DOCUMENTS, _NUMBERS, _NAMES = 8, 6, 40
#: Most features of the ranker, and keys of the `History`: names come and go, so the least recently used leave.
_FEATURES, _KEYS = 160, 1000
#: Seconds between two queries, and documents that can be shown at a time; a chunk brings a tenth of them.
_BETWEEN, _LIVE = 60.0, 400
#: Shares by which memory and files, and time, may differ from their median after the first tenth.
_SIZES, _TIME = 0.02, 0.05
_SETTLED, _FEWEST = 0.1, 10


class Reading(NamedTuple):
    """After how many queries, and what the model takes then."""

    queries: int
    memory_mb: float
    file_kb: float
    loops: float


def queries_of(chunk: int, seed: int) -> Iterator[tuple[dict[str, dict[str, Any]], np.ndarray, float]]:
    """The queries of a chunk of the stream, by its number, each with its grades and its time."""
    rng = np.random.default_rng([seed, chunk])
    # The truth turns once in a hundred chunks; names are in use for about ten.
    turn = 2.0 * np.pi * chunk / 100.0
    teacher = np.cos(turn + np.arange(_NUMBERS))
    for t in range(chunk * _CHUNK, (chunk + 1) * _CHUNK):
        ids = rng.choice(_LIVE, _DOCUMENTS, replace=False) + _LIVE // 10 * chunk
        X = np.exp(rng.normal(size=(_DOCUMENTS, _NUMBERS)))
        kinds, names = rng.integers(0, 30, _DOCUMENTS), rng.integers(4 * chunk, 4 * chunk + _NAMES, _DOCUMENTS)
        truth = np.log(X) @ teacher + np.cos(turn + kinds) + np.sin(ids) + rng.normal(size=_DOCUMENTS)
        missing = rng.random((_DOCUMENTS, _NUMBERS)) < 0.1
        yield (
            {
                f"d{ids[i]}": {
                    **{f"n{j}": None if missing[i, j] else float(X[i, j]) for j in range(_NUMBERS)},
                    "kind": f"k{kinds[i]}",
                    "new": bool(names[i] % 2),
                    f"shelf {names[i]}": float(X[i, 0]),
                }
                for i in range(_DOCUMENTS)
            },
            np.digitize(truth, [0.0, 1.5]),
            _BETWEEN * t,
        )


def live(model: Any, first: int, n_chunks: int, seed: int) -> tuple[float, int]:
    """Let a model rank and learn some chunks; its processor time over the fixed loop's, and the size of the largest file.

    A file has a sample of the latest documents, which grows up to 96 of them and begins again, so its size comes and goes.
    """
    spent, loop, largest = 0.0, 0.0, 0
    waiting: deque[Any] = deque()
    young, young_waiting = made(), deque[Any]()
    beginning = itertools.chain.from_iterable(queries_of(chunk, seed) for chunk in itertools.count())
    for chunk in range(first, first + n_chunks):
        queries = queries_of(chunk, seed)
        for _ in range(_CHUNK // _TURN):
            spent += _lived(model, [*itertools.islice(queries, _TURN)], waiting)
            loop += _lived(young, [*itertools.islice(beginning, _LOOP)], young_waiting)
        spent += _graded(model, waiting, 0)
        largest = max(largest, len(to_bytes(model)))
    return spent / loop, largest


def _lived(model: Any, queries: list[Any], waiting: "deque[Any]") -> float:
    """Let a model rank queries, and learn those whose grades have come; the processor time of it."""
    spent = 0.0
    for x, y, at in queries:
        started = time.process_time()
        waiting.append((x, y, at, model.predict_one(x, at=at)))
        spent += time.process_time() - started + _graded(model, waiting, _LATE)
    return spent


def _graded(model: Any, waiting: "deque[Any]", n_left: int) -> float:
    """Let a model learn the queries that wait for their grades, except the last `n_left`; the processor time of it."""
    started = time.process_time()
    while len(waiting) > n_left:
        x, y, at, served = waiting.popleft()
        model.learn_one(x, y, at=at, served=served)
    return time.process_time() - started


def made() -> Any:
    """The model at the beginning of its life."""
    ranker = AdditiveRanker()
    ranker.max_features = _FEATURES
    return History(half_life="7d", max_keys=_KEYS) | ranker


def lifetime(number: int, n_queries: int = 100_000, seed: int = 0) -> Found:
    """A round of a life, by its number."""
    warnings.simplefilter("ignore")
    folder = Path(os.environ.setdefault("LIFETIME", tempfile.mkdtemp()))
    folder.mkdir(parents=True, exist_ok=True)
    file, kept = folder / "model.npz", folder / "readings.jsonl"
    readings = [Reading(*json.loads(line)) for line in kept.read_text().splitlines()] if kept.exists() else []
    if len(readings) > number:
        return Found()  # An earlier run has lived it.
    plt = _plotting()  # Before memory is read: its import takes 30 MB.
    model = load(file) if file.exists() else made()
    chunks = n_queries // _CHUNK
    loops, largest = live(model, number * chunks, chunks, seed)
    save(model, file)
    readings.append(Reading((number + 1) * n_queries, megabytes("VmRSS"), largest / 1000.0, loops))
    with kept.open("a") as written:
        written.write(json.dumps(readings[-1]) + "\n")
    _draw(plt, readings, folder / "lifetime.png")
    found = Found(queries=n_queries)
    look_at(readings, found)
    return found


def look_at(readings: list[Reading], found: Found) -> None:
    """Complain of the last reading if it is away from the median of all after the first tenth, of which there must be ten."""
    settled = readings[max(1, round(_SETTLED * len(readings))) :]
    for name, most in (("memory_mb", _SIZES), ("file_kb", _SIZES), ("loops", _TIME)) if len(settled) >= _FEWEST else ():
        values = np.array([getattr(reading, name) for reading in settled])
        usual = float(np.median(values))
        found.expect(
            abs(values[-1] / usual - 1.0) <= most,
            f"after {readings[-1].queries:,} queries {name} is {values[-1]:.4g}, over {most:.0%} from its median {usual:.4g}",
        )


def _plotting() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _draw(plt: Any, readings: list[Reading], path: Path) -> None:
    """Draw memory, file and time over the queries, each over its median."""
    figure, ax = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
    for name, label in (("memory_mb", "memory"), ("file_kb", "file"), ("loops", "processor time, over a fixed loop")):
        values = np.array([getattr(reading, name) for reading in readings])
        ax.plot([reading.queries for reading in readings], values / np.median(values), label=label, linewidth=1.2)
    ax.set_xlabel("queries")
    ax.set_ylabel("over its median")
    ax.set_ylim(0.9, 1.1)
    ax.legend(frameon=False)
    figure.savefig(path, dpi=120)
    plt.close(figure)
