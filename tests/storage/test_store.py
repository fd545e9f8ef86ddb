"""A service keeps its state in any `StateStore`, not in folders alone."""

import json

import pytest

from online_rank import PerceptronRanker
from online_rank.serving import RankingService
from online_rank.serving.durable import DurableService
from online_rank.serving.identity import go_on
from online_rank.serving.models import Models
from online_rank.serving.replacing import replace, roll_back
from online_rank.serving.served import ServedModel
from online_rank.storage import CheckpointError
from online_rank.storage.files import to_bytes
from online_rank.storage.generations import assembled, pieces_of
from online_rank.storage.store import StateStore


class Disk:
    """What survives a process: rows by number, as a database on another machine would have them."""

    def __init__(self):
        self.generation, self.pieces = None, {}
        self.journal, self.rows, self.ids, self.files = {}, {}, {}, {}


class Saved:
    """What there was on a `Disk` when it was opened."""

    def __init__(self, disk):
        self._disk = disk
        self.start, self.value, self._waited = 0, None, []
        if disk.generation is not None:
            self.start, manifest = disk.generation
            self.value, waited = assembled(manifest, disk.pieces.get)
            self._waited = waited.tolist()

    @property
    def latest(self):
        return max((at for _, _, at in self._disk.ids.values()), default=0.0)

    def learned(self):
        yield from ((query_id, change, feedback) for query_id, (change, feedback, _) in self._disk.ids.items())

    def since(self):
        for _, (outcome, number) in sorted(self._disk.journal.items()):
            yield outcome, number, None if number is None else self._disk.rows[number]

    def queries(self):
        return sorted(self._disk.rows)

    def waiting(self):
        yield from ((number, self._disk.rows[number]) for number in self._waited)


class DiskStore(StateStore):
    """A store on a `Disk`."""

    def __init__(self, disk):
        self.disk, self.closed = disk, False
        self.saved = Saved(disk)
        self.change = max(disk.journal, default=self.saved.start)
        self.journal_bytes = sum(len(outcome) for outcome, _ in disk.journal.values())

    def __str__(self):
        return "the disk"

    def append(self, changes, wait):
        for outcome, number, query, learned in changes:
            self.change += 1
            self.disk.journal[self.change] = (outcome, number)
            self.journal_bytes += len(outcome)
            if number is not None:
                self.disk.rows[number] = query
            if learned is not None:
                query_id, feedback, at = learned
                self.disk.ids[query_id] = self.change, feedback, at

    def replacing(self, generation):
        manifest, contents = pieces_of(generation.snapshot)
        self.disk.pieces |= {name: bytes(content) for name, content in contents.items()}
        yield
        disk = self.disk
        disk.generation = generation.change, manifest
        disk.journal = {change: row for change, row in disk.journal.items() if change > generation.change}
        gone = dict(generation.forgotten)
        disk.ids = {query_id: row for query_id, row in disk.ids.items() if row[0] > gone.get(query_id, 0)}
        disk.rows = {number: row for number, row in disk.rows.items() if number not in generation.gone}
        self.journal_bytes = sum(len(outcome) for outcome, _ in disk.journal.values())

    def query(self, number):
        return self.disk.rows[number]

    def learned(self, query_id):
        return self.disk.ids.get(query_id)

    def replace_queries(self, queries):
        self.disk.rows |= queries

    def purge(self):
        return iter(())

    def read_again(self):
        pass

    def file(self, name):
        return self.disk.files.get(name)

    def put_file(self, name, content):
        self.disk.files[name] = content

    def file_names(self):
        return [*self.disk.files]

    def delete_file(self, name):
        self.disk.files.pop(name, None)

    def close(self):
        self.closed = True


def requests():
    """Queries, feedback on most of them, some of it late."""
    for t in range(60):
        docs = {"a": {"x": 1.0 + t % 3}, "b": {"x": 2.0}, "c": {"x": float(t % 5)}}
        yield {"id": f"q{t}", "docs": docs}
        if t >= 4 and t % 7:
            yield {"id": f"q{t - 4}", "grades": {"a": t % 2, "b": t % 3, "c": 1}}


@pytest.mark.parametrize("every", [1, 7, 1000])
def test_a_service_continues_from_another_store_as_if_it_had_never_ended(every):
    disk, whole = Disk(), RankingService(PerceptronRanker())
    durable = DurableService(RankingService(PerceptronRanker()), DiskStore(disk), every)
    for number, request in enumerate(requests()):
        raw = json.dumps(request).encode()
        expected, reply = whole.handle(raw), durable.service.handle(raw)
        assert reply.answer == expected.answer
        durable.append(reply.outcomes, sync=True)
        durable.between_commits()
        if number % 10 == 9:
            # As if killed: nothing more is written.
            durable = DurableService(RankingService(PerceptronRanker()), DiskStore(disk), every)
            assert to_bytes(durable.service.model) == to_bytes(whole.model)
            assert durable.service.stats() == whole.stats()
            assert durable.service._pending.numbers().tolist() == whole._pending.numbers().tolist()
    assert whole.stats()["learned"] > 40


def test_a_store_is_named_in_messages_and_closed_with_the_service():
    disk = Disk()
    store = DiskStore(disk)
    durable = DurableService(RankingService(PerceptronRanker()), store)
    durable.close()
    assert store.closed
    with pytest.raises(CheckpointError, match=r"the disk holds the state of a service with other options: .*'ap'"):
        DurableService(RankingService(PerceptronRanker("ap")), DiskStore(disk))
    assert go_on(RankingService(PerceptronRanker()), RankingService(PerceptronRanker()), "the disk", False) is False


async def _replace_and_roll_back(disk):
    served = ServedModel(DurableService(RankingService(PerceptronRanker()), DiskStore(disk)))
    models = Models(lambda: RankingService(PerceptronRanker()), only=served)
    assert models.example() is served.durable.service
    before = to_bytes(served.durable.service.model)
    status, _ = await replace(served, to_bytes(PerceptronRanker("ap")))
    assert status == 200
    assert served.durable.service.model.measure == "ap"
    # Another process knows the model before, too.
    again = ServedModel(DurableService(RankingService(PerceptronRanker("ap")), DiskStore(disk)))
    status, _ = await roll_back(again)
    assert status == 200
    assert to_bytes(again.durable.service.model) == before


def test_a_server_keeps_the_model_before_in_the_store():
    import asyncio

    asyncio.run(_replace_and_roll_back(Disk()))
