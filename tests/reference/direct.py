"""A feed-forward network g(x) = w · f(x) one document and one unit at a time, and its gradient by finite differences."""

import itertools
import math

ACTIVATIONS = {"tanh": math.tanh, "relu": lambda z: max(z, 0.0)}


def unpack(parameters, widths):
    """Layers (weights[below][unit], biases) from the first on, and w, from the flat vector of `_kernels.network`."""
    values = list(map(float, parameters))
    position = widths[-1]
    w = values[:position]
    layers = []
    for below, width in reversed(list(itertools.pairwise(widths))):
        biases = values[position : position + width]
        position += width
        weights = [values[position + k * width : position + (k + 1) * width] for k in range(below)]
        position += below * width
        layers.insert(0, (weights, biases))
    assert position == len(values)
    return layers, w


def score(x, parameters, widths, activation):
    layers, w = unpack(parameters, widths)
    units = list(map(float, x))
    for weights, biases in layers:
        units = [
            ACTIVATIONS[activation](bias + math.fsum(u * weights[k][j] for k, u in enumerate(units)))
            for j, bias in enumerate(biases)
        ]
    return math.fsum(a * b for a, b in zip(units, w, strict=True))


def gradient(cost, parameters, step=1e-6):
    """Central differences of cost(parameters)."""
    result = []
    for j in range(len(parameters)):
        up, down = parameters.copy(), parameters.copy()
        up[j] += step
        down[j] -= step
        result.append((cost(up) - cost(down)) / (2 * step))
    return result
