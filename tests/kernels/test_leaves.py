"""Leaves of trees on bins: looked up by whole columns as by a walk, and learned."""

import numba
import numpy as np
import pytest

from online_rank._kernels import _intrinsics, leaves, primitives  # noqa: F401
from tests.kernels.calling import Module
from tests.reference import growing_trees as reference

KERNELS = Module(leaves)


@numba.njit
def find_leaves(bins, first, splits, out):
    """The primitive called by a compiled function."""
    primitives.find_leaves(bins, first, splits, out)


def trees(rng, n, d):
    """Splits of n trees by some of d features; a fifth of the nodes do not split."""
    splits = np.zeros((n, leaves.N_SPLITS), dtype=np.int16)
    splits[:, : leaves.N_NODES] = rng.integers(0, d, (n, leaves.N_NODES))
    splits[:, leaves.N_NODES :] = np.where(rng.random((n, leaves.N_NODES)) < 0.2, leaves.NEVER, rng.integers(0, 32, (n, 15)))
    return splits


@pytest.mark.parametrize("m", [1, 20, 33, 64, 130])
def test_whole_columns_give_the_leaves_of_a_walk(m):
    rng = np.random.default_rng(m)
    d, wide = 5, -(-m // leaves.TOGETHER) * leaves.TOGETHER
    bins = rng.integers(0, 32, (d, wide)).astype(np.uint8)
    bins[0], bins[1] = 7, bins[2]  # A constant column, and two that are equal.
    found = np.empty(wide, np.uint8)
    for row in trees(rng, 20, d):
        walked = [reference.leaf(bins[:, i], row[:15], row[15:]) for i in range(wide)]
        part = np.empty(max(m - 3, 0), np.uint8)
        for find in (find_leaves, primitives.find_leaves):
            for splits in (row, row.astype(np.int64)):
                find(bins, 0, splits, found)
                assert found.tolist() == walked
                find(bins, 2, splits, part)
                assert part.tolist() == walked[2 : m - 1]


def test_a_node_that_does_not_split_sends_all_documents_left():
    bins, row = np.full((1, 64), 31, np.uint8), np.zeros(30, np.int16)
    row[15:] = leaves.NEVER
    found = np.empty(64, np.uint8)
    find_leaves(bins, 0, row, found)
    assert not found.any()


def test_bins_are_31_equal_steps_and_one_for_missing_values():
    g = np.array([[-9.0, -2.6, -2.6 + 0.9 * 5.2 / 31, -2.6 + 1.1 * 5.2 / 31, 0.0, 2.59, 2.6, 40.0, 0.0]], dtype=np.float32)
    cells, bins = np.zeros((1, 9), np.uint8), np.full((1, 64), 9, np.uint8)
    cells[0, 8] = 21
    KERNELS.bin_rows(g, cells, 9, bins)
    assert bins[0, :9].tolist() == [1, 1, 1, 2, 16, 31, 31, 31, 0]
    assert leaves.MIDDLE == 16
    assert not bins[0, 9:].any()  # What is beyond the query.


def test_bins_agree_with_the_reference():
    g = np.random.default_rng(0).normal(size=(3, 50)).astype(np.float32)
    cells, bins = np.random.default_rng(1).integers(0, 22, (3, 50)).astype(np.uint8), np.empty((3, 64), np.uint8)
    KERNELS.bin_rows(g, cells, 50, bins)
    for j in range(3):
        assert bins[j, :50].tolist() == [
            reference.bin_of(None if c == 21 else float(x)) for x, c in zip(g[j], cells[j], strict=True)
        ]


def test_scores_are_a_factor_times_the_scores_so_far_and_a_leaf_of_each_tree():
    rng = np.random.default_rng(3)
    splits, table = trees(rng, 7, 4), rng.normal(size=(7, 16))
    g, cells = rng.normal(size=(4, 11)).astype(np.float32), rng.integers(0, 22, (4, 11)).astype(np.uint8)
    before, answers = rng.normal(size=11), np.empty((2, 11))
    leaves.answer(g, cells, splits, table, np.array([0.5, 5.0]), before, answers)
    assert answers[0].tolist() == before.tolist()
    for i in range(11):
        row = [reference.bin_of(None if cells[j, i] == 21 else float(g[j, i])) for j in range(4)]
        parts = [table[k, reference.leaf(row, splits[k, :15], splits[k, 15:])] for k in range(5)]
        assert answers[1, i] == pytest.approx(0.5 * before[i] + sum(parts))
    leaves.answer(g, cells, splits, table, np.array([1.0, 0.0]), before, answers)
    assert answers[1].tolist() == before.tolist()


@pytest.mark.parametrize("weight", [1.0, 0.25])
def test_leaves_learn_as_the_reference(weight):
    rng, w = np.random.default_rng(4), reference.unit(weight)
    trees_of = rng.normal(size=(4, leaves.N_PARTS))
    trees_of[:, leaves.SEEN : leaves.AGE] = rng.integers(0, 500, (4, 16))
    trees_of[:, leaves.AGE] = [1.0, 5.0, 199.0, 400.0]
    found = rng.integers(0, 16, (4, 64)).astype(np.uint8)
    residual = [*rng.normal(size=30).tolist(), 100.0, -1e300]  # Clipped to 8.
    rest = np.array([KERNELS.packed(r, float(w)) for r in residual])
    sums = np.empty((4, 16), dtype=np.int64)
    KERNELS.sum_abreast(found, 0, rest, sums)
    for k in range(4):
        own = trees_of[k].copy()
        KERNELS.learn_leaves(sums[k], own)
        before = [trees_of[k, a : a + 16].tolist() for a in (leaves.VALUES, leaves.MEANS, leaves.SEEN)]
        for part, expected in zip(
            (leaves.VALUES, leaves.MEANS, leaves.SEEN),
            reference.learned(*before, trees_of[k, leaves.AGE], found[k, :32].tolist(), residual, w),
            strict=True,
        ):
            assert own[part : part + 16].tolist() == pytest.approx(expected)
        assert own[leaves.AGE] == trees_of[k, leaves.AGE] + 1


def test_a_leaf_moves_by_half_of_its_mean_residual_before_shrinkage():
    own = np.zeros(leaves.N_PARTS)
    own[leaves.AGE] = 1.0
    sums = np.zeros(16, dtype=np.int64)
    sums[3] = 4 * KERNELS.packed(1.5, 16.0)
    KERNELS.learn_leaves(sums, own)
    assert own[leaves.VALUES + 3] == pytest.approx(0.5 * (4 * 1.5) / (0 + 100))
    assert own[leaves.SEEN + 3] == 4.0
    assert own[leaves.MEANS + 3] == pytest.approx(own[3] / 2)


def test_weights_count_in_sixteenths_of_the_heaviest_and_at_least_one():
    assert KERNELS.unit_of(1.0, 0.0) == 16
    assert KERNELS.unit_of(0.5, 1.0) == 8
    assert KERNELS.unit_of(0.5, 4.0) == 2
    assert KERNELS.unit_of(1e-9, 1.0) == 1
