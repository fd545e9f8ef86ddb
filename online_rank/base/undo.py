"""Changes of several steps: Ctrl-C waits until they are complete, and errors undo them."""

import _signal  # `signal` makes enumerations of what it takes and gives, in microseconds.
import collections
import copy
import functools
import operator
import signal
from collections.abc import Callable, Collection, Hashable
from types import TracebackType
from typing import Any

import numpy as np
from river import base, utils

#: Undoes a change.
Undo = Callable[[], object]

_SIGINT = int(signal.SIGINT)


class all_or_nothing:
    """Undo the changes to some parts if the body raises; Ctrl-C waits until the body has ended.

    In the main thread SIGINT is held back: its handler is called at the end. Of several inside one another the outermost one
    holds it back. A second signal is not held back: its handler is called at once, and what it raises undoes the changes. Other
    threads get no signals. A program that ignores SIGINT, or lets it end the process, still does.

    Parameters
    ----------
    *parts
        Rankers, transformers, metrics. More can be added in the body with `include`, each before it changes.
    goes_on
        Whether more changes follow after a model is taught in the body, so that its last change keeps nothing yet.

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

    __slots__ = ("_handler", "_last", "_signal", "goes_on", "log")

    def __init__(self, *parts: Any, goes_on: bool = False) -> None:
        self.goes_on = goes_on
        #: What undoes the changes.
        self.log: list[Undo] = []
        #: An array whose last number is NaN until the last change is made.
        self._last: np.ndarray | None = None
        #: The handler in whose place this object stands, and what to call it with.
        self._handler: Callable[..., Any] | None = None
        self._signal: tuple[Any, ...] | None = None
        for part in parts:
            record(self.log, part)

    def undo_by(self, undo: Undo) -> None:
        """Undo by this function, too."""
        self.log.append(undo)

    def include_entries(self, entries: dict[Any, Any], names: Collection[Any], sort: bool = False) -> None:
        """Undo changes to the entries of a dictionary that have these names; values are replaced, never changed.

        Entries that were removed come back at the end, unless the dictionary is to be sorted, by its values.
        """
        before = {name: entries[name] for name in names if name in entries}
        self.log.append(functools.partial(_put_entries_back, entries, names, before, sort))

    def until_written(self, row: np.ndarray) -> None:
        """Keep all changes once a kernel has written a row (1, n), which ends in NaN: the last change, never done by halves."""
        self._last = row

    def include(self, part: Any, block: Any = None) -> None:
        """Undo the changes of `part` too; `block`, if known, is what it is about to learn from."""
        record(self.log, part, block)

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
                roll_back(self.log)
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
    """Undo the changes in a log, the last one first, and continue after one that fails."""
    try:
        while log:
            log.pop()()
    finally:
        if log:
            roll_back(log)


def _put_entries_back(entries: dict[Any, Any], names: Collection[Any], before: dict[Any, Any], sort: bool) -> None:
    """Restore the entries of a dictionary with some names."""
    for name in names:
        if name not in before:
            entries.pop(name, None)
    entries.update(before)
    if sort and before:
        for name, _ in sorted(entries.items(), key=operator.itemgetter(1)):
            entries[name] = entries.pop(name)


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
        log.append(functools.partial(put_back, part, copy.deepcopy(vars(part))))


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
    log.append(functools.partial(put_back, part, before))


def put_back(part: Any, before: dict[str, Any]) -> None:
    """Restore the attributes of a part."""
    state = vars(part)
    state.update(before)
    for name in [name for name in state if name not in before]:
        del state[name]
