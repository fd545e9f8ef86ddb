"""Changes of several steps: Ctrl-C waits until they are complete, and errors undo them."""

import _signal  # `signal` makes enumerations of what it takes and gives, in microseconds.
import collections
import copy
import functools
import operator
import signal
from collections.abc import Callable, Hashable, Iterable
from types import TracebackType
from typing import Any

import numpy as np
from river import base, utils

__all__ = ["Staged", "Undo", "all_or_nothing", "at_once", "record", "record_state", "roll_back"]

#: Undoes a change.
Undo = Callable[[], None]

_SIGINT = int(signal.SIGINT)


class all_or_nothing:
    """Undo the changes to some parts if the body raises; Ctrl-C waits until the body has ended.

    In the main thread SIGINT is held back: its handler is called at the end. Of several inside one another the outermost one
    holds it back. A second signal is not held back: its handler is called at once, and what it raises undoes the changes. Other
    threads get no signals, and whoever ignores SIGINT, or lets it end the process, goes on doing so.

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
    ...     with all_or_nothing(scaler):
    ...         scaler.learn_one([[1.0], [2.0]])
    ...         raise KeyError
    ... except KeyError:
    ...     scaler.n_documents
    0
    """

    __slots__ = ("_handler", "_last", "_signal", "_undo", "goes_on")

    def __init__(self, *parts: Any, goes_on: bool = False) -> None:
        self.goes_on = goes_on
        self._undo: list[Undo] = []
        #: An array whose last number is NaN until the last change is made.
        self._last: np.ndarray | None = None
        #: The handler in whose place this object stands, and what to call it with.
        self._handler: Callable[..., Any] | None = None
        self._signal: tuple[Any, ...] | None = None
        for part in parts:
            record(self._undo, part)

    def undo_by(self, undo: Undo) -> None:
        """Undo by this function, too."""
        self._undo.append(undo)

    def keep(self, changes: Iterable[Callable[[], Any]] = ()) -> None:
        """Make the last changes (`at_once`), and with them keep all the others."""
        at_once([*changes, self._undo.clear])

    def until_written(self, row: np.ndarray) -> None:
        """Keep all changes once a kernel has written a row (1, n), which ends in NaN: the last change, never done by halves."""
        self._last = row

    def include(self, part: Any, block: Any = None) -> None:
        """Undo the changes of `part` too; `block`, if known, is what it is about to learn from."""
        record(self._undo, part, block)

    def __call__(self, *arguments: Any) -> None:
        """In place of the handler of SIGINT: keep the first signal for it."""
        if self._signal is None or self._handler is None:
            self._signal = arguments
        else:
            self._signal = None
            self._handler(*arguments)

    def __enter__(self) -> "all_or_nothing":
        handler = _signal.getsignal(_SIGINT)
        if callable(handler) and type(handler) is not all_or_nothing:
            self._handler = handler
            try:
                _signal.signal(_SIGINT, self)
            except ValueError:
                # Not the main thread.
                self._handler = None
            except BaseException:
                # Python had to handle another signal first.
                _signal.signal(_SIGINT, handler)
                raise
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        handler = self._handler
        try:
            if kind is not None and (self._last is None or self._last[0, -1] != self._last[0, -1]):
                roll_back(self._undo)
        finally:
            if handler is not None:
                try:
                    _signal.signal(_SIGINT, handler)
                except BaseException:
                    # As above.
                    _signal.signal(_SIGINT, handler)
                    raise
        if handler is not None and self._signal is not None:
            handler(*self._signal)


def roll_back(log: list[Undo]) -> None:
    """Undo the changes in a log, the last one first, and go on after one that fails."""
    try:
        while log:
            log.pop()()
    finally:
        if log:
            roll_back(log)


def at_once(changes: Iterable[Callable[[], Any]]) -> None:
    """Make changes one after the other, without a place between them where a handler of signals could run.

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


def record(log: list[Undo], part: Any, block: Any = None) -> None:
    """Add to a log what undoes the changes that any kind of `part` is about to make.

    Parameters
    ----------
    log
        Its functions are called in reverse.
    part
        Steps of this library say what undoes their changes (`_record`). Of other objects, such as river's, which change in
        place, also inside a step of a user's own, a deep copy of the state is kept. Windowed metrics and collections of metrics
        remain the same objects, since the user may hold references to them.
    block
        The queries that the part is about to learn from; None if unknown.
    """
    kind: Any = type(part)
    if hasattr(kind, "_record"):
        part._record(log, block)
        for value in vars(part).values() if _is_of_a_user(kind) else ():
            if isinstance(value, base.Base) and not hasattr(value, "_record"):
                record(log, value)
    elif isinstance(part, utils.Rolling | utils.TimeRolling):
        record(log, part.obj)
        # The entries of a window never change; only the set of entries does.
        window = {name: copy.copy(value) for name, value in vars(part).items() if name != "obj"}
        log.append(functools.partial(vars(part).update, window))
    elif isinstance(part, collections.UserList):  # River's Metrics, whose import takes most of a second.
        for metric in part:
            record(log, metric)
    else:
        log.append(functools.partial(_put_back, part, copy.deepcopy(vars(part))))


@functools.cache
def _is_of_a_user(kind: Hashable) -> bool:
    """Whether a class is not of this library, so that it may hold anything."""
    return not getattr(kind, "__module__", "").startswith("online_rank.")


def record_state(log: list[Undo], part: Any, copied: bool = True, replaced: frozenset[str] = frozenset()) -> None:
    """Add to a log what restores the attributes of a part.

    If arrays are `copied`, because the part changes them in place, the copies change, and undoing restores the old references;
    the part replaces all its other state, and the arrays named in `replaced`.
    """
    state = vars(part)
    before = state.copy()
    if copied:
        for name, value in before.items():
            if type(value) is np.ndarray and name not in replaced:
                state[name] = value.copy()
    log.append(functools.partial(_put_back, part, before))


def _put_back(part: Any, before: dict[str, Any]) -> None:
    """Restore the attributes of a part."""
    state = vars(part)
    state.update(before)
    for name in [name for name in state if name not in before]:
        del state[name]
