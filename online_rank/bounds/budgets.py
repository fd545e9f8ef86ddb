r"""Bounds for weights that are cut: truncated, rounded, or kept in the span of a few stored updates.

Notation as in `online_rank.bounds`. Everything holds in any feature space whose map is fixed before the stream: hashing, bins,
random Fourier features. A map that is learned along the way moves the comparator: see `online_rank.bounds.drift`.

Related: Orabona, Keshet & Caputo, *Bounded kernel-based online learning* (Projectron), 2009.
"""

import math
from typing import Any

from online_rank.bounds.coverage import require_covered, require_finite, require_non_negative

__all__ = ["projectron_bound", "truncation_bound"]


def truncation_bound(
    *, comparator_loss: float, inner_product: float, norm: float, error_norms: float, model: Any = None
) -> float:
    r"""Weights from which an error e_t is taken after each update, by rounding or pruning.

    .. math:: \sum_t RML_t \le \sum_t V_t \le F(u) + \langle u, w_{T+1} \rangle + \|u\| \sum_t \|e_t\|

    Proof: `master_bound` with one comparator; <u, e_t> <= ||u|| ||e_t||.

    Parameters
    ----------
    comparator_loss
        F(u).
    inner_product
        <u, w_{T+1}>, with the weights that are left.
    norm
        The l2 norm of u.
    error_norms
        Sum of the norms of e_t.

    Examples
    --------
    >>> truncation_bound(comparator_loss=1.0, inner_product=2.0, norm=3.0, error_norms=0.5)
    4.5
    """
    require_covered("truncation_bound", model)
    require_non_negative(comparator_loss=comparator_loss, norm=norm, error_norms=error_norms)
    require_finite(inner_product=inner_product)
    return comparator_loss + inner_product + norm * error_norms


def projectron_bound(
    *,
    comparator_loss: float,
    norm: float,
    squared_gradient_norms: float,
    threshold: float,
    margin_mass: float = 0.0,
    model: Any = None,
) -> float:
    r"""Updates that are projected on the stored ones where that changes them by at most eta V_t.

    .. math:: \sum_t RML_t \le \sum_t V_t \le \frac{F(u) + \|u\| \sqrt{Q}}{1 - \eta \|u\|}, \quad \|u\| < 1 / \eta

    Proof: e_t is the residual of g_t, or 0. w_t lies in the span of the stored updates, so <w_t, g_t - e_t> = <w_t, g_t> <=
    tau_t V_t, and ||w_{T+1}||^2 <= Q as without projecting. `master_bound` with <u, e_t> <= eta ||u|| V_t gives
    (1 - eta ||u||) sum V_t <= F(u) + ||u|| sqrt(Q).

    Parameters
    ----------
    threshold
        eta.
    comparator_loss, norm, squared_gradient_norms, margin_mass
        As in `mass_data_bound`, the norms before projecting.

    Returns
    -------
    The bound; infinite where eta ||u|| >= 1.

    Examples
    --------
    >>> projectron_bound(comparator_loss=1.0, norm=2.0, squared_gradient_norms=9.0, threshold=0.25)  # (1 + 2 * 3) / (1 - 0.5)
    14.0
    """
    require_covered("projectron_bound", model)
    require_non_negative(
        comparator_loss=comparator_loss, norm=norm, squared_gradient_norms=squared_gradient_norms, threshold=threshold,
        margin_mass=margin_mass,
    )  # fmt: skip
    rest = 1.0 - threshold * norm
    if rest <= 0.0:
        return math.inf
    return (comparator_loss + norm * math.sqrt(squared_gradient_norms + 2.0 * margin_mass)) / rest
