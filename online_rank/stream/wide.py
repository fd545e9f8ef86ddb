"""Columns of wide tables, many at once: each call of Arrow takes as long as the conversion of a hundred values."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from online_rank.stream.values import Faults, arrow, kind_of_text, numbers_of

#: The number of columns of text that are converted at once, if there are more of them than rows.
GROUP = 128


def kinds_of(columns: Mapping[str, Any]) -> dict[str, str]:
    """The kind of each column of a text file, by its first values, as `kind_of_text` finds it."""
    found: dict[str, str] = {}
    for group in _groups(list(columns), lambda name: columns[name]):
        numbers = None if len(group) == 1 else _at_once([columns[name] for name in group])
        for j, name in enumerate(group):
            is_number = numbers is not None and not np.isnan(numbers[j]).all()
            found[name] = "number" if is_number else kind_of_text(columns[name])
    return found


def numbers_in(columns: Sequence[tuple[str, str, Any]], faults: Faults, is_text: bool) -> np.ndarray:
    """Columns, with their names and kinds, as float64 (n, d), as `numbers_of` reads each. What is no number is a fault."""
    X = np.empty((len(columns[0][2]) if columns else 0, len(columns)))
    done: set[int] = set()
    plain = [j for j, (_, kind, _) in enumerate(columns) if kind == "number"] if is_text else []
    for group in _groups(plain, lambda j: columns[j][2]):
        if len(group) > 1 and (found := _at_once([columns[j][2] for j in group])) is not None:
            X[:, group] = found.T
            done.update(group)
    for j, (name, kind, values) in enumerate(columns):
        if j not in done:
            X[:, j] = numbers_of(values, kind, faults, name)
    return X


def _groups(every: Sequence[Any], values: Callable[[Any], Any]) -> Iterator[list[Any]]:
    """Many columns together if they are longer than their rows, otherwise each alone."""
    size = GROUP if len(every) >= GROUP and len(every) > len(values(every[0])) else 1
    waiting = iter(every)
    while group := [*islice(waiting, size)]:
        yield group


def _at_once(columns: Sequence[Any]) -> np.ndarray | None:
    """Columns of text as float64 (d, n); None if a value of one is no number."""
    found = numbers_of(arrow().concat_arrays(columns), "number", unread := Faults(), "")
    return None if unread else found.reshape(len(columns), -1)
