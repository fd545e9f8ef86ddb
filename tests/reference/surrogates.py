"""Surrogates straight from their equations: loops over documents, pairs and rankings."""

import itertools
import math


def gain(r):
    return 2.0**r - 1.0


def discount(p):
    return 1.0 / math.log2(p + 1)


def pairs(y, neighbours=False):
    grades = sorted(set(y))
    for i, j in itertools.permutations(range(len(y)), 2):
        if y[i] > y[j] and (not neighbours or grades.index(y[i]) == grades.index(y[j]) + 1):
            yield i, j


def pair_weight(y, i, j, weighting):
    return {"none": 1.0, "grade": float(y[i]), "difference": float(y[i] - y[j])}[weighting]


def pair_sum(cost, y, neighbours=False, weighting="none", mean=True):
    """Weighted sum of cost(i, j) over pairs, divided by the sum of the weights if `mean`."""
    weighted = [(pair_weight(y, i, j, weighting), cost(i, j)) for i, j in pairs(y, neighbours)]
    total = math.fsum(w * c for w, c in weighted)
    return total / math.fsum(w for w, _ in weighted) if mean else total


def hinge(s, y, margin=1.0, by_gap=False, **options):
    return pair_sum(lambda i, j: max(0.0, margin * (y[i] - y[j] if by_gap else 1) - (s[i] - s[j])), y, **options)


def logistic(s, y, slope=1.0, **options):
    def cost(i, j):
        x = slope * (s[i] - s[j])
        return max(-x, 0.0) + math.log1p(math.exp(-abs(x)))

    return pair_sum(cost, y, **options)


def squared(s, y, tau=lambda x: x, **options):
    return pair_sum(lambda i, j: (1.0 - tau(s[i] - s[j])) ** 2, y, **options)


def listnet(s, y):
    target = [math.exp(r) / math.fsum(math.exp(q) for q in y) for r in y]
    return -math.fsum(p * (a - math.log(math.fsum(math.exp(b) for b in s))) for p, a in zip(target, s, strict=True))


def slam(s, y, v, margin=1.0):
    """`v` in document order."""
    total = 0.0
    for i in range(len(y)):
        lower = [margin + s[j] - s[i] for j in range(len(y)) if y[j] < y[i]]
        total += v[i] * max([0.0, *lower])
    return total


def ndcg(ranking, y, k=None):
    k = k or len(y)
    ideal = math.fsum(gain(r) * discount(p) for p, r in enumerate(sorted(y, reverse=True)[:k], 1))
    return math.fsum(gain(y[i]) * discount(p) for p, i in enumerate(ranking[:k], 1)) / ideal


def linear_ndcg(ranking, y):
    m = len(y)
    ideal = math.fsum(r * (m - p) for p, r in enumerate(sorted(y, reverse=True), 1))
    return math.fsum(y[i] * (m - p) for p, i in enumerate(ranking, 1)) / ideal


def average_precision(ranking, y):
    hits = [p for p, i in enumerate(ranking, 1) if y[i]]
    return math.fsum((n + 1) / p for n, p in enumerate(hits)) / len(hits)


def pessimistic_ranking(s, y):
    return sorted(range(len(y)), key=lambda i: (-s[i], y[i]))


def lambdarank(s, y, value, slope=1.0, ranking=None):
    """`value(ranking, y)` is the measure; `ranking` the one whose swaps count."""
    ranking = ranking or pessimistic_ranking(s, y)
    total = 0.0
    for i, j in pairs(y):
        swapped = [j if d == i else i if d == j else d for d in ranking]
        x = slope * (s[i] - s[j])
        total += abs(value(swapped, y) - value(ranking, y)) * (max(-x, 0.0) + math.log1p(math.exp(-abs(x))))
    return total


def weight_vector(y, kind, k=None):
    """Mean of v over each grade, in document order ([CT, eq. 6, 9, 31])."""
    m = len(y)
    order = sorted(range(m), key=lambda i: -y[i])
    ideal = math.fsum(gain(y[i]) * discount(p) for p, i in enumerate(order, 1) if k is None or p <= k)
    relevant = sum(1 for r in y if r)
    v = {}
    for p, i in enumerate(order, 1):
        if kind == "ap":
            v[i] = (1.0 - p / (m - relevant + p)) / relevant if p <= relevant else 0.0
        elif k is None:
            v[i] = (gain(y[i]) - gain(min(y))) * (discount(p) - discount(m)) / ideal
        else:
            v[i] = gain(y[i]) * discount(p) / ideal if p <= k else 0.0
    return [math.fsum(v[j] for j in range(m) if y[j] == y[i]) / y.count(y[i]) for i in range(m)]
