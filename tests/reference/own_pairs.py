"""Pairs of a measure of the user's own, in loops straight from the equations of `online_rank.rankers.own_pairs`."""

import itertools
from statistics import NormalDist

import numpy as np


def mean_pair(weights, scores, grades, margin):
    """c (m,) with a mass of 1, and the discordance: pair by pair, over all orders of equal documents of one grade."""
    m, levels = len(grades), sorted(set(grades))
    level = [levels.index(grade) for grade in grades]
    keys = [scores[i] - margin / (len(levels) - 1) * level[i] for i in range(m)]
    order = sorted(range(m), key=lambda i: (-keys[i], level[i]))
    phi_at = [-NormalDist().inv_cdf((p + 1 - 3 / 8) / (m + 1 / 4)) for p in range(m)]
    phi = {}
    for i in range(m):
        equal = [p for p in range(m) if (keys[order[p]], level[order[p]]) == (keys[i], level[i])]
        phi[i] = sum(phi_at[p] for p in equal) / len(equal)
    c, wrong, whole = np.zeros(m), 0.0, 0.0
    for i, j in itertools.permutations(range(m), 2):
        if level[i] <= level[j]:
            continue
        a = weights[level[i]][level[j]] * (phi[j] - phi[i])
        whole += abs(a)
        if a > 0.0:
            assert scores[j] >= scores[i] - margin  # Violated.
            c[i] += a
            c[j] -= a
            wrong += a
    return (c / wrong, wrong / whole) if wrong else (None, 0.0)
