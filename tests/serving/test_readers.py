"""Readers rank with the model of a learner, and the learner learns from the feedback on what they ranked, once."""

import asyncio
import contextlib
import json
import math
import struct
import sys
from binascii import b2a_base64
from pathlib import Path

import httpx
import pytest

from benchmarks._http import Server
from online_rank import History, PerceptronRanker, PlackettLuce, SwapRanker
from online_rank.serving import FeedbackPlan, Limits, Models, RankingApp, RankingService, outbox
from online_rank.serving import readers as module
from online_rank.serving import served as served_module
from online_rank.serving.challenge import from_today
from online_rank.serving.durable import DurableService, read_service
from online_rank.serving.elsewhere import rankings_in, taken
from online_rank.serving.leading import LeadingApp
from online_rank.serving.readers import ReaderModels
from online_rank.serving.served import ServedModel
from online_rank.storage.files import from_bytes, to_bytes

DOCS = {"a": {"x": 3.0}, "b": {"x": 1.0, "y": 2.0}}
RANK = {"id": "q1", "docs": DOCS}
GRADES = {"id": "q1", "grades": {"a": 0, "b": 2}}


class Away(httpx.AsyncBaseTransport):
    """A learner that can be away."""

    def __init__(self, app):
        self.inner, self.is_away, self.paths = httpx.ASGITransport(app), False, []

    async def handle_async_request(self, request):
        self.paths.append(request.url.path)
        if self.is_away:
            raise httpx.ConnectError("away")
        return await self.inner.handle_async_request(request)


class Client:
    def __init__(self, app):
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")

    async def post(self, path, body, key=None, **headers):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **headers}
        answer = await self.http.post(path, content=content, params=key or {}, headers=headers)
        return answer.status_code, answer.json()


def run(scenario, make=lambda: RankingService(PerceptronRanker()), n_readers=1, cache=None, **settings):
    """Run `scenario(learner, link, *readers)`, clients of a learner and of readers, and the way between them."""

    async def main():
        app = RankingApp(Models(make, **settings), key="shop" if settings.get("by_key") else None)
        link = Away(app)
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(app.running())
            clients = []
            for n in range(n_readers):
                models = ReaderModels("http://localhost", name=f"reader {n}", key=app._key, cache=cache)
                models.http = httpx.AsyncClient(transport=link, base_url="http://localhost")
                reader = RankingApp(models, key=app._key)
                await stack.enter_async_context(reader.running())
                clients.append(Client(reader))
                clients[-1].models = models
            learner = Client(app)
            learner.models = app.models
            await scenario(learner, link, *clients)

    asyncio.run(main())


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(module, "_BETWEEN_LOOKS", 0.02)
    monkeypatch.setattr(module, "_BETWEEN_TRIES", 0.02)
    monkeypatch.setattr(outbox, "_BETWEEN_TRIES", 0.02)


async def until(condition):
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


def service_of(client):
    return client.models.open_models[""].durable.service


def test_a_reader_ranks_as_the_learner_does_and_feedback_is_learned_once():
    async def scenario(learner, link, reader, other):
        assert await reader.post("/rank", RANK) == await learner.post("/rank", {**RANK, "greedy": True})
        # At any process, as soon as the client likes.
        status, answer = await other.post("/learn", GRADES)
        assert (status, answer["learned"]) == (200, True)
        assert await reader.post("/learn", GRADES) == (200, {"id": "q1", "learned": False, "duplicate": True})
        assert service_of(learner).counts()["learned"] == 1
        taught = to_bytes(service_of(learner).model)
        await until(lambda: to_bytes(service_of(reader).model) == taught and to_bytes(service_of(other).model) == taught)
        assert (await reader.post("/rank", {**RANK, "id": "q2"}))[1]["ranking"] == ["b", "a"]

    run(scenario, n_readers=2)


def test_the_model_is_fetched_only_when_it_has_changed():
    async def scenario(learner, link, reader):
        await reader.post("/rank", RANK)
        model = service_of(reader).model
        n = len(link.paths)
        await until(lambda: len(link.paths) > n + 3)
        assert service_of(reader).model is model
        answer = await reader.http.get("/metrics")
        assert "online_rank_sent_total 1.0" in answer.text
        assert float(answer.text.partition("\nonline_rank_seconds_behind ")[2].partition("\n")[0]) < 1.0
        assert (await learner.http.get("/metrics")).text.count("online_rank_elsewhere_total 1.0") == 1

    run(scenario)


def test_rankings_continue_while_the_learner_is_away_and_feedback_is_not_acknowledged(monkeypatch, tmp_path):
    monkeypatch.setattr(outbox, "PATIENCE", 0.2)

    async def scenario(learner, link, reader):
        await reader.post("/rank", {**RANK, "id": "q0"})
        await until(lambda: not reader.models.outbox.n_bytes)
        link.is_away = True
        assert (await reader.post("/rank", RANK))[0] == 200
        status, answer = await reader.post("/learn", GRADES)
        assert (status, "learned" in answer) == (503, False)
        assert (await reader.post("/learn", {**GRADES, "id": "q0"}))[0] == 503
        assert (await reader.http.get("/readyz")).status_code == 200
        link.is_away = False
        assert (await reader.post("/learn", GRADES))[1]["learned"]
        # A reader that begins while the learner is away has the model of the cache; without one it is not ready.
        link.is_away = True
        for cache, expected in ((tmp_path, 200), (None, 503)):
            models = ReaderModels("http://localhost", name="late", cache=cache)
            models.http = httpx.AsyncClient(transport=link, base_url="http://localhost")
            late = Client(RankingApp(models))
            assert (await late.post("/rank", {**RANK, "id": "q3"}))[0] == expected
            assert (await late.http.get("/readyz")).status_code == expected
            await models.close()

    run(scenario, cache=tmp_path)


def test_readers_of_a_server_that_lost_the_lead_are_not_ready(monkeypatch):
    """They answered /readyz with 200, ranked with an old model, and took feedback that their learner never learns."""
    monkeypatch.setattr(module, "_MOST_WITHOUT_LEAD", 0.1)

    async def scenario(learner, link, reader):
        async def readiness():
            answer = await reader.http.get("/readyz")
            return answer.status_code, answer.json().get("error", "")

        async def until_it_is(status):
            async with asyncio.timeout(30):
                while (await readiness())[0] != status:
                    await asyncio.sleep(0.01)

        leads, waits = link.inner, httpx.ASGITransport(LeadingApp(lambda: None, Limits()))
        assert await readiness() == (200, "")
        link.inner = waits
        await until_it_is(503)
        assert (await readiness())[1] == "another server leads than the learner of this reader, http://localhost"
        # It leads nowhere while it is away, and rankings continue for those who ask.
        link.is_away = True
        await asyncio.sleep(0.1)
        assert (await readiness())[0] == 503
        assert (await reader.post("/rank", RANK))[0] == 200
        link.is_away, link.inner = False, leads
        await until_it_is(200)
        assert (await reader.post("/learn", GRADES))[1]["learned"]

    run(scenario)


def test_the_queue_is_bounded_and_feedback_on_what_was_dropped_is_an_error(monkeypatch):
    async def scenario(learner, link, reader):
        await reader.post("/rank", {**RANK, "id": "q0"})
        await until(lambda: not reader.models.outbox.n_bytes)
        link.is_away = True
        await reader.post("/rank", RANK)
        monkeypatch.setattr(outbox, "_MOST_BYTES", reader.models.outbox.n_bytes + 50)
        await reader.post("/rank", {**RANK, "id": "q2"})
        link.is_away = False
        status, answer = await reader.post("/learn", GRADES)
        assert (status, answer["error"].partition(":")[0]) == (409, "the ranking of this query never reached the learner")
        assert (await reader.post("/learn", {**GRADES, "id": "q2"}))[1]["learned"]
        assert (await reader.http.get("/metrics")).text.count("online_rank_dropped_total 1.0") == 1

    run(scenario)


def test_each_reader_draws_other_lists_and_clicks_on_them_are_learned():
    docs = {f"d{i}": {"x": float(i % 3)} for i in range(12)}

    async def scenario(learner, link, *readers):
        drawn = []
        for n, reader in enumerate(readers):
            lists = [(await reader.post("/rank", {"id": f"{n} {i}", "docs": docs}))[1] for i in range(4)]
            assert all(answer["shown"] == 5 for answer in lists)
            drawn.append([answer["ranking"][:5] for answer in lists])
        assert drawn[0] != drawn[1]
        for n, reader in enumerate(readers):
            for i in range(4):
                assert (await reader.post("/learn", {"id": f"{n} {i}", "clicks": [drawn[n][i][0]]}))[1]["learned"]
        service = service_of(learner)
        assert service.counts()["learned"] == 8
        assert service.model.n_shown == 0

    run(scenario, lambda: RankingService(SwapRanker(PlackettLuce(5))), n_readers=2)


def test_windows_gather_events_that_come_to_readers():
    plan = FeedbackPlan(window=60, events={"click": 1, "purchase": 3})

    async def scenario(learner, link, reader):
        await reader.post("/rank", {**RANK, "ts": 1000})
        for event, doc in (("click", "a"), ("purchase", "b")):
            answer = await reader.post("/learn", {"id": "q1", "event": event, "doc": doc, "ts": 1030})
            assert answer == (200, {"id": "q1", "accepted": True})
        await reader.post("/rank", {**RANK, "id": "q2", "ts": 1100})
        await until(lambda: service_of(learner).counts()["learned"] == 1)

    run(scenario, lambda: RankingService(PerceptronRanker(), plan=plan))


def test_keys_have_their_models_and_new_keys_are_made_by_the_learner(tmp_path):
    async def scenario(learner, link, reader):
        north, south = {"shop": "north"}, {"shop": "south"}
        for key in (north, south):
            assert (await reader.post("/rank", RANK, key))[0] == 200
        assert (await reader.post("/rank", {**RANK, "id": "q2"}, north))[0] == 200
        for query in ("q1", "q2"):
            assert (await reader.post("/learn", {**GRADES, "id": query}, north))[1]["learned"]
        await until(lambda: reader.models.open_models["north"].durable.service.model.n_features == 2)
        assert (await reader.post("/rank", {**RANK, "id": "q3"}, north))[1]["scores"] != [0.0, 0.0]
        assert (await reader.post("/rank", {**RANK, "id": "q3"}, south))[1]["scores"] == [0.0, 0.0]
        assert (await reader.post("/rank", RANK, {"shop": "a/b"}))[0] == 400
        await until(lambda: not reader.models.outbox.n_bytes)
        assert learner.models.open_models["north"].n_elsewhere == 2
        # What was ranked for a key that is gone holds up nothing.
        link.is_away = True
        await reader.post("/rank", {**RANK, "id": "q4"}, south)
        await learner.models.delete("south")
        link.is_away = False
        await until(lambda: reader.models.outbox.n_refused == 1 and "south" not in reader.models.open_models)
        assert (await reader.post("/learn", {**GRADES, "id": "q4"}, south))[0] == 409

    run(scenario, by_key=True, directory=tmp_path / "shops")


def test_a_key_that_takes_no_rankings_holds_up_no_other():
    async def main():
        async def send(key, body):
            sent.append(key)
            return (503, {"error": "the model of this key cannot be opened"}) if key == "bad" else (200, {})

        sent = []
        box = outbox.Outbox(send)
        for key, query in (("bad", 1), ("bad", 2), ("good", 1), ("bad", 3), ("good", 2)):
            box.put(key, query, b"{}")
        assert [await box.send_some() for _ in range(3)] == [False, True, False]
        assert sent == ["bad", "good", "bad"]
        assert [each[:2] for each in box._waiting] == [("bad", 1), ("bad", 2), ("bad", 3)]

    asyncio.run(main())


def test_what_changes_the_model_is_for_the_learner():
    async def scenario(learner, link, reader):
        await reader.post("/rank", RANK)
        for path, body in (("/forget", {"ids": ["q1"]}), ("/model/rollback", {}), ("/ranked", [])):
            status, answer = await reader.post(path, body)
            assert (status, answer["error"].partition(":")[0]) == (409, "this is a reader")
        await until(lambda: not reader.models.outbox.n_bytes)
        assert (await reader.post("/learn", {"cmd": "stats"}))[1]["stats"]["ranked"] == 1
        assert (await reader.post("/rank", b"{"))[0] == 400

    run(scenario)


@pytest.mark.parametrize("status", [401, 403])
def test_a_reader_whose_token_is_refused_says_so_and_no_client_is_blamed(status, caplog):
    async def scenario(learner, link, reader):
        await reader.post("/rank", RANK)
        await until(lambda: not reader.models.outbox.n_bytes)
        said = b'{"error": "send the token"}'
        refusing = httpx.MockTransport(lambda _: httpx.Response(status, stream=httpx.ByteStream(said)))
        reader.models.http = httpx.AsyncClient(transport=refusing, base_url="http://localhost")
        code, answer = await reader.post("/learn", GRADES)
        assert (code, answer["error"].partition(":")[0]) == (503, "the learner refuses the token of this reader")
        await until(lambda: "refuses the token of this reader" in caplog.text)
        assert (await reader.post("/rank", {**RANK, "id": "q2"}))[0] == 200
        reader.models.http = httpx.AsyncClient(transport=link, base_url="http://localhost")
        for query in ("q1", "q2"):
            assert (await reader.post("/learn", {**GRADES, "id": query}))[1]["learned"]

    run(scenario)


def test_the_context_that_a_challenger_looks_at_reaches_the_learner():
    def make():
        today, challenge = from_today({"x": 1.0}, History("user") | SwapRanker(), k=3)
        return RankingService(today, challenge=challenge)

    async def scenario(learner, link, reader):
        for i in range(3):
            ask = {"id": i, "docs": {name: {"x": n} for n, name in enumerate("abcd")}, "context": {"user": "u"}}
            _, answer = await reader.post("/rank", ask)
            assert (await reader.post("/learn", {"id": i, "clicks": answer["ranking"][1:2]}))[1]["learned"]
        challenge = service_of(learner).challenge
        assert challenge.model["SwapRanker"].weights.any()
        assert challenge.n_failed == 0

    run(scenario, make)


def test_columns_and_binary_requests_reach_the_learner():
    import numpy as np

    async def scenario(learner, link, reader):
        head = {"id": "q1", "features": ["x", "y"], "documents": ["a", "b"]}
        binary = b"float32\n" + json.dumps(head).encode() + b"\n" + np.array([[3, 0], [1, 2]], "<f4").tobytes()
        await reader.post("/rank", binary, **{"Content-Type": "application/vnd.online-rank.float32"})
        await reader.post("/rank", {**head, "id": "q2", "rows": [[3, 0], [1, None]]})
        for query in ("q1", "q2"):
            assert (await reader.post("/learn", {**GRADES, "id": query}))[1]["learned"]

    run(scenario)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ({"request": RANK, "scores": [1.0]}, "scores must be 2 finite numbers, in the order of the documents"),
        ({"request": RANK, "scores": "AAAA"}, "scores are not 64-bit floats in base64"),
        ({"request": RANK, "scores": "?"}, "Only base64 data is allowed"),
        (
            {"request": RANK, "scores": b2a_base64(struct.pack("<2d", 1.0, math.nan)).decode().strip()},
            "scores must be 2 finite",
        ),
        ({"request": GRADES, "scores": []}, "request is not one to rank a query"),
        ({"request": RANK, "scores": [1, 2], "draw": {"order": ["a"]}}, "draw: the model of this service draws no lists"),
        ({"request": 5, "scores": []}, "not a JSON object"),
        ({"request": "x", "scores": []}, "Invalid base64-encoded string"),
    ],
)
def test_rankings_from_elsewhere_are_checked(message, error):
    async def scenario(learner, link, reader):
        before = to_bytes(service_of(learner))
        status, answer = await learner.post("/ranked", [message])
        assert (status, answer["ranked"]) == (200, 0)
        assert answer["refused"][0]["error"].startswith(error)
        assert to_bytes(service_of(learner)) == before
        assert (await learner.post("/ranked", {"no": "list"}))[0] == 400

    run(scenario)


def test_scores_in_base64_and_in_a_list_are_equal():
    """A reader sends the bits of its scores; a program may send a list."""
    scores = [0.1 + 0.2, -1e-300]
    service, expected = RankingService(PerceptronRanker()), RankingService(PerceptronRanker())
    binary = b2a_base64(struct.pack("<2d", *scores), newline=False).decode()
    for each, given in ((service, binary), (expected, scores)):
        (message,) = rankings_in(json.dumps([{"request": RANK, "scores": given}]).encode())
        assert taken(each, message).outcome.waiting[4] == scores


def test_a_program_that_ranks_from_a_model_file_says_what_it_ranked(tmp_path):
    """And the learner knows it after a restart."""
    model = from_bytes(to_bytes(SwapRanker(PlackettLuce(2, seed=3))))
    shown = model.show_one(DOCS)
    scores = model.predict_one(DOCS)
    message = {"request": RANK, "scores": [*scores.values()], "draw": shown.to_dict(), "model": "file"}
    make = lambda: RankingService(SwapRanker(PlackettLuce(2)))  # noqa: E731

    async def scenario():
        served = ServedModel(DurableService(make(), tmp_path / "state"))
        assert await served.take_rankings(json.dumps([message, message]).encode()) == (200, {"ranked": 2, "refused": []})
        served.durable.close()
        served = ServedModel(DurableService(make(), tmp_path / "state"))
        unknown = {**message, "draw": {"order": ["a", "c"]}}
        _, answer = await served.take_rankings(json.dumps([unknown]).encode())
        assert answer["refused"][0]["error"] == "draw has documents that the query does not have: 'c'"
        assert (await served.answer(b'{"id": "q1", "clicks": ["b"]}'))[1]["learned"]
        await served.close()

    asyncio.run(scenario())
    assert read_service(tmp_path / "state").counts()["learned"] == 1


def test_feedback_soon_after_a_restart_is_to_come_again_for_readers_may_have_its_ranking(monkeypatch, tmp_path):
    monkeypatch.setattr(served_module, "_ON_THE_WAY", 0.01)
    make = lambda: RankingService(PerceptronRanker())  # noqa: E731
    message = {"request": RANK, "scores": [0.0, 0.0], "model": "file"}
    feedback = json.dumps(GRADES).encode()

    async def scenario():
        served = ServedModel(DurableService(make(), tmp_path / "state"))
        assert (await served.answer(feedback))[0] == 400
        await served.answer(json.dumps({**RANK, "id": "other"}).encode())
        await served.close()
        served = ServedModel(DurableService(make(), tmp_path / "state"))
        status, answer = await served.answer(feedback)
        assert (status, answer["error"][-15:]) == (503, "send this again")
        await served.take_rankings(json.dumps([message]).encode())
        assert (await served.answer(feedback))[1]["learned"]
        monkeypatch.setattr(served, "_back_until", 0.0)
        assert (await served.answer(feedback.replace(b"q1", b"q9")))[0] == 400
        await served.close()

    asyncio.run(scenario())


def test_what_models_remember_reaches_the_learner_with_the_ranking():
    from online_rank import History, StreamScaler

    def make():
        return RankingService(History("document", half_life=60.0) | StreamScaler() | PerceptronRanker())

    async def scenario(learner, link, reader):
        for i in range(3):
            await reader.post("/rank", {**RANK, "id": i, "ts": 1000 + 10 * i})
            assert (await reader.post("/learn", {**GRADES, "id": i, "ts": 1005 + 10 * i}))[1]["learned"]
            taught = to_bytes(service_of(learner).model)
            await until(lambda taught=taught: to_bytes(service_of(reader).model) == taught)
        # What a learner alone comes to.
        alone = make()
        for i in range(3):
            alone.handle(json.dumps({**RANK, "id": i, "ts": 1000 + 10 * i}).encode())
            alone.handle(json.dumps({**GRADES, "id": i, "ts": 1005 + 10 * i}).encode())
        assert to_bytes(service_of(learner).model) == to_bytes(alone.model)
        text = f'{{"at": [1.0]}}\x1e{json.dumps(RANK)}'
        _, answer = await learner.post("/ranked", [{"request": text, "scores": [1, 2]}])
        assert answer["refused"][0]["error"].startswith("what waits with the query is not what the model makes of it")

    run(scenario, make)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_readers_end_with_the_learner_that_started_them(tmp_path):
    def runs(pid):
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        return False

    with Server(str(tmp_path / "state"), options=["--readers", "1"]) as server:
        tasks = Path(f"/proc/{server.process.pid}/task")
        asyncio.run(until(lambda: any(task.read_text() for task in tasks.glob("*/children"))))
        (reader,) = [pid for task in tasks.glob("*/children") for pid in task.read_text().split()]
        asyncio.run(until(lambda: b"--reads-from" in Path(f"/proc/{reader}/cmdline").read_bytes()))
        server.stop(kill=True)
    asyncio.run(until(lambda: not runs(reader)))
