"""Thread safety."""

import copy
import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

_Owner = TypeVar("_Owner", bound="Locked")
_Answer = TypeVar("_Answer")
_Arguments = ParamSpec("_Arguments")

_ReentrantLock: Any = type(threading.RLock())


#: The locks of all models, by their addresses.
_LOCKS: "weakref.WeakValueDictionary[int, _ModelLock]" = weakref.WeakValueDictionary()

#: Those that a thread which forks has taken.
_TAKEN: "list[list[_ModelLock]]" = []


class _ModelLock(_ReentrantLock):
    """A reentrant lock, and the objects that share it."""

    __slots__ = ("is_private", "owners")

    def __init__(self) -> None:
        _LOCKS[id(self)] = self
        self.owners: weakref.WeakSet[Locked] = weakref.WeakSet()
        #: Whether the objects it guards cannot be reached by other threads.
        self.is_private = False


class Locked:
    """Base class of objects that several threads may use.

    Every public method that learns or answers holds `_lock`: a thread that ranks while another learns sees the state before or
    after a query, never in between, and learning threads take turns. A model shares one lock with all its parts (`join_locks`).
    Copies and pickles are made while holding it. A process forks when no other thread is within a query, so that the
    child has whole models whose locks are free; until then it waits.
    """

    # In a slot, so that the lock is neither compared, copied, pickled nor undone with the state in `__dict__`.
    __slots__ = ("_lock",)

    _lock: Any

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        """Make the object with its lock."""
        # Not in __init__, which is not run for copies and unpickled objects, and not in a __getattr__, which makes every
        # attribute access three times as slow.
        self = super().__new__(cls)
        self._lock = _ModelLock()
        self._lock.owners.add(self)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = memo[id(self)] = type(self).__new__(type(self))
        with self._lock:
            state = copy.deepcopy(self.__dict__, memo)
        made.__setstate__(state)
        return made

    def __getstate__(self) -> dict[str, Any]:
        """A copy of the current state, which can be written while the model continues to learn."""
        if self._lock.is_private:
            return self.__dict__
        made = copy.deepcopy(self)
        # The parts inside the state are copied already.
        made._lock.is_private = True
        return made.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def lock_of(model: Locked) -> Any:
    """The lock of a model, for work on it that must not be interrupted: `with lock_of(model): ...`."""
    return model._lock


def locked(method: Callable[Concatenate[_Owner, _Arguments], _Answer]) -> Callable[Concatenate[_Owner, _Arguments], _Answer]:
    """The method, holding the lock while it runs."""

    @functools.wraps(method)
    def under_lock(self: _Owner, *arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Answer:
        with self._lock:
            return method(self, *arguments, **named)

    return under_lock


def join_locks(parts: Iterable[Locked]) -> None:
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
    taken: list[_ModelLock] = []
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


def _give_back(taken: list[_ModelLock]) -> None:
    while taken:
        taken.pop().release()


def _give_back_all() -> None:
    """After a fork, in parent and child."""
    if _TAKEN:
        _give_back(_TAKEN.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take_all, after_in_parent=_give_back_all, after_in_child=_give_back_all)
