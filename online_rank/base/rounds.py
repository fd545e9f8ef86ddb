"""What a round of learning leaves behind."""

from typing import NamedTuple

import numpy as np

__all__ = ["Round"]


class Round(NamedTuple):
    """What happened when a ranker learned from one query.

    Attributes
    ----------
    loss
        Loss (1 - measure) of the ranking by the weights that learn, before the update, ties broken pessimistically.
    served_loss
        The same for the weights that serve rankings; NaN unless a `LossTracker`, `DriftAwareRanker` or `BestRanker` around the
        ranker asked for it.
    mass
        V_t, the total weight of the pairs that the update was made of (`online_rank.bounds`); 0 without an update.
    squared_gradient_norm
        ||z_t||^2, the squared l2 norm of the update direction; 0 without an update.
    margin
        tau_t, by how much a correctly ordered pair may be right and still be part of the update; 0 for the pure rule.
    weight
        The sample weight of the query.
    n_documents
        m, the number of documents.
    largest_norm
        The largest l2 norm of a document, max_i ||x_i||.
    v_max
        Largest over smallest positive weight v_i of the surrogate for this query; 0 where there is none.
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
