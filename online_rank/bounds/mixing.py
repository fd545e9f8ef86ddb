r"""Bounds for K machines that learn from shards of a stream and mix their weights from time to time.

In period p machine k starts from w_p and gains G_pk, with mass V_pk, comparator loss F_pk and
:math:`Q_{pk} = \sum (\|z\|^2 + 2 \tau V)`. Then :math:`w_{p+1} = \sum_k \mu_{pk} (w_p + G_{pk})`, mu >= 0, sum_k mu_pk = 1.

Related: McDonald, Hall & Mann, *Distributed training strategies for the structured perceptron*, 2010 (separable streams).
"""

import math
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank.bounds.declaration import ANY_BEGINNING, OWN_MISTAKES, bound
from online_rank.bounds.numbers import growth, require_finite, require_non_negative, square
from online_rank.rankers.click_perceptron import ClickPerceptron
from online_rank.rankers.perceptron import PerceptronRanker

__all__ = ["mixing_bound", "mixing_data_bound", "mixing_hindsight_bound", "mixing_penalty"]


def mixing_penalty(masses: Any, *, mixing: str = "uniform") -> float:
    r"""The factor by which mixing weakens a bound: K for `"uniform"`, the largest kappa of a period for `"mass"`.

    Weights proportional to the masses, :math:`\mu_{pk} = V_{pk} / \sum_k V_{pk}`, give
    :math:`\kappa = \max_p (\sum_k V_{pk})^2 / \sum_k V_{pk}^2 \le K`; a period without any mass does not count.

    Parameters
    ----------
    masses
        V (periods, machines).
    mixing
        `"uniform"` or `"mass"`.

    Examples
    --------
    >>> mixing_penalty([[1.0, 1.0], [3.0, 0.0]]), mixing_penalty([[3.0, 1.0], [3.0, 0.0]], mixing="mass")
    (2.0, 1.599...)
    """
    _require_mixing(mixing)
    V = np.asarray(masses, dtype=np.float64)
    if V.ndim != 2 or not V.shape[1]:
        raise ValueError(f"masses have shape {V.shape}; they are an array (periods, machines)")
    if not np.all(V >= 0.0):
        raise ValueError("masses must be numbers >= 0")
    if mixing == "uniform":
        return float(V.shape[1])
    V = V[V.sum(axis=1) > 0.0]
    if not len(V):
        return 1.0
    V = V / V.max(axis=1, keepdims=True)
    return float(np.max(V.sum(axis=1) ** 2 / (V * V).sum(axis=1)))


@bound(
    "F(u) + <u, sum of all gains>", of=(PerceptronRanker, ClickPerceptron),
    runs={"machines": ("several", "uneven"), "comparator": ("fixed", "moved"), **ANY_BEGINNING,
          "scores": ("own", "served")},
    takes={"inner_product": "gain_product"},
)  # fmt: skip
def mixing_hindsight_bound(*, comparator_loss: float, inner_product: float, model: Any = None) -> float:
    r"""Any mixing, once the stream is over: the loss of all machines together is

    .. math:: \sum RML \le \sum_{pk} V_{pk} \le F(u) + \left\langle u, \sum_{pk} G_{pk} \right\rangle.

    With uniform mixing the sum of all gains is K w_end. Proof: V_pk - F_pk <= <u, G_pk> as in `master_bound`; add up.

    Parameters
    ----------
    comparator_loss
        F(u) of all machines and periods.
    inner_product
        The product of u and the sum of all gains.

    Examples
    --------
    >>> mixing_hindsight_bound(comparator_loss=1.0, inner_product=2.0)
    3.0
    """
    require_non_negative(comparator_loss=comparator_loss)
    require_finite(inner_product=inner_product)
    return comparator_loss + inner_product


@bound(
    "F(u) + ||u|| sqrt(K Q)", of=PerceptronRanker, covers=OWN_MISTAKES,
    runs={"machines": ("several",)},
)  # fmt: skip
def mixing_data_bound(
    *,
    comparator_loss: float,
    norm: float,
    squared_gradient_norms: float,
    penalty: float,
    margin_mass: float = 0.0,
    mixing: str = "uniform",
    model: Any = None,
) -> float:
    r"""The loss of all machines together, with measured norms.

    .. math::
        \text{uniform:}\quad \sum V \le F(u) + \|u\| \sqrt{K Q} \qquad\qquad
        \text{mass:}\quad \sum V \le \kappa \left(F_\mu(u) + \|u\| \sqrt{Q_\mu}\right)

    F and Q are sums over machines and periods, F_mu and Q_mu sums of mu_pk F_pk and mu_pk Q_pk. The factor K is attained if all
    shards are the same.

    Proof: <w_p, G_pk> is at most the sum of tau V over its rounds, less the inner products of the updates within the period, so
    that
    ||w_p + G_pk||^2 <= ||w_p||^2 + Q_pk; the norm is convex, so ||w_end||^2 <= sum mu Q. Section by section
    sum mu (V - F) <= sum mu <u, G> = <u, w_end>. Hence sum mu V <= F_mu + ||u|| sqrt(Q_mu), and sum V is at most the penalty
    times sum mu V.

    Parameters
    ----------
    comparator_loss, squared_gradient_norms, margin_mass
        F, and the sums of the ||z||^2 and of the tau V: unweighted for `"uniform"`, weighted by mu for `"mass"`.
    norm
        The l2 norm of u.
    penalty
        K or kappa (`mixing_penalty`).
    mixing
        `"uniform"` or `"mass"`.

    Examples
    --------
    >>> mixing_data_bound(comparator_loss=1.0, norm=2.0, squared_gradient_norms=4.0, penalty=4)  # 1 + 2 sqrt(4 * 4)
    9.0
    >>> mixing_data_bound(comparator_loss=1.0, norm=2.0, squared_gradient_norms=4.0, penalty=1.5, mixing="mass")
    7.5
    """
    _require_mixing(mixing)
    require_non_negative(
        comparator_loss=comparator_loss, norm=norm, squared_gradient_norms=squared_gradient_norms, margin_mass=margin_mass
    )
    _require_penalty(penalty)
    root = norm * math.sqrt(squared_gradient_norms + 2.0 * margin_mass)
    if mixing == "uniform":
        return comparator_loss + math.sqrt(penalty) * root
    return penalty * (comparator_loss + root)


@bound("2 F(u) + 4 K B (1 + 2 beta) R_X^2 ||u||^2", of=PerceptronRanker, covers=OWN_MISTAKES, runs={"machines": ("several",)})
def mixing_bound(
    *,
    comparator_loss: float,
    norm: float,
    R_X: float,
    penalty: float,
    largest_mass: float = 1.0,
    relative_margin: float = 0.0,
    mixing: str = "uniform",
    model: Any = None,
) -> float:
    r"""The loss of all machines together, in closed form.

    .. math::
        \text{uniform:}\quad \sum V \le 2 F(u) + 4 K B (1 + 2 \beta) R_X^2 \|u\|^2 \qquad
        \text{mass:}\quad \sum V \le \kappa \left(2 F_\mu(u) + 4 B (1 + 2 \beta) R_X^2 \|u\|^2\right)

    Proof: `mixing_data_bound` with Q <= 4 B (1 + 2 beta) R_X^2 sum V; solve for sum V, or for sum mu V.

    Parameters
    ----------
    comparator_loss, norm, penalty, mixing
        As in `mixing_data_bound`.
    R_X, largest_mass, relative_margin
        As in `mass_bound`.

    Examples
    --------
    >>> mixing_bound(comparator_loss=3.0, norm=2.0, R_X=1.0, penalty=3)  # 2 * 3 + 3 * 4 * 2**2
    54.0
    """
    _require_mixing(mixing)
    require_non_negative(
        comparator_loss=comparator_loss, norm=norm, R_X=R_X, largest_mass=largest_mass, relative_margin=relative_margin
    )
    _require_penalty(penalty)
    closed = square(R_X * norm) * growth(largest_mass, relative_margin)
    factor = 1.0 if mixing == "uniform" else penalty
    return factor * 2.0 * comparator_loss + penalty * closed


def _require_mixing(mixing: str) -> None:
    arguments.choice("mixing", mixing, ("uniform", "mass"))  # mixing_hindsight_bound covers any


def _require_penalty(penalty: float) -> None:
    arguments.number("penalty", penalty, 1.0)
