"""A feed-forward network g(x) = w · f(x), f of fully connected layers, over one flat parameter vector.

`widths` is (d, width of layer 1, ..., width of layer L). The vector holds w, then from the last layer to the first its biases
and its weights (width below, width): the rows of new features come at the end. Widths of layers are multiples of `LANES`, so
that loops over units have no remainder; padding units have zero weights, which gradients never change.
"""

from typing import NamedTuple

import numpy as np

from online_rank._kernels._jit import inlined, inner, kernel
from online_rank._kernels.codes import TANH
from online_rank._kernels.fits import require
from online_rank._kernels.primitives import row_dot
from online_rank._kernels.vector_math import tanh32, tanh64

LANES = 8
# Number of documents scored at a time.
_CHUNK = 64


@inlined
def layer(parameters, widths, number):
    """Weights (width below, width) and biases (width,) of layer `number`, counted from 1: views."""
    last = widths.shape[0] - 1
    position = widths[last]
    for above in range(last, number, -1):
        position += widths[above] * (1 + widths[above - 1])
    width = widths[number]
    below = widths[number - 1]
    biases = parameters[position : position + width]
    weights = parameters[position + width : position + width + below * width]
    return weights.reshape((below, width)), biases


@inner
def n_parameters(widths):
    """Length of the vector of all parameters."""
    total = widths[widths.shape[0] - 1]
    for number in range(1, widths.shape[0]):
        total += widths[number] * (1 + widths[number - 1])
    return total


@inlined
def units(buffer, widths, number, m):
    """The part (m, width) of a flat buffer that belongs to layer `number`."""
    position = 0
    for below in range(1, number):
        position += m * widths[below]
    return buffer[position : position + m * widths[number]].reshape((m, widths[number]))


@inlined
def n_units(widths):
    """Units of all layers together."""
    total = 0
    for number in range(1, widths.shape[0]):
        total += widths[number]
    return total


@inner
def _activate(H, biases, activation):
    """H <- activation(H + biases), in place. NaN stays NaN."""
    m, width = H.shape
    if activation == TANH:
        if H.itemsize == 4:
            for i in range(m):
                for j in range(width):
                    H[i, j] = tanh32(np.float32(H[i, j] + biases[j]))
        else:
            for i in range(m):
                for j in range(width):
                    H[i, j] = tanh64(np.float64(H[i, j] + biases[j]))
    else:
        zero = H.dtype.type(0.0)
        for i in range(m):
            for j in range(width):
                z = H[i, j] + biases[j]
                H[i, j] = zero if z < zero else z


@inner
def _chain(D, H, activation):
    """D <- D times the derivative of the activation whose value is H."""
    m, width = H.shape
    one = H.dtype.type(1.0)
    zero = H.dtype.type(0.0)
    if activation == TANH:
        for i in range(m):
            for j in range(width):
                D[i, j] *= one - H[i, j] * H[i, j]
    else:
        for i in range(m):
            for j in range(width):
                D[i, j] = D[i, j] if H[i, j] > zero else zero


class Layers(NamedTuple):
    """A network: widths (d, width of each layer), and activation."""

    widths: np.ndarray
    activation: int


@inner
def forward(X, parameters, layers, hidden):
    """Values of all units for the documents of a query (m, d), of the parameters' dtype, through BLAS; `hidden` is flat."""
    m = X.shape[0]
    below = X
    for number in range(1, layers.widths.shape[0]):
        weights, biases = layer(parameters, layers.widths, number)
        H = units(hidden, layers.widths, number, m)
        np.dot(below, weights, H)
        _activate(H, biases, layers.activation)
        below = H


@inner
def output(last, w, g):
    """g = last · w of documents (m, width), in float64."""
    for i in range(last.shape[0]):
        g[i] = row_dot(last, i, w)


@inner
def _output_backward(dg, w, H, D, gradient):
    """Gradient in w, sum of dg_i H_i; and D_i = dg_i w."""
    gradient[:] = 0
    for i in range(H.shape[0]):
        d = H.dtype.type(dg[i])
        for j in range(H.shape[1]):
            gradient[j] += d * H[i, j]
            D[i, j] = d * w[j]


@inner
def _sum_rows(D, out):
    """out = sum of the rows of D."""
    out[:] = 0
    for i in range(D.shape[0]):
        for j in range(D.shape[1]):
            out[j] += D[i, j]


@inner
def backward(X, dg, parameters, layers, hidden, errors, gradient):
    """Gradient in all parameters, from `dg` (m,), the gradient in the outputs g, and the units computed by `forward`.

    `errors` is workspace, as flat as `hidden`; `gradient` is out, a flat vector like the parameters.
    """
    m = X.shape[0]
    widths = layers.widths
    last = widths.shape[0] - 1
    D, w = units(errors, widths, last, m), parameters[: widths[last]]
    _output_backward(dg, w, units(hidden, widths, last, m), D, gradient[: widths[last]])
    for number in range(last, 0, -1):
        D = units(errors, widths, number, m)
        _chain(D, units(hidden, widths, number, m), layers.activation)
        weights_gradient, biases_gradient = layer(gradient, widths, number)
        _sum_rows(D, biases_gradient)
        if number == 1:
            np.dot(X.T, D, weights_gradient)
        else:
            np.dot(units(hidden, widths, number - 1, m).T, D, weights_gradient)
            np.dot(D, layer(parameters, widths, number)[0].T, units(errors, widths, number - 1, m))


@inner
def _rows_times(X, W, H):
    """H = X W; X of any float dtype.

    Each row is summed in the same way, for any other rows, which BLAS does not guarantee: so a score depends on its
    document alone, to the last bit. Four rows and four terms at a time; a missing row is replaced by the last one.
    """
    m, d = X.shape
    kind = H.dtype.type
    whole = d - d % 4
    zero = kind(0.0)
    for i in range(0, m, 4):
        i1 = min(i + 1, m - 1)
        i2 = min(i + 2, m - 1)
        i3 = min(i + 3, m - 1)
        for j in range(W.shape[1]):
            H[i, j], H[i1, j], H[i2, j], H[i3, j] = zero, zero, zero, zero
        for k in range(0, whole, 4):
            a0, a1, a2, a3 = kind(X[i, k]), kind(X[i, k + 1]), kind(X[i, k + 2]), kind(X[i, k + 3])
            b0, b1, b2, b3 = kind(X[i1, k]), kind(X[i1, k + 1]), kind(X[i1, k + 2]), kind(X[i1, k + 3])
            c0, c1, c2, c3 = kind(X[i2, k]), kind(X[i2, k + 1]), kind(X[i2, k + 2]), kind(X[i2, k + 3])
            d0, d1, d2, d3 = kind(X[i3, k]), kind(X[i3, k + 1]), kind(X[i3, k + 2]), kind(X[i3, k + 3])
            for j in range(W.shape[1]):
                w0, w1, w2, w3 = W[k, j], W[k + 1, j], W[k + 2, j], W[k + 3, j]
                a = H[i, j] + a0 * w0 + a1 * w1 + a2 * w2 + a3 * w3
                b = H[i1, j] + b0 * w0 + b1 * w1 + b2 * w2 + b3 * w3
                c = H[i2, j] + c0 * w0 + c1 * w1 + c2 * w2 + c3 * w3
                e = H[i3, j] + d0 * w0 + d1 * w1 + d2 * w2 + d3 * w3
                H[i, j], H[i1, j], H[i2, j], H[i3, j] = a, b, c, e
        for k in range(whole, d):
            x0, x1, x2, x3 = kind(X[i, k]), kind(X[i1, k]), kind(X[i2, k]), kind(X[i3, k])
            for j in range(W.shape[1]):
                a = H[i, j] + x0 * W[k, j]
                b = H[i1, j] + x1 * W[k, j]
                c = H[i2, j] + x2 * W[k, j]
                e = H[i3, j] + x3 * W[k, j]
                H[i, j], H[i1, j], H[i2, j], H[i3, j] = a, b, c, e


@inner
def _not_a_number(x):
    """0 for a finite document, NaN for one with a NaN or infinite feature: a tanh would hide it."""
    bad = 0
    for j in range(x.shape[0]):
        bad |= x[j] * 0 != 0
    return np.nan if bad else 0.0


@kernel
def score(X, parameters, widths, activation, out):
    """g of documents (n, d) of any float dtype, to `out` (n,) float64; not finite for a document that is not."""
    require(widths[0] == X.shape[1] and parameters.shape[0] == n_parameters(widths) and out.shape[0] >= X.shape[0])
    buffer = np.empty(_CHUNK * n_units(widths), dtype=parameters.dtype)
    last = widths.shape[0] - 1
    for first in range(0, X.shape[0], _CHUNK):
        part = X[first : first + _CHUNK]
        m = part.shape[0]
        for number in range(1, last + 1):
            weights, biases = layer(parameters, widths, number)
            H = units(buffer, widths, number, m)
            if number == 1:
                _rows_times(part, weights, H)
            else:
                _rows_times(units(buffer, widths, number - 1, m), weights, H)
            _activate(H, biases, activation)
        output(units(buffer, widths, last, m), parameters[: widths[last]], out[first : first + m])
        for i in range(m):
            out[first + i] += _not_a_number(part[i])
