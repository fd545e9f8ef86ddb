"""Bounds of a `SlamRanker` with any step size, and how a tracker measures comparators of one.

They follow from the proof of the mass theorem, and are new in this library. Notation as in `online_rank.bounds`.
"""

import math
from typing import Any

import numpy as np

from online_rank._kernels.slam import compare
from online_rank.base import Round
from online_rank.bounds.comparators import COVERED, Covered
from online_rank.bounds.declaration import ANY_BEGINNING, bound
from online_rank.measures.learned import discounts
from online_rank.query import Block
from online_rank.rankers.inside import kernel_state
from online_rank.rankers.slam import SlamRanker


def _losses(ranker: Any, query: Block, decisive: np.ndarray, learned: Round, scores: np.ndarray, losses: np.ndarray) -> None:
    """Add the losses of comparators on a round, as `Covered.losses` says."""
    table, config = discounts(query.n_documents), kernel_state(ranker).config
    compare(query.y, decisive, learned.weight, scores, table, config, losses)


COVERED[SlamRanker] = Covered(_losses, lambda ranker: ranker.learning_rate * ranker.margin)


@bound("(F(u) + <u, w> / alpha) / mu", of=SlamRanker, runs=ANY_BEGINNING)
def any_step_hindsight_bound(
    *, comparator_loss: float, inner_product: float, learning_rate: float, margin: float = 1.0
) -> float:
    r"""Subgradient descent on SLAM, once the stream is over.

    .. math:: \mu \sum_t RML_t \le \mu \sum_t V_t \le F(u) + \langle u, w_{T+1} \rangle / \alpha

    Parameters
    ----------
    comparator_loss
        F(u).
    inner_product
        <u, w_{T+1}>, with the last of the weights that learn.
    learning_rate, margin
        alpha and mu.

    Examples
    --------
    >>> any_step_hindsight_bound(comparator_loss=1.0, inner_product=2.0, learning_rate=0.5, margin=2.0)  # (1 + 2 / 0.5) / 2
    2.5
    """
    return (comparator_loss + inner_product / learning_rate) / margin


@bound("(F(u) + ||u||^2 / alpha + ||u|| sqrt(||u||^2 / alpha^2 + 2 F(u) / alpha + sum ||z||^2)) / mu", of=SlamRanker)
def any_step_data_bound(
    *, comparator_loss: float, norm: float, squared_gradient_norms: float, learning_rate: float, margin: float = 1.0
) -> float:
    r"""`any_step_bound` with measured norms of the updates: the largest V with

    .. math:: \mu V \le F(u) + \|u\| \sqrt{2 \mu V / \alpha + \sum_t \|z_t\|^2}.

    Parameters
    ----------
    squared_gradient_norms
        Q.
    comparator_loss, norm, learning_rate, margin
        As in `any_step_bound`.

    Examples
    --------
    >>> any_step_data_bound(comparator_loss=0.0, norm=1.0, squared_gradient_norms=3.0, learning_rate=1.0)  # 3 = sqrt(2 * 3 + 3)
    3.0
    """
    # Avoids the fourth power of a norm, which may overflow.
    half = norm / learning_rate * norm
    root = math.hypot(
        half, norm / math.sqrt(learning_rate) * math.sqrt(2.0 * comparator_loss), norm * math.sqrt(squared_gradient_norms)
    )
    return (comparator_loss + half + root) / margin


@bound("2 F(u) / mu + (4 B R_X^2 + 2 mu / alpha) ||u||^2 / mu^2", of=SlamRanker)
def any_step_bound(
    *, comparator_loss: float, norm: float, R_X: float, learning_rate: float, margin: float = 1.0, largest_mass: float = 1.0
) -> float:
    r"""Subgradient descent on SLAM with any step size, on any stream: a correct bound in place of Theorem 5.

    .. math::
        \sum_t RML_t \le \sum_t V_t \le
        \frac{2}{\mu} F(u) + \frac{\|u\|^2}{\mu^2} \left(4 B R_X^2 + \frac{2 \mu}{\alpha}\right)

    Proof: <w_t, z_t> <= mu V_t and ||z_t|| <= 2 R_X V_t, so ||w_{T+1}||^2 <= alpha (2 mu + 4 alpha B R_X^2) sum V_t, while
    mu sum V_t - F(u) <= <u, w_{T+1}> / alpha; solve for sum V_t. If the margin grows with the grade gap, read a_ij (y_i - y_j)
    for the mass, which is not smaller.

    Parameters
    ----------
    comparator_loss, norm, R_X, largest_mass
        As in `mass_bound`.
    learning_rate
        alpha.
    margin
        mu.

    Examples
    --------
    >>> any_step_bound(comparator_loss=1.0, norm=2.0, R_X=1.0, learning_rate=0.5)  # 2 * 1 + 2**2 * (4 * 1**2 + 2 / 0.5)
    34.0
    """
    steps = 4.0 * largest_mass * R_X * R_X + 2.0 * margin / learning_rate
    return 2.0 * comparator_loss / margin + norm / margin * (norm / margin) * steps


@bound("2 f(u) / mu + (4 B R_X^2 + 2 mu / alpha) ||u||^2 / mu^2", of=SlamRanker)
def any_step_surrogate_bound(
    *, surrogate_loss: float, norm: float, R_X: float, learning_rate: float, margin: float = 1.0, largest_mass: float = 1.0
) -> float:
    """`any_step_bound` with the surrogate of the comparator in place of its loss on the pairs, as `mass_surrogate_bound`.

    Parameters
    ----------
    surrogate_loss
        Sum of the f_t(u) over the rounds with an update.
    norm, R_X, learning_rate, margin, largest_mass
        As in `any_step_bound`.

    Examples
    --------
    >>> any_step_surrogate_bound(surrogate_loss=1.0, norm=2.0, R_X=1.0, learning_rate=0.5)  # 2 * 1 + 2**2 * (4 + 2 / 0.5)
    34.0
    """
    return any_step_bound(
        comparator_loss=surrogate_loss, norm=norm, R_X=R_X, learning_rate=learning_rate, margin=margin,
        largest_mass=largest_mass,
    )  # fmt: skip
