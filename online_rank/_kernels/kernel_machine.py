"""The kernel perceptron for ranking with a budget (Projectron): a block of queries in one call.

The function that scores is f = sum of alpha_b k(z_b, .) over the stored documents z_b. `factor` is the Cholesky factor L of
their Gram matrix. It grows by a row with each stored document; L^-1 times a column of kernel values is a projection.
"""

import math
from typing import NamedTuple

import numpy as np

from online_rank._kernels import workspace as at
from online_rank._kernels._jit import inner, kernel, leaf
from online_rank._kernels.arrays import all_finite, copy_to
from online_rank._kernels.averages import add_to_average
from online_rank._kernels.codes import RBF
from online_rank._kernels.fits import require, require_block
from online_rank._kernels.graded import Target, grade_query
from online_rank._kernels.perceptron import judge
from online_rank._kernels.primitives import dot, squared_distance
from online_rank._kernels.rounds import write_round
from online_rank._kernels.spread_credit import list_preferred, spread_credit
from online_rank._kernels.vector_math import exp_negative
from online_rank._kernels.workspace import longest_query, workspace

# A document is stored only if its squared distance from the span of the stored ones is at least this part of its squared norm.
_LEAST_PIVOT = 1e-8

# Indices of `counters`.
AVERAGED, SQUARES, MASSES, STORED, ERROR, WORST_ERROR = range(6)


class Form(NamedTuple):
    """A kernel k(x, z): its kind and constants."""

    kind: int
    degree: int
    gamma: float
    coef0: float


class Learner(NamedTuple):
    """What learning changes in place.

    `alpha` and `average` (budget,) are the coefficients that learn and their average, which is (0,) if the coefficients that
    learn serve; `stored` (budget, d) and `factor` (budget, budget) are as in `Basis`. `counters` (6,) are the effective number
    of averaged coefficients, the sums of ||z||^2 and of V, the number of stored documents, the sum of the projection errors
    ||e||, and the largest ||e|| / V.
    """

    alpha: np.ndarray
    average: np.ndarray
    stored: np.ndarray
    factor: np.ndarray
    counters: np.ndarray


class Basis(NamedTuple):
    """The kernel, the documents stored (budget, d), and the Cholesky factor (budget, budget) of their Gram matrix."""

    form: Form
    stored: np.ndarray
    factor: np.ndarray


@leaf
def _between(form, x, z):
    """k(x, z) of two documents (d,)."""
    if form.kind == RBF:
        return exp_negative(-form.gamma * squared_distance(x, z))
    base = form.gamma * dot(x, z) + form.coef0
    power = base
    for _ in range(form.degree - 1):
        power *= base
    return power


@leaf
def _score_documents(form, X, stored, alpha, K, s):
    """Scores (m,) of documents, NaN where a feature is not finite, with K (m, n). Returns the largest k(x, x)."""
    n = alpha.shape[0]
    largest = 0.0
    for i in range(X.shape[0]):
        for b in range(n):
            K[i, b] = _between(form, X[i], stored[b])
        norm = _between(form, X[i], X[i]) if math.isfinite(dot(X[i], X[i])) else np.nan
        s[i] = dot(K[i, :n], alpha) if math.isfinite(norm) else np.nan
        largest = max(largest, norm)
    return largest


@kernel
def score(X, stored, alpha, kind, degree, constants, s):
    """Scores f(x) of documents (n, d) by stored documents and their coefficients; NaN where a feature is not finite."""
    require(X.shape[1] == stored.shape[1] and alpha.shape[0] <= stored.shape[0] and X.shape[0] <= s.shape[0])
    form = Form(kind, degree, constants[0], constants[1])
    row = np.empty((1, alpha.shape[0]))
    for i in range(X.shape[0]):
        _score_documents(form, X[i : i + 1], stored, alpha, row, s[i : i + 1])


@leaf
def _forward(factor, n, h):
    """h <- L^-1 h for the first n rows."""
    for b in range(n):
        h[b] = (h[b] - dot(factor[b, :b], h[:b])) / factor[b, b]


@leaf
def _backward(factor, n, t):
    """t <- L^-T t for the first n rows."""
    for b in range(n - 1, -1, -1):
        t[b] /= factor[b, b]
        for a in range(b):
            t[a] -= t[b] * factor[b, a]


@inner
def _coordinates(basis, X, rows, K, n, T, rest, own):
    """Coordinates T (r, n) of the documents X[rows] in the basis, and the Gram matrix `rest` (r, r) of the remainders.

    K : (m, budget) kernel values with the first n stored documents; own : (r,) out, k(x, x)
    """
    for p in range(rows.shape[0]):
        T[p, :n] = K[rows[p], :n]
        _forward(basis.factor, n, T[p])
        for q in range(p + 1):
            value = _between(basis.form, X[rows[p]], X[rows[q]])
            if p == q:
                own[p] = value
            rest[p, q] = value - dot(T[p, :n], T[q, :n])
            rest[q, p] = rest[p, q]


@inner
def _pivot(rest, own, c, left):
    """The document that shortens the rest of the update most, or -1, and the squared length of that rest.

    c : (r,) coefficients; left : (r,) out, the rest's inner products with the documents
    """
    square = 0.0
    for p in range(c.shape[0]):
        left[p] = 0.0
        for q in range(c.shape[0]):
            left[p] += rest[p, q] * c[q]
        square += c[p] * left[p]
    best, gained = -1, 0.0
    for p in range(c.shape[0]):
        if rest[p, p] > _LEAST_PIVOT * own[p] and left[p] * left[p] / rest[p, p] > gained:
            best, gained = p, left[p] * left[p] / rest[p, p]
    return best, square


@inner
def _store(basis, X, c, K, n, enough, t):
    """Store documents of an update sum of c_i k(x_i, .) until its distance from the span of the stored ones is at most
    `enough`.

    A Cholesky factorisation pivoted by the update: the next document stored is the one that shortens the rest most.

    Parameters
    ----------
    X, c : documents (m, d) and their coefficients
    K : (m, budget) kernel values with the first n stored documents
    t : (budget,) coordinates of the update in the orthonormal basis of the stored documents, extended

    Returns
    -------
    Number of stored documents.
    """
    rows = np.flatnonzero(c)
    r, budget = rows.shape[0], t.shape[0]
    T, rest = np.zeros((r, budget)), np.empty((r, r))
    own, left = np.empty(r), np.empty(r)
    _coordinates(basis, X, rows, K, n, T, rest, own)
    while n < budget:
        best, square = _pivot(rest, own, c[rows], left)
        if square <= enough * enough or best < 0:
            break
        pivot = math.sqrt(rest[best, best])
        basis.stored[n] = X[rows[best]]
        basis.factor[n, :n] = T[best, :n]
        basis.factor[n, n] = pivot
        t[n] = left[best] / pivot
        for p in range(r):
            T[p, n] = rest[p, best] / pivot
        for p in range(r):
            for q in range(r):
                rest[p, q] -= T[p, n] * T[q, n]
        n += 1
    return n


@leaf
def _square(form, X, c):
    """||sum of c_i k(x_i, .)||^2."""
    total = 0.0
    for i in range(c.shape[0]):
        if c[i] != 0.0:
            total += c[i] * c[i] * _between(form, X[i], X[i])
            for j in range(i):
                if c[j] != 0.0:
                    total += 2.0 * c[i] * c[j] * _between(form, X[i], X[j])
    return max(total, 0.0)


@inner
def _project(basis, X, c, K, n, enough, t):
    """Write an update as coefficients t (budget,) of stored documents, of which there are more if it is farther than `enough`.

    Returns the number of stored documents, the squared norms of the update and of its projection, and their distance; the
    first of the squares, or the distance, is not finite where the update cannot be made.
    """
    whole = _square(basis.form, X, c)
    t[:] = 0.0
    for i in range(X.shape[0]):
        if c[i] != 0.0:
            for b in range(n):
                t[b] += c[i] * K[i, b]
    _forward(basis.factor, n, t)
    error = math.sqrt(max(whole - dot(t, t), 0.0))
    if error > enough and n < t.shape[0] and math.isfinite(whole):
        n = _store(basis, X, c, K, n, enough, t)
    square = dot(t[:n], t[:n])
    _backward(basis.factor, n, t)
    return n, whole, square, math.sqrt(max(whole - square, 0.0))


@kernel
def learn(X, y, offsets, weights, discounts, config, constants, learner, rounds):
    """Learn from a block of queries.

    Parameters
    ----------
    X, y, offsets : features (n, d), grades (n,), and where queries begin and end (q + 1,)
    weights : (q,) sample weights
    discounts : (>= largest m,) table of D(p)
    config : int64 array: measure kind, cutoff, threshold, kernel, degree
    constants : float64 array: gamma, coef0, tolerance eta, relative margin beta, factor by which the average forgets
    learner : a `Learner`
    rounds : (q, 10) out, a `Round` a row

    Returns
    -------
    Number of queries learned. When it is smaller than q, the next query has bad values or would make the state non-finite, and
    nothing of it was learned.
    """
    require_block(X.shape[0], y, offsets, weights, discounts, rounds)
    alpha, average, stored, factor, counters = learner
    require(X.shape[1] == stored.shape[1] and alpha.shape[0] == stored.shape[0] == factor.shape[0] == factor.shape[1])
    require(average.shape[0] in (0, alpha.shape[0]) and counters.shape[0] == 6 and 0.0 <= counters[STORED] <= alpha.shape[0])
    kind, cutoff, threshold, shape, degree = config
    gamma, coef0, tolerance, beta, keep = constants
    basis = Basis(Form(shape, degree, gamma, coef0), stored, factor)
    target = Target(kind, cutoff, threshold, discounts)
    longest = longest_query(offsets)
    work = workspace(longest)
    K = np.empty((longest, alpha.shape[0]))
    t, new = np.empty(alpha.shape[0]), np.empty(alpha.shape[0])

    for q in range(weights.shape[0]):
        first, weight = offsets[q], weights[q]
        m = offsets[q + 1] - first
        documents = X[first : first + m]
        s, v, c = work.reals[at.SCORES, :m], work.reals[at.WEIGHTS, :m], work.reals[at.CREDIT, :m]
        n = int(counters[STORED])
        largest = _score_documents(basis.form, documents, stored, alpha[:n], K, s)
        graded = grade_query(target, y[first : first + m], work)
        if not (graded.levels >= 0 and all_finite(s) and weight >= 0.0 and math.isfinite(weight)):
            return q
        if graded.levels < 2:
            write_round(rounds[q], 0.0, 0.0, 0.0, 0.0, weight, m, largest, 0.0, True)
            continue
        loss, v_max = judge(target, graded, s, v, work)
        offset = beta * counters[SQUARES] / counters[MASSES] if counters[MASSES] > 0.0 else 0.0
        mass, square = weight * loss, 0.0
        if mass > 0.0:
            preferred = work.integers[at.PREFERRED, : list_preferred(graded.level, v, work.integers[at.PREFERRED])]
            c[:] = 0.0
            scale = mass / spread_credit(graded, v, s, offset, preferred, work, c)
            for i in range(m):
                c[i] *= scale
            before = n
            n, whole, square, error = _project(basis, documents, c, K, before, tolerance * mass, t)
            for b in range(alpha.shape[0]):
                new[b] = alpha[b] + t[b]
            if not (math.isfinite(whole) and math.isfinite(error) and all_finite(new)):
                stored[before:n] = 0.0
                factor[before:n] = 0.0
                return q
            copy_to(alpha, new)
            counters[STORED] = n
            counters[SQUARES] += square
            counters[MASSES] += mass
            counters[ERROR] += error
            counters[WORST_ERROR] = max(counters[WORST_ERROR], error / mass)
        add_to_average(average, alpha, keep, counters)
        write_round(rounds[q], loss, mass, square, offset, weight, m, largest, v_max, False)
    return weights.shape[0]
