"""What requests cost the service, compared with a bare handler that parses the same JSON and with another version."""

import asyncio
import contextlib
import statistics
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks._http import Server, asked, bodies, rank_and_learn
from benchmarks._other import root_of

#: Documents and features of a query, and clients at a time.
SHAPE, CLIENTS = (50, 20), 16
_PATHS = ("/rank", "/learn")
#: Turns that do not count: the first are slower.
_FIRST = 2


class Cost(NamedTuple):
    """What one server took in one turn.

    Attributes
    ----------
    processor
        Seconds of the processor for a ranking and its grades.
    taken
        Seconds until the answer, by request, shape (queries, 2): of rankings and of grades.
    """

    processor: float
    taken: np.ndarray


def costs(other: Path | None, turns: int, n: int) -> dict[str, list[Cost]]:
    """What each server takes in each turn, by its name: all servers get the same requests, in turns.

    The servers are a bare handler, this version without and with a folder, and, if there is an `other` version, that version
    twice: the second shows how far two runs of one version differ.
    """
    queries = rank_and_learn(bodies(100, m=SHAPE[0], d=SHAPE[1]))
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as running:
        servers = {"bare": running.enter_context(Server(bare=True))}
        for name, where in (("no folder", None), ("folder", f"{folder}/now")):
            servers[name] = running.enter_context(Server(where))
            if other is not None:
                for again in ("before", "again"):
                    before = None if where is None else f"{folder}/{again}"
                    servers[f"{name}, {again}"] = running.enter_context(Server(before, root=root_of(other), python=other))
        found: dict[str, list[Cost]] = {name: [] for name in servers}
        for turn in range(-_FIRST, turns):
            for name in [*servers][:: 1 if turn % 2 else -1]:
                server = servers[name]
                begun = server.processor_seconds()
                taken = asyncio.run(asked(server.port, queries, CLIENTS, first=(turn + _FIRST) * n, n=n))
                if turn >= 0:
                    found[name].append(Cost((server.processor_seconds() - begun) / n, taken))
    return found


def over_bare(found: dict[str, list[Cost]]) -> list[list[str]]:
    """Rows: processor time of each server for a ranking and its grades, and the median over turns of its ratio to bare."""
    rows = []
    for name, turns in found.items():
        ratio = statistics.median(each.processor / bare.processor for each, bare in zip(turns, found["bare"], strict=True))
        rows.append([name, f"{1e6 * statistics.median(each.processor for each in turns):.0f}", f"{ratio:.2f}"])
    return rows


def over_before(found: dict[str, list[Cost]]) -> list[list[str]]:
    """Rows: quantiles of the time until an answer, of both versions, and medians over turns of the ratios within."""
    rows = []
    for name in ("no folder", "folder"):
        if f"{name}, before" not in found:
            continue
        for which, path in enumerate(_PATHS):
            for q in (50, 99):
                now, before, again = (
                    [1e3 * np.percentile(each.taken[:, which], q).item() for each in found[f"{name}{more}"]]
                    for more in ("", ", before", ", again")
                )
                ratio, noise = (
                    statistics.median(one / base for one, base in zip(those, before, strict=True)) for those in (now, again)
                )
                shown = [f"{statistics.median(before):.2f}", f"{statistics.median(now):.2f}", f"{ratio:.2f}", f"{noise:.2f}"]
                rows.append([f"{path}, {name}, p{q}", *shown])
    return rows
