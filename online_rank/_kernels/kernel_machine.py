"""The kernel perceptron for ranking with a budget (Projectron): a block of queries in one call.

The function that scores is f = sum of alpha_b k(z_b, .) over the stored documents z_b. `factor` is the Cholesky factor L of
their Gram matrix. It grows by a row with each stored document; L^-1 times a column of kernel values is a projection.
"""

import math

import numpy as np

from online_rank._kernels._jit import kernel
from online_rank._kernels.arrays import all_finite, copy_to
from online_rank._kernels.codes import LOSS, MEAN, RBF, SPREAD
from online_rank._kernels.credit import assign_credit
from online_rank._kernels.fits import require, require_block
from online_rank._kernels.graded import Target, grade_query
from online_rank._kernels.perceptron import Rule, judge
from online_rank._kernels.primitives import dot, squared_distance
from online_rank._kernels.rounds import write_round
from online_rank._kernels.vector_math import exp_negative
from online_rank._kernels.violations import Violation
from online_rank._kernels.workspace import CREDIT, SCORES, SHARES, WEIGHTS, longest_query, workspace

# A document is stored only if its squared distance from the span of the stored ones is at least this part of its squared norm.
_LEAST_PIVOT = 1e-8

# Indices of `counters`.
AVERAGED, SQUARES, MASSES, STORED, ERROR, WORST_ERROR = range(6)


@kernel
def _between(x, z, kind, gamma, degree, coef0):
    """k(x, z) of two documents (d,)."""
    if kind == RBF:
        return exp_negative(-gamma * squared_distance(x, z))
    base = gamma * dot(x, z) + coef0
    power = base
    for _ in range(degree - 1):
        power *= base
    return power


@kernel
def _of_document(x, stored, kind, gamma, degree, coef0, row):
    """k(x, z_b) for the stored documents, to `row` (n,). Returns k(x, x): NaN if the document is unusable."""
    square = dot(x, x)
    for b in range(row.shape[0]):
        row[b] = _between(x, stored[b], kind, gamma, degree, coef0)
    return _between(x, x, kind, gamma, degree, coef0) if math.isfinite(square) else np.nan


@kernel
def score(X, stored, alpha, kind, degree, constants, s):
    """Scores f(x) of documents (n, d) by stored documents and their coefficients; NaN where a feature is not finite."""
    require(X.shape[1] == stored.shape[1] and alpha.shape[0] <= stored.shape[0] and X.shape[0] <= s.shape[0])
    gamma, coef0 = constants[:2]
    row = np.empty(alpha.shape[0])
    for i in range(X.shape[0]):
        norm = _of_document(X[i], stored, kind, gamma, degree, coef0, row)
        s[i] = dot(row, alpha) if math.isfinite(norm) else np.nan


@kernel
def _forward(factor, n, h):
    """h <- L^-1 h for the first n rows."""
    for b in range(n):
        h[b] = (h[b] - dot(factor[b, :b], h[:b])) / factor[b, b]


@kernel
def _backward(factor, n, t):
    """t <- L^-T t for the first n rows."""
    for b in range(n - 1, -1, -1):
        t[b] /= factor[b, b]
        for a in range(b):
            t[a] -= t[b] * factor[b, a]


@kernel
def _store(X, first, c, K, n, budget, enough, kind, gamma, degree, coef0, stored, factor, t):
    """Store documents of an update sum of c_i k(x_i, .) until its distance from the span of the stored ones is at most
    `enough`.

    A Cholesky factorisation pivoted by the update: the next document stored is the one that shortens the rest most.

    Parameters
    ----------
    X, first : the documents are the rows from `first` on
    c : (m,) coefficients
    K : (m, budget) kernel values with the first n stored documents
    t : (budget,) coordinates of the update in the orthonormal basis of the stored documents, extended

    Returns
    -------
    Number of stored documents.
    """
    rows = np.flatnonzero(c)
    r = rows.shape[0]
    # Coordinates of each document, and the Gram matrix of their components orthogonal to the stored documents.
    T = np.zeros((r, budget))
    rest = np.empty((r, r))
    own = np.empty(r)
    for p in range(r):
        T[p, :n] = K[rows[p], :n]
        _forward(factor, n, T[p])
        for q in range(p + 1):
            value = _between(X[first + rows[p]], X[first + rows[q]], kind, gamma, degree, coef0)
            if p == q:
                own[p] = value
            rest[p, q] = value - dot(T[p, :n], T[q, :n])
            rest[q, p] = rest[p, q]
    left = np.empty(r)
    while n < budget:
        square = 0.0
        for p in range(r):
            left[p] = 0.0
            for q in range(r):
                left[p] += rest[p, q] * c[rows[q]]
            square += c[rows[p]] * left[p]
        best, gained = -1, 0.0
        for p in range(r):
            if rest[p, p] > _LEAST_PIVOT * own[p] and left[p] * left[p] / rest[p, p] > gained:
                best, gained = p, left[p] * left[p] / rest[p, p]
        if square <= enough * enough or best < 0:
            break
        pivot = math.sqrt(rest[best, best])
        stored[n] = X[first + rows[best]]
        factor[n, :n] = T[best, :n]
        factor[n, n] = pivot
        t[n] = left[best] / pivot
        for p in range(r):
            T[p, n] = rest[p, best] / pivot
        for p in range(r):
            for q in range(r):
                rest[p, q] -= T[p, n] * T[q, n]
        n += 1
    return n


@kernel
def _square(X, first, c, kind, gamma, degree, coef0):
    """||sum of c_i k(x_i, .)||^2."""
    total = 0.0
    for i in range(c.shape[0]):
        if c[i] != 0.0:
            total += c[i] * c[i] * _between(X[first + i], X[first + i], kind, gamma, degree, coef0)
            for j in range(i):
                if c[j] != 0.0:
                    total += 2.0 * c[i] * c[j] * _between(X[first + i], X[first + j], kind, gamma, degree, coef0)
    return max(total, 0.0)


@kernel
def _hinges(u, level, share, scale, s, offset):
    """F_t(u): the hinge of a comparator's scores on the pairs of the update, of which i has `share` in each."""
    m = s.shape[0]
    total = 0.0
    for i in range(m):
        if share[i] > 0.0:
            for j in range(m):
                if level[j] < level[i] and s[j] >= s[i] - offset:
                    total += scale * share[i] * max(0.0, 1.0 - (u[i] - u[j]))
    return total


@kernel
def learn(
    X, y, offsets, weights, discounts, config, constants, alpha, average, stored, factor, counters, rounds,
    compared=None, values=None,
):  # fmt: skip
    """Learn from a block of queries.

    Parameters
    ----------
    X, y, offsets : features (n, d), grades (n,), and where queries begin and end (q + 1,)
    weights : (q,) sample weights
    discounts : (>= largest m,) table of D(p)
    config : int64 array: measure kind, cutoff, threshold, kernel, degree
    constants : float64 array: gamma, coef0, tolerance eta, relative margin beta, factor by which the average forgets
    alpha, average : (budget,) coefficients that learn and their average, changed in place; the average is (0,) when the
        coefficients that learn serve
    stored, factor : (budget, d) stored documents and (budget, budget) their Cholesky factor, changed in place
    counters : (6,) changed in place: effective number of averaged coefficients, sum of ||z||^2, sum of V, number of stored
        documents, sum of the projection errors ||e||, largest ||e|| / V
    rounds : (q, 10) out, a `Round` a row
    compared : (n,) scores of the documents by a comparator, whose losses on the pairs of the updates are computed too
    values : (q,) out, losses of the comparator

    Returns
    -------
    Number of queries learned. When it is smaller than q, the next query has bad values or would make the state non-finite, and
    nothing of it was learned.
    """
    require_block(X.shape[0], y, offsets, weights, discounts, rounds)
    require(X.shape[1] == stored.shape[1] and alpha.shape[0] == stored.shape[0] == factor.shape[0] == factor.shape[1])
    require(average.shape[0] in (0, alpha.shape[0]) and counters.shape[0] == 6 and 0.0 <= counters[STORED] <= alpha.shape[0])
    if compared is not None:
        require(compared.shape[0] >= y.shape[0] and values.shape[0] >= weights.shape[0])
    kind, cutoff, threshold, form, degree = config
    gamma, coef0, tolerance, beta, keep = constants
    budget = alpha.shape[0]
    target = Target(kind, cutoff, threshold, discounts)
    rule = Rule(SPREAD, LOSS, MEAN, False, False, 1.0, beta, 1.0, keep, 0.0, 0.0)
    longest = longest_query(offsets)
    work = workspace(longest)
    K = np.empty((longest, budget))
    t, new = np.empty(budget), np.empty(budget)

    for q in range(weights.shape[0]):
        first, weight = offsets[q], weights[q]
        m = offsets[q + 1] - first
        s, v, c = work.reals[SCORES, :m], work.reals[WEIGHTS, :m], work.reals[CREDIT, :m]
        n = int(counters[STORED])
        largest = 0.0
        for i in range(m):
            norm = _of_document(X[first + i], stored, form, gamma, degree, coef0, K[i, :n])
            s[i] = dot(K[i, :n], alpha[:n]) if math.isfinite(norm) else np.nan
            largest = max(largest, norm)
        graded = grade_query(target, y[first : first + m], work)
        if not (graded.levels >= 0 and all_finite(s) and weight >= 0.0 and math.isfinite(weight)):
            return q
        if compared is not None:
            values[q] = 0.0
        if graded.levels < 2:
            write_round(rounds[q], 0.0, 0.0, 0.0, 0.0, weight, m, largest, 0.0, True)
            continue
        loss, v_max = judge(target, rule, graded, s, v, work, None)
        offset = beta * counters[SQUARES] / counters[MASSES] if counters[MASSES] > 0.0 else 0.0
        mass, square = weight * loss, 0.0
        if mass > 0.0:
            scale = mass / assign_credit(SPREAD, target, graded, v, Violation(s, offset, False), work, c, None)
            for i in range(m):
                c[i] *= scale
            whole = _square(X, first, c, form, gamma, degree, coef0)
            t[:] = 0.0
            for i in range(m):
                if c[i] != 0.0:
                    for b in range(n):
                        t[b] += c[i] * K[i, b]
            _forward(factor, n, t)
            error = math.sqrt(max(whole - dot(t, t), 0.0))
            if error > tolerance * mass and n < budget and math.isfinite(whole):
                n = _store(
                    X, first, c, K, n, budget, tolerance * mass, form, gamma, degree, coef0, stored, factor, t,
                )  # fmt: skip
            square = dot(t[:n], t[:n])
            error = math.sqrt(max(whole - square, 0.0))
            _backward(factor, n, t)
            for b in range(budget):
                new[b] = alpha[b] + t[b]
            if not (math.isfinite(whole) and math.isfinite(error) and all_finite(new)):
                before = int(counters[STORED])
                stored[before:n] = 0.0
                factor[before:n] = 0.0
                return q
            if compared is not None:
                values[q] = _hinges(compared[first : first + m], graded.level, work.reals[SHARES], scale, s, offset)
            copy_to(alpha, new)
            counters[STORED] = n
            counters[SQUARES] += square
            counters[MASSES] += mass
            counters[ERROR] += error
            counters[WORST_ERROR] = max(counters[WORST_ERROR], error / mass)
        if average.shape[0] > 0:
            counters[AVERAGED] = keep * counters[AVERAGED] + 1.0
            for b in range(n):
                average[b] += (alpha[b] - average[b]) / counters[AVERAGED]
        write_round(rounds[q], loss, mass, square, offset, weight, m, largest, v_max, False)
    return weights.shape[0]
