"""Averages of the weights that learn: kept up to date, or lazy.

With a_n = decay a_(n-1) + 1 the effective number of averaged vectors, average_n = average_(n-1) + (w_n - average_(n-1)) / a_n.
A round costs O(d). The lazy form costs O(features that the update touches): with w_n the sum of the updates d_s, s <= n, and k
the decay,

    k = 1:  u = sum of (s - 1) d_s,   average = w - u / n;
    k < 1:  u = sum of k^(r - s) d_s, average = (w - k^(n - r + 1) u) / (1 - k^n),  1 - k^n = (1 - k) a_n,

r a round that is moved to n before k^(r - n) overflows.
"""

from online_rank._kernels._jit import kernel, leaf
from online_rank._kernels.codes import AVERAGED, SINCE_REFERENCE
from online_rank._kernels.vector_math import power

# Largest k^(r - n).
_LARGEST_POWER = 2.0**400


@leaf
def add_to_average(average, weights, decay, counters):
    """Add the current weights to their average; nothing without one, an array (0,)."""
    if average.shape[0] > 0:
        counters[AVERAGED] = decay * counters[AVERAGED] + 1.0
        for j in range(average.shape[0]):
            average[j] += (weights[j] - average[j]) / counters[AVERAGED]


@leaf
def lag_of(decay, counters):
    """The factor of the next round's update in u."""
    if decay == 1.0:
        return counters[AVERAGED]
    return 1.0 / power(decay, counters[SINCE_REFERENCE] + 1.0)


@leaf
def count_lazily(state, column, decay, counters):
    """Count a round in the lazy average whose u is a column of the state."""
    counters[AVERAGED] = decay * counters[AVERAGED] + 1.0
    if decay < 1.0:
        counters[SINCE_REFERENCE] += 1.0
        if lag_of(decay, counters) > _LARGEST_POWER:
            factor = power(decay, counters[SINCE_REFERENCE])
            for j in range(state.shape[0]):
                state[j, column] *= factor
            counters[SINCE_REFERENCE] = 0.0


@kernel
def scale_and_shift(decay, averages, counters):
    """The served weights are scale (w - shift u): the average, or w without one."""
    if not averages or counters[AVERAGED] == 0.0:
        return 1.0, 0.0
    if decay == 1.0:
        return 1.0, 1.0 / counters[AVERAGED]
    return 1.0 / ((1.0 - decay) * counters[AVERAGED]), power(decay, counters[SINCE_REFERENCE] + 1.0)
