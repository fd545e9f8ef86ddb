"""Vowpal Wabbit's text as queries."""

import gzip
import io

import numpy as np
import pytest

from online_rank.stream import iter_vw

TEXT = """shared |u age:30 |c:0.5 x:4 y
1:0 'a |d new clicks:3 new
2:2.0 'b | plain:-1e-3

shared | s
1:1 |d new

1:1 'a |d
1:0 'a |d z
"""


def test_names_values_weights_tags_and_grades():
    queries = list(iter_vw(io.StringIO(TEXT), top=2))
    shared = {"u^age": 30.0, "c^x": 0.5 * 4.0, "c^y": 0.5 * 1.0}
    assert [x for x, _ in queries] == [
        {"a": {**shared, "d^new": 1.0 + 1.0, "d^clicks": 3.0}, "b": {**shared, "plain": -1e-3}},
        [{"s": 1.0, "d^new": 1.0}],
        [{}, {"d^z": 1.0}],
    ]
    assert [y.tolist() for _, y in queries] == [[2, 0], [1], [1, 2]]
    assert all(y.dtype == np.int64 for _, y in queries)


def test_files_of_all_kinds(tmp_path):
    plain, zipped = tmp_path / "a.vw", tmp_path / "b.vw.gz"
    plain.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    zipped.write_bytes(gzip.compress(TEXT.strip().encode()))
    expected = [(x, y.tolist()) for x, y in iter_vw(io.StringIO(TEXT), top=2)]
    assert [(x, y.tolist()) for x, y in iter_vw(plain, zipped, io.BytesIO(TEXT.encode()), top=2)] == 3 * expected
    assert list(iter_vw(io.StringIO("\n\n \n"), top=2)) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1:0.5 |a", "line 1: the cost 0.5 gives no grade"),
        ("\n\n1:0 |a\n1:3 |a", "line 4: the cost 3 gives no grade"),
        ("1:-999 |a", "the cost -999 gives no grade"),
        ("1 |a", "the label '1' is not label:cost"),
        ("|a b", "the label '' is not label:cost"),
        ("1:0:0.5 |a", "is not label:cost"),
        ("1:0 2.0 |a", "is not label:cost"),
        ("1:nan |a", "is not label:cost"),
        ("no features", "line 1: no features"),
        ("1:0 |a b:x", "the value 'x' of 'b' is not a finite number"),
        ("1:0 |a b:inf", "the value 'inf' of 'b' is not a finite number"),
        ("1:0 |a\nshared |b", "line 2: 'shared' is not the first line"),
    ],
)
def test_bad_lines_are_named(text, message):
    with pytest.raises(ValueError, match=message):
        list(iter_vw(io.StringIO(text), top=2))


def test_bad_options_and_queries_without_end():
    with pytest.raises(ValueError, match="top is -1"):
        iter_vw(io.StringIO(""), top=-1)
    with pytest.raises(ValueError, match="max_query_bytes"):
        list(iter_vw(io.StringIO("1:0 |a\n" * 100), top=1, max_query_bytes=100))
