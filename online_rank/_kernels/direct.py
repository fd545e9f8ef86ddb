"""The DirectRanker: a forward and a backward pass of a network for each query of a block, in one call."""

import math
from typing import NamedTuple

import numpy as np

from online_rank._kernels import workspace as at
from online_rank._kernels._jit import inner, kernel
from online_rank._kernels.arrays import all_finite
from online_rank._kernels.codes import OPTIMIZER_ROWS
from online_rank._kernels.fits import require, require_block
from online_rank._kernels.network import Layers, backward, forward, n_parameters, n_units, output, units
from online_rank._kernels.optimizers import descend
from online_rank._kernels.primitives import four_row_squares, sum_of_squares
from online_rank._kernels.rounds import write_round
from online_rank._kernels.surrogates import evaluate, settings
from online_rank._kernels.workspace import longest_query, workspace


class Learner(NamedTuple):
    """What learning changes in place.

    `parameters` is the flat vector of `network`, `state` (rows, n) what the optimizer keeps of it, and `average` the averaged
    parameters, (0,) if those that learn serve. `counters`, float64, are the effective number of averaged vectors, steps, and
    most grades of a query.
    """

    parameters: np.ndarray
    state: np.ndarray
    average: np.ndarray
    counters: np.ndarray


@inner
def _copy(X, documents):
    """Copy the documents of a query in the parameters' dtype: values too large for it become infinite, and are detected.

    Query by query, so that a block is never stored twice. Returns the largest squared norm of a document; NaN or infinite when
    a feature is.
    """
    largest = 0.0
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            documents[i, j] = X[i, j]
        square = sum_of_squares(documents[i])
        largest = square if not square <= largest else largest
    return largest


@inner
def _score(documents, parameters, layers, hidden, s):
    """Scores s (m,) of documents (m, d), with all units in `hidden`."""
    if documents.shape[0] > 0:
        forward(documents, parameters, layers, hidden)
    last = layers.widths.shape[0] - 1
    output(units(hidden, layers.widths, last, documents.shape[0]), parameters[: layers.widths[last]], s)


@inner
def _step(optimizer, rate, l2, decay, gradient, learner):
    """One step of the optimizer by the gradient, and one more vector in the average."""
    parameters, average, counters = learner.parameters, learner.average, learner.counters
    if l2 > 0.0:
        gradient += gradient.dtype.type(l2) * parameters
    counters[1] += 1.0
    descend(optimizer, rate, counters[1], gradient, parameters, learner.state)
    if average.shape[0] > 0:
        counters[0] = decay * counters[0] + 1.0
        # In the precision of the parameters, unlike `averages`: twice as many float32 fit into a register.
        share = average.dtype.type(1.0 / counters[0])
        for j in range(average.shape[0]):
            average[j] += (parameters[j] - average[j]) * share


@inner
def _square(gradient):
    """||gradient||^2, four quarters side by side: a single sum waits for each of its additions."""
    a, b, c, d = four_row_squares(gradient.reshape(4, gradient.shape[0] // 4), 0)
    return (a + b) + (c + d)


@kernel
def learn(X, y, offsets, weights, discounts, surrogate, widths, config, constants, learner, rounds):
    """Learn from a block of queries.

    Parameters
    ----------
    X, y, offsets : features (n, d), grades (n,), and where queries begin and end (q + 1,)
    weights : (q,) sample weights
    discounts : (>= largest m,) table of D(p)
    surrogate : (integers, floats), as `settings` takes them
    widths : (d, width of each layer)
    config : int64 array: optimizer, activation
    constants : float64 array: learning rate, l2, decay of the average, largest gradient
    learner : a `Learner`
    rounds : (q, 10) out, a `Round` a row

    Returns
    -------
    Number of queries learned. When it is smaller than q, the next query has bad values or too large a gradient, and nothing
    of it was learned.
    """
    require_block(X.shape[0], y, offsets, weights, discounts, rounds)
    parameters, counters = learner.parameters, learner.counters
    n = parameters.shape[0]
    require(widths[0] == X.shape[1] and n == n_parameters(widths) and learner.state.shape[1] == n)
    require(learner.state.shape[0] == OPTIMIZER_ROWS[config[0]] and learner.average.shape[0] in (0, n))
    require(counters.shape[0] == 3)
    optimizer, activation = config
    rate, l2, decay, limit = constants
    target, form = settings(surrogate[0], surrogate[1], discounts)
    longest = longest_query(offsets)
    work = workspace(longest)
    slopes = np.empty(longest)
    layers, size = Layers(widths, activation), longest * n_units(widths)
    hidden, errors = np.empty(size, dtype=parameters.dtype), np.empty(size, dtype=parameters.dtype)
    inputs = np.empty(longest * X.shape[1], dtype=parameters.dtype)
    gradient = np.empty_like(parameters)

    for q in range(weights.shape[0]):
        first, weight = offsets[q], weights[q]
        m = offsets[q + 1] - first
        documents = inputs[: m * X.shape[1]].reshape(m, X.shape[1])
        largest = _copy(X[first : first + m], documents)
        s, dg = work.reals[at.SCORES, :m], slopes[:m]
        if not (math.isfinite(largest) and weight >= 0.0 and math.isfinite(weight)):
            return q
        _score(documents, parameters, layers, hidden, s)
        if not all_finite(s):
            return q
        _, loss, v_max, levels = evaluate(target, form, s, y[first : first + m], False, work, dg)
        if levels < 0:
            return q
        square = 0.0
        if levels > 1 and weight > 0.0:
            for i in range(m):
                dg[i] *= weight
            backward(documents, dg, parameters, layers, hidden, errors, gradient)
            square = _square(gradient)
            # Below the limit no step can make parameters or state overflow: checked before anything changes.
            if not square <= limit * limit:
                return q
            counters[2] = max(counters[2], np.float64(levels))
            _step(optimizer, rate, l2, decay, gradient, learner)
        # No theorem covers a surrogate's update, so it has no mass and no margin.
        write_round(rounds[q], loss, 0.0, square, 0.0, weight, m, largest, v_max, levels < 2)
    return weights.shape[0]
