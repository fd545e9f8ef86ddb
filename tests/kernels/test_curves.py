"""Rows of curves."""

import numpy as np

from online_rank import StreamQuantileMap
from online_rank._kernels import curves


def test_rows_that_were_not_read_are_not_used():
    """With an infinite value the cells of rows were what memory held, and indices of curves (`NUMBA_BOUNDSCHECK=1`)."""
    mapping = StreamQuantileMap()
    mapping.learn_one([[1.0, 2.0], [2.0, 1.0]])
    rows = curves.CurveRows(*(np.full((2, 2), 255, kind) for kind in (np.float32, np.uint8, np.float32, np.uint8)))
    X, scores, out = np.array([[1.0, np.inf], [2.0, 1.0]]), np.empty(2), np.empty((2, 2))
    drawn = np.zeros((2, 2, 2, curves.N_CELLS))
    curves.score(X, np.array([0, 2]), mapping.table, True, drawn, scores, rows)
    curves.contributions(X, mapping.table, True, drawn, out)
    assert np.isnan(scores).all()
    assert np.isnan(out).all()
