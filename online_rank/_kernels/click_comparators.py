"""Losses of comparators on clicks: the losses of other weights on the pairs that a `ClickPerceptron` learns from.

Nothing here is part of learning: the pairs are found again, from the scores that decided them and the clicks.
"""

import numpy as np

from online_rank._kernels._jit import inner, kernel
from online_rank._kernels.click_perceptron import cost_of_rank
from online_rank._kernels.clicks import considered, drawn_of, exponentials, swap_weight
from online_rank._kernels.codes import ALL_PAIRS, PLACKETT_LUCE
from online_rank._kernels.fits import require, require_drawn


@kernel
def compare_on_clicks(shown, by_discount, discounts, s, margin, weight, scores, out):
    """Losses F(u) = sum of a_ij max(0, 1 - (u_i - u_j)) of comparators in a round of `click_perceptron.learn`.

    Parameters
    ----------
    shown : one query, as for `click_perceptron.learn`
    by_discount, discounts : the cost of a rank (`cost_of_rank`)
    s : (m,) scores that decided the update
    margin, weight : margin tau and sample weight of the round
    scores : (n, m) scores by the comparators
    out : (n,) losses, added to
    """
    m = s.shape[0]
    require(scores.shape == (out.shape[0], m) and discounts.shape[0] >= m)
    require_drawn(m, np.array([0, m]), shown, np.empty(1), np.empty((1, 10)))
    drawn = drawn_of(shown, 0)
    if drawn.chances.shape[0] > 0 and drawn.kind != ALL_PAIRS:
        for p in range(drawn.rows.shape[0]):
            if drawn.gains[p] > 0.0:
                cost = weight * drawn.gains[p] / drawn.chances[p]
                _compare_cost(drawn.rows[p], cost, by_discount, discounts, s, margin, scores, out)
    else:
        _compare_pairs(drawn, s, margin, weight, scores, out)


@inner
def _compare_cost(i, cost, by_discount, discounts, s, margin, scores, out):
    """For a click on document i, equal parts on all documents that the scores do not rank below it by more than the margin."""
    near = -1
    for j in range(s.shape[0]):
        near += s[j] >= s[i] - margin
    for j in range(s.shape[0]):
        if j != i and s[j] >= s[i] - margin:
            _add_hinges(scores, i, j, cost * cost_of_rank(by_discount, discounts, near) / near, out)


@inner
def _compare_pairs(drawn, s, margin, weight, scores, out):
    """Pairs of the documents shown, with the weights of `clicks.swap_credit`."""
    kind, rows, gains, logits = drawn.kind, drawn.rows, drawn.gains, drawn.logits
    e = np.zeros(gains.shape[0])
    n = gains.shape[0] if kind == ALL_PAIRS else considered(gains)
    unshown = exponentials(logits, drawn.rest, e) if kind == PLACKETT_LUCE else 0.0
    total = 0.0
    if kind == ALL_PAIRS:
        for b in range(n):
            for a in range(b):
                total += 0.5 * abs(gains[a] - gains[b])
    below = 0.0
    for p in range(n, gains.shape[0]):
        below += e[p]
    for b in range(n - 1, 0, -1):
        for a in range(b):
            upper, lower = (rows[a], rows[b]) if gains[a] > gains[b] else (rows[b], rows[a])
            amount = weight * abs(gains[a] - gains[b])
            if amount == 0.0 or s[upper] - s[lower] > margin:
                continue
            if kind == PLACKETT_LUCE:
                _add_hinges(scores, upper, lower, amount * swap_weight(e, unshown, below, a, b), out)
            elif kind == ALL_PAIRS:
                _add_hinges(scores, upper, lower, 0.5 * amount / total, out)
            elif b == a + 1 and (a - kind) % 2 == 0:
                _add_hinges(scores, upper, lower, 0.5 * amount, out)
        below += e[b]


@inner
def _add_hinges(scores, upper, lower, amount, out):
    for u in range(scores.shape[0]):
        out[u] += amount * max(0.0, 1.0 - (scores[u, upper] - scores[u, lower]))
