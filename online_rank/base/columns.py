"""Estimators whose state has a column for each feature."""

import abc
import functools
import warnings
import weakref
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank.base.growth import GROWTH
from online_rank.base.leaving import NOTED, Leaving
from online_rank.base.names import Columns, are_numbers, numbers
from online_rank.base.undo import Undo, record_state
from online_rank.base.unknown import Unknown, n_unknown, note_unknown
from online_rank.query import Block, SparseRows, with_features
from online_rank.query.names import plain_names
from online_rank.query.sparse import as_rows, worth_rows

#: Most cells of a dense array made of sparse documents, for steps that need one.
_MAX_CELLS = 1 << 24

#: A name with its look-up takes about 16 numbers, and weights with their averages a few.
_NUMBERS_A_FEATURE = 24

#: How many new features each estimator has ignored. It is not state, since ignored features change nothing.
_IGNORED: "weakref.WeakKeyDictionary[QueryEstimator, int]" = weakref.WeakKeyDictionary()


class QueryEstimator(Leaving):
    """A step whose state has a column for each feature, added as features appear.

    An ndarray fixes the number of features at first use. Named features extend the state when they first appear. Feature n of
    an array or of LETOR text is the same feature as the name "n": a model that learned from one form can rank the other.
    """

    #: Whether dense documents with few of the features become sparse rows, if it takes these.
    _makes_rows = True

    #: Name of an array with one row for each feature; learning from a query changes only the rows of its features.
    _touched_only: str | None = None

    def __init__(self) -> None:
        self._columns: Columns | None = None
        self._n_features = 0

    @property
    def n_features(self) -> int:
        """Number of features seen so far."""
        return self._n_features

    @property
    def feature_names(self) -> tuple[Hashable, ...] | None:
        """Names of the features in the order of the state's columns; None when features are known by position."""
        return None if self._columns is None else self._columns.names

    def _by_name(self, values: np.ndarray) -> np.ndarray | dict[Hashable, Any]:
        """Values of the features (d,), copied; as a dict for features with names."""
        return values.copy() if self._columns is None else dict(zip(self._columns.names, values.tolist(), strict=True))

    def _asks_blocks_of(self, n_features: int | None) -> bool:
        n = self._n_features
        return self._asks_blocks and self._columns is None and n > 0 and n_features in (None, n)

    @abc.abstractmethod
    def _grow(self, n_new: int) -> None:
        """Add columns for `n_new` features to the state. State arrays are replaced, never changed in place."""

    def _added(self, n_new: int) -> int:
        """About how many numbers `_grow` adds to the state, and learning then works with."""
        return _NUMBERS_A_FEATURE * n_new

    def _fits(self, block: Block) -> bool:
        """Whether the features of a block are the columns of the state, in order, in a form that it takes."""
        X, names, columns = block.X, block.names, self._columns
        if type(X) is not np.ndarray and not (type(X) is SparseRows and self.abilities.takes_sparse):
            return False
        if names is None or columns is None:
            return names is None and columns is None and X.shape[1] == self._n_features
        own = columns._names
        return names == (columns.names if own is None else own)

    def _align(self, block: Block, grow: bool = False) -> Block:
        """`block` with its features in the order of the state's columns; new features are left out, unless the state grows."""
        if block.names is None:
            block = self._with_names(block)
        if self._fits(block):
            return block
        if grow:
            self._meet(block)
        X = block.X
        if not block.n_documents:
            return with_features(block, np.empty((0, self._n_features), X.dtype), block.names)
        columns = None if self._fits(block) else self._find(block)
        if not grow and columns is not None and columns.size and columns.min() < 0 and self._n_features:
            note_unknown(self, block, columns)
        if columns is None:
            kept = isinstance(X, np.ndarray) or self.abilities.takes_sparse
            return block if kept else with_features(block, as_array(X, self), block.names)
        if not self._n_features:
            return with_features(block, np.empty((block.n_documents, 0)), block.names)
        if isinstance(X, SparseRows):
            rows = _moved(X, columns, self._n_features)
            return with_features(block, rows if self.abilities.takes_sparse else as_array(rows, self), block.names)
        if self._makes_rows and self.abilities.takes_sparse and worth_rows(X.size, len(X) * self._n_features):
            return with_features(block, _moved(as_rows(X), columns, self._n_features), block.names)
        return with_features(block, self._placed(X, columns), block.names)

    def _split_unknown(self, names: Sequence[Hashable]) -> tuple[list[Hashable], int]:
        """The features among unknown names of columns, and how many of the names are levels of known categories."""
        return [*names], 0

    @property
    def n_unknown(self) -> Unknown:
        """Numbers of unknown names and unknown levels in the queries that it ranked since it was made or loaded."""
        return n_unknown(self)

    def _find(self, block: Block) -> np.ndarray | None:
        """The column of the state for each feature of a block (`_with_names`), -1 for unknown ones; None if the columns are the
        same.
        """
        if block.names is None:
            self._require_positions(block)
            return None
        if self._columns is None and self._n_features and not are_numbers(block.names):
            raise ValueError(
                f"x names its features, but {type(self).__name__} has learned from arrays, without names: "
                'the names of its features are "1", "2", ...'
            )
        return self._columns_of(block.names)

    def _own_names(self) -> tuple[Hashable, ...]:
        """The names of all columns, in order; numbers if the state has no names."""
        return numbers(self._n_features) if self._columns is None else self._columns.names

    def _with_names(self, block: Block) -> Block:
        """The block with its features named "1", "2", ... if the state uses such names."""
        if block.names is None and self._columns and self._columns.are_numbers:
            return block._replace(names=numbers(block.X.shape[1]))
        return block

    def _columns_of(self, names: tuple[Hashable, ...]) -> np.ndarray:
        """The column of each name, int64; -1 for unknown names. In a state without names, "n" is column n - 1."""
        if self._columns is not None:
            columns = self._columns.of(names)
            if columns.size and columns.min() < 0:
                self._columns.require_one_type(names)
            return columns
        if not self._n_features:
            return np.full(len(names), -1)
        places = np.array([int(name) - 1 for name in names], dtype=np.int64)  # type: ignore[call-overload]
        places[places >= self._n_features] = -1
        return places

    def _placed(self, X: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The columns of X at their places in the state."""
        known = np.flatnonzero(columns >= 0)
        placed = np.zeros((len(X), self._n_features), X.dtype)
        if len(known) == len(columns):  # Without a copy of X.
            placed[:, columns] = X
            return placed
        placed[:, columns[known]] = X[:, known]
        return placed

    def _meet(self, block: Block) -> None:
        """Add the new features of a block `_with_names` to the state."""
        if type(self.max_features) is not int or self.max_features < 1:  # It can be set.
            arguments.integer("max_features", self.max_features, 1)
        if 2 * self._n_features >= self.max_features and block.names is not None and block.n_documents:
            self._use(block.names)
        if not (self._known or self.abilities).takes_sparse:
            require_array_room(block.X, self)
        if not block.n_documents:
            pass
        elif block.names is None:
            if not self._n_features:
                self._extend(None, block.X.shape[1])
        elif self._columns is None and self._n_features:
            if are_numbers(block.names):
                self._columns = Columns(numbers(self._n_features))
                self._extend(block.names)
        elif not self._fits(block):
            self._extend(block.names)

    def _extend(self, names: Iterable[Hashable] | None, n_new: int = 0) -> None:
        """Add columns to the state for unknown names, or `n_new` columns without names."""
        columns = self._columns
        if names is not None:
            columns = Columns() if columns is None else columns
            new = columns.missing(names)
            columns.require_one_type(new)
            new = [*plain_names(new)]
            if (beyond := self._n_features + len(new) - self.max_features) > 0:
                self._let_leave(names, beyond)
                columns = Columns() if self._columns is None else self._columns
                if (beyond := self._n_features + len(new) - self.max_features) > 0:
                    new = new[: len(new) - beyond]
                    self._ignore(beyond)
            n_new = len(new)
        if self._n_features + n_new > self.max_features:
            raise ValueError(
                f"x brings {n_new} new features to the {self._n_features} that {type(self).__name__} has; "
                f"at most {self.max_features} are accepted (attribute max_features)"
            )
        if n_new:
            if names is not None and (left := GROWTH.get()) is not None:  # Those without names are as many as a step makes.
                self._take_of(left, new)
            self._grow(n_new)
            if self._used is not None:
                self._used = np.append(self._used, np.full(n_new, self._clock))
            if names is not None and columns is not None:
                columns.add(new)
            # A query without any feature leaves it open whether features have names.
            self._columns = columns
            self._n_features += n_new

    def _take_of(self, left: list[float], new: Sequence[Hashable]) -> None:
        """Take what new features add from what is left for a request. Raises ValueError if it is not enough."""
        n_new = len(new)
        # A character takes up to four bytes.
        added = self._added(n_new) + sum(len(name) for name in new if isinstance(name, str)) // 2
        if added > left[0]:
            raise ValueError(
                f"x brings {n_new} new features to the {self._n_features} that {type(self).__name__} has: about {added} more "
                f"numbers, and this request may add {left[0]}. Let several queries bring them, or begin with a model that has "
                "learned with these features"
            )
        left[0] -= added

    def _ignore(self, n: int) -> None:
        """Count new features beyond the limit, and warn once."""
        before = _IGNORED.get(self, 0)
        _IGNORED[self] = before + n
        if not before:
            warnings.warn(
                f"{type(self).__name__} has the most features that it takes, {self.max_features} (attribute max_features): new "
                "ones are ignored from here on, and counted (attribute n_ignored_features)",
                UserWarning,
                stacklevel=2,
            )

    @property
    def n_ignored_features(self) -> int:
        """How often a new feature beyond `max_features` was ignored since the model was made or loaded."""
        return _IGNORED.get(self, 0)

    def _meet_features_of(self, others: Iterable["QueryEstimator"]) -> None:
        """Add columns for the features of other estimators, in their order."""
        met = [step for step in (self, *others) if step._n_features]
        named = any(step._columns is not None for step in met)
        if named and not all(
            step._columns is not None or are_numbers(name for s in met for name in s._own_names()) for step in met
        ):
            raise ValueError(f"some of the {type(self).__name__}s name their features and others do not")
        for step in met:
            if named:
                if self._columns is None:
                    self._columns = Columns(numbers(self._n_features))
                self._extend(step._own_names())
            elif not self._n_features:
                self._extend(None, step._n_features)
            elif step._n_features != self._n_features:
                raise ValueError(
                    f"one {type(step).__name__} has learned from {step._n_features} features, "
                    f"one before it from {self._n_features}"
                )

    def _placed_from(self, other: "QueryEstimator", values: np.ndarray) -> np.ndarray:
        """Values (n, d) of another step's columns, moved to the columns of the same features here; 0 for features unknown
        there.
        """
        if self._columns is None and values.shape[1] == self._n_features:
            return values
        return self._placed(values, self._columns_of(other._own_names()))

    def _record(self, log: list[Undo], block: Any = None) -> None:
        if self._used is not None:
            self._record_use(log, None if block is None else self._touched(block))
        name = self._touched_only
        state: Any = None if name is None or block is None else getattr(self, name)
        rows = None if state is None else self._touched(block)
        if name is None or rows is None or len(rows) >= len(state):
            record_state(log, self, self._changes_in_place, self._replaced | NOTED)
        else:
            # Other rows are not touched: new columns are appended, or the array is replaced.
            rows = rows.astype(np.intp)  # Allocated now, because undoing must not need memory.
            before = np.empty((len(rows), *state.shape[1:]))
            np.take(state, rows, axis=0, out=before, mode="clip")  # With "raise", `out` is buffered.
            record_state(log, self, replaced=NOTED | {name})
            log.append(functools.partial(state.__setitem__, rows, before))
        if self._columns is not None:
            log.append(functools.partial(self._columns.truncate, self._n_features))

    def _touched(self, block: Block) -> np.ndarray | None:
        """The columns of the state that hold the features of a block; None for all of them."""
        if block.names is not None and self._columns is not None:
            columns = self._columns.of(block.names)
            return columns[columns >= 0]
        if isinstance(block.X, SparseRows) and block.names is None and block.X.n_columns == self._n_features:
            return block.X.columns
        return None

    def _require_positions(self, block: Block) -> None:
        if self._columns:
            raise ValueError(f"x does not name its features, as {type(self).__name__} has learned them: give dicts or a frame")
        if self._n_features and block.X.shape[1] != self._n_features:
            raise ValueError(
                f"x has {block.X.shape[1]} features, but {type(self).__name__} has learned from {self._n_features}"
            )


def _moved(X: SparseRows, columns: np.ndarray, n_columns: int) -> SparseRows:
    """Sparse rows with entry (i, j) moved to column `columns[j]`, or dropped if that is negative."""
    target = columns[X.columns]
    known = target >= 0
    if known.all():
        return SparseRows(X.starts, target.astype(np.int32), X.values, n_columns)
    kept = np.append(0, np.cumsum(known))
    return SparseRows(kept[X.starts], target[known].astype(np.int32), X.values[known], n_columns)


def as_array(X: Any, step: Any) -> np.ndarray:
    """Features as a dense array, for a step that needs one. Raises ValueError if the array would be too large."""
    if not isinstance(X, SparseRows):
        return X
    require_array_room(X, step)
    return X.toarray()


def require_array_room(X: Any, step: Any) -> None:
    """Raise ValueError if sparse rows would be too large as an array."""
    if isinstance(X, SparseRows) and X.shape[0] * X.shape[1] > _MAX_CELLS:
        raise ValueError(
            f"x has {X.shape[0]} documents of {X.shape[1]} features, of which few are filled; {type(step).__name__} needs them "
            f"as an array of at most {_MAX_CELLS} numbers"
        )
