"""What would wait for too long is refused early, before anything changes: feedback before rankings."""

import asyncio
import json
import threading
import time

import pytest

from online_rank import PerceptronRanker
from online_rank.serving import Limits, Models, RankingApp, RankingService
from online_rank.serving.asgi import ARRIVAL
from tests.serving.asking import asked

DOCS = {"a": {"x": 1.0}, "b": {"x": 2.0}}


async def after_waiting(app, path, seconds, request):
    """The status and the answer of a request that has waited for its turn."""
    body, sent = json.dumps(request).encode(), []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    async def is_sent():
        pass

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    scope["extensions"] = {ARRIVAL: (time.perf_counter() - seconds, is_sent)}
    await app(scope, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"]), json.loads(sent[1]["body"])


@pytest.mark.parametrize(
    ("seconds", "statuses"), [(0.0, (200, 200)), (0.9, (200, 200)), (1.1, (200, 503)), (1.9, (200, 503)), (2.1, (503, 503))]
)
def test_what_has_waited_for_its_turn_is_refused_feedback_before_rankings(seconds, statuses):
    async def scenario(client, app):
        service = app.models.open_models[""].durable.service
        assert (await client.post("/rank", json={"id": 1, "docs": DOCS})).status_code == 200
        before = service.counts()
        ranked, _, _ = await after_waiting(app, "/rank", seconds, {"id": 2, "docs": DOCS})
        learned, headers, answer = await after_waiting(app, "/learn", seconds, {"id": 1, "grades": {"a": 0, "b": 1}})
        assert (ranked, learned) == statuses
        assert service.counts()["ranked"] - before["ranked"] == (ranked == 200)
        assert service.counts()["learned"] - before["learned"] == (learned == 200)
        if learned == 503:
            assert (answer["error"][:29], headers[b"retry-after"]) == ("too many requests wait: nothi", b"1")
            # Sent again, it is learned: nothing had changed.
            assert (await client.post("/learn", json={"id": 1, "grades": {"a": 0, "b": 1}})).json()["learned"]

    asked(scenario, RankingApp(Models(lambda: RankingService(PerceptronRanker()))))


def test_feedback_is_refused_while_other_feedback_waits_for_the_disk(tmp_path):
    go_on = threading.Event()

    async def scenario(client, app):
        (model,) = app.models.open_models.values()
        append = model.durable.append

        def slow(outcomes, sync):
            if sync:
                assert go_on.wait(60)
            append(outcomes, sync)

        async def learn(query_id):
            return await client.post("/learn", json={"id": query_id, "grades": {"a": 0, "b": 1}})

        for query_id in range(4):
            await client.post("/rank", json={"id": query_id, "docs": DOCS})
        await model.commits.flush()
        model.durable.append = slow
        first = asyncio.create_task(learn(0))
        while model.commits.since == float("inf"):
            await asyncio.sleep(0.01)
        second = asyncio.create_task(learn(1))
        await asyncio.sleep(0.3)
        refused = await learn(2)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert model.durable.service.counts()["learned"] == 2
        assert (await client.post("/rank", json={"id": 9, "docs": DOCS})).status_code == 200
        go_on.set()
        assert [(await each).status_code for each in (first, second)] == [200, 200]
        assert model.commits.since == float("inf")
        assert (await learn(2)).json()["learned"]

    app = RankingApp(Models(lambda: RankingService(PerceptronRanker()), directory=tmp_path), limits=Limits(queue=0.2))
    asked(scenario, app)
