"""LambdaMART with plain loops: gradients pair by pair, and trees by trying every split."""

import itertools
import math


def gradients(s, y, cutoff, depth, weight=1.0):
    """(first, second) derivatives of each document of a query."""
    m = len(y)
    gain = [2.0**grade - 1.0 for grade in y]
    discount = [1.0 / math.log2(p + 2) for p in range(m)]
    best = sum(g * d for g, d in zip(sorted(gain, reverse=True)[:cutoff], discount, strict=False))
    order = sorted(range(m), key=lambda i: -s[i])
    place = {i: p for p, i in enumerate(order)}
    first, second, total = [0.0] * m, [0.0] * m, 0.0
    if best == 0:
        return first, second
    for i, j in itertools.permutations(range(m), 2):
        if y[i] > y[j] and min(place[i], place[j]) < depth:
            delta = (gain[i] - gain[j]) * abs(discount[place[i]] - discount[place[j]]) / best
            if max(s) > min(s):
                delta /= 0.01 + abs(s[i] - s[j])
            share = 1.0 / (1.0 + math.exp(s[i] - s[j]))
            first[i] += delta * share
            first[j] -= delta * share
            for k in (i, j):
                second[k] += delta * share * (1 - share)
            total += 2 * delta * share
    scale = weight * math.log2(1 + total) / total if total else 0.0
    return [scale * g for g in first], [scale * h for h in second]


def _quality(rows, g, h):
    return sum(g[r] for r in rows) ** 2 / (sum(h[r] for r in rows) + 1.0)


def grow(bins, rows, g, h, depth, least, n_bins):
    """A tree as nested (column, threshold, left, right), or the value of a leaf."""
    if depth == 0:
        return sum(g[r] for r in rows) / (sum(h[r] for r in rows) + 1.0)
    best, split = 0.0, None
    for c in range(len(bins[0]) if bins else 0):
        for threshold in range(n_bins - 1):
            left = [r for r in rows if bins[r][c] <= threshold]
            right = [r for r in rows if bins[r][c] > threshold]
            if min(len(left), len(right)) >= least:
                gain = _quality(left, g, h) + _quality(right, g, h) - _quality(rows, g, h)
                if gain > best + 1e-12:
                    best, split = gain, (c, threshold, left, right)
    if split is None:
        return grow(bins, rows, g, h, 0, least, n_bins)
    c, threshold, left, right = split
    return c, threshold, *(grow(bins, part, g, h, depth - 1, least, n_bins) for part in (left, right))


def value(tree, row):
    while isinstance(tree, tuple):
        tree = tree[2] if row[tree[0]] <= tree[1] else tree[3]
    return tree
