"""Pictures of blends and of importance."""

import numpy as np
import pytest

from online_rank import BlendRanker, BoostedRanker, PerceptronRanker, RidgeRanker, StreamScaler, plot


def taught(model, curve=None, n=20):
    rng = np.random.default_rng(0)
    for _ in range(n):
        X = rng.normal(size=(30, 4))
        model.learn_one(X, (X[:, 1] > 0.5).astype(int))
        if curve is not None:
            curve()
    return model


def test_weights_over_time():
    model = StreamScaler() | BlendRanker([PerceptronRanker(), StreamScaler() | RidgeRanker()])
    curve = plot.BlendCurve(model)
    taught(model, curve, n=300)
    columns = curve.columns
    assert columns["queries"][0] == 1
    assert len(columns["queries"]) < 250
    assert columns["weights"].sum(axis=1) == pytest.approx(np.ones(len(columns["queries"])))
    assert curve.names == ["PerceptronRanker", "StreamScaler | RidgeRanker"]
    ax = plot.blend(curve)
    assert len(ax.collections) == 2
    assert ax.get_xscale() == "log"
    with pytest.raises(ValueError, match="nothing to draw"):
        plot.blend(plot.BlendCurve(model))
    with pytest.raises(TypeError, match="RidgeRanker; a BlendCurve"):
        plot.BlendCurve(RidgeRanker())


def test_importance():
    trees = taught(StreamScaler() | BoostedRanker())
    blend = taught(BlendRanker([PerceptronRanker(), StreamScaler() | BoostedRanker()]))
    for model in (trees, blend):
        ax = plot.importance(model, n=2)
        names = [label.get_text() for label in ax.get_yticklabels()]
        assert "column 1" in names
        assert len(names) == 2
    with pytest.raises(ValueError, match="no tree has split"):
        plot.importance(BoostedRanker())
    with pytest.raises(TypeError, match="has no trees"):
        plot.importance(PerceptronRanker())
