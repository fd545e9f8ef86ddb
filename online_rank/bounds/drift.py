r"""Bounds against comparators that change: a path of comparators, a moving scaler.

Notation as in `online_rank.bounds`. The comparator of round t is u_t; U is the largest of their norms,
:math:`P = \sum_t \|u_{t+1} - u_t\|` the length of their path, F the sum of the F_t(u_t), and
:math:`Q = \sum_t (\|z_t\|^2 + 2 \tau_t V_t)`.

A scaler that divides features by sigma_t in round t moves a comparator u on raw features: u . (x_i - x_j) is u_t . ((x_i - x_j)
/ sigma_t) with u_t = sigma_t * u, and what is subtracted from features cancels. So the bounds cover u on raw features, with P
the sum of the ||(sigma_{t+1} - sigma_t) * u||.

Related: Herbster & Warmuth, *Tracking the best linear predictor*, 2001; Kivinen, Smola & Williamson, *Online learning with
kernels*, 2004; Cavallanti, Cesa-Bianchi & Gentile, *Tracking the best hyperplane with a simple budget perceptron*, 2007.
"""

import math

from online_rank.bounds.declaration import OWN_MISTAKES, bound
from online_rank.bounds.mass import growth
from online_rank.rankers.perceptron import PerceptronRanker

_MOVED: dict[str, tuple[str, ...]] = {"comparator": ("moved",)}


@bound("F + (||u_T|| + P) sqrt(Q)", of=PerceptronRanker, covers=OWN_MISTAKES, runs=_MOVED)
def path_data_bound(
    *, comparator_loss: float, norm: float, path_length: float, squared_gradient_norms: float, margin_mass: float
) -> float:
    r"""Moving comparators, with measured updates: :math:`\sum_t RML_t \le \sum_t V_t \le F + (\|u_T\| + P) \sqrt{Q}`.

    Proof: `master_bound`, Cauchy and Schwarz, and every ||w_t||^2 is at most Q.

    Parameters
    ----------
    comparator_loss, norm, path_length
        F, the norm of u_T, and P.
    squared_gradient_norms, margin_mass
        As in `mass_data_bound`.

    Examples
    --------
    >>> path_data_bound(comparator_loss=1.0, norm=2.0, path_length=0.5, squared_gradient_norms=4.0, margin_mass=0.0)
    6.0
    """
    return comparator_loss + (norm + path_length) * math.sqrt(squared_gradient_norms + 2.0 * margin_mass)


@bound("2 F + 4 B (1 + 2 beta) R_X^2 (||u_T|| + P)^2", of=PerceptronRanker, covers=OWN_MISTAKES, runs=_MOVED)
def path_bound(
    *, comparator_loss: float, norm: float, path_length: float, R_X: float, largest_mass: float, relative_margin: float
) -> float:
    r"""Moving comparators, in closed form, for the unchanged algorithm: quadratic in the length of the path.

    .. math:: \sum_t RML_t \le \sum_t V_t \le 2 F + 4 B (1 + 2 \beta) R_X^2 (\|u_T\| + P)^2

    Proof: `path_data_bound` with Q <= 4 B (1 + 2 beta) R_X^2 sum V_t; solve for sum V_t.

    Parameters
    ----------
    comparator_loss, norm, path_length
        F, the norm of u_T, and P.
    R_X, largest_mass, relative_margin
        As in `mass_bound`.

    Examples
    --------
    >>> path_bound(comparator_loss=3.0, norm=2.0, path_length=1.0, R_X=1.0, largest_mass=1.0, relative_margin=0.0)
    42.0
    """
    size = R_X * (norm + path_length)
    return 2.0 * comparator_loss + size * size * growth(largest_mass, relative_margin)


@bound(
    "F + sqrt(Q) (kappa P + U / kappa)", of=PerceptronRanker, covers={"served": ("current",)},
    runs={"comparator": ("fixed", "moved")},
)  # fmt: skip
def capped_bound(
    *,
    comparator_loss: float,
    largest_norm: float,
    path_length: float,
    cap: float,
    squared_gradient_norms: float,
    margin_mass: float,
) -> float:
    r"""Weights that are scaled down to :math:`\|w\| \le \kappa \sqrt{Q_t}` after each update: linear in the length of the path.

    .. math:: \sum_t RML_t \le \sum_t V_t \le F + \sqrt{Q} \left(\kappa P + \frac{U}{\kappa}\right), \quad 0 < \kappa \le 1

    Q_t is Q up to round t, so that the cap is scale-free.

    Proof: `master_bound`, where e_t is the part that the cap removes. With q_t = ||z_t||^2 + 2 tau_t V_t, ||w||^2
    is at most kappa^2 Q_{t-1} + q_t before it, so that ||e_t|| <= (1 - kappa^2) q_t / (2 kappa sqrt(Q_t)), and these add up to
    (1/kappa - kappa) sqrt(Q). Hence sum V_t <= F + ||u_T|| kappa sqrt(Q) + P kappa sqrt(Q) + U (1/kappa - kappa) sqrt(Q), and
    ||u_T|| <= U.

    Parameters
    ----------
    comparator_loss, path_length
        F and P.
    largest_norm
        U.
    cap
        kappa.
    squared_gradient_norms, margin_mass
        As in `mass_data_bound`.

    Examples
    --------
    >>> capped_bound(comparator_loss=1.0, largest_norm=1.0, path_length=4.0, cap=0.5, squared_gradient_norms=9.0,
    ...              margin_mass=0.0)  # 1 + 3 * 4
    13.0
    """
    if not 0.0 < cap <= 1.0:
        raise ValueError(f"cap is {cap}; it must be a number above 0 and at most 1")
    return comparator_loss + math.sqrt(squared_gradient_norms + 2.0 * margin_mass) * (cap * path_length + largest_norm / cap)
