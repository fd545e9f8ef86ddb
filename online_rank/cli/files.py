"""Files of queries and of models, as the commands take them."""

import functools
import os
import warnings
from collections.abc import Sequence
from typing import Any

from online_rank.base import steps_of
from online_rank.cli.reading import Negative, Reading
from online_rank.query import Block
from online_rank.query.names import is_index_name, is_outcome_name
from online_rank.storage.files import ModelFileError, load


def opened(path: str, files: Sequence[str], reading: Reading, graded: bool = True) -> tuple[Any, Reading, "Asked"]:
    """A saved model, how to read files for it to rank, and in what form it takes their queries; grades may not matter."""
    check_files(files, reading, graded)
    model = load_model(path)
    reading = for_model(reading if graded else reading._replace(negative=Negative.zero), model, files)
    return model, reading, Asked(model, reading.strict)


def for_model(reading: Reading, model: Any, files: Sequence[str]) -> Reading:
    """How to read queries for a model to rank: the features of tables are the columns that it has learned from."""
    names = _known_names(model)
    if reading.query is None or names is None:
        return reading
    from online_rank.stream.table_sources import columns_of

    types, _, words = columns_of(files[0])
    chosen = [str(name) for name in names if types.get(name) in ("number", "boolean", "empty") or name in words]
    if not chosen:
        raise ValueError(f"{files[0]}: no column is called as one of the features of the model: {_listed(names)}")
    roles = {reading.query, reading.grade, reading.document, reading.event_time, *(reading.exclude or ())}
    unknown = [name for name, kind in types.items() if kind in ("number", "boolean") and name not in roles.union(names)]
    if unknown := [name for name in unknown if not (is_index_name(name) or is_outcome_name(name))]:
        told = f"columns that the model has not learned from are left out: {_listed(unknown)}"
        if reading.strict:
            raise ValueError(f"{files[0]}: --strict: {told} (name them with --exclude)")
        warnings.warn(told, stacklevel=2)
    return reading._replace(features=chosen)


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


def behind(transformers: Sequence[Any], model: Any) -> Any:
    """A model behind transformers: a pipeline, if there are any."""
    return functools.reduce(lambda rest, step: step | rest, reversed(transformers), model)


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

    for option, value in (("--features", reading.features), ("--exclude", reading.exclude), ("--document", reading.document),
                          ("--event-time", reading.event_time), ("--missing mean", reading.missing == "mean"),
                          ("--missing indicator", reading.missing == "indicator")):  # fmt: skip
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
