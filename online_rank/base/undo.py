"""Changes of which either all are made or none."""

import collections
import copy
import functools
from collections.abc import Callable, Hashable
from types import TracebackType
from typing import Any

import numpy as np
from river import base, utils

__all__ = ["all_or_nothing", "joined", "put_back", "snapshot", "snapshot_arrays", "snapshot_references"]

#: Undoes changes. May be called again after it was interrupted.
Undo = Callable[[], None]


#: How often undoing is tried: a second Ctrl-C, or want of memory, may stop it.
_TRIES = 3


class all_or_nothing:
    """Undo the changes that parts make to themselves when the body raises, be it by Ctrl-C.

    Entered twice, as in `with all_or_nothing(part) as changes, changes:`, it also stands a second Ctrl-C: one that comes before
    undoing has begun leaves the rest to the outer of the two.

    Parameters
    ----------
    *parts
        Rankers, transformers, metrics. Further ones join in the body by `include`, each before it changes.

    Examples
    --------
    >>> from online_rank import StreamScaler
    >>> scaler = StreamScaler()
    >>> try:
    ...     with all_or_nothing(scaler) as changes, changes:
    ...         scaler.learn_one([[1.0], [2.0]])
    ...         raise KeyError
    ... except KeyError:
    ...     scaler.n_documents
    0
    """

    def __init__(self, *parts: Any) -> None:
        self._undo = [snapshot(part) for part in parts]
        #: An array whose last number is NaN until all is done.
        self._written_last: np.ndarray | None = None

    def include(self, part: Any, block: Any = None) -> None:
        """Undo the changes of `part` too; `block` is what it is about to learn from, where that is known."""
        self._undo.append(snapshot(part, block))

    def until_written(self, row: np.ndarray) -> None:
        """Undo nothing once a kernel has written to `row`, float64 (1, n), which it does last; else what was there comes back.

        For a last change by one kernel: it is made or it is not, so that no copy of what it changes is needed.
        """
        if not self._undo:
            return
        before = row.copy()
        self._undo.append(lambda: np.copyto(row, before))
        row[0, -1] = np.nan
        self._written_last = row

    def __enter__(self) -> "all_or_nothing":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if kind is None or (self._written_last is not None and self._written_last[0, -1] == self._written_last[0, -1]):
            return
        tries = _TRIES
        while not self._undone() and tries:
            tries -= 1
        self._undo.clear()

    def _undone(self) -> bool:
        """Undo all changes, those after one that fails too; whether none failed. The error of the body is raised anyway."""
        done = True
        for undo in reversed(self._undo):
            try:
                undo()
            except BaseException:
                done = False
        return done


def snapshot(part: Any, block: Any = None) -> Undo:
    """Make `part` ready for changes that may have to be undone, whatever it is.

    Parameters
    ----------
    part
        A step of this library says by its method `_snapshot` how it is undone. Of other objects, such as river's, which change
        in place, a deep copy of what they have learned is kept. A metric in a window and several metrics in one stay the
        objects that the user may hold.
    block
        What the part is about to learn from; None for anything.

    Returns
    -------
    A function that undoes the changes since.
    """
    if hasattr(type(part), "_snapshot"):
        values = vars(part).values()
        if not any(map(_is_foreign, {*map(type, values)})):
            return part._snapshot(block)
        held = [value for value in values if _is_foreign(type(value))]  # type: ignore[arg-type]
        return joined(part._snapshot(block), *map(snapshot, held))
    if isinstance(part, utils.Rolling | utils.TimeRolling):
        # What a window holds is never changed; only which queries it holds.
        window = {name: copy.copy(value) for name, value in vars(part).items() if name != "obj"}
        return joined(snapshot(part.obj), lambda: vars(part).update(window))
    if isinstance(part, collections.UserList):  # River's Metrics, which it takes most of a second to import.
        return joined(*map(snapshot, part))
    before = copy.deepcopy(vars(part))
    return lambda: put_back(part, before)


@functools.cache
def _is_foreign(kind: Hashable) -> bool:
    """Whether objects of a class are river's, of which a deep copy is kept."""
    return isinstance(kind, type) and issubclass(kind, base.Base) and not hasattr(kind, "_snapshot")


def snapshot_arrays(part: Any, replaced: frozenset[str] = frozenset()) -> Undo:
    """The snapshot of a part whose arrays change in place but for those named `replaced`, and whose other state is replaced.

    The changes are made to copies of the arrays; so undoing is putting the old values back.
    """
    state = vars(part)
    before = state.copy()
    for name, value in before.items():
        if type(value) is np.ndarray and name not in replaced:
            state[name] = value.copy()
    return lambda: put_back(part, before)


def snapshot_references(part: Any) -> Undo:
    """The snapshot of a part that replaces all of its state when it learns, arrays too: nothing is copied."""
    before = dict(vars(part))
    return lambda: put_back(part, before)


def put_back(part: Any, before: dict[str, Any]) -> None:
    """Give `part` the attributes that it had."""
    state = vars(part)
    state.update(before)
    for name in [name for name in state if name not in before]:
        del state[name]


def joined(*undo: Undo) -> Undo:
    """A function that calls all of `undo`."""

    def undo_all() -> None:
        error: BaseException | None = None
        for undo_part in undo:
            try:
                undo_part()
            except BaseException as failure:
                error = failure
        if error is not None:
            raise error

    return undo_all
