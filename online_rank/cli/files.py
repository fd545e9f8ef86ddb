"""Files of models, as the commands take them."""

import functools
import os
from collections.abc import Sequence
from typing import Any

from online_rank.base import abilities_of
from online_rank.query.names import in_nfc
from online_rank.storage.files import ModelFileError, is_postgres, load, require_replaceable
from online_rank.support.registry import of_another_part


def load_model(path: str) -> Any:
    """A model that ranks, from a file, or from the folder or database in which a service keeps its state, as it is now.

    A text is a model of LightGBM, and JSON one of XGBoost; a model of online_rank may have any name.
    """
    if os.path.isdir(path) or is_postgres(path):
        return of_another_part("read_service")(path).model
    if path.endswith((".txt", ".json")) and not _is_archive(path):
        from online_rank import FixedTrees

        try:
            return FixedTrees.from_file(path)
        except ValueError as error:
            reason = str(error).removeprefix(f"{path}: ")
            raise ModelFileError(f"{path}: not a model file: {reason}") from None
    model = load(path)
    if not hasattr(model, "predict_one"):
        raise ModelFileError(f"{path}: holds a {type(model).__name__}, not a model that ranks")
    return model


def _is_archive(path: str) -> bool:
    """Whether a file begins as files of `online_rank.save` do."""
    with open(path, "rb") as file:
        return file.read(4) == b"PK\3\4"


def load_two(paths: Sequence[str]) -> list[Any]:
    """Two models to compare. Raises ValueError for one with itself."""
    if len(set(paths)) < len(paths):
        raise ValueError(f"{paths[0]} is compared with itself: give two models")
    return [load_model(path) for path in paths]


def declared(model: Any, names: Sequence[str]) -> Any:
    """The model, which refuses all features but these."""
    from online_rank import DeclaredFeatures

    return DeclaredFeatures(list(names), texts=abilities_of(model).takes_documents) | model


def behind(transformers: Sequence[Any], model: Any) -> Any:
    """A model behind transformers: a pipeline, or the model alone without transformers."""
    return functools.reduce(lambda rest, step: step | rest, reversed(transformers), model)


def histories_of(given: Sequence[str] | None, examination: Sequence[float] | None = None) -> list[Any]:
    """The transformers of `--history`: a name, or several joined by +, and perhaps = with a half-life.

    Places are examined with the probabilities `examination`. Raises ValueError for what is no key.

    Examples
    --------
    >>> [str(step) for step in histories_of(["user+brand", "document=1000"])]
    ["History(('user', 'brand'), half_life='7d')", "History('document', half_life=1000.0)"]
    """
    from online_rank import History

    made = []
    for text in given or ():
        names, _, half_life = text.partition("=")
        try:
            number: float | str = float(half_life)
        except ValueError:
            number = half_life or "7d"
        by = tuple(names.split("+"))
        try:
            made.append(History(by if len(by) > 1 else names, half_life=number, examination=examination))
        except (TypeError, ValueError) as error:
            remedy = "give names, as in user+brand, and perhaps a half-life: brand=30d"
            raise ValueError(f"--history {text}: {error}; {remedy}") from None
    return made


def tastes_of(given: str | None, ranker: str = "additive") -> list[Any]:
    """The transformer of `--tastes`: the entry that says who asks, and perhaps = with the vector of documents.

    Raises ValueError for no name, and for a ranker that takes no vectors.

    Examples
    --------
    >>> [str(step) for step in tastes_of("user=picture")]
    ["Tastes('user', vector='picture')"]
    """
    from online_rank import Tastes

    if given is None:
        return []
    user, _, vector = in_nfc(given).partition("=")
    if not user:
        raise ValueError(f"--tastes {given}: give a name, as in user, and perhaps the vector of documents: user=picture")
    if ranker != "additive":
        raise ValueError(f"--tastes is for --ranker additive, not for {ranker}, which takes no vectors")
    return [Tastes(user, vector=vector or "embedding")]


def require_no_time(histories: Sequence[Any]) -> None:
    """Raise ValueError if a transformer of `--history` needs the time of each query."""
    if any(step.abilities.takes_time for step in histories):
        raise ValueError(
            "--history needs the time of each query, --event-time COLUMN; or a half-life in queries: --history brand=1000"
        )


def check_outputs(read: Sequence[str], **outputs: str | None) -> None:
    """Check, before anything is read, where a command writes to, by the names of its options; None for what it does not write.

    Raises ValueError for output that would overwrite a file that is read or other output, has no directory, is a database, or
    would be called "-", and OSError for a file that could not be replaced there.
    """
    taken = list(read)
    for name, path in outputs.items():
        if path is None:
            continue
        option = f"--{name.replace('_', '-')}"
        if is_postgres(path):  # Its address may have a password.
            raise ValueError(f"{option} is the address of a database, which only --checkpoint of serve and stream may be")
        option = f"{option} {path}"
        if path in ("", "-"):
            raise ValueError(f"{option}: a file or folder is needed here")
        directory = os.path.dirname(os.path.realpath(path))
        if not os.path.isdir(directory) and name != "report":  # A report makes its directories.
            raise ValueError(f"{option}: there is no directory {directory}")
        for file in taken:
            there = os.path.exists(file) and os.path.exists(path)
            if os.path.samefile(file, path) if there else os.path.realpath(file) == os.path.realpath(path):
                what = "that is an input file" if file in read else "another file is written there"
                raise ValueError(f"{option}: {what}; give another one to write to")
        if name not in ("report", "checkpoint"):
            require_replaceable(path)
        taken.append(path)
