"""BoostedRanker: residuals, trees and their growth, against plain loops."""

import collections
import copy
import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import BoostedRanker, PerceptronRanker, StreamQuantileMap
from online_rank._kernels import trees as kernels
from online_rank.base.draws import counted_generator
from online_rank.base.schema import declared_state
from online_rank.metrics import NDCG
from online_rank.query import read_query
from online_rank.rankers import boosted, growing
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.stream.synth import NoisyTeacher
from tests.helpers import mismatches
from tests.reference import trees as reference


def queries(n, d=6, m=(5, 20), seed=0):
    """Grades follow a bump in one feature and a step in another."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        X = rng.normal(size=(rng.integers(*m), d))
        yield X, ((np.abs(X[:, 0]) < 0.7) + (X[:, 1] > 0.3) * 1 + (rng.random(len(X)) < 0.1)).astype(np.int64)


def taught(n, **parameters):
    model = BoostedRanker(**parameters)
    for X, y in queries(n):
        model.learn_one(X, y)
    return model


@settings(max_examples=80)
@given(st.lists(st.tuples(st.floats(-300.0, 300.0), st.integers(0, 4)), min_size=1, max_size=9))
def test_residuals(documents):
    s, y = np.array([s for s, _ in documents]), np.array([y for _, y in documents])
    gh = np.full((len(y) + 3, 4), np.nan)
    offsets, used = np.array([0, len(y), len(y) + 3]), np.array([1, 0], dtype=np.uint8)
    s, grades = np.append(s, [1.0, 2.0, 3.0]), np.append(y, [0, 1, 2])
    kernels.residuals(s, grades, np.array([2.0, 1.0]), offsets, used, 0, 2, gh)
    first, second = reference.residuals(s[:-3].tolist(), y.tolist(), 2.0)
    assert gh[: len(y), 0] == pytest.approx(first, rel=1e-9, abs=1e-9)
    assert gh[: len(y), 1].tolist() == second
    assert gh[len(y) :].tolist() == [[0.0, 0.0, 1.0, 0.0]] * 3


def test_residuals_by_hand():
    """Grades 0, 0, 3, 1 have mean 1 and deviation sqrt(6/4); scores 1e9 apart are clipped."""
    gh, offsets, used = np.empty((4, 4)), np.array([0, 4]), np.ones(1, dtype=np.uint8)
    y, one = np.array([0, 0, 3, 1]), np.ones(1)
    kernels.residuals(np.array([3.0, 1.0, 0.0, 0.0]), y, one, offsets, used, 0, 1, gh)
    unit = 1.0 / np.sqrt(1.5)
    assert gh[:, 0] == pytest.approx([-unit - 2.0, -unit, 2.0 * unit + 1.0, 1.0])
    kernels.residuals(np.array([1e9, -1e9, 0.0, 0.0]), y, one, offsets, used, 0, 1, gh)
    assert gh[:2, 0].tolist() == [-1e6, 1e6]


def test_bins():
    X = np.array([[-1e300, -2.61, -2.6, 0.0, 2.59, 2.6, 1e300]])
    bins = np.empty(X.shape, dtype=np.uint8)
    assert kernels.to_bins(X, -2.6, 5.2 / 62, 64, bins)
    assert bins.tolist() == [[0, 0, 1, 32, 62, 63, 63]]
    for bad in (np.nan, np.inf):
        assert not kernels.to_bins(np.array([[0.0, bad]]), -2.6, 5.2 / 62, 64, bins[:, :2])


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 200])
def test_documents_that_go_down_trees_side_by_side(n):
    """As one after the other, from the scores that they have."""
    rng = np.random.default_rng(n)
    bins, scores = rng.integers(0, 64, (n, 5), dtype=np.uint8), rng.normal(size=n + 2)
    features, thresholds, leaves = rng.integers(0, 5, (7, 7)), rng.integers(0, 65, (7, 7)), rng.normal(size=(7, 8))
    expected = scores.tolist()
    for i, row in enumerate(bins.tolist()):
        for t in range(7):
            node = 0
            while node < 7:
                node = 2 * node + 1 + (row[features[t, node]] > thresholds[t, node])
            expected[i] = 0.9 * expected[i] + 0.5 * leaves[t, node - 7]
    kernels.score_trees(bins, features, thresholds, leaves, 0.9, 0.5, scores)
    assert scores.tolist() == expected


@pytest.mark.parametrize("page", [25, growing._PAGE])
def test_every_tree_equals_plain_loops(monkeypatch, page):
    """Compared with a slow ranker: the same draws, trees by trying every split, scores by adding tree after tree."""
    monkeypatch.setattr(growing, "_PAGE", page)
    monkeypatch.setattr(growing, "_LEAST_DOCUMENTS", 4)
    monkeypatch.setattr(BoostedRanker, "_share", 0.5)
    monkeypatch.setattr(boosted, "_REMEMBERED", 4)
    model = BoostedRanker(depth=2, window=10, rate=3.0, decay=0.1, learning_rate=0.5, seed=7)
    window, trees, due = [], [], 8.0

    def score(row, since=0):
        total = 0.0
        for columns, tree in trees[since:]:
            total = 0.9 * total + 0.5 * reference.value(tree, [row[c] for c in columns])
        return total

    pending, when = None, 0
    for n, (X, y) in enumerate(queries(40), start=1):
        bins = np.clip(np.floor((X + 2.6) / (5.2 / 62) + 1), 0, 63).astype(int)
        assert model.predict_one(X) == pytest.approx([score(row) for row in bins], abs=1e-9)
        model.learn_one(X, y)
        window.append((bins, y, [score(row) for row in bins]))
        # A tree counts once all of its steps are done; until it does, no other begins.
        if pending is not None and not declared_state(model).pace:
            trees.append(pending)
            pending = None
            window = [(b, grades, [score(row) for row in b]) for b, grades, _ in window]
        while n >= due:
            assert pending is None
            due *= 1 + 1 / 3
            window = window[-10:]
            rng = counted_generator(model, 7, when)
            when += 1
            recent = np.concatenate([b for b, _, _ in window[-8:]])[-64:].tolist()
            hashes = [sum(0x9E3779B97F4A7C55 ** (i + 1) * row[c] for i, row in enumerate(recent)) % 2**64 for c in range(6)]
            order = sorted(range(6), key=hashes.__getitem__)
            splits = collections.Counter(c for columns, tree in trees[-4:] for c in reference.columns_of(tree, columns))
            chances = [0.3 / 6 + 0.7 * splits[c] / splits.total() if splits else 1 / 6 for c in order]
            arrivals = (rng.standard_exponential(6) / chances).tolist()
            columns = np.array(order)[sorted(sorted(range(6), key=arrivals.__getitem__)[:3])]
            used = rng.choice(len(window), max(1, round(0.8 * len(window))), replace=False)
            g, h, rows, all_bins = [], [], [], []
            for q, (b, grades, scores) in enumerate(window):
                first, second = reference.residuals(scores, grades.tolist())
                rows += list(range(len(g), len(g) + len(b))) if q in used else []
                g, h, all_bins = g + first, h + second, all_bins + b[:, columns].tolist()
            pending = columns, reference.grow(all_bins, rows, g, h, 2, 4, 64)
            if not declared_state(model).pace:
                trees.append(pending)
                pending = None
                window = [(b, grades, [score(row) for row in b]) for b, grades, _ in window]
    assert model.n_trees == len(trees) > 4


def ndcg(model, seed=9):
    metric = NDCG(k=10)
    for X, y in queries(60, m=(30, 40), seed=seed):
        metric.update(y, model.predict_one(X))
    return metric.get()


@pytest.mark.slow
def test_it_learns_what_no_linear_ranker_can():
    trees, linear = taught(150), PerceptronRanker()
    for X, y in queries(150):
        linear.learn_one(X, y)
    assert ndcg(trees) > ndcg(linear) + 0.1
    importance = trees.importance
    assert set(np.argsort(importance)[-2:]) == {0, 1}


def test_growth_is_spread_over_queries_and_costs_about_the_same_each(monkeypatch):
    model = BoostedRanker(window=32, depth=3, rate=8.0)
    steps, take = [], growing.Growth.take

    def counted(*arguments):
        steps[-1] += 1
        take(*arguments)

    monkeypatch.setattr(growing.Growth, "take", counted)
    for X, y in queries(400):
        steps.append(0)
        model.learn_one(X, y)
    # A page of queries and 3 levels of one part of columns: 4 steps and the end, at most two a query once trees are rare.
    assert max(steps[100:]) <= 2
    assert sum(steps) == pytest.approx(4 * declared_state(model).n_grown, abs=8)
    assert declared_state(model).n_grown == pytest.approx(np.log(400 / 8) / np.log(1 + 1 / 8), abs=2)


def test_trees_grow_at_the_longest_gap_and_old_ones_are_dropped():
    """From 4 `rate` queries on, one every 4; of 5 times 1/decay trees the oldest go."""
    model, grown = BoostedRanker(window=20, depth=2, rate=10.0, decay=0.2, longest_gap=4), []
    for X, y in queries(200):
        model.learn_one(X, y)
        grown.append(declared_state(model).n_grown + (declared_state(model).pace > 0))
    assert set(np.diff(grown[60::4]).tolist()) == {1}
    assert model.n_trees == 25
    ever_slower = taught(200, window=20, depth=2, rate=10.0, decay=0.2)
    assert ever_slower.n_trees == declared_state(ever_slower).n_grown < declared_state(model).n_grown


@pytest.mark.parametrize("page", [25, growing._PAGE])
def test_a_copy_and_a_file_in_the_middle_of_a_tree_continue_with_the_same_bits(monkeypatch, page):
    monkeypatch.setattr(growing, "_PAGE", page)
    stream = list(queries(260))
    model, met = BoostedRanker(window=40, rate=6.0), 0
    for t, (X, y) in enumerate(stream[:200]):
        model.learn_one(X, y)
        if t > 150 and declared_state(model).step > 0 and met < 2:
            met += 1
            for twin in (from_bytes(to_bytes(model)), copy.deepcopy(model)):
                one = copy.deepcopy(model)
                for query in stream[200:260]:
                    twin.learn_one(*query)
                    one.learn_one(*query)
                assert to_bytes(twin) == to_bytes(one)
    assert met == 2


def test_a_query_that_was_ranked_is_not_scored_again(monkeypatch):
    """Ranked, then learned: its trees are walked once; not so once others grew, or for another query."""
    model, calls, score = taught(60, window=20, rate=5.0, longest_gap=50), [], kernels.score_trees
    monkeypatch.setattr(boosted.kernels, "score_trees", lambda *arguments: (calls.append(len(arguments[0])), score(*arguments)))
    twin, (X, y), (Z, z) = copy.deepcopy(model), *queries(2, m=(9, 10), seed=4)
    expected = twin.predict_one(X)
    calls.clear()
    model.predict_one(Z)
    assert model.predict_one(X) == model.predict_one(X.copy()) == expected
    model.learn_one(X, y)
    assert calls == [9, 9]
    twin.learn_one(X, y)
    grown = model.n_trees
    while model.n_trees == grown:
        model.learn_one(Z, z)
        twin.learn_one(Z, z)
    fresh = from_bytes(to_bytes(model)).predict_one(Z)
    assert model.predict_one(Z) == twin.predict_one(Z) == fresh
    # What it answered is the caller's.
    block = read_query(Z, z)
    model._score_all(block)[:] = 7.0
    assert model.predict_one(Z) == fresh


def test_an_undone_block_leaves_the_growing_tree_as_it_was():
    stream = list(queries(120))
    model = taught(100, window=40, rate=6.0)
    twin, before = copy.deepcopy(model), to_bytes(model)
    X, y = np.concatenate([X for X, _ in stream[100:]]), np.concatenate([y for _, y in stream[100:]])
    qid = np.repeat(np.arange(20), [len(y) for _, y in stream[100:]])
    bad = X.copy()
    bad[-1, 0] = np.nan
    with pytest.raises(ValueError, match="feature 0 of document"):
        model.learn_many(bad, y, qid)
    assert to_bytes(model) == before
    other = list(queries(20, seed=5))
    for query in [*other, *stream[100:]]:
        model.learn_one(*query)
        twin.learn_one(*query)
    assert to_bytes(model) == to_bytes(twin)


@pytest.mark.slow
def test_the_window_is_bounded_in_queries_and_bytes(monkeypatch):
    model = taught(300, window=20, rate=50.0)
    assert len(declared_state(model).lengths) == 20
    assert [len(page) for page in declared_state(model).bins[:1]] == [len(declared_state(model).scores[0])]
    monkeypatch.setattr(growing, "_PAGE", 30)
    paged = taught(300, window=20, rate=50.0)
    pages = declared_state(paged).bins[: paged._n_pages]
    assert all(len(page) >= 30 for page in pages[1:-1])
    assert len(pages) > 3
    np.testing.assert_array_equal(np.concatenate(pages), declared_state(model).bins[0])
    assert len(declared_state(model).scores) <= 1 + 300 / 50
    monkeypatch.setattr(BoostedRanker, "_most_bytes", 600)
    model = taught(60, window=40)
    assert 100 - 20 < len(declared_state(model).grades[0]) <= 100
    assert len(declared_state(model).grades) <= 2


def test_old_trees_go(monkeypatch):
    monkeypatch.setattr(BoostedRanker, "_max_trees", 10)
    model = taught(60)
    assert model.n_trees == 10
    assert declared_state(model).n_grown > 100


def test_queries_without_anything_to_learn():
    model = taught(30)
    before = to_bytes(model)
    model.learn_one(np.ones((3, 6)), [1, 1, 1])
    model.learn_one(np.ones((1, 6)), [1])
    model.learn_one(np.ones((2, 6)), [1, 0], w=0.0)
    model._last_round = from_bytes(before)._last_round
    assert to_bytes(model) == before


def test_late_features_were_zero():
    late, always = BoostedRanker(window=20, rate=5.0), BoostedRanker(window=20, rate=5.0)
    for t, (X, y) in enumerate(queries(60)):
        names = "abcdef" if t > 30 else "abcde"
        late.learn_one([dict(zip(names, row, strict=False)) for row in X.tolist()], y)
        always.learn_one(np.column_stack([X[:, :5], X[:, 5] * (t > 30)]), y) if t > 30 else None
        if t == 31:
            column = np.concatenate(declared_state(late).bins)[:, 5]
            assert (column[: -len(y)] == 32).all()
            assert (column[-len(y) :] != 32).any()
    assert late.feature_names == tuple("abcdef")
    assert set(late.importance) == set("abcdef")


def window(name, value):
    return lambda model: setattr(model, name, (value, *getattr(model, name)[1:]))


@pytest.mark.first(11)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: declared_state(m).features.__setitem__((0, 0), 6), "a feature that does not exist"),
        (lambda m: declared_state(m).features.__setitem__((0, 0), -1), "_features has entries outside 0"),
        (lambda m: declared_state(m).thresholds.__setitem__((0, 0), 65), "_thresholds has entries outside 0 to 64"),
        (lambda m: declared_state(m).leaves.__setitem__((0, 0), np.nan), "_leaves has entries that are not finite"),
        (lambda m: setattr(m, "_leaves", declared_state(m).leaves[1:]), "_leaves should be an array"),
        (lambda m: setattr(m, "_features", declared_state(m).features[:, :3]), "_features should be an array"),
        (lambda m: setattr(m, "_features", declared_state(m).features.astype(np.int32)), "_features should be an array int64"),
        (window("_bins", np.zeros((3, 6), dtype=np.int8)), r"_bins\[0\] should be an array uint8"),
        (lambda m: declared_state(m).bins[0].__setitem__((0, 0), 64), r"_bins\[0\] has entries outside"),
        (window("_bins", np.zeros((3, 6), dtype=np.uint8)), "a page of the window ends within a query"),
        (lambda m: setattr(m, "_bins", (*declared_state(m).bins[:-1], declared_state(m).bins[-1][1:])), "different lengths"),
        (lambda m: setattr(m, "_bins", declared_state(m).bins[:-1]), "different lengths"),
        (lambda m: declared_state(m).lengths.__setitem__(0, declared_state(m).lengths[0] + 1), "different lengths"),
        (lambda m: setattr(m, "_bins", ()), "lacks its documents' bins or scores"),
        (lambda m: vars(m).update(_scores=(), _grades=(), _query_weights=()), "lacks its documents' bins or scores"),
        (lambda m: setattr(m, "_lengths", np.append(declared_state(m).lengths, [2**62] * 4)), "different lengths"),
        (lambda m: declared_state(m).lengths.__setitem__(0, 0), "_lengths has entries outside"),
        (
            lambda m: setattr(m, "_lengths", np.append(declared_state(m).lengths[:-2], declared_state(m).lengths[-2:].sum())),
            "one weight for each query",
        ),
        (lambda m: declared_state(m).grades[0].__setitem__(0, -1), r"_grades\[0\] has entries outside"),
        (window("_scores", np.full(3, np.inf)), "not finite"),
        (window("_query_weights", np.full(20, np.nan)), r"_query_weights\[0\] has entries that are not finite"),
        (window("_query_weights", np.zeros(20)), r"_query_weights\[0\] has entries outside"),
        (window("_query_weights", np.full(20, 1.7e308)), r"_query_weights\[0\] has entries outside"),
        (window("_query_weights", np.ones(19)), "one weight for each query"),
        (window("_scores", np.full(3, 1e155)), r"_scores\[0\] has entries outside"),
        (lambda m: declared_state(m).leaves.__setitem__((0, 0), 1e155), "_leaves has entries outside"),
        (lambda m: setattr(m, "_grades", declared_state(m).grades[1:]), "_grades should be a tuple of"),
        (lambda m: setattr(m, "_scores", declared_state(m).scores[1:]), "_grades should be a tuple of"),
        (lambda m: setattr(m, "_due", 0.0), "_due should be a number from 8"),
        (lambda m: setattr(m, "_due", 20.0), "a tree is overdue"),
        (lambda m: setattr(m, "_due", np.inf), "_due should be a number"),
        (lambda m: setattr(m, "_step", 10**6), "does not fit the window"),
        (lambda m: setattr(m, "_pace", 0), "does not fit the window"),
    ],
)
def test_state_that_kernels_could_not_take_is_refused(change, message):
    model = taught(90, window=20, rate=5.0)
    assert declared_state(model).pace
    assert mismatches(model) == []
    change(model)
    assert re.search(message, mismatches(model)[0])


def test_bad_parameters():
    for parameters, message in [
        ({"window": 3}, "window is 3"),
        ({"depth": 0}, "depth is 0"),
        ({"depth": 7}, "depth is 7"),
        ({"rate": 0.5}, "rate is"),
        ({"rate": 1e300}, "rate is"),  # A query had no end: the next tree was due at once.
        ({"decay": 1.0}, "decay is"),
        ({"learning_rate": 0.0}, "learning_rate is"),
        ({"learning_rate": 1.5}, "learning_rate is"),
    ]:
        with pytest.raises(ValueError, match=message):
            BoostedRanker(**parameters)


@pytest.mark.slow
def test_behind_the_map_units_do_not_matter():
    a, b = StreamQuantileMap() | BoostedRanker(), StreamQuantileMap() | BoostedRanker()
    for X, y in itertools.islice(queries(60), 60):
        a.learn_one(X, y)
        b.learn_one(2.0**30 * X, y)
    X, _ = next(queries(1, seed=3))
    assert a.predict_one(X) == b.predict_one(2.0**30 * X)


def test_a_weight_whose_squares_overflow_is_refused():
    """It made leaves infinite, and scores that are no numbers led the sort out of its arrays."""
    rng = np.random.default_rng(0)
    model = BoostedRanker()
    for t in range(40):
        X, y = rng.normal(size=(12, 4)), rng.integers(0, 3, 12)
        if t == 5:
            with pytest.raises(ValueError, match="the weight of a query is at most 1e\\+100 for BoostedRanker"):
                model.learn_one(X, y, 1.7e308)
        model.learn_one(X, y, 1e100 if t % 7 == 0 else 1.0)
    assert np.isfinite(model.predict_one(X)).all()


def test_draws_have_the_salt_of_the_class():
    class Another(BoostedRanker):
        """The same under another name."""

    queries = list(NoisyTeacher(12, n_features=6, n_documents=30, seed=1))
    models = [BoostedRanker(depth=2, rate=5.0), BoostedRanker(depth=2, rate=5.0), Another(depth=2, rate=5.0)]
    for model in models:
        for X, y in queries:
            model.learn_one(X, y)
    X = queries[0][0]
    assert models[0].predict_one(X) == models[1].predict_one(X) != models[2].predict_one(X)
