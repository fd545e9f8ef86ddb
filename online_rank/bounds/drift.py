r"""Bounds against comparators that change: a path of comparators, a moving scaler, restarts.

Notation as in `online_rank.bounds`. The comparator of round t is u_t; U is the largest of their norms,
:math:`P = \sum_t \|u_{t+1} - u_t\|` the length of their path, F the sum of the F_t(u_t), and
:math:`Q = \sum_t (\|z_t\|^2 + 2 \tau_t V_t)`.

Related: Herbster & Warmuth, *Tracking the best linear predictor*, 2001; Kivinen, Smola & Williamson, *Online learning with
kernels*, 2004; Cavallanti, Cesa-Bianchi & Gentile, *Tracking the best hyperplane with a simple budget perceptron*, 2007.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from online_rank.bounds.declaration import ANY_BEGINNING, OWN_MISTAKES, UNCAPPED, bound
from online_rank.bounds.numbers import growth, require_finite, require_non_negative, square
from online_rank.rankers.click_perceptron import ClickPerceptron
from online_rank.rankers.perceptron import PerceptronRanker

_MOVED: dict[str, tuple[str, ...]] = {"comparator": ("moved",)}
_RESTARTED: dict[str, tuple[str, ...]] = {"rankers": ("successive",)}

__all__ = [
    "capped_bound",
    "master_bound",
    "path_bound",
    "path_data_bound",
    "path_length",
    "path_norm_bound",
    "restarts_bound",
    "restarts_data_bound",
    "restarts_hindsight_bound",
    "scaler_path_length",
]


def path_length(comparators: Any) -> float:
    r"""P, the sum of the :math:`\|u_{t+1} - u_t\|`, of comparators (T, d) in the order of their rounds.

    Examples
    --------
    >>> path_length([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]])  # 5 + 1
    6.0
    """
    u = np.asarray(comparators, dtype=np.float64)
    if u.ndim != 2:
        raise ValueError(f"comparators have shape {u.shape}; they are an array (T, d)")
    return float(np.linalg.norm(np.diff(u, axis=0), axis=1).sum())


def scaler_path_length(scales: Any, comparator: Any) -> float:
    r"""P of a fixed comparator on raw features, as seen by the ranker behind a moving scaler.

    In round t the scaler divides features by sigma_t. A comparator u on raw features is then u_t = sigma_t * u on the scaled
    ones, since u . (x_i - x_j) = u_t . ((x_i - x_j) / sigma_t); what is subtracted from features cancels. So `path_bound` and
    the other path bounds cover u on raw features, with

    .. math:: P = \sum_t \|(\sigma_{t+1} - \sigma_t) * u\|.

    Parameters
    ----------
    scales
        sigma_t (T, d), the divisors of the features, in the order of the rounds.
    comparator
        u (d,), on raw features.

    Examples
    --------
    >>> scaler_path_length([[1.0, 1.0], [2.0, 1.0], [2.0, 3.0]], [1.0, 0.5])  # 1 * 1 + 2 * 0.5
    2.0
    """
    return path_length(np.asarray(scales, dtype=np.float64) * np.asarray(comparator, dtype=np.float64))


@bound(
    "F + <u_T, w> - sum <u_t - u_t-1, w_t>", of=(PerceptronRanker, ClickPerceptron),
    runs={"comparator": ("moved",), "scores": ("own", "served"), "rankers": ("one", "successive"), **ANY_BEGINNING},
)  # fmt: skip
def master_bound(
    *, comparator_loss: float, inner_product: float, path_product: float = 0.0, error_product: float = 0.0, model: Any = None
) -> float:
    r"""The master inequality: any recursion w_{t+1} = w_t + g_t - e_t from w_1 = 0, any pairs, any comparators u_1..u_T.

    .. math::
        \sum_t V_t \le \sum_t F_t(u_t) + \langle u_T, w_{T+1} \rangle - \sum_{t \ge 2} \langle u_t - u_{t-1}, w_t \rangle
        + \sum_t \langle u_t, e_t \rangle

    Proof: max(0, 1 - y) >= 1 - y, so V_t - F_t(u_t) <= <u_t, g_t> = <u_t, w_{t+1} - w_t> + <u_t, e_t>; sum by parts. It holds
    for any pairs; that they are in the wrong order only serves to bound ||w||.

    Parameters
    ----------
    comparator_loss
        Sum of the F_t(u_t).
    inner_product
        <u_T, w_{T+1}>.
    path_product
        Sum of <u_t - u_{t-1}, w_t>; 0 for one comparator.
    error_product
        Sum of <u_t, e_t>; 0 if nothing is subtracted from the weights.

    Examples
    --------
    >>> master_bound(comparator_loss=3.0, inner_product=2.0, path_product=-1.0, error_product=0.5)  # 3 + 2 + 1 + 0.5
    6.5
    """
    require_non_negative(comparator_loss=comparator_loss)
    require_finite(inner_product=inner_product, path_product=path_product, error_product=error_product)
    return comparator_loss + inner_product - path_product + error_product


@bound("F + ||u_T|| ||w|| + P max ||w_t||", of=PerceptronRanker, covers=OWN_MISTAKES, runs=_MOVED)
def path_norm_bound(
    *,
    comparator_loss: float,
    norm: float,
    path_length: float,
    weight_norm: float,
    largest_weight_norm: float,
    model: Any = None,
) -> float:
    r"""Moving comparators, with the measured norms of the weights that learn.

    .. math:: \sum_t RML_t \le \sum_t V_t \le F + \|u_T\| \|w_{T+1}\| + P \max_t \|w_t\|

    Proof: `master_bound` without e_t, and Cauchy and Schwarz.

    Parameters
    ----------
    comparator_loss
        F.
    norm
        Norm of u_T, the last comparator.
    path_length
        P.
    weight_norm, largest_weight_norm
        Norm of the last weights, and the largest norm of weights.

    Examples
    --------
    >>> path_norm_bound(comparator_loss=1.0, norm=2.0, path_length=0.5, weight_norm=3.0, largest_weight_norm=4.0)
    9.0
    """
    require_non_negative(
        comparator_loss=comparator_loss, norm=norm, path_length=path_length, weight_norm=weight_norm,
        largest_weight_norm=largest_weight_norm,
    )  # fmt: skip
    return comparator_loss + norm * weight_norm + path_length * largest_weight_norm


@bound("F + (||u_T|| + P) sqrt(Q)", of=PerceptronRanker, covers=OWN_MISTAKES, runs=_MOVED)
def path_data_bound(
    *,
    comparator_loss: float,
    norm: float,
    path_length: float,
    squared_gradient_norms: float,
    margin_mass: float = 0.0,
    model: Any = None,
) -> float:
    r"""Moving comparators, with measured updates: :math:`\sum_t RML_t \le \sum_t V_t \le F + (\|u_T\| + P) \sqrt{Q}`.

    Proof: `path_norm_bound`; every ||w_t||^2 is at most Q.

    Parameters
    ----------
    comparator_loss, norm, path_length
        F, the norm of u_T, and P.
    squared_gradient_norms, margin_mass
        As in `mass_data_bound`.

    Examples
    --------
    >>> path_data_bound(comparator_loss=1.0, norm=2.0, path_length=0.5, squared_gradient_norms=4.0)  # 1 + 2.5 * 2
    6.0
    """
    require_non_negative(
        comparator_loss=comparator_loss, norm=norm, path_length=path_length, squared_gradient_norms=squared_gradient_norms,
        margin_mass=margin_mass,
    )  # fmt: skip
    return comparator_loss + (norm + path_length) * math.sqrt(squared_gradient_norms + 2.0 * margin_mass)


@bound("2 F + 4 B (1 + 2 beta) R_X^2 (||u_T|| + P)^2", of=PerceptronRanker, covers=OWN_MISTAKES, runs=_MOVED)
def path_bound(
    *,
    comparator_loss: float,
    norm: float,
    path_length: float,
    R_X: float,
    largest_mass: float = 1.0,
    relative_margin: float = 0.0,
    model: Any = None,
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
    >>> path_bound(comparator_loss=3.0, norm=2.0, path_length=1.0, R_X=1.0)  # 2 * 3 + 4 * (2 + 1)**2
    42.0
    """
    require_non_negative(
        comparator_loss=comparator_loss, norm=norm, path_length=path_length, R_X=R_X, largest_mass=largest_mass,
        relative_margin=relative_margin,
    )  # fmt: skip
    return 2.0 * comparator_loss + square(R_X * (norm + path_length)) * growth(largest_mass, relative_margin)


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
    margin_mass: float = 0.0,
    model: Any = None,
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
    >>> capped_bound(comparator_loss=1.0, largest_norm=1.0, path_length=4.0, cap=0.5, squared_gradient_norms=9.0)  # 1 + 3 * 4
    13.0
    """
    if not 0.0 < cap <= 1.0:
        raise ValueError(f"cap is {cap}; it must be a number above 0 and at most 1")
    require_non_negative(
        comparator_loss=comparator_loss, largest_norm=largest_norm, path_length=path_length,
        squared_gradient_norms=squared_gradient_norms, margin_mass=margin_mass,
    )  # fmt: skip
    return comparator_loss + math.sqrt(squared_gradient_norms + 2.0 * margin_mass) * (cap * path_length + largest_norm / cap)


@bound(
    "F(u) + <u, sum of all gains>", of=PerceptronRanker, covers=UNCAPPED,
    runs=_RESTARTED | ANY_BEGINNING | {"scores": ("own", "served")},
)  # fmt: skip
def restarts_hindsight_bound(*, comparator_loss: float, inner_product: float, model: Any = None) -> float:
    r"""One comparator over restarts by any rule, once the stream is over.

    .. math:: \sum_t RML_t \le \sum_t V_t \le F(u) + \left\langle u, \sum_k w_{end,k} \right\rangle

    where w_end,k are the weights at the end of segment k. Proof: `mass_hindsight_bound` in every segment; add up.

    Parameters
    ----------
    comparator_loss
        F(u) over all segments.
    inner_product
        The product of u and the sum of the last weights of all segments.

    Examples
    --------
    >>> restarts_hindsight_bound(comparator_loss=1.0, inner_product=2.0)
    3.0
    """
    require_non_negative(comparator_loss=comparator_loss)
    require_finite(inner_product=inner_product)
    return comparator_loss + inner_product


@bound(
    "F(u) + ||u|| sum of sqrt(Q_k)", of=PerceptronRanker, covers=OWN_MISTAKES, runs=_RESTARTED,
    takes={"norms": "segment_norms", "squared_gradient_norms": "segment_squares", "margin_masses": "segment_margins"},
)  # fmt: skip
def restarts_data_bound(
    *,
    comparator_loss: float,
    norms: Sequence[float],
    squared_gradient_norms: Sequence[float],
    margin_masses: Sequence[float] | None = None,
    model: Any = None,
) -> float:
    r"""Restarts by any rule, a comparator for every segment, with measured norms.

    .. math:: \sum_t RML_t \le \sum_t V_t \le \sum_k \left(F_k(u_k) + \|u_k\| \sqrt{Q_k}\right)

    Proof: `mass_data_bound` in every segment; add up.

    Parameters
    ----------
    comparator_loss
        Sum of the F_k(u_k).
    norms
        Norm of the comparator of each segment.
    squared_gradient_norms, margin_masses
        As in `mass_data_bound`, one for each segment.

    Examples
    --------
    >>> restarts_data_bound(comparator_loss=1.0, norms=[2.0, 1.0], squared_gradient_norms=[9.0, 4.0])  # 1 + 2 * 3 + 1 * 2
    9.0
    """
    require_non_negative(comparator_loss=comparator_loss)
    total = comparator_loss
    margins = [0.0] * len(norms) if margin_masses is None else margin_masses
    for norm, squares, margin in zip(norms, squared_gradient_norms, margins, strict=True):
        require_non_negative(norms=norm, squared_gradient_norms=squares, margin_masses=margin)
        total += norm * math.sqrt(squares + 2.0 * margin)
    return total


@bound(
    "2 F(u) + 4 B (1 + 2 beta) R_X^2 K ||u||^2", of=PerceptronRanker, covers=OWN_MISTAKES, runs=_RESTARTED,
    takes={"norms": "segment_norms"},
)  # fmt: skip
def restarts_bound(
    *,
    comparator_loss: float,
    norms: Sequence[float],
    R_X: float,
    largest_mass: float = 1.0,
    relative_margin: float = 0.0,
    model: Any = None,
) -> float:
    r"""Restarts by any rule, in closed form: linear in the number of segments.

    .. math:: \sum_t RML_t \le \sum_t V_t \le 2 \sum_k F_k(u_k) + 4 B (1 + 2 \beta) R_X^2 \sum_k \|u_k\|^2

    Proof: `mass_bound` in every segment; add up.

    Parameters
    ----------
    comparator_loss, norms
        As in `restarts_data_bound`.
    R_X, largest_mass, relative_margin
        As in `mass_bound`.

    Examples
    --------
    >>> restarts_bound(comparator_loss=3.0, norms=[2.0, 1.0], R_X=1.0)  # 2 * 3 + 4 * (2**2 + 1**2)
    26.0
    """
    require_non_negative(comparator_loss=comparator_loss, R_X=R_X, largest_mass=largest_mass, relative_margin=relative_margin)
    squares = 0.0
    for norm in norms:
        require_non_negative(norms=norm)
        squares += square(R_X * norm)
    return 2.0 * comparator_loss + growth(largest_mass, relative_margin) * squares
