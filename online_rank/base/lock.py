"""Safety of threads."""

import threading
from typing import Any, Self

__all__ = ["Locked"]


class Locked:
    """Base class of what may be asked from several threads.

    Every public method that learns or answers holds `_lock`, a reentrant lock of the object alone: threads that rank beside one
    that learns see the state before or after a query, never between, and several that learn take turns.
    """

    # In a slot, so that the lock is neither compared, copied, pickled nor undone with the state in `__dict__`.
    __slots__ = ("_lock",)

    _lock: Any

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        """Make the object with its lock."""
        # Not in __init__, which copies and unpickled objects never see; and not in a __getattr__, with which Python looks up
        # every attribute of the object three times as slowly.
        self = super().__new__(cls)
        self._lock = threading.RLock()
        return self

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__
