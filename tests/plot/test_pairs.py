"""Heat maps of pairs of features, pages with them, and explanations by pairs."""

import numpy as np
import pytest

from online_rank import AdditiveRanker, BlendRanker, PerceptronRanker, StreamScaler, plot
from online_rank.cli.beside import in_words, with_trees
from online_rank.cli.report import write_figures
from online_rank.rankers.pair_shapes import pair_shapes_of

NAMES = ("price", "fit", "age", "stock")


def queries(n, seed=0):
    """Queries whose grades depend on a product of two features."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        Z = rng.normal(size=(30, 4))
        truth = 1.5 * Z[:, 0] * Z[:, 1] + 0.5 * Z[:, 2] + 0.2 * rng.normal(size=30)
        X = np.column_stack([np.exp(2.0 * Z[:, 0]), Z[:, 1:]])
        yield [dict(zip(NAMES, row, strict=True)) for row in X.tolist()], np.digitize(truth, [0.0, 1.0, 2.0])


@pytest.fixture(scope="module")
def model():
    taught = AdditiveRanker(trees=200)
    for x, y in queries(120):
        taught.learn_one(x, y)
    assert taught._trees.n_served
    return taught


def test_the_strongest_pair_has_the_features_of_the_product(model):
    first, *others = pair_shapes_of(model, 3)
    assert first.names == ("price", "fit")
    assert first.strength > 2.0 * max(pair.strength for pair in others)
    # Both high or both low raise a score, one of each lowers it; prices are exponentials.
    corners = first.effect[[0, 0, -1, -1], [0, -1, 0, -1]]
    assert (np.sign(corners) == [1, -1, -1, 1]).all()
    assert (np.diff(first.values[0]) > 0.0).all()
    assert first.values[0][0] > 0.0 > first.values[1][0]
    # Beyond what each adds alone.
    np.testing.assert_allclose(first.effect.mean(axis=0), 0.0, atol=0.1 * first.strength)


def test_heat_maps_have_one_scale_of_colours_and_the_names_of_features(model):
    axes = plot.pairs(model, n=3)
    assert axes[0].get_xlabel() == "price"
    assert axes[0].get_ylabel() == "fit"
    limits = {ax.images[0].get_clim() for ax in axes}
    assert len(limits) == 1
    ((low, high),) = limits
    assert low == -high
    shown = axes[0].images[0].get_array()
    np.testing.assert_array_equal(shown, pair_shapes_of(model, 1)[0].effect.T)


@pytest.mark.slow
def test_a_page_of_a_run_has_them(model, tmp_path):
    figures = {"files": ["log.csv"], "features": 4, "verdict": "x", "measure": "ndcg@10"}
    page = write_figures(tmp_path, figures=figures, settings={}, model=model, names=NAMES).read_text()
    assert "Pairs of features" in page
    assert "beyond what each adds alone" in page


def test_without_trees_there_is_nothing_to_draw():
    with pytest.raises(TypeError, match="PerceptronRanker serves no trees"):
        plot.pairs(StreamScaler() | PerceptronRanker())


def test_pairs_of_a_member_count_by_its_weight_in_a_blend(model):
    blend = BlendRanker([model, StreamScaler() | PerceptronRanker()])
    for x, y in queries(5, seed=3):
        blend.learn_one(x, y)
    x, _ = next(queries(1, seed=4))
    told, own = blend.explain_one(x, 0, 1), blend.learners[0].explain_one(x, 0, 1)
    scores = blend.predict_one(x)
    assert told.difference == pytest.approx(scores[0] - scores[1], abs=1e-6)
    factor = (blend.weights / blend.scales)[0]
    assert told.pairs == pytest.approx({pair: factor * value for pair, value in own.pairs.items()})
    assert ("price", "fit") in told.pairs


def test_a_run_compares_curves_alone_with_trees(model):
    found, hedge = with_trees(model), model.trees_beside
    n = hedge.account.n_counted
    assert found["curves"] == pytest.approx(1.0 - hedge.losses[0] / n)
    assert found["served"] == pytest.approx(1.0 - hedge.account.served / n)
    assert found["served"] > found["curves"] + 0.02
    line = in_words(found, "ndcg@10")
    assert line.startswith(f"curves alone: ndcg@10 {found['curves']:.4f} progressively; with {model.n_trees} trees: ")
    assert line.endswith("Both export to c, duckdb, duckdb-tables, json, onnx, postgresql")
    assert with_trees(AdditiveRanker()) is None
    begun = AdditiveRanker(trees=200)
    for x, y in queries(2):
        begun.learn_one(x, y)
    assert "trees are not served, since nothing shows yet that they help" in in_words(with_trees(begun), "ndcg@10")
