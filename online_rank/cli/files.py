"""Files of models, as the commands take them."""

import functools
import os
from collections.abc import Sequence
from typing import Any

from online_rank.base import abilities_of, steps_of
from online_rank.storage.files import ModelFileError, load
from online_rank.storage.postgres import is_postgres
from online_rank.stream.plan import known_to


def load_model(path: str) -> Any:
    """A model that ranks, from a file, or from the folder or database in which a service keeps its state, as it is now."""
    if os.path.isdir(path) or is_postgres(path):
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
    names = names or known_to(model)
    if not names:
        raise ValueError(f"--strict: {type(first).__name__} has learned from no features that have names")
    return DeclaredFeatures(list(names), texts=abilities_of(model).takes_documents) | model


def behind(transformers: Sequence[Any], model: Any) -> Any:
    """A model behind transformers: a pipeline, or the model alone without transformers."""
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
