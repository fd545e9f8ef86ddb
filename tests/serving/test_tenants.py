"""One model for each key: deletion, limits, and room for others."""

import asyncio
import os
import time

import pytest

for package in ("starlette", "prometheus_client", "httpx"):
    pytest.importorskip(package)

import httpx  # noqa: E402

from online_rank import PerceptronRanker, StreamScaler  # noqa: E402
from online_rank.serving import Limits, Models, RankingApp, RankingService  # noqa: E402
from online_rank.serving.tenants import usage_of  # noqa: E402

RANK = {"id": "q1", "docs": {"a": {"clicks": 3.0}, "b": {"clicks": 1.0}}}
LEARN = {"id": "q1", "grades": {"a": 0, "b": 2}}


def make():
    return RankingService(StreamScaler() | PerceptronRanker())


def run(scenario, path, limits=None, token=None, **options):
    async def main():
        app = RankingApp(Models(make, directory=path, by_key=True, **options), key="shop", token=token, limits=limits)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            try:
                return await scenario(client, app)
            finally:
                await app.models.close()

    return asyncio.run(main())


async def learned(client, shop):
    stats = (await client.get(f"/stats?shop={shop}")).json()
    return stats["stats"]["learned"] if "stats" in stats else stats["error"]


async def teach(client, *shops):
    for shop in shops:
        for path, body in (("/rank", RANK), ("/learn", LEARN)):
            assert (await client.post(f"{path}?shop={shop}", json=body)).status_code == 200


def test_a_deleted_key_leaves_nothing_and_may_begin_again(tmp_path):
    async def scenario(client, app):
        await teach(client, "north", "south")
        assert (await client.delete("/models/north")).json() == {"deleted": True}
        assert os.listdir(tmp_path) == ["south"]
        assert await learned(client, "north") == "query parameter shop: there is no model under this key"
        assert (await client.delete("/models/north")).status_code == 404
        assert (await client.delete("/models/.hidden")).status_code == 400
        assert await learned(client, "south") == 1
        await teach(client, "north")
        assert await learned(client, "north") == 1
        figures = (await client.get("/metrics")).text
        assert "online_rank_keys 2.0" in figures
        assert "online_rank_learned_total 3.0" in figures  # never falls
        assert "online_rank_deleted_keys_total 1.0" in figures

    run(scenario, tmp_path)
    run(lambda client, app: learned(client, "south"), tmp_path)


def test_a_key_is_deleted_from_the_disk_too(tmp_path):
    async def scenario(client, app):
        await teach(client, "north", "south")
        assert len(app.models.open_models) == 1
        assert (await client.delete("/models/north")).json() == {"deleted": True}
        assert os.listdir(tmp_path) == ["south"]

    run(scenario, tmp_path, max_open=1)


def test_requests_under_way_are_answered_before_their_key_goes(tmp_path):
    async def scenario(client, app):
        await teach(client, "north")
        bodies = [
            {"id": i, "docs": {"a": {"clicks": i % 3}, "b": {"clicks": 1}}, "grades": {"a": 1, "b": 0}} for i in range(20)
        ]
        answers = await asyncio.gather(
            *(client.post("/learn?shop=north", json=body) for body in bodies[:10]),
            client.delete("/models/north"),
            *(client.post("/learn?shop=north", json=body) for body in bodies[10:]),
        )
        assert [answer.status_code for answer in answers] == [200] * 21
        # Those that came later began a new model.
        n = await learned(client, "north")
        assert 0 <= (0 if isinstance(n, str) else n) <= 20
        assert app.models.counts["learned"] == 21
        assert app.models.n_keys == len(os.listdir(tmp_path))

    run(scenario, tmp_path)


def test_deletion_needs_the_token_and_keys(tmp_path):
    async def scenario(client, app):
        assert (await client.delete("/models/north")).status_code == 401

    run(scenario, tmp_path, token="secret12")

    async def single():
        app = RankingApp(Models(make))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            assert (await client.delete("/models/north")).status_code == 404

    asyncio.run(single())


def test_a_deletion_that_was_killed_is_completed(tmp_path):
    (tmp_path / ".deleted-0123").mkdir()
    (tmp_path / ".deleted-0123" / "state.db").write_bytes(b"x")

    async def scenario(client, app):
        assert os.listdir(tmp_path) == []
        assert app.models.n_keys == 0

    run(scenario, tmp_path)


def test_keys_that_nobody_uses_go_after_their_time(tmp_path):
    async def scenario(client, app):
        await teach(client, "old", "young", "kept")
        await app.models.sweep()
        assert app.models.n_keys == 3
        long_ago = time.time() - 1000.0
        for shop in ("old", "kept"):
            for file in (tmp_path / shop).iterdir():
                os.utime(file, (long_ago, long_ago))
        # Used again just now.
        await client.post("/rank?shop=kept", json={**RANK, "id": 2})
        await app.models.open_models["kept"].commits.wait()
        await app.models.sweep()
        assert sorted(os.listdir(tmp_path)) == ["kept", "young"]
        assert app.models.counts["deleted_keys"] == 1

    run(scenario, tmp_path, ttl=500.0)


def test_no_more_keys_once_all_take_too_much(tmp_path):
    async def scenario(client, app):
        await teach(client, "north")
        await app.models.sweep()
        assert app.models.n_bytes == usage_of(tmp_path / "north").n_bytes > 1000
        refused = await client.post("/rank?shop=south", json=RANK)
        assert refused.status_code == 429
        assert "no more keys" in refused.json()["error"]
        await teach(client, "north")  # goes on

    run(scenario, tmp_path, max_bytes=1000)


def test_one_key_leaves_room_for_others(tmp_path):
    async def scenario(client, app):
        await teach(client, "busy", "quiet")
        bodies = [{"id": i, "docs": {"a": {"clicks": 1}, "b": {"clicks": 2}}, "grades": {"a": 1, "b": 0}} for i in range(40)]
        busy = [asyncio.create_task(client.post("/learn?shop=busy", json=body)) for body in bodies]
        await asyncio.sleep(0)
        quiet = await client.post("/learn?shop=quiet", json=bodies[0])
        codes = [answer.status_code for answer in await asyncio.gather(*busy)]
        assert quiet.status_code == 200
        # (10 + 1) / 2 of ten places; those that had no place are told so, and may come again.
        assert codes.count(200) == 5
        assert codes.count(503) == 35
        assert (await client.post("/learn?shop=busy", json=bodies[-1])).status_code == 200

    run(scenario, tmp_path, limits=Limits(requests=10))
