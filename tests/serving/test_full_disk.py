"""While the disk is full nothing is learned and nothing is lost, and rankings continue; learning resumes when there is room."""

import asyncio
import contextlib
import errno
import json
import os
import shutil
import subprocess

import pytest

resource = pytest.importorskip("resource")


from online_rank import PerceptronRanker, PlackettLuce, SwapRanker  # noqa: E402
from online_rank.serving import FeedbackPlan, Models, RankingApp, RankingService  # noqa: E402
from online_rank.serving.clock import CLOCK  # noqa: E402
from online_rank.serving.durable import DurableService, read_service  # noqa: E402
from online_rank.serving.replacing import forget  # noqa: E402
from online_rank.serving.served import ServedModel  # noqa: E402
from online_rank.storage.checkpoint import STATE, Generations  # noqa: E402
from online_rank.storage.database import reading  # noqa: E402
from online_rank.storage.files import to_bytes  # noqa: E402
from online_rank.storage.saved import saved_state  # noqa: E402
from online_rank.storage.state import StateDirectory  # noqa: E402
from tests.helpers import until  # noqa: E402
from tests.serving.asking import asked  # noqa: E402

DOCS = {"a": {"x": 3.0}, "b": {"x": 1.0, "y": 2.0}}


@contextlib.contextmanager
def small_disk(place):
    """A file system of a megabyte."""
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("only root mounts a file system")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@contextlib.contextmanager
def being_read(place):
    """Somebody reads the state: the log stays, and what is in it takes its place."""
    if not (place / STATE).exists():
        yield
        return
    with reading(place, STATE) as rows:
        rows.connection.execute("SELECT count(*) FROM journal").fetchone()
        yield


@contextlib.contextmanager
def filled(place, store):
    """The file system has no room."""
    with being_read(place):
        with contextlib.suppress(OSError), open(place.parent / "other", "wb", buffering=0) as other:
            while True:
                other.write(bytes(4096))
        yield
        (place.parent / "other").unlink()


@contextlib.contextmanager
def short_files(place, store):
    """No file may be longer than the log is now (EFBIG)."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with being_read(place):
        resource.setrlimit(resource.RLIMIT_FSIZE, ((place / "state.db-wal").stat().st_size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def no_more_pages(place, store):
    """SQLite's own "database or disk is full"."""
    connection = store.database.connection
    connection.execute("PRAGMA max_page_count=1")
    yield
    connection.execute("PRAGMA max_page_count=1000000")


@contextlib.contextmanager
def no_quota(place, store):
    """The user has no more room (EDQUOT)."""
    append = StateDirectory.append

    def refused(self, changes, wait):
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    StateDirectory.append = refused
    try:
        yield
    finally:
        StateDirectory.append = append


class Clients:
    """Requests to a service in a folder."""

    def __init__(self, client, app, clicks):
        self.client, self.app, self.clicks = client, app, clicks

    async def rank(self, query_id):
        reply = await self.client.post("/rank", json={"id": query_id, "docs": DOCS})
        assert reply.status_code == 200
        return reply.json()

    async def learn(self, query_id):
        feedback = {"clicks": ["b"]} if self.clicks else {"grades": {"a": 0, "b": 2}}
        return await self.client.post("/learn", json={"id": query_id, **feedback, "meta": "x" * 5000})

    async def get(self, path):
        return await self.client.get(path)

    async def written(self):
        await (await self.app.models.get(None)).commits.flush()


def make(clicks=False):
    return RankingService(SwapRanker(PlackettLuce(2, seed=3)) if clicks else PerceptronRanker())


def served(scenario, folder, clicks=False):
    app = RankingApp(Models(lambda: make(clicks), directory=folder))
    asked(lambda client, app: scenario(Clients(client, app, clicks)), app)


def learned_in(folder):
    with saved_state(folder) as saved:
        return {json.loads(query_id) for query_id, *_ in saved.learned()}


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr("online_rank.serving.commit._SECONDS_TO_ROOM", 0.05)


@pytest.mark.first(2)
@pytest.mark.parametrize("clicks", [False, True])
@pytest.mark.parametrize("full", [filled, short_files, no_more_pages, no_quota])
def test_learning_waits_for_room_and_rankings_continue(full, clicks, tmp_path):
    place, copy = tmp_path / "disk" / "state", tmp_path / "copy"

    async def scenario(clients):
        store = (await clients.app.models.get(None)).durable.store
        for query_id in ("q1", "q2"):
            await clients.rank(query_id)
        assert (await clients.learn("q1")).json()["learned"]
        await clients.written()
        with full(place, store):
            for _ in range(2):
                refused = await clients.learn("q2")
                assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
                assert "the disk is full; nothing is learned until there is room" in refused.json()["error"]
            ranked = await clients.rank("q3")
            assert ranked["greedy"] is True
            assert "shown" not in ranked
            assert (await clients.learn("q3")).status_code == 503
            ready = await clients.get("/readyz")
            assert (ready.status_code, "disk_full" in ready.json()) == (200, True)
            assert (await clients.get("/healthz")).status_code == 200
            figures = (await clients.get("/metrics")).text
            assert "online_rank_learning_stopped 1.0" in figures
            assert "online_rank_disk_full 1.0" in figures
            # Killed now, it has what it acknowledged, and learns the rest from a client that sends it again.
            shutil.copytree(place, copy)
        await until(lambda: clients.app.models.open_models[""].commits.is_working)
        # The feedback that was refused was learned, and is written by now; or it is learned when it comes again.
        assert (await clients.learn("q2")).status_code == 200
        assert "no query is waiting" in (await clients.learn("q3")).json()["error"]
        assert "greedy" not in await clients.rank("q4")
        assert (await clients.learn("q4")).json()["learned"]
        assert (await clients.get("/readyz")).json() == {"ok": True}
        assert "online_rank_disk_full 0.0" in (await clients.get("/metrics")).text

    with small_disk(tmp_path / "disk") if full is filled else contextlib.nullcontext():
        place.parent.mkdir(exist_ok=True)
        served(scenario, place, clicks)
        assert learned_in(place) == {"q1", "q2", "q4"}
        assert read_service(place).counts()["learned"] == 3
        if not clicks:
            alone = make()
            for query_id in ("q1", "q2", "q4"):
                alone.handle(json.dumps({"id": query_id, "docs": DOCS, "grades": {"a": 0, "b": 2}}).encode())
            assert to_bytes(read_service(place).model) == to_bytes(alone.model)

    async def after_the_kill(clients):
        assert (await clients.learn("q1")).json()["duplicate"]
        assert (await clients.learn("q2")).json()["learned"]

    served(after_the_kill, copy, clicks)
    assert read_service(copy).counts()["learned"] == 2


def test_feedback_that_was_refused_is_learned_once(tmp_path):
    """It is in the model when the journal cannot be written; the client sends it again, before and after there is room."""

    async def scenario(clients):
        model = await clients.app.models.get(None)
        await clients.rank("q1")
        await clients.written()
        with no_quota(tmp_path, model.durable.store):
            assert [(await clients.learn("q1")).status_code for _ in range(3)] == [503] * 3
        await until(lambda: model.commits.is_working)
        assert (await clients.learn("q1")).json()["duplicate"]

    served(scenario, tmp_path / "state")
    assert read_service(tmp_path / "state").counts()["learned"] == 1


def test_a_service_without_room_can_be_ended(tmp_path):
    """What waits for room was not acknowledged: it does not keep the process from ending."""

    async def scenario(clients):
        model = await clients.app.models.get(None)
        await clients.rank("q1")
        await clients.written()
        with no_quota(tmp_path, model.durable.store):
            assert (await clients.learn("q1")).status_code == 503
            await clients.app.models.close()

    served(scenario, tmp_path / "state")
    service = read_service(tmp_path / "state")
    assert (service.counts()["learned"], service.n_waiting) == (0, 1)


def test_a_key_without_room_can_be_deleted(tmp_path):
    """Deleting is how to make room."""

    async def scenario():
        models = Models(make, directory=tmp_path / "keys", by_key=True)
        teach = json.dumps({"id": 1, "docs": DOCS, "grades": {"a": 0, "b": 2}}).encode()
        assert (await models.answer("shop", teach))[0] == 200
        with no_quota(tmp_path, None):
            assert (await models.answer("shop", teach.replace(b"1", b"2", 1)))[0] == 503
            await asyncio.wait_for(models.delete("shop"), 60.0)
        await models.close()

    asyncio.run(scenario())
    assert not (tmp_path / "keys" / "shop").exists()


def test_windows_end_when_there_is_room(tmp_path):
    async def scenario():
        plan = FeedbackPlan(window=0.01, events={"click": 1})
        durable = DurableService(RankingService(PerceptronRanker(), plan=plan), tmp_path)
        model = ServedModel(durable, idle=0.001)
        # Of one time: on a busy machine the window would be over before the event.
        at = {"id": 1, "ts": CLOCK.now()}
        await model.answer(json.dumps({**at, "docs": DOCS}).encode())
        with no_quota(tmp_path, durable.store):
            event = json.dumps({**at, "event": "click", "doc": "b"}).encode()
            assert (await model.answer(event))[0] == 503
            await asyncio.sleep(0.05)
            before = durable.service.n_changes
            model.let_time_pass()
            assert durable.service.n_changes == before
        await until(lambda: model.commits.is_working)
        await asyncio.sleep(0.05)
        model.let_time_pass()
        assert durable.service.counts()["learned"] == 1
        await model.close()

    asyncio.run(scenario())


def test_a_checkpoint_without_room_is_tried_again_and_shown(tmp_path, monkeypatch):
    async def scenario(clients):
        model = await clients.app.models.get(None)
        writing = Generations.writing

        def full(*arguments):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            yield

        monkeypatch.setattr(Generations, "writing", full)
        await clients.rank("q1")
        assert (await clients.client.post("/learn", json={"cmd": "save"})).status_code == 503
        assert "online_rank_checkpoints_failing 1.0" in (await clients.get("/metrics")).text
        assert (await clients.learn("q1")).json()["learned"]
        monkeypatch.setattr(Generations, "writing", writing)
        assert (await clients.client.post("/learn", json={"cmd": "save"})).status_code == 200
        assert model.durable.is_saved
        assert "online_rank_checkpoints_failing 0.0" in (await clients.get("/metrics")).text

    served(scenario, tmp_path / "state")


def test_what_is_not_forgotten_on_a_full_disk_is_not_said_to_be():
    """The answer was "forgotten, but files may have it still"."""

    async def scenario():
        served = ServedModel(DurableService(RankingService(PerceptronRanker())))
        await served.answer(json.dumps({"id": "q", "docs": DOCS}).encode())
        served.commits.full = OSError(errno.ENOSPC, "no space left")
        status, answer = await forget(served, b'{"ids": ["q"]}')
        assert (status, served.durable.service.n_waiting) == (503, 1)
        assert answer["error"].startswith("the disk is full; nothing is learned until there is room")

    asyncio.run(scenario())


@pytest.mark.slow
def test_on_a_small_disk_the_log_makes_room_for_what_is_learned(tmp_path):
    """It grew to megabytes next to a state of kilobytes, and each request was refused although there was room again."""
    place = tmp_path / "disk" / "state"

    async def scenario(clients):
        async def learn(number):
            return await clients.client.post("/learn", json={"id": number, "docs": DOCS, "grades": {"a": 0, "b": 2}})

        for number in range(20):
            assert (await learn(number)).status_code == 200
        assert not (await clients.app.models.get(None)).durable.store.is_untidy
        with filled(place.parent / "nobody", None):
            refused = 0
            while (await learn(f"without room {refused}")).status_code == 200:
                refused += 1
            # Room for the state, and not for a log that continues at its end.
            os.truncate(place.parent / "other", (place.parent / "other").stat().st_size - 120_000)
            await until(lambda: clients.app.models.open_models[""].commits.is_working)
            for number in range(60):
                assert (await learn(f"with room {number}")).status_code == 200, number
        assert (place / "state.db-wal").stat().st_size > 10 * (place / "state.db").stat().st_size / 4

    with small_disk(tmp_path / "disk"):
        served(scenario, place)
        assert len(learned_in(place)) >= 80
