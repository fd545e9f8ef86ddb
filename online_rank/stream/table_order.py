"""The order of the queries of a table."""

import warnings

import numpy as np

from online_rank.stream.columns import TablePlan
from online_rank.stream.letor.repeated import REMEMBERED
from online_rank.stream.table_rows import TableError
from online_rank.stream.table_sources import Frame

__all__ = ["QueryOrder", "TableWarning"]


class TableWarning(UserWarning):
    """A table is probably not in the intended order or form."""

    __module__ = "online_rank.stream.tables"


class QueryOrder:
    """Checks the order of queries: whether one comes back, or is older than the one before it."""

    def __init__(self, mode: str, plan: TablePlan, other_remedy: str = "") -> None:
        self._mode, self._plan, self._other_remedy = mode, plan, other_remedy
        self._seen: set[str] | None = set() if mode in ("error", "warn") else None
        self._latest = -np.inf

    def notice(self, qid: str, time: float, frame: Frame, i: int) -> None:
        """Check the first row of a query."""
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
