import numpy as np
import pytest

pytest.importorskip("matplotlib").use("Agg")

from online_rank import AdditiveRanker, PerceptronRanker, plot  # noqa: E402
from online_rank.rankers.curved import MEMBERS  # noqa: E402
from tests.rankers.test_additive import documents, queries  # noqa: E402


@pytest.fixture(scope="module")
def model():
    model = AdditiveRanker()
    for x, y in documents(60):
        model.learn_one(x, y)
    return model


def test_curves_and_bars_are_those_of_the_model(model):
    axes = plot.curves(model, features=["price", "brand"])
    assert [ax.get_title(loc="left") for ax in axes] == ["price", "brand"]
    values, own, ranked = model.curve("price")
    np.testing.assert_array_equal(axes[0].lines[0].get_xydata(), np.column_stack([values, own + ranked]))
    bars = {label.get_text(): bar.get_width() for label, bar in zip(axes[1].get_yticklabels(), axes[1].patches, strict=True)}
    _, own, ranked = model.curve(("brand", "is", "a"))
    assert bars["a"] == pytest.approx((own + ranked)[-1] - (own + ranked)[0])
    assert bars["a"] > bars["f"]


def test_what_varies_most_comes_first(model):
    assert {ax.get_title(loc="left") for ax in plot.curves(model, n=2)} == {"brand", "tags"}


def test_a_curve_is_the_difference_of_scores_where_ranks_are_left_out():
    model = AdditiveRanker(relative=False)
    for X, y in queries(60):
        model.learn_one(X, y)
    values, own, ranked = model.curve("2")
    assert (ranked == 0.0).all()
    X = np.zeros((len(values), 4))
    X[:, 1] = values
    scores = np.array(model.predict_one(X))
    np.testing.assert_allclose(scores - scores[0], own - own[0], atol=1e-6)
    shares = [model.weights[k] * model.curve("2", name)[1] for k, name in enumerate(MEMBERS)]
    np.testing.assert_allclose(sum(shares), own, rtol=1e-4, atol=1e-6)


def test_models_without_curves_are_named():
    with pytest.raises(TypeError, match="PerceptronRanker has no curves"):
        plot.curves(PerceptronRanker())
    with pytest.raises(ValueError, match="learned from no query"):
        plot.curves(AdditiveRanker())
    with pytest.raises(ValueError, match="no feature 'x'"):
        plot.curves(AdditiveRanker(), features=["x"])
    with pytest.raises(KeyError, match="no curve of 'x'"):
        AdditiveRanker().curve("x")
