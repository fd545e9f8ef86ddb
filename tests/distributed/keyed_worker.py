"""An application that handles the events of a topic, and kills itself, by SIGKILL, after some of them.

Processes that run it are forked from one that has imported this module, and with it all that takes seconds.
"""

import hashlib
import os
import signal
from typing import NamedTuple

import pytest

pytest.importorskip("quixstreams", reason="extra 'quix' is not installed")

from quixstreams import Application
from quixstreams.models import TopicConfig

from online_rank import PerceptronRanker, StreamScaler
from online_rank.distributed import to_bytes
from online_rank.distributed.keyed import KeyedRankers, rankers
from online_rank.serving.protocol import RankingService

#: As long as a session lasts, a broker waits for a consumer that was killed; tansu waits for others that may join, too. Kafka
#: refuses less than six seconds.
CONSUMER = {
    "session.timeout.ms": 6000 if "ONLINE_RANK_KAFKA" in os.environ else 1000,
    "heartbeat.interval.ms": 100,
    "max.poll.interval.ms": 30_000,
    "fetch.wait.max.ms": 50,
}
#: Batches of one: tansu says that a topic ends behind the first message of its last batch, so that a state would come back from
#: its changelog without the others.
PRODUCER = {"batch.num.messages": 1}


class Setting(NamedTuple):
    """A broker, what topics and groups of this run are called, and the engine's mode."""

    broker: str
    run: str
    guarantee: str = "at-least-once"

    @property
    def events(self):
        return f"{self.run}-events"

    @property
    def answers(self):
        return f"{self.run}-answers"


def make_service():
    return RankingService(StreamScaler() | PerceptronRanker(), wait_bytes=40_000)


def topic_config():
    return TopicConfig(num_partitions=1, replication_factor=1, extra_config={"retention.ms": "604800000"})


def application(setting, state):
    # By its id the next worker aborts what a killed one left open. Else others would wait until that times out, with tansu for
    # ever.
    own = {"transactional.id": f"{setting.run}-worker"} if setting.guarantee == "exactly-once" else {}
    return Application(
        setting.broker,
        consumer_group=f"{setting.run}-rankers",
        auto_offset_reset="earliest",
        state_dir=state,
        commit_every=7,
        commit_interval=1.0,
        loglevel="WARNING",
        consumer_poll_timeout=0.1,
        consumer_extra_config=CONSUMER,
        producer_extra_config=PRODUCER | own,
        processing_guarantee=setting.guarantee,
    )


def warm_up():
    """Load kernels before the broker waits for this consumer."""
    service = make_service()
    service.handle(b'{"id": 1, "docs": {"a": {"x": 1, "y": 0}, "b": {"x": 0, "y": 1}}}')
    service.handle(b'{"id": 1, "grades": {"a": 0, "b": 1}}')


def work(setting, state, to_live):
    """Handle events; die after `to_live` of them, or live on where they are 0."""
    left, event = to_live, KeyedRankers.event

    def mortal(self, request, key, state, *place):
        nonlocal left
        answer = event(self, request, key, state, *place)
        if "stats" in answer:
            answer["digest"] = hashlib.sha256(to_bytes(self.service(key, state))).hexdigest()
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    KeyedRankers.event = mortal
    warm_up()
    app = application(setting, state)
    events = app.dataframe(app.topic(setting.events, value_deserializer="bytes", config=topic_config()))
    rankers(events, make_service, every=20).to_topic(app.topic(setting.answers, config=topic_config()))
    app.run()
