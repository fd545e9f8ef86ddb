"""Columns made of vectors: the cosine of query and document, and scores that are learned."""

import functools
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from river import base

from online_rank._kernels import bilinear as kernels
from online_rank.base.forgetting import parts_of
from online_rank.base.growth import GROWTH
from online_rank.base.schema import Array, Count, Derived, DictOf, Integer, Nested, Schema, Text
from online_rank.base.undo import Undo, record_state
from online_rank.limits import MAX_DIMENSIONS
from online_rank.preprocessing.bilinear import ALONE, BilinearLearner, inverse_lengths, unit_vector
from online_rank.preprocessing.position_credit import POSITIONS, credit_of_clicks, no_clicks
from online_rank.query import Block
from online_rank.query.blocks import document_name
from online_rank.query.embeddings import LENIENT, checked_dimensions, is_vector, stacked, without_vectors

__all__ = ["COSINE", "LEARNED", "LINEAR", "RECENT", "VectorColumns", "columns_of_vector"]

#: What follows the name of a vector in the names of its columns.
COSINE, LEARNED, RECENT, LINEAR = "cosine", "learned", "recent", "linear"
#: The most vectors of a model, the most lengths of each that are counted, and of all vectors that are none of the model.
_MOST_VECTORS, _MOST_LENGTHS, _MOST_OTHERS = 16, 8, 32
#: The vector of a query without one, scaled to length 1.
_UNIT = ALONE.astype(np.float64)
#: Follows the name of a vector where lengths of the vectors of queries are counted.
_OF_QUERY = "\x1f"


def columns_of_vector(name: Hashable) -> tuple[str, str, str, str]:
    """The names of the columns that are made of a vector.

    Examples
    --------
    >>> columns_of_vector("embedding")
    ('embedding cosine', 'embedding learned', 'embedding recent', 'embedding linear')
    """
    return f"{name} {COSINE}", f"{name} {LEARNED}", f"{name} {RECENT}", f"{name} {LINEAR}"


def vectors_of_columns(model: Any) -> dict[str, str]:
    """The vector that each column of a model is made of, by the names of columns."""
    found = parts_of(model, VectorColumns)
    return {column: name for part in found for name in part.names for column in columns_of_vector(name)}


def _any_kind(_: Hashable) -> str:
    return ""


class Given(NamedTuple):
    """One vector of a query and its documents, which a learner learns from.

    Attributes
    ----------
    column
        The column of learned scores.
    D, rows
        The documents (n, k) that have it, and which of the m documents they are.
    q
        The vector of the query (p,), float32, of any length but 0.
    """

    column: str
    D: np.ndarray
    rows: np.ndarray
    q: np.ndarray


class Read(NamedTuple):
    """A query whose vectors were read: its documents without them, the columns made of them, and what is learned from.

    A column has the documents (n,) and their values (n,).
    """

    documents: list[dict[Hashable, Any]]
    columns: dict[str, tuple[np.ndarray, np.ndarray]]
    given: list[Given]
    n_odd: int


class VectorColumns(base.Base):
    """What is learned of each vector among the features of documents, by its name.

    With a vector of the query of the same name, and of length p, a document has the cosine, if p = k, and two scores of a
    `BilinearLearner` over kappa, less the cosine: by the average of its matrices, and by the last one. So what is
    learned is 0 at first. Every document has a score that is linear in its vector.

    Parameters
    ----------
    measure, kappa, half_life
        As for `BilinearLearner`.
    dimensions
        `{name: k}`: the lengths of vectors that are declared; None for the lengths in the first query.
    """

    _schema = Schema(
        _learners=DictOf(Text(), Nested("BilinearLearner")),
        _lengths=DictOf(Text(), Integer(1, MAX_DIMENSIONS)),
        _votes=DictOf(Text(), Integer(0)),
        _clicked=Array(2, POSITIONS, low=0.0),
        n_odd=Count(),
        _make=Derived(),
    )

    def __init__(
        self,
        measure: str = "ndcg@10",
        *,
        kappa: float = 10.0,
        half_life: float | None = 1000,
        dimensions: Mapping[str, int] | None = None,
    ) -> None:
        self.measure = measure
        self.kappa = kappa
        self.half_life = half_life
        self.dimensions = checked_dimensions(dimensions)
        self._make: Callable[[], BilinearLearner] = functools.partial(
            BilinearLearner, measure, kappa=kappa, half_life=half_life
        )
        self._make()
        self._learners: dict[str, BilinearLearner] = {}
        #: The length of each vector in documents, and how many queries had it and others: "name k".
        self._lengths: dict[str, int] = dict(self.dimensions or {})
        self._votes: dict[str, int] = {}
        #: Numbers of lists with clicks, and sums of gains, at each position.
        self._clicked = no_clicks()
        #: How many vectors of learned queries were of another length, where that is a missing value.
        self.n_odd = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the vectors."""
        return tuple(self._lengths)

    @property
    def lengths(self) -> dict[str, int]:
        """The length of each vector in documents, by its name."""
        return dict(self._lengths)

    @property
    def learners(self) -> dict[str, BilinearLearner]:
        """The learner of each column of learned scores."""
        return dict(self._learners)

    @property
    def n_votes(self) -> int:
        """How many queries with a vector were learned; one with several vectors counts for each."""
        return sum(n for vote, n in self._votes.items() if not _name_in(vote).endswith(_OF_QUERY))

    @property
    def nbytes(self) -> int:
        """Bytes of the state."""
        return sum(learner.nbytes for learner in self._learners.values())

    def _record(self, log: list[Undo], _block: Any = None) -> None:
        """Add to a log what undoes learning."""
        for name in ("_learners", "_lengths", "_votes"):
            log.append(functools.partial(setattr, self, name, dict(getattr(self, name))))
        record_state(log, self, replaced=frozenset({"_clicked"}))
        for learner in self._learners.values():
            learner._record(log)

    def read(self, query: Block, kind_of: Callable[[Hashable], str] = _any_kind) -> Read:
        """Read the vectors of one query. Raises TypeError or ValueError that names document and feature.

        `kind_of` says what a feature is elsewhere, "number" or "category"; "" if it is not known.
        """
        rest, found = without_vectors(query.X, self.names)
        for name in found.keys() - {*self.names}:
            if kind := kind_of(name):
                i, value = next((i, value) for i, value in zip(*found[name], strict=True) if is_vector(value))
                raise TypeError(
                    f"x: feature {name!r} of {document_name(i, query.ids)} is {value!r:.40}, and a {kind} elsewhere"
                )
        context = {} if query.context is None else query.context[0]
        columns: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        given: list[Given] = []
        n_odd, lenient = 0, LENIENT.get()
        for name, (rows, values) in found.items():
            if lenient and self._is_full and name not in self._lengths:
                n_odd += sum(map(is_vector, values))
                continue
            k = self._lengths.get(str(name)) or (usual_length(values) if lenient else None)
            D, having, odd = stacked(name, rows, values, query.ids, k, lenient)
            inverse = inverse_lengths(D)
            n_odd += odd
            if not inverse.all():
                # A vector of length 0 is missing.
                kept = inverse > 0.0
                D, having, inverse = D[kept], having[kept], inverse[kept]
            if not len(D):
                continue
            one, odd_query = self._of_query(name, context.get(str(name)), D.shape[1], lenient)
            n_odd += odd_query
            self._add_columns(columns, given, str(name), D, having, inverse, one)
        if taken := columns.keys() & {name for x in rest for name in x}:
            raise ValueError(f"x has a feature that is called as one that is made of a vector: {min(taken)!r}")
        return Read(rest, columns, given, n_odd)

    def _of_query(self, name: Hashable, vector: Any, k: int, lenient: bool) -> tuple[np.ndarray | None, int]:
        """The vector of a query; None if it has none. And how many were of another length."""
        q = np.ascontiguousarray(vector) if type(vector) is np.ndarray and vector.any() else None
        learner = self._learners.get(columns_of_vector(name)[1])
        if q is None or learner is None or len(q) == learner.shape[0]:
            return q, 0
        if not lenient and learner.shape[1] == k:
            raise ValueError(f"context[{name!r}] has {len(q)} dimensions, and {learner.shape[0]} elsewhere")
        return None, 1

    def _add_columns(
        self, columns: dict[str, Any], given: list[Given], name: str, D: np.ndarray, rows: np.ndarray, inverse: np.ndarray,
        vector: np.ndarray | None,
    ) -> None:  # fmt: skip
        cosine, learned, recent, linear = columns_of_vector(name)
        if vector is not None:
            q: Any = unit_vector(vector)
            learner, cosines, is_square = self._learners.get(learned), np.zeros(len(D)), len(q) == D.shape[1]
            if is_square:
                kernels.score(D, q, inverse, cosines)
                columns[cosine] = rows, cosines
            for column, averaged in ((learned, True), (recent, False)):
                scores = np.zeros(len(D)) if learner is None else learner.scores(D, inverse, q, averaged)
                if is_square and learner is not None:
                    scores = scores / self.kappa - cosines if self.kappa > 0.0 else scores
                columns[column] = rows, scores
            given.append(Given(learned, D, rows, vector))
        # What all queries like, also where a user has a taste.
        alone = self._learners.get(linear)
        columns[linear] = rows, np.zeros(len(D)) if alone is None else alone.scores(D, inverse, _UNIT)
        given.append(Given(linear, D, rows, ALONE))

    def learn(self, query: Block, read: Read) -> None:
        """Learn one query that was `read`, with grades or clicks; the caller undoes it if it raises.

        Raises ValueError for bad values.
        """
        self.n_odd += read.n_odd
        self._count_lengths(query, read)
        y, w, credit = query.y, float(query.w[0]), None
        if isinstance(y, tuple):
            credit, self._clicked = credit_of_clicks(query, self._clicked)
        for one in read.given:
            learner = self._learner_of(one)
            if learner is None:
                continue
            if credit is not None:
                if not learner.push(one.D, one.q, credit[one.rows]):
                    raise ValueError("the clicks on a query would make what is learned of its vectors non-finite")
            elif w > 0.0:
                learner.learn(one.D, one.q, np.ascontiguousarray(y[one.rows], dtype=np.int64), w, np.empty(10))

    def mix(self, shards: Sequence["VectorColumns"], base: "VectorColumns") -> None:
        """Become what shards have learned that continued from `base`: the mean of their matrices.

        Of matrices with other shapes those count that most queries had.
        """
        before, more = base._votes, [Counter(one._votes) for one in shards]
        self._votes = {key: before.get(key, 0) + sum(n[key] - before.get(key, 0) for n in more) for n in more for key in n}
        self.n_odd = base.n_odd + sum(one.n_odd - base.n_odd for one in shards)
        self._clicked = np.maximum(base._clicked + sum(one._clicked - base._clicked for one in shards), 0.0)
        for name in dict.fromkeys(name for one in shards for name in one._lengths):
            lengths = dict.fromkeys(one._lengths[name] for one in shards if name in one._lengths)
            self._lengths[name] = max(lengths, key=lambda k: self._votes.get(f"{name} {k}", 0))
        for column in dict.fromkeys(column for one in shards for column in one._learners):
            k = self._lengths[column.rpartition(" ")[0]]
            learned = [one._learners[column] for one in shards if column in one._learners]
            shapes = Counter(own.shape for own in learned if own.shape[1] == k)
            if shapes:
                shape, fresh = shapes.most_common(1)[0][0], self._make()
                began = base._learners.get(column)
                self._learners[column] = self._make()
                self._learners[column].mix(
                    [own for own in learned if own.shape == shape], fresh if began is None or began.shape != shape else began
                )

    def _learner_of(self, one: Given) -> BilinearLearner | None:
        """The learner of a column; None for vectors of other lengths than it learned from."""
        learner = self._learners.get(one.column)
        if learner is None:
            self._require_growth(one)
            learner = self._learners[one.column] = self._make()
        p, k = learner.shape
        return None if p and (len(one.q), one.D.shape[1]) != (p, k) else learner

    def _require_growth(self, one: Given) -> None:
        """Raise ValueError if a request would bring a matrix that is too large for it, unless its dimensions are declared."""
        left, size = GROWTH.get(), len(one.q) * one.D.shape[1] / 2  # In numbers of 64 bits.
        name = one.column.rpartition(" ")[0]
        if left is not None and name not in (self.dimensions or {}):
            if size > left[0]:
                raise ValueError(
                    f"the vector {name!r} has {one.D.shape[1]} dimensions: a matrix of {2 * size:,.0f} numbers is too large "
                    "for a request of this size; AdditiveRanker(dimensions={...}) declares it"
                )
            left[0] -= size

    def _count_lengths(self, query: Block, read: Read) -> None:
        """Count the lengths that vectors have, a query once; the vector has the length that most queries have.

        Length 0 stands for values that are no vectors: if most queries have these, the feature is no vector any more.
        """
        names = {one.column.rpartition(" ")[0] for one in read.given}
        if LENIENT.get():
            names |= {str(name) for x in query.X for name, value in x.items() if name in self._lengths or is_vector(value)}
        for name in sorted(names):
            values = [value for x in query.X if (value := x.get(name)) is not None]
            is_odd = LENIENT.get() and 2 * sum(map(is_vector, values)) < len(values)
            if not values or (is_odd and name not in self._lengths):
                continue
            k = 0 if is_odd else usual_length(values)
            if name not in self._lengths:
                if not self._is_full:
                    self._lengths[name] = k
                elif not LENIENT.get():
                    raise ValueError(f"x has the vector {name!r}; at most {_MOST_VECTORS} vectors are accepted")
            self._vote(name, k, self._lengths.get(name))
            if name in self._lengths or self._takes_place(name, k):
                self._follow_evidence(name, k)
                if LENIENT.get() and query.context is not None:
                    self._follow_queries(name, query.context[0].get(name))

    @property
    def _is_full(self) -> bool:
        return len(self._lengths) >= _MOST_VECTORS

    def _vote(self, name: str, k: int, used: int | None) -> None:
        """Count a query whose vector has a length; where too many lengths are counted, the least frequent one goes."""
        key, votes = f"{name} {k}", self._votes
        if key not in votes:
            own = [other for other in votes if _name_in(other) == name and other != f"{name} {used}"]
            is_own = name.removesuffix(_OF_QUERY) in self._lengths
            others = (
                [] if is_own else [other for other in votes if _name_in(other).removesuffix(_OF_QUERY) not in self._lengths]
            )
            for counted, most in ((own, _MOST_LENGTHS - 1), (others, _MOST_OTHERS)):
                if len(counted) >= most and (least := min(counted, key=votes.__getitem__)) in votes:
                    del votes[least]
        votes[key] = votes.get(key, 0) + 1

    def _follow_queries(self, name: str, vector: Any) -> None:
        """Begin again with the length of the vectors of queries that most queries have, if it is another one."""
        column = columns_of_vector(name)[1]
        if type(vector) is not np.ndarray or (learner := self._learners.get(column)) is None:
            return
        called, used = f"{name}{_OF_QUERY}", learner.shape[0]
        # Older files lack these counts.
        before = self._votes.setdefault(f"{called} {used}", self._votes.get(f"{name} {self._lengths[name]}", 0))
        self._vote(called, len(vector), used)
        if len(vector) != used and self._votes[f"{called} {len(vector)}"] > before:
            del self._learners[column]

    def _takes_place(self, name: str, k: int) -> bool:
        """Let a vector take the place of the one that fewest queries had, if more queries had it, and none was declared."""
        votes = {
            own: self._votes.get(f"{own} {of}", 0) for own, of in self._lengths.items() if own not in (self.dimensions or {})
        }
        least = min(votes, key=votes.__getitem__, default=None)
        if least is None or self._votes[f"{name} {k}"] <= votes[least]:
            return False
        del self._lengths[least]
        for column in columns_of_vector(least):
            self._learners.pop(column, None)
        self._lengths[name] = k
        return True

    def _follow_evidence(self, name: str, k: int) -> None:
        """Begin again with the length k if more queries had it than the length in use, unless a length was declared."""
        used = self._lengths[name]
        if k == used or name in (self.dimensions or {}):
            return
        if self._votes.get(f"{name} {k}", 0) > self._votes.get(f"{name} {used}", 0):
            most = f"give it {k}" if k else "give it values that are no vectors"
            warnings.warn(
                f"the vector {name!r} had {used} dimensions, and most queries {most}: what was learned of it begins again",
                stacklevel=2,
            )
            if k:
                self._lengths[name] = k
            else:
                del self._lengths[name]
            for column in columns_of_vector(name):
                self._learners.pop(column, None)


def usual_length(values: list[Any]) -> int:
    """The length that most of some vectors have."""
    lengths = Counter(len(value) for value in values if is_vector(value))
    return lengths.most_common(1)[0][0] if lengths else 1


def _name_in(vote: str) -> str:
    """The vector of a vote."""
    return vote.rpartition(" ")[0]
