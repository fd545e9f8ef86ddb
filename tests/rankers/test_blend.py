"""BlendRanker: running scales, candidates, and the weights that follow from their losses."""

import itertools

import numpy as np
import pytest
from river import linear_model

from online_rank import (
    AdditiveRanker,
    BlendRanker,
    GradientRanker,
    PairwiseRanker,
    PerceptronRanker,
    RidgeRanker,
    StreamQuantileMap,
    StreamScaler,
    measure,
)
from online_rank._kernels import blend as kernels
from online_rank.base.schema import declared_state
from online_rank.rankers.hedge import HedgeAccount
from online_rank.storage.files import to_bytes
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
        model = BlendRanker([AdditiveRanker(relative=relative), AdditiveRanker(relative=relative, trees=0)])
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


def test_bad_parameters_and_files():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'rankers'"):
        BlendRanker()
    for bad in ([], None, 3, "light", (r for r in rankers())):
        with pytest.raises(TypeError, match=r"list of rankers and pipelines. AdditiveRanker\(\) needs none"):
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
