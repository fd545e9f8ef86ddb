"""Checks that several threads may use a model: one lock, which every public method takes."""

import copy
import inspect
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from river import compose

from online_rank.base.step import QueryStep
from online_rank.checks._subject import as_block, is_ranker, make_queries, taught_by


class _Entered(Exception):
    """Raised when the lock is taken."""


class _WatchedLock:
    """A lock that raises when it is taken."""

    def __enter__(self) -> None:
        raise _Entered

    def __exit__(self, *_: Any) -> None:
        """Nothing is held."""


def methods_hold_the_lock(model: Any) -> None:
    """Every public method, and every property that returns an array, takes the lock of the model (`QueryStep`, `locked`).

    Methods that river defines, class methods, and hooks, which are called while it is held, are left out.
    """
    taught_by(model, make_queries())
    watched = _WatchedLock()
    for name, call, known in _public(model):
        lock, owners = model._lock, list(model._lock.owners)
        for owner in owners:
            owner._lock = watched
        try:
            call()
        except _Entered:
            pass
        except Exception as error:
            if known:  # Otherwise the arguments may have been wrong.
                raise AssertionError(
                    f"{name} raises {error!r} before it takes the lock: begin it by `with self._lock`"
                ) from error
        else:
            raise AssertionError(f"{name} does not take the lock: begin it by `with self._lock`, or decorate it by `locked`")
        finally:
            for owner in owners:
                owner._lock = lock


def one_lock(model: Any) -> None:
    """A model shares one lock with all its parts; a copy shares another lock with its parts."""
    taught_by(model, make_queries())
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), model.clone()]
    for one in (model, *copies):
        assert len({id(part._lock) for part in _lockable(one, set())}) <= 1, "a model and its parts have several locks"
    assert len({id(one._lock) for one in (model, *copies)}) == len(copies) + 1, "a copy shares the lock of its model"


def _public(model: Any) -> Iterator[tuple[str, Callable[[], Any], bool]]:
    """The public methods of a model, each with a call and whether its arguments are known; and array properties."""
    hidden = ("_",) if is_ranker(model) else ("_", "last", "predict", "rank", "show")
    X, y, qid = as_block(make_queries())
    x, grades = make_queries()[-1]
    known = {"x": x, "y": grades, "x_a": x[0], "x_b": x[0], "X": X, "qid": qid}
    for name, member in inspect.getmembers_static(type(model)):
        owner = next(cls for cls in type(model).__mro__ if name in vars(cls))
        if name.startswith(hidden) or not issubclass(owner, QueryStep) or name in getattr(model, "_hooks", ()):
            continue
        if isinstance(member, property):
            if isinstance(getattr(model, name), np.ndarray):
                yield name, lambda name=name: getattr(model, name), True  # type: ignore[misc]
        elif inspect.isfunction(member):
            parameters = [p for p in inspect.signature(member).parameters.values() if p.kind is not p.VAR_POSITIONAL][1:]
            given = known | ({"y": y} if "X" in [p.name for p in parameters] else {})
            arguments = {p.name: given.get(p.name) for p in parameters if p.default is p.empty or p.name in given}
            call = partial(getattr(model, name), **arguments)
            yield f"{name}()", call, arguments.keys() <= given.keys()


def _lockable(value: Any, seen: set[int]) -> Iterator[Any]:
    """All learning parts in the state of a model, without the models in its settings, of which it holds copies."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if issubclass(type(value), QueryStep):
        if value.abilities.learns:
            yield value
        settings = () if issubclass(type(value), compose.Pipeline) else value._get_params()  # type: ignore[attr-defined]
        for name, part in vars(value).items():
            if name not in settings:
                yield from _lockable(part, seen)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _lockable(part, seen)
    elif isinstance(value, dict):
        yield from _lockable(list(value.values()), seen)
