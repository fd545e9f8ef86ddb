"""A surrogate of one query: its value, its gradient in the scores, and the loss of the ranking itself."""

from typing import NamedTuple

import numpy as np

from online_rank._kernels import codes
from online_rank._kernels import workspace as at
from online_rank._kernels._jit import inner, kernel
from online_rank._kernels.arrays import all_finite
from online_rank._kernels.best_violators import margin_keys
from online_rank._kernels.fits import require
from online_rank._kernels.graded import Target, grade_query, list_by_level, rank_pessimistically, ranking_loss
from online_rank._kernels.listwise import lambdarank, listnet, slam
from online_rank._kernels.pairwise import hinge, smooth_pairs, squared_identity, total_weight
from online_rank._kernels.primitives import own_gradient
from online_rank._kernels.weight_vectors import weigh_documents
from online_rank._kernels.workspace import workspace


class Surrogate(NamedTuple):
    """A surrogate with the settings of `online_rank.surrogates.Surrogate`.

    `slope` belongs to the output (0 for the identity), `form` (3,) alpha, beta, gamma of w_ij = alpha + beta R_i + gamma R_j.
    `address` goes to `primitives.own_gradient`, for a loss of the user's own.
    """

    name: int
    within_grade: int
    by_gap: int
    neighbours: int
    mean_of_pairs: int
    address: int
    margin: float
    slope: float
    form: np.ndarray


@inner
def settings(config, constants, discounts):
    """Target and surrogate of `online_rank.surrogates.Surrogate.kernel_arguments`, for queries within a table of D(p)."""
    kind, cutoff, threshold, name, within_grade, by_gap, neighbours, mean_of_pairs, address = config
    surrogate = Surrogate(
        name, within_grade, by_gap, neighbours, mean_of_pairs, address, constants[0], constants[1], constants[2:5]
    )  # fmt: skip
    return Target(kind, cutoff, threshold, discounts), surrogate


@kernel
def value_and_gradient(config, constants, s, y, discounts, gradient):
    """Write the gradient (m,) of a surrogate at scores s (m,) and grades y (m,). Returns the same as `evaluate`."""
    require(s.shape[0] == y.shape[0] <= discounts.shape[0] and gradient.shape[0] >= s.shape[0])
    target, surrogate = settings(config, constants, discounts)
    return evaluate(target, surrogate, s, y, True, workspace(s.shape[0]), gradient)


@inner
def evaluate(target, surrogate, s, y, valued, work, gradient):
    """Value and gradient of a surrogate for one query.

    Parameters
    ----------
    s : (m,) float64 scores, finite
    y : (m,) int64 grades
    valued : whether the value is asked for; a surrogate of pairs takes half the time without, and says 0. Learning needs none
    gradient : (m,) out

    Returns
    -------
    The value, the pessimistic loss of the ranking, v_max (0 except for SLAM), and the number of levels: -1 if a grade is out of
    range, or if a loss of the user's own fails or gives a gradient that is not finite; below 2 nothing can be learned, and all
    else is 0. The value of a loss of the user's own is 0 here.
    """
    m = s.shape[0]
    name = surrogate.name
    gradient[:] = 0.0
    graded = grade_query(target, y, work)
    if graded.levels < 2:
        return 0.0, 0.0, 0.0, graded.levels
    order = work.integers[at.ORDER, :m]
    whole = name == codes.HINGE or (name == codes.SLAM and surrogate.within_grade == codes.TIGHT)
    rank_pessimistically(s, graded, m if whole else graded.depth, order, work)
    loss = ranking_loss(target, graded, order)
    v_max = 0.0
    if name in (codes.SQUARED, codes.LOGISTIC):
        value = _smooth(surrogate, graded, s, valued, work, gradient)
    elif name == codes.HINGE:
        value = _hinge(surrogate, graded, s, order, work, gradient)
    elif name == codes.SLAM:
        v = work.reals[at.WEIGHTS, :m]
        v_max = weigh_documents(target, graded, surrogate.within_grade, order, work, v)
        keys, margin = margin_keys(surrogate.margin, surrogate.by_gap, graded, s, work)
        value = slam(margin, keys, graded, v, work, gradient)
    elif name == codes.OWN_SURROGATE:
        value = 0.0
        if not _own(surrogate.address, s, y, work, gradient):
            return 0.0, 0.0, 0.0, -1
    elif name == codes.LISTNET:
        value = listnet(s, graded, gradient)
    else:
        value = lambdarank(surrogate.slope, target, graded, s, order, work, gradient)
    return value, loss, v_max, graded.levels


@inner
def _own(address, s, y, work, gradient):
    """The gradient of a loss of the user's own; returns whether it is there and finite."""
    m = s.shape[0]
    # Rows of the workspace are contiguous, for any arguments.
    scores, grades, slopes = work.reals[at.LISTED_SCORES, :m], work.integers[at.LISTED, :m], work.reals[at.LISTED_GRADIENT, :m]
    for i in range(m):
        scores[i] = s[i]
        grades[i] = y[i]
        slopes[i] = 0.0
    done = own_gradient(address, scores, grades, slopes) == 1 and all_finite(slopes)
    for i in range(m):
        gradient[i] = slopes[i]
    return done


@inner
def _pair_scale(surrogate, graded):
    """1 / sum of w_ij for the mean over pairs, otherwise 1."""
    total = total_weight(surrogate.form, surrogate.neighbours, graded)
    return 1.0 / total if surrogate.mean_of_pairs else 1.0


@inner
def _smooth(surrogate, graded, s, valued, work, gradient):
    """The squared and the logistic cost, on documents listed by level."""
    m = s.shape[0]
    listed, start = work.integers[at.LISTED, :m], work.integers[at.LEVEL_START]
    t, slopes = work.reals[at.LISTED_SCORES, :m], work.reals[at.LISTED_GRADIENT, :m]
    list_by_level(graded, start, listed)
    for p in range(m):
        t[p] = s[listed[p]]
    slopes[:] = 0.0
    levels, grade, form, neighbours = graded.levels, graded.grade, surrogate.form, surrogate.neighbours
    if surrogate.slope == 0.0:
        value = squared_identity(form, neighbours, t, start, levels, grade, work.reals[at.COUNTS], work.reals[at.SUMS], slopes)
    else:
        value = smooth_pairs(
            surrogate.name, surrogate.slope, form, neighbours, t, start, levels, grade, valued,
            work.reals[at.PAIR_WEIGHTS, :m], work.reals[at.TERMS, :m], work.reals[at.OTHER_TERMS, :m], slopes,
        )  # fmt: skip
    scale = _pair_scale(surrogate, graded)
    for p in range(m):
        gradient[listed[p]] = scale * slopes[p]
    return scale * value


@inner
def _hinge(surrogate, graded, s, order, work, gradient):
    """The pairwise hinge; `order` is the whole ranking, and is recomputed for a margin that grows with the grade gap."""
    m = s.shape[0]
    keys, margin = margin_keys(surrogate.margin, surrogate.by_gap, graded, s, work)
    if surrogate.by_gap:
        rank_pessimistically(keys, graded, m, order, work)
    counts, sums = work.reals[at.COUNTS, : graded.levels + 1], work.reals[at.SUMS, : graded.levels + 1]
    value = hinge(surrogate.form, surrogate.neighbours, margin, keys, order, graded, counts, sums, gradient)
    scale = _pair_scale(surrogate, graded)
    for i in range(m):
        gradient[i] *= scale
    return value * scale
