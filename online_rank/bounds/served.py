r"""Bounds for rankings served by other weights than those that learn: averages, stale copies, late grades.

Notation as in `online_rank.bounds`; z_t is the update, and v_t are the weights that served query t. The round learns
from the pairs that **v_t** puts in the wrong order (s_j >= s_i - tau_t by its scores), with a mass V_t between RML(v_t) and B.

**Served weights.** By the master inequality `mass_hindsight_bound` bounds the served loss. Its closed forms follow from

.. math::
    \sum_t RML(v_t) \le \sum_t V_t \le
    F(u) + \|u\| \sqrt{\sum_t (\|z_t\|^2 + 2 \tau_t V_t) + 2 \sum_t \langle w_t - v_t, z_t \rangle}

Proof: ||w_{t+1}||^2 = ||w_t||^2 + 2 <v_t, z_t> + 2 <w_t - v_t, z_t> + ||z_t||^2, and <v_t, z_t> = sum a_ij (s_i - s_j) <= tau_t
V_t by the scores of v_t. So the root is at least ||w_{T+1}||.

**Late grades.** If D_t other served queries are waiting when the grades of query t arrive,

.. math:: \sum_t RML(v_t) \le \sum_t V_t \le F(u) + \|u\| R_X \sqrt{\sum_t 4 B V_t (1 + 2 D_t + 2 \beta)}

It is attained on some streams, and an adversary who chooses the grades forces it on any deterministic algorithm. Proof: w_t -
v_t is the sum of the updates made while query t waited. Each pair of updates is counted once, at the earlier one, while the
other waits: sum <w_t - v_t, z_t> <= sum_t D_t max ||z|| ||z_t|| <= sum_t D_t 4 R_X^2 B V_t.
"""

import math

from online_rank.bounds.declaration import ANY_BEGINNING, UNCAPPED, bound
from online_rank.bounds.mass import growth
from online_rank.rankers.perceptron import PerceptronRanker

_SERVED: dict[str, tuple[str, ...]] = {"scores": ("served",)}


@bound("F(u) + ||u|| ||w||", of=PerceptronRanker, runs=_SERVED | ANY_BEGINNING)
def served_norm_bound(*, comparator_loss: float, norm: float, weight_norm: float) -> float:
    r"""The served-weights theorem with the measured norm of the weights: :math:`\sum_t RML(v_t) \le F(u) + \|u\| \|w_{T+1}\|`.

    Proof: `mass_hindsight_bound`, and Cauchy and Schwarz.

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
    return comparator_loss + norm * weight_norm


@bound(
    "2 F(u) + 4 B (1 + 2 / (2^(1 / h) - 1) + 2 beta) R_X^2 ||u||^2", of=PerceptronRanker,
    covers=UNCAPPED | {"served": ("average",)}, runs=_SERVED,
)  # fmt: skip
def averaged_bound(
    *, comparator_loss: float, norm: float, R_X: float, half_life: float, largest_mass: float, relative_margin: float
) -> float:
    r"""The served-weights theorem, in closed form, for learning from the mistakes of an average with a half-life.

    .. math::
        \sum_t RML(v_t) \le \sum_t V_t \le
        2 F(u) + 4 B R_X^2 \|u\|^2 \left(1 + \frac{2 \rho}{1 - \rho} + 2 \beta\right), \quad \rho = 2^{-1/h}

    Proof: the share of the average that is older than k rounds is at most rho^k, so ||w_t - v_t|| <= sum_k rho^k ||g_{t-k}||,
    and 2 sum <w_t - v_t, z_t> <= 2 rho / (1 - rho) sum ||z_t||^2 by Cauchy and Schwarz; put that into the served-weights
    theorem, with ||z_t||^2 <= 4 R_X^2 B V_t, and solve for sum V_t.

    Parameters
    ----------
    half_life
        h, in rounds that enter the average.
    comparator_loss, norm, R_X, largest_mass, relative_margin
        As in `mass_bound`.

    Examples
    --------
    >>> averaged_bound(comparator_loss=3.0, norm=2.0, R_X=1.0, half_life=1.0, largest_mass=1.0, relative_margin=0.0)
    54.0
    """
    # rho / (1 - rho) = 1 / (2^(1/h) - 1)
    older = 1.0 / math.expm1(math.log(2.0) / half_life)
    size = R_X * norm
    return 2.0 * comparator_loss + size * size * (growth(largest_mass, relative_margin) + 8.0 * largest_mass * older)


@bound(
    "2 F(u) + 4 B (1 + 2 D + 2 beta) R_X^2 ||u||^2", of=PerceptronRanker, covers=UNCAPPED | {"half_life": (0,)}, runs=_SERVED
)
def delay_bound(
    *, comparator_loss: float, norm: float, R_X: float, delay: float, largest_mass: float, relative_margin: float
) -> float:
    r"""Late grades, in closed form: when the grades of a query arrive, at most D other served queries are waiting for theirs.

    .. math:: \sum_t RML(v_t) \le \sum_t V_t \le 2 F(u) + 4 B (1 + 2 D + 2 \beta) R_X^2 \|u\|^2

    It needs the pairs of the scores that were served. With the pairs of the weights at the time of arrival, the mass theorem
    bounds the loss of the re-scored rankings, not of the served ones. Related: Joulani et al. 2013; Quanrud & Khashabi 2015.

    Proof: the theorem of late grades with D_t <= D; solve for sum V_t.

    Parameters
    ----------
    delay
        D.
    comparator_loss, norm, R_X, largest_mass, relative_margin
        As in `mass_bound`.

    Examples
    --------
    >>> delay_bound(comparator_loss=3.0, norm=2.0, R_X=1.0, delay=2, largest_mass=1.0, relative_margin=0.0)
    86.0
    """
    size = R_X * norm
    return 2.0 * comparator_loss + size * size * (growth(largest_mass, relative_margin) + 8.0 * largest_mass * delay)
