"""A long run through the HTTP application, in this process and without sockets: what memory, descriptors and files do.

Requests come in waves, each for two of the tenants. Fewer models than tenants are in memory, so that some are moved to the
disk and back all the time. The limits of a tenant (ids it knows, queries that wait) are small, so that all are reached within
the first tenth of the run; what grows after that would grow for ever. State is kept in memory where there is a file system
there, so that the disk does not set the pace.
"""

import asyncio
import collections
import contextlib
import json
import os
import random
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._common import in_memory
from online_rank import PerceptronRanker, StreamScaler
from online_rank.serving import FeedbackPlan, Models, RankingApp, RankingService
from online_rank.serving.asgi import Limits
from online_rank.serving.server import keep_one_arena
from tests.campaigns.found import Found
from tests.campaigns.kills import requests

TENANTS, _IN_MEMORY = 20, 16
#: Queries of a wave for each of its tenants.
_WAVE = 50
_LIMITS = {"wait_bytes": 1 << 20}
_EVERY = 1000
#: Seconds for which learned ids are remembered: their number is the same after a while.
_REMEMBER = 5.0

_WINDOW = 30.0
_EVENTS = {"click": 1, "like": 2, "purchase": 3}
#: Seconds between two queries of a tenant: about 300 wait for the ends of their windows.
_BETWEEN = 0.1
_SHOWN = ("learned", "late", "expired")
#: Share by which memory may change after the first tenth of a run.
_MOST_CHANGE = 0.05


class Reading(NamedTuple):
    """What the process and its folders take."""

    memory_mb: float
    descriptors: int
    files: int
    folder_mb: float


def soak_grades(n_queries: int, seed: int = 0) -> Found:
    """Each query is graded at once."""
    return asyncio.run(_soak(n_queries, seed, None, _graded))


def soak_windows(n_events: int, seed: int = 0) -> Found:
    """Feedback comes in events, four a query on average, some doubled, early or late, and is learned when windows end."""
    plan = FeedbackPlan(window=_WINDOW, events=_EVENTS)
    return asyncio.run(_soak(n_events // 4, seed, plan, _events))


#: Feedback on the query of a number, each with the number of the query that it is about.
Feedback = Callable[[random.Random, int], Iterator[tuple[int, bytes]]]


def _graded(rng: random.Random, number: int) -> Iterator[tuple[int, bytes]]:
    yield number, b'"grades": {' + b", ".join(b'"d%d": %d' % (i, rng.randrange(3)) for i in range(6)) + b"}}"


def _events(rng: random.Random, number: int) -> Iterator[tuple[int, bytes]]:
    for _ in range(4):
        of = number
        if rng.random() < 0.05:
            of = rng.choice((number + 1, max(1, number - int(2.0 * _WINDOW / _BETWEEN))))  # early, or late
        event = {"event": rng.choice([*_EVENTS]), "doc": f"d{rng.randrange(6)}", "ts": _BETWEEN * (number + rng.random())}
        for _ in range(rng.choice((1, 1, 1, 1, 2))):
            yield of, json.dumps(event).encode()[1:]


class _Client:
    """Calls the application as a server does."""

    def __init__(self, app: RankingApp) -> None:
        self._app = app

    async def post(self, path: str, tenant: bytes, body: bytes) -> None:
        """Raises RuntimeError where a request is not accepted."""
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b"tenant=" + tenant}
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        if sent[0]["status"] != 200:
            raise RuntimeError(f"{path}: {sent}")


async def _soak(n_queries: int, seed: int, plan: FeedbackPlan | None, feedback: Feedback) -> Found:
    keep_one_arena()  # As `serve` does.
    rng = random.Random(seed)
    bodies = [line.split(b", ", 1)[1] for line in requests(500, seed) if b'"docs"' in line]
    if plan is not None:
        bodies = [b'"ts": %g, ' + body for body in bodies]

    def make() -> RankingService:
        return RankingService(StreamScaler() | PerceptronRanker(), plan=plan, **_LIMITS)

    readings: list[Reading] = []
    with in_memory() as folder:
        models = Models(make, directory=folder / "state", by_key=True, every=_EVERY, max_open=_IN_MEMORY, remember=_REMEMBER)
        app = RankingApp(models, key="tenant", limits=Limits(requests=5000))
        client = _Client(app)
        counted = collections.Counter[bytes]()
        n_ranked = n_feedback = 0
        while n_ranked < n_queries:
            ranked: list[Any] = []
            given: list[Any] = []
            for key in rng.sample(range(TENANTS), 2):
                tenant = b"t%d" % key
                for _ in range(_WAVE):
                    counted[tenant] += 1
                    number = counted[tenant]
                    body = bodies[number % len(bodies)].replace(b"%g", b"%g" % (_BETWEEN * number), 1)
                    ranked.append(client.post("/rank", tenant, b'{"id": %d, ' % number + body))
                    for of, what in feedback(rng, number):
                        given.append(client.post("/learn", tenant, b'{"id": %d, ' % of + what))
            n_ranked, n_feedback = n_ranked + len(ranked), n_feedback + len(given)
            await asyncio.gather(*ranked)
            await asyncio.gather(*given)
            if n_ranked * 10 // n_queries > len(readings):
                readings.append(_reading(folder))
                print(n_ranked, readings[-1], flush=True)
        counts = dict(models.counts)
        await app.models.close()
    found = Found(queries=n_ranked, feedback=n_feedback, **{name: counts[name] for name in _SHOWN})
    _look_at(readings, found)
    return found


def _look_at(readings: list[Reading], found: Found) -> None:
    """What a process takes must not grow after the first tenth of the run."""
    first, *later = readings
    change = max(abs(each.memory_mb / first.memory_mb - 1.0) for each in later)
    found.expect(change <= _MOST_CHANGE, f"memory changed by {100.0 * change:.1f} %")
    for name in ("descriptors", "files"):
        values = [getattr(each, name) for each in later]
        found.expect(max(values) - min(values) <= TENANTS, f"{name} went from {min(values)} to {max(values)}")


def _reading(folder: Path) -> Reading:
    files = [path for path in folder.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 1e6
    return Reading(resident_mb(), len(os.listdir("/proc/self/fd")), len(files), size)


def resident_mb() -> float:
    """Resident memory."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
