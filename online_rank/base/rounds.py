"""The record of one round of learning."""

import math
from typing import Any, NamedTuple

import numpy as np

from online_rank._kernels.dense import score_with_norms
from online_rank.base.schema import Array, StateError
from online_rank.query import SparseRows


def largest_norm(X: np.ndarray | SparseRows) -> float:
    """The largest l2 norm of a document; 0 without documents, infinity where a square overflows."""
    if not isinstance(X, SparseRows):
        return math.sqrt(score_with_norms(X, np.zeros(X.shape[1]), np.empty(X.shape[0]))[0])
    # Without making an array, which may be too large.
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.starts))
    with np.errstate(over="ignore"):
        squares = np.bincount(rows, X.values.astype(np.float64) ** 2, minlength=X.shape[0])
    return math.sqrt(squares.max(initial=0.0))


class Round(NamedTuple):
    """What happened when a ranker learned from one query.

    Attributes
    ----------
    loss
        Loss (1 - measure) of the ranking by the weights that learn, before the update, ties broken pessimistically.
    served_loss
        The same for the weights that serve rankings; NaN unless a `LossTracker` around the
        ranker asked for it.
    mass
        V_t, the total weight of the pairs in the update (`online_rank.bounds`); 0 without an update.
    squared_gradient_norm
        ||z_t||^2, the squared l2 norm of the update direction; 0 without an update.
    margin
        tau_t, the margin: pairs ordered correctly by less than this are part of the update too; 0 for the pure rule.
    weight
        The sample weight of the query.
    n_documents
        m, the number of documents.
    largest_norm
        The largest l2 norm of a document, max_i ||x_i||.
    v_max
        Largest over smallest positive weight v_i of the surrogate for this query; 0 without a positive weight.
    skipped
        Whether nothing could be learned (fewer than two documents, one grade only, or no relevant document).
    """

    loss: float
    served_loss: float
    mass: float
    squared_gradient_norm: float
    margin: float
    weight: float
    n_documents: int
    largest_norm: float
    v_max: float
    skipped: bool

    @classmethod
    def from_row(cls, row: np.ndarray) -> "Round":
        """A round from its row of numbers, as kernels write it."""
        values = cls._make(row.tolist())
        return values._replace(n_documents=int(values.n_documents), skipped=bool(values.skipped))


class LastRound(Array):
    """The row (1, fields of Round) of a ranker's last round in its state; None before the first.

    A loss may be NaN if it was not requested; the number of documents may not.
    """

    def __init__(self) -> None:
        super().__init__(1, len(Round._fields), finite=False, optional=True)

    def _check(self, value: Any, where: str, owner: Any) -> None:
        super()._check(value, where, owner)
        number = value[0, Round._fields.index("n_documents")]
        if not 0.0 <= number <= 2.0**53:
            raise StateError(f"{where} has {number:g} documents")
