"""Features that leave: the least recently used make room for new ones."""

import abc
import functools
import warnings
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from online_rank.base.anatomy import Wrapper
from online_rank.base.names import Columns
from online_rank.base.schema import Array, Count, Integer, Names, Schema, schema_of
from online_rank.base.step import QueryStep
from online_rank.base.undo import Undo
from online_rank.limits import MAX_FEATURES

#: The share of `max_features` that leaves at a time, so that leaving costs each new feature O(1) rows.
_AT_A_TIME = 8

#: Attributes that `Leaving` undoes itself.
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


class Leaving(QueryStep, abc.ABC):
    r"""A step with a column for each feature, which has `max_features` at most.

    Removing the weights of a feature is the projection P on the features that stay. For every comparator u without weight on
    the features that leave, <P w, u> = <w, u> and ||P w|| <= ||w||, which is all that the proof of the mass theorem uses. So
    its bounds hold for these comparators, and not for one that weighs a feature which has left, also if its name comes back.
    Under a `LossTracker`, and inside blends, features do not leave: new ones are ignored, and bounds hold for all comparators.
    """

    _schema = Schema(
        _n_features=Integer(0),
        _columns=Names(),
        max_features=Integer(1),
        _used=Array("d", dtype="int64", low=0, optional=True),
        _clock=Count(),
        _n_left=Count(),
    )

    #: Most features that the state may have; it can be set. Beyond this number the least recently used leave for new names, if
    #: the class lets them (`_lets_leave`); otherwise new names are ignored. Either warns once. An array with more columns is an
    #: error.
    max_features: int = MAX_FEATURES

    #: Whether features can leave.
    _lets_leave = False

    #: When each feature was last in a query, by `_clock`, which counts queries with other names than the one before; None until
    #: half of `max_features` are taken.
    _used: np.ndarray | None = None
    _clock = 0
    _n_left = 0

    _columns: Columns | None
    _n_features: int

    def _use(self, names: tuple[Hashable, ...]) -> None:
        """Note that the features with these names are in the query that is learned; half of the room is taken."""
        if not self._lets_leave or self._columns is None:
            return
        if self._used is None:
            self._used = np.zeros(self._n_features, np.int64)
        self._clock += 1
        columns = self._columns.of(names)
        self._used[columns[columns >= 0]] = self._clock

    def _let_leave(self, names: Iterable[Hashable], n: int) -> None:
        """Let at least n of the least recently used features leave, but none of those with these names, if features can leave.

        What was learned of them is lost. If the name of one comes back, it is a new feature.
        """
        # Rankers around this one keep state in its columns.
        held = any(isinstance(owner, Wrapper) and getattr(owner, "_is_ranker", False) for owner in self._lock.owners)
        if held or not self._lets_leave or self._columns is None:
            return
        used = np.zeros(self._n_features, np.int64) if self._used is None else self._used.copy()
        columns = self._columns.of(tuple(names))
        used[columns[columns >= 0]] = self._clock + 1
        others = int((used <= self._clock).sum())
        n_leaving = min(others, max(n, self.max_features // _AT_A_TIME))
        if not n_leaving:
            return
        if not self._n_left:
            warn_of_leaving(
                type(self).__name__, "features", self.max_features, "attribute max_features", "attribute n_left_features"
            )
        kept = last_used(used, len(used) - n_leaving)
        own = self._columns.names
        self._keep_only(kept)
        self._used = np.minimum(used[kept], self._clock)
        self._columns = Columns(own[j] for j in kept.tolist())
        self._n_features = len(kept)
        self._n_left += n_leaving

    def _keep_only(self, kept: np.ndarray) -> None:
        """Keep only some columns of the state, given in ascending order. Arrays are replaced, never changed in place."""
        for name, field in (schema_of(type(self)) or {}).items():
            array = getattr(self, name)
            if isinstance(field, Array) and name != "_used" and array is not None:
                for axis in field.feature_axes(self):
                    array = np.take(array, kept, axis=axis)
                setattr(self, name, array)

    @property
    def n_left_features(self) -> int:
        """How many features have left for new ones since the model was made."""
        return self._n_left

    def _record_use(self, log: list[Undo], columns: np.ndarray | None) -> None:
        """Add to a log what undoes a note on the use of some columns; None for all of them."""
        used: Any = self._used
        rows: Any = slice(None) if columns is None else columns.astype(np.intp)
        log.append(functools.partial(used.__setitem__, rows, used[rows].copy()))
