"""What `demo --live` feeds its page with."""

import asyncio
import contextlib

from online_rank import AdditiveRanker
from online_rank.cli import live
from online_rank.cli.options import Place
from online_rank.cli.serve import make_app
from online_rank.serving.protocol import RankingService
from online_rank.stream.synth import Drifting
from tests.helpers import until


def test_grades_and_their_certificate():
    stream = Drifting(None, drift_points=(20, 40), n_features=len(live._FEATURES), n_documents=(10, 30), seed=0)
    app = make_app(lambda: RankingService(AdditiveRanker()), Place(port=0))

    async def fed():
        model, feeding = await app.models.get(None), asyncio.create_task(live.feed(app, stream, 1e6))
        await until(lambda: feeding.done() or model.durable.service.stats()["learned"] >= 60)
        feeding.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await feeding
        return model.snapshot()

    shown = asyncio.run(fed())
    assert shown["stats"]["ranked"] - shown["stats"]["learned"] in (0, 1)
    assert {name for name, _ in shown["weights"]} <= set(live._FEATURES)
    assert shown["bias"] is None
    _, total, bound = shown["certified"][-1]
    assert total <= bound
