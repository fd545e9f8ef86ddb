r"""Bounds for a perceptron that begins with given weights w_0: those of another model, or of a fusion rule.

Notation as in `online_rank.bounds`, but w_1 = w_0, and Q sums over the rounds of the run. The sum of the updates is w_{T+1} -
w_0, so the hindsight forms have <u, w_{T+1} - w_0> in place of <u, w_{T+1}>.

Initial weights in the direction of u, w_0 = lambda u, give a bound of F(u) + Q / (2 lambda): the longer they are, the smaller
it gets. Initial weights in the opposite direction cost up to 2 ||u|| ||w_0|| more. To guard against that, put the ranker into a
`BlendRanker` beside one that begins at zero.
"""

import math
from typing import Any

from online_rank.bounds.declaration import OWN_MISTAKES, bound
from online_rank.bounds.numbers import require_finite, require_non_negative
from online_rank.rankers.perceptron import PerceptronRanker

__all__ = ["beginning_data_bound", "beginning_distance_bound"]

_GIVEN = {"beginning": ("given",)}


@bound("F(u) + ||u|| sqrt(||w0||^2 + sum ||z||^2 + 2 tau V) - <u, w0>", of=PerceptronRanker, covers=OWN_MISTAKES, runs=_GIVEN)
def beginning_data_bound(
    *,
    comparator_loss: float,
    norm: float,
    beginning_norm: float,
    beginning_product: float,
    squared_gradient_norms: float,
    margin_mass: float = 0.0,
    model: Any = None,
) -> float:
    r"""A run that began with given weights, with measured norms; for w_0 = 0 it is `mass_data_bound`.

    .. math:: \sum_t RML_t \le \sum_t V_t \le F(u) + \|u\| \sqrt{\|w_0\|^2 + Q} - \langle u, w_0 \rangle

    Proof: `beginning_distance_bound` for c u, with hinges at c in place of 1, says that c sum V is at most
    c F(u) + (||c u - w_0||^2 + Q) / 2. Divide by c, and take c = sqrt(||w_0||^2 + Q) / ||u||.

    Parameters
    ----------
    comparator_loss, norm, squared_gradient_norms, margin_mass
        As in `mass_data_bound`.
    beginning_norm, beginning_product
        The norm of w_0, and <u, w_0>.

    Examples
    --------
    >>> beginning_data_bound(  # 1 + 2 * sqrt(3**2 + 16) - 4
    ...     comparator_loss=1.0, norm=2.0, beginning_norm=3.0, beginning_product=4.0, squared_gradient_norms=16.0)
    7.0
    """
    require_non_negative(
        comparator_loss=comparator_loss, norm=norm, beginning_norm=beginning_norm,
        squared_gradient_norms=squared_gradient_norms, margin_mass=margin_mass,
    )  # fmt: skip
    require_finite(beginning_product=beginning_product)
    root = math.hypot(beginning_norm, math.sqrt(squared_gradient_norms + 2.0 * margin_mass))
    return comparator_loss + norm * root - beginning_product


@bound("F(u) + (||u - w0||^2 + sum ||z||^2 + 2 tau V) / 2", of=PerceptronRanker, covers=OWN_MISTAKES, runs=_GIVEN)
def beginning_distance_bound(
    *,
    comparator_loss: float,
    distance: float,
    squared_gradient_norms: float,
    margin_mass: float = 0.0,
    model: Any = None,
) -> float:
    r"""A run that began with given weights, in terms of their distance from the comparator.

    .. math:: \sum_t RML_t \le \sum_t V_t \le F(u) + \frac{1}{2} \left(\|u - w_0\|^2 + Q\right)

    Proof: ||w_{t+1} - u||^2 = ||w_t - u||^2 + 2 <g_t, w_t - u> + ||g_t||^2 with <g_t, w_t> <= tau_t V_t and
    <g_t, u> >= V_t - F_t(u). Add up; the left side is >= 0.

    Parameters
    ----------
    distance
        The l2 norm of u - w_0.
    comparator_loss, squared_gradient_norms, margin_mass
        As in `mass_data_bound`.

    Examples
    --------
    >>> beginning_distance_bound(comparator_loss=1.0, distance=2.0, squared_gradient_norms=6.0)  # 1 + (2**2 + 6) / 2
    6.0
    """
    require_non_negative(
        comparator_loss=comparator_loss, distance=distance, squared_gradient_norms=squared_gradient_norms,
        margin_mass=margin_mass,
    )  # fmt: skip
    return comparator_loss + 0.5 * (distance * distance + squared_gradient_norms + 2.0 * margin_mass)
