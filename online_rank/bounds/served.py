"""Bounds for rankings served by other weights than those that learn: averages, stale copies, late grades.

Notation as in `online_rank.bounds`; g_t = -z_t is the update, and v_t are the weights that served query t. The round learns
from the pairs that **v_t** puts in the wrong order (s_j >= s_i - tau_t by its scores), with a mass V_t between RML(v_t) and B.
"""

import math
from typing import Any

from online_rank.bounds.declaration import ANY_BEGINNING, UNCAPPED, bound
from online_rank.bounds.drift import master_bound
from online_rank.bounds.numbers import growth, require_finite, require_non_negative, require_positive, square
from online_rank.rankers.perceptron import PerceptronRanker

_SERVED: dict[str, tuple[str, ...]] = {"scores": ("served",)}

__all__ = [
    "averaged_bound",
    "delay_bound",
    "delay_data_bound",
    "served_data_bound",
    "served_hindsight_bound",
    "served_norm_bound",
]


@bound("F(u) + <u, w>", of=PerceptronRanker, runs=_SERVED | ANY_BEGINNING)
def served_hindsight_bound(*, comparator_loss: float, inner_product: float, model: Any = None) -> float:
    r"""The served-weights theorem once the stream is over.

    .. math:: \sum_t RML(v_t) \le \sum_t V_t \le F(u) + \langle u, w_{T+1} \rangle

    Proof: `master_bound` with one comparator.

    Parameters
    ----------
    comparator_loss
        F(u), on the pairs of the updates.
    inner_product
        <u, w_{T+1}>, with the sum of all updates (`mass_hindsight_bound`).

    Examples
    --------
    >>> served_hindsight_bound(comparator_loss=1.0, inner_product=2.0)
    3.0
    """
    return master_bound(comparator_loss=comparator_loss, inner_product=inner_product)


@bound("F(u) + ||u|| ||w||", of=PerceptronRanker, runs=_SERVED | ANY_BEGINNING)
def served_norm_bound(*, comparator_loss: float, norm: float, weight_norm: float, model: Any = None) -> float:
    r"""The served-weights theorem with the measured norm of the weights: :math:`\sum_t RML(v_t) \le F(u) + \|u\| \|w_{T+1}\|`.

    Proof: `served_hindsight_bound`, and Cauchy and Schwarz.

    Parameters
    ----------
    comparator_loss, norm
        F(u), and the l2 norm of u.
    weight_norm
        Norm of w_{T+1}, the sum of all updates (`mass_hindsight_bound`).

    Examples
    --------
    >>> served_norm_bound(comparator_loss=1.0, norm=2.0, weight_norm=3.0)
    7.0
    """
    require_non_negative(comparator_loss=comparator_loss, norm=norm, weight_norm=weight_norm)
    return comparator_loss + norm * weight_norm


@bound("F(u) + ||u|| sqrt(Q + 2 sum <w - v, g>)", of=PerceptronRanker, covers=UNCAPPED, runs=_SERVED)
def served_data_bound(
    *,
    comparator_loss: float,
    norm: float,
    squared_gradient_norms: float,
    lag_product: float,
    margin_mass: float = 0.0,
    model: Any = None,
) -> float:
    r"""The served-weights theorem with measured norms.

    .. math::
        \sum_t RML(v_t) \le \sum_t V_t \le
        F(u) + \|u\| \sqrt{\sum_t (\|g_t\|^2 + 2 \tau_t V_t) + 2 \sum_t \langle w_t - v_t, g_t \rangle}

    Proof: ||w_{t+1}||^2 = ||w_t||^2 + 2 <v_t, g_t> + 2 <w_t - v_t, g_t> + ||g_t||^2, and <v_t, g_t> = sum a_ij (s_i - s_j) <=
    tau_t V_t by the scores of v_t. So the root is at least ||w_{T+1}||; the rest is `served_hindsight_bound`.

    Parameters
    ----------
    lag_product
        Sum of <w_t - v_t, g_t>: with the credits c of the documents, the sum of c_i (s_i by w_t - s_i by v_t).
    comparator_loss, norm, squared_gradient_norms, margin_mass
        As in `mass_data_bound`.

    Examples
    --------
    >>> served_data_bound(comparator_loss=1.0, norm=2.0, squared_gradient_norms=5.0, lag_product=2.0)  # 1 + 2 sqrt(5 + 2 * 2)
    7.0
    """
    require_non_negative(
        comparator_loss=comparator_loss, norm=norm, squared_gradient_norms=squared_gradient_norms, margin_mass=margin_mass
    )
    require_finite(lag_product=lag_product)
    # The term under the root is at least ||w||^2, up to rounding.
    return comparator_loss + norm * math.sqrt(max(0.0, squared_gradient_norms + 2.0 * margin_mass + 2.0 * lag_product))


@bound(
    "2 F(u) + 4 B (1 + 2 rho / (1 - rho) + 2 beta) R_X^2 ||u||^2", of=PerceptronRanker,
    covers=UNCAPPED | {"served": ("average",)}, runs=_SERVED,
)  # fmt: skip
def averaged_bound(
    *,
    comparator_loss: float,
    norm: float,
    R_X: float,
    half_life: float,
    largest_mass: float = 1.0,
    relative_margin: float = 0.0,
    model: Any = None,
) -> float:
    r"""The served-weights theorem, in closed form, for learning from the mistakes of an average with a half-life.

    .. math::
        \sum_t RML(v_t) \le \sum_t V_t \le
        2 F(u) + 4 B R_X^2 \|u\|^2 \left(1 + \frac{2 \rho}{1 - \rho} + 2 \beta\right), \quad \rho = 2^{-1/h}

    Proof: the share of the average that is older than k rounds is at most rho^k, so ||w_t - v_t|| <= sum_k rho^k ||g_{t-k}||,
    and 2 sum <w_t - v_t, g_t> <= 2 rho / (1 - rho) sum ||g_t||^2 by Cauchy and Schwarz; put that into `served_data_bound`, with
    ||g_t||^2 <= 4 R_X^2 B V_t, and solve for sum V_t.

    Parameters
    ----------
    half_life
        h, in rounds that enter the average.
    comparator_loss, norm, R_X, largest_mass, relative_margin
        As in `mass_bound`.

    Examples
    --------
    >>> averaged_bound(comparator_loss=3.0, norm=2.0, R_X=1.0, half_life=1.0)  # rho = 1/2: 2 * 3 + 4 * (4 * (1 + 2))
    54.0
    """
    require_positive(half_life=half_life)
    require_non_negative(
        comparator_loss=comparator_loss, norm=norm, R_X=R_X, largest_mass=largest_mass, relative_margin=relative_margin
    )
    # rho / (1 - rho) = 1 / (2^(1/h) - 1)
    older = 1.0 / math.expm1(math.log(2.0) / half_life)
    return 2.0 * comparator_loss + square(R_X * norm) * (growth(largest_mass, relative_margin) + 8.0 * largest_mass * older)


@bound(
    "2 F(u) + 4 B (1 + 2 D + 2 beta) R_X^2 ||u||^2", of=PerceptronRanker, covers=UNCAPPED | {"average": (False,)}, runs=_SERVED
)
def delay_bound(
    *,
    comparator_loss: float,
    norm: float,
    R_X: float,
    delay: float,
    largest_mass: float = 1.0,
    relative_margin: float = 0.0,
    model: Any = None,
) -> float:
    r"""Late grades, in closed form: when the grades of a query arrive, at most D other served queries are waiting for theirs.

    .. math:: \sum_t RML(v_t) \le \sum_t V_t \le 2 F(u) + 4 B (1 + 2 D + 2 \beta) R_X^2 \|u\|^2

    It needs the pairs of the scores that were served. With the pairs of the weights at the time of arrival, the mass theorem
    bounds the loss of the re-scored rankings, not of the served ones. Related: Joulani et al. 2013; Quanrud & Khashabi 2015.

    Proof: `delay_data_bound` with D_t <= D; solve for sum V_t.

    Parameters
    ----------
    delay
        D.
    comparator_loss, norm, R_X, largest_mass, relative_margin
        As in `mass_bound`.

    Examples
    --------
    >>> delay_bound(comparator_loss=3.0, norm=2.0, R_X=1.0, delay=2)  # 2 * 3 + 2**2 * 4 * (1 + 2 * 2)
    86.0
    """
    require_non_negative(
        comparator_loss=comparator_loss, norm=norm, R_X=R_X, delay=delay, largest_mass=largest_mass,
        relative_margin=relative_margin,
    )  # fmt: skip
    return 2.0 * comparator_loss + square(R_X * norm) * (growth(largest_mass, relative_margin) + 8.0 * largest_mass * delay)


@bound(
    "F(u) + ||u|| R_X sqrt(sum V (4 B (1 + 2 D + 2 beta)))", of=PerceptronRanker, covers=UNCAPPED | {"average": (False,)},
    runs=_SERVED,
)  # fmt: skip
def delay_data_bound(
    *,
    comparator_loss: float,
    norm: float,
    R_X: float,
    mass: float,
    delayed_mass: float,
    largest_mass: float = 1.0,
    relative_margin: float = 0.0,
    model: Any = None,
) -> float:
    r"""Late grades, with measured delays: D_t other served queries are waiting when the grades of query t arrive.

    .. math:: \sum_t RML(v_t) \le \sum_t V_t \le F(u) + \|u\| R_X \sqrt{\sum_t 4 B V_t (1 + 2 D_t + 2 \beta)}

    It is attained on some streams, and no algorithm avoids the factor there. `served_data_bound` is tighter if the inner
    products were measured.

    Proof: w_t - v_t is the sum of the updates made while query t waited. Each pair of updates is counted once, at the earlier
    one, while the other waits: sum <w_t - v_t, g_t> <= sum_t D_t max ||g|| ||g_t|| <= sum_t D_t 4 R_X^2 B V_t. Put that
    into `served_data_bound`.

    Parameters
    ----------
    mass, delayed_mass
        Sum of the V_t, and of the V_t D_t.
    comparator_loss, norm, R_X, largest_mass, relative_margin
        As in `mass_bound`.

    Examples
    --------
    >>> delay_data_bound(comparator_loss=1.0, norm=1.0, R_X=1.0, mass=3.0, delayed_mass=3.0)  # 1 + sqrt(4 * 3 + 8 * 3)
    7.0
    """
    require_non_negative(
        comparator_loss=comparator_loss, norm=norm, R_X=R_X, mass=mass, delayed_mass=delayed_mass, largest_mass=largest_mass,
        relative_margin=relative_margin,
    )  # fmt: skip
    masses = growth(largest_mass, relative_margin) * mass + 8.0 * largest_mass * delayed_mass
    return comparator_loss + norm * R_X * math.sqrt(masses)
