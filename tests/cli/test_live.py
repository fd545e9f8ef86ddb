"""What `demo --live` feeds its page with."""

import asyncio
import contextlib

import pytest

pytest.importorskip("starlette")

from online_rank.cli import live
from online_rank.cli.serve import Place, make_app
from online_rank.serving.protocol import RankingService
from online_rank.stream.synth import Drifting


def fed(model, feedback, stream):
    """The page after half a second of a stream."""
    app = make_app(lambda: RankingService(model), Place(port=0))

    async def main():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(live._feed(app, stream, feedback, 1e6), 0.5)
        return app.models.open_models[""].snapshot()

    return asyncio.run(main())


@pytest.fixture(scope="module")
def stream():
    return Drifting(None, drift_points=(), n_features=len(live._FEATURES), n_documents=(10, 30), seed=0)


def test_clicks(stream):
    shown = fed(live._clicked_model(0), live._clicks(0), stream)
    assert shown["stats"]["ranked"] - shown["stats"]["learned"] in (0, 1)
    assert len(shown["bias"]["examination"]) == 10
    assert {name for name, _ in shown["weights"]} <= set(live._FEATURES)
    assert shown["served"]["measure"] == "reciprocal rank of the first click"


def test_grades_and_their_certificate():
    changing = Drifting(None, drift_points=(20, 40), n_features=len(live._FEATURES), n_documents=(10, 30), seed=0)
    shown = fed(live._graded_model(changing), live._grades, changing)
    assert shown["bias"] is None
    *_, total, bound = shown["course"][-1]
    assert total <= bound
