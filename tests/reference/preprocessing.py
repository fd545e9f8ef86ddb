"""Feature transforms, straight from their definitions, in exact rational arithmetic where that is possible."""

import math
import statistics
from collections import Counter
from fractions import Fraction


def scaled_stream(queries, with_std=True):
    """Each query scaled by the exact mean and variance of all documents up to and with it."""
    seen, answers = [], []
    for X in queries:
        seen += [[Fraction(float(value)) for value in row] for row in X]
        answer = []
        for row in X:
            scaled = []
            for j, value in enumerate(row):
                column = [document[j] for document in seen]
                mean = sum(column) / len(column)
                variance = sum((v - mean) ** 2 for v in column) / len(column)
                difference = Fraction(float(value)) - mean
                scaled.append(_ratio(difference, variance) if with_std else float(difference))
            answer.append(scaled)
        answers.append(answer)
    return answers


def standardised_query(X):
    return scaled_stream([X])[0]


def minmax_query(X):
    columns = [[Fraction(float(row[j])) for row in X] for j in range(len(X[0]))]
    low = [min(column) for column in columns]
    span = [max(column) - min(column) for column in columns]
    return [[float((Fraction(float(v)) - low[j]) / span[j]) if span[j] else 0.0 for j, v in enumerate(row)] for row in X]


def _ratio(difference, variance):
    """difference / sqrt(variance), and 0 for a variance of 0; exact up to the last rounding, at any scale."""
    if not variance:
        return 0.0
    return math.copysign(math.sqrt(difference**2 / variance), difference)


def knots(sample, room):
    """Values and scores between which a map is linear, and whether 0 stays 0, from all documents of a feature.

    Distinct values are knots when their cumulative weight passes the next of room - 5 equal steps; so are the smallest, the
    largest and 0. Where more than half are 0, zeros count for as many as the others, and 0 gets the score 0.
    """
    others = [value for value in sample if value != 0]
    zeros = len(sample) - len(others)
    rare = zeros > len(others)
    weights = Counter(others)
    if zeros:
        weights[0.0] = (len(others) or 1) if rare else zeros
    total = sum(weights.values())
    normal = statistics.NormalDist()
    below, passed, found = 0, 0, []
    for value in sorted(weights):
        above = below + weights[value]
        steps = math.floor(above * (room - 5) / total)
        if above * (room - 5) > passed * total or value == 0 or above == total:
            found.append((value, normal.inv_cdf((below + above) / 2 / total)))
            passed = steps + 1
        below = above
    if rare:
        origin = dict(found)[0.0]
        found = [(value, score - origin) for value, score in found]
        found += [(side * 5e-324, side * 0.5) for side in (-1, 1) if side * 5e-324 not in weights]
    return [value for value, _ in sorted(found)], [score for _, score in sorted(found)], rare


def joined(parts, room, draw):
    """Lists of (value, weight) as `room` values of equal weight: those at equal steps of the cumulative weight."""
    ordered = sorted(pair for part in parts for pair in part)
    step = sum(weight for _, weight in ordered) / room
    found, above, left = [], 0.0, iter(ordered)
    value = None
    for n in range(room):
        while value is None or above <= (n + draw) * step:
            value, weight = next(left, (value, math.inf))
            above += weight
        found.append(value)
    return found


def interpolated(x, values, scores):
    if x <= values[0]:
        return scores[0]
    for (a, left), (b, right) in zip(zip(values, scores), zip(values[1:], scores[1:])):  # noqa: B905
        if x <= b:
            return left + (x - a) / (b - a) * (right - left)
    return scores[-1]


def relative(scores, rare=False):
    """(g - mean) / (deviation + 0.1) within a query, without the mean where 0 stays 0; 0 where g is constant."""
    if min(scores) == max(scores):
        return [0.0 for _ in scores]
    mean, deviation = 0.0 if rare else statistics.fmean(scores), statistics.pstdev(scores)
    return [(g - mean) / (deviation + 0.1) for g in scores]
