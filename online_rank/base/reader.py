"""Reads queries: once, in the form that a model takes, and then in the columns of the features that a step knows."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank.base import leaving
from online_rank.base.growth import GROWTH
from online_rank.base.names import Columns, are_numbers, numbers
from online_rank.base.schema import Array, Count, Field, Integer, Names
from online_rank.base.unknown import note_unknown
from online_rank.query import Block, SparseRows, read_query, with_features
from online_rank.query.forms import from_dicts
from online_rank.query.names import plain_names
from online_rank.query.sparse import as_rows, worth_rows

#: Most cells of a dense array made of sparse documents, for steps that need one.
_MAX_CELLS = 1 << 24

#: The state of a step with columns: its number of features, their names (None where they are known by their position), and,
#: from half of `max_features` on, when each was last in a query, by a clock that counts queries with other names.
STATE: dict[str, Field] = {
    "_n_features": Integer(0),
    "_columns": Names(),
    "max_features": Integer(1),
    "_used": Array("d", dtype="int64", low=0, optional=True),
    "_clock": Count(),
    "_n_left": Count(),
}


def read_for(model: Any, x: Any, y: Any = None, w: Any = None, *, at: Any = None, t: Any = None, **named: Any) -> Block:
    """Read one query, or several, for a model.

    Parameters
    ----------
    model
        A step, or a pipeline.
    x, y, w, at, named
        The arguments of `online_rank.query.read_query`, without `documents`.
    t
        What river calls `at`. A time that nothing in the model depends on is ignored.

    Raises
    ------
    TypeError, ValueError
        Bad input; or there is a context, which no step of the model looks at.
    """
    able = model._known or model.abilities
    if t is not None:
        if at is not None:
            raise TypeError("t is another name of at: give one of the two")
        at = t
    block = read_query(x, y, w, at=at, documents=able.takes_documents, **named)
    if type(block.X) is list and not able.takes_documents:
        block = as_numbers(block)
    return only_taken(model, block) if block.context is not None or block.at is not None else block


def as_numbers(block: Block) -> Block:
    """A block of documents, read for a model that takes them as they are, for one that takes numbers.

    Raises TypeError or ValueError if a feature is not a number.
    """
    read = from_dicts(block.X, block.ids)
    return with_features(block, read.X, read.names)


def only_taken(model: Any, block: Block) -> Block:
    """A block without its time if nothing in the model depends on times: what yields times may teach every model.

    Raises TypeError for a context that no step of the model uses.
    """
    if block.context is not None:
        require_taken(model, block)
    return block._replace(at=None) if block.at is not None and not model.abilities.takes_time else block


def require_taken(model: Any, block: Block) -> None:
    """Raise TypeError for a context that no step of the model uses."""
    if block.context is not None and not model.abilities.takes_context:
        raise TypeError(
            f"context: no step of {type(model).__name__} uses the context of a query; put one in front, as in "
            'CrossFeatures("user") | ranker'
        )


def no_places(step: Any, m: int, dtype: Any) -> np.ndarray:
    """The columns of a step for m documents that have none of its features: zeros."""
    return np.zeros((m, step._n_features), dtype)


class Reader:
    """How steps with a column for each feature read queries. It has settings alone: what a step knows is in the step.

    An ndarray fixes the number of features at first use. Named features extend the state when they first appear. Feature n of
    an array or of LETOR text is the same feature as the name "n": a model that learned from one form can rank the other.

    A step has a hook `_grow(n_new)`, which adds columns for new features to its state, `_added(n_new)`, about how many numbers
    that takes, and `_keep_only(kept)`, which lets features leave.

    Parameters
    ----------
    makes_rows
        Whether dense documents with few of the features become sparse rows, if the step takes these.
    touched_only
        Name of an array with one row for each feature; learning from a query changes only the rows of its features.
    blank
        Makes the columns of documents that have none of the features of a step.
    """

    #: If columns are not features alone, a function (step, names): the features among unknown names of columns, and how many of
    #: the names are levels of known categories.
    features_of: Any = None

    def __init__(
        self,
        *,
        makes_rows: bool = True,
        touched_only: str | None = None,
        blank: Callable[[Any, int, Any], np.ndarray] = no_places,
    ) -> None:
        self.makes_rows = makes_rows
        self.touched_only = touched_only
        self.blank = blank

    def fits(self, step: Any, block: Block) -> bool:
        """Whether the features of a block are the columns of the state, in order, in a form that the step takes."""
        X, names, columns = block.X, block.names, step._columns
        if type(X) is not np.ndarray and not (type(X) is SparseRows and step.abilities.takes_sparse):
            return False
        if names is None or columns is None:
            return names is None and columns is None and X.shape[1] == step._n_features
        own = columns._names
        return names == (columns.names if own is None else own)

    def align(self, step: Any, block: Block, grow: bool = False) -> Block:
        """`block` with its features in the order of the state's columns; new features are left out, unless the state grows."""
        if block.names is None:
            block = with_names(step, block)
        if self.fits(step, block):
            return block
        if grow:
            self.meet(step, block)
        X = block.X
        if not block.n_documents:
            return with_features(block, np.empty((0, step._n_features), X.dtype), block.names)
        columns = None if self.fits(step, block) else find(step, block)
        takes_sparse = step.abilities.takes_sparse
        if not grow and columns is not None and columns.size and columns.min() < 0 and step._n_features:
            note_unknown(step, block, columns, own_names)
        if columns is None:
            kept = isinstance(X, np.ndarray) or takes_sparse
            return block if kept else with_features(block, as_array(X, step), block.names)
        if not step._n_features:
            return with_features(block, np.empty((block.n_documents, 0)), block.names)
        if isinstance(X, SparseRows):
            rows = _moved(X, columns, step._n_features)
            return with_features(block, rows if takes_sparse else as_array(rows, step), block.names)
        if self.makes_rows and takes_sparse and worth_rows(X.size, len(X) * step._n_features):
            return with_features(block, _moved(as_rows(X), columns, step._n_features), block.names)
        return with_features(block, self.placed(step, X, columns), block.names)

    def placed(self, step: Any, X: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The columns of X at their places in the state."""
        placed = self.blank(step, len(X), X.dtype)
        known = np.flatnonzero(columns >= 0)
        if len(known) == len(columns):  # Without a copy of X.
            placed[:, columns] = X
            return placed
        placed[:, columns[known]] = X[:, known]
        return placed

    def placed_from(self, step: Any, other: Any, values: np.ndarray) -> np.ndarray:
        """Values (n, d) of another step's columns, moved to the columns of the same features here; 0 for features unknown
        there.
        """
        if step._columns is None and values.shape[1] == step._n_features:
            return values
        return self.placed(step, values, columns_of(step, own_names(other)))

    def meet(self, step: Any, block: Block) -> None:
        """Add the new features of a block `with_names` to the state."""
        if type(step.max_features) is not int or step.max_features < 1:  # It can be set.
            arguments.integer("max_features", step.max_features, 1)
        if 2 * step._n_features >= step.max_features and block.names is not None and block.n_documents:
            leaving.use(step, block.names)
        if not (step._known or step.abilities).takes_sparse:
            require_array_room(block.X, step)
        if not block.n_documents:
            pass
        elif block.names is None:
            if not step._n_features:
                self.extend(step, None, block.X.shape[1])
        elif step._columns is None and step._n_features:
            if are_numbers(block.names):
                step._columns = Columns(numbers(step._n_features))
                self.extend(step, block.names)
        elif not self.fits(step, block):
            self.extend(step, block.names)

    def extend(self, step: Any, names: Iterable[Hashable] | None, n_new: int = 0) -> None:
        """Add columns to the state for unknown names, or `n_new` columns without names."""
        before, columns = step._n_features, step._columns
        if names is not None:
            columns = Columns() if columns is None else columns
            new = columns.missing(names)
            columns.require_one_type(new)
            new = [*plain_names(new)]
            if (beyond := step._n_features + len(new) - step.max_features) > 0:
                leaving.make_room(step, names, beyond)
                columns = Columns() if step._columns is None else step._columns
                if (beyond := step._n_features + len(new) - step.max_features) > 0:
                    new = new[: len(new) - beyond]
                    leaving.ignore(step, beyond)
            n_new = len(new)
        if step._n_features + n_new > step.max_features:
            raise ValueError(
                f"x brings {n_new} new features to the {step._n_features} that {type(step).__name__} has; "
                f"at most {step.max_features} are accepted (attribute max_features)"
            )
        if n_new:
            if names is not None and (left := GROWTH.get()) is not None:  # Those without names are as many as a step makes.
                leaving.take_of(step, left, new)
            step._grow(n_new)
            if step._used is not None:
                step._used = np.append(step._used, np.full(n_new, step._clock))
            if names is not None and columns is not None:
                columns.add(new)
            # A query without any feature leaves it open whether features have names.
            step._columns = columns
            step._n_features += n_new
        step._extended(before)

    def meet_features_of(self, step: Any, others: Iterable[Any]) -> None:
        """Add columns for the features of other steps, in their order."""
        met = [each for each in (step, *others) if each._n_features]
        named = any(each._columns is not None for each in met)
        if named and not all(
            each._columns is not None or are_numbers(name for s in met for name in own_names(s)) for each in met
        ):
            raise ValueError(f"some of the {type(step).__name__}s name their features and others do not")
        for each in met:
            if named:
                if step._columns is None:
                    step._columns = Columns(numbers(step._n_features))
                self.extend(step, own_names(each))
            elif not step._n_features:
                self.extend(step, None, each._n_features)
            elif each._n_features != step._n_features:
                raise ValueError(
                    f"one {type(each).__name__} has learned from {each._n_features} features, "
                    f"one before it from {step._n_features}"
                )

    def touched(self, step: Any, block: Block) -> np.ndarray | None:
        """The columns of the state that hold the features of a block; None for all of them."""
        if block.names is not None and step._columns is not None:
            columns = step._columns.of(block.names)
            return columns[columns >= 0]
        if isinstance(block.X, SparseRows) and block.names is None and block.X.n_columns == step._n_features:
            return block.X.columns
        return None


def own_names(step: Any) -> tuple[Hashable, ...]:
    """The names of all columns, in order; numbers if the state has no names."""
    return numbers(step._n_features) if step._columns is None else step._columns.names


def by_name(step: Any, values: np.ndarray) -> np.ndarray | dict[Hashable, Any]:
    """Values of the features (d,), copied; as a dict for features with names."""
    return values.copy() if step._columns is None else dict(zip(step._columns.names, values.tolist(), strict=True))


def with_names(step: Any, block: Block) -> Block:
    """The block with its features named "1", "2", ... if the state uses such names."""
    if block.names is None and step._columns and step._columns.are_numbers:
        return block._replace(names=numbers(block.X.shape[1]))
    return block


def find(step: Any, block: Block) -> np.ndarray | None:
    """The column of the state for each feature of a block (`with_names`), -1 for unknown ones; None if the columns are the
    same.
    """
    if block.names is None:
        if step._columns:
            raise ValueError(f"x does not name its features, as {type(step).__name__} has learned them: give dicts or a frame")
        if step._n_features and block.X.shape[1] != step._n_features:
            raise ValueError(
                f"x has {block.X.shape[1]} features, but {type(step).__name__} has learned from {step._n_features}"
            )
        return None
    if step._columns is None and step._n_features and not are_numbers(block.names):
        raise ValueError(
            f"x names its features, but {type(step).__name__} has learned from arrays, without names: "
            'the names of its features are "1", "2", ...'
        )
    return columns_of(step, block.names)


def columns_of(step: Any, names: tuple[Hashable, ...]) -> np.ndarray:
    """The column of each name, int64; -1 for unknown names. In a state without names, "n" is column n - 1."""
    if step._columns is not None:
        columns: np.ndarray = step._columns.of(names)
        if columns.size and columns.min() < 0:
            step._columns.require_one_type(names)
        return columns
    if not step._n_features:
        return np.full(len(names), -1)
    places = np.array([int(name) - 1 for name in names], dtype=np.int64)  # type: ignore[call-overload]
    places[places >= step._n_features] = -1
    return places


def _n_features(step: Any) -> int:
    """Number of features seen so far."""
    return int(step._n_features)


def _feature_names(step: Any) -> tuple[Hashable, ...] | None:
    """Names of the features in the order of the state's columns; None when features are known by position."""
    return None if step._columns is None else step._columns.names


#: Properties of every class whose steps have columns, which gives them these names.
n_features, feature_names = property(_n_features), property(_feature_names)


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
