"""Every reader, by every kind of fault: the table in docs/data.md has a cell for each of these tests."""

import gzip
import json
import re

import pandas as pd
import pytest

from online_rank import read
from online_rank.stream import read_clicks
from online_rank.stream.trec import read_judgements, read_run

pytest.importorskip("pyarrow")

ROWS = [(query, f"d{i}", i % 2, i + 0.5) for query in ("u", "v") for i in range(3)]
NAMES = ("query", "document", "grade", "x")
COLUMNS = {"query": "query", "grade": "grade", "document": "document", "with_ids": True}


def separated(rows, mark):
    return "\n".join(mark.join(map(str, row)) for row in [NAMES, *rows]) + "\n"


def letor(rows):
    return "".join(f"{grade} qid:{query} 1:{x} # docid = {document}\n" for query, document, grade, x in rows)


def clicked(rows):
    lines = [f"{query},{document},{i % 3 + 1},{grade},{x}" for i, (query, document, grade, x) in enumerate(rows)]
    return "\n".join(["query,document,position,click,x", *lines]) + "\n"


TEXTS = {
    "csv": lambda rows: separated(rows, ","),
    "tsv": lambda rows: separated(rows, "\t"),
    "jsonl": lambda rows: "".join(json.dumps(dict(zip(NAMES, row, strict=True))) + "\n" for row in rows),
    "letor": letor,
    "clicks": clicked,
    "qrels": lambda rows: "".join(f"{query} 0 {document} {grade}\n" for query, document, grade, _ in rows),
    "run": lambda rows: "".join(f"{query} Q0 {document} {i} {-x} tag\n" for i, (query, document, _, x) in enumerate(rows)),
}
TABLES = {
    "parquet": lambda frame, path: frame.to_parquet(path),
    "arrow": lambda frame, path: frame.to_feather(path),
    "frame": None,
}


def count(reader, source):
    """The number of documents that a reader finds."""
    if reader == "clicks":
        return sum(len(x.ids) for x, _ in read_clicks(source, missing="error"))
    if reader in ("qrels", "run"):
        return sum(map(len, (read_judgements if reader == "qrels" else read_run)(source).values()))
    return sum(len(y) for _, y, *_ in read(source, **(COLUMNS if reader != "letor" else {"with_ids": True})))


def written(reader, rows, folder, change=lambda text: text):
    if reader in TABLES:
        frame = pd.DataFrame(rows, columns=NAMES)
        if TABLES[reader] is None:
            return frame
        TABLES[reader](frame, folder / f"log.{reader}")
        return folder / f"log.{reader}"
    name = {"clicks": "log.csv", "letor": "log.txt"}.get(reader, f"log.{reader}")
    text = change(TEXTS[reader](rows))
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder / name


def changed(row, **values):
    rows = [dict(zip(NAMES, one, strict=True)) for one in ROWS]
    rows[row] |= values
    return [tuple(one.values()) for one in rows]


GRADED = ("csv", "tsv", "jsonl", "letor", "parquet", "arrow", "frame")
#: The line of the fifth row, or the row.
PLACE = {"csv": "line 6", "tsv": "line 6", "clicks": "line 6", "jsonl": "line 5", "letor": "line 5", "qrels": "line 5",
         "run": "line 5", "parquet": "row 5", "arrow": "row 5", "frame": "row 5"}  # fmt: skip


def refused(reader, source, *words):
    with pytest.raises(ValueError, match=PLACE[reader]) as error:
        count(reader, source)
    assert all(re.search(word, str(error.value)) for word in words), error.value


@pytest.mark.parametrize("reader", [*TEXTS, *TABLES])
def test_nothing_is_dropped(reader, tmp_path):
    assert count(reader, written(reader, ROWS, tmp_path)) == len(ROWS)


@pytest.mark.parametrize("reader", [reader for reader in PLACE if reader not in ("qrels", "parquet", "arrow", "frame")])
def test_a_word_among_numbers(reader, tmp_path):
    source = written(reader, changed(4, x="oops"), tmp_path) if reader != "run" else None
    if reader == "run":
        source = written(reader, ROWS, tmp_path, lambda text: text.replace("4 -1.5", "4 oops"))
        refused(reader, source, "oops")
    elif reader in ("csv", "tsv", "jsonl"):
        with pytest.raises(ValueError, match=PLACE[reader]) as error:
            list(read(source, **COLUMNS, features=["x"]))
        assert "'oops' in column 'x' is not a number" in str(error.value)
    elif reader == "clicks":
        with pytest.raises(ValueError, match=r"line 6: 'oops' in column 'x' is not a number"):
            list(read_clicks(source, features=["x"]))
    else:
        refused(reader, source, "oops")


@pytest.mark.parametrize("reader", [*GRADED, "clicks"])
def test_a_missing_value(reader, tmp_path):
    value = {"letor": "NA", "csv": "NA", "tsv": "\\N", "clicks": "null"}.get(reader)
    refused(reader, written(reader, changed(4, x=value), tmp_path), "missing")


@pytest.mark.parametrize("reader", [*GRADED, "qrels"])
def test_a_grade_that_is_no_integer(reader, tmp_path):
    refused(reader, written(reader, changed(4, grade=0.5), tmp_path), "grade", "not an integer")


@pytest.mark.parametrize("reader", [*GRADED, "clicks"])
def test_a_query_that_comes_back(reader, tmp_path):
    rows = changed(3, query="w")
    rows[4] = ("u", *rows[4][1:])
    refused(reader, written(reader, rows, tmp_path), "comes back")


@pytest.mark.parametrize("reader", ["clicks", "run", "qrels"])
def test_a_document_twice(reader, tmp_path):
    source = written(reader, changed(4, document="d0", grade=1), tmp_path)
    with pytest.raises(ValueError, match="twice"):
        count(reader, source)


@pytest.mark.parametrize("reader", TEXTS)
def test_text_in_another_encoding(reader, tmp_path):
    source = written(reader, changed(4, document="\u00e9"), tmp_path, lambda text: text.encode("latin-1"))
    if reader == "jsonl":
        source.write_bytes(source.read_bytes().replace(b"\\u00e9", b"\xe9"))
    refused(reader, source, "UTF-8|utf-8")


@pytest.mark.parametrize("reader", TEXTS)
@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_other_line_ends(reader, end, tmp_path):
    source = written(reader, ROWS, tmp_path, lambda text: text.replace("\n", end))
    assert count(reader, source) == len(ROWS)


@pytest.mark.parametrize("reader", TEXTS)
def test_compressed_text_whole_and_cut_short(reader, tmp_path):
    source = written(reader, ROWS, tmp_path, lambda text: gzip.compress(text.encode()))
    assert count(reader, source) == len(ROWS)
    source.write_bytes(source.read_bytes()[:-9])
    with pytest.raises(ValueError, match="the compressed data are damaged"):
        count(reader, source)


@pytest.mark.parametrize("reader", ["csv", "tsv", "letor", "clicks", "qrels", "run"])
def test_a_line_with_other_columns(reader, tmp_path):
    def change(text):
        if reader == "letor":
            return text.replace("1 qid:v 1:1.5", "1 qid:v 1:1.5 1:2")
        lines = text.splitlines()
        at = int(PLACE[reader].split()[1]) - 1
        lines[at] = lines[at][: max(lines[at].rfind(mark) for mark in ",\t ")]
        return "\n".join(lines) + "\n"

    refused(reader, written(reader, ROWS, tmp_path, change), "columns|twice|[Ee]xpected")


@pytest.mark.parametrize("reader", ["parquet", "arrow"])
def test_a_damaged_file(reader, tmp_path):
    source = written(reader, ROWS, tmp_path)
    source.write_bytes(source.read_bytes()[:-20])
    with pytest.raises(ValueError, match="cut short"):
        count(reader, source)
