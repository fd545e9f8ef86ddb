"""Names and levels that a model does not know: they are counted, and a query with hardly any that it knows raises a warning."""

import warnings
import weakref
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from online_rank.query import Block, SparseRows
from online_rank.query.levels import is_level

#: The share of the features of a query from which unknown ones are striking.
_STRIKING = 0.5
_SHOWN = 5
#: Documents of words have at least this many names, and less than this share of them.
_MANY, _FILLED = 50, 0.25


class Unknown(NamedTuple):
    """Numbers of names of features, and of levels of known categories, that a model does not know, one in each query."""

    names: int
    levels: int


#: What each estimator has met. It is not state, since it changes nothing.
_UNKNOWN: "weakref.WeakKeyDictionary[Any, Unknown]" = weakref.WeakKeyDictionary()
#: Those that have warned.
_TOLD: "weakref.WeakSet[Any]" = weakref.WeakSet()


def n_unknown(step: Any) -> Unknown:
    """What an estimator has met in queries that it ranked, and does not know."""
    return _UNKNOWN.get(step, Unknown(0, 0))


def _are_words(X: Any) -> bool:
    """Whether documents have many names, and each has few of them: queries of words bring new ones all the time."""
    if isinstance(X, SparseRows):
        return True
    return bool(X.shape[1] >= _MANY and np.count_nonzero(np.nan_to_num(X)) < _FILLED * X.size)


def note_unknown(step: Any, block: Block, columns: np.ndarray, own_names: Callable[[Any], tuple[Any, ...]]) -> None:
    """Count the unknown names of a query, and warn once if it has no name that the estimator knows, or few.

    Parameters
    ----------
    step
        The estimator, which has features.
    block
        The query, with names.
    columns
        int64 (d,): the column of each name, -1 for an unknown one.
    own_names
        Gives the names of the columns of an estimator.
    """
    names = block.names or ()
    unknown, n_levels = [names[j] for j in np.flatnonzero(columns < 0).tolist()], 0
    if step._reader.features_of is not None:
        unknown, n_levels = step._reader.features_of(step, unknown)
    before = n_unknown(step)
    _UNKNOWN[step] = Unknown(before.names + len(unknown), before.levels + n_levels)
    if not unknown or step in _TOLD or _are_words(block.X):
        return
    there = (names[j] for j in np.flatnonzero(columns >= 0).tolist())
    known = len({name[0] if is_level(name) else name for name in there}) or int(n_levels > 0)  # type: ignore[index]
    if len(unknown) < _STRIKING * (known + len(unknown)):
        return
    today = getattr(step, "today", None)
    if isinstance(today, Mapping) and {*own_names(step)} <= {*today}:
        return  # It has learned nothing so far: these are the features that it will learn from.
    if getattr(step, "_last_round", ()) is None and {*own_names(step)} <= {*names}:
        return  # It begins with weights that somebody gave, for some of the features, and has learned nothing so far.
    _TOLD.add(step)
    what = (
        "none of its features is known" if not known else f"{len(unknown)} of its {known + len(unknown)} features are unknown"
    )
    shown = ", ".join(map(repr, unknown[:_SHOWN]))
    own = ", ".join(map(repr, own_names(step)[:_SHOWN]))
    warnings.warn(
        f"x: {what} to {type(step).__name__}: {shown}, which count for nothing; it has learned from {own}. Names have to be "
        "equal, in capitals too (n_unknown counts unknown names and levels)",
        stacklevel=2,
    )
