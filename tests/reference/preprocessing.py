"""Feature transforms, straight from their definitions, in exact rational arithmetic where that is possible."""

import math
import statistics
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


def signed_log(x):
    return math.copysign(math.log1p(abs(x)), x)


def _ratio(difference, variance):
    """difference / sqrt(variance), and 0 where there is no variance; exact up to the last rounding, at any scale."""
    if not variance:
        return 0.0
    return math.copysign(math.sqrt(difference**2 / variance), difference)


def gaussianized(X, train, deviation=1 / 3):
    """deviation Phi^-1(F(x)): F counts the smaller documents of `train` and half of the equal ones; x is cut to their range."""
    answer = []
    for row in X:
        answer.append([])
        for j, value in enumerate(row):
            column = [float(document[j]) for document in train]
            value = min(max(float(value), min(column)), max(column))
            share = sum(1.0 if other < value else 0.5 if other == value else 0.0 for other in column) / len(column)
            answer[-1].append(deviation * statistics.NormalDist().inv_cdf(share))
    return answer
