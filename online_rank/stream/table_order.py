"""The order of the queries of tables, and columns that only some of the tables have."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from online_rank.query.names import is_index_name
from online_rank.stream.columns import TablePlan
from online_rank.stream.letor.rows import REMEMBERED
from online_rank.stream.table_sources import Frame, columns_of, name_of
from online_rank.stream.table_text import MISSING_WORDS, TableError


class TableWarning(UserWarning):
    """A table is probably not in the intended order or form."""

    __module__ = "online_rank.stream.tables"


class QueryOrder:
    """Checks the order of queries: whether one comes back, or is older than the one before it."""

    def __init__(self, mode: str, plan: TablePlan, other_remedy: str = "") -> None:
        self._mode, self._plan, self._other_remedy = mode, plan, other_remedy
        self._seen: set[str] | None = set() if mode in ("error", "warn") else None
        self._doubtful: set[str] = set()
        self._latest = -np.inf

    def notice(self, qid: str, time: float, frame: Frame, i: int) -> None:
        """Check the first row of a query."""
        if qid in MISSING_WORDS and qid not in self._doubtful:
            self._doubtful.add(qid)
            told = f"{frame.where(i)}: query {qid!r} looks like a missing value that was written as text; it is read as an id"
            warnings.warn(told, TableWarning, stacklevel=6)
        if self._seen is None:
            return
        if time < self._latest:
            self._complain(f"{frame.where(i)}: query {qid} is older than the one before it", "event time")
        elif qid in self._seen:
            self._complain(f"{frame.where(i)}: query {qid} comes back after another one", "query")
        elif self._mode == "error" or len(self._seen) < REMEMBERED:
            self._seen.add(qid)
        self._latest = time

    def _complain(self, what: str, role: str) -> None:
        remedy = f"sort the table by {self._plan.of(role)!r}{self._other_remedy}"
        if self._mode == "error":
            raise TableError(f"{what}; {remedy}")
        self._seen = None
        warnings.warn(f"{what}, and is read as a separate query; {remedy}", TableWarning, stacklevel=6)


def notice_new_columns(sources: Sequence[Any], plan: TablePlan) -> None:
    """Warn about columns that the first table lacks."""
    known = {column.name for column in plan.columns}
    for source in sources[1:]:
        new = [name for name in columns_of(source).types if name not in known and not is_index_name(name)]
        if new:
            told = f"{name_of(source)}: columns that the first table lacks are left out: {', '.join(new)}"
            warnings.warn(told, TableWarning, stacklevel=3)
