"""A block of queries that a perceptron learns under a tracker: comparators and the loss of what was served, query by query."""

import numpy as np

from online_rank._kernels._jit import kernel
from online_rank._kernels.arrays import copy_to
from online_rank._kernels.codes import AVERAGED
from online_rank._kernels.comparators import compare
from online_rank._kernels.dense import score, score_with_norms
from online_rank._kernels.graded import ranking_losses
from online_rank._kernels.perceptron import learn_any_form
from online_rank._kernels.workspace import longest_query


@kernel
def learn_tracked(
    X, y, offsets, weights, discounts, config, w, average, counters, rounds, served, by_average, comparators, values, asked
):  # fmt: skip
    """Learn from a block of queries as `perceptron.learn_any_form`, and measure each by the weights before its update.

    Parameters
    ----------
    X, y, offsets, weights, discounts, config, w, average, counters, rounds, served : as for `perceptron.learn_any_form`
    by_average : whether the average's mistakes are learned from
    comparators : (n, d) their weights
    values : (q, n, 2) out: the losses of the comparators (`comparators.compare`)
    asked : whether the loss of what the ranker would have answered goes into `rounds`

    Returns
    -------
    Number of queries learned, as `perceptron.learn_any_form`.
    """
    longest = longest_query(offsets)
    n = comparators.shape[0]
    decisive, answers, scores = np.empty(longest), np.empty(longest), np.empty((n, longest))
    single, loss = np.zeros(2, dtype=np.int64), np.empty(1)
    for q in range(weights.shape[0]):
        first, last = offsets[q], offsets[q + 1]
        m = last - first
        documents, grades, s = X[first:last], y[first:last], decisive[:m]
        single[1] = m
        averaged = average.shape[0] > 0 and counters[AVERAGED] > 0.0
        if n > 0:
            if served is not None:
                copy_to(s, served[first:last])
            elif by_average and averaged:
                score(documents, average, s)
            else:
                score_with_norms(documents, w, s)
        if asked:
            score(documents, average if averaged else w, answers[:m])
        given = None if served is None else served[first:last]
        alone, row = weights[q : q + 1], rounds[q]
        learned = learn_any_form(
            documents, grades, single, alone, discounts, config, w, average, counters, rounds[q : q + 1], given, True
        )
        if learned == 0:
            return q
        if asked:
            ranking_losses(int(config[0]), int(config[1]), int(config[2]), answers[:m], grades, single, discounts, loss)
            row[1] = loss[0]
        if n > 0 and (row[0] > 0.0 or row[2] > 0.0):
            for c in range(n):
                score(documents, comparators[c], scores[c, :m])
            compare(grades, s, row[5], row[4], scores[:, :m], discounts, config, counters, values[q])
    return weights.shape[0]
