"""The models and streams of an experiment: made from a seed, and described so that a file says what was run."""

import contextlib
import copy
import hashlib
import inspect
import os
import pickle
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from online_rank.evaluate.click_study import ClickStudy

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class Made:
    """An object made from a seed: a function of it, or a thing of which each run gets a copy.

    Parameters
    ----------
    given
        As `Experiment` takes it.
    """

    def __init__(self, given: Any) -> None:
        self.given = given

    def model(self, seed: int) -> Any:
        """A new model."""
        return self.given(seed) if is_function(self.given) else copy.deepcopy(self.given)

    def stream(self, seed: int) -> Iterable[tuple]:
        """The queries of a seed."""
        return queries_of(self.given, seed)

    @property
    def shared(self) -> bool:
        """Whether queries are the same ones for each seed, perhaps in another order."""
        return not is_function(self.given) and not isinstance(self.given, ClickStudy) and not hasattr(self.given, "seed")

    def described(self, *, model: bool = False) -> Any:
        """What it is, in the form of JSON: two things that differ are described differently, as far as can be seen."""
        given = self.given
        if hasattr(given, "described"):
            return given.described()
        if is_function(given):
            about: dict[str, Any] = {"function": f"{given.__module__}.{getattr(given, '__qualname__', type(given).__name__)}"}
            # Not every function has a source: those typed into Python have none.
            with contextlib.suppress(OSError, TypeError):
                about["source"] = inspect.getsource(given).strip()
            return about | ({"model": without_address(given(0))} if model else {})
        return {"model": without_address(given)} if model else _of_queries(given)


def is_function(given: Any) -> bool:
    """Whether it makes something of a seed, and is no model, metric or stream."""
    return callable(given) and not hasattr(given, "learn_one") and not hasattr(given, "__iter__")


def queries_of(given: Any, seed: int) -> Iterable[tuple]:
    """The queries of a seed: made by a function, a stream with that seed, or all queries in an order of that seed.

    Seed 0 keeps the order, and a stream's own seed.
    """
    if is_function(given):
        return given(seed)
    if isinstance(given, ClickStudy):
        return given.seeded(seed, queries_of)
    if hasattr(given, "seed"):
        return _with_seed(given, given.seed + seed)
    if _names_files(given):
        from online_rank.stream import read

        given = read(*_files(given))
    if not seed:
        return given
    queries = list(given)
    random.Random(seed).shuffle(queries)
    return queries


def _with_seed(stream: Any, seed: int) -> Any:
    """The stream with the same arguments and another seed."""
    names = inspect.signature(type(stream)).parameters
    try:
        return type(stream)(**{name: getattr(stream, name) for name in names if name != "seed"}, seed=seed)
    except (AttributeError, TypeError) as error:
        what = type(stream).__name__
        raise TypeError(f"streams: {what} cannot be made with another seed ({error}); give a function of the seed") from None


def _names_files(given: Any) -> bool:
    return isinstance(given, str | os.PathLike) or bool(
        isinstance(given, list | tuple) and given and all(isinstance(one, str | os.PathLike) for one in given)
    )


def _files(given: Any) -> list[str]:
    return [os.fspath(one) for one in ([given] if isinstance(given, str | os.PathLike) else given)]


def _of_queries(given: Any) -> Any:
    if _names_files(given):
        return {"files": {os.path.basename(name): _digest(name) for name in _files(given)}}
    if isinstance(given, ClickStudy):
        logger = {} if given.logger is None else {"logger": without_address(given.logger)}
        return {"queries": Made(given.queries).described(), "user": without_address(given.user), **logger}
    if isinstance(given, Sequence):
        return {"queries": len(given), "digest": hashlib.blake2b(pickle.dumps(list(given)), digest_size=16).hexdigest()}
    settings = {name: value for name, value in vars(given).items() if not name.startswith("_")}
    return {"stream": type(given).__qualname__, **{name: _plain(value) for name, value in settings.items()}}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if hasattr(value, "tobytes"):
        return hashlib.blake2b(value.tobytes(), digest_size=16).hexdigest()
    return without_address(value)


def without_address(thing: Any) -> str:
    """Settings as text; where an object is says nothing about it."""
    return _ADDRESS.sub("", re.sub(r"\s+", " ", repr(thing)))


def _digest(file: str) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "blake2b").hexdigest()[:32]
