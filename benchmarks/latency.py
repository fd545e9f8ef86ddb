"""How long do answers over HTTP take, compared with another version?

    python -m benchmarks.latency --other PYTHON [--turns 30] [--requests 200] [--clients 1]

PYTHON is the interpreter of another checkout's environment: `FOLDER/.venv/bin/python`. Both versions serve the model that
`serve` begins with, with a journal on the disk. In each turn clients rank queries and send their grades, first to one version,
then to the other. Ratios are medians over the turns of the ratio within a turn.
"""

import asyncio
import contextlib
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._common import parser, save, table
from benchmarks._http import Client, Server, bodies
from benchmarks._other import add_other, commit_of, root_of

_SHAPES = ((50, 30), (150, 136))
_PATHS = ("/rank", "/learn")
_QUANTILES = (50, 99)
#: The ratio that every row must stay below.
_MOST = 1.10


async def _taken(port: int, queries: list[tuple[bytes, bytes]], first: int, n_requests: int, n_clients: int) -> np.ndarray:
    """Milliseconds of rankings and of grades, shape (requests, 2)."""
    found = []

    async def one(numbers: range) -> None:
        client = await Client.connect(port)
        for t in numbers:
            seconds = []
            for path, body in zip(_PATHS, queries[t % len(queries)], strict=True):
                request = body.replace(b'"ID"', b"%d" % t, 1)
                started = asyncio.get_running_loop().time()
                status, answer = await client.post(path, request)
                seconds.append(asyncio.get_running_loop().time() - started)
                if status != 200:
                    raise SystemExit(f"{path}: {status} {answer[:200]!r}")
            found.append(seconds)
        client.close()

    await asyncio.gather(*(one(range(first + n, first + n_requests, n_clients)) for n in range(n_clients)))
    return 1e3 * np.array(found)


def rows_of(shape: tuple[int, int], other: Path, given: Any) -> list[list[str]]:
    """The rows of queries of a shape: quantiles of both versions, and their ratio."""
    queries = bodies(50, m=shape[0], d=shape[1])
    turns: list[tuple[np.ndarray, ...]] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as running:
        before = running.enter_context(Server(f"{folder}/before", root=root_of(other), python=other))
        now = running.enter_context(Server(f"{folder}/now"))
        for turn in range(-2, given.turns):  # The first two are slower.
            first = (turn + 2) * given.requests
            taken = {
                each: asyncio.run(_taken(each.port, queries, first, given.requests, given.clients))
                for each in ((before, now) if turn % 2 else (now, before))
            }
            if turn >= 0:
                turns.append((taken[before], taken[now]))
    rows = []
    for which, path in enumerate(_PATHS):
        for q in _QUANTILES:
            values = np.array([[np.percentile(each[:, which], q) for each in turn] for turn in turns])
            ratio = statistics.median((values[:, 1] / values[:, 0]).tolist())
            shown = [f"{value:.2f}" for value in np.median(values, axis=0)]
            met = "met" if ratio <= _MOST else "missed"
            rows.append([f"{path}, {shape[0]} x {shape[1]}, p{q}", *shown, f"{ratio:.2f}", met])
    return rows


def main(arguments: Any = None) -> None:
    options = parser(__doc__)
    add_other(options, required=True)
    options.add_argument("--turns", type=int, default=30)
    options.add_argument("--requests", type=int, default=200, help="queries of a turn")
    options.add_argument("--clients", type=int, default=1)
    given = options.parse_args(arguments)
    rows = [row for shape in _SHAPES for row in rows_of(shape, given.other, given)]
    header = ["ms", "before", "now", "ratio", f"at most {_MOST:.2f}"]
    note = (
        f"Compared with commit {commit_of(given.other)}, in {given.turns} turns of {given.requests} queries, each "
        f"ranked and graded, from {given.clients} clients; with a journal on the disk."
    )
    save("latency", f"# Latency of the HTTP service\n\n{note}\n\n{table(header, rows)}")


if __name__ == "__main__":
    main()
