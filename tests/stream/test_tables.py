"""Tables as streams of queries."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import AdditiveRanker, CrossFeatures, PerceptronRanker, StreamScaler, evaluate, read
from online_rank.distributed import to_bytes
from online_rank.stream import ReadError, ReadWarning, parts

COLUMNS = {"query": "q", "grade": "rel"}


def table_of(sizes, first=1, d=3):
    rng = np.random.default_rng([first, *sizes])
    n = sum(sizes)
    columns = {
        "q": np.repeat(np.arange(len(sizes)) + first, sizes),
        "rel": rng.integers(0, 3, n),
        "url": [f"u{i}" for i in range(n)],
    }
    return pl.DataFrame(columns | {f"x{j}": rng.normal(size=n).round(3) for j in range(d)} | {"n": rng.integers(0, 9, n)})


def contents(queries):
    return [(x.names, x.X.tolist(), y.tolist()) for x, y in queries]


def expected(table):
    parts = table.partition_by("q", maintain_order=True)
    names = ("x0", "x1", "x2", "n")
    return [(names, part.select(names).to_numpy().astype(float).tolist(), part["rel"].to_list()) for part in parts]


def sources(table, folder):
    pq.write_table(table.to_arrow(), folder / "t.parquet", row_group_size=7)
    table.write_csv(folder / "t.csv")
    table.write_csv(folder / "t.tsv", separator="\t")
    arrow = table.to_arrow()
    return {
        "parquet": folder / "t.parquet",
        "csv": str(folder / "t.csv"),
        "tsv": folder / "t.tsv",
        "polars": table,
        "lazy": table.lazy(),
        "scanned": pl.scan_parquet(folder / "t.parquet"),
        "arrow": arrow,
        "reader": lambda: pa.RecordBatchReader.from_batches(arrow.schema, arrow.to_batches(max_chunksize=5)),
        "pandas": pd.DataFrame(table.to_dict(as_series=False)),
    }


@pytest.mark.parametrize("kind", ["parquet", "csv", "tsv", "polars", "lazy", "scanned", "arrow", "reader", "pandas"])
@pytest.mark.parametrize("batch_rows", [1, 4, 1000])
def test_every_source_gives_the_same_queries(tmp_path, kind, batch_rows):
    table = table_of([3, 1, 5, 2, 9, 1])
    source = sources(table, tmp_path)[kind]
    source = source() if callable(source) else source
    assert contents(read(source, **COLUMNS, batch_rows=batch_rows)) == expected(table)


@pytest.mark.slow
@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))
@settings(max_examples=40)
def test_parts_of_parquet_hold_every_query_once(tmp_path_factory, sizes, n, group, batch_rows):
    table, path = table_of(sizes), tmp_path_factory.mktemp("plan") / "t.parquet"
    pq.write_table(table.to_arrow(), path, row_group_size=group)
    planned = parts([path], n, **COLUMNS)
    assert 1 <= len(planned) <= n
    assert contents(query for part in planned for query in part) == expected(table)
    whole = read(path, **COLUMNS, batch_rows=batch_rows)
    assert contents(whole) == expected(table)
    assert whole.fraction == 1.0


def test_several_tables_are_one_stream_for_any_order_of_their_columns(tmp_path):
    first, second = table_of([2, 3], 1), table_of([4, 1], 3)
    second.select(sorted(second.columns, reverse=True)).write_csv(tmp_path / "b.csv")
    assert contents(read(first, tmp_path / "b.csv", **COLUMNS)) == expected(pl.concat([first, second]))
    paths = [tmp_path / "a.parquet", tmp_path / "c.parquet"]
    for path, table in zip(paths, (first, second), strict=True):
        table.write_parquet(path)
    planned = parts(paths, 2, **COLUMNS)
    assert [contents(part) for part in planned] == [expected(first), expected(second)]


def test_a_query_continues_in_the_next_batch_and_table():
    table = table_of([6])
    assert contents(read(table[:2], table[2:3], table[3:], **COLUMNS, batch_rows=2)) == expected(table)


def test_ids_and_rows_to_rank():
    table = table_of([2, 1])
    queries = list(read(table, query="q", grade=None, features=["n"], document="url", with_ids=True))
    assert [(y.tolist(), qid, docids) for _, y, qid, docids in queries] == [([0, 0], "1", ["u0", "u1"]), ([0], "2", ["u2"])]
    assert queries[0][0].names == ("n",)
    named = pl.DataFrame({"q": ["a", "a", "b"], "rel": [0, 1, 1], "x": [True, False, True]})
    assert [(x.X.ravel().tolist(), qid) for x, _, qid, _ in read(named, **COLUMNS, with_ids=True)] == [
        ([1.0, 0.0], "a"), ([1.0], "b"),
    ]  # fmt: skip


def test_models_learn_names_and_runs_continue_from_checkpoints(tmp_path):
    table = table_of([5] * 12)
    model = StreamScaler() | PerceptronRanker()
    evaluate.progressive(read(table, **COLUMNS), model, "ndcg@10")
    assert model["PerceptronRanker"].feature_names == ("x0", "x1", "x2", "n")
    again = StreamScaler() | PerceptronRanker()
    for part in (table[:20], table):
        evaluate.progressive(read(part, **COLUMNS), again, "ndcg@10", checkpoint=tmp_path / "c")
    assert to_bytes(again) == to_bytes(model)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_table(tmp_path):
    # Ten million numbers, of which no more than a few batches are held at once.
    import tracemalloc

    rows = 100_000
    schema = pa.schema([("q", pa.int64()), ("rel", pa.int64()), *((f"x{j}", pa.float64()) for j in range(20))])
    with pq.ParquetWriter(tmp_path / "t.parquet", schema) as writer:
        for k in range(5):
            arrays = [np.arange(rows // 5) // 10 + k * rows, np.zeros(rows // 5, int), *np.ones((20, rows // 5))]
            writer.write_table(pa.table(dict(zip(schema.names, arrays, strict=True))), row_group_size=5000)
    tracemalloc.start()
    n = sum(len(y) for _, y in read(tmp_path / "t.parquet", **COLUMNS, batch_rows=2000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert n == rows
    assert peak < 4 << 20 < rows * 22 * 8 / 4


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"x1": [1.0, None, 2.0]}, {}, r"row 2: the value of 'x1' is missing; missing=\"zero\" reads it as 0"),
        ({"x1": [1.0, float("inf"), 2.0]}, {}, "row 2: the value of 'x1' is not finite"),
        ({"rel": [0.5, 1.0, 2.0]}, {}, "row 1: the grade 0.5 is not an integer >= 0, in column 'rel'"),
        ({"rel": [0, -1, 2]}, {}, "row 2: the grade -1 is not an integer >= 0, in column 'rel'"),
        ({"rel": [0, None, 2]}, {}, "row 2: the grade is missing, in column 'rel'"),
        ({"q": [1, None, 2]}, {}, "row 2: 'q', the query, is missing"),
        ({}, {"max_query_bytes": 10}, "query 1 takes more than max_query_bytes=10"),
    ],
)
def test_bad_rows_are_named(change, options, message):
    table = pl.DataFrame({"q": [1, 1, 2], "rel": [0, 1, 0], "x1": [1.0, 2.0, 3.0]} | change)
    with pytest.raises(ReadError, match=message):
        list(read(table, **COLUMNS, **options))


def test_options_for_what_is_missing_or_negative():
    table = pl.DataFrame({"q": [1, 1, 2], "rel": [-1, 1, 0], "x": [1.0, None, float("nan")]})
    rows = [(x.X.tolist(), y.tolist()) for x, y in read(table, **COLUMNS, missing="zero", negative="skip")]
    assert rows == [([[0.0]], [1]), ([[0.0]], [0])]
    with pytest.warns(ReadWarning, match="row 1: grades below 0 count as 0"):
        rows = [y.tolist() for _, y in read(table, **COLUMNS, missing="zero", negative="zero")]
    assert rows == [[0, 1], [0]]


def test_a_query_that_comes_back_is_an_error_or_another_one():
    table = pl.DataFrame({"q": [1, 2, 1, 2], "rel": [0] * 4, "x": [1.0] * 4})
    with pytest.raises(ReadError, match="row 3: query 1 comes back after another one; sort the rows by 'q', or repeated_qid"):
        list(read(table, **COLUMNS))
    assert len(list(read(table, **COLUMNS, repeated_qid="new"))) == 4


def test_csv_of_integers_that_continue_with_fractions(tmp_path, monkeypatch):
    monkeypatch.setattr("online_rank.stream.source._CHUNK", 1024)
    lines = [f"{i // 2},{i % 2},{i},text" for i in range(200)] + ["x,1,0.5,text"]
    (tmp_path / "t.csv").write_text("q,rel,x,other\n" + "\n".join(lines) + "\n")
    *_, (x, y) = read(tmp_path / "t.csv", **COLUMNS)
    assert (x.names, x.X.tolist(), y.tolist()) == (("x",), [[0.5]], [1])
    (tmp_path / "t.csv").write_text("q,rel,x\n1,0,2\n1,1\n")
    with pytest.raises(ValueError, match=r"t\.csv, line 3: Expected 3 columns, got 2"):
        list(read(tmp_path / "t.csv", **COLUMNS))


def test_bad_arguments(tmp_path):
    table = table_of([2])
    for arguments, error, message in [
        (((), COLUMNS), ValueError, "nothing to read"),
        (((table,), {"query": "qid", "grade": "rel"}), ValueError, "no column 'qid'; there are 'q', 'rel'"),
        (((table,), COLUMNS | {"features": "x0"}), TypeError, "features is a sequence"),
        (((table,), COLUMNS | {"features": ["x0", "x0"]}), ValueError, "names a column twice"),
        (((table.select("q", "rel"),), COLUMNS), ValueError, "no other column has numbers"),
        (((table,), COLUMNS | {"missing": "median"}), ValueError, "missing is 'median'"),
        (((table,), COLUMNS | {"batch_rows": 0}), ValueError, "batch_rows is 0"),
        (((tmp_path / "a.csv",), COLUMNS), FileNotFoundError, "a.csv"),
        (((3,), COLUMNS | {"features": ["x"]}), TypeError, "a source is a path"),
        (((table,), COLUMNS | {"features": ["url"]}), ValueError, "'url' is not a feature: text"),
        (((table,), COLUMNS | {"exclude": "x0"}), TypeError, "exclude is a sequence"),
        (((table,), COLUMNS | {"exclude": ["x9"]}), ValueError, "no column 'x9'"),
        (((table,), COLUMNS | {"document": "q"}), ValueError, "'q' cannot be query and document at once"),
        (((table,), COLUMNS | {"features": ["rel"]}), ValueError, "'rel' cannot be grade and a feature"),
    ]:
        sources, options = arguments
        with pytest.raises(error, match=message):
            list(read(*sources, **options))


LOG = pd.DataFrame(
    {
        "q": [1, 1, 2],
        "rel": [0, 1, 0],
        "price": [2, 1, 5],
        "cheap": [False, True, False],
        "title": ["a", "b", "c"],
        "seen": pd.to_datetime(["2026-01-01", "2026-01-02", "2026-01-03"]),
    },
    index=[4, 2, 9],
)


def written(kind, path):
    """LOG in a file that holds its index, as pandas writes it."""
    if kind == "parquet":
        LOG.sort_values("q").to_parquet(path)
    elif kind == "named":
        LOG.rename_axis("key").to_parquet(path)
    elif kind == "csv":
        LOG.to_csv(path)
    else:  # Read and written again.
        LOG.to_csv(path)
        pd.read_csv(path).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("kind", "index"), [("parquet", "__index_level_0__"), ("named", "key"), ("csv", ""), ("again", "Unnamed: 0")]
)
def test_the_index_of_pandas_is_no_feature_and_what_is_left_out_is_listed(tmp_path, kind, index):
    path = written(kind, tmp_path / ("t.parquet" if kind in ("parquet", "named") else "t.csv"))
    queries = read(path, **COLUMNS)
    assert contents(queries) == [
        (("price", "cheap"), [[2.0, 0.0], [1.0, 1.0]], [0, 1]), (("price", "cheap"), [[5.0, 0.0]], [0]),
    ]  # fmt: skip
    left_out = {column.name: (column.type, column.why.partition(":")[0]) for column in queries.plan.left_out}
    assert left_out == {
        index: ("number", "the index of a pandas frame"), "title": ("text", "text"), "seen": ("time", "a time"),
    }  # fmt: skip
    first, second = queries.plan.in_words()
    assert first == "2 features: price, cheap"
    assert f"{index or '(unnamed)'} (the index of a pandas frame)" in second
    # Whoever names it means it.
    assert read(path, **COLUMNS, features=[index]).plan.features == (index,)
    assert read(path, query=index, grade="rel").plan.of("query") == index


def test_roles_and_exclusions_are_kept_by_the_plan():
    plan = read(LOG, **COLUMNS, document="title", event_time="seen", exclude=["price"]).plan
    assert [(column.name, column.role) for column in plan.columns] == [
        ("q", "query"), ("rel", "grade"), ("price", "left out"), ("cheap", "feature"), ("title", "document"),
        ("seen", "event time"),
    ]  # fmt: skip
    assert [column.why for column in plan.left_out] == ["excluded"]
    assert read(LOG, **COLUMNS, features=["cheap", "price"]).plan.features == ("cheap", "price")


@pytest.mark.parametrize("separator", [",", ";", "|"])
def test_csv_with_other_separators_and_booleans(tmp_path, separator):
    LOG.to_csv(tmp_path / "t.csv", sep=separator, index=False)
    *_, (x, y) = read(tmp_path / "t.csv", **COLUMNS)
    assert (x.names, x.X.tolist(), y.tolist()) == (("price", "cheap"), [[5.0, 0.0]], [0])
    if separator != ",":
        (tmp_path / "d.csv").write_text("q;rel;x\n1;0;0,5\n1;1;-1,25\n".replace(";", separator))
        ((x, _),) = read(tmp_path / "d.csv", **COLUMNS)
        assert x.X.tolist() == [[0.5], [-1.25]]


def test_a_csv_value_of_another_type_is_named_by_its_column(tmp_path, monkeypatch):
    monkeypatch.setattr("online_rank.stream.source._CHUNK", 1024)
    lines = [f"{i},0,true" for i in range(300)] + ["x,1,0.5"]
    (tmp_path / "t.csv").write_text("q,rel,cheap\n" + "\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=r"t\.csv, line 302: '0\.5' in column 'cheap' is not a boolean"):
        list(read(tmp_path / "t.csv", **COLUMNS))


def test_missing_values_are_kept_for_models_that_take_them():
    table = pl.DataFrame({"q": [1, 1, 1, 2], "rel": [0] * 4, "x": [1.0, None, 4.0, None], "z": [1.0, 2.0, 3.0, 4.0]})
    queries = read(table, **COLUMNS, model=AdditiveRanker())
    assert [np.isnan(x.X).sum() for x, _ in queries] == [1, 1]
    assert queries.n_missing == 2
    with pytest.warns(ReadWarning, match="row 1, the query there: missing values count as 0"):
        assert [x.X.tolist() for x, _ in read(table, **COLUMNS, model=PerceptronRanker())] == [
            [[1.0, 1.0], [0.0, 2.0], [4.0, 3.0]], [[0.0, 4.0]],
        ]  # fmt: skip


def test_columns_of_few_texts_are_categories_for_models_that_take_them():
    columns = {"q": [1] * 4 + [2] * 4, "rel": [0, 1, 0, 0] * 2, "x": [1.0, None] * 4}
    table = pl.DataFrame({**columns, "brand": ["a", "b", None, "a"] * 2, "url": [f"u{i}" for i in range(8)]})
    for source in (table, table.to_pandas(), table.with_columns(pl.col("brand").cast(pl.Categorical))):
        model = AdditiveRanker()
        queries = read(source, **COLUMNS, model=model)
        assert queries.plan.features == ("x", "brand")
        assert [c.why for c in queries.plan.left_out] == ["text with 8 different values among the first 8"]
        for x, y in queries:
            assert [one["brand"] for one in x.X] == ["a", "b", None, "a"]
            assert np.array_equal([one["x"] for one in x.X], [1.0, np.nan, 1.0, np.nan], equal_nan=True)
            model.learn_one(x, y)
        assert read(source, query="q", model=model).plan.features == ("x", "brand")
        assert model.rank_one({"a": {"brand": "a"}, "b": {"brand": "b"}}) == ["b", "a"]


def test_a_file_of_group_sizes_next_to_a_table(tmp_path):
    table_of([2, 3, 1]).drop("q").write_csv(tmp_path / "t.csv")
    (tmp_path / "t.csv.query").write_text("2\n3\n1\n")
    for options in ({}, {"group": [2, 3, 1]}):
        assert [(len(y), qid) for _, y, qid, _ in read(tmp_path / "t.csv", grade="rel", with_ids=True, **options)] == [
            (2, "1"), (3, "2"), (1, "3"),
        ]  # fmt: skip
    with pytest.raises(ValueError, match="6 documents, but the group sizes add up to 7"):
        list(read(tmp_path / "t.csv", grade="rel", group=[2, 5]))


@pytest.mark.slow
@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(1, 7), st.booleans(), st.booleans())
@settings(max_examples=40)
def test_grouping_keeps_every_row_and_the_order_of_queries(tmp_path_factory, qids, batch_rows, texts, several):
    path = tmp_path_factory.mktemp("grouped")
    n = len(qids)
    table = pl.DataFrame({"q": [f"q{i}" for i in qids] if texts else qids, "rel": [0] * n, "x": [float(i) for i in range(n)]})
    table.write_parquet(path / "a.parquet")
    table.write_csv(path / "b.csv")
    sources = [path / "a.parquet", path / "b.csv"] if several else [table]
    queries = read(*sources, **COLUMNS, with_ids=True, repeated_qid="group", batch_rows=batch_rows)
    rows = [(qid, x.X.ravel().tolist()) for x, _, qid, _ in queries]
    there = table["q"].to_list() * len(sources)
    expected: dict = {}
    for i, qid in enumerate(there):
        expected.setdefault(str(qid), []).append(float(i % n))
    assert rows == list(expected.items())


def test_grouping_by_time_and_messages_of_grouped_rows(tmp_path):
    days = pd.to_datetime(["2026-01-05", "2026-01-02", "2026-01-01", "2026-01-03"])
    table = pl.DataFrame({"q": ["a", "b", "a", "b"], "rel": [0, 1, 2, 3], "x": [1.0, 2.0, 3.0, 4.0], "t": days})
    options = {**COLUMNS, "event_time": "t"}
    queries = list(read(table, **options, repeated_qid="group", with_ids=True))
    assert [(qid, y.tolist()) for _, y, qid, _ in queries] == [("a", [0, 2]), ("b", [1, 3])]
    later = table.with_columns(t=pl.Series(days[[0, 1, 3, 2]]))
    queries = list(read(later, **options, repeated_qid="group", with_ids=True))
    assert [(qid, y.tolist()) for _, y, qid, _ in queries] == [("b", [1, 3]), ("a", [0, 2])]
    with pytest.raises(ReadError, match="row 2: query b is older than the one before it; sort the rows by 't' and '"):
        list(read(table[:2], **options))
    table.with_columns(x=pl.Series([1.0, 2.0, None, 4.0])).write_csv(tmp_path / "t.csv")
    with pytest.raises(ReadError, match=r"t\.csv, line 4: the value of 'x' is missing"):
        list(read(tmp_path / "t.csv", **options, repeated_qid="group"))
    reader = pa.RecordBatchReader.from_batches(table.to_arrow().schema, table.to_arrow().to_batches())
    assert len(list(read(reader, **options, repeated_qid="group"))) == 2


def test_columns_that_the_first_table_lacks_are_warned_of():
    with pytest.warns(ReadWarning, match="columns that the first table lacks are left out: y"):
        list(read(table_of([2]), table_of([2], 5).with_columns(y=1.0), **COLUMNS))


def test_what_is_known_of_a_query_itself_comes_as_its_context(tmp_path):
    log = pl.DataFrame(
        {
            "q": [1, 1, 2, 2],
            "grade": [2, 0, 0, 2],
            "x": [1.0, 0.0, 1.0, 0.0],
            "user": ["ada", "ada", None, None],
            "n": [3, 3, 4, 4],
        }
    )
    log.write_csv(tmp_path / "log.csv")
    for source in (log, tmp_path / "log.csv"):
        stream = read(source, query="q", grade="grade", context=["user", "n"])
        assert stream.plan.features == ("x",)
        assert [x.context for x, _ in stream] == [({"user": "ada", "n": 3},), ({"user": None, "n": 4},)]
        mixed_up = read(source, query="q", grade="grade", context=["user", "n"], repeated_qid="group")
        assert [x.context for x, _ in mixed_up] == [({"user": "ada", "n": 3},), ({"user": None, "n": 4},)]
    model = CrossFeatures(("user", "n")) | PerceptronRanker()
    evaluate.progressive(read(log, query="q", grade="grade", context=["user", "n"]), model)
    assert model["PerceptronRanker"].feature_names == ("x", "x*user=ada", "x*n=3", "x*n=4")
    mixed = log.with_columns(user=pl.Series(["ada", "bob", "ada", "ada"]))
    with pytest.raises(ReadError, match="query 1 has 'ada' and 'bob' in column 'user'"):
        list(read(mixed, query="q", grade="grade", context=["user"]))
    with pytest.raises(ValueError, match="column 'q' cannot be query and context at once"):
        read(log, query="q", grade="grade", context=["q"])
    with pytest.raises(TypeError, match="context is a sequence of names"):
        read(log, query="q", grade="grade", context="user")
