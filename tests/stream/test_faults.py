"""Every reader, by every kind of fault: the table in docs/data.md has a cell for each of these tests."""

import gzip
import json
import re

import numpy as np
import pandas as pd
import pytest

from online_rank import read
from online_rank.stream import ReadWarning, read_clicks
from online_rank.stream.trec import read_judgements, read_run

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


def with_word(word):
    """A change of runs and judgements: a word in place of the fifth score or grade."""
    return lambda text: text.replace("4 -1.5", f"4 {word}").replace("v 0 d1 1", f"v 0 d1 {word}")


@pytest.mark.parametrize("reader", PLACE)
def test_a_word_among_numbers(reader, tmp_path):
    if reader in ("run", "qrels"):
        source = written(reader, ROWS, tmp_path, with_word("oops"))
    elif reader in TABLES:
        source = written(reader, [(*row[:3], "oops" if i == 4 else str(row[3])) for i, row in enumerate(ROWS)], tmp_path)
    else:
        source = written(reader, changed(4, x="oops"), tmp_path)
    if reader in ("run", "qrels", "letor"):
        refused(reader, source, "oops")
        return
    how = read_clicks if reader == "clicks" else read
    with pytest.raises(ValueError, match=f"{PLACE[reader]}: 'oops' in column 'x' is not a number"):
        list(how(source, **({} if reader == "clicks" else COLUMNS), features=["x"]))


#: What a missing value is written as.
ABSENT = {"letor": "NA", "csv": "NA", "tsv": "\\N", "clicks": "null"}


@pytest.mark.parametrize("reader", PLACE)
def test_a_missing_value(reader, tmp_path):
    if reader in ("run", "qrels"):
        source = written(reader, ROWS, tmp_path, with_word("NA"))
        refused(reader, source, "missing")
        return
    source = written(reader, changed(4, x=ABSENT.get(reader)), tmp_path)
    refused(reader, source, "missing")
    for missing, value in (("zero", 0.0), ("keep", np.nan)):
        if reader == "clicks":
            X = [x.X for x, _ in read_clicks(source, missing=missing)][1]
        else:
            columns = {"with_ids": True} if reader == "letor" else COLUMNS
            X = [getattr(x, "X", x) for x, *_ in read(source, **columns, missing=missing)][1]
        assert np.array_equal(X.ravel(), [0.5, value, 2.5], equal_nan=True)


@pytest.mark.parametrize("reader", [*GRADED, "qrels"])
def test_a_grade_that_is_no_integer(reader, tmp_path):
    refused(reader, written(reader, changed(4, grade=0.5), tmp_path), "grade", "not an integer")


@pytest.mark.parametrize("reader", PLACE)
def test_a_query_that_comes_back(reader, tmp_path):
    rows = changed(3, query="w")
    rows[4] = ("u", "d7", *rows[4][2:])
    source = written(reader, rows, tmp_path)
    if reader in ("run", "qrels"):
        found = (read_judgements if reader == "qrels" else read_run)(source)
        assert {query: len(documents) for query, documents in found.items()} == {"u": 4, "w": 1, "v": 1}
        return
    refused(reader, source, "comes back")
    if reader != "clicks":
        columns = {"with_ids": True} if reader == "letor" else COLUMNS
        found = {query: ids for _, _, query, ids in read(source, **columns, repeated_qid="group")}
        assert found == {"u": ["d0", "d1", "d2", "d7"], "w": ["d0"], "v": ["d2"]}


@pytest.mark.parametrize("reader", [*GRADED, "clicks", "run", "qrels"])
def test_a_document_twice(reader, tmp_path):
    source = written(reader, changed(4, document="d0", grade=1), tmp_path)
    with pytest.raises(ValueError, match="twice"):
        count(reader, source)
    # Twice with the same grade.
    source = written(reader, changed(4, document="d0", grade=0), tmp_path)
    if reader in ("clicks", "run"):
        with pytest.raises(ValueError, match="twice"):
            count(reader, source)
    elif reader == "qrels":
        assert count(reader, source) == len(ROWS) - 1
    else:
        with pytest.warns(ReadWarning, match="query v has document 'd0' several times"):
            assert count(reader, source) == len(ROWS)


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


def test_an_object_without_a_feature(tmp_path):
    """In JSON lines a feature that a line lacks is missing."""
    last = '"grade": 1, "x": 1.5}'
    source = written("jsonl", ROWS, tmp_path, lambda text: text[:200] + text[200:].replace(last, '"grade": 1}'))
    refused("jsonl", source, "missing")


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
