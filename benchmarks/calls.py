"""How many Python functions does one query call, and through how many files? Counted by a trace, after the first queries.

    python -m benchmarks.calls [--by ROW]

Calls in C, kernels included, do not count, nor do files outside online_rank. `--by` shows the functions behind
one row.

Requests "at the door" call the ASGI application, in process. They are means over 200 requests, after 40 others, with all that
they leave for later, in all threads: files are a mean, too. Their rows with "least" are the request with the fewest calls.
"""

import collections
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks._common import parser, save, table
from benchmarks._door import BEFORE, COUNTED, Calls, at_the_door
from online_rank import AdditiveRanker, LossTracker, PerceptronRanker, StreamQuantileMap, SwapRanker
from online_rank.serving import RankingService
from online_rank.stream.clicks import user
from online_rank.stream.synth import NoisyTeacher

#: Queries before the one that is counted, and those counted; a row shows the least of them.
_BEFORE, _COUNTED = 20, 5

_NAMES = [f"f{j}" for j in range(10)]


def _queries(n: int = _BEFORE + _COUNTED) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    return iter(NoisyTeacher(n, n_features=len(_NAMES), n_documents=10, seed=1))


def _as_dicts(X: np.ndarray, y: np.ndarray) -> tuple[dict[str, dict[str, float]], dict[str, int]]:
    ids = [f"d{i}" for i in range(len(y))]
    return dict(zip(ids, (dict(zip(_NAMES, row, strict=True)) for row in X.tolist()), strict=True)), dict(
        zip(ids, y.tolist(), strict=True)
    )


def _learning(model: Any, *, named: bool = False) -> Iterator[Callable[[], Any]]:
    for X, y in _queries():
        x, grades = _as_dicts(X, y) if named else (X, y)
        yield lambda x=x, grades=grades: model.learn_one(x, grades)


def _ranking(*, named: bool = False) -> Iterator[Callable[[], Any]]:
    model = AdditiveRanker()
    for X, y in _queries():
        x, grades = _as_dicts(X, y) if named else (X, y)
        yield lambda x=x: model.rank_one(x)
        model.learn_one(x, grades)


def _clicking() -> Iterator[Callable[[], Any]]:
    model, who = StreamQuantileMap() | SwapRanker(), user("position", max_grade=4)
    for draw, (X, y) in enumerate(_queries()):
        x, grades = _as_dicts(X, y)
        clicks = who.clicks(model.show_one(x), grades, draw)
        yield lambda x=x, clicks=clicks: model.learn_one(x, clicks)


def _requests(*, learning: bool) -> Iterator[Callable[[], Any]]:
    service = RankingService(AdditiveRanker())
    for number, (X, y) in enumerate(_queries()):
        x, grades = _as_dicts(X, y)
        rank = json.dumps({"id": str(number), "docs": x}).encode()
        learn = json.dumps({"id": str(number), "grades": grades}).encode()
        for request, is_counted in ((rank, not learning), (learn, learning)):
            if is_counted:
                yield lambda request=request: service.handle(request)
            else:
                service.handle(request)


ROWS: dict[str, Callable[[], Iterator[Callable[[], Any]]]] = {
    "linear weights, arrays: learn_one": lambda: _learning(PerceptronRanker()),
    "arrays: learn_one": lambda: _learning(AdditiveRanker()),
    "arrays: rank_one": _ranking,
    "dicts: learn_one": lambda: _learning(AdditiveRanker(), named=True),
    "dicts: rank_one": lambda: _ranking(named=True),
    "a tracker of served losses, arrays: learn_one": (
        lambda: _learning(StreamQuantileMap() | LossTracker(PerceptronRanker(), measure_served=True))
    ),
    "clicks, dicts: learn_one": _clicking,
    "service, ranking": lambda: _requests(learning=False),
    "service, learning": lambda: _requests(learning=True),
}

#: The most calls that a query may take; a test holds each row to it.
BARS = {
    "linear weights, arrays: learn_one": 6,
    "arrays: learn_one": 38,
    "arrays: rank_one": 16,
    "dicts: learn_one": 45,
    "dicts: rank_one": 32,
    "a tracker of served losses, arrays: learn_one": 82,
    "clicks, dicts: learn_one": 46,
    "service, ranking": 70,
    "service, learning": 80,
}

#: The most files that a query may pass, by row.
MOST_FILES = {
    "dicts: learn_one": 12,
    "dicts: rank_one": 9,
    "service, ranking": 18,
    "service, learning": 18,
    "/rank at the door": 20,
    "/learn at the door": 20,
    "/learn at the door, a page open": 20,
}

#: The requests at the door: their path, whether a folder keeps the state, and whether a page is open.
DOOR = {
    "/rank at the door": ("/rank", False, False),
    "/rank at the door, a folder": ("/rank", True, False),
    "/learn at the door": ("/learn", False, False),
    "/learn at the door, a page open": ("/learn", False, True),
    "/learn at the door, a folder": ("/learn", True, False),
}

#: The most calls that a request at the door may take, in the mean; a slow test holds each row to it.
DOOR_BARS = {"/rank at the door": 95, "/learn at the door": 100, "/learn at the door, a page open": 100}


def counted(call: Callable[[], Any]) -> collections.Counter[str]:
    """The Python functions that a call calls, by file and name."""
    calls: collections.Counter[str] = collections.Counter()

    def note(frame: Any, event: str, _: Any) -> None:
        # numba shows a kernel as a Python function, and one of an object file not at all.
        if event == "call" and "/_kernels/" not in (file := frame.f_code.co_filename):
            calls[f"{file.rpartition('/online_rank/')[2]}: {frame.f_code.co_qualname}"] += 1

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    del calls[next(iter(calls))]  # the lambda itself
    return calls


def least(row: str) -> collections.Counter[str]:
    """The calls of the query of a row that has the fewest."""
    runs = []
    for number, call in enumerate(ROWS[row]()):
        if number < _BEFORE:
            call()
        else:
            runs.append(counted(call))
    return min(runs, key=lambda calls: calls.total())


def at_door(row: str) -> list[Calls]:
    """The calls of the requests of a row at the door."""
    path, is_kept, is_open = DOOR[row]
    queries = [_as_dicts(X, y) for X, y in _queries(BEFORE + COUNTED)]
    with tempfile.TemporaryDirectory() as folder:
        return at_the_door(path, queries, folder=f"{folder}/state" if is_kept else None, page=is_open)


def mean_of(runs: list[Calls]) -> tuple[float, float]:
    """The mean numbers of calls and of files of some requests."""
    return sum(calls.total() for calls in runs) / len(runs), sum(map(n_files, runs)) / len(runs)


def n_files(calls: collections.Counter[str]) -> int:
    """The number of files of the library among calls."""
    return len({file for name in calls if not (file := name.partition(":")[0]).startswith(("/", "<"))})


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--by", choices=[*ROWS, *DOOR], help="show the functions behind a row, and write nothing")
    chosen = arguments.parse_args().by
    if chosen is not None:
        runs = at_door(chosen) if chosen in DOOR else [least(chosen)]
        for name, n in sum(runs, Calls()).most_common():
            print(f"{n / len(runs):8.2f} {name}")
        return
    found = {row: least(row) for row in ROWS}
    rows = [(row, str(calls.total()), str(BARS.get(row, "")), str(n_files(calls))) for row, calls in found.items()]
    for row in DOOR:
        runs = at_door(row)
        n_calls, n_of_files = mean_of(runs)
        rows.append((row, f"{n_calls:.0f}", str(DOOR_BARS.get(row, "")), f"{n_of_files:.0f}"))
        fewest = min(runs, key=lambda calls: calls.total())
        rows.append((f"{row}, least", str(fewest.total()), "", str(n_files(fewest))))
    what = "`AdditiveRanker()` where nothing else is named, 10 documents of 10 features."
    save("calls", f"# Python calls for one query\n\n{what}\n\n" + table(("way", "calls", "at most", "files"), rows))


if __name__ == "__main__":
    main()
