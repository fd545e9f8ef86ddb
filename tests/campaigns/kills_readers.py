"""A learner that is killed under load, and three readers that continue to rank and leave learning to it."""

import asyncio
import contextlib
import json
import math
import os
import random
import re
import signal
import threading
import time
from pathlib import Path

from benchmarks._common import in_memory
from benchmarks._http import free_port
from online_rank.serving.durable import read_service
from tests.campaigns.found import Found
from tests.campaigns.kills import command, forked, learned_in
from tests.campaigns.kills_served import import_server, pairs

_READERS, _CLIENTS = 3, 200
#: Seconds that the learner is up between two kills, at most, and away after one.
_UP, _AWAY = 3.0, 1.0
#: Seconds within which readers have to rank again, on a machine that others keep busy.
_PAUSE = 5.0
#: Seconds within which processes have to be up, and every piece of feedback has to be acknowledged, on a busy machine.
_PATIENCE = 300.0


def kill_learner(n_kills: int, seed: int = 0, n_clients: int = _CLIENTS) -> Found:
    """Kill a learner again and again while clients rank at readers, and send feedback to any process."""
    import_server()
    with in_memory() as folder:
        ports = [free_port() for _ in range(1 + _READERS)]
        children = [_begun(ports, n, folder) for n in range(1 + _READERS)]
        try:
            load = _Load(ports, random.Random(seed), n_clients)
            # This thread forks: a loop of events shares its descriptors with children.
            clients = threading.Thread(target=lambda: asyncio.run(load.run()))
            clients.start()
            for _ in range(n_kills):
                load.ready.wait(_PATIENCE)
                time.sleep(_UP * load.rng.random())
                load.ready.clear()
                os.kill(children[0], signal.SIGKILL)
                os.waitpid(children[0], 0)
                before = load.found.counts["rankings"]
                time.sleep(_AWAY)
                load.found.count(kills=1, rankings_while_away=load.found.counts["rankings"] - before)
                children[0] = _begun(ports, 0, folder)
            load.ready.wait(_PATIENCE)
            load.over = True
            clients.join()
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
        found, learned = load.found, learned_in(folder / "state")
        found.count(acknowledged=len(load.acknowledged), milliseconds_of_the_longest_pause=round(1e3 * load.longest_pause))
        lost = len(load.acknowledged - learned)
        found.expect(lost == 0, f"readers: {lost} acknowledged are lost")
        found.expect(read_service(folder / "state").counts()["learned"] == len(learned), "readers: some were learned twice")
        found.expect(load.unanswered == 0, f"readers: {load.unanswered} pieces of feedback were never answered")
        found.expect(load.longest_pause < _PAUSE, f"readers: no ranking for {load.longest_pause:.1f} seconds")
    return found


def _begun(ports: list[int], n: int, folder: Path) -> int:
    """A process that serves: the learner, or a reader."""

    def serve() -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        own = ("--checkpoint", str(folder / "state"), "--every", "200")
        if n:
            own = ("--reads-from", f"http://127.0.0.1:{ports[0]}", "--cache", str(folder / f"cache{n}"))
        command(("serve", "--port", str(ports[n]), *own))

    return forked(serve)


def _figure(text: str, name: str) -> float:
    """A figure of a reader for Prometheus."""
    return float(re.search(rf"^online_rank_{name} (\S+)", text, re.MULTILINE)[1])


class _Load:
    """Clients, and the answers that they got."""

    def __init__(self, ports: list[int], rng: random.Random, n_clients: int) -> None:
        self._ports, self.rng, self._n_clients = ports, rng, n_clients
        self._pairs = pairs()
        self._number = 0
        self.over = False
        self.acknowledged: set[int] = set()
        self.unanswered = 0
        self.found = Found()
        self._last, self.longest_pause = math.inf, 0.0
        #: Whether all processes have been up for a while.
        self.ready = threading.Event()
        self.has_begun = False

    async def run(self) -> None:
        """Rank and teach until it is over."""
        # Some only rank, since the others wait for their acknowledgement while the learner is away.
        clients = [asyncio.create_task(self._client(number % 10 > 0)) for number in range(self._n_clients)]
        watching = asyncio.create_task(self._watch())
        await asyncio.gather(*clients)
        watching.cancel()
        for port in self._ports[1:]:
            status, text = 0, ""
            while status != 200:
                status, text = await self._asked(port, "GET", "/metrics")
            self.found.count(dropped=round(_figure(text, "dropped_total")), not_taken=round(_figure(text, "not_taken_total")))

    async def _client(self, teaches: bool) -> None:
        while not self.has_begun:
            await asyncio.sleep(0.1)
        while not self.over:
            self._number += 1
            number = self._number
            rank, grades = (each.replace(b"ID", b"%d" % number, 1) for each in self._pairs[number % len(self._pairs)])
            status, _ = await self._asked(self.rng.choice(self._ports[1:]), "POST", "/rank", rank)
            if status != 200:
                self.found.count(not_ranked=1)
                await asyncio.sleep(0.1)
                continue
            now = time.monotonic()
            self.longest_pause, self._last = max(self.longest_pause, now - self._last), now
            self.found.count(rankings=1)
            await asyncio.sleep(0.2 * self.rng.random())
            until = time.monotonic() + _PATIENCE if teaches else 0.0
            while time.monotonic() < until:
                status, _ = await self._asked(self.rng.choice(self._ports), "POST", "/learn", grades)
                if status == 200:
                    self.acknowledged.add(number)
                    break
                if status in (400, 409):
                    self.found.count(refused=1)
                    break
                await asyncio.sleep(0.1)
            else:
                self.unanswered += teaches

    async def _watch(self) -> None:
        """Ask readers how far behind they are, while the learner is up."""
        while True:
            if not self.ready.is_set():
                statuses = [(await self._asked(port, "GET", "/readyz"))[0] for port in self._ports]
                # Readers look once a second.
                await asyncio.sleep(1.5 if statuses == [200] * len(self._ports) else 0.1)
                if statuses == [200] * len(self._ports):
                    self.ready.set()
                    self.has_begun = True
                continue
            for port in self._ports[1:]:
                status, text = await self._asked(port, "GET", "/metrics")
                if status == 200 and self.ready.is_set():
                    self.found.count(looks=1, milliseconds_behind=round(1e3 * _figure(text, "seconds_behind")))
            await asyncio.sleep(0.1)

    async def _asked(self, port: int, method: str, path: str, body: bytes = b"") -> tuple[int, str]:
        """Status and answer to a request; 0 for none."""
        with contextlib.suppress(OSError, LookupError, TimeoutError, ValueError):
            async with asyncio.timeout(10):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                    writer.write(head.encode() + body)
                    status = int((await reader.readline()).split()[1])
                    _, _, answer = (await reader.read()).partition(b"\r\n\r\n")
                    if status == 200 and path in ("/rank", "/learn"):
                        json.loads(answer)  # It is whole.
                    return status, answer.decode()
                finally:
                    writer.close()
        return 0, ""
