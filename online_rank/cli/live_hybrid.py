"""`online-rank demo hybrid --live`: a page that watches the weights of retrievers as users click."""

import asyncio
import contextlib
import webbrowser
from collections.abc import Callable
from typing import Any

from online_rank import Impression
from online_rank.cli.demo_hybrid import model
from online_rank.cli.demo_search import Search, search
from online_rank.cli.live import answer
from online_rank.cli.serve import Place, serve
from online_rank.query import Runs
from online_rank.serving.protocol import RankingService
from online_rank.stream.clicks import user

__all__ = ["feed", "run"]


def run(seed: int, port: int, a_second: float, browser: bool) -> None:
    """Serve the page, open it, and feed the service behind it until a signal to stop.

    Parameters
    ----------
    seed
        Seed of the documents, the queries and the users.
    port
        Port of the page; 0 for any free port.
    a_second
        Queries per second.
    browser
        Whether to open the page.
    """
    feeding: list[asyncio.Task[None]] = []
    searched = search(seed)

    def started(app: Any, address: str) -> None:
        feeding.append(asyncio.get_running_loop().create_task(feed(app, searched, seed, 1.0 / a_second)))
        if browser:
            with contextlib.suppress(webbrowser.Error):
                webbrowser.open(address)

    serve(lambda: RankingService(model(searched.runs, seed)), Place(port=port), started)


async def feed(app: Any, searched: Search, seed: int, pause: float, called: Callable[[int], None] | None = None) -> None:
    """Ask, show and click, as clients would; `called` is told how many queries there were."""
    serving, who = await app.models.get(None), user("navigational", max_grade=searched.best, seed=seed)
    for number, asked in enumerate(searched, start=1):
        query_id = f"{number}: {asked.text}"
        found = await answer(serving, {"id": query_id, "runs": _lists(asked.runs)})
        shown = tuple(found["ranking"][: found.get("shown")])
        gains = who.clicks(Impression(shown), asked.grades, number).gains
        await answer(serving, {"id": query_id, "clicks": [name for name, gain in zip(shown, gains, strict=True) if gain]})
        if called is not None:
            called(number)
        await asyncio.sleep(pause)


def _lists(runs: Runs) -> dict[Any, list[list[Any]]]:
    """Result lists as JSON has them, best first."""
    lists: dict[Any, list[tuple[int, list[Any]]]] = {}
    for document, known in runs.documents.items():
        for name, entry in known.items():
            lists.setdefault(name, []).append((entry.rank, [document, entry.score]))
    return {name: [entry for _, entry in sorted(entries)] for name, entries in lists.items()}
