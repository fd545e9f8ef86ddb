"""Boosted trees with plain loops: residuals document by document, and trees by trying every split."""

import math


def residuals(s, y, weight=1.0):
    """(weighted residual, weight) of each document of a query."""
    m = len(y)
    if len(set(y)) < 2:
        return [0.0] * m, [0.0] * m
    mean = sum(y) / m
    deviation = math.sqrt(sum((grade - mean) ** 2 for grade in y) / m)
    level = math.fsum(s) / m
    return [weight * ((grade - mean) / deviation - (score - level)) for grade, score in zip(y, s, strict=True)], [weight] * m


def _quality(rows, g, h):
    return sum(g[r] for r in rows) ** 2 / (sum(h[r] for r in rows) + 50.0)


def grow(bins, rows, g, h, depth, least, n_bins):
    """A tree as nested (column, threshold, left, right), or the value of a leaf."""
    if depth == 0:
        return sum(g[r] for r in rows) / (sum(h[r] for r in rows) + 50.0)
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


def columns_of(tree, columns):
    """The columns, by their names in `columns`, of all splits."""
    if isinstance(tree, tuple):
        yield columns[tree[0]]
        for side in tree[2:]:
            yield from columns_of(side, columns)
