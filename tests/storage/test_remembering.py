"""Learned ids are remembered for a time, in the database of a service and not in its memory."""

import json
import sqlite3

import pytest

from online_rank import PerceptronRanker
from online_rank.serving import RankingService
from online_rank.serving.durable import DurableService, read_service
from online_rank.serving.messages import Forget
from online_rank.storage.folder import CheckpointError

HOUR = 3600.0


class Time:
    """A monotonic clock."""

    def __init__(self):
        self.now = 1e6

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Time()
    monkeypatch.setattr("online_rank.serving.durable.time.monotonic", found)
    return found


def opened(place, every=1000):
    return DurableService(RankingService(PerceptronRanker()), place, every, remember=24 * HOUR)


def taught(durable, query_id, grade=1):
    """Whether a query was learned, as the answer has it."""
    query = {"id": query_id, "docs": {"a": {"x": 1}, "b": {"x": 2}}, "grades": {"a": grade, "b": 0}}
    reply = durable.service.handle(json.dumps(query).encode())
    durable.append(reply.outcomes, sync=True)
    durable.between_commits()
    return "learned" if reply.answer["learned"] else next(name for name in ("duplicate", "late") if name in reply.answer)


def rows(place):
    with sqlite3.connect(place / "state.db") as reader:
        return [json.loads(query_id) for (query_id,) in reader.execute("SELECT id FROM learned ORDER BY change")]


@pytest.mark.parametrize("every", [1, 7, 1000])
def test_learned_ids_are_known_although_the_memory_does_not_hold_them(tmp_path, every):
    durable = opened(tmp_path, every)
    for number in range(20):
        assert taught(durable, number) == "learned"
        assert taught(durable, str(number)) == "learned"
    for _ in range(2):
        assert not durable.service._learned
        assert [taught(durable, 0), taught(durable, "0"), taught(durable, 19), taught(durable, 19, 0)] == ["duplicate"] * 3 + [
            "late"
        ]
        assert durable.service.stats()["learned"] == 40
        durable.close()
        durable = opened(tmp_path, every)
    durable.close()


def test_few_unknown_ids_are_looked_up_in_the_database(tmp_path):
    """Each look makes the event loop give way to other threads, twice."""
    durable = opened(tmp_path)
    for number in range(300):
        durable.append(
            durable.service.handle(b'{"id": %d, "docs": {"a": {"x": 1}}, "grades": {"a": 1}}' % number).outcomes, sync=False
        )
    durable.close()
    durable = opened(tmp_path)
    looks, learned = [], durable.store.learned
    durable.store.learned = lambda query_id: (looks.append(query_id), learned(query_id))[1]
    assert all(durable.service.learned_as(number) is not None for number in range(300))
    assert not any(durable.service.learned_as(f"new {number}") for number in range(300))
    assert 300 <= len(looks) < 330
    durable.close()


def test_an_id_that_is_not_written_yet_is_known(tmp_path):
    durable = opened(tmp_path)
    request = b'{"id": 1, "docs": {"a": {"x": 1}, "b": {"x": 2}}, "grades": {"a": 1, "b": 0}}'
    first = durable.service.handle(request)
    assert durable.service.handle(request).answer == {"id": 1, "learned": False, "duplicate": True}
    durable.append(first.outcomes, sync=True)
    assert durable.service.handle(request).answer == {"id": 1, "learned": False, "duplicate": True}
    durable.close()


def test_an_id_is_forgotten_after_its_time_and_may_be_learned_again(tmp_path, clock):
    durable = opened(tmp_path)
    assert [taught(durable, "a"), taught(durable, "b")] == ["learned", "learned"]
    clock.now += 23 * HOUR
    assert [taught(durable, "a"), taught(durable, "c")] == ["duplicate", "learned"]
    clock.now += 2 * HOUR
    assert [taught(durable, "a"), taught(durable, "c"), taught(durable, "a")] == ["learned", "duplicate", "duplicate"]
    expected = durable.service.stats()
    durable.close()
    # The journal has both; it is replayed as it was.
    assert read_service(tmp_path).stats() == expected
    again = opened(tmp_path)
    assert [taught(again, "a"), taught(again, "b"), taught(again, "c")] == ["duplicate", "learned", "duplicate"]
    again.close()


def test_time_without_a_process_does_not_count(tmp_path, clock):
    durable = opened(tmp_path)
    clock.now += 5 * HOUR
    taught(durable, "a")
    durable.close()
    clock.now = 7.0  # The machine restarted.
    durable = opened(tmp_path)
    clock.now += 23 * HOUR
    assert [taught(durable, "a"), taught(durable, "b")] == ["duplicate", "learned"]
    clock.now += 2 * HOUR
    assert [taught(durable, "a"), taught(durable, "b")] == ["learned", "duplicate"]
    durable.close()


def test_expired_ids_leave_the_database_some_with_each_checkpoint(tmp_path, clock, monkeypatch):
    """Deleting all of those that have expired at once would make requests wait for a checkpoint."""
    monkeypatch.setattr("online_rank.storage.journal._MORE", 0)
    durable = opened(tmp_path, every=5)
    for number in range(50):
        taught(durable, number)
    clock.now += 25 * HOUR
    sizes = []
    for number in range(100, 160):
        taught(durable, number)
        sizes.append(len(rows(tmp_path)))
    assert sizes[:11] == [51, 52, 53, 54, 45, 46, 47, 48, 49, 40, 41]
    assert rows(tmp_path) == [*range(100, 160)]
    durable.close()
    opened(tmp_path).close()


def test_what_is_forgotten_leaves_the_database_although_it_has_expired(tmp_path, clock, monkeypatch):
    monkeypatch.setattr("online_rank.storage.journal._MORE", 0)
    durable = opened(tmp_path)
    taught(durable, "a")
    clock.now += 25 * HOUR
    assert [taught(durable, "a"), taught(durable, "b")] == ["learned", "learned"]
    assert durable.forget(Forget(ids=["a"])).learned == ("a",)
    assert taught(durable, "a") == "learned"
    durable.save()
    assert rows(tmp_path)[-2:] == ["b", "a"]
    clock.now += 25 * HOUR
    n_rows = len(rows(tmp_path))
    assert durable.forget(Forget(ids=["a"])).learned == ()
    durable.save()
    assert "a" not in rows(tmp_path)
    assert len(rows(tmp_path)) == n_rows
    durable.close()
    opened(tmp_path).close()


def test_a_damaged_id_is_neither_learned_again_nor_a_duplicate(tmp_path):
    durable = opened(tmp_path)
    taught(durable, "a")
    with sqlite3.connect(tmp_path / "state.db") as editor:
        editor.execute("UPDATE learned SET feedback = feedback + 1")
    request = b'{"id": "a", "docs": {"a": {"x": 1}, "b": {"x": 2}}, "grades": {"a": 1, "b": 0}}'
    assert "the id learned by change 1 is damaged" in durable.service.handle(request).answer["error"]
    durable.close()
    with pytest.raises(CheckpointError, match="the id learned by change 1 is damaged"):
        opened(tmp_path)
