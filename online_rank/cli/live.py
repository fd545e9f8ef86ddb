"""`online-rank demo --live`: a page that watches a ranker learn from a synthetic stream."""

import asyncio
import contextlib
import copy
import json
import webbrowser
from collections.abc import Iterator
from typing import Any

from online_rank import LossTracker, PerceptronRanker
from online_rank.cli.serve import Place, make_app, serve
from online_rank.serving.protocol import RankingService
from online_rank.stream.synth import Drifting

__all__ = ["run"]

_MEASURE = "ndcg@10"
_HALF_LIFE = 200
_FEATURES = (
    "bm25 title", "bm25 body", "clicks today", "clicks a year", "age", "price", "stock", "rating", "reviews", "returns",
    "margin", "same brand", "same size", "same colour", "distance", "delivery", "length", "pictures", "spelling", "spam",
)  # fmt: skip


def run(seed: int, port: int, n_queries: int, a_second: float, browser: bool) -> None:
    """Serve the page, open it, and feed the service behind it until a signal to stop.

    Parameters
    ----------
    seed, n_queries
        Of the stream, whose truth changes every so many queries.
    port
        Where the page is; 0 for any port that is free.
    a_second
        How many queries a second.
    browser
        Whether to open the page.
    """
    stream = Drifting(
        None, tuple(range(n_queries, 100 * n_queries, n_queries)), n_features=len(_FEATURES), n_documents=(10, 30), seed=seed
    )
    truths = {
        f"truth {number}": dict(zip(_FEATURES, (2.0 * teacher).tolist(), strict=True))
        for number, teacher in enumerate(stream.teachers[:2], start=1)
    }
    ranker = LossTracker(PerceptronRanker(_MEASURE, average=_HALF_LIFE), comparators=truths)
    place = Place(port=port)
    app = make_app(lambda: RankingService(copy.deepcopy(ranker), _MEASURE), place)
    feeding: list[asyncio.Task[None]] = []

    def started(address: str) -> None:
        feeding.append(asyncio.get_running_loop().create_task(_feed(app, _requests(stream), a_second)))
        if browser:
            with contextlib.suppress(webbrowser.Error):
                webbrowser.open(address)

    serve(app, place, started)


def _requests(stream: Any) -> Iterator[tuple[bytes, bytes]]:
    """A request to rank, and one with the grades, for each query."""
    for number, (X, y) in enumerate(stream, start=1):
        names = [f"item {number % 1000:03d}-{i:02d}" for i in range(len(y))]
        docs = {name: dict(zip(_FEATURES, row, strict=True)) for name, row in zip(names, X.round(4).tolist(), strict=True)}
        grades = dict(zip(names, y.tolist(), strict=True))
        yield json.dumps({"id": number, "docs": docs}).encode(), json.dumps({"id": number, "grades": grades}).encode()


async def _feed(app: Any, requests: Iterator[tuple[bytes, bytes]], a_second: float) -> None:
    """Rank and learn, as clients would."""
    model = app.models.get(None)
    for rank, learn in requests:
        for request in (rank, learn):
            status, answer = await model.answer(request)
            if status != 200:
                raise RuntimeError(f"the stream's own request was refused: {answer}")
        await asyncio.sleep(1.0 / a_second)
