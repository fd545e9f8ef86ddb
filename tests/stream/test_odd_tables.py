"""Tables as other programs write them: either read right, or refused with the file, the column and the remedy."""

import gzip
import io
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import online_rank
from online_rank import AdditiveRanker, PerceptronRanker
from online_rank.stream import ReadError, ReadWarning

PLAIN = "q,g,a,b\n1,1,1.5,2\n1,0,2.5,3\n2,1,1,1\n2,0,0,2\n"
FRAME = pd.read_csv(io.StringIO(PLAIN))


def read(source, **options):
    given = {"query": "q", "grade": "g", "with_ids": True, **options}
    return [(x.X.tolist(), y.tolist(), qid, ids) for x, y, qid, ids in online_rank.read(source, **given)]


def written(folder, content, name="log.csv"):
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder / name


@pytest.mark.parametrize(
    "content",
    [
        "\ufeff" + PLAIN,
        PLAIN.replace(",", ";"),
        PLAIN.replace(",", ";").replace(".", ","),
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace(",1.5,", ',"1.5",'),
    ],
    ids=["byte order mark", "semicolons", "decimal commas", "Windows", "quotes"],
)
def test_csv_of_other_programs_is_the_same_table(tmp_path, content):
    assert read(written(tmp_path, content)) == read(written(tmp_path, PLAIN, "plain.csv"))


def test_lines_may_end_with_carriage_returns_alone(tmp_path):
    path = written(tmp_path, PLAIN.replace("\n", "\r"))
    assert read(path) == read(written(tmp_path, PLAIN, "plain.csv"))


def test_quotation_marks_are_part_of_the_values_of_tsv(tmp_path):
    path = written(tmp_path, 'q\tg\td\ta\n1\t1\t"5/8 hose\t1\n1\t0\t"1/2"\t2\n2\t0\tx\t3\n', "log.tsv")
    assert [ids for *_, ids in read(path, document="d")] == [['"5/8 hose', '"1/2"'], ["x"]]


def test_text_of_several_lines_with_separators_is_no_error(tmp_path):
    path = written(tmp_path, 'q,g,title,a\n1,1,"two, lines, and\nwords, and, more, words",1\n')
    assert read(path, document="title")[0][3] == ["two, lines, and\nwords, and, more, words"]


def test_a_value_that_is_cut_by_the_end_of_a_block_is_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("online_rank.stream.source._CHUNK", 64)
    path = written(tmp_path, "q,g,d,a\n" + "".join(f'{i},1,"line {i}\nline",{i}\n' for i in range(99)))
    assert [(x, ids) for x, _, _, ids in read(path, document="d")] == [([[i]], [f"line {i}\nline"]) for i in range(99)]


def test_grades_may_be_true_and_false(tmp_path):
    assert read(written(tmp_path, "q,g,a\n1,true,1\n1,False,3\n")) == [([[1.0], [3.0]], [1, 0], "1", ["", ""])]


@pytest.mark.parametrize("word", ["", "NA", "N/A", "NULL", "null", "\\N", "None", "nan", "<NA>", " NA "])
def test_words_for_missing_values_in_numbers(tmp_path, word):
    path = written(tmp_path, f"q,g,a,b\n1,1,{word},true\n1,0,2,{word}\n")
    assert read(path, missing="zero")[0][0] == [[0.0, 1.0], [2.0, 0.0]]
    with pytest.raises(ValueError, match=r"log\.csv, line 2: the value of 'a' is missing"):
        read(path)


@pytest.mark.parametrize("row", [1, 8, 30])
def test_a_word_among_numbers_is_named(tmp_path, monkeypatch, row):
    monkeypatch.setattr("online_rank.stream.source._CHUNK", 128)
    values = ["oops" if i == row - 1 else i for i in range(40)]
    path = written(tmp_path, "q,g,a,b\n" + "".join(f"{i},1,{value},1\n" for i, value in enumerate(values)))
    with pytest.raises(ValueError, match=rf"log\.csv, line {row + 1}: 'oops' in column 'a' is not a number"):
        read(path, features=["a"])
    if row < 9:
        ((column,),) = [online_rank.read(path, query="q", grade="g").plan.left_out]
        assert column.why.startswith(f"text, because of 'oops' ({path}, line {row + 1}):")
    else:
        with pytest.raises(ValueError, match=r"log\.csv, line 31: 'oops' in column 'a' is not a number"):
            read(path)


def test_a_fault_after_a_value_that_pythons_reader_does_not_take(tmp_path):
    """It finds the lines of rows with quotation marks; a long value raised another error."""
    path = written(tmp_path, f'q,g,a,b\n1,zero,1,"{"y" * 200_000}"\n')
    with pytest.raises(ReadError, match=r"log\.csv: 'zero' in column 'g' is not a number"):
        read(path, features=["a"])


def test_times_as_bigquery_writes_them(tmp_path):
    path = written(tmp_path, "q,g,a,t\n1,1,1,2026-10-01 00:01:02 UTC\n2,1,3,2026-10-01 00:01:01 UTC\n")
    with pytest.raises(ValueError, match="line 3: query 2 is older"):
        read(path, event_time="t")


def test_a_line_may_end_inside_quotes(tmp_path):
    path = written(tmp_path, 'q,g,title,a\n"x\ny",1,"two\nlines",1\n"x\ny",0,"a ""b""",2\n')
    assert read(path, document="title") == [([[1.0], [2.0]], [1, 0], "x\ny", ["two\nlines", 'a "b"'])]


def test_ids_of_queries_are_compared_as_they_are_written(tmp_path):
    path = written(tmp_path, "q,g,a\n007,1,1\n007,0,2\n7,1,3\n12345678901234567890,1,1\n12345678901234567891,1,1\n")
    assert [qid for _, _, qid, _ in read(path)] == ["007", "7", "12345678901234567890", "12345678901234567891"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (PLAIN.encode("utf-16"), "text in UTF-16: write it as UTF-8"),
        ("q,g,a\u00e9,b\n1,1,1,2\n".encode("latin-1"), "not text in UTF-8"),
        (b"\x28\xb5\x2f\xfd\x04\x00", "compressed by zstd: unpack it first"),
        (b"BZh91AY", "compressed by bzip2"),
        (b"\xfd7zXZ\x00\x00", "compressed by xz"),
        (b"\x04\x22\x4d\x18\x00", "compressed by lz4"),
        (b"PK\x03\x04", "a spreadsheet"),
        (b"\xd0\xcf\x11\xe0", "a spreadsheet"),
        (b"PAR1\x15", "not a file of parquet, or cut short"),
        (b"ARROW1\x00", "not a file of Arrow, or cut short"),
        ("q,g,a,a\n1,1,1,2\n", "several columns are called 'a'"),
        ("q,g,g,a\n1,1,1,2\n", "several columns are called 'g'"),
        (
            'q,g,a,t\n1,1,1,x\n1,1,"2,y\n1,0,3,z\n1,0,4,"\n',
            "lines 3 to 5: Expected 4 columns, got 3; a quotation mark is not closed",
        ),
        ('q,g,a,t\n1,1,1,"5/8 hose\n1,1,2,y\n1,0,3,"1/2 hose\n', "lines 2 to 4: a quotation mark"),
        ('q,g,a,t\n1,1,1,x\n1,1,2,"5/8 hose\n1,0,3,z\n', "lines 3 to 4: a quotation mark"),
        ("q,g,t,a\n1,1,x,1\n1,1,\u00e9,1\n".encode("latin-1"), "line 3: not text in UTF-8"),
        ("q,g,a\n1,0.5,1\n", "line 2: the grade 0.5 is not an integer"),
        ("q,g,a\n1,1,1\n1,0\n", "Expected 3 columns, got 2"),
        ("q\n1\n", "no column 'g'; there are 'q'"),
        ("", "no rows"),
    ],
)
def test_a_file_that_cannot_be_read_right_is_refused(tmp_path, content, told):
    with pytest.raises(ValueError, match=f"log.csv.*{told}"):
        read(written(tmp_path, content))


@pytest.mark.parametrize("name", ["log.csv.gz", "log.csv", "log.tsv", "log.txt", "log", "log.parquet.gz"])
def test_the_content_says_what_a_file_is(tmp_path, name):
    """Also where the name says something else."""
    content = gzip.compress(PLAIN.encode()) if name != "log.csv.gz" else PLAIN.encode()
    if name == "log.tsv":
        content = PLAIN.replace(",", "\t").encode()
    if name == "log.parquet.gz":
        with pytest.raises(ValueError, match=r"log\.parquet\.gz: not a file of parquet"):
            read(written(tmp_path, content, name))
        return
    assert read(written(tmp_path, content, name)) == read(written(tmp_path, PLAIN, "plain.csv"))


@pytest.mark.parametrize("name", ["log.feather", "log.arrow", "log"])
def test_files_of_arrow(tmp_path, name):
    pl.from_pandas(FRAME).write_ipc(tmp_path / name)
    assert read(tmp_path / name) == read(FRAME)


JSON = ['{"q": 1, "g": 1, "a": 1.5, "b": 2}', '{"q": 1, "g": 0, "a": 2.5, "b": 3}', "", '{"q": 2, "g": 1, "a": 1, "b": 1}',
        '{"b": 2, "q": 2, "a": 0, "g": 0}']  # fmt: skip


@pytest.mark.parametrize("name", ["log.jsonl", "log.ndjson", "log", "log.jsonl.gz"])
def test_json_lines(tmp_path, name, monkeypatch):
    monkeypatch.setattr("online_rank.stream.source._CHUNK", 50)
    content = "\n".join(JSON).encode()
    assert read(written(tmp_path, gzip.compress(content) if name.endswith(".gz") else content, name)) == read(FRAME)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"q": 3, "g": 1, "a": "oops", "b": 1}', "line 6: 'oops' in column 'a' is not a number"),
        ('{"q": 3, "g": 1, "a": null, "b": 1}', "line 6: the value of 'a' is missing"),
        ('{"q": 3, "g": "true", "a": 1}', "line 6: the value of 'b' is missing"),
        ('{"q": 3, "g": 0.5, "a": 1, "b": 1}', "line 6: the grade 0.5 is not an integer"),
        ('{"q": 3, "g": 1, "a": 1', "line 6: .*write one object a line"),
        ("[3]", "line 6: a list, and an object is wanted"),
        ('{"q": "x", "g": 1, "a": 1, "b": 1}', "line 1: 'q', the query, has values of several types: take one"),
    ],
)
def test_a_bad_line_of_json_is_named(tmp_path, line, told):
    with pytest.raises(ValueError, match=rf"log\.jsonl, {told}"):
        read(written(tmp_path, "\n".join([*JSON, line, ""]), "log.jsonl"), features=["a", "b"])


@pytest.mark.parametrize(
    "line",
    [
        '{"id": "q1", "docs": {"a": {"x": 3}, "b": {"x": 1}}, "grades": {"a": 1, "b": 0}}',
        '{"query": "q1", "documents": [{"id": "a", "x": 3}, {"id": "b", "x": 1}], "grades": [1, 0]}',
        '{"query": "q1", "documents": [{"id": "a", "x": 3, "grade": 1}, {"id": "b", "x": 1, "grade": 0}]}',
    ],
)
def test_json_lines_of_whole_queries(tmp_path, line):
    """As `POST /learn` of a service takes them, or with lists of documents."""
    path = written(tmp_path, f"{line}\n\n{line.replace('q1', 'q2')}\n", "log.jsonl")
    found = [(x.X.tolist(), y.tolist(), qid, ids) for x, y, qid, ids in online_rank.read(path, with_ids=True)]
    assert found == [([[3.0], [1.0]], [1, 0], "q1", ["a", "b"]), ([[3.0], [1.0]], [1, 0], "q2", ["a", "b"])]
    bad = line.replace("q1", "q2").replace("3", '"x1"')
    with pytest.raises(ValueError, match=r"log\.jsonl, line 3: 'x1' in column 'x' is not a number"):
        list(online_rank.read(written(tmp_path, f"{line}\n\n{bad}\n", "log.jsonl"), features=["x"]))
    for bad, told in (('{"id": "q", "docs": 3}', "docs is of type"), ('{"id": "q", "docs": [1]}', "a document is an object")):
        path = written(tmp_path, f"{line}\n\n{bad}\n", "log.jsonl")
        with pytest.raises(ValueError, match=f"line 3: .*{told}"):
            list(online_rank.read(path))


def test_a_file_of_parquet_that_is_damaged_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"log\.parquet: not a file of parquet, or cut short"):
        read(written(tmp_path, PLAIN, "log.parquet"))
    FRAME.to_parquet(tmp_path / "whole.parquet")
    with pytest.raises(ValueError, match=r"cut\.parquet: not a file of parquet, or cut short"):
        read(written(tmp_path, (tmp_path / "whole.parquet").read_bytes()[:-20], "cut.parquet"))


@pytest.mark.slow
def test_compressed_data_that_are_cut_short(tmp_path):
    rows = "".join(f"{i // 2},{i % 2},{hash((i, 7)) % 9973}\n" for i in range(400_000))
    packed = gzip.compress(("q,g,a\n" + rows).encode(), compresslevel=1)
    for size in (500, len(packed) - 500):
        with pytest.raises(ValueError, match=r"cut\.csv\.gz, after line \d+: .*cut short"):
            read(written(tmp_path, packed[:size], "cut.csv.gz"))


def test_nullable_columns_of_pandas():
    flags = FRAME.assign(c=pd.array([True, None, False, True], dtype="boolean"))
    assert [X for X, *_ in read(flags, missing="zero")] == [
        [[1.5, 2.0, 1.0], [2.5, 3.0, 0.0]],
        [[1.0, 1.0, 0.0], [0.0, 2.0, 1.0]],
    ]
    with pytest.raises(ValueError, match="row 2: the value of 'c' is missing"):
        read(flags)
    whole = FRAME.astype({"a": "Float64", "b": "Int64", "g": "Int64", "q": "string"})
    assert read(whole) == read(FRAME)


def test_numbers_that_numpy_lacks():
    wide = pl.from_pandas(FRAME).with_columns(n=pl.col("b").cast(pl.Int128), m=pl.col("a").cast(pl.Decimal(10, 2)))
    assert read(wide)[0][0] == [[1.5, 2.0, 2.0, 1.5], [2.5, 3.0, 3.0, 2.5]]
    half = pa.table({"q": [1, 1], "g": [1, 0], "a": pa.array(np.array([1, 2], np.float16))})
    assert read(half)[0][0] == [[1.0], [2.0]]
    plan = online_rank.read(FRAME.assign(c=FRAME.a.astype(complex)), query="q", grade="g").plan
    assert [(column.name, column.why) for column in plan.left_out] == [
        ("c", "text: convert numbers; AdditiveRanker takes categories (--ranker additive), HashedFeatures(text=...) words")
    ]


def test_ids_that_look_alike_are_refused():
    with pytest.raises(ValueError, match="row 1: 'q', the query, has values of several types: take one"):
        read(FRAME.assign(q=pd.Series([1, 1, "1", "1"], dtype=object)))


def test_ids_of_several_tables_are_compared_as_they_are_printed(tmp_path):
    FRAME.to_parquet(tmp_path / "numbers.parquet")
    tables = {
        "texts": FRAME.astype({"q": str}),
        "fractions": FRAME.astype({"q": float}),
        "codes": FRAME.astype({"q": "category"}),
    }
    for name, table in tables.items():
        table.to_parquet(tmp_path / f"{name}.parquet")
        with pytest.raises(ValueError, match=rf"{name}\.parquet, row 1: query 1 comes back after another one"):
            read_all(tmp_path, "numbers", name)
        # The second query continues in the next table.
        table.assign(q=table["q"].tolist()[2:] + [type(table["q"][0])(7)] * 2).to_parquet(tmp_path / "next.parquet")
        assert [(qid, len(y)) for _, y, qid, _ in read_all(tmp_path, "numbers", "next")] == [("1", 2), ("2", 4), ("7", 2)]


def read_all(folder, *names):
    found = online_rank.read(*(folder / f"{name}.parquet" for name in names), query="q", grade="g", with_ids=True)
    return list(found)


def test_a_query_that_comes_back_late_is_an_error_too():
    late = pl.DataFrame({"q": [*range(9), 7], "g": [1] * 10, "a": [1.0] * 10})
    with pytest.raises(ValueError, match="row 10: query 7 comes back after another one"):
        read(late)
    assert len(read(late, repeated_qid="new")) == 10


@pytest.mark.parametrize(
    "name", ["", " ", "Unnamed: 0", "Unnamed: 0.1", "Unnamed: 0.1.1", "Unnamed: 0_level_0", "__index_level_1__"]
)
def test_an_index_that_was_written_again_is_no_feature(tmp_path, name):
    table = FRAME.assign(**{name: range(4)})
    table.to_csv(tmp_path / "log.csv", index=False)
    table.to_parquet(tmp_path / "log.parquet", index=False)
    for source in (table, tmp_path / "log.csv", tmp_path / "log.parquet"):
        plan = online_rank.read(source, query="q", grade="g").plan
        assert plan.features == ("a", "b")
        assert [column.why for column in plan.left_out] == ["the index of a pandas frame"]


def test_ids_of_documents_with_missing_ones_among_them():
    # pandas turns integers into floats where one is missing.
    assert [ids for *_, ids in read(FRAME.assign(d=[7.0, np.nan, 8.0, 9.5]), document="d")] == [["7", ""], ["8", "9.5"]]
    assert [ids for *_, ids in read(FRAME.assign(d=["x", None, "y", "z"]), document="d")] == [["x", ""], ["y", "z"]]


@pytest.mark.parametrize(
    ("table", "error", "told"),
    [
        (pd.concat([FRAME, FRAME[["a"]]], axis=1), ValueError, "DataFrame: several columns are called 'a'"),
        (FRAME.rename(columns={"a": 0}), TypeError, "DataFrame: the name of a column is 0, not text"),
        (
            pa.Table.from_arrays([pa.array([1]), pa.array([1]), pa.array([1.0]), pa.array([2.0])], names=["q", "g", "a", "a"]),
            ValueError,
            "Table: several columns are called 'a'",
        ),
    ],
    ids=["pandas", "numbers", "pyarrow"],
)
def test_columns_without_distinct_text_names_are_refused(table, error, told):
    with pytest.raises(error, match=told):
        read(table)


def test_times_have_one_zone():
    ahead = pd.to_datetime(["2026-01-01T00:00+02:00"] * 2 + ["2025-12-31T23:00+00:00"] * 2, utc=True)
    assert len(read(FRAME.assign(t=ahead), event_time="t")) == 2  # 22:00 and 23:00 in UTC: in order
    assert len(read(FRAME.assign(t=["2026-01-02"] * 4), event_time="t")) == 2
    with pytest.raises(ValueError, match="row 1: 'today' in column 't', the event time, is neither a time nor a number"):
        read(FRAME.assign(t=["today"] * 4), event_time="t")


def test_without_pyarrow_the_extra_is_named(monkeypatch):
    for module in ("pyarrow", "pyarrow.parquet", "pyarrow.lib"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r'needs pyarrow: pip install "online_rank\[tables\]"'):
        online_rank.read(FRAME, query="q", grade="y")


@pytest.mark.parametrize("grouping", ["error", "group"])
@pytest.mark.parametrize("column", ["q", "d"])
def test_ids_that_are_floats_without_their_last_digits_are_refused(column, grouping):
    large = FRAME.assign(d=["w", "x", "y", "z"]).assign(**{column: [1e20, 1e20, 2e20, 2e20]})
    with pytest.raises(
        ValueError, match=rf"row 1: '{column}', the (query|document), is 1e\+20, a float too large to tell ids apart"
    ):
        read(large, document="d", repeated_qid=grouping)
    whole = FRAME.assign(d=["w", "x", "y", "z"]).assign(
        **{column: [2**53 + (k // 2 if column == "q" else k) for k in range(4)]}
    )
    assert len(read(whole, document="d", repeated_qid=grouping)) == 2


@pytest.mark.parametrize("grouping", ["error", "group"])
@pytest.mark.parametrize("column", ["a", "g"])
@pytest.mark.parametrize("times", [pd.to_datetime, pd.to_timedelta])
def test_times_in_a_later_table_are_no_numbers(column, times, grouping):
    later = FRAME.assign(q=3, **{column: times([1, 2, 3, 4])})
    with pytest.raises(ValueError, match=f"DataFrame, row 1: column '{column}' holds .*, and numbers are wanted"):
        read_tables(FRAME, later, repeated_qid=grouping)


def test_text_in_a_later_table_is_read_as_in_a_file():
    for grouping in ("error", "group"):
        assert len(read_tables(FRAME, FRAME.assign(q=3, a=["1", "2", "3", "4"]), repeated_qid=grouping)) == 3
        with pytest.raises(ValueError, match="DataFrame, row 2: 'two' in column 'a' is not a number"):
            read_tables(FRAME, FRAME.assign(q=3, a=["1", "two", "3", "4"]), repeated_qid=grouping)


def read_tables(*tables, **options):
    return list(online_rank.read(*tables, query="q", grade="g", **options))


def test_words_for_missing_values_are_ids_and_only_empty_text_is_missing(tmp_path):
    log = written(tmp_path, "q,g,a,d\nnan,1,1,NA\nnan,0,NA,null\nnaan,1,1,\nnaan,0,1,x\n")
    with pytest.warns(UserWarning, match=r"log\.csv, line 2: query 'nan' looks like a missing value that was written as text"):
        found = read(log, document="d", missing="zero")
    assert found == [
        ([[1.0], [0.0]], [1, 0], "nan", ["NA", "null"]),
        ([[1.0], [1.0]], [1, 0], "naan", ["", "x"]),
    ]
    with pytest.raises(ValueError, match="line 3: 'q', the query, is missing"):
        read(written(tmp_path, "q,g,a\nx,1,1\n,0,1\n"))


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl", "log.parquet"])
def test_categories_that_look_like_missing_values_raise_one_warning(tmp_path, name):
    table = pd.DataFrame({"q": [1, 1, 2, 2], "g": [1, 0, 1, 0], "a": ["NA", "x", "x", "NA"], "b": [1, 2, 3, 4]})
    write = {"log.csv": pd.DataFrame.to_csv, "log.jsonl": pd.DataFrame.to_json, "log.parquet": pd.DataFrame.to_parquet}[name]
    write(table, tmp_path / name, **({"orient": "records", "lines": True} if name == "log.jsonl" else {"index": False}))
    told = r"although they look like missing values that were written as text: 'NA' in column 'a' \(.*(line|row) [12]\)$"
    with pytest.warns(ReadWarning, match=told) as warned:
        queries = [x.X for x, _ in online_rank.read(tmp_path / name, query="q", grade="g", model=AdditiveRanker())]
    assert queries[0] == [{"a": "NA", "b": 1.0}, {"a": "x", "b": 2.0}]
    assert len(warned) == 1


def test_sparse_columns_of_pandas_are_numbers():
    log = pd.DataFrame({"q": [1, 1], "g": [1, 0], "a": pd.arrays.SparseArray([0.0, 2.5]), "b": pd.arrays.SparseArray([0, 1])})
    assert read(log) == [([[0.0, 0.0], [2.5, 1.0]], [1, 0], "1", ["", ""])]


def test_lengths_of_time_are_no_dates():
    log = pd.DataFrame({"q": [1, 1], "g": [1, 0], "a": pd.to_timedelta([90, 30], "min")})
    queries = online_rank.read(log, query="q", grade="g", model=AdditiveRanker())
    assert queries.plan.in_words() == ["1 features: a", "times: a, feature (lengths of time, in seconds)"]
    assert next(queries)[0].X.tolist() == [[5400.0], [1800.0]]


def test_damaged_parquet_is_an_error_with_the_name_of_the_file(tmp_path):
    FRAME.to_parquet(tmp_path / "log.parquet")
    damaged = bytearray((tmp_path / "log.parquet").read_bytes())
    damaged[100:140] = b"x" * 40
    with pytest.raises(ReadError, match=r"log\.parquet, row 1, or one that follows: "):
        read(written(tmp_path, bytes(damaged), "log.parquet"))


def test_a_document_that_is_judged_twice_is_named_with_its_row(tmp_path):
    log = written(tmp_path, "q,g,a,d\n1,1,1,x\n1,0,2,y\n1,0,3,x\n")
    with pytest.raises(ReadError, match=r"log\.csv, line 4: query 1 judges document 'x' twice, with grades 1 and 0"):
        read(log, document="d")
    letor = written(tmp_path, "1 qid:1 1:1 # docid = x\n0 qid:1 1:2 # docid = x\n", "letor.txt")
    with pytest.raises(ReadError, match=r"letor\.txt, line 2: query 1 judges document 'x' twice"):
        list(online_rank.read(letor, with_ids=True))


def test_a_file_with_another_name_is_a_table_if_a_column_is_named(tmp_path):
    path = written(tmp_path, PLAIN.replace("q,g", "query,g"), "log.txt")
    assert read(path, query=None) == read(written(tmp_path, PLAIN))


def test_letor_text_has_no_columns_of_the_query_and_no_texts(tmp_path):
    path = written(tmp_path, "1 qid:1 1:1\n0 qid:1 1:2\n", "letor.txt")
    for options in ({"context": ["1"]}, {"model": AdditiveRanker(kinds={"1": "text"})}):
        with pytest.raises(ValueError, match=r"letor\.txt: LETOR text has no (columns|texts): leave out"):
            online_rank.read(path, **options)


@pytest.mark.parametrize("grade", [1001, 10**12])
def test_a_grade_that_no_model_takes_is_an_error_with_its_line(tmp_path, grade):
    log = written(tmp_path, f"q,g,a\n1,0,1\n1,{grade},2\n")
    letor = written(tmp_path, f"0 qid:1 1:1\n{grade} qid:1 1:2\n", "l.txt")
    for model in (AdditiveRanker(), PerceptronRanker()):
        with pytest.raises(ReadError, match=rf"log\.csv, line 3: the grade {grade}, in column 'g', is above 1000"):
            read(log, model=model)
        with pytest.raises(ReadError, match=rf"l\.txt, line 2, column 1: the grade '{grade}' is above 1000, the largest one"):
            list(online_rank.read(letor, model=model))
    assert [y.tolist() for _, y in online_rank.read(letor)] == [[0, grade]]  # To take levels in Python.


def test_a_header_without_rows_raises_an_error_that_says_so(tmp_path):
    with pytest.raises(ValueError, match=r"log\.csv: no rows below the header"):
        read(written(tmp_path, "q,g,a\n"))


def test_white_space_that_is_part_of_a_name_is_shown(tmp_path):
    plan = online_rank.read(written(tmp_path, "q,g, a,b\n1,0,1,2\n"), query="q", grade="g").plan
    assert plan.in_words() == ["2 features: ' a', b"]


def test_metadata_that_is_nested_too_deeply_is_none(tmp_path):
    import pyarrow.parquet as pq

    table = pa.table({"q": ["a", "a"], "grade": [0, 1], "x": [1.0, 2.0]}).replace_schema_metadata({b"pandas": b"[" * 100_000})
    pq.write_table(table, tmp_path / "odd.parquet")
    ((X, y),) = online_rank.read(str(tmp_path / "odd.parquet"), query="q", grade="grade")
    assert (X.X.tolist(), y.tolist()) == ([[1.0], [2.0]], [0, 1])


def test_a_first_row_longer_than_a_block_is_read(tmp_path):
    """The header alone was the first block: "no rows below the header"."""
    path = written(tmp_path, f"q,g,a,text\n1,1,2.5,{'word ' * 300_000}\n1,0,1.5,word\n")
    assert read(path, exclude=["text"]) == [([[2.5], [1.5]], [1, 0], "1", ["", ""])]


def test_rows_of_json_without_a_value_are_no_table():
    """A list of documents that is empty leaves a row without columns."""
    with pytest.raises(ReadError, match="no columns: its rows have no values"):
        list(read(io.BytesIO(b'{"id": "q1", "docs": []}\n')))
