"""A model that is replaced while it serves: what comes later was learned by the new one, whenever the process ends."""

import asyncio
import collections
import errno
import json
import shutil

import pytest

from online_rank import PerceptronRanker, SwapRanker
from online_rank.serving.durable import DurableService, read_service
from online_rank.serving.protocol import RankingService
from online_rank.serving.replacing import replace, roll_back
from online_rank.serving.served import ServedModel
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.storage.state import StateDirectory


def opened(place, **options):
    model = PerceptronRanker()
    model.max_features = 2
    return DurableService(RankingService(model, **options), place, 1000)


def taught(measure="ap", n=20):
    model = PerceptronRanker(measure)
    for _ in range(n):
        model.learn_one({"a": {"x": 1.0}, "b": {"y": 1.0}, "c": {"z": 1.0}}, {"a": 0, "b": 2, "c": 1})
    return model


async def learned(served, number, names="xy"):
    """Let a query be ranked and learned; both must be accepted."""
    docs = {name: {feature: float(number % 3 + i)} for i, (name, feature) in enumerate(zip("abc", names, strict=False))}
    for request in ({"id": number, "docs": docs}, {"id": number, "grades": {name: i for i, name in enumerate(docs)}}):
        status, answer = await served.answer(json.dumps(request).encode())
        assert (status, answer.get("learned", True)) == (200, True), answer


def after_a_crash(place, to):
    """The service that another process finds in a copy of a folder, as if this one had been killed."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(place, to)
    again = opened(to)
    assert to_bytes(read_service(to)) == to_bytes(again.service)
    return again


@pytest.mark.slow
def test_a_crash_at_any_time_finds_what_the_new_model_has_learned(tmp_path):
    async def scenario():
        served = ServedModel(opened(tmp_path / "run"))
        for number in range(5):
            await learned(served, number)
        replacing = asyncio.create_task(replace(served, to_bytes(taught())))
        number, states = 5, {}
        while number < 10 or not replacing.done():
            await learned(served, number)
            states[served.durable.service.n_changes] = to_bytes(served.durable.service)
            # All that was written so far: as for a process that is killed now. It may lack the exchange, nothing before it.
            found = read_service(tmp_path / "run")
            assert to_bytes(found) == states.get(found.n_changes, to_bytes(found))
            assert found.stats()["learned"] == number + 1
            number += 1
            await asyncio.sleep(0)
        assert await replacing == (200, {"replaced": True})
        await learned(served, number)
        assert read_service(tmp_path / "run").model.measure == "ap"
        await served.close()
        # A restart with the same command continues with the new model, which has other settings.
        again = opened(tmp_path / "run")
        assert again.service.model.measure == "ap"
        again.close()

    asyncio.run(scenario())


def test_the_page_says_which_models_served_and_what_was_counted_today(tmp_path):
    async def scenario():
        served = ServedModel(opened(tmp_path / "run"))
        await learned(served, 0)
        file = to_bytes(taught())
        assert (await replace(served, file))[0] == (await roll_back(served))[0] == 200
        shown = served.snapshot()
        replaced = "the model was replaced by a file of "
        assert [text[: len(replaced)] for _, text in shown["decisions"]] == [
            "rolled back to the model before",
            replaced,
        ]
        assert shown["decisions"][1][1] == f"{replaced}{len(file)} bytes"
        assert (shown["today"]["ranked"], shown["today"]["learned"], shown["today"]["drawn"]) == (1, 1, 0)
        await served.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("rolls_back", [False, True])
def test_if_the_checkpoint_cannot_be_written_the_journal_has_the_new_model(tmp_path, monkeypatch, rolls_back):
    """The model before takes two features: what came later, it would have learned otherwise."""

    def full(self, generation):
        raise OSError(errno.ENOSPC, "no room")
        yield

    async def scenario():
        served = ServedModel(opened(tmp_path / "run"))
        await learned(served, 0)
        before = served.model_file()
        monkeypatch.setattr(StateDirectory, "replacing", full)
        assert await replace(served, to_bytes(taught())) == (200, {"replaced": True})
        await learned(served, 1, "xyz")
        changed = served.model_file()
        if rolls_back:
            assert await roll_back(served) == (200, {"replaced": True})
            assert served.model_file() == before
            await learned(served, 2)
        # The crash may come before the model that was replaced has its file.
        (tmp_path / "run" / "previous.npz").unlink()
        expected = to_bytes(served.durable.service)
        monkeypatch.undo()
        again = ServedModel(after_a_crash(tmp_path / "run", tmp_path / "copy"))
        assert to_bytes(again.durable.service) == expected
        assert again.durable.service.stats()["learned"] == (3 if rolls_back else 2)
        assert await roll_back(again) == (200, {"replaced": True})
        assert again.model_file() == (changed if rolls_back else before)
        served.durable.close()
        await again.close()

    asyncio.run(scenario())


def test_without_room_for_another_model_nothing_changes(tmp_path, monkeypatch):
    async def scenario():
        served = ServedModel(opened(tmp_path / "run"))
        await learned(served, 0)
        before = to_bytes(served.durable.service)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: collections.namedtuple("Usage", "free")(1000))
        status, answer = await replace(served, to_bytes(taught()))
        assert (status, "room" in answer["error"]) == (503, True)
        assert to_bytes(served.durable.service) == before
        await learned(served, 1)
        await served.close()

    asyncio.run(scenario())


def test_one_that_learns_from_other_feedback_is_refused_and_nothing_is_recorded(tmp_path):
    async def scenario():
        served = ServedModel(opened(tmp_path / "run"))
        await learned(served, 0)
        before = to_bytes(served.durable.service)
        assert (await replace(served, to_bytes(SwapRanker())))[0] == 400
        assert to_bytes(served.durable.service) == before
        await learned(served, 1)
        await served.close()
        assert read_service(tmp_path / "run").stats()["learned"] == 2

    asyncio.run(scenario())


def test_a_start_with_another_model_that_cannot_be_written_leaves_the_folder_as_it_was(tmp_path, monkeypatch):
    def full(self, generation):
        raise OSError(errno.ENOSPC, "no room")
        yield

    def started():
        service = RankingService(from_bytes(to_bytes(taught())), origin="two")
        return DurableService(service, tmp_path / "run", replace_model=True)

    async def scenario():
        served = ServedModel(opened(tmp_path / "run", origin="one"))
        await learned(served, 0)
        served.durable.close()

    asyncio.run(scenario())
    before = to_bytes(read_service(tmp_path / "run"))
    monkeypatch.setattr(StateDirectory, "replacing", full)
    with pytest.raises(OSError, match="no room"):
        started()
    assert to_bytes(read_service(tmp_path / "run")) == before
    monkeypatch.undo()
    again = started()
    assert to_bytes(again.service.model) == to_bytes(taught())
    again.close()


def test_losses_in_one_measure_are_no_losses_in_another():
    service = RankingService(PerceptronRanker())
    docs = {"a": {"x": 1.0}, "b": {"x": 2.0}}
    service.handle(json.dumps({"id": 1, "docs": docs}).encode())
    service.handle(json.dumps({"id": 1, "grades": {"a": 0, "b": 1}}).encode())
    counted = service.stats()["loss_sum"]
    assert counted > 0.0
    service.replace_model(taught("ndcg@10"), "same")
    assert service.stats()["loss_sum"] == counted
    service.replace_model(taught("ap"), "other")
    assert service.stats()["loss_sum"] != counted


def test_losses_are_counted_once_and_outlive_a_restart(tmp_path):
    """With rankings waiting, the service counted losses after a restart, its page none, and Prometheus had no number."""

    async def some_learned():
        served = ServedModel(opened(tmp_path / "run"))
        for number in range(3):
            await learned(served, number)
        for number in range(3, 5):
            status, _ = await served.answer(json.dumps({"id": number, "docs": {"a": {"x": 1.0}}}).encode())
            assert status == 200
        stats, losses = served.durable.service.stats(), served.monitor.losses
        await served.close()
        return stats["loss_sum"], losses.mean

    async def restarted():
        served = ServedModel(opened(tmp_path / "run"))
        stats, losses = served.durable.service.stats(), served.monitor.losses
        await served.close()
        return stats, losses

    loss_sum, mean = asyncio.run(some_learned())
    stats, losses = asyncio.run(restarted())
    assert stats["pending"] == 2
    assert (losses.n, losses.mean) == (3, mean)
    assert stats["loss_sum"] == loss_sum == pytest.approx(3 * mean)
