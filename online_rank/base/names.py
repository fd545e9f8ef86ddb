"""Looks up the columns of many names at once."""

from collections.abc import Hashable, Sequence

import numpy as np

from online_rank._kernels.names import add_names, find_names, move_names, remove_names
from online_rank.query.names import hashes_of


class NameTable:
    """A hash table of the names of columns (`_kernels.names`), for looking up many at once.

    Names that are not strings also occupy a slot, but are never looked up here.

    Examples
    --------
    >>> table = NameTable()
    >>> table.add(["clicks", "age"])
    >>> table.find(hashes_of(["age", "never met"]))
    array([ 1, -1])
    """

    __slots__ = ("_n", "_rows", "_taken")

    def __init__(self) -> None:
        self._n = self._taken = 0
        self._rows = _empty(1 << 10)

    def __len__(self) -> int:
        return self._n

    def find(self, hashes: np.ndarray) -> np.ndarray:
        """The column of each name, by its hashes; int64, -1 for unknown names."""
        columns = np.empty(len(hashes), np.int64)
        find_names(hashes, self._rows, columns)
        return columns

    def add(self, names: Sequence[Hashable]) -> None:
        """Add names for the next columns. Adding some of them again, after an interrupt, does no harm."""
        if not names:
            return
        if 2 * (self._taken + len(names)) > len(self._rows):
            # A little more than twice as many, so that names that come and go do not rebuild the table each time.
            n = self._n + len(names)
            rows = _empty(1 << (2 * n + n // 32).bit_length())
            taken = move_names(self._rows, rows)
            self._rows, self._taken = rows, taken
        self._taken += len(names)
        add_names(hashes_of(names), self._n, self._rows)
        self._n += len(names)

    def remove(self, names: Sequence[Hashable]) -> None:
        """Remove the names of the last columns. Removing some of them again, after an interrupt, does no harm."""
        remove_names(hashes_of(names), self._rows)
        self._n -= len(names)


def _empty(n: int) -> np.ndarray:
    return np.full((n, 2), -1)
