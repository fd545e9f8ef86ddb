"""Repeated runs: paired differences with standard errors, and learning curves with bands."""

import math

import numpy as np
import pytest

from online_rank import PerceptronRanker, evaluate, metrics
from online_rank.evaluate import Spread
from online_rank.stream.synth import NoisyTeacher

MODELS = {
    "average": lambda seed: PerceptronRanker(),
    "last": lambda seed: PerceptronRanker(half_life=0),
}


def stream(seed):
    return NoisyTeacher(n_queries=60, n_features=4, n_documents=6, seed=seed)


def by_hand(make, seed):
    """NDCG after each query, tested before it is learned."""
    model, ndcg, values = make(seed), metrics.NDCG(), []
    for X, y in stream(seed):
        ndcg.update(y, model.predict_one(X))
        model.learn_one(X, y)
        values.append(ndcg.get())
    return values


def test_differences_are_paired_and_curves_have_bands():
    runs = evaluate.repeat(MODELS, stream, "ndcg@10", seeds=[3, 5, 8], every=10)
    expected = {name: np.array([by_hand(make, seed) for seed in (3, 5, 8)]) for name, make in MODELS.items()}
    for name, values in expected.items():
        assert runs.values(name).tolist() == values[:, -1].tolist()
        band = runs.curve(name)
        assert band.queries.tolist() == [10, 20, 30, 40, 50, 60]
        points = values[:, 9::10]
        np.testing.assert_allclose(band.mean, points.mean(axis=0))
        # Student's t with two degrees of freedom: 4.302653.
        half = 4.302652729911275 * points.std(axis=0, ddof=1) / math.sqrt(3)
        np.testing.assert_allclose(band.upper - band.mean, half, rtol=1e-9)
        np.testing.assert_allclose(band.mean - band.lower, half, rtol=1e-9)
    away = (expected["average"] - expected["last"])[:, -1]
    assert runs.difference("average", "last") == pytest.approx((away.mean(), away.std(ddof=1) / math.sqrt(3), 3))
    assert repr(runs).splitlines()[0] == "ndcg@10 over 3 seeds"
    assert f"({runs.difference('last', 'average'):+.4f})" in repr(runs)


def test_one_model_and_one_seed():
    runs = evaluate.repeat(lambda seed: PerceptronRanker(), stream, ["ndcg@10", "mrr"], seeds=1)
    assert runs.metrics == ["ndcg@10", "mrr"]
    assert runs.values("model", "mrr").shape == (1,)
    assert math.isnan(runs.spread("model").error)
    assert "±" not in repr(runs)
    same, once = PerceptronRanker(), iter(stream(0))
    with pytest.raises(ValueError, match="gives seed 1 the model of seed 0, which has learned"):
        evaluate.repeat(lambda seed: same, stream, seeds=2)
    with pytest.raises(ValueError, match="the stream of seed 5 has no queries"):
        evaluate.repeat(MODELS, lambda seed: once, seeds=[3, 5])
    with pytest.raises(ValueError, match="the stream of seed 0 has no queries"):
        evaluate.repeat(MODELS["last"], lambda seed: once, seeds=1)
    with pytest.raises(ValueError, match="seeds has 5 twice"):
        evaluate.repeat(MODELS, stream, seeds=[3, 5, 5])
    with pytest.raises(ValueError, match="at least one seed"):
        evaluate.repeat(MODELS, stream, seeds=[])


def test_spread_leaves_out_what_is_not_there():
    spread = Spread.of([1.0, math.nan, 2.0, 6.0])
    assert spread == pytest.approx((3.0, math.sqrt(7.0 / 3.0), 3))  # Variance (4 + 1 + 9) / 2 = 7.
    assert f"{spread:+.2f}" == "+3.00 ± 1.53"
    assert str(Spread.of([0.25])) == "0.2500"
