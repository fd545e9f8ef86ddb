"""Optimizers: how a gradient moves parameters. Their state is `state` (OPTIMIZER_ROWS, n)."""

import math

import numpy as np

from online_rank._kernels._jit import inner, kernel
from online_rank._kernels.codes import ADAGRAD, ADAM, SCALE_FREE, SGD
from online_rank._kernels.vector_math import power

# Adam's customary constants (Kingma & Ba 2015).
_MEAN, _SQUARE, _EPSILON = 0.9, 0.999, 1e-8
# Least wealth of a coordinate of the scale-free optimizer, relative to its initial wealth.
_POOREST = 1e-3


@inner
def _adagrad(rate, gradient, parameters, squares):
    """p <- p - rate g / sqrt(sum of g^2) (Duchi, Hazan & Singer 2011)."""
    rate = parameters.dtype.type(rate)
    one = parameters.dtype.type(1.0)
    for j in range(parameters.shape[0]):
        square = squares[j] + gradient[j] * gradient[j]
        squares[j] = square
        # A sum of 0 (no gradient yet, or one that vanishes when squared) moves nothing.
        parameters[j] -= rate * gradient[j] / np.sqrt(square) if square > 0 else one - one


@inner
def _adam(rate, steps, gradient, parameters, means, squares):
    """Adam (Kingma & Ba 2015) with its bias corrections; `steps` counts this one."""
    kind = parameters.dtype.type
    keep_mean, keep_square = kind(_MEAN), kind(_SQUARE)
    new_mean, new_square = kind(1.0 - _MEAN), kind(1.0 - _SQUARE)
    step = kind(rate / (1.0 - power(_MEAN, steps)))
    scale = kind(1.0 / math.sqrt(1.0 - power(_SQUARE, steps)))
    epsilon = kind(_EPSILON)
    for j in range(parameters.shape[0]):
        means[j] = keep_mean * means[j] + new_mean * gradient[j]
        squares[j] = keep_square * squares[j] + new_square * gradient[j] * gradient[j]
        parameters[j] -= step * means[j] / (np.sqrt(squares[j]) * scale + epsilon)


@inner
def bet(parameters, state):
    """Weights of the scale-free optimizer, ScInOL2 of Kempka, Kotłowski & Warmuth (2019): bets on the direction of past
    gradients.

    Each weight stakes at most half of its coordinate's wealth: w = sign(theta) min(|theta| / r, 1) wealth / (2 r), where theta
    is minus the sum of the gradients g, and r^2 the sum of g^2 + (largest range of the feature)^2. Multiplying a feature by c
    divides its weight by c, and changes no score.
    """
    direction, squares, largest, wealth = state
    for j in range(parameters.shape[0]):
        radius = math.sqrt(squares[j] + largest[j] * largest[j])
        if radius > 0.0:
            parameters[j] = 0.5 * min(max(direction[j] / radius, -1.0), 1.0) * wealth[j] / radius


@inner
def _scale_free(start, gradient, parameters, state):
    """Settle the bets and place the next ones; `start` is the initial wealth of every coordinate."""
    direction, squares, largest, wealth = state
    for j in range(parameters.shape[0]):
        g = gradient[j]
        direction[j] -= g
        squares[j] += g * g
        # A surrogate with steep gradients can exceed the feature's range.
        largest[j] = max(largest[j], abs(g))
        wealth[j] = max(wealth[j] - g * parameters[j], _POOREST * start)
    bet(parameters, state)


@inner
def meet_features(X, low, high, parameters, state):
    """Show the scale-free optimizer the features of a query before it scores them, so that it bets less on larger ones.

    `low` and `high` (d,) are workspace.
    """
    for j in range(X.shape[1]):
        low[j] = X[0, j]
        high[j] = X[0, j]
    # Row by row, in the order of memory, where X is read for the first time.
    for i in range(1, X.shape[0]):
        for j in range(X.shape[1]):
            x = np.float64(X[i, j])
            low[j] = x if x < low[j] else low[j]
            high[j] = x if x > high[j] else high[j]
    largest = state[2]
    for j in range(X.shape[1]):
        largest[j] = max(largest[j], high[j] - low[j])
    bet(parameters, state)


@kernel
def descend(optimizer, rate, steps, gradient, parameters, state):
    """One step of an optimizer, in place; `steps` counts it."""
    if optimizer == SGD:
        for j in range(parameters.shape[0]):
            parameters[j] -= parameters.dtype.type(rate) * gradient[j]
    elif optimizer == ADAGRAD:
        _adagrad(rate, gradient, parameters, state[0])
    elif optimizer == ADAM:
        _adam(rate, steps, gradient, parameters, state[0], state[1])
    elif optimizer == SCALE_FREE:
        _scale_free(rate, gradient, parameters, state)
