"""An application that handles the events of a topic, and kills itself, by SIGKILL, after some of them.

python -m tests.distributed.keyed_worker BROKER STATE_DIRECTORY EVENTS_TO_LIVE; it lives on where they are 0.
"""

import hashlib
import os
import signal
import sys

from online_rank import PerceptronRanker, StreamScaler
from online_rank.distributed import to_bytes
from online_rank.distributed.keyed import KeyedRankers, rankers
from online_rank.serving.protocol import RankingService

#: A test does not wait for a minute until the broker gives up a consumer that was killed.
CONSUMER = {
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 300,
    "max.poll.interval.ms": 30_000,
    "fetch.wait.max.ms": 50,
}


def make_service():
    return RankingService(StreamScaler() | PerceptronRanker(), max_pending=20)


def topic_config():
    from quixstreams.models import TopicConfig

    return TopicConfig(num_partitions=1, replication_factor=1, extra_config={"retention.ms": "604800000"})


def application(broker, state):
    from quixstreams import Application

    return Application(
        broker, consumer_group="rankers", auto_offset_reset="earliest", state_dir=state, commit_every=7, loglevel="WARNING",
        consumer_poll_timeout=0.1, consumer_extra_config=CONSUMER,
    )  # fmt: skip


def warm_up():
    """Load kernels before the broker waits for this consumer."""
    service = make_service()
    service.handle(b'{"id": 1, "docs": {"a": {"x": 1, "y": 0}, "b": {"x": 0, "y": 1}}}')
    service.handle(b'{"id": 1, "grades": {"a": 0, "b": 1}}')


def main(broker, state, to_live):
    left, event = int(to_live), KeyedRankers.event

    def mortal(self, request, key, state, partition, offset):
        nonlocal left
        answer = event(self, request, key, state, partition, offset)
        if "stats" in answer:
            answer["digest"] = hashlib.sha256(to_bytes(self.service(key, state))).hexdigest()
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    KeyedRankers.event = mortal
    warm_up()
    from quixstreams.state.exceptions import InvalidStoreChangelogOffset

    try:
        run(broker, state)
    except InvalidStoreChangelogOffset:
        # What the engine asks for; tansu's changelog may say that it is shorter than what the killed worker had written down.
        application(broker, state).clear_state()
        run(broker, state)


def run(broker, state):
    app = application(broker, state)
    events = app.dataframe(app.topic("events", value_deserializer="bytes", config=topic_config()))
    rankers(events, make_service, every=20).to_topic(app.topic("answers", config=topic_config()))
    app.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
