"""The record of a round."""

import numpy as np

from online_rank.base.rounds import largest_norm
from online_rank.query import SparseRows


def test_the_largest_norm_of_documents():
    assert largest_norm(np.array([[3.0, 4.0], [0.0, 1.0]])) == 5.0
    rows = SparseRows(np.array([0, 2, 2, 3]), np.array([7, 2, 0], np.int32), np.array([3.0, 4.0, 1.0], np.float32), 10)
    assert largest_norm(rows) == 5.0
    assert largest_norm(np.empty((0, 3))) == 0.0
    for k in range(6):
        X = np.full((6, 9), 0.5, dtype=np.float32)
        X[k] = 2.0
        assert largest_norm(X) == 6.0


def test_a_norm_whose_square_overflows_is_infinite_and_no_warning():
    assert largest_norm(np.full((2, 2), 1e200)) == np.inf
