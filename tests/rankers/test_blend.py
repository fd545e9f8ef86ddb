"""BlendRanker: standardised scores, candidates, and the weights that follow from their losses."""

import copy
import itertools
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import linear_model

from online_rank import (
    BlendRanker,
    GradientRanker,
    PairwiseRanker,
    PerceptronRanker,
    RidgeRanker,
    StreamQuantileMap,
    StreamScaler,
    StreamTargetEncoder,
    measure,
)
from online_rank._kernels import blend as kernels
from online_rank.rankers.hedge import HedgeAccount
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.stream import WebLike
from online_rank.stream.synth import NoisyTeacher
from tests.helpers import mismatches


def queries(n=60, seed=0):
    return list(NoisyTeacher(n, n_features=5, n_documents=(1, 12), grade_shares=(0.7, 0.2, 0.1), seed=seed))


def rankers():
    return [PerceptronRanker(), StreamScaler() | GradientRanker("listnet", optimizer="sgd"), RidgeRanker()]


def z(scores):
    if max(scores) == min(scores):
        return [0.0] * len(scores)
    return [(s - statistics.fmean(scores)) / statistics.pstdev(scores) for s in scores]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(-1e150, 1e150), min_size=1, max_size=9))
def test_standardised_scores(scores):
    out = np.empty((1, len(scores)))
    kernels.standardise(np.array([scores]), out)
    assert out[0] == pytest.approx(z(scores), abs=1e-6)


@pytest.mark.parametrize("scores", [[1.7e308, -1.7e308], [5e-324, 0.0], [3.0, 3.0], [1e308, 1.0000000000000002e308]])
def test_standardised_scores_are_finite(scores):
    out = np.empty((1, 2))
    kernels.standardise(np.array([scores]), out)
    assert sorted(np.abs(out[0])) in ([0.0, 0.0], pytest.approx([1.0, 1.0]))


def test_candidates_are_all_points_of_the_grid():
    grid = [tuple(c) for c in (BlendRanker(rankers())._candidates * 4).tolist()]
    assert len(grid) == len(set(grid)) == 15
    assert set(grid) == {c for c in itertools.product(range(5), repeat=3) if sum(c) == 4}
    assert BlendRanker([RidgeRanker()])._candidates.tolist() == [[1.0]]


@pytest.mark.parametrize(("steps", "rate", "half_life"), [(4, 1.0, None), (2, 0.3, 5.0)])
def test_weights_follow_the_losses_of_the_blends(steps, rate, half_life):
    model, alone = BlendRanker(rankers(), grid=steps, rate=rate, half_life=half_life), rankers()
    candidates, losses = model._candidates, np.zeros(len(model._candidates))
    keep = 1.0 if half_life is None else 0.5 ** (1 / half_life)
    for t, (X, y) in enumerate(queries()):
        shares = np.exp(-rate * losses) / np.exp(-rate * losses).sum()
        weights = shares @ candidates
        assert model.weights == pytest.approx(weights)
        assert model.predict_one(X) == pytest.approx(weights @ [z(ranker.predict_one(X)) for ranker in alone], abs=1e-9)
        w = (0.5, 1.0)[t % 2]
        # A scaler has seen a query's features when its ranker is judged on it.
        alone[1]["StreamScaler"].learn_one(X)
        own = np.array([z(ranker.predict_one(X)) for ranker in alone])
        alone[0].learn_one(X, y, w)
        alone[1]["GradientRanker"].learn_one(alone[1]["StreamScaler"].transform_one(X), y, w)
        alone[2].learn_one(X, y, w)
        model.learn_one(X, y, w)
        ndcg = measure("ndcg@10")
        told = model.last_round
        if not told.skipped:
            assert told.loss == pytest.approx(ndcg.loss(np.round(weights @ own, 12), y, ties="pessimistic"), abs=1e-9)
            losses = keep * losses + w * np.array([ndcg.loss(np.round(c @ own, 12), y, ties="pessimistic") for c in candidates])
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

    model = BlendRanker([RidgeRanker(), StreamQuantileMap() | StreamTargetEncoder() | RidgeRanker(), Fussy()])
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
    model = BlendRanker("light")
    model.learn_many(X, y, qid)
    scores = model.predict_many(X, qid)
    first = np.flatnonzero(qid == 3)
    assert scores[first].tolist() == model.predict_one(X[first])
    # Scores are relative to the query: those of all documents as one query are others.
    assert not np.allclose(model.predict_many(X), scores)


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
    # One learner's scores, standardised: the sample of two is (-1, 1).
    assert BlendRanker([learned]).predict_one(query) == pytest.approx({"c": -1.0, "d": 1.0})
    model = BlendRanker([learned, RidgeRanker()])
    assert model.feature_names == ("u", "v")
    # The second knows nothing yet, and ranks all alike.
    assert model.predict_one(query) == pytest.approx({"c": -0.5, "d": 0.5})
    with pytest.raises(ValueError, match="one RidgeRanker has learned from 3 features, one before it from 2"):
        BlendRanker([_learned_from(2), _learned_from(3)])


def _with_nan(i, j):
    X = np.ones((3, 136))
    X[i, j] = np.nan
    return X


def _learned_from(n_features):
    ranker = RidgeRanker()
    ranker.learn_one(np.eye(n_features), np.arange(n_features))
    return ranker


@pytest.mark.parametrize("name", [None, "light"])
def test_recommended_blends_bring_their_own_map(name):
    own = BlendRanker(name)
    outside = StreamQuantileMap() | BlendRanker(own.learners)
    X, y, qid = WebLike(25, n_documents=20, seed=3).block()
    own.learn_many(X, y, qid)
    outside.learn_many(X, y, qid)
    assert own.predict_many(X, qid).tolist() == outside.predict_many(X, qid).tolist()
    before = to_bytes(own)
    with pytest.raises(ValueError, match="feature 3 of document 1"):
        own.learn_one(_with_nan(1, 3), [0, 1, 2])
    assert to_bytes(own) == before


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
    for bad in ([], 3, (r for r in rankers())):
        with pytest.raises(TypeError, match="list of rankers and pipelines"):
            BlendRanker(bad)
    with pytest.raises(TypeError, match=r"rankers\[1\] is"):
        BlendRanker([RidgeRanker(), StreamScaler()])
    with pytest.raises(TypeError, match=r"rankers\[0\] is"):
        BlendRanker([StreamScaler() | StreamScaler()])
    with pytest.raises(ValueError, match="rankers is 'heavy'"):
        BlendRanker("heavy")
    for parameters, message in [
        ({"grid": 0}, "grid is 0"),
        ({"grid": 100}, "more than 2000 candidates"),
        ({"rate": -1.0}, "rate is"),
        ({"half_life": 0.0}, "half_life is"),
    ]:
        with pytest.raises(ValueError, match=message):
            BlendRanker(rankers(), **parameters)
    model = BlendRanker(rankers())
    model._losses[3] = np.nan
    assert "_losses has entries that are not finite" in mismatches(model)[0]
    # The step is divided by the largest weight of a query.
    model = BlendRanker(rankers())
    model._account[HedgeAccount._fields.index("largest_weight")] = 0.0
    assert "_account has entries outside [0.0, 0.0, -inf, 0.0, -inf, -inf, 1.0, 0.0, 0.0, 0.0] to inf" in mismatches(model)[0]
    unknown = BlendRanker([PairwiseRanker(linear_model.LogisticRegression())])
    with pytest.raises(TypeError, match="PairwiseRanker"):
        to_bytes(unknown)


@pytest.mark.slow
@pytest.mark.parametrize("name", [None, "light"])
def test_the_recommended_blends_follow_a_truth_that_jumps(name):
    """It becomes another one after 700 queries. Members that count all queries alike would serve 0.66 at the end."""
    stream = {"truth": "additive", "n_features": 30, "n_documents": 20, "world_seed": 3, "turn": 1e3}
    model, ndcg, served = BlendRanker(name), measure("ndcg@10"), []
    for X, y in [*WebLike(700, seed=5, **stream), *WebLike(500, seed=6, first=2000, **stream)]:
        served.append(ndcg.value(model.predict_one(X), y))
        model.learn_one(X, y)
    assert np.mean(served[-300:]) > 0.74
