"""Divides tables into parts that other processes and machines can read independently."""

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from online_rank.stream.columns import plan_columns
from online_rank.stream.letor.plan import in_runs, shared_pieces
from online_rank.stream.table_sources import row_bounds
from online_rank.stream.tables import TableWarning, iter_table


@dataclass(frozen=True)
class TablePart:
    """A part of parquet or csv files: whole queries. It can be pickled, and read wherever the files are.

    Attributes
    ----------
    sources : tuple of (path, first row, row after the last)
        The ranges of rows; None for a whole file.
    query, grade : str
        Columns.
    features : tuple of str
        The columns that are features, the same for all parts.
    """

    sources: tuple[tuple[str, int, int | None], ...]
    query: str
    grade: str
    features: tuple[str, ...]
    negative: str = "error"
    missing: str = "error"

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yields (x, y), as `iter_table` does."""
        options: Any = {name: getattr(self, name) for name in ("query", "grade", "features", "negative", "missing")}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)
            yield from iter_table(
                *(path if end is None else (path, begin, end) for path, begin, end in self.sources), **options
            )


def plan_tables(
    files: Sequence[str | os.PathLike[str]],
    parts: int,
    *,
    query: str,
    grade: str,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    document: str | None = None,
    event_time: str | None = None,
    negative: str = "error",
    missing: str = "error",
) -> list[TablePart]:
    """Divide parquet files into parts of whole queries, as `online_rank.stream.letor.plan` divides text.

    A parquet file is cut between queries, near the boundary of a row group; a csv file stays whole.

    Parameters
    ----------
    files, parts
        As in `online_rank.stream.letor.plan`.
    query, grade, features, exclude, document, event_time, negative, missing
        As in `iter_table`.
    """
    paths = [os.fspath(file) for file in files]
    pieces: list[tuple[str, int, int | None]] = []
    numbers = shared_pieces(parts, [os.path.getsize(path) if path.endswith(".parquet") else 0 for path in paths])
    for path, n in zip(paths, numbers, strict=True):
        bounds = row_bounds(path, n, query) if n > 1 and path.endswith(".parquet") else []
        pieces += [(path, a, b) for a, b in pairwise(bounds)] or [(path, 0, None)]
    roles: Any = {"query": query, "grade": grade, "document": document, "event_time": event_time}
    chosen = plan_columns(paths[0], features=features, exclude=exclude, missing=missing, **roles).features
    return [TablePart(tuple(run), query, grade, chosen, negative, missing) for run in in_runs(pieces, parts)]
