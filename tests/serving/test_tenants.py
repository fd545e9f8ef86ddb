"""One model for each key: deletion, limits, and room for others."""

import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from online_rank import PerceptronRanker, StreamScaler
from online_rank.serving import Limits, Models, RankingApp, RankingService
from online_rank.serving.tenants import Keys, usage_of
from online_rank.storage.folder import CheckpointError, Folder
from tests.serving.asking import asked

RANK = {"id": "q1", "docs": {"a": {"clicks": 3.0}, "b": {"clicks": 1.0}}}
LEARN = {"id": "q1", "grades": {"a": 0, "b": 2}}


def make():
    return RankingService(StreamScaler() | PerceptronRanker())


def run(scenario, path, limits=None, token=None, **options):
    models = Models(make, directory=path, by_key=True, **options)
    return asked(scenario, RankingApp(models, key="shop", token=token, limits=limits))


async def learned(client, shop):
    stats = (await client.get(f"/stats?shop={shop}")).json()
    return stats["stats"]["learned"] if "stats" in stats else stats["error"]


async def teach(client, *shops):
    for shop in shops:
        for path, body in (("/rank", RANK), ("/learn", LEARN)):
            assert (await client.post(f"{path}?shop={shop}", json=body)).status_code == 200


def keys_of(path):
    return sorted(entry.name for entry in path.iterdir() if entry.is_dir())


def test_a_deleted_key_leaves_nothing_and_may_begin_again(tmp_path):
    async def scenario(client, app):
        await teach(client, "north", "south")
        assert (await client.delete("/models/north")).json() == {"deleted": True}
        assert keys_of(tmp_path) == ["south"]
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
        assert keys_of(tmp_path) == ["south"]

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
        assert app.models.n_keys == len(keys_of(tmp_path))

    run(scenario, tmp_path)


def test_deletion_needs_the_token_and_keys(tmp_path):
    async def scenario(client, app):
        assert (await client.delete("/models/north")).status_code == 401

    run(scenario, tmp_path, token="secret12")

    async def single(client, app):
        assert (await client.delete("/models/north")).status_code == 404

    asked(single, RankingApp(Models(make)))


class Unplugged(OSError):
    """The disk fails."""


@pytest.mark.parametrize("n_done", range(4))
def test_a_deletion_that_was_killed_or_failed_is_completed(n_done, tmp_path, monkeypatch):
    done, unlink = [], Path.unlink

    def failing(path, **options):
        if len(done) == n_done:
            raise Unplugged("the disk is gone")
        done.append(path.name)
        unlink(path, **options)

    async def scenario(client, app):
        await teach(client, "north", "south")
        with monkeypatch.context() as patched:
            patched.setattr(Path, "unlink", failing)
            answer = await client.delete("/models/north")
        assert (answer.status_code, len(done)) == (503, n_done)

    run(scenario, tmp_path)

    async def again(client, app):
        assert keys_of(tmp_path) == ["south"]
        assert await learned(client, "south") == 1
        await teach(client, "north")
        assert await learned(client, "north") == 1

    run(again, tmp_path)


def test_after_a_failed_deletion_the_same_process_begins_again(tmp_path, monkeypatch):
    def failing(path, **options):
        raise Unplugged("the disk is gone")

    async def scenario(client, app):
        await teach(client, "north")
        with monkeypatch.context() as patched:
            patched.setattr(Path, "unlink", failing)
            assert (await client.delete("/models/north")).status_code == 503
            assert (await client.post("/rank?shop=north", json=RANK)).status_code == 503
        await teach(client, "north")
        assert await learned(client, "north") == 1

    run(scenario, tmp_path)


@pytest.fixture
def clock(monkeypatch):
    """Adds seconds to the clock of the folder of keys."""
    passed, real = [0.0], Keys.now.fget
    monkeypatch.setattr(Keys, "now", property(lambda keys: real(keys) + passed[0]))

    def go_on(seconds):
        passed[0] += seconds

    return go_on


def test_keys_that_nobody_uses_go_after_their_time(tmp_path, clock):
    async def scenario(client, app):
        await teach(client, "old", "young", "kept")
        await app.models.sweep()
        assert app.models.n_keys == 3
        clock(400.0)
        await teach(client, "young")
        clock(200.0)
        await client.post("/rank?shop=kept", json={**RANK, "id": 2})
        await app.models.sweep()
        assert keys_of(tmp_path) == ["kept", "young"]
        assert app.models.counts["deleted_keys"] == 1

    run(scenario, tmp_path, ttl=500.0)


@pytest.mark.parametrize("path", ["/rank", "/explain", "/stats", "/model"])
def test_every_request_counts_as_use(path, tmp_path, clock):
    """Models that ranked greedily were deleted while they were in use."""

    async def scenario(client, app):
        await teach(client, "north")
        for _ in range(3):
            clock(400.0)
            if path == "/rank":
                answer = await client.post("/rank?shop=north", json={**RANK, "greedy": True})
            elif path == "/explain":
                answer = await client.post("/explain?shop=north", json={**RANK, "explain": ["a", "b"]})
            else:
                answer = await client.get(f"{path}?shop=north")
            assert answer.status_code == 200
            await app.models.sweep()
        assert keys_of(tmp_path) == ["north"]

    run(scenario, tmp_path, ttl=500.0)


def test_time_continues_from_what_was_stored_and_not_while_nobody_serves(tmp_path, clock):
    """Files that a backup restored were deleted at the start, since they were old by the system clock."""

    async def begin(client, app):
        await teach(client, "north", "south")
        clock(300.0)
        await app.models.sweep()

    async def go_on(client, app):
        await app.models.sweep()
        assert keys_of(tmp_path) == ["north", "south"]
        clock(150.0)
        await client.get("/stats?shop=south")
        clock(100.0)  # 550 seconds in all for north, 100 for south
        await app.models.sweep()
        assert keys_of(tmp_path) == ["south"]

    run(begin, tmp_path, ttl=500.0)
    clock(-300.0)  # The clock of the process, which the fixture adds to, begins again.
    for shop in ("north", "south"):
        for file in (tmp_path / shop).iterdir():
            os.utime(file, (1.0, 1.0))
    run(go_on, tmp_path, ttl=500.0)


def test_keys_of_which_nobody_knows_when_they_were_used_count_from_the_start(tmp_path, clock):
    async def scenario(client, app):
        clock(400.0)
        await app.models.sweep()
        assert keys_of(tmp_path) == ["north"]
        clock(200.0)
        await app.models.sweep()
        assert keys_of(tmp_path) == []

    run(lambda client, app: teach(client, "north"), tmp_path)
    run(scenario, tmp_path, ttl=500.0)


def test_what_is_no_key_is_never_touched(tmp_path, clock):
    """`--key-ttl` deleted `archive`, `lost+found` and a symbolic link."""
    other = tmp_path / "elsewhere"
    folder = tmp_path / "state"
    for path in (folder / "archive", folder / "lost+found", folder / ".deleted-0123", folder / "north.new", other):
        path.mkdir(parents=True)
        (path / "kept").write_bytes(b"x")
    (folder / "linked").symlink_to(other)
    (folder / "note").write_bytes(b"x")

    def found():
        return sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.name != ".owner")

    before = found()

    async def scenario(client, app):
        await teach(client, "north")
        clock(1000.0)
        await app.models.sweep()
        assert app.models.n_keys == 0
        for key in ("archive", "linked", "note"):
            assert (await client.delete(f"/models/{key}")).status_code == 404
            assert (await client.post(f"/rank?shop={key}", json=RANK)).status_code == 503

    run(scenario, folder, ttl=500.0)
    assert found() == sorted([*before, "state/.clock"])


def test_files_of_others_in_the_folder_of_a_key_stay(tmp_path):
    async def scenario(client, app):
        await teach(client, "north")
        (tmp_path / "north" / "notes.txt").write_bytes(b"mine")
        assert (await client.delete("/models/north")).json() == {"deleted": True}
        assert os.listdir(tmp_path / "north") == ["notes.txt"]
        assert app.models.n_keys == 0

    run(scenario, tmp_path)


def test_a_key_behind_a_symbolic_link_is_deleted_on_request_alone(tmp_path, clock):
    """`DELETE` answered that it was deleted, and removed the link."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "north").symlink_to(tmp_path / "disk")

    async def scenario(client, app):
        await teach(client, "north")
        clock(1000.0)
        await app.models.sweep()
        assert await learned(client, "north") == 1
        assert (await client.delete("/models/north")).json() == {"deleted": True}
        assert os.listdir(tmp_path / "disk") == []
        assert (tmp_path / "state" / "north").is_symlink()
        await teach(client, "north")

    run(scenario, tmp_path / "state", ttl=500.0)


@pytest.mark.slow
def test_one_process_at_a_time_serves_a_folder_of_keys(tmp_path):
    """A second server deleted a key that the first one served."""

    async def scenario(client, app):
        await teach(client, "north")
        code = "import sys; from online_rank.serving.tenants import Keys; Keys(sys.argv[1])"
        second = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True
        )
        assert f"is in use by another process (id {os.getpid()})" in second.stderr
        with pytest.raises(CheckpointError, match="is in use"):
            Models(make, directory=tmp_path, by_key=True, ttl=0.001)

    run(scenario, tmp_path)
    Models(make, directory=tmp_path, by_key=True)


def test_a_key_that_another_process_uses_is_not_deleted(tmp_path):
    run(lambda client, app: teach(client, "north"), tmp_path)

    async def scenario(client, app):
        with Folder(tmp_path / "north"):
            assert (await client.delete("/models/north")).status_code == 503
        assert await learned(client, "north") == 1

    run(scenario, tmp_path)


@pytest.mark.parametrize("mask", [0, 0o777])
def test_all_files_are_for_their_owner_alone(mask, tmp_path):
    """The folder of keys, the reference of features and the model before followed the umask."""
    before = os.umask(mask)

    async def scenario(client, app):
        await teach(client, "north")
        model = (await client.get("/model?shop=north")).content
        await client.post("/model?shop=north", content=model, headers={"Content-Type": "application/octet-stream"})
        app.models.open_models["north"].inputs._documents = 2
        app.models.open_models["north"].inputs.looks_from = float("-inf")
        await client.post("/rank?shop=north", json={**RANK, "id": 3})
        await app.models.sweep()

    try:
        run(scenario, tmp_path / "state", ttl=500.0)
    finally:
        os.umask(before)
    found = {str(p.relative_to(tmp_path)): stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "state").rglob("*")}
    assert {"state/north/previous.npz", "state/north/features.json", "state/.clock"} <= found.keys()
    assert found.pop("state/north") == stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    assert found == dict.fromkeys(found, 0o600)


def test_no_more_keys_once_all_take_too_much(tmp_path):
    async def scenario(client, app):
        await teach(client, "north")
        await app.models.sweep()
        assert app.models.n_bytes == usage_of(tmp_path / "north") > 1000
        refused = await client.post("/rank?shop=south", json=RANK)
        assert refused.status_code == 429
        assert "no more keys" in refused.json()["error"]
        await teach(client, "north")  # continues

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
        # (10 + 1) / 2 of ten places; the others get an error that says so, and may come again.
        assert codes.count(200) == 5
        assert codes.count(503) == 35
        assert (await client.post("/learn?shop=busy", json=bodies[-1])).status_code == 200

    run(scenario, tmp_path, limits=Limits(requests=10))


def test_a_folder_of_one_model_is_no_folder_of_keys_nor_the_other_way_round(tmp_path):
    single, keys = tmp_path / "single", tmp_path / "keys"

    def served(folder, by_key):
        async def asked():
            models = Models(make, directory=folder, by_key=by_key)
            await models.get("north" if by_key else None)
            await models.close()

        asyncio.run(asked())

    for folder, by_key in ((single, False), (keys, True)) * 2:
        served(folder, by_key)
    with pytest.raises(CheckpointError, match="has a single model: start it without --key"):
        served(single, True)
    with pytest.raises(CheckpointError, match="has a model for each key: start it with --key"):
        served(keys, False)
    served(tmp_path, False)  # Folders of services lie in it, but nobody has served it by key.
