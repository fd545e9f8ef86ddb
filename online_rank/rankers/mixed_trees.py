"""Mixes the trees that several machines have grown next to curves."""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from online_rank._kernels import beside, hedge, leaves, splitting, window
from online_rank.rankers.growing_trees import KEEP, OF_SHARD, GrowingTrees, most_documents, most_queries, most_trees


def mix_trees(
    learned: Sequence[GrowingTrees], base: GrowingTrees, shares: np.ndarray, trees: int, first_query: int
) -> GrowingTrees:
    """The trees of K machines that continued from `base`, all with the same features, by their shares of the queries.

    What machines learned into leaves of trees that all still have counts by 1 / sqrt(K) each, and so do leaves of trees that
    one machine has grown. If shares differ, the root of the sum of their squares is in place of it: who learned alone counts
    whole. The mean would learn a K-th as fast as one machine; the sum goes too far, because all learn from the same residuals.
    The oldest trees leave if there are too many. Windows are joined, the last queries first; of those from before
    `first_query` the windows of machines may lack any. Losses and accounts add up, and the base counts once.
    """
    made, d = GrowingTrees(), len(base.window.bins)
    made.add_features(np.zeros(d, dtype=bool))
    parts, last = (_shared(learned, base, shares), _grown(learned, base.n_grown, shares)), slice(-most_trees(trees, d), None)
    made._splits, made._trees = (np.concatenate(own)[last] for own in zip(*parts, strict=True))
    n, n_kept = base.n_grown + sum(one.n_grown - base.n_grown for one in learned), len(made._trees)
    made._trees[:, leaves.BORN] = n - n_kept + np.arange(n_kept)
    made._integers[[window.N_TREES, window.N_GROWN]] = n_kept, n
    _join_windows(made, learned, base, first_query)
    numbers = np.array([one.growth.numbers for one in learned])
    made._numbers = shares @ numbers
    made._numbers[splitting.HEAVIEST] = numbers[:, splitting.HEAVIEST].max()
    for place in (splitting.LEARNED, splitting.SPENT):
        made._numbers[place] = base.growth.numbers[place] + (numbers[:, place] - base.growth.numbers[place]).sum()
    _mix_blend(made.blend, learned, base, shares)
    return made


def _places(one: GrowingTrees) -> dict[int, int]:
    """The place of each tree, by its number within its shard."""
    return {int(born) % OF_SHARD: k for k, born in enumerate(one.growth.trees[: one.n_trees, leaves.BORN])}


def _shared(learned: Sequence[GrowingTrees], base: GrowingTrees, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Splits and leaves of the trees of the base that all machines still have, the oldest first."""
    places, before = [_places(one) for one in learned], _places(base)
    born = sorted(number for number in before if all(number in own for own in places))
    rows = np.array([one.growth.trees[[own[n] for n in born]] for one, own in zip(learned, places, strict=True)])
    kept, values = [before[n] for n in born], slice(leaves.SEEN)
    began = base.growth.trees[kept]
    faded = KEEP ** np.array([[[one.n_grown - base.n_grown]] for one in learned], dtype=np.float64) * began[:, values]
    trees = began + (rows - began).sum(axis=0)
    trees[:, values] = np.tensordot(shares, faded, 1) + _part(shares) * (rows[:, :, values] - faded).sum(axis=0)
    return base.growth.splits[kept], trees


def _grown(learned: Sequence[GrowingTrees], first: int, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Splits and leaves of the trees from number `first` on, the oldest first, in turn from each machine."""
    grown = [one.growth for one in learned]
    order = sorted((born, i, k) for i, one in enumerate(learned) for born, k in _places(one).items() if born >= first)
    trees = np.array([grown[i].trees[k] for _, i, k in order]).reshape(-1, leaves.N_PARTS)
    trees[:, : leaves.SEEN] *= _part(shares)
    return np.array([grown[i].splits[k] for _, i, k in order], dtype=np.int16).reshape(-1, leaves.N_SPLITS), trees


def _part(shares: np.ndarray) -> float:
    """How much counts of what a machine has learned into leaves: 1 / sqrt(K), if all K have learned as much."""
    return math.sqrt(shares @ shares)


def _join_windows(made: GrowingTrees, learned: Sequence[GrowingTrees], base: GrowingTrees, first_query: int) -> None:
    """Join the last queries of all machines. The queries of the base count as the oldest of the first machine."""
    owned = [[(one, row) for row in one.rows_of_queries() if row[window.NUMBER] >= first_query] for one in learned]
    owned[0] = [(base, row) for row in base.rows_of_queries()] + owned[0]
    # From the last one back, in turn from each machine.
    turns = itertools.zip_longest(*(reversed(own) for own in owned))
    queries = [each for turn in turns for each in turn if each is not None]
    d = len(made.window.bins)
    sizes = np.cumsum([row[window.SIZE] for _, row in queries])
    n = min(int(np.searchsorted(sizes, most_documents(d), side="right")), most_queries(d))
    made.fill(queries[:n][::-1])


def _mix_blend(blend: np.ndarray, learned: Sequence[GrowingTrees], base: GrowingTrees, shares: np.ndarray) -> None:
    """Add up losses and accounts, and average scales."""
    parts, began = np.array([one.blend for one in learned]), base.blend
    blend[:] = began + (parts - began).sum(axis=0)
    blend[beside.SCALES :] = shares @ parts[:, beside.SCALES :]
    heaviest = beside.ACCOUNT + hedge.LARGEST_WEIGHT
    blend[heaviest] = parts[:, heaviest].max()
