"""All that the limits allow is kept alike in a folder and in PostgreSQL; what a store cannot keep is refused alone."""

import asyncio
import errno
import json
import random
import types

import httpx
import pytest

from online_rank import PerceptronRanker, PlackettLuce, SwapRanker
from online_rank.client import Client, ServiceError
from online_rank.serving import RankingService
from online_rank.serving.durable import DurableService, read_service
from online_rank.serving.kinds import Grades
from online_rank.serving.served import ServedModel
from online_rank.storage.files import to_bytes
from online_rank.storage.folder import StatementFailed, ValueRefused
from tests.reference import postgresql

#: First and last letters of alphabets, and signs that formats and protocols give a meaning to.
ALPHABETS = {"Chinese": (0x4E00, 0x9FFF), "emoji": (0x1F300, 0x1F5FF), "Arabic": (0x0621, 0x064A), "Latin": (0x61, 0x7A),
             "control": (0x00, 0x1F), "signs": (0x21, 0x2F), "private": (0xE000, 0xF8FF)}  # fmt: skip


def longest(alphabet, seed=0):
    rng, (first, last) = random.Random(seed), ALPHABETS[alphabet]
    return "".join(chr(rng.randint(first, last)) for _ in range(1000))


def lines(clicks):
    """Requests at the limits: ids, numbers, names of documents, users and the depth of `meta`."""
    deep = {"a": [{"b": [{"c": [1]}]}]}
    ids = [*map(longest, ALPHABETS), *[longest("emoji", 1), 2**63 - 1, -(2**63), 0, ""]]
    for query_id in ids:
        names = [longest("Chinese", 2), longest("emoji", 3), "", "\u0000"]
        docs = {name: {"x": value} for name, value in zip(names, (1e100, -1e100, 5e-324, 0.0), strict=True)}
        yield {"id": query_id, "docs": docs, "meta": deep, "ts": 1.7e9}
        given = {"clicks": names[:1], "user": longest("Chinese", 4), "session": longest("emoji", 5)}
        for _ in range(2):
            yield {"id": query_id, **(given if clicks else {"grades": dict.fromkeys(names, 0) | {names[0]: 31}})}


@pytest.mark.slow
@pytest.mark.parametrize("clicks", [False, True])
def test_everything_that_the_limits_allow_is_answered_alike(tmp_path, clicks):
    if postgresql.programs() is None:
        pytest.skip("needs PostgreSQL's programs: apt-get install postgresql")
    with postgresql.running() as server:
        found = []
        for place in (tmp_path / "run", server.address):
            ranker = SwapRanker(PlackettLuce(2)) if clicks else PerceptronRanker()
            durable, answers = DurableService(RankingService(ranker), place, 7), []
            for fields in lines(clicks):
                reply = durable.service.handle(json.dumps(fields).encode())
                durable.append(reply.outcomes, sync=reply.learned)
                durable.between_commits()
                answers.append(reply.answer)
            assert durable.checkpoint_failure is None
            durable.close()
            found.append((answers, read_service(place)))
        (here, folder), (there, database) = found
        assert here == there
        assert sum(answer.get("learned", False) for answer in here) == len(ALPHABETS) + 5
        assert sum(answer.get("duplicate", False) for answer in here) == len(ALPHABETS) + 5
        assert folder.stats() == database.stats()
        assert to_bytes(folder.model) == to_bytes(database.model)


def refusing(store, query_id):
    """Let a store refuse changes of an id, as a database does that cannot index it."""
    append = type(store).append

    def refuse(self, changes, wait):
        if any(change.learned is not None and change.learned[0] == json.dumps(query_id) for change in changes):
            raise ValueRefused("index row size 4056 exceeds btree version 4 maximum 2704")
        append(self, changes, wait)

    store.append = types.MethodType(refuse, store)


def test_a_value_that_a_store_cannot_keep_is_refused_alone(tmp_path):
    model = ServedModel(DurableService(RankingService(PerceptronRanker()), tmp_path))
    refusing(model.durable.store, "bad")

    async def send(**fields):
        return await model.answer(json.dumps(fields).encode())

    async def traffic():
        docs = {"a": {"x": 1.0}, "b": {"x": 2.0}}
        for query_id in ("before", "bad", "after"):
            assert (await send(id=query_id, docs=docs))[0] == 200
        grades = {"a": 1, "b": 0}
        first, bad, after = await asyncio.gather(*[send(id=name, grades=grades) for name in ("before", "bad", "after")])
        assert first == (200, {"id": "before", "learned": True, "loss": first[1]["loss"]})
        assert bad == (400, {"error": "index row size 4056 exceeds btree version 4 maximum 2704"})
        assert after == (503, {"error": "another request was refused at the same time: send this again"})
        assert (await send(id="after", grades=grades))[1]["learned"]
        assert model.commits.failure is None
        return to_bytes(model.durable.service.model)

    learned = asyncio.run(traffic())
    model.durable.close()
    kept = read_service(tmp_path)
    assert kept.counts()["learned"] == 2
    assert to_bytes(kept.model) == learned


def test_what_made_a_store_fail_is_answered_so_that_a_client_does_not_repeat_it(tmp_path):
    model = ServedModel(DurableService(RankingService(PerceptronRanker()), tmp_path))

    def fail(changes, wait):
        raise StatementFailed(errno.EIO, "internal error")

    async def traffic():
        await model.answer(b'{"id": 1, "docs": {"a": {"x": 1}, "b": {"x": 2}}}')
        await model.commits.flush()
        model.durable.store.append = fail
        own = await model.answer(b'{"id": 1, "grades": {"a": 1, "b": 0}}')
        return own, await model.answer(b'{"id": 1, "grades": {"a": 1, "b": 0}}')

    (status, answer), (later, other) = asyncio.run(traffic())
    assert (status, answer["repeat"]) == (503, False)
    assert (later, "repeat" in other) == (503, False)
    model.durable.close()


@pytest.mark.parametrize(("answer", "times"), [({"error": "x", "repeat": False}, 1), ({"error": "x"}, 3)])
def test_a_client_repeats_what_is_refused_for_now_and_not_what_made_a_server_fail(answer, times):
    asked = []

    def reply(request):
        asked.append(request)
        return httpx.Response(503, json=answer)

    client = Client("http://localhost", patience=0.5)
    client._http = httpx.Client(transport=httpx.MockTransport(reply), base_url="http://localhost")
    with pytest.raises(ServiceError) as refused:
        client.send(Grades(id=1, grades={"a": 1}))
    assert refused.value.made_it_fail is (times == 1)
    assert (len(asked) == 1) == (times == 1)
