"""LETOR text read into sparse rows: the same numbers as in arrays."""

import io
import tracemalloc

import numpy as np
import pytest

from online_rank import read
from online_rank.query import SparseRows
from online_rank.stream import ReadError, letor, source

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


@pytest.mark.parametrize("negative", ["zero", "skip"])
def test_rows_hold_what_arrays_hold(negative, monkeypatch):
    options = {"negative": negative, "with_ids": True, "repeated_qid": "new"}
    expected = list(read(io.StringIO(text()), **options))
    monkeypatch.setattr(letor, "WIDE", 1)
    for chunk in (1 << 20, 300):
        monkeypatch.setattr(source, "_CHUNK", chunk)
        found = list(read(io.StringIO(text()), **options))
        assert len(found) == len(expected)
        for (X, y, _, docids), (expected_X, expected_y, _, expected_docids) in zip(found, expected, strict=True):
            assert isinstance(X, SparseRows)
            assert (X.toarray() == expected_X).all()
            assert (np.diff(X.columns) > 0)[np.setdiff1d(np.arange(len(X.columns) - 1), X.starts[1:-1] - 1)].all()
            assert (y == expected_y).all()
            assert docids == expected_docids
        block, whole = read(io.StringIO(text()), **options).all(), np.concatenate([X for X, *_ in expected])
        assert (block.X.toarray() == whole).all()


def test_rows_are_sparse_from_4097_features_on():
    for d, sparse in ((4096, False), (4097, True)):
        line = f"1 qid:1 {d}:1\n"
        assert [isinstance(X, SparseRows) for X, _ in read(io.StringIO(line))] == [sparse]
        assert isinstance(read(io.StringIO(line)).all().X, SparseRows) is sparse
    (X, _) = next(read(io.StringIO("1 qid:1 2:1\n"), n_features=5000))
    assert X.shape == (1, 5000)


def test_a_file_that_grows_wide_becomes_sparse(monkeypatch):
    monkeypatch.setattr(letor, "LOOK_AHEAD", 1)
    monkeypatch.setattr(source, "_CHUNK", 200)
    narrow = "".join(f"{i % 3} qid:{i // 5} 1:{i} 3:1\n" for i in range(50))
    block = read(io.StringIO(narrow + "1 qid:99 5000:7\n")).all()
    assert isinstance(block.X, SparseRows)
    expected = np.zeros((51, 5000))
    expected[:50, 0], expected[:50, 2], expected[50, 4999] = np.arange(50), 1.0, 7.0
    assert (block.X.toarray() == expected).all()


def test_queries_that_come_back_are_grouped(monkeypatch):
    monkeypatch.setattr(letor, "WIDE", 1)
    scattered = "1 qid:1 9:1\n0 qid:2 8:2\n2 qid:1 7:3\n"
    block = read(io.StringIO(scattered), repeated_qid="group").all()
    assert block.X.toarray()[:, 6:].tolist() == [[0, 0, 1], [3, 0, 0], [0, 2, 0]]
    assert block.y.tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 qid:1 3:1 2:1 3:2", "feature 3 is given twice"),
        ("1 qid:1 3:1 3:2", "feature 3 is given twice"),
        ("1 qid:1 2:x", "value 'x' of feature 2 is not a number"),
        ("1 qid:1 2:1e999", "value '1e999' of feature 2 is not finite"),
    ],
)
def test_bad_lines_are_named(line, message, monkeypatch):
    monkeypatch.setattr(letor, "WIDE", 1)
    with pytest.raises(ReadError, match=message):
        list(read(io.StringIO(line + "\n")))


def test_a_query_that_is_too_large_is_an_error(monkeypatch):
    monkeypatch.setattr(letor, "WIDE", 1)
    line = "1 qid:1 " + " ".join(f"{j}:1" for j in range(1, 100)) + "\n"
    with pytest.raises(ReadError, match="max_query_bytes"):
        list(read(io.StringIO(line * 10), max_query_bytes=5000))


def test_millions_of_features_have_no_names():
    """The names of the columns of a wide model would take more memory than its weights."""
    tracemalloc.start()
    try:
        (X, _), _ = read(io.StringIO("1 qid:1 2:1\n0 qid:2 3:1\n"), n_features=5_000_000)
        assert X.shape == (1, 5_000_000)
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()
