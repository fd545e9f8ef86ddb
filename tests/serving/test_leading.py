"""Several servers of one state, of which one leads."""

import asyncio
import contextlib
import http.client
import json
import os
import signal
import time

import httpx
import pytest

from benchmarks._http import Server
from online_rank import PerceptronRanker
from online_rank.serving import Limits, Models, RankingApp, RankingService, leading
from online_rank.serving.durable import read_service
from online_rank.storage.folder import FolderInUse
from tests.reference import postgresql

DOCS = {"a": {"x": 3.0}, "b": {"x": 1.0}}


def test_a_server_answers_503_until_it_leads_and_when_it_leads_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr(leading, "_BETWEEN_TRIES", 0.02)
    monkeypatch.setattr(leading, "_BETWEEN_LOOKS", 0.02)
    others, stores = [FolderInUse("taken"), OSError("no route to host")], []

    def make():
        if others:
            raise others.pop(0)
        app = RankingApp(Models(lambda: RankingService(PerceptronRanker()), directory=tmp_path))
        stores.append(app.models.open_models[""].durable.store)
        stores[0].epoch = 7
        return app

    async def main():
        app, seen = leading.LeadingApp(make, Limits()), []
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")
        async with client, app._lifespan(app), asyncio.timeout(30):
            while len(seen) < 4:
                answer = await client.get("/readyz")
                found = answer.status_code, answer.json().get("error", ""), answer.headers.get("online-rank-epoch")
                if seen[-1:] != [found]:
                    seen.append(found)
                if found[0] == 200:
                    stores[0].failure = OSError("another server leads since epoch 7")
                    others.append(FolderInUse("taken"))
                await asyncio.sleep(0.005)
        return seen

    assert asyncio.run(main()) == [
        (503, "another server leads", None),
        (503, "the state cannot be reached: no route to host", None),
        (200, "", "7"),
        (503, "another server leads", None),
    ]


def asked(server, method, path, body=None):
    """The status and the answer of one of the processes on the port of a server."""
    with (
        contextlib.suppress(OSError, http.client.HTTPException),
        contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)) as connection,
    ):
        connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    return 0, {}


def until_all_are(server, status):
    """Wait until each process on the port of a server, asked again and again, answers with this status."""
    until, n = time.monotonic() + 120, 0
    while n < 20:
        assert time.monotonic() < until, f"no {status}"
        found, answer = asked(server, "GET", "/readyz")
        n = n + 1 if found == status else 0
        time.sleep(0.05)
    return answer


@pytest.mark.slow
def test_readers_next_to_servers_on_postgresql_follow_the_lead():
    if postgresql.programs() is None:
        pytest.skip("needs PostgreSQL's programs: apt-get install postgresql")
    taught = []

    def teach(server):
        for _ in range(20):
            number = len(taught)
            assert asked(server, "POST", "/rank", {"id": number, "docs": DOCS})[0] == 200
            status, answer = asked(server, "POST", "/learn", {"id": number, "grades": {"a": 0, "b": 1}})
            assert (status, answer["learned"]) == (200, True)
            taught.append(number)

    with postgresql.running() as database, contextlib.ExitStack() as stack:
        first, second = (stack.enter_context(Server(database.address, options=["--readers", "2"])) for _ in range(2))
        until_all_are(first, 200)
        assert until_all_are(second, 503)["error"]
        teach(first)
        os.kill(first.process.pid, signal.SIGSTOP)
        until_all_are(second, 200)
        teach(second)
        os.kill(first.process.pid, signal.SIGCONT)
        assert "another server leads" in until_all_are(first, 503)["error"]
        teach(second)
        assert read_service(database.address).counts()["learned"] == len(taught) == 60
