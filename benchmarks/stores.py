"""What does a request cost whose state is kept in PostgreSQL, compared with one in SQLite?

    python -m benchmarks.stores [--turns 6] [--seconds 3]

Two servers of the model that `serve` begins with: one keeps its state in a folder, the other in PostgreSQL on the same machine
and the same disk, over a socket of the system. In each turn 1 client, then 32 clients, rank queries and send their grades to
one of them, then to the other. The table has the medians over the turns of a turn's requests a second and of its median time
for grades, which are on the disk when they are answered.
"""

import asyncio
import contextlib
import statistics
import tempfile
import time
import urllib.error
import urllib.request
from typing import Any

import numpy as np

from benchmarks._common import parser, save, table
from benchmarks._http import Server, asked, bodies, rank_and_learn
from tests.reference import postgresql

_CLIENTS = (1, 32)
_STORES = ("SQLite", "PostgreSQL")


def _leads(port: int) -> bool:
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").status == 200
    except urllib.error.HTTPError:
        return False


def main(arguments: Any = None) -> None:
    options = parser(__doc__)
    options.add_argument("--turns", type=int, default=6)
    options.add_argument("--seconds", type=float, default=3.0, help="of each client number, store and turn")
    given = options.parse_args(arguments)
    queries, found, first = rank_and_learn(bodies(50)), dict[tuple[str, int], list[Any]](), 0
    with contextlib.ExitStack() as running:
        folder = running.enter_context(tempfile.TemporaryDirectory())
        database = running.enter_context(postgresql.running(durable=True))
        places = zip(_STORES, (f"{folder}/state", database.address), strict=True)
        servers = {name: running.enter_context(Server(place)) for name, place in places}
        while not _leads(servers["PostgreSQL"].port):
            time.sleep(0.1)
        for turn in range(-1, given.turns):  # The first is slower.
            for name in _STORES if turn % 2 else _STORES[::-1]:
                for n in _CLIENTS:
                    first += 10**6
                    taken = asyncio.run(asked(servers[name].port, queries, n, first=first, seconds=given.seconds))
                    figures = taken.size / given.seconds, 1e3 * np.median(taken[:, 1])
                    if turn >= 0:
                        found.setdefault((name, n), []).append(figures)
    rows = []
    for n in _CLIENTS:
        for name in _STORES:
            rate, grades = (statistics.median(each) for each in zip(*found[name, n], strict=True))
            rows.append([str(n), name, f"{rate:,.0f}", f"{grades:.1f}"])
    note = f"Medians of {given.turns} turns of {given.seconds:g} seconds; each query of 20 documents is ranked, then graded."
    save("stores", f"# The state in PostgreSQL\n\n{note}\n\n{table(['clients', 'store', 'requests/s', 'ms for grades'], rows)}")


if __name__ == "__main__":
    main()
