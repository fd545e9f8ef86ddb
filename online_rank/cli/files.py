"""Files of queries and of models, as the commands take them."""

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from online_rank.base import steps_of
from online_rank.query import Block
from online_rank.storage.files import ModelFileError, load

__all__ = ["Reading", "asked", "check_files", "load_model", "n_features_of", "read_names", "warnings_as_lines"]

_TABLES = (".csv", ".tsv", ".parquet", ".feather", ".xlsx")


class Reading(NamedTuple):
    """How LETOR text is read.

    Attributes
    ----------
    features
        Number of features; None for as many as the first 8 MiB show.
    group_by_qid
        Whether documents of one qid that stand apart are put together.
    negative
        What a negative grade is: "error", "zero" or "skip".
    query, grade
        Where files are tables: the columns with query ids, and with grades.
    """

    features: int | None = None
    group_by_qid: bool = False
    negative: str = "error"
    query: str | None = None
    grade: str | None = None

    def queries(self, files: Sequence[str], position: Any = None, with_ids: bool = False) -> Any:
        """The queries of files as `iter_letor` or `iter_table` gives them; with ids, (X, y, qid, docids)."""
        if self.query is not None:
            from online_rank.stream.tables import iter_table

            options: Any = {"negative": self.negative, "with_ids": with_ids}
            return iter_table(*files, query=self.query, grade=self.grade, **options)
        from online_rank.stream.letor import iter_letor

        return iter_letor(
            list(files),
            n_features=self.features,
            start=position,
            with_qid=with_ids,
            with_docid=with_ids,
            negative=self.negative,  # type: ignore[arg-type]
            repeated_qid="group" if self.group_by_qid else "warn",
        )

    def parts(self, files: Sequence[str], n: int) -> list[Any]:
        """The files in `n` parts of whole queries, or fewer."""
        if self.query is not None:
            from online_rank.stream.tables import plan_tables

            return plan_tables(files, n, query=self.query, grade=self.grade or "", negative=self.negative)
        from online_rank.stream.letor import plan

        return plan(files, n, n_features=self.features, negative=self.negative)


def load_model(path: str) -> Any:
    """A model that ranks, from a file."""
    model = load(path)
    if not hasattr(model, "predict_one"):
        raise ModelFileError(f"{path}: holds a {type(model).__name__}, not a model that ranks")
    return model


def check_files(files: Sequence[str], reading: Reading, graded: bool = True) -> None:
    """Raise before anything is read when a file is missing, or is a table and nobody says what its columns are."""
    from online_rank.stream.table_sources import is_table

    if reading.query is not None and reading.group_by_qid:
        raise ValueError("--group-by-qid is for LETOR text; sort tables by query")
    if graded and (reading.query is None) != (reading.grade is None):
        raise ValueError("a table needs both --query COLUMN and --grade COLUMN")
    for file in files:
        if file != "-":
            os.stat(file)
        if reading.query is None and file.removesuffix(".gz").endswith(_TABLES):
            raise ValueError(f"{file}: a table; name its columns: --query COLUMN --grade COLUMN (other numbers are features)")
        if reading.query is not None and not is_table(file):
            raise ValueError(f"{file}: --query and --grade are for tables: .parquet, .csv, .tsv")


def n_features_of(model: Any) -> int | None:
    """The number of features that a model or pipeline has learned; None before it has met any."""
    counts = [step.n_features for step in steps_of(model) if getattr(step, "n_features", 0)]
    return counts[0] if counts else None


def asked(model: Any, X: Any) -> Any:
    """The features of a query as the model can be asked for its scores.

    A file may have more or fewer features than the model has met, or a model may know them by name: they are then called "1",
    "2", ..., as the file counts them. Those that the model never met do not count, those that the file lacks are 0.
    """
    from online_rank.query import ONE, single

    if isinstance(X, Block) or n_features_of(model) in (None, X.shape[1]):
        return X
    return Block(X, None, single(len(X)), ONE, names=tuple(map(str, range(1, X.shape[1] + 1))))


def read_names(path: str) -> list[str]:
    """Names of features, one a line; the first is that of feature 1."""
    with open(path, encoding="utf-8-sig") as file:
        names = [line.strip() for line in file]
    while names and not names[-1]:
        names.pop()
    if not names:
        raise ValueError(f"{path}: no names; it holds the name of a feature on every line")
    return names


@contextmanager
def warnings_as_lines(show: Any) -> Iterator[None]:
    """Hand the text of warnings to `show`, without the place in the code that they come from."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: show(str(message))
        yield
