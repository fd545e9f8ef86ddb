"""Losses of comparators, surrogates of the literature and their gradients: loops straight from the equations."""

import itertools
import math


def key_margin(margin, margin_scale, y, i, j):
    return margin * (y[i] - y[j]) if margin_scale == "grade" else margin


def pair_loss(a, u_scores, y, margin=1.0, margin_scale="constant"):
    """F_t(u): the hinge of the comparator on the pairs of an update with weights a_ij."""
    return sum(
        a_ij * max(0.0, key_margin(margin, margin_scale, y, i, j) - (u_scores[i] - u_scores[j])) for (i, j), a_ij in a.items()
    )


def slam(v, s, y, margin=1.0, margin_scale="constant"):
    """phi_v [CT, eq. 3]."""
    m = len(y)
    return sum(
        v[i] * max([0.0] + [key_margin(margin, margin_scale, y, i, j) + s[j] - s[i] for j in range(m) if y[j] < y[i]])
        for i in range(m)
    )


def slam_gradient(v, s, y):
    m = len(y)
    g = [0.0] * m
    for i in range(m):
        lower = [j for j in range(m) if y[j] < y[i]]
        if lower:
            k = max(lower, key=lambda j: s[j])
            if 1.0 + s[k] - s[i] > 0.0:
                g[k] += v[i]
                g[i] -= v[i]
    return g


def listnet_gradient(s, y):
    """Cross-entropy of softmax(y) and softmax(s)."""

    def softmax(x):
        e = [math.exp(a - max(x)) for a in x]
        return [a / sum(e) for a in e]

    return [p - q for p, q in zip(softmax(s), softmax(y), strict=True)]


def ranksvm_gradient(s, y):
    m = len(y)
    g = [0.0] * m
    for i, j in itertools.product(range(m), repeat=2):
        if y[i] > y[j] and 1.0 + s[j] - s[i] > 0.0:
            g[j] += 1.0
            g[i] -= 1.0
    return g


def structured_margin_gradient(s, y):
    """Chapelle, Le & Smola 2007 with coefficient m - p at position p and 1 - NDCG as the loss, over all rankings."""
    m = len(y)

    def dcg(ranking):
        return sum((2.0 ** y[i] - 1.0) / math.log2(p + 1) for p, i in enumerate(ranking, 1))

    ideal = sorted(range(m), key=lambda i: -y[i])
    worst = max(
        itertools.permutations(range(m)),
        key=lambda r: -dcg(r) / (dcg(ideal) or 1.0) + sum((m - p) * s[i] for p, i in enumerate(r, 1)),
    )
    g = [0.0] * m
    for p, i in enumerate(worst, 1):
        g[i] += m - p
    for p, i in enumerate(ideal, 1):
        g[i] -= m - p
    return g


def svm_map_gradient(s, y):
    """Yue et al. 2007: the joint feature is (1 / (r (m - r))) sum of +-(s_i - s_j) over relevant i and irrelevant j."""
    m = len(y)
    relevant = [i for i in range(m) if y[i]]
    irrelevant = [j for j in range(m) if not y[j]]
    if not relevant or not irrelevant:
        return [0.0] * m
    unit = 1.0 / (len(relevant) * len(irrelevant))
    best, best_value = None, -math.inf
    # Within the relevant, and within the irrelevant, the highest score stands first; only the interleaving is free.
    up, down = sorted(relevant, key=lambda i: -s[i]), sorted(irrelevant, key=lambda j: -s[j])
    for places in itertools.combinations(range(m), len(relevant)):
        others = [p for p in range(m) if p not in places]
        above = {(i, j): p < q for i, p in zip(up, places, strict=True) for j, q in zip(down, others, strict=True)}
        loss = 1.0 - sum(n / (p + 1) for n, p in enumerate(places, 1)) / len(relevant)
        value = loss - sum(2.0 * unit * (s[i] - s[j]) for (i, j), right in above.items() if not right)
        if value > best_value:
            best, best_value = above, value
    g = [0.0] * m
    for (i, j), right in best.items():
        if not right:
            g[i] -= 2.0 * unit
            g[j] += 2.0 * unit
    return g


def gradient_l1_constant(surrogate: str, m: int) -> float:
    """L_1, which bounds the l1 norm of a surrogate's gradient in the scores of m documents; L_2 <= R_X L_1 ([CT], Cor. 9).

    `"slam"` (2 sum v_i <= 2) and `"listnet"` (softmax cross-entropy): 2. `"svm_map"` (the structured SVM of Yue et al. 2007,
    each pair weighted by 1 / (r (m - r))): 4. `"ranksvm"` (the hinge summed over pairs): twice the number of pairs, m (m - 1).
    `"structured_margin"` (Chapelle, Le & Smola 2007, position coefficients m - p): floor(m^2 / 2).
    """
    pairs = {"ranksvm": float(m * (m - 1)), "structured_margin": float(m * m // 2)}
    return {"slam": 2.0, "listnet": 2.0, "svm_map": 4.0, **pairs}[surrogate]
