"""A key of a topic, without a broker: its state, and workers that fail."""

import json

from online_rank.distributed.keyed import KeyedRankers
from online_rank.storage.files import to_bytes


class State(dict):
    """The state of a key, as engines of streams keep it."""

    get_bytes, set_bytes = dict.get, dict.__setitem__

    def delete(self, name):
        self.pop(name, None)


def of_failing_workers(service, requests, after):
    """The bytes of a model that workers teach, one after the other, and of one that a single service teaches.

    A worker fails after the requests with the numbers `after`; the next one gets that request a second time.
    """
    once, state, workers = service(), State(), KeyedRankers(service, every=7)
    for offset, request in enumerate(requests):
        event = json.dumps(request).encode()
        answer = once.handle(event).answer
        assert "error" not in answer, answer
        workers.event(event, b"shop", state, "events", 0, offset)
        if offset in after:
            workers = KeyedRankers(service, every=7)
            workers.event(event, b"shop", state, "events", 0, offset)
    return to_bytes(workers.service(b"shop", state).model), to_bytes(once.model)
