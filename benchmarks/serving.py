"""How fast is the HTTP service beside a server that only parses the same requests, and what does it lose when it is killed?

    python -m benchmarks.serving [--seconds 10] [--kills 100] [--hostile 100000] [--only speed,kills,hostile]
        [--keep FILE]

- speed: 32 connections send queries of 20 documents with 46 named features as JSON, over HTTP/1.1. Requests a second, and how
  long an answer takes, of a bare Starlette handler that parses the body and answers; of /rank; and of /rank and /learn in turn
  with a journal on the disk. All are measured in turns, several times. Client and server are processes of their own.
- kills: the server is killed (SIGKILL) under load again and again. Each grade that it has acknowledged must be there after.
- hostile: mutated bodies. The server must answer all of them, and its memory must stay what it was.
"""

import asyncio
import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._common import environment, parser, save, table
from benchmarks._kept import Kept, add_keep

_CONNECTIONS = 32
_ROUNDS = 3

_BARE = """
import json, sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

async def parse(request):
    return JSONResponse({"documents": len(json.loads(await request.body()).get("docs", ()))})

app = Starlette(routes=[Route("/rank", parse, methods=["POST"])])
uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False)
"""


class Server:
    """A server in a process of its own, on a free port."""

    def __init__(self, directory: str | None = None, bare: bool = False) -> None:
        self.port = _free_port()
        command = [sys.executable, "-c", _BARE, str(self.port)]
        if not bare:
            command = [sys.executable, "-m", "online_rank", "serve", "--port", str(self.port)]
            command += [] if directory is None else ["--checkpoint", directory]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        asyncio.run(self._ready())

    async def _ready(self) -> None:
        for _ in range(600):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                await asyncio.sleep(0.2)
            else:
                writer.close()
                return
        raise SystemExit("the server does not start")

    def memory(self) -> float:
        """Resident memory in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def stop(self, kill: bool = False) -> None:
        self.process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        self.process.wait()


def _free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def bodies(n: int, seed: int = 0, m: int = 20, d: int = 46) -> list[tuple[bytes, bytes]]:
    """Queries and their grades, with ids that are to be replaced: `%(id)s`."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        X = rng.normal(size=(m, d)).round(4)
        docs = {f"document {i}": {f"feature_{j}": X[i, j].item() for j in range(d)} for i in range(m)}
        grades = {f"document {i}": int(X[i, 0] + X[i, 1] > 1) for i in range(m)}
        made.append(
            tuple(json.dumps({"id": "ID", field: value}).encode() for field, value in (("docs", docs), ("grades", grades)))
        )
    return made


def message(path: str, body: bytes) -> bytes:
    """A request of HTTP/1.1."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Client:
    """One connection that is kept open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, port: int) -> "Client":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer."""
        self._writer.write(message(path, body))
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        return int(head.split(b" ", 2)[1]), await self._reader.readexactly(length)

    def close(self) -> None:
        self._writer.close()


async def load(port: int, seconds: float, requests: Callable[[int], Iterator[tuple[str, bytes]]]) -> list[float]:
    """Seconds that each answer took, with all connections busy for `seconds`."""
    taken: list[float] = []
    end = time.perf_counter() + seconds

    async def one(number: int) -> None:
        client = await Client.connect(port)
        for path, body in requests(number):
            started = time.perf_counter()
            if started > end:
                break
            status, answer = await client.post(path, body)
            if status != 200:
                raise SystemExit(f"{path}: {status} {answer[:200]!r}")
            taken.append(time.perf_counter() - started)
        client.close()

    await asyncio.gather(*(one(number) for number in range(_CONNECTIONS)))
    return taken


def ranking(queries: list[tuple[bytes, bytes]], learn: bool, first: int) -> Callable[[int], Iterator[tuple[str, bytes]]]:
    """Requests of one connection, with ids that no other has."""

    def requests(number: int) -> Iterator[tuple[str, bytes]]:
        t = first + number
        while True:
            rank, grades = queries[t % len(queries)]
            yield "/rank", rank.replace(b'"ID"', b"%d" % t, 1)
            if learn:
                yield "/learn", grades.replace(b'"ID"', b"%d" % t, 1)
            t += _CONNECTIONS

    return requests


def speed(seconds: float) -> list[list[str]]:
    """Requests a second and latencies of all servers, in turns."""
    queries = bodies(200)
    with tempfile.TemporaryDirectory() as directory:
        servers = {
            "bare Starlette handler that parses": (Server(bare=True), False),
            "/rank": (Server(), False),
            "/rank and /learn, journal on the disk": (Server(f"{directory}/state"), True),
        }
        found: dict[str, list[tuple[float, list[float]]]] = {name: [] for name in servers}
        for turn in range(_ROUNDS + 1):
            for name, (server, learn) in servers.items():
                taken = asyncio.run(load(server.port, seconds if turn else 1.0, ranking(queries, learn, turn * 10_000_000)))
                if turn:
                    found[name].append((len(taken) / seconds, taken))
        for server, _ in servers.values():
            server.stop()
    bare = next(iter(found.values()))
    rows = []
    for name, turns in found.items():
        rate = statistics.median(rate for rate, _ in turns)
        ratio = statistics.median(rate / base for (rate, _), (base, _) in zip(turns, bare, strict=True))
        p50, p99 = np.percentile([t for _, taken in turns for t in taken], [50, 99]) * 1e3
        rows.append([name, f"{rate:,.0f}", f"{ratio:.2f}", f"{p50:.1f}", f"{p99:.1f}"])
    return rows


def kills(n: int, seed: int) -> tuple[int, int]:
    """Number of acknowledged grades over `n` kills under load, and how many of them were lost."""
    rng = random.Random(seed)
    acknowledged: list[int] = []
    queries = bodies(50, m=8, d=10)

    async def until_killed(server: Server, first: int) -> None:
        async def one(number: int) -> None:
            try:
                client = await Client.connect(server.port)
                for t, (rank, grades) in enumerate(itertools.cycle(queries), start=first + number * 10_000):
                    await client.post("/rank", rank.replace(b'"ID"', b"%d" % t, 1))
                    _, answer = await client.post("/learn", grades.replace(b'"ID"', b"%d" % t, 1))
                    if b'"learned":true' in answer:
                        acknowledged.append(t)
            except (OSError, asyncio.IncompleteReadError):
                return

        clients = [asyncio.create_task(one(number)) for number in range(8)]
        await asyncio.sleep(0.05 + rng.random())
        server.stop(kill=True)
        await asyncio.gather(*clients)

    with tempfile.TemporaryDirectory() as directory:
        for life in range(n):
            asyncio.run(until_killed(Server(f"{directory}/state"), life * 10**6))
        server = Server(f"{directory}/state")

        async def lost() -> int:
            client = await Client.connect(server.port)
            missing = 0
            for t in acknowledged:
                _, answer = await client.post("/learn", queries[0][1].replace(b'"ID"', b"%d" % t, 1))
                missing += b'"duplicate":true' not in answer
            return missing

        missing = asyncio.run(lost())
        server.stop()
    return len(acknowledged), missing


def mutated(rng: random.Random, body: bytes) -> bytes:
    """A body with a few bytes changed, cut out, doubled, or replaced by what parsers stumble over."""
    tricks = [
        b"NaN",
        b"1e999",
        b"-0",
        b"[" * 2000,
        b"{}",
        b'""',
        b"\x00",
        b"\xff",
        b"null",
        b'{"a":' * 500,
        b"9" * 400,
        b"\\ud800",
    ]
    for _ in range(rng.randint(1, 4)):
        i, j = sorted(rng.randrange(len(body) + 1) for _ in range(2))
        j = min(j, i + rng.randint(0, 40))
        body = body[:i] + rng.choice([b"", body[i:j] * 2, bytes([rng.randrange(256)]), rng.choice(tricks)]) + body[j:]
    return body


def hostile(n: int, seed: int) -> tuple[dict[int, int], float, float]:
    """Statuses of the answers to mutated bodies, and the server's memory in MB after a tenth of them and at the end."""
    rng = random.Random(seed)
    queries = [body for pair in bodies(20, m=4, d=5) for body in pair]
    server = Server()
    statuses: dict[int, int] = {}

    async def send(count: int) -> None:
        client = await Client.connect(server.port)
        for _ in range(count):
            body = mutated(rng, rng.choice(queries).replace(b'"ID"', b"%d" % rng.randrange(100), 1))
            status, _ = await client.post(rng.choice(["/rank", "/learn"]), body)
            statuses[status] = statuses.get(status, 0) + 1

    async def both() -> tuple[float, float]:
        await send(max(1, n // 10))
        before = server.memory()
        await send(n - max(1, n // 10))
        return before, server.memory()

    before, after = asyncio.run(both())
    server.stop()
    return dict(sorted(statuses.items())), before, after


def main(arguments: Any = None) -> None:
    options = parser(__doc__)
    options.add_argument("--seconds", type=float, default=10.0)
    options.add_argument("--kills", type=int, default=100)
    options.add_argument("--hostile", type=int, default=100_000)
    options.add_argument("--only", default="speed,kills,hostile")
    options.add_argument("--seed", type=int, default=0)
    add_keep(options)
    given = options.parse_args(arguments)
    os.environ.pop("ONLINE_RANK_TOKEN", None)
    kept = Kept(given.keep)
    measure: dict[str, Callable[[], str]] = {
        "speed": lambda: show_speed(given.seconds),
        "kills": lambda: show_kills(given.kills, given.seed),
        "hostile": lambda: show_hostile(given.hostile, given.seed),
    }
    parts = []
    for part in given.only.split(","):
        if part not in measure:
            raise SystemExit(f"--only {part}: there are {', '.join(measure)}")
        parts.append(kept.part(part, measure[part]))
    save("serving", "\n\n".join(["# The HTTP service", *parts, kept.code, environment("starlette", "uvicorn")]))


def show_speed(seconds: float) -> str:
    header = ["server", "requests a second", "of bare", "p50, ms", "p99, ms"]
    note = f"{_CONNECTIONS} connections, queries of 20 x 46, median of {_ROUNDS} turns of {seconds:g} s."
    return f"{note}\n\n{table(header, speed(seconds))}"


def show_kills(n: int, seed: int) -> str:
    acknowledged, lost = kills(n, seed)
    return f"{n} SIGKILLs under load: {acknowledged:,} grades acknowledged, {lost} of them lost."


def show_hostile(n: int, seed: int) -> str:
    statuses, before, after = hostile(n, seed)
    counts = ", ".join(f"{count:,} x {status}" for status, count in statuses.items())
    return f"{n:,} hostile bodies: {counts}; memory {before:.0f} MB after a tenth, {after:.0f} at the end."


if __name__ == "__main__":
    main()
