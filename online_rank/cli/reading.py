"""How the commands read files of queries."""

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from online_rank.cli.declaring import flag, value

#: How to treat missing values in a table.
Missing = StrEnum("Missing", ["error", "zero", "mean", "indicator"])
#: How to treat negative grades.
Negative = StrEnum("Negative", ["error", "zero", "skip"])


def _names(given: Sequence[str] | None) -> list[str] | None:
    """Names of columns, separated by commas."""
    return [name.strip() for text in given for name in text.split(",") if name.strip()] if given else None


class Reading(NamedTuple):
    """How files of queries are read."""

    query: Annotated[str | None, value("COLUMN", "Files are tables (parquet, csv, tsv): the column with query ids.")] = None
    document: Annotated[str | None, value("COLUMN", "The column of a table with document ids.")] = None
    exclude: Annotated[list[str] | None, value("NAMES", "Columns of a table that are not features.", callback=_names)] = None
    missing: Annotated[
        Missing,
        value(
            None,
            "Missing values: refuse or read as 0; in a table also as the mean of the query's other documents, "
            'or as 0 with a further feature "NAME is missing".',
        ),
    ] = Missing.error
    n_features: Annotated[
        int | None, value("N", "Number of features of LETOR text, if the first 8 MiB do not contain all of them.", min=1)
    ] = None
    zero_based: Annotated[bool, flag("--zero-based", "The features of LETOR text are numbered from 0, not from 1.")] = False
    group_by_qid: Annotated[
        bool, flag("--group-by-qid", "Join the documents of a qid that are not contiguous; reads all input first.")
    ] = False
    strict: Annotated[
        bool,
        flag(
            "--strict",
            "Refuse files that lack a feature of the model, or have others, instead of a warning; a model "
            "that is trained takes the features of the first table and refuses all others, now and later.",
        ),
    ] = False
    grade: Annotated[str | None, value("COLUMN", "The column of a table with grades.")] = None
    negative: Annotated[
        Negative, value(None, "Grades below 0, of documents not judged or spam: refuse, read as 0, leave out.")
    ] = Negative.error
    features: Annotated[
        list[str] | None,
        value(
            "NAMES",
            "The columns of a table that are features, separated by commas; may be repeated. "
            "[dim]Default: all numeric columns.[/dim]",
            callback=_names,
        ),
    ] = None
    event_time: Annotated[
        str | None, value("COLUMN", "The column of a table with times; queries must come in their order.")
    ] = None

    @property
    def of_text(self) -> dict[str, Any]:
        """The options that all readers of LETOR text take."""
        options = {"n_features": self.n_features, "zero_based": self.zero_based}
        return {**options, "missing": str(self.missing), "negative": str(self.negative)}

    @property
    def of_tables(self) -> dict[str, Any]:
        """The options that `plan_columns` and all readers of tables take."""
        roles = {name: getattr(self, name) for name in ("query", "grade", "document", "event_time", "features")}
        return {**roles, "exclude": self.exclude or (), "missing": str(self.missing)}

    def queries(self, files: Sequence[str], position: Any = None, with_ids: bool = False) -> Any:
        """The queries of files from `iter_letor` or `iter_table`; with ids, (X, y, qid, docids)."""
        if self.query is not None:
            from online_rank.stream.tables import iter_table

            repeated: Any = "group" if self.group_by_qid else "error"
            options: Any = {"negative": str(self.negative), "with_ids": with_ids, "repeated_qid": repeated}
            return iter_table(*files, **self.of_tables, **options)
        from online_rank.stream.letor import iter_letor

        return iter_letor(
            list(files),
            start=position,
            with_qid=with_ids,
            with_docid=with_ids,
            repeated_qid="group" if self.group_by_qid else "warn",
            **self.of_text,
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

            return plan_tables(files, n, negative=str(self.negative), **self.of_tables)
        from online_rank.stream.letor import plan

        return plan(files, n, **self.of_text)


#: The options of commands that learn nothing, and of those that do not look at grades.
ToMeasure = Annotated[Reading, Reading._fields[:10]]
ToRank = Annotated[Reading, Reading._fields[:8]]


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
