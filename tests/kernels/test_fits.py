"""Entries refuse arrays that do not fit together before they read or write one of them; and no score leads out of a ranking."""

import numpy as np
import pytest

from online_rank import PerceptronRanker
from online_rank._kernels import dense, graded, judge, metrics, preprocessing, sparse, trees
from online_rank._kernels import perceptron as kernels
from online_rank._kernels.codes import N_COUNTERS
from online_rank.measures import discounts
from online_rank.query import SparseRows, as_grades
from online_rank.query.sparse import checked_rows
from tests.kernels.calling import Module, workspace
from tests.kernels.calling import graded as graded_query

UNFIT = pytest.raises(ValueError, match="arrays of a kernel do not fit together")
X, W = np.ones((4, 3)), np.ones(3)


@pytest.mark.parametrize(
    ("kernel", "arguments"),
    [
        (dense.score, (X, np.ones(2), np.empty(4))),
        (dense.score, (X, W, np.empty(3))),
        (dense.score_with_norms, (X, np.ones(4), np.empty(4))),
        (sparse.score_by, (np.array([0, 1]), np.array([3], np.int32), np.ones(1), W, np.empty(1))),
        (sparse.score_by, (np.array([0, 1]), np.array([-1], np.int32), np.ones(1), W, np.empty(1))),
        (sparse.score_by, (np.array([0, 2]), np.array([1], np.int32), np.ones(1), W, np.empty(1))),
        (sparse.score_by, (np.array([1, 0, 1]), np.array([1], np.int32), np.ones(1), W, np.empty(2))),
        (sparse.repeats, (np.array([0, 9]), np.array([1], np.int32))),
        (graded.ranking_losses, (0, 0, 1, np.ones(4), np.arange(4), np.array([0, 5]), np.ones(8), np.empty(1))),
        (graded.ranking_losses, (0, 0, 1, np.ones(4), np.arange(4), np.array([0, 4]), np.ones(3), np.empty(1))),
        (judge.judge_rankings, (0, 0, 1, np.ones((2, 4)), np.arange(3), np.ones(8), np.empty(2))),
        (metrics.metric_values, (0, 0, 1, 0, np.ones(4), np.arange(4), np.array([0, 9]), np.ones(9), np.ones(9), np.empty(1))),
        (preprocessing.scale, (X, 1, W, np.ones(2), True, np.empty((4, 3)))),
        (preprocessing.standardise_queries, (X, np.array([0, 5]), np.empty((4, 3)))),
        (
            trees.score_trees,
            (
                np.zeros((2, 3), np.uint8), np.full((1, 1), 3), np.zeros((1, 1), np.int64), np.zeros((1, 2)), 1.0, 0.1,
                np.zeros(2),
            ),
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_arrays_that_do_not_fit_are_refused(kernel, arguments):
    before = [np.copy(value) for value in arguments]
    with UNFIT:
        kernel(*arguments)
    for value, was in zip(arguments, before, strict=True):
        np.testing.assert_array_equal(value, was)


@pytest.mark.parametrize("place", range(10))
def test_learning_refuses_an_array_that_is_too_short(place):
    model = PerceptronRanker()
    model.learn_one(X, [0, 1, 2, 0])
    arguments = [
        X, np.array([0, 1, 2, 0]), np.array([0, 4]), np.ones(1), discounts(4)[:4].copy(), model._config, np.ones(3), np.ones(3),
        np.zeros(N_COUNTERS), np.empty((1, 10)),
    ]  # fmt: skip
    assert kernels.learn(*arguments) == 1
    arguments[place] = arguments[place][:-1].copy() if place != 3 else np.ones(2)
    with UNFIT:
        kernels.learn(*arguments)


@pytest.mark.parametrize("scores", [[np.nan] * 5, [1.0, np.nan, 2.0, np.nan, 0.0], [-np.inf, np.inf, np.nan, 0.0, 1.0]])
@pytest.mark.parametrize("depth", [1, 3, 5])
def test_a_ranking_ends_whatever_the_scores(scores, depth):
    rank = Module(graded).rank_pessimistically
    order, query, work = np.full(5, 10**9), graded_query([0, 1, 2, 1, 0]), workspace(5)
    rank(np.array(scores), query, depth, order, work)
    assert len(set(order[:depth].tolist()) & set(range(5))) == depth
    finite = [i for i in range(5) if scores[i] == scores[i]]
    # What is no number is last.
    assert all(i in finite for i in order[: min(depth, len(finite))])


def test_grades_are_copied():
    """Kernels index by grades that they have checked: those of the caller may change after that."""
    for y in (np.array([0, 1, 2, 0]), np.array([0, 9, 1, 9, 2, 9, 0])[::2], np.array([0, 1, 2, 0], np.int32)):
        assert not np.shares_memory(as_grades(y, 4), y)
        assert as_grades(y, 4).tolist() == [0, 1, 2, 0]


def test_what_kernels_index_by_is_copied_from_sparse_rows():
    given = SparseRows(np.array([0, 1, 2]), np.array([0, 2], np.int32), np.ones(2), 3)
    taken = checked_rows(given)
    assert not np.shares_memory(taken.starts, given.starts)
    assert not np.shares_memory(taken.columns, given.columns)
    assert np.shares_memory(taken.values, given.values)
