"""How fast is the HTTP service compared with a server that only parses the same requests?

    python -m benchmarks.serving [--seconds 10] [--keep FILE] [--other PYTHON] [--only speed,bare,forms,readers]

- speed: 32 connections send queries of 20 documents with 46 named features as JSON, over HTTP/1.1. Requests a second, and how
  long an answer takes, of a bare Starlette handler that parses the body and answers; of /rank; and of /rank and /learn in turn
  with a journal on the disk. All are measured in turns, several times. Client and server are separate processes.
- bare: processor time of a ranking and its grades, queries of 50 x 20 from 16 clients, over a bare Starlette handler that
  parses the same bodies, without and with a folder; and how long answers take, compared with the version that PYTHON runs.
- forms: what queries of 150 x 136 and of 50 x 20 cost as an array, as dicts, and as requests by document, in columns and in
  binary, without HTTP; with `struct.pack` of their values and `orjson.loads` of the same body for comparison.
- readers: rankings a second and core of a reader, by the processor time of its process, queries of 50 x 20 from 16 clients,
  curves alone, in each form; compared with the version that PYTHON runs.
"""

import asyncio
import contextlib
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._common import parser, save, table
from benchmarks._door_cost import CLIENTS, SHAPE, costs, over_bare, over_before
from benchmarks._forms_cost import ASKED, LEARNED, cost_of_forms
from benchmarks._http import Server, asked, bodies, rank_and_learn
from benchmarks._kept import Kept, add_keep
from benchmarks._other import add_other, commit_of
from benchmarks._reader_cost import rows_of, seconds_of_rankings

_ROUNDS, CONNECTIONS = 3, 32
#: Documents and features of queries in each form.
_SHAPES_OF_FORMS = ((150, 136), (50, 20))


def speed(seconds: float) -> list[list[str]]:
    """Requests a second and latencies of all servers, in turns."""
    both = rank_and_learn(bodies(200))
    ranked = [query[:1] for query in both]
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as running:
        servers = {
            "bare Starlette handler that parses": (running.enter_context(Server(bare=True)), ranked),
            "/rank": (running.enter_context(Server()), ranked),
            "/rank and /learn, journal on the disk": (running.enter_context(Server(f"{directory}/state")), both),
        }
        found: dict[str, list[tuple[float, np.ndarray]]] = {name: [] for name in servers}
        for turn in range(_ROUNDS + 1):
            for name, (server, queries) in servers.items():
                length, first = seconds if turn else 1.0, turn * 10_000_000
                taken = asyncio.run(asked(server.port, queries, CONNECTIONS, first=first, seconds=length))
                if turn:
                    found[name].append((taken.size / seconds, taken))
    bare = next(iter(found.values()))
    rows = []
    for name, turns in found.items():
        rate = statistics.median(rate for rate, _ in turns)
        ratio = statistics.median(rate / base for (rate, _), (base, _) in zip(turns, bare, strict=True))
        p50, p99 = np.percentile(np.concatenate([taken.ravel() for _, taken in turns]), [50, 99]) * 1e3
        rows.append([name, f"{rate:,.0f}", f"{ratio:.2f}", f"{p50:.1f}", f"{p99:.1f}"])
    return rows


def main(arguments: Any = None) -> None:
    options = parser(__doc__)
    options.add_argument("--seconds", type=float, default=10.0)
    add_other(options)
    options.add_argument("--only", default=",".join(PARTS))
    add_keep(options)
    given = options.parse_args(arguments)
    os.environ.pop("ONLINE_RANK_TOKEN", None)
    kept = Kept(given.keep)
    parts = []
    for part in given.only.split(","):
        if part not in PARTS:
            raise SystemExit(f"--only {part}: there are {', '.join(PARTS)}")
        shown = kept.part(part, partial(PARTS[part], given))
        parts.append(f"## {part}\n\n{shown}\n\n{kept.code_of(part)}")
    save("serving", "\n\n".join(["# The HTTP service", *parts]), part=True)


def show_speed(given: Any) -> str:
    header = ["server", "requests a second", "of bare", "p50, ms", "p99, ms"]
    note = f"{CONNECTIONS} connections, queries of 20 x 46, median of {_ROUNDS} turns of {given.seconds:g} s."
    return f"{note}\n\n{table(header, speed(given.seconds))}"


def show_bare(given: Any) -> str:
    n = 20 * CLIENTS
    found = costs(given.other, max(3, round(given.seconds)), n)
    before = "" if given.other is None else f"; before: commit {commit_of(given.other)}, again: a second server of that commit"
    note = (
        f"{CLIENTS} clients, queries of {SHAPE[0]} x {SHAPE[1]}, the model that `serve` begins with; turns of {n} queries, "
        f"ratios are medians of ratios within a turn{before}. Load of the machine {os.getloadavg()[0]:.1f}."
    )
    shown = f"{note}\n\n{table(['processor time of a ranking and its grades', 'µs', 'of bare'], over_bare(found))}"
    taken = over_before(found)
    return f"{shown}\n\n{table(['ms until the answer', 'before', 'now', 'ratio', 'again'], taken)}" if taken else shown


def show_forms(given: Any) -> str:
    turns, parts = max(2, round(given.seconds)), []
    for m, d in _SHAPES_OF_FORMS:
        parsers = "of packing the dicts, or of orjson.loads", "of msgspec.json.decode"
        header = [f"{m} documents, {d} features", "µs", *parsers]
        parts.append(table(header, cost_of_forms(m, d, turns)))
    note = (
        f"Microseconds of processor time, the medians of {ASKED} queries and {turns} turns. In a turn each way has these "
        f"queries in a row, in another order of ways each time; requests have new ids. The models have learned {LEARNED} "
        f"queries in which features interact, so that trees take part in the scores. "
        f"Load of the machine {os.getloadavg()[0]:.1f}."
    )
    return "\n\n".join([note, *parts])


def show_readers(given: Any) -> str:
    pythons = {"now": Path(sys.executable), **({} if given.other is None else {"before": given.other})}
    before = None if given.other is None else "before"
    turns, n = max(4, round(given.seconds / 2)), 400
    found = seconds_of_rankings(pythons, turns, n)
    header = [
        "rankings a second and core of a reader",
        "now",
        *(["before", "ratio (lowest to highest of the turns)"] if before else []),
    ]
    note = (
        f"Queries of {SHAPE[0]} x {SHAPE[1]} from {CLIENTS} clients over HTTP, `AdditiveRanker(trees=0)` after 200 of them; "
        f"processor time of the process of the reader, which sends the rankings to its learner; {turns} turns of {n}"
        f"{'' if given.other is None else f', in turns with commit {commit_of(given.other)}'}; medians. Load of the machine "
        f"{os.getloadavg()[0]:.1f}."
    )
    return f"{note}\n\n{table(header, rows_of(found, 'now', before))}"


PARTS: dict[str, Callable[[Any], str]] = {
    "speed": show_speed,
    "bare": show_bare,
    "forms": show_forms,
    "readers": show_readers,
}


if __name__ == "__main__":
    main()
