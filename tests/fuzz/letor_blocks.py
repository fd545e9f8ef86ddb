"""LETOR text of lines of any lengths, read in blocks of any sizes, and line by line: both are the same."""

import io
from collections.abc import Iterator
from typing import TypeAlias
from unittest.mock import patch

import numpy as np

from online_rank import read
from online_rank.query import Block, SparseRows
from online_rank.stream import letor, source
from tests.reference.letor import parse_line

Document: TypeAlias = tuple[dict[int, float], int, str, str]

#: Numbers as their texts: short ones, long ones, and such as the kernel leaves to Python.
_VALUES = ("1", "0.5", "-7.25E+2", "0.12345678901234567", "12345678901234567890", "NULL")


def made_of(data: bytes) -> tuple[dict[str, int | None], bytes]:
    """Sizes of the reader, and a text, drawn by bytes.

    The first four bytes are the size of a read, of the first block, of a block of rows, and the number of features that the
    reader expects. Each further four are a run of equal lines: how many features, which values, how many lines, and queries.
    """
    piece, ahead, rows, width = (*data[:4], 0, 0, 0, 0)[:4]
    sizes = {"piece": 1 + piece * 16, "ahead": 1 + ahead * 64, "rows": 1 + rows * 8, "n_features": width % 64 or None}
    lines: list[str] = []
    for k, begin in enumerate(range(4, len(data) - 3, 4)):
        n, value, times, query = data[begin : begin + 4]
        features = "".join(f" {i}:{_VALUES[(value + i) % len(_VALUES)]}" for i in range(1, n % 48 + 1))
        end = "x" * (value >> 4) + f"{features} # docid = d{k}."
        lines += (f"{(value + i) % 3} qid:{k}.{i * (query % 4) // 4}{end}{i}" for i in range(times))
    return sizes, "\n".join(lines).encode()


def line_by_line(text: bytes) -> list[Document]:
    """The features of each document that are not 0, its grade, its query and its id; each line is read alone."""
    rows = [parse_line(line) for line in text.decode().split("\n")]
    return [
        ({i: value for i, value in row[2].items() if value}, row[0], str(row[1]), row[3].removeprefix("docid = "))
        for row in rows if row is not None
    ]  # fmt: skip


def in_blocks(text: bytes, sizes: dict[str, int | None], wide: int = letor.WIDE) -> list[Document]:
    """The same as the reader finds it, block by block; rows of more than `wide` features are sparse."""
    with (
        patch.object(source, "_CHUNK", sizes["piece"]),
        patch.object(letor, "LOOK_AHEAD", sizes["ahead"]),
        patch.object(letor, "_BLOCK", sizes["rows"]),
        patch.object(letor, "WIDE", wide),
    ):
        options = {"n_features": sizes["n_features"], "with_ids": True, "missing": "zero", "repeated_qid": "new"}
        return [document for query in read(io.BytesIO(text), **options) for document in _documents(*query)]


def _documents(x: np.ndarray | SparseRows | Block, y: np.ndarray, qid: str, docids: list[str]) -> Iterator[Document]:
    """The documents of a query as `line_by_line` has them."""
    X, names = (x.X, x.names) if isinstance(x, Block) else (x, None)
    ids = [*map(int, names)] if names else range(1, X.shape[1] + 1)
    rows = X.toarray() if isinstance(X, SparseRows) else X
    for row, grade, docid in zip(rows.tolist(), y.tolist(), docids, strict=True):
        yield {i: value for i, value in zip(ids, row, strict=True) if value}, grade, qid, docid
