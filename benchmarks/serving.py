"""How fast is the HTTP service compared with a server that only parses the same requests?

    python -m benchmarks.serving [--seconds 10] [--keep FILE] [--before FOLDER] [--other PYTHON]
        [--only speed,cost,bare,grades,checkpoints,forms,readers]

- speed: 32 connections send queries of 20 documents with 46 named features as JSON, over HTTP/1.1. Requests a second, and how
  long an answer takes, of a bare Starlette handler that parses the body and answers; of /rank; and of /rank and /learn in turn
  with a journal on the disk. All are measured in turns, several times. Client and server are separate processes.
- cost: processor time of the server for a ranking, and for learning its grades, from one client that waits for each answer; a
  journal is in memory.
- bare: processor time of a ranking and its grades, queries of 50 x 20 from 16 clients, over a bare Starlette handler that
  parses the same bodies, without and with a folder; and how long answers take, compared with the version that PYTHON runs.
- grades: acknowledged grades a second of one client and of 32, compared with the version in FOLDER, in turns, on the disk of
  temporary files, and where each sync takes some milliseconds longer.
- checkpoints: how long rankings take while checkpoints are written, and while none is.
- forms: what queries of 150 x 136 and of 50 x 20 cost as an array, as dicts, and as requests by document, in columns and in
  binary, without HTTP; with `struct.pack` of their values and `orjson.loads` of the same body for comparison.
- readers: rankings a second and core of a reader, by the processor time of its process, queries of 50 x 20 from 16 clients,
  curves alone, in each form; compared with the version that PYTHON runs.
"""

import asyncio
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._acknowledged import during_checkpoints, rates, sync_ms
from benchmarks._common import in_memory, parser, save, table
from benchmarks._door_cost import CLIENTS, SHAPE, costs, over_bare, over_before
from benchmarks._forms_cost import ASKED, LEARNED, cost_of_forms
from benchmarks._http import CONNECTIONS, Client, Server, bodies, load, ranking
from benchmarks._kept import Kept, add_keep, commit
from benchmarks._other import add_other, commit_of
from benchmarks._reader_cost import rows_of, seconds_of_rankings

_ROUNDS = 3
#: Documents and features of queries in each form.
_SHAPES_OF_FORMS = ((150, 136), (50, 20))
#: Microseconds of processor time that learning the grades of a query may take.
_MOST_LEARNING = 400


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


async def _costs(server: Server, seconds: float) -> list[tuple[float, float]]:
    """Processor seconds of the server for a ranking and for its grades: means of twenty queries, as often as there is time."""
    queries, numbers = bodies(200), itertools.count()
    client = await Client.connect(server.port)

    async def twenty() -> tuple[float, float]:
        some = [*itertools.islice(numbers, 20)]
        marks = [server.processor_seconds()]
        for which, path in enumerate(("/rank", "/learn")):
            for t in some:
                status, answer = await client.post(path, queries[t % len(queries)][which].replace(b'"ID"', b"%d" % t, 1))
                if status != 200:
                    raise SystemExit(f"{path}: {status} {answer[:200]!r}")
            marks.append(server.processor_seconds())
        return (marks[1] - marks[0]) / 20, (marks[2] - marks[1]) / 20

    for _ in range(20):  # The first are slower.
        await twenty()
    end, found = time.perf_counter() + seconds, []
    while time.perf_counter() < end:
        found.append(await twenty())
    client.close()
    return found


def main(arguments: Any = None) -> None:
    options = parser(__doc__)
    options.add_argument("--seconds", type=float, default=10.0)
    options.add_argument("--before", type=Path, metavar="FOLDER", help="a checkout of the version to compare with")
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
        if part == "grades" and given.before is None:
            raise SystemExit("grades needs --before FOLDER: `git worktree add --detach FOLDER 3a8f3e3`")
        shown = kept.part(part, partial(PARTS[part], given))
        parts.append(f"## {part}\n\n{shown}\n\n{kept.code_of(part)}")
    save("serving", "\n\n".join(["# The HTTP service", *parts]), part=True)


def show_speed(given: Any) -> str:
    header = ["server", "requests a second", "of bare", "p50, ms", "p99, ms"]
    note = f"{CONNECTIONS} connections, queries of 20 x 46, median of {_ROUNDS} turns of {given.seconds:g} s."
    return f"{note}\n\n{table(header, speed(given.seconds))}"


def show_cost(given: Any) -> str:
    rows = []
    with in_memory() as folder:
        for name, directory in (("nothing is kept", None), ("a journal, in memory", f"{folder}/state")):
            with Server(directory) as server:
                found = np.array(asyncio.run(_costs(server, given.seconds)))
            (ranked, learned), quiet = np.median(found, axis=0) * 1e6, np.quantile(found[:, 1], 0.05) * 1e6
            met = "met" if learned <= _MOST_LEARNING else "missed"
            rows.append([name, f"{ranked:.0f}", f"{learned:.0f}", f"{quiet:.0f}", f"{_MOST_LEARNING}", met])
    header = ["µs of processor time", "/rank", "/learn", "/learn, 5 % quantile", "/learn, at most", ""]
    note = (
        "One client, queries of 20 x 46, the model that `serve` begins with; medians of means of twenty requests. "
        f"Load of the machine {os.getloadavg()[0]:.1f}."
    )
    return f"{note}\n\n{table(header, rows)}"


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


def show_grades(given: Any) -> str:
    with tempfile.TemporaryDirectory() as folder:
        slow = sync_ms(folder)
    header = ["added to a sync, ms", "clients", "before", "now", "ratio"]
    found = rates(given.before, given.seconds)
    rows = [[r.slower, r.clients, f"{r.before:,.0f}", f"{r.now:,.0f}", f"{r.ratio:.2f}"] for r in found]
    note = (
        f"Acknowledged grades a second of clients that rank a query of 20 x 46 and grade it, compared with commit "
        f"{commit(given.before)}, in turns of {given.seconds:g} s; ratios are medians over turns. "
        f"A sync of 4 KiB that were appended takes {slow:.1f} ms on this disk."
    )
    return f"{note}\n\n{table(header, rows)}"


def show_checkpoints(given: Any) -> str:
    found = during_checkpoints(12.0 * given.seconds)
    header = ["rankings", "number", "p50, ms", "p99, ms"]
    rows = [
        [name, f"{len(taken):,}", *(f"{p * 1e3:.2f}" for p in np.percentile(taken, [50, 99]))]
        for name, taken in (("without", found.without), ("while a checkpoint is written", found.during))
    ]
    ratio = np.percentile(found.during, 99) / np.percentile(found.without, 99)
    note = (
        "One client ranks queries of 20 x 46; 10,000 queries wait, 10,000 ids are known. "
        f"{len(found.checkpoints)} checkpoints, of {statistics.median(found.checkpoints) * 1e3:.0f} ms. "
        f"Ratio of the p99: {ratio:.2f}. Load of the machine {os.getloadavg()[0]:.1f}."
    )
    return f"{note}\n\n{table(header, rows)}"


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
    "cost": show_cost,
    "bare": show_bare,
    "grades": show_grades,
    "checkpoints": show_checkpoints,
    "forms": show_forms,
    "readers": show_readers,
}


if __name__ == "__main__":
    main()
