import io
from xml.dom.minidom import parse

import numpy as np
import pytest

from online_rank import AdditiveRanker, PerceptronRanker, plot
from online_rank.rankers.shapes import shapes_of
from tests.rankers.test_additive import documents, queries


@pytest.fixture(scope="module")
def model():
    model = AdditiveRanker()
    for x, y in documents(60):
        model.learn_one(x, y)
    return model


def test_curves_and_bars_equal_the_model(model):
    axes = plot.curves(model, features=["price", "brand"])
    assert [ax.get_title(loc="left") for ax in axes] == ["price", "brand"]
    values, own, ranked = model.curve("price")
    drawn, line = axes[0].lines[0].get_xydata().T
    # Relative to the mean over the stream, at some of the values.
    away = np.interp(drawn, values, own + ranked) - line
    np.testing.assert_allclose(away, away[0], atol=1e-9)
    assert {drawn[0], drawn[-1]} == {values[0], values[-1]}
    labels = (label.get_text().partition(" ")[0] for label in axes[1].get_yticklabels())
    bars = {label: bar.get_width() for label, bar in zip(labels, axes[1].patches, strict=True)}
    _, own, ranked = model.curve(("brand", "is", "a"))
    assert bars["a"] == pytest.approx((own + ranked)[-1] - (own + ranked)[0])
    assert bars["a"] > bars["f"]


def test_shapes_say_where_values_are_and_what_is_missing():
    rng, model = np.random.default_rng(0), AdditiveRanker()
    for _ in range(60):
        x, absent = rng.integers(0, 2, 10).astype(float), rng.random(10) < 0.3
        docs = [
            {"flag": a, "wide": 10.0 ** (4.0 * rng.random()), "even": rng.random(), "kind": "ab"[int(a)]} for a in x.tolist()
        ]
        for document, gone in zip(docs, absent.tolist(), strict=True):
            document |= {"flag": None} if gone else {}
        model.learn_one(docs, x.astype(int) + absent)
    flag, wide, even, kind = shapes_of(model, ["flag", "wide", "even", "kind"])
    assert flag.missing_share == pytest.approx(0.3, abs=0.05)
    _, own, ranked = model.curve("flag")
    middle = (own + ranked)[[0, -1]].mean()
    assert flag.missing == pytest.approx(model.missing_value("flag") - middle, abs=0.2 * flag.spread)
    # Half of the values are 0 and half are 1, and none is between.
    assert flag.density[[0, -1]].tolist() == pytest.approx([0.5, 0.5], abs=0.07)
    assert flag.density[1:-1].sum() == 0.0
    assert (wide.is_logarithmic, wide.missing, wide.missing_share) == (True, None, 0.0)
    assert wide.density.min() > 0.01
    # Its highest value is also a hundred times its lowest.
    assert even.shown[1] > 100.0 * even.shown[0] > 0.0
    assert not even.is_logarithmic
    assert [(level.name, round(level.share, 1)) for level in kind.levels] == [("b", 0.5), ("a", 0.5)]
    assert all(level.low <= level.high for level in kind.levels)
    assert [shape.name for shape in shapes_of(model)] == sorted(
        ["flag", "wide", "even", "kind"], key=lambda name: -shapes_of(model, [name])[0].spread
    )


def test_names_that_no_picture_can_hold_are_drawn():
    model = AdditiveRanker()
    hostile = ["$\\frac{a$", "a\x00b\n--><script>", "x" * 500]
    for _ in range(5):
        model.learn_one([{name: float(j) for name in hostile} | {"kind": f"$k^{j}\x07"} for j in range(3)], [0, 1, 2])
    axes = plot.curves(model)
    buffer = io.BytesIO()
    axes[0].figure.savefig(buffer, format="svg")
    parse(io.BytesIO(buffer.getvalue()))
    assert max(len(ax.get_title(loc="left")) for ax in axes) <= 22


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
    shares = [model.weights[k] * model.curve("2", name)[1] for k, name in enumerate(model.members)]
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
