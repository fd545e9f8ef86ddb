import collections
import copy
import itertools
import json
import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array

from online_rank import (
    ClickPerceptron,
    FairPairs,
    HashedFeatures,
    Impression,
    PerceptronRanker,
    PlackettLuce,
    RunFeatures,
    Runs,
    StreamScaler,
    SwapRanker,
    load,
    save,
)
from online_rank.base.schema import declared_state
from online_rank.metrics import NDCG
from online_rank.stream.clicks import click_stream, user
from online_rank.stream.synth import NoisyTeacher
from tests.reference import clicks as reference
from tests.reference.optimizers import OPTIMIZERS


def teacher(n, seed=0):
    return list(NoisyTeacher(n_queries=n, n_features=5, n_documents=(2, 14), noise=0.2, seed=seed))


def learned(n=40, k=5, policy=PlackettLuce, **queries):
    model = SwapRanker(policy(k=k, seed=2))
    for x, clicks in click_stream(teacher(n, **queries), model, user("informational", max_grade=4)):
        model.learn_one(x, clicks)
    return model


def state(model):
    return {name: value.tobytes() if isinstance(value, np.ndarray) else value for name, value in vars(model).items()}


POLICIES = [
    PlackettLuce(k=4, seed=2),
    PlackettLuce(k=None, seed=2),
    PlackettLuce(k=1, seed=2),
    PlackettLuce(k=2, seed=2),
    FairPairs(k=4, seed=2),
    FairPairs(k=1, seed=2),
]


@pytest.mark.first(2)
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{type(policy).__name__} {policy.k}")
def test_weights_follow_the_optimizer_on_the_credit(policy):
    model, twins = SwapRanker(policy, wealth=0.3), [OPTIMIZERS["scale_free"](0.3) for _ in range(5)]
    moved, mass, sums = 0, collections.Counter(), collections.Counter()
    for draw, (X, y) in enumerate(teacher(60)):
        shown = model.show_one(X)
        drawn, n_shown = shown.order + shown.held_back, len(shown.order)
        clicks = user("informational", max_grade=4).clicks(shown, y, draw)
        gains, logits = (*clicks.gains, *(0.0,) * len(shown.held_back)), policy_logits(shown)

        def weight(a, b, shown=shown, logits=logits, drawn=drawn):
            if shown.pairs_from is not None:
                return 0.5 * (b == a + 1 and (a - shown.pairs_from) % 2 == 0)
            return reference.swap_probability(range(len(drawn)), a, b, logits)

        model.learn_one(X, clicks)
        pairs = [
            (a, b)
            for a, b in itertools.combinations(range(len(drawn)), 2)
            if a < n_shown and weight(a, b) > 0.0 and (b >= n_shown or any(gains))
        ]
        before = copy.deepcopy(twins)
        for twin, column in zip(twins, X[list(drawn)].T, strict=True):
            twin.meet(column.max() - column.min())
        scores = (X @ [twin.value for twin in twins])[list(drawn)]

        def beta(a, b, n_shown=n_shown):
            place = a, min(b, n_shown)
            return sums[place] / (mass[place] + 5.0)

        pushes = reference.surplus_pushes(gains, n_shown, scores, weight, beta)
        if any(pushes[pair] for pair in pairs):
            moved += 1
            z = -sum(pushes[a, b] * (X[drawn[a]] - X[drawn[b]]) for a, b in pairs)
            for twin, g in zip(twins, z, strict=True):
                twin.step(g)
            assert model.last_round.squared_gradient_norm == pytest.approx(z @ z)
        else:
            twins = before
            assert model.last_round.skipped
        for a, b in pairs:
            mass[a, min(b, n_shown)] += weight(a, b)
            sums[a, min(b, n_shown)] += weight(a, b) * (gains[a] - gains[b])
        assert model.weights == pytest.approx(np.array([twin.value for twin in twins]), rel=1e-9, abs=1e-12)
    assert moved > 20
    assert declared_state(model).baseline[0].sum() == pytest.approx(sum(mass.values()))
    assert declared_state(model).baseline[1].sum() == pytest.approx(sum(sums.values()))
    theta, squares = declared_state(model).state[:2]
    e = max(0.0, np.mean(theta**2 / squares) - 1.0)
    assert model.confidence == pytest.approx(e / (e + 2.0))


@pytest.mark.first(1)
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("policy", [PlackettLuce, FairPairs])
def test_one_slot_is_enough_to_learn(policy, k):
    train, held_out = teacher(1500, seed=1), teacher(1700, seed=1)[1500:]
    model, value = SwapRanker(policy(k=k, seed=3)), NDCG(k=10)
    for x, clicks in click_stream(train, model, user("navigational", max_grade=4)):
        assert len(clicks.gains) == min(k, len(x))
        model.learn_one(x, clicks)
    for x, y in held_out:
        value.update(y, model.predict_one(x))
    # Random orders have about .5.
    assert value.get() > 0.85


@pytest.mark.first(1)
@pytest.mark.parametrize("ranker", [SwapRanker, ClickPerceptron])
@pytest.mark.parametrize("policy", [PlackettLuce(k=4, seed=1), PlackettLuce(k=1, seed=1), FairPairs(k=4, seed=1)])
def test_sparse_features_teach_the_same(ranker, policy, tmp_path):
    rng = np.random.default_rng(3)
    dense, sparse = ranker(policy), ranker(policy)
    for t in range(60):
        X = rng.normal(size=(9, 30)) * (rng.random((9, 30)) < 0.2)
        y = (X[:, 0] - X[:, 1] > 0.1).astype(int) * 2
        if t == 20:
            # What was learned from arrays goes into rows.
            sparse = copy.deepcopy(dense)
        shown = dense.show_one(X)
        if t >= 20:
            assert sparse.show_one(csr_array(X)).order == shown.order
            assert sparse._confidence() == pytest.approx(dense._confidence(), rel=1e-9, abs=1e-12)
        feedback = y if t % 10 == 9 else user("navigational").clicks(shown, y, t)
        dense.learn_one(X, feedback, w=0.5)
        if t >= 20:
            sparse.learn_one(csr_array(X), feedback, w=0.5)
            assert declared_state(sparse).rows is not None
            assert sparse.weights == pytest.approx(dense.weights, rel=1e-9, abs=1e-12)
            assert [*sparse.last_round] == pytest.approx([*dense.last_round], rel=1e-9, abs=1e-12, nan_ok=True)
            assert sparse.predict_one(csr_array(X)) == pytest.approx(dense.predict_one(X), rel=1e-9, abs=1e-12)
    save(sparse, tmp_path / "sparse.npz")
    assert state(load(tmp_path / "sparse.npz")) == state(sparse)
    before, X = state(sparse), csr_array(np.eye(9, 30) * 1e200)
    with pytest.raises(ValueError, match=r"non-finite|not finite"):
        sparse.learn_one(X, Impression((0, 1), logits=(0.0, 0.0)).clicked([1]))
    assert state(sparse) == before


@pytest.mark.slow
@pytest.mark.parametrize("ranker", [SwapRanker, ClickPerceptron])
def test_items_by_id_behind_hashing(ranker):
    model = HashedFeatures() | ranker(PlackettLuce(k=3, seed=1))
    items = {f"item {i}": {"item": f"item {i}"} for i in range(30)}
    for _ in range(150):
        shown = model.show_one(items)
        model.learn_one(items, shown.clicked([i for i in shown.order if i == "item 7"]))
    assert model.rank_one(items)[0] == "item 7"


@pytest.mark.parametrize("make", [lambda: SwapRanker, lambda: ClickPerceptron], ids=["swap", "perceptron"])
def test_begins_with_what_ranks_today(make, tmp_path):
    train, held_out = teacher(600, seed=1), teacher(700, seed=1)[600:]
    truth = NoisyTeacher(n_queries=1, n_features=5, seed=1).teacher

    def quality(model):
        metric = NDCG(k=10)
        for x, y in held_out:
            metric.update(y, model.predict_one(x))
        return metric.get()

    begun = make().from_weights(truth, policy=PlackettLuce(k=10, seed=3))
    x = train[0][0]
    assert begun.weights.tolist() == begun.served_weights.tolist() == truth.tolist()
    assert begun.predict_one(x) == pytest.approx((x @ truth).tolist())
    assert (begun.confidence, make()().confidence) == (1.0, 0.0)
    assert (make().from_weights(truth).keep, make()().keep) == (0.98, None)
    before = quality(begun)
    for x, clicks in click_stream(train, begun, user("navigational", max_grade=4)):
        begun.learn_one(x, clicks)
    assert begun.weights.tolist() != truth.tolist()
    assert begun.confidence == 1.0
    assert quality(begun) > before - 0.01
    save(begun, tmp_path / "begun.npz")
    assert state(load(tmp_path / "begun.npz")) == state(begun)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_beginning_has_the_scale_of_its_scores(scale):
    X = np.array([[1.0, 0.0], [3.0, 0.0], [2.0, 5.0]])
    model = SwapRanker.from_weights([scale, 0.0], strength=0.5)
    flat = Impression((0, 1), logits=(0.0, 0.0), rest=0.0)
    # Equal scores say nothing of the scale; the next query does: 1 and 3 deviate by 1.
    model.learn_one(np.ones((2, 2)), Impression((0, 1), logits=(0.0, 0.0)).clicked([0]))
    assert model.weights.tolist() == [scale, 0.0]
    with pytest.raises(ValueError, match="w is -1"):
        model.learn_one(X, flat.clicked([0]), w=-1.0)
    assert model.weights.tolist() == [scale, 0.0]
    model.learn_one(X, flat.clicked([]))
    assert model.weights == pytest.approx([0.5, 0.0])
    # Whether the click is on the first or the second moves it from there.
    model.learn_one(X, flat.clicked([0]))
    assert model.weights[0] < 0.5
    many = SwapRanker.from_weights([scale, 0.0], strength=0.5)
    clicks = [Impression((0, 1), logits=(0.0, 0.0)).clicked([0]), flat.clicked([]), flat.clicked([0])]
    many.learn_many(np.concatenate([np.ones((2, 2)), X, X]), clicks, [0, 0, 1, 1, 1, 2, 2, 2])
    assert state(many) == state(model)


def test_a_beginning_in_rows_and_with_new_features():
    dense = SwapRanker.from_weights({"a": 1.0, "b": -1.0})
    sparse = copy.deepcopy(dense)
    sparse._make_sparse()
    rng = np.random.default_rng(0)
    for _ in range(40):
        names = ["a", "b", "c", "d"]
        query = {i: {name: float(rng.normal()) for name in names if rng.random() < 0.7} for i in range(6)}
        shown = dense.show_one(query)
        assert sparse.show_one(query).order == shown.order
        clicks = shown.clicked([i for i in shown.order if query[i].get("c", 0.0) > 0.0])
        dense.learn_one(query, clicks)
        sparse.learn_one(query, clicks)
        assert sparse.feature_names == dense.feature_names
        assert sparse.weights == pytest.approx(dense.weights, rel=1e-9, abs=1e-12)
    assert dense.weights[dense.feature_names.index("c")] > 0.0


def test_begins_with_a_fusion_rule():
    rule = RunFeatures() | SwapRanker.from_rule("rrf", ["bm25", "vector"], policy=PlackettLuce(k=3, seed=1))
    query = Runs({"bm25": [("a", 9.0), ("b", 5.0), ("c", 1.0)], "vector": [("c", 0.5), ("b", 0.4)]})
    # 1 / 61, 1 / 62 + 1 / 62, 1 / 63 + 1 / 61.
    assert rule.predict_one(query) == pytest.approx({"a": 1 / 61, "b": 2 / 62, "c": 1 / 63 + 1 / 61})
    assert rule["SwapRanker"].confidence == 1.0
    shown = rule.show_one(query)
    rule.learn_one(query, shown.clicked(["a"] if "a" in shown.order else []))


def policy_logits(shown):
    """Logits by the position that documents were shown at; those that were not shown are one document more."""
    if shown.logits is None:
        return None
    return [*shown.logits, *([] if shown.rest is None else [shown.rest])]


@pytest.mark.slow
def test_learns_from_clicks_almost_as_from_grades():
    train, held_out = teacher(1500, seed=1), teacher(1700, seed=1)[1500:]
    value = {}
    for name in ("perfect", "navigational", "trust", "grades"):
        model = StreamScaler() | SwapRanker(PlackettLuce(k=10, seed=3))
        if name == "grades":
            for x, y in train:
                model.learn_one(x, y)
        else:
            for x, clicks in click_stream(train, model, user(name, max_grade=4)):
                model.learn_one(x, clicks)
        metric = NDCG(k=10)
        for x, y in held_out:
            metric.update(y, model.predict_one(x))
        value[name] = metric.get()
    assert value["grades"] > 0.9
    assert value["perfect"] > value["grades"] - 0.02
    assert value["navigational"] > value["grades"] - 0.04
    # They click on what is not relevant at the top as often as on what is further down and is.
    assert value["trust"] > value["grades"] - 0.15


def test_the_scale_of_features_changes_nothing():
    # Powers of two, so that not even rounding differs.
    scale, shift = 2.0 ** np.array([0, -40, 30, 3, -3]), np.array([0.0, 0.0, 0.0, 4.0, 0.0])
    models = [SwapRanker(PlackettLuce(k=5, seed=1)) for _ in range(2)]
    for draw, (X, y) in enumerate(teacher(80)):
        X = np.round(X, 2)
        one, other = models[0].show_one(X), models[1].show_one((X + shift) * scale)
        assert one.order == other.order
        clicks = user("perfect", max_grade=4).clicks(one, y, draw).gains
        models[0].learn_one(X, type(user("perfect", max_grade=4).clicks(one, y, draw))(one, clicks))
        models[1].learn_one((X + shift) * scale, user("perfect", max_grade=4).clicks(other, y, draw))
        assert models[0].rank_one(X) == models[1].rank_one((X + shift) * scale)


def test_a_block_is_a_loop():
    queries, one, many = teacher(50), SwapRanker(), SwapRanker()
    shown = [PlackettLuce(k=6, seed=9).show(np.zeros(len(X)), t, 0.0) for t, (X, _) in enumerate(queries)]
    clicks = [
        user("informational", max_grade=4).clicks(s, y, t) for t, (s, (_, y)) in enumerate(zip(shown, queries, strict=True))
    ]
    for (X, _), each in zip(queries, clicks, strict=True):
        one.learn_one(X, each, w=0.5)
    X = np.concatenate([X for X, _ in queries])
    qid = np.repeat(np.arange(50), [len(X) for X, _ in queries])
    many.learn_many(X, clicks, qid, w=np.full(50, 0.5))
    assert state(many) == state(one)
    pipelines = StreamScaler() | SwapRanker(), StreamScaler() | SwapRanker()
    for (x, _), each in zip(queries, clicks, strict=True):
        pipelines[0].learn_one(x, each)
    pipelines[1].learn_many(X, clicks, qid)
    assert state(pipelines[0]["SwapRanker"]) == state(pipelines[1]["SwapRanker"])


def test_ids_names_and_late_clicks():
    model = StreamScaler() | SwapRanker(PlackettLuce(k=2, seed=5))
    queries = {
        "first": {"a": {"x": 1.0, "z": 3.0}, "b": {"x": 0.0}, "c": {"y": 2.0}},
        "second": {"d": {"y": 1.0}, "a": {"x": 2.0}},
    }
    shown = {name: model.show_one(query) for name, query in queries.items()}
    shown = {name: Impression.from_dict(json.loads(json.dumps(s.to_dict()))) for name, s in shown.items()}
    model.learn_one(queries["second"], shown["second"].clicked(["a"]))
    model.learn_one(queries["first"], shown["first"].clicked({shown["first"].order[0]: 0.5}))
    assert model.rank_one(queries["second"]) == ["a", "d"]
    with pytest.raises(ValueError, match="was shown, but it is not in x"):
        model.learn_one({"e": {"x": 1.0}}, shown["first"].clicked([]))


def test_copies_and_files_continue_with_the_same_draws(tmp_path):
    model = learned()
    save(model, tmp_path / "model.npz")
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), load(tmp_path / "model.npz")]
    queries = teacher(60, seed=0)[40:]
    for t, (X, y) in enumerate(queries):
        shown = model.show_one(X)
        clicks = user("navigational", max_grade=4).clicks(shown, y, t)
        model.learn_one(X, clicks)
        for other in copies:
            assert other.show_one(X) == shown
            other.learn_one(X, clicks)
    assert all(state(other) == state(model) for other in copies)
    assert state(model.clone()) == state(SwapRanker(PlackettLuce(k=5, seed=2)))


def test_nothing_to_learn_from():
    model = learned(10)
    before = model.weights
    X = teacher(1)[0][0]
    shown = model.show_one(X)
    model.learn_one(X, shown.clicked([]))
    assert model.last_round.skipped
    assert model.last_round.loss == 0.0
    model.learn_one(X, shown.clicked(shown.order[:1]), w=0.0)
    model.learn_one(X[:0], Impression((), logits=()).clicked([]))
    assert model.weights.tobytes() == before.tobytes()
    # All clicked: nothing is preferred, but more was clicked below than is usual there.
    model.learn_one(X, shown.clicked(shown.order))
    assert model.last_round.skipped
    assert model.weights.tobytes() != before.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "X", [np.float32, np.asfortranarray, lambda X: X[::-1][::-1], lambda X: np.frombuffer(X.tobytes()).reshape(X.shape)]
)
def test_arrays_of_every_kind(X):
    one, other = SwapRanker(), SwapRanker()
    for t, (x, y) in enumerate(teacher(10)):
        x = np.round(x, 3).astype(np.float32).astype(np.float64)
        clicks = user("perfect", max_grade=4).clicks(one.show_one(x), y, t)
        one.learn_one(x, clicks)
        other.learn_one(X(x), clicks)
    assert other.weights == pytest.approx(one.weights, rel=1e-12)


def bad(model):
    X = teacher(1)[0][0]
    shown = model.show_one(X)
    first = shown.order[0]
    broken, huge = X.copy(), X.copy()
    broken[first, 2], huge[first, 2] = np.nan, 1e300
    return {
        "nan": (broken, shown.clicked([first]), {}, ValueError, "feature 2 of document"),
        "overflow": (huge, shown.clicked([first]), {}, ValueError, "non-finite|not finite"),
        "weight": (X, shown.clicked([first]), {"w": -1.0}, ValueError, "w is -1.0"),
        "fewer": (X[:1], shown.clicked([first]), {}, ValueError, "was shown, but x has the documents 0 to 0"),
        "no logits": (X, Impression(shown.order).clicked([first]), {}, ValueError, "the impression has no logits"),
        "two": (X, [shown.clicked([]), shown.clicked([])], {}, ValueError, "the Clicks of 2 queries, but x has 1"),
        "text": (X, "ab", {}, TypeError, "y is of type str"),
    }


@pytest.mark.parametrize("case", ["nan", "overflow", "weight", "fewer", "no logits", "two", "text"])
def test_bad_input_changes_nothing(case):
    model = learned(10)
    x, y, options, error, message = bad(model)[case]
    before = state(model)
    with pytest.raises(error, match=message):
        model.learn_one(x, y, **options)
    assert state(model) == before


def test_rankers_of_grades_refuse_clicks():
    model = StreamScaler() | PerceptronRanker()
    X = np.eye(3)
    clicks = model.show_one(X, PlackettLuce(k=2)).clicked([])
    with pytest.raises(TypeError, match="PerceptronRanker learns from grades, not from Clicks: SwapRanker"):
        model.learn_one(X, clicks)


@pytest.mark.parametrize(
    ("options", "error"), [({"policy": 3}, TypeError), ({"wealth": 0.0}, ValueError), ({"wealth": np.inf}, ValueError)]
)
def test_bad_settings(options, error):
    with pytest.raises(error, match=next(iter(options))):
        SwapRanker(**options)


@pytest.mark.parametrize("ranker", [SwapRanker, ClickPerceptron])
def test_a_list_is_learned_without_copying_the_state(ranker):
    model, (X, y) = ranker(), teacher(1)[0]
    for t in range(3):
        before = declared_state(model).weights
        model.learn_one(X, user("navigational").clicks(model.show_one(X), np.minimum(y, 2), t))
    assert declared_state(model).weights is before
