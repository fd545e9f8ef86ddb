"""Names of features and their columns."""

import functools
import itertools
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from online_rank.query.names import are_texts

_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
#: Texts that an integer has.
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")


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

    __slots__ = ("_are_numbers", "_column", "_found", "_has_others", "_names")

    def __init__(self, names: Iterable[Hashable] = ()) -> None:
        self._column = {name: j for j, name in enumerate(names)}
        self._names: tuple[Hashable, ...] | None = None
        self._are_numbers: bool | None = None
        #: Whether there may be names that are no strings.
        self._has_others = bool(self._column) and not are_texts(self._column)
        # The names last looked up, and their columns: one query looks them up several times.
        self._found: tuple[Iterable[Hashable], np.ndarray] | None = None

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
        columns = np.fromiter(map(self._column.get, names, itertools.repeat(-1)), np.int64)
        columns.flags.writeable = False
        self._found = (names, columns) if isinstance(names, tuple) else None
        return columns

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
        if not self._has_others and are_texts(names):
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
        self._found = self._names = self._are_numbers = None

    def truncate(self, n: int) -> None:
        """Forget all but the first `n` columns."""
        while len(self._column) > n:
            self._names = self._are_numbers = self._found = None
            self._column.popitem()
