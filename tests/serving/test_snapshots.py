"""The models with which the last days began: kept in the folder, and restored on request."""

import asyncio
import os

import httpx
import pytest

from online_rank import CrossFeatures, PerceptronRanker, StreamScaler
from online_rank.serving import Models, RankingApp, RankingService
from online_rank.serving.clock import CLOCK
from online_rank.serving.durable import read_service
from online_rank.serving.replacing import keep_snapshot
from tests.helpers import run_command, until

#: 2026-11-25, at noon in UTC.
NOON = 1_795_608_000.0


def make():
    return RankingService(StreamScaler() | CrossFeatures("user") | PerceptronRanker())


@pytest.fixture
def pass_days(monkeypatch):
    monkeypatch.setattr(CLOCK, "_ahead", CLOCK._ahead + NOON - CLOCK.now())

    def pass_days(n):
        CLOCK._ahead += 86_400.0 * n

    monkeypatch.setattr("online_rank.serving.clock._STEP", float("inf"))
    return pass_days


def run(scenario, folder, **options):
    async def main():
        key = "shop" if options.get("by_key") else None
        app = RankingApp(Models(make, directory=folder, **options), key=key)
        client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://localhost", params=key and {key: "north"}
        )
        async with app.running(), client:
            return await scenario(client, app)

    return asyncio.run(main())


async def teach(client, i, user="ada"):
    query = {"id": i, "docs": {"a": {"x": 1.0 + i}, "b": {"x": 2.0}}, "grades": {"a": 1, "b": 0}, "context": {"user": user}}
    assert (await client.post("/learn", json=query)).json()["learned"]


async def settle(app):
    """Let a model be kept for the day."""
    for model in app.models.open_models.values():
        await keep_snapshot(model)


def kept(folder):
    return sorted(name.removeprefix("snapshot-").removesuffix(".npz") for name in os.listdir(folder) if "snapshot" in name)


@pytest.mark.parametrize("by_key", [False, True])
def test_a_day_is_restored_with_the_model_that_it_began_with(by_key, tmp_path, pass_days):
    folder = tmp_path / "state" / "north" if by_key else tmp_path / "state"

    async def scenario(client, app):
        models = {}
        for i, day in enumerate(("2026-11-25", "2026-11-26", "2026-11-27", "2026-11-28")):
            if by_key and not i:
                await client.post("/rank", json={"id": "first", "docs": {"a": {"x": 1.0}}, "context": {"user": None}})
            await settle(app)
            await teach(client, 2 * i)
            await settle(app)  # Later in the day nothing is kept.
            models[day] = (folder / f"snapshot-{day}.npz").read_bytes()
            await teach(client, 2 * i + 1)
            pass_days(1)
        assert len({*models.values()}) == 4
        await settle(app)
        assert kept(folder) == ["2026-11-27", "2026-11-28", "2026-11-29"]
        before = (await client.get("/model")).content
        answer = await client.post("/model/rollback", json={"to": "2026-11-27"})
        assert answer.json() == {"replaced": True}
        assert (await client.get("/model")).content == models["2026-11-27"]
        assert (await client.get("/stats")).json()["stats"]["learned"] == 8
        # The previous model is today's.
        assert (await client.post("/model/rollback", json={})).json() == {"replaced": True}
        assert (await client.get("/model")).content == before
        gone = await client.post("/model/rollback", json={"to": "2026-11-25"})
        assert gone.status_code == 404
        assert gone.json()["error"].endswith("there are 2026-11-27, 2026-11-28, 2026-11-29")
        await client.post("/model/rollback", json={"to": "2026-11-28"})
        return models["2026-11-28"]

    expected = run(scenario, tmp_path / "state", by_key=by_key, snapshots=3)

    async def again(client, app):
        assert (await client.get("/model")).content == expected

    run(again, tmp_path / "state", by_key=by_key, snapshots=3)
    assert read_service(folder).counts()["learned"] == 8


@pytest.mark.parametrize("body", [{"to": 7}, {"day": "2026-11-25"}, [], {"to": "../../etc/passwd"}, {"to": "2026-11-25"}])
def test_what_names_no_day_changes_nothing(body, tmp_path):
    async def scenario(client, app):
        await teach(client, 1)
        before = (await client.get("/model")).content
        answer = await client.post("/model/rollback", json=body)
        assert answer.status_code == (404 if isinstance(body, dict) and isinstance(body.get("to"), str) else 400)
        assert (await client.get("/model")).content == before

    run(scenario, tmp_path)
    with pytest.raises(ValueError, match="snapshots need a directory"):
        Models(make, snapshots=7)


def test_a_user_is_forgotten_in_snapshots_too(tmp_path, pass_days, capsys):
    async def scenario(client, app):
        for i in range(3):
            await teach(client, i, "u17-secret")
            pass_days(1)
            await settle(app)
        if app.models.open_models[""].kept._n_days == 7:
            answer = await client.post("/forget", json={"context": {"user": "u17-secret"}})
            assert answer.json()["forgotten"]["features"] == 1
            assert (await client.post("/model/rollback", json={"to": "2026-11-27"})).status_code == 200

    def contents():
        return b"".join(file.read_bytes() for file in tmp_path.iterdir())

    run(scenario, tmp_path, snapshots=7)
    assert len(kept(tmp_path)) == 4
    assert b"u17-secret" not in contents()
    run(lambda client, app: teach(client, 9, "u17-secret"), tmp_path)
    pass_days(1)

    async def idle(client, app):
        await settle(app)

    run(idle, tmp_path, snapshots=8)
    assert b"u17-secret" in (tmp_path / "snapshot-2026-11-29.npz").read_bytes()
    assert run_command(capsys, "forget", tmp_path, "--context", "user=u17-secret")[0] == 0
    assert b"u17-secret" not in contents()


def test_the_task_keeps_the_day_without_requests(tmp_path, pass_days, monkeypatch):
    monkeypatch.setattr("online_rank.serving.models._SECONDS_BETWEEN_SWEEPS", 0.01)

    async def scenario(client, app):
        for day in ("2026-11-25", "2026-11-26"):
            await until(lambda day=day: kept(tmp_path)[-1:] == [day])
            pass_days(1)
        await until(lambda: kept(tmp_path) == ["2026-11-26", "2026-11-27"])

    run(scenario, tmp_path, snapshots=2)


@pytest.mark.parametrize("wrong", [365, -365])
def test_a_clock_that_was_wrong_takes_no_place_of_a_day(wrong, tmp_path, pass_days):
    folder = tmp_path / "state"

    async def scenario(client, app):
        await teach(client, int(CLOCK.now()))
        await settle(app)

    days = []
    for step in (1, 1, wrong, 1 - wrong, 1):
        pass_days(step)
        run(scenario, folder, snapshots=2)
        days.append(kept(folder))
    assert days[1] == ["2026-11-26", "2026-11-27"]
    assert "2026-11-27" in days[2]
    assert [day for day in days[-1] if day.startswith("2026")] == ["2026-11-28", "2026-11-29"]
    assert len(days[-1]) <= 4
