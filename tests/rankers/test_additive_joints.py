"""The additive ranker with everything else: wrappers, feedback, frames, requests, machines."""

import copy
import datetime
import json
import pickle
import threading

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from online_rank import (
    AdditiveRanker,
    BlendRanker,
    CrossFeatures,
    ExaminedRanker,
    HashedFeatures,
    LossTracker,
    PerceptronRanker,
    RunFeatures,
    Runs,
    load,
    measure,
    save,
)
from online_rank.base.schema import declared_state
from online_rank.bounds import certificate_of
from online_rank.checks._subject import state_of
from online_rank.distributed import fork, mix
from online_rank.distributed.keyed import KeyedRankers
from online_rank.distributed.rounds import learn_rounds
from online_rank.serving.protocol import RankingService
from online_rank.storage.files import from_bytes, to_bytes
from tests.rankers.test_additive import documents, queries
from tests.serving.topics import State

DOCUMENTS = [
    {"price": 1.0, "brand": "a", "fresh": True, "day": datetime.datetime(2024, 1, 1)},
    {"price": None, "brand": "b", "fresh": False, "day": datetime.datetime(2024, 1, 5)},
    {"price": 3.0, "brand": None, "fresh": None, "day": None},
    {"price": 2.0, "brand": "a", "fresh": True, "day": datetime.datetime(2024, 2, 1)},
]


def ask(service, **fields):
    return service.handle(json.dumps(fields).encode()).answer


def taught(model, stream):
    for x, y in stream:
        model.learn_one(x, y)
    return model


WRAPPERS = {
    "tracker": lambda: LossTracker(AdditiveRanker()),
    "served tracker": lambda: LossTracker(AdditiveRanker(), measure_served=True),
    "examined": lambda: ExaminedRanker(AdditiveRanker(), examination=(1.0, 0.5)),
}


@pytest.mark.parametrize("make", WRAPPERS.values(), ids=WRAPPERS)
def test_wrappers_read_missing_values_categories_and_dates_as_it_does(make):
    alone, model = (taught(one, documents(30)) for one in (AdditiveRanker(), make()))
    x, _ = next(documents(1, seed=7))
    x["d0"].pop("price", None)
    assert model.predict_one(x) == alone.predict_one(x)
    assert model.feature_names == alone.feature_names
    told = model.explain_one(x, "d0", "d1")
    assert told.contributions == alone.explain_one(x, "d0", "d1").contributions
    assert from_bytes(to_bytes(model)).predict_one(x) == model.predict_one(x)
    before = state_of(model)
    with pytest.raises(ValueError, match="feature 'price' of document 'd1' is inf"):
        model.learn_one({"d0": {"price": 1.0}, "d1": {"price": np.inf, "new": 1.0}}, {"d0": 0, "d1": 1})
    assert state_of(model) == before


def words(n, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        yield [{f"w{j}": 1.0 for j in rng.integers(0, 300, 12)} for _ in range(6)], rng.integers(0, 3, 6)


@pytest.mark.parametrize("make", [WRAPPERS["tracker"], WRAPPERS["examined"]])
def test_wrappers_pass_sparse_queries(make):
    alone, model = (taught(one, words(10)) for one in (AdditiveRanker(), make()))
    x, _ = next(words(1, seed=3))
    assert model.predict_one(x) == alone.predict_one(x)
    if isinstance(model, LossTracker):
        assert model.totals.n_rounds == 10
        with pytest.raises(ValueError, match="no bound covers a AdditiveRanker on sparse rows"):
            model.certificate()


@pytest.mark.parametrize("measure_served", [False, True])
def test_a_tracker_certifies_it_by_its_own_account(measure_served):
    tracker = LossTracker(AdditiveRanker(trees=0), measure_served=measure_served)
    alone = AdditiveRanker(trees=0)
    for X, y in queries(60):
        for model in (tracker, alone):
            model.learn_one(X, y)
    certificate = certificate_of(tracker)
    assert certificate.loss == alone.account.served == tracker.totals.loss
    assert certificate.holds
    assert [check.value for check in certificate.bounds] == [check.value for check in certificate_of(alone).bounds]
    assert {check.name for check in certificate.bounds} == {"blend_bound", "blend_closed_bound", "blend_path_bound"}
    if measure_served:
        assert tracker.totals.served_loss == alone.account.served
    with pytest.raises(TypeError, match="AdditiveRanker is compared with its best fixed blend"):
        LossTracker(AdditiveRanker(), {"u": [1.0]})


def test_clicks_with_examination_teach_it():
    model, rng, right = ExaminedRanker(AdditiveRanker(), examination=(1.0, 0.6, 0.4), k=3), np.random.default_rng(0), []
    for _ in range(150):
        x = {f"d{i}": {"price": float(rng.normal()), "brand": "ab"[rng.integers(2)]} for i in range(6)}
        shown = model.show_one(x)
        looked_at = rng.random(3) < (1.0, 0.6, 0.4)
        clicked = [i for i, seen in zip(shown.order, looked_at, strict=True) if seen and x[i]["brand"] == "a"]
        right.append(x[shown.order[0]]["brand"] == "a")
        model.learn_one(x, shown.clicked(clicked))
    assert np.mean(right[50:]) > 0.95 > np.mean(right[:5])


def frames():
    table = pd.DataFrame(DOCUMENTS)
    yield "objects of pandas", table
    yield (
        "types of pandas",
        table.assign(
            brand=table["brand"].astype("category"),
            fresh=table["fresh"].astype("boolean"),
            day=pd.to_datetime(table["day"]).dt.tz_localize("UTC"),
        ),
    )
    yield "strings of pandas", table.assign(brand=table["brand"].astype("string"), day=pd.to_datetime(table["day"]))
    table = pl.DataFrame(DOCUMENTS)
    yield "polars", table
    yield "categories of polars", table.with_columns(pl.col("brand").cast(pl.Categorical))
    yield "enums of polars", table.with_columns(pl.col("brand").cast(pl.Enum(["a", "b"])), pl.col("day").cast(pl.Date))
    table = pa.Table.from_pylist(DOCUMENTS)
    yield "arrow", table
    yield "dictionaries of arrow", table.set_column(1, "brand", table["brand"].dictionary_encode())


@pytest.mark.parametrize("frame", [one for _, one in frames()], ids=[name for name, _ in frames()])
def test_columns_of_frames_are_read_as_dicts_are(frame):
    of_dicts, of_frames = AdditiveRanker(), AdditiveRanker()
    for _ in range(4):
        of_dicts.learn_one(DOCUMENTS, [2, 0, 1, 2])
        of_frames.learn_one(frame, [2, 0, 1, 2])
    assert state_of(of_frames) == state_of(of_dicts)
    assert of_frames.predict_one(frame) == of_dicts.predict_one(DOCUMENTS)


def test_booleans_are_categories_in_dicts_frames_and_json():
    model = AdditiveRanker(signs={"fresh": -1})
    x = [{"fresh": True, "price": 1.0}, {"fresh": False, "price": 1.0}, {"price": 1.0, "fresh": np.bool_(True)}]
    for _ in range(4):
        model.learn_one(x, [0, 2, 1])
    assert model.feature_names[:2] == (("fresh", "is", "true"), ("fresh", "is", "false"))
    scores = model.predict_one(x)
    assert scores[1] > scores[0] == scores[2]
    assert model.predict_one(pd.DataFrame(x[:2])) == model.predict_one([{"fresh": "true", "price": 1.0}, x[1]])
    # The sign is for true: with it, false is never worse.
    for _ in range(20):
        model.learn_one(x, [2, 0, 2])
    scores = model.predict_one(x)
    assert scores[1] >= scores[0]
    for bad in ([{"fresh": 1.0}], pd.DataFrame({"fresh": [1.0]})):
        with pytest.raises(ValueError, match=r"feature 'fresh' .*is a number.*, and a category elsewhere"):
            model.learn_one(bad, [0])
    with pytest.raises(ValueError, match="feature 'price' of document 1 is a boolean, True, and a number elsewhere"):
        model.learn_one([{"price": 1.0}, {"price": True}], [0, 1])
    with pytest.raises(ValueError, match="signs has 'brand', which is a category"):
        AdditiveRanker(signs={"brand": 1}).learn_one([{"brand": "a"}, {"brand": "b"}], [0, 1])


def test_levels_of_a_refused_query_are_forgotten():
    model = taught(AdditiveRanker(), documents(5))
    with pytest.raises(ValueError, match="grade"):
        model.learn_one({"d0": {"brand": "never"}, "d1": {"brand": "a"}}, {"d0": -1, "d1": 0})
    model.learn_one(pd.DataFrame({"price": [1.0, 2.0], "length": [3.0, np.nan]}), [0, 1])
    model.learn_one(pd.DataFrame({"price": [1.0, 2.0]}), [0, 1])
    assert model._reader.placed(model, np.ones((1, 1)), np.array([0]))[0, -1] != 0.0


def test_requests_name_bad_values_and_learn_nothing():
    service = RankingService(AdditiveRanker())
    for t, (x, y) in enumerate(documents(10)):
        docs = {name: {**one, "day": one["day"].toordinal()} for name, one in x.items()}
        assert "error" not in ask(service, id=t, docs=docs)
        assert ask(service, id=t, grades=y)["learned"]
    before = state_of(service.model)
    for value in (10**400, {"a": 1}):
        answer = ask(service, id=99, docs={"d0": {"price": value}, "d1": {"price": 1.0}})
        assert "price" in answer["error"]
        assert "d0" in answer["error"]
    missing = ask(service, id=99, docs={"d0": {"price": None}, "d1": {"price": 1.0}})
    for value in ("cheap", [1.0]):  # Of another kind: missing, and counted.
        assert ask(service, id=99, docs={"d0": {"price": value}, "d1": {"price": 1.0}}) == missing
    assert service.odd["price"] == 2
    assert state_of(service.model) == before
    answer = ask(service, id=100, docs={"d0": {"price": None, "brand": ["a", "b"]}, "d1": {"fresh": True}})
    assert set(answer["ranking"]) == {"d0", "d1"}


def test_late_grades_and_served_scores_of_a_service():
    service, model = RankingService(AdditiveRanker(), learn_served=True), AdditiveRanker()
    stream = [({f"d{i}": {"price": float(v)} for i, v in enumerate(X[:, 0])}, y.tolist()) for X, y in queries(20)]
    served = {}
    for t, (x, _) in enumerate(stream):
        answer = ask(service, id=t, docs=x)
        served[t] = dict(zip(answer["ranking"], answer["scores"], strict=True))
        if t >= 3:
            late, grades = stream[t - 3][0], dict(zip(stream[t - 3][0], stream[t - 3][1], strict=True))
            ask(service, id=t - 3, grades=grades)
            model.learn_one(late, grades, served=served[t - 3])
    assert service.model.predict_one(x) == model.predict_one(x)
    assert service.model.n_served == service.model.n_queries == 17


def test_a_ranker_for_each_key():
    make = lambda: KeyedRankers(lambda: RankingService(AdditiveRanker()), every=4)  # noqa: E731
    handle, state, alone = make(), State(), AdditiveRanker()
    for t in range(10):
        x = {"a": {"price": float(t % 3), "brand": "x"}, "b": {"price": 1.0, "fresh": True}, "c": {"price": None}}
        y = {"a": t % 3, "b": 1, "c": 0}
        for k, event in enumerate(({"id": t, "docs": x}, {"id": t, "grades": y})):
            # Every third event is handled after a restart.
            handle = make() if t % 3 == 0 else handle
            answer = handle.event(json.dumps(event).encode(), b"shop", state, "events", 0, 2 * t + k)
            assert "error" not in answer
        alone.learn_one(x, y)
    asked = json.dumps({"id": 99, "docs": x}).encode()
    answer = make().event(asked, b"shop", state, "events", 0, 99)
    assert dict(zip(answer["ranking"], answer["scores"], strict=True)) == pytest.approx(alone.predict_one(x), abs=1e-9)


def test_copies_and_files_made_by_threads_while_it_learns(tmp_path):
    model, stream, found, stop = AdditiveRanker(), list(documents(60)), [], threading.Event()
    x = stream[0][0]

    def read(k):
        while not stop.is_set():
            save(model, tmp_path / str(k))
            for one in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), load(tmp_path / str(k))):
                found.append((one.n_queries, tuple(one.predict_one(x).values())))

    threads = [threading.Thread(target=read, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    expected = {0: (0.0,) * len(x)}
    for n, (query, y) in enumerate(stream, 1):
        model.learn_one(query, y)
        expected[n] = tuple(model.predict_one(x).values())
    stop.set()
    for thread in threads:
        thread.join()
    assert found
    assert all(scores == expected[n] for n, scores in found)


def test_context_is_crossed_by_a_step_in_front():
    model, rng = CrossFeatures("user") | AdditiveRanker(), np.random.default_rng(0)
    for t in range(60):
        X, user = rng.normal(size=(8, 3)), "uv"[t % 2]
        x = [dict(zip("abc", row, strict=True)) for row in X.tolist()]
        model.learn_one(x, (X[:, 0] * (1 if user == "u" else -1) > 0.3).astype(int), context={"user": user})
    assert model["AdditiveRanker"].has_curves
    X = rng.normal(size=(30, 3))
    x = [dict(zip("abc", row, strict=True)) for row in X.tolist()]
    for user, sign in (("u", 1), ("v", -1)):
        assert np.corrcoef(sign * X[:, 0], model.predict_one(x, context={"user": user}))[0, 1] > 0.9


def test_text_and_missing_values_are_crossed_too():
    model, rng = CrossFeatures("user", numbers="length") | AdditiveRanker(), np.random.default_rng(0)
    for t in range(80):
        user = "uv"[t % 2]
        x = {f"d{i}": {"brand": "ab"[rng.integers(2)], "price": float(rng.normal()), "fresh": True} for i in range(6)}
        x["d0"]["price"] = None
        y = {name: int(one["brand"] == ("a" if user == "u" else "b")) for name, one in x.items()}
        model.learn_one(x, y, context={"user": user, "length": 2})
    query = {"one": {"brand": "a", "price": 0.1}, "other": {"brand": "b", "price": 0.1}}
    assert model.rank_one(query, context={"user": "u", "length": 2})[0] == "one"
    assert model.rank_one(query, context={"user": "v", "length": 2})[0] == "other"
    names = model["AdditiveRanker"].feature_names
    assert {("brand*user=u", "is", "a"), ("fresh*user=v", "is", "true"), "price*length"} <= set(names)
    assert not any("brand*length" in name for name in names if isinstance(name, tuple))
    scores = model.predict_one(query, context={"user": "u", "length": 2})
    told = model.explain_one(query, "one", "other", context={"user": "u", "length": 2})
    assert sum(told.contributions.values()) == pytest.approx(scores["one"] - scores["other"])
    with pytest.raises(ValueError, match="a feature is called 'brand\\*user=u', as a joined one is"):
        model.predict_one({"d": {"brand": "a", "brand*user=u": "b"}}, context={"user": "u", "length": 1})
    with pytest.raises(TypeError, match="feature 'brand' of document 'one' is 'a'; features are numbers"):
        (CrossFeatures("user") | PerceptronRanker()).learn_one(query, {"one": 1, "other": 0}, context={"user": "u"})


def test_own_measures_are_refused_with_what_takes_them():
    with pytest.raises(TypeError, match=r"StreamQuantileMap\(\) | PerceptronRanker\(measure\)"):
        AdditiveRanker(lambda ranked: 0.0)


def shop(n, seed=0):
    """Queries whose grades follow a curve of the price and the words of a title."""
    rng = np.random.default_rng(seed)
    weights = np.random.default_rng(1).normal(size=60)
    for _ in range(n):
        x, truth = {}, []
        for i in range(10):
            price, found = rng.normal(), rng.integers(0, 60, 6)
            x[f"d{i}"] = {
                "price": None if rng.random() < 0.1 else float(np.exp(3 * price)),
                "brand": "abc"[rng.integers(3)],
                "title": " ".join(f"w{j}" for j in found),
            }
            truth.append(-2 * abs(price) + 0.7 * weights[found].sum())
        yield x, dict(zip(x, np.digitize(truth, [-1.0, 1.0]).tolist(), strict=True))


@pytest.mark.slow
def test_numbers_and_words_in_one_query_may_be_a_blend():
    words_of = lambda: HashedFeatures(10, text=("title",), others=False) | PerceptronRanker()  # noqa: E731
    models = [BlendRanker([AdditiveRanker(), words_of()]), AdditiveRanker(), words_of()]
    means = np.zeros(3)
    for t, (x, y) in enumerate(shop(200)):
        for k, model in enumerate(models):
            if t >= 100:
                means[k] += measure("ndcg@10").value([*model.predict_one(x).values()], [*y.values()]) / 100
            model.learn_one(x, y)
    # The default learns words, too.
    assert means[0] > means[2] + 0.02
    assert means[1] > means[2] + 0.02
    blend = models[0]
    assert certificate_of(blend).holds
    assert np.isfinite(blend.last_round.largest_norm)
    scores = blend.predict_one(x)
    assert from_bytes(to_bytes(blend)).predict_one(x) == scores
    assert blend.predict_one(pd.DataFrame([*x.values()])) == [*scores.values()]
    told = blend.explain_one(x, "d0", "d1")
    assert sum(told.contributions.values()) == pytest.approx(scores["d0"] - scores["d1"])
    assert "price" in told.contributions
    before = to_bytes(blend)
    for bad, message in (
        ({"price": np.inf, "title": "w1"}, "feature 'price' of document 'd0' is inf"),
        ({"price": "cheap", "title": "w1"}, "feature 'price' of document 'd0' is a text"),
    ):
        for call in (
            lambda x=bad: blend.learn_one({"d0": x, "d1": {"price": 1.0}}, {"d0": 1, "d1": 0}),
            lambda x=bad: blend.predict_one({"d0": x}),
        ):
            with pytest.raises((TypeError, ValueError), match=message):
                call()
        assert to_bytes(blend) == before


def test_runs_of_retrievers():
    model = RunFeatures() | AdditiveRanker()
    x = Runs({"bm25": [("a", 9.0), ("b", 5.0), ("c", 3.0)], "vector": [("b", 0.9), ("d", 0.5)]})
    for _ in range(5):
        model.learn_one(x, {"a": 0, "b": 2, "c": 0, "d": 1})
    assert model.rank_one(x)[:2] == ["b", "d"]
    assert model["AdditiveRanker"].has_curves


def explained(model, x, a, b):
    """The contributions, whose sum is the difference of the scores."""
    told, scores = model.explain_one(x, a, b), model.predict_one(x)
    assert told.exact
    parts = told.contributions if isinstance(told.contributions, list) else [*told.contributions.values()]
    assert sum(parts) == pytest.approx(scores[a] - scores[b], abs=1e-9)
    return told.contributions


def test_explanations_have_one_part_for_each_raw_feature():
    model = taught(AdditiveRanker(), documents(60))
    x, _ = next(documents(1, seed=5))
    x["d0"] |= {"price": None, "brand": "a", "tags": ["new", "sale", "odd"]}
    x["d1"] = {"price": 1.0}
    assert set(explained(model, x, "d0", "d1")) == {"price", "brand", "tags", "day"}
    assert set(explained(model, {"d0": {"price": 1.0, "unknown": 3.0}, "d1": {"price": 2.0}}, "d0", "d1")) == {"price"}
    model = taught(AdditiveRanker(), ((DOCUMENTS, [2, 0, 1, 2]) for _ in range(4)))
    assert set(explained(model, DOCUMENTS, 0, 2)) == {"price", "brand", "fresh", "day"}
    model = taught(AdditiveRanker(), words(10))
    assert len(explained(model, next(words(1, seed=2))[0], 0, 1)) > 5


def test_its_size_is_bounded():
    model = AdditiveRanker(max_levels=20, trees=0)
    rng, sizes = np.random.default_rng(0), []
    for t in range(90):
        x = [{"brand": f"b{t}-{i // 2}", "price": float(rng.normal())} for i in range(6)]
        model.learn_one(x, rng.integers(0, 3, 6))
        sizes.append(len(to_bytes(model)))
    assert model.n_features == 22
    # The sample of a stretch of the stream grows up to 96 documents.
    # The sample of a stretch of the stream, of up to 96 documents, comes and goes.
    assert max(sizes) < 22 * (1640 + 8 * 96 + 4096)
    model.max_features = 25
    with pytest.warns(UserWarning, match="most features that it takes, 25"):
        model.learn_one([{f"f{j}": 1.0 for j in range(9)}, {"price": 2.0}], [0, 1])
    # Nine come, and six of those that were there leave: the levels that were used longest ago.
    assert (model.n_features, model.n_ignored_features, model.n_left_features) == (25, 0, 6)
    assert "price" in model.feature_names
    model.predict_one([{f"f{j}": 1.0 for j in range(9)}, {"price": 2.0}])
    with pytest.raises(ValueError, match="features"):
        AdditiveRanker().learn_one(np.zeros((2, AdditiveRanker.max_features + 1)), [0, 1])


def cut(stream, n):
    return [stream[k::n] for k in range(n)]


@pytest.mark.first(1)
@pytest.mark.parametrize("make", [lambda: list(queries(160, missing=0.1)), lambda: list(documents(160, levels="abcdefghijkl"))])
def test_machines_are_mixed(make):
    stream = make()
    rounds = [cut(stream[:60], 2), cut(stream[60:120], 2)]
    mixed, one, fresh = AdditiveRanker(), AdditiveRanker(), AdditiveRanker()
    training = learn_rounds(mixed, rounds)
    taught(one, stream[:120])
    assert training.queries == mixed.n_queries == 120
    assert mixed.n_mixed == 2
    # The statistics of the documents equal one machine's, up to the order of the features and the sampling.
    order = [mixed.feature_names.index(name) for name in one.feature_names] if one.feature_names else np.arange(4)
    np.testing.assert_allclose(
        declared_state(mixed).sums[order, 0, 1].sum(axis=1), declared_state(one).sums[:, 0, 1].sum(axis=1), rtol=1e-6
    )
    assert (
        declared_state(mixed).front.n_documents == declared_state(one).front.n_documents == sum(len(x) for x, _ in stream[:120])
    )
    np.testing.assert_allclose(
        declared_state(declared_state(mixed).front).lacking[order],
        declared_state(declared_state(one).front).lacking,
        atol=0.15 * declared_state(declared_state(one).front).total,
    )
    losses = np.zeros(3)
    for x, y in stream[120:]:
        for k, model in enumerate((mixed, one, fresh)):
            scores = model.predict_one(x)
            grades = [y[name] for name in scores] if isinstance(scores, dict) else y
            values = [*scores.values()] if isinstance(scores, dict) else scores
            losses[k] += measure("ndcg@10").loss(values, grades, ties="pessimistic")
    assert losses[0] < 1.3 * losses[1] + 0.5
    assert losses[0] < 0.5 * losses[2]
    certificate = certificate_of(mixed)
    assert not certificate.bounds
    assert all("covers one machine" in reason for reason in certificate.not_covered.values())
    assert from_bytes(to_bytes(mixed)).predict_one(x) == mixed.predict_one(x)


def test_mixing_counts_the_base_once_and_equal_models_give_themselves():
    stream = list(documents(60))
    base = taught(AdditiveRanker(), stream[:30])
    idle = mix([fork(base), fork(base)], base)
    np.testing.assert_allclose(declared_state(idle).weights, declared_state(base).weights, rtol=1e-12)
    np.testing.assert_array_equal(declared_state(idle).gram, declared_state(base).gram)
    for name in ("_sums", "_losses", "_numbers", "_account"):
        np.testing.assert_allclose(getattr(idle, name), getattr(base, name), rtol=1e-12)
    assert idle.n_queries == 30
    shards = [taught(fork(base), stream[30:45]), taught(fork(base), stream[45:])]
    mixed = mix(shards, base)
    np.testing.assert_allclose(
        declared_state(mixed).losses,
        declared_state(base).losses + sum(declared_state(one).losses - declared_state(base).losses for one in shards),
    )
    assert mixed.account.served == pytest.approx(sum(one.account.served for one in shards) - base.account.served)
    # Machines that meet features in another order.
    one, two = AdditiveRanker(), AdditiveRanker()
    for x, y in stream[:20]:
        one.learn_one(x, y)
        two.learn_one({name: dict(reversed(x[name].items())) for name in x}, y)
    assert set(one.feature_names) == set(two.feature_names)
    expected = mix([one, one])
    assert mix([one, two]).predict_one(x) == pytest.approx(expected.predict_one(x), rel=1e-6)


def test_sparse_machines_and_trackers_are_mixed():
    parts = [list(words(10, seed=k)) for k in range(2)]
    x = parts[0][0][0]
    mixed, twin = (mix([taught(copy.deepcopy(one), part) for part in parts]) for one in (AdditiveRanker(), PerceptronRanker()))
    assert mixed.predict_one(x) == pytest.approx(twin.predict_one(x))
    again = mix([taught(fork(mixed), part) for part in parts], mixed)
    assert again.n_queries == 40
    with pytest.raises(ValueError, match="some of the AdditiveRankers have learned from sparse rows"):
        mix([mixed.clone(), taught(AdditiveRanker(), documents(3)), mixed])
    parts = [list(documents(10, seed=k)) for k in range(2)]
    tracker = mix([taught(LossTracker(AdditiveRanker()), part) for part in parts])
    assert tracker.totals.n_rounds == tracker.learner.n_queries == 20
    assert tracker.totals.loss == pytest.approx(tracker.learner.account.served)


def test_a_tracker_around_the_default_is_mixed_in_every_round():
    """The second round raised: "StreamQuantileMap of models[0] did not begin as a fork of base"."""
    parts, base = [list(documents(10, seed=k)) for k in range(2)], LossTracker(AdditiveRanker())
    for n_rounds in (1, 2):
        base = mix([taught(fork(base), part) for part in parts], base)
        assert base.totals.n_rounds == base.learner.n_queries == 20 * n_rounds
        n_documents = n_rounds * sum(len(x) for part in parts for x, _ in part)
        assert declared_state(base.learner).front.n_documents == n_documents


def test_rows_of_scipy_stay_linear():
    model, rng = AdditiveRanker(), np.random.default_rng(0)
    for _ in range(3):
        model.learn_one(sparse.random(6, 40, 0.5, "csr", random_state=rng), rng.integers(0, 3, 6))
    assert not model.has_curves
    with pytest.raises(TypeError, match="feature 'brand' of document 0 is 'a'; features are numbers"):
        taught(AdditiveRanker(), words(1)).learn_one([{"brand": "a"}, {"w1": 1.0}], [0, 1])


def test_dicts_of_few_names_of_many_are_words_only_with_counts():
    rng = np.random.default_rng(0)
    x = [{f"attribute {j}": float(rng.normal()) for j in rng.integers(0, 80, 9)} for _ in range(12)]
    assert taught(AdditiveRanker(), [(x, rng.integers(0, 3, 12))]).has_curves
    assert not taught(AdditiveRanker(), words(1)).has_curves


def test_names_that_come_one_after_the_other_are_perhaps_words_and_dense_numbers_are_not(recwarn):
    rng, model = np.random.default_rng(0), AdditiveRanker()
    model.learn_one([{f"number {j}": float(x) for j, x in enumerate(rng.normal(size=1000))} for _ in range(3)], [0, 1, 2])
    AdditiveRanker().learn_one(rng.normal(size=(3, 1000)), [0, 1, 2])
    assert not recwarn
    grows = AdditiveRanker()
    grows.learn_one([{f"attribute {j}": 0.5 for j in range(40)}, {"attribute 1": 1.5}], [0, 1])
    with pytest.warns(UserWarning, match="AdditiveRanker has met 1,000 names of features"):
        grows.learn_one([{f"attribute {j}": 0.5 for j in range(1000)}, {"attribute 1": 1.5}], [0, 1])
