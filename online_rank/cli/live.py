"""`online-rank demo --live`: a page that watches a ranker learn from a synthetic stream."""

import asyncio
import json
from typing import Any

from online_rank import AdditiveRanker
from online_rank.cli.demo import QUERIES
from online_rank.cli.options import Place
from online_rank.cli.serve import serve
from online_rank.serving.protocol import RankingService
from online_rank.stream.synth import Drifting

_MEASURE = "ndcg@10"

_FEATURES = (
    "bm25 title", "bm25 body", "clicks today", "clicks a year", "age", "price", "stock", "rating", "reviews", "returns",
    "margin", "same brand", "same size", "same colour", "distance", "delivery", "length", "pictures", "spelling", "spam",
)  # fmt: skip


def run() -> None:
    """Serve the page on any free port, and feed the service behind it until a signal to stop."""
    changes = tuple(range(QUERIES, 100 * QUERIES, QUERIES))
    stream = Drifting(None, drift_points=changes, n_features=len(_FEATURES), n_documents=(10, 30), seed=0)
    feeding: list[asyncio.Task[None]] = []

    def started(app: Any) -> None:
        feeding.append(asyncio.get_running_loop().create_task(feed(app, stream)))

    serve(lambda: RankingService(AdditiveRanker(_MEASURE), measure=_MEASURE), Place(port=0), started)


async def feed(app: Any, stream: Drifting, a_second: float = 60.0) -> None:
    """Rank and learn, as clients would that grade every document."""
    served = await app.models.get(None)
    for number, (X, y) in enumerate(stream, start=1):
        names = [f"item {number % 1000:03d}-{i:02d}" for i in range(len(y))]
        docs = {name: dict(zip(_FEATURES, row, strict=True)) for name, row in zip(names, X.round(4).tolist(), strict=True)}
        for request in ({"docs": docs}, {"grades": dict(zip(names, y.tolist(), strict=True))}):
            status, answer = await served.answer(json.dumps({"id": number, **request}).encode())
            if status != 200:
                raise RuntimeError(f"the stream's own request was refused: {answer}")
        await asyncio.sleep(1.0 / a_second)
