"""The verbs of `features` for a matrix of features: an array (n, d), with weights (d,)."""

import math
from typing import NamedTuple

import numpy as np

from online_rank._kernels import primitives
from online_rank._kernels._jit import inner, kernel, leaf
from online_rank._kernels.arrays import copy_to
from online_rank._kernels.averages import add_to_average
from online_rank._kernels.codes import AVERAGED
from online_rank._kernels.fits import require
from online_rank._kernels.optimizers import meet_features


class Learner(NamedTuple):
    """What learns: weights (d,), their average (d,) or (0,), and what an optimizer keeps of them, (rows, d) or None.

    The rest is workspace (d,): an update, a second one, and new weights; and a new state.
    """

    w: np.ndarray
    average: np.ndarray
    state: np.ndarray | None
    z: np.ndarray
    other: np.ndarray
    new: np.ndarray
    new_state: np.ndarray | None


class Taken(NamedTuple):
    """The documents of one query, and copies of the numbers that belong to their features."""

    documents: np.ndarray
    w: np.ndarray
    weights: np.ndarray
    state: np.ndarray
    z: np.ndarray


@leaf
def n_documents(X):
    """See `features`."""
    return X.shape[0]


@inner
def query_of(X, first, m):
    """See `features`."""
    return X[first : first + m]


@inner
def learner_of(X, w, average, state, n_kept, offsets):
    """See `features`."""
    d = w.shape[0]
    require(X.shape[1] == d and average.shape[0] in (0, d))
    room, new_state = np.empty((3, d)), state
    if state is not None:
        require(state.shape[0] == n_kept and state.shape[1] == d)
        new_state = np.empty((n_kept, d))
    return Learner(w, average, state, room[0], room[1], room[2], new_state)


@kernel
def score(X, w, s):
    """Scores s = X w of documents (n, d) by weights (d,), accumulated in float64."""
    require(X.shape[1] == w.shape[0] and X.shape[0] <= s.shape[0])
    n = X.shape[0]
    for i in range(0, n - 3, 4):
        s[i], s[i + 1], s[i + 2], s[i + 3] = primitives.four_row_dots(X, i, w)
    for i in range(n - n % 4, n):
        s[i] = primitives.row_dot(X, i, w)


@kernel
def score_with_norms(X, w, s):
    """Scores s = X w of documents (m, d). Returns the largest and the sum of the documents' squared norms."""
    require(X.shape[1] == w.shape[0] and X.shape[0] <= s.shape[0])
    m = X.shape[0]
    largest = 0.0
    norms = 0.0
    # Of float32 four rows at a time, because each addition waits for the one before it; of float64 row by row, in the order of
    # memory, for which it waits longer.
    whole = m - m % 4 if X.itemsize < 8 else 0
    for i in range(0, whole, 4):
        s[i], s[i + 1], s[i + 2], s[i + 3], one, two, three, four = primitives.four_row_dots_and_squares(X, i, w)
        norms = norms + one + two + three + four
        largest = max(max(max(max(largest, one), two), three), four)
    for i in range(whole, m):
        s[i], norm = primitives.row_dot_and_square(X, i, w)
        norms += norm
        largest = max(largest, norm)
    return largest, norms


@leaf
def score_served(documents, learner, decay, counters, s):
    """See `features`."""
    if counters[AVERAGED] > 0.0 and learner.average.shape[0] > 0:
        score(documents, learner.average, s)


@leaf
def combine(documents, learner, c, other, rows):
    """See `features`."""
    square = _combine_rows(documents, c, rows, learner.z)
    other_square = 0.0 if other is None else _combine_rows(documents, other, rows, learner.other)
    return documents.shape[1], square, other_square


@leaf
def mix(learner, n, share):
    """See `features`."""
    z, other = learner.z, learner.other
    for j in range(z.shape[0]):
        z[j] = share * z[j] + (1.0 - share) * other[j]
    return primitives.sum_of_squares(z)


@leaf
def add(learner, n, step, square, decay, counters):
    """See `features`."""
    w, z, new = learner.w, learner.z, learner.new
    for j in range(w.shape[0]):
        new[j] = w[j] + step * z[j]
    if not math.isfinite(primitives.sum_of_squares(new)):
        return False
    copy_to(w, new)
    return True


@leaf
def add_with_squares(learner, n, decay, counters):
    """See `features`."""
    if not add(learner, n, 1.0, 0.0, decay, counters):
        return False
    for j in range(n):
        learner.state[0, j] += learner.z[j] * learner.z[j]
    return True


@leaf
def count_average(learner, decay, counters):
    """See `features`."""
    add_to_average(learner.average, learner.w, decay, counters)


@leaf
def shorten(learner, longest):
    """See `features`."""
    w = learner.w
    norm = math.sqrt(primitives.sum_of_squares(w))
    if norm > longest:
        for j in range(w.shape[0]):
            w[j] *= longest / norm


@leaf
def _combine_rows(X, c, rows, z):
    """z = sum of c_i x_i over documents (m, d); rows without credit are not touched. Returns ||z||^2.

    `rows` (m,) is workspace.
    """
    d = X.shape[1]
    n = 0
    for i in range(c.shape[0]):
        rows[n] = i
        n += c[i] != 0.0
    z[:] = 0.0
    # Four rows at a time, so that z is read and written a quarter as often.
    for r in range(0, n - 3, 4):
        i0, i1, i2, i3 = rows[r], rows[r + 1], rows[r + 2], rows[r + 3]
        c0, c1, c2, c3 = c[i0], c[i1], c[i2], c[i3]
        for j in range(d):
            z[j] += c0 * X[i0, j] + c1 * X[i1, j] + (c2 * X[i2, j] + c3 * X[i3, j])
    for r in range(n - n % 4, n):
        for j in range(d):
            z[j] += c[rows[r]] * X[rows[r], j]
    return primitives.sum_of_squares(z)


@inner
def take(learner, X, first, m):
    """See `features`."""
    copy_to(learner.new, learner.w)
    copy_to(learner.new_state.ravel(), learner.state.ravel())
    return Taken(X[first : first + m], learner.new, learner.new, learner.new_state, learner.z)


@inner
def take_drawn(learner, X, rows, first, beginning):
    """See `features`."""
    documents, largest, norms = np.empty((rows.shape[0], X.shape[1])), 0.0, 0.0
    for p in range(rows.shape[0]):
        for j in range(X.shape[1]):
            documents[p, j] = X[first + rows[p], j]
        norm = primitives.sum_of_squares(documents[p])
        norms += norm
        largest = max(largest, norm)
    learner.new[:] = 0.0
    copy_to(learner.new_state.ravel(), learner.state.ravel())
    return Taken(documents, learner.new, learner.new, learner.new_state, learner.z), beginning, largest, norms


@leaf
def count_evidence(learner, taken, counters):
    """See `features`: `clicks.evidence` computes it from the state."""


@leaf
def meet(learner, taken):
    """See `features`."""
    if taken.documents.shape[0] > 0:
        meet_features(taken.documents, taken.z, learner.other, taken.w, taken.state)


@leaf
def combine_differences(learner, taken, c):
    """See `features`: the sum of c_i (x_i - x_0)."""
    X, z = taken.documents, taken.z
    z[:] = 0.0
    n = c.shape[0]
    # Four rows at a time, so that z is read and written a quarter as often.
    for i in range(1, n - 3, 4):
        c0, c1, c2, c3 = c[i], c[i + 1], c[i + 2], c[i + 3]
        for j in range(X.shape[1]):
            x = np.float64(X[0, j])
            z[j] += c0 * (X[i, j] - x) + c1 * (X[i + 1, j] - x) + (c2 * (X[i + 2, j] - x) + c3 * (X[i + 3, j] - x))
    for i in range(max(1, n - (n - 1) % 4), n):
        for j in range(X.shape[1]):
            z[j] += c[i] * (np.float64(X[i, j]) - np.float64(X[0, j]))
    return primitives.sum_of_squares(z)


@inner
def keep(learner, taken, decay, counters):
    """See `features`."""
    copy_to(learner.w, taken.w)
    copy_to(learner.state.ravel(), taken.state.ravel())
    add_to_average(learner.average, learner.w, decay, counters)
