"""Trees of clicks with plain loops: residuals document by document, and trees by trying every split."""

import math


def residuals(scores, clicks, odds, weight=1.0):
    """(weighted residual, weighted variance) of each document of a list, in the order displayed."""
    chances = [1.0 / (1.0 + math.exp(-min(max(s + h, -12.0), 12.0))) for s, h in zip(scores, odds, strict=False)]
    g = [weight * (c - p) for c, p in zip(clicks, chances, strict=True)]
    return g, [weight * p * (1.0 - p) for p in chances]


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
