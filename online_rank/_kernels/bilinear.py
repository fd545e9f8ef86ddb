"""A perceptron on pairs of vectors: scores q' W d, and updates of rank one.

The matrix that learns is M + sum of l_r' r_r, a stored matrix (p, k) and a few terms that are folded in together. With the sum
kept A + (1 - kept) M + sum of share_r l_r' r_r its average costs one product more, and an update costs p + k.

Storage is float32, and no product is fused: the bits are the same on every processor.
"""

import math

import numpy as np

from online_rank._kernels import codes, primitives
from online_rank._kernels import workspace as at
from online_rank._kernels._jit import kernel, leaf
from online_rank._kernels.arrays import all_finite, copy_to
from online_rank._kernels.best_violators import keys_of
from online_rank._kernels.credit import Update, hinge, prepare_hinges, room_for_pairs
from online_rank._kernels.dense import _combine_rows
from online_rank._kernels.fits import require
from online_rank._kernels.graded import find_grades, graded_of
from online_rank._kernels.perceptron import margin_of, respond, settings, share_of_spread
from online_rank._kernels.rounds import write_round
from online_rank._kernels.workspace import workspace

#: Places among the numbers of a learner, after the counters of a perceptron. KEPT is the share of the stored average in the
#: average. BEGINNING is the squared norm of the first matrix. ROUNDED bounds, in norm, by how much what is stored differs from
#: the exact matrix. LOST is the loss; WEIGHED and COUNTED are the weight and the number of queries that can be ranked wrongly.
#: COMPARED is F of the first matrix.
KEPT, BEGINNING, ROUNDED, LOST, WEIGHED, COUNTED, COMPARED = range(codes.N_COUNTERS, codes.N_COUNTERS + 7)
N_NUMBERS = codes.N_COUNTERS + 7
#: The most terms that wait to be folded in.
TERMS = 64
#: How many rows of a matrix are added up in float32.
_TOGETHER = 64
#: How many numbers of the next rows are fetched ahead, of a matrix with more numbers than the caches near a processor hold.
_AHEAD, _LARGE = 128, 2**20
#: Half the distance of float32 numbers next to 1.
_UNIT = 2.0**-24


@leaf
def _add_rows(rows, n, factors, scale, t, part):
    """t (k,) += scale * sum of factors_i rows_i over the first n rows of an array (., k).

    Eight rows at a time are added up in float32, and so are, in the workspace `part` (k,), the sums of up to eight times eight
    rows. These are added up in float64.
    """
    k, whole = t.shape[0], n - n % 8
    # Every eight rows are eight new sequences, which a processor fetches ahead only after their beginnings.
    ahead = min(k, _AHEAD) if k * n > _LARGE else 0
    for first in range(0, whole, _TOGETHER):
        for j in range(k):
            part[j] = 0.0
        for i in range(first, min(first + _TOGETHER, whole), 8):
            a, b = np.float32(scale * factors[i]), np.float32(scale * factors[i + 1])
            c, d = np.float32(scale * factors[i + 2]), np.float32(scale * factors[i + 3])
            e, f = np.float32(scale * factors[i + 4]), np.float32(scale * factors[i + 5])
            g, h = np.float32(scale * factors[i + 6]), np.float32(scale * factors[i + 7])
            for r in range(i + 8, min(i + 16, whole) if ahead > 0 else 0):
                primitives.fetch(rows, r, ahead)
            for j in range(k):
                one = (a * rows[i, j] + b * rows[i + 1, j]) + (c * rows[i + 2, j] + d * rows[i + 3, j])
                other = (e * rows[i + 4, j] + f * rows[i + 5, j]) + (g * rows[i + 6, j] + h * rows[i + 7, j])
                part[j] += one + other
        for j in range(k):
            t[j] += part[j]
    for i in range(whole, n):
        factor = scale * factors[i]
        for j in range(k):
            t[j] += factor * rows[i, j]


@leaf
def _add_terms(left, right, shares, n, q, averaged, t, factors):
    """t += the product of q and the terms, by their shares in the average or all of them.

    factors (n + 7,) is workspace.
    """
    # Rows beyond n are stored, too.
    for r in range(0, n, 8):
        (
            factors[r], factors[r + 1], factors[r + 2], factors[r + 3], factors[r + 4], factors[r + 5], factors[r + 6],
            factors[r + 7],
        ) = primitives.eight_row_dots(left, r, q)  # fmt: skip
    if averaged:
        for r in range(n):
            factors[r] *= shares[r]
    for r in range(0, n - 3, 4):
        a, b, c, d = factors[r], factors[r + 1], factors[r + 2], factors[r + 3]
        for j in range(t.shape[0]):
            t[j] += (a * right[r, j] + b * right[r + 1, j]) + (c * right[r + 2, j] + d * right[r + 3, j])
    for r in range(n - n % 4, n):
        for j in range(t.shape[0]):
            t[j] += factors[r] * right[r, j]


@kernel
def adapt(q, matrix, average, left, right, shares, numbers, n, averaged, t):
    """t (k,) = W' q by the average, or by the matrix that learns.

    Parameters
    ----------
    q : (p,) float64
    matrix, average : (p, k) float32; the average is (0, k) without one
    left, right, shares : the terms that wait, (TERMS, p) and (TERMS, k) float32, and their shares in the average (TERMS,)
    numbers : (N_NUMBERS,)
    n : number of terms
    averaged : whether to take the average
    t : out
    """
    p, k = matrix.shape
    require(q.shape[0] == p and t.shape[0] == k and left.shape[1] == p and right.shape[1] == k)
    require(
        left.shape[0] % 8 == 0
        and 0 <= n <= left.shape[0]
        and n <= right.shape[0]
        and n <= shares.shape[0]
        and numbers.shape[0] == N_NUMBERS
    )
    kept = numbers[KEPT] if averaged else 0.0
    require(kept == 0.0 or (average.shape[0] == p and average.shape[1] == k))
    _adapt(q, matrix, average, left, right, shares, kept, n, averaged, t, np.empty(k, dtype=np.float32), np.empty(n + 7))


@leaf
def _adapt(q, matrix, average, left, right, shares, kept, n, averaged, t, part, factors):
    """The body of `adapt`; part (k,), float32, and factors (n + 7,) are workspace."""
    t[:] = 0.0
    if kept > 0.0:
        _add_rows(average, q.shape[0], q, kept, t, part)
    if kept < 1.0:
        _add_rows(matrix, q.shape[0], q, 1.0 - kept, t, part)
    _add_terms(left, right, shares, n, q, averaged, t, factors)


@kernel
def unit(given, q):
    """q (p,) = a vector, float32 (p,), scaled to length 1, as float32 numbers; 0 for length 0. Returns its length."""
    p = given.shape[0]
    require(q.shape[0] == p)
    length = math.sqrt(primitives.sum_of_squares(given))
    for a in range(p):
        # As float64: Python would divide as float32.
        q[a] = np.float32(np.float64(given[a]) / length) if length > 0.0 else 0.0
    return length


@leaf
def _inverse(square):
    """1 over a length by its square; 0 for 0."""
    return 1.0 / math.sqrt(square) if square > 0.0 else 0.0


@kernel
def norms(D, inverse):
    """inverse (m,) = 1 / |d_i| of documents (m, k), and 0 for a document of length 0. Returns whether all are finite."""
    require(D.shape[0] == inverse.shape[0])
    finite = True
    m = D.shape[0]
    for i in range(0, m - 3, 4):
        inverse[i], inverse[i + 1], inverse[i + 2], inverse[i + 3] = primitives.four_row_squares(D, i)
    for i in range(m - m % 4, m):
        _, inverse[i] = primitives.row_dot_and_square(D, i, D[i])
    for i in range(m):
        finite &= math.isfinite(inverse[i])
        inverse[i] = _inverse(inverse[i])
    return finite


@kernel
def score(D, t, inverse, s):
    """s (m,) = the products of documents (m, k), scaled to length 1 by their `inverse` lengths, and t (k,)."""
    require(D.shape[1] == t.shape[0] and D.shape[0] == inverse.shape[0] == s.shape[0])
    m = D.shape[0]
    for i in range(0, m - 3, 4):
        s[i], s[i + 1], s[i + 2], s[i + 3] = primitives.four_row_dots(D, i, t)
    for i in range(m - m % 4, m):
        s[i] = primitives.row_dot(D, i, t)
    for i in range(m):
        s[i] *= inverse[i]


@leaf
def _score_with_squares(D, t, s, squares):
    """s (m,) = the products of documents (m, k) and t (k,), and squares (m,) = their squared lengths, in one pass."""
    m = D.shape[0]
    for i in range(0, m - 3, 4):
        (
            s[i], s[i + 1], s[i + 2], s[i + 3], squares[i], squares[i + 1], squares[i + 2], squares[i + 3],
        ) = primitives.four_row_dots_and_squares(D, i, t)  # fmt: skip
    for i in range(m - m % 4, m):
        s[i], squares[i] = primitives.row_dot_and_square(D, i, t)


@kernel
def answer(D, given, matrix, average, left, right, shares, numbers, n, averaged, s):
    """s (m,) = the scores of documents (m, k) and the vector of a query (p,), both of any length; others as for `adapt`.

    Returns whether all numbers are finite. In one call, and lengths and products in one pass over the documents.
    """
    p, k = matrix.shape
    m = D.shape[0]
    require(given.shape[0] == p and D.shape[1] == k and s.shape[0] == m)
    q, t = np.empty(p), np.empty(k)
    finite = math.isfinite(unit(given, q))
    adapt(q, matrix, average, left, right, shares, numbers, n, averaged, t)
    squares = np.empty(m)
    _score_with_squares(D, t, s, squares)
    for i in range(m):
        s[i] *= _inverse(squares[i])
    return finite and all_finite(s)


@leaf
def _count_average(shares, n, decay, numbers):
    """Count the matrix that learns, with n terms, in its average."""
    numbers[codes.AVERAGED] = decay * numbers[codes.AVERAGED] + 1.0
    new = 1.0 / numbers[codes.AVERAGED]
    numbers[KEPT] *= 1.0 - new
    for r in range(n):
        shares[r] += (1.0 - shares[r]) * new


@leaf
def rounding_of(p, k, numbers):
    """By how much a difference of two computed scores may differ from the difference by the exact matrix.

    Up to 64 rows of the stored matrix are added up in float32, which rounds each of their terms by at most twelve units: once
    as a product, three times among eight rows, eight times among the sums of eight rows. All other sums are float64. Documents
    and queries are exact by definition.
    """
    norm = math.sqrt(numbers[BEGINNING] + numbers[codes.CAPPED_SQUARES]) + numbers[ROUNDED]
    return 2.0 * (numbers[ROUNDED] + (14.0 * _UNIT + 2.0 * (p + k + TERMS + 4) * 2.0**-52) * norm)


@leaf
def _write_term(q, z, square, left, right, shares, n, numbers):
    """Write the term q' z as number n, and count what is lost where float32 rounds it."""
    for i in range(q.shape[0]):
        left[n, i] = q[i]
    for j in range(z.shape[0]):
        right[n, j] = z[j]
    shares[n] = 0.0
    numbers[ROUNDED] += 1.01 * _UNIT * math.sqrt(square) + 2.0**-126 * z.shape[0]


@leaf
def _hinges_of_beginning(scores, update, work):
    """F of the first matrix, by its scores (m,), on the pairs of an update, whose credit is in the workspace."""
    m = scores.shape[0]
    k = work.reals[at.LISTED_SCORES, :m]
    keys_of(scores, update.graded, 0.0, k, work.reals[at.TERMS, :m])
    return hinge(update, prepare_hinges(update, work), k, work)


@leaf
def _score_learning(D, t, q, factor, lengths, s, first):
    """s (m,) = the products of documents (m, k) and t (k,); first (m,) = `factor` times those with q, unless it is 0.

    Of documents scaled to length 1. `lengths` (m,) receives the inverse of their lengths. In one pass; returns whether all
    numbers of the documents are finite.
    """
    m = D.shape[0]
    if factor > 0.0:
        for i in range(0, m - 2, 3):
            (
                s[i], s[i + 1], s[i + 2], first[i], first[i + 1], first[i + 2], lengths[i], lengths[i + 1], lengths[i + 2],
            ) = primitives.three_row_double_dots_and_squares(D, i, t, q)  # fmt: skip
        for i in range(m - m % 3, m):
            s[i], lengths[i] = primitives.row_dot_and_square(D, i, t)
            first[i] = primitives.row_dot(D, i, q)
    else:
        _score_with_squares(D, t, s, lengths)
    finite = True
    for i in range(m):
        finite &= math.isfinite(lengths[i])
        lengths[i] = _inverse(lengths[i])
    for i in range(m):
        s[i] *= lengths[i]
    if factor > 0.0:
        for i in range(m):
            first[i] = factor * (first[i] * lengths[i])
    return finite


@leaf
def _combine_both(D, c, o, rows, z, other):
    """z and other (k,) = the sums of c_i d_i and of o_i d_i over documents (m, k), in one pass. Returns their squared norms.

    Each is what `_combine_rows` gives, up to rounding.
    """
    k = D.shape[1]
    n = 0
    for i in range(c.shape[0]):
        rows[n] = i
        n += (c[i] != 0.0) | (o[i] != 0.0)
    z[:] = 0.0
    other[:] = 0.0
    for r in range(0, n - 3, 4):
        i0, i1, i2, i3 = rows[r], rows[r + 1], rows[r + 2], rows[r + 3]
        c0, c1, c2, c3 = c[i0], c[i1], c[i2], c[i3]
        o0, o1, o2, o3 = o[i0], o[i1], o[i2], o[i3]
        for j in range(k):
            w, x, y, v = np.float64(D[i0, j]), np.float64(D[i1, j]), np.float64(D[i2, j]), np.float64(D[i3, j])
            z[j] += c0 * w + c1 * x + (c2 * y + c3 * v)
            other[j] += o0 * w + o1 * x + (o2 * y + o3 * v)
    for r in range(n - n % 4, n):
        for j in range(k):
            z[j] += c[rows[r]] * D[rows[r], j]
            other[j] += o[rows[r]] * D[rows[r], j]
    return primitives.sum_of_squares(z), primitives.sum_of_squares(other)


@leaf
def _scaled(c, inverse, scaled):
    """scaled (m,) = c times the inverse lengths of documents."""
    for i in range(c.shape[0]):
        scaled[i] = c[i] * inverse[i]


@kernel
def learn(
    D, q, y, weight, discounts, config, matrix, average, left, right, shares, numbers, n, factor, served, row
):  # fmt: skip
    """Learn from one query.

    Parameters
    ----------
    D, q : float32, documents (m, k) and the vector of the query (p,), of any length. Without a query, which has length 0, no
        document has a vector.
    y, weight : grades (m,), and the sample weight
    discounts, config : as `perceptron.learn` takes them
    matrix, average, left, right, shares, numbers, n : as for `adapt`; `shares` and `numbers` change, and row n of `left` and
        `right` is written
    factor : kappa, to add up the losses of kappa I on the pairs, if the matrix began with it; otherwise 0
    served : (m,) scores that were served, which decide the pairs; (0,) for the scores of the matrix that learns
    row : (10,) out, a `Round`

    Returns
    -------
    1 if a term was added, 0 if there was nothing to add; -1 for bad values, after which nothing has changed.
    """
    m, k = D.shape
    p = q.shape[0]
    require(y.shape[0] == m and discounts.shape[0] >= m and n < left.shape[0] and n < right.shape[0] and n < shares.shape[0])
    require(
        left.shape[0] % 8 == 0
        and row.shape[0] == 10
        and served.shape[0] in (0, m)
        and left.shape[1] == p
        and right.shape[1] == k
    )
    require(numbers.shape[0] == N_NUMBERS and matrix.shape[0] == p and matrix.shape[1] == k)
    factor = factor if numbers[BEGINNING] > 0.0 else 0.0
    require(factor == 0.0 or p == k)
    target, rule = settings(config, discounts)
    return _learn(
        D, q, y, weight, target, rule, matrix, average, left, right, shares, numbers, n, factor, served, row, workspace(m),
        room_for_pairs(m), np.empty(p + 3 * k + 4 * m + n + 7),
        np.empty(k, dtype=np.float32),
    )  # fmt: skip


@leaf
def _learn(
    D, q, y, weight, target, rule, matrix, average, left, right, shares, numbers, n, factor, served, row, work, moved, room,
    part,
):  # fmt: skip
    """The body of `learn`, whose workspace are the last four."""
    m, k = D.shape
    p = q.shape[0]
    s, c = work.reals[at.SCORES, :m], work.reals[at.CREDIT, :m]
    one, t, z, other = room[:p], room[p : p + k], room[p + k : p + 2 * k], room[p + 2 * k : p + 3 * k]
    per_document, factors = room[p + 3 * k : p + 3 * k + 4 * m], room[p + 3 * k + 4 * m :]
    lengths, first, scaled, other_scaled = (
        per_document[:m], per_document[m : 2 * m], per_document[2 * m : 3 * m], per_document[3 * m :]
    )  # fmt: skip
    length = unit(q, one)
    if served.shape[0] > 0:
        t[:] = 0.0
    else:
        _adapt(one, matrix, average, left, right, shares, 0.0, n, False, t, part, factors)
    finite = _score_learning(D, t, one, factor, lengths, s, first) and math.isfinite(length)
    if served.shape[0] > 0:
        copy_to(s, served)
    if length == 0.0:
        lengths[:] = 0.0
    levels, depth, ideal = find_grades(target, y, work)
    graded = graded_of(m, levels, depth, ideal, work)
    if not (graded.levels >= 0 and finite and all_finite(s) and weight >= 0.0 and math.isfinite(weight)):
        return -1
    if graded.levels < 2:
        write_round(row, 0.0, 0.0, 0.0, 0.0, weight, m, 1.0, 0.0, True)
        return 0
    offset = margin_of(rule, numbers)
    loss, mass, v_max, scale = respond(target, rule, graded, s, weight, offset, work)
    square, share, compared = 0.0, 1.0, 0.0
    of_spread, of_sort = numbers[codes.SPREAD_SQUARES], numbers[codes.SORT_SQUARES]
    if loss > 0.0 and mass > 0.0:
        spare = work.integers[at.SPARE_ITEMS]
        _scaled(c, lengths, scaled)
        if rule.credit == codes.ADAPTIVE:
            _scaled(work.reals[at.OTHER_CREDIT, :m], lengths, other_scaled)
            square, other_square = _combine_both(D, scaled, other_scaled, spare, z, other)
            share, of_spread, of_sort = share_of_spread(square, other_square, mass, numbers)
            for j in range(k):
                z[j] = share * z[j] + (1.0 - share) * other[j]
            square = primitives.sum_of_squares(z)
        else:
            square = _combine_rows(D, scaled, spare, z)
        square *= primitives.sum_of_squares(one)
        if not (math.isfinite(square) and math.isfinite(mass) and square < 1e60):
            return -1
        if factor > 0.0:
            v = work.reals[at.WEIGHTS, :m]
            update = Update(rule.credit, graded, v, s, offset, scale, share, moved)
            compared = _hinges_of_beginning(first, update, work)
    # Sums of m terms of float64, whose credits add up to twice the mass; documents have length 1.
    lost = (m + 8) * 2.0**-51 * mass
    numbers[ROUNDED] += lost
    numbers[codes.CAPPED_SQUARES] += (math.sqrt(square) + lost) ** 2 + 2.0 * (offset + rounding_of(p, k, numbers)) * mass
    added = 1 if square > 0.0 else 0
    if added:
        _write_term(one, z, square, left, right, shares, n, numbers)
    numbers[codes.SPREAD_SQUARES], numbers[codes.SORT_SQUARES] = of_spread, of_sort
    numbers[codes.DOCUMENTS] += m
    numbers[codes.SQUARES] += square
    numbers[codes.MASS] += mass
    numbers[LOST] += weight * loss
    numbers[WEIGHED] += weight
    numbers[COUNTED] += 1.0
    numbers[COMPARED] += compared
    if average.shape[0] > 0:
        _count_average(shares, n + added, rule.decay, numbers)
    write_round(row, loss, mass, square, offset, weight, m, 1.0, v_max, False)
    return added


@kernel
def push(D, q, c, decay, average, left, right, shares, numbers, n):
    """Add the update q' z with z = sum of c_i d_i by a credit c (m,) from elsewhere, as from clicks.

    D and q are as for `learn`. Returns 1 if a term was added, 0 if z is 0; -1 if it is not finite, after which nothing has
    changed.
    """
    m, k = D.shape
    p = q.shape[0]
    require(c.shape[0] == m and left.shape[1] == p and right.shape[1] == k)
    require(n < left.shape[0] and n < right.shape[0] and n < shares.shape[0] and numbers.shape[0] == N_NUMBERS)
    one, z, lengths, scaled, spare = np.empty(p), np.empty(k), np.empty(m), np.empty(m), np.empty(m + 1, dtype=np.int64)
    unit(q, one)
    norms(D, lengths)
    _scaled(c, lengths, scaled)
    square = _combine_rows(D, scaled, spare, z) * primitives.sum_of_squares(one)
    if not (math.isfinite(square) and square < 1e60):
        return -1
    if square > 0.0:
        _write_term(one, z, square, left, right, shares, n, numbers)
    numbers[codes.SQUARES] += square
    added = 1 if square > 0.0 else 0
    if average.shape[0] > 0:
        _count_average(shares, n + added, decay, numbers)
    return added


@leaf
def _add_four_terms(right, r, own, shared, line, mean):
    """line += the terms r to r + 3 by the factors `own`, and mean += those terms by the factors `shared`, in float32."""
    a, b, c, d = own[r], own[r + 1], own[r + 2], own[r + 3]
    e, f, g, h = shared[r], shared[r + 1], shared[r + 2], shared[r + 3]
    for j in range(line.shape[0]):
        w, x, y, z = right[r, j], right[r + 1, j], right[r + 2, j], right[r + 3, j]
        line[j] += (a * w + b * x) + (c * y + d * z)
        mean[j] += (e * w + f * x) + (g * y + h * z)


@kernel
def fold(matrix, average, left, right, shares, numbers, n, new, new_average):
    """Fold n terms into new arrays: the matrix that learns, and its average.

    Returns how far, in norm, the rounded matrix may be from the exact one.
    """
    p, k = matrix.shape
    require(new.shape == matrix.shape and new_average.shape == average.shape and n <= left.shape[0] == right.shape[0])
    require(left.shape[0] % 16 == 0 and shares.shape[0] >= n)
    averages, kept, square, terms = average.shape[0] > 0, numbers[KEPT], 0.0, 0.0
    line, mean, part = np.empty(k), np.empty(k, dtype=np.float32), np.empty(k, dtype=np.float32)
    # Terms beyond n have the factor 0.
    own, shared = np.zeros(left.shape[0], dtype=np.float32), np.zeros(left.shape[0], dtype=np.float32)
    for i in range(p):
        for r in range(n):
            own[r] = left[r, i]
            shared[r] = shares[r] * left[r, i]
        for j in range(k):
            line[j] = matrix[i, j]
            mean[j] = 0.0
        for first in range(0, n, 16):
            for j in range(k):
                part[j] = 0.0
            for r in range(first, min(first + 16, n), 4):
                _add_four_terms(right, r, own, shared, part, mean)
            for j in range(k):
                line[j] += part[j]
        for j in range(k):
            new[i, j] = line[j]
        square += primitives.sum_of_squares(line)
        if averages:
            for j in range(k):
                new_average[i, j] = kept * average[i, j] + (1.0 - kept) * matrix[i, j] + mean[j]
    # The vector of a query has length 1, so a term has the norm of its right side. Sixteen terms are added up in float32, which
    # rounds each of their numbers at most seven times: once as a product, twice among four, four times among fours.
    for r in range(n):
        terms += math.sqrt(primitives.row_dot(right, r, right[r]))
    return 1.01 * _UNIT * math.sqrt(square) + 8.0 * _UNIT * terms + 2.0**-126 * p * k
