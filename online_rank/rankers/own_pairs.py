"""What a perceptron learns from a measure of the user's own: pairs weighed by what an exchange of their grades changes.

An exchange of two documents changes the loss by an amount that depends on their grades and on where they stand. How much it
does in the ranking of now, LambdaRank's delta, says little about most pairs: where only the first positions count, most
exchanges change nothing, and a learner waits for the few that do. So the weight W[g, h] of grades g > h is the mean change
over rankings in random order, and the positions weigh as in the credit `sort`: by differences of normal scores phi. With
the positions p of the documents by s_i - tau level_i / (L - 1), the less relevant first among equals,

    a_ij = W[R_i, R_j] (phi(p_j) - phi(p_i))   for R_i > R_j and p_j < p_i,

which is a violated pair. The share rho of these sums in the sums over all pairs of different grades is the discordance, and the
mass of an update is max(RML, rho), or its square root: at least RML and at most 1, as the mass theorem asks. A query teaches as
long as a pair of it stands in the wrong order, although a measure of the first positions has no loss.

All pairs together are one pair of points: x_+ = sum of a_ij x_i / sum of a_ij, and x_- likewise, both in the convex hull of the
documents. That is what the kernel learns. For every u the hinge on that pair is at most the mean of the hinges on the pairs, so
the bounds with this F(u) are no wider, and their proofs use the pair alone.
"""

import functools
import itertools
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from online_rank.measures.own import OwnMeasure
from online_rank.query import SparseRows

_RANKINGS, _EXCHANGES = 4, 8
#: How many kinds of queries, by the numbers of their grades, a measure's weights are remembered for.
_KNOWN = 1024


class MeanPair(NamedTuple):
    """The violated pairs of a query as one: the shares (2, m) of the documents in x_+ and x_-, and the discordance."""

    shares: np.ndarray
    discordance: float


class GradeWeights:
    """W[g, h] of a measure by the grades of a query, computed numerically."""

    def __init__(self, measure: OwnMeasure) -> None:
        self._measure = measure
        self._known: dict[tuple[int, ...], np.ndarray] = {}

    def __getstate__(self) -> dict[str, Any]:
        """What was computed is no state: a copy computes it again."""
        return {"_measure": self._measure, "_known": {}}

    def __call__(self, grades: np.ndarray) -> np.ndarray:
        """W (L, L) of the L different grades of a query, in rising order; 0 on and above the diagonal.

        It depends on how many documents have each grade, and on nothing else.
        """
        key = tuple(np.sort(grades).tolist())
        found = self._known.get(key)
        if found is None:
            found = self._computed(np.array(key))
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[key] = found
        return found

    def _computed(self, grades: np.ndarray) -> np.ndarray:
        levels, rng = np.unique(grades), np.random.default_rng(len(grades))
        weights = np.zeros((len(levels), len(levels)))
        for _ in range(_RANKINGS):
            ranked = grades[rng.permutation(len(grades))]
            before = self._measure.loss_of(ranked)
            places = [np.flatnonzero(ranked == level) for level in levels]
            for high, low in itertools.combinations(reversed(range(len(levels))), 2):
                uppers, lowers = (rng.permutation(np.resize(places[at], _EXCHANGES)) for at in (high, low))
                pairs = sorted({*zip(uppers.tolist(), lowers.tolist(), strict=True)})
                for i, j in pairs:
                    exchanged = ranked.copy()
                    exchanged[[i, j]] = ranked[[j, i]]
                    weights[high, low] += abs(self._measure.loss_of(exchanged) - before) / len(pairs)
        return weights / _RANKINGS


@functools.lru_cache(256)
def normal_scores(m: int) -> np.ndarray:
    """phi of the positions of m documents, (m,), falling (`_kernels.sort_credit`)."""
    quantile = NormalDist().inv_cdf
    upper = [-quantile((p + 0.625) / (m + 0.25)) for p in range((m + 1) // 2)]
    return np.array(upper + [-value for value in reversed(upper[: m // 2])])


def mean_pair(weights: np.ndarray, scores: np.ndarray, grades: np.ndarray, margin: float) -> MeanPair | None:
    """The violated pairs of a query as one; None without a violated pair of positive weight. O(m log m + m L)."""
    levels, level = np.unique(grades, return_inverse=True)
    keys = scores - margin / (len(levels) - 1) * level
    order = np.lexsort((level, -keys))
    level, keys = level[order], keys[order]
    begins = np.flatnonzero(np.append(True, (keys[1:] != keys[:-1]) | (level[1:] != level[:-1])))
    sizes = np.diff(np.append(begins, len(keys)))
    # Equal documents share their positions, so that the input order does not matter.
    phi = np.repeat(np.add.reduceat(normal_scores(len(keys)), begins) / sizes, sizes)
    is_level = (level[:, None] == np.arange(len(levels))).astype(np.float64)
    counts, sums = np.cumsum(is_level, axis=0), np.cumsum(is_level * phi[:, None], axis=0)
    # For each document and grade: the sum of the differences of phi to the documents of that grade before it, and after it.
    before = sums - counts * phi[:, None]
    after = (counts[-1] - counts) * phi[:, None] - (sums[-1] - sums)
    lower, higher = weights[level], weights.T[level]
    gains, losses = (lower * before).sum(axis=1), (higher * after).sum(axis=1)
    # Differences between equal positions may round below 0.
    gains, losses = np.maximum(gains, 0.0), np.maximum(losses, 0.0)
    right = float((lower * after).sum())
    wrong = float(gains.sum())
    if not wrong > 0.0 or not losses.sum() > 0.0:
        return None
    shares = np.zeros((2, len(keys)))
    shares[0, order], shares[1, order] = gains / wrong, losses / losses.sum()
    return MeanPair(shares, min(1.0, wrong / (wrong + max(right, 0.0))))


def mixed_rows(X: Any, shares: np.ndarray) -> Any:
    """The rows shares @ X (r, d), in the form and dtype of X (m, d); sums in the order of the documents."""
    if type(X) is not SparseRows:
        return np.stack([(share[:, None] * X).sum(axis=0) for share in shares]).astype(X.dtype, copy=False)
    columns, place = np.unique(X.columns, return_inverse=True)
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.starts))
    values = [np.bincount(place, share[row] * X.values, len(columns)) for share in shares]
    starts = len(columns) * np.arange(len(shares) + 1)
    return SparseRows(starts, np.tile(columns, len(shares)), np.concatenate(values).astype(X.dtype), X.n_columns)
