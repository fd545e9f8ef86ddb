"""Rankings drawn by the Plackett-Luce law and clicks on them, by definition: sums over all that can happen."""

import itertools
import math

import numpy as np


def ranking_probability(order, logits):
    """P(R): the product over positions of e^l over the sum of e^l of all documents that are left."""
    left = set(range(len(logits)))
    probability = 1.0
    for i in order:
        probability *= math.exp(logits[i]) / math.fsum(math.exp(logits[j]) for j in left)
        left.remove(i)
    return probability


def rankings(logits, k):
    """All rankings of k documents, with their probabilities."""
    for order in itertools.permutations(range(len(logits)), k):
        yield order, ranking_probability(order, logits)


def rest_of(order, logits):
    """logsumexp of the documents not shown; None when all are."""
    left = [math.exp(logits[i]) for i in range(len(logits)) if i not in order]
    return math.log(math.fsum(left)) if left else None


def swap_probability(order, a, b, logits):
    """rho: the probability of the ranking with a and b exchanged, given that it is one of the two."""
    other = list(order)
    other[a], other[b] = other[b], other[a]
    flipped, observed = ranking_probability(other, logits), ranking_probability(order, logits)
    return flipped / (observed + flipped)


def pushes(order, gains, scores, weight):
    """What each pair of gains moves: {(i, j): weight (g_i - g_j) s'(s_i - s_j)}, i the one with more gain, by document.

    `scores` are of the documents, `gains` of the positions; `weight(a, b)` is the weight of the positions a < b.
    """
    clicked = [p for p, gain in enumerate(gains) if gain > 0]
    seen = min(clicked[-1] + 2, len(order)) if clicked else 0
    moved = {}
    for a, b in itertools.combinations(range(seen), 2):
        if gains[a] != gains[b]:
            i, j = (order[a], order[b]) if gains[a] > gains[b] else (order[b], order[a])
            sigmoid = 1 / (1 + math.exp(-(scores[i] - scores[j])))
            moved[i, j] = weight(a, b) * abs(gains[a] - gains[b]) * sigmoid * (1 - sigmoid)
    return moved


def surplus_pushes(gains, n_shown, scores, weight, beta):
    """What each pair of positions a < b moves, a shown: {(a, b): weight (g_a - g_b - beta) s'(s_a - s_b)}, up for a.

    All by position; `weight(a, b)` is the weight of the positions, `beta(a, b)` their baseline.
    """
    moved = {}
    for a, b in itertools.combinations(range(len(gains)), 2):
        if a < n_shown:
            sigmoid = 1 / (1 + math.exp(-(scores[a] - scores[b])))
            moved[a, b] = weight(a, b) * (gains[a] - gains[b] - beta(a, b)) * sigmoid * (1 - sigmoid)
    return moved


def patterns(click, stop):
    """All click patterns of a cascade over positions with these probabilities of a click and of leaving after it."""
    k = len(click)
    for gains in itertools.product((0.0, 1.0), repeat=k):
        # Summed over where the user leaves: after a click at `last`, or not at all.
        clicked = [p for p in range(k) if gains[p]]
        probability = 1.0
        for p in range(clicked[-1] if clicked else -1):
            probability *= click[p] * (1 - stop[p]) if gains[p] else 1 - click[p]
        if clicked:
            last = clicked[-1]
            after = math.prod(1 - click[p] for p in range(last + 1, k))
            probability *= click[last] * (stop[last] + (1 - stop[last]) * after)
        else:
            probability = math.prod(1 - click[p] for p in range(k))
        yield gains, probability


def independent_patterns(click):
    """All click patterns of positions that are clicked independently."""
    for gains in itertools.product((0.0, 1.0), repeat=len(click)):
        yield gains, math.prod(p if gain else 1 - p for p, gain in zip(click, gains, strict=True))


def positions_regression(lists, initial, strength, weights=None):
    """The weights that `ClickRidge` solves for after these lists: pairs (X, gains) with the features from the top down.

    Everything is summed again for each list, and two documents p, q count as a pair with v_p v_q / (sum of v).
    """
    d = len(initial)
    A, b, before = np.zeros((d, d)), np.zeros(d), []
    for (X, gains), w in zip(lists, weights or [1.0] * len(lists), strict=True):
        if not any(gains) or not w:
            continue
        mean, variance, centred = [], [], []
        for p in range(len(gains)):
            # One more list, of features and gains 0 and with variance 1.
            met = [(v, each_X[p], each_gains[p]) for v, each_X, each_gains in before if p < len(each_gains)]
            n = 1 + sum(v for v, _, _ in met)
            mean.append(sum(v * g for v, _, g in met) / n)
            variance.append((1 + sum(v * g * g for v, _, g in met)) / n - mean[-1] ** 2)
            centred.append(X[p] - sum((v * x for v, x, _ in met), np.zeros(d)) / n)
        total = math.fsum(variance)
        for p, q in itertools.combinations(range(len(gains)), 2):
            apart = centred[p] - centred[q]
            A += w * variance[p] * variance[q] / total * np.outer(apart, apart)
        middle = sum(v * z for v, z in zip(variance, centred, strict=True)) / total
        b += w * sum((g - m) * (z - middle) for g, m, z in zip(gains, mean, centred, strict=True))
        before.append((w, X, gains))
    return initial + np.linalg.solve(A + strength * np.eye(d), b - A @ initial)
