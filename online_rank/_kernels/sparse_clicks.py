"""Learning from clicks on sparse rows: the same as `clicks.learn`, in O(k x features of the drawn documents) for k of them.

The features of the documents drawn are numbered from 0, and their numbers are copied to short arrays, where `clicks.teach`
works as it does on all features.
"""

import math

import numpy as np

from online_rank._kernels._jit import inner, kernel, leaf
from online_rank._kernels.clicks import PLACES, add_to_baseline, are_gains, confidence_of, drawn_of, longest_list, teach
from online_rank._kernels.codes import ALL_PAIRS, OPTIMIZER_ROWS, SCALE_FREE
from online_rank._kernels.fits import require, require_drawn, require_rows
from online_rank._kernels.rounds import write_round
from online_rank._kernels.sparse import LAZY, OPTIMIZER, WEIGHT
from online_rank._kernels.sparse_gradient import number_features

# Initial weights are stored in the column of the lazy average, which rankers with bets do not have.
BEGINNING = LAZY
# Indices in the counters of the sum of theta^2 / G over the features with gradients, and of their number.
EVIDENCE, WITH_GRADIENTS = 4, 5


@leaf
def _entries(starts, columns, values, rows, offset, found_columns, found_values):
    """Copy the entries of some documents, one after the other. Returns their number."""
    n = 0
    for p in range(rows.shape[0]):
        i = offset + rows[p]
        for e in range(starts[i], starts[i + 1]):
            found_columns[n] = columns[e]
            found_values[n] = values[e]
            n += 1
    return n


@inner
def _most_entries(starts, offsets, shown):
    """The largest number of entries of the documents drawn of a query."""
    most = 0
    for q in range(offsets.shape[0] - 1):
        n = 0
        for p in range(shown.starts[q], shown.starts[q + 1]):
            i = offsets[q] + shown.rows[p]
            n += starts[i + 1] - starts[i]
        most = max(most, n)
    return most


@leaf
def _lay_out(starts, rows, offset, local, values, X):
    """X (k, n), the drawn documents with numbered features. Returns the largest and the sum of the squared norms."""
    X[:] = 0.0
    largest = 0.0
    norms = 0.0
    n = 0
    for p in range(rows.shape[0]):
        i = offset + rows[p]
        norm = 0.0
        for _ in range(starts[i], starts[i + 1]):
            X[p, local[n]] += values[n]
            norm += values[n] * values[n]
            n += 1
        norms += norm
        largest = max(largest, norm)
    return largest, norms


@leaf
def count_evidence(counters, theta, squares, new_theta, new_squares):
    """Replace a feature's old theta^2 / G in the sum by the new value."""
    if squares > 0.0:
        counters[EVIDENCE] -= theta / squares * theta
        counters[WITH_GRADIENTS] -= 1.0
    if new_squares > 0.0:
        counters[EVIDENCE] += new_theta / new_squares * new_theta
        counters[WITH_GRADIENTS] += 1.0
    # Rounding error of a sum of numbers >= 0.
    counters[EVIDENCE] = max(counters[EVIDENCE], 0.0)


@leaf
def _write_back(touched, bets, beginning, kept, rows_state, counters):
    """Write new weights and the optimizer's state to the state, and the change of the evidence to the counters."""
    for k in range(touched.shape[0]):
        row = rows_state[touched[k]]
        count_evidence(counters, row[OPTIMIZER], row[OPTIMIZER + 1], kept[0, k], kept[1, k])
        row[WEIGHT] = beginning[k] + bets[k]
        for r in range(kept.shape[0]):
            row[OPTIMIZER + r] = kept[r, k]


@kernel
def confidence(counters):
    """`clicks.confidence` from the counters."""
    require(counters.shape[0] > WITH_GRADIENTS)
    return confidence_of(counters[EVIDENCE], counters[WITH_GRADIENTS])


@kernel
def learn(starts, columns, values, offsets, shown, weights, wealth, state, baseline, counters, rounds):
    """Learn from the clicks of a block of queries.

    Parameters
    ----------
    starts, columns, values : the documents as `online_rank.query.SparseRows`, no column twice in a row
    state : (at least d, 4 and what the scale-free optimizer keeps) of `sparse`, changed in place
    counters : (6,) with EVIDENCE and WITH_GRADIENTS, changed in place
    offsets, shown, weights, wealth, baseline, rounds : as for `clicks.learn`

    Returns
    -------
    As `clicks.learn`.
    """
    require_rows(starts, columns, values, state.shape[0])
    require_drawn(starts.shape[0] - 1, offsets, shown, weights, rounds)
    require(baseline.shape == (2, PLACES, PLACES))
    require(state.shape[1] == OPTIMIZER + OPTIMIZER_ROWS[SCALE_FREE] and counters.shape[0] > WITH_GRADIENTS)
    longest, most = longest_list(shown.starts), _most_entries(starts, offsets, shown)
    found, numbers, features = np.empty(most, np.int32), np.empty(most, np.int64), np.empty(most, np.int64)
    x = np.empty(most)
    n_kept = state.shape[1] - OPTIMIZER
    reals = np.empty((3, longest))
    met = np.zeros(baseline.shape)
    for q in range(weights.shape[0]):
        drawn, weight = drawn_of(shown, q), weights[q]
        k, m = drawn.rows.shape[0], offsets[q + 1] - offsets[q]
        n_entries = _entries(starts, columns, values, drawn.rows, offsets[q], found, x)
        n = number_features(found[:n_entries], state, features, numbers)
        touched = features[:n]
        X = np.empty((k, n))
        largest, norms = _lay_out(starts, drawn.rows, offsets[q], numbers, x, X)
        if not (math.isfinite(norms) and weight >= 0.0 and math.isfinite(weight) and are_gains(drawn.kind, drawn.gains)):
            return q
        if n == 0:
            write_round(rounds[q], 0.0, 0.0, 0.0, 0.0, weight, m, largest, 0.0, True)
            continue
        beginning, kept = np.empty(n), np.empty((n_kept, n))
        for f in range(n):
            beginning[f] = state[touched[f], BEGINNING]
            for r in range(n_kept):
                kept[r, f] = state[touched[f], OPTIMIZER + r]
        bets = np.zeros(n)
        fine, learned, total, wrong, square = teach(
            X, drawn, weight, wealth, beginning, baseline, bets, kept, met, np.empty(n), np.empty((2, n)), reals
        )
        if not fine:
            return q
        if learned:
            _write_back(touched, bets, beginning, kept, state, counters)
        if drawn.kind != ALL_PAIRS:
            add_to_baseline(drawn, baseline, met, weight)
        loss = wrong / total if total > 0.0 else 0.0
        write_round(rounds[q], loss, 0.0, square, 0.0, weight, m, largest, 0.0, not total > 0.0)
    return weights.shape[0]
