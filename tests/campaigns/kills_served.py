"""Servers, and workers of a topic, that are killed at random instants, and what they lose."""

import contextlib
import http.client
import importlib
import itertools
import json
import os
import random
import signal
import sqlite3
import threading
import time
from pathlib import Path

from benchmarks._common import in_memory
from benchmarks._http import connectable, free_port
from online_rank import PerceptronRanker, StreamScaler
from online_rank.distributed.keyed import KeyedRankers
from online_rank.serving.durable import read_service
from online_rank.serving.protocol import RankingService
from online_rank.storage.files import to_bytes
from tests.campaigns.found import Found
from tests.campaigns.kills import command, forked, learned_in, requests

_CLIENTS = 4
#: Seconds after which a server is killed anyway.
_LONGEST = 30.0
#: Events between two commits of a worker.
_AT_ONCE = 7


def kill_serve(n_kills: int, seed: int = 0, keys: tuple[str, ...] = ()) -> Found:
    """Kill a server under load again and again, with one model, or one for each key; unanswered grades are sent again."""
    rng = random.Random(seed)
    import_server()
    asked = pairs()
    acknowledged: dict[str, set[int]] = {key: set() for key in keys or ("",)}
    unanswered: list[tuple[str, bytes]] = []
    with in_memory() as folder:
        place = folder / "state"
        for life in range(n_kills):
            port = free_port()
            child = forked(lambda port=port: _serve(place, port, bool(keys)))
            if life % 10 == 9:  # while it starts
                time.sleep(0.5 * rng.random())
            else:
                connectable(port)
                clients = [
                    threading.Thread(target=_client, args=(port, life * 10**6 + n * 10**5, asked, acknowledged, unanswered))
                    for n in range(_CLIENTS)
                ]
                for client in clients:
                    client.start()
                # Counted, so that a busy machine does as much.
                goal, patience = _n(acknowledged) + rng.randrange(60), time.monotonic() + _LONGEST
                while _n(acknowledged) < goal and time.monotonic() < patience:
                    time.sleep(0.002)
                time.sleep(0.005 * rng.random())
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            if life % 10 != 9:
                for client in clients:
                    client.join()
        found = Found(kills=n_kills, acknowledged=_n(acknowledged))
        for key, ids in acknowledged.items():
            if not (place / key).exists() and not ids:
                continue
            service = read_service(place / key if key else place)
            learned = learned_in(place / key if key else place)
            found.expect(ids <= learned, f"serve: {len(ids - learned)} acknowledged are lost")
            found.expect(service.counts()["learned"] == len(learned), "serve: some were learned twice")
    return found


def import_server() -> None:
    """Import what a server needs once, and not in each child."""
    for name in ("online_rank.serving.server", "online_rank.serving.http", "uvicorn.protocols.http.auto", "uvicorn.loops.auto"):
        importlib.import_module(name)


def _n(acknowledged: dict[str, set[int]]) -> int:
    return sum(map(len, acknowledged.values()))


def _serve(place: Path, port: int, by_key: bool) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    key = ("--key", "shop", "--max-models", "2") if by_key else ()
    command(("serve", "--port", str(port), "--checkpoint", str(place), "--every", "50", *key))


def _client(
    port: int,
    first: int,
    pairs: list[tuple[bytes, bytes]],
    acknowledged: dict[str, set[int]],
    unanswered: list[tuple[str, bytes]],
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def post(path: str, key: str, body: bytes) -> dict:
        connection.request("POST", path + (f"?shop={key}" if key else ""), body, {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read())

    def learn(key: str, body: bytes) -> None:
        answer = post("/learn", key, body)
        if "learned" in answer:
            acknowledged[key].add(answer["id"])

    sent: list[tuple[str, bytes]] = []
    with contextlib.suppress(OSError, http.client.HTTPException):
        while unanswered:
            sent = [unanswered.pop()]
            learn(*sent[0])
        for number, ((rank, grades), key) in enumerate(zip(itertools.cycle(pairs), itertools.cycle(acknowledged)), first):
            sent = []
            post("/rank", key, rank.replace(b"ID", b"%d" % number, 1))
            sent = [(key, grades.replace(b"ID", b"%d" % number, 1))]
            learn(*sent[0])
    unanswered += sent
    connection.close()


def pairs() -> list[tuple[bytes, bytes]]:
    """Queries and their grades, with ids to be replaced."""
    by_id: dict[int, list[bytes]] = {}
    for line in requests(50, 0):
        fields = json.loads(line)
        by_id.setdefault(fields["id"], []).append(line.replace(b'"id": %d' % fields["id"], b'"id": ID', 1))
    return [(pair[0], pair[1]) for pair in by_id.values()]


class _KeptState:
    """The state of a key as an engine keeps it: in memory, and on the disk with each commit."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.executescript(
            "PRAGMA journal_mode=WAL; CREATE TABLE IF NOT EXISTS state(name TEXT PRIMARY KEY, value BLOB);"
            "CREATE TABLE IF NOT EXISTS place(topic INTEGER PRIMARY KEY, next INTEGER)"
        )
        self._values = dict(self._database.execute("SELECT name, value FROM state"))
        self._changed: set[str] = set()

    @property
    def next(self) -> int:
        """The offset of the next event."""
        return (self._database.execute("SELECT next FROM place").fetchone() or (0,))[0]

    def get_bytes(self, name: str) -> bytes | None:
        return self._values.get(name)

    def set_bytes(self, name: str, value: bytes) -> None:
        self._values[name] = value
        self._changed.add(name)

    def delete(self, name: str) -> None:
        self._values.pop(name, None)
        self._changed.add(name)

    def commit(self, following: int) -> None:
        """First the state, then the place in the topic: what comes between them comes twice."""
        with self._database:
            self._database.execute("BEGIN")
            for name in self._changed:
                if name in self._values:
                    self._database.execute("INSERT OR REPLACE INTO state VALUES(?, ?)", (name, self._values[name]))
                else:
                    self._database.execute("DELETE FROM state WHERE name = ?", (name,))
        self._changed.clear()
        self._database.execute("INSERT OR REPLACE INTO place VALUES(0, ?)", (following,))


def kill_keyed(n_kills: int, seed: int = 0, n_queries: int = 300) -> Found:
    """Kill a worker of `KeyedRankers` again and again; the topic continues from its last commit."""
    rng, found = random.Random(seed), Found()
    while found.counts["kills"] < n_kills:
        events = requests(n_queries, rng.randrange(1 << 30))
        whole = _keyed_service()
        for event in events:
            whole.handle(event)
        with in_memory() as folder:
            path = folder / "state.db"
            while True:
                child = forked(lambda path=path, events=events: _work(path, events))
                time.sleep(0.08 * rng.random())
                if found.counts["kills"] < n_kills:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
                ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                found.count(kills=ended == -signal.SIGKILL)
                if ended == 0:
                    break
                assert ended == -signal.SIGKILL, f"the worker ended with {ended}"
            service = KeyedRankers(_keyed_service, every=40).service(b"shop", _KeptState(path))
            found.count(learned=len(service._learned))
            found.expect(whole._learned.keys() == service._learned.keys(), "keyed worker: some were not learned")
            found.expect(service.counts()["learned"] == len(service._learned), "keyed worker: some were learned twice")
            found.expect(to_bytes(service.model) == to_bytes(whole.model), "keyed worker: another model than without kills")
    return found


def _keyed_service() -> RankingService:
    return RankingService(StreamScaler() | PerceptronRanker())


def _work(path: Path, events: list[bytes]) -> None:
    state, handle = _KeptState(path), KeyedRankers(_keyed_service, every=40)
    for offset in range(state.next, len(events)):
        handle.event(events[offset], b"shop", state, "events", 0, offset)
        if offset % _AT_ONCE == 0 or offset == len(events) - 1:
            state.commit(offset + 1)
