"""Base class of pipeline steps."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from river import base, compose

from online_rank.base.anatomy import Able
from online_rank.base.undo import Undo, record_state


class QueryStep(Able, base.Estimator):
    """Base class of pipeline steps: rankers and transformers of queries."""

    #: Whether it is a ranker. An attribute, because river's `isinstance` takes longer than learning from a short query.
    _is_ranker: ClassVar[bool] = False

    #: Whether it can rank or transform a block of queries as each is asked for, and learn them in turn.
    _asks_blocks: ClassVar[bool] = False

    def _asks_blocks_of(self, n_features: int | None) -> bool:
        """Whether it `_asks_blocks` of nameless arrays with `n_features` features (None: any), and is past its first query."""
        return self._asks_blocks

    #: Makes a pipeline of two steps; `online_rank.base.pipeline`, which knows rankers and transformers, sets it.
    _pipeline: ClassVar[Callable[[Any, Any], Any]]

    def __or__(self, other: Any) -> Any:
        """`self | other`: a pipeline in which `other` works on the output of this step."""
        return QueryStep._pipeline(self, other)

    def __ror__(self, other: Any) -> Any:
        """`other | self`: a pipeline in which this step works on the output of `other`."""
        return QueryStep._pipeline(other, self)

    #: Whether learning changes arrays of the state in place. If it replaces them, undoing a change needs no copies.
    _changes_in_place = True

    #: Exceptions: arrays that learning replaces and never writes to.
    _replaced: ClassVar[frozenset[str]] = frozenset()

    def _unit_test_params(self) -> Iterator[dict[str, Any]]:  # type: ignore[override]
        # River's checks construct the class of a model again.
        yield {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def _record(self, log: list[Undo], block: Any = None) -> None:
        """Add to a log what undoes a change that may fail (see `record`).

        `block`, if known, is what will be learned: a step that changes little of a large state then copies only that part.
        """
        record_state(log, self, self._changes_in_place, self._replaced)

    #: How many documents it keeps; it computes their products with the documents of a query.
    _n_documents_kept = 0

    @property
    def _bytes_of_queries(self) -> int:
        """How many bytes it keeps of recent queries, of which it keeps as many as fit into a fixed number of bytes."""
        return 0

    #: How many numbers of 64 bits a document has in the array that it makes, by the number of features; None for as many.
    _given: Callable[[int], int] | None = None

    def _cells(self, n_documents: int, n_features: int) -> int:
        """How many numbers the largest array has that it makes of a query of this size."""
        return 0 if self.abilities.takes_sparse else n_documents * n_features

    def _fork(self) -> None:
        """Prepare to learn one part of a stream while copies learn the other parts (`online_rank.distributed.fork`)."""

    def _meet_features_of(self, shards: Sequence[Any]) -> None:
        """Add columns for the features of other steps, before they are mixed."""

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
