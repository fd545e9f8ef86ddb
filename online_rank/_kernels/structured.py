"""Structured margins: the largest, over all rankings, of their loss plus their advantage in score over the ideal ranking.

Each function adds the gradient in the scores to `gradient` (m,), which starts at zero, and returns the value.
"""

import numpy as np

from online_rank._kernels._jit import inner
from online_rank._kernels.graded import discount


@inner
def structured_dcg(target, graded, s, gradient):
    """The margin of Chapelle, Le & Smola for the measures of the form sum of G D. O(depth^2 m).

    The score of a ranking is the sum of a_p s over positions p, a_p = depth + 1 - p for p <= depth, else 0; for the ideal
    ranking the a_p of one grade are averaged. The largest loss plus score is an assignment of documents to positions.
    """
    kind, discounts = target.kind, target.discounts
    levels, level, _, gains, count, depth, ideal = graded
    m = s.shape[0]
    # Benefit of document i at the 0-based position p: s_i (depth - p) - G_i D_p / Z. Scores may be shifted, and taking them
    # relative to the best one keeps their differences exact.
    highest = s.max()
    row_price = np.zeros(depth + 1)
    column_price = np.zeros(m + 1)
    # Shortest augmenting paths (the Hungarian method); row 0 and column 0 stand for "nothing".
    row_of = np.zeros(m + 1, dtype=np.int64)
    came_from = np.zeros(m + 1, dtype=np.int64)
    for row in range(1, depth + 1):
        row_of[0] = row
        column = 0
        slack = np.full(m + 1, np.inf)
        reached = np.zeros(m + 1, dtype=np.bool_)
        while row_of[column] != 0:
            reached[column] = True
            here = row_of[column]
            d = discount(kind, here - 1, m, discounts) / ideal
            step = np.inf
            following = 0
            for c in range(1, m + 1):
                if not reached[c]:
                    benefit = (s[c - 1] - highest) * (depth + 1 - here) - gains[level[c - 1]] * d
                    reduced = -benefit - row_price[here] - column_price[c]
                    if reduced < slack[c]:
                        slack[c] = reduced
                        came_from[c] = column
                    if slack[c] < step:
                        step = slack[c]
                        following = c
            for c in range(m + 1):
                if reached[c]:
                    row_price[row_of[c]] += step
                    column_price[c] -= step
                else:
                    slack[c] -= step
            column = following
        while column != 0:
            row_of[column] = row_of[came_from[column]]
            column = came_from[column]
    value = 1.0
    for i in range(m):
        if row_of[i + 1] > 0:
            p = row_of[i + 1] - 1
            gradient[i] = depth - p
            value -= gains[level[i]] * discount(kind, p, m, discounts) / ideal
    share = np.zeros(levels)
    position = 0
    for lev in range(levels - 1, -1, -1):
        for p in range(position, min(position + count[lev], depth)):
            share[lev] += (depth - p) / count[lev]
        position += count[lev]
    for i in range(m):
        gradient[i] -= share[level[i]]
        value += gradient[i] * (s[i] - highest)
    return value


@inner
def structured_ap(s, level, order, relevant, gradient):
    """The margin of Yue et al. for average precision, by their greedy argument. O(r (m - r)) for r relevant documents.

    `order` lists documents by descending score; `relevant` (m,) is workspace. Going down the irrelevant documents, each one
    overtakes as many of the lowest relevant documents as maximises the sum of loss and score; the gain of the next one does not
    depend on that.
    """
    m = s.shape[0]
    r = 0
    for p in range(m):
        if level[order[p]] == 1:
            relevant[r] = order[p]
            r += 1
    scale = 2.0 / (r * (m - r))
    value = 0.0
    above = 0
    for p in range(m):
        j = order[p]
        if level[j] == 1:
            continue
        above += 1
        benefit = 0.0
        best = 0.0
        overtaken = r
        for k in range(r - 1, -1, -1):
            # Precision at the relevant document number k + 1 falls from (k + 1) / (k + above) to (k + 1) / (k + 1 + above).
            fall = (k + 1.0) / ((k + above) * (k + 1.0 + above)) / r
            benefit += fall - scale * (s[relevant[k]] - s[j])
            if benefit > best:
                best = benefit
                overtaken = k
        value += best
        for k in range(overtaken, r):
            gradient[relevant[k]] -= scale
            gradient[j] += scale
    return value
