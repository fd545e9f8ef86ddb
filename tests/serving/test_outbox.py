"""Rankings go to the learner in batches, and feedback that waits for one hurries it."""

import asyncio
import contextlib
import json
import time

from online_rank.serving import outbox
from online_rank.serving.outbox import Outbox


@contextlib.asynccontextmanager
async def sending(seconds=0.0):
    """A queue to a learner that takes some seconds for each batch, and the ids of the batches that it got."""
    batches = []

    async def send(key, body):
        await asyncio.sleep(seconds)
        batches.append([each["id"] for each in json.loads(body)])
        return 200, {"refused": []}

    queue = Outbox(send)
    task = asyncio.create_task(queue.send_all())
    try:
        yield queue, batches
    finally:
        task.cancel()


def put(queue, query_id, key=None):
    queue.put(key, query_id, json.dumps({"id": query_id}).encode())


def test_what_comes_while_the_learner_answers_waits_for_others():
    """Each batch after the first had what came during the answer to the one before: one or two rankings of a quick learner."""

    async def scenario():
        async with sending(0.005) as (queue, batches):
            began = time.monotonic()
            for t in range(100):
                put(queue, t)
                await asyncio.sleep(0.003)
            await queue.sent(None, 99)
            assert [each for batch in batches for each in batch] == [*range(100)]
            assert len(batches) <= (time.monotonic() - began) / outbox._COMPANY + 2

    asyncio.run(scenario())


def test_feedback_does_not_wait_for_others(monkeypatch):
    monkeypatch.setattr(outbox, "_COMPANY", 60.0)

    async def scenario():
        async with sending() as (queue, batches), asyncio.timeout(30):
            put(queue, 1)
            await asyncio.sleep(0.05)
            await queue.sent(None, 1)
            put(queue, 2)
            await queue.sent(None, 2)
            assert batches == [[1], [2]]

    asyncio.run(scenario())


def test_many_do_not_wait_for_others(monkeypatch):
    monkeypatch.setattr(outbox, "_COMPANY", 60.0)

    async def scenario():
        async with sending() as (queue, batches), asyncio.timeout(30):
            for t in range(outbox._AT_ONCE):
                put(queue, t)
            while not batches:
                await asyncio.sleep(0.01)
            assert len(batches[0]) == outbox._AT_ONCE

    asyncio.run(scenario())


def test_keys_are_sent_one_after_the_other_in_one_turn(monkeypatch):
    monkeypatch.setattr(outbox, "_COMPANY", 0.5)

    async def scenario():
        async with sending() as (queue, batches), asyncio.timeout(30):
            began = time.monotonic()
            for key in range(20):
                put(queue, f"query of {key}", key=str(key))
            while len(batches) < 20:
                await asyncio.sleep(0.01)
            assert time.monotonic() - began < 5.0

    asyncio.run(scenario())


def test_the_last_of_several_rankings_of_an_id_is_waited_for():
    async def scenario():
        async with sending() as (queue, batches), asyncio.timeout(30):
            put(queue, 1)
            put(queue, 1)
            await queue.sent(None, 1)
            assert [each for batch in batches for each in batch] == [1, 1]
            assert not queue.n_bytes

    asyncio.run(scenario())
