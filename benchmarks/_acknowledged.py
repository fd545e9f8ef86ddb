"""How many grades a second the HTTP service acknowledges, compared with an earlier version; and how long rankings take while
checkpoints are written.
"""

import asyncio
import contextlib
import itertools
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks._http import Client, Server, bodies, load, ranking

_ROUNDS = 5
#: Milliseconds that each sync is made to take longer: a fast disk, and slower ones.
_SLOWER = (0, 2, 4)
_CLIENTS = (1, 32)
#: Queries that wait while checkpoints are written, and ids that are known.
_WAITING, _LEARNED = 10_000, 10_000
_FIRST = 10_000_000


#: Loaded before the C library: syncs of a slower disk.
_SLOW_SYNCS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
static int slowly(const char *name, int file) {
    struct timespec longer = {0, MILLISECONDS * 1000000L};
    int found = ((int (*)(int))dlsym(RTLD_NEXT, name))(file);
    nanosleep(&longer, 0);
    return found;
}
int fsync(int file) { return slowly("fsync", file); }
int fdatasync(int file) { return slowly("fdatasync", file); }
"""


class Rates(NamedTuple):
    """Grades a second of two versions with a number of clients, if syncs take `slower` milliseconds longer than the disk needs,
    and the median of the ratios by turn.
    """

    slower: int
    clients: int
    before: float
    now: float
    ratio: float


def rates(other: Path, seconds: float) -> list[Rates]:
    """Rankings and grades in turn, as fast as clients can, to the service of this checkout and of another one, in turn."""
    return [row for slower in _SLOWER for row in _rates(other, seconds, slower)]


def _rates(other: Path, seconds: float, slower: int) -> list[Rates]:
    queries = bodies(200)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as running:
        preload = _slow_syncs(Path(folder), slower) if slower else None
        old = Server(f"{folder}/before", root=other, options=("--new",), preload=preload)  # no longer an option
        servers = {other: running.enter_context(old), None: running.enter_context(Server(f"{folder}/now", preload=preload))}
        found: dict[tuple[int, Path | None], list[float]] = {(n, root): [] for n in _CLIENTS for root in servers}
        first = 0
        for turn in range(_ROUNDS + 1):
            for n in _CLIENTS:
                # The one that begins takes turns too.
                for root in [*servers][:: 1 if turn % 2 else -1]:
                    first += _FIRST
                    length = seconds if turn else 1.0
                    taken = asyncio.run(load(servers[root].port, length, ranking(queries, True, first, n), n))
                    if turn:
                        found[n, root].append(len(taken) / 2.0 / length)
    result = []
    for n in _CLIENTS:
        before, now = found[n, other], found[n, None]
        ratio = statistics.median(b / a for a, b in zip(before, now, strict=True))
        result.append(Rates(slower, n, statistics.median(before), statistics.median(now), ratio))
    return result


def _slow_syncs(folder: Path, slower: int) -> Path:
    """A library whose syncs take `slower` milliseconds longer."""
    source, library = folder / "slow.c", folder / "slow.so"
    source.write_text(_SLOW_SYNCS)
    subprocess.run(["cc", "-shared", "-fPIC", f"-DMILLISECONDS={slower}", "-o", library, source, "-ldl"], check=True)
    return library


def sync_ms(folder: str | os.PathLike[str]) -> float:
    """How long a sync takes of 4 KiB that were written: the median of 100."""
    taken = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for i in range(100):
            os.pwrite(file.fileno(), b"x" * 4096, 4096 * i)
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - started)
    return statistics.median(taken) * 1e3


class During(NamedTuple):
    """Seconds that rankings took: while a checkpoint was written, and while none was; and what a checkpoint took."""

    during: list[float]
    without: list[float]
    checkpoints: list[float]


def during_checkpoints(seconds: float) -> During:
    """One client ranks all the time; another one lets checkpoints be written, one after the other, every second second."""
    with tempfile.TemporaryDirectory() as folder, Server(f"{folder}/state") as server:
        return asyncio.run(_during(server.port, seconds))


async def _during(port: int, seconds: float) -> During:
    queries = bodies(200)
    small = bodies(1, m=2, d=2)[0]
    await asyncio.gather(*(_send(port, [("/rank", small[0]), ("/learn", small[1])], range(n, _LEARNED, 32)) for n in range(32)))
    last = _LEARNED + _WAITING
    await asyncio.gather(*(_send(port, [("/rank", queries[0][0])], range(_LEARNED + n, last, 32)) for n in range(32)))
    numbers = itertools.count(last)
    client, saving = await Client.connect(port), await Client.connect(port)
    spans: list[tuple[float, float]] = []
    ranked: list[tuple[float, float]] = []
    until = time.perf_counter() + seconds

    async def save() -> None:
        while (now := time.perf_counter()) < until:
            if int(until - now) % 2:
                await saving.post("/rank", b'{"cmd": "save"}')
                spans.append((now, time.perf_counter()))
            else:
                await asyncio.sleep(0.01)

    async def rank() -> None:
        while (now := time.perf_counter()) < until:
            t = next(numbers)
            await client.post("/rank", _with_id(queries[t % len(queries)][0], t))
            ranked.append((now, time.perf_counter()))

    await asyncio.gather(save(), rank())
    client.close()
    saving.close()
    inside = [any(begin < ended and end > began for begin, end in spans) for began, ended in ranked]
    took = [(ended - began, within) for (began, ended), within in zip(ranked, inside, strict=True)]
    return During(
        [each for each, within in took if within],
        [each for each, within in took if not within],
        [ended - began for began, ended in spans],
    )


def _with_id(body: bytes, number: int) -> bytes:
    return body.replace(b'"ID"', b"%d" % number, 1)


async def _send(port: int, requests: list[tuple[str, bytes]], numbers: range) -> None:
    client = await Client.connect(port)
    for number in numbers:
        for path, body in requests:
            await client.post(path, _with_id(body, number))
    client.close()
