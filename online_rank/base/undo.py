"""Changes that are made completely or not at all."""

import collections
import copy
import functools
import operator
from collections.abc import Callable, Hashable, Iterable
from types import TracebackType
from typing import Any

import numpy as np
from river import base, utils

__all__ = ["Staged", "all_or_nothing", "at_once", "joined", "put_back", "snapshot", "snapshot_arrays", "snapshot_references"]

#: Undoes changes. It may be called again after an interrupt.
Undo = Callable[[], None]


#: How often undoing is tried: a second Ctrl-C or a lack of memory may stop it.
_TRIES = 3


class all_or_nothing:
    """Undo the changes to some parts if the body raises, including on Ctrl-C.

    Entered twice, as in `with all_or_nothing(part) as changes, changes:`, it also survives a second Ctrl-C: if that comes
    before undoing has begun, the outer of the two undoes the changes.

    Parameters
    ----------
    *parts
        Rankers, transformers, metrics. More can be added in the body with `include`, each before it changes.
    goes_on
        Whether more changes follow those of a model that is taught in the body, so that its last change keeps nothing yet.

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

    def __init__(self, *parts: Any, goes_on: bool = False) -> None:
        self.goes_on = goes_on
        self._undo = list(map(snapshot, parts))
        #: An array whose last number is NaN until the change is complete.
        self._written_last: np.ndarray | None = None
        self._is_kept = False

    def undo_by(self, undo: Undo) -> None:
        """Undo by this function, too."""
        self._undo.append(undo)

    def keep(self, changes: Iterable[Callable[[], Any]]) -> None:
        """Make the last changes (`at_once`), and with them keep all the others."""
        at_once([*changes, functools.partial(setattr, self, "_is_kept", True)])

    def include(self, part: Any, block: Any = None) -> None:
        """Undo the changes of `part` too; `block`, if known, is what it is about to learn from."""
        self._undo.append(snapshot(part, block))

    def until_written(self, row: np.ndarray) -> None:
        """Keep all changes once a kernel has written `row`, float64 (1, n), as its last action; otherwise restore the old row.

        For a last change made by a single kernel, which happens completely or not at all, so that nothing has to be copied.
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
        if (
            kind is None
            or self._is_kept
            or (self._written_last is not None and self._written_last[0, -1] == self._written_last[0, -1])
        ):
            return
        # Once the row is restored it looks written. If Ctrl-C ends this exit there, the next one must not take it for that.
        self._written_last = None
        tries = _TRIES
        while not self._undone() and tries:
            tries -= 1
        self._undo.clear()

    def _undone(self) -> bool:
        """Undo all changes, continuing after one that fails; returns whether all succeeded. The body's error is raised in any
        case.
        """
        done = True
        for undo in reversed(self._undo):
            try:
                undo()
            except BaseException:
                done = False
        return done


def at_once(changes: Iterable[Callable[[], Any]]) -> None:
    """Make changes one after the other, without a place between them where Ctrl-C could come.

    Each is a `functools.partial` of a function in C, such as `setattr` or a method of a dictionary: Python looks for signals
    between its own bytecodes only. Those that may need memory come first, and leave what is whole if a later one fails.
    """
    collections.deque(map(operator.call, changes), maxlen=0)


class Staged(dict[str, Any]):
    """Changes to an object, collected first and then made at once: attributes, and calls.

    Parameters
    ----------
    owner
        The object.

    Attributes
    ----------
    calls
        Calls of functions in C, each a `functools.partial`; the attributes change after them.

    Examples
    --------
    >>> class Shelf:
    ...     def __init__(self):
    ...         self.books, self.n = {}, 0
    >>> shelf = Shelf()
    >>> staged = Staged(shelf)
    >>> staged["n"] += 1
    >>> staged.calls.append(functools.partial(shelf.books.__setitem__, "a", "Emma"))
    >>> shelf.n, staged["n"]
    (0, 1)
    >>> at_once(staged.changes())
    >>> shelf.n, shelf.books
    (1, {'a': 'Emma'})
    """

    def __init__(self, owner: Any) -> None:
        super().__init__()
        self._state = vars(owner)
        self.calls: list[Callable[[], Any]] = []

    def __missing__(self, name: str) -> Any:
        """The value of an attribute that does not change."""
        return self._state[name]

    def changes(self) -> list[Callable[[], Any]]:
        """All changes, for `at_once`."""
        return [*self.calls, functools.partial(self._state.update, self)]


def snapshot(part: Any, block: Any = None) -> Undo:
    """Prepare any kind of `part` for changes that may have to be undone.

    Parameters
    ----------
    part
        Steps of this library are undone by their method `_snapshot`. Of other objects, such as river's, which change in place,
        a deep copy of the state is kept. Windowed metrics and collections of metrics remain the same objects, since the user
        may hold references to them.
    block
        The queries that the part is about to learn from; None if unknown.

    Returns
    -------
    A function that undoes the changes since.
    """
    if hasattr(type(part), "_snapshot"):
        light = getattr(part, "_light_snapshot", None) if block is not None else None
        if light is not None and (undo := light(block)) is not None:
            return undo
        values = vars(part).values()
        if not any(map(_is_foreign, {*map(type, values)})):
            return part._snapshot(block)
        held = [value for value in values if _is_foreign(type(value))]  # type: ignore[arg-type]
        return joined(part._snapshot(block), *map(snapshot, held))
    if isinstance(part, utils.Rolling | utils.TimeRolling):
        # The entries of a window never change; only the set of entries does.
        window = {name: copy.copy(value) for name, value in vars(part).items() if name != "obj"}
        return joined(snapshot(part.obj), lambda: vars(part).update(window))
    if isinstance(part, collections.UserList):  # River's Metrics, whose import takes most of a second.
        return joined(*map(snapshot, part))
    before = copy.deepcopy(vars(part))
    return lambda: put_back(part, before)


@functools.cache
def _is_foreign(kind: Hashable) -> bool:
    """Whether a class is river's, so that a deep copy of its objects is kept."""
    return isinstance(kind, type) and issubclass(kind, base.Base) and not hasattr(kind, "_snapshot")


def snapshot_arrays(part: Any, replaced: frozenset[str] = frozenset()) -> Undo:
    """The snapshot of a part whose arrays change in place, except those named in `replaced`, and whose other state is replaced.

    The changes are made to copies of the arrays, so undoing restores the old references.
    """
    state = vars(part)
    before = state.copy()
    for name, value in before.items():
        if type(value) is np.ndarray and name not in replaced:
            state[name] = value.copy()
    return lambda: put_back(part, before)


def snapshot_references(part: Any) -> Undo:
    """The snapshot of a part that replaces all its state, including arrays, when it learns: nothing is copied."""
    before = dict(vars(part))
    return lambda: put_back(part, before)


def put_back(part: Any, before: dict[str, Any]) -> None:
    """Restore the attributes of `part`."""
    state = vars(part)
    state.update(before)
    for name in [name for name in state if name not in before]:
        del state[name]


def joined(*undo: Undo) -> Undo:
    """A function that calls every function in `undo`."""

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
