"""The sorts of the kernels against Python's, and the bound that spares them most of the work."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from online_rank._kernels import graded as graded_kernels
from online_rank._kernels import order as order_kernels
from tests.kernels.calling import Module, graded, workspace

order, measures = Module(order_kernels), Module(graded_kernels)

scores = st.lists(st.sampled_from([-1e300, -2.5, -1.0, 0.0, 1e-300, 0.5, 1.0, 7.0, 1e300]) | st.floats(-9, 9), max_size=150)


@given(scores)
def test_sort_is_pythons_stable_sort(values):
    keys = np.array(values, float)
    expected = sorted(range(len(keys)), key=lambda i: -keys[i])
    items = np.arange(len(keys))
    by_key = keys[expected]
    order.sort_descending(keys, items, np.empty_like(keys), np.empty_like(items))
    assert items.tolist() == expected
    assert keys.tolist() == by_key.tolist()


@pytest.mark.parametrize("n", [31, 32, 33, 63, 64, 65, 127, 128, 129, 200, 255, 256, 257, 1000])
def test_sort_across_runs_and_merges(n):
    keys = np.random.default_rng(n).integers(0, n // 3, n).astype(float)
    expected = np.argsort(-keys, kind="stable")
    items = np.arange(n)
    order.sort_descending(keys, items, np.empty(n), np.empty(n, np.int64))
    assert items.tolist() == expected.tolist()


@pytest.mark.parametrize("n", [5, 33, 100, 300])
@pytest.mark.parametrize("nan", [slice(None), slice(None, None, 3), slice(1, 2)])
def test_every_item_written_was_given_even_where_keys_are_nan(n, nan):
    """Callers index by the items: memory that nobody wrote would send them anywhere."""
    keys = np.random.default_rng(n).normal(size=n)
    keys[nan] = np.nan
    items = np.arange(n)
    order.sort_descending(keys, items, np.empty(n), np.full(n, 10**12))
    assert 0 <= items.min() <= items.max() < n


@given(scores.filter(len), st.data())
def test_bound_is_reached_by_k_documents(values, data):
    s = np.array(values)
    k = data.draw(st.integers(1, len(s)))
    bound = order.reached_by(k, s)
    assert bound in s
    assert np.sum(s >= bound) >= k


@given(scores, st.integers(1, 160), st.sampled_from([-np.inf, -1.0, 0.5]))
def test_shortlist_holds_the_best_k_with_their_ties_in_order(values, k, least):
    s = np.array(values, float)
    kept, items = np.empty_like(s), np.empty(len(s), np.int64)
    n = order.shortlist(k, least, s, np.arange(len(s)), kept, items)
    left = items[:n].tolist()
    assert left == sorted(set(left))
    assert kept[:n].tolist() == s[left].tolist()
    enough = s[s >= least]
    among_best = np.sort(enough)[-k:].min(initial=np.inf)
    assert set(np.flatnonzero(s >= max(least, among_best))) <= set(left)
    assert (kept[:n] >= least).all()


def test_shortlist_leaves_little_to_sort():
    rows = np.random.default_rng(0).normal(size=(100, 1000))
    items, kept, kept_items = np.arange(1000), np.empty(1000), np.empty(1000, np.int64)
    # The least of the maxima of k groups is exceeded by about k (log k + 0.58) of many documents: 29 for k = 10; then again.
    assert 10 <= np.mean([np.sum(row >= order.reached_by(10, row)) for row in rows]) < 40
    assert 10 <= np.mean([order.shortlist(10, -np.inf, row, items, kept, kept_items) for row in rows]) < 25


document = st.tuples(st.sampled_from([-1.0, 0.0, 0.25, 3.0]) | st.floats(-9, 9), st.integers(0, 4))


@pytest.mark.slow
@given(st.lists(document, min_size=1, max_size=120))
def test_pessimistic_order_is_by_score_then_grade_then_place(documents):
    s, level = np.array([x for x, _ in documents]), np.array([lev for _, lev in documents])
    m = len(s)
    expected = sorted(range(m), key=lambda i: (-s[i], level[i], i))
    for depth in {1, min(10, m), m}:
        top = np.empty(m, np.int64)
        measures.rank_pessimistically(s, graded(level), depth, top, workspace(m))
        assert top[:depth].tolist() == expected[:depth]
