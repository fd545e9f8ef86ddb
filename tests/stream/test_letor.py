"""The LETOR reader: forms of input, queries, groups, errors, positions."""

import gzip
import io
import os
import pickle
import sys
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from online_rank import read
from online_rank.stream import ReadError, ReadWarning, letor, write_letor
from online_rank.stream import source as source_module

# Long numbers overflow the mantissa, harmlessly; only without compilation (NUMBA_DISABLE_JIT=1) does that raise a warning.
pytestmark = [
    pytest.mark.filterwarnings("ignore:overflow encountered in scalar:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::online_rank.stream.ReadWarning"),
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
    return plain(read(io.BytesIO(text if isinstance(text, bytes) else text.encode()), **options))


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
    assert [query[2:] for query in stream(TEXT, with_ids=True)] == [("10", ["a", "b"]), ("11", [""])]
    assert stream(TEXT, with_ids=True)[0] == (X10, [2, 0], "10", ["a", "b"])


def test_the_first_word_of_a_comment_without_docid_is_the_id():
    assert stream(b"1 qid:1 1:1 #  7555 rambo \n", with_ids=True)[0][3] == ["7555"]


def test_arrays_are_contiguous_and_own_their_memory():
    X, y = next(read(io.BytesIO(TEXT)))
    assert y.dtype == np.int64
    assert X.flags.c_contiguous
    assert X.base is None
    assert y.base is None


def test_block():
    block = read(io.BytesIO(TEXT), with_ids=True).all()
    assert block.X.tolist() == [*X10, [-7.0, 0.0, 0.0]]
    assert block.y.tolist() == [2, 0, 1]
    assert block.qid.dtype == np.int64
    assert block.qid.tolist() == [10, 10, 11]
    assert block.docid == ["a", "b", ""]
    assert read(io.BytesIO(TEXT)).all().docid == []


@pytest.mark.parametrize(("ids", "dtype"), [(["7", "q"], "U"), (["7", "007"], "U"), (["-3", "4"], "i"), (["9" * 19, "1"], "U")])
def test_ids_of_a_block_are_integers_only_if_nothing_is_lost(ids, dtype):
    qid = read(io.StringIO("".join(f"1 qid:{one} 1:1\n" for one in ids))).all().qid
    assert qid.dtype.kind == dtype
    assert [str(one) for one in qid] == ids


def test_empty_input():
    assert stream(b"") == []
    assert stream(b"\n# nothing\n  \t\n") == []
    block = read(io.BytesIO(b"")).all()
    assert block.X.shape == (0, 0)
    assert block.y.shape == block.qid.shape == (0,)
    assert read(io.BytesIO(b""), n_features=5).all().X.shape == (0, 5)


def test_a_qid_that_comes_back_is_a_new_query():
    text = b"1 qid:1 1:1\n1 qid:2 1:2\n1 qid:1 1:3\n"
    assert [query[2] for query in stream(text, with_ids=True, repeated_qid="new")] == ["1", "2", "1"]
    with pytest.raises(ReadError, match=r"line 3: query 1 comes back"):
        stream(text)


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
        TEXT.replace(b"2:1e-3", b"2:1e-3 1: 3:\\N"),
        TEXT.replace(b"2:1e-3", b"1:N/A 2:1e-3 3:<NA>"),
        b"  " + TEXT,
    ],
)
def test_spellings_of_the_same(text):
    assert stream(text, missing="zero", n_features=3) == stream(TEXT)


def test_features_are_called_as_the_text_calls_them():
    """A feature 0 is a feature "0", after any other features."""
    ((x, _),) = read(io.BytesIO(b"1 qid:1 0:5 2:6\n"))
    assert (x.names, x.X.tolist()) == (("0", "1", "2"), [[5.0, 0.0, 6.0]])
    (x, _), (other, _) = read(io.BytesIO(b"1 qid:1 2:6\n1 qid:2 0:5\n"))
    assert (x.names, x.X.tolist(), other.X.tolist()) == (("0", "1", "2"), [[0.0, 0.0, 6.0]], [[5.0, 0.0, 0.0]])


# Sources


def test_paths_files_text_gzip_and_pipes(tmp_path, monkeypatch):
    expected = stream(TEXT)
    path, zipped = tmp_path / "a.txt", tmp_path / "zipped-without-a-telling-name"
    path.write_bytes(TEXT)
    zipped.write_bytes(gzip.compress(TEXT[:30]) + gzip.compress(TEXT[30:]))
    sources = [path, str(path), zipped, io.StringIO(TEXT.decode()), io.BytesIO(gzip.compress(TEXT))]
    for given in sources:
        assert plain(read(given)) == expected
    with open(path) as text, open(path, "rb") as binary, gzip.open(zipped) as inflated, open(zipped, "rb", buffering=0) as raw:
        for given in (text, binary, inflated, raw):
            assert plain(read(given)) == expected
            assert not given.closed
    for content in (TEXT, gzip.compress(TEXT)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert plain(read("-")) == expected


def test_a_pipe_is_read_as_far_as_it_is_written():
    end, beginning = os.pipe()
    with open(end, "rb") as source, open(beginning, "wb", buffering=0) as sink:
        sink.write(TEXT)
        queries = read(source, n_features=3)
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
        new = {"repeated_qid": "new"}
        assert plain(read(*parts, with_ids=True, n_features=3, **new)) == stream(whole, with_ids=True, **new)
        assert plain(read(parts, n_features=3, **new)) == stream(whole, **new)
        assert read(*parts, **new).all().qid.tolist() == read(io.BytesIO(whole), **new).all().qid.tolist()


def test_no_thread_is_left_behind(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(TEXT * 20_000))
    before = threading.active_count()
    queries = read(path)
    next(queries)
    queries.close()
    assert threading.active_count() == before
    with read(path) as queries:
        next(queries)
    assert threading.active_count() == before


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
@pytest.mark.parametrize("block", [1, 8, 1 << 20])
def test_pieces_do_not_show(monkeypatch, size, block):
    """Lines and queries that straddle reads and blocks of any size."""
    text = b"".join(b"%d qid:%d 1:%d 7:2.5 3:%d #docid = d%d\n" % (i % 3, i // 5, i, i * i, i) for i in range(60))
    expected = stream(text, with_ids=True, n_features=7)
    monkeypatch.setattr(source_module, "_CHUNK", size)
    monkeypatch.setattr(letor, "_BLOCK", block)
    monkeypatch.setattr(letor, "LOOK_AHEAD", 60)
    assert stream(text, with_ids=True) == expected
    assert stream(gzip.compress(text), with_ids=True) == expected
    assert np.array_equal(read(io.BytesIO(text)).all().X, np.concatenate([query[0] for query in expected]))


def test_an_endless_line_is_refused(monkeypatch):
    monkeypatch.setattr(source_module, "_LONGEST_LINE", 1 << 21)
    monkeypatch.setattr(letor, "LOOK_AHEAD", 1)
    with pytest.raises(ReadError, match=r"line 2: longer than"):
        stream(b"1 qid:1 1:1\n1 qid:1 " + b" " * (1 << 22), n_features=1)


def test_damaged_gzip():
    content = gzip.compress(TEXT * 1000)
    for damaged in (content[:-9], content[:40] + b"xxxx" + content[44:], content[:-8] + b"12345678"):
        with pytest.raises(ReadError, match=r"BytesIO.*: the compressed data are damaged"):
            stream(damaged)


# The number of features


def test_the_first_bytes_decide_the_number_of_features(monkeypatch):
    monkeypatch.setattr(letor, "LOOK_AHEAD", 30)
    monkeypatch.setattr(source_module, "_CHUNK", 1)
    text = b"1 qid:1 1:1\n1 qid:1 3:1\n" + b"1 qid:2 2:1\n" * 5 + b"1 qid:3 1:1\n1 qid:3 1:1 5:1\n"
    queries = read(io.BytesIO(text))
    assert queries.plan.features == ("1", "2", "3")
    assert next(queries)[0].shape == (2, 3)
    assert next(queries)[0].shape == (5, 3)
    x, _ = next(queries)
    assert (x.names, x.X.tolist()) == (("1", "2", "3", "4", "5"), [[1.0, 0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0, 1.0]])
    assert read(io.BytesIO(text)).all().X.shape == (9, 5)
    assert [len(query[0][0]) for query in stream(text, n_features=6)] == [6, 6, 6]


def test_huge_ids_do_not_allocate():
    for number in ("999999999", "99999999999999999999999999999"):
        with pytest.raises(ReadError, match=r"line 2, column 9: feature \d+: more than 16777216 are not inferred"):
            stream(f"1 qid:1 1:1\n1 qid:1 {number}:1\n")
    X, _ = next(read(io.BytesIO(b"1 qid:1 200000:3\n")))
    assert X.shape == (1, 200_000)
    assert X.nbytes < 100


# Groups


def test_group_file_next_to_the_data(tmp_path):
    rows = b"1 1:1\n0 1:2\n2 2:3\n"
    for name, content in (("a", rows), ("b.gz", gzip.compress(rows))):
        for suffix in (".query", ".group"):
            path = tmp_path / f"{suffix}{name}"
            path.write_bytes(content)
            Path(f"{str(path).removesuffix('.gz')}{suffix}").write_text("2\n0\n1\n")
            assert plain(read(path, with_ids=True)) == [
                ([[1.0, 0.0], [2.0, 0.0]], [1, 0], "1", ["", ""]),
                ([[0.0, 3.0]], [2], "2", [""]),
            ]
    path = tmp_path / ".querya"
    assert read(path, path).all().qid.tolist() == [1, 1, 2, 3, 3, 4]
    assert read(path, path, group=[[3], None]).all().qid.tolist() == [1, 1, 1, 2, 2, 3]


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
    with pytest.raises(ReadError, match=message):
        stream(TEXT, group=sizes)


def test_group_argument_is_checked(tmp_path):
    path = tmp_path / "sizes"
    for content in ("2\nx\n", "2\n-1\n", "2 1\n", "2\n1.5\n"):
        path.write_text(content)
        with pytest.raises(ReadError, match=r"sizes, line 2: .* is not the size of a group|sizes, line 1"):
            stream(TEXT, group=path)
    for bad in ([-1, 4], [1.5, 1.5], [[1, 2]]):
        with pytest.raises(ValueError, match="group must be"):
            stream(TEXT, group=bad)
    with pytest.raises(ValueError, match="group has 1 entries for 2 sources"):
        read(io.BytesIO(), io.BytesIO(), group=[[1]])


def test_neither_qid_nor_group():
    with pytest.raises(ReadError, match=r"no qid:\.\.\. and no file with the sizes"):
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
        ("1 qid:1 1:1 1:2", 13, "feature 1 is given twice"),
        ("1 qid:1 2:1 1:2 2:3", 17, "feature 2 is given twice"),
        ("1 qid:1 1:", 11, "the value of feature 1 is missing: ''"),
        ("1 qid:1 1: 5", 11, "the value of feature 1 is missing: ''"),
        ("1 qid:1 1:1 2:1.2.3", 15, "the value '1.2.3' of feature 2 is not a number"),
        ("1 qid:1 1:1_000", 11, "the value '1_000' of feature 1 is not a number"),
        ("1 qid:1 1:0x10", 11, "the value '0x10' of feature 1 is not a number"),
        ("1 qid:1 1:1e", 11, "the value '1e' of feature 1 is not a number"),
        ("1 qid:1 1:.", 11, "the value '.' of feature 1 is not a number"),
        ("1 qid:1 1:NULLS", 11, "the value 'NULLS' of feature 1 is not a number"),
        ("1 qid:1 1:nan", 11, "the value of feature 1 is missing: 'nan'"),
        ("1 qid:1 1:nano", 11, "the value 'nano' of feature 1 is not a number"),
        ("1 qid:1 1:-Infinity", 11, "the value '-Infinity' of feature 1 is not finite"),
        ("1 qid:1 2:1 1:1e999", 15, "the value '1e999' of feature 1 is not finite"),
        ("1 qid:1 1:\0", 11, "the value '\\x00' of feature 1 is not a number"),
    ],
)
def test_bad_lines(tmp_path, line, column, message):
    path = tmp_path / "bad.txt"
    path.write_text(f"2 qid:1 1:1 2:2\n\n{line}\n1 qid:1 1:3\n1 qid:2 1:4\n", newline="")
    for reader in (list, lambda queries: queries.all()):
        with pytest.raises(ReadError) as caught:
            reader(read(path))
        assert str(caught.value).startswith(f"{path}, line 3, column {column}: {message}")
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    queries = read(path, skip_bad=0.5)
    with pytest.warns(ReadWarning, match="line 3"):
        found = plain(queries)
    assert found == [([[4.0, 0.0]], [1])]
    assert queries.n_bad == 1


def test_the_first_fault_is_the_one_that_is_named():
    """Not the number of features, to which a line that is no document does not count."""
    for features, twice in (("1:1 5:2 5:2", 5), ("9:1 5:2 5:2", 5), ("5:1 9:1 1:2 1:3 99999:1", 1)):
        text = f"0 qid:1 1:2\n1 qid:1 {features}\n0 qid:1 1:2\n"
        with pytest.raises(ReadError, match=rf"line 2, .*: feature {twice} is given twice"):
            list(read(io.StringIO(text)))


@pytest.mark.parametrize("value", ["NULL", "nan", "-NaN"])
def test_missing_values_are_errors_unless_they_are_read_as_zero(value):
    text = f"1 qid:1 1:0.5 2:{value}\n0 qid:1 1:{value}#a:nan\n"
    message = rf"line 1, column 17: the value of feature 2 is missing: '{value}'; missing=\"zero\" reads it as 0"
    with pytest.raises(ReadError, match=message):
        list(read(io.StringIO(text)))
    assert stream(text, missing="zero", with_ids=True, n_features=2) == [([[0.5, 0.0], [0.0, 0.0]], [1, 0], "1", ["", "a:nan"])]
    ((X, _),) = read(io.StringIO(text), missing="keep", n_features=2)
    assert np.array_equal(X, [[0.5, np.nan], [np.nan, 0.0]], equal_nan=True)


def test_an_unexpected_qid(tmp_path):
    (tmp_path / "a").write_bytes(b"1 1:1\n1 qid:4 1:1\n")
    (tmp_path / "a.query").write_text("2")
    with pytest.raises(ReadError, match=r"line 2, column 3: 'qid:4', although the first line has no qid"):
        read(tmp_path / "a").all()


@pytest.mark.filterwarnings("ignore::online_rank.stream.ReadWarning")
def test_a_list_with_a_bad_line_is_left_out_in_groups_too():
    text = b"1 1:1\nbad\n1 1:3\n1 1:4\n1 1:1e999\nbad\n1 1:7\n"
    queries = read(io.BytesIO(text), group=[2, 2, 2, 1], skip_bad=0.6, with_ids=True)
    assert plain(queries) == [([[3.0], [4.0]], [1, 1], "2", ["", ""]), ([[7.0]], [1], "4", [""])]
    assert queries.n_bad == 2


def test_queries_before_a_bad_line_are_yielded():
    queries = read(io.BytesIO(b"1 qid:1 1:1\n1 qid:2 1:2\n1 qid:3 1:3\n1 qid:3 1:1e999\nbad\n"))
    assert len(queries.first(9)) == 2
    assert plain([next(queries), next(queries)]) == [([[1.0]], [1]), ([[2.0]], [1])]
    with pytest.raises(ReadError, match="line 4"):
        next(queries)


def test_more_bad_lists_than_their_share_are_an_error():
    lines = [b"1 qid:%d 1:1\n" % i for i in range(1000)]
    lines[100] = lines[700] = lines[800] = b"1 qid:9999 1:x\n"
    with pytest.raises(ReadError, match=r"line 701, .*; 2 of 701 lists are bad, and skip_bad=0.001"), pytest.warns(ReadWarning):
        list(read(io.BytesIO(b"".join(lines)), skip_bad=0.001, repeated_qid="new"))
    with pytest.warns(ReadWarning, match=r"line 101, column 14: .* the list is left out"):
        assert len(list(read(io.BytesIO(b"".join(lines)), skip_bad=0.003, repeated_qid="new"))) == 997


@pytest.mark.parametrize(
    "options",
    [{"n_features": 0}, {"n_features": 2.5}, {"missing": "mean"}, {"skip_bad": 2.0}, {"repeated_qid": "x"}],
)
def test_bad_options(options):
    with pytest.raises((ValueError, TypeError), match=next(iter(options))):
        read(io.BytesIO(TEXT), **options)


def test_bad_sources(tmp_path):
    with pytest.raises(TypeError, match=r"a source is a path, an open file, or a frame .*, not int"):
        read(3)
    with pytest.raises(ValueError, match="at least one file or table"):
        read()
    with pytest.raises(FileNotFoundError):
        list(read(tmp_path / "absent"))


# Writing


def test_what_is_written_is_read(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 7)) * 10.0 ** rng.integers(-30, 30, (50, 7))
    X[rng.random(X.shape) < 0.3] = 0
    y, qid = rng.integers(0, 5, 50), np.repeat(np.arange(10), 5)
    docid = [f"d{i}" for i in range(50)]
    for name in ("a", "a.gz"):
        write_letor(tmp_path / name, X, y, qid, docid=docid)
        block = read(tmp_path / name, with_ids=True).all()
        assert block.X.tobytes() == X.tobytes()
        assert block.y.tolist() == y.tolist()
        assert block.qid.tolist() == qid.tolist()
        assert block.docid == docid
    assert (tmp_path / "a.gz").read_bytes()[:2] == b"\x1f\x8b"


def test_binary_files():
    out = io.BytesIO()
    write_letor(out, [[0.125, 2.0]], [1])
    assert out.getvalue() == b"1 1:0.125 2:2\n"


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


@pytest.mark.slow
def test_mq2008_against_scikit_learn():
    from sklearn import datasets

    paths = sorted((data_folder() / "mq2008").glob("S*.txt"))
    for path in paths:
        X, y, qid = datasets.load_svmlight_file(str(path), query_id=True, zero_based=False)
        block = read(path).all()
        assert block.X.tobytes() == X.toarray().tobytes()
        assert np.array_equal(block.y, y)
        assert np.array_equal(block.qid, qid)
    queries = list(read(paths, with_ids=True))
    assert len(queries) == sum(len(list(read(path))) for path in paths)


def test_lightgbm_example():
    folder = data_folder() / "lightgbm_lambdarank"
    sizes = [int(size) for size in (folder / "rank.train.query").read_text().split()]
    assert [len(y) for _, y in read(folder / "rank.train")] == sizes
    assert read(folder / "rank.train").all().X.shape == (sum(sizes), 300)


def grouped(source, **options):
    return list(read(source, repeated_qid="group", **options))


def in_order(source, **options):
    return list(read(source, **options))


def test_a_short_text_with_a_high_feature_does_not_take_gigabytes():
    """128 kB of it: 8 GB as an array. Memory is in proportion to the text."""
    text = b"1 qid:1 1:1\n" + b"1 qid:7 65536:1\n" * 8000
    list(read(io.BytesIO(text[:100])))
    tracemalloc.start()
    try:
        assert [X.shape for X, _ in read(io.BytesIO(text))] == [(1, 65536), (8000, 65536)]
        assert tracemalloc.get_traced_memory()[1] < (4 << 20) + 64 * len(text)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("read", [in_order, grouped])
def test_a_query_may_be_limited(read):
    text = b"1 qid:1 3:1\n" * 10
    assert read(io.BytesIO(text), max_query_bytes=10 * 3 * 8)[0][0].shape == (10, 3)
    with pytest.raises(ReadError, match=r"line 11: query 1 takes more than max_query_bytes=239"):
        read(io.BytesIO(b"1 qid:0 1:1\n" + text), max_query_bytes=239)
    for wrong, error in ((0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError), (None, TypeError)):
        with pytest.raises(error, match="max_query_bytes"):
            read(io.BytesIO(b""), max_query_bytes=wrong)


def test_two_halves_of_a_large_query_are_one_when_they_are_grouped():
    halves = b"1 qid:1 3:1\n" * 5 + b"1 qid:2 3:1\n" + b"1 qid:1 3:1\n" * 5
    assert len(in_order(io.BytesIO(halves), max_query_bytes=239, repeated_qid="new")) == 3
    with pytest.raises(ReadError, match=r"line 11: .*max_query_bytes=239"):
        grouped(io.BytesIO(halves), max_query_bytes=239)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 qid:1 1:1\n".encode("utf-16"), "text in UTF-16: write it as UTF-8"),
        (b"\xfe\xff" + "1 qid:1 1:1\n".encode("utf-16-be"), "text in UTF-16: write it as UTF-8"),
        ("1 qid:é 1:1\n".encode("latin-1"), r"BytesIO, line 1: b'\\xe9' is not UTF-8 .*; write the file as UTF-8"),
    ],
)
def test_text_of_other_systems_comes_with_advice(text, message):
    with pytest.raises(ReadError, match=message):
        list(read(io.BytesIO(text)))


# A qid that comes back.

INTERLEAVED = "1 qid:a 1:1 # docid = p\n0 qid:b 1:2 # docid = q\n0 qid:a 1:3 # docid = r\n2 qid:b 1:4 # docid = s\n"


def test_a_qid_that_comes_back_among_the_first_rows_is_joined_with_a_warning(tmp_path):
    path = tmp_path / "mixed.txt"
    path.write_text(INTERLEAVED)
    with pytest.warns(ReadWarning, match=r"mixed\.txt, line 1: rows are not sorted by 'qid'") as caught:
        assert [y.tolist() for _, y in read(path, repeated_qid="auto")] == [[1, 0], [0, 2]]
    assert [each.category for each in caught].count(ReadWarning) == 1
    with pytest.raises(
        ReadError, match=r"mixed\.txt, line 3: query a comes back after another one; sort .* by 'qid' \(sort -s"
    ):
        read(path).all()
    assert read(path, repeated_qid="new").all().qid.tolist() == ["a", "b", "a", "b"]


def test_the_first_rows_of_several_small_files_are_looked_at_together(tmp_path):
    halves = INTERLEAVED.splitlines(keepends=True)
    files = [tmp_path / "ab.txt", tmp_path / "ab_again.txt"]
    for path, lines in zip(files, (halves[:2], halves[2:]), strict=True):
        path.write_text("".join(lines))
    with pytest.warns(ReadWarning, match=r"ab\.txt, line 1: rows are not sorted by 'qid'"):
        assert [y.tolist() for _, y in read(files, repeated_qid="auto")] == [[1, 0], [0, 2]]


def test_queries_that_stand_together_are_not_warned_of(recwarn):
    list(read(io.StringIO(INTERLEAVED), repeated_qid="new"))
    read(io.StringIO("1 qid:a 1:1\n0 qid:a 1:3\n0 qid:b 1:2\n")).all()
    assert [each for each in recwarn if each.category is ReadWarning] == []


def test_documents_of_a_qid_are_put_together():
    queries = list(read(io.StringIO(INTERLEAVED), repeated_qid="group", with_ids=True))
    assert [(X.ravel().tolist(), y.tolist(), qid, docids) for X, y, qid, docids in queries] == [
        ([1.0, 3.0], [1, 0], "a", ["p", "r"]),
        ([2.0, 4.0], [0, 2], "b", ["q", "s"]),
    ]
    block = read(io.StringIO(INTERLEAVED), repeated_qid="group", with_ids=True).all()
    assert (block.X.ravel().tolist(), block.y.tolist()) == ([1.0, 3.0, 2.0, 4.0], [1, 0, 0, 2])
    assert (block.qid.tolist(), block.docid) == (["a", "a", "b", "b"], ["p", "r", "q", "s"])
    with pytest.raises(ReadError, match="line 3: query a comes back"):
        read(io.StringIO(INTERLEAVED), repeated_qid="error").all()


@pytest.mark.slow
def test_grouping_a_large_file_over_many_blocks(tmp_path):
    rng = np.random.default_rng(0)
    qids = rng.integers(0, 50, 30_000)
    text = "".join(f"{i % 3} qid:{q} 1:{i} 80:1\n" for i, q in enumerate(qids))
    (tmp_path / "large.txt").write_text(text)
    queries = {qid: X[:, 0].tolist() for X, _, qid, _ in read(tmp_path / "large.txt", repeated_qid="group", with_ids=True)}
    assert queries == {str(q): np.flatnonzero(qids == q).tolist() for q in np.unique(qids)}
    assert list(queries) == [str(q) for q in dict.fromkeys(qids.tolist())]


# Tables.


def test_only_numbers_are_written():
    with pytest.raises(TypeError, match="y has dtype object"):
        write_letor(io.StringIO(), [[1.0], [2.0]], [None, 0])


# Negative grades.


def test_negative_grades_are_refused_read_as_zero_or_left_out():
    text = "-1 qid:a 1:1\n2 qid:a 1:2\n-2 qid:a 1:3\n1 qid:b 1:4\n-1 qid:c 1:5\n-1 qid:d 1:6\n0 qid:d 1:7\n"
    with pytest.raises(ReadError, match=r'line 1, column 1: the grade .-1. is not an integer >= 0; negative="zero"'):
        stream(text.encode())
    zero = stream(text.encode(), negative="zero", with_ids=True)
    assert [(y, qid) for _, y, qid, _ in zero] == [([0, 2, 0], "a"), ([1], "b"), ([0], "c"), ([0, 0], "d")]
    skipped = stream(text.encode(), negative="skip", with_ids=True)
    assert [(X, y, qid) for X, y, qid, _ in skipped] == [([[2.0]], [2], "a"), ([[4.0]], [1], "b"), ([[7.0]], [0], "d")]
    assert read(io.StringIO(text), negative="skip").all().qid.tolist() == ["a", "b", "d"]
    with pytest.raises(ReadError, match="not an integer"):
        stream(b"-1.5 qid:a 1:1\n", negative="zero")
    with pytest.raises(ValueError, match="negative is"):
        stream(text.encode(), negative="one")


def test_left_out_documents_at_the_ends_of_blocks():
    rng = np.random.default_rng(1)
    grades, qids = rng.integers(-2, 3, 20_000), np.sort(rng.integers(0, 3000, 20_000))
    text = "".join(f"{g} qid:{q} 1:{i} 300:1\n" for i, (g, q) in enumerate(zip(grades, qids, strict=True)))
    queries = {qid: X[:, 0].tolist() for X, _, qid, _ in read(io.StringIO(text), negative="skip", with_ids=True)}
    kept = {str(q): np.flatnonzero((qids == q) & (grades >= 0)).tolist() for q in np.unique(qids)}
    assert queries == {qid: rows for qid, rows in kept.items() if rows}


# Line ends, encodings.


@pytest.mark.parametrize("size", [1, 2, 7, 1 << 20])
def test_lines_may_end_in_any_way_wherever_the_pieces_end(monkeypatch, size):
    monkeypatch.setattr(source_module, "_CHUNK", size)
    for end in (b"\r", b"\r\n", b"\n"):
        text = TEXT.replace(b"\n", end)
        assert stream(text) == stream(TEXT)
        with pytest.raises(ReadError, match=r"line 3, column 10: 'x' is not feature:value"):
            stream(text.replace(b"1:-7", b"x"), n_features=3)


@pytest.mark.parametrize("text", [b"1 qid:1 1:1 #docid = \xe9\n", b"1 qid:1 1:1 # \xe9\n"])
def test_an_id_that_is_not_utf8_is_named_where_it_is_wanted(text):
    with pytest.raises(ReadError, match=r"BytesIO, line 2: b'\\xe9' is not UTF-8 .*iconv -f latin1"):
        stream(b"\n" + text, with_ids=True)
    assert stream(text) == [([[1.0]], [1])]


def test_a_text_file_in_another_encoding_is_named(tmp_path):
    path = tmp_path / "latin"
    path.write_bytes("1 qid:é 1:1\n".encode("latin-1"))
    with open(path, encoding="utf-8") as file, pytest.raises(ReadError, match=r"latin.*can't decode .*write the file as UTF-8"):
        list(read(file))


def test_a_feature_0_that_comes_late_does_not_move_the_others(monkeypatch):
    """Not even within a query: its first rows were read when the first column was feature 1."""
    monkeypatch.setattr(letor, "LOOK_AHEAD", 30)
    monkeypatch.setattr(source_module, "_CHUNK", 12)
    text = b"1 qid:1 1:1\n1 qid:2 1:2 3:4\n" + b"1 qid:2 1:2\n" * 3 + b"1 qid:2 0:9 3:5\n"
    _, (x, _) = read(io.BytesIO(text))
    assert x.names == ("0", "1", "2", "3")
    assert x.X[[0, 1, 4]].tolist() == [[0.0, 2.0, 0.0, 4.0], [0.0, 2.0, 0.0, 0.0], [9.0, 0.0, 0.0, 5.0]]
    assert read(io.BytesIO(text)).all().X[[0, 1, 5]].tolist() == [
        [0.0, 1.0, 0.0, 0.0],
        [0.0, 2.0, 0.0, 4.0],
        [9.0, 0.0, 0.0, 5.0],
    ]


def test_one_large_id_makes_no_column_for_each_smaller_one():
    """40 bytes took 1.8 GB and 7 seconds."""
    tracemalloc.start()
    try:
        rows, _ = next(iter(read(io.BytesIO(b"1 qid:7 1:1 9999999:92\n0 qid:7 2:1\n"))))
        with pytest.warns(ReadWarning, match="not sorted by 'qid'"):
            list(read(io.BytesIO(b"1 qid:7 1:1 9999999:92\n0 qid:8 2:1\n0 qid:7 2:1\n"), repeated_qid="auto"))
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert rows.shape == (2, 9_999_999)


@pytest.mark.slow
def test_one_large_id_next_to_a_feature_0_makes_names_and_no_columns():
    """Features go by name then. The plan made a column for each of them, too: 52 bytes took 2.8 GB."""
    list(read(io.BytesIO(b"1 qid:6 1:1 2:9\n0 qid:7 0:2\n")))
    tracemalloc.start()
    try:
        queries = read(io.BytesIO(b"1 qid:6 1:1 999999:92\n0 qid:7 0:2\n"))
        shown = [(x.names[:2], x.names[-1], x.X.columns.tolist(), x.X.values.tolist()) for x, _ in queries]
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
    assert shown == [(("0", "1"), "999999", [1, 999_999], [1.0, 92.0]), (("0", "1"), "999999", [0], [2.0])]


def test_a_fault_is_named_where_ids_are_wanted_too():
    """The error was that the line is not UTF-8: the rest of the token at fault was read as the comment."""
    text = "1 qid:1 1:1 # a\n0 qid:1 2:1 \u00e92 qid:2 # b\n".encode()
    with pytest.raises(ReadError, match=r"line 2, column 13: '\u00e92' is not feature:value"):
        list(read(io.BytesIO(text), with_ids=True))
