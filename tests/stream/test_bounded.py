"""Tables that grow faster than their files: many columns, names that change, texts that many rows share."""

import json
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from online_rank import AdditiveRanker, read
from online_rank.stream import ReadError, ReadWarning, bounded, parquet, tables

COLUMNS = {"query": "query", "grade": "grade"}


def wide(folder, n):
    names, path = [f"f{i}" for i in range(n)], folder / f"{n}.csv"
    rows = [["query", "grade", *names], ["1", "0", *map(str, range(n))], ["1", "1", *["2.5"] * n]]
    path.write_text("".join(",".join(row) + "\n" for row in rows))
    return path


def test_columns_of_a_wide_table_are_read_as_in_a_narrow_one(tmp_path):
    (x, y), *_ = read(wide(tmp_path, 600), **COLUMNS)
    assert x.names == tuple(f"f{i}" for i in range(600))
    assert x.X.tolist() == [[*map(float, range(600))], [2.5] * 600]
    assert y.tolist() == [0, 1]


def test_a_word_in_a_wide_table_is_named(tmp_path):
    path = wide(tmp_path, 600)
    path.write_text(path.read_text() + ",".join(["1", "0", *["1"] * 599, "oops"]) + "\n")
    with pytest.raises(ReadError, match=r"600\.csv, line 4: 'oops' in column 'f599' is not a number"):
        list(read(path, **COLUMNS, features=[f"f{i}" for i in range(600)]))


class Rows:
    """Rows of Arrow that count how often the names of their columns are listed."""

    def __init__(self, rows):
        self._rows, self.n_listed = rows, 0

    def __getattr__(self, name):
        return getattr(self._rows, name)

    def __len__(self):
        return len(self._rows)

    @property
    def schema(self):
        self.n_listed += 1
        return self._rows.schema


def test_names_of_columns_are_not_listed_for_each_column():
    """2 rows of 50,000 columns took 37 seconds."""
    names = [f"f{i}" for i in range(300)]
    table = tables.Table(pa.table({name: [1.0] for name in names}), "frame", None, 10)
    rows = Rows(pa.table({name: ["1", "2"] for name in names}))
    table._batches = iter([bounded.Batch(rows, str)])
    (batch,) = table.batches(names)
    assert [*table.columns(batch.rows, names)] == [pa.array(["1", "2"])] * 300
    assert rows.n_listed < 10


def test_too_many_columns_and_too_long_names_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(bounded, "MAX_COLUMNS", 100)
    with pytest.raises(ReadError, match=r"101\.csv: 103 columns, and at most 100 are read: .*LETOR"):
        read(wide(tmp_path, 101), **COLUMNS)
    path = tmp_path / "long.csv"
    path.write_text(f"query,grade,{'x' * 1001}\n1,0,1\n")
    with pytest.raises(ReadError, match=r"long\.csv: the name of column 3 has 1,001 characters, and at most 1,000 are read"):
        read(path, **COLUMNS)


def names_that_change(folder, n):
    path = folder / "names.jsonl"
    rows = [{"query": i // 10, "grade": i % 2, f"name{i}": 1} for i in range(n)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("whole_queries", [False, True])
def test_a_new_name_in_each_row_of_json_is_refused_before_a_table_is_made(tmp_path, whole_queries):
    path = names_that_change(tmp_path, 6000)
    if whole_queries:
        docs = {f"d{i}": {f"name{i}": 1} for i in range(6000)}
        path.write_text(json.dumps({"id": "q", "docs": docs, "grades": {}}) + "\n")
    tracemalloc.start()
    try:
        told = r"names\.jsonl, line \d+: [\d,]+ names in [\d,]+ rows that have [\d,]+ values: a name that changes"
        with pytest.raises(ReadError, match=told):
            list(read(path, model=AdditiveRanker(), **({} if whole_queries else COLUMNS)))
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_names_of_later_rows_of_json_are_warned_of(tmp_path, monkeypatch):
    """They were dropped without a word."""
    monkeypatch.setattr("online_rank.stream.source._CHUNK", 60)
    rows = [{"query": 1, "grade": i % 2, "a": 1.0} | ({"late": 2.0} if i > 3000 else {}) for i in range(4000)]
    path = tmp_path / "late.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.warns(ReadWarning, match=r"late\.jsonl: columns that the first rows lack are left out: late"):
        assert sum(len(y) for _, y in read(path, **COLUMNS)) == 4000


def sharing(folder, length, n=40_000):
    texts = pa.DictionaryArray.from_arrays(pa.array(np.arange(n) % 2, pa.int32()), pa.array(["a" * length, "b" * length]))
    columns = {"query": np.arange(n) // 100, "grade": np.arange(n) % 2, "f": np.ones(n), "text": texts}
    pq.write_table(pa.table(columns), folder / "shared.parquet", store_schema=False)
    return folder / "shared.parquet"


@pytest.mark.first(1)
@pytest.mark.parametrize("features", [None, ["f", "text"]])
def test_rows_that_share_a_long_text_take_no_copies_of_it(tmp_path, features):
    path = sharing(tmp_path, 20_000)
    assert path.stat().st_size < 200_000
    before = pa.total_allocated_bytes()
    highest = n = 0
    for _, y in read(path, **COLUMNS, model=AdditiveRanker(), features=features):
        highest, n = max(highest, pa.total_allocated_bytes() - before), n + len(y)
    assert n == 40_000
    assert highest < 80 << 20  # 40,000 copies are 800 MB


def test_pieces_have_few_bytes_of_text(tmp_path, monkeypatch):
    monkeypatch.setattr(bounded, "TEXT", 1000)
    texts = pa.array(["x" * 300, None, "y" * 400, "z" * 2000, "", "w"]).dictionary_encode()
    rows = pa.table({"t": texts, "f": range(6)})
    found = [*bounded.pieces(bounded.Batch(rows, lambda i: f"row {i}"), ["t"])]
    assert [piece.rows["f"].to_pylist() for piece in found] == [[0, 1, 2], [3], [4, 5]]
    assert [piece.where(0) for piece in found] == ["row 0", "row 3", "row 4"]
    monkeypatch.setattr(bounded, "CELLS", 4)
    found = [*bounded.pieces(bounded.Batch(rows, lambda i: f"row {i}"), [])]
    assert [piece.rows["f"].to_pylist() for piece in found] == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("role", ["document", "features"])
def test_a_text_that_is_too_long_is_named_by_file_row_and_column(tmp_path, role):
    path = sharing(tmp_path, (1 << 22) + 1, n=4)
    given = {"document": "text", "with_ids": True} if role == "document" else {"features": ["f", "text"]}
    with pytest.raises(ReadError, match=r"shared\.parquet, row 1: the text in column 'text' has 4,194,305 bytes, and at most"):
        list(read(path, **COLUMNS, model=AdditiveRanker(), **given))


def test_a_batch_of_many_columns_has_few_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "CELLS", 400)
    columns = {"query": [1] * 50, "grade": [0] * 50} | {f"f{j}": np.zeros(50) for j in range(98)}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    read_rows = []
    monkeypatch.setattr(tables, "pieces", lambda batch, _: read_rows.append(batch.rows.num_rows) or iter([batch]))
    assert sum(len(y) for _, y in read(tmp_path / "t.parquet", **COLUMNS)) == 50
    assert max(read_rows) == 4
