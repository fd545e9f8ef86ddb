"""Files of queries and of models, as the commands take them."""

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from online_rank.base import steps_of
from online_rank.query import Block
from online_rank.query.names import is_index_name
from online_rank.storage.files import ModelFileError, load

__all__ = [
    "Asked",
    "Reading",
    "check_files",
    "declared",
    "load_model",
    "n_features_of",
    "read_names",
    "refuse_overwriting",
    "warnings_as_lines",
]


class Reading(NamedTuple):
    """How files are read.

    Attributes
    ----------
    features
        Number of features of LETOR text; None for as many as the first 8 MiB show.
    group_by_qid
        Whether to join the documents of a query that are not contiguous.
    negative
        How to treat a negative grade: "error", "zero" or "skip".
    query, grade, document, event_time
        For tables: the columns with query ids, grades, document ids and times.
    columns, exclude
        The columns of tables that are features (None: all numeric columns), and columns to leave out.
    missing
        How to treat a missing value in a table: "error", "zero", "mean" or "indicator".
    strict
        Whether to refuse files whose features differ from those of the model.
    """

    features: int | None = None
    group_by_qid: bool = False
    negative: str = "error"
    query: str | None = None
    grade: str | None = None
    columns: list[str] | None = None
    exclude: list[str] | None = None
    document: str | None = None
    missing: str = "error"
    event_time: str | None = None
    strict: bool = False

    @property
    def of_tables(self) -> dict[str, Any]:
        """The options that `plan_columns` and all readers of tables take."""
        roles = {name: getattr(self, name) for name in ("query", "grade", "document", "event_time", "missing")}
        return {**roles, "features": self.columns, "exclude": self.exclude or ()}

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
            n_features=self.features,
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

    def for_model(self, model: Any, files: Sequence[str]) -> "Reading":
        """How to read queries for a model to rank: the features of tables are the columns that it has learned from."""
        names = _known_names(model)
        if self.query is None or self.columns is not None or names is None:
            return self
        from online_rank.stream.table_sources import columns_of

        types, _ = columns_of(files[0])
        chosen = [str(name) for name in names if types.get(name) in ("number", "boolean", "empty")]
        if not chosen:
            raise ValueError(f"{files[0]}: no column is called as one of the features of the model: {_listed(names)}")
        roles = {self.query, self.grade, self.document, self.event_time, *(self.exclude or ())}
        unknown = [name for name, kind in types.items() if kind in ("number", "boolean") and name not in roles.union(names)]
        if unknown := [name for name in unknown if not is_index_name(name)]:
            told = f"columns that the model has not learned from are left out: {_listed(unknown)}"
            if self.strict:
                raise ValueError(f"{files[0]}: --strict: {told} (name them with --exclude)")
            warnings.warn(told, stacklevel=2)
        return self._replace(columns=chosen)

    def parts(self, files: Sequence[str], n: int) -> list[Any]:
        """The files in `n` parts of whole queries, or fewer."""
        if self.query is not None:
            from online_rank.stream.table_parts import plan_tables

            return plan_tables(files, n, negative=self.negative, **self.of_tables)
        from online_rank.stream.letor import plan

        return plan(files, n, n_features=self.features, negative=self.negative)


def load_model(path: str) -> Any:
    """A model that ranks, from a file, or from the folder in which a service keeps its state, as it is now."""
    if os.path.isdir(path):
        from online_rank.serving.durable import read_service

        return read_service(path).model
    model = load(path)
    if not hasattr(model, "predict_one"):
        raise ModelFileError(f"{path}: holds a {type(model).__name__}, not a model that ranks")
    return model


def declared(model: Any, strict: bool = True, names: Sequence[str] | None = None) -> Any:
    """The model, which refuses all features but these, or those that it has learned from, if `strict`.

    Raises ValueError if the model does not know its features by name.
    """
    from online_rank import DeclaredFeatures

    first = next(iter(steps_of(model)))
    if not strict or isinstance(first, DeclaredFeatures):
        return model
    names = names or getattr(first, "feature_names", None)
    if not names:
        raise ValueError(f"--strict: {type(first).__name__} has learned from no features that have names")
    return DeclaredFeatures(list(names)) | model


def refuse_overwriting(option: str, path: str, others: Sequence[str]) -> None:
    """Raise ValueError for output that would overwrite one of other files, or go to a file or a folder called "-"."""
    if path == "-":
        raise ValueError(f"{option} -: a file or folder is needed here")
    for file in others:
        there = os.path.exists(file) and os.path.exists(path)
        if os.path.samefile(file, path) if there else os.path.realpath(file) == os.path.realpath(path):
            what = "that is an input file" if os.path.exists(file) else "another file is written there"
            raise ValueError(f"{option} {path}: {what}; give another one to write to")


def check_files(files: Sequence[str], reading: Reading, graded: bool = True) -> None:
    """Raise, before anything is read, if a file is missing, or is a table whose columns were not named."""
    from online_rank.stream.table_sources import is_table, remedy_for

    for option, value in (("--columns", reading.columns), ("--exclude", reading.exclude), ("--document", reading.document),
                          ("--event-time", reading.event_time), ("--missing", reading.missing != "error")):  # fmt: skip
        if value and reading.query is None:
            raise ValueError(f"{option} is for tables: name their columns by --query COLUMN --grade COLUMN too")
    if graded and (reading.query is None) != (reading.grade is None):
        raise ValueError("a table needs both --query COLUMN and --grade COLUMN")
    for file in files:
        if file != "-":
            os.stat(file)
        if reading.query is None and not file.endswith(".gz") and (remedy := remedy_for(file)):
            raise ValueError(f"{file}: {remedy}")
        if reading.query is None and is_table(file):
            raise ValueError(f"{file}: a table; name its columns: --query COLUMN --grade COLUMN (other numbers are features)")
        if reading.query is not None and not is_table(file):
            remedy = f": {what}" if (what := remedy_for(file)) else ""
            raise ValueError(f"{file}: --query and --grade are for tables: .parquet, .csv, .tsv{remedy}")


def n_features_of(model: Any) -> int | None:
    """The number of features that a model or pipeline has learned from; None if there are none yet."""
    counts = [step.n_features for step in steps_of(model) if getattr(step, "n_features", 0)]
    return counts[0] if counts else None


class Asked:
    """The features of queries as a model can be asked for its scores; warns once of features that it knows and a file lacks.

    A file may have more or fewer features than the model has met, or a model may know them by name: they are then called "1",
    "2", ..., as the file counts them. Those that the model never met do not count, those that the file lacks are 0; if
    `strict`, both are refused.
    """

    def __init__(self, model: Any, strict: bool = False) -> None:
        self._model = model
        self._strict = strict
        self._looked = False

    def __call__(self, X: Any) -> Any:
        """The features X of a query, or a block of one, in a form that the model takes."""
        from online_rank.query import ONE, single

        if not isinstance(X, Block):
            if n_features_of(self._model) in (None, X.shape[1]):
                return X
            X = Block(X, None, single(len(X)), ONE, names=tuple(map(str, range(1, X.shape[1] + 1))))
        if not self._looked:
            self._looked = True
            self._notice(X.names or ())
        return X

    def _notice(self, there: Sequence[Any]) -> None:
        names = _known_names(self._model)
        if names is None:
            names = tuple(map(str, range(1, (n_features_of(self._model) or 0) + 1)))
        known = set(there)
        # Indicator features appear only in queries with missing values.
        lacking = [name for name in names if name not in known and str(name).removesuffix(" is missing") not in known]
        if lacking:
            told = f"{len(lacking):,} of the {len(names):,} features that the model has learned from are not in the file"
            if self._strict:
                raise ValueError(f"--strict: {told}: {_listed(lacking)}")
            warnings.warn(f"{told} and count as 0: {_listed(lacking)}", UserWarning, stacklevel=2)
        if self._strict and (unknown := [name for name in there if name not in set(names)]):
            raise ValueError(f"--strict: {len(unknown):,} features of the file are new to the model: {_listed(unknown)}")


def _known_names(model: Any) -> tuple[Any, ...] | None:
    """The names of the features that a model has learned from; None where they have none."""
    steps = steps_of(model)
    return next((names for step in steps if (names := getattr(step, "feature_names", None))), None)


def _listed(names: Sequence[Any], most: int = 10) -> str:
    shown = ", ".join(map(str, names[:most]))
    return f"{shown}, ... ({len(names) - most:,} more)" if len(names) > most else shown


def read_names(path: str) -> list[str]:
    """Names of features, one per line, starting with feature 1."""
    with open(path, encoding="utf-8-sig") as file:
        names = [line.strip() for line in file]
    while names and not names[-1]:
        names.pop()
    if not names:
        raise ValueError(f"{path}: no names; the file must have the name of a feature on every line")
    return names


@contextmanager
def warnings_as_lines(show: Any) -> Iterator[None]:
    """Pass the text of warnings to `show`, without their place in the code."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: show(str(message))
        yield
