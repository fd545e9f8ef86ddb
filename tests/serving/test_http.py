"""The service over HTTP: in process where that is enough, and as a process that is killed."""

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import (
    AdditiveRanker,
    DirectRanker,
    LossTracker,
    PerceptronRanker,
    PlackettLuce,
    PositionBias,
    StreamScaler,
    SwapRanker,
)
from online_rank.serving import FeedbackPlan, commit
from online_rank.serving.commit import CommitError, GroupCommit
from online_rank.serving.course import Course
from online_rank.serving.durable import DurableService
from online_rank.serving.http import Limits, RankingApp
from online_rank.serving.models import Models
from online_rank.serving.monitor import Monitor
from online_rank.serving.openapi import description
from online_rank.serving.outcomes import Reply
from online_rank.serving.protocol import RankingService
from online_rank.storage.files import to_bytes
from online_rank.storage.folder import CheckpointError
from online_rank.storage.state import StateDirectory
from tests.helpers import until
from tests.serving.asking import asked, client_of

RANK = {"id": "q1", "docs": {"a": {"clicks": 3.0, "age": 1.0}, "b": {"clicks": 1.0, "age": 2.0}}}
LEARN = {"id": "q1", "grades": {"a": 0, "b": 2}}


def make():
    return RankingService(StreamScaler() | PerceptronRanker())


def query(number, n_documents=5, seed=0):
    """A request to rank and one with grades."""
    rng = np.random.default_rng([seed, number])
    X = rng.normal(size=(n_documents, 3)).round(3)
    docs = {f"d{i}": dict(zip("xyz", row, strict=True)) for i, row in enumerate(X.tolist())}
    grades = {f"d{i}": int(X[i, 0] > 0) + int(X[i, 0] > 1) for i in range(n_documents)}
    return {"id": number, "docs": docs}, {"id": number, "grades": grades}


def test_explain_without_the_field_is_an_error_and_leaves_no_query():
    async def scenario(client, app):
        reply = await client.post("/explain", json=RANK)
        assert reply.status_code == 400
        assert "it must be of the kind explain" in reply.text
        reply = await client.post("/learn", json=LEARN)
        assert reply.status_code != 200

    run(scenario)


def test_an_explanation_makes_no_tenant(tmp_path):
    async def scenario(client, app):
        wanted = {**RANK, "explain": [*RANK["docs"]][:2]}
        assert (await client.post("/explain?shop=new", json=wanted)).status_code == 404
        assert (await client.post("/rank?shop=new", json=RANK)).status_code == 200
        reply = await client.post("/explain?shop=new", json=wanted)
        assert reply.status_code == 200
        assert reply.json()["explanation"]["difference"] == 0.0

    run(scenario, Models(make, directory=tmp_path, by_key=True), key="shop")


def shown_by(monitor, service):
    return {**monitor.figures(service.stats()), **monitor.shown(service.model)}


def run(scenario, models=None, **options):
    """Run `scenario(client, app)` against an application in this process."""
    return asked(scenario, RankingApp(models or Models(make), **options))


class TestRequests:
    def test_rank_learn_and_learn_again(self):
        async def scenario(client, app):
            ranked = await client.post("/rank", json=RANK)
            assert ranked.status_code == 200
            assert ranked.json() == {"id": "q1", "ranking": ["a", "b"], "scores": [0.0, 0.0]}
            learned = (await client.post("/learn", json=LEARN)).json()
            # NDCG of [0, 2] against [2, 0]: 1 / log2(3).
            assert learned == {"id": "q1", "learned": True, "loss": pytest.approx(1 - 1 / np.log2(3))}
            assert (await client.post("/learn", json=LEARN)).json() == {"id": "q1", "learned": False, "duplicate": True}
            again = (await client.post("/rank", json={**RANK, "id": "q2"})).json()
            assert again["ranking"] == ["b", "a"]

        run(scenario)

    def test_answers_equal_the_protocol(self):
        direct, requests = make(), [request for number in range(20) for request in query(number)]

        async def scenario(client, app):
            for request in requests:
                path = "/rank" if "docs" in request else "/learn"
                assert (await client.post(path, json=request)).json() == direct.handle(json.dumps(request).encode()).answer
            assert (await client.get("/stats")).json()["stats"] == direct.stats()

        run(scenario)

    def test_curves_equal_the_model(self):
        docs = {name: {f"f{k}": float(j * k) for k in range(14)} for j, name in enumerate("abc")}

        async def scenario(client, app):
            assert (await client.get("/curves")).json() == {"features": 0, "curves": []}
            await client.post("/rank", json={"id": 1, "docs": docs})
            await client.post("/learn", json={"id": 1, "grades": {"a": 0, "b": 1, "c": 2}})
            first, whole = [(await client.get(path)).json() for path in ("/curves", "/curves/all")]
            assert (first["features"], len(first["curves"]), len(whole["curves"])) == (14, 12, 14)
            assert first["curves"] == whole["curves"][:12]
            assert len(first["curves"][0]["values"]) == len(first["curves"][0]["line"]) > 1

        run(scenario, Models(lambda: RankingService(AdditiveRanker())))

    def test_models_without_curves_have_none_to_show(self):
        async def scenario(client, app):
            assert (await client.get("/curves")).json() == {"features": 0, "curves": []}

        run(scenario)

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "not a JSON object"),
            (b"[]", "not a JSON object"),
            (b'{"id": 1, "docs": {"a": {"x": NaN}}}', "not a JSON object: JSON is malformed"),
            (b'{"id": 1, "docs": {"a": {"x": 1e999}}}', "docs['a']['x'] is 1e999: number out of range"),
            (b'{"id": 1, "docs": {"a": {"x": 1}, "a": {"x": 2}}}', "stands twice"),
            (b'{"id": "q", "grades": {"a": 1}}', "no query is waiting"),
            (b'{"id": 1, "docs": {"a": {"x": "1"}}}', "x"),
            (b"\xff\xfe{}", "not a JSON object"),
            (b'{"cmd": "quit"}', 'cmd is "quit": invalid enum value'),
            (b"[" * 100_000, "not a JSON object"),
        ],
    )
    def test_a_bad_body_is_refused_and_changes_nothing(self, content, reason):
        async def scenario(client, app):
            answer = await client.post("/rank", content=content, headers={"content-type": "application/json"})
            assert answer.status_code == 400
            assert reason in answer.json()["error"]
            assert (await client.get("/stats")).json()["stats"]["ranked"] == 0

        run(scenario)

    def test_limits(self):
        async def scenario(client, app):
            json_type = {"content-type": "application/json"}
            answer = await client.post("/rank", content=b" " * 101, headers=json_type)
            assert (answer.status_code, answer.json()["error"]) == (413, "a request of more than 100 bytes")
            answer = await client.post("/rank", content=_chunks([b" " * 50] * 3), headers={**json_type, "content-length": "99"})
            assert answer.status_code == 413
            assert (await client.post("/rank", content=_chunks([b"{}"]), headers=json_type)).status_code == 411
            assert (await client.post("/rank", content=b"{}")).status_code == 415
            assert (await client.post("/rank", content=b"{}", headers={"content-type": "text/plain"})).status_code == 415
            refused = await client.get("/rank")
            assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
            assert (await client.get("/nothing")).status_code == 404

            async def slow():
                yield b"{"
                await asyncio.sleep(5)

            answer = await client.post("/rank", content=slow(), headers={**json_type, "content-length": "2"})
            assert answer.status_code == 408

        run(scenario, limits=Limits(body=100, seconds=0.05))

    def test_a_token_is_asked_for_everywhere_but_where_nothing_is_to_be_seen(self):
        async def scenario(client, app):
            for path in ("/stats", "/events", "/metrics"):
                assert (await client.get(path)).status_code == 401
            assert (await client.post("/rank", json=RANK)).status_code == 401
            for path in ("/", "/healthz", "/docs", "/openapi.json"):
                assert (await client.get(path)).status_code == 200
            for wrong in ("Bearer secre", "Bearer secret12s", "secret", "Basic secret", "Bearer \xe9"):
                given = {"authorization": wrong.encode("latin-1")}
                assert (await client.post("/rank", json=RANK, headers=given)).status_code == 401
            answer = await client.post("/rank", json=RANK, headers={"authorization": "Bearer secret12"})
            assert answer.status_code == 200

        run(scenario, token="secret12")

    def test_other_hosts_are_turned_away_so_that_no_page_can_reach_a_local_server(self):
        async def scenario(client, app):
            for host, status in (("localhost:8000", 200), ("127.0.0.1", 200), ("[::1]:80", 200), ("evil.example", 421),
                                 ("localhost.evil.example", 421), ("LOCALHOST:", 200), ("", 421)):  # fmt: skip
                assert (await client.get("/stats", headers={"host": host})).status_code == status

        run(scenario)

    @pytest.mark.parametrize(
        "host",
        [
            "localhost:80@evil.com",
            "localhost:evil.com",
            "user@localhost",
            "localhost/x",
            "[::1",
            "::1",
            "[::1]x",
            "a b",
            "h:-1",
        ],
    )
    def test_a_host_that_is_none_is_refused(self, host):
        """`localhost:80@evil.com` passed for localhost."""

        async def scenario(client, app):
            answer = await client.get("/stats", headers={"host": host})
            assert answer.status_code == 400
            assert "Host" in answer.json()["error"]
            twice = await client.get("/stats", headers=[("host", "localhost"), ("host", "localhost")])
            assert twice.status_code == 400

        run(scenario)

    def test_metrics_and_health(self):
        async def scenario(client, app):
            await client.post("/rank", json=RANK)
            await client.post("/learn", json=LEARN)
            await client.post("/learn", json={"id": "?"})
            text = (await client.get("/metrics")).text
            for line in (
                'online_rank_requests_total{path="/rank",status="200"} 1.0',
                'online_rank_requests_total{path="/learn",status="400"} 1.0',
                'online_rank_latency_seconds_count{path="/learn"} 2.0',
                "online_rank_ranked_total 1.0",
                "online_rank_learned_total 1.0",
                "online_rank_pending 0.0",
                "online_rank_served_loss_upper 1.0",
            ):
                assert line in text.splitlines()
            assert (await client.get("/healthz")).json() == {"ok": True}

        run(scenario)

    def test_the_description_names_every_path(self):
        async def scenario(client, app):
            described = (await client.get("/openapi.json")).json()
            assert described["openapi"] == "3.1.0"
            for path in ("/rank", "/learn", "/stats", "/events"):
                operation = next(iter(described["paths"][path].values()))
                assert [parameter["name"] for parameter in operation["parameters"]] == ["<shop>"]
            secured = {path for path, of in described["paths"].items() if "security" in next(iter(of.values()))}
            assert secured == {*described["paths"]} - {"/", "/healthz", "/readyz", "/docs", "/openapi.json"}
            page = (await client.get("/docs")).text
            app.stop()  # or /events would never end
            for path in described["paths"]:
                assert f"{path}</code>" in page
                assert (await client.request("HEAD", path)).status_code != 404
            assert "<shop>" not in page

        run(scenario, Models(make, directory=None), key="<shop>", token="secret12")

    @pytest.mark.slow
    @given(st.data())
    @settings(max_examples=100)
    def test_the_schemas_allow_what_is_answered_and_no_more(self, data):
        import jsonschema

        described = description(None, with_token=False)
        bad = [None, "a", ["a", "a"], {"a": "1"}, {"a": None}]
        ids = st.sampled_from(["q", 7, "x" * 1001, 2**63, 1.5, None, True])
        fields = {
            "docs": st.sampled_from([{}, {"a": {"x": 1}, "b": {}}, {"a": {"x": "1"}}, *bad]),
            "grades": st.sampled_from([{"a": 0, "b": 2}, {"a": -1, "b": 1}, {"a": 0.5, "b": 1}, *bad]),
            "clicks": st.sampled_from([[], ["a"], {"a": 0.7}, {"a": -1}, *bad]),
            "other": st.just({}),
        }
        request = data.draw(st.fixed_dictionaries({"id": ids}, optional=fields))
        path = "/learn" if {"grades", "clicks"} & set(request) else "/rank"
        schema = described["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        allowed = jsonschema.Draft202012Validator({**described, **schema}).is_valid(request)
        service = RankingService(SwapRanker(PlackettLuce(k=2)) if "clicks" in request else PerceptronRanker())
        if path == "/learn":
            service.handle(b'{"id": "q", "docs": {"a": {"x": 1}, "b": {}}}')
            service.handle(b'{"id": 7, "docs": {"a": {"x": 1}, "b": {}}}')
        assert allowed == ("error" not in service.handle(json.dumps(request).encode()).answer)

    def test_the_page_needs_nothing_from_elsewhere(self):
        async def scenario(client, app):
            answer = await client.get("/")
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            page = answer.text.replace("http://www.w3.org/2000/svg", "")
            assert "http:" not in page
            assert "https:" not in page
            assert "innerHTML" not in page  # names come from clients

        run(scenario)

    def test_the_page_knows_the_parameter_that_names_a_model(self, tmp_path):
        async def scenario(client, app):
            assert '<html data-key="a&quot;b" lang' in (await client.get("/")).text

        run(scenario, Models(make, directory=tmp_path, by_key=True), key='a"b')

    def test_events_begin_with_a_snapshot_and_end_when_the_server_stops(self):
        async def scenario(client, app):
            await client.post("/rank", json=RANK)
            await client.post("/learn", json=LEARN)
            asyncio.get_running_loop().call_later(0.2, app.stop)
            answer = await client.get("/events")
            (event,) = [line for line in answer.text.splitlines() if line]
            shown = json.loads(event.removeprefix("data: "))
            assert shown["stats"]["learned"] == 1
            assert [name for name, _ in shown["weights"]] == ["clicks", "age"]
            (query,) = shown["queries"]
            assert query["documents"] == [["a", 0.0, 0], ["b", 0.0, 2]]
            assert dict(query["changes"]).keys() == {"clicks", "age"}

        run(scenario)


async def _chunks(content):
    for chunk in [content] if isinstance(content, bytes) else content:
        yield chunk


def test_clicks_are_learned_from_the_list_that_was_drawn():
    async def scenario(client, app):
        for number in range(5):
            rank, _ = query(number)
            shown = (await client.post("/rank", json=rank)).json()
            assert sorted(shown["ranking"]) == sorted(rank["docs"])
            clicked = {"id": number, "clicks": [shown["ranking"][1]]}
            assert (await client.post("/learn", json=clicked)).json()["learned"] is True
            assert (await client.post("/learn", json=clicked)).json()["duplicate"] is True
        assert (await app.models.get(None)).snapshot()["stats"]["learned"] == 5

    run(scenario, Models(lambda: RankingService(StreamScaler() | SwapRanker())))


class TestMounted:
    def test_an_application_under_a_path_of_another_one_answers_everything(self):
        from starlette.applications import Starlette
        from starlette.routing import Mount

        from online_rank.serving import Models, RankingApp

        async def main():
            app = RankingApp(Models(make), token="secret12")
            outer = Starlette(routes=[Mount("/ranking/of", app)])
            given = {"authorization": "Bearer secret12"}
            async with httpx.AsyncClient(
                transport=httpx.ASGITransport(outer), base_url="http://localhost/ranking/of"
            ) as client:
                assert (await client.post("/rank", json=RANK)).status_code == 401
                assert (await client.post("/rank", json=RANK, headers=given)).json()["ranking"] == ["a", "b"]
                assert (await client.post("/learn", json=LEARN, headers=given)).json()["learned"]
                assert (await client.get("/stats", headers=given)).json()["stats"]["learned"] == 1
                for path in ("/", "/docs", "/openapi.json", "/healthz"):
                    assert (await client.get(path)).status_code == 200
            await app.models.close()

        asyncio.run(main())

    @pytest.mark.parametrize("entered", [True, False])
    def test_windows_end_without_requests_in_an_application_whose_lifespan_lets_time_pass(self, entered, caplog):
        """They never ended in an application that was mounted, silently."""

        async def main():
            plan = FeedbackPlan(window=0.2)
            models = Models(lambda: RankingService(PerceptronRanker(), plan=plan), idle=0.05)
            app = RankingApp(models)
            client = client_of(app)
            async with app.running() if entered else contextlib.nullcontext(), client:
                for answer in (await client.post("/rank", json=RANK), await client.post("/learn", json=LEARN)):
                    assert answer.status_code == 200
                service = (await models.get(None)).durable.service
                until = time.monotonic() + (20.0 if entered else 0.7)
                while not service.stats()["learned"] and time.monotonic() < until:
                    await asyncio.sleep(0.05)
                return service.stats()["learned"]

        assert asyncio.run(main()) == entered
        assert ("RankingApp.running was not entered" in caplog.text) == (not entered)


class TestFigures:
    @staticmethod
    async def counters(client):
        lines = [line for line in (await client.get("/metrics")).text.splitlines() if "_total" in line and line[0] != "#"]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}

    def test_counters_never_fall_while_models_are_put_away_and_brought_back(self, tmp_path):
        def small():
            return RankingService(PerceptronRanker(), wait_bytes=4000)

        async def scenario(client, app):
            before = await self.counters(client)
            for number in range(5):
                for shop in ("one", "two", "three"):
                    rank, learn = query(number)
                    assert (await client.post(f"/rank?shop={shop}", json=rank)).status_code == 200
                    if not number % 3:
                        assert (await client.post(f"/learn?shop={shop}", json=learn)).json()["learned"]
                    after = await self.counters(client)
                    assert all(after[name] >= value for name, value in before.items())
                    before = after
            assert before["online_rank_ranked_total"] == 15.0
            assert before["online_rank_learned_total"] == 6.0
            # Of queries 1, 2 and 4 that wait, the first goes.
            assert before["online_rank_evicted_total"] == 3.0

        run(scenario, Models(small, directory=tmp_path, by_key=True, max_open=1), key="shop")

    def test_requests_that_are_not_let_in_are_counted(self):
        async def scenario(client, app):
            given = {"authorization": "Bearer secret12"}
            await client.post("/rank", json=RANK)
            await client.get("/stats", headers={"host": "evil.example"})
            await client.get("/wp-login.php", headers=given)
            text = (await client.get("/metrics", headers=given)).text
            for line in (
                'online_rank_requests_total{path="/rank",status="401"} 1.0',
                'online_rank_requests_total{path="/stats",status="421"} 1.0',
                'online_rank_requests_total{path="other",status="404"} 1.0',
            ):
                assert line in text.splitlines()

        run(scenario, token="secret12")

    def test_a_journal_that_goes_while_it_is_measured_counts_nothing(self, tmp_path):
        (tmp_path / "state").mkdir()

        async def scenario(client, app):
            (tmp_path / "state" / "journal-999").symlink_to("gone")
            assert (await client.get("/metrics")).status_code == 200

        run(scenario, Models(make, directory=tmp_path / "state"))


OF_FILE = {"content-type": "application/octet-stream"}


class TestModel:
    @staticmethod
    def model(n, scale=1.0):
        model = StreamScaler() | PerceptronRanker()
        for number in range(n):
            rank, learn = query(number, seed=1)
            model.learn_one(rank["docs"], {name: int(scale * grade) for name, grade in learn["grades"].items()})
        return model

    def test_few_models_are_sent_and_received_at_a_time(self):
        async def scenario(client, app):
            sent = asyncio.Event()

            async def stalled(message):
                if message["type"] == "http.response.body":
                    sent.set()
                    await asyncio.Event().wait()

            async def nothing():
                return await asyncio.Event().wait()

            def asked(method, path):
                headers = [
                    (b"host", b"localhost"),
                    (b"content-length", b"10"),
                    (b"content-type", b"application/octet-stream"),
                ]
                scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
                scope |= {"headers": headers, "root_path": "", "client": None, "server": None, "http_version": "1.1"}
                return asyncio.create_task(app(scope | {"scheme": "http"}, nothing, stalled))

            waiting = [asked("GET", "/model"), asked("POST", "/model")]
            await sent.wait()
            for refused in (
                await client.get("/model"),
                await client.post("/model", content=to_bytes(self.model(1)), headers=OF_FILE),
                await client.post("/model/rollback", json={}),
            ):
                assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            assert (await client.post("/rank", json=query(0)[0])).status_code == 200
            waiting[0].cancel()
            await asyncio.wait(waiting[:1])
            assert (await client.get("/model")).status_code == 200
            waiting[1].cancel()
            await asyncio.wait(waiting)
            assert not app.paths.n_files

        run(scenario, limits=Limits(files=2))

    def test_a_model_is_sent_for_a_limited_time(self):
        async def scenario(client, app):
            async def stalled(message):
                await asyncio.Event().wait()

            scope = {"type": "http", "method": "GET", "path": "/model", "query_string": b"", "headers": [], "root_path": ""}
            await asyncio.wait_for(app(scope, asyncio.Event().wait, stalled), 60.0)
            assert not app.paths.n_files

        run(scenario, limits=Limits(seconds=0.001))

    def test_another_model_serves_from_now_on_and_the_one_before_again(self, tmp_path):
        other = self.model(30)

        async def scenario(client, app):
            for request in (*query(0), query(1)[0]):
                await client.post("/rank", json=request)
            before = (await client.get("/model")).content
            asked = {**query(5)[0], "id": "?"}
            first = (await client.post("/rank", json=asked)).json()
            assert (await client.post("/model", content=to_bytes(other), headers=OF_FILE)).json() == {"replaced": True}
            scores = other.predict_one(asked["docs"])
            answer = (await client.post("/rank", json=asked)).json()
            assert dict(zip(answer["ranking"], answer["scores"], strict=True)) == scores
            assert (await client.get("/model")).content == to_bytes(other)
            # Queries that were ranked before still wait, and counts continue.
            assert (await client.post("/learn", json=query(1)[1])).json()["learned"]
            assert (await client.get("/stats")).json()["stats"]["learned"] == 2
            learned = (await client.get("/model")).content
            assert (await client.post("/model/rollback", json={})).json() == {"replaced": True}
            assert (await client.get("/model")).content == before
            assert (await client.post("/rank", json=asked)).json() == first
            assert (await client.post("/model/rollback", json={})).status_code == 200
            assert (await client.get("/model")).content == learned

        run(scenario, Models(make, directory=tmp_path / "state"))

        async def again(client, app):
            assert (await client.get("/stats")).json()["stats"]["learned"] == 2
            assert (await client.post("/rank", json=query(9)[0])).status_code == 200
            before = (await client.get("/model")).content
            assert (await client.post("/model/rollback", json={})).status_code == 200
            assert (await client.get("/model")).content != before

        run(again, Models(make, directory=tmp_path / "state"))

    def test_what_is_no_model_that_can_be_served_is_refused_and_changes_nothing(self):
        async def scenario(client, app):
            await client.post("/rank", json=RANK)
            before = (await client.get("/model")).content
            bad = [b"", b"nonsense", before[:-1], to_bytes(StreamScaler()), to_bytes([1, 2]), to_bytes(SwapRanker())]
            for content in bad:
                answer = await client.post("/model", content=content, headers=OF_FILE)
                assert (answer.status_code, "model" in answer.json()["error"]) == (400, True)
            assert (await client.post("/model", json={})).status_code == 415
            assert (await client.post("/model/rollback", content=b"x", headers=OF_FILE)).status_code == 415
            assert (await client.post("/model/rollback", json={})).status_code == 409
            assert (await client.get("/model/rollback")).status_code == 405
            assert (await client.get("/model")).content == before
            assert (await client.post("/learn", json=LEARN)).json()["learned"]

        run(scenario)

    def test_counters_continue_and_a_token_is_needed(self, tmp_path):
        async def scenario(client, app):
            given = {"authorization": "Bearer secret12"}
            for number in range(3):
                for request in query(number):
                    await client.post("/rank", json=request, headers=given)
            before = await TestFigures.counters(_With(client, given))
            for path in ("/model", "/model/rollback"):
                assert (await client.post(path, json={})).status_code == 401
            assert (await client.get("/model")).status_code == 401
            content = (await client.get("/model", headers=given)).content
            assert (await client.post("/model", content=content, headers={**OF_FILE, **given})).status_code == 200
            after = await TestFigures.counters(_With(client, given))
            assert all(after[name] >= value for name, value in before.items())
            assert after["online_rank_learned_total"] == 3.0

        run(scenario, Models(make, directory=tmp_path / "state"), token="secret12")


class _With:
    """A client that sends headers along."""

    def __init__(self, client, headers):
        self.client, self.headers = client, headers

    async def get(self, path):
        return await self.client.get(path, headers=self.headers)


class TestViewers:
    def test_viewers_that_come_at_once_do_not_pass_the_limit(self):
        async def scenario(client, app):
            async def view():
                return (await client.get("/events")).status_code

            viewers = [asyncio.create_task(view()) for _ in range(7)]
            await until(lambda: sum(viewer.done() for viewer in viewers) == 4)
            app.stop()
            assert sorted(await asyncio.gather(*viewers)) == [200] * 3 + [503] * 4
            app.paths.stopping.clear()
            viewers = [asyncio.create_task(view()) for _ in range(3)]
            await until(lambda: app.paths.pages.n_open == 3)
            app.stop()
            assert await asyncio.gather(*viewers) == [200] * 3

        run(scenario, limits=Limits(streams=3))

    def test_what_they_see_is_made_once_for_all_of_them(self, monkeypatch):
        made = []

        async def scenario(client, app):
            model = await app.models.get(None)
            monkeypatch.setattr(model.monitor, "shown", lambda of: made.append(of) or {"has_curves": True})
            viewers = [asyncio.create_task(client.get("/events")) for _ in range(5)]
            await until(lambda: app.paths.pages.n_open == 5)
            await asyncio.sleep(0.05)
            app.stop()
            texts = {(await viewer).text for viewer in viewers}
            assert len(made) == len(texts) == 1

        run(scenario)


async def at_rest(app):
    """Wait until the rankings that were answered are written, too: before, no model is put away."""
    while not all(model.is_idle for model in app.models.open_models.values()):
        await asyncio.sleep(0.01)


class TestKeys:
    def test_a_request_that_a_new_model_refuses_makes_none(self, tmp_path):
        async def scenario(client, app):
            for path, request in (("/rank", {"id": 1, "docs": {"a": {"x": "1"}}}), ("/rank", {"id": 1}), ("/learn", LEARN)):
                answer = await client.post(f"{path}?shop=typo", json=request)
                assert answer.status_code == 400
                assert answer.json()["error"]
            answer = await client.post("/rank?shop=typo", json={"cmd": "save"})
            assert answer.status_code == 404
            assert "shop" in answer.json()["error"]
            assert [path.name for path in tmp_path.iterdir()] == [".owner"]
            assert (await client.post("/rank?shop=good", json=RANK)).status_code == 200
            assert (await client.get("/stats?shop=good")).json()["stats"]["ranked"] == 1

        run(scenario, Models(make, directory=tmp_path, by_key=True), key="shop")

    def test_an_error_about_a_key_names_its_parameter(self, tmp_path):
        async def scenario(client, app):
            for method, path in (("POST", "/rank"), ("GET", "/stats?shop=.."), ("GET", "/events?shop=unknown")):
                answer = await client.request(method, path, json=RANK if method == "POST" else None)
                assert answer.json()["error"].startswith("query parameter shop: ")

        run(scenario, Models(make, directory=tmp_path, by_key=True), key="shop")

    def test_each_key_has_its_model_that_survives_being_put_away(self, tmp_path):
        async def scenario(client, app):
            for number in range(6):
                for shop in ("one", "two", "three"):
                    rank, learn = query(number)
                    if shop == "two":
                        learn = {**learn, "grades": {name: 2 - grade for name, grade in learn["grades"].items()}}
                    assert (await client.post(f"/rank?shop={shop}", json=rank)).status_code == 200
                    assert (await client.post(f"/learn?shop={shop}", json=learn)).status_code == 200
                    assert len(app.models.open_models) <= 2
            stats = [(await client.get(f"/stats?shop={shop}")).json()["stats"] for shop in ("one", "two", "three")]
            assert [each["learned"] for each in stats] == [6, 6, 6]
            assert stats[0] == stats[2] != stats[1]

        run(scenario, Models(make, directory=tmp_path / "shops", by_key=True, max_open=2), key="shop")

    def test_a_model_that_is_used_while_it_is_put_away_is_brought_back(self, tmp_path):
        async def scenario(client, app):
            await client.post("/rank?shop=one", json=RANK)
            one = await app.models.get("one")
            await at_rest(app)
            writing, may_end, write = threading.Event(), threading.Event(), one.durable.writing

            def slow(generation):
                writing.set()
                assert may_end.wait(20)
                yield from write(generation)

            one.durable.writing = slow
            two = asyncio.create_task(client.post("/rank?shop=two", json=RANK))
            await asyncio.to_thread(writing.wait, 20)
            learning = asyncio.create_task(client.post("/learn?shop=one", json=LEARN))
            await asyncio.sleep(0.05)
            assert not learning.done()
            may_end.set()
            assert (await two).status_code == 200
            assert (await learning).json()["learned"]
            assert "one" in app.models.open_models
            await at_rest(app)
            await client.post("/rank?shop=three", json=RANK)
            assert set(app.models.open_models) == {"three"}
            assert (await client.get("/stats?shop=one")).json()["stats"]["learned"] == 1

        run(scenario, Models(make, directory=tmp_path, by_key=True, max_open=1), key="shop")

    def test_a_model_that_cannot_be_put_away_stays(self, tmp_path):
        async def scenario(client, app):
            await client.post("/rank?shop=one", json=RANK)
            one = await app.models.get("one")
            await at_rest(app)
            counts, write = app.models.counts, one.durable.writing

            def full(generation):
                raise OSError(28, "No space left on device")

            one.durable.writing = full
            answers = asyncio.gather(*(client.post(f"/rank?shop={shop}", json=query(1)[0]) for shop in ("two", "one")))
            assert [answer.status_code for answer in await answers] == [200, 200]
            assert await app.models.get("one") is one
            assert app.models.counts["ranked"] == counts["ranked"] + 2
            assert (await client.post("/learn?shop=one", json=LEARN)).json()["learned"]
            one.durable.writing = write

        run(scenario, Models(make, directory=tmp_path, by_key=True, max_open=1), key="shop")

    def test_a_hot_key_is_answered_while_cold_ones_come_from_a_slow_disk_and_go_there(self, tmp_path, monkeypatch):
        """Databases were closed by the event loop: while cold keys were loaded, all others waited for the disk."""
        begin, end, answered, waited = StateDirectory.__init__, StateDirectory.close, 0, set()

        def on_a_slow_disk(act, *arguments):
            """Takes until the hot key has been answered twice, which it never is by a loop that waits for this."""
            before, patience = answered, time.monotonic() + 20.0
            while answered < before + 2 and time.monotonic() < patience:
                time.sleep(0.005)
            waited.add((act, answered >= before + 2))
            act(*arguments)

        async def load(client):
            # Of three open keys, the one that waits longest is another cold one, not the hot one.
            return [(await client.post(f"/rank?shop=cold{i % 3 + 1}", json=query(i)[0])).status_code for i in range(2, 6)]

        async def scenario(client, app):
            for shop in ("cold1", "cold2", "hot"):
                assert (await client.post(f"/rank?shop={shop}", json=RANK)).status_code == 200
            nonlocal answered
            with monkeypatch.context() as patched:
                patched.setattr(StateDirectory, "__init__", lambda self, path: on_a_slow_disk(begin, self, path))
                patched.setattr(StateDirectory, "close", lambda self: on_a_slow_disk(end, self))
                loading = asyncio.create_task(load(client))
                while not loading.done():
                    assert (await client.post("/rank?shop=hot", json=query(answered)[0])).status_code == 200
                    answered += 1
                    await asyncio.sleep(0.001)
            assert await loading == [200] * 4
            assert waited == {(begin, True), (end, True)}

        run(scenario, Models(make, directory=tmp_path, by_key=True, max_open=3), key="shop")

    def test_keys_that_are_none(self, tmp_path):
        async def scenario(client, app):
            for bad in ("", "..", ".hidden", "a/b", "a\0b", "x" * 101, "%2e%2e", "ü"):
                assert (await client.post("/rank", params={"shop": bad}, json=RANK)).status_code == 400
            assert (await client.post("/rank", json=RANK)).status_code == 400
            assert (await client.get("/stats?shop=unknown")).status_code == 404
            assert (await client.get("/events?shop=unknown")).status_code == 404
            assert [path.name for path in tmp_path.iterdir()] == [".owner"]
            for number, status in enumerate((200, 200, 429)):
                assert (await client.post(f"/rank?shop=s{number}", json=RANK)).status_code == status

        run(scenario, Models(make, directory=tmp_path, by_key=True, max_keys=2), key="shop")

    def test_keys_need_a_directory(self):
        with pytest.raises(ValueError, match="needs a directory"):
            Models(make, by_key=True)

    def test_a_damaged_directory_costs_one_key_only(self, tmp_path):
        (tmp_path / "bad").mkdir()
        (tmp_path / "bad" / "state.db").write_bytes(b"damaged")

        async def scenario(client, app):
            both = await asyncio.gather(*(app.models.get("bad") for _ in range(2)))
            assert both[0] is both[1]
            # It ranks, and learns nothing, until it can be opened.
            assert (await client.post("/rank?shop=bad", json=RANK)).json()["greedy"]
            assert (await client.post("/learn?shop=bad", json=LEARN)).status_code == 503
            assert (await app.models.get("good")).durable.service.stats()["ranked"] == 0

        run(scenario, Models(make, directory=tmp_path, by_key=True), key="shop")

    def test_others_are_answered_while_a_model_is_opened(self, tmp_path):
        opening, may_end, made = threading.Event(), threading.Event(), []

        def slow():
            made.append(None)
            if len(made) == 4:  # Each new key has a service that judges its first request, and then its own.
                opening.set()
                assert may_end.wait(20)
            return make()

        async def scenario(client, app):
            assert (await client.post("/rank?shop=one", json=RANK)).status_code == 200
            two = [asyncio.create_task(client.post("/rank?shop=two", json=query(n)[0])) for n in range(3)]
            assert await asyncio.to_thread(opening.wait, 20)
            assert (await client.post("/learn?shop=one", json=LEARN)).json()["learned"]
            assert not any(task.done() for task in two)
            may_end.set()
            assert [answer.status_code for answer in await asyncio.gather(*two)] == [200] * 3
            assert len(made) == 4
            assert (await client.get("/stats?shop=two")).json()["stats"]["ranked"] == 3

        try:
            run(scenario, Models(slow, directory=tmp_path, by_key=True), key="shop")
        finally:
            may_end.set()

    def test_keys_that_come_at_once_count_each(self, tmp_path):
        async def scenario(client, app):
            answers = await asyncio.gather(*(client.post(f"/rank?shop=s{n}", json=RANK) for n in range(5)))
            assert sorted(answer.status_code for answer in answers) == [200, 200, 429, 429, 429]
            assert len(app.models.open_models) <= 2

        run(scenario, Models(make, directory=tmp_path, by_key=True, max_open=1, max_keys=2), key="shop")


class Disk(DurableService):
    """A service whose disk takes its time, counts, and may fail."""

    keeps = True

    def __init__(self):
        super().__init__(make())
        self.written, self.waits, self.fails = [], 0, False

    def append(self, records, sync):
        if sync:
            time.sleep(0.02)
            self.waits += 1
        if self.fails:
            raise OSError(5, "Input/output error")
        self.written += records


class TestGroupCommit:
    def test_requests_that_come_while_the_disk_is_busy_share_its_next_wait(self):
        async def main():
            disk = Disk()
            commits = GroupCommit(disk)
            await asyncio.gather(*(commits.add_and_wait(b"%d" % i) for i in range(50)))
            return disk

        disk = asyncio.run(main())
        assert disk.written == [b"%d" % i for i in range(50)]
        assert 1 <= disk.waits <= 2

    def test_nothing_is_acknowledged_before_it_is_written(self):
        async def main():
            disk = Disk()
            commits = GroupCommit(disk)

            async def one(i):
                await asyncio.sleep(random.Random(i).random() / 50)
                if i % 3:
                    commits.add(b"%d" % i)
                else:
                    await commits.add_and_wait(b"%d" % i)
                    assert b"%d" % i in disk.written

            await asyncio.gather(*map(one, range(100)))
            await commits.flush()
            assert sorted(disk.written) == sorted(b"%d" % i for i in range(100))
            assert commits.is_idle

        asyncio.run(main())

    def test_a_ranking_is_written_with_the_grade_that_follows_or_alone(self):
        async def main():
            disk, transactions = Disk(), []
            append = disk.append

            def counted(records, sync):
                transactions.append([*records])
                append(records, sync)

            disk.append = counted
            commits = GroupCommit(disk)
            commits.add(b"ranking")
            await asyncio.sleep(0)
            assert transactions == []
            assert not commits.is_idle
            await commits.add_and_wait(b"grade")
            assert transactions == [[b"ranking", b"grade"]]
            commits.add(b"another")
            for _ in range(500):
                if commits.is_idle:
                    break
                await asyncio.sleep(0.01)
            assert transactions == [[b"ranking", b"grade"], [b"another"]]

        asyncio.run(main())

    def test_where_nothing_is_kept_no_thread_writes_it(self, monkeypatch):
        async def scenario(client, app):
            await client.post("/rank", json=RANK)
            assert (await client.post("/learn", json=LEARN)).json()["learned"]

        monkeypatch.setattr(DurableService, "append", None)
        run(scenario)

    def test_a_broken_disk_stops_everything_and_says_so(self):
        async def main():
            disk = Disk()
            commits = GroupCommit(disk)
            disk.fails = True
            answers = await asyncio.gather(*(commits.add_and_wait(b"x") for _ in range(5)), return_exceptions=True)
            assert [type(answer) for answer in answers] == [CommitError] * 5
            disk.fails = False
            with pytest.raises(CommitError, match="Input/output error"):
                commits.require_working()
            with pytest.raises(CommitError):
                await commits.add_and_wait(b"y")
            assert disk.written == []

        asyncio.run(main())

    def test_the_server_then_refuses_what_it_cannot_keep(self, monkeypatch):
        monkeypatch.setattr(DurableService, "keeps", True)

        async def scenario(client, app):
            model = await app.models.get(None)
            await client.post("/rank", json=RANK)
            await model.commits.flush()

            def broken(records, sync):
                raise OSError(5, "Input/output error")

            model.durable.append = broken
            assert (await client.post("/learn", json=LEARN)).status_code == 503
            assert (await client.post("/learn", json=LEARN)).status_code == 503  # no "duplicate" that was never kept
            assert (await client.post("/rank", json=RANK)).status_code == 503
            assert (await client.get("/healthz")).status_code == 503

        run(scenario)

    def test_grades_that_come_twice_at_once_are_both_answered_after_the_disk(self, monkeypatch):
        monkeypatch.setattr(DurableService, "keeps", True)

        async def scenario(client, app):
            model = await app.models.get(None)
            events, append = [], model.durable.append

            def slow(records, sync):
                time.sleep(0.05)
                append(records, sync)
                events.append("on disk")

            await client.post("/rank", json=RANK)
            await model.commits.flush()
            model.durable.append = slow

            async def learn():
                answer = (await client.post("/learn", json=LEARN)).json()
                events.append("duplicate" if answer.get("duplicate") else "learned")

            await asyncio.gather(learn(), learn())
            assert events[0] == "on disk"
            assert {"duplicate", "learned"} <= set(events)

        run(scenario)


class TestDurable:
    def test_what_was_acknowledged_is_there_after_a_kill(self, tmp_path):
        # Without close() or save(): as if the process had died here. The lock is given back as the system would.
        durable = DurableService(make(), tmp_path / "state", every=7)

        async def main():
            commits = GroupCommit(durable)
            for number in range(10):
                for request in query(number):
                    await commits.add_and_wait(durable.service.handle(json.dumps(request).encode()).outcome)

        asyncio.run(main())
        stats = durable.service.stats()
        durable.close()
        again = DurableService(make(), tmp_path / "state", every=7)
        assert again.service.stats() == stats
        assert again.journal_bytes > 0
        again.close()

    def test_a_checkpoint_leaves_room_for_requests(self, tmp_path, monkeypatch):
        """A step, then the requests that come in; all steps at once when none does."""
        durable = DurableService(make(), tmp_path / "state", every=1000)
        steps = []
        between = GroupCommit._between_commits
        monkeypatch.setattr(commit, "_ROOM", 60.0)
        monkeypatch.setattr(GroupCommit, "_between_commits", lambda self, step: steps.append(step) or between(self, step))

        async def main():
            commits = GroupCommit(durable)
            saving = asyncio.ensure_future(commits.checkpoint())
            for number in range(5):
                for request in query(number):
                    await commits.add_and_wait(durable.service.handle(json.dumps(request).encode()).outcome)
            assert not saving.done()
            assert sum(step is not None for step in steps) < 4
            # A ranking that nobody waits for reaches the journal meanwhile.
            commits.add(durable.service.handle(json.dumps(query(9)[0]).encode()).outcome)
            while commits._outcomes:
                await asyncio.sleep(0.005)
            assert not saving.done()
            commits._next_step = 0.0
            monkeypatch.setattr(commit, "_ROOM", 0.0)
            await commits.add_and_wait()
            await saving
            assert not durable.is_saved
            monkeypatch.setattr(commit, "_ROOM", 60.0)
            await commits.checkpoint()
            assert durable.is_saved

        asyncio.run(asyncio.wait_for(main(), 30))
        durable.close()

    @pytest.mark.slow
    def test_a_checkpoint_soon_after_another_can_be_read(self, tmp_path, monkeypatch):
        """Its first step waited as if it belonged to the other, while the journal continued: no start could read it."""
        monkeypatch.setattr(commit, "_ROOM", 0.02)
        durable = DurableService(make(), tmp_path / "state", every=5)
        saved = set()

        async def main():
            commits = GroupCommit(durable)
            # A checkpoint may take as long as many queries, on a disk that others use too.
            for number in range(5000):
                for request in query(number):
                    await commits.add_and_wait(durable.service.handle(json.dumps(request).encode()).outcome)
                saved.add(durable.saved_at)
                if len(saved) > 5:
                    break

        asyncio.run(main())
        assert len(saved) > 3
        stats = durable.service.stats()
        durable.close()  # as if it had been killed
        again = DurableService(make(), tmp_path / "state", every=5)
        assert again.service.stats() == stats
        again.close()

    def test_a_service_that_is_not_new_does_not_begin_a_folder(self, tmp_path):
        used = make()
        used.handle(json.dumps(query(1)[0]).encode())
        with pytest.raises(CheckpointError, match="the service is not new"):
            DurableService(used, tmp_path / "state")
        with contextlib.closing(DurableService(make(), tmp_path / "state")) as durable:
            durable.service.handle(json.dumps(query(1)[0]).encode())
            with pytest.raises(ValueError, match="after change 1 is to be written, but the journal has 0"):
                durable.save()

    def test_checkpoints_are_written_however_many_requests_come(self, tmp_path, monkeypatch):
        """Each of eight clients always waits for its next grade: the journal is never idle."""
        monkeypatch.setattr(commit, "_ROOM", 0.0)
        durable = DurableService(make(), tmp_path / "state", every=10)
        sizes = []

        async def client(commits, first):
            for number in range(first, first + 25):
                for request in query(number):
                    await commits.add_and_wait(durable.service.handle(json.dumps(request).encode()).outcome)
                    sizes.append(durable.service.n_changes - durable.saved_at)

        async def main():
            commits = GroupCommit(durable)
            await asyncio.gather(*(client(commits, 100 * c) for c in range(8)))

        asyncio.run(main())
        # What is due is begun at the next turn, and takes several; each client changes at most one thing in each.
        assert max(sizes) <= 10 + 10 * 8
        stats = durable.service.stats()
        durable.close()  # as if it had been killed
        again = DurableService(make(), tmp_path / "state", every=10)
        assert again.service.stats() == stats
        again.close()

    def test_rankings_are_answered_while_a_checkpoint_is_written(self, tmp_path):
        async def scenario(client, app):
            model = await app.models.get(None)
            writing, may_end, write = threading.Event(), threading.Event(), model.durable.writing

            def slow(generation):
                writing.set()
                assert may_end.wait(20)
                yield from write(generation)

            model.durable.writing = slow
            for number in range(2):
                await client.post("/rank", json=query(number)[0])
            saving = asyncio.create_task(model.commits.checkpoint())
            await asyncio.to_thread(writing.wait, 20)
            assert (await client.post("/rank", json=query(2)[0])).status_code == 200
            learning = asyncio.create_task(client.post("/learn", json=query(0)[1]))
            await asyncio.sleep(0.05)
            assert not saving.done()
            assert not learning.done()  # not acknowledged: it is in no journal yet
            may_end.set()
            await saving
            assert (await learning).json()["learned"]
            assert not model.durable.is_saved  # the checkpoint covers what was there when it began
            stats = model.durable.service.stats()
            model.durable.close()  # as if it had been killed
            again = DurableService(make(), tmp_path / "state")
            assert again.service.stats() == stats
            again.close()

        run(scenario, Models(make, directory=tmp_path / "state"))

    def test_a_checkpoint_that_fails_is_heard_of_and_stops_nothing(self, tmp_path):
        async def scenario(client, app):
            model = await app.models.get(None)
            write = model.durable.store.generations.writing

            def full(snapshot, *rest):
                raise OSError(28, "No space left on device")
                yield

            model.durable.store.generations.writing = full
            answers = await asyncio.gather(model.commits.checkpoint(), model.commits.checkpoint(), return_exceptions=True)
            assert [type(answer) for answer in answers] == [CommitError] * 2
            assert "No space left" in str(model.durable.checkpoint_failure)
            for body in (RANK, LEARN):
                assert (await client.post("/rank" if body is RANK else "/learn", json=body)).status_code == 200
            assert 0.0 < model.durable.seconds_to_wait <= 2.0
            model.durable.store.generations.writing = write
            await model.commits.checkpoint()
            assert model.durable.checkpoint_failure is None
            assert model.durable.is_saved

        run(scenario, Models(make, directory=tmp_path / "state"))

    def test_line_breaks_in_a_request_do_not_break_the_journal(self, tmp_path):
        async def scenario(client, app):
            for request in (RANK, LEARN):
                path = "/rank" if request is RANK else "/learn"
                body = json.dumps(request, indent=2).replace("\n", "\r\n")
                headers = {"content-type": "application/json"}
                assert (await client.post(path, content=body, headers=headers)).status_code == 200

        run(scenario, Models(make, directory=tmp_path / "state"))
        again = DurableService(make(), tmp_path / "state")
        assert again.service.stats()["learned"] == 1
        again.close()


class TestMonitor:
    def test_it_measures_what_was_served(self):
        service, monitor = make(), Monitor()
        losses = []
        for number in range(40):
            rank, learn = (json.dumps(request).encode() for request in query(number))
            answer = service.handle(rank).answer
            before = monitor.before_learning(service.model)
            monitor.learned(service.handle(learn), service.model, before)
            grades = json.loads(learn)["grades"]
            if len(set(grades.values())) > 1:
                ranked = [grades[name] for name in answer["ranking"]]
                if len(set(answer["scores"])) == len(ranked):
                    gain = [(2**g - 1) / np.log2(i + 2) for i, g in enumerate(ranked)]
                    ideal = [(2**g - 1) / np.log2(i + 2) for i, g in enumerate(sorted(ranked, reverse=True))]
                    losses.append(1 - sum(gain) / sum(ideal))
                else:
                    losses.append(monitor.losses.mean)  # the first query, whose documents all tie
        assert monitor.losses.n == len(losses)
        assert monitor.losses.mean == pytest.approx(np.mean(losses))
        shown = shown_by(monitor, service)
        # The measure that it names, not its loss.
        served = shown["served"]
        assert (served["measure"], served["mean"]) == ("ndcg@10", pytest.approx(1 - np.mean(losses)))
        assert served["lower"] <= served["mean"] <= served["upper"]
        assert served["mean"] < served["recent"]
        json.dumps(shown, allow_nan=False)

    def test_a_rise_of_the_loss_is_marked_once_and_its_fall_is_not(self):
        monitor, model = Monitor(), PerceptronRanker()
        rng = np.random.default_rng(0)
        for t in range(3000):
            level = 0.5 if 1000 <= t < 2000 else 0.1
            loss = float(np.clip(level + 0.05 * rng.normal(), 0, 1))
            monitor.learned(Reply({"id": t}, feedback={}, served={}, loss=loss), model, None)
        (mark,) = monitor.drifts
        assert 1000 < mark < 1100

    def test_a_certificate_is_shown_if_the_model_has_one(self):
        model = LossTracker(PerceptronRanker(), comparators={"x alone": {"x": 1.0}})
        service, monitor = RankingService(model), Monitor()
        for number in range(20):
            rank, learn = (json.dumps(request).encode() for request in query(number))
            service.handle(rank)
            monitor.learned(service.handle(learn), service.model, None)
        ((n, loss, bound),) = shown_by(monitor, service)["certified"]
        assert n == monitor.losses.n == shown_by(monitor, service)["course"][-1][0]
        assert loss == pytest.approx(model.certificate().loss)
        assert loss <= bound

    def test_figures_are_of_one_kind_of_feedback(self):
        service = RankingService(SwapRanker(PlackettLuce(k=3, seed=1)))
        monitor = Monitor(clicks=service.draws)
        assert monitor.figures(service.stats())["served"]["measure"] == "reciprocal rank of the first click"
        for number in range(4):
            shown = service.handle(json.dumps(query(number)[0]).encode()).answer["ranking"]
            feedback = {"clicks": shown[:1]} if number < 3 else {"grades": query(number)[1]["grades"]}
            monitor.learned(service.handle(json.dumps({"id": number, **feedback}).encode()), service.model, None)
        figures = monitor.figures(service.stats())["served"]
        assert (figures["feedback"], figures["n"], figures["mean"], figures["recent"]) == ("clicks", 3, 1.0, 1.0)
        assert Monitor().figures(service.stats())["served"]["feedback"] == "grades"

    def test_names_are_shown_whole_unless_they_are_very_long(self):
        names = ["https://shop.example.com/a/long/path/to/the/product-1.html", "x" * 200 + "y" * 200]
        monitor, service = Monitor(), RankingService(PerceptronRanker())
        before = monitor.before_learning(service.model)
        docs = {name: {"a feature whose name is longer than forty characters": float(i)} for i, name in enumerate(names)}
        service.handle(json.dumps({"id": names[0], "docs": docs}).encode())
        reply = service.handle(json.dumps({"id": names[0], "grades": {names[0]: 0, names[1]: 1}}).encode())
        monitor.learned(reply, service.model, before)
        (shown,) = monitor.shown(service.model)["queries"]
        assert shown["id"] == names[0]
        assert {name for name, _, _ in shown["documents"]} == {names[0], "x" * 150 + "…" + "y" * 150}
        assert shown["changes"][0][0] == "a feature whose name is longer than forty characters"

    def test_a_model_without_weights_does_not_say_that_none_has_changed(self):
        for model, expected in ((DirectRanker(), None), (PerceptronRanker(), [])):
            monitor, service = Monitor(), RankingService(model)
            before = monitor.before_learning(service.model)
            for request in ({"id": 1, "docs": {"a": {"x": 1}, "b": {"x": 1}}}, {"id": 1, "grades": {"a": 0, "b": 1}}):
                reply = service.handle(json.dumps(request).encode())
            monitor.learned(reply, service.model, before)
            assert monitor.shown(service.model)["queries"][0]["changes"] == expected

    def test_the_largest_weights_equal_a_sort(self):
        model = PerceptronRanker()
        model.learn_one({"a": {f"f{j}": float((j * 7) % 31) for j in range(31)}, "b": {}}, {"a": 1, "b": 0})
        shown = Monitor().shown(model)["weights"]
        weights = dict(zip(model.feature_names, model.served_weights.tolist(), strict=True))
        assert shown == [[name, weights[name]] for name in sorted(weights, key=lambda name: -abs(weights[name]))[:16]]

    def test_clicks(self):
        service, monitor = RankingService(SwapRanker(PlackettLuce(k=3, seed=1))), Monitor()
        places = [1, 3, 2, None, 1, 1]
        bias = PositionBias(3)
        for number, place in enumerate(places):
            rank, _ = query(number)
            answer = service.handle(json.dumps(rank).encode()).answer
            clicked = [answer["ranking"][place - 1]] if place else []
            learn = json.dumps({"id": number, "clicks": clicked}).encode()
            monitor.shows_from = -1.0
            before = monitor.before_learning(service.model)
            reply = service.handle(learn)
            monitor.learned(reply, service.model, before)
            bias.update(reply.feedback)
        shown = shown_by(monitor, service)
        assert shown["served"]["mean"] == pytest.approx((1 + 1 / 3 + 1 / 2 + 0 + 1 + 1) / 6)
        assert shown["served"]["measure"] == "reciprocal rank of the first click"
        low, high = bias.interval()
        assert shown["bias"] == {"examination": list(bias.examination), "low": list(low), "high": list(high)}
        last = shown["queries"][0]
        assert [entry[1:] for entry in last["documents"]] == [[None, 1.0], [None, 0.0], [None, 0.0]]
        assert (last["n"], last["loss"]) == (3, 0.0)
        assert [one["loss"] for one in shown["queries"]][2] == 1.0
        json.dumps(shown, allow_nan=False)

    @pytest.mark.slow
    def test_memory_does_not_grow(self):
        course = Course(max_points=10)
        for number in range(20_000):
            if course.is_due(number):
                course.add((number,))
        assert len(course.rows) <= 10
        assert np.ptp(np.diff([row[0] for row in course.rows])) == 0


class TestProcess:
    """The command, as a separate process."""

    @staticmethod
    def start(directory, **environment):
        command = [sys.executable, "-m", "online_rank", "serve", "--port", "0", "--checkpoint", str(directory)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
        known = ("compiling", "continuing from", "ranks greedily")
        line = next((line for line in process.stderr if not any(word in line for word in known)), "")
        assert "listening on" in line, line
        return process, line.split()[-1].rstrip("/")

    @staticmethod
    def load(address, first, acknowledged, n_threads=4):
        """Threads that rank and learn until the server dies; ids of acknowledged grades go to `acknowledged`."""

        def client(offset):
            try:
                with httpx.Client(base_url=address) as http:
                    for number in range(first + offset, first + 10_000, n_threads):
                        rank, learn = query(number)
                        http.post("/rank", json=rank)
                        if http.post("/learn", json=learn).json().get("learned"):
                            acknowledged.append(number)
            except (httpx.HTTPError, ValueError):
                return

        threads = [threading.Thread(target=client, args=(i,)) for i in range(n_threads)]
        for thread in threads:
            thread.start()
        return threads

    @pytest.mark.slow
    def test_no_acknowledged_grade_is_lost_when_it_is_killed(self, tmp_path):
        acknowledged = []
        for life in range(3):
            process, address = self.start(tmp_path / "state")
            threads = self.load(address, life * 10_000, acknowledged)
            before, patience = len(acknowledged), time.monotonic() + 30
            while len(acknowledged) < before + 5 and time.monotonic() < patience:
                time.sleep(0.01)
            process.kill()
            for thread in threads:
                thread.join()
            process.wait()
            process.stderr.close()
        process, address = self.start(tmp_path / "state")
        assert acknowledged
        with httpx.Client(base_url=address) as http:
            for number in acknowledged:
                assert http.post("/learn", json=query(number)[1]).json() == {"id": number, "learned": False, "duplicate": True}
        process.terminate()
        assert process.wait(20) == 0
        process.stderr.close()

    @pytest.mark.slow
    def test_it_stops_in_good_order_while_a_page_is_open(self, tmp_path):
        process, address = self.start(tmp_path / "state", ONLINE_RANK_TOKEN="long-enough")
        with httpx.stream("GET", f"{address}/events", headers={"authorization": "Bearer long-enough"}) as stream:
            assert stream.status_code == 200
            next(stream.iter_text())
            process.send_signal(signal.SIGINT)
            started = time.monotonic()
            assert process.wait(20) == 0
            assert time.monotonic() - started < 8
        assert "Traceback" not in process.stderr.read()
        process.stderr.close()
