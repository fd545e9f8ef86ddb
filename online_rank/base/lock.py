"""Safety of threads."""

import threading
from typing import Any

__all__ = ["Locked"]

_making = threading.Lock()


class Locked:
    """Base class of what may be asked from several threads.

    Every public method that learns or answers holds the lock: threads that rank beside one that learns see the state before or
    after a query, never between, and several that learn take turns.
    """

    # In a slot, so that the lock is neither compared, copied, pickled nor undone with the state in `__dict__`.
    __slots__ = ("_own_lock",)

    _own_lock: Any

    @property
    def _lock(self) -> Any:
        """A reentrant lock of this object alone, made when it is first asked for."""
        try:
            return self._own_lock
        except AttributeError:
            with _making:
                if not hasattr(self, "_own_lock"):
                    self._own_lock = threading.RLock()
            return self._own_lock

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__
