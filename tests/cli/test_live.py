"""What `demo --live` feeds its page with."""

import asyncio
import contextlib

import pytest

pytest.importorskip("starlette")

from online_rank import AdditiveRanker
from online_rank.cli import live
from online_rank.cli.options import Place
from online_rank.cli.serve import make_app
from online_rank.serving.protocol import RankingService
from online_rank.stream.synth import Drifting


def test_grades_and_their_certificate():
    stream = Drifting(None, drift_points=(20, 40), n_features=len(live._FEATURES), n_documents=(10, 30), seed=0)
    app = make_app(lambda: RankingService(AdditiveRanker()), Place(port=0))

    async def fed():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(live.feed(app, stream, 1e6), 0.5)
        return app.models.open_models[""].snapshot()

    shown = asyncio.run(fed())
    assert shown["stats"]["ranked"] - shown["stats"]["learned"] in (0, 1)
    assert {name for name, _ in shown["weights"]} <= set(live._FEATURES)
    assert shown["bias"] is None
    *_, total, bound = shown["course"][-1]
    assert total <= bound
