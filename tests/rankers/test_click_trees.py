"""ClickTrees: trees and their growth, against plain loops."""

import collections
import copy
import re

import numpy as np
import pytest

from online_rank._kernels import trees as kernels
from online_rank.base.draws import counted_generator
from online_rank.base.schema import declared_state
from online_rank.query import read_query
from online_rank.rankers import click_growth, click_trees
from online_rank.rankers.click_trees import ClickTrees
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.stream.synth import NoisyTeacher
from tests.helpers import mismatches
from tests.reference import trees as reference


def queries(n, d=6, m=(5, 20), seed=0):
    """Clicks follow a bump in one feature and a step in another."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        X = rng.normal(size=(rng.integers(*m), d))
        yield X, ((np.abs(X[:, 0]) < 0.7) + (X[:, 1] > 0.3) * 1 + (rng.random(len(X)) < 0.1) > 1).astype(np.int64)


def taught(n, **parameters):
    model = ClickTrees(**parameters)
    for X, y in queries(n):
        model.learn_one(X, y)
    return model


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


@pytest.mark.parametrize("page", [25, click_growth._PAGE])
def test_every_tree_equals_plain_loops(monkeypatch, page):
    """Compared with a slow ranker: the same draws, trees by trying every split, scores by adding tree after tree."""
    monkeypatch.setattr(click_growth, "_PAGE", page)
    monkeypatch.setattr(click_growth, "_LEAST_DOCUMENTS", 4)
    monkeypatch.setattr(ClickTrees, "_share", 0.5)
    monkeypatch.setattr(click_trees, "_REMEMBERED", 4)
    # Leaves are shrunk by 50, and a click has a variance of at most a quarter.
    lists = [(X, y, 40.0) for X, y in queries(40)]
    model = ClickTrees(depth=2, window=10, rate=3.0, decay=0.1, learning_rate=0.5, seed=7)
    window, trees, due, odds, n = [], [], 8.0, np.full(100, -3.0), 0

    def score(row):
        total = 0.0
        for columns, tree in trees:
            total = 0.9 * total + 0.5 * reference.value(tree, [row[c] for c in columns])
        return total

    def finish(pending, number):
        """Add a tree; then the terms of positions take a step by the lists that it grew from."""
        trees.append(pending)
        rescored = [(b, y, [score(row) for row in b], w) for b, y, _, w in window]
        pushes, curves = np.zeros(100), np.zeros(100)
        for _, y, scores, w in rescored[:number]:
            for place, (g, h) in enumerate(zip(*reference.residuals(scores, y.tolist(), odds, w), strict=True)):
                pushes[place] += g
                curves[place] += h
        return rescored, odds + np.clip(pushes / (curves + 1.0), -1.0, 1.0)

    pending, number, when = None, 0, 0
    for X, y, w in lists:
        bins = np.clip(np.floor((X + 2.6) / (5.2 / 62) + 1), 0, 63).astype(int)
        assert model.predict_one(X) == pytest.approx([score(row) for row in bins], abs=1e-9)
        model.learn_one(X, y, w)
        window.append((bins, y, [score(row) for row in bins], w))
        n += bool(y.any())
        # A tree counts once all of its steps are done; until it does, no other begins.
        if pending is not None and not declared_state(model).pace:
            window, odds = finish(pending, number)
            pending = None
        while n >= due:
            assert pending is None
            due *= 1 + 1 / 3
            window = window[-10:]
            number = len(window)
            rng = counted_generator(model, 7, when)
            levels = 2 if when % 3 else 1
            when += 1
            recent = np.concatenate([b for b, *_ in window[-8:]])[-64:].tolist()
            hashes = [sum(0x9E3779B97F4A7C55 ** (i + 1) * row[c] for i, row in enumerate(recent)) % 2**64 for c in range(6)]
            order = sorted(range(6), key=hashes.__getitem__)
            splits = collections.Counter(c for columns, tree in trees[-4:] for c in reference.columns_of(tree, columns))
            chances = [0.3 / 6 + 0.7 * splits[c] / splits.total() if splits else 1 / 6 for c in order]
            arrivals = (rng.standard_exponential(6) / chances).tolist()
            columns = np.array(order)[sorted(sorted(range(6), key=arrivals.__getitem__)[:3])]
            used = rng.choice(len(window), max(1, round(0.8 * len(window))), replace=False)
            g, h, rows, all_bins = [], [], [], []
            for q, (b, clicks, scores, weight) in enumerate(window):
                first, second = reference.residuals(scores, clicks.tolist(), odds, weight)
                rows += list(range(len(g), len(g) + len(b))) if q in used else []
                g, h, all_bins = g + first, h + second, all_bins + b[:, columns].tolist()
            pending = columns, reference.grow(all_bins, rows, g, h, levels, 4, 64)
            if not declared_state(model).pace:
                window, odds = finish(pending, number)
                pending = None
    assert model.n_trees == len(trees) > 4
    assert model.positions == pytest.approx(odds)
    assert sum(isinstance(tree, tuple) for _, tree in trees) > 4


def test_growth_is_spread_over_queries_and_costs_about_the_same_each(monkeypatch):
    model = ClickTrees(window=32, depth=3, rate=8.0)
    steps, take = [], click_growth.Growth.take

    def counted(*arguments):
        steps[-1] += 1
        take(*arguments)

    monkeypatch.setattr(click_growth.Growth, "take", counted)
    for X, y in queries(400):
        steps.append(0)
        model.learn_one(X, y)
    # A page of queries and 3 levels of one part of columns: 4 steps and the end, at most two a query once trees are rare.
    assert max(steps[100:]) <= 2
    assert sum(steps) == pytest.approx(4 * declared_state(model).n_grown, abs=8)
    assert declared_state(model).n_grown == pytest.approx(np.log(400 / 8) / np.log(1 + 1 / 8), abs=2)


@pytest.mark.parametrize("page", [25, click_growth._PAGE])
def test_a_copy_and_a_file_in_the_middle_of_a_tree_continue_with_the_same_bits(monkeypatch, page):
    monkeypatch.setattr(click_growth, "_PAGE", page)
    stream = list(queries(260))
    model, met = ClickTrees(window=40, rate=6.0), 0
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
    model, calls, score = taught(60, window=20, rate=5.0), [], kernels.score_trees
    monkeypatch.setattr(kernels, "score_trees", lambda *given: (calls.append(len(given[0])), score(*given)))
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
    monkeypatch.setattr(click_growth, "_PAGE", 30)
    paged = taught(300, window=20, rate=50.0)
    pages = declared_state(paged).bins[: paged._n_pages]
    assert all(len(page) >= 30 for page in pages[1:-1])
    assert len(pages) > 3
    np.testing.assert_array_equal(np.concatenate(pages), declared_state(model).bins[0])
    assert len(declared_state(model).scores) <= 1 + 300 / 50
    monkeypatch.setattr(click_trees, "_MOST_BYTES", 600)
    model = taught(60, window=40)
    assert 100 - 20 < len(declared_state(model).grades[0]) <= 100
    assert len(declared_state(model).grades) <= 2


def test_old_trees_go(monkeypatch):
    monkeypatch.setattr(click_trees, "_MAX_TREES", 10)
    model = taught(60)
    assert model.n_trees == 10
    assert declared_state(model).n_grown > 100


def test_late_features_were_zero():
    late, always = ClickTrees(window=20, rate=5.0), ClickTrees(window=20, rate=5.0)
    for t, (X, y) in enumerate(queries(60)):
        names = "abcdef" if t > 30 else "abcde"
        late.learn_one([dict(zip(names, row, strict=False)) for row in X.tolist()], y)
        always.learn_one(np.column_stack([X[:, :5], X[:, 5] * (t > 30)]), y) if t > 30 else None
        if t == 31:
            column = np.concatenate(declared_state(late).bins)[:, 5]
            assert (column[: -len(y)] == 32).all()
            assert (column[-len(y) :] != 32).any()
    assert late.feature_names == tuple("abcdef")
    assert len(declared_state(late).gains) == 6


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
        (window("_bins", np.zeros((3, 6), dtype=np.uint8)), "a page of the window ends within a list"),
        (lambda m: setattr(m, "_bins", (*declared_state(m).bins[:-1], declared_state(m).bins[-1][1:])), "different lengths"),
        (lambda m: setattr(m, "_bins", declared_state(m).bins[:-1]), "different lengths"),
        (lambda m: declared_state(m).lengths.__setitem__(0, declared_state(m).lengths[0] + 1), "different lengths"),
        (lambda m: setattr(m, "_bins", ()), "lacks its documents' bins or scores"),
        (
            lambda m: vars(m).update(dict.fromkeys(("_scores", "_grades", "_clicks", "_query_weights"), ())),
            "lacks its documents' bins or scores",
        ),
        (lambda m: setattr(m, "_lengths", np.append(declared_state(m).lengths, [2**62] * 4)), "different lengths"),
        (lambda m: declared_state(m).lengths.__setitem__(0, 0), "_lengths has entries outside"),
        (
            lambda m: setattr(m, "_lengths", np.append(declared_state(m).lengths[:-2], declared_state(m).lengths[-2:].sum())),
            "one weight for each list",
        ),
        (lambda m: declared_state(m).grades[0].__setitem__(0, -1), r"_grades\[0\] has entries outside"),
        (window("_scores", np.full(3, np.inf)), "not finite"),
        (window("_query_weights", np.full(20, np.nan)), r"_query_weights\[0\] has entries that are not finite"),
        (window("_query_weights", np.zeros(20)), r"_query_weights\[0\] has entries outside"),
        (window("_query_weights", np.full(20, 1.7e308)), r"_query_weights\[0\] has entries outside"),
        (window("_query_weights", np.ones(19)), "one weight for each list"),
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
    model = taught(93, window=20, rate=5.0)
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
            ClickTrees(**parameters)


def test_a_weight_whose_squares_overflow_is_refused():
    """It made leaves infinite, and scores that are no numbers led the sort out of its arrays."""
    rng = np.random.default_rng(0)
    model = ClickTrees()
    for t in range(40):
        X, y = rng.normal(size=(12, 4)), rng.integers(0, 3, 12)
        if t == 5:
            with pytest.raises(ValueError, match="the weight of a query is at most 1e\\+100 for ClickTrees"):
                model.learn_one(X, y, 1.7e308)
        model.learn_one(X, y, 1e100 if t % 7 == 0 else 1.0)
    assert np.isfinite(model.predict_one(X)).all()


def test_draws_have_the_salt_of_the_class():
    class Another(ClickTrees):
        """The same under another name."""

    queries = list(NoisyTeacher(12, n_features=6, n_documents=30, seed=1))
    models = [ClickTrees(depth=2, rate=5.0), ClickTrees(depth=2, rate=5.0), Another(depth=2, rate=5.0)]
    for model in models:
        for X, y in queries:
            model.learn_one(X, y)
    X = queries[0][0]
    assert models[0].predict_one(X) == models[1].predict_one(X) != models[2].predict_one(X)
