"""Sparse documents whose indices do not fit are refused before any compiled code follows them, here or in scipy."""

import numpy as np
import pytest
from scipy import sparse

from online_rank import PerceptronRanker
from online_rank.query import SparseRows
from online_rank.query.sparse import from_scipy

X = np.array([[1.0, 0.0, 2.0, 0.0], [0.0, 3.0, 0.0, 0.0], [4.0, 0.0, 0.0, 5.0], [0.0, 0.0, 6.0, 0.0]])
FAR = 10**7


def broken(make, **arrays):
    """A matrix of scipy whose arrays were changed after it was made."""
    matrix = make(X)
    for name, change in arrays.items():
        array = np.array(getattr(matrix, name))
        array[change[0]] = change[1]
        setattr(matrix, name, array)
    return matrix


def longer_row():
    matrix = sparse.lil_array(X)
    matrix.rows[0] = [0, 1, 2, 3]
    return matrix


def emptied(make):
    """Its last start says that there are no entries, and one before it that there are."""
    matrix = make((4, 4))
    matrix.indptr = np.array([0, FAR, 0, 0, 0], np.int32)
    return matrix


BROKEN = {
    "csr, start too large": lambda: broken(sparse.csr_array, indptr=(2, FAR)),
    "csr, starts descend": lambda: broken(sparse.csr_array, indptr=(slice(1, 3), [3, 2])),
    "csr, start below 0": lambda: broken(sparse.csr_matrix, indptr=(1, -FAR)),
    "csr, end below 0": lambda: broken(sparse.csr_matrix, indptr=(4, -1)),
    "csr, end too large": lambda: broken(sparse.csr_array, indptr=(4, FAR)),
    "csr, column too large": lambda: broken(sparse.csr_array, indices=(0, FAR)),
    "csr, column below 0": lambda: broken(sparse.csr_array, indices=(0, -FAR)),
    "csr, no entries but starts": lambda: emptied(sparse.csr_array),
    "csc, start too large": lambda: broken(sparse.csc_array, indptr=(2, FAR)),
    "csc, row too large": lambda: broken(sparse.csc_matrix, indices=(0, FAR)),
    "csc, row below 0": lambda: broken(sparse.csc_matrix, indices=(0, -FAR)),
    "csc, no entries but starts": lambda: emptied(sparse.csc_array),
    "bsr, start too large": lambda: broken(lambda X: sparse.bsr_array(X, blocksize=(2, 2)), indptr=(1, FAR)),
    "bsr, column too large": lambda: broken(lambda X: sparse.bsr_array(X, blocksize=(2, 2)), indices=(0, FAR)),
    "coo, row too large": lambda: broken(sparse.coo_matrix, row=(0, FAR)),
    "coo, column below 0": lambda: broken(sparse.coo_matrix, col=(0, -FAR)),
    "dia, diagonal twice": lambda: broken(sparse.dia_matrix, offsets=(0, 0)),
    "lil, more columns than values": longer_row,
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_matrices_of_scipy_are_refused(name):
    model = PerceptronRanker()
    with pytest.raises(ValueError, match=r"^x"):
        model.learn_one(BROKEN[name](), [0, 1, 2, 0])
    assert model.n_features == 0


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
@pytest.mark.parametrize("of", [sparse.csr_matrix, sparse.csr_array])
def test_formats_of_scipy_are_read(form, of):
    assert from_scipy(of(X).asformat(form)).toarray().tolist() == X.tolist()


def test_entries_of_scipy_that_come_twice_add_up_for_any_flags_of_the_matrix():
    matrix = sparse.csr_matrix((np.array([1.0, 2.0, 4.0]), [1, 1, 0], [0, 3, 3]), shape=(2, 3))
    matrix.has_canonical_format = True
    assert from_scipy(matrix).toarray().tolist() == [[4.0, 3.0, 0.0], [0.0, 0.0, 0.0]]


def test_entries_behind_the_last_row_are_of_no_row():
    matrix = sparse.csr_matrix(X)
    matrix.indices, matrix.data = np.append(matrix.indices, FAR), np.append(matrix.data, 9.0)
    assert from_scipy(matrix).toarray().tolist() == X.tolist()


@pytest.mark.parametrize("n_columns", [2**40, 2**70, -3, 4.5, float("nan"), "7", None, True])
def test_numbers_of_columns_that_kernels_cannot_count_are_refused(n_columns):
    rows = SparseRows(np.arange(3), np.array([0, 2**32 + 1]), np.ones(2), n_columns)
    model = PerceptronRanker()
    with pytest.raises((TypeError, ValueError), match=r"x\.n_columns"):
        model.learn_one(rows, [0, 1])
    assert model.n_features == 0


def test_starts_that_are_no_integers_are_refused():
    with pytest.raises(TypeError, match="starts have dtype float64"):
        PerceptronRanker().learn_one(SparseRows(np.array([0.0, 1.0, np.nan]), np.zeros(2, np.int32), np.ones(2), 3), [0, 1])
