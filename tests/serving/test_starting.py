"""A service whose state cannot be opened ranks, and learns as soon as it can be: in one process, with errors of any kind."""

import asyncio
import errno
import json
import os
import sqlite3

import httpx
import pytest

from online_rank import PerceptronRanker, PlackettLuce, SwapRanker
from online_rank.serving import Limits, Models, RankingApp, RankingService, durable, leading, starting
from online_rank.serving.cached import Cache
from online_rank.serving.identity import OtherService
from online_rank.serving.starting import StandIn
from online_rank.storage.checkpoint import STATE
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.storage.folder import CheckpointError, FolderInUse
from tests.helpers import until
from tests.serving.asking import client_of

DOCS = {"a": {"x": 3.0}, "b": {"x": 1.0, "y": 2.0}}


def make(**options):
    return RankingService(PerceptronRanker(**options))


async def learn(client, query_id, path=""):
    body = {"id": query_id, "docs": DOCS, "grades": {"a": 0, "b": 2}}
    return await client.post(f"/learn{path}", json=body)


async def rank(client, query_id, path=""):
    return (await client.post(f"/rank{path}", json={"id": query_id, "docs": DOCS})).json()


def run(scenario, app):
    async def main():
        async with client_of(app) as client, app.running():
            return await scenario(client, app)

    return asyncio.run(main())


@pytest.fixture
def folder(tmp_path):
    """The folder of a service that has learned to rank b first."""

    async def scenario(client, app):
        assert (await learn(client, "q1")).status_code == (await learn(client, "q2")).status_code == 200

    run(scenario, RankingApp(Models(make, directory=tmp_path / "state")))
    return tmp_path / "state"


@pytest.fixture
def fails(monkeypatch):
    """Errors with which states are opened next; and seconds that are no test's."""
    errors, opened = [], durable.opened

    def failing(place):
        if errors:
            raise errors.pop(0)
        return opened(place)

    monkeypatch.setattr(durable, "opened", failing)
    monkeypatch.setattr(starting, "_FIRST", 0.02)
    monkeypatch.setattr(starting, "_MOST", 0.02)
    return errors


def os_error(number):
    return OSError(number, os.strerror(number), "state.db")


@pytest.mark.parametrize(
    ("error", "field", "text"),
    [
        (os_error(errno.ENOSPC), "disk_full", "the disk is full; nothing is learned until there is room"),
        (os_error(errno.EDQUOT), "disk_full", "the disk is full; nothing is learned until there is room"),
        (os_error(errno.EACCES), "read_only", "the folder cannot be written; nothing is learned until it can be"),
        (os_error(errno.EROFS), "read_only", "the folder cannot be written; nothing is learned until it can be"),
        (os_error(errno.EIO), "read_only", "the state cannot be opened; nothing is learned until it can be"),
        (CheckpointError("acknowledged is damaged"), "read_only", "the state cannot be opened; nothing is learned until it"),
    ],
    ids=str,
)
def test_it_ranks_with_the_state_and_learns_when_it_can_be_opened(error, field, text, folder, fails):
    fails += [error] * 30
    models = Models(make, directory=folder)

    async def scenario(client, app):
        assert isinstance(models.single, StandIn)
        ranked = await rank(client, "q3")
        assert (ranked["ranking"], ranked["greedy"]) == (["b", "a"], True)
        refused = await learn(client, "q4")
        assert (refused.status_code, refused.headers["retry-after"], refused.json()["error"][: len(text)]) == (503, "1", text)
        ready = (await client.get("/readyz")).json()
        assert (ready["ok"], field in ready) == (True, True)
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.post("/forget", json={"ids": ["q1"]})).status_code == 503
        n_ranked = models.counts["ranked"]
        await until(lambda: not isinstance(models.single, StandIn))
        assert models.counts["ranked"] >= n_ranked
        assert (await client.get("/readyz")).json() == {"ok": True}
        assert (await learn(client, "q1")).json()["duplicate"]
        assert (await learn(client, "q4")).json()["learned"]
        assert "greedy" not in await rank(client, "q5")

    run(scenario, RankingApp(models))
    assert durable.read_service(folder).counts()["learned"] == 3


def test_a_new_service_ranks_where_it_has_no_room_yet(tmp_path, fails):
    fails += [os_error(errno.ENOSPC)] * 3
    models = Models(lambda: RankingService(SwapRanker(PlackettLuce(2, seed=3))), directory=tmp_path / "new")

    async def scenario(client, app):
        ranked = await rank(client, "q")
        assert (ranked["ranking"], ranked["greedy"], "shown" in ranked) == (["a", "b"], True, False)
        assert (await client.get("/readyz")).status_code == 200
        await until(lambda: not isinstance(models.single, StandIn))
        assert "shown" in await rank(client, "q2")

    run(scenario, RankingApp(models))


def test_what_somebody_has_to_choose_ends_the_start(folder, fails):
    fails += [os_error(errno.ENOSPC)]
    with pytest.raises(OtherService, match="measure is 'ndcg@10', here 'ap'"):
        Models(lambda: make(measure="ap"), directory=folder)
    with pytest.raises(OtherService, match="measure is 'ndcg@10', here 'ap'"):
        Models(lambda: make(measure="ap"), directory=folder)
    fails += [FolderInUse("taken")]
    with pytest.raises(FolderInUse):
        Models(make, directory=folder)
    with pytest.raises(FileNotFoundError):
        Models(make, directory=folder / "no" / "such")


def damage(folder):
    with sqlite3.connect(folder / STATE) as database:
        database.execute("UPDATE piece SET content = zeroblob(length(content))")
    database.close()


def test_with_a_damaged_state_the_newest_whole_model_ranks_and_a_restored_one_is_opened(folder, tmp_path, fails):
    learned = durable.read_service(folder).model
    whole = (folder / STATE).read_bytes()
    damage(folder)

    def ranking(cache=None):
        models = Models(make, directory=folder, cache=cache)
        assert isinstance(models.single, StandIn)
        found = models.single.durable.service.handle(json.dumps({"id": 0, "docs": DOCS}).encode()).answer["ranking"]
        return found, bool(models.why_not_ready)

    assert ranking() == (["a", "b"], True)
    Cache(tmp_path / "cache").put(to_bytes(learned))
    assert ranking(tmp_path / "cache") == (["b", "a"], False)
    (folder / "previous.npz").write_bytes(to_bytes(learned))
    (folder / "snapshot-2026-01-02.npz").write_bytes(b"damaged, too")
    assert ranking() == (["b", "a"], False)

    async def scenario(client, app):
        assert (await client.get("/readyz")).json()["ok"]
        (folder / STATE).write_bytes(whole)
        await until(lambda: not isinstance(app.models.single, StandIn))
        assert (await learn(client, "q1")).json()["duplicate"]

    run(scenario, RankingApp(Models(make, directory=folder)))


def test_a_key_that_cannot_be_opened_ranks_next_to_others_that_learn(tmp_path, fails):
    async def begin(client, app):
        for key in ("one", "two"):
            assert (await learn(client, "q1", f"?shop={key}")).status_code == 200

    run(begin, RankingApp(Models(make, directory=tmp_path / "keys", by_key=True), key="shop"))
    models = Models(make, directory=tmp_path / "keys", by_key=True, max_open=1)
    fails += [os_error(errno.ENOSPC)] * 30

    async def scenario(client, app):
        ranked = await rank(client, "q2", "?shop=one")
        assert (ranked["ranking"], ranked["greedy"]) == (["b", "a"], True)
        assert (await learn(client, "q3", "?shop=one")).status_code == 503
        assert models.why_not_ready == ""
        fails.clear()
        # It has nothing to write, and makes room for another key.
        assert (await learn(client, "q3", "?shop=two")).json()["learned"]
        assert [*models.open_models] == ["two"]
        assert (await learn(client, "q3", "?shop=one")).json()["learned"]

    run(scenario, RankingApp(models, key="shop"))


def test_the_cache_has_the_present_model_and_nothing_that_was_forgotten(tmp_path):
    models = Models(make, directory=tmp_path / "state", cache=tmp_path / "cache")
    file = tmp_path / "cache" / "model.npz"

    async def scenario(client, app):
        await until(file.exists)
        first = file.read_bytes()
        assert (await learn(client, "q1")).json()["learned"]
        assert (await client.post("/forget", json={"context": {"user": "u"}})).status_code == 200
        assert to_bytes(from_bytes(file.read_bytes())) == to_bytes(models.single.durable.service.model) != first
        assert (await learn(client, "q2")).json()["learned"]

    run(scenario, RankingApp(models))
    assert to_bytes(from_bytes(file.read_bytes())) == to_bytes(durable.read_service(tmp_path / "state").model)


def test_a_server_whose_database_is_away_ranks_with_the_model_of_the_cache(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(leading, "_BETWEEN_TRIES", 0.02)
    service = durable.read_service(folder)
    errors = [OSError("no route to host")] * 40

    def lead():
        if errors:
            raise errors.pop(0)
        raise FolderInUse("taken")

    def stand_in(why):
        return RankingApp(Models(make, only=StandIn(service, why)))

    async def main():
        app = leading.LeadingApp(lead, Limits(), stand_in)
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")
        async with client, app._lifespan(app), asyncio.timeout(30):
            while (ready := await client.get("/readyz")).status_code != 200:
                await asyncio.sleep(0.005)
            assert ready.json()["read_only"] == "no route to host"
            ranked = await rank(client, "q")
            assert (ranked["ranking"], ranked["greedy"]) == (["b", "a"], True)
            assert (await learn(client, "q")).status_code == 503
            # A reader keeps the model that it has.
            assert (await client.get("/model")).status_code == 503
            errors.clear()
            while (ready := await client.get("/readyz")).status_code == 200:
                await asyncio.sleep(0.005)
            assert ready.json()["error"] == "another server leads"

    asyncio.run(main())


def test_a_server_of_other_options_ranks_not_even_with_the_model_of_the_cache(folder, monkeypatch):
    monkeypatch.setattr(leading, "_BETWEEN_TRIES", 0.02)
    service, why = durable.read_service(folder), [OSError("no route to host")]

    def lead():
        raise why[-1]

    async def main():
        app = leading.LeadingApp(lead, Limits(), lambda error: RankingApp(Models(make, only=StandIn(service, error))))
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")
        async with client, app._lifespan(app), asyncio.timeout(30):
            for error, status in ((why[0], 200), (OtherService("other options"), 503), (ValueError("damaged"), 200)):
                why.append(error)
                while (ready := await client.get("/readyz")).status_code != status or str(error) not in ready.text:
                    await asyncio.sleep(0.005)
                asked = await client.post("/rank", json={"id": "q", "docs": {"a": {"x": 1.0}}})
                assert (asked.status_code, (await client.get("/healthz")).status_code) == (status, status)

    asyncio.run(main())
