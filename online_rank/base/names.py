"""Names of features and their columns."""

import functools
import itertools
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from online_rank._kernels.names import add_names, find_names, move_names, remove_names
from online_rank.query.names import HashedNames, are_texts, hashes_of

#: From this number of names on, each look-up in a dict misses the cache, and `NameTable` is faster.
_MANY_NAMES = 1 << 14

_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
#: Texts that an integer has.
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")


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


@functools.lru_cache(maxsize=64)
def numbers(n_features: int) -> tuple[str, ...]:
    """The names of features that are known by their position: "1", "2", ..., as LETOR text counts them."""
    return tuple(map(str, range(1, n_features + 1)))


def are_numbers(names: Iterable[Hashable]) -> bool:
    """Whether all names are numbers of features."""
    return all(isinstance(name, str) and _NUMBER.fullmatch(name) for name in names)


class Columns:
    """Names of features and their columns: a dictionary that only grows.

    Parameters
    ----------
    names
        The names of the first columns, all different.

    Examples
    --------
    >>> columns = Columns(["clicks", "age"])
    >>> columns.add(["age", "bm25"])
    1
    >>> columns.names, columns.of(["bm25", "never met"])
    (('clicks', 'age', 'bm25'), array([ 2, -1]))
    """

    __slots__ = ("_are_numbers", "_column", "_found", "_has_others", "_names", "_table")

    def __init__(self, names: Iterable[Hashable] = ()) -> None:
        self._column = {name: j for j, name in enumerate(names)}
        self._names: tuple[Hashable, ...] | None = None
        self._are_numbers: bool | None = None
        #: Whether there may be names that are no strings.
        self._has_others = bool(self._column) and not are_texts(self._column)
        # The names last looked up, and their columns: one query looks them up several times.
        self._found: tuple[Iterable[Hashable], np.ndarray] | None = None
        # The same mapping as `_column`, built when many names are first looked up in a large one.
        self._table: NameTable | None = None

    def __len__(self) -> int:
        return len(self._column)

    def __repr__(self) -> str:
        return f"Columns({list(self._column)})"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Columns) and list(self._column) == list(other._column)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return Columns, (list(self._column),)

    def __deepcopy__(self, memo: Any) -> "Columns":
        copy = Columns()
        copy._column, copy._has_others = self._column.copy(), self._has_others
        return copy

    @property
    def names(self) -> tuple[Hashable, ...]:
        """The names in the order of their columns."""
        if self._names is None:
            self._names = tuple(self._column)
        return self._names

    @property
    def are_numbers(self) -> bool:
        """Whether all names are numbers of features: "1", "2", ..."""
        if self._are_numbers is None:
            self._are_numbers = are_numbers(self._column)
        return self._are_numbers

    def of(self, names: Iterable[Hashable]) -> np.ndarray:
        """The column of each name, int64, read-only; -1 for unknown names."""
        if self._found is not None and self._found[0] is names:
            return self._found[1]
        if isinstance(names, HashedNames) and len(self._column) >= _MANY_NAMES:
            columns = self._in_table(names)
        else:
            columns = np.fromiter(map(self._column.get, names, itertools.repeat(-1)), np.int64)
        columns.flags.writeable = False
        self._found = (names, columns) if isinstance(names, tuple) else None
        return columns

    def _in_table(self, names: HashedNames) -> np.ndarray:
        """`of` names with hashes."""
        if self._table is None:
            self._table = NameTable()
        self._table.add(self.since(len(self._table)))
        return self._table.find(names.hashes)

    def missing(self, names: Iterable[Hashable]) -> list[Hashable]:
        """The names that have no column."""
        if isinstance(names, tuple):
            names = [names[i] for i in np.flatnonzero(self.of(names) < 0).tolist()]
        column = self._column
        return [name for name in names if name not in column]

    def require_one_type(self, names: Sequence[Hashable]) -> None:
        """Raise ValueError for an integer among new `names` whose text has a column, or is among them too, and the reverse.

        In Python 7 and "7" are two names, but in JSON and in the header of a table they are one.
        """
        if not self._has_others and (isinstance(names, HashedNames) or are_texts(names)):
            return
        new = frozenset(names)
        for name in names:
            twin: Hashable = None
            if isinstance(name, str):
                twin = int(name) if _INTEGER.fullmatch(name) else None
            elif isinstance(name, int | np.integer) and not isinstance(name, bool):
                twin = str(name)
            if twin is not None and (twin in self._column or twin in new):
                raise ValueError(f"x has a feature {name!r}, and there is a feature {twin!r}: names are strings, or integers")

    def add(self, names: Iterable[Hashable]) -> int:
        """Give each unknown name the next column. Returns the number of new names."""
        before = len(self._column)
        for name in names:
            self._column.setdefault(name, len(self._column))
        if len(self._column) > before:
            self._has_others = self._has_others or not are_texts(self.since(before))
            self._names = self._are_numbers = self._found = None
        return len(self._column) - before

    def since(self, n: int) -> list[Hashable]:
        """The names of all columns but the first `n`."""
        return list(itertools.islice(reversed(self._column), len(self._column) - n))[::-1]

    def rename(self, names: Mapping[Hashable, Hashable]) -> None:
        """Give columns other names, which no column has."""
        renamed = {names.get(name, name): column for name, column in self._column.items()}
        if len(renamed) != len(self._column):
            raise ValueError("two columns would get the same name")
        self._column = renamed
        self._has_others = self._has_others or not are_texts(renamed)
        self._table = self._found = self._names = self._are_numbers = None

    def truncate(self, n: int) -> None:
        """Forget all but the first `n` columns."""
        table, self._table = self._table, None
        try:
            if table is not None and len(table) > n:
                table.remove(self.since(n)[: len(table) - n])
            # If memory runs out, it stays None and is built again later.
            self._table = table
        finally:
            while len(self._column) > n:
                self._names = self._are_numbers = self._found = None
                self._column.popitem()
