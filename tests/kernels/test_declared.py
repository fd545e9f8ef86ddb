"""What a measure declares, its gain and discount, is what everything else computes with."""

import numpy as np

from online_rank._kernels import listwise, weight_vectors
from online_rank._kernels.codes import LINEAR_NDCG
from online_rank._kernels.graded import Target
from online_rank.measures.learned import discounts
from online_rank.surrogates import lambdarank
from tests.kernels.calling import Module, graded, workspace
from tests.reference.l1_constants import l1_constant

#: Linear NDCG, D(p) = m - p, cut off after two documents: no name stands for it, so nothing knows it but by its declaration.
LINEAR_AT_2 = Target(LINEAR_NDCG, 2, 1, discounts(3))


def test_weights_with_a_cutoff_take_the_measure_s_discount():
    query, work, v = graded([2, 1, 0], LINEAR_NDCG, depth=2), workspace(3), np.empty(3)
    v_max = Module(weight_vectors).weigh_by_level(LINEAR_AT_2, query, work, v)
    assert v.tolist() == [2 * (3 - 1), 1 * (3 - 2), 0]
    assert v_max == 4 / 1


def test_swaps_with_a_cutoff_take_the_measure_s_discount():
    query, work = graded([2, 1, 0, 0], LINEAR_NDCG, depth=2), workspace(4)
    kernels = Module(listwise)
    kernels._sum_before_positions(LINEAR_NDCG, query, np.array([2, 1, 3, 0]), work)
    assert kernels._swap_change(LINEAR_AT_2, query, work, 0, 2) == (2 - 0) * ((4 - 1) - 0)
    assert kernels._swap_change(LINEAR_AT_2, query, work, 1, 2) == (1 - 0) * ((4 - 1) - (4 - 2))
    assert kernels._swap_change(LINEAR_AT_2, query, work, 0, 3) == 0


def test_the_slope_of_lambdarank_takes_the_measure_s_gain_and_discount():
    # Grades 2, 1, 0: Z = 2 * 2 + 1 * 1. A swap of the documents with grades 2 and 0 changes at most (2 - 0) * (2 - 0) / 5.
    assert l1_constant(lambdarank("linear_ndcg"), [2, 1, 0]) == 2 * (1 + 2 + 1) * (2 - 0) / 5
    # Below the cutoff a document counts for nothing: Z = 1, and the swap changes (1 - 0) * (D(1) - 0).
    assert l1_constant(lambdarank("ndcg@1"), [1, 0]) == 2 * (1 - 0) * (1 - 0) / 1
