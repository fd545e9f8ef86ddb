"""Trees next to curves with plain loops: walks down a tree, the best splits of a sample, leaves, and a window of queries."""

import math

N_NODES = 15


def leaf(row, features, thresholds):
    """The leaf of a document with the bins `row`."""
    node = 0
    while node < N_NODES:
        node = 2 * node + 1 + (row[features[node]] > thresholds[node])
    return node - N_NODES


def bin_of(g):
    """The bin of a normal score; None is missing."""
    return 0 if g is None else 1 + min(max(int((g + 2.6) // (5.2 / 31)), 0), 30)


def unit(weight, heaviest=1.0):
    """The weight of a query in sixteenths."""
    return max(round(16 * weight / max(heaviest, 1.0)), 1)


def residuals(target, given):
    """What scores lack of the targets of one query."""
    mean = math.fsum(given) / len(given)
    return [t - (s - mean) for t, s in zip(target, given, strict=True)]


def whole(residual, w):
    """A residual times W, in units of 1/256."""
    return round(256 * w * min(max(residual, -8.0), 8.0))


def split(rows, bins, r, w, shrinkage, least):
    """(gain, column, threshold) of the best split of some rows, the first one of equals; None without any."""

    def part(some):
        g, n = sum(r[i] for i in some) / (256 * 16), sum(w[i] for i in some) / 16
        return g * g / (n + shrinkage), n

    best = (0.0, None, None)
    for c in range(len(bins[0]) if bins else 0):
        for threshold in range(31):
            (left, n_left), (right, n_right) = (
                part([i for i in rows if (bins[i][c] > threshold) is side]) for side in (False, True)
            )
            gain = left + right - part(rows)[0]
            if min(n_left, n_right) >= least and gain > best[0] + 1e-12:
                best = (gain, c, threshold)
    return None if best[1] is None else best


def grow(bins, r, w, shrinkage, least):
    """Columns and thresholds of the 15 nodes of a tree; column None where a node does not split."""
    nodes = {0: list(range(len(bins)))}
    columns, thresholds = [None] * N_NODES, [None] * N_NODES
    for node in range(N_NODES):
        rows = nodes[node]
        found = split(rows, bins, r, w, shrinkage, least)
        if found is not None:
            _, columns[node], thresholds[node] = found
        sides = [[], []]
        for i in rows:
            sides[found is not None and bins[i][columns[node]] > thresholds[node]].append(i)
        nodes[2 * node + 1], nodes[2 * node + 2] = sides
    return columns, thresholds


def learned(values, means, seen, age, found, residual, w):
    """Values, averages and weights of the leaves after a query, whose documents are in the leaves `found`."""
    age += 1
    for v in range(16):
        g = sum(whole(r, w) for k, r in zip(found, residual, strict=True) if k == v) / (256 * 16)
        values[v] += 0.5 * g / (seen[v] + 100.0)
        seen[v] += sum(w / 16 for k in found if k == v)
        means[v] += (values[v] - means[v]) / min(age, 200)
    return values, means, seen


class Ring:
    """Where queries lie in a window with room for n documents and k queries."""

    def __init__(self, n, k):
        self.n, self.k, self.head, self.queries = n, k, 0, []

    def push(self, m):
        if m > self.n or not self.k:
            return
        at = self.head
        if at + m > self.n:
            while self.queries and self.queries[0][0] >= at:
                self.queries.pop(0)
            at = 0
        while self.queries and self.queries[0][0] < at + m and self.queries[0][0] + self.queries[0][1] > at:
            self.queries.pop(0)
        self.queries = [*self.queries, (at, m)][-self.k :]
        self.head = at + m
