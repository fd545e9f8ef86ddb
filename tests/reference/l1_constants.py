"""Bounds on the l1 norm of gradients of surrogates, as the docstrings state them: L1 of [CT, Corollary 9]."""

import numpy as np

from online_rank._kernels.codes import AP, MAX_GRADE
from online_rank._kernels.graded import discount, gain
from online_rank.measures.learned import discounts, measure

#: Slopes c of tanh(c x / 2); the identity of a logistic cost is the log-odds, whose slope is 1.
SLOPES = {"tanh": 2.0, "half_tanh": 1.0}


def l1_constant(surrogate, y):
    """Upper bound on the l1 norm of the gradient for a query with grades `y`; infinite without a bound."""
    target, y = measure(surrogate.measure), np.array(y, dtype=np.int64)
    grades = (y >= target.threshold).astype(np.int64) if target.kind == AP else y
    levels, counts = np.unique(grades, return_counts=True)
    if len(levels) < 2:
        return 0.0
    if surrogate.name == "listnet":
        return 2.0
    if surrogate.name == "slam":
        # With the least relevant documents on top, every document that can have a violator has one: sum of v_i.
        worst = (grades == levels[0]).astype(np.float64)
        return 2.0 * float(-np.minimum(surrogate.gradient(worst * (1.0 + surrogate.margin * MAX_GRADE), y), 0.0).sum())
    upper, lower = (a.ravel() for a in np.meshgrid(np.arange(len(levels)), np.arange(len(levels)), indexing="ij"))
    paired = upper > lower if surrogate.name == "lambdarank" or surrogate.pairs == "all" else upper == lower + 1
    upper, lower = upper[paired], lower[paired]
    n_pairs = counts[upper] * counts[lower]
    slope = SLOPES.get(surrogate.output, 1.0)
    if surrogate.name == "lambdarank":
        return 2.0 * slope * float(n_pairs @ _largest_swaps(target, levels, counts, upper, lower))
    weights = {"none": np.ones(len(upper)), "grade": levels[upper], "difference": levels[upper] - levels[lower]}
    total = 1.0 if surrogate.reduction == "mean" else float(n_pairs @ weights[surrogate.pair_weight])
    if surrogate.name == "hinge":
        return 2.0 * total
    if surrogate.name == "logistic":
        return 2.0 * slope * total
    # (1 - tanh x)^2 is steepest where tanh x = -1/3, and its derivative there is -64/27.
    return 2.0 * total * (np.inf if surrogate.output == "identity" else 32.0 / 27.0 * slope)


def _largest_swaps(target, levels, counts, upper, lower):
    """For pairs of levels, a bound on the change of the measure when two of their documents swap places."""
    if target.kind == AP:
        return np.ones(len(upper))
    m = int(counts.sum())
    depth = min(target.k or m, m)
    gains = np.array([gain.py_func(target.kind, level) for level in levels.tolist()])
    table = np.array([discount.py_func(target.kind, p, m, discounts(m)) for p in range(depth)])
    ideal = np.repeat(gains[::-1], counts[::-1])[:depth] @ table
    return (gains[upper] - gains[lower]) * (table[0] - (table[-1] if depth == m else 0.0)) / ideal
