"""What a folder holds after power was lost: states of a simulated file system, and faults with and without restarts between.

A service runs with the library of `tests.campaigns.faults`, which writes down what reaches its files. From that, what a disk
may hold when power is lost at any instant is made up:

- what was synced is there, names too;
- *ordered*: of the rest, all up to some call, the last write torn at any sector;
- *posix*: of the rest, any sectors of any writes, in any order, and any names;
- after a sync that failed, what it was to write is in the system's cache, and will never be on the disk unless it is written
  again: later syncs succeed without it.
"""

import concurrent.futures
import ctypes
import itertools
import multiprocessing
import os
import random
import shutil
import struct
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from benchmarks._common import in_memory
from online_rank import PerceptronRanker, StreamScaler
from online_rank.serving.durable import DurableService
from online_rank.serving.protocol import RankingService
from online_rank.storage.files import to_bytes
from tests.campaigns.faults import BROKEN, SYNC
from tests.campaigns.found import Found
from tests.campaigns.kills import learned_in, requests

_SECTOR = 512
_HEAD = struct.Struct("4q")

#: Seconds that pass from one look at the clock to the next.
_TICK = 0.05

#: Kinds of faults (`fault_arm`).
KINDS = {"no room": 0, "short write": 1, "broken": BROKEN, "failed sync": SYNC}


class Step(NamedTuple):
    """A call that reached the disk: C(reate), W(rite), S(ync), F(ailed sync), T(runcate), U(nlink); or an A(cknowledgement)."""

    kind: str
    path: str
    offset: int
    data: bytes


class File:
    """A file: what is on the disk, and what is not yet."""

    def __init__(self) -> None:
        self.durable = bytearray()
        self.pending: list[tuple[int, Step]] = []


class Disk:
    """A file system after some calls."""

    def __init__(self) -> None:
        self.names: dict[str, File] = {}
        self.durable_names: dict[str, File] = {}
        self.pending_names: list[tuple[int, str, File | None]] = []
        self.acknowledged: set[int] = set()

    def take(self, number: int, step: Step) -> None:
        """Continue by one call."""
        if step.kind == "A":
            self.acknowledged.add(step.offset)
        elif step.kind == "U":
            self.names.pop(step.path, None)
            self.pending_names.append((number, step.path, None))
        elif step.kind in "SF" and not step.path:
            self._sync_names(step)
        else:
            file = self.names.get(step.path)
            if file is None:
                file = self.names[step.path] = File()
                self.pending_names.append((number, step.path, file))
            if step.kind in "WT":
                file.pending.append((number, step))
            else:
                if step.kind == "S":
                    for _, each in file.pending:
                        apply(file.durable, each)
                file.pending.clear()

    def _sync_names(self, step: Step) -> None:
        if step.kind == "S":
            for _, path, file in self.pending_names:
                rename(self.durable_names, path, file)
            self.pending_names.clear()

    def after_power_loss(self, rng: random.Random, ordered: bool) -> dict[str, bytes]:
        """What the files may hold after power is lost now."""
        return self._ordered(rng) if ordered else self._posix(rng)

    def _ordered(self, rng: random.Random) -> dict[str, bytes]:
        files = {*self.names.values(), *self.durable_names.values()}
        numbers = sorted({n for file in files for n, _ in file.pending} | {n for n, *_ in self.pending_names})
        last = rng.choice([*numbers, -1]) if numbers else -1
        names = dict(self.durable_names)
        for number, path, file in self.pending_names:
            if number <= last:
                rename(names, path, file)
        found = {}
        for path, file in names.items():
            content = bytearray(file.durable)
            for number, step in file.pending:
                if number < last:
                    apply(content, step)
                elif number == last:
                    cut = rng.randrange(0, len(step.data) // _SECTOR + 1) * _SECTOR if rng.random() < 0.5 else len(step.data)
                    apply(content, step._replace(data=step.data[:cut]))
            found[path] = bytes(content)
        return found

    def _posix(self, rng: random.Random) -> dict[str, bytes]:
        kept = rng.choice([0.0, 0.1, 0.5, 0.9, 1.0])
        names = dict(self.durable_names)
        for _, path, file in self.pending_names:
            if rng.random() < kept:
                rename(names, path, file)
        found = {}
        for path, file in names.items():
            content = bytearray(file.durable)
            for _, step in rng.sample(file.pending, len(file.pending)) if rng.random() < 0.3 else file.pending:
                if step.kind == "T":
                    if rng.random() < kept:
                        apply(content, step)
                    continue
                for at in range(0, len(step.data), _SECTOR):
                    if rng.random() < kept:
                        apply(content, step._replace(offset=step.offset + at, data=step.data[at : at + _SECTOR]))
            found[path] = bytes(content)
        return found


def apply(content: bytearray, step: Step) -> None:
    if step.kind == "T":
        del content[step.offset :]
        content.extend(bytes(step.offset - len(content)))
    elif step.data:
        content.extend(bytes(max(0, step.offset - len(content))))
        content[step.offset : step.offset + len(step.data)] = step.data


def rename(names: dict[str, File], path: str, file: File | None) -> None:
    if file is None:
        names.pop(path, None)
    else:
        names[path] = file


class Lives:
    """Services that live one after another in a folder, and what they did there."""

    def __init__(self, place: Path, lines: Sequence[bytes], every: int) -> None:
        self.folder = place / "state"
        self.folder.mkdir(mode=0o700)
        self._written = place / "calls"
        self._lines, self._every = [*lines], every
        self._library = ctypes.CDLL(os.environ["ONLINE_RANK_FAULTS"])
        self.acknowledged: set[int] = set()
        #: How many calls the last life made that may fail.
        self.calls = 0

    def live(self, fault: int = 2**40, kind: int = 0, left: int = 0) -> bool:
        """One life, in which a call may fail; whether it answered all that was to be answered but `left` requests."""
        calls = os.open(self._written, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._library.fault_record(calls, str(self.folder).encode())
        self._library.fault_arm(ctypes.c_long(fault), kind)
        durable = None
        # The same calls in each life: what is done once a second must not depend on how long the rest takes.
        ticks = itertools.count()
        clock = mock.patch.object(time, "monotonic", side_effect=lambda: _TICK * next(ticks))
        clock.start()
        try:
            durable = serving(self.folder, self._every)
            while len(self._lines) > left:
                line = self._lines[0]
                reply = durable.service.handle(line)
                durable.append([reply.outcome], sync=reply.learned)
                if reply.learned:
                    number = reply.answer["id"]
                    self._library.fault_acknowledged(ctypes.c_long(number))
                    self.acknowledged.add(number)
                del self._lines[0]
                durable.between_commits()
        except (OSError, ValueError, MemoryError):
            return False
        finally:
            clock.stop()
            self.calls = self._library.fault_count()
            self._library.fault_arm(ctypes.c_long(0), 0)
            if durable is not None:
                durable.store._give_up()  # type: ignore[union-attr]
            self._library.fault_record(-1, None)
            os.close(calls)
        return True

    def steps(self) -> list[Step]:
        """All that was written down."""
        content = self._written.read_bytes()
        at, found = 0, []
        while at < len(content):
            kind, offset, length, n = _HEAD.unpack_from(content, at)
            at += _HEAD.size
            path = content[at : at + length].decode()
            found.append(Step(chr(kind), path.removeprefix(str(self.folder)), offset, content[at + length : at + length + n]))
            at += length + n
        return [step for step in found if step.path not in ("/owner", "/state.db-shm")]


def serving(folder: Path, every: int) -> DurableService:
    return DurableService(RankingService(StreamScaler() | PerceptronRanker("ndcg@10")), folder, every)


def models(lines: Iterable[bytes]) -> list[bytes]:
    """The model after each grade."""
    service = RankingService(StreamScaler() | PerceptronRanker("ndcg@10"))
    found = [to_bytes(service.model)]
    for line in lines:
        if service.handle(line).learned:
            found.append(to_bytes(service.model))
    return found


def looked_at(place: Path, files: dict[str, bytes], acknowledged: set[int], expected: list[bytes]) -> Found:
    """Start a service on files that a disk may hold."""
    found = Found(states=1, acknowledged_before=len(acknowledged))
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, content in files.items():
        (place / name.removeprefix("/")).write_bytes(content)
    try:
        durable = serving(place, 1000)
    except (OSError, ValueError):
        found.expect(False, "the service refuses to start")
        return found
    try:
        learned = learned_in(place)
        found.expect(acknowledged <= learned, f"{len(acknowledged - learned)} acknowledged are lost")
        found.expect(to_bytes(durable.service.model) == expected[len(learned)], "another model")
        return found
    finally:
        durable.close()


def crashes(n_states: int, seed: int = 0, n_queries: int = 40) -> Found:
    """States after power was lost at instants of lives of a service, half of them ordered, half posix."""
    rng, found = random.Random(seed), Found()
    while found.counts["states"] < n_states:
        lines = requests(n_queries, rng.randrange(1 << 30))
        with in_memory() as place:
            lives = Lives(place, lines, rng.choice([5, 11, 40]))
            assert lives.live()
            steps, expected = lives.steps(), models(lines)
            wanted = sorted(rng.randrange(len(steps) + 1) for _ in range(min(500, n_states - found.counts["states"])))
            disk, done = Disk(), 0
            for instant in wanted:
                while done < instant:
                    disk.take(done, steps[done])
                    done += 1
                files = disk.after_power_loss(rng, ordered=rng.random() < 0.5)
                found.add(looked_at(place / "copy", files, disk.acknowledged, expected), f"instant {instant} of seed {seed}")
    return found


def points(n: int, seed: int = 0, **settings: Any) -> Found:
    """As `_points`, in a separate process: services that gave up leave their files open, and the library sees 1,024."""
    fork = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=fork) as one:
        return one.submit(_points, n, seed, **settings).result()


def _points(n: int, seed: int, n_queries: int = 40, kinds: Iterable[str] = KINDS) -> Found:
    """`n` faults of a run, one at a time; then the service is started again, and power is lost at the end.

    What is lost is looked for in the folder as the processes left it, and in what the disk holds of it after power was lost: at
    once after the fault, and at some instant of the life that follows.
    """
    rng = random.Random(seed)
    lines, found = requests(n_queries, seed), Found()
    expected = models(lines)
    every = [(call, KINDS[name]) for name in kinds for call in range(1, _calls(lines, KINDS[name]) + 1)]
    rng.shuffle(every)
    for call, kind in every[:n]:
        with in_memory() as place:
            lives = Lives(place, lines, 8)
            lives.live(left=len(lines) - len(lines) // 3)
            stopped = not lives.live(call, kind)
            before = len(lives.steps())
            ended = lives.live() or lives.live()
            steps, disk = lives.steps(), Disk()
            name = f"call {call} of kind {kind}, seed {seed}"
            found.count(faults=1, stopped=stopped)
            found.expect(ended, f"{name}: the service does not start again")
            # Most while the next life begins: it reads what may never have reached the disk.
            instants = [before, len(steps), *(min(before + rng.randrange(30), len(steps)) for _ in range(4))]
            for at in range(len(steps) + 1):
                for _ in range(instants.count(at)):
                    files = disk.after_power_loss(rng, ordered=rng.random() < 0.5)
                    found.add(looked_at(place / "copy", files, disk.acknowledged, expected), name)
                if at < len(steps):
                    disk.take(at, steps[at])
            live = {path.name: path.read_bytes() for path in lives.folder.iterdir() if not path.name.endswith("-shm")}
            found.add(looked_at(place / "copy", live, lives.acknowledged, expected), name)
    return found


def _calls(lines: Sequence[bytes], kind: int) -> int:
    """How many calls of a run may fail in this way."""
    with in_memory() as place:
        whole = Lives(place, lines, 8)
        whole.live(left=len(lines) - len(lines) // 3)
        whole.live(kind=kind)
        if not whole.calls:
            raise RuntimeError("no call of the service was seen: are more than 1,024 files open?")
        return whole.calls
