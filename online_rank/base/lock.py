"""Thread safety."""

import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Concatenate, ParamSpec, TypeVar

_Owner = TypeVar("_Owner")
_Answer = TypeVar("_Answer")
_Arguments = ParamSpec("_Arguments")

_ReentrantLock: Any = type(threading.RLock())


#: The locks of all models, by their addresses.
_LOCKS: "weakref.WeakValueDictionary[int, ModelLock]" = weakref.WeakValueDictionary()

#: Those that a thread which forks has taken.
_TAKEN: "list[list[ModelLock]]" = []


class ModelLock(_ReentrantLock):
    """A reentrant lock, and the steps and pipelines that share it."""

    __slots__ = ("is_private", "owners")

    def __init__(self) -> None:
        _LOCKS[id(self)] = self
        self.owners: weakref.WeakSet[Any] = weakref.WeakSet()
        #: Whether the objects it guards cannot be reached by other threads.
        self.is_private = False


def lock_of(model: Any) -> Any:
    """The lock of a model, for work on it that must not be interrupted: `with lock_of(model): ...`."""
    return model._lock


def locked(method: Callable[Concatenate[_Owner, _Arguments], _Answer]) -> Callable[Concatenate[_Owner, _Arguments], _Answer]:
    """The method, holding the lock while it runs."""

    @functools.wraps(method)
    def under_lock(self: _Owner, *arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Answer:
        with self._lock:  # type: ignore[attr-defined]
            return method(self, *arguments, **named)

    return under_lock


def join_locks(parts: Iterable[Any]) -> None:
    """Give all parts, and all objects that share a lock with one of them, a single lock.

    Compose models before threads use them: a thread already waiting for a lock that is replaced here keeps the old one.
    """
    locks = {id(part._lock): part._lock for part in parts}
    if len(locks) > 1:
        joined = max(locks.values(), key=lambda lock: len(lock.owners))
        for owner in [owner for lock in locks.values() for owner in lock.owners]:
            owner._lock = joined
            joined.owners.add(owner)


def _take_all() -> None:
    """Before a fork: no other thread changes a model, or holds a lock that nobody would give back in the child."""
    locks = [lock for each in _LOCKS.valuerefs() if (lock := each()) is not None]
    taken: list[ModelLock] = []
    _TAKEN.append(taken)
    first = 0
    while len(taken) < len(locks):
        # With nothing else in hand: two threads that each wait for what the other has would wait for ever.
        _give_back(taken)
        for i in range(len(locks)):
            lock = locks[(first + i) % len(locks)]
            if not lock.acquire(blocking=not i):
                first += i
                break
            taken.append(lock)


def _give_back(taken: list[ModelLock]) -> None:
    while taken:
        taken.pop().release()


def _give_back_all() -> None:
    """After a fork, in parent and child."""
    if _TAKEN:
        _give_back(_TAKEN.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take_all, after_in_parent=_give_back_all, after_in_child=_give_back_all)
