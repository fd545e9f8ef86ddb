r"""A bound for learning from clicks.

The cost of a ranking is additive, :math:`C_t = \sum_i r_i \lambda(rank_i)` with relevances r_i in [0, 1] and lambda(1) = 0:
rank - 1, or 1 - D(rank), the DCG lost. rank_i counts ties against document i: the number of documents with s_j >= s_i. A click
c_i has mean p_i r_i given the past, with a known p_i > 0 that may depend on what was shown.

The pairs are (i, j) with i clicked and j **any** document with s_j >= s_i, each with
:math:`a_{ij} = \lambda(rank_i) / (p_i (rank_i - 1))`, so that the mass is
:math:`\hat V_t = \sum_i c_i \lambda(rank_i) / p_i`, an unbiased estimate of C_t.

There is no such estimate for NDCG and AP, whose normaliser needs all grades: Chaudhuri & Tewari, *Online learning to rank with
top-k feedback*, 2017.
"""

import math
from typing import Any

from online_rank.bounds.declaration import ANY_BEGINNING, bound
from online_rank.bounds.numbers import require_finite, require_non_negative, square
from online_rank.rankers.click_perceptron import ClickPerceptron

__all__ = ["click_bound", "click_data_bound", "click_hindsight_bound"]


@bound("F(u) + <u, w>", of=ClickPerceptron, runs=ANY_BEGINNING)
def click_hindsight_bound(*, comparator_loss: float, inner_product: float, model: Any = None) -> float:
    r"""Clicks, once the stream is over, on every path: :math:`\sum_t \hat V_t \le \hat F(u) + \langle u, w_{T+1} \rangle`.

    Proof: `master_bound` never asked which document of a pair is more relevant.

    Parameters
    ----------
    comparator_loss
        F^(u), on the pairs of the updates.
    inner_product
        <u, w_{T+1}>.

    Examples
    --------
    >>> click_hindsight_bound(comparator_loss=1.0, inner_product=2.0)
    3.0
    """
    require_non_negative(comparator_loss=comparator_loss)
    require_finite(inner_product=inner_product)
    return comparator_loss + inner_product


@bound("F(u) + ||u|| sqrt(sum ||z||^2 + 2 tau V)", of=ClickPerceptron, takes={"squared_gradient_norms": "Q"})
def click_data_bound(*, comparator_loss: float, norm: float, squared_gradient_norms: float, model: Any = None) -> float:
    r"""Clicks, with measured norms: on every path, and in expectation.

    .. math::
        \sum_t \hat V_t \le \hat F(u) + \|u\| \sqrt{\hat Q}, \qquad E \sum_t C_t \le E F(u) + \|u\| \sqrt{E \hat Q}

    Proof: <w_t, g_t> = sum a_ij (s_i - s_j) <= 0, so ||w_{T+1}||^2 <= Q^; that is the first. V^ and F^ are linear in the
    clicks, so their expectations have r_i in place of c_i / p_i, and the root is concave. That is the second.

    Parameters
    ----------
    comparator_loss
        F^(u); for the second its expectation, with r_i in place of c_i / p_i.
    norm
        The l2 norm of u.
    squared_gradient_norms
        Q^, the sum of the squared norms of the updates, plus 2 tau_t V^_t where pairs within a margin tau_t are learned
        from; for the second its expectation.

    Examples
    --------
    >>> click_data_bound(comparator_loss=1.0, norm=2.0, squared_gradient_norms=9.0)  # 1 + 2 * sqrt(9)
    7.0
    """
    require_non_negative(comparator_loss=comparator_loss, norm=norm, squared_gradient_norms=squared_gradient_norms)
    return comparator_loss + norm * math.sqrt(squared_gradient_norms)


@bound("2 F(u) + 4 B R_X^2 ||u||^2", of=ClickPerceptron, covers={"credit": ("propensity",), "relative_margin": (0.0,)})
def click_bound(*, comparator_loss: float, norm: float, R_X: float, largest_mass: float, model: Any = None) -> float:
    r"""Clicks, in closed form, in expectation: :math:`E \sum_t C_t \le 2 E F(u) + 4 \hat B R_X^2 \|u\|^2`.

    Without the expectations it bounds the sum of the V^_t. Propensities clipped at c certify
    :math:`\sum_i r_i \lambda(rank_i) \min(1, p_i / c)` only. Feedback from the first k documents alone needs exploration, so
    that p_i > 0 for all.

    Proof: `click_data_bound` with ||g_t||^2 <= 4 R_X^2 B^ V^_t; solve for E sum C_t = E sum V^_t.

    Parameters
    ----------
    comparator_loss
        E F(u).
    norm
        The l2 norm of u.
    R_X
        Largest l2 norm of a document.
    largest_mass
        B^, which no V^_t exceeds; more than 1 where propensities are small.

    Examples
    --------
    >>> click_bound(comparator_loss=3.0, norm=2.0, R_X=1.0, largest_mass=5.0)  # 2 * 3 + 4 * 5 * 2**2
    86.0
    """
    require_non_negative(comparator_loss=comparator_loss, norm=norm, R_X=R_X, largest_mass=largest_mass)
    return 2.0 * comparator_loss + 4.0 * largest_mass * square(R_X * norm)
