r"""A limit on features: the least recently used leave and make room for new ones, or new ones are ignored.

Removing the weights of a feature is the projection P on the features that stay. For every comparator u without weight on the
features that leave, <P w, u> = <w, u> and ||P w|| <= ||w||, which is all that the proof of the mass theorem uses. So its bounds
hold for these comparators, and not for one that weighs a feature which has left, also if its name comes back. Under a
`LossTracker`, and inside blends, features do not leave: new ones are ignored, and bounds hold for all comparators.
"""

import functools
import warnings
import weakref
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from online_rank.base.names import Columns
from online_rank.base.schema import Array, schema_of
from online_rank.base.undo import Undo

#: The share of `max_features` that leaves at a time, so that leaving costs each new feature O(1) rows.
_AT_A_TIME = 8

#: How many new features each step has ignored. It is not state, since ignored features change nothing.
_IGNORED: "weakref.WeakKeyDictionary[Any, int]" = weakref.WeakKeyDictionary()

#: Attributes that are undone here.
NOTED = frozenset(("_used",))


def last_used(used: np.ndarray, n: int) -> np.ndarray:
    """The places of the n that were used last, in ascending order; of several used at the same time the last ones."""
    return np.sort(np.argsort(used, kind="stable")[len(used) - n :])


def warn_of_leaving(owner: str, what: str, most: int, setting: str, count: str) -> None:
    """Warn, the first time, that features or keys leave."""
    warnings.warn(
        f"{owner} has the most {what} that it takes, {most} ({setting}): the least recently used leave for new ones from here "
        f"on, and are counted ({count})",
        UserWarning,
        stacklevel=3,
    )


def use(step: Any, names: tuple[Hashable, ...]) -> None:
    """Note that the features with these names are in the query that is learned; half of the room is taken."""
    if not step._lets_leave or step._columns is None:
        return
    if step._used is None:
        step._used = np.zeros(step._n_features, np.int64)
    step._clock += 1
    columns = step._columns.of(names)
    step._used[columns[columns >= 0]] = step._clock


def make_room(step: Any, names: Iterable[Hashable], n: int) -> None:
    """Let at least n of the least recently used features leave, but none of those with these names, if features can leave.

    What was learned of them is lost. If the name of one comes back, it is a new feature.
    """
    # Rankers around this one keep state in its columns.
    held = any(owner._is_ranker and owner._wrapped for owner in step._lock.owners)
    if held or step._holds_features or not step._lets_leave or step._columns is None:
        return
    used = np.zeros(step._n_features, np.int64) if step._used is None else step._used.copy()
    columns = step._columns.of(tuple(names))
    used[columns[columns >= 0]] = step._clock + 1
    others = int((used <= step._clock).sum())
    n_leaving = min(others, max(n, step.max_features // _AT_A_TIME))
    if not n_leaving:
        return
    if not step._n_left:
        warn_of_leaving(
            type(step).__name__, "features", step.max_features, "attribute max_features", "attribute n_left_features"
        )
    kept = last_used(used, len(used) - n_leaving)
    leave(step, kept)
    step._used = np.minimum(used[kept], step._clock)
    step._n_left += n_leaving


def leave(step: Any, kept: np.ndarray) -> None:
    """Keep only some of the features that have names, given by their places in ascending order."""
    own, used = step._columns.names, step._used
    step._keep_only(kept)
    step._used = None if used is None else used[kept]
    step._columns = Columns(own[j] for j in kept.tolist())
    step._n_features = len(kept)


def keep_columns(step: Any, kept: np.ndarray) -> None:
    """Keep only some columns of the declared state, given in ascending order. Arrays are replaced, never changed in place."""
    kind: Any = type(step)
    for name, field in (schema_of(kind) or {}).items():
        array = getattr(step, name)
        if isinstance(field, Array) and name != "_used" and array is not None:
            for axis in field.feature_axes(step):
                array = np.take(array, kept, axis=axis)
            setattr(step, name, array)


def record_use(step: Any, log: list[Undo], columns: np.ndarray | None) -> None:
    """Add to a log what undoes a note on the use of some columns; None for all of them."""
    used: Any = step._used
    rows: Any = slice(None) if columns is None else columns.astype(np.intp)
    log.append(functools.partial(used.__setitem__, rows, used[rows].copy()))


def take_of(step: Any, left: list[float], new: Sequence[Hashable]) -> None:
    """Take what new features add from what is left for a request. Raises ValueError if it is not enough."""
    n_new = len(new)
    # A character takes up to four bytes.
    added = step._added(n_new) + sum(len(name) for name in new if isinstance(name, str)) // 2
    if added > left[0]:
        raise ValueError(
            f"x brings {n_new} new features to the {step._n_features} that {type(step).__name__} has: about {added} more "
            f"numbers, and this request may add {left[0]}. Let several queries bring them, or begin with a model that has "
            "learned with these features"
        )
    left[0] -= added


def ignore(step: Any, n: int) -> None:
    """Count new features beyond the limit, and warn once."""
    before = _IGNORED.get(step, 0)
    _IGNORED[step] = before + n
    if not before:
        warnings.warn(
            f"{type(step).__name__} has the most features that it takes, {step.max_features} (attribute max_features): new "
            "ones are ignored from here on, and counted (attribute n_ignored_features)",
            UserWarning,
            stacklevel=2,
        )


def _n_left(step: Any) -> int:
    """How many features have left for new ones since the model was made."""
    return int(step._n_left)


def _n_ignored(step: Any) -> int:
    """How often a new feature beyond `max_features` was ignored since the model was made or loaded."""
    return _IGNORED.get(step, 0)


#: Properties of every class whose steps have columns, which gives them these names.
n_left_features, n_ignored_features = property(_n_left), property(_n_ignored)
