"""Safety of threads."""

import threading
from typing import Any, Self

__all__ = ["Locked"]


class Locked:
    """Base class of what may be asked from several threads.

    Every public method that learns or answers holds the lock: threads that rank beside one that learns see the state before or
    after a query, never between, and several that learn take turns.
    """

    # In a slot, so that the lock is neither compared, copied, pickled nor undone with the state in `__dict__`.
    __slots__ = ("_lock",)

    _lock: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """A new object, with a lock of its own."""
        made = super().__new__(cls)
        made._lock = threading.RLock()
        return made

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__
