"""`online-rank demo --live`: a page that watches a ranker learn from a synthetic stream."""

import asyncio
import contextlib
import copy
import json
import webbrowser
from collections.abc import Callable
from typing import Any

from online_rank import Impression, LossTracker, PerceptronRanker, PlackettLuce, StreamScaler, SwapRanker
from online_rank.cli.serve import Place, serve
from online_rank.serving.protocol import RankingService
from online_rank.stream.clicks import user
from online_rank.stream.synth import Drifting

__all__ = ["answer", "run"]

_MEASURE = "ndcg@10"
_HALF_LIFE = 200

#: Makes the feedback on a ranking, from the number of the query, the ranking and the grades of its documents.
Feedback = Callable[[int, list[str], dict[Any, int]], dict[str, Any]]
_FEATURES = (
    "bm25 title", "bm25 body", "clicks today", "clicks a year", "age", "price", "stock", "rating", "reviews", "returns",
    "margin", "same brand", "same size", "same colour", "distance", "delivery", "length", "pictures", "spelling", "spam",
)  # fmt: skip


def run(seed: int, port: int, n_queries: int, a_second: float, browser: bool, clicks: bool = False) -> None:
    """Serve the page, open it, and feed the service behind it until a signal to stop.

    Parameters
    ----------
    seed, n_queries
        Seed of the stream, and the number of queries after which its truth changes (not with clicks).
    port
        Port of the page; 0 for any free port.
    a_second
        Queries per second.
    browser
        Whether to open the page.
    clicks
        Whether feedback is users' clicks on the shown documents, in place of grades.
    """
    changes = () if clicks else tuple(range(n_queries, 100 * n_queries, n_queries))
    stream = Drifting(None, drift_points=changes, n_features=len(_FEATURES), n_documents=(10, 30), seed=seed)
    model = _clicked_model(seed) if clicks else _graded_model(stream)
    feeding: list[asyncio.Task[None]] = []

    def started(app: Any, address: str) -> None:
        feeding.append(
            asyncio.get_running_loop().create_task(_feed(app, stream, _clicks(seed) if clicks else _grades, a_second))
        )
        if browser:
            with contextlib.suppress(webbrowser.Error):
                webbrowser.open(address)

    serve(lambda: RankingService(copy.deepcopy(model), measure=_MEASURE), Place(port=port), started)


def _graded_model(stream: Any) -> Any:
    """A ranker inside a tracker, whose comparators are the first truths of the stream."""
    truths = {
        f"truth {number}": dict(zip(_FEATURES, (2.0 * teacher).tolist(), strict=True))
        for number, teacher in enumerate(stream.teachers[:2], start=1)
    }
    return LossTracker(PerceptronRanker(_MEASURE, average=_HALF_LIFE), comparators=truths)


def _clicked_model(seed: int) -> Any:
    return StreamScaler() | SwapRanker(PlackettLuce(10, seed=seed))


def _grades(number: int, ranking: list[str], grades: dict[Any, int]) -> dict[str, Any]:
    """Feedback of somebody who grades every document."""
    return {"grades": grades}


def _clicks(seed: int) -> Feedback:
    """Feedback of users who look at position p with probability 1/p."""
    who = user("position", max_grade=4, seed=seed)

    def feedback(number: int, ranking: list[str], grades: dict[Any, int]) -> dict[str, Any]:
        gains = who.clicks(Impression(tuple(ranking)), grades, number).gains
        return {"clicks": [name for name, gain in zip(ranking, gains, strict=True) if gain]}

    return feedback


async def _feed(app: Any, stream: Any, feedback: Feedback, a_second: float) -> None:
    """Rank and learn, as clients would."""
    model = await app.models.get(None)
    for number, (X, y) in enumerate(stream, start=1):
        names = [f"item {number % 1000:03d}-{i:02d}" for i in range(len(y))]
        docs = {name: dict(zip(_FEATURES, row, strict=True)) for name, row in zip(names, X.round(4).tolist(), strict=True)}
        found = await answer(model, {"id": number, "docs": docs})
        ranking = found["ranking"][: found.get("shown")]
        await answer(model, {"id": number, **feedback(number, ranking, dict(zip(names, y.tolist(), strict=True)))})
        await asyncio.sleep(1.0 / a_second)


async def answer(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    """The answer of a served model. Raises RuntimeError if it refuses the request."""
    status, found = await model.answer(json.dumps(request).encode())
    if status != 200:
        raise RuntimeError(f"the stream's own request was refused: {found}")
    return dict(found)
