"""A request to rank that has come whole is answered at once, as one that comes in parts."""

import asyncio
import contextlib
import json
import socket

import pytest

from online_rank import PerceptronRanker
from online_rank.serving import Limits, Models, RankingApp, RankingService
from online_rank.serving.readers import ReaderModels, _ReadModel
from online_rank.serving.server import EventLoop, listening_sockets, server
from tests.helpers import until

QUERY = {"id": 1, "docs": {"a": {"x": 1.0}, "b": {"x": 2.0}}}
ID = b"X-Request-Id: r-17\r\n"


def posted(body, head=b"Host: localhost\r\nContent-Type: application/json\r\n", path=b"/rank", version=b"1.1"):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"POST %s HTTP/%s\r\n%s%sContent-Length: %d\r\n\r\n%s" % (path, version, ID, head, len(content), content)


def a_reader():
    """The models of a reader whose learner is away."""
    models = ReaderModels("http://127.0.0.1:9", name="reader")
    models.open_models[""] = _ReadModel(PerceptronRanker(), '"e"', "http://127.0.0.1:9", 0)
    return models


def a_learner():
    return Models(lambda: RankingService(PerceptronRanker()))


both = pytest.mark.parametrize("models", [a_reader, a_learner])


def serving(scenario, models, token=None, **limits):
    """Run `scenario(port, running)` next to a server."""

    async def main():
        app = RankingApp(models(), token=token, limits=Limits(**limits))
        running, sockets = server(app), listening_sockets("127.0.0.1", 0)
        task = asyncio.create_task(running.serve(sockets))
        await until(lambda: running.started)
        try:
            await scenario(sockets[0].getsockname()[1], running)
        finally:
            running.should_exit = True
            await task

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        runner.run(main())


async def answered(reader):
    """An answer as it came: its head and its body."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
    return head, await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]))


async def asked(port, *parts):
    """The answer to a request that comes in these parts."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for part in parts:
        writer.write(part)
        await asyncio.sleep(0.05)
    found = await answered(reader)
    writer.close()
    return found


def tasks_of(running):
    """Of each connection, whether a task has answered a request of it."""
    return [connection.cycle is not None for connection in running.server_state.connections]


@both
def test_what_has_come_whole_takes_no_task_and_what_comes_in_parts_gets_the_same_answer(models):
    async def scenario(port, running):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        request = posted(QUERY)
        writer.write(request)
        at_once = await answered(reader)
        assert tasks_of(running) == [False]
        assert json.loads(at_once[1]) == {"id": 1, "ranking": ["a", "b"], "scores": [0.0, 0.0]}
        for at in (1, 30, len(request) - 60, len(request) - 1):
            writer.write(request[:at])
            await asyncio.sleep(0.05)
            writer.write(request[at:])
            assert await answered(reader) == at_once
        assert tasks_of(running) == [True]
        writer.close()

    serving(scenario, models)


@both
def test_requests_that_come_together_are_answered_in_their_order(models):
    async def scenario(port, running):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for first in (0, 20):
            writer.write(b"".join(posted({**QUERY, "id": t}) for t in range(first, first + 20)))
            assert [json.loads((await answered(reader))[1])["id"] for _ in range(20)] == [*range(first, first + 20)]
        writer.close()

    serving(scenario, models)


@both
@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (posted(b"{"), 400),
        (posted({"id": 1, "docs": {"a": {"x": "many"}}}), 400),
        (posted(QUERY, head=b"Host: elsewhere.example\r\nContent-Type: application/json\r\n"), 421),
        (posted(QUERY, head=b"Host: localhost\r\nContent-Type: text/plain\r\n"), 415),
        (posted(QUERY, head=b"Host: a b\r\nContent-Type: application/json\r\n"), 400),
        (posted({**QUERY, "meta": "long" * 100}), 413),
        (posted(QUERY, path=b"/rank?key=7"), 200),
        (posted(QUERY, version=b"1.0"), 200),
        (posted(QUERY, head=b"Host: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"), 200),
        (posted(QUERY, path=b"/rank%20"), 404),
    ],
)
def test_what_is_no_ordinary_request_is_answered_as_one_that_comes_in_parts(models, request_, status):
    async def scenario(port, running):
        whole, parted = await asked(port, request_), await asked(port, request_[:-1], request_[-1:])
        assert whole == parted
        assert int(whole[0].split()[1]) == status

    serving(scenario, models, body=200)


@both
def test_tokens_are_asked_for(models):
    token = b"Host: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\n"

    async def scenario(port, running):
        for request, status in (
            (posted(QUERY), 401),
            (posted(QUERY, head=token % b"feedbacks"), 403),
            (posted(QUERY, head=token % b"rankings"), 200),
        ):
            whole, parted = await asked(port, request), await asked(port, request[:-1], request[-1:])
            assert whole == parted
            assert int(whole[0].split()[1]) == status

    serving(scenario, models, token={"rank": ["rankings"], "learn": ["feedbacks"]})


def test_what_fails_is_answered_and_logged(monkeypatch, caplog):
    async def scenario(port, running):
        monkeypatch.setattr(RankingService, "_handled", lambda *_: 1 // 0)
        head, body = await asked(port, posted(QUERY))
        assert head.startswith(b"HTTP/1.1 500")
        assert json.loads(body)["request_id"] == "r-17"
        assert [record.message for record in caplog.records].count("a request failed") == 1

    serving(scenario, a_learner)


@both
def test_places_are_for_requests_that_take_time_and_the_others_are_refused_all_the_same(models):
    async def scenario(port, running):
        waiting = await asyncio.open_connection("127.0.0.1", port)
        waiting[1].write(posted(QUERY)[:-1])
        await until(lambda: running.config.app.figures.n_in_flight == 1)
        assert (await asked(port, posted(QUERY)))[0].startswith(b"HTTP/1.1 503")
        waiting[1].write(b"}")
        assert (await answered(waiting[0]))[0].startswith(b"HTTP/1.1 200")

    serving(scenario, models, requests=1)


@both
def test_an_answer_that_is_not_read_is_counted_later_and_holds_no_place(models):
    many = {"id": 1, "docs": {f"document {i} of many": {"x": i} for i in range(1500)}}

    async def scenario(port, running):
        figures = running.config.app.figures
        running.servers[0].sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        for reads in (True, False):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.connect(("127.0.0.1", port))
            client.sendall(posted(many))
            await until(lambda: figures.n_in_flight == 1)
            counted = len(figures.requests)
            client.setblocking(False)
            while reads and figures.n_in_flight:
                await asyncio.get_running_loop().sock_recv(client, 1 << 16)
            # One that reads nothing is left after a second.
            await until(lambda: not figures.n_in_flight)
            assert len(figures.requests) == counted + 1
            with contextlib.suppress(OSError):
                client.close()
            await until(lambda: not running.server_state.connections)

    serving(scenario, models, seconds=1.0)


@both
def test_a_connection_that_is_idle_after_an_answer_makes_room(models):
    """The one that has waited for its client for longest goes first, by its last request."""

    async def scenario(port, running):
        connections = []
        for _ in range(16):
            connections.append(await asyncio.open_connection("127.0.0.1", port))
            connections[-1][1].write(posted(QUERY))
            await answered(connections[-1][0])
        connections[0][1].write(posted(QUERY))
        await answered(connections[0][0])
        assert (await asked(port, posted(QUERY)))[0].startswith(b"HTTP/1.1 200")
        assert await asyncio.wait_for(connections[1][0].read(1), 60) == b""
        connections[0][1].write(posted(QUERY))
        assert (await answered(connections[0][0]))[0].startswith(b"HTTP/1.1 200")
        for _, writer in connections:
            writer.close()

    serving(scenario, models, connections=16)
