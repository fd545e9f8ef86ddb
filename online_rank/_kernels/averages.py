"""Averages of the weights that learn."""

from online_rank._kernels._jit import inner


@inner
def add_to_average(average, weights, decay, counters):
    """Add the current weights to their average; nothing when there is none, an array (0,).

    `counters[0]` is the effective number of weight vectors averaged so far, which an earlier query's counts `decay` times as
    much as the next one's. Computed in the precision of the weights.
    """
    if average.shape[0] > 0:
        counters[0] = decay * counters[0] + 1.0
        for j in range(average.shape[0]):
            average[j] += (weights[j] - average[j]) / counters[0]
