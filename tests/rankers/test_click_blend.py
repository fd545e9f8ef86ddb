"""Curves and trees that learn from clicks on displayed lists, with a term for each position."""

import math

import numpy as np
import pytest
from scipy.sparse import csr_array

from online_rank import AdditiveRanker, ClickBlendRanker
from online_rank.base.closed import form_of
from online_rank.base.schema import check_object, declared_state
from online_rank.feedback import Impression
from online_rank.query import read_query
from online_rank.query.sparse import from_scipy
from online_rank.rankers.click_growth import chance_of
from online_rank.rankers.click_trees import ClickTrees
from online_rank.storage.files import from_bytes, to_bytes

EXAMINED = np.arange(1.0, 7.0) ** -0.9


def lists(n, seed=0, m=6):
    """Lists of m documents with two features, of which only the product attracts; the first feature gives the order."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m, 2))
    X = np.take_along_axis(X, np.argsort(-X[:, :, :1], axis=1), axis=1)
    attracts = np.where(X[..., 0] * X[..., 1] > 0, 0.5, 0.05)
    return X, rng.random((n, m)) < attracts * EXAMINED[:m], attracts


def taught(model, n, seed=0):
    X, clicked, _ = lists(n, seed)
    for x, c in zip(X, clicked, strict=True):
        model.learn_one(x, Impression(range(len(x))).clicked(np.flatnonzero(c).tolist()))
    return model


@pytest.mark.slow
def test_products_of_features_and_positions_are_learned_though_no_list_comes_again():
    model = taught(ClickBlendRanker(), 2000)
    X, _, attracts = lists(200, seed=1)
    pairs = right = 0
    for x, a in zip(X, attracts, strict=True):
        scores = np.array(model.predict_one(x))
        better = a[:, None] > a[None, :]
        pairs += better.sum()
        right += (scores[:, None] > scores[None, :])[better].sum()
    assert right / pairs > 0.9
    assert model.weights[1] > 0.5
    # About 540 clicks at the first position and 290 at the second: a standard error of .04.
    assert np.abs(np.array(model.examined[:3]) - EXAMINED[:3]).max() < 0.1
    assert model.trust == 0.0


def test_without_trees_positions_are_the_log_odds_of_their_clicks():
    # One document is at each position, alike except for its place: nothing can be split.
    trees = ClickTrees(rate=50.0)
    for t in range(400):
        clicked = [place for place, every in enumerate((2, 4)) if t % every == 0]
        trees.learn_one([[0.0], [0.0]], Impression((0, 1)).clicked(clicked))
    # What all documents have in common is in the trees, too.
    assert np.diff(trees.positions[:2]) == pytest.approx(np.log(1 / 3), abs=0.02)
    assert trees.looked.examination[1] == pytest.approx(0.5, abs=0.01)
    assert trees.predict_one([[0.0], [0.0]])[0] == trees.predict_one([[0.0], [0.0]])[1]


def test_residuals_are_clicks_less_their_probability_with_its_variance_as_the_weight():
    trees = taught(ClickTrees(rate=20.0), 60)
    growth, held = trees._growth(np.random.default_rng(0)), declared_state(trees)
    growth.used[:] = 1
    growth.fill(0, len(held.lengths), held.scores[0], held.grades[0], held.query_weights[0])
    chances = chance_of(held.scores[0], trees.positions[held.grades[0]])
    assert growth.gh[:, 0] == pytest.approx(held.clicks[0] - chances)
    assert growth.gh[:, 1] == pytest.approx(chances * (1 - chances))
    assert chance_of(np.array([0.0]), np.array([np.log(1 / 3)])) == pytest.approx(0.25)


def test_lists_without_clicks_are_kept_and_grow_no_trees():
    trees = ClickTrees()
    for x in lists(50)[0]:
        trees.learn_one(x, Impression(range(len(x))).clicked([]))
    assert trees.n_trees == 0
    assert sum(map(len, declared_state(trees).clicks)) == 300


def test_a_copy_grows_the_same_tree_after_the_largest_gain_has_risen():
    trees = taught(ClickTrees(rate=20.0), 200)
    X = lists(100, seed=1)[0]
    for x in X:
        trees.learn_one(x, Impression(range(len(x))).clicked([0]))
        if declared_state(trees).pace:
            break
    trees.learn_one(x, Impression(range(len(x))).clicked({0: 3.0}))
    assert declared_state(trees).pace
    twin = from_bytes(to_bytes(trees))
    for model in (trees, twin):
        while declared_state(model).pace:
            model.learn_one(x, Impression(range(4)).clicked([0]))
    assert to_bytes(twin) == to_bytes(trees)


def test_clicks_of_other_documents_and_positions_that_do_not_exist_are_no_model():
    trees = taught(ClickTrees(), 30)
    whole = to_bytes(trees)
    assert to_bytes(from_bytes(whole)) == whole
    for name, wrong in (("_clicks", declared_state(trees).clicks[0][1:]), ("_grades", declared_state(trees).grades[0] + 6400)):
        right = getattr(trees, name)
        setattr(trees, name, (wrong, *right[1:]))
        with pytest.raises(ValueError, match=r"window|_grades"):
            check_object(trees, "trees")
        setattr(trees, name, right)


@pytest.mark.parametrize("make", [ClickTrees, ClickBlendRanker])
def test_negative_grades_are_refused(make):
    with pytest.raises(ValueError, match="grade"):
        make().learn_one([[0.0], [1.0]], [0, -1])


def test_given_examination_stays_as_it_is_and_one_constant_is_learned():
    model = taught(ClickBlendRanker(examination=(1.0, 0.25)), 100)
    steps = np.diff(model.positions)
    assert steps[0] == pytest.approx(np.log(0.25))
    assert steps[1:] == pytest.approx(0.0)
    assert model.examined == (1.0, 0.25)


def test_candidates_lose_the_log_probability_of_the_click_among_the_displayed():
    model = ClickBlendRanker(examination=(1.0, 0.5))
    S = np.array([[0.0, 0.0], [0.0, np.log(3.0)]])
    losses = model._judged(S, np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0, 1]), np.array([0.0, 2.0]))
    # Odds 1 : 1/2, and 1 : 3/2.
    assert losses == pytest.approx(-np.log([1 / 3, 3 / 5]) / (2 * np.log(2)))


def test_only_displayed_documents_are_learned_and_a_file_is_the_same_model():
    documents = {name: {"x": float(i), "brand": "ab"[i % 2]} for i, name in enumerate("pqrstu")}
    model = ClickBlendRanker(k=3)
    for t in range(40):
        shown = model.show_one(documents)
        model.learn_one(documents, shown.clicked(shown.order[t % 2 : 1 + t % 3]))
    assert sum(map(len, declared_state(model.learners[1]).clicks)) == 120
    again = from_bytes(to_bytes(model))
    assert again.predict_one(documents) == model.predict_one(documents)
    for one in (model, again):
        one.learn_one(documents, Impression(("q", "p")).clicked(["p"]))
    assert to_bytes(again) == to_bytes(model)


def test_no_tree_splits_by_a_feature_with_a_sign():
    model = taught(ClickBlendRanker(signs={"1": 1}), 200)
    trees = model.learners[1]
    assert trees.n_trees
    signed, free = model.importance.values()
    assert signed == 0.0 < free


def test_bad_lists_and_settings_are_refused_and_change_nothing():
    model = taught(ClickBlendRanker(), 30)
    before = to_bytes(model)
    with pytest.raises(ValueError, match="feature 0 of document 1 is inf"):
        model.learn_one([[0.0, 1.0], [np.inf, 0.0]], Impression((0, 1)).clicked([0]))
    assert to_bytes(model) == before
    with pytest.raises(ValueError, match="examination is"):
        ClickBlendRanker(examination=(1.0, 0.0))


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
def test_it_is_curves_and_trees_behind_their_map(relative):
    model, curves = ClickBlendRanker(relative=relative), AdditiveRanker(relative=relative, trees=0)
    trees = ClickTrees()
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
        # Curves learn ranks of gains.
        curves.learn_one(x, np.unique([0, *y], return_inverse=True)[1][1:])
        trees.learn_one(mapped, y)
        model.learn_one(x, y)
    assert to_bytes(model.learners[0]) == to_bytes(curves)
    assert model.learners[1].n_trees == trees.n_trees > 100
    assert math.isclose(model.weights.sum(), 1.0)
    assert {*model.importance} == {"price", "brand", "fit", "late"}
    assert math.isclose(sum(model.importance.values()), declared_state(trees).gains.sum())
    assert {"fit"} <= {*model.explain_one(x, 0, 1).contributions} <= {"price", "brand", "fit", "late"}


def test_a_refused_list_leaves_all_as_it_was():
    model = ClickBlendRanker()
    for x, y in documents(20):
        model.learn_one(x, y)
    before = to_bytes(model)
    for bad, message in ((math.inf, "feature 'fit' of document 1 is inf"), ("high", "'fit'")):
        x, y = next(documents(1, seed=1))
        with pytest.raises(ValueError, match=message):
            model.learn_one([x[0], {**x[1], "fit": bad, "new": 1.0}, *x[2:]], y)
        assert to_bytes(model) == before


def test_sparse_rows_are_left_to_the_curves():
    rng, model, alone = np.random.default_rng(0), ClickBlendRanker(), AdditiveRanker(trees=0)
    for _ in range(20):
        X, y = csr_array(np.maximum(rng.normal(size=(10, 200)) - 1.0, 0.0)), rng.integers(0, 2, 10)
        model.learn_one(X, y)
        alone.learn_one(X, y)
    assert model.rank_one(X) == alone.rank_one(X)
    scores = model.predict_one(X)
    assert model.explain_one(X, 0, 1).difference == pytest.approx(scores[0] - scores[1])
    assert form_of(model).head.weights == pytest.approx(
        declared_state(alone).linear.served_weights * (model.weights / model.scales)[0]
    )


def test_sparse_rows_are_learned_in_the_order_displayed():
    X = csr_array(np.array([[0.0, 1.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 3.0]]))
    rows = from_scipy(X)
    assert (rows.taken(np.array([2, 0])).toarray() == X.toarray()[[2, 0]]).all()
    model = ClickBlendRanker()
    for _ in range(20):
        model.learn_one(X, Impression((2, 0)).clicked([0]))
    assert model.rank_one(X)[0] == 0


def test_the_term_of_a_device_is_the_log_odds_of_its_clicks():
    # Documents are alike: on the phone every second list has a click at the first place, elsewhere every fourth.
    trees = ClickTrees(rate=50.0, shown_on="device")
    for t in range(800):
        device = ("phone", "desk", None)[t % 3]
        clicked = [0] if t // 3 % (2 if device == "phone" else 4) == 0 else []
        trees.learn_one([[0.0], [0.0]], Impression((0, 1)).clicked(clicked), context={"device": device})
    assert set(trees.terms) == {"phone", "desk"}
    assert trees.terms["phone"] - trees.terms["desk"] == pytest.approx(np.log(3), abs=0.1)
    assert trees.terms["desk"] == pytest.approx(0.0, abs=0.1)
    again = from_bytes(to_bytes(trees))
    assert again.terms == trees.terms
    assert to_bytes(again) == to_bytes(trees)


def test_numbers_of_pages_are_values_and_too_many_count_as_none():
    trees = ClickTrees(shown_on="page")
    for page in (1, 1.0, 2, "2", *range(3, 90)):
        trees.learn_one([[0.0], [0.0]], Impression((0, 1)).clicked([0]), context={"page": page})
    assert [*trees.terms][:3] == ["1", "2", "3"]
    assert len(trees.terms) == 63
    assert trees._number_of(({"page": 89},)) == 0
    with pytest.raises(TypeError, match="shown_on is 3"):
        ClickTrees(shown_on=3)


@pytest.mark.slow
def test_what_a_device_adds_is_not_taken_for_what_its_users_ask():
    """Users of the phone click more, and ask for what they see as `asks`; a device without a term makes that a feature."""
    rng = np.random.default_rng(0)
    models = [ClickBlendRanker(shown_on=name) for name in ("device", None)]
    for _ in range(1500):
        phone = rng.random() < 0.5
        X = np.column_stack([np.full(5, phone + 0.1 * rng.normal()), rng.normal(size=5)])
        clicked = np.flatnonzero(rng.random(5) < EXAMINED[:5] * np.where(X[:, 1] > 0, 0.3, 0.1) * (2.0 if phone else 0.5))
        shown = Impression(range(5)).clicked(clicked.tolist())
        models[0].learn_one(X, shown, context={"device": "phone" if phone else "desk"})
        models[1].learn_one(X, shown)
    assert models[0].learners[1].terms["phone"] - models[0].learners[1].terms["desk"] > 0.5
    assert models[0].importance["1"] < models[1].importance["1"]
