"""A ranker of vectors: a matrix between the vector of the query and the vectors of its documents, learned online."""

import math
import warnings
from typing import Any, NamedTuple

import numpy as np

from online_rank._kernels import bilinear as kernels
from online_rank.base import Abilities, Ranker, Round, share_lock
from online_rank.base.explain import Split
from online_rank.base.lock import locked
from online_rank.base.schema import Array, Count, Nested, Schema
from online_rank.base.undo import all_or_nothing
from online_rank.feedback.policies import Policy, require_policy
from online_rank.preprocessing.bilinear import ALONE, BilinearLearner, unit_vector
from online_rank.preprocessing.position_credit import POSITIONS, credit_of_clicks, no_clicks
from online_rank.query import Block, plain_grades, plain_vectors
from online_rank.query.embeddings import as_vector, stacked, without_vectors
from online_rank.rankers.exploring import BEGUN

__all__ = ["VectorRanker"]

_FLOAT32 = np.dtype(np.float32)
#: The round of a query that is not learned yet.
_UNWRITTEN = np.full((1, len(Round._fields)), np.nan)


class _Given(NamedTuple):
    """The vectors of one query: documents (n, k), their inverse lengths, which documents have one, and the query.

    `q` is the vector of the query, scaled to length 1; None for one of length 0.
    """

    D: np.ndarray
    inverse: np.ndarray
    rows: np.ndarray
    vector: np.ndarray
    q: np.ndarray | None
    n_documents: int

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Values (n,) of the documents that have a vector, for all documents: 0 for the others."""
        if len(self.rows) == self.n_documents:
            return values
        spread = np.zeros(self.n_documents)
        spread[self.rows] = values
        return spread


class VectorRanker(Ranker):
    r"""Ranks by a matrix between the vector of the query and the vectors of its documents, which learns from every query.

    Embeddings of the query and of documents, scaled to length 1, have the score :math:`q^\top W d`. It begins as the cosine,
    :math:`W_1 = \kappa I`. A query with credits :math:`c_i`, whose sum is 0, has the update of rank one

    .. math:: W \leftarrow W + q z^\top, \qquad z = \sum_i c_i d_i.

    The score is linear in the products :math:`q_a d_b`, so the mass theorem holds with the Frobenius norm. For every matrix U
    and every sequence of queries, with the sum V of the masses and F(U) the loss of U on the pairs of the updates:

    .. math:: \sum_t RML_t \le V \le F(U) + \|U\| \sqrt{\|W_1\|^2 + \sum_t \|q_t\|^2 \|z_t\|^2 + 2 \tau_t V_t}
        - \langle U, W_1 \rangle.

    `online_rank.bounds.certificate_of` prints it, with U = W_1: the cosine as it was.

    A query costs one product of a matrix and a vector for each matrix kept, and one product of the documents and a vector. Two
    matrices are kept, in float32: that which learns, and the average that serves. 768 x 768 numbers take 2.4 MB each.

    **Queries.** Documents are dicts with a list of numbers under the name `vector`, `{"a": {"embedding": [...]}}`, or an array
    (m, k) of their vectors. The vector of the query, or of the user, has the same name in the context. All other features are
    left out: `AdditiveRanker` takes vectors and other features together. Where the dimensions of query and document differ, the
    matrix begins at 0. A document without a vector, or whose vector has length 0, has score 0.

    A query without a vector, as of a new user behind `Tastes`, is ranked by a score that is linear in the document, and teaches
    this score alone.

    **An index stays as it is**: :math:`q^\top W d = (W^\top q)^\top d`, so search with `adapt(q)` in place of q.

    **Clicks** teach it on any list, drawn or not. In a list with a click, the document at position p has the credit
    :math:`r_p - \bar r`, with its surplus :math:`r_p = g_p - m_p` over the mean gain at p in earlier lists with clicks. So if
    whether a position is examined does not depend on its document, positions alone give no credit. No bound covers
    clicks.

    Parameters
    ----------
    vector
        The name of the vectors.
    measure
        The measure of the loss (see `online_rank.measure`).
    kappa
        How strongly it holds on to the cosine: from 3 on, and more where a query has few documents or grades are noisy.
    half_life
        Half-life of the average that serves, in queries; None for the average of all matrices so far, 0 for the last one.
    credit
        Which pairs get the mass, as for `PerceptronRanker`.
    policy
        How `show_one` draws; None for `PlackettLuce(k=10, keep=0.98, newcomers=0.01)`.

    Raises
    ------
    TypeError, ValueError
        A parameter is out of its range. Later: vectors differ in length, or hold anything but finite numbers.

    Examples
    --------
    >>> from online_rank import VectorRanker
    >>> model = VectorRanker()
    >>> query = {"a": {"embedding": [1.0, 0.0]}, "b": {"embedding": [0.0, 1.0]}}
    >>> context = {"embedding": [4.0, 3.0]}
    >>> model.rank_one(query, context=context)
    ['a', 'b']
    >>> for _ in range(9):
    ...     model.learn_one(query, {"a": 0, "b": 1}, context=context)
    >>> model.rank_one(query, context=context)
    ['b', 'a']
    >>> model.adapt([4.0, 3.0]).round(2)
    array([6.85, 7.15])
    """

    _schema = Schema(
        _learner=Nested("BilinearLearner"),
        _linear=Nested("BilinearLearner"),
        _n_queries=Count(),
        _n_served=Count(),
        _n_clicked=Count(),
        _clicked=Array(2, POSITIONS, low=0.0),
    )

    def __init__(
        self,
        vector: str = "embedding",
        *,
        measure: str = "ndcg@10",
        kappa: float = 10.0,
        half_life: float | None = None,
        credit: str = "adaptive",
        policy: Policy | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(vector, str):
            raise TypeError(f"vector is {vector!r:.80}; it is the name of the vectors")
        require_policy(policy)
        self.vector = vector
        self.measure = measure
        self.kappa = kappa
        self.half_life = half_life
        self.credit = credit
        self.policy = policy
        self._learner = BilinearLearner(measure, kappa=kappa, half_life=half_life, credit=credit, certifies=True)
        #: Of queries without a vector, whose matrix is a row.
        self._linear = self._learner.clone()
        self._n_queries = self._n_served = self._n_clicked = 0
        self._clicked = no_clicks()
        share_lock(self)

    @classmethod
    def _of_earlier(cls, state: dict[str, Any]) -> dict[str, Any]:
        if "_linear" in state:
            return state
        learner, blank = state["_learner"], state["_learner"].clone()
        linear = learner.shape[0] == 1
        return {**state, "_learner": blank if linear else learner, "_linear": learner if linear else blank}

    #: Learning replaces arrays.
    _changes_in_place = False

    def _plain_vectors(self, x: Any, context: Any) -> tuple[np.ndarray, np.ndarray] | None:
        """The vectors of documents and of their query, as `plain_vectors`, if nothing else is in the context."""
        shape = self._learner.shape
        if not shape[0] or type(context) is not dict or len(context) != 1:
            return None
        return plain_vectors(x, context.get(self.vector), shape)

    def _learn_plain(self, x: Any, y: Any, context: Any) -> bool:
        """Learn a query of weight 1 whose arrays need no conversion. Returns false, and changes nothing, for any other."""
        given = self._plain_vectors(x, context)
        if given is None:
            return False
        D, vector = given
        grades = plain_grades(y, len(D))
        if grades is None:
            return False
        row = _UNWRITTEN.copy()
        try:
            learned = self._learner.learn_plain(D, vector, grades, row[0])
        except BaseException:
            # An interrupt, before the kernel or after it.
            if row[0, -1] == row[0, -1]:
                self._last_round, self._n_queries = row, self._n_queries + 1
            raise
        if learned:
            self._last_round, self._n_queries = row, self._n_queries + 1
        return learned

    def _answer(self, x: Any, context: Any, at: Any) -> tuple[np.ndarray, Block | None]:
        scores = None
        with self._lock:
            given = self._plain_vectors(x, context) if at is None else None
            if given is not None:
                scores = self._learner.answer(*given)
        return super()._answer(x, context, at) if scores is None else (scores, None)

    @property
    def learner(self) -> BilinearLearner:
        """What learns the matrix; a single row, if no query had a vector."""
        return self.linear if self.linear.shape[0] and not self._learner.shape[0] else self._learner

    @property
    def linear(self) -> BilinearLearner:
        """What learns from queries without a vector: a single row."""
        return self._linear

    @property
    def n_clicked(self) -> int:
        """Number of lists learned from clicks."""
        return self._n_clicked

    @property
    def _parts(self) -> list[Any]:
        return [self._learner, self._linear]

    def _abilities(self) -> Abilities:
        return Abilities(
            takes_documents=True, takes_vectors=True, takes_served=True, takes_clicks=True, takes_any_list=True, draws=True
        )  # fmt: skip

    @property
    def _own_policy(self) -> Policy:
        return BEGUN if self.policy is None else self.policy

    @property
    @locked
    def matrix(self) -> np.ndarray:
        """W, float64 (p, k): the matrix that serves; (0, 0) before the first query."""
        return self.learner.matrix()

    @property
    @locked
    def mass(self) -> float:
        """V, the total mass of the updates."""
        return self.learner.mass

    @property
    @locked
    def squares(self) -> float:
        """Sum of the squared norms of the updates, and of twice their margins times their masses."""
        return self.learner.squares

    @property
    def n_queries(self) -> int:
        """Number of queries learned."""
        return self._n_queries

    @locked
    def adapt(self, query: Any) -> np.ndarray:
        """W' q: the vector to search an index of the documents with, by the inner product.

        Parameters
        ----------
        query
            (p,): the vector of a query, of any length but 0.

        Returns
        -------
        float64 (k,). Its product with a document's vector of length 1 is the score of the document.

        Raises
        ------
        TypeError, ValueError
            It is no vector, has length 0, or another number of dimensions than those that were learned.
        """
        q = unit_vector(as_vector("query", query))
        if q is None:
            raise ValueError("query has length 0, which has no direction")
        p = self._learner.shape[0]
        if not p:
            return self.kappa * q
        if len(q) != p:
            raise ValueError(f"query has {len(q)} dimensions, but the model has learned from {p}")
        return self._learner.adapted(q)

    def _vectors_of(self, query: Block) -> _Given:
        """The vectors of one query. Raises TypeError or ValueError that names the document."""
        p, k = self._learner.shape
        k = k or self._linear.shape[1]
        context = (query.context or ({},))[0]
        q = context.get(self.vector)
        if isinstance(query.X, list):
            found = without_vectors(query.X, (self.vector,))[1].get(self.vector, ([], []))
            D, rows, _ = stacked(self.vector, *found, query.ids, k or None)
        else:
            D, rows = _as_rows(query.X), np.arange(query.n_documents)
            if k and len(D) and D.shape[1] != k:
                raise ValueError(f"x has vectors of {D.shape[1]} dimensions, but {type(self).__name__} has learned from {k}")
        if p and q is None and not self._linear.shape[0]:
            warnings.warn(
                f"context has no vector {self.vector!r}, but the queries that were learned had one: such queries are ranked by "
                "a score that is linear in the documents, and 0 before one is learned",
                stacklevel=2,
            )
        if p and q is not None and len(q) != p:
            raise ValueError(f"context[{self.vector!r}] has {len(q)} dimensions, and {p} elsewhere")
        vector, inverse = ALONE if q is None else np.ascontiguousarray(q), np.empty(len(D))
        if not kernels.norms(D, inverse):
            _raise_for_odd(query.X, D)
        return _Given(D, inverse, rows, vector, unit_vector(vector), query.n_documents)

    def _learner_of(self, given: _Given) -> BilinearLearner:
        return self._linear if given.vector is ALONE else self._learner

    def _scores(self, given: _Given, averaged: bool = True) -> np.ndarray:
        """The scores of all documents of a query."""
        if given.q is None or not len(given.D):
            return np.zeros(given.n_documents)
        learner = self._learner_of(given)
        if learner.shape[0]:
            return given.spread(learner.scores(given.D, given.inverse, given.q, averaged))
        scores = np.zeros(len(given.D))
        if given.D.shape[1] == len(given.q) > 1:
            kernels.score(given.D, self.kappa * given.q, given.inverse, scores)
        return given.spread(scores)

    def _score_all(self, block: Block, score: Any = None) -> np.ndarray:
        queries = [self._scores(self._vectors_of(query)) for query in block.each()]
        return queries[0] if len(queries) == 1 else np.concatenate([np.zeros(0), *queries])

    def _learn_block(self, block: Block, changes: all_or_nothing | None = None) -> None:
        if block.y is None:
            raise TypeError("y is of type NoneType; grades are a sequence of integers, one a document")
        if changes is not None:
            changes.include(self, block)
        for query in block.each():
            given, row = self._vectors_of(query), np.empty((1, len(Round._fields)))
            learns = self._learn_clicks if isinstance(query.y, tuple) else self._learn_grades
            if not learns(query, given, row[0]):
                raise self._rejection(query)
            self._n_queries += 1
            self._last_round = row

    def _learn_grades(self, query: Block, given: _Given, row: np.ndarray) -> bool:
        """Learn a query with grades: of all documents, those without a vector at the origin."""
        D, vector, served, learner = given.D, given.vector, query.served, self._learner_of(given)
        if given.q is None or not D.size:
            if not learner.shape[0]:
                _write_skipped(row, query)
                return bool(0.0 <= query.w[0] < math.inf)
            D = np.zeros((given.n_documents, learner.shape[1]), dtype=np.float32)
            vector = np.zeros(learner.shape[0], dtype=np.float32)
        elif len(given.rows) < given.n_documents:
            D = np.zeros((given.n_documents, D.shape[1]), dtype=np.float32)
            D[given.rows] = given.D
        y = np.ascontiguousarray(query.y, dtype=np.int64)
        learned = learner.learn(D, vector, y, float(query.w[0]), row, _NONE if served is None else served)
        self._n_served += int(learned and served is not None)
        return learned

    def _learn_clicks(self, query: Block, given: _Given, row: np.ndarray) -> bool:
        """Learn a query with clicks."""
        credit, self._clicked = credit_of_clicks(query, self._clicked)
        learner = self._learner_of(given)
        if given.q is not None and len(given.D) and not learner.push(given.D, given.vector, credit[given.rows]):
            return False
        self._n_clicked += 1
        row[:] = 0.0, np.nan, 0.0, 0.0, 0.0, query.w[0], given.n_documents, 1.0, 0.0, not credit.any()
        return True

    def _split(self, block: Block, a: int, b: int) -> Split | None:
        scores = self._score_all(block)
        return Split((self.vector,), np.array([scores[a] - scores[b]]), True, {})

    def _cells(self, n_documents: int, n_features: int) -> int:
        return n_documents * max(self.learner.shape[1], 1)


_NONE = np.empty(0)


def _as_rows(X: Any) -> np.ndarray:
    """An array of vectors as float32. Raises TypeError for sparse rows."""
    if not isinstance(X, np.ndarray):
        raise TypeError("x has sparse rows; vectors are dense: an array (m, k), or a list of numbers of each document")
    if X.dtype is _FLOAT32:
        return X
    with np.errstate(over="ignore"):
        return X.astype(np.float32)


def _raise_for_odd(X: np.ndarray, D: np.ndarray) -> None:
    """Raise ValueError for NaN, infinity and numbers beyond float32 among vectors X that were read as D."""
    i, j = (int(n) for n in np.argwhere(~np.isfinite(D))[0])
    raise ValueError(f"x: document {i} has {X[i, j]} in dimension {j}; the numbers of vectors are finite and fit float32")


def _write_skipped(row: np.ndarray, query: Block) -> None:
    row[:] = 0.0, np.nan, 0.0, 0.0, 0.0, query.w[0], query.n_documents, 0.0, 0.0, True
