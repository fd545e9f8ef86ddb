r"""Bounds for truncated or rounded weights. For weights kept in the span of stored updates see `projection`.

Notation as in `online_rank.bounds`. Everything holds in any feature space whose map is fixed before the stream: hashing, bins,
random Fourier features. A map that is learned from the stream moves the comparator: see `online_rank.bounds.drift`.
"""

from typing import Any

from online_rank.bounds.declaration import OWN_MISTAKES, bound
from online_rank.bounds.numbers import require_finite, require_non_negative
from online_rank.rankers.perceptron import PerceptronRanker

__all__ = ["truncation_bound"]


@bound("F(u) + <u, w> + ||u|| sum ||e_t||", of=PerceptronRanker, covers=OWN_MISTAKES)
def truncation_bound(
    *, comparator_loss: float, inner_product: float, norm: float, error_norms: float, model: Any = None
) -> float:
    r"""Weights from which an error e_t is subtracted after each update, by rounding or pruning.

    .. math:: \sum_t RML_t \le \sum_t V_t \le F(u) + \langle u, w_{T+1} \rangle + \|u\| \sum_t \|e_t\|

    Proof: `master_bound` with one comparator; <u, e_t> <= ||u|| ||e_t||.

    Parameters
    ----------
    comparator_loss
        F(u).
    inner_product
        <u, w_{T+1}>, with the remaining weights.
    norm
        The l2 norm of u.
    error_norms
        Sum of the norms of e_t.

    Examples
    --------
    >>> truncation_bound(comparator_loss=1.0, inner_product=2.0, norm=3.0, error_norms=0.5)
    4.5
    """
    require_non_negative(comparator_loss=comparator_loss, norm=norm, error_norms=error_norms)
    require_finite(inner_product=inner_product)
    return comparator_loss + inner_product + norm * error_norms
