"""How far a read replica is behind a server that learns all the time, and whether it is the same.

Two processes: `online-rank serve`, with a folder, and another one that follows it. One client ranks and grades queries at a
given rate. The lag at an instant is the time since the first learned query was acknowledged that the replica has not learned.
At five pauses, the last one at the end, model files of the two, scores and greedy rankings are compared, bit for bit.
"""

import asyncio
import json
import time

from benchmarks._common import in_memory
from benchmarks._http import Client, Server, bodies
from tests.campaigns.found import Found

RATE = 500
_CONNECTIONS, _PAUSES, _ASKED = 8, 5, 20
#: Seconds between two looks at the replica.
_BETWEEN = 0.05
#: Seconds that a replica may be behind.
_LONGEST = 5.0


def lag(seconds: float, rate: int = RATE) -> Found:
    """Let a replica follow for some seconds."""
    with (
        in_memory() as folder,
        Server(str(folder / "state")) as leader,
        Server(options=("--follow", f"http://127.0.0.1:{leader.port}")) as replica,
    ):
        return asyncio.run(_lag(leader.port, replica.port, seconds, rate))


class _Measured:
    def __init__(self) -> None:
        #: When each learned query was acknowledged, in order.
        self.acknowledged: list[float] = []
        self.lags: list[float] = []
        self.compared = self.same = 0

    def look(self, n_learned: int, now: float) -> None:
        """The replica has learned so many."""
        missing = self.acknowledged[n_learned] if n_learned < len(self.acknowledged) else now
        self.lags.append(max(0.0, now - missing))


async def _lag(port: int, own: int, seconds: float, rate: int) -> Found:
    queries, measured = bodies(200, m=10, d=10), _Measured()
    clients = [await Client.connect(port) for _ in range(_CONNECTIONS)]
    number = 0

    async def pair(client: Client, number: int) -> None:
        rank, grades = queries[number % len(queries)]
        for path, body in (("/rank", rank), ("/learn", grades)):
            status, answer = await client.post(path, body.replace(b'"ID"', b"%d" % number, 1))
            if status != 200:
                raise SystemExit(f"{path}: {status} {answer[:200]!r}")
        measured.acknowledged.append(time.monotonic())

    async def watch(ended: asyncio.Event) -> None:
        while not ended.is_set():
            now = time.monotonic()
            measured.look(await _learned(own), now)
            await asyncio.sleep(_BETWEEN)

    for _ in range(_PAUSES):
        ended, started, first = asyncio.Event(), time.monotonic(), number
        watching = asyncio.create_task(watch(ended))
        until = first + int(rate * seconds / _PAUSES)
        free: asyncio.Queue[Client] = asyncio.Queue()
        for client in clients:
            free.put_nowait(client)

        async def one(client: Client, number: int, free: asyncio.Queue[Client] = free) -> None:
            await pair(client, number)
            free.put_nowait(client)

        sent = []
        while number < until:
            await asyncio.sleep(max(0.0, started + (number - first) / rate - time.monotonic()))
            sent.append(asyncio.create_task(one(await free.get(), number)))
            number += 1
        await asyncio.gather(*sent)
        while await _learned(own) < len(measured.acknowledged):
            await asyncio.sleep(_BETWEEN)
        ended.set()
        await watching
        await _compare(port, own, [rank for rank, _ in queries[:_ASKED]], measured)
    for client in clients:
        client.close()
    found = Found(learned=number, looks=len(measured.lags), compared=measured.compared)
    found.expect(measured.same == measured.compared, f"{measured.compared - measured.same} answers of the replica differ")
    found.expect(max(measured.lags) <= _LONGEST, f"the replica was {max(measured.lags):.1f} s behind")
    return found


async def _learned(port: int) -> int:
    return int(json.loads(await _get(port, "/stats"))["stats"]["learned"])


async def _compare(port: int, own: int, queries: list[bytes], measured: _Measured) -> None:
    files = await _get(port, "/model"), await _get(own, "/model")
    answers: list[list[tuple[object, object]]] = []
    for each in (port, own):
        client = await Client.connect(each)
        found = []
        for query in queries:
            body = query.replace(b'"ID"', b'"asked"', 1)[:-1] + b', "greedy": true}'
            status, answer = await client.post("/rank", body)
            fields = json.loads(answer)
            found.append((fields["ranking"], fields["scores"]) if status == 200 else (status, each))
        client.close()
        answers.append(found)
    measured.compared += 1 + len(queries)
    measured.same += (files[0] == files[1]) + sum(a == b for a, b in zip(*answers, strict=True))


async def _get(port: int, path: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % path.encode())
    answer = await reader.read()
    writer.close()
    return answer.partition(b"\r\n\r\n")[2]
