"""What a request must not cost."""

import asyncio
import json
import tracemalloc

from online_rank import HashedFeatures, PerceptronRanker
from online_rank.serving import RankingService
from online_rank.serving.durable import DurableService
from online_rank.serving.served import ServedModel

BITS = 20


def test_a_ranking_does_not_copy_the_weights():
    """A ranking by a model of 2^20 hashed features copied all of them, 8 MB, in case it was shown on the page."""
    query = {"id": 1, "docs": {"a": {"x": 1.5}, "b": {"x": 2}}}
    ask, teach = json.dumps(query).encode(), json.dumps({**query, "grades": {"a": 1, "b": 0}}).encode()

    async def peak():
        served = ServedModel(DurableService(RankingService(HashedFeatures(BITS) | PerceptronRanker())))
        for each in (ask, teach):
            await served.answer(each)
        served.monitor.shows_from = float("-inf")
        tracemalloc.start()
        try:
            await served.answer(ask)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert asyncio.run(peak()) < 1 << 18
