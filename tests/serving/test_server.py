"""Connections: what they may take, on a server in this process and as a command."""

import asyncio
import contextlib
import json
import os
import platform
import socket
import subprocess
import sys
import time

import pytest

from online_rank import PerceptronRanker
from online_rank.serving import Limits, Models, RankingApp, RankingService
from online_rank.serving.server import EventLoop, _Joined, listening_sockets, most_connections, server
from tests.helpers import until

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def serving(scenario, **limits):
    """Run `scenario(port, running)` next to a server with these limits."""

    async def main():
        app = RankingApp(Models(lambda: RankingService(PerceptronRanker())), limits=Limits(**limits))
        running, sockets = server(app), listening_sockets("127.0.0.1", 0)
        port = sockets[0].getsockname()[1]
        task = asyncio.create_task(running.serve(sockets))
        while not running.started:
            await asyncio.sleep(0.01)
        try:
            await scenario(port, running)
        finally:
            running.should_exit = True
            await task

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        runner.run(main())


async def connected(port, data=b""):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    return reader, writer


async def status_of(reader):
    return int((await asyncio.wait_for(reader.readline(), 60)).split()[1])


async def is_closed(reader):
    """Whether the server has closed a connection without an answer."""
    with contextlib.suppress(ConnectionResetError):
        return await asyncio.wait_for(reader.read(1), 60) == b""
    return True


def test_idle_connections_make_room_for_others():
    async def scenario(port, running):
        idle = [await connected(port, b"GET /healthz HTT" if i % 2 else b"") for i in range(40)]
        await until(lambda: len(running.server_state.connections) == 20)
        reader, writer = await connected(port, HEALTH)
        assert await status_of(reader) == 200
        assert all([await is_closed(reader) for reader, _ in idle[:20]])
        for _, one in [*idle, (reader, writer)]:
            one.close()

    serving(scenario, connections=20, seconds=60.0)


@pytest.mark.slow
def test_heads_that_do_not_come_are_not_waited_for():
    async def scenario(port, running):
        silent, half = await connected(port), await connected(port, HEALTH[:20])
        again = await connected(port, HEALTH)
        assert await status_of(again[0]) == 200
        again[1].write(HEALTH[:20])  # a second request on the same connection, which uvicorn no longer times
        assert len(running.server_state.connections) == 3
        await until(lambda: not running.server_state.connections)
        assert await is_closed(silent[0])
        for _, writer in (silent, half, again):
            writer.close()

    serving(scenario, seconds=2.0)


UNREAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


def that_reads_nothing(port, requests):
    """A client with little room, which sends requests and does not read the answers."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    one.connect(("127.0.0.1", port))
    one.sendall(requests)
    return one


@pytest.mark.slow
@pytest.mark.parametrize(
    "requests",
    [
        pytest.param(100 * UNREAD, id="many"),
        pytest.param(99 * UNREAD + UNREAD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), id="the last one closes"),
    ],
)
def test_answers_that_are_not_read_hold_no_place(requests):
    async def scenario(port, running):
        silent = [that_reads_nothing(port, requests) for _ in range(20)]
        async with asyncio.timeout(30):
            while len(running.server_state.connections) < 20:
                await asyncio.sleep(0.01)
            while running.server_state.connections:
                for one in silent[:10]:
                    with contextlib.suppress(OSError):  # It may be closed already.
                        one.sendall(b"G")  # More of what nobody reads keeps no place.
                await asyncio.sleep(0.1)
        for one in silent:
            one.close()

    serving(scenario, connections=20, seconds=1.0)


@pytest.mark.slow
def test_a_client_that_reads_slowly_gets_all_of_its_answers():
    async def scenario(port, running):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2048)
        writer.write(100 * UNREAD)
        found = 0
        for _ in range(10):
            await asyncio.sleep(0.3)  # Longer in all than the server waits for a client that reads nothing.
            found += len(await reader.readexactly(1 << 18))
        assert found == 10 << 18
        writer.close()

    serving(scenario, seconds=1.0)


def test_requests_that_are_being_answered_are_limited_but_probes_are_not():
    head = b"POST /rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"

    async def scenario(port, running):
        waiting = [await connected(port, head + b"{") for _ in range(3)]
        await until(lambda: figure(running, "online_rank_requests_in_flight") == 3)
        refused, _ = await connected(port, head + b"{")
        assert await status_of(refused) == 503
        reader, _ = await connected(port, HEALTH)
        assert await status_of(reader) == 200
        for reader, writer in waiting:
            writer.write(b"}")
            assert await status_of(reader) == 400

    serving(scenario, requests=3)


def test_an_answer_is_sent_at_once():
    """Otherwise its second half waits for the client's acknowledgement of the first, for 40 ms."""

    async def scenario(port, running):
        reader, _ = await connected(port, HEALTH)
        assert await status_of(reader) == 200
        (connection,) = running.server_state.connections
        assert connection.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    serving(scenario)


def test_a_body_in_tiny_chunks_is_not_read():
    head = b"POST /rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def scenario(port, running):
        reader, writer = await connected(port, head + b"1\r\n \r\n" * 10)
        assert await status_of(reader) == 411
        await reader.read()  # to its end: the connection is closed
        writer.close()

    serving(scenario)


def test_a_head_without_end_is_refused():
    async def scenario(port, running):
        reader, writer = await connected(port, HEALTH[:-2])
        for _ in range(100):
            writer.write(b"X-Long: %s\r\n" % (b"x" * 2000))
        assert await status_of(reader) == 400
        writer.close()

    serving(scenario, seconds=60.0)


def test_a_head_of_many_headers_is_refused():
    async def scenario(port, running):
        reader, writer = await connected(port, HEALTH[:-2] + b"X-Y: z\r\n" * 5000 + b"\r\n")
        assert await status_of(reader) == 400
        writer.close()
        reader, writer = await connected(port, HEALTH[:-2] + b"X-Y: z\r\n" * 500 + b"\r\n")
        assert await status_of(reader) == 200
        writer.close()

    serving(scenario)


CHUNKED = HEALTH[:-2] + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("begin", "more"),
    [(b"0\r\n", b"X-Y: %s\r\n" % (b"z" * 1000)), (b"0\r\nX-Y: ", b"z" * 1000), (b"1;x=", b"z" * 1000), (b"", b"0" * 1000)],
    ids=["trailers", "one trailer", "one extension", "one size"],
)
def test_what_follows_a_head_without_end_is_not_read(begin, more):
    async def scenario(port, running):
        reader, writer = await connected(port, CHUNKED + begin)
        assert await status_of(reader) == 200
        for _ in range(100):
            writer.write(more)
            await asyncio.sleep(0)
        with contextlib.suppress(ConnectionResetError):
            await asyncio.wait_for(reader.read(), 60)  # to its end: the connection is closed
        assert len(running.server_state.connections) == 0
        writer.close()

    serving(scenario, seconds=60.0)


def test_requests_that_are_sent_ahead_are_answered_in_turn():
    other = HEALTH.replace(b"healthz", b"nowhere")

    async def scenario(port, running):
        reader, writer = await connected(port, (HEALTH + other) * 20)
        for _ in range(20):
            assert [await status_and_rest(reader), await status_and_rest(reader)] == [200, 404]
        writer.close()

    serving(scenario)


async def status_and_rest(reader):
    status = await status_of(reader)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    return status


def test_too_many_requests_sent_ahead_end_the_connection():
    """Each takes some thousand bytes of memory, for twenty on the line."""

    async def scenario(port, running):
        reader, writer = await connected(port, HEALTH * 1000)
        assert await is_closed(reader)
        writer.close()
        reader, writer = await connected(port, HEALTH)
        assert await status_of(reader) == 200
        writer.close()

    serving(scenario)


def test_what_is_no_request_does_not_answer_the_one_before():
    async def scenario(port, running):
        reader, writer = await connected(port, HEALTH + b"\0\r\n\r\n")
        assert await is_closed(reader)
        writer.close()
        reader, writer = await connected(port, b"\0\r\n\r\n")
        assert await status_of(reader) == 400
        writer.close()

    serving(scenario)


def test_an_offer_to_speak_http_2_is_not_taken():
    """Clients in Java make it with their first request."""
    body = b'{"id": 1, "docs": {"a": {"x": 1}}}'
    head = (
        b"POST /rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: Upgrade, HTTP2-Settings\r\n"
    )
    head += b"Upgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\nContent-Length: %d\r\n\r\n" % len(
        body
    )

    async def scenario(port, running):
        reader, writer = await connected(port, head + body)
        assert await status_and_rest(reader) == 200
        writer.write(head)
        await asyncio.sleep(0.05)
        writer.write(body)
        assert await status_and_rest(reader) == 200
        writer.close()

    serving(scenario)


class Written(list):
    write = list.append
    is_closing = None

    def close(self):
        self.append("closed")


def test_head_and_body_are_written_together_unless_the_body_takes_its_time():
    async def scenario():
        loop, at_once, later, head_alone = asyncio.get_running_loop(), Written(), Written(), Written()
        one = _Joined(at_once, loop)
        for part in (b"head", b"body", b"", b"more"):
            one.write(part)
        assert at_once == [b"headbody", b"more"]
        one = _Joined(later, loop)
        one.write(b"head")
        assert later == []
        await asyncio.sleep(0)
        assert later == [b"head"]
        one.write(b"body")
        assert later == [b"head", b"body"]
        one = _Joined(head_alone, loop)
        one.write(b"head")
        one.close()
        assert head_alone == [b"head", "closed"]
        await asyncio.sleep(0)
        assert (at_once, later, head_alone) == ([b"headbody", b"more"], [b"head", b"body"], [b"head", "closed"])

    asyncio.run(scenario())


def test_descriptors_are_left_for_the_files_of_models():
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
        # 1024 less 128 in the backlog, 128 for the process, and 6 a model.
        assert most_connections(Limits(connections=5000), 100) == 1024 - 128 - 128 - 600
        assert most_connections(Limits(connections=150), 100) == 150
        # With 16 a server listened, and answered 500 to half of the requests.
        resource.setrlimit(resource.RLIMIT_NOFILE, (63, before[1]))
        with pytest.raises(OSError, match="63 files may be open at once, and a server needs 64: ulimit -n 1024"):
            most_connections(Limits(), 1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_in_use_raises_an_error_that_says_so(host):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on {host} port {port}: Address already in use"):
            listening_sockets(host, port)


@pytest.mark.slow
def test_the_command_then_leaves_with_an_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "online_rank", "serve", "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"online-rank: cannot listen on 127.0.0.1 port {port}: Address already in use"


_ARENAS = """
import ctypes, os, sys, tempfile, threading
from online_rank.serving.server import keep_one_arena

library = ctypes.CDLL(None)
library.fdopen.restype = ctypes.c_void_p
library.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
library.fclose.argtypes = [ctypes.c_void_p]


def n_arenas():
    with tempfile.NamedTemporaryFile("r") as file:
        stream = library.fdopen(os.open(file.name, os.O_WRONLY), b"w")
        library.malloc_info(0, stream)
        library.fclose(stream)
        return file.read().count("<heap ")


before = n_arenas()
if sys.argv[1] == "one":
    keep_one_arena()
held = []
threads = [threading.Thread(target=lambda: held.append([bytes(5000) for _ in range(100)])) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(n_arenas() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="arenas of glibc")
def test_threads_of_a_server_allocate_from_one_arena():
    environment = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}

    def arenas(how):
        done = subprocess.run([sys.executable, "-c", _ARENAS, how], capture_output=True, text=True, check=True, env=environment)
        return int(done.stdout)

    assert arenas("one") == 0
    assert arenas("many") > 0


RANKED = json.dumps({"id": 1, "docs": {f"document {i} of many": {"x": i} for i in range(1500)}}).encode()


def posted(body):
    return b"POST /rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        len(body),
        body,
    )


def figure(running, name):
    """A figure for Prometheus."""
    (line,) = (line for line in running.config.app.figures.text().splitlines() if line.startswith(f"{name} "))
    return float(line.split()[-1])


TAKEN = 'online_rank_latency_seconds_sum{path="/rank"}'


@pytest.mark.parametrize("is_new", [False, True])
def test_latency_has_the_time_in_which_the_event_loop_reads_nothing(is_new):
    """Clients saw 355 ms where the histogram had everything under 10."""

    async def scenario(port, running):
        reader, _ = await connected(port, posted(b'{"id": 0, "docs": {}}'))
        assert await status_and_rest(reader) == 200  # The first one takes longer.
        client = socket.create_connection(("127.0.0.1", port))
        for blocked in (0.2, 0.0):
            before = figure(running, TAKEN)
            await asyncio.sleep(0.2)  # What an idle connection waits for is no request.
            started = time.perf_counter()
            await asyncio.sleep(0.01)  # What comes now is in another turn of the loop.
            if is_new:
                client.close()
                client = socket.create_connection(("127.0.0.1", port))
            client.setblocking(False)
            client.send(posted(b'{"id": 1, "docs": {}}'))
            time.sleep(blocked)
            assert (await asyncio.get_running_loop().sock_recv(client, 1000)).startswith(b"HTTP/1.1 200")
            assert blocked <= figure(running, TAKEN) - before <= time.perf_counter() - started
        client.close()
        assert figure(running, "online_rank_event_loop_delay_seconds_sum") > 0.05

    serving(scenario)


def test_latency_has_the_time_in_which_a_client_reads_nothing():
    async def scenario(port, running):
        running.servers[0].sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        with that_reads_nothing(port, b"") as client:
            client.sendall(posted(RANKED))
            await until(lambda: figure(running, "online_rank_requests_in_flight") == 1)
            await asyncio.sleep(0.5)
            count = TAKEN.replace("_sum", "_count")
            assert figure(running, count) == 0
            assert figure(running, "online_rank_requests_in_flight") == 1
            client.setblocking(False)
            while figure(running, count) == 0:
                await asyncio.get_running_loop().sock_recv(client, 1 << 16)
            assert figure(running, TAKEN) >= 0.5
            assert figure(running, "online_rank_requests_in_flight") == 0

    serving(scenario)


def test_the_process_is_measured():
    async def scenario(port, running):
        assert figure(running, "process_resident_memory_bytes") > 1e6
        assert figure(running, "process_open_fds") > 3

    serving(scenario)
