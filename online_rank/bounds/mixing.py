r"""Bounds for K machines that learn from shards of a stream and mix their weights from time to time.

In period p machine k starts from w_p and gains G_pk, with mass V_pk, comparator loss F_pk and :math:`Q_{pk} = \sum (\|z\|^2 + 2
\tau V)`. Then :math:`w_{p+1} = \sum_k \mu_{pk} (w_p + G_{pk})`, mu >= 0, sum_k mu_pk = 1. For any mu `mass_hindsight_bound`
holds with the sum of all gains: V_pk - F_pk <= <u, G_pk>; add up. With mu_pk = 1 / K the sum of all gains is K w_end, and the
bounds below hold.

With mu_pk = V_pk / sum_k V_pk they hold with :math:`\kappa = \max_p (\sum_k V_{pk})^2 / \sum_k V_{pk}^2 \le K`: :math:`\sum V
\le \kappa \sum \mu V \le \kappa (F_\mu(u) + \|u\| \sqrt{Q_\mu})`, with sums of mu F and mu Q. No run measures these.

Related: McDonald, Hall & Mann, *Distributed training strategies for the structured perceptron*, 2010 (separable streams).
"""

import math

from online_rank.bounds.declaration import OWN_MISTAKES, bound
from online_rank.bounds.mass import growth
from online_rank.rankers.perceptron import PerceptronRanker

_SEVERAL = {"machines": ("several",)}


@bound("F(u) + ||u|| sqrt(K Q)", of=PerceptronRanker, covers=OWN_MISTAKES, runs=_SEVERAL)
def mixing_data_bound(
    *, comparator_loss: float, norm: float, squared_gradient_norms: float, n_machines: float, margin_mass: float
) -> float:
    r"""The loss of all machines together, with measured norms: :math:`\sum V \le F(u) + \|u\| \sqrt{K Q}`.

    F and Q are sums over machines and periods. The factor K is attained if all shards are the same.

    Proof: <w_p, G_pk> is at most the sum of tau V over its rounds, less the inner products of the updates within the period, so
    that ||w_p + G_pk||^2 <= ||w_p||^2 + Q_pk; the norm is convex, so ||w_end||^2 <= sum mu Q. Period by period
    sum mu (V - F) <= sum mu <u, G> = <u, w_{p+1} - w_p>. Hence sum mu V <= sum mu F + ||u|| sqrt(sum mu Q), with mu = 1 / K.

    Parameters
    ----------
    comparator_loss, squared_gradient_norms, margin_mass
        F, and the sums of the ||z||^2 and of the tau V.
    norm
        The l2 norm of u.
    n_machines
        K.

    Examples
    --------
    >>> mixing_data_bound(comparator_loss=1.0, norm=2.0, squared_gradient_norms=4.0, n_machines=4, margin_mass=0.0)
    9.0
    """
    return comparator_loss + math.sqrt(n_machines) * (norm * math.sqrt(squared_gradient_norms + 2.0 * margin_mass))


@bound("2 F(u) + 4 K B (1 + 2 beta) R_X^2 ||u||^2", of=PerceptronRanker, covers=OWN_MISTAKES, runs=_SEVERAL)
def mixing_bound(
    *, comparator_loss: float, norm: float, R_X: float, n_machines: float, largest_mass: float, relative_margin: float
) -> float:
    r"""The loss of all machines together, in closed form: :math:`\sum V \le 2 F(u) + 4 K B (1 + 2 \beta) R_X^2 \|u\|^2`.

    Proof: `mixing_data_bound` with Q <= 4 B (1 + 2 beta) R_X^2 sum V; solve for sum V.

    Parameters
    ----------
    comparator_loss, norm, n_machines
        As in `mixing_data_bound`.
    R_X, largest_mass, relative_margin
        As in `mass_bound`.

    Examples
    --------
    >>> mixing_bound(comparator_loss=3.0, norm=2.0, R_X=1.0, n_machines=3, largest_mass=1.0, relative_margin=0.0)
    54.0
    """
    size = R_X * norm
    return 2.0 * comparator_loss + n_machines * (size * size * growth(largest_mass, relative_margin))
