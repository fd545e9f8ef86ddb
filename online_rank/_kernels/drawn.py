"""What is served: one curve for each feature, the sum of the members' by their weights."""

import numpy as np

from online_rank._kernels._jit import kernel, leaf
from online_rank._kernels.curves import (
    ENCODED,
    ENCODED_RANK,
    FIRST,
    KNOWN,
    LINE,
    MIDDLE,
    MISSING,
    N_CELLS,
    N_COLUMNS,
    N_MEMBERS,
    N_PLAIN,
    N_RAMPS,
    POINTS,
    PRESENT,
    RAMPS,
    RANK,
    RIDGE,
    RISES,
    STEP,
    add_curve,
    encode,
    line_of,
)
from online_rank._kernels.fits import require


@leaf
def _draw_curve(w, values, curve):
    """curve (2, N_CELLS) = constants and slopes of the sum of all columns of g by weights w (N_COLUMNS,)."""
    base = w[PRESENT] - 0.5 * w[RAMPS + MIDDLE]
    for r in range(MIDDLE):
        base -= w[RAMPS + r]
    for c in range(N_CELLS):
        start, slope = line_of(values, c)
        curve[0, c], curve[1, c] = w[ENCODED] * start, 0.0
        if c != MISSING:
            curve[0, c] += base
            curve[1, c] = w[LINE] + w[ENCODED] * slope
        if RISES <= c < RISES + N_RAMPS:
            up = w[RAMPS + c - RISES]
            curve[0, c] -= up * ((FIRST + (c - 1) * STEP) / STEP)
            curve[1, c] += up * (1.0 / STEP)
            base += up


@leaf
def _draw_served(weights, W, plain, sums, values, w, out):
    """The served curves of a feature: out (2, 2, N_CELLS); W (N_COLUMNS, N_MEMBERS), plain (0,) or (N_PLAIN + 1,)."""
    for k in range(N_COLUMNS):
        w[k] = (weights[0] * W[k, 0] + weights[1] * W[k, 1]) + (weights[2] * W[k, 2] + weights[3] * W[k, 3])
    if plain.shape[0] > 0:
        for k in range(N_PLAIN):
            w[LINE] += weights[N_MEMBERS + k] * plain[k]
        w[PRESENT] += weights[N_MEMBERS + RIDGE] * plain[KNOWN]
    encode(sums[0], values)
    _draw_curve(w, values, out[0])
    encode(sums[1], values)
    for c in range(N_CELLS):
        start, slope = line_of(values, c)
        known = 1.0 if c != MISSING else 0.0
        out[1, 0, c] = known * w[ENCODED_RANK] * start
        out[1, 1, c] = known * (w[RANK] + w[ENCODED_RANK] * slope)


@kernel
def draw_curves(weights, W, plain, sums, out):
    """The served curves of g and of q: out (d, 2, 2, N_CELLS) = the members' by their weights, plain ones included.

    plain : (d, 0) or (d, N_PLAIN + 1) weights of g, as `score_plain` takes them
    """
    require(W.shape[0] == plain.shape[0] == sums.shape[0] == out.shape[0] and out.shape[3] == N_CELLS)
    require(plain.shape[1] in (0, N_PLAIN + 1) and weights.shape[0] >= N_MEMBERS + max(plain.shape[1] - 1, 0))
    values, w = np.empty(POINTS + 1), np.empty(N_COLUMNS)
    for j in range(W.shape[0]):
        _draw_served(weights, W[j], plain[j], sums[j], values, w, out[j])


@leaf
def score_served(rows, m, relative, weights, W, plain, sums, values, w, curve, scores):
    """The scores (m,) that `score` gives by `draw_curves`, to the bit; values, w, curve (2, 2, N_CELLS): workspace"""
    scores[:] = 0.0
    for j in range(W.shape[0]):
        _draw_served(weights, W[j], plain[j], sums[j], values, w, curve)
        add_curve(rows.g[j, :m], rows.cells[j, :m], curve[0], scores)
        if relative:
            add_curve(rows.q[j, :m], rows.q_cells[j, :m], curve[1], scores)
