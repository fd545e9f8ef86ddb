"""A server in a separate process, clients of it, and requests for it."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np

from benchmarks._timing import megabytes

CONNECTIONS = 32
JSON = "application/json"

_BARE = """
import json, sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

async def parse(request):
    return JSONResponse({"documents": len(json.loads(await request.body()).get("docs", ()))})

app = Starlette(routes=[Route(path, parse, methods=["POST"]) for path in ("/rank", "/learn")])
uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False)
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def connectable(port: int) -> None:
    for _ in range(3000):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    raise SystemExit("the server does not start")


class Server:
    """A server in a separate process, on a free port.

    Parameters
    ----------
    directory
        Where it keeps its state; None for nowhere.
    bare
        Whether it is one that only parses requests.
    root
        The checkout whose code it runs; None for this one.
    options
        Further options of `serve`.
    preload
        A library that is loaded before all others.
    python
        The interpreter that runs it; None for this one.
    port
        The port; None for a free one.
    """

    def __init__(
        self,
        directory: str | None = None,
        bare: bool = False,
        root: Path | None = None,
        options: Sequence[str] = (),
        preload: Path | None = None,
        python: Path | None = None,
        port: int | None = None,
    ) -> None:
        self.port = port or free_port()
        command = [sys.executable, "-c", _BARE, str(self.port)]
        if not bare:
            command = [str(python or sys.executable), "-m", "online_rank", "serve", *options, "--port", str(self.port)]
            command += [] if directory is None else ["--checkpoint", directory]
        environment = dict(os.environ)
        if root is not None:
            environment["PYTHONPATH"] = str(root)
        if preload is not None:
            environment["LD_PRELOAD"] = str(preload)
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment, cwd=root)
        connectable(self.port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def memory(self) -> float:
        """Resident memory in MB."""
        return megabytes("VmRSS", self.process.pid)

    def processor_seconds(self) -> float:
        """Processor time of all threads so far."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9

    def stop(self, kill: bool = False) -> None:
        self.process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        self.process.wait()


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


def message(path: str, body: bytes, kind: str = JSON) -> bytes:
    """A request of HTTP/1.1."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Client:
    """One connection that is kept open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, port: int) -> "Client":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def post(self, path: str, body: bytes, kind: str = JSON) -> tuple[int, bytes]:
        """Status and body of the answer."""
        self._writer.write(message(path, body, kind))
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        return int(head.split(b" ", 2)[1]), await self._reader.readexactly(length)

    def close(self) -> None:
        self._writer.close()


async def load(
    port: int, seconds: float, requests: Callable[[int], Iterator[tuple[str, bytes]]], n_connections: int = CONNECTIONS
) -> list[float]:
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

    await asyncio.gather(*(one(number) for number in range(n_connections)))
    return taken


def ranking(
    queries: list[tuple[bytes, bytes]], learn: bool, first: int, n_connections: int = CONNECTIONS
) -> Callable[[int], Iterator[tuple[str, bytes]]]:
    """Requests of one connection, with ids that no other has."""

    def requests(number: int) -> Iterator[tuple[str, bytes]]:
        t = first + number
        while True:
            rank, grades = queries[t % len(queries)]
            yield "/rank", rank.replace(b'"ID"', b"%d" % t, 1)
            if learn:
                yield "/learn", grades.replace(b'"ID"', b"%d" % t, 1)
            t += n_connections

    return requests
