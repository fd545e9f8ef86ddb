"""Files as broken exports leave them: read as they are meant, or an error that names the place; nothing silently else."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from online_rank import AdditiveRanker, read
from online_rank.stream import ReadError
from online_rank.stream.trec import read_run

COLUMNS = {"query": "q", "grade": "g", "document": "d", "with_ids": True}
HEAD = "q,d,x,g\n"
ROWS = "a,1,0.5,1\na,2,1.5,0\nb,3,2.5,1\n"
#: What HEAD and ROWS hold.
RIGHT = [("a", ["1", "2"], [1, 0], [[0.5], [1.5]]), ("b", ["3"], [1], [[2.5]])]


def _zipped(data: bytes) -> bytes:
    """Compressed, the same at any time: the names of tests are made of it."""
    return gzip.compress(data, mtime=0)


def found(folder, name, content, **columns):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    queries = read(path, **(columns or COLUMNS))
    return [(qid, ids, y.tolist(), getattr(x, "X", x).tolist()) for x, y, qid, ids in queries]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + (HEAD + ROWS).encode(),
        b"\xef\xbb\xbf" + b'"q"' + (HEAD + ROWS)[1:].encode(),
        (HEAD + ROWS).replace("\n", "\r\n"),
        # The first line alone ends in CR LF, or the last one in CR.
        HEAD.replace("\n", "\r\n") + ROWS,
        HEAD + ROWS.removesuffix("\n") + "\r",
        (HEAD + ROWS).replace("\n", "\n\n"),
        "\n\n" + HEAD + ROWS,
        (HEAD + ROWS).removesuffix("\n"),
        _zipped(HEAD.encode()) + _zipped(ROWS.encode()),
        _zipped((HEAD + ROWS).encode()) + bytes(512),
        "q,d,x,g,\n" + ROWS.replace("\n", ",\n"),
        (HEAD + ROWS).replace(",", ";").replace(".", ","),
        (HEAD + ROWS).replace(",", "|"),
        (HEAD + ROWS).replace("a,", '"a",'),
    ],
)
def test_the_same_table(tmp_path, content):
    assert found(tmp_path, "t.csv", content) == RIGHT


def test_files_joined_with_their_marks_of_byte_order(tmp_path):
    mark = b"\xef\xbb\xbf"
    content = mark + (HEAD + ROWS).encode() + mark + b"c,9,1,1\n"
    assert [qid for qid, *_ in found(tmp_path, "t.csv", content)] == ["a", "b", "c"]
    (tmp_path / "run").write_bytes(mark + b"q1 Q0 a 1 2 t\n" + mark + b"q1 Q0 b 2 1 t\n")
    assert list(read_run(tmp_path / "run")) == ["q1"]


def test_ids_stay_as_they_are(tmp_path):
    """Also in the last column of a file whose lines end in CR LF."""
    lines = ["x,g,d,q", "1,1,a,01", "2,0,b ,01", "1,1,a,1", "1,1,a,1.0"]
    assert [(qid, ids) for qid, ids, *_ in found(tmp_path, "t.csv", "\r\n".join(lines))] == [
        ("01", ["a", "b "]),
        ("1", ["a"]),
        ("1.0", ["a"]),
    ]


def test_a_value_longer_than_a_block_of_text(tmp_path):
    ((_, ids, *_),) = found(tmp_path, "t.csv", HEAD + f"a,{'z' * 3_000_000},1,1\n")
    assert [len(one) for one in ids] == [3_000_000]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", r"t\.csv: no rows"),
        ("\n\n", r"t\.csv: no rows"),
        (HEAD, r"t\.csv: no rows below the header"),
        ("q,d,x,x,g\na,1,1,2,1\n", "several columns are called 'x'"),
        (HEAD.replace(",", ", ") + ROWS, "no columns 'g', 'd'; there are 'q', ' d', ' x', ' g'"),
        (HEAD + ROWS + HEAD + ROWS, r"text, because of 'x' \(.*line 5\)"),
        (
            HEAD + ROWS.replace("0.5", '"1,200"').replace("1.5", '"3,400"').replace("2.5", "7"),
            r"because of '1,200' \(.*line 2\)",
        ),
        (HEAD + ROWS.replace("0.5", "02.01.2026").replace("1.5", "03.01.2026"), r"because of '02\.01\.2026' \(.*line 2\)"),
        (HEAD + ROWS.replace("0.5", "50%"), r"because of '50%' \(.*line 2\)"),
        (HEAD + ROWS.replace("1.5,0", "1.5,0,"), r"line 3: Expected 4 columns, got 5"),
        (HEAD + ROWS[:-4], r"line 4: Expected 4 columns, got 3"),
        (HEAD + ROWS.replace("a,2,1.5,0", ",,,"), r"line 3: the value of 'x' is missing"),
        ("sep=;\n" + HEAD.replace(",", ";"), r"line 2: Expected 2 columns, got 4"),
        ((HEAD + ROWS).encode("utf-16"), "text in UTF-16"),
        ((HEAD + ROWS).encode("utf-16-le"), "NUL bytes, as in text in UTF-16"),
        (_zipped((HEAD + ROWS).encode()) + b"more", "the compressed data are damaged"),
        (_zipped(_zipped((HEAD + ROWS).encode())), "not text in UTF-8"),
    ],
)
def test_a_table_that_cannot_be_read(tmp_path, content, told):
    with pytest.raises(ValueError, match=told):
        found(tmp_path, "t.csv", content)


@pytest.mark.parametrize("form", ["{:.0f}%", "${:.0f}", "{:.2f} \u20ac", "{:,.0f}"])
def test_numbers_for_people_are_no_categories(tmp_path, form):
    """Not even for a model that takes categories: their order would be lost."""
    (tmp_path / "t.csv").write_text("q,g,x,y\n" + "".join(f'a,{i % 2},{i},"{form.format(1000 + i % 4)}"\n' for i in range(40)))
    with read(tmp_path / "t.csv", query="q", grade="g", model=AdditiveRanker()) as queries:
        assert queries.plan.features == ("x",)
        assert "y (text, because of" in queries.plan.in_words()[1]
    with pytest.raises(ReadError, match=r"line 2: .* in column 'y' is not a number"):
        list(read(tmp_path / "t.csv", query="q", grade="g", features=["y"]))


JSON = '{"q": "a", "d": "1", "x": 1, "g": 1}\n{"q": "a", "d": "2", "x": 3, "g": 0}\n'


@pytest.mark.parametrize(
    ("content", "told"),
    [
        # pyarrow takes the last value, without a word.
        (JSON.replace('"x": 3', '"x": 3, "x": 4'), "line 2: 'x' is given twice in one object"),
        (JSON.replace('"g": 0', '"g": 0, "g": 4'), "line 2: 'g' is given twice in one object"),
        (JSON.replace('"x": 3', '"x": NaN'), "line 2: the value of 'x' is missing"),
        (JSON.replace('"x": 3', '"x": -Infinity'), "line 2: the value of 'x' is not finite"),
        (JSON.replace('"q": "a"', '"q": "\\ud800"'), "line 1: .*surrogates not allowed"),
        (
            JSON.replace('"a"', "12345678901234567890123"),
            "line 1: 'q', the query, is 1.234.*, a float too large",
        ),
        (JSON.replace('"q": "a", "d": "2"', '"q": 7, "d": "2"'), "line 1: 'q', the query, has values of several types"),
        (JSON.replace("}\n", "},\n"), "line 1: Extra data: .*write one object a line"),
        (JSON.replace("}\n", "}"), "line 1: Extra data: .*write one object a line"),
        ('{"id": "a", "docs": {"1": {"x": 1}, "1": {"x": 2}}, "grades": {"1": 1}}', "line 1: '1' is given twice"),
        ('{"id": "a", "docs": {"1": {"x": 1}}, "grades": {"3": 1}}', "line 1: grades has '3', which is no document"),
        ('{"id": "a", "docs": [{"x": 1}, {"x": 2}], "grades": [1]}', "line 1: 2 documents and 1 grades"),
        ('{"id": "a", "docs": [{"x": 1, "grade": 7}, {"x": 2}], "grades": [1, 0]}', "line 1: a document has 'grade', which"),
        ('{"id": "a", "docs": [{"x": 1, "query": 7}], "grades": [1]}', "line 1: a document has 'query', which"),
    ],
)
def test_json_that_cannot_be_read(tmp_path, content, told):
    with pytest.raises(ReadError, match=told):
        found(tmp_path, "t.jsonl", content, **({"with_ids": True} if "docs" in content else COLUMNS))


def test_names_in_nested_objects_and_in_texts_are_not_given_twice(tmp_path):
    content = JSON.replace('"x": 1', '"x": 1, "f": {"x": 7, "g": 8}, "t": "\\"x\\":"')
    assert found(tmp_path, "t.jsonl", content) == [("a", ["1", "2"], [1, 0], [[1.0], [3.0]])]


def test_columns_of_parquet_that_hold_no_numbers(tmp_path):
    columns = {"q": ["a", "a"], "d": ["1", "2"], "g": [1, 0], "x": [1.0, 2.0]}
    pq.write_table(pa.table({**columns, "s": [{"y": 1}, {"y": 2}], "l": [[1], [2]]}), tmp_path / "t.parquet")
    with read(tmp_path / "t.parquet", **COLUMNS) as queries:
        assert queries.plan.in_words() == [
            "1 features: x",
            "left out: s (neither numbers nor booleans); l (a vector: AdditiveRanker takes it (--ranker additive))",
        ]
    for values, told in (
        (pa.array([b"a", b"a"]), "row 1: 'q', the query, holds binary: take text"),
        (pa.array(["a", None]), "row 2: 'q', the query, is missing"),
        (pa.array([2.0**53, 1.0]), "row 1: 'q', the query, is 9007199254740992, a float too large"),
    ):
        pq.write_table(pa.table({**columns, "q": values}), tmp_path / "t.parquet")
        with pytest.raises(ReadError, match=told):
            list(read(tmp_path / "t.parquet", **COLUMNS))
    # Numbers of unsigned 64 bits are ids without a loss.
    pq.write_table(pa.table({**columns, "q": pa.array([2**63, 2**63 + 1], pa.uint64())}), tmp_path / "t.parquet")
    assert [query[2] for query in read(tmp_path / "t.parquet", **COLUMNS)] == ["9223372036854775808", "9223372036854775809"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1,qid:1,1:2\n", r"column 1: the grade '1,qid:1,1:2' is not a number"),
        ("1 qid:1 1:2,5\n", r"column 11: the value '2,5' of feature 1 is not a number"),
        ("1 qid:1 qid:2 1:2\n", r"column 9: 'qid:2' is not feature:value"),
        ("1 qid:1 price:2\n", r"column 9: 'price:2' is not feature:value"),
        ("1 qid:1 1:2 0 qid:1 1:3\n", r"column 13: '0' is not feature:value"),
        ("1 qid:1 1:2\n0 qid:1 1:", r"line 2, column 11: the value of feature 1 is missing: ''"),
        ("1 qid:1 01:2 1:3\n", r"feature 1 is given twice"),
    ],
)
def test_letor_text_that_cannot_be_read(tmp_path, text, told):
    with pytest.raises(ReadError, match=told):
        found(tmp_path, "t.txt", text, with_ids=True)


@pytest.mark.slow
def test_no_file_stays_open(tmp_path):
    """For any fault, no warning reports an open file."""
    import gc
    import warnings

    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        for content in ("", HEAD, HEAD + ROWS[:-4], "q,d,x,x,g\na,1,1,2,1\n", HEAD.replace("g", "h") + ROWS):
            with pytest.raises(ValueError, match=r"t\.csv"):
                found(tmp_path, "t.csv", content)
        (tmp_path / "run").write_text("q1 Q0 a\n")
        with pytest.raises(ValueError, match="3 columns"):
            read_run(tmp_path / "run")
        gc.collect()


def test_missing_values_of_letor_text_are_counted(tmp_path):
    (tmp_path / "t.txt").write_text("1 qid:1 1:nan 2:3\n0 qid:1 1:1\n")
    queries = read(tmp_path / "t.txt", missing="zero")
    ((X, _),) = queries
    assert np.array_equal(X, [[0.0, 3.0], [1.0, 0.0]])
    assert queries.n_missing == 1
