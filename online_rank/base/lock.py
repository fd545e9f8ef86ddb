"""Safety of threads."""

import threading
from typing import Any

__all__ = ["Locked"]

_making = threading.Lock()


class Locked:
    """Base class of what may be asked from several threads.

    Every public method that learns or answers holds `_lock`, a reentrant lock of the object alone: threads that rank beside one
    that learns see the state before or after a query, never between, and several that learn take turns.
    """

    # In a slot, so that the lock is neither compared, copied, pickled nor undone with the state in `__dict__`.
    __slots__ = ("_lock",)

    _lock: Any

    def __getattr__(self, name: str) -> Any:
        # The lock is made when it is first asked for: copies and unpickled objects have none yet.
        if name != "_lock":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        with _making:
            try:
                return object.__getattribute__(self, "_lock")
            except AttributeError:
                self._lock = lock = threading.RLock()
                return lock

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__
