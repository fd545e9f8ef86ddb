"""The LETOR reader: forms of input, queries, groups, errors, positions."""

import gzip
import io
import json
import os
import pickle
import sys
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from online_rank.stream import LetorError, LetorPosition, LetorWarning, iter_letor, read_letor, write_letor
from online_rank.stream.letor import rows
from online_rank.stream.letor import source as source_module

# Long numbers overflow the mantissa, harmlessly; only without compilation (NUMBA_DISABLE_JIT=1) does that raise a warning.
pytestmark = [
    pytest.mark.filterwarnings("ignore:overflow encountered in scalar:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::online_rank.stream.letor.LetorWarning"),
]

TEXT = b"""2 qid:10 1:0.5 3:1 # docid = a inc = 1
0 qid:10 2:1e-3 #docid=b
1 qid:11 1:-7
"""
X10 = [[0.5, 0.0, 1.0], [0.0, 0.001, 0.0]]


def plain(queries):
    """Queries as lists, to compare with ==."""
    return [tuple(part.tolist() if isinstance(part, np.ndarray) else part for part in query) for query in queries]


def stream(text, **options):
    return plain(iter_letor(io.BytesIO(text if isinstance(text, bytes) else text.encode()), **options))


def data_folder():
    """Where the optional data sets lie, if they do."""
    beside = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"
    folder = Path(os.environ.get("ONLINE_RANK_DATA", beside))
    if not folder.is_dir():
        pytest.skip("no optional data")
    return folder


# What is yielded


def test_queries_qids_and_docids():
    assert stream(TEXT) == [(X10, [2, 0]), ([[-7.0, 0.0, 0.0]], [1])]
    assert [query[2] for query in stream(TEXT, with_qid=True)] == ["10", "11"]
    assert [query[2] for query in stream(TEXT, with_docid=True)] == [["a", "b"], [""]]
    assert stream(TEXT, with_qid=True, with_docid=True)[0] == (X10, [2, 0], "10", ["a", "b"])


def test_the_first_word_of_a_comment_without_docid_is_the_id():
    assert stream(b"1 qid:1 1:1 #  7555 rambo \n", with_docid=True)[0][2] == ["7555"]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_arrays_are_contiguous_and_own_their_memory(dtype):
    X, y = next(iter_letor(io.BytesIO(TEXT), dtype=dtype))
    assert X.dtype == dtype
    assert y.dtype == np.int64
    assert X.flags.c_contiguous
    assert X.base is None
    assert y.base is None


def test_block():
    block = read_letor(io.BytesIO(TEXT), with_docid=True)
    assert block.X.tolist() == [*X10, [-7.0, 0.0, 0.0]]
    assert block.y.tolist() == [2, 0, 1]
    assert block.qid.dtype == np.int64
    assert block.qid.tolist() == [10, 10, 11]
    assert block.docid == ["a", "b", ""]
    assert read_letor(io.BytesIO(TEXT)).docid is None


@pytest.mark.parametrize(("ids", "dtype"), [(["7", "q"], "U"), (["7", "007"], "U"), (["-3", "4"], "i"), (["9" * 19, "1"], "U")])
def test_ids_of_a_block_are_integers_only_if_nothing_is_lost(ids, dtype):
    qid = read_letor(io.StringIO("".join(f"1 qid:{one} 1:1\n" for one in ids))).qid
    assert qid.dtype.kind == dtype
    assert [str(one) for one in qid] == ids


def test_empty_input():
    assert stream(b"") == []
    assert stream(b"\n# nothing\n  \t\n") == []
    block = read_letor(io.BytesIO(b""))
    assert block.X.shape == (0, 0)
    assert block.y.shape == block.qid.shape == (0,)
    assert read_letor(io.BytesIO(b""), n_features=5).X.shape == (0, 5)


def test_a_qid_that_comes_back_is_a_new_query():
    text = b"1 qid:1 1:1\n1 qid:2 1:2\n1 qid:1 1:3\n"
    assert [query[2] for query in stream(text, with_qid=True)] == ["1", "2", "1"]
    with pytest.raises(LetorError, match=r"line 3: query 1 comes back"):
        stream(text, repeated_qid="error")


# Spellings


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace(b"\n", b"\r\n"),
        TEXT.replace(b"\n", b"\r"),
        TEXT.replace(b" ", b"\t"),
        TEXT.replace(b" ", b" \t \x0b\x0c"),
        TEXT.replace(b"\n", b"   \n\n  # a line of comment\n\t\n"),
        TEXT.removesuffix(b"\n"),
        b"\xef\xbb\xbf" + TEXT,
        TEXT.replace(b"2 qid", b"+2.0 qid").replace(b"1 qid", b"1e0 qid").replace(b"\n0 qid", b"\n-0.000 qid"),
        TEXT.replace(b"1:0.5 3:1", b"3:1 1:0.5"),
        TEXT.replace(b"1e-3", b"1E-03").replace(b":0.5", b":+.5").replace(b"-7", b"-7."),
        TEXT.replace(b"1:0.5", b"01:0.5 2:0"),
        TEXT.replace(b"3:1 #", b"3:1#"),
        TEXT.replace(b"1:0.5", b"1:0.5 2:NULL"),
        TEXT.replace(b"1:0.5", b"1:0.5 2:nan"),
        TEXT.replace(b"2:1e-3", b"2:1e-3 1:-NaN 3:nan"),
        b"  " + TEXT,
    ],
)
def test_spellings_of_the_same(text):
    assert stream(text, missing="zero") == stream(TEXT)


def test_zero_based():
    assert stream(b"1 qid:1 0:5 2:6\n", zero_based=True) == [([[5.0, 0.0, 6.0]], [1])]


# Sources


def test_paths_files_text_gzip_and_pipes(tmp_path, monkeypatch):
    expected = stream(TEXT)
    path, zipped = tmp_path / "a.txt", tmp_path / "zipped-without-a-telling-name"
    path.write_bytes(TEXT)
    zipped.write_bytes(gzip.compress(TEXT[:30]) + gzip.compress(TEXT[30:]))
    sources = [path, str(path), zipped, io.StringIO(TEXT.decode()), io.BytesIO(gzip.compress(TEXT))]
    for given in sources:
        assert plain(iter_letor(given)) == expected
    with open(path) as text, open(path, "rb") as binary, gzip.open(zipped) as inflated, open(zipped, "rb", buffering=0) as raw:
        for given in (text, binary, inflated, raw):
            assert plain(iter_letor(given)) == expected
            assert not given.closed
    for content in (TEXT, gzip.compress(TEXT)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert plain(iter_letor("-")) == expected


def test_a_pipe_is_read_as_far_as_it_is_written():
    read, write = os.pipe()
    with open(read, "rb") as source, open(write, "wb", buffering=0) as sink:
        queries = iter_letor(source, n_features=3)
        sink.write(TEXT)
        assert next(queries)[0].tolist() == X10  # the pipe is still open
        sink.close()
        assert len(list(queries)) == 1


def test_several_files_are_one_stream(tmp_path):
    whole = TEXT + TEXT.replace(b"10", b"12")
    for cut in (0, 40, len(TEXT), len(whole)):
        cut = whole.rfind(b"\n", 0, cut) + 1
        parts = [tmp_path / "1", tmp_path / "2"]
        parts[0].write_bytes(whole[:cut].removesuffix(b"\n"))
        parts[1].write_bytes(whole[cut:])
        assert plain(iter_letor(*parts, with_qid=True, n_features=3)) == stream(whole, with_qid=True)
        assert plain(iter_letor(parts, n_features=3)) == stream(whole)
        assert read_letor(*parts).qid.tolist() == read_letor(io.BytesIO(whole)).qid.tolist()


def test_no_thread_is_left_behind(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(TEXT * 20_000))
    before = threading.active_count()
    queries = iter_letor(path)
    next(queries)
    queries.close()
    assert threading.active_count() == before
    with iter_letor(path) as queries:
        next(queries)
    assert threading.active_count() == before


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
@pytest.mark.parametrize("block", [1, 8, 1 << 20])
def test_pieces_do_not_show(monkeypatch, size, block):
    """Lines and queries that straddle reads and blocks of any size."""
    text = b"".join(b"%d qid:%d 1:%d 7:2.5 3:%d #docid = d%d\n" % (i % 3, i // 5, i, i * i, i) for i in range(60))
    expected = stream(text, with_qid=True, with_docid=True, n_features=7)
    monkeypatch.setattr(rows, "_CHUNK", size)
    monkeypatch.setattr(rows, "_BLOCK", block)
    monkeypatch.setattr(rows, "LOOK_AHEAD", 60)
    assert stream(text, with_qid=True, with_docid=True) == expected
    assert stream(gzip.compress(text), with_qid=True, with_docid=True) == expected
    assert np.array_equal(read_letor(io.BytesIO(text)).X, np.concatenate([query[0] for query in expected]))


def test_an_endless_line_is_refused(monkeypatch):
    monkeypatch.setattr(source_module, "_LONGEST_LINE", 1 << 21)
    with pytest.raises(LetorError, match=r"line 2: longer than"):
        stream(b"1 qid:1 1:1\n1 qid:1 " + b" " * (1 << 22), n_features=1)


def test_damaged_gzip():
    content = gzip.compress(TEXT * 1000)
    for damaged in (content[:-9], content[:40] + b"xxxx" + content[44:], content[:-8] + b"12345678"):
        with pytest.raises(LetorError, match="<BytesIO>: cannot be uncompressed"):
            stream(damaged)


# The number of features


def test_the_first_bytes_decide_the_number_of_features(monkeypatch):
    monkeypatch.setattr(rows, "LOOK_AHEAD", 30)
    monkeypatch.setattr(rows, "_CHUNK", 1)
    text = b"1 qid:1 1:1\n1 qid:1 3:1\n" + b"1 qid:2 2:1\n" * 5 + b"1 qid:3 1:1\n1 qid:3 1:1 5:1\n"
    queries = iter_letor(io.BytesIO(text))
    assert next(queries)[0].shape == (2, 3)
    assert queries.n_features == queries.position.n_features == 3
    assert next(queries)[0].shape == (5, 3)
    with pytest.raises(LetorError, match=r"line 9, column 13: feature 5, .* 3 features: pass n_features=5 or more"):
        next(queries)
    assert read_letor(io.BytesIO(text)).X.shape == (9, 5)
    assert [len(query[0][0]) for query in stream(text, n_features=6)] == [6, 6, 6]


def test_huge_ids_do_not_allocate():
    for reader in (stream, lambda text: read_letor(io.BytesIO(text))):
        with pytest.raises(LetorError, match=r"line 2, column 9: feature 999999999, .* pass n_features=999999999"):
            reader(b"1 qid:1 1:1\n1 qid:1 999999999:1\n")
    with pytest.raises(LetorError, match="n_features"):
        stream(b"1 qid:1 99999999999999999999999999999:1\n")
    X, _ = next(iter_letor(io.BytesIO(b"1 qid:1 200000:3\n"), n_features=200_000))
    assert X[0, -1] == 3.0


# Groups


def test_group_file_beside_the_data(tmp_path):
    rows = b"1 1:1\n0 1:2\n2 2:3\n"
    for name, content in (("a", rows), ("b.gz", gzip.compress(rows))):
        for suffix in (".query", ".group"):
            path = tmp_path / f"{suffix}{name}"
            path.write_bytes(content)
            Path(f"{str(path).removesuffix('.gz')}{suffix}").write_text("2\n0\n1\n")
            assert plain(iter_letor(path, with_qid=True)) == [([[1.0, 0.0], [2.0, 0.0]], [1, 0], "1"), ([[0.0, 3.0]], [2], "2")]
    path = tmp_path / ".querya"
    assert read_letor(path, path).qid.tolist() == [1, 1, 2, 3, 3, 4]
    assert read_letor(path, path, group=[[3], None]).qid.tolist() == [1, 1, 1, 2, 2, 3]


def test_group_argument_rules_over_qids():
    assert [len(y) for _, y in stream(TEXT, group=[1, 2])] == [1, 2]
    assert [len(y) for _, y in stream(TEXT, group=np.array([3]))] == [3]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([1], "line 2: more documents than the group sizes add up to"),
        ([1, 3], "3 documents, but the group sizes add up to 4"),
        ([], "line 1: more documents"),
    ],
)
def test_group_sizes_that_do_not_add_up(sizes, message):
    with pytest.raises(LetorError, match=message):
        stream(TEXT, group=sizes)


def test_group_argument_is_checked(tmp_path):
    path = tmp_path / "sizes"
    for content in ("2\nx\n", "2\n-1\n", "2 1\n", "2\n1.5\n"):
        path.write_text(content)
        with pytest.raises(LetorError, match=r"sizes, line 2: .* is not the size of a group|sizes, line 1"):
            stream(TEXT, group=path)
    for bad in ([-1, 4], [1.5, 1.5], [[1, 2]]):
        with pytest.raises(ValueError, match="group must be"):
            stream(TEXT, group=bad)
    with pytest.raises(ValueError, match="group has 1 entries for 2 sources"):
        iter_letor(io.BytesIO(), io.BytesIO(), group=[[1]])


def test_neither_qid_nor_group():
    with pytest.raises(LetorError, match=r"line 2: no qid:\.\.\. and no file with the sizes"):
        stream(b"# head\n1 1:1\n")


# Bad lines


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ("x qid:1 1:1", 1, "the grade 'x' is not a number"),
        ("nan qid:1 1:1", 1, "the grade 'nan' is not a number"),
        (":1", 1, "the grade ':1' is not a number"),
        ("1qid:1 1:1", 1, "the grade '1qid:1' is not a number"),
        ("-1 qid:1 1:1", 1, "the grade '-1' is not an integer >= 0"),
        ("0.5 qid:1 1:1", 1, "the grade '0.5' is not an integer >= 0"),
        ("1e300 qid:1 1:1", 1, "the grade '1e300' is not an integer >= 0"),
        ("1e-30 qid:1 1:1", 1, "the grade '1e-30' is not an integer >= 0"),
        ("1 1:1", 3, "no qid"),
        ("1", 2, "no qid"),
        ("1 qid: 1:1", 7, "qid: without an id"),
        ("1 qid:1 1", 9, "'1' is not feature:value"),
        ("1 qid:1 one:1", 9, "'one:1' is not feature:value"),
        ("1 qid:1 -1:1", 9, "'-1:1' is not feature:value"),
        ("1 qid:1 1:1 qid:1", 13, "'qid:1' is not feature:value"),
        ("1 qid:1 1 :1", 9, "'1' is not feature:value"),
        ("1 qid:1 0:1", 9, "feature 0, but ids start at 1; zero_based=True (--zero-based)"),
        ("1 qid:1 1:1 1:2", 13, "feature 1 is given twice"),
        ("1 qid:1 2:1 1:2 2:3", 17, "feature 2 is given twice"),
        ("1 qid:1 1:", 11, "the value '' of feature 1 is not a number"),
        ("1 qid:1 1: 5", 11, "the value '' of feature 1 is not a number"),
        ("1 qid:1 1:1 2:1.2.3", 15, "the value '1.2.3' of feature 2 is not a number"),
        ("1 qid:1 1:1_000", 11, "the value '1_000' of feature 1 is not a number"),
        ("1 qid:1 1:0x10", 11, "the value '0x10' of feature 1 is not a number"),
        ("1 qid:1 1:1e", 11, "the value '1e' of feature 1 is not a number"),
        ("1 qid:1 1:.", 11, "the value '.' of feature 1 is not a number"),
        ("1 qid:1 1:NULLS", 11, "the value 'NULLS' of feature 1 is not a number"),
        ("1 qid:1 1:nan", 11, "the value of feature 1 is missing: 'nan'"),
        ("1 qid:1 1:nano", 11, "the value 'nano' of feature 1 is not finite"),
        ("1 qid:1 1:-Infinity", 11, "the value '-Infinity' of feature 1 is not finite"),
        ("1 qid:1 2:1 1:1e999", 15, "the value '1e999' of feature 1 is not finite"),
        ("1 qid:1 1:\0", 11, "of feature 1 is not a number"),
    ],
)
def test_bad_lines(tmp_path, line, column, message):
    path = tmp_path / "bad.txt"
    path.write_text(f"2 qid:1 1:1 2:2\n\n{line}\n1 qid:1 1:3\n1 qid:2 1:4\n", newline="")
    for reader in (read_letor, lambda path: list(iter_letor(path))):
        with pytest.raises(LetorError) as caught:
            reader(path)
        error = caught.value
        assert (error.file, error.line, error.column) == (str(path), 3, column)
        assert message in error.what
        assert str(error) == f"{path}, line 3, column {column}: {error.what}"
        assert str(pickle.loads(pickle.dumps(error))) == str(error)

    queries = iter_letor(path, on_error="skip")
    assert plain(queries) == [([[1.0, 2.0], [3.0, 0.0]], [2, 1]), ([[4.0, 0.0]], [1])]
    assert queries.skipped == 1
    assert [str(error) for error in queries.errors] == [str(error)]


@pytest.mark.parametrize("sparse", [False, True])
def test_the_first_fault_is_the_one_that_is_named(sparse):
    """Not the number of features, to which a line that is no document does not count."""
    for features, twice in (("1:1 5:2 5:2", 5), ("9:1 5:2 5:2", 5), ("5:1 9:1 1:2 1:3 99999:1", 1)):
        text = f"0 qid:1 1:2\n1 qid:1 {features}\n0 qid:1 1:2\n"
        with pytest.raises(LetorError, match=rf"line 2, .*: feature {twice} is given twice"):
            list(iter_letor(io.StringIO(text), sparse=sparse))
        with pytest.raises(LetorError, match=rf"line 2, .*: feature {twice} is given twice"):
            read_letor(io.StringIO(text), sparse=sparse)


def test_float32_overflow():
    assert stream(b"1 qid:1 1:1e39\n") == [([[1e39]], [1])]
    largest = float(np.finfo(np.float32).max)
    text = f"1 qid:1 1:{largest!r}\n1 qid:1 1:{-largest:.0f}\n"
    assert stream(text, dtype=np.float32) == [([[largest], [-largest]], [1, 1])]
    for value in ("1e39", "-3.5e38", "1" + "0" * 38 + "0"):
        with pytest.raises(LetorError, match="of feature 1 is not finite"):
            stream(f"1 qid:1 1:{value}\n", dtype=np.float32)


@pytest.mark.parametrize("value", ["NULL", "nan", "-NaN"])
def test_missing_values_are_errors_unless_they_are_read_as_zero(value):
    text = f"1 qid:1 1:0.5 2:{value}\n0 qid:1 1:{value}#a:nan\n"
    for sparse in (False, True):
        message = rf"line 1, column 17: the value of feature 2 is missing: '{value}'; missing=\"zero\" \(--missing zero\)"
        with pytest.raises(LetorError, match=message):
            list(iter_letor(io.StringIO(text), sparse=sparse))
    assert stream(text, missing="zero", with_docid=True) == [([[0.5, 0.0], [0.0, 0.0]], [1, 0], ["", "a:nan"])]
    ((X, _),) = iter_letor(io.StringIO(text), missing="zero", sparse=True)
    assert X.toarray().tolist() == [[0.5, 0.0], [0.0, 0.0]]


def test_an_unexpected_qid(tmp_path):
    (tmp_path / "a").write_bytes(b"1 1:1\n1 qid:4 1:1\n")
    (tmp_path / "a.query").write_text("2")
    with pytest.raises(LetorError, match=r"line 2, column 3: 'qid:4', although the first line has no qid"):
        read_letor(tmp_path / "a")


def test_skipped_lines_keep_their_place_in_a_group():
    queries = iter_letor(
        io.BytesIO(b"1 1:1\nbad\n1 1:3\n1 1:4\n1 1:1e999\nbad\n1 1:7\n"), group=[2, 2, 2, 1], on_error="skip", with_qid=True
    )
    assert plain(queries) == [([[1.0]], [1], "1"), ([[3.0], [4.0]], [1, 1], "2"), ([[7.0]], [1], "3")]
    assert queries.skipped == 3
    assert [error.line for error in queries.errors] == [2, 5, 6]


def test_queries_before_a_bad_line_are_yielded(tmp_path):
    """Those known to be complete, however the text comes in pieces: here all but the one before the bad line."""
    queries = iter_letor(io.BytesIO(b"1 qid:1 1:1\n1 qid:2 1:2\n1 qid:3 1:3\n1 qid:3 1:1e999\nbad\n"))
    assert plain([next(queries), next(queries)]) == [([[1.0]], [1]), ([[2.0]], [1])]
    assert queries.position.line == 3
    with pytest.raises(LetorError, match="line 4"):
        next(queries)


def test_only_the_first_few_errors_are_kept():
    queries = iter_letor(io.BytesIO(b"bad\n" * 5000 + b"1 qid:1 1:1\n"), on_error="skip")
    assert len(list(queries)) == 1
    assert queries.skipped == 5000
    assert [error.line for error in queries.errors] == list(range(1, 11))


@pytest.mark.parametrize(
    "options",
    [{"n_features": 0}, {"n_features": 2.5}, {"dtype": int}, {"missing": "mean"}, {"on_error": "x"}, {"repeated_qid": "x"}],
)
def test_bad_options(options):
    with pytest.raises((ValueError, TypeError), match=next(iter(options))):
        iter_letor(io.BytesIO(TEXT), **options)


def test_bad_sources(tmp_path):
    with pytest.raises(TypeError, match="path, '-' or a file object, not int"):
        iter_letor(3)
    with pytest.raises(ValueError, match="at least one source"):
        iter_letor()
    with pytest.raises(FileNotFoundError):
        list(iter_letor(tmp_path / "absent"))


# Positions


def test_every_position_is_a_place_to_go_on_from(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "_BLOCK", 12)
    monkeypatch.setattr(rows, "_CHUNK", 50)
    one = b"\xef\xbb\xbf1 qid:1 1:1\n# c\n\nbad\n1 qid:1 3:1\n1 qid:2 2:1\nbad\nbad\n0 qid:3 1:2\n2 qid:4 1:1e999\n"
    two = b"bad\n0 qid:3 3:4\n\n1 qid:5 3:5"
    three = b"1 1:6\nbad\n1 1:7\n1 2:8\n"
    names = ["one", "two.gz", "three"]
    for name, content in zip(names, (one, gzip.compress(two), three), strict=True):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "three.query").write_text("2\n1\n1\n")
    paths = [tmp_path / name for name in names]
    options = {"with_qid": True, "on_error": "skip"}
    queries = iter_letor(*paths, **options)
    positions, yielded, skipped = [queries.position], [], []
    for query in queries:
        yielded.append(query)
        positions.append(queries.position)
        skipped.append(queries.skipped)
    assert [query[2] for query in yielded] == ["1", "2", "3", "5", "5", "6", "7"]
    assert skipped == [1, 3, 5, 5, 6, 6, 6]
    assert queries.skipped == 6
    assert [position.line for position in positions[1:-1]] == [6, 9, 4, 1, 3, 4]
    assert [position.file for position in positions[1:]] == [0, 0, 1, 2, 2, 2, 3]
    for i, position in enumerate(positions):
        again = iter_letor(*paths, **options, start=json.loads(json.dumps(position)))
        assert again.position == position
        assert plain(again) == plain(yielded[i:])
        assert again.position == positions[-1]
    assert positions[1] == LetorPosition(0, len(one[: one.index(b"1 qid:2")]), 6, 3, 1, 1, 3)


def test_starting_beyond_the_end(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(TEXT))
    with pytest.raises(LetorError, match="ends before the position"):
        list(iter_letor(path, start=LetorPosition(0, 10_000)))


# Writing


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("zero_based", [False, True])
def test_what_is_written_is_read(tmp_path, sparse, dtype, zero_based):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(50, 7)) * 10.0 ** rng.integers(-30, 30, (50, 7))).astype(dtype)
    X[rng.random(X.shape) < 0.3] = 0
    y, qid = rng.integers(0, 5, 50), np.repeat(np.arange(10), 5)
    docid = [f"d{i}" for i in range(50)]
    for name in ("a", "a.gz"):
        write_letor(tmp_path / name, X, y, qid, docid=docid, sparse=sparse, zero_based=zero_based)
        block = read_letor(tmp_path / name, n_features=7, dtype=dtype, with_docid=True, zero_based=zero_based)
        assert block.X.tobytes() == X.tobytes()
        assert block.y.tolist() == y.tolist()
        assert block.qid.tolist() == qid.tolist()
        assert block.docid == docid
    assert (tmp_path / "a.gz").read_bytes()[:2] == b"\x1f\x8b"


def test_digits_and_binary_files():
    out = io.BytesIO()
    write_letor(out, [[0.123456789, 2.0]], [1], digits=3)
    assert out.getvalue() == b"1 1:0.123 2:2\n"


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([[1.0]], [1, 2]), {}, "X must be"),
        (([1.0], [1]), {}, "X must be"),
        (([[1.0, np.nan]], [1]), {}, r"X\[0, 1\] is nan"),
        (([[1.0]], [-1]), {}, "y must hold"),
        (([[1.0]], [0.5]), {}, "y must hold"),
        (([[1.0]], [1], ["a b"]), {}, r"qid\[0\]"),
        (([[1.0]], [1], ["a#"]), {}, r"qid\[0\]"),
        (([[1.0]], [1], ["a", "b"]), {}, "qid has 2 entries for 1 documents"),
        (([[1.0]], [1]), {"docid": ["a\n"]}, r"docid\[0\]"),
    ],
)
def test_what_cannot_be_written(arguments, options, message):
    out = io.StringIO()
    with pytest.raises(ValueError, match=message):
        write_letor(out, *arguments, **options)
    assert out.getvalue() == ""


# Real data


def test_mq2008_against_scikit_learn():
    datasets = pytest.importorskip("sklearn.datasets")
    paths = sorted((data_folder() / "mq2008").glob("S*.txt"))
    for path in paths:
        X, y, qid = datasets.load_svmlight_file(str(path), query_id=True, zero_based=False)
        block = read_letor(path)
        assert block.X.tobytes() == X.toarray().tobytes()
        assert np.array_equal(block.y, y)
        assert np.array_equal(block.qid, qid)
    queries = list(iter_letor(paths, with_qid=True))
    assert len(queries) == sum(len(list(iter_letor(path))) for path in paths)


def test_lightgbm_example():
    folder = data_folder() / "lightgbm_lambdarank"
    sizes = [int(size) for size in (folder / "rank.train.query").read_text().split()]
    assert [len(y) for _, y in iter_letor(folder / "rank.train")] == sizes
    assert read_letor(folder / "rank.train").X.shape == (sum(sizes), 300)


def grouped(source, **options):
    return list(iter_letor(source, repeated_qid="group", **options))


def in_order(source, **options):
    return list(iter_letor(source, **options))


@pytest.mark.parametrize("read", [in_order, grouped, read_letor])
def test_a_short_text_with_a_high_feature_does_not_take_gigabytes(read):
    """128 kB of it: 8 GB. Memory is in proportion to the text, unless the reader is told how wide a row is."""
    text = b"1 qid:1 1:1\n" + b"1 qid:7 65536:1\n" * 8000
    read(io.BytesIO(text[:100]))
    tracemalloc.start()
    try:
        with pytest.raises(
            LetorError, match=r"bytes of text; give n_features=65536 \(--n-features\) if that is meant"
        ) as raised:
            read(io.BytesIO(text))
        # Tables as wide as a row may be take 4 MiB of addresses, few of which are touched.
        assert tracemalloc.get_traced_memory()[1] < (4 << 20) + 64 * len(text)
    finally:
        tracemalloc.stop()
    assert raised.value.line == (2 if read is in_order else 1)
    few = text[:1004]
    with pytest.raises(LetorError, match="give n_features=65536"):
        read(io.BytesIO(few))
    assert len(read(io.BytesIO(few), n_features=65536)) > 0


@pytest.mark.parametrize("read", [in_order, grouped])
def test_a_query_may_be_limited(read):
    text = b"1 qid:1 3:1\n" * 10
    assert read(io.BytesIO(text), max_query_bytes=10 * 3 * 8)[0][0].shape == (10, 3)
    with pytest.raises(LetorError, match=r"line 2: the query .* has 10 documents or more with 3 features.*max_query_bytes=239"):
        read(io.BytesIO(b"1 qid:0 1:1\n" + text), max_query_bytes=239)
    for wrong, error in ((0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError), (None, TypeError)):
        with pytest.raises(error, match="max_query_bytes"):
            read(io.BytesIO(b""), max_query_bytes=wrong)


def test_two_halves_of_a_large_query_are_one_when_they_are_grouped():
    halves = b"1 qid:1 3:1\n" * 5 + b"1 qid:2 3:1\n" + b"1 qid:1 3:1\n" * 5
    assert len(in_order(io.BytesIO(halves), max_query_bytes=239)) == 3
    with pytest.raises(LetorError, match=r"line 1: .*max_query_bytes=239"):
        grouped(io.BytesIO(halves), max_query_bytes=239)


def test_a_start_that_is_no_place():
    with pytest.raises(ValueError, match="start is"):
        iter_letor(io.BytesIO(b"1 qid:1 1:1\n"), start=(0, -5))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 qid:1 1:1\n".encode("utf-16"), "is in UTF-16: convert it"),
        (b"\xfe\xff" + "1 qid:1 1:1\n".encode("utf-16-be"), "is in UTF-16: convert it"),
        ("1 qid:é 1:1\n".encode("latin-1"), r"<BytesIO>, line 1: b'\\xe9' is not UTF-8 .*; convert the file"),
    ],
)
def test_text_of_other_systems_comes_with_advice(text, message):
    with pytest.raises(LetorError, match=message):
        list(iter_letor(io.BytesIO(text)))


# A qid that comes back.

INTERLEAVED = "1 qid:a 1:1 # docid = p\n0 qid:b 1:2 # docid = q\n0 qid:a 1:3 # docid = r\n2 qid:b 1:4 # docid = s\n"


def test_a_qid_that_comes_back_is_warned_of_once_with_its_line(tmp_path):
    path = tmp_path / "mixed.txt"
    path.write_text(INTERLEAVED)
    with pytest.warns(LetorWarning, match=r"mixed\.txt, line 3: query a comes back") as caught:
        assert [len(y) for _, y in iter_letor(path)] == [1, 1, 1, 1]
    assert len(caught) == 1
    with pytest.warns(LetorWarning, match=r"mixed\.txt, line 3: query a comes back"):
        assert read_letor(path).qid.tolist() == ["a", "b", "a", "b"]


def test_queries_that_stand_together_are_not_warned_of(recwarn):
    list(iter_letor(io.StringIO(INTERLEAVED), repeated_qid="new"))
    read_letor(io.StringIO("1 qid:a 1:1\n0 qid:a 1:3\n0 qid:b 1:2\n"))
    assert not recwarn


def test_documents_of_a_qid_are_put_together():
    queries = list(iter_letor(io.StringIO(INTERLEAVED), repeated_qid="group", with_qid=True, with_docid=True))
    assert [(X.ravel().tolist(), y.tolist(), qid, docids) for X, y, qid, docids in queries] == [
        ([1.0, 3.0], [1, 0], "a", ["p", "r"]),
        ([2.0, 4.0], [0, 2], "b", ["q", "s"]),
    ]
    block = read_letor(io.StringIO(INTERLEAVED), repeated_qid="group", with_docid=True)
    assert (block.X.ravel().tolist(), block.y.tolist()) == ([1.0, 3.0, 2.0, 4.0], [1, 0, 0, 2])
    assert (block.qid.tolist(), block.docid) == (["a", "a", "b", "b"], ["p", "r", "q", "s"])
    with pytest.raises(LetorError, match="line 3: query a comes back"):
        read_letor(io.StringIO(INTERLEAVED), repeated_qid="error")
    with pytest.raises(ValueError, match="cannot start in the middle"):
        iter_letor(io.StringIO(INTERLEAVED), repeated_qid="group", start=LetorPosition(offset=3))


@pytest.mark.slow
def test_grouping_a_large_file_over_many_blocks(tmp_path):
    rng = np.random.default_rng(0)
    qids = rng.integers(0, 50, 30_000)
    text = "".join(f"{i % 3} qid:{q} 1:{i} 80:1\n" for i, q in enumerate(qids))
    (tmp_path / "large.txt").write_text(text)
    queries = {qid: X[:, 0].tolist() for X, _, qid in iter_letor(tmp_path / "large.txt", repeated_qid="group", with_qid=True)}
    assert queries == {str(q): np.flatnonzero(qids == q).tolist() for q in np.unique(qids)}
    assert list(queries) == [str(q) for q in dict.fromkeys(qids.tolist())]


# Tables.


@pytest.mark.parametrize("kind", ["pandas", "pandas nullable", "polars", "pyarrow"])
def test_write_tables(kind):
    columns = {"clicks": [1, 0], "price": [2.5, 0.25]}
    library = pytest.importorskip(kind.split()[0])
    if kind == "pandas nullable":
        frame = library.DataFrame(columns).convert_dtypes()
        y = library.Series([2, 0], dtype="Int64")
    else:
        frame = library.table(columns) if kind == "pyarrow" else library.DataFrame(columns)
        y = library.chunked_array([[2, 0]]) if kind == "pyarrow" else library.Series([2, 0])
    out = io.StringIO()
    write_letor(out, frame, y, ["a", "a"])
    assert out.getvalue() == "2 qid:a 1:1 2:2.5\n0 qid:a 1:0 2:0.25\n"


def test_a_missing_value_of_a_table_is_named():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"clicks": pandas.array([1, None], dtype="Int64")})
    with pytest.raises(ValueError, match="column 'clicks', row 1: the value is missing"):
        write_letor(io.StringIO(), frame, [1, 0])
    with pytest.raises(ValueError, match="y, row 0: the value is missing"):
        write_letor(io.StringIO(), [[1.0], [2.0]], pandas.Series([None, 0], dtype="Int64"))
    with pytest.raises(TypeError, match="y has dtype object"):
        write_letor(io.StringIO(), [[1.0], [2.0]], [None, 0])


# Negative grades.


def test_negative_grades_are_refused_read_as_zero_or_left_out():
    text = "-1 qid:a 1:1\n2 qid:a 1:2\n-2 qid:a 1:3\n1 qid:b 1:4\n-1 qid:c 1:5\n-1 qid:d 1:6\n0 qid:d 1:7\n"
    with pytest.raises(LetorError, match=r'line 1, column 1: the grade .-1. is not an integer >= 0; negative="zero"'):
        stream(text.encode())
    zero = stream(text.encode(), negative="zero", with_qid=True)
    assert [(y, qid) for _, y, qid in zero] == [([0, 2, 0], "a"), ([1], "b"), ([0], "c"), ([0, 0], "d")]
    skipped = stream(text.encode(), negative="skip", with_qid=True)
    assert [(X, y, qid) for X, y, qid in skipped] == [([[2.0]], [2], "a"), ([[4.0]], [1], "b"), ([[7.0]], [0], "d")]
    assert read_letor(io.StringIO(text), negative="skip").qid.tolist() == ["a", "b", "d"]
    with pytest.raises(LetorError, match="not an integer"):
        stream(b"-1.5 qid:a 1:1\n", negative="zero")
    with pytest.raises(ValueError, match="negative is"):
        stream(text.encode(), negative="one")


def test_left_out_documents_at_the_ends_of_blocks():
    rng = np.random.default_rng(1)
    grades, qids = rng.integers(-2, 3, 20_000), np.sort(rng.integers(0, 3000, 20_000))
    text = "".join(f"{g} qid:{q} 1:{i} 300:1\n" for i, (g, q) in enumerate(zip(grades, qids, strict=True)))
    queries = {qid: X[:, 0].tolist() for X, _, qid in iter_letor(io.StringIO(text), negative="skip", with_qid=True)}
    kept = {str(q): np.flatnonzero((qids == q) & (grades >= 0)).tolist() for q in np.unique(qids)}
    assert queries == {qid: rows for qid, rows in kept.items() if rows}


# Line ends, encodings.


@pytest.mark.parametrize("size", [1, 2, 7, 1 << 20])
def test_lines_may_end_in_any_way_wherever_the_pieces_end(monkeypatch, size):
    monkeypatch.setattr(rows, "_CHUNK", size)
    for end in (b"\r", b"\r\n", b"\n"):
        text = TEXT.replace(b"\n", end)
        assert stream(text) == stream(TEXT)
        with pytest.raises(LetorError, match=r"line 3, column 10: 'x' is not feature:value"):
            stream(text.replace(b"1:-7", b"x"), n_features=3)


@pytest.mark.parametrize("text", [b"1 qid:1 1:1 #docid = \xe9\n", b"1 qid:1 1:1 # \xe9\n"])
def test_an_id_that_is_not_utf8_is_named_where_it_is_wanted(text):
    with pytest.raises(LetorError, match=r"<BytesIO>, line 2: b'\\xe9' is not UTF-8 .*iconv -f latin1"):
        stream(b"\n" + text, with_docid=True)
    assert stream(text) == [([[1.0]], [1])]


def test_a_text_file_in_another_encoding_is_named(tmp_path):
    path = tmp_path / "latin"
    path.write_bytes("1 qid:é 1:1\n".encode("latin-1"))
    with open(path, encoding="utf-8") as file, pytest.raises(LetorError, match=r"latin, line 1: .*can't decode .*convert"):
        list(iter_letor(file))
