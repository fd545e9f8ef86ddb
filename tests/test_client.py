"""The client, against servers that are killed, slow, full, or refuse."""

import asyncio
import contextlib
import http.server
import itertools
import json
import threading
import time
import types

import pytest

from benchmarks._http import Server
from online_rank.client import AsyncClient, Client, Grades, Rank, ServiceError
from online_rank.serving.durable import read_service

RANK = Rank(id="q1", docs={"a": {"x": 3}, "b": {"x": 1}})
GRADES = Grades(id="q1", grades={"a": 0, "b": 2})


class Script(http.server.BaseHTTPRequestHandler):
    """Answers as its server's script says: a status and an answer, seconds to wait, or None to hang up."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((self.path, asked, self.headers.get("authorization")))
        step = self.server.script.pop(0) if self.server.script else (200, {"id": asked["id"], "learned": True})
        if isinstance(step, float):
            time.sleep(step)
            step = None
        if step is None:
            self.close_connection = True
            return
        status, answer = step
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def scripted(*script):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Script) as server:
        server.script, server.asked = [*script], []
        server.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


class Both:
    """One interface to both clients."""

    def __init__(self, kind, url, **settings):
        self._kind, self._settings = kind, {"url": url, **settings}

    def __getattr__(self, name):
        def call(*arguments):
            if self._kind is Client:
                with Client(**self._settings) as client:
                    return getattr(client, name)(*arguments)

            async def main():
                async with AsyncClient(**self._settings) as client:
                    return await getattr(client, name)(*arguments)

            return asyncio.run(main())

        return call


kinds = pytest.mark.parametrize("kind", [Client, AsyncClient])
FULL = (503, {"error": "250 requests are being answered already", "request_id": "r1"})


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr("online_rank.client._FIRST", 0.01)


@kinds
def test_what_has_no_answer_is_sent_again_under_its_id(kind):
    with scripted(None, FULL, (502, b"<html>"), 1.3) as server:
        client = Both(kind, server.url, timeout=1.0, token="t" * 8)
        assert client.send(GRADES) == {"id": "q1", "learned": True}
        sent = ("/learn", {"id": "q1", "grades": {"a": 0, "b": 2}}, "Bearer tttttttt")
        assert server.asked == [sent] * 5


@kinds
def test_what_is_refused_is_not_sent_again(kind):
    with scripted((400, {"error": "no query is waiting under this id", "request_id": "r7"})) as server:
        with pytest.raises(ServiceError, match="400: no query is waiting under this id") as refused:
            Both(kind, server.url).send(GRADES)
        assert (refused.value.status, refused.value.request_id, len(server.asked)) == (400, "r7", 1)


@kinds
def test_patience_ends(kind, monkeypatch):
    # By a clock on which each look takes .05 seconds.
    clock = itertools.count(0.0, 0.05)
    monkeypatch.setattr("online_rank.client.time", types.SimpleNamespace(monotonic=lambda: next(clock), sleep=time.sleep))
    with scripted(*[FULL] * 100) as server:
        with pytest.raises(ServiceError, match="503: 250 requests are being answered") as full:
            Both(kind, server.url, patience=0.2).send(GRADES)
        assert full.value.request_id == "r1"
        assert 3 <= len(server.asked) <= 4
    with pytest.raises(ServiceError, match="no answer") as away:
        Both(kind, server.url, patience=0.0).send(RANK)
    assert away.value.status == 0


@kinds
def test_batches_keep_their_order_and_their_errors(kind):
    with scripted((200, {"id": "first"}), (400, {"error": "no"}), FULL) as server:
        found = Both(kind, server.url, at_once=1, key={"shop": "north"}).send_all(
            [RANK, GRADES, Grades(id="q2", grades={}), Grades(id="q3", grades={})]
        )
        assert [found[0], *found[2:]] == [{"id": "first"}, {"id": "q2", "learned": True}, {"id": "q3", "learned": True}]
        assert isinstance(found[1], ServiceError)
        assert [path for path, *_ in server.asked] == ["/rank?shop=north"] + ["/learn?shop=north"] * 4


@kinds
@pytest.mark.parametrize("body", [b"<html>", b"[]"])
def test_a_page_in_place_of_an_answer_is_an_error_of_its_request_alone(kind, body):
    with scripted((200, body), (200, {"id": "q2"})) as server:
        first, second = Both(kind, server.url, at_once=1).send_all([RANK, GRADES])
        assert second == {"id": "q2"}
        assert isinstance(first, ServiceError)
        assert str(first) == f"200: this is no answer of online-rank: {body.decode()}"


@kinds
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"url": "localhost:8000"}, "url is 'localhost:8000'; it must begin with http:// or https://"),
        ({"patience": -1.0}, "patience is -1.0"),
        ({"timeout": 0.0}, "timeout is 0.0"),
        ({"at_once": 0}, "at_once is 0"),
    ],
)
def test_settings_are_checked(kind, settings, message):
    with pytest.raises(ValueError, match=message):
        kind(**{"url": "http://localhost:8000", **settings})


@pytest.mark.slow
@kinds
def test_every_piece_is_learned_once_though_the_server_is_killed(kind, tmp_path):
    folder, n = str(tmp_path / "state"), 300
    with Server(folder) as server:
        client = Both(kind, f"http://127.0.0.1:{server.port}", patience=60.0)
        client.send_all([Rank(id=i, docs={"a": {"x": 3}, "b": {"x": 1}}) for i in range(n)])
        answers = []
        sending = threading.Thread(
            target=lambda: answers.extend(client.send_all([Grades(id=i, grades={"a": 0, "b": 2}) for i in range(n)]))
        )
        sending.start()
        time.sleep(0.1)
        server.stop(kill=True)
        with Server(folder, port=server.port):
            sending.join()
    assert [answer["learned"] or answer.get("duplicate") for answer in answers] == [True] * n
    assert read_service(folder).counts()["learned"] == n
