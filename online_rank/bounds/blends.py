r"""Bounds on the loss that a blend serves, against the best of its N fixed blends.

On query t candidate c would lose l_t(c) in [0, 1]; L(c) is their sum, L* the smallest. The shares pi_t(c) are
proportional to pi_1(c) exp(-eta_t L_{t-1}(c)), with steps eta_t that never rise, h_t is the mean of the l_t(c) by pi_t,
:math:`m_t = -\ln(\sum_c \pi_t(c) e^{-\eta_t l_t(c)}) / \eta_t`, Delta the sum of the h_t - m_t, and W the sum of the variances.
l_t is the loss of the served ranking, however it was chosen, and G the sum of the l_t - h_t.

With a half-life, in queries or in seconds, they hold for the discounted losses: the proofs go from one query to the next, and
need no more of the factor of a step than that it is above 0 and at most 1.

References
----------
de Rooij, van Erven, Grünwald & Koolen, *Follow the leader if you can, hedge if you must*, 2014.
"""

import math
from typing import Any

from online_rank.bounds.declaration import bound
from online_rank.rankers.additive import AdditiveRanker
from online_rank.rankers.blend import BlendRanker

_ALONE: dict[str, tuple[str, ...]] = {"comparator": ("none",)}


_BLENDS = (BlendRanker, AdditiveRanker)


def _steps_may_be_large(model: Any) -> str | None:
    if model.fades:
        return f"covers half_life=None, but the model has half_life={model.half_life!r}"
    return None if model.rate <= 1.0 else f"covers rate <= 1, but the model has rate={model.rate!r}"


@bound("L + c / eta_T + Delta + G", of=_BLENDS, runs=_ALONE)
def blend_bound(*, best_loss: float, prior_cost: float, step: float, mixability_gap: float, serving_gap: float) -> float:
    r"""Upper bound on the loss that a blend served, on every path, at any time.

    .. math:: \sum_t l_t \le \min_c \left(L_T(c) + \frac{\ln(1 / \pi_1(c))}{\eta_T}\right) + \Delta_T + \sum_t (l_t - h_t)

    Proof: with :math:`\Phi_\eta(L) = -\ln(\sum_c \pi_1(c) e^{-\eta L(c)}) / \eta`, m_t = Phi_{eta_t}(L_t) -
    Phi_{eta_t}(L_{t-1}); Phi_eta falls as eta grows, so the m_t add up to at most Phi_{eta_T}(L_T), which is at most L(c) +
    ln(1 / pi_1(c)) / eta_T for every c. And l_t = m_t + (h_t - m_t) + (l_t - h_t). With a half-life Phi(rho L) >= rho Phi(L),
    and eta / rho stands for eta.

    Parameters
    ----------
    best_loss, prior_cost
        L(c) and ln(1 / pi_1(c)) of the candidate for which the bound is smallest; ln N without a prior.
    step
        eta_T, the step of the next query.
    mixability_gap
        Delta.
    serving_gap
        G, over all queries; below 0 if blends ranked better than their candidates.

    Examples
    --------
    >>> blend_bound(best_loss=10.0, prior_cost=3.0, step=1.0, mixability_gap=0.5, serving_gap=-1.0)
    12.5
    """
    if not step > 0.0:
        return math.inf
    return best_loss + prior_cost / step + mixability_gap + serving_gap


#: c is ln(1 / pi) of the candidate with the least bound.
_CLOSED = "L + c / eta + (1 + c / ln N) (sqrt(2 (e - 2) W ln N) + 1/8) + b + 1"


@bound(
    f"{_CLOSED}, in expectation over the draws, if grades do not depend on them",
    of=_BLENDS, runs=_ALONE, unless=_steps_may_be_large,
    takes={"least_loss": "best_loss", "least_cost": "prior_cost"}, in_expectation=True,
)  # fmt: skip
def blend_closed_bound(
    *,
    least_loss: float,
    least_cost: float | None = None,
    n_candidates: int,
    rate: float,
    variance: float,
    budget: float = 1.0,
) -> float:
    r"""Upper bound on the expected loss that a blend serves, without Delta and G: the excess over L is of the order of
    sqrt(L ln N) + ln N, since W <= H.

    .. math::
        \sum_t E_t l_t \le L(c) + \frac{\kappa}{\eta} + \left(1 + \frac{\kappa}{\ln N}\right)
        \left(\sqrt{2 (e - 2) W \ln N} + \frac{1}{8}\right) + b + 1, \qquad \kappa = \ln\frac{1}{\pi_1(c)}

    Proof: eta_t = min(eta, ln N / Delta), so H <= L(c) + kappa / eta_T + Delta <= L(c) + kappa / eta + (1 + kappa / ln N)
    Delta. With y = eta_t (h_t - l_t(c)) <= 1, e^y <= 1 + y + (e - 2) y^2, so h_t - m_t is at most (e - 2) eta_t times the
    variance; it is at most eta_t / 8 (Hoeffding). So Delta^2 <= 2 (e - 2) W ln N + Delta / 8; solve. The mean of the candidates
    is served only while G_m <= b, so that G_m <= b + 1. The expected loss of a drawn candidate is h_t if the grades of the
    query do not depend on the draw. `blend_path_bound` needs no such assumption.

    Parameters
    ----------
    least_loss, least_cost
        L(c) and ln(1 / pi_1(c)) of a candidate; None for ln N, where all candidates begin alike.
    n_candidates
        N.
    rate
        eta <= 1.
    variance
        W.
    budget
        b; rankers allow the loss of one query.

    Examples
    --------
    >>> blend_closed_bound(least_loss=10.0, n_candidates=1, rate=1.0, variance=0.0)  # 10 + 1/4 + 1 + 1
    12.25
    """
    return _closed(least_loss, least_cost, n_candidates, rate, variance, budget)


@bound(
    f"{_CLOSED} + luck", of=_BLENDS, runs=_ALONE, unless=_steps_may_be_large,
    takes={"least_loss": "best_loss", "least_cost": "prior_cost"},
)  # fmt: skip
def blend_path_bound(
    *,
    least_loss: float,
    least_cost: float | None = None,
    n_candidates: int,
    rate: float,
    variance: float,
    luck: float,
    budget: float = 1.0,
) -> float:
    """Upper bound on the loss that a blend served, on every path: `blend_closed_bound` and the measured luck of the draws.

    Proof: the l_t - h_t of the queries that were ranked by the mean of the candidates add up to at most b + 1. The sum
    for the drawn candidates is the luck. Nothing is assumed about the grades.

    Parameters
    ----------
    least_loss, least_cost, n_candidates, rate, variance, budget
        As for `blend_closed_bound`.
    luck
        Sum of the l_t - h_t over the queries in which a candidate was drawn; it may be below 0.

    Examples
    --------
    >>> blend_path_bound(least_loss=10.0, n_candidates=1, rate=1.0, variance=0.0, luck=-0.25)
    12.0
    """
    return _closed(least_loss, least_cost, n_candidates, rate, variance, budget) + luck


def _closed(
    least_loss: float, least_cost: float | None, n_candidates: int, rate: float, variance: float, budget: float
) -> float:
    """`_CLOSED`, of checked numbers."""
    if not rate > 0.0:
        return math.inf
    size = math.log(n_candidates)
    cost = size if least_cost is None else least_cost
    gap = math.sqrt(2.0 * (math.e - 2.0) * variance * size) + 0.125
    return least_loss + cost / rate + gap * (1.0 + (cost / size if size > 0.0 else 1.0)) + budget + 1.0


@bound("F(u) + ||u|| sqrt(Q) + c / eta_T + Delta + G", of=AdditiveRanker)
def additive_mass_bound(
    *,
    comparator_loss: float,
    comparator_norm: float,
    squares: float,
    last_cost: float,
    step: float,
    mixability_gap: float,
    serving_gap: float,
) -> float:
    r"""Upper bound on the loss that an `AdditiveRanker` served, against every sum of curves, however the truth drifts.

    .. math::
        \sum_t l_t \le F(u) + \|u\| \sqrt{Q} + \frac{\ln(1 / \pi_1)}{\eta_T} + \Delta_T + \sum_t (l_t - h_t)

    Proof: the last weights alone are one of the candidates, with the prior pi_1. They learn from their own mistakes, so the
    mass theorem bounds their loss by the first two terms (`online_rank.bounds`), on the columns as they were at each query; the
    rest is `blend_bound`. No comparator gives less than u = 0, where F(u) is V, the total mass: a certificate prints V and what
    it says of all comparators ("without a comparator"), and no line for this bound.

    Parameters
    ----------
    comparator_loss, comparator_norm
        F(u) on the pairs of the updates, and ||u||; V and 0 for u = 0.
    squares
        Q, the sum of the squared norms of the updates and of twice the margins times the masses.
    last_cost, step, mixability_gap, serving_gap
        ln(1 / pi_1), eta_T, Delta and G, as for `blend_bound`.

    Examples
    --------
    >>> additive_mass_bound(
    ...     comparator_loss=8.0, comparator_norm=2.0, squares=4.0, last_cost=2.0, step=1.0, mixability_gap=1.0, serving_gap=0.0
    ... )
    15.0
    """
    if not step > 0.0:
        return math.inf
    price = last_cost / step + mixability_gap + serving_gap
    return comparator_loss + comparator_norm * math.sqrt(squares) + price
