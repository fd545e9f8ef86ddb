"""Standardised grades, whose means encode values of features and are what trees and ridge regression fit."""

import math

from online_rank._kernels._jit import leaf


@leaf
def standardised(y, target):
    """target = (y - mean) / deviation within a query; False when all grades are the same (target is then 0)."""
    m = y.shape[0]
    total = 0.0
    same = True
    for i in range(m):
        total += y[i]
        same = same and y[i] == y[0]
    target[:] = 0.0
    if same:
        return False
    mean = total / m
    square = 0.0
    for i in range(m):
        target[i] = y[i] - mean
        square += target[i] * target[i]
    factor = 1.0 / math.sqrt(square / m)
    for i in range(m):
        target[i] *= factor
    return True
