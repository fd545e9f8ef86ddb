"""The additive ranker: equal to explicit columns, and the contract of its state."""

import copy
import datetime
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from online_rank import AdditiveRanker, BlendRanker, PerceptronRanker, load, save
from online_rank._kernels import curves
from online_rank._kernels.drawn import draw_curves
from online_rank.base.closed import form_of
from online_rank.base.schema import declared_state
from online_rank.bounds import additive_mass_bound, certificate_of
from online_rank.checks import yield_checks
from online_rank.checks._subject import state_of
from online_rank.export import export
from online_rank.rankers import additive
from online_rank.rankers.hedge import HedgeAccount
from online_rank.stream.synth import NoisyTeacher
from tests.reference import additive as reference
from tests.reference.forms import scores as of_form


def queries(n, d=4, m=(3, 30), seed=0, missing=0.0):
    """Queries with a truth that is a sum of curves; ties, units and missing values included."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        size = rng.integers(*m)
        Z = rng.normal(size=(size, d))
        truth = -np.abs(Z[:, 0]) + (Z[:, 1] > 0.5) + 0.5 * Z[:, 2] + 0.3 * rng.normal(size=size)
        X = np.column_stack([np.exp(3 * Z[:, 0]), np.round(Z[:, 1], 1), np.maximum(Z[:, 2], 0.0), Z[:, 3:]])
        X[rng.random(X.shape) < missing] = np.nan
        yield X, np.digitize(truth, [-0.7, 0.3, 1.2])


def explicit(model, X):
    """The columns (m, d, 20) that a model sees."""
    d = model.n_features or X.shape[1]
    knots = [declared_state(model).front.knots(j) for j in range(d)] if model.n_features else [(np.zeros(0), np.zeros(0))] * d
    return reference.columns(X, knots, declared_state(model).sums, model.relative)


@pytest.mark.parametrize("relative", [True, False])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_equals_learners_of_explicit_columns(missing, relative):
    model = AdditiveRanker(relative=relative, trees=0)
    last, slow, fast = (PerceptronRanker(half_life=half_life, relative_margin=1.0) for half_life in (0, 1000, 50))
    newton, sums = reference.Newton(), np.zeros((4, 2, 2, 21))
    for t, (X, y) in enumerate(queries(60, missing=missing)):
        if t == 0:
            # The map takes the first query before that is ranked.
            model.learn_one(X, y)
            X20 = reference.columns(X, [declared_state(model).front.knots(j) for j in range(4)], sums, relative)
            for one in (last, slow, fast):
                one.learn_one(X20.reshape(len(X), -1), y)
            reference.learn_encodings(X20, X, y, sums, relative)
            newton.learn(X20[:, :, 0], y)
            continue
        X20 = explicit(model, X)
        np.testing.assert_allclose(declared_state(model).sums, sums, rtol=1e-5, atol=1e-5)
        flat = X20.reshape(len(X), -1)
        D = len(declared_state(model).pending)
        Z = np.zeros((len(X), D))
        for j, (line, known) in enumerate(declared_state(model).places.tolist()):
            Z[:, line] = X20[:, j, 0]
            if known >= 0:
                Z[:, known] = X20[:, j, 19]
        weights = np.concatenate([one.served_weights[None] for one in (last, slow, fast)]).reshape(3, 4, 20)
        np.testing.assert_allclose(
            declared_state(model).weights[:, :, :3], np.moveaxis(weights, 0, -1), rtol=1e-4, atol=1e-5, err_msg=str(t)
        )
        of_newton = newton.scores(Z)
        expected = [*(flat @ one.served_weights for one in (last, slow, fast)), of_newton]
        for k in range(4):
            out = np.empty((4, 2, 2, curves.N_CELLS))
            draw_curves(
                np.eye(7)[k], declared_state(model).weights, declared_state(model).plain, declared_state(model).sums, out
            )
            model._drawn = out
            np.testing.assert_allclose(model.predict_one(X), expected[k], rtol=1e-4, atol=1e-4)
        loss = declared_state(model).losses[0]
        model.learn_one(X, y)
        for one in (last, slow, fast):
            one.learn_one(flat, y)
        assert declared_state(model).losses[0] - loss == pytest.approx(last.last_round.loss, abs=1e-9)
        assert model.last_round.mass == pytest.approx(last.last_round.mass, abs=1e-9)
        assert model.last_round.squared_gradient_norm == pytest.approx(
            last.last_round.squared_gradient_norm, rel=1e-4, abs=1e-9
        )
        if len(set(y)) > 1:
            reference.learn_encodings(X20, X, y, sums, relative)
            newton.learn(Z, y)
    assert (declared_state(model).places[:, 1] >= 0).any() == (missing > 0)


def test_features_beyond_the_most_columns_take_steps_alone(monkeypatch):
    monkeypatch.setattr(additive, "_MOST_COLUMNS", 2)
    model, w, curvatures, keep = AdditiveRanker(trees=0), np.zeros(2), np.zeros(2), 2.0 ** (-1 / 30)
    for t, (X, y) in enumerate(queries(40)):
        if t == 0 or len(set(y)) < 2:
            model.learn_one(X, y)
            w, curvatures = declared_state(model).weights[2:, 0, 3].copy(), declared_state(model).curvatures[2:].copy()
            continue
        lines = np.empty((4, 2, 2, curves.N_CELLS))
        draw_curves(np.eye(7)[3], declared_state(model).weights, declared_state(model).plain, declared_state(model).sums, lines)
        model._drawn = lines
        c, h = reference.derivatives(np.array(model.predict_one(X)), y)
        g = explicit(model, X)[:, 2:, 0]
        away = g - h @ g / h.sum()
        curvatures = keep * curvatures + h @ away**2
        w += 0.5 * (c @ g) / (curvatures + 2.5)
        model.learn_one(X, y)
        np.testing.assert_allclose(declared_state(model).weights[2:, 0, 3], w, rtol=1e-5)
        np.testing.assert_allclose(declared_state(model).curvatures[2:], curvatures, rtol=1e-5)
    assert len(declared_state(model).pending) == 2
    assert w.any()
    assert not declared_state(model).curvatures[:2].any()


def test_what_is_served_is_a_sum_of_curves_with_the_loss_of_the_account():
    model = AdditiveRanker(trees=0)
    total = 0.0
    for X, y in queries(80):
        if model.n_features and len(set(y)) > 1:
            scores = np.array(model.predict_one(X))
            order = np.lexsort((y, -scores))[:10]
            gains, discounts = 2.0**y - 1, 1 / np.log2(np.arange(2, 12))
            ideal = np.sort(gains)[::-1][:10]
            before = declared_state(model).account[0]
            model.learn_one(X, y)
            loss = 1 - (gains[order] * discounts[: len(order)]).sum() / (ideal * discounts[: len(ideal)]).sum()
            assert declared_state(model).account[0] - before == pytest.approx(loss, abs=1e-9)
            total += loss
        else:
            model.learn_one(X, y)
    account = HedgeAccount(*declared_state(model).account)
    bound = (
        declared_state(model).losses.min() + np.log(10) / min(1.0, np.log(10) / account.mixability_gap) + account.mixability_gap
    )
    assert account.served <= bound + account.serving_gap + 1e-9


def test_the_mass_bound_limits_what_was_served():
    model = AdditiveRanker(trees=0)
    for X, y in queries(80):
        model.learn_one(X, y)
    certificate = certificate_of(model)
    assert certificate.holds
    price = np.log(10 / 0.65) / model.step + model.account.mixability_gap + model.account.serving_gap + model.account.luck
    assert certificate.bound("blend_bound") == pytest.approx(model.candidate_losses.min() + price)
    assert certificate.loss == pytest.approx(model.account.served)
    limit = additive_mass_bound(
        comparator_loss=model.mass, comparator_norm=0.0, squares=model.squares, last_cost=np.log(10 / 0.65), step=model.step,
        mixability_gap=model.account.mixability_gap, serving_gap=model.account.serving_gap + model.account.luck,
    )  # fmt: skip
    assert limit == pytest.approx(model.mass + price)
    assert certificate.loss <= limit
    assert certificate.totals["mass"] == model.mass
    model.learn_one(X, y, served=np.arange(len(y), dtype=float))
    assert "mass" not in certificate_of(model).totals


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_a_block_equals_its_queries_one_by_one(missing):
    stream = list(queries(150, missing=missing, seed=3))
    one, many = AdditiveRanker(), AdditiveRanker()
    for X, y in stream:
        one.learn_one(X, y)
    for first, stop in ((0, 1), (1, 70), (70, 150)):
        part = stream[first:stop]
        X, y = np.concatenate([X for X, _ in part]), np.concatenate([y for _, y in part])
        many.learn_many(X, y, np.repeat(np.arange(len(part)), [len(y) for _, y in part]))
    assert pickle.dumps(one) == pickle.dumps(many)


def test_a_refused_query_changes_nothing():
    model = AdditiveRanker()
    for X, y in queries(30, missing=0.1):
        model.learn_one(X, y)
    before = pickle.dumps(model)
    X, y = next(queries(1))
    bad = X.copy()
    bad[1, 2] = np.inf
    with pytest.raises(ValueError, match="feature 2 of document 1 is inf"):
        model.learn_one(bad, y)
    with pytest.raises(ValueError, match="feature 2 of document 1 is inf"):
        model.predict_one(bad)
    with pytest.raises(ValueError, match="feature 2 of document 1 is inf"):
        model.learn_one(bad, y)
    with pytest.raises(ValueError, match="weight of a query"):
        model.learn_one(X, y, w=-1.0)
    with pytest.raises(ValueError, match="the grade of document 0"):
        model.learn_one(X, y - 5)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("m", [41, 130, 300])
def test_ranks_within_long_queries_are_exact(m, missing):
    model, sums = AdditiveRanker(), np.zeros((4, 2, 2, 21))
    for t, (X, y) in enumerate(queries(4, m=(m, m + 1), missing=missing)):
        X[:, 3] += 100.0 * t  # Beyond all values before.
        if t:
            X20 = explicit(model, X)
            model.learn_one(X, y)
        else:
            model.learn_one(X, y)
            X20 = reference.columns(X, [declared_state(model).front.knots(j) for j in range(4)], sums)
        reference.learn_encodings(X20, X, y, sums, True)
        np.testing.assert_allclose(declared_state(model).sums, sums, rtol=1e-5, atol=1e-4)


def test_a_query_that_was_ranked_before_is_learned_with_the_same_bits():
    asked, other = AdditiveRanker(), AdditiveRanker()
    for t, (X, y) in enumerate(queries(40, missing=0.1)):
        if t:
            asked.predict_one(X if t % 3 else X + 1.0)
            if t % 3 == 1:
                X[0, 0] += 1.0
        asked.learn_one(X, y)
        other.learn_one(X, y)
    assert pickle.dumps(asked) == pickle.dumps(other)


@pytest.mark.slow
@pytest.mark.parametrize("check", [*yield_checks(AdditiveRanker())], ids=str)
def test_contract(check):
    check()


def test_files_and_copies_continue_with_the_same_bits(tmp_path):
    model = AdditiveRanker(half_life=("7d", 50))
    stream = list(documents(60))
    for t, (x, y) in enumerate(stream[:40]):
        model.learn_one(x, y, at=3600.0 * t)
    save(model, tmp_path / "model")
    others = [load(tmp_path / "model"), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    for t, (x, y) in enumerate(stream[40:], 40):
        answers = [one.predict_one(x) for one in (model, *others)]
        assert answers[1:] == [answers[0]] * 3
        for one in (model, *others):
            one.learn_one(x, y, at=3600.0 * t)
    assert [state_of(one) for one in others] == [state_of(model)] * 3


def test_contributions_of_features_add_up_to_the_difference():
    model = AdditiveRanker()
    for x, y in documents(60):
        model.learn_one(x, y)
    x, _ = next(documents(1, seed=5))
    scores = model.predict_one(x)
    told = model.explain_one(x, "d0", "d1")
    assert told.exact
    assert set(told.contributions) <= {"price", "brand", "tags", "day"}
    assert told.difference == pytest.approx(scores["d0"] - scores["d1"], abs=1e-9)
    arrays = AdditiveRanker()
    for X, y in queries(30, missing=0.2):
        arrays.learn_one(X, y)
    told, scores = arrays.explain_one(X, 0, 1), arrays.predict_one(X)
    assert len(told.contributions) == 4
    # Trees are served, and pairs of features add something, too.
    assert sum(told.contributions) + sum(told.pairs.values()) == pytest.approx(scores[0] - scores[1], abs=1e-9)


def test_half_lives_in_time_need_the_time_and_equal_those_in_queries():
    stream = list(queries(40))
    timed, counted = AdditiveRanker(half_life=("1000s", "50s")), AdditiveRanker()
    with pytest.raises(ValueError, match="at="):
        timed.learn_one(*stream[0])
    for t, (X, y) in enumerate(stream):
        timed.learn_one(X, y, at=float(t))
        counted.learn_one(X, y)
    np.testing.assert_allclose(declared_state(timed).weights, declared_state(counted).weights, rtol=1e-6, atol=1e-9)


def test_served_scores_decide_what_is_learned():
    X, y = np.array([[3.0], [2.0], [1.0]]), np.array([2, 1, 0])
    right, wrong = AdditiveRanker(), AdditiveRanker()
    for model in (right, wrong):
        model.learn_one(X, y)
    before = declared_state(right).weights[:, :, 0].copy()
    right.learn_one(X, y, served=[3.0, 2.0, 1.0])
    wrong.learn_one(X, y, served=[1.0, 2.0, 3.0])
    assert right.last_round.loss == 0.0
    assert wrong.last_round.loss > 0.3
    assert (declared_state(right).weights[:, :, 0] == before).all()
    assert (declared_state(wrong).weights[:, :, 0] != before).any()


def test_a_feature_that_grows_is_ranked_within_the_query():
    model, rng, right = AdditiveRanker(), np.random.default_rng(0), []
    for t in range(120):
        day = t + rng.random(8)
        y = np.argsort(np.argsort(day)) // 3
        if t > 60:
            right.append(np.array_equal(np.argsort(model.predict_one(day[:, None]))[-2:], np.argsort(day)[-2:]))
        model.learn_one(day[:, None], y)
    assert np.mean(right) > 0.95


def test_signs_hold_for_every_curve():
    model = AdditiveRanker(signs={"1": 1, "3": -1})
    for X, y in queries(120, missing=0.1):
        model.learn_one(X, y)
    x = np.linspace(-3, 3, 200)
    others = np.zeros((200, 4))
    for column, sign in ((0, 1), (2, -1)):
        X = others.copy()
        X[:, column] = np.exp(x) if column == 0 else x
        assert (sign * np.diff(model.predict_one(X)) >= -1e-12).all()
    assert (declared_state(model).weights[[0, 2]][:, [17, 18]] == 0.0).all()


def documents(n, seed=0, levels="abcdef"):
    """Queries of dicts with a number that may be missing, a category, a list of texts and a date."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        x = {}
        for i in range(int(rng.integers(2, 9))):
            x[f"d{i}"] = {
                "price": float(rng.normal()),
                "brand": levels[rng.integers(len(levels))],
                "tags": ["new", "sale"][: rng.integers(3)],
                "day": datetime.date(2024, 1, 1) + datetime.timedelta(days=int(rng.integers(30))),
            }
        if rng.random() < 0.3:
            x["d0"].pop("price")
        if rng.random() < 0.3:
            x["d1"]["price"] = None
        yield x, {name: int(one["brand"] in "ab") + 2 * ("sale" in one["tags"]) for name, one in x.items()}


def test_categories_have_a_weight_for_each_level():
    model, losses = AdditiveRanker(max_levels=4), []
    for x, y in documents(150):
        model.learn_one(x, y)
        losses.append(model.last_round.loss)
    assert np.mean(losses[-50:]) < 0.5 * np.mean(losses[:50])
    levels = [name for name in model.feature_names if isinstance(name, tuple) and name[0] == "brand"]
    assert len(levels) == 5
    assert ("brand", "is", None) in levels
    assert model.rank_one({"x": {"brand": "e", "tags": []}, "y": {"brand": "a", "tags": "sale"}})[0] == "y"
    # Levels that it never met count as the others do.
    unknown = model.predict_one([{"brand": "zz"}, {"brand": "yy"}])
    assert unknown[0] == unknown[1]


def test_levels_equal_columns_of_ones_and_zeros():
    rng = np.random.default_rng(0)
    texts, ones = AdditiveRanker(), AdditiveRanker()
    for _ in range(30):
        brands, y = rng.integers(0, 5, 8), rng.integers(0, 3, 8)
        x = [{"brand": "abcde"[k]} for k in brands]
        for model in (texts, ones):
            if model is texts:
                model.learn_one(x, y)
            else:
                known = [name[2] for name in texts.feature_names]
                model.learn_one([{level: float(one["brand"] == level) for level in known} for one in x], y)
    known = [name[2] for name in texts.feature_names]
    np.testing.assert_allclose(
        texts.predict_one([{"brand": level} for level in known]), ones.predict_one([
            {level: float(level == other) for level in known} for other in known
        ]), rtol=1e-6, atol=1e-9,
    )  # fmt: skip


def test_absent_none_and_nan_are_missing_in_every_form():
    model = AdditiveRanker()
    for X, y in queries(60, missing=0.2):
        names = [f"f{j}" for j in range(X.shape[1])]
        model.learn_one([dict(zip(names, row, strict=True)) for row in X.tolist()], y)
    full = {"f0": 1.0, "f1": 0.2, "f2": 0.0, "f3": 1.5}
    absent = {name: value for name, value in full.items() if name != "f3"}
    scores = model.predict_one([full, absent, {**absent, "f3": None}, {**absent, "f3": float("nan")}])
    assert scores[1] == scores[2] == scores[3] != scores[0]
    frame = pd.DataFrame([full, {**absent, "f3": np.nan}])
    assert model.predict_one(frame) == model.predict_one([full, absent])
    assert model.predict_one(pl.DataFrame([full, {**absent, "f3": None}])) == model.predict_one([full, absent])


def test_dicts_and_arrays_with_missing_values_give_the_same_state():
    of_arrays, of_dicts = AdditiveRanker(), AdditiveRanker()
    for X, y in queries(40, missing=0.2):
        of_arrays.learn_one(X, y)
        of_dicts.learn_one([{str(j + 1): v for j, v in enumerate(row) if v == v} | {"1": row[0]} for row in X.tolist()], y)
    order = [of_dicts.feature_names.index(str(j + 1)) for j in range(4)]
    np.testing.assert_array_equal(declared_state(of_dicts).sums[order], declared_state(of_arrays).sums)
    np.testing.assert_allclose(
        declared_state(of_dicts).weights[order][:, :, :3], declared_state(of_arrays).weights[:, :, :3], rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"d0": {"price": "cheap"}, "d1": {"price": 1.0}}, "feature 'price' of document 'd0' is a text, 'cheap', and a number"),
        ({"d0": {"brand": 3.0}}, "feature 'brand' of document 'd0' is a number, 3.0, and a category elsewhere"),
        ({"d0": {"price": float("inf")}}, "feature 'price' of document 'd0' is inf"),
        ({"d0": {"price": 10**400}}, "feature 'price' of document 'd0' is .*largest float"),
        ({"d0": {"price": {"a": 1}}}, "feature 'price' of document 'd0' is .*features are numbers, texts"),
        ({"d0": {"new": 1.0}, "d1": {"new": "x"}}, "feature 'new' of document 'd1' is a text, 'x', and a number elsewhere"),
        ({"d0": {"tags": ["new", 1]}}, "feature 'tags' of document 'd0' is .*a list holds texts"),
    ],
)
def test_bad_documents_are_named_and_change_nothing(bad, message):
    model = AdditiveRanker()
    for x, y in documents(20):
        model.learn_one(x, y)
    before = pickle.dumps(model)
    for call in (lambda: model.learn_one(bad, {name: i for i, name in enumerate(bad)}), lambda: model.predict_one(bad)):
        with pytest.raises((TypeError, ValueError), match=message):
            call()
    assert pickle.dumps(model) == before


def test_sparse_queries_are_learned_by_a_perceptron():
    rng = np.random.default_rng(0)
    model, twin = AdditiveRanker(), PerceptronRanker()
    words, text = AdditiveRanker(), PerceptronRanker()
    for _ in range(20):
        X, y = sparse.random(6, 2000, 0.01, "csr", random_state=rng), rng.integers(0, 3, 6)
        x = [{f"w{j}": 1.0 for j in rng.integers(0, 2000, 12)} for _ in range(6)]
        for one in (model, twin):
            one.learn_one(X, y)
        for one in (words, text):
            one.learn_one(x, y)
    assert model.predict_one(X) == twin.predict_one(X)
    assert words.predict_one(x) == text.predict_one(x)
    assert state_of(pickle.loads(pickle.dumps(model))) == state_of(model)
    assert model.explain_one(X, 0, 1).difference == twin.explain_one(X, 0, 1).difference
    bad = [{"w1": float("nan")}, {"w2": 1.0}]
    with pytest.raises(ValueError, match="feature 'w1' of document 0 is nan"):
        words.learn_one(bad, [0, 1])


def test_blends_hold_it_and_pass_missing_values_of_arrays():
    model, alone = BlendRanker([AdditiveRanker()]), AdditiveRanker()
    for X, y in queries(30, missing=0.2):
        model.learn_one(X, y)
        alone.learn_one(X, y)
    assert model.rank_one(X) == alone.rank_one(X)
    assert state_of(pickle.loads(pickle.dumps(model))) == state_of(model)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model, x, y: model.show_one(x), "policy"),
        (lambda model, x, y: AdditiveRanker.from_weights([1.0]), "from_weights"),
        (lambda model, x, y: export(model, "sql"), "does not begin with RunFeatures"),
        (lambda model, x, y: AdditiveRanker(half_life=(1000,)), "half_life"),
        (lambda model, x, y: AdditiveRanker(half_life=(1000, 0)), r"half_life\[1\]"),
    ],
)
def test_what_it_cannot_do_is_an_error_that_says_so(call, message):
    model = AdditiveRanker()
    for x, y in documents(10):
        model.learn_one(x, y)
    with pytest.raises((TypeError, ValueError), match=message):
        call(model, x, y)


@pytest.mark.parametrize("seed", range(10))
def test_bounds_hold_on_streams_that_grade_against_what_is_served(seed):
    rng, model = np.random.default_rng(seed), AdditiveRanker()
    for _ in range(60):
        X = np.exp(rng.normal(size=(int(rng.integers(2, 12)), 3)))
        scores = np.array(model.predict_one(X)) if model.n_features else np.zeros(len(X))
        y = np.zeros(len(X), dtype=np.int64)
        y[np.argmin(scores)] = int(rng.integers(1, 4))
        model.learn_one(X, y, w=float(rng.choice([0.5, 1.0])))
    certificate = certificate_of(model)
    assert certificate.holds
    # The mass theorem for the last weights, at u = 0, where F is V.
    assert model.candidate_losses[0] <= model.mass + 1e-9


@pytest.mark.parametrize("relative", [True, False])
def test_it_has_a_closed_form_also_for_missing_values(relative):
    model = AdditiveRanker(relative=relative)
    for X, y in queries(60, missing=0.2):
        model.learn_one(X, y)
    np.testing.assert_allclose(of_form(form_of(model), X), model.predict_one(X), rtol=1e-4, atol=1e-5)


def test_equal_scores_have_no_scale():
    """What rounding leaves of their deviations was learned as one, and made the scale of a member smaller by .5 % a query."""
    model = AdditiveRanker()
    for X, y in NoisyTeacher(n_queries=30, n_features=5, n_documents=12, seed=3):
        model.learn_one(X, y)
    before = model._sigmas().copy()
    rng = np.random.default_rng(0)
    for _ in range(20):
        model.learn_one(np.tile(rng.normal(size=5), (7, 1)), [0, 1, 2, 0, 1, 2, 0])
    assert np.array_equal(model._sigmas(), before)


def test_a_weight_that_is_too_large_is_refused_with_an_empty_query_too():
    model = AdditiveRanker()
    with pytest.raises(ValueError, match=r"a query without documents, of weight 1e\+300, would make AdditiveRanker non-finite"):
        model.learn_one([], [], 1e300)
    assert model.n_features == 0


@pytest.mark.parametrize("m", [0, 3])
def test_no_kernel_is_compiled_again_for_a_first_query_without_documents(m, monkeypatch):
    """Numba compiles a kernel for arrays that may be written to, and again for others: discounts are always read-only."""
    learn, met = additive.kernels.learn, []

    def watched(*given):
        met.append(given[4].flags.writeable)
        return learn(*given)

    monkeypatch.setattr(additive.kernels, "learn", watched)
    AdditiveRanker(trees=0).learn_one(np.ones((m, 2)), [0, 1, 2][:m])
    assert met == [False]
