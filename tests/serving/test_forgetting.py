"""What a service forgets on request leaves neither its answers nor its files."""

import asyncio
import json
import threading

import numpy as np
import pytest
from river import linear_model, preprocessing

from online_rank import (
    AdditiveRanker,
    CrossFeatures,
    ForEachDocument,
    PairwiseRanker,
    PerceptronRanker,
    StreamQuantileMap,
    StreamScaler,
    hybrid,
    register,
    save,
)
from online_rank.base.reader import as_array
from online_rank.base.schema import declared_state
from online_rank.preprocessing import StatelessTransformer
from online_rank.serving import Challenge, FeedbackPlan, Models, RankingApp, RankingService
from online_rank.serving.durable import DurableService, read_service
from online_rank.serving.forgetting import forget, without
from online_rank.serving.messages import Forget
from online_rank.serving.reading import read, read_as
from online_rank.serving.snapshots import KeptModels
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.storage.tree import strings_of
from tests.helpers import run_command
from tests.models import REGISTRY
from tests.serving.asking import asked

USER = "u17-secret"


def make(plan=None):
    return RankingService(StreamScaler() | CrossFeatures("user") | PerceptronRanker(), plan=plan)


def ranked(query_id, user, **more):
    return {"id": query_id, "docs": {"a": {"price": 1.0}, "b": {"price": 2.0}}, "context": {"user": user}, **more}


def run(scenario, models):
    return asked(scenario, RankingApp(models))


def contents(folder):
    return b"".join(file.read_bytes() for file in folder.iterdir() if file.is_file())


async def traffic(client):
    """Queries of two users: learned ones, waiting ones, and feedback on one that never came."""
    for i, user in enumerate([USER, "other", USER]):
        assert (await client.post("/rank", json=ranked(f"{user}/{i}", user))).status_code == 200
        assert (await client.post("/learn", json={"id": f"{user}/{i}", "grades": {"a": 1, "b": 0}})).status_code == 200
    await client.post("/rank", json=ranked("waits", USER))
    await client.post("/rank", json=ranked("stays", "other"))


def test_a_user_is_forgotten_in_memory_and_on_the_disk(tmp_path):
    async def scenario(client, app):
        await traffic(client)
        service = app.models.open_models[""].durable.service
        before = service.model.predict_one({"a": {"price": 1.0}}, context={"user": "other"})
        answer = await client.post("/forget", json={"context": {"user": USER}, "ids": [f"{USER}/0", f"{USER}/2"]})
        assert answer.json() == {"forgotten": {"waiting": 1, "early": 0, "learned": 2, "features": 1}}
        assert USER.encode() not in contents(tmp_path)
        assert service.model.predict_one({"a": {"price": 1.0}}, context={"user": "other"}) == before
        # As for a user of whom nothing was ever known.
        unknown = service.model.predict_one({"a": {"price": 1.0}}, context={"user": "nobody"})
        assert service.model.predict_one({"a": {"price": 1.0}}, context={"user": USER}) == unknown
        assert (await client.get("/stats")).json()["stats"]["pending"] == 1
        # Its feedback comes too late; other feedback does not, and is still known as repeated.
        assert "no query is waiting" in (await client.post("/learn", json={"id": "waits", "grades": {"a": 1, "b": 0}})).text
        again = await client.post("/learn", json={"id": "other/1", "grades": {"a": 1, "b": 0}})
        assert again.json()["duplicate"]
        assert (await client.post("/learn", json={"id": "stays", "grades": {"a": 1, "b": 0}})).json()["learned"]
        return await client.get("/stats")

    told = run(scenario, Models(make, directory=tmp_path)).json()["stats"]
    assert USER.encode() not in contents(tmp_path)
    assert read_service(tmp_path).stats()["learned"] == told["learned"] == 4


def test_ids_are_forgotten_alone():
    service = make()
    for i in (1, 2):
        service.handle(json.dumps(ranked(i, USER)).encode())
    done = forget(service, Forget(ids=[2, 3]))
    assert done.answer() == {"forgotten": {"waiting": 1, "early": 0, "learned": 0, "features": 0}}
    assert service.n_waiting == 1


def user(name):
    return Forget(context={"user": name})


def taught(*users, model=None):
    """A service that has learned a query of each user, whose documents have a price and a text about it."""
    service = RankingService(model or (StreamScaler() | CrossFeatures("user") | PerceptronRanker()))
    for name in users:
        service.handle(json.dumps(ranked(f"of {name}", name)).encode())
        service.handle(json.dumps({"id": f"of {name}", "grades": {"a": 1, "b": 0}}).encode())
    return service


def test_values_are_compared_as_a_whole_and_in_the_named_place_alone():
    """User "3" dropped queries with the value 3, and `shop_u17_x` was missed."""
    service = taught("shop_u17_x", "u17", "u170", "x*user=u17", 3, 13)
    names = {*strings_of(service.model)}
    others = [
        ranked("q1", "u170"), ranked("q2", "x", meta={"user": "u17"}), ranked("u17", "x"), ranked("shop u17", "U17"),
        {"id": "q3", "docs": {"u17": {"price": 3.0}, "b": {"price": 1.0}}, "context": {"user": "x", "tenant": "u17"}},
        {"id": "q4", "docs": {"a": {"u17": 3.0}, "b": {"price": 3}}, "context": {"user": "33"}},
    ]  # fmt: skip
    for each in others:
        assert "ranking" in service.handle(json.dumps(each).encode()).answer
    assert forget(service, user("3")).answer()["forgotten"] == {"waiting": 0, "early": 0, "learned": 0, "features": 1}
    done = forget(service, user("u17"))
    assert done.answer()["forgotten"] == {"waiting": 0, "early": 0, "learned": 0, "features": 1}
    assert service.n_waiting == len(others)
    assert names - {*strings_of(service.model)} == {"price*user=3", "price*user=u17"}
    assert forget(service, user("shop_u17_x")).features == {"price*user=shop_u17_x"}
    # A value that is no text is the same user: the model cannot tell the two either.
    service.handle(json.dumps(ranked("q5", 13)).encode())
    assert len(forget(service, user("13")).queries) == 1


def test_a_user_called_price_is_not_the_feature():
    """Forgetting a user called "price" erased the feature."""
    service = taught("ada")
    before = to_bytes(service.model)
    done = forget(service, user("price"))
    assert done.answer() == {
        "forgotten": dict.fromkeys(("waiting", "early", "learned", "features"), 0),
        "note": "nothing found",
    }
    assert to_bytes(service.model) == before


def test_a_feature_that_a_request_brought_is_not_one_of_the_context():
    query = {"docs": {"a": {"x*user=u17": 1.0, "y": 1.0}, "b": {"y": 2.0}}, "grades": {"a": 1, "b": 0}}
    for model, context in (
        (PerceptronRanker(), {}),
        (CrossFeatures("tenant") | PerceptronRanker(), {"context": {"tenant": "t", "user": "u17"}}),
        (CrossFeatures("user") | PerceptronRanker(), {"context": {"user": "x"}}),
        (CrossFeatures(numbers="user") | PerceptronRanker(), {"context": {"user": 7}}),
    ):
        service = RankingService(model)
        assert service.handle(json.dumps({"id": "q", **query, **context}).encode()).answer["learned"]
        before = to_bytes(service.model)
        assert not forget(service, user("u17")).features
        assert not forget(service, user("7")).features
        assert to_bytes(service.model) == before
    # Crossed with u17 itself, it is.
    service.handle(b'{"id": 1, "docs": {}}')
    service = RankingService(CrossFeatures("user") | PerceptronRanker())
    service.handle(json.dumps({"id": "q", **query, "context": {"user": "u17"}}).encode())
    assert forget(service, user("u17")).features == {"x*user=u17*user=u17", "y*user=u17"}


@register("tests.squared")
class Squared(StatelessTransformer):
    """Adds the square of each feature, under a name that no step of this library gives."""

    def _transform(self, X, offsets, out):
        np.square(X, out=out)
        return len(offsets) - 1

    def _transform_block(self, block):
        made = super()._transform_block(block)
        names = (*block.names, *(f"{name}, squared" for name in block.names))
        return made._replace(X=np.hstack([as_array(block.X, self), made.X]), names=names)


@pytest.mark.parametrize(
    ("steps", "names"),
    [
        (StreamQuantileMap(), {"price*user=u17"}),
        (Squared(), {"price*user=u17", "price*user=u17, squared"}),
    ],
)
def test_what_later_steps_make_of_a_feature_goes_with_it(steps, names):
    service = taught("u17", "u18", model=CrossFeatures("user") | steps | PerceptronRanker())
    assert {*filter(lambda name: "u17" in str(name), strings_of(service.model))} >= names
    assert forget(service, user("u17")).features >= names
    assert not [name for name in strings_of(service.model) if "u17" in name]
    assert [name for name in strings_of(service.model) if "u18" in name]


def test_a_document_is_forgotten_with_the_queries_that_have_it():
    service = make(FeedbackPlan(window=100, events={"click": 1}))
    runs = {"bm25": [["d7", 2.0], ["d8", 1.0]]}
    for query_id, docs in (("q1", ("d7", "d8")), ("q2", ("d70", "d8")), ("d7", ("d8", "d9"))):
        query = {"id": query_id, "docs": {name: {"price": 1.0} for name in docs}, "context": {"user": "d7"}, "ts": 0}
        assert "ranking" in service.handle(json.dumps(query).encode()).answer
    for query_id, document in (("e1", "d7"), ("e2", "d8")):
        service.handle(json.dumps({"id": query_id, "event": "click", "doc": document, "ts": 5}).encode())
    done = forget(service, Forget(document="d7"))
    assert done.answer()["forgotten"] == {"waiting": 1, "early": 1, "learned": 0, "features": 0}
    fused = RankingService(hybrid(["bm25"]))
    assert "ranking" in fused.handle(json.dumps({"id": "q", "runs": runs}).encode()).answer
    assert len(forget(fused, Forget(document="d7")).queries) == 1


def test_an_id_may_be_spelled_with_escapes():
    service = make()
    service.handle(json.dumps(ranked("q", USER)).replace(USER, "u17\\u002dsecret").encode())
    assert forget(service, user(USER)).answer()["forgotten"]["waiting"] == 1


def test_only_queries_that_may_have_the_id_are_parsed(monkeypatch):
    """A request of 16 bytes took seconds where 256 MB waited, and no other was answered meanwhile."""
    service, parsed = make(), []
    for i in range(20):
        service.handle(json.dumps(ranked(f"q{i}", USER if i == 3 else "other")).encode())
    monkeypatch.setattr("online_rank.serving.forgetting.read", lambda text: parsed.append(text) or read(text))
    assert forget(service, user(USER)).answer()["forgotten"]["waiting"] == 1
    assert len(parsed) == 1


def test_users_by_number_and_by_text_are_one_and_ids_are_two():
    """`CrossFeatures` names the features of both alike; nothing else is alike."""
    service = make()
    for query_id, value in ((3, 3), ("3", "3"), (4, 33), (5, 3.0), (6, True), ("7", "13")):
        service.handle(json.dumps(ranked(query_id, value)).encode())
    assert forget(service, read_as(Forget, b'{"ids": ["3"]}')).answer()["forgotten"]["waiting"] == 1
    assert declared_state(service).pending.ids() == [3, 4, 6, "7"]
    for request in (b'{"context": {"user": "3"}}', b'{"context": {"user": 3}}'):
        once = from_bytes(to_bytes(service))
        assert forget(once, read_as(Forget, request)).answer()["forgotten"]["waiting"] == 1
        assert declared_state(once).pending.ids() == [4, 6, "7"]


def test_early_feedback_is_forgotten_too():
    service = make(FeedbackPlan(window=100, events={"click": 1}))
    for query_id in ("q1", f"{USER}:1", "q2"):
        service.handle(json.dumps({"id": query_id, "event": "click", "doc": "a", "ts": 5}).encode())
    done = forget(service, Forget(ids=["q2", f"{USER}:1"], context={"user": USER}))
    assert done.answer()["forgotten"]["early"] == 2
    assert service.stats()["early"] == 1
    declared_state(service).pending._check_state()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (CrossFeatures("user") | PairwiseRanker(linear_model.LogisticRegression()), "nobody can say"),
        (CrossFeatures("user") | ForEachDocument(preprocessing.StandardScaler()) | PerceptronRanker(), "another library"),
    ],
)
def test_a_model_that_keeps_names_elsewhere_says_so_and_changes_nothing(model, message):
    service = RankingService(model)
    service.handle(json.dumps(ranked("q", USER)).encode())
    service.handle(b'{"id": "q", "grades": {"a": 1, "b": 0}}')
    with pytest.raises(ValueError, match=message):
        forget(service, Forget(ids=["q"], context={"user": USER}))
    assert "q" in declared_state(service).learned


def test_the_challenger_and_the_model_before_forget_too(tmp_path):
    rival = StreamScaler() | CrossFeatures("user") | PerceptronRanker("ap")
    rival.learn_one({"a": {"price": 1.0}, "b": {"price": 2.0}}, {"a": 1, "b": 0}, context={"user": USER})
    own = RankingService(StreamScaler() | CrossFeatures("user") | PerceptronRanker("ap"), challenge=Challenge(rival))
    assert forget(own, user(USER)).features == {f"price*user={USER}"}
    save(rival, tmp_path / "rival.npz")

    async def scenario(client, app):
        await traffic(client)
        content = (tmp_path / "rival.npz").read_bytes()
        headers = {"content-type": "application/octet-stream"}
        assert (await client.post("/model", content=content, headers=headers)).status_code == 200
        assert USER.encode() in (tmp_path / "state" / "previous.npz").read_bytes()
        forgotten = await client.post("/forget", json={"context": {"user": USER}, "ids": [f"{USER}/0", f"{USER}/2"]})
        assert forgotten.json()["forgotten"]["features"] == 1
        assert USER.encode() not in contents(tmp_path / "state")
        assert (await client.post("/model/rollback", json={})).status_code == 200

    run(scenario, Models(make, directory=tmp_path / "state"))


def test_a_model_that_is_just_replaced_forgets_too(tmp_path, monkeypatch):
    """The file of the model before was written after what it should have forgotten."""
    keep, begun, go_on = KeptModels.put, threading.Event(), threading.Event()

    def slow(kept, content, day=None):
        if not begun.is_set():
            begun.set()
            go_on.wait(10.0)
        keep(kept, content, day)

    async def scenario(client, app):
        await traffic(client)
        wanted = {"context": {"user": USER}, "ids": [f"{USER}/0", f"{USER}/2"]}
        monkeypatch.setattr(KeptModels, "put", slow)
        headers, content = {"content-type": "application/octet-stream"}, to_bytes(make().model)
        replaced = asyncio.create_task(client.post("/model", content=content, headers=headers))
        await asyncio.to_thread(begun.wait, 10.0)
        forgotten = asyncio.create_task(client.post("/forget", json=wanted))
        await asyncio.sleep(0.2)
        go_on.set()
        assert [(await replaced).status_code, (await forgotten).status_code] == [200, 200]
        assert USER.encode() not in contents(tmp_path)
        assert USER.encode() not in to_bytes([app.models.open_models[""].durable.service.replaced])

    run(scenario, Models(make, directory=tmp_path))


@pytest.mark.parametrize(
    "request_",
    [
        b"{}", b'{"ids": "q"}', b'{"user": "u17"}', b'{"context": "u17"}', b'{"context": {}}', b'{"context": {"a": 1, "b": 2}}',
        b'{"context": {"user": 1.5}}', b'{"context": {"user": null}}', b'{"document": 7}', b'{"ids": [null]}', b"[]",
    ],
)  # fmt: skip
def test_requests_that_say_nothing_are_refused(request_):
    with pytest.raises(ValueError, match=r"."):
        read_as(Forget, request_)


def test_killed_before_the_checkpoint_everything_is_as_before(tmp_path):
    durable = DurableService(make(), tmp_path)
    requests = [ranked("q1", USER), {"id": "q1", "grades": {"a": 1, "b": 0}}, ranked("q2", USER)]
    durable.append([durable.service.handle(json.dumps(each).encode()).outcome for each in requests], sync=True)
    durable.forget(Forget(ids=["q1"], context={"user": USER}))
    # The first step only: the learned ids are renamed, the generation is not written.
    next(durable.writing(durable.generation()))
    durable.close()
    again = DurableService(make(), tmp_path)
    assert (again.service.stats()["learned"], again.service.n_waiting) == (1, 1)
    again.forget(Forget(ids=["q1", "q2"], context={"user": USER}))
    again.save()
    again.close()
    assert USER.encode() not in contents(tmp_path)
    assert read_service(tmp_path).n_waiting == 0


def test_the_command_forgets_in_a_folder(tmp_path, capsys):
    async def scenario(client, app):
        await traffic(client)

    run(scenario, Models(make, directory=tmp_path))
    assert USER.encode() in contents(tmp_path)
    ids = ["--id", "stays", "--id", f"{USER}/0", "--id", f"{USER}/2"]
    forgotten = run_command(capsys, "forget", tmp_path, "--context", f"user={USER}", *ids)
    found = "2 waiting queries, 0 queries with feedback that had not come, 2 learned ids, 1 names of features"
    assert forgotten[:2] == (0, f"forgotten: {found}\n")
    assert USER.encode() not in contents(tmp_path)
    run(lambda client, app: client.get("/stats"), Models(make, directory=tmp_path))
    assert run_command(capsys, "forget", tmp_path, "--id", "q")[:2] == (0, "nothing found\n")
    (tmp_path / "snapshot-2026-01-02.npz").write_bytes(b"damaged")
    assert "snapshot-2026-01-02.npz: not a model file" in run_command(capsys, "forget", tmp_path, "--id", "q")[2]


@pytest.mark.parametrize("name", ["scaler | crosses | perceptron", "map | ridge", "click blend", "blend, half-life"])
def test_models_continue_after_forgetting(name):
    from online_rank.base.forgetting import forget_names

    rng = np.random.default_rng(0)
    model = REGISTRY[name]()
    options = {"context": {"user": "other"}} if "crosses" in name else {}

    def query():
        docs = {str(i): {"x": rng.normal(), f"y={USER}": rng.normal(), "z": rng.normal()} for i in range(6)}
        return docs, {str(i): int(rng.integers(3)) for i in range(6)}

    for _ in range(30):
        model.learn_one(*query(), **options)
    assert forget_names(model, f"y={USER}".__contains__) >= 1
    docs = {"a": {"x": 1.0, "z": 2.0}, "b": {"x": 0.5, "z": -1.0}}
    before = model.predict_one(docs, **options)
    for _ in range(30):
        model.learn_one(*query(), **options)
    assert np.isfinite([*model.predict_one(docs, **options).values()]).all()
    assert len(before) == 2


@pytest.mark.parametrize("kind", ["learn", "teach", "close", "drop"])
def test_what_is_learned_after_forgetting_survives_a_crash_before_the_checkpoint(tmp_path, monkeypatch, kind):
    """The journal does not know what was forgotten: a new query under an old id was replayed as a duplicate of the old one."""
    plan = FeedbackPlan(window=10) if kind in ("close", "drop") else None

    def opened():
        return DurableService(RankingService(PerceptronRanker(), plan=plan), tmp_path / "state", 1000)

    def send(durable, at, **fields):
        reply = durable.service.handle(json.dumps({"ts": at, **fields}).encode())
        assert "error" not in reply.answer
        durable.append(reply.outcomes, True)

    def learn(durable, at, grades):
        docs = {"a": {"x": 3.0}, "b": {"x": 1.0, "y": 2.0}}
        if kind == "teach":
            send(durable, at, id=USER, docs=docs, grades=grades)
        else:
            send(durable, at, id=USER, docs=docs)
            send(durable, at, id=USER, grades=grades)
            send(durable, at + 50, id=f"{at}", docs=docs)  # time passes, and windows end

    durable = opened()
    learn(durable, 100, {"a": 0, "b": 2})
    durable.save()
    durable.forget(Forget(ids=[USER]))
    if kind == "drop":

        def fail(*_, **__):
            raise ValueError("no")

        monkeypatch.setattr("online_rank.serving.windows.close", fail)
    learn(durable, 200, {"a": 2, "b": 0})
    learned = durable.service.learned_as(USER)
    durable.close()
    for _ in range(2):
        again = opened()
        assert again.service.counts() == durable.service.counts()
        assert to_bytes(again.service.model) == to_bytes(durable.service.model)
        assert again.service.learned_as(USER) == learned is not None
        again.save()
        again.close()


def test_trees_forget_the_queries_that_they_grow_from():
    model, rng = AdditiveRanker(trees=20), np.random.default_rng(0)
    for _ in range(30):
        X = rng.normal(size=(8, 3))
        model.learn_one(X, np.digitize(X[:, 0] * X[:, 1], [0.0, 1.0]))
    n_trees = model.n_trees
    content, names = without(to_bytes(model), Forget(ids=["q1"]))
    kept = from_bytes(content)
    assert not names
    assert declared_state(model).trees.n_queries == 30
    assert declared_state(kept).trees.n_queries == 0
    assert not declared_state(declared_state(kept).trees).bins.any()
    assert kept.n_trees == n_trees > 0
    assert kept.predict_one(X) == model.predict_one(X)


def test_words_leave_no_text_and_an_entry_of_the_context_leaves_no_trace(tmp_path):
    """The checksum of a user's name stayed in the kinds of the features."""

    def query(t, **more):
        docs = {f"d{i}": {"title": f"shoe number w{(t * i) % 7} of {USER}"} for i in range(6)}
        return {"id": f"q{t}", "docs": docs, "context": {"user": USER, "q": f"{USER} shoe w{t % 7}"}, **more}

    async def scenario(client, app):
        service = app.models.open_models[""].durable.service
        for t in range(30):
            assert (await client.post("/rank", json=query(t))).status_code == 200
            grades = {f"d{i}": (t * i) % 3 for i in range(6)}
            assert (await client.post("/learn", json={"id": f"q{t}", "grades": grades})).status_code == 200
        assert (await client.post("/rank", json=query(30))).status_code == 200
        ranker = service.model
        assert ranker.n_words > 10
        assert declared_state(ranker).kinds.has_mark(("context", "user"), USER)
        found = (await client.post("/forget", json={"context": {"user": USER}, "ids": ["q0"]})).json()["forgotten"]
        assert found["waiting"] == 1
        assert not declared_state(service.model).kinds.has_mark(("context", "user"), USER)
        assert USER.encode() not in contents(tmp_path)

    run(
        scenario,
        Models(lambda: RankingService(AdditiveRanker(trees=0, kinds={"title": "text", "q": "text"})), directory=tmp_path),
    )


@pytest.mark.slow
@pytest.mark.parametrize("many", [3, 40])
def test_the_default_forgets_a_user_of_the_context_wherever_one_is(many, tmp_path):
    """Waiting queries, the journal, levels, words, snapshots of days, and what the user has clicked today."""

    async def scenario(client, app):
        for i in range(many):
            name = USER if i % 2 else f"user {i % 5}"
            query = ranked(f"q{i}", name, docs={"a": {"price": 1.0, "brand": "x"}, "b": {"price": 2.0 + i, "brand": "y"}})
            assert (await client.post("/rank", json=query)).status_code == 200
            learned = {"id": f"q{i}", "grades": {"a": 0, "b": 1 + i % 2}, "user": name, "session": f"session of {name}"}
            assert (await client.post("/learn", json=learned)).status_code == 200
        await client.post("/rank", json=ranked("waits", USER))
        await client.post("/rank", json=ranked("stays", "user 0"))
        await client.post("/learn", json={"cmd": "save"})
        (model,) = app.models.open_models.values()
        await asyncio.to_thread(model.kept.put, model.model_file(), "2026-01-02")
        service = model.durable.service
        n_known = len(declared_state(service).evidence)
        forgotten = (await client.post("/forget", json={"context": {"user": USER}})).json()["forgotten"]
        assert (forgotten["waiting"], service.n_waiting) == (1, 1)
        assert len(declared_state(service).evidence) == n_known - 1
        assert (await client.post("/forget", json={"context": {"session": f"session of {USER}"}})).status_code == 200
        assert len(declared_state(service).evidence) == n_known - 2
        kept = [from_bytes(path.read_bytes()) for path in tmp_path.glob("snapshot-*.npz")]
        assert kept
        assert not [text for each in (service.model, *kept) for text in strings_of(each) if USER in text]
        assert USER.encode() not in contents(tmp_path)

    run(scenario, Models(lambda: RankingService(AdditiveRanker()), directory=tmp_path, snapshots=5))
    assert USER.encode() not in contents(tmp_path)
