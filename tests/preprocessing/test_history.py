import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import (
    AdditiveRanker,
    BlendRanker,
    ClickRidge,
    Clicks,
    History,
    Impression,
    LossTracker,
    PerceptronRanker,
    StreamScaler,
    SwapRanker,
    evaluate,
    load,
    save,
)
from online_rank.base.explain import feature_weights
from online_rank.base.schema import declared_state
from online_rank.base.undo import all_or_nothing
from online_rank.distributed import fork, mix
from online_rank.query import Runs, SparseRows, read_query
from online_rank.storage.files import from_bytes, to_bytes
from tests.reference.history import Impressions

DAY = 86_400.0
QUERY = {"a": {"brand": "acme", "price": 1.0}, "b": {"brand": "best", "price": 2.0}}


def features(step, x, **known):
    """The three features of each document."""
    made = step.transform_one(x, **known)
    documents = [*made.values()] if isinstance(made, dict) else made
    return [[document[name] for name in step.columns] for document in documents]


def state(step):
    return to_bytes(step)


def test_the_features_by_hand():
    step = History("brand", half_life="1d", examination=(1.0, 0.5), prior=2.0)
    assert step.columns == ("brand 1d impressions", "brand 1d rate", "brand 1d age")
    assert features(step, QUERY, at=0.0) == [[0.0, 0.0, 0.0]] * 2
    shown = Impression(("b", "a"))
    step.learn_one(QUERY, shown.clicked(["b"]), at=0.0)
    # b was shown first and clicked, a second; a day later both count half. Overall one click on 1.5 impressions.
    overall = 1.0 / 1.5
    assert features(step, QUERY, at=DAY) == [
        [pytest.approx(0.25), pytest.approx((0.0 + 2.0 * overall) / (0.25 + 2.0)), DAY],
        [pytest.approx(0.5), pytest.approx((0.5 + 2.0 * overall) / (0.5 + 2.0)), DAY],
    ]
    assert features(step, {"c": {"brand": "new"}}, at=DAY) == [[0.0, pytest.approx(overall), 0.0]]
    # What is missing has no key, and nothing changes when values are only asked for.
    assert features(step, {"c": {}}, at=DAY) == features(step, {"c": {"brand": None}}, at=DAY)
    assert step.n_keys == 2


def test_grades_count_all_documents_at_the_places_by_the_served_scores():
    step = History(half_life="1d", examination=(1.0, 0.5, 0.0), prior=1.0)
    x = {"a": {}, "b": {}, "c": {}}
    model = step | PerceptronRanker()
    model.learn_one({i: {"x": 1.0} for i in x}, {"a": 0, "b": 3, "c": 0}, served={"a": 1.0, "b": 2.0, "c": 0.0}, at=0.0)
    learned = model["History"]
    assert [row[0] for row in features(learned, x, at=0.0)] == [0.5, 1.0, 0.0]  # the third place is never examined
    assert features(learned, x, at=0.0)[1][1] == (3.0 + 3.0 / 1.5) / (1.0 + 1.0)
    learned.learn_one(x, {"a": 1, "b": 0, "c": 0}, at=0.0)  # no scores: all are examined
    assert [row[0] for row in features(learned, x, at=0.0)] == [1.5, 2.0, 1.0]


def test_the_ranker_learns_the_values_that_it_would_have_ranked_with():
    history, ranker = History("brand", half_life=50), PerceptronRanker()
    model = History("brand", half_life=50) | StreamScaler() | PerceptronRanker()
    by_hand = StreamScaler() | ranker
    rng = np.random.default_rng(0)
    for _ in range(30):
        x = [{"brand": int(b), "price": p} for b, p in zip(rng.integers(0, 4, 5), rng.random(5), strict=True)]
        y = rng.integers(0, 3, 5)
        kept = history.transform_one(x)
        assert model.predict_one(x) == by_hand.predict_one(kept)
        model.learn_one(x, y)
        by_hand.learn_one(kept, y)
        history.learn_one(x, y)
    assert state(model["History"]) == state(history)
    assert to_bytes(model["PerceptronRanker"]) == to_bytes(by_hand["PerceptronRanker"])


def stream(rng, n, n_brands=5, users=("u", "v")):
    """Queries with feedback, times that mostly rise, and users."""
    at = 1e6
    for _ in range(n):
        m = int(rng.integers(1, 6))
        ids = [f"d{i}" for i in rng.permutation(12)[:m]]
        x = {i: {"brand": f"b{rng.integers(n_brands)}", "price": float(rng.random())} for i in ids}
        for document in x.values():
            if rng.random() < 0.2:
                del document["brand"]
        at += float(rng.exponential(0.4)) * DAY
        own = at - (0.0 if rng.random() < 0.8 else float(rng.random()) * DAY)
        context = {"user": users[int(rng.integers(len(users)))] if rng.random() < 0.9 else None}
        shown = Impression(tuple(ids[: max(1, m - 1)]), positions=tuple(range(2, max(1, m - 1) + 2)))
        clicks = Clicks(shown, tuple((rng.random(len(shown.order)) < 0.4).astype(float)))
        graded = {i: int(g) for i, g in zip(ids, rng.integers(0, 3, m), strict=True)}
        yield x, (clicks if rng.random() < 0.5 else graded), context, own


def of(by, x, i, context):
    names = (by,) if isinstance(by, str) else by
    parts = tuple({"document": i, "user": context["user"]}.get(name, x[i].get(name)) for name in names)
    return None if None in parts else parts


@settings(max_examples=10)
@pytest.mark.filterwarnings("ignore:History")
@given(
    seed=st.integers(0, 10**6),
    by=st.sampled_from(["document", "brand", "user", ("user", "brand"), ("document", "user")]),
    half_life=st.sampled_from(["3h", "1d", "7d"]),
)
def test_it_is_the_sum_over_all_impressions(seed, by, half_life):
    theta = (1.0, 0.6, 0.25)
    seconds = {"3h": DAY / 8, "1d": DAY, "7d": 7 * DAY}[half_life]
    step, twin = History(by, half_life=half_life, examination=theta, prior=3.0), Impressions(seconds, 3.0, theta)
    latest = -np.inf
    for x, y, context, at in stream(np.random.default_rng(seed), 25):
        found = features(step, x, context=context, at=at)
        for i, row in zip(x, found, strict=True):
            assert row == pytest.approx(twin.features(of(by, x, i, context), max(at, latest)), rel=1e-9, abs=1e-12)
        step.learn_one(x, y, context=context, at=at)
        latest = max(at, latest)
        if isinstance(y, Clicks):
            order = y.impression.order
            twin.learn([of(by, x, i, context) for i in order], y.gains, [p - 1 for p in y.impression.positions], at)
        else:
            twin.learn([of(by, x, i, context) for i in x], [float(y[i]) for i in x], [None] * len(x), at)


def arrays(rng, n):
    """Queries of arrays with a category of numbers in column 2."""
    for t in range(n):
        m = int(rng.integers(1, 6))
        yield np.column_stack([rng.random(m), rng.integers(0, 7, m).astype(float)]), rng.integers(0, 3, m), 1e6 + 1e5 * t


@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), cut=st.integers(0, 20), max_keys=st.sampled_from([3, 100]))
@pytest.mark.filterwarnings("ignore:History")
def test_blocks_are_the_loop_bit_for_bit_and_copies_and_files_continue(seed, cut, max_keys):
    def make():
        return History("2", half_life="2d", max_keys=max_keys) | StreamScaler() | PerceptronRanker()

    queries = [*arrays(np.random.default_rng(seed), 20)]
    loop, blocks = make(), make()
    for X, y, at in queries:
        loop.learn_one(X, y, at=at)
    for part in (queries[:cut], queries[cut:]):
        if part:
            X, y = (np.concatenate([query[k] for query in part]) for k in (0, 1))
            qid = np.repeat(np.arange(len(part)), [len(query[1]) for query in part])
            blocks.learn_many(X, y, qid, at=[query[2] for query in part])
    assert to_bytes(blocks) == to_bytes(loop)
    twins = [copy.deepcopy(loop), pickle.loads(pickle.dumps(loop)), from_bytes(to_bytes(loop))]
    for X, y, at in arrays(np.random.default_rng(seed + 1), 5):
        for model in (loop, *twins):
            model.learn_one(X, y, at=at + 3e6)
    assert len({to_bytes(model) for model in (loop, *twins)}) == 1


def test_a_file_is_equal_to_the_bit(tmp_path):
    model = History(("user", "brand"), half_life="1d") | AdditiveRanker()
    for x, y, context, at in stream(np.random.default_rng(0), 30):
        if not isinstance(y, Clicks):
            model.learn_one(x, y, context=context, at=at)
    save(model, tmp_path / "model.npz")
    assert to_bytes(load(tmp_path / "model.npz")) == to_bytes(model)
    assert load(tmp_path / "model.npz")["History"].n_keys == model["History"].n_keys > 3


def test_sparse_rows_and_arrays_get_the_same_columns():
    X = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])
    rows = SparseRows(np.array([0, 1, 3]), np.array([1, 0, 2], np.int32), np.array([2.0, 1.0, 3.0]), 3)
    dense, sparse = History("2", half_life=10), History("2", half_life=10)
    for step, x in ((dense, X), (sparse, rows)):
        step.learn_one(x, [1, 0])
    made = sparse.transform_one(rows)
    np.testing.assert_array_equal(made.toarray(), dense.transform_one(X))
    np.testing.assert_array_equal(dense.transform_one(X)[:, :3], X)
    assert state(dense) == state(sparse)


class Refusal(Exception):
    pass


def learned_then_refused(step, block, known):
    """Learn a query as a part of changes, which are undone, with what is about to be learned `known` beforehand or not."""
    with all_or_nothing() as changes:
        changes.include(step, block if known else None)
        step._learn_block(block)
        raise Refusal


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), max_keys=st.sampled_from([2, 5, 1000]))
@pytest.mark.filterwarnings("ignore:History")
def test_nothing_is_half_learned(seed, max_keys):
    step = History("document", half_life="2h", max_keys=max_keys)
    queries = [*stream(np.random.default_rng(seed), 12)]
    for x, y, context, at in queries[:6]:
        step.learn_one(x, y, context=context, at=at)
    before = state(step)
    for x, y, context, at in queries[6:]:
        block = read_query(x, y, context=context, at=at, documents=True)
        for known in (True, False):
            with pytest.raises(Refusal):
                learned_then_refused(step, block, known)
            assert state(step) == before


def test_a_query_that_the_ranker_refuses_is_not_counted():
    model = History("brand", half_life=5) | StreamScaler() | PerceptronRanker()
    model.learn_one([{"brand": 1, "x": 1.0}, {"brand": 2, "x": 2.0}], [0, 1])
    before = to_bytes(model)
    with pytest.raises(ValueError, match="x"):
        model.learn_one([{"brand": 1, "x": float("nan")}, {"brand": 3, "x": 2.0}], [0, 1])
    assert to_bytes(model) == before


def test_keys_that_were_not_used_for_longest_leave_with_one_warning():
    step = History(half_life=100, max_keys=4)
    step.learn_one({i: {} for i in "abc"}, [1, 0, 0])
    step.learn_one({"a": {}, "d": {}}, [0, 1])
    with pytest.warns(UserWarning, match="has the most keys that it takes, 4"):
        step.learn_one({"e": {}}, [1])
    assert (step.n_keys, step.n_left) == (4, 1)  # b or c, which were used last at the same time: the one that came first
    assert [row[0] > 0.0 for row in features(step, {i: {} for i in "abcde"})] == [True, False, True, True, True]
    step.learn_one({i: {} for i in "vwxyz"}, [0] * 5)  # more than there is room for
    assert (step.n_keys, step.n_left) == (4, 6)


def test_feedback_that_is_too_old_to_count_raises_one_warning(recwarn):
    step = History(half_life="1d")
    step.learn_one({"a": {}}, [1], at=86_400.0 * 2000)
    step.learn_one({"a": {}}, [1], at=86_400.0 * 1970)
    for _ in range(2):
        step.learn_one({"b": {}}, [1], at=86_400.0)
    assert ["1999 half-lives older than the latest one" in str(each.message) for each in recwarn] == [True]
    by_hand = [1.0 + 2.0**-30, 0.0]
    assert [row[0] for row in features(step, {"a": {}, "b": {}}, at=86_400.0 * 2000)] == by_hand


def test_a_sixteenth_leaves_at_once():
    step = History(half_life=1e6, max_keys=32)
    for k in range(32):
        step.learn_one({f"d{k}": {}}, [1])
    with pytest.warns(UserWarning, match="n_left"):
        step.learn_one({"new": {}}, [1])
    assert (step.n_keys, step.n_left) == (30, 3)


def test_several_machines_add_up():
    def make():
        return History("brand", half_life="1d") | StreamScaler() | PerceptronRanker()

    rng = np.random.default_rng(3)
    queries = []
    for t in range(60):
        x = {f"d{t}-{i}": {"brand": float(rng.integers(6)), "price": float(rng.random())} for i in range(4)}
        queries.append((x, rng.integers(0, 3, 4), 1e6 + 4e4 * t))
    one, base = make(), make()
    for model in (one, base):
        for x, y, at in queries[:20]:
            model.learn_one(x, y, at=at)
    shards = [fork(base), fork(base)]
    for k, (x, y, at) in enumerate(queries[20:]):
        one.learn_one(x, y, at=at)
        shards[k % 2].learn_one(x, y, at=at)
    mixed = mix(shards, base)["History"]
    for x, _, _ in queries[-3:]:
        ours, theirs = (features(step, x, at=1e6 + 4e4 * 60) for step in (mixed, one["History"]))
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert declared_state(mixed).n_queries == declared_state(one["History"]).n_queries
    assert to_bytes(mix(shards, base)) == to_bytes(mix(shards, base))
    with pytest.raises(ValueError, match="half-life counts the queries of one machine"):
        fork(History("brand", half_life=5) | PerceptronRanker())


def test_keys_are_forgotten():
    step = History(("user", "brand"), half_life=10)
    for user in ("lovelace", "bob"):
        step.learn_one(QUERY, {"a": 1, "b": 0}, context={"user": user})
    expected = features(step, QUERY, context={"user": "bob"})
    assert step.forget("user", "lovelace") == 2
    assert step.forget("user", "lovelace") == step.forget("brand", "none") == step.forget("document", "a") == 0
    assert step.n_keys == 2
    assert b"lovelace" not in pickle.dumps(step)
    assert features(step, QUERY, context={"user": "bob"}) == expected
    assert [row[0] for row in features(step, QUERY, context={"user": "lovelace"})] == [0.0, 0.0]


def test_times_ahead_of_the_clock_are_set_back():
    step = History("brand", half_life="1d")
    step.learn_one(QUERY, {"a": 1, "b": 0}, at=100 * DAY)
    assert not step.set_back(200 * DAY)
    assert step.set_back(10 * DAY)
    assert features(step, QUERY, at=11 * DAY)[0] == pytest.approx([0.5, (0.5 + 20 * 0.5) / 20.5, DAY])


def test_numbers_texts_and_forms_of_unicode_are_one_key():
    step = History("k", half_life=100)
    for value in (7, 7.0, np.int64(7), np.float32(7.0)):
        step.learn_one([{"k": value}], [1])
    step.learn_one([{"k": "é"}], [1])
    step.learn_one([{"k": "e\u0301"}], [1])
    step.learn_one([{"k": float("nan")}], [1])
    assert step.n_keys == 2


def test_values_that_wait_are_used_and_kept():
    step = History("brand", half_life=100)
    step.learn_one(QUERY, {"a": 1, "b": 0})
    kept = {}
    block = read_query(QUERY, documents=True)._replace(remembered=kept)
    first = step._transform_block(block)
    step.learn_one(QUERY, {"a": 1, "b": 0})
    assert [x["brand 100 rate"] for x in step._transform_block(block).X] == [x["brand 100 rate"] for x in first.X]
    assert len(kept) == 1
    with pytest.raises(ValueError, match="what waits with the query is 6 numbers; 1 documents have 3"):
        step._transform_block(read_query({"a": {}}, documents=True)._replace(remembered=kept))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"by": ()}, "by is"),
        ({"by": ("a", "a")}, "by is"),
        ({"half_life": 0.5}, "half_life"),
        ({"half_life": "0.5s"}, "at least a second"),
        ({"half_life": "week"}, "half_life"),
        ({"examination": ()}, "examination"),
        ({"examination": (1.5,)}, "examination"),
        ({"examination": 0.5}, "examination is 0.5"),
        ({"examination": "ab"}, "examination is .ab"),
        ({"prior": 0.0}, "prior"),
        ({"max_keys": 0}, "max_keys"),
    ],
)
def test_bad_arguments(arguments, error):
    with pytest.raises((TypeError, ValueError), match=error):
        History(**arguments)


def test_bad_queries_are_refused_with_a_remedy():
    step = History("brand")
    with pytest.raises(ValueError, match=r"learn_one and learn_many need at="):
        step.learn_one(QUERY, {"a": 1, "b": 0})
    with pytest.raises(ValueError, match=r"documents have no ids.*give \{id: features\}"):
        History().transform_one([{"x": 1.0}])
    with pytest.raises(ValueError, match="'brand' is a feature and in the context"):
        step.transform_one(QUERY, context={"brand": "acme"})
    with pytest.raises(TypeError, match="feature 'brand' of document 'a' is of type list"):
        step.transform_one({"a": {"brand": ["x"]}})
    with pytest.raises(ValueError, match="called as one that"):
        step.transform_one({"a": {"brand 7d rate": 1.0}})
    with pytest.raises(TypeError, match="y is None"):
        step.learn_one(QUERY, at=0.0)
    with pytest.raises(TypeError, match="such a step goes in front of the whole"):
        BlendRanker([History("brand", half_life=9) | PerceptronRanker()]).learn_one([[1.0], [2.0]], [0, 1])
    with pytest.raises(ValueError, match="features must be finite"):
        step.transform_one({"a": {"brand": float("inf")}})


def test_a_stream_without_any_key_raises_one_warning(recwarn):
    step = History("brnd", half_life=9)
    for _ in range(2):
        step.learn_one(QUERY, {"a": 1, "b": 0})
    told = [str(each.message) for each in recwarn if issubclass(each.category, UserWarning)]
    assert len(told) == 1
    assert "has a key: give 'brnd' as a feature of each document, or in the context" in told[0]


def test_it_stands_before_every_kind_of_ranker():
    x = {"a": {"brand": 1.0, "x": 1.0}, "b": {"brand": 2.0, "x": 3.0}}
    for ranker in (AdditiveRanker(), BlendRanker([AdditiveRanker()]), LossTracker(PerceptronRanker())):
        model = History("brand", half_life="1d") | ranker
        for t in range(3):
            model.learn_one(x, {"a": 2, "b": 0}, at=float(t))
        assert model.rank_one(x, at=3.0) == ["a", "b"]
        assert model.explain_one(x, "a", "b", at=3.0).difference > 0.0
    model = History("brand", half_life="1d") | SwapRanker()
    for t in range(3):
        model.learn_one(x, model.show_one(x, at=float(t)).clicked(["a"]), at=float(t))
    assert model["History"].n_keys == 2


def test_what_it_adds_is_not_asked_of_queries():
    model = History("brand", half_life=9) | StreamScaler() | PerceptronRanker()
    for t in range(4):
        model.learn_one([{"brand": 1.0, "x": float(t)}, {"brand": 2.0, "x": 2.0 - t}], [0, 1])
    assert {*feature_weights(model)} <= {"brand", "x"} < {*model["StreamScaler"].feature_names}


def test_signs_of_features_hold_behind_it():
    model = History("brand", half_life="1d") | AdditiveRanker(signs={"price": -1})
    model.learn_one(QUERY, {"a": 0, "b": 2}, at=0.0)
    assert model.predict_one({"c": {"price": 1.0}, "d": {"price": 9.0}})["c"] >= 0.0


def test_progressive_evaluation_passes_times():
    lessons = [(QUERY, {"a": 1, "b": 0}, {"at": 1e3 * t}) for t in range(5)]
    model = History("brand", half_life="1h") | AdditiveRanker()
    evaluate.progressive(lessons, model, "ndcg@10", progress=False)
    assert declared_state(model["History"]).at == 4e3


def test_a_weight_whose_product_with_a_gain_is_infinite_is_refused():
    """The sums became infinite, and all rates NaN from then on, with a warning of NumPy alone."""
    model, query, shown = (
        History("document", half_life=10) | ClickRidge(),
        {"a": {"x": 1}, "b": {"x": 2}},
        Impression(("a", "b")),
    )
    with pytest.raises(ValueError, match="its product with the largest gain, 1e\\+200, is infinite"):
        model.learn_one(query, shown.clicked({"a": 1e200}), w=1e200)
    model.learn_one(query, shown.clicked(["a"]))
    assert np.isfinite(features(model["History"], query)).all()


def test_runs_pass_through():
    step = History("document", half_life=10)
    query = Runs({"bm25": {"a": 2.0, "b": 1.0}})
    step.learn_one(query, {"a": 1, "b": 0})
    assert step.n_keys == 2


def test_names_in_a_list_that_changes_later_stay_as_they_were():
    by = ["brand"]
    step = History(by, half_life=10)
    step.learn_one(QUERY, {"a": 0, "b": 1})
    before = features(step, QUERY)
    by.append("price")
    assert features(step, QUERY) == before
    again = from_bytes(to_bytes(step))
    assert (again.by, again.columns, features(again, QUERY)) == (("brand",), step.columns, before)
