"""Ranking metrics straight from their equations, for a given order; ties by trying every order that the scores allow."""

import itertools
import math
from statistics import fmean


def orders(scores):
    """Every order of the documents, best score first, that breaks ties somehow."""
    by_score = sorted(set(scores), reverse=True)
    groups = [[i for i, s in enumerate(scores) if s == score] for score in by_score]
    for choice in itertools.product(*(itertools.permutations(group) for group in groups)):
        yield [i for group in choice for i in group]


def extreme_order(scores, grades, sign):
    """The order with the best (sign 1) or worst (sign -1) documents first among equal scores."""
    return sorted(range(len(scores)), key=lambda i: (scores[i], sign * grades[i]), reverse=True)


def value(metric, scores, grades, ties, **parameters):
    """The metric (one of the functions below) under a tie policy; None when it is undefined."""
    if metric is pairwise_accuracy and ties == "ignored":
        return pairwise_accuracy([(s, -i) for i, s in enumerate(scores)], grades, None)
    if metric is pairwise_accuracy:
        return pairwise_accuracy(scores, grades, {"expected": 0.5, "optimistic": 1.0, "pessimistic": 0.0}[ties])
    if ties == "ignored":
        order = sorted(range(len(scores)), key=lambda i: -scores[i])
        return metric([grades[i] for i in order], **parameters)
    if ties != "expected":
        order = extreme_order(scores, grades, 1 if ties == "optimistic" else -1)
        return metric([grades[i] for i in order], **parameters)
    values = [metric([grades[i] for i in order], **parameters) for order in orders(scores)]
    return None if values[0] is None else fmean(values)


def ndcg(ranked, k=None, gain="exponential"):
    def dcg(grades):
        g = [2**r - 1 if gain == "exponential" else r for r in grades]
        return sum(g[p - 1] / math.log2(p + 1) for p in range(1, len(g) + 1) if k is None or p <= k)

    ideal = dcg(sorted(ranked, reverse=True))
    return dcg(ranked) / ideal if ideal else None


def dcg(ranked, k=None, gain="exponential"):
    if not any(ranked):
        return None
    return sum((2**r - 1 if gain == "exponential" else r) / math.log2(p + 1) for p, r in enumerate(ranked[:k], 1))


def recall(ranked, k, threshold=1):
    relevant = [r >= threshold for r in ranked]
    return sum(relevant[:k]) / sum(relevant) if any(relevant) else None


def hit_rate(ranked, k, threshold=1):
    return float(any(r >= threshold for r in ranked[:k])) if any(r >= threshold for r in ranked) else None


def attainable_average_precision(ranked, k=None, threshold=1):
    value = average_precision(ranked, k, threshold)
    n = sum(r >= threshold for r in ranked)
    return None if value is None else value * n / min(n, k or len(ranked))


def average_precision(ranked, k=None, threshold=1):
    relevant = [r >= threshold for r in ranked]
    if not any(relevant):
        return None
    total = 0.0
    for p in range(1, len(ranked) + 1):
        if relevant[p - 1] and (k is None or p <= k):
            total += sum(relevant[:p]) / p
    return total / sum(relevant)


def reciprocal_rank(ranked, k=None, threshold=1):
    if not any(r >= threshold for r in ranked):
        return None
    for p, r in enumerate(ranked, 1):
        if r >= threshold:
            return 1 / p if k is None or p <= k else 0.0


def precision(ranked, k, threshold=1):
    if not any(r >= threshold for r in ranked):
        return None
    return sum(r >= threshold for r in ranked[:k]) / k


def err(ranked, k=None, max_grade=4):
    if not any(ranked):
        return None
    total = 0.0
    for p, r in enumerate(ranked[:k], 1):
        stop = (2**r - 1) / 2**max_grade
        total += stop / p * math.prod(1 - (2**q - 1) / 2**max_grade for q in ranked[: p - 1])
    return total


def linear_dcg(ranked):
    return sum(r * (len(ranked) - position) for position, r in enumerate(ranked, 1))


def linear_ndcg(ranked):
    ideal = linear_dcg(sorted(ranked, reverse=True))
    return linear_dcg(ranked) / ideal if ideal else None


def pairwise_accuracy(scores, grades, tie):
    right = pairs = 0.0
    for s, r in zip(scores, grades, strict=True):
        for t, q in zip(scores, grades, strict=True):
            if r > q:
                pairs += 1
                right += 1 if s > t else tie if s == t else 0
    return right / pairs if pairs else None
