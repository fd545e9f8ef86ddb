r"""The mass theorem with a budget: bounds on the loss of a `KernelPerceptronRanker`.

An update z_t is projected on the stored documents, and e_t = z_t - P z_t is lost. The weights w_t lie in the span of the
stored documents, so <w_t, P z_t> = <w_t, z_t> <= tau_t V_t, and for every u of the feature space (notation as in
`online_rank.bounds`)

.. math:: \sum_t V_t \le F(u) + \langle u, w_{T+1} \rangle + \sum_t \langle u, e_t \rangle.

A comparator is a function here, which no `LossTracker` holds: the tests of the ranker measure its loss and certify the run.
"""

import math

from online_rank.bounds.declaration import bound
from online_rank.rankers.kernel import KernelPerceptronRanker


def _budget_is_spent(model: KernelPerceptronRanker) -> str | None:
    if model.budget_lasts:
        return None
    return f"covers a budget that lasts, but {model.largest_projection:.3g} of a mass was lost in one projection"


@bound(
    "2 F(u) / (1 - epsilon ||u||) + 4 B R_X^2 (1 + 2 beta) ||u||^2 / (1 - epsilon ||u||)^2", of=KernelPerceptronRanker,
    unless=_budget_is_spent,
)  # fmt: skip
def projection_bound(
    *, comparator_loss: float, norm: float, R_X: float, tolerance: float, largest_mass: float, relative_margin: float
) -> float:
    r"""The closed form, as long as the budget lasts: every :math:`\|e_t\| \le \epsilon V_t`.

    .. math::
        \sum_t RML_t \le \sum_t V_t \le
        \frac{2 F(u)}{1 - \epsilon \|u\|} + \frac{4 B R_X^2 (1 + 2 \beta) \|u\|^2}{(1 - \epsilon \|u\|)^2}

    Infinite unless epsilon ||u|| < 1.

    Parameters
    ----------
    comparator_loss, norm
        F(u), and the norm of u in the feature space.
    R_X
        Largest norm of a document in the feature space, sqrt(k(x, x)); 1 for the RBF kernel.
    tolerance
        epsilon.
    largest_mass
        B, the largest mass of a round; 1 will do without sample weights.
    relative_margin
        beta.

    Examples
    --------
    >>> projection_bound(comparator_loss=1.0, norm=2.0, R_X=1.0, tolerance=0.25, largest_mass=1.0, relative_margin=0.0)
    68.0
    """
    kept = 1.0 - tolerance * norm
    if kept <= 0.0:
        return math.inf
    size = R_X * norm / kept
    return 2.0 * comparator_loss / kept + 4.0 * largest_mass * (1.0 + 2.0 * relative_margin) * size * size


@bound("F(u) + ||u|| (sqrt(Q) + sum ||e_t||)", of=KernelPerceptronRanker)
def projection_data_bound(
    *, comparator_loss: float, norm: float, squared_gradient_norms: float, projection_error: float, margin_mass: float
) -> float:
    r"""With measured norms and errors, whether or not the budget was used up.

    .. math::
        \sum_t V_t \le F(u) + \|u\| \left( \sqrt{\sum_t \|P z_t\|^2 + 2 \tau_t V_t} + \sum_t \|e_t\| \right)

    As long as the budget lasts, epsilon sum V stands for the sum of the errors, which gives (F(u) + ||u|| sqrt(Q)) / (1 -
    epsilon ||u||), the bound of the Projectron (Orabona, Keshet & Caputo 2009).

    Parameters
    ----------
    comparator_loss, norm
        F(u), and the norm of u in the feature space.
    squared_gradient_norms
        Sum of the squared norms of the projected updates.
    projection_error
        Sum of the ||e_t||: `KernelPerceptronRanker.projection_error`.
    margin_mass
        Sum of tau_t V_t.

    Examples
    --------
    >>> projection_data_bound(comparator_loss=1.0, norm=2.0, squared_gradient_norms=9.0, projection_error=0.5, margin_mass=0.0)
    8.0
    """
    return comparator_loss + norm * (math.sqrt(squared_gradient_norms + 2.0 * margin_mass) + projection_error)


@bound("F(u) + <u, w> + ||u|| sum ||e_t||", of=KernelPerceptronRanker)
def projection_hindsight_bound(*, comparator_loss: float, norm: float, inner_product: float, projection_error: float) -> float:
    r"""Once the stream is over: :math:`\sum_t V_t \le F(u) + \langle u, w_{T+1} \rangle + \|u\| \sum_t \|e_t\|`.

    Parameters
    ----------
    comparator_loss, norm, projection_error
        As in `projection_data_bound`.
    inner_product
        <u, w_{T+1}> in the feature space, with the last of the functions that learn.

    Examples
    --------
    >>> projection_hindsight_bound(comparator_loss=1.0, norm=2.0, inner_product=3.0, projection_error=0.5)  # 1 + 3 + 2 * 0.5
    5.0
    """
    return comparator_loss + inner_product + norm * projection_error
