"""Effects of features and of pairs in sums of trees, compared with sums over all sets of features."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr

from online_rank.base.effects import boxes_of, pair_effects, split_difference
from online_rank.base.form import Tree

D = 5


def shares(_, low, high):
    """Of normal values."""
    return np.maximum(ndtr(high) - ndtr(low), 0.0)


def random_tree(rng, depth):
    nodes = []

    def add(left_to_go):
        number = len(nodes)
        nodes.append((-1, 0.0, 0, 0, rng.normal()))
        if left_to_go and rng.random() < 0.9:
            left, right = add(left_to_go - 1), add(left_to_go - 1)
            nodes[number] = (int(rng.integers(D)), float(rng.normal()), left, right, 0.0)
        return number

    add(depth)
    return Tree(*map(np.array, zip(*nodes, strict=True)))


def expected(tree, x, fixed, node=0, known=()):
    """The mean value of a tree where the features in `fixed` have the values of x, and others are normal."""
    j, limit = int(tree.columns[node]), float(tree.thresholds[node])
    if j < 0:
        return float(tree.values[node])
    left, right = int(tree.left[node]), int(tree.right[node])
    if j in fixed:
        return expected(tree, x, fixed, right if x[j] >= limit else left, known)
    low, high = dict(known).get(j, (-np.inf, np.inf))
    whole, below = ndtr(high) - ndtr(low), max(ndtr(min(high, limit)) - ndtr(low), 0.0)
    parts = ((below / whole, left, (low, min(high, limit))), (1.0 - below / whole, right, (max(low, limit), high)))
    others = tuple((k, ends) for k, ends in known if k != j)
    return sum(p * expected(tree, x, fixed, child, (*others, (j, ends))) for p, child, ends in parts if p > 1e-15)


def effects(trees, x):
    """The effects of features and pairs by the definition: sums over all subsets."""
    sets = [part for k in range(D + 1) for part in itertools.combinations(range(D), k)]
    means = {part: sum(expected(tree, x, part) for tree in trees) for part in sets}
    single, pairs = np.zeros(D), dict.fromkeys(itertools.combinations(range(D), 2), 0.0)
    for part in sets[1:]:
        inside = [one for k in range(len(part) + 1) for one in itertools.combinations(part, k)]
        own = sum((-1) ** (len(part) - len(one)) * means[one] for one in inside)
        if len(part) == 1:
            single[part[0]] += own
        for pair in itertools.combinations(part, 2):
            pairs[pair] += own / math.comb(len(part), 2)
    return single, pairs


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_effects_are_the_sums_over_all_sets_of_features_and_add_up_to_the_difference(depth):
    rng = np.random.default_rng(depth)
    trees = [random_tree(rng, depth) for _ in range(4)]
    a, b = rng.normal(size=(2, D))
    a[0] = np.nan  # A missing value goes to the left.
    single, pairs, together = split_difference(trees, a, b, shares, np.arange(D), D)
    score = [sum(float(tree(x[None])[0]) for tree in trees) for x in (a, b)]
    assert single.sum() + together.sum() == pytest.approx(score[0] - score[1], abs=1e-12)
    (one, one_pairs), (other, other_pairs) = effects(trees, a), effects(trees, b)
    np.testing.assert_allclose(single, one - other, atol=1e-12)
    found = dict(zip(map(tuple, pairs.tolist()), together.tolist(), strict=True))
    for pair in one_pairs:
        assert found.get(pair, 0.0) == pytest.approx(one_pairs[pair] - other_pairs[pair], abs=1e-12)


def test_columns_of_one_feature_make_no_pair():
    rng = np.random.default_rng(0)
    trees, (a, b) = [random_tree(rng, 4) for _ in range(3)], rng.normal(size=(2, D))
    whole, pairs, together = split_difference(trees, a, b, shares, np.arange(D), D)
    merged, other_pairs, other = split_difference(trees, a, b, shares, np.array([0, 0, 1, 2, 3]), 4)
    assert merged.sum() + other.sum() == pytest.approx(whole.sum() + together.sum())
    inside = together[(pairs == [0, 1]).all(axis=1)].sum()
    assert merged[0] == pytest.approx(whole[0] + whole[1] + inside)
    assert (other_pairs[:, 0] < other_pairs[:, 1]).all()


def test_the_effect_of_a_product_worked_out_by_hand():
    # The sign of x times the sign of z, and half of the values of each are below 0.
    tree = Tree(
        np.array([0, 1, 1, -1, -1, -1, -1]), np.zeros(7), np.array([1, 3, 5, 0, 0, 0, 0]), np.array([2, 4, 6, 0, 0, 0, 0]),
        np.array([0.0, 0.0, 0.0, 1.0, -1.0, -1.0, 1.0]),
    )  # fmt: skip
    single, pairs, together = split_difference([tree], np.array([1.0, 1.0]), np.array([1.0, -1.0]), shares, np.arange(2), 2)
    assert single.tolist() == [0.0, 0.0]
    assert (pairs.tolist(), together.tolist()) == ([[0, 1]], [2.0])
    (pair,) = pair_effects([tree], shares, np.array([-1.0, 1.0]), 3)
    assert (pair.columns, pair.strength) == ((0, 1), 1.0)
    assert pair.effect.tolist() == [[1.0, -1.0], [-1.0, 1.0]]


def test_without_trees_there_is_no_effect():
    single, pairs, together = split_difference([], np.zeros(2), np.ones(2), shares, np.arange(2), 2)
    assert (single.tolist(), pairs.tolist(), together.tolist()) == ([0.0, 0.0], [], [])
    assert pair_effects([], shares, np.zeros(2), 3) == []
    assert boxes_of([]).values.shape == (0,)
