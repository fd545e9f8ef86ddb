"""The base class of rankers."""

import functools
import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from online_rank._kernels.arrays import all_finite
from online_rank.arguments import integer
from online_rank.base import calls, leaving, unknown
from online_rank.base import reader as columns
from online_rank.base.anatomy import learned_measure
from online_rank.base.explain import Split
from online_rank.base.form import Head, Layered
from online_rank.base.rounds import LastRound, Round, largest_norm
from online_rank.base.schema import Array, Count, Schema, schema_of
from online_rank.base.step import QueryStep
from online_rank.base.undo import all_or_nothing, record, record_state
from online_rank.limits import MAX_FEATURES
from online_rank.query import (
    MAX_GRADE,
    Block,
    answer_in_kind,
    document_name,
    plain_array,
    plain_query,
    require_finite,
    require_grades,
)

#: Squares and differences of features up to this size stay finite.
_LARGEST = 1e150

#: The round of a query that is not learned yet.
_UNWRITTEN = np.full((1, len(Round._fields)), np.nan)

_BEGINS = "{0} cannot begin with {1}: linear rankers do, as PerceptronRanker.{2}, and hybrid(...) blends one with the rule"


class Ranker(QueryStep):
    """A model that ranks the documents of a query and learns from their relevance grades, one query at a time.

    A ranker of your own is a subclass with three hooks in plain Python: `grow`, `score` and `learn`. Everything else is
    inherited: forms of queries, names of features, blocks, weights, refused queries that change nothing, `last_round`, copies,
    pipelines, services, and the losses in a `LossTracker`. Arrays are checked before `learn` gets them.

    The state of a subclass is declared in `_schema` (`online_rank.base.schema`): `Schema(_weights=Array("d"))` is an array with
    a number for each feature. Arguments of the constructor are attributes of the same names, and need an annotation; with an
    argument `measure`, `last_round` reports the loss of that measure, and otherwise of NDCG@10. Such a class can be saved once
    it is registered (`online_rank.register`). `check_ranker` reports what is still wrong.

    Rankers of this library override what calls the hooks: `_grow`, `_score` and `_learn`, a kernel for blocks of queries, or
    `_learn_query`, for one.

    Examples
    --------
    >>> import numpy as np
    >>> from online_rank import Ranker
    >>> from online_rank.base.schema import Array, Schema
    >>> class Rocchio(Ranker):
    ...     _schema = Schema(_weights=Array("d"))
    ...     def __init__(self, rate: float = 0.1):
    ...         super().__init__()
    ...         self.rate = rate
    ...         self._weights = np.zeros(0)
    ...     def grow(self, n_new):
    ...         self._weights = np.append(self._weights, np.zeros(n_new))
    ...     def score(self, X):
    ...         return (X * self._weights).sum(axis=1)
    ...     def learn(self, X, y, w):
    ...         self._weights += self.rate * w * ((y - y.mean())[:, None] * X).sum(axis=0)
    >>> model = Rocchio()
    >>> model.learn_one({"a": {"clicks": 3.0}, "b": {"clicks": 1.0}}, {"a": 0, "b": 2})
    >>> model.rank_one({"c": {"clicks": 2.0}, "d": {"clicks": 0.0}})
    ['d', 'c']
    >>> model.last_round.loss
    0.369...
    """

    _is_ranker = True
    _asks_blocks = True
    _supervised = True

    #: Whether `_learn` of one query is a single kernel, which writes the round last: an interrupt comes before it or after it.
    #: A class that defines `_learn` does not inherit it.
    _learns_atomically: bool = False

    #: Whether `_learn` of one query changes parts and replaces arrays, and then ends in such a kernel. Its reader then has a
    #: method `with_known(step, block)`: it gives a block that does not fit as arrays with the columns of the state, and true,
    #: if that changes nothing in the step; otherwise the block as it was, and false: features are new, or their use is counted.
    _ends_in_kernel: Any = False
    #: Other parts of its state whose arrays only that kernel changes in place.
    _in_kernel: Any = ()

    #: Of a ranker that takes vectors, a method (x, y, context): it learns a query of weight 1 that needs no conversion in a
    #: single kernel, and returns false, after which nothing has changed, for any other.
    _learn_plain: Any = None

    #: Public methods of a subclass that are called while the lock is held, and do not take it.
    _hooks: frozenset[str] = frozenset({"grow", "score", "learn"})

    _schema = Schema(**columns.STATE, _last_round=LastRound(), _n_shown=Count(), _n_queries=Count())
    _reader = columns.Reader()

    learn_many, predict_one, predict_many = calls.learn_many, calls.predict_one, calls.predict_many
    rank_one, explain_one, show_one = calls.rank_query, calls.explain_one, calls.show_one

    n_features, feature_names = columns.n_features, columns.feature_names
    n_left_features, n_ignored_features = leaving.n_left_features, leaving.n_ignored_features
    n_unknown = property(unknown.n_unknown)

    #: Most features that the state may have; it can be set. Beyond this number the least recently used leave for new names, if
    #: they can (`_lets_leave`); otherwise new names are ignored. Either warns once. An array with more columns is an error.
    max_features: int = MAX_FEATURES

    #: Raises ValueError that names the first value of a block that is no number for this ranker.
    _require_values: Any = staticmethod(require_finite)

    #: Of a blend, a function without arguments: its models and their weights, if its score is the weighted sum of their scores,
    #: or None.
    _blended: Any = None

    #: Weights of queries above this are refused.
    _heaviest = math.inf

    #: Number of queries learned, for rankers that count them.
    _n_queries = 0

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "_learn" in vars(cls) and "_learns_atomically" not in vars(cls):
            cls._learns_atomically = False

    def __init__(self) -> None:
        self._columns = None
        self._n_features = 0
        #: A row (1, fields of Round) of this ranker alone: `learn_one` writes the next round over it.
        self._last_round: np.ndarray | None = None
        self._n_shown = 0

    @classmethod
    def from_weights(cls, *args: Any, **parameters: Any) -> Self:
        """Refused: this ranker has no weights of features to begin with. Raises TypeError."""
        raise TypeError(_BEGINS.format(cls.__name__, "given weights", "from_weights"))

    @classmethod
    def from_rule(cls, *args: Any, **parameters: Any) -> Self:
        """Refused: this ranker cannot begin as a fusion rule. Raises TypeError."""
        raise TypeError(_BEGINS.format(cls.__name__, "a rule", "from_rule"))

    def grow(self, n_new: int) -> None:
        """Hook: add `n_new` features to the state, after those that it has.

        Parameters
        ----------
        n_new
            How many. Arrays are replaced by new ones, with 0 for features that nothing is known of.
        """
        raise NotImplementedError(f"{type(self).__name__} has no hook grow(self, n_new): new features of the state")

    def score(self, X: np.ndarray) -> np.ndarray:
        """Hook: the scores of documents.

        Parameters
        ----------
        X
            (m, d) float64, contiguous by rows; d is the number of features that `grow` has added so far.

        Returns
        -------
        (m,) numbers; a higher score ranks earlier. A score depends on its document alone, to the last bit, as
        `(X * w).sum(axis=1)` does, and `X @ w` does not.
        """
        raise NotImplementedError(f"{type(self).__name__} has no hook score(self, X): the scores of documents (m, d)")

    def learn(self, X: np.ndarray, y: np.ndarray, w: float) -> None:
        """Hook: learn one query, of two documents or more whose grades are not all equal.

        Parameters
        ----------
        X
            (m, d) float64 features, finite and read-only.
        y
            (m,) int64 grades >= 0, read-only.
        w
            The weight of the query, finite and > 0, by which the update is multiplied.
        """
        raise NotImplementedError(f"{type(self).__name__} has no hook learn(self, X, y, w): a query (m, d), (m,)")

    def _grow(self, n_new: int) -> None:
        """Add columns for `n_new` features to the state. State arrays are replaced, never changed in place."""
        self.grow(n_new)

    def _score(self, X: Any) -> np.ndarray:
        """Scores of documents (n, d), as float64 (n,), by the weights that serve. A score depends on its document alone."""
        with np.errstate(all="ignore"):  # Scores that are not finite are refused.
            scores = np.asarray(self.score(np.ascontiguousarray(X, dtype=np.float64)), dtype=np.float64)
        if scores.shape != (len(X),):
            raise ValueError(
                f"{type(self).__name__}.score returned {scores.shape} for {len(X)} documents; it must be ({len(X)},)"
            )
        return scores

    def _head(self) -> Head | Layered:
        """The closed form of the scores. Raises TypeError, with the reason, for scores without one."""
        raise TypeError("its scores have no closed form that engines can compute")

    def _linear_weights(self, columns: Any = slice(None)) -> np.ndarray | None:
        """The weights by which it ranks, of some columns, if a score is a weighted sum of the features; otherwise None."""
        return None

    def _split(self, block: Any, a: int, b: int) -> Split | None:
        """The difference between the scores of documents a and b of a query, for a ranker that splits it; otherwise None."""
        return None

    def _score_queries(self, X: Any, offsets: np.ndarray) -> np.ndarray:
        """As `_score`, for queries: for rankers whose score of a document depends on the other documents of its query."""
        return self._score(X)

    def _learn(self, block: Block, rounds: np.ndarray) -> int:
        """Learn from queries and write one row of `rounds` (n, len(Round._fields)) for each.

        Returns the number of queries learned. It is smaller than the number given if a query has bad values or would make the
        state non-finite: learning stopped before that query.
        """
        for t, query in enumerate(block.each()):
            if not self._learn_query(query, rounds[t : t + 1]):
                return t
        return len(block.w)

    def _learn_query(self, query: Block, row: np.ndarray) -> bool:
        """Learn one query, and write its round to `row` (1, fields). Returns False for a query with bad values."""
        X, y, w = np.array(query.X, dtype=np.float64, order="C"), query.y.copy(), float(query.w[0])
        if not ((np.abs(X) <= _LARGEST).all() and ((y >= 0) & (y <= MAX_GRADE)).all() and 0.0 <= w <= _LARGEST):
            return False
        scores = self._score(X)
        if not np.isfinite(scores).all():
            return False
        skipped = len(y) < 2 or bool(y.min() == y.max())
        loss = 0.0 if skipped else learned_measure(self).loss(scores, y, ties="pessimistic")
        if not skipped and w > 0.0:
            X.flags.writeable = y.flags.writeable = False
            with np.errstate(all="ignore"):
                self.learn(X, y, w)
            fields = (schema_of(type(self)) or {}).items()
            arrays = [getattr(self, name) for name, field in fields if isinstance(field, Array) and field.finite]
            if not all(np.isfinite(array).all() for array in arrays if array is not None):
                return False
        self._n_queries += 1
        row[:] = loss, np.nan, 0.0, 0.0, 0.0, w, len(y), largest_norm(X), 0.0, skipped
        return True

    def _answer_in_turn(self, asked: Block, block: Block, rounds: np.ndarray, answers: np.ndarray) -> int:
        """Score and learn queries in turn, and write one row of `rounds` (q, fields) for each; returns how many.

        `block` is as for `_learn`, with grades; `asked` has its queries as transformers give them before they learn. What is
        answered then goes to `answers` (n,).
        """
        measures = asked is not block and self.abilities.measures_answers
        alone = len(block.w) == 1
        for t in range(len(block.w)):
            before, query = (asked, block) if alone else (asked.queries(t, t + 1), block.queries(t, t + 1))
            scores = answers[block.offsets[t] : block.offsets[t + 1]]
            if len(scores):
                scores[:] = self._score_queries(before.X, before.offsets)
            if not self._learn(query._replace(answered=scores) if measures else query, rounds[t : t + 1]):
                return t
        return len(block.w)

    def _takes_in_turn(self, block: Block) -> bool:
        """Whether it can rank and learn a block of graded queries in turn (`_ask_and_learn`)."""
        return bool(self._reader.fits(self, block))

    def _ask_and_learn(self, asked: Block, block: Block) -> tuple[np.ndarray, np.ndarray]:
        """Score and learn queries that fit, one after the other; the caller undoes what is learned if it raises.

        `asked` has the queries of `block` as transformers give them before they learn. Returns the scores (n,) that each query
        had before it was learned, and the rounds (q, fields).
        """
        answers, rounds = np.empty(block.n_documents), np.empty((len(block.w), len(Round._fields)))
        learned = self._answer_in_turn(asked, block, rounds, answers)
        if learned < len(block.w):
            raise self._rejection(block.queries(learned, learned + 1))
        self._require_scores(answers, asked)
        self._last_round = rounds[-1:].copy()
        return answers, rounds

    @property
    def n_shown(self) -> int:
        """How many rankings `show_one` has drawn; the next draw depends on this count and on the policy's seed."""
        return self._n_shown

    @n_shown.setter
    def n_shown(self, n: int) -> None:
        """Continue from draw number n, an integer >= 0. Raises TypeError or ValueError for anything else."""
        integer("n_shown", n, 0)
        with self._lock:
            self._n_shown = n

    @property
    def _own_policy(self) -> Any:
        """The policy that `show_one` draws rankings with, or None."""
        return None

    def _confidence(self) -> float:
        """How far a policy should believe the scores, from 0 to 1."""
        return 1.0

    @property
    def last_round(self) -> Round | None:
        """The `Round` of the last query learned; None before the first."""
        with self._lock:
            return None if self._last_round is None else Round.from_row(self._last_round[0])

    def learn_one(  # noqa: D102 (copied below)
        self, x: Any, y: Any = None, w: float = 1.0, *, served: Any = None, context: Any = None, at: Any = None, t: Any = None
    ) -> None:
        with self._lock:
            last = self._last_round
            alone = served is None and at is None and t is None and self._columns is None
            # A single kernel is never interrupted, and leaves all as it was where it refuses.
            if alone and last is not None and type(w) is float and w == 1.0:
                if context is not None:
                    if self._learn_plain is not None and self._learn_plain(x, y, context):
                        return
                elif self._learns_atomically:
                    block = plain_query(x, y, self._n_features)
                    if block is not None and self._learn(block, last):
                        return
            calls.learn_one(self, x, y, w, served=served, context=context, at=at, t=t)

    learn_one.__doc__ = calls.learn_one.__doc__

    def _answer(self, x: Any, context: Any, at: Any) -> tuple[np.ndarray, Block | None]:
        X = plain_array(x, self._n_features) if self._columns is None and context is at is None else None
        if X is not None:
            with self._lock:
                scores = self._score(X)
            if all_finite(scores):
                return scores, None
        return calls.answer(self, x, context, at)

    @property
    def _n_unnamed(self) -> int:
        return self._n_features if self._columns is None else 0

    @property
    def keep(self) -> float | None:
        """The budget of exploring: the least share of the greedy list's DCG@k that users of `show_one` see in expectation.

        None without a policy, or for one without a budget (`PlackettLuce` without `keep`).
        """
        policy = self._own_policy
        return None if policy is None else policy.keep

    def _show(self, query: Block, asked: Block, policy: Any, **arranged: Any) -> Any:
        policy = self._own_policy if policy is None else policy
        if policy is None:
            raise TypeError(f"{type(self).__name__} has no policy: show_one(x, policy=PlackettLuce(k=10))")
        shown = policy.show(answer_in_kind(self._score_all(query), asked), self._n_shown, self._confidence(), **arranged)
        self._n_shown += 1
        return shown

    def _score_all(self, block: Block, score: Callable[[Any, np.ndarray], np.ndarray] | None = None) -> np.ndarray:
        """The scores of a block, finite; float64 (n,). `score` takes the place of `_score_queries`."""
        X = block.X if self._reader.fits(self, block) else self._reader.align(self, block).X
        if not X.shape[0]:
            return np.empty(0)
        if not self._n_features:
            self._require_values(block)
            return np.zeros(block.n_documents)
        scores = (score or self._score_queries)(X, block.offsets)
        # NaN, infinity and overflow always make a score non-finite, so this needs m tests rather than m d.
        self._require_scores(scores, block)
        return scores

    def _require_scores(self, scores: np.ndarray, block: Block) -> None:
        """Raise ValueError that names the first document of a block whose score (n,) is not finite."""
        if not all_finite(scores):
            self._require_values(block)
            i = int(np.flatnonzero(~np.isfinite(scores))[0])
            raise ValueError(f"x: the score of {document_name(i, block.ids)} is not finite; scale the features")

    def _learn_block(self, block: Block, changes: all_or_nothing | None = None) -> None:
        """Learn all queries of a block: align them, learn them, and keep the last round; raise an error about a bad one."""
        n_queries = len(block.w)
        if block.y is None:
            raise TypeError("y is of type NoneType; grades are a sequence of integers, one a document")
        if not n_queries:
            return
        if n_queries > 1 and self._is_learned_one_by_one(block):
            if changes is not None:
                changes.include(self, block)
            for query in block.each():
                self._learn_block(query)
            return
        able = self._known or self.abilities
        if block.served is not None and not able.takes_served:
            raise ValueError(f"served: {type(self).__name__} cannot learn from scores that were served, only from its own")
        if isinstance(block.y, tuple) and not able.takes_clicks:
            raise TypeError(f"{type(self).__name__} learns from grades, not from {type(block.y[0]).__name__}: SwapRanker does")
        fits = self._reader.fits(self, block)
        alone = changes is not None and n_queries == 1 and not changes.goes_on
        ends = alone and self._ends_in_kernel
        if ends and not fits:
            reader: Any = self._reader
            block, fits = reader.with_known(self, block)
        alone = alone and fits
        replaces = alone and ends
        if changes is not None and alone and (replaces or self._learns_atomically):
            # The kernel makes the last change, and leaves all as it was where it refuses.
            if replaces:
                for own in (self, *self._in_kernel):
                    record_state(changes.log, own, copied=False)
                for part in self._parts:
                    record(changes.log, part, block)
            else:
                changes.undo_by(functools.partial(setattr, self, "_last_round", self._last_round))
            self._last_round = row = _UNWRITTEN.copy()
            changes.until_written(row)
            if not self._learn(block, row):
                raise self._rejection(block)
            return
        if changes is not None:
            changes.include(self, block)
        rounds = np.empty((n_queries, len(Round._fields)))
        learned = self._learn(block if fits else self._reader.align(self, block, grow=True), rounds)
        if learned < n_queries:
            raise self._rejection(block.queries(learned, learned + 1))
        # A copy: a view would keep the rounds of the whole block alive.
        self._last_round = rounds if n_queries == 1 else rounds[-1:].copy()

    def _is_learned_one_by_one(self, _block: Block) -> bool:
        """Whether how a query of a block is read depends on what the queries before it taught."""
        return False

    def _rejection(self, query: Block) -> ValueError:
        """The error for a query that was not learned; raised here if the query has a bad value."""
        w = query.w[0]
        if not (np.isfinite(w) and w >= 0):
            return ValueError(f"w is {w}; the weight of a query is a finite number >= 0")
        if w > self._heaviest:
            kind = type(self).__name__
            return ValueError(f"w is {w:g}; the weight of a query is at most {self._heaviest:g} for {kind}")
        if isinstance(query.y, np.ndarray):
            require_grades(query.y, query.ids)
        self._require_values(query)
        if not query.n_documents:
            return ValueError(f"a query without documents, of weight {w}, would make {type(self).__name__} non-finite")
        name = document_name(0, query.ids)
        return ValueError(f"the query of {name} would make {type(self).__name__} non-finite; scale the features")
