r"""The cost of exploring: the share of the greedy list's DCG@k that users see in expectation if the list is drawn.

The first k documents of the greedy list are drawn among themselves from the Plackett-Luce distribution with the logits

.. math:: l_p = \tau\,(8 z_p - 4 \ln p),

with p the greedy place and z falling in p. Drawing adds Gumbel noise to the logits, so the document at q precedes the one at p
with probability :math:`1 / (1 + e^{l_p - l_q})`: the difference of two Gumbel variables is logistic. The expected place
of the document at p is therefore

.. math:: e_p = 1 + \sum_{q \ne p} \frac{1}{1 + e^{l_p - l_q}} \le p + \sum_{q = p + 1}^{k} \frac{1}{1 + (q / p)^{4 \tau}}.

**Theorem.** For any relevance of the documents the expected DCG@k of what is shown is at least :math:`\kappa` times the greedy
list's, with :math:`\kappa = \min_p D(e_p) / D(p)`. Proof. The discount D is convex, so a document counts at least D(e_p) in
expectation (Jensen); DCG@k is a sum over these documents with weights >= 0. QED.

If the last of the k documents gives way to one from beyond k with probability nu, independently of the draw, a document loses
at most nu D(k) of that, hence :math:`\kappa = \min_p (D(e_p) - \nu D(k)) / D(p)`.

For k <= 2 some more documents are drawn, to compare the shown ones with. Their logits are :math:`-4 \tau \ln q`, and kappa is
the minimum over p <= k of the exact expected discount of the document at p, divided by D(p).
"""

import functools
from collections.abc import Sequence

import numpy as np

#: If at most this many documents are shown, this many more are drawn and held back.
FEW, HELD_BACK = 2, 4
#: The largest tau: even of 1,000 documents none then changes its place.
_SHARPEST = 1e6
_HALVINGS = 60


def kept_share(
    logits: Sequence[float] | np.ndarray,
    places: Sequence[int] | np.ndarray,
    newcomers: float = 0.0,
    *,
    any_scores: bool = False,
) -> float:
    """Lower bound on the expected DCG of a draw as a share of the greedy list's, whichever documents are relevant.

    Parameters
    ----------
    logits
        (n,) logits of the documents that are drawn, in greedy order.
    places
        (k,) the positions on the page of those that are shown: all n, or at most 2.
    newcomers
        In this share of the lists another document takes the last place.
    any_scores
        For logits by ranks alone: the bound for all scores, which may separate the documents further, so that no document
        overtakes those above it.

    Examples
    --------
    >>> round(kept_share([20.0, 10.0, 0.0], [1, 2, 3]), 4)
    1.0
    >>> round(kept_share([0.0, 0.0], [1, 2]), 4)  # both at place 1.5: 1 / log2(2.5), where the first had 1
    0.7565
    >>> kept_share([0.0, 0.0], [1])  # the first is not shown in half of the draws
    0.5
    """
    values, k = np.asarray(logits, np.float64), len(places)
    if not k:
        return 1.0
    discounts = 1.0 / np.log2(np.asarray(places, np.float64) + 1.0)
    if len(values) == k:
        overtakes, is_whole = 1.0 / (1.0 + np.exp(np.minimum(values[:, None] - values, 700.0))), places[-1] == k
        if any_scores or not is_whole:
            overtakes[np.tri(k, k=-1, dtype=bool)] = 1.0
        expected_places = 0.5 + overtakes.sum(axis=1)  # half for the document itself
        if is_whole:
            expected = 1.0 / np.log2(expected_places + 1.0)
        else:
            expected = discounts - (expected_places - np.arange(1.0, k + 1.0)) * _steepest(discounts)
        expected = expected - newcomers * discounts[-1]
    else:
        weights = np.exp(np.maximum(values - values.max(), -700.0))
        first = weights / weights.sum()
        at = [first]
        if k == FEW:
            # Another one is first, and then this one of those that are left.
            left = (1.0 - np.eye(len(weights))) @ weights
            at.append(weights * ((first / left).sum() - first / left))
        at[-1] = (1.0 - newcomers) * at[-1]
        expected = (discounts @ at)[:k]
    return float(min(1.0, np.min(expected / discounts)))


def _steepest(discounts: np.ndarray) -> np.ndarray:
    """What each of k documents loses at most for each place further down.

    With gaps on the page, discounts may not be convex; D_p - (q - p) max over r > p of (D_p - D_r) / (r - p) is at most D_q.
    """
    k = len(discounts)
    lower = np.arange(k) - np.arange(k)[:, None]
    steepest: np.ndarray = np.where(lower > 0, (discounts[:, None] - discounts) / np.maximum(lower, 1), 0.0).max(axis=1)
    return steepest


@functools.lru_cache(maxsize=1024)
def sharpness(keep: float, places: tuple[int, ...], newcomers: float = 0.0) -> float:
    """The least tau with which a draw keeps at least the share `keep` of the greedy DCG over these places, for any scores; by
    bisection.

    Examples
    --------
    >>> round(sharpness(0.9742, (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)), 2), round(sharpness(0.98, (1,)), 2)
    (2.0, 1.44)
    """
    k = len(places)
    logs = -4.0 * np.log(np.arange(1.0, k + 1.0 + (HELD_BACK if k <= FEW else 0)))
    low, high = 0.0, 1.0
    while high < _SHARPEST and kept_share(high * logs, places, newcomers, any_scores=True) < keep:
        low, high = high, 2.0 * high
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if kept_share(middle * logs, places, newcomers, any_scores=True) < keep:
            low = middle
        else:
            high = middle
    return high
