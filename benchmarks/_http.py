"""A server in a separate process, clients of it, and requests for it."""

import asyncio
import contextlib
import itertools
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np

from benchmarks._timing import megabytes

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


async def asked(
    port: int,
    queries: Sequence[Sequence[tuple[str, bytes]]],
    n_clients: int,
    *,
    first: int,
    n: int | None = None,
    seconds: float = math.inf,
    kind: str = JSON,
) -> np.ndarray:
    """Seconds until each answer, shape (asked queries, requests of a query).

    Clients, each with one connection, take the queries from number `first` on: `n` of them, or as many as they begin within
    some seconds. A query is the paths and bodies of its requests, of which each is sent when the one before is answered.
    """
    numbers = iter(itertools.count(first) if n is None else range(first, first + n))
    clock, taken = asyncio.get_running_loop().time, list[list[float]]()
    end = clock() + seconds

    async def one() -> None:
        client = await Client.connect(port)
        for t in numbers:
            if clock() > end:
                break
            took = []
            for path, body in queries[t % len(queries)]:
                started = clock()
                status, answer = await client.post(path, body.replace(b'"ID"', b'"%d"' % t, 1), kind)
                took.append(clock() - started)
                if status != 200:
                    raise SystemExit(f"{path}: {status} {answer[:200]!r}")
            taken.append(took)
        client.close()

    await asyncio.gather(*(one() for _ in range(n_clients)))
    return np.array(taken)


def rank_and_learn(queries: Sequence[tuple[bytes, bytes]]) -> list[list[tuple[str, bytes]]]:
    """For `asked`: each query is ranked, then graded."""
    return [[("/rank", rank), ("/learn", grades)] for rank, grades in queries]
