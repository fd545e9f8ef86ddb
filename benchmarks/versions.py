"""Is this version faster than an earlier one? Both take turns; processor time, medians of the ratios within a turn.

    python -m benchmarks.versions FOLDER [--only train,progressive,rows] [--rounds 7]

FOLDER is a checkout of the earlier version: `git worktree add --detach FOLDER 3a8f3e3`. Each version runs in separate
processes, which have compiled all that they need before anything is timed.

- train: `online-rank train` of 4,000 queries of 20 documents with 46 features from LETOR text: the whole command, and of that
  reading, ranking, measuring and learning.
- progressive: `evaluate.progressive` of 4,000 such queries, with two metrics, a pipeline, and a detector of drift. Values and
  weights must equal the ones of one query at a time, to the bit.
- rows: `learn_many` and `learn_one` as in `benchmarks.throughput`, on synthetic queries of two shapes.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from benchmarks._common import ROOT, parser, save, table
from benchmarks._contestants import CONTESTANTS
from benchmarks._kept import commit
from online_rank.query import query_offsets
from online_rank.stream import write_letor
from online_rank.stream.synth import NoisyTeacher

WORKER = Path(__file__).with_name("_versions_worker.py")


class Pair(NamedTuple):
    """Seconds of both versions, turn by turn."""

    before: list[float]
    now: list[float]

    @property
    def ratio(self) -> float:
        """How many times the time of the earlier version this one takes."""
        return statistics.median(b / a for a, b in zip(self.before, self.now, strict=True))

    def in_ms(self) -> list[str]:
        return [f"{1e3 * statistics.median(seconds):,.1f}" for seconds in self]


class Worker:
    """A process with the code of a checkout.

    Parameters
    ----------
    root
        The checkout.
    """

    def __init__(self, root: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(WORKER)],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def do(self, *task: str) -> dict[str, Any]:
        """What `_versions_worker.done` returns."""
        to, answers = self._process.stdin, self._process.stdout
        if to is None or answers is None:
            raise RuntimeError("the process has no pipes")
        print(json.dumps(task), file=to, flush=True)
        return json.loads(answers.readline())


def store(folder: Path, n_queries: int, m: int, d: int) -> None:
    """Queries as `benchmarks.throughput.load` reads them, and as LETOR text."""
    X, y, qid = NoisyTeacher(n_queries, n_features=d, n_documents=m, seed=0).block()
    X = X.round(6)
    np.savez(folder / "data.npz", X=X, y=y, offsets=query_offsets(qid, len(y)), n_queries=n_queries)
    write_letor(folder / "queries.txt", X, y, qid=qid)


def in_turns(rounds: int, before: Callable[[], float], now: Callable[[], float]) -> Pair:
    """Seconds of both, one number a turn, after a turn that does not count; who begins changes."""
    pair, calls = Pair([], []), (before, now)
    for turn in range(rounds + 1):
        for which in (0, 1) if turn % 2 else (1, 0):
            seconds = calls[which]()
            if turn:
                pair[which].append(seconds)
    return pair


def trained(root: Path, folder: Path) -> tuple[float, float]:
    """Seconds of the command `train`: processor time of all of it, and its own clock for reading and learning."""
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-m", "online_rank", "train", str(folder / "queries.txt"), "--json", "--quiet"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=root, env=environment, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = json.loads(done.stdout)["seconds"]
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, seconds["reading"] + seconds["learning"]


def show_train(given: Any, folder: Path) -> str:
    store(folder, 4000, 20, 46)
    loops = Pair([], [])

    def of(root: Path, loop: list[float]) -> Callable[[], float]:
        def run() -> float:
            whole, part = trained(root, folder)
            loop.append(part)
            return whole

        return run

    whole = in_turns(given.rounds, of(given.folder, loops.before), of(ROOT, loops.now))
    loop = Pair(loops.before[1:], loops.now[1:])
    rows = [
        [name, *pair.in_ms(), f"{1 / pair.ratio:.2f}", "3", "met" if 1 / pair.ratio >= 3 else "missed"]
        for name, pair in (("whole command, processor time", whole), ("reading, ranking, measuring, learning, clock", loop))
    ]
    return table(["", "before, ms", "now, ms", "times as fast", "at least", ""], rows)


def show_progressive(given: Any, folder: Path) -> str:
    store(folder, 4000, 20, 46)
    with Worker(given.folder) as old, Worker(ROOT) as new:
        digests = {new.do("progressive", str(folder), how)["digest"] for how in ("together", "one by one")}

        def seconds_of(worker: Worker) -> Callable[[], float]:
            return lambda: worker.do("progressive", str(folder), "together")["seconds"]

        pair = in_turns(given.rounds, seconds_of(old), seconds_of(new))
    times = 1 / pair.ratio
    same = "the same, to the bit, as one by one" if len(digests) == 1 else "**differ from one by one**"
    row = ["4,000 queries of 20 x 46", *pair.in_ms(), f"{times:.2f}", "5", "met" if times >= 5 else "missed"]
    return table(["", "before, ms", "now, ms", "times as fast", "at least", ""], [row]) + f"\n\nValues and weights: {same}."


def show_rows(given: Any, folder: Path) -> str:
    parts = []
    names = [one.name for one in CONTESTANTS if one.module.startswith("online_rank") and "learn" in one.name]
    with Worker(given.folder) as old, Worker(ROOT) as new:
        for m, d in ((120, 136), (20, 46)):
            place = folder / str(m)
            place.mkdir()
            store(place, 2000, m, d)

            def seconds_of(worker: Worker, name: str, place: Path = place) -> Callable[[], float]:
                return lambda: worker.do("learn", str(place), name)["seconds"]

            rows = []
            for name in names:
                pair = in_turns(given.rounds, seconds_of(old, name), seconds_of(new, name))
                most = 1.0 if "learn_one" in name else 1.08
                verdict = "met" if pair.ratio <= most else "missed"
                rows.append([name, *pair.in_ms(), f"{pair.ratio:.2f}", f"{most:g}", verdict])
            shown = table(["", "before, ms", "now, ms", "ratio of times", "at most", ""], rows)
            parts.append(f"2,000 queries of {m} x {d}:\n\n{shown}")
    return "\n\n".join(parts)


PARTS: dict[str, Callable[[Any, Path], str]] = {"train": show_train, "progressive": show_progressive, "rows": show_rows}


def main(arguments: Any = None) -> None:
    options = parser(__doc__)
    options.add_argument("folder", type=Path, metavar="FOLDER")
    options.add_argument("--only", default=",".join(PARTS))
    options.add_argument("--rounds", type=int, default=7)
    given = options.parse_args(arguments)
    if unknown := [part for part in given.only.split(",") if part not in PARTS]:
        raise SystemExit(f"--only {unknown[0]}: there are {', '.join(PARTS)}")
    given.folder = given.folder.resolve()
    parts = []
    for part in given.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            shown = PARTS[part](given, Path(folder))
        load = os.getloadavg()[0]
        note = f"Commit {commit()} compared with {commit(given.folder)}, {given.rounds} turns; load of the machine {load:.1f}."
        parts.append(f"## {part}\n\n{shown}\n\n{note}")
    save("versions", "\n\n".join(["# This version compared with an earlier one", *parts]), part=True)


if __name__ == "__main__":
    main()
