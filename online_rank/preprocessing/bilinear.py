"""A matrix between the vectors of queries and documents that learns from grades, and its average."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from river import base

from online_rank import arguments
from online_rank._kernels import bilinear as kernels
from online_rank._kernels.codes import AVERAGED, CAPPED_SQUARES, CREDITS, MASS, MASSES
from online_rank.base.halving import halved
from online_rank.base.schema import Array, Derived, Integer, Schema
from online_rank.base.undo import Undo
from online_rank.limits import MAX_DIMENSIONS
from online_rank.measures.learned import discounts
from online_rank.measures.learned import measure as parse_measure

__all__ = ["BilinearLearner", "inverse_lengths", "unit_vector"]

#: The vector of a query without one, whose score is linear in the document.
ALONE = np.ones(1, dtype=np.float32)
_NONE = np.empty(0)
#: What learning changes.
_CHANGED = "_matrix", "_average", "_left", "_right", "_shares", "_numbers", "_n_terms"


def unit_vector(vector: np.ndarray) -> np.ndarray | None:
    """A vector (p,), scaled to length 1, as float64 (p,) of float32 numbers; None if it has length 0.

    Examples
    --------
    >>> unit_vector(np.array([3.0, 4.0], np.float32)).round(3), unit_vector(np.zeros(2, np.float32))
    (array([0.6, 0.8]), None)
    """
    unit = np.empty(len(vector))
    kernels.unit(np.ascontiguousarray(vector), unit)
    return unit if unit.any() else None


def inverse_lengths(D: np.ndarray) -> np.ndarray:
    """1 over the lengths of documents (m, k), float32, as float64 (m,); 0 for a document of length 0."""
    inverse = np.empty(len(D))
    kernels.norms(D, inverse)
    return inverse


class Sums(NamedTuple):
    """What a learner has added up over its queries.

    Attributes
    ----------
    loss
        Of the rankings by the matrix that learns, before each update.
    mass
        V, the mass of the updates.
    squares
        Q: the squared norms of the updates, and twice the margins and roundings times the masses.
    rounded
        By how much, in norm, the stored matrix may differ from the exact one.
    compared
        F of the matrix that it began with, on the pairs of the updates, if it `certifies`.
    weight, n_counted
        The weight and the number of queries that can be ranked wrongly.
    """

    loss: float
    mass: float
    squares: float
    rounded: float
    compared: float
    weight: float
    n_counted: int


class BilinearLearner(base.Base):
    r"""Scores :math:`q' W d` of vectors of length 1, by a perceptron on pairs whose updates have rank one.

    Before its first query it has no matrix. It begins with kappa times the identity, which is the cosine, or with 0 where the
    query has other dimensions than the documents. The matrix is stored in float32, with up to 64 updates that are not yet added
    to it, so that learning costs p + k numbers a query, and one pass over the matrix in 64 queries.

    Parameters
    ----------
    measure
        The measure of the loss.
    kappa
        How strongly it holds on to the cosine.
    half_life
        Half-life of the average that scores, in queries; None for the average of all matrices so far, 0 for the last.
    credit
        Which pairs get the mass, as for `PerceptronRanker`.
    certifies
        Whether it adds up the losses of the cosine on the pairs of its updates, for a certificate.
    """

    _schema = Schema(
        _config=Derived(),
        _averages=Derived(),
        _factor=Derived(),
        _matrix=Array(None, None, dtype="float32"),
        _average=Array(lambda own: len(own._matrix) if own._averages else 0, lambda own: own._matrix.shape[1], dtype="float32"),
        _n_terms=Integer(0, kernels.TERMS - 1),
        _left=Array("_n_terms", lambda own: len(own._matrix), dtype="float32", spare=True),
        _right=Array("_n_terms", lambda own: own._matrix.shape[1], dtype="float32", spare=True),
        _shares=Array("_n_terms", low=0.0, high=1.0, spare=True),
        _numbers=Array(kernels.N_NUMBERS, low=0.0),
    )

    def __init__(
        self, measure: str = "ndcg@10", *, kappa: float = 10.0, half_life: float | None = None, credit: str = "adaptive",
        certifies: bool = False,
    ) -> None:  # fmt: skip
        arguments.number("kappa", kappa, 0.0)
        arguments.number("half_life", half_life, 0.0, optional=True)
        arguments.choice("credit", credit, CREDITS)
        self.measure = measure
        self.kappa = kappa
        self.half_life = half_life
        self.credit = credit
        self.certifies = certifies
        self._averages = half_life != 0
        #: Of the first matrix, whose losses are added up.
        self._factor = float(kappa) if certifies else 0.0
        code, mass, margin = CREDITS[credit]
        decay = halved(min(1.0 / half_life, 300.0)) if half_life else 1.0
        self._config = np.array([*parse_measure(measure), code, MASSES[mass], margin, decay, 0.0, 0.0])
        self._matrix = np.zeros((0, 0), dtype=np.float32)
        self._average = np.zeros((0, 0), dtype=np.float32)
        self._n_terms = 0
        self._numbers = np.zeros(kernels.N_NUMBERS)
        self._shares = np.zeros(0)
        self._left = self._right = np.zeros((0, 0), dtype=np.float32)

    @property
    def shape(self) -> tuple[int, int]:
        """p, the dimensions of queries, and k, the dimensions of documents; (0, 0) before the first query."""
        p, k = self._matrix.shape
        return p, k

    @property
    def mass(self) -> float:
        """V, the total mass of the updates."""
        return float(self._numbers[MASS])

    @property
    def squares(self) -> float:
        """Sum of the squared norms of the updates and of twice the margins times the masses, rounding included."""
        return float(self._numbers[CAPPED_SQUARES])

    @property
    def sums(self) -> Sums:
        """What it has added up over its queries."""
        n = self._numbers.tolist()
        return Sums(
            loss=n[kernels.LOST], mass=n[MASS], squares=n[CAPPED_SQUARES], rounded=n[kernels.ROUNDED],
            compared=n[kernels.COMPARED], weight=n[kernels.WEIGHED], n_counted=int(n[kernels.COUNTED]),
        )  # fmt: skip

    @property
    def gain_of_beginning(self) -> float:
        """<W1, W - W1> of the matrix W1 that it began with, and W that learns; 0 where it began at 0."""
        if not self._numbers[kernels.BEGINNING]:
            return 0.0
        n, kappa = self._n_terms, float(np.float32(self.kappa))
        gain = float((np.diag(self._matrix).astype(np.float64) - kappa).sum())
        terms = self._left[:n].astype(np.float64) * self._right[:n]
        return kappa * (gain + float(terms.sum()))

    @property
    def beginning(self) -> float:
        """The Frobenius norm of the matrix that it began with."""
        return float(np.sqrt(self._numbers[kernels.BEGINNING]))

    @property
    def nbytes(self) -> int:
        """Bytes of the state."""
        return sum(part.nbytes for part in (self._matrix, self._average, self._left, self._right, self._shares, self._numbers))

    def begin(self, p: int, k: int) -> None:
        """Begin with the cosine, or with 0 where p and k differ."""
        arguments.integer("p", p, 1, MAX_DIMENSIONS)
        arguments.integer("k", k, 1, MAX_DIMENSIONS)
        square = p == k and p > 1
        self._matrix = np.float32(self.kappa) * np.eye(p, dtype=np.float32) if square else np.zeros((p, k), dtype=np.float32)
        self._average = self._matrix if self._averages else np.zeros((0, k), dtype=np.float32)
        self._numbers = np.zeros(kernels.N_NUMBERS)
        self._numbers[kernels.BEGINNING] = p * float(np.float32(self.kappa)) ** 2 if square else 0.0
        self._numbers[kernels.KEPT] = 1.0
        self._n_terms = 0
        self._derive()

    def _derive(self) -> None:
        """Give the terms their room."""
        p, k = self._matrix.shape
        rows = kernels.TERMS if p else 0
        for name, width in (("_left", p), ("_right", k)):
            room = np.zeros((rows, width), dtype=np.float32)
            if self._n_terms:
                room[: self._n_terms] = getattr(self, name)[: self._n_terms]
            setattr(self, name, room)
        shares = np.zeros(rows)
        shares[: self._n_terms] = self._shares[: self._n_terms]
        self._shares = shares

    def _check_state(self) -> None:
        if self._numbers[kernels.KEPT] > 1.0 or max(self._matrix.shape) > MAX_DIMENSIONS:
            raise ValueError("the state of a matrix between vectors is impossible")

    def _record(self, log: list[Undo], _block: Any = None) -> None:
        """Add to a log what undoes learning: matrices are replaced, and terms beyond `_n_terms` are nobody's."""
        log.append(functools.partial(vars(self).update, {name: getattr(self, name) for name in _CHANGED}))
        self._shares, self._numbers = self._shares.copy(), self._numbers.copy()

    def adapted(self, q: np.ndarray, averaged: bool = True) -> np.ndarray:
        """W' q, float64 (k,), of a query of length 1, by the matrix that scores, or by the one that learns."""
        t = np.empty(self._matrix.shape[1])
        averaged = averaged and self._averages
        kernels.adapt(
            q, self._matrix, self._average, self._left, self._right, self._shares, self._numbers, self._n_terms, averaged, t
        )  # fmt: skip
        return t

    def scores(self, D: np.ndarray, inverse: np.ndarray, q: np.ndarray, averaged: bool = True) -> np.ndarray:
        """The scores of documents (m, k) by their inverse lengths, float64 (m,)."""
        s = np.empty(len(D))
        kernels.score(D, self.adapted(q, averaged), inverse, s)
        return s

    def answer(self, D: np.ndarray, vector: np.ndarray) -> np.ndarray | None:
        """The scores, float64 (m,), of documents (m, k) and the vector of a query (p,), both float32 of any length.

        None if a number is not finite.
        """
        s = np.empty(len(D))
        finite = kernels.answer(
            D, vector, self._matrix, self._average, self._left, self._right, self._shares, self._numbers, self._n_terms,
            self._averages, s,
        )  # fmt: skip
        return s if finite else None

    def matrix(self, averaged: bool = True) -> np.ndarray:
        """W, float64 (p, k): the matrix that scores, or the one that learns."""
        n = self._n_terms
        left, right = self._left[:n].astype(np.float64), self._right[:n].astype(np.float64)
        W = self._matrix.astype(np.float64)
        if not (averaged and self._averages):
            return W + (left[:, :, None] * right[:, None, :]).sum(axis=0) if n else W
        kept = self._numbers[kernels.KEPT]
        W = kept * self._average + (1.0 - kept) * W
        for r in range(n):
            W += np.outer(self._shares[r] * left[r], right[r])
        return W

    def learn(
        self, D: np.ndarray, vector: np.ndarray, y: np.ndarray, w: float, row: np.ndarray, served: np.ndarray = _NONE
    ) -> bool:
        """Learn one query, and write its round to `row` (10,). Returns false for bad values; nothing has changed then.

        Documents (m, k) and the vector of the query (p,) are float32, of any length; without a vector of the query, which has
        length 0, no document has one.
        """
        if not self._matrix.size:
            self.begin(len(vector), D.shape[1])
        row[9] = np.nan
        if not self._learn_term(D, vector, y, w, row, served):
            return False
        if self._n_terms == kernels.TERMS:
            self._fold()
        return True

    def learn_plain(self, D: np.ndarray, vector: np.ndarray, y: np.ndarray, row: np.ndarray) -> bool:
        """Learn one query of weight 1 in a single kernel, as `learn`; `row` (10,) ends in NaN until it is learned.

        Returns false, and nothing has changed, for bad values, or if the terms have to be folded in.
        """
        return self._n_terms < kernels.TERMS - 1 and self._learn_term(D, vector, y, 1.0, row, _NONE)

    def _learn_term(
        self, D: np.ndarray, vector: np.ndarray, y: np.ndarray, w: float, row: np.ndarray, served: np.ndarray
    ) -> bool:
        """Learn one query in a kernel; `row` ends in NaN, unless the kernel has learned it."""
        try:
            added = kernels.learn(
                D, vector, y, w, discounts(len(y)), self._config, self._matrix, self._average, self._left, self._right,
                self._shares, self._numbers, self._n_terms, self._factor, served, row,
            )  # fmt: skip
        except BaseException:
            # An interrupt, before the kernel or after it.
            self._n_terms += int(row[9] == row[9] and row[3] > 0.0)
            raise
        if added < 0:
            return False
        self._n_terms += added
        return True

    def push(self, D: np.ndarray, vector: np.ndarray, c: np.ndarray) -> bool:
        """Add an update by a credit (m,) from elsewhere. Returns false if it is not finite, after which nothing has changed.

        Documents and the vector of the query are as for `learn`.
        """
        if not self._matrix.size:
            self.begin(len(vector), D.shape[1])
        added = kernels.push(
            D, vector, c, float(self._config[6]), self._average, self._left, self._right, self._shares, self._numbers,
            self._n_terms,
        )  # fmt: skip
        if added < 0:
            return False
        self._n_terms += added
        if self._n_terms == kernels.TERMS:
            self._fold()
        return True

    def mix(self, shards: Sequence["BilinearLearner"], base: "BilinearLearner") -> None:
        """Become the mean of matrices of one shape, which shards have learned that continued from `base`, or from nothing.

        Averages count by the number of matrices in them; with a half-life, that is of one machine. Other numbers add up.
        """
        numbers, began = np.array([one._numbers for one in shards]), base._numbers
        self._matrix = np.mean([one.matrix(False) for one in shards], axis=0).astype(np.float32)
        self._average, counts = np.zeros((0, self._matrix.shape[1]), dtype=np.float32), numbers[:, AVERAGED]
        if self._averages:
            shares = counts / counts.sum() if counts.any() else np.full(len(shards), 1.0 / len(shards))
            self._average = np.tensordot(shares, np.array([one.matrix() for one in shards]), axes=1).astype(np.float32)
        self._numbers = np.maximum(began + (numbers - began).sum(axis=0), 0.0)
        if self.half_life:
            self._numbers[AVERAGED] = counts.mean()
        self._numbers[kernels.KEPT], self._numbers[kernels.BEGINNING] = 1.0, numbers[0, kernels.BEGINNING]
        self._n_terms = 0
        self._derive()

    def _fold(self) -> None:
        """Add the terms to new matrices."""
        matrix, average = np.empty_like(self._matrix), np.empty_like(self._average)
        lost = kernels.fold(
            self._matrix, self._average, self._left, self._right, self._shares, self._numbers, self._n_terms, matrix, average
        )  # fmt: skip
        self._numbers[kernels.ROUNDED] += lost
        self._numbers[kernels.KEPT] = 1.0
        self._matrix, self._average, self._n_terms = matrix, average, 0
        # Others may still hold the terms.
        self._left, self._right = np.zeros_like(self._left), np.zeros_like(self._right)
