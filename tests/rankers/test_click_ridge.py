"""ClickRidge: its equations, what lists teach it, and what does not mislead it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import ClickRidge, PlackettLuce, StreamQuantileMap, SwapRanker, load, save
from online_rank.base.schema import declared_state
from online_rank.feedback import Impression
from online_rank.metrics import NDCG
from online_rank.rankers import click_ridge
from online_rank.rankers.fixed import FixedRanker
from online_rank.stream.clicks import CascadeUser, PositionUser, TrustUser, user
from tests.helpers import mismatches
from tests.reference.clicks import positions_regression

X = np.array([[1.0], [0.0]])


def weight(model):
    return float(model.weights[0])


def test_two_lists_by_hand():
    model, begun = ClickRidge(), ClickRidge((1.0,))
    for each in (model, begun):
        each.learn_one(X, Impression((0, 1)).clicked([0]))
        each.learn_one(X, Impression((0, 1)).clicked([]))  # teaches nothing
    # Gains have the mean 0 and the variance 1 at both positions, so z is 1/2 and -1/2: A = 1/2, b = 1/2.
    assert weight(model) == pytest.approx(0.5 / 10.5)
    assert weight(begun) == pytest.approx(1.0)
    for each in (model, begun):
        each.learn_one(X, Impression((1, 0)).clicked([1]))
    # Means 1/2 and 0, variances 2/2 - 1/4 = 3/4 and 1/2; x - M is -1/2 and 1, of mean (-3/8 + 1/2) / (5/4) = 1/10: z is -.6 and
    # .9. A gets 3/4 * .36 + 1/2 * .81 = .675, and b (1 - 1/2) * -.6 = -.3.
    assert weight(model) == pytest.approx(0.2 / 11.175)
    assert weight(begun) == pytest.approx(1.0 + (0.2 - 1.175) / 11.175)


@settings(max_examples=25)
@given(st.integers(1, 4), st.integers(0, 100), st.booleans())
def test_it_solves_the_equations_of_the_twin(d, seed, begins):
    rng = np.random.default_rng(seed)
    initial = rng.normal(size=d) if begins else np.zeros(d)
    model, lists, weights = ClickRidge(tuple(initial.tolist()) if begins else None), [], []
    for _ in range(12):
        features = rng.normal(size=(6, d))
        order = tuple(rng.permutation(6)[: rng.integers(1, 7)].tolist())
        gains = (rng.integers(0, 2, len(order)) * rng.random(len(order))).round(2)
        weights.append(float(rng.choice([0.0, 0.5, 1.0, 2.0])))
        model.learn_one(features, Impression(order).clicked(dict(zip(order, gains.tolist(), strict=True))), w=weights[-1])
        lists.append((features[list(order)], gains.tolist()))
    expected = positions_regression(lists, initial, click_ridge._LAMBDA, weights)
    np.testing.assert_allclose(model.weights, expected, rtol=1e-9, atol=1e-12)
    assert mismatches(model) == []


def test_only_documents_on_the_page_teach_at_their_positions_there():
    features = np.random.default_rng(0).normal(size=(60, 2))
    gapped, held, plain = ClickRidge(), ClickRidge(), ClickRidge()
    for _ in range(3):
        gapped.learn_one(features, Impression((3, 1), positions=(1, 4)).clicked([1]))
        held.learn_one(features, Impression((3,), logits=(0.0, 0.0), held_back=(1,)).clicked([3]))
        plain.learn_one(features, Impression(tuple(range(60))).clicked([55]))
    assert np.flatnonzero(declared_state(gapped).gains[:, 0]).tolist() == [0, 3]
    assert not held.weights.any()  # one document, and nothing to compare it with
    assert not plain.weights.any()  # below position 50


def test_features_that_come_later_and_queries_that_are_refused():
    model = ClickRidge({"score": 1.0})
    model.learn_one({"a": {"score": 1, "x": 1}, "b": {"score": 2}}, Impression(("b", "a")).clicked(["a"]))
    assert model.feature_names == ("score", "x")
    assert model.weights[1] > 0.0
    before = model.weights.tolist()
    with pytest.raises(ValueError, match="scale the features"):
        model.learn_one({"a": {"score": 1e200}, "b": {"score": 2}}, Impression(("b", "a")).clicked(["a"]))
    with pytest.raises(ValueError, match="w is -1"):
        model.learn_one({"a": {"score": 1}, "b": {"score": 2}}, Impression(("b", "a")).clicked(["a"]), w=-1)
    assert model.weights.tolist() == before
    # A click worth very much makes no variance below 0.
    for _ in range(5):
        model.learn_one({"a": {"score": 1}, "b": {"score": 2}}, Impression(("b", "a")).clicked({"a": 1e8, "b": 1e8}))
    assert np.isfinite(model.weights).all()


def test_a_list_after_which_no_solution_is_found_is_refused_and_others_teach():
    model = ClickRidge()
    features, clicks = np.random.default_rng(0).normal(size=(2, 20)), Impression((1, 0)).clicked([0])
    for _ in range(60):  # the next list is not due
        model.learn_one(features, clicks)
    before = model.weights.tolist()
    with pytest.raises(ValueError, match="scale the features"):
        model.learn_one(features, clicks, w=1e200)  # of rank 1: lambda is lost
    assert model.weights.tolist() == before
    for _ in range(3):
        model.learn_one(features, clicks)
    assert model.weights.tolist() != before


def test_the_ranking_of_today_is_copied_as_plain_numbers(tmp_path):
    given = {"a": np.True_, "b": np.float32(2.0)}
    for model in (ClickRidge(given), FixedRanker(given), ClickRidge(np.ones(2)), FixedRanker(np.ones(2))):
        given["c"] = 1.0
        save(model, tmp_path / "model.npz")
        assert load(tmp_path / "model.npz").n_features == model.clone().n_features == 2
        del given["c"]
    with pytest.raises(ValueError, match="today must be at least one number"):
        ClickRidge({})


def test_it_draws_within_a_budget_and_is_saved(tmp_path):
    model = StreamQuantileMap() | ClickRidge({"score": 1.0}, policy=PlackettLuce(2, keep=0.9, seed=1))
    query = {"a": {"score": 3.0, "x": 0.0}, "b": {"score": 2.0, "x": 1.0}, "c": {"score": 1.0, "x": 2.0}}
    for _ in range(5):
        shown = model.show_one(query)
        model.learn_one(query, shown.clicked([shown.order[1]]))
    save(model, tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert (again["ClickRidge"].keep, ClickRidge().keep) == (0.9, 0.98)
    assert again.predict_one(query) == model.predict_one(query)
    assert again.show_one(query) == model.show_one(query)


def stream(seed, n, truth, known=0.9):
    """Queries of 20 documents: the features, today's score first, and the grades 0 to 2."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        features = rng.normal(size=(20, 4))
        utility = features @ truth
        features[:, 0] = known * utility + np.sqrt(1 - known**2) * rng.normal(size=20)
        yield features, np.searchsorted(np.quantile(utility, (0.6, 0.85)), utility)


USERS = [user("navigational"), TrustUser(), PositionUser(), CascadeUser((0.4, 0.4, 0.4), (0.5, 0.5, 0.5))]


@pytest.mark.slow
@pytest.mark.parametrize("who", USERS, ids=lambda who: type(who).__name__)
def test_users_who_do_not_look_at_features_teach_nothing(who):
    """All documents attract alike, so positions alone decide: the mean of what is learned is 0, within 4 standard errors."""
    policy, learned = PlackettLuce(10, keep=0.95), []
    for run in range(40):
        model = ClickRidge()
        for t, (features, _) in enumerate(stream(run, 80, np.array([0.0, 1.0, 1.0, 0.0]))):
            shown = policy.show(features[:, 0], t)
            model.learn_one(features, who.clicks(shown, np.ones(20, int), 1000 * run + t))
        learned.append(model.weights)
    error = np.std(learned, axis=0, ddof=1) / len(learned) ** 0.5
    # The first list is compared with means of 0 alone, which favours the top of today's ranking a little.
    assert (np.abs(np.mean(learned, axis=0)) < 4 * error + [0.05, 0.0, 0.0, 0.0]).all()


@pytest.mark.slow
@pytest.mark.parametrize("who", USERS[:3], ids=lambda who: type(who).__name__)
def test_few_clicks_on_the_lists_of_today_are_enough(who):
    """300 lists around a ranking that knows most of the truth: better than it each time, and than by exchanges alone."""
    truth, gains, by_swaps = np.array([0.0, 0.8, 0.6, 0.0]), [], []
    for run in range(4):
        models = [ClickRidge((1.0, 0.0, 0.0, 0.0)), SwapRanker()]
        policy = PlackettLuce(10, keep=0.95, seed=run)
        for t, (features, y) in enumerate(stream(run, 300, truth)):
            clicks = who.clicks(policy.show(features[:, 0], t), y, 1000 * run + t)
            for model in models:
                model.learn_one(features, clicks)
        values = [NDCG(k=10) for _ in range(3)]
        for features, y in stream(100 + run, 200, truth):
            for value, scores in zip(values, (features[:, 0], *(m.predict_one(features) for m in models)), strict=True):
                value.update(y, scores)
        today, ridge, swap = (value.get() for value in values)
        gains.append(ridge - today)
        by_swaps.append(swap - today)
    assert min(gains) > 0.02
    assert np.mean(gains) > np.mean(by_swaps)
