"""The window of queries that trees grow from, and the growth of a tree in steps."""

import numpy as np
import pytest

from online_rank._kernels import growing, leaves, splitting, window
from online_rank.rankers.growing_trees import GrowingTrees
from tests.kernels.calling import Module
from tests.reference import growing_trees as reference

WINDOW, GROWING = Module(window), Module(growing)


def push(trees, bins, given, target, weight=1.0, number=0):
    trees.make_room(len(given), 400)
    WINDOW.push(trees.window, bins, len(given), np.array(given), np.array(target), weight, number)


def taught(rng, n, m=12, d=5, weights=(1.0,)):
    """A window with n queries whose grade depends on two features."""
    trees = GrowingTrees()
    trees.add_features(np.zeros(d, dtype=bool))
    for q in range(n):
        bins = np.zeros((d, 64), dtype=np.uint8)
        bins[:, :m] = rng.integers(0, 32, (d, m))
        bins[3] = 4
        y = (bins[0, :m] > 15) * (bins[1, :m] > 10.0) + 0.2 * rng.normal(size=m)
        target = (y - y.mean()) / y.std()
        push(trees, bins, 0.3 * rng.normal(size=m), target, weights[q % len(weights)], q)
    return trees


def grow(trees, most=1e18, signs=None):
    """Take steps of as many operations; returns how many were taken."""
    trees.make_room(1, 400)
    limits, before = trees.limits(400), trees.growth.numbers[splitting.SPENT]
    trees.growth.numbers[splitting.HAVE] = 1e18
    plan = growing.Plan(int(limits[0]), limits[1], 0, int(limits[2]))
    signs = np.zeros(len(trees.window.bins), dtype=np.int64) if signs is None else signs
    GROWING.grow(trees.window, trees.growth, plan, signs, most)
    return trees.growth.numbers[splitting.SPENT] - before


def grow_until(trees, phase, signs=None):
    """Take small steps until a tree is in a phase."""
    for _ in range(10_000):
        grow(trees, 1.0, signs)
        if trees.growth.integers[splitting.PHASE] == phase:
            return
    raise AssertionError("it never gets there")


def queries(trees):
    """(first document, number) of the queries of the window, the oldest first."""
    first, count = trees.growth.integers[[window.FIRST, window.COUNT]]
    rows = trees.window.queries[(first + np.arange(count)) % len(trees.window.queries)]
    return [(int(row[window.START]), int(row[window.SIZE])) for row in rows]


@pytest.mark.parametrize("seed", range(4))
def test_queries_lie_in_the_window_as_in_a_ring(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(20, 60)), int(rng.integers(3, 12))
    state = window.Window(
        np.zeros((2, n), np.uint8), np.zeros((2, n), np.float32), np.zeros((k, 4)), np.zeros(splitting.CHOSEN, np.int64)
    )
    ring, content = reference.Ring(n, k), {}
    for number in range(80):
        m = int(rng.integers(1, 15 if number % 10 else 70))
        bins = rng.integers(0, 32, (2, 128)).astype(np.uint8)
        WINDOW.push(state, bins, m, np.full(m, number / 2.0), np.full(m, -1.0 * number), 1.0 + number, number)
        ring.push(m)
        first, count = state.integers[[window.FIRST, window.COUNT]]
        rows = [state.queries[(first + i) % k] for i in range(count)]
        assert [(row[0], row[1]) for row in rows] == ring.queries
        assert state.integers[window.HELD] == sum(size for _, size in ring.queries)
        content[ring.head - m if ring.queries else 0, m] = bins[:, :m], number
        for at, size in ring.queries:
            own, which = content[at, size]
            assert np.array_equal(state.bins[:, at : at + size], own)
            assert (state.documents[window.GIVEN, at : at + size] == which / 2.0).all()
    # In a larger window they lie side by side, the oldest first.
    larger = window.Window(np.zeros((2, n + 9), np.uint8), np.zeros((2, n + 9), np.float32), np.zeros((k, 4)), state.integers)
    window.arrange(*state, *larger[:3])
    to = 0
    for row, (at, size) in zip(larger.queries, ring.queries, strict=False):
        own, which = content[at, size]
        assert row.tolist() == [to, size, 1.0 + which, which]
        assert np.array_equal(larger.bins[:, to : to + size], own)
        assert (larger.documents[window.GIVEN, to : to + size] == which / 2.0).all()
        to += size
    assert state.integers[[window.FIRST, window.HEAD]].tolist() == [0, to]


def test_a_query_larger_than_the_window_is_left_out():
    state = window.Window(np.zeros((1, 5), np.uint8), np.zeros((2, 5), np.float32), np.zeros((2, 4)), np.zeros(15, np.int64))
    WINDOW.push(state, np.zeros((1, 64), np.uint8), 6, np.zeros(6), np.zeros(6), 1.0, 0)
    assert not state.integers.any()


def test_a_larger_window_keeps_all_queries_and_a_smaller_one_the_last():
    trees = taught(np.random.default_rng(0), 30)
    before = {number: trees.window.bins[:, at : at + m].copy() for number, (at, m) in enumerate(queries(trees))}
    trees._rearrange(2000, 100)
    assert queries(trees) == [(12 * q, 12) for q in range(30)]
    assert all(np.array_equal(trees.window.bins[:, 12 * q : 12 * q + 12], before[q]) for q in range(30))
    trees._rearrange(50, 100)
    assert queries(trees) == [(0, 12), (12, 12), (24, 12), (36, 12)]
    assert np.array_equal(trees.window.bins[:, :12], before[26])
    assert trees.window.queries[0, window.NUMBER] == 26


@pytest.mark.slow
@pytest.mark.parametrize("weights", [(1.0,), (1.0, 0.25)])
def test_a_tree_has_the_best_splits_of_its_sample_and_leaves_of_the_whole_window(weights):
    trees = taught(np.random.default_rng(1), 40, weights=weights)
    grow_until(trees, splitting.SPLIT)
    n, chosen = (
        int(trees.growth.integers[splitting.SAMPLED]),
        trees.growth.integers[splitting.CHOSEN :][: trees.growth.integers[splitting.COLUMNS]],
    )
    assert 12 * 24 < n < 12 * 40
    bins, packed = trees.growth.sample[: len(chosen), :n].T.tolist(), trees.growth.packed[:n]
    units = (packed & 0xFFFFFFFF).tolist()
    assert set(units) == {reference.unit(w) for w in weights}
    share = max(0.25, n / 480)
    columns, thresholds = reference.grow(bins, (packed >> 32).tolist(), units, 100.0 * share, 20.0 * share)
    grow_until(trees, splitting.SCORE)
    assert trees.growth.splits[0, :15].tolist() == [0 if c is None else chosen[c] for c in columns]
    assert trees.growth.splits[0, 15:].tolist() == [leaves.NEVER if t is None else t for t in thresholds]
    sums, counts = np.zeros(16), np.zeros(16)
    for q, (at, m) in enumerate(queries(trees)):
        given, target = trees.window.documents[:, at : at + m].tolist()
        for i, r in enumerate(reference.residuals(target, given)):
            v = reference.leaf(trees.window.bins[:, at + i], trees.growth.splits[0, :15], trees.growth.splits[0, 15:])
            sums[v] += weights[q % len(weights)] * r
            counts[v] += weights[q % len(weights)]
    values = 0.2 * sums / (counts + 100.0)
    assert trees.growth.trees[0, :16].tolist() == pytest.approx(values.tolist())
    assert trees.growth.trees[0, leaves.MEANS : leaves.SEEN].tolist() == pytest.approx(values.tolist())
    assert trees.growth.trees[0, leaves.SEEN : leaves.AGE].tolist() == pytest.approx(counts.tolist())
    before = trees.window.documents[window.GIVEN].copy()
    grow_until(trees, splitting.COPY)
    keep = trees.limits(400)[1]
    for at, m in queries(trees):
        for i in range(at, at + m):
            v = reference.leaf(trees.window.bins[:, i], trees.growth.splits[0, :15], trees.growth.splits[0, 15:])
            assert trees.window.documents[window.GIVEN, i] == pytest.approx(keep * before[i] + values[v], rel=1e-6, abs=1e-6)


def test_small_steps_grow_the_trees_of_large_ones():
    large, small = taught(np.random.default_rng(2), 60), taught(np.random.default_rng(2), 60)
    while large.n_grown < 5:
        grow(large, 1.0)
    while small.n_grown < 5:
        grow(small, 1000.0 if small.n_grown % 2 else 1.0)
    assert np.array_equal(large.growth.splits[:5], small.growth.splits[:5])


def test_steps_stop_when_they_have_taken_their_operations():
    trees = taught(np.random.default_rng(3), 60)
    taken = [grow(trees, 2000.0) for _ in range(40)]
    assert max(taken) <= 2000.0 + 4096.0
    assert trees.growth.numbers[splitting.SPENT] == pytest.approx(sum(taken))


def test_no_tree_splits_by_a_feature_with_a_sign():
    trees = taught(np.random.default_rng(4), 60)
    while trees.n_grown < 3:
        grow(trees, 1.0, np.array([1, 0, 0, 0, 0]))
    split = trees.growth.splits[:3, leaves.N_NODES :] < leaves.NEVER
    assert split.any()
    assert (trees.growth.splits[:3, : leaves.N_NODES][split] != 0).all()
    signed = taught(np.random.default_rng(4), 60)
    grow(signed, 1e6, -np.ones(5, dtype=np.int64))
    assert signed.n_grown == 0


def test_the_oldest_tree_makes_room_and_leaves_the_scores_of_the_window():
    trees = taught(np.random.default_rng(5), 60)
    signs = np.zeros(5, dtype=np.int64)
    trees.make_room(1, 2)
    given = trees.window.documents[window.GIVEN, :720].astype(float)
    for number in range(3):
        plan = growing.Plan(2, 0.9, 0, int(trees.limits(2)[2]))
        for _ in range(10_000):
            trees.growth.numbers[splitting.HAVE] = 1e18
            GROWING.grow(trees.window, trees.growth, plan, signs, 1.0)
            if trees.n_grown == number + 1 and trees.growth.integers[splitting.PHASE] == splitting.SCORE:
                old = (
                    trees.growth.integers[splitting.OLD : splitting.OLD + 30],
                    trees.growth.numbers[splitting.OLD_VALUES :][:16].copy(),
                )
                break
        place = int(trees.growth.integers[splitting.PLACE])
        for i in range(720):
            if number == 2:
                given[i] -= old[1][reference.leaf(trees.window.bins[:, i], old[0][:15], old[0][15:])]
            v = reference.leaf(trees.window.bins[:, i], trees.growth.splits[place, :15], trees.growth.splits[place, 15:])
            given[i] = 0.9 * given[i] + trees.growth.trees[place, v]
        for _ in range(10_000):
            trees.growth.numbers[splitting.HAVE] = 1e18
            if trees.growth.integers[splitting.PHASE] != splitting.SCORE:
                break
            GROWING.grow(trees.window, trees.growth, plan, signs, 1.0)
        assert trees.window.documents[window.GIVEN, :720].tolist() == pytest.approx(given.tolist(), abs=1e-5)
    assert place == 0
    assert trees.n_trees == 2
    assert trees.growth.trees[:2, leaves.BORN].tolist() == [2.0, 1.0]


def test_constant_features_and_equal_targets_give_a_tree_without_splits():
    trees = GrowingTrees()
    trees.add_features(np.zeros(2, dtype=bool))
    for q in range(20):
        push(trees, np.full((2, 64), 5, np.uint8), np.zeros(10), np.zeros(10), 1.0, q)
    while trees.n_grown < 1:
        grow(trees, 1.0)
    assert (trees.growth.splits[0, 15:] == leaves.NEVER).all()
    assert not trees.growth.trees[0, :32].any()


def test_a_query_earns_for_its_values_and_may_spend_what_a_typical_one_earns():
    numbers = np.zeros(splitting.USES)
    assert GROWING.earn(numbers, 100.0, 10.0) == 1000.0
    assert numbers[splitting.HAVE] == 1000.0
    # A query that is a hundred times as large moves the running median by a 32nd.
    assert GROWING.earn(numbers, 10_000.0, 10.0) == 10.0 * 100.0 * (1 + 1 / 32)
    assert numbers[splitting.HAVE] == 16.0 * 10.0 * 100.0 * (1 + 1 / 32)
