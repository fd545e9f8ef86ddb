"""Three servers of one state in PostgreSQL, whose leader, its connections and the database are killed and stopped."""

import contextlib
import http.client
import json
import os
import random
import signal
import threading
import time
from typing import Any

from benchmarks._http import free_port
from online_rank.serving.durable import read_service
from online_rank.storage.postgres import saved_in_postgres
from tests.campaigns.found import Found
from tests.campaigns.kills import command, forked
from tests.campaigns.kills_served import import_server, pairs
from tests.reference import postgresql

_SERVERS, _CLIENTS = 3, 4
#: Seconds within which another server has to lead.
_PATIENCE = 60.0
#: How the kills are shared out.
_HOW = ("leader", "leader", "connections", "database", "stop")


def kill_leaders(n_kills: int, seed: int = 0) -> Found:
    """Kill, cut off and stop leaders under load; unanswered grades are sent again, to whichever server leads."""
    rng, found = random.Random(seed), Found()
    import_server()
    with postgresql.running() as database:
        cluster = Cluster(database.address)
        clients = [threading.Thread(target=cluster.send, args=(n,)) for n in range(_CLIENTS)]
        try:
            cluster.start()
            for client in clients:
                client.start()
            for number in range(n_kills):
                leader = cluster.led()
                goal, until = len(cluster.acknowledged) + rng.randrange(40), time.monotonic() + _PATIENCE
                while len(cluster.acknowledged) < goal and time.monotonic() < until:
                    time.sleep(0.002)
                time.sleep(0.005 * rng.random())
                how = _HOW[number % len(_HOW)]
                epoch, began = cluster.epoch, time.monotonic()
                if how == "leader":
                    cluster.kill(leader)
                    cluster.begin(leader)
                elif how == "connections":
                    _cut(database.address)
                elif how == "database":
                    database.kill()
                    database.start()
                else:
                    os.kill(cluster.children[leader], signal.SIGSTOP)
                after = cluster.led(since=epoch)
                found.count(**{"stops" if how == "stop" else f"kills_of_{how}": 1})
                found.count(milliseconds_without_a_leader=round(1e3 * (time.monotonic() - began)))
                if how == "stop":
                    found.expect(after != leader, "a leader that was stopped leads again")
                    late = cluster.ask_late(leader)
                    found.expect(late not in (200, None), f"a leader that was stopped answered feedback with {late}")
        finally:
            cluster.over.set()
            for client in clients:
                client.join()
            cluster.stop()
        service = read_service(database.address)
        with saved_in_postgres(database.address) as saved:
            learned = {json.loads(query_id) for query_id, _, _ in saved.learned()}
        found.count(acknowledged=len(cluster.acknowledged), epochs=len(cluster.servers))
        lost = len(cluster.acknowledged - learned)
        found.expect(lost == 0, f"leaders: {lost} acknowledged are lost")
        found.expect(service.counts()["learned"] == len(learned), "leaders: some were learned twice")
        shared = [epoch for epoch, servers in cluster.servers.items() if len(servers) > 1]
        found.expect(not shared, f"leaders: two servers acknowledged in epochs {shared}")
    return found


class Cluster:
    """Servers of one state, and the answers that their clients got."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.ports = [free_port() for _ in range(_SERVERS)]
        self.children = [0] * _SERVERS
        self.over = threading.Event()
        self.acknowledged: set[int] = set()
        #: The life of each server, counted, and those that acknowledged in an epoch.
        self.lives = [0] * _SERVERS
        self.servers: dict[int, set[tuple[int, int]]] = {}
        self.epoch = 0
        self._pairs = pairs()

    def start(self) -> None:
        for n in range(_SERVERS):
            self.begin(n)

    def begin(self, n: int) -> None:
        """Start a server."""
        self.lives[n] += 1
        self.children[n] = forked(lambda: self._serve(n))

    def _serve(self, n: int) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        command(("serve", "--port", str(self.ports[n]), "--checkpoint", self.address, "--every", "50"))

    def kill(self, n: int) -> None:
        """End a server at once."""
        os.kill(self.children[n], signal.SIGKILL)
        os.waitpid(self.children[n], 0)

    def stop(self) -> None:
        for n in range(_SERVERS):
            self.kill(n)

    def led(self, since: int = -1) -> int:
        """The server that leads, in an epoch after one; waits until there is one."""
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            for n in range(_SERVERS):
                with contextlib.suppress(OSError, http.client.HTTPException):
                    status, epoch, _ = self._ask(n, "GET", "/readyz", timeout=0.3)
                    if status == 200 and epoch > since:
                        self.epoch = epoch
                        return n
            time.sleep(0.02)
        raise AssertionError("no server leads")

    def _ask(self, n: int, method: str, path: str, body: bytes | None = None, timeout: float = 10.0) -> tuple[int, int, Any]:
        """The status, the epoch and the answer to a request, on a new connection."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.ports[n], timeout=timeout)) as connection:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, int(answer.headers.get("online-rank-epoch", 0)), json.loads(answer.read())

    def send(self, client: int) -> None:
        """Rank and teach until all is over; what was not answered is sent again, to each server in turn."""
        number, n = client * 10**6, client % _SERVERS
        while not self.over.is_set():
            rank, grades = self._pairs[number % len(self._pairs)]
            number += 1
            bodies = [rank.replace(b"ID", b"%d" % number, 1), grades.replace(b"ID", b"%d" % number, 1)]
            if self._sent(n, "/rank", bodies[0]) is None:
                n = (n + 1) % _SERVERS
                time.sleep(0.02)
                continue
            until = time.monotonic() + _PATIENCE
            while not self.over.is_set() and time.monotonic() < until:
                answer = self._sent(n, "/learn", bodies[1])
                if answer is not None:
                    # A ranking that nobody waited for may have gone with its server.
                    if "learned" in answer:
                        self.acknowledged.add(number)
                    break
                n = (n + 1) % _SERVERS
                time.sleep(0.02)

    def _sent(self, n: int, path: str, body: bytes) -> Any:
        """The answer of a server that leads; None for none."""
        life = self.lives[n]
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            status, epoch, answer = self._ask(n, "POST", path, body)
            if status == 200 and path == "/learn":
                self.servers.setdefault(epoch, set()).add((n, life))
            return answer if status in (200, 400) else None
        return None

    def ask_late(self, n: int) -> int | None:
        """Send feedback to a server that is stopped, let it continue, and return the status; None for none."""
        number = 9 * 10**6 + self.epoch
        leader = self.led()
        rank, grades = self._pairs[0]
        self._ask(leader, "POST", "/rank", rank.replace(b"ID", b"%d" % number, 1))
        status: list[int] = []

        def ask() -> None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                status.append(self._ask(n, "POST", "/learn", grades.replace(b"ID", b"%d" % number, 1))[0])

        asking = threading.Thread(target=ask)
        asking.start()
        time.sleep(0.1)
        os.kill(self.children[n], signal.SIGCONT)
        asking.join()
        return status[0] if status else 0


def _cut(address: str) -> None:
    """End all sessions in the database."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'online_rank'")
