"""Perceptrons whose weights have known signs."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp

from online_rank import (
    AdditiveRanker,
    ClickPerceptron,
    CrossFeatures,
    ForEachDocument,
    HashedFeatures,
    Impression,
    LossTracker,
    MaxAbsStreamScaler,
    PerceptronRanker,
    QueryNormalizer,
    RunFeatures,
    StreamQuantileMap,
    StreamScaler,
    SwapRanker,
)
from online_rank.base.signs import signs_of_columns, signs_of_features
from online_rank.bounds import batch_weights
from online_rank.distributed import fork, mix
from online_rank.storage.files import from_bytes, to_bytes
from tests.helpers import as_block, state_of

SIGNS = {"1": 1, "2": -1, "4": -1}
OPTIONS = [
    {},
    {"half_life": 0},
    {"half_life": 7.0},
    {"served": "average"},
    {"credit": "argmax", "relative_margin": 0.5},
    {"norm_cap": 0.3},
]


def queries(n=60, seed=0):
    """Queries whose teacher goes against one of `SIGNS`, so that weights are often projected."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        X = rng.normal(size=(8, 4))
        yield X, np.clip(np.rint(X @ [1.0, -0.3, 0.5, 0.2] + rng.normal(size=8)), 0, 3).astype(int)


def taught(model, stream):
    for X, y in stream:
        model.learn_one(X, y)
    return model


def test_a_weight_of_the_wrong_sign_becomes_0_and_the_average_is_of_projected_weights():
    free, model = PerceptronRanker("ndcg"), PerceptronRanker("ndcg", half_life=None, signs={"1": -1, "2": 1})
    X, y = np.array([[2.0, 1.0], [0.0, 0.0]]), [1, 0]
    for ranker in (free, model):
        ranker.learn_one(X, y)
    # The update is V (2, 1), V the square root of the loss 1 - 1/log2(3).
    V = np.sqrt(1.0 - 1.0 / np.log2(3))
    assert free.weights == pytest.approx([2.0 * V, V])
    assert model.weights == pytest.approx([0.0, V])
    # The projected weights rank this query right, the next is a mistake: (0, 3) is preferred to (1, 1).
    second = np.array([[-1.0, -1.0], [0.0, 3.0]])
    model.learn_one(second, [1, 0])
    after = np.maximum(0.0, V - 4.0 * model.last_round.mass)
    assert model.weights == pytest.approx([-model.last_round.mass, after])
    assert model.served_weights == pytest.approx([-model.last_round.mass / 2, (V + after) / 2])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_each_update_is_the_free_one_projected(options):
    model = PerceptronRanker(signs=SIGNS, **options)
    signs, projections, mean, n = np.array([1.0, -1.0, 0.0, -1.0]), 0, np.zeros(4), 0
    for X, y in queries():
        free = PerceptronRanker(**options)
        model.learn_one(X, y) if not model.n_features else None
        state = copy.deepcopy({k: v for k, v in vars(model).items() if k != "signs"})
        vars(free).update(state)
        free.learn_one(X, y)
        model.learn_one(X, y)
        projected = np.where(free.weights * signs < 0.0, 0.0, free.weights)
        assert (model.weights == projected).all()
        projections += bool((free.weights != projected).any())
        assert not (model.served_weights * signs < 0.0).any()
    assert projections > 5
    if options == {}:
        again = PerceptronRanker(half_life=None, signs=SIGNS)
        for X, y in queries():
            again.learn_one(X, y)
            if not again.last_round.skipped:
                n += 1
                mean += (again.weights - mean) / n
        assert again.served_weights == pytest.approx(mean, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("options", [o for o in OPTIONS if "norm_cap" not in o], ids=str)
def test_blocks_sparse_rows_and_files_give_the_same(options):
    stream = list(queries())
    one = taught(PerceptronRanker(signs=SIGNS, **options), stream)
    block = PerceptronRanker(signs=SIGNS, **options)
    block.learn_many(*as_block(stream))
    assert state_of(block) == state_of(one)
    sparse = taught(PerceptronRanker(signs=SIGNS, **options), [(sp.csr_matrix(X), y) for X, y in stream])
    assert sparse.weights == pytest.approx(one.weights, rel=1e-9, abs=1e-12)
    assert sparse.served_weights == pytest.approx(one.served_weights, rel=1e-9, abs=1e-12)
    half = taught(PerceptronRanker(signs=SIGNS, **options), stream[:30])
    again = taught(from_bytes(to_bytes(half)), stream[30:])
    assert again.signs == SIGNS
    assert state_of(again) == state_of(one)


def test_a_tracker_learns_and_measures_the_same_in_a_block():
    stream = list(queries())
    comparators = {"teacher": np.array([1.0, -0.3, 0.5, 0.0])}
    one = taught(LossTracker(PerceptronRanker(signs=SIGNS), comparators, measure_served=True), stream)
    block = LossTracker(PerceptronRanker(signs=SIGNS), comparators, measure_served=True)
    block.learn_many(*as_block(stream))
    assert (block.learner.weights == one.learner.weights).all()
    assert block.certificate().to_dict() == one.certificate().to_dict()
    assert one.learner.weights == pytest.approx(taught(PerceptronRanker(signs=SIGNS), stream).weights)


def test_a_refused_query_changes_nothing():
    model = taught(PerceptronRanker(signs=SIGNS), queries(20))
    X, y = as_block(list(queries(3, seed=1)))[:2]
    X[-1, 0] = np.nan
    before = state_of(model)
    with pytest.raises(ValueError, match="nan"):
        model.learn_many(X, y, np.repeat(range(3), 8))
    assert state_of(model) == before


@pytest.mark.parametrize("half_life", [None, 7.0])
def test_sparse_queries_of_one_grade_before_the_first_that_counts(half_life):
    """Nothing was averaged yet: with a half-life the projection divided by zero."""
    model = PerceptronRanker(signs=SIGNS, half_life=half_life)
    X, y = next(queries())
    model.learn_one(sp.csr_matrix(X), [1] * len(y))
    assert (model.weights == 0.0).all()
    model.learn_one(sp.csr_matrix(X), y)
    dense = taught(PerceptronRanker(signs=SIGNS, half_life=half_life), [(X, y)])
    assert model.served_weights == pytest.approx(dense.served_weights, rel=1e-12, abs=1e-12)


@pytest.mark.slow
def test_bounds_hold_on_1000_streams():
    options = [{}, {"credit": "spread"}, {"credit": "argmax"}, {"credit": "sort", "relative_margin": 0.5},
               {"norm_cap": 0.3}, {"served": "average"}, {"half_life": 5.0, "served": "average"}]  # fmt: skip
    checked = 0
    for number in range(1000):
        rng = np.random.default_rng(number)
        teacher = rng.normal(size=3)
        signs = {str(j + 1): int(np.sign(teacher[j])) for j in range(3) if rng.random() < 0.7}
        model = PerceptronRanker("ndcg", signs=signs or {"1": int(np.sign(teacher[0]))}, **options[number % len(options)])
        tracker = LossTracker(model, {"teacher": teacher * rng.choice([0.3, 1.0, 5.0]), "0": np.zeros(3)})
        wrong = -1.0 if number % 2 else 1.0  # Half of the streams grade against the signs.
        for _ in range(12):
            X = rng.normal(size=(int(rng.integers(2, 7)), 3))
            tracker.learn_one(X, np.clip(np.rint(wrong * X @ teacher + 0.5 * rng.normal(size=len(X)) + 1), 0, 4).astype(int))
        for name in ("teacher", "0"):
            certificate = tracker.certificate(name)
            checked += len(certificate.bounds)
            assert all(check.verdict == "holds" for check in certificate.bounds), (number, str(certificate))
            assert certificate.bounds
    assert checked > 4000


def test_a_certificate_covers_comparators_with_the_signs_and_says_why_not_others():
    tracker = LossTracker(PerceptronRanker(signs={"2": -1}), {"with": [1.0, -1.0, 0.0, 0.0], "against": [1.0, 0.5, 0.0, 0.0]})
    taught(tracker, queries())
    certificate = tracker.certificate("with")
    assert certificate.holds
    assert certificate.bound("mass_hindsight_bound") >= certificate.loss
    assert certificate.settings["signs"] == {"2": -1}
    assert "no weights of norm U with these signs" in str(certificate)
    against = tracker.certificate("against")
    assert not against.bounds
    assert (
        "covers comparators with the signs of the ranker, and '2' has weight 0.5, but sign -1 in the ranker"
        in against.not_covered["mass_bound"]
    )
    with pytest.raises(ValueError, match="'2' has weight 2, but sign -1 in the ranker"):
        tracker.move_comparator("with", [1.0, 2.0, 0.0, 0.0])
    tracker.move_comparator("with", [2.0, -2.0, 0.0, 0.0])
    assert tracker.certificate("with").bounds


def test_the_dearer_of_two_documents_never_scores_higher():
    rng = np.random.default_rng(0)
    signs = {"price": -1, "price in query": -1}
    model = StreamScaler() | StreamQuantileMap() | PerceptronRanker(signs=signs)
    for _ in range(100):
        docs = [{"price": float(p), "fit": float(f)} for p, f in zip(rng.lognormal(3, 2, 8), rng.normal(size=8), strict=True)]
        # The stream prefers what is dear.
        model.learn_one(docs, [int(doc["price"] > 30) + int(doc["fit"] > 0) for doc in docs])
        cheap, dear = dict(docs[0]), dict(docs[0], price=docs[0]["price"] * 3.0)
        scores = model.predict_one([cheap, dear, *docs])
        assert scores[0] >= scores[1]
    assert (model["PerceptronRanker"].served_weights[:2] <= 0.0).all()


def test_signs_hold_behind_steps_whose_columns_rise_with_features():
    for step in (StreamScaler(), MaxAbsStreamScaler(), QueryNormalizer(), RunFeatures()):
        assert signs_of_features(step | PerceptronRanker(signs={"price": -1})) == [{"price": -1}]
    both = {"price": -1, "price in query": -1}
    assert signs_of_features(StreamQuantileMap() | LossTracker(PerceptronRanker(signs=both))) == [{"price": -1}]
    for steps in ([StreamQuantileMap()], [StreamScaler(), StreamQuantileMap()]):
        signs = signs_of_columns(steps, {"price": -1, "stars": 1})
        model = PerceptronRanker(signs=signs)
        for step in reversed(steps):
            model = step | model
        assert signs_of_features(model) == [{"price": -1, "stars": 1}]
        # Every column made of the two features has a sign, under the name that the step really gives it.
        model.learn_one([{"price": 1.0, "stars": 2.0}, {"price": 3.0, "stars": 1.0}], [0, 1])
        assert set(model[type(steps[-1]).__name__].transform_one([{"price": 1.0, "stars": 2.0}])[0]) <= set(signs) | {
            name for name in signs if not isinstance(name, str)
        }
    for steps in ([StreamQuantileMap()], [StreamQuantileMap(), StreamQuantileMap()]):
        signs = signs_of_columns(steps, {"3": 1})
        model = PerceptronRanker(signs=signs)
        for step in reversed(steps):
            model = step | model
        assert signs_of_features(model) == [{"3": 1}]
        # The columns that change with the third feature alone are those with a sign.
        X = np.arange(12.0).reshape(4, 3)
        model.learn_one(X, [0, 1, 2, 3])
        changed = X.copy()
        changed[0, 2] = 40.0
        before, after = model.transform_one(X), model.transform_one(changed)
        moved = {str(j + 1) for j in np.flatnonzero((before != after).any(axis=0))}
        assert moved <= set(signs)
        assert moved


def test_signs_are_refused_behind_other_steps():
    for step in (
        HashedFeatures(9),
        CrossFeatures("user"),
        StreamScaler() + QueryNormalizer(),
        copy.copy,
    ):
        with pytest.raises(TypeError, match="may fall as the feature rises"):
            step | PerceptronRanker(signs={"3": -1})
    with pytest.raises(TypeError, match="CrossFeatures"):
        StreamScaler() | CrossFeatures("user") | LossTracker(PerceptronRanker(signs={"price": -1}))
    with pytest.raises(ValueError, match=r"StreamQuantileMap makes several columns of 'price'.*'price in query': -1"):
        StreamQuantileMap() | PerceptronRanker(signs={"price": -1})
    from river import preprocessing

    with pytest.raises(TypeError, match="ForEachDocument"):
        ForEachDocument(preprocessing.OneHotEncoder()) | PerceptronRanker(signs={"price": -1})


@pytest.mark.parametrize("kind", [PerceptronRanker, SwapRanker, AdditiveRanker])
@pytest.mark.parametrize("name", ["price", 0, "0", "5"])
def test_a_sign_of_no_column_of_an_array_is_refused(kind, name):
    """An AdditiveRanker learned without the sign; no message named "1" for column 0."""
    X, y = next(queries())
    model = kind(signs={name: -1, "1": 1})
    wanted = f"signs names {name!r}, but the queries do not name their 4 features: column 0 of an array is '1'"
    with pytest.raises(ValueError, match=wanted):
        model.learn_one(X, model.show_one(X).clicked([0]) if kind is SwapRanker else y)


def test_bad_signs_and_weights_against_them_are_refused():
    for signs, error in (({}, ValueError), ({"a": 2}, ValueError), ({"a": True}, ValueError), (["a"], TypeError)):
        with pytest.raises(error, match="signs"):
            PerceptronRanker(signs=signs)
    with pytest.raises(ValueError, match="'price' has weight 2, but signs"):
        PerceptronRanker.from_weights({"price": 2.0}, signs={"price": -1})
    begun = PerceptronRanker.from_weights({"price": -2.0, "new": 1.0}, signs={"price": -1})
    assert begun.weights.tolist() == [-2.0, 1.0]
    with pytest.warns(UserWarning, match="the first query has no feature 'prise'"):
        PerceptronRanker(signs={"prise": -1}).learn_one([{"price": 1.0}, {"price": 2.0}], [0, 1])


def test_mixed_models_keep_the_signs():
    base = taught(PerceptronRanker(signs=SIGNS), queries(10))
    shards = [taught(fork(base), queries(20, seed)) for seed in (1, 2, 3)]
    mixed = mix(shards, base)
    signs = np.array([1.0, -1.0, 0.0, -1.0])
    assert mixed.weights == pytest.approx(sum(shard.weights for shard in shards) / 3)
    assert not (mixed.weights * signs < 0.0).any()
    assert not (mixed.served_weights * signs < 0.0).any()
    taught(mixed, queries(10, seed=4))
    assert not (mixed.weights * signs < 0.0).any()


@pytest.mark.parametrize("credit", ["argmax", "spread"])
def test_the_best_weights_with_signs_in_hindsight(credit):
    stream = list(queries(40))
    best = batch_weights(stream, lam=0.01, credit=credit, signs=SIGNS)
    free = batch_weights(stream, lam=0.01, credit=credit)
    assert not (best.weights * np.array([1.0, -1.0, 0.0, -1.0]) < 0.0).any()
    assert (free.weights * np.array([1.0, -1.0, 0.0, -1.0]) < 0.0).any()
    assert best.gap <= 1e-3 * best.objective
    assert best.objective >= free.objective - free.gap


@pytest.mark.parametrize("ranker", [SwapRanker, ClickPerceptron])
def test_signs_of_what_clicks_teach(ranker):
    rng = np.random.default_rng(0)
    free, model = ranker(), ranker(signs={"up": 1, "down": 1})
    for _ in range(60):
        x = {d: {"up": rng.normal(), "down": rng.normal()} for d in "abcd"}
        shown = Impression.shuffled(rng.permutation([*x]).tolist(), 4)
        clicks = shown.clicked([d for d in x if x[d]["up"] > x[d]["down"]])
        for each in (free, model):
            each.learn_one(x, clicks)
        weights = dict(zip(model.feature_names, model.served_weights.tolist(), strict=True))
        assert min(weights.values()) >= 0.0
    assert free.served_weights[1] < 0.0 < model.served_weights[0]
    again = from_bytes(to_bytes(model))
    for each in (model, again):
        each.learn_one(x, clicks)
    assert again.signs == {"up": 1, "down": 1}
    assert (again.served_weights == model.served_weights).all()
    sparse = ranker(signs={"1": 1})
    sparse.learn_one(sp.csr_matrix(np.eye(2)), Impression.shuffled([0, 1]).clicked([1]))
    assert sparse.served_weights[0] == 0.0
