"""Events of many keys, in two topics, through workers that are killed and change in number: one digest, or what was lost.

The engine is simulated in this process as `rankers` runs on it. Keys are in partitions, and each worker has some of these. A
commit makes positions and changelog durable together. When a worker dies, its positions go back to the last commit, and of what
it wrote to the changelog since then a beginning of random length is there. The next worker has the state directory, brought up
to date by the changelog, or none, and reads the whole changelog. Processes that are killed in earnest are another part
(`kills`), and a real broker is in `tests/distributed/test_quix.py`.
"""

import collections
import hashlib
import json
import random
import zlib
from typing import Any, NamedTuple, Self

from online_rank import PerceptronRanker, StreamScaler
from online_rank.distributed.keyed import KeyedRankers
from online_rank.serving.protocol import RankingService
from online_rank.storage.files import to_bytes
from tests.campaigns.found import Found

TENANTS, PARTITIONS = 20, 6
_QUERIES, _FEEDBACK = "queries", "feedback"
_EVERY, _COMMIT_EVERY = 256, 100
#: Bytes that a broker takes in a message.
_LARGEST = 900_000
#: Share of queries that are graded, of grades that come late, and of those that come twice.
_GRADED, _LATE, _DOUBLED = 0.3, 0.1, 0.1
#: The number of workers in each third of the run.
_WORKERS = (1, 3, 1)


class Event(NamedTuple):
    """An event, and its place."""

    topic: str
    offset: int
    timestamp: int
    key: bytes
    request: bytes


def make_service() -> RankingService:
    return RankingService(StreamScaler() | PerceptronRanker())


def events_of(n: int, seed: int = 0) -> list[list[Event]]:
    """About `n` events of all partitions; events of both topics of a partition are in the order of their timestamps."""
    rng = random.Random(seed)
    coming: list[tuple[int, int, str, bytes, bytes]] = []
    numbers = collections.Counter[bytes]()
    at = 0
    while len(coming) < n:
        key = b"tenant-%d" % rng.randrange(TENANTS)
        numbers[key] += 1
        number, at = numbers[key], at + 10
        docs = {f"document-{j}": {f"feature-{k}": round(rng.gauss(0, 1), 4) for k in range(4)} for j in range(8)}
        coming.append((at, len(coming), _QUERIES, key, json.dumps({"id": number, "docs": docs}).encode()))
        if rng.random() < _GRADED:
            grades = {name: int(features["feature-0"] > 0) + int(features["feature-1"] > 1) for name, features in docs.items()}
            body = json.dumps({"id": number, "grades": grades}).encode()
            after = at + rng.randrange(1, 300) * (100 if rng.random() < _LATE else 1)
            for _ in range(1 + (rng.random() < _DOUBLED)):
                coming.append((after, len(coming), _FEEDBACK, key, body))
                after += rng.randrange(1, 3000)
    partitions: list[list[Event]] = [[] for _ in range(PARTITIONS)]
    offsets = collections.Counter[tuple[int, str]]()
    for after, _, topic, key, body in sorted(coming):
        number = zlib.crc32(key) % PARTITIONS
        partitions[number].append(Event(topic, offsets[number, topic], after, key, body))
        offsets[number, topic] += 1
    return partitions


def uninterrupted(partitions: list[list[Event]]) -> dict[bytes, str]:
    """The digest of each key."""
    services: dict[bytes, RankingService] = {}
    for events in partitions:
        for event in events:
            service = services.get(event.key) or services.setdefault(event.key, make_service())
            service.handle(event.request, event.offset, event.timestamp / 1000.0)
    return {key: _digest(service) for key, service in services.items()}


def _digest(service: RankingService) -> str:
    return hashlib.sha256(to_bytes(service)).hexdigest()


class _State(dict[str, bytes]):
    """The store of a key."""

    def __init__(self, key: bytes, partition: "_Partition") -> None:
        super().__init__()
        self._key, self._partition = key, partition

    def get_bytes(self, name: str) -> bytes | None:
        return self.get(name)

    def set_bytes(self, name: str, value: bytes) -> None:
        self._partition.write(self._key, name, value)

    def delete(self, name: str) -> None:
        self._partition.write(self._key, name, None)


class _Partition:
    """A partition of both topics, its store, and its changelog."""

    def __init__(self, number: int, events: list[Event]) -> None:
        self.number, self.events = number, events
        self.next = self.committed = 0
        self.states: dict[bytes, _State] = {}
        #: What the changelog had at the last commit, compacted; and the messages since, with what they replaced.
        self._changelog: dict[tuple[bytes, str], bytes] = {}
        self._since: list[tuple[bytes, str, bytes | None, bytes | None]] = []
        self.largest = 0

    @property
    def is_done(self) -> bool:
        return self.next == len(self.events)

    def state(self, key: bytes) -> _State:
        return self.states.setdefault(key, _State(key, self))

    def write(self, key: bytes, name: str, value: bytes | None) -> None:
        self._since.append((key, name, value, self.state(key).get(name)))
        self.largest = max(self.largest, len(value or b""))
        self._set(key, name, value)

    def commit(self) -> None:
        for key, name, value, _ in self._since:
            _put(self._changelog, (key, name), value)
        self._since, self.committed = [], self.next

    def lose(self, rng: random.Random, keeps_directory: bool) -> int:
        """A worker was killed. Returns how many events come again."""
        there = self._since[: rng.randrange(len(self._since) + 1)]
        if keeps_directory:
            for key, name, _, before in reversed(self._since):
                self._set(key, name, before)
            for key, name, value, _ in there:
                self._set(key, name, value)
        for key, name, value, _ in there:
            _put(self._changelog, (key, name), value)
        if not keeps_directory:
            self.read_changelog()
        again, self.next, self._since = self.next - self.committed, self.committed, []
        return again

    def read_changelog(self) -> None:
        """The state of a worker that has none."""
        self.states = {}
        for (key, name), value in self._changelog.items():
            self._set(key, name, value)

    def _set(self, key: bytes, name: str, value: bytes | None) -> None:
        _put(self.state(key), name, value)


def _put(values: dict[Any, bytes], name: Any, value: bytes | None) -> None:
    if value is None:
        values.pop(name, None)
    else:
        values[name] = value


class _Workers:
    """Workers that share the partitions."""

    def __init__(self, partitions: list[_Partition], number: int) -> None:
        self._partitions = partitions
        self.handlers = [KeyedRankers(make_service, every=_EVERY) for _ in range(number)]

    def of(self, partition: _Partition) -> KeyedRankers:
        return self.handlers[partition.number % len(self.handlers)]

    def run(self, partition: _Partition, n: int) -> None:
        """Handle some events of a partition."""
        handle = self.of(partition)
        for event in partition.events[partition.next : partition.next + n]:
            state = partition.state(event.key)
            handle.event(event.request, event.key, state, event.topic, partition.number, event.offset, event.timestamp)
            partition.next += 1
            if partition.next - partition.committed >= _COMMIT_EVERY:
                partition.commit()

    def kill(self, number: int, rng: random.Random, keeps_directory: bool) -> int:
        """Kill a worker, and let another one continue. Returns how many events come again."""
        own = [partition for partition in self._partitions if partition.number % len(self.handlers) == number]
        self.handlers[number] = KeyedRankers(make_service, every=_EVERY)
        return sum(partition.lose(rng, keeps_directory) for partition in own)

    def replaced_by(self, number: int) -> Self:
        """As many workers as `number`, which begin on the changelog."""
        for partition in self._partitions:
            partition.commit()
            partition.read_changelog()
        return type(self)(self._partitions, number)


def keyed(n_events: int, n_kills: int = 10, *, keeps_directory: bool, seed: int = 0) -> Found:
    """Kill workers again and again, with or without a state directory, and change their number twice."""
    rng = random.Random(seed)
    events = events_of(n_events, seed)
    expected = uninterrupted(events)
    partitions = [_Partition(number, own) for number, own in enumerate(events)]
    total = sum(map(len, events))
    deaths = sorted(rng.sample(range(total), n_kills))
    workers, third, done, kills, again = _Workers(partitions, _WORKERS[0]), 0, 0, 0, 0
    while open_ones := [partition for partition in partitions if not partition.is_done]:
        partition = rng.choice(open_ones)
        before = partition.next
        workers.run(partition, rng.randrange(1, 60))
        done += partition.next - before
        if kills < n_kills and done >= deaths[kills]:
            # The one that has just written: its last commit is some events ago.
            again += workers.kill(partition.number % len(workers.handlers), rng, keeps_directory)
            kills += 1
        if third + 1 < len(_WORKERS) and done >= (third + 1) * total // len(_WORKERS):
            third += 1
            workers = workers.replaced_by(_WORKERS[third])
    found = {key: _digest(workers.of(each).service(key, state)) for each in partitions for key, state in each.states.items()}
    services = [workers.of(each).service(key, state) for each in partitions for key, state in each.states.items()]
    learned = sum(service.counts()["learned"] for service in services)
    result = Found(events=total, learned=learned, kills=kills, came_again=again)
    others = sum(found.get(key) != digest for key, digest in expected.items())
    result.expect(found.keys() == expected.keys() and not others, f"{others} keys differ from a run without kills, seed {seed}")
    largest = max(partition.largest for partition in partitions)
    result.expect(largest <= _LARGEST, f"a message of the changelog has {largest} bytes")
    return result
