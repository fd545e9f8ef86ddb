"""Read replicas: the scores of the server they follow, bit for bit, and nothing learned by themselves."""

import asyncio
import contextlib
import json
import threading
import time
import urllib.request

import pytest

pytest.importorskip("starlette")
uvicorn = pytest.importorskip("uvicorn")

from typer.testing import CliRunner  # noqa: E402

from online_rank import PerceptronRanker, StreamScaler, SwapRanker, save  # noqa: E402
from online_rank.cli.app import app as command  # noqa: E402
from online_rank.cli.serve import Place, make_app  # noqa: E402
from online_rank.serving import FeedbackPlan, Models, RankingApp, RankingService  # noqa: E402
from online_rank.serving.durable import read_service, write_service  # noqa: E402
from online_rank.serving.follow import Replica, TakeOver  # noqa: E402
from online_rank.serving.told import Told  # noqa: E402
from online_rank.storage.files import to_bytes  # noqa: E402

DOCS = {"a": {"x": 3.0, "y": 0.0}, "b": {"x": 1.0, "y": 1.0}, "c": {"y": 2.0}}


def graded():
    return RankingService(StreamScaler() | PerceptronRanker())


def windows():
    return RankingService(PerceptronRanker(), plan=FeedbackPlan(window=10, events={"click": 1}))


def clicked():
    return RankingService(SwapRanker())


@pytest.fixture
def leader():
    """Starts servers in threads; gives their addresses."""
    running = []

    def start(make, only=None, **options):
        app = RankingApp(Models(make, only=only), local_only=False, **options)
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
        thread = threading.Thread(target=server.run)
        thread.start()
        running.append((server, thread))
        while not server.started:
            time.sleep(0.01)
        app.server = server
        return app, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join()


def post(url, content, kind="application/json", **headers):
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    request = urllib.request.Request(url, body, {"Content-Type": kind, **headers})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def feedback(i, answer, kind):
    if kind is clicked:
        return {"id": i, "clicks": answer["ranking"][:1]}
    if kind is windows:
        return {"id": i, "event": "click", "doc": "abc"[i % 3], "ts": 3 * i + 1}
    return {"id": i, "grades": {"a": i % 2, "b": i % 3, "c": 1}}


async def until(condition):
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it never came to that")


@pytest.mark.parametrize("kind", [graded, windows, clicked])
def test_a_replica_is_the_service_bit_for_bit(leader, kind):
    app, url = leader(kind)
    served = app.models.open_models[""].durable.service

    def traffic(first, last):
        for i in range(first, last):
            answer = post(f"{url}/rank", {"id": i, "docs": DOCS, "ts": 3 * i})
            post(f"{url}/learn", feedback(i, answer, kind))
        post(f"{url}/rank", {"id": f"waits{last}", "docs": DOCS, "ts": 3 * last})

    async def scenario():
        traffic(0, 10)
        replica = Replica(url)
        assert to_bytes(replica.durable.service.model) == to_bytes(served.model)
        following = asyncio.create_task(replica.follow())
        await asyncio.to_thread(traffic, 10, 40)
        await until(lambda: replica.durable.service.n_changes == served.n_changes)
        assert to_bytes(replica.durable.service) == served.whole_file()
        line = json.dumps({"id": "new", "docs": DOCS, "greedy": True}).encode()
        status, answer = await replica.answer(line)
        assert (status, answer) == (200, {**served.handle(line).answer, "replica": True})
        # Also where it is not asked for: nothing is drawn, nothing waits.
        assert (await replica.answer(json.dumps({"id": "new", "docs": DOCS}).encode()))[1] == answer
        assert replica.durable.service.n_changes == served.n_changes
        assert replica.figures()["stats"]["behind"]["changes"] == 0
        following.cancel()

    asyncio.run(scenario())


def test_a_replica_of_a_replica_is_told_changes(leader):
    """It began anew with the whole service at every change."""
    app, url = leader(graded)
    served = app.models.open_models[""].durable.service

    async def scenario():
        _, between = leader(graded, only=Replica(url))
        second = Replica(between)
        begun = second.durable.service
        following = asyncio.create_task(second.follow())
        for i in range(10):
            answer = await asyncio.to_thread(post, f"{url}/rank", {"id": i, "docs": DOCS})
            await asyncio.to_thread(post, f"{url}/learn", feedback(i, answer, graded))
        await until(lambda: second.durable.service.n_changes == served.n_changes == 20)
        assert to_bytes(second.durable.service) == served.whole_file()
        assert second.durable.service is begun
        following.cancel()

    asyncio.run(scenario())


def test_a_replica_forgets_what_its_server_forgets(leader):
    _, url = leader(graded)
    docs = {"a": {"user=u17": 1.0, "x": 1.0}, "b": {"user=u17": 0.0, "x": 2.0}}

    async def scenario():
        post(f"{url}/rank", {"id": "of u17", "docs": docs})
        post(f"{url}/learn", {"id": "of u17", "grades": {"a": 1, "b": 0}})
        post(f"{url}/rank", {"id": 2, "docs": docs})
        replica = Replica(url)
        following = asyncio.create_task(replica.follow())
        shown = replica.monitor.version
        before = replica.durable.service
        assert b"u17" in before.whole_file()
        assert "user=u17" in str(vars(replica.inputs))
        forgotten = await asyncio.to_thread(post, f"{url}/forget", {"user": "u17"})
        assert forgotten == {"forgotten": {"waiting": 1, "learned": 1, "features": 1}}
        await until(lambda: replica.durable.service is not before)
        assert b"u17" not in replica.durable.service.whole_file()
        assert "u17" not in str(vars(replica.inputs))
        assert replica.monitor.version > shown
        following.cancel()

    asyncio.run(scenario())


def test_a_replica_learns_nothing_and_says_where_to(leader):
    _, url = leader(graded)
    replica = Replica(url)
    status, answer = asyncio.run(replica.answer(b'{"id": 1, "grades": {"a": 1}}'))
    assert (status, answer["error"]) == (409, f"this is a replica: it ranks, and learns nothing; send feedback to {url}")
    assert asyncio.run(replica.replace(b""))[0] == 409
    assert asyncio.run(replica.answer(b'{"id": 1, "docs": 3}'))[0] == 400


def test_it_begins_anew_after_a_model_was_replaced(leader, tmp_path):
    _, url = leader(graded)
    other = StreamScaler() | PerceptronRanker()
    other.learn_one(DOCS, {"a": 0, "b": 1, "c": 2})
    save(other, tmp_path / "other.npz")

    async def scenario():
        replica = Replica(url)
        following = asyncio.create_task(replica.follow())
        await asyncio.to_thread(post, f"{url}/rank", {"id": 1, "docs": DOCS})
        await asyncio.to_thread(post, f"{url}/model", (tmp_path / "other.npz").read_bytes(), "application/octet-stream")
        await until(lambda: to_bytes(replica.durable.service.model) == to_bytes(other))
        following.cancel()

    asyncio.run(scenario())


def test_a_token_is_sent_and_an_address_is_checked(leader):
    _, url = leader(graded, token="secret-token")
    assert Replica(url, token="secret-token").n_behind == 0
    with pytest.raises(OSError, match="401"):
        Replica(url)
    with pytest.raises(ValueError, match="--follow is 'ftp://x'"):
        Replica("ftp://x")


def test_what_is_kept_for_replicas_is_bounded(monkeypatch):
    monkeypatch.setattr("online_rank.serving.told._KEPT", 2000)
    service = graded()

    async def scenario():
        told = Told(service)
        told.begin()
        for i in range(50):
            told.add(service.handle(json.dumps({"id": i, "docs": DOCS}).encode()).outcomes)
        assert told._n_bytes <= 2000
        assert await told.since(told.epoch, 0) is None  # too far behind: it begins anew
        head, *lines = (await told.since(told.epoch, 48)).splitlines()
        assert (json.loads(head), len(lines)) == ({"change": 50}, 2)
        assert await told.since("another", 50) is None

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"7",
        b"[1]",
        b"{}",
        b"[" * 3000,
        b'{"change": 1}\n7',
        b'{"change": 1}\n{"o": 7}',
        b'{"change": 1}\n{"o": [7, 7, 7, 7]}',
    ],
)
def test_answers_that_are_no_changes_do_not_end_a_replica(leader, content, monkeypatch):
    _, url = leader(graded)
    replica, asked = Replica(url), []
    more = replica._more

    def junk_first():
        asked.append(None)
        return content if len(asked) == 1 else more()

    monkeypatch.setattr(replica, "_more", junk_first)
    post(url + "/rank", {"id": 1, "docs": DOCS})

    async def scenario():
        following = asyncio.create_task(replica.follow())
        while replica.durable.service.n_changes < 1 and not following.done():
            await asyncio.sleep(0.01)
        assert not following.done()
        following.cancel()

    asyncio.run(asyncio.wait_for(scenario(), 20))


@pytest.mark.parametrize("kind", [graded, windows, clicked])
def test_a_whole_service_in_a_folder_goes_on_as_it_would_have(kind, tmp_path):
    service, requests = kind(), []
    for i in range(40):
        line = json.dumps({"id": i, "docs": DOCS, "ts": 3 * i}).encode()
        answer = service.handle(line).answer
        if i % 3:
            service.handle(json.dumps(feedback(i, answer, kind) | {"ts": 3 * i + 1}).encode())
    write_service(service, tmp_path / "state")
    with pytest.raises(OSError, match="not empty"):
        write_service(kind(), tmp_path / "state")
    again = read_service(tmp_path / "state")
    for i in range(30, 60):
        requests.append({"id": i, "docs": DOCS, "ts": 3 * i + 100})
        requests.append({"id": i, **({"clicks": ["a"]} if kind is clicked else feedback(i, {}, kind)), "ts": 3 * i + 101})
    for request in requests:
        line = json.dumps(request).encode()
        assert again.handle(line).answer == service.handle(line).answer
    assert to_bytes(again.model) == to_bytes(service.model)
    assert again.counts() == service.counts()


@pytest.mark.parametrize("kind", [graded, windows])
def test_a_standby_takes_over_and_goes_on_where_the_server_stopped(leader, kind, tmp_path):
    app, url = leader(kind)
    served, wanted = app.models.open_models[""].durable.service, TakeOver(tmp_path / "state", 0.3)

    def traffic():
        for i in range(10):
            answer = post(f"{url}/rank", {"id": i, "docs": DOCS, "ts": 3 * i})
            post(f"{url}/learn", feedback(i, answer, kind))
        post(f"{url}/rank", {"id": 10, "docs": DOCS, "ts": 30})

    async def scenario():
        replica = Replica(url, take_over=wanted)
        following = asyncio.create_task(replica.follow())
        await asyncio.to_thread(traffic)
        await until(lambda: replica.durable.service.n_changes == served.n_changes)
        assert "behind" in replica.figures()["stats"]
        expected = to_bytes(served.model)
        app.server.should_exit = True
        await until(lambda: replica.leads)
        await following
        assert to_bytes(replica.durable.service.model) == expected
        assert "behind" not in replica.figures()["stats"]
        line = json.dumps(feedback(10, {}, kind)).encode()
        status, answer = await replica.answer(line)
        assert (status, answer) == (200, served.handle(line).answer)
        await replica.close()
        return to_bytes(replica.durable.service.model)

    learned = asyncio.run(scenario())

    async def restarted():
        again = Replica(url, take_over=wanted)
        assert again.leads
        assert to_bytes(again.durable.service.model) == learned == to_bytes(served.model)
        await again.follow()
        again.durable.close()

    asyncio.run(restarted())


def test_a_standby_does_not_take_over_from_a_server_that_answers(leader, tmp_path):
    """A server that refuses it learns nevertheless."""
    _, url = leader(graded, token="secret-token")

    async def scenario():
        replica = Replica(url, token="secret-token", take_over=TakeOver(tmp_path / "state", 0.2))
        replica._headers = {"Authorization": "Bearer another-token"}
        following = asyncio.create_task(replica.follow())
        await asyncio.sleep(1.0)
        assert not replica.leads
        assert not (tmp_path / "state").exists()
        following.cancel()

    asyncio.run(scenario())


def test_a_standby_that_did_not_try_does_not_take_over(leader, tmp_path):
    """It took its time to start, or was stopped for a while, and the server closed the connection meanwhile."""
    app, url = leader(graded)

    async def scenario():
        replica = Replica(url, take_over=TakeOver(tmp_path / "state", 0.3))
        await asyncio.sleep(0.4)
        replica._connection.sock.close()
        following = asyncio.create_task(replica.follow())
        await asyncio.to_thread(post, f"{url}/rank", {"id": 1, "docs": DOCS})
        await until(lambda: replica.leads or replica.durable.service.n_changes == 1)
        assert not replica.leads
        # From the first attempt that fails the time counts.
        app.server.should_exit = True
        await until(lambda: replica.leads)
        await following
        await replica.close()

    asyncio.run(scenario())


def test_a_replica_says_once_that_its_server_is_away_and_is_soon_back(monkeypatch, caplog):
    naps, tries = [], []

    async def sleep(seconds):
        naps.append(seconds)

    def away(replica, path):
        tries.append(path)
        if len(tries) > 20:
            raise asyncio.CancelledError
        raise OSError("away" if len(tries) < 15 else "still away")

    monkeypatch.setattr(Replica, "_get", lambda replica, path: (graded().whole_file(), {}))
    replica = Replica("ranker")
    monkeypatch.setattr(Replica, "_get", away)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(replica.follow())
    assert [record.args[1].args[0] for record in caplog.records] == ["away", "still away"]
    assert max(naps) == 1.0


def test_the_command_begins_a_standby_and_goes_on_with_what_it_took(leader, tmp_path):
    app, url = leader(graded)
    place = Place(follow=url, checkpoint=str(tmp_path / "state"), take_over_after=0.3)

    async def life(takes_over):
        standby = make_app(graded, place)
        model = standby.models.open_models[""]
        async with standby.running():
            if takes_over:
                post(f"{url}/rank", {"id": 1, "docs": DOCS})
                await until(lambda: model.durable.service.n_changes == 1)
                app.server.should_exit = True
            await until(lambda: model.leads)
            assert (await model.answer(b'{"id": 1, "grades": {"a": 1, "b": 0, "c": 0}}'))[0] == 200
            return model.durable.service.counts()

    assert asyncio.run(life(True))["learned"] == 1
    counts = asyncio.run(life(False))
    assert (counts["ranked"], counts["learned"], counts["duplicates"]) == (1, 1, 1)


@pytest.mark.parametrize(
    "options",
    [
        ("--follow", "http://x", "--checkpoint", "y"),
        ("--follow", "http://x", "--take-over-after", "3s"),
        ("--take-over-after", "3s"),
    ],
)
def test_half_a_standby_is_refused(options):
    done = CliRunner().invoke(command, ["serve", *options])
    assert done.exit_code == 2
    assert "--take-over-after" in done.output


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("model.npz",), "MODEL"),
        (("--key", "shop"), "--key"),
        (("--clicks",), "--clicks"),
        (("--feedback-window", "30m", "--event", "click=1"), "--feedback-window"),
        (("--challenger", "model.npz"), "--challenger"),
        (("--max-pending-bytes", "1000"), "--max-pending-bytes"),
        (("--null-features",), "--null-features"),
    ],
)
def test_a_replica_refuses_options_that_would_not_apply(options, named):
    done = CliRunner().invoke(command, ["serve", "--follow", "http://x", *options])
    assert done.exit_code == 2
    assert f"{named} would not apply" in " ".join(done.output.replace("│", "").split())


@pytest.mark.parametrize(
    ("options", "needed"),
    [
        (("serve", "--max-models", "3"), "need --key"),
        (("serve", "--max-keys", "3"), "need --key"),
        (("serve", "--key-ttl", "3d"), "need --key"),
        (("serve", "--idle", "5s"), "needs a --feedback-window"),
        (("stream", "--idle", "5s"), "needs a --feedback-window"),
    ],
)
def test_options_that_do_nothing_by_themselves_are_refused(options, needed):
    done = CliRunner().invoke(command, [*options])
    assert done.exit_code == 2
    assert needed in " ".join(done.output.replace("│", "").split())


#: What another server may say of a query that was ranked, and of time; each but the first is of another kind, or no number.
RANKED = (["rank", 1, [], 0, 1.0], 1, ["q", 10, None, json.dumps({"id": "q", "docs": DOCS}), [0.0, 0.0, 0.0], None], "")


@pytest.mark.parametrize(
    ("part", "place", "value"),
    [
        (0, 4, float("inf")),
        (0, 4, -1.0),
        (0, 4, "x"),
        (1, None, True),
        (2, 0, True),
        (2, 1, -1),
        (2, 2, "x"),
        (2, 3, 7),
        (2, 4, [0.0, None, 0.0]),
        (2, 4, {"a": 1.0}),
        (2, 4, [0.0, float("nan"), 0.0]),
        (2, 5, 7),
    ],
)
def test_what_could_not_be_saved_is_not_done_again(monkeypatch, part, place, value):
    service = clicked()
    monkeypatch.setattr(Replica, "_get", lambda replica, path: (service.whole_file(), {}))

    async def told(outcome, error=None):
        replica = Replica("ranker")
        with pytest.raises((ValueError, TypeError), match=r".") if error else contextlib.nullcontext():
            await replica._do_again(b'{"change": 1}\n' + json.dumps({"o": outcome}).encode())
        replica.durable.service.whole_file()
        return replica.durable.service.n_waiting

    assert asyncio.run(told(RANKED)) == 1
    outcome = json.loads(json.dumps(RANKED))
    if place is None:
        outcome[part] = value
    else:
        outcome[part][place] = value
    assert asyncio.run(told(outcome, error=True)) == 0


@pytest.mark.parametrize("time_", ["x", True, float("inf"), 1e300])
def test_a_time_that_is_none_is_not_done_again(time_):
    service = windows()
    for fields in (["late", time_], ["time", time_], ["feedback", time_]):
        with pytest.raises(ValueError, match="a time"):
            service.replay(fields, None, (), b'{"id": "q", "event": "click", "doc": "a"}')
    service.whole_file()


def test_a_replica_without_memory_tries_again(monkeypatch):
    """It stopped following, without a word, and ranked with what it had for ever."""
    service, tried = graded(), []
    monkeypatch.setattr(Replica, "_get", lambda replica, path: (service.whole_file(), {}))

    async def scenario():
        replica = Replica("ranker")

        def more():
            tried.append(1)
            if len(tried) == 1:
                raise MemoryError

        monkeypatch.setattr(replica, "_more", more)
        following = asyncio.create_task(replica.follow())
        while len(tried) < 2 and not following.done():
            await asyncio.sleep(0.01)
        following.cancel()
        assert len(tried) >= 2

    asyncio.run(scenario())
