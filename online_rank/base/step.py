"""Base class of models: rankers, transformers of queries, and pipelines of these."""

import copy
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from river import base, compose

from online_rank.base import leaving
from online_rank.base.anatomy import Abilities, share_lock
from online_rank.base.lock import ModelLock
from online_rank.base.names import Columns
from online_rank.base.schema import settings_names
from online_rank.base.undo import Undo, record, record_state

#: A name with its look-up takes about 16 numbers, and weights with their averages a few.
_NUMBERS_A_FEATURE = 24
#: Kinds of arguments that a caller may change later.
_CHANGEABLE = (list, dict, set, np.ndarray)


def _keeping_copies(init: Callable[..., None]) -> Callable[..., None]:
    """A constructor after which the settings are copies of the lists, dicts, sets and arrays that were given."""

    @functools.wraps(init)
    def constructor(self: Any, *arguments: Any, **named: Any) -> None:
        init(self, *arguments, **named)
        kind: Any = type(self)
        for name in settings_names(kind):
            if isinstance(value := vars(self).get(name), _CHANGEABLE):
                vars(self)[name] = copy.copy(value)

    return constructor


class QueryStep(base.Estimator):
    """Base class of rankers, transformers of queries, and pipelines: what has a lock, declares its abilities, and is undone.

    Several threads may use one. Every public method that learns or answers holds `_lock`: a thread that ranks while another
    learns sees the state before or after a query, never in between, and learning threads take turns. A model shares one lock
    with all its parts (`join_locks`). Copies and pickles are made while holding it. A process forks when no other thread is
    within a query, so that the child has whole models whose locks are free; until then it waits.

    What a step knows of features is kept in attributes of the step, and decided by its reader, which holds no state
    (`online_rank.base.reader`).
    """

    # In slots, so that neither the lock nor the abilities, which a copy computes again, are compared, copied, pickled or undone
    # with the state in `__dict__`.
    __slots__ = ("_known", "_lock")

    _lock: Any
    _known: Abilities | None

    #: Whether it is a ranker. An attribute, because river's `isinstance` takes longer than learning from a short query.
    _is_ranker: ClassVar[bool] = False

    #: How it reads features (`Reader`); None for a step that keeps no columns of features.
    _reader: ClassVar[Any] = None

    #: The models inside, in a fixed order: those that learn and rank, not the constructor's arguments from which they were
    #: copied. A step that holds models makes this a property.
    _wrapped: Any = ()

    #: All other parts that change while it learns, such as a detector or a map. They and the models inside share the lock
    #: of the step, and are undone with it. A step that has such parts makes this a property.
    _parts: Any = ()

    #: The model inside whose scores are served; None for a step that holds no model, or combines the scores of several.
    _serving: Any = None

    #: Whether it can rank or transform a block of queries as each is asked for, and learn them in turn.
    _asks_blocks: ClassVar[bool] = False

    #: Whether what it makes of a block has the columns of the block.
    _keeps_columns: ClassVar[bool] = False

    #: Makes a pipeline of two steps; `online_rank.base.pipeline`, which knows rankers and transformers, sets it.
    _pipeline: ClassVar[Callable[[Any, Any], Any]]

    #: Whether learning changes arrays of the state in place. If it replaces them, undoing a change needs no copies.
    _changes_in_place = True

    #: Exceptions: arrays that learning replaces and never writes to.
    _replaced: ClassVar[frozenset[str]] = frozenset()

    #: How many documents it keeps; it computes their products with the documents of a query.
    _n_documents_kept = 0

    #: How many numbers of 64 bits a document has in the array that it makes, by the number of features; None for as many.
    _given: Callable[[int], int] | None = None

    #: Of a step with columns: whether features can leave, and whether they must stay for now; when each was last in a query
    #: (None until half of `max_features` are taken), by a clock that counts queries with other names than the one before; and
    #: how many have left.
    _lets_leave = False
    _holds_features: Any = False
    _used: Any = None
    _clock = 0
    _n_left = 0
    _columns: Columns | None
    _n_features: int

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls) and not issubclass(cls, compose.Pipeline):  # Whose steps it collects itself.
            cls.__init__ = _keeping_copies(cls.__init__)  # type: ignore[method-assign]

    def __new__(cls, *_arguments: Any, **_named: Any) -> Self:
        """Make the object, with its lock."""
        # Not in __init__, which is not run for copies and unpickled objects, and not in a __getattr__, which makes every
        # attribute access three times as slow.
        self = super().__new__(cls)
        self._known = None
        self._lock = ModelLock()
        self._lock.owners.add(self)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = memo[id(self)] = type(self).__new__(type(self))
        with self._lock:
            state = copy.deepcopy(self.__dict__, memo)
        made.__setstate__(state)
        return made

    def __getstate__(self) -> dict[str, Any]:
        """A copy of the current state, which can be written while the model continues to learn."""
        if self._lock.is_private:
            return self.__dict__
        made = copy.deepcopy(self)
        # The parts inside the state are copied already.
        made._lock.is_private = True
        return made.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        share_lock(self)

    @property
    def abilities(self) -> Abilities:
        """What it accepts, and what it needs from the pipeline around it."""
        # Read several times for each query, and constant.
        known = self._known
        if known is None:
            known = self._known = self._abilities()
        return known

    def _abilities(self) -> Abilities:
        """The abilities by the settings; a class lists only the abilities that it has."""
        return Abilities()

    def _asks_blocks_of(self, n_features: int | None) -> bool:
        """Whether it `_asks_blocks` of nameless arrays with `n_features` features (None: any), and is past its first query."""
        if self._reader is None:
            return self._asks_blocks
        n = self._n_features
        return self._asks_blocks and self._columns is None and n > 0 and n_features in (None, n)

    def __or__(self, other: Any) -> Any:
        """`self | other`: a pipeline in which `other` works on the output of this step."""
        return QueryStep._pipeline(self, other)

    def __ror__(self, other: Any) -> Any:
        """`other | self`: a pipeline in which this step works on the output of `other`."""
        return QueryStep._pipeline(other, self)

    def _unit_test_params(self) -> Iterator[dict[str, Any]]:  # type: ignore[override]
        # River's checks construct the class of a model again.
        parameters = inspect.signature(type(self)).parameters.values()
        yield {p.name: getattr(self, p.name) for p in parameters if p.kind is not p.VAR_POSITIONAL}

    def _record(self, log: list[Undo], block: Any = None) -> None:
        """Add to a log what undoes a change that may fail (see `record`).

        `block`, if known, is what will be learned: a step that changes little of a large state then copies only that part.
        """
        reader = self._reader
        if reader is None or (self._used is None and reader.touched_only is None):
            record_state(log, self, self._changes_in_place, self._replaced)
        else:
            self._record_columns(log, block)
        if reader is not None and self._columns is not None:
            log.append(functools.partial(self._columns.truncate, self._n_features))
        for part in (*self._wrapped, *self._parts):
            record(log, part, block)

    def _record_columns(self, log: list[Undo], block: Any) -> None:
        """As `_record`, for a step that notes the use of columns, or changes only the rows of the features of a query."""
        rows = None if block is None else self._reader.touched(self, block)
        if self._used is not None:
            leaving.record_use(self, log, rows)
        name = self._reader.touched_only
        state: Any = None if name is None else getattr(self, name)
        if rows is None or state is None or len(rows) >= len(state):
            record_state(log, self, self._changes_in_place, self._replaced | leaving.NOTED)
            return
        # Other rows are not touched: new columns are appended, or the array is replaced.
        rows = rows.astype(np.intp)  # Allocated now, because undoing must not need memory.
        before = np.empty((len(rows), *state.shape[1:]))
        np.take(state, rows, axis=0, out=before, mode="clip")  # With "raise", `out` is buffered.
        record_state(log, self, replaced=leaving.NOTED | {name})
        log.append(functools.partial(state.__setitem__, rows, before))

    def _added(self, n_new: int) -> int:
        """About how many numbers a step with columns adds to its state for new features, and learning then works with."""
        return _NUMBERS_A_FEATURE * n_new

    def _extended(self, n_before: int) -> None:
        """Called after a step got columns of new features, the first of which is number `n_before`."""

    def _keep_only(self, kept: np.ndarray) -> None:
        """Keep only some columns of the state, given in ascending order. Arrays are replaced, never changed in place."""
        leaving.keep_columns(self, kept)

    def _cells(self, n_documents: int, n_features: int) -> int:
        """How many numbers the largest array has that it makes of a query of this size."""
        return 0 if self.abilities.takes_sparse else n_documents * n_features

    def _fork(self, number: int) -> None:
        """Prepare to learn part `number` of a stream while copies learn the others (`online_rank.distributed.fork`)."""

    def _shed(self, base: Any, of: int) -> None:
        """Drop what `_mix` of `of` shards, of which this is one that has learned, takes from their `base` alone."""

    def _mix(self, shards: Sequence[Any], base: Any) -> None:
        """Combine the state of `shards` into this step, a copy of `base`: the state of each shard before it learned its part.

        Parameters
        ----------
        shards, base
            Steps with the same settings.
        """
        raise TypeError(f"{type(self).__name__} has no rule for mixing what several machines have learned")


def require_query_step(step: Any) -> None:
    """Raise TypeError, with advice, unless `step` works on whole queries."""
    if isinstance(step, QueryStep | compose.FuncTransformer):
        return
    name = type(step).__name__
    if hasattr(step, "transform_one"):
        raise TypeError(
            f"{name} transforms one document, but the steps before a ranker get whole queries: "
            f"wrap it, ForEachDocument({name}(...)), from online_rank"
        )
    raise TypeError(
        f"{name} is neither a ranker nor a transformer of queries; PointwiseRanker({name}(...)) makes a ranker of a "
        "classifier or regressor, PairwiseRanker of a classifier"
        if isinstance(step, base.Estimator)
        else f"{step!r} is neither a ranker nor a transformer of queries"
    )
