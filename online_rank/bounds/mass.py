"""The mass theorem, and the bound for any step size that follows from its proof. Both are new in this library.

Notation as in `online_rank.bounds`.
"""

import math
from typing import Any

from online_rank.bounds.declaration import ANY_BEGINNING, OWN_MISTAKES, bound
from online_rank.bounds.numbers import growth, require_finite, require_non_negative, require_positive, square
from online_rank.rankers.perceptron import PerceptronRanker
from online_rank.rankers.slam import SlamRanker

#: Settings for which F(u) <= sum f_t(u): a_ij is at most v_i, or v_i in equal parts.
_ON_SURROGATE = OWN_MISTAKES | {"credit": ("argmax", "spread"), "mass": ("loss",)}

__all__ = [
    "any_step_bound",
    "any_step_data_bound",
    "any_step_hindsight_bound",
    "any_step_surrogate_bound",
    "mass_bound",
    "mass_data_bound",
    "mass_hindsight_bound",
    "mass_separable_bound",
    "mass_surrogate_bound",
]


@bound("F(u) + <u, w>", of=PerceptronRanker, covers={"served": ("current",)}, runs=ANY_BEGINNING)
def mass_hindsight_bound(*, comparator_loss: float, inner_product: float, model: Any = None) -> float:
    r"""The mass theorem once the stream is over: :math:`\sum_t RML_t \le \sum_t V_t \le F(u) + \langle u, w_{T+1} \rangle`.

    Parameters
    ----------
    comparator_loss
        F(u).
    inner_product
        <u, w_{T+1}>, where w_{T+1} is the sum of all updates: the last of the weights that learn, less the initial weights of
        the run, and with what a cap of their norm has removed.

    Examples
    --------
    >>> mass_hindsight_bound(comparator_loss=1.0, inner_product=2.0)
    3.0
    """
    require_non_negative(comparator_loss=comparator_loss)
    require_finite(inner_product=inner_product)
    return comparator_loss + inner_product


@bound("F(u) + ||u|| sqrt(sum ||z||^2 + 2 tau V)", of=PerceptronRanker, covers=OWN_MISTAKES)
def mass_data_bound(
    *, comparator_loss: float, norm: float, squared_gradient_norms: float, margin_mass: float = 0.0, model: Any = None
) -> float:
    r"""The mass theorem with measured norms.

    .. math:: \sum_t RML_t \le \sum_t V_t \le F(u) + \|u\| \sqrt{\sum_t (\|z_t\|^2 + 2 \tau_t V_t)}

    There are streams on which it is attained.

    Parameters
    ----------
    comparator_loss
        F(u).
    norm
        The l2 norm of u.
    squared_gradient_norms
        Sum of the squared norms of z_t.
    margin_mass
        Sum of tau_t V_t; 0 for the pure rule.

    Examples
    --------
    >>> mass_data_bound(comparator_loss=1.0, norm=2.0, squared_gradient_norms=9.0)  # 1 + 2 * sqrt(9)
    7.0
    """
    require_non_negative(
        comparator_loss=comparator_loss, norm=norm, squared_gradient_norms=squared_gradient_norms, margin_mass=margin_mass
    )
    return comparator_loss + norm * math.sqrt(squared_gradient_norms + 2.0 * margin_mass)


@bound("2 F(u) + 4 B (1 + 2 beta) R_X^2 ||u||^2", of=PerceptronRanker, covers=OWN_MISTAKES)
def mass_bound(
    *,
    comparator_loss: float,
    norm: float,
    R_X: float,
    largest_mass: float = 1.0,
    relative_margin: float = 0.0,
    model: Any = None,
) -> float:
    r"""The mass theorem, closed form.

    .. math:: \sum_t RML_t \le \sum_t V_t \le 2 F(u) + 4 B (1 + 2 \beta) R_X^2 \|u\|^2

    It holds for every credit and every mass, without a learning rate, a number of documents or a v_max.

    Proof: the margin of a `PerceptronRanker`, :math:`\tau_t = \beta \sum_{s<t} \|z_s\|^2 / \sum_{s<t} V_s`, is at most
    4 beta B R_X^2, since ||z_t||^2 <= 4 R_X^2 B V_t; put both into `mass_data_bound` and solve for sum V_t. For a margin of
    another kind take `mass_data_bound`.

    Parameters
    ----------
    comparator_loss
        F(u).
    norm
        The l2 norm of u.
    R_X
        Largest l2 norm of a document.
    largest_mass
        B, the largest mass of a round; 1 will do without sample weights.
    relative_margin
        beta, as in `PerceptronRanker`.

    Examples
    --------
    >>> mass_bound(comparator_loss=3.0, norm=2.0, R_X=1.0)  # 2 * 3 + 1**2 * 2**2 * 4
    22.0
    >>> mass_bound(comparator_loss=3.0, norm=2.0, R_X=1.0, relative_margin=0.5)  # 2 * 3 + 2**2 * 4 * (1 + 2 * 0.5)
    38.0
    """
    require_non_negative(
        comparator_loss=comparator_loss, norm=norm, R_X=R_X, largest_mass=largest_mass, relative_margin=relative_margin
    )
    return 2.0 * comparator_loss + square(R_X * norm) * growth(largest_mass, relative_margin)


@bound("2 f(u) + 4 B (1 + 2 beta) R_X^2 ||u||^2", of=PerceptronRanker, covers=_ON_SURROGATE)
def mass_surrogate_bound(
    *,
    surrogate_loss: float,
    norm: float,
    R_X: float,
    largest_mass: float = 1.0,
    relative_margin: float = 0.0,
    model: Any = None,
) -> float:
    r"""`mass_bound` with the surrogate of the comparator in place of its loss on the pairs.

    .. math:: \sum_t RML_t \le \sum_t V_t \le 2 \sum_t f_t(u) + 4 B (1 + 2 \beta) R_X^2 \|u\|^2

    Proof: with credit `argmax` or `spread` and mass `loss` a_ij is at most v_i, or v_i in equal parts, so that
    F(u) <= sum f_t(u). With mass `sqrt` that is false.

    Parameters
    ----------
    surrogate_loss
        Sum of the f_t(u) over the rounds with an update.
    norm, R_X, largest_mass, relative_margin
        As in `mass_bound`.

    Examples
    --------
    >>> mass_surrogate_bound(surrogate_loss=3.0, norm=2.0, R_X=1.0)  # 2 * 3 + 1**2 * 2**2 * 4
    22.0
    """
    require_non_negative(surrogate_loss=surrogate_loss)
    return mass_bound(
        comparator_loss=surrogate_loss, norm=norm, R_X=R_X, largest_mass=largest_mass, relative_margin=relative_margin
    )


def mass_separable_bound(
    *, gamma: float, R_X: float, largest_mass: float = 1.0, relative_margin: float | None = None, model: Any = None
) -> float:
    r"""The mass theorem on separable streams: :math:`\sum_t RML_t \le 4 B (1 + 2 \beta) R_X^2 / \gamma^2`.

    Parameters
    ----------
    gamma
        The margin of the stream: some u of norm 1 has u . (x_i - x_j) >= gamma for all pairs with R_i > R_j.
    R_X, largest_mass, relative_margin
        As in `mass_bound`.

    Examples
    --------
    >>> mass_separable_bound(gamma=0.5, R_X=1.0)  # 4 * 1**2 / 0.5**2
    16.0
    """
    require_positive(gamma=gamma)
    # None: the margin of the model, or none.
    margin = {} if relative_margin is None else {"relative_margin": relative_margin}
    return mass_bound(comparator_loss=0.0, norm=1.0 / gamma, R_X=R_X, largest_mass=largest_mass, model=model, **margin)


@bound("(F(u) + <u, w> / eta) / Delta", of=SlamRanker, runs=ANY_BEGINNING)
def any_step_hindsight_bound(
    *, comparator_loss: float, inner_product: float, learning_rate: float, margin: float = 1.0, model: Any = None
) -> float:
    r"""Subgradient descent on SLAM, once the stream is over.

    .. math:: \Delta \sum_t RML_t \le \Delta \sum_t V_t \le F(u) + \langle u, w_{T+1} \rangle / \eta

    Parameters
    ----------
    comparator_loss
        F(u).
    inner_product
        <u, w_{T+1}>, with the last of the weights that learn.
    learning_rate, margin
        eta and Delta.

    Examples
    --------
    >>> any_step_hindsight_bound(comparator_loss=1.0, inner_product=2.0, learning_rate=0.5, margin=2.0)  # (1 + 2 / 0.5) / 2
    2.5
    """
    require_positive(learning_rate=learning_rate, margin=margin)
    require_non_negative(comparator_loss=comparator_loss)
    require_finite(inner_product=inner_product)
    return (comparator_loss + inner_product / learning_rate) / margin


@bound("V with Delta V = F(u) + ||u|| sqrt(2 Delta V / eta + sum ||z||^2)", of=SlamRanker)
def any_step_data_bound(
    *,
    comparator_loss: float,
    norm: float,
    squared_gradient_norms: float,
    learning_rate: float,
    margin: float = 1.0,
    model: Any = None,
) -> float:
    r"""`any_step_bound` with the measured :math:`Q = \sum \|z_t\|^2`: the largest V with

    .. math:: \Delta V \le F(u) + \|u\| \sqrt{2 \Delta V / \eta + Q}.

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
    require_positive(learning_rate=learning_rate, margin=margin)
    require_non_negative(comparator_loss=comparator_loss, norm=norm, squared_gradient_norms=squared_gradient_norms)
    # Avoids the fourth power of a norm, which may overflow.
    half = norm / learning_rate * norm
    root = math.hypot(
        half, norm / math.sqrt(learning_rate) * math.sqrt(2.0 * comparator_loss), norm * math.sqrt(squared_gradient_norms)
    )
    return (comparator_loss + half + root) / margin


@bound("2 F(u) / Delta + (4 B R_X^2 + 2 Delta / eta) ||u||^2 / Delta^2", of=SlamRanker)
def any_step_bound(
    *,
    comparator_loss: float,
    norm: float,
    R_X: float,
    learning_rate: float,
    margin: float = 1.0,
    largest_mass: float = 1.0,
    model: Any = None,
) -> float:
    r"""Subgradient descent on SLAM with any step size, on any stream: a correct bound in place of Theorem 5.

    .. math::
        \sum_t RML_t \le \sum_t V_t \le
        \frac{2}{\Delta} F(u) + \frac{\|u\|^2}{\Delta^2} \left(4 B R_X^2 + \frac{2 \Delta}{\eta}\right)

    Proof: <w_t, z_t> >= -Delta V_t and ||z_t|| <= 2 R_X V_t, so ||w_{T+1}||^2 <= eta (2 Delta + 4 eta B R_X^2) sum V_t, while
    Delta sum V_t - F(u) <= <u, w_{T+1}> / eta; solve for sum V_t. If the margin grows with the grade gap, read a_ij (R_i - R_j)
    for the mass, which is not smaller.

    Parameters
    ----------
    comparator_loss, norm, R_X, largest_mass
        As in `mass_bound`.
    learning_rate
        eta.
    margin
        Delta.

    Examples
    --------
    >>> any_step_bound(comparator_loss=1.0, norm=2.0, R_X=1.0, learning_rate=0.5)  # 2 * 1 + 2**2 * (4 * 1**2 + 2 / 0.5)
    34.0
    """
    require_positive(learning_rate=learning_rate, margin=margin)
    require_non_negative(comparator_loss=comparator_loss, norm=norm, R_X=R_X, largest_mass=largest_mass)
    steps = 4.0 * largest_mass * R_X * R_X + 2.0 * margin / learning_rate
    return 2.0 * comparator_loss / margin + norm / margin * (norm / margin) * steps


@bound("2 f(u) / Delta + (4 B R_X^2 + 2 Delta / eta) ||u||^2 / Delta^2", of=SlamRanker)
def any_step_surrogate_bound(
    *,
    surrogate_loss: float,
    norm: float,
    R_X: float,
    learning_rate: float,
    margin: float = 1.0,
    largest_mass: float = 1.0,
    model: Any = None,
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
    require_non_negative(surrogate_loss=surrogate_loss)
    return any_step_bound(
        comparator_loss=surrogate_loss, norm=norm, R_X=R_X, learning_rate=learning_rate, margin=margin,
        largest_mass=largest_mass,
    )  # fmt: skip
