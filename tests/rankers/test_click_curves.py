"""ClickCurves: its columns by hand, what texts, levels, dates and vectors teach it, and that it is saved and undone."""

import datetime as dt

import numpy as np
import pytest

from online_rank import ClickCurves, PlackettLuce, load, save
from online_rank._kernels import curves
from online_rank.base.reader import read_for
from online_rank.feedback import Impression
from online_rank.rankers import click_curves
from online_rank.rankers.click_words import ClickWords
from online_rank.rankers.frozen import FrozenRanker


def taught(model, n, documents, wanted, context=None):
    """The model after clicks on the wanted documents of lists in random order."""
    rng = np.random.default_rng(7)
    for i in range(n):
        query = documents(i, rng)
        shown = Impression(tuple(rng.permutation([*query]).tolist()))
        model.learn_one(query, shown.clicked([d for d in shown.order if wanted(query[d])]), context=context)
    return model


def test_wide_ramps_are_three_ramps_of_the_grid_together():
    g = np.linspace(-3.0, 3.0, 61)
    ends = curves.FIRST + (curves.RISES - 1) * curves.STEP + curves.STEP * np.arange(curves.N_RAMPS)
    narrow = [np.clip((g - end) / curves.STEP, 0, 1) - np.clip(-end / curves.STEP, 0, 1) for end in ends]
    for k, begin in enumerate(click_curves._BEGIN):
        wide = np.clip((g - begin) / click_curves._LONG, 0, 1) - np.clip(-begin / click_curves._LONG, 0, 1)
        np.testing.assert_allclose(wide, sum(narrow[3 * k : 3 * k + 3]) / 3, atol=1e-12)


def test_scores_are_the_sum_of_the_columns_that_were_learned():
    def documents(i, rng):
        return {d: {"score": float(rng.normal()), "price": None if rng.random() < 0.3 else float(rng.normal()),
                    "brand": "abc"[rng.integers(3)]} for d in "pqrs"}  # fmt: skip

    model = taught(ClickCurves({"score": 1.0}), 60, documents, lambda x: x["brand"] == "a" or (x["price"] or 0) > 1)
    query = documents(0, np.random.default_rng(99))
    scores = model.predict_one(query)
    X = model._reader.align(model, read_for(model, query)).X
    _, rows = model._score_rows(np.ascontiguousarray(X, dtype=np.float64), np.array([0, 4]))
    by_columns = model._columns_made(rows, None, np.arange(4)) @ model._ridge.weights
    found = np.array([*scores.values()])
    # Missing values are -1 in a column, and presence is 1 in a curve: all scores differ by the same number.
    np.testing.assert_allclose(found - found[0], by_columns - by_columns[0], atol=1e-5)
    told = model.explain_one(query, "p", "q")
    assert told.difference == pytest.approx(scores["p"] - scores["q"])
    assert sum(told.contributions.values()) == pytest.approx(told.difference, abs=1e-5)
    assert {*told.contributions} <= {"score", "price", "brand"}


def test_before_the_first_click_it_ranks_by_today_and_texts_are_no_error():
    model = ClickCurves({"score": 1.0, "rank": -1.0})
    query = {"a": {"score": 1.0, "rank": 1, "title": "x"}, "b": {"score": 1.0, "rank": 0, "title": "y"}}
    assert model.predict_one(query) == {"a": 0.0, "b": 0.0}  # Nothing is known of the scales.
    model.learn_one(query, Impression(("a", "b")).clicked([]))
    assert model.rank_one(query) == ["b", "a"]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (lambda rng: {"brand": ["acme", "other", "third"][rng.integers(3)]}, lambda x: x["brand"] == "acme"),
        (lambda rng: {"rating": None if rng.random() < 0.5 else 3.0 + rng.random()}, lambda x: x["rating"] is None),
        (lambda rng: {"price": float(rng.normal())}, lambda x: abs(x["price"]) < 0.5),
        (lambda rng: {"day": (dt.date(2026, 1, 1) + dt.timedelta(days=int(rng.integers(90)))).isoformat()},
         lambda x: x["day"] > "2026-03-01"),
        (lambda rng: {"title": f"{'red' if rng.random() < 0.5 else 'blue'} shoe number {rng.integers(10_000)}"},
         lambda x: x["title"].startswith("red")),
    ],
    ids=["category", "missing", "curve", "date", "words"],
)  # fmt: skip
@pytest.mark.slow
def test_it_learns_what_numbers_alone_do_not_say(value, wanted):
    def documents(i, rng):
        return {f"d{j}": {"score": float(rng.normal()), **value(rng)} for j in range(6)}

    model = taught(ClickCurves({"score": 1.0}), 300, documents, wanted)
    rng = np.random.default_rng(5)
    pairs = []
    for i in range(100):
        query = documents(i, rng)
        order = model.rank_one(query)
        marks = [wanted(query[d]) for d in order]
        pairs += [marks[a] and not marks[b] for a in range(6) for b in range(a + 1, 6) if marks[a] != marks[b]]
    assert np.mean(pairs) > 0.85


@pytest.mark.slow
def test_vectors_and_a_text_of_the_query_are_learned():
    rng = np.random.default_rng(3)
    q = rng.normal(size=4)

    def documents(i, rng):
        return {f"d{j}": {"score": 0.0, "e": (q * (j < 2) + rng.normal(size=4)).tolist()} for j in range(6)}

    model = ClickCurves({"score": 1.0})
    for i in range(80):
        query = documents(i, rng)
        shown = Impression(tuple(rng.permutation([*query]).tolist()))
        model.learn_one(query, shown.clicked([d for d in shown.order if d in ("d0", "d1")]), context={"e": q.tolist()})
    first = [model.rank_one(documents(i, rng), context={"e": q.tolist()})[0] for i in range(60)]
    assert np.mean([d in ("d0", "d1") for d in first]) > 0.6
    assert "e cosine" in model.feature_names


def test_columns_stay_within_the_limit_and_features_come_first(monkeypatch):
    monkeypatch.setattr(ClickCurves, "max_columns", 40)
    monkeypatch.setattr(click_curves, "_LEFT_BY_RANKS", 5)
    monkeypatch.setattr(click_curves, "_LEFT_BY_RAMPS", 10)

    def documents(i, rng):
        return {d: {f"x{j}": float(rng.normal()) for j in range(20)} for d in "pqr"}

    model = taught(ClickCurves(), 6, documents, lambda x: x["x0"] > -1.0)
    # 20 of g, ranks up to 35 in all, and no ramps beyond 30.
    assert (model.n_columns, (model._taken[:, 0] >= 0).sum(), (model._taken[:, 1] >= 0).sum()) == (35, 20, 15)
    more = {d: {**{f"x{j}": 1.0 * j for j in range(20)}, "y": i} for i, d in enumerate("pqr")}
    model.learn_one(more, Impression(("p", "q")).clicked(["p"]))
    assert model.n_columns == 36


def test_the_features_of_one_query_do_not_take_the_room_of_all_others():
    """One list with 1,000 invented features took all 512 columns: nothing more was learned of any other feature."""

    def documents(i, rng):
        return {d: {f"x{j}": float(rng.normal()) for j in range(4)} for d in "pqr"}

    model = ClickCurves()
    junk = {d: {f"junk {j}": float(i * j % 7) for j in range(1000)} for i, d in enumerate("pqr")}
    model.learn_one(junk, Impression(("p", "q", "r")).clicked(["q"]))
    assert model.n_columns == 256
    taught(model, 30, documents, lambda x: x["x0"] > 0.0)
    names = model.feature_names
    # A line, a rank and five ramps for each.
    assert (model._taken[[names.index(f"x{j}") for j in range(4)]][:, [0, 1, 3, 4, 5, 6, 7]] >= 0).all()


@pytest.mark.slow
def test_it_is_saved_continues_to_the_bit_and_refused_queries_change_nothing(tmp_path):
    def documents(i, rng):
        title = f"{'red' if rng.random() < 0.5 else 'blue'} shoe number {rng.integers(10_000)}"
        return {f"d{j}": {"score": float(rng.normal()), "title": title, "kind": "ab"[j % 2]} for j in range(5)}

    model = taught(ClickCurves({"score": 1.0}, policy=PlackettLuce(3, keep=0.9)), 60, documents, lambda x: x["kind"] == "a")
    save(model, tmp_path / "m.npz")
    again = load(tmp_path / "m.npz")
    query = documents(0, np.random.default_rng(1))
    assert again.predict_one(query) == model.predict_one(query)
    bad = {**query, "d0": {"score": float("inf")}}
    for each in (model, again):
        with pytest.raises(ValueError, match=r"d0.*score|score.*d0"):
            each.learn_one(bad, Impression(("d0", "d1")).clicked(["d0"]))
    for each in (model, again):
        taught(each, 10, documents, lambda x: x["kind"] == "a")
    assert again.predict_one(query) == model.predict_one(query)


def test_sparse_rows_and_bad_settings_are_refused():
    with pytest.raises(ValueError, match="ClickRidge takes rows"):
        ClickCurves().learn_one([{f"w{i}": 1.0} for i in range(60)], Impression((0, 1)).clicked([0]))
    for given in ((1.0,), {}, {"x": float("nan")}):
        with pytest.raises((TypeError, ValueError), match="today"):
            ClickCurves(given)


def test_words_wait_for_twenty_lists_and_those_without_a_column_leave(monkeypatch):
    words = ClickWords()
    for _ in range(19):
        words.meet(np.array([5, 5, 3]))
    assert words.wanted(9).tolist() == []
    words.meet(np.array([5]))
    assert words.wanted(9).tolist() == [5]
    words.give(np.array([5]), 4)
    words.follow(np.array([0.0, 0.0, 0.0, 0.0, 2.5]))
    assert (words.weights_of(np.array([5, 3, 8])).tolist(), words.columns_of(np.array([3, 5])).tolist()) == (
        [2.5, 0.0, 0.0],
        [-1, 4],
    )
    monkeypatch.setattr("online_rank.rankers.click_words._MOST", 4)
    words.meet(np.array([10, 11, 12, 13]))
    # Half of the five without a column leave, of those that one list showed.
    assert (len(words._keys), words.rows_of(np.array([3]))[0] >= 0, words.n_words) == (4, True, 1)


def test_a_frozen_model_ranks_as_it_did_draws_and_learns_nothing():
    from online_rank import AdditiveRanker

    inner = AdditiveRanker()
    query = {"a": {"x": 1.0, "brand": "p"}, "b": {"x": 2.0, "brand": "q"}, "c": {"x": None}}
    for _ in range(5):
        inner.learn_one(query, {"a": 2, "b": 0, "c": 1})
    model = FrozenRanker(inner, policy=PlackettLuce(3, keep=0.9, seed=1))
    before = model.predict_one(query)
    assert before == inner.predict_one(query)
    model.learn_one(query, model.show_one(query).clicked(["b"]))
    assert (model.predict_one(query), model.n_shown, model.keep) == (before, 1, 0.9)
    assert model.explain_one(query, "a", "b").difference == pytest.approx(before["a"] - before["b"])
    with pytest.raises(TypeError, match="ranker is"):
        FrozenRanker(3)
