"""How the commands read files of queries."""

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

__all__ = ["Reading", "warned_on_stderr", "warnings_as_lines"]


class Reading(NamedTuple):
    """How files are read.

    Attributes
    ----------
    query, document
        For tables: the columns with query ids and document ids.
    exclude
        Columns of tables that are not features.
    missing
        How to treat a missing value in a table: "error", "zero", "mean" or "indicator".
    n_features
        Number of features of LETOR text; None for as many as the first 8 MiB show.
    group_by_qid
        Whether to join the documents of a query that are not contiguous.
    strict
        Whether to refuse files whose features differ from those of the model.
    grade
        For tables: the column with grades.
    negative
        How to treat a negative grade: "error", "zero" or "skip".
    features
        For tables: the columns that are features; None for all numeric columns.
    event_time
        For tables: the column with times.
    """

    query: str | None = None
    document: str | None = None
    exclude: list[str] | None = None
    missing: str = "error"
    n_features: int | None = None
    group_by_qid: bool = False
    strict: bool = False
    grade: str | None = None
    negative: str = "error"
    features: list[str] | None = None
    event_time: str | None = None

    @property
    def of_tables(self) -> dict[str, Any]:
        """The options that `plan_columns` and all readers of tables take."""
        roles = {name: getattr(self, name) for name in ("query", "grade", "document", "event_time", "missing")}
        return {**roles, "features": self.features, "exclude": self.exclude or ()}

    def queries(self, files: Sequence[str], position: Any = None, with_ids: bool = False) -> Any:
        """The queries of files from `iter_letor` or `iter_table`; with ids, (X, y, qid, docids)."""
        if self.query is not None:
            from online_rank.stream.tables import iter_table

            repeated: Any = "group" if self.group_by_qid else "error"
            options: Any = {"negative": self.negative, "with_ids": with_ids, "repeated_qid": repeated}
            return iter_table(*files, **self.of_tables, **options)
        from online_rank.stream.letor import iter_letor

        return iter_letor(
            list(files),
            n_features=self.n_features,
            start=position,
            with_qid=with_ids,
            with_docid=with_ids,
            negative=self.negative,  # type: ignore[arg-type]
            repeated_qid="group" if self.group_by_qid else "warn",
        )

    def plan(self, files: Sequence[str]) -> Any:
        """What each column of tables is for; None for LETOR text."""
        if self.query is None or not files:
            return None
        from online_rank.stream.columns import plan_columns

        return plan_columns(files[0], **self.of_tables)

    def parts(self, files: Sequence[str], n: int) -> list[Any]:
        """The files in `n` parts of whole queries, or fewer."""
        if self.query is not None:
            from online_rank.stream.table_parts import plan_tables

            return plan_tables(files, n, negative=self.negative, **self.of_tables)
        from online_rank.stream.letor import plan

        return plan(files, n, n_features=self.n_features, negative=self.negative)


@contextmanager
def warnings_as_lines(show: Callable[[str], None]) -> Iterator[None]:
    """Pass the text of warnings to `show`, without their place in the code."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: show(str(message))
        yield


def warned_on_stderr() -> Any:
    """A context that prints warnings as lines on stderr."""
    return warnings_as_lines(lambda message: print(f"online-rank: {message}", file=sys.stderr))
