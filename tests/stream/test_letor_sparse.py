"""LETOR text read into sparse rows: the same numbers as in arrays."""

import io

import numpy as np
import pytest

from online_rank.query import SparseRows
from online_rank.stream import LetorError, iter_letor, read_letor
from online_rank.stream.letor import rows as reader

LONG = "0.1234567890123456789012345"


def text(n=200, d=60, seed=0):
    """Lines with ids in any order, numbers that need care, comments, negative grades and queries of many sizes."""
    rng = np.random.default_rng(seed)
    lines, qid = [], 0
    for i in range(n):
        qid += rng.random() < 0.2
        ids = rng.choice(np.arange(1, d + 1), int(rng.integers(0, 9)), replace=False)
        if rng.random() < 0.5:
            ids.sort()
        values = [LONG if rng.random() < 0.1 else f"{rng.normal():.6g}" for _ in ids]
        features = " ".join(f"{j}:{x}" for j, x in zip(ids, values, strict=True))
        lines.append(f"{rng.integers(-1, 4)} qid:{qid} {features} # docid = d{i}")
    return "\n".join(lines) + f"\n1 qid:{qid} {d}:1\n"


def dense(X):
    return X.toarray() if isinstance(X, SparseRows) else X


@pytest.mark.parametrize("negative", ["zero", "skip"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_hold_what_arrays_hold(negative, dtype, monkeypatch):
    options = {"negative": negative, "dtype": dtype, "with_docid": True, "repeated_qid": "new"}
    expected = list(iter_letor(io.StringIO(text()), **options))
    for chunk in (1 << 20, 300):
        monkeypatch.setattr(reader, "_CHUNK", chunk)
        found = list(iter_letor(io.StringIO(text()), sparse=True, **options))
        assert len(found) == len(expected)
        for (X, y, docids), (expected_X, expected_y, expected_docids) in zip(found, expected, strict=True):
            assert isinstance(X, SparseRows)
            assert X.dtype == dtype
            assert (X.toarray() == expected_X).all()
            assert (np.diff(X.columns) > 0)[np.setdiff1d(np.arange(len(X.columns) - 1), X.starts[1:-1] - 1)].all()
            assert (y == expected_y).all()
            assert docids == expected_docids
        block = read_letor(io.StringIO(text()), sparse=True, **options)
        whole = read_letor(io.StringIO(text()), **options)
        assert (block.X.toarray() == whole.X).all()
        assert (block.y == whole.y).all()
        assert (block.qid == whole.qid).all()


def test_an_id_of_ten_digits_takes_no_memory():
    wide = "2 qid:1 5:0.5 2147483647:2\n0 qid:1 7:1 3:-1\n1 qid:2 1:1\n"
    (X, y), (last, _) = iter_letor(io.StringIO(wide), sparse="auto")
    assert (X.shape, last.shape) == ((2, 2**31 - 1), (1, 2**31 - 1))
    assert X.nbytes < 100
    assert X.columns.tolist() == [4, 2**31 - 2, 2, 6]
    assert y.tolist() == [2, 0]
    assert read_letor(io.StringIO(wide), sparse="auto").X.n_columns == 2**31 - 1
    with pytest.raises(LetorError, match="feature 2147483648"):
        list(iter_letor(io.StringIO("1 qid:1 2147483648:1\n"), sparse=True))


def test_auto_is_sparse_from_4097_features_on():
    for d, sparse in ((4096, False), (4097, True)):
        line = f"1 qid:1 {d}:1\n"
        assert [isinstance(X, SparseRows) for X, _ in iter_letor(io.StringIO(line), sparse="auto")] == [sparse]
        assert isinstance(read_letor(io.StringIO(line), sparse="auto").X, SparseRows) is sparse
    (X, _) = next(iter_letor(io.StringIO("1 qid:1 2:1\n"), n_features=5000, sparse="auto"))
    assert X.shape == (1, 5000)


def test_a_file_that_grows_wide_becomes_sparse(monkeypatch):
    monkeypatch.setattr(reader, "LOOK_AHEAD", 1)
    monkeypatch.setattr(reader, "_CHUNK", 200)
    narrow = "".join(f"{i % 3} qid:{i // 5} 1:{i} 3:1\n" for i in range(50))
    block = read_letor(io.StringIO(narrow + "1 qid:99 5000:7\n"), sparse="auto")
    assert isinstance(block.X, SparseRows)
    expected = np.zeros((51, 5000))
    expected[:50, 0], expected[:50, 2], expected[50, 4999] = np.arange(50), 1.0, 7.0
    assert (block.X.toarray() == expected).all()


def test_queries_that_come_back_are_grouped():
    scattered = "1 qid:1 9:1\n0 qid:2 8:2\n2 qid:1 7:3\n"
    block = read_letor(io.StringIO(scattered), sparse=True, repeated_qid="group")
    assert block.X.toarray()[:, 6:].tolist() == [[0, 0, 1], [3, 0, 0], [0, 2, 0]]
    assert block.y.tolist() == [1, 2, 0]
    found = [X.toarray()[:, 6:].tolist() for X, _ in iter_letor(io.StringIO(scattered), sparse=True, repeated_qid="group")]
    assert found == [[[0, 0, 1], [3, 0, 0]], [[0, 2, 0]]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 qid:1 3:1 2:1 3:2", "feature 3 is given twice"),
        ("1 qid:1 3:1 3:2", "feature 3 is given twice"),
        ("1 qid:1 2:x", "value 'x' of feature 2 is not a number"),
        ("1 qid:1 2:1e999", "value '1e999' of feature 2 is not finite"),
        ("1 qid:1 0:1", "feature 0, but ids start at 1"),
    ],
)
def test_bad_lines_are_named_or_skipped(line, message):
    with pytest.raises(LetorError, match=message):
        list(iter_letor(io.StringIO(line + "\n"), sparse=True))
    good = "1 qid:1 5:1\n"
    skipping = iter_letor(io.StringIO(good + line + "\n" + good), sparse=True, on_error="skip")
    ((X, y),) = skipping
    assert X.toarray().tolist() == [[0, 0, 0, 0, 1]] * 2
    assert len(y) == 2
    assert skipping.skipped == 1


def test_bad_options():
    with pytest.raises(ValueError, match="sparse is 'yes'; it must be False, True or 'auto'"):
        iter_letor(io.StringIO(""), sparse="yes")
    with pytest.raises(ValueError, match="n_features is 4294967296"):
        iter_letor(io.StringIO(""), sparse=True, n_features=2**32)


def test_a_query_that_is_too_large_is_an_error():
    line = "1 qid:1 " + " ".join(f"{j}:1" for j in range(1, 100)) + "\n"
    with pytest.raises(LetorError, match="max_query_bytes"):
        list(iter_letor(io.StringIO(line * 10), sparse=True, max_query_bytes=5000))
