"""Files of queries and of models, as the commands take them."""

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

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
    """

    features: int | None = None
    group_by_qid: bool = False
    negative: str = "error"

    def queries(self, files: Sequence[str], position: Any = None, with_ids: bool = False) -> Any:
        """The queries of files as `iter_letor` gives them; with ids, (X, y, qid, docids)."""
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
        from online_rank.stream.letor import plan

        return plan(files, n, n_features=self.features, negative=self.negative)


def load_model(path: str) -> Any:
    """A model that ranks, from a file."""
    model = load(path)
    if not hasattr(model, "predict_one"):
        raise ModelFileError(f"{path}: holds a {type(model).__name__}, not a model that ranks")
    return model


def check_files(files: Sequence[str]) -> None:
    """Raise before anything is read when a file is missing, or is a table, which needs somebody to say what its columns are."""
    for file in files:
        if file != "-":
            os.stat(file)
        if file.removesuffix(".gz").endswith(_TABLES):
            raise ValueError(
                f"{file}: a table; the command reads LETOR / svmlight text. For tables see the README: from Python, a ranker "
                "learns from a pandas or polars frame, and online_rank.stream.letor.write_letor makes text of one"
            )


def n_features_of(model: Any) -> int | None:
    """The number of features that a model or pipeline has learned; None before it has met any."""
    steps = list(model.steps.values()) if hasattr(model, "steps") else [model]
    counts = [step.n_features for step in steps if getattr(step, "n_features", 0)]
    return counts[0] if counts else None


def asked(model: Any, X: Any) -> Any:
    """The features of a query as the model can be asked for its scores.

    A file may have more or fewer features than the model has met, or a model may know them by name: they are then called "1",
    "2", ..., as the file counts them. Those that the model never met do not count, those that the file lacks are 0.
    """
    if n_features_of(model) in (None, X.shape[1]):
        return X
    from online_rank.query import ONE, single

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
