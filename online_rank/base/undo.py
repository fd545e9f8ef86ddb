"""Changes of which either all are made or none."""

import collections
import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from river import base, utils

__all__ = ["all_or_nothing", "begin", "begin_own", "joined", "undoing"]

#: Undoes changes.
Undo = Callable[[], None]


def begin_own(part: Any) -> Undo:
    """Make `part` ready for one change that may fail; calling the answer undoes it.

    The change is made to copies of the arrays, and all other state is replaced, never changed in place; so undoing is putting
    the old values back. A part for which this is not enough says how in a method `_begin` of its own.
    """
    before = dict(vars(part))
    vars(part).update({name: value.copy() for name, value in before.items() if isinstance(value, np.ndarray)})
    return lambda: _put_back(part, before)


def begin(part: Any) -> Undo:
    """Make `part` ready for several changes, of which any may fail, whatever it holds; calling the answer undoes them.

    Objects of river change in place: a copy of what they have learned is kept. A metric in a window and several metrics in one
    stay the objects that the user may hold.
    """
    if hasattr(type(part), "_begin"):
        held = [value for value in vars(part).values() if isinstance(value, base.Base) and not hasattr(type(value), "_begin")]
        return joined(part._begin(), *map(begin, held))
    if isinstance(part, utils.Rolling | utils.TimeRolling):
        # What a window holds is never changed; only which queries it holds.
        window = {name: copy.copy(value) for name, value in vars(part).items() if name != "obj"}
        return joined(begin(part.obj), lambda: vars(part).update(window))
    if isinstance(part, collections.UserList):  # River's Metrics, which it takes most of a second to import.
        return joined(*map(begin, part))
    before = copy.deepcopy(vars(part))
    return lambda: _put_back(part, before)


def joined(*undo: Undo) -> Undo:
    """One that undoes all."""

    def undo_all() -> None:
        for undo_part in undo:
            undo_part()

    return undo_all


@contextlib.contextmanager
def undoing(*undo: Undo) -> Iterator[None]:
    """Call all of `undo` when the body raises."""
    try:
        yield
    except BaseException:
        joined(*undo)()
        raise


def all_or_nothing(*parts: Any) -> contextlib.AbstractContextManager[None]:
    """Undo the change that each of `parts` (rankers, transformers) makes to itself when the body raises."""
    return undoing(*[part._begin() for part in parts])


def _put_back(part: Any, before: dict[str, Any]) -> None:
    vars(part).clear()
    vars(part).update(before)
