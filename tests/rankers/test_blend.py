"""BlendRanker: running scales, candidates, and the weights that follow from their losses; and the default blend."""

import copy
import itertools
import math

import numpy as np
import pytest
from river import linear_model
from scipy.sparse import csr_array

from online_rank import (
    AdditiveRanker,
    BlendRanker,
    BoostedRanker,
    GradientRanker,
    PairwiseRanker,
    PerceptronRanker,
    RidgeRanker,
    StreamQuantileMap,
    StreamScaler,
    measure,
)
from online_rank._kernels import blend as kernels
from online_rank.base.closed import form_of
from online_rank.base.schema import declared_state
from online_rank.query import read_query
from online_rank.rankers.hedge import HedgeAccount
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.stream import WebLike
from online_rank.stream.synth import NoisyTeacher
from tests.helpers import mismatches


def queries(n=60, seed=0):
    return list(NoisyTeacher(n, n_features=5, n_documents=(1, 12), grade_shares=(0.7, 0.2, 0.1), seed=seed))


def rankers():
    return [PerceptronRanker(), StreamScaler() | GradientRanker("listnet", optimizer="sgd"), RidgeRanker()]


def learn_scale(scale, scores):
    """(mean deviation, weight) after one more query."""
    deviation = float(np.std(scores)) if max(scores) > min(scores) else 0.0
    if not deviation:
        return scale
    weight = 0.99 * scale[1] + 1.0
    return scale[0] + (deviation - scale[0]) / weight, weight


def test_running_scales_by_hand():
    rng, scales, own = np.random.default_rng(0), np.zeros((2, 2)), [(0.0, 0.0)] * 2
    for t in range(30):
        S = np.stack([rng.normal(size=5), np.full(5, 3.0) if t < 9 else 1e3 * rng.normal(size=5)])
        kernels.learn_scales(S, scales)
        own = [learn_scale(scale, scores) for scale, scores in zip(own, S, strict=True)]
        assert scales == pytest.approx(np.array(own), rel=1e-12)
    out = np.empty(5)
    kernels.blend(S, scales, np.array([0.25, 0.75]), out)
    assert out == pytest.approx(0.25 * S[0] / own[0][0] + 0.75 * S[1] / own[1][0])


@pytest.mark.parametrize("scores", [[1.7e308, -1.7e308], [5e-324, 0.0], [3.0, 3.0], [1e308, 1.0000000000000002e308]])
def test_scales_and_blends_of_extreme_scores_are_finite(scores):
    scales, out, small = np.zeros((1, 2)), np.empty(2), np.array([[1e-300, 0.0]])
    kernels.learn_scales(np.array([scores]), scales)
    kernels.blend(np.array([scores]), scales, np.ones(1), out)
    assert np.isfinite(scales).all()
    assert np.isfinite(out).all()
    kernels.learn_scales(small, scales := np.zeros((1, 2)))
    kernels.blend(np.array([scores]), scales, np.ones(1), out)
    assert np.isfinite(out).all()


def test_candidates_are_all_points_of_the_grid():
    grid = [tuple(c) for c in (BlendRanker(rankers())._candidates * 4).tolist()]
    assert len(grid) == len(set(grid)) == 15
    assert set(grid) == {c for c in itertools.product(range(5), repeat=3) if sum(c) == 4}
    assert BlendRanker([RidgeRanker()])._candidates.tolist() == [[1.0]]


@pytest.mark.parametrize(("steps", "rate", "half_life"), [(4, 1.0, None), (2, 0.3, 5.0)])
def test_weights_follow_the_losses_of_the_blends(steps, rate, half_life):
    model, alone = BlendRanker(rankers(), grid=steps, rate=rate, half_life=half_life), rankers()
    candidates, losses, scales = model._candidates, np.zeros(len(model._candidates)), [(0.0, 0.0)] * 3
    keep = 1.0 if half_life is None else 0.5 ** (1 / half_life)
    for t, (X, y) in enumerate(queries()):
        shares = np.exp(-rate * losses) / np.exp(-rate * losses).sum()
        weights, sigma = shares @ candidates, np.array([scale or 1.0 for scale, _ in scales])
        assert model.weights == pytest.approx(weights)
        assert model.scales == pytest.approx(sigma)
        assert model.predict_one(X) == pytest.approx((weights / sigma) @ [ranker.predict_one(X) for ranker in alone], abs=1e-9)
        w = (0.5, 1.0)[t % 2]
        # A scaler has seen a query's features when its ranker is judged on it.
        alone[1]["StreamScaler"].learn_one(X)
        scores = np.array([ranker.predict_one(X) for ranker in alone])
        own = scores / sigma[:, None]
        alone[0].learn_one(X, y, w)
        alone[1]["GradientRanker"].learn_one(alone[1]["StreamScaler"].transform_one(X), y, w)
        alone[2].learn_one(X, y, w)
        model.learn_one(X, y, w)
        ndcg = measure("ndcg@10")
        told = model.last_round
        if not told.skipped:
            assert told.loss == pytest.approx(ndcg.loss(np.round(weights @ own, 12), y, ties="pessimistic"), abs=1e-9)
            losses = keep * losses + w * np.array([ndcg.loss(np.round(c @ own, 12), y, ties="pessimistic") for c in candidates])
            scales = [learn_scale(scale, one) for scale, one in zip(scales, scores, strict=True)]
    for learner, ranker in zip(model.learners, alone, strict=True):
        assert to_bytes(learner) == to_bytes(ranker)


def test_a_ranker_that_does_not_help_gets_no_weight():
    stream = queries(400)
    noise = np.random.default_rng(0)

    class Guess(PerceptronRanker):
        def _score(self, X):
            return noise.normal(size=len(X))

    model = BlendRanker([Guess(), PerceptronRanker()])
    for X, y in stream:
        model.learn_one(X, y)
    assert model.weights[0] < 0.1
    assert model.weights.sum() == pytest.approx(1.0)


def test_a_query_that_a_later_ranker_rejects_leaves_the_others_as_they_were():
    class Fussy(PerceptronRanker):
        def _learn(self, block, rounds):
            if len(block.y) == 3:
                raise ValueError("three documents")
            return super()._learn(block, rounds)

    model = BlendRanker([RidgeRanker(), StreamQuantileMap() | RidgeRanker(), Fussy()])
    for X, y in queries(30):
        if len(y) != 3:
            model.learn_one(X, y)
    before = [to_bytes(learner) for learner in model.learners[:2]]
    weights = model.weights
    X = np.random.default_rng(0).normal(size=(3, 5))
    with pytest.raises(ValueError, match="three documents"):
        model.learn_one(X, [0, 1, 2])
    assert [to_bytes(learner) for learner in model.learners[:2]] == before
    assert model.weights.tolist() == weights.tolist()


def test_blocks_of_queries():
    X, y, qid = NoisyTeacher(30, n_features=5, n_documents=(2, 12), seed=1).block()
    for relative in (True, False):
        model = BlendRanker(relative=relative)
        model.learn_many(X, y, qid)
        scores = model.predict_many(X, qid)
        first = np.flatnonzero(qid == 3)
        assert scores[first].tolist() == model.predict_one(X[first])
        # Without relative columns the score of a document does not depend on its query.
        assert np.allclose(model.predict_many(X), scores) != relative


def test_features_that_appear_late_reach_every_learner():
    model = BlendRanker([RidgeRanker(), StreamQuantileMap() | RidgeRanker()])
    model.learn_one({"a": {"u": 1.0}, "b": {"u": 2.0}}, {"a": 0, "b": 1})
    model.learn_one({"a": {"u": 1.0, "v": 3.0}, "b": {"v": 2.0}}, {"a": 0, "b": 1})
    assert model.learners[0].feature_names == ("u", "v")
    assert model.learners[1]["RidgeRanker"].feature_names == ("u", "u in query", "v", "v in query")
    assert list(model.predict_one({"c": {"v": 1.0}, "d": {"new": 2.0}})) == ["c", "d"]


def test_learners_that_have_learned_before_are_served_at_once():
    learned = StreamScaler() | RidgeRanker()
    for _ in range(3):
        learned.learn_one({"a": {"u": 1.0, "v": 0.0}, "b": {"u": 2.0, "v": 3.0}}, {"a": 0, "b": 1})
    query = {"c": {"v": -1.0, "u": 0.0}, "d": {"v": 4.0, "u": 3.0}}
    # Scales are 1 before the first query.
    assert BlendRanker([learned]).predict_one(query) == pytest.approx(learned.predict_one(query))
    model = BlendRanker([learned, RidgeRanker()])
    assert model.feature_names == ("u", "v")
    # The second knows nothing yet, and ranks all alike.
    assert model.predict_one(query) == pytest.approx({name: s / 2.0 for name, s in learned.predict_one(query).items()})
    with pytest.raises(ValueError, match="one RidgeRanker has learned from 3 features, one before it from 2"):
        BlendRanker([_learned_from(2), _learned_from(3)])


def _learned_from(n_features):
    ranker = RidgeRanker()
    ranker.learn_one(np.eye(n_features), np.arange(n_features))
    return ranker


def documents(n, seed=0):
    """Queries of a shop: prices that are missing now and then, brands, and a feature that comes late."""
    rng = np.random.default_rng(seed)
    for t in range(n):
        x = [
            {"price": None if rng.random() < 0.3 else rng.lognormal(), "brand": f"b{rng.integers(5)}", "fit": rng.normal()}
            for _ in range(12)
        ]
        y = [int(d["fit"] > 0.3) + int(d["brand"] == "b1") + int(d["price"] is None) for d in x]
        yield ([{**d, "late": float(d["fit"] > 0.0)} for d in x] if t > n // 2 else x), y


@pytest.mark.first(1)
@pytest.mark.parametrize("relative", [True, False])
def test_the_default_blend_is_curves_and_trees_behind_their_map(relative):
    model, curves = BlendRanker(relative=relative), AdditiveRanker(relative=relative, trees=0)
    trees = BoostedRanker(decay=0.012, learning_rate=0.2, longest_gap=20)
    for x, y in documents(60):
        curves._reader.align(curves, read_query(x, y, documents=True), grow=True)
        names, front = curves.feature_names, declared_state(curves).front
        rows = np.array(
            [[1.0 if d.get(n[0]) == n[-1] else 0.0 if type(n) is tuple else d.get(n) for n in names] for d in x], float
        )
        mapped = np.where(np.isnan(rows), -5.2, 0.0)
        for j in range(front.n_features):
            values, scores = front.knots(j)
            g = np.interp(rows[:, j], values, scores) if len(values) else np.zeros(len(x))
            mapped[:, j] = np.where(np.isnan(rows[:, j]), -5.2, np.maximum(g, -2.6))
        if trees.n_features < len(names):
            before = trees.n_features
            trees._reader.extend(trees, None, len(names) - before)
            for bins in declared_state(trees).bins:  # Earlier documents lacked the new numbers; new levels they did not have.
                bins[:, [j for j in range(before, len(names)) if type(names[j]) is not tuple]] = 0
        if model.n_queries:
            factors = model.weights / model.scales
            expected = factors[0] * np.array(curves.predict_one(x)) + factors[1] * np.array(trees.predict_one(mapped))
            assert model.predict_one(x) == pytest.approx(expected, abs=1e-6)
        curves.learn_one(x, y)
        trees.learn_one(mapped, y)
        model.learn_one(x, y)
    assert to_bytes(model.learners[0]) == to_bytes(curves)
    assert model.learners[1].n_trees == trees.n_trees > 100
    assert math.isclose(model.weights.sum(), 1.0)
    assert {*model.importance} == {"price", "brand", "fit", "late"}
    assert math.isclose(sum(model.importance.values()), trees.importance.sum())
    assert {"fit"} <= {*model.explain_one(x, 0, 1).contributions} <= {"price", "brand", "fit", "late"}


def test_sparse_rows_are_left_to_the_first_of_the_default_blend():
    rng, model, alone = np.random.default_rng(0), BlendRanker(), AdditiveRanker(trees=0)
    for _ in range(20):
        X, y = csr_array(np.maximum(rng.normal(size=(10, 200)) - 1.0, 0.0)), rng.integers(0, 3, 10)
        model.learn_one(X, y)
        alone.learn_one(X, y)
    assert model.rank_one(X) == alone.rank_one(X)
    scores = model.predict_one(X)
    assert model.explain_one(X, 0, 1).difference == pytest.approx(scores[0] - scores[1])
    assert form_of(model).head.weights == pytest.approx(
        declared_state(alone).linear.served_weights * (model.weights / model.scales)[0]
    )


def test_a_refused_query_leaves_the_default_blend_as_it_was():
    model = BlendRanker()
    for x, y in documents(20):
        model.learn_one(x, y)
    before = to_bytes(model)
    for bad, message in ((math.inf, "feature 'fit' of document 1 is inf"), ("high", "'fit'")):
        x, y = next(documents(1, seed=1))
        with pytest.raises(ValueError, match=message):
            model.learn_one([x[0], {**x[1], "fit": bad, "new": 1.0}, *x[2:]], y)
        assert to_bytes(model) == before
    with pytest.raises(ValueError, match="relative=False is for the default blend"):
        BlendRanker([RidgeRanker()], relative=False)


@pytest.mark.slow
def test_a_default_blend_killed_and_resumed_ends_in_the_same_bits():
    stream = list(NoisyTeacher(120, n_features=6, n_documents=(5, 20), seed=2))
    model = BlendRanker()
    for t, (X, y) in enumerate(stream):
        if t == 70:
            resumed, copied = from_bytes(to_bytes(model)), copy.deepcopy(model)
            assert resumed.predict_one(X) == model.predict_one(X)
        model.learn_one(X, y)
    for twin in (resumed, copied):
        for X, y in stream[70:]:
            twin.learn_one(X, y)
        assert to_bytes(twin) == to_bytes(model)


def test_bad_parameters_and_files():
    for bad in ([], 3, "light", (r for r in rankers())):
        with pytest.raises(TypeError, match="list of rankers and pipelines"):
            BlendRanker(bad)
    with pytest.raises(TypeError, match=r"rankers\[1\] is"):
        BlendRanker([RidgeRanker(), StreamScaler()])
    with pytest.raises(TypeError, match=r"rankers\[0\] is"):
        BlendRanker([StreamScaler() | StreamScaler()])
    for parameters, message in [
        ({"grid": 0}, "grid is 0"),
        ({"grid": 100}, "more than 2000 candidates"),
        ({"rate": -1.0}, "rate is"),
        ({"half_life": 0.0}, "half_life is"),
    ]:
        with pytest.raises(ValueError, match=message):
            BlendRanker(rankers(), **parameters)
    model = BlendRanker(rankers())
    declared_state(model).losses[3] = np.nan
    assert "_losses has entries that are not finite" in mismatches(model)[0]
    # The step is divided by the largest weight of a query.
    model = BlendRanker(rankers())
    declared_state(model).account[HedgeAccount._fields.index("largest_weight")] = 0.0
    assert "_account has entries outside [0.0, 0.0, -inf, 0.0, -inf, -inf, 1.0, 0.0, 0.0, 0.0] to inf" in mismatches(model)[0]
    unknown = BlendRanker([PairwiseRanker(linear_model.LogisticRegression())])
    with pytest.raises(TypeError, match="PairwiseRanker"):
        to_bytes(unknown)


@pytest.mark.slow
def test_the_default_blend_follows_a_truth_that_jumps():
    """It becomes another one after 700 queries. Members that count all queries alike would serve 0.66 at the end."""
    stream = {"truth": "additive", "n_features": 30, "n_documents": 20, "world_seed": 3, "turn": 1e3}
    model, ndcg, served = BlendRanker(), measure("ndcg@10"), []
    for X, y in [*WebLike(700, seed=5, **stream), *WebLike(500, seed=6, first=2000, **stream)]:
        served.append(ndcg.value(model.predict_one(X), y))
        model.learn_one(X, y)
    assert np.mean(served[-300:]) > 0.74
