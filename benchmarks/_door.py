"""The ASGI application of a service, called in process: requests and answers are made by hand, without a server."""

import asyncio
import collections
import json
import sys
import threading
from typing import Any

from online_rank import AdditiveRanker
from online_rank.serving import Models, RankingApp, RankingService

#: Queries before those that are counted, and those counted: certificates were due in each of the first 300.
BEFORE, COUNTED = 40, 200

#: The Python functions called, by file and name.
Calls = collections.Counter[str]


class Counting:
    """Counts the Python functions that all threads call which begin after it; kernels and benchmarks do not count."""

    def __init__(self) -> None:
        self._calls: Calls | None = None

    def _note(self, frame: Any, event: str, _: Any) -> None:
        # numba shows a kernel as a Python function, and one of an object file not at all.
        if event == "call" and self._calls is not None:
            file = frame.f_code.co_filename
            if "/_kernels/" not in file and "/benchmarks/" not in file:
                self._calls[f"{file.rpartition('/online_rank/')[2]}: {frame.f_code.co_qualname}"] += 1

    def __enter__(self) -> "Counting":
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]  # None ends it

    def into(self, calls: Calls | None) -> None:
        """Count the calls that follow; None counts none."""
        self._calls = calls


async def post(app: RankingApp, path: str, body: bytes) -> None:
    """Send a request. Raises SystemExit if it is refused."""
    sent: list[Any] = []
    headers = {"host": "localhost", "content-type": "application/json", "content-length": str(len(body))}

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(_scope("POST", path, headers), receive, send)
    if sent[0]["status"] != 200:
        raise SystemExit(f"{path}: {sent}")


async def open_page(app: RankingApp) -> "asyncio.Task[None]":
    """A page that gets events as long as the task runs."""
    is_open = asyncio.Event()

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        is_open.set()

    page = asyncio.create_task(app(_scope("GET", "/events", {"host": "localhost"}), receive, send))
    await is_open.wait()
    return page


def _scope(method: str, path: str, headers: dict[str, str]) -> dict[str, Any]:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "method": method, "path": path, "root_path": "", "query_string": b"", "headers": pairs}


def at_the_door(
    path: str, queries: list[tuple[dict[str, Any], dict[str, int]]], *, folder: str | None = None, page: bool = False
) -> list[Calls]:
    """The calls of each of the last requests to a path, of queries that are ranked and learned in turn.

    Parameters
    ----------
    path
        `/rank` or `/learn`: the requests that are counted.
    queries
        Documents and grades.
    folder
        Where the service keeps its state; None for nowhere.
    page
        Whether a page is open.

    Returns
    -------
    One for each request. What a request has put off counts for the one in which it happens, such as a ranking that is written
    with the next grades.
    """
    found: list[Calls] = []

    async def ask() -> None:
        app = RankingApp(Models(lambda: RankingService(AdditiveRanker()), directory=folder))
        async with app.running():
            opened = await open_page(app) if page else None
            for number, (docs, grades) in enumerate(queries):
                for each, fields in (("/rank", {"docs": docs}), ("/learn", {"grades": grades})):
                    body, calls = json.dumps({"id": str(number), **fields}).encode(), Calls()
                    counting.into(calls)
                    await post(app, each, body)
                    counting.into(None)
                    if each == path:
                        found.append(calls)
            if opened is not None:
                app.stop()
                await opened

    with Counting() as counting:
        asyncio.run(ask())
    return found[-COUNTED:]
