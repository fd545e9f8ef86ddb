r"""The cost of exploring: the share of the greedy ranking's DCG that a ranking from the Plackett-Luce distribution keeps.

Drawing adds Gumbel noise to the logits l, so document j is placed before i with probability
:math:`1 / (1 + e^{l_i - l_j})`: the difference of two Gumbel variables is logistic. The expected position of i is

.. math:: e_i = 1 + \sum_{j \ne i} \frac{1}{1 + e^{l_i - l_j}},

and, the discount D being convex, a gain on i is expected to count at least :math:`D(e_i)` (Jensen).

The logits of `PlackettLuce` are a (8 z - 4 ln rank) with z falling in the rank, so those of the greedy positions p < q differ
by at least 4 a ln(q / p) for any scores. At most p - 1 documents above p precede it, hence
:math:`e_p \le p + \sum_{q > p} 1 / (1 + (q / p)^{4a})`.
"""

import functools
from collections.abc import Sequence

import numpy as np

from online_rank import arguments

# Number of rows of differences that are in memory at once.
_ROWS = 256
# Number of positions whose loss is summed one by one; an integral bounds the loss at all others.
_PLACES, _BELOW = 400, 2_000


def expected_places(logits: Sequence[float] | np.ndarray) -> np.ndarray:
    """The exact expected position, from 1, of each of m documents in a Plackett-Luce draw; in O(m^2).

    Parameters
    ----------
    logits
        (m,) logits.

    Examples
    --------
    >>> import numpy as np
    >>> expected_places(np.log([3.0, 1.0])).tolist()  # the first stands first in 3 of 4 draws
    [1.25, 1.75]
    """
    values = np.asarray(logits, np.float64)
    return _first_places(values, len(values))


def _first_places(values: np.ndarray, n: int) -> np.ndarray:
    """The expected positions of the first n of m documents, by their logits (m,)."""
    places = np.empty(n)
    for a in range(0, n, _ROWS):
        lead = np.minimum(values[a : min(a + _ROWS, n), None] - values, 700.0)
        # Half for itself.
        places[a : a + _ROWS] = 0.5 + (1.0 / (1.0 + np.exp(lead))).sum(axis=1)
    return places


def kept_share(logits: Sequence[float] | np.ndarray, *, k: int | None = None) -> float:
    """Lower bound on the expected DCG of a draw as a share of the greedy ranking's DCG, whichever documents are relevant.

    All m documents are drawn, and each counts with the discount of its position, even below the k that are shown.

    Parameters
    ----------
    logits
        (m,) logits of all documents of a query.
    k
        Only the k documents that the greedy ranking would show may be relevant, which takes O(m k); None: any, in O(m^2).

    Examples
    --------
    >>> round(kept_share([20.0, 10.0, 0.0]), 4)
    1.0
    >>> round(kept_share([0.0, 0.0]), 4)  # both at place 1.5: 1 / log2(2.5), where the first had 1
    0.7565
    """
    arguments.integer("k", k, 1, optional=True)
    values = np.sort(np.asarray(logits, np.float64))[::-1]
    n = len(values) if k is None else min(k, len(values))
    if not n:
        return 1.0
    places = np.arange(1.0, n + 1.0)
    return float(np.min(np.log2(places + 1.0) / np.log2(_first_places(values, n) + 1.0)))


@functools.lru_cache(maxsize=256)
def retention(confidence: float) -> float:
    """Lower bound, for any scores, on the expected DCG of `PlackettLuce` as a share of the greedy ranking's DCG.

    It is for the DCG of the whole drawn ranking, with equal scores in the order of the greedy one. Of DCG@k less may be kept if
    the k documents are drawn from more: place 10 of 300 equal scores keeps about half.

    Parameters
    ----------
    confidence
        a, from 0 to 1. Up to 1/4 nothing can be said without the scores, and the bound is 0.

    Examples
    --------
    >>> [round(retention(a), 3) for a in (1.0, 0.75, 0.5, 0.25)]
    [0.92, 0.871, 0.732, 0.0]
    """
    arguments.number("confidence", confidence, 0.0, 1.0)
    steepness = 4.0 * confidence
    if steepness <= 1.0:
        return 0.0
    below = np.arange(1.0, _BELOW + 1.0)
    shares = []
    for place in range(1, _PLACES + 1):
        overtaking = (1.0 / (1.0 + (below[place:] / place) ** steepness)).sum()
        # The sum of the rest is at most the integral of (q / p)^-steepness.
        overtaking += place * (_BELOW / place) ** (1.0 - steepness) / (steepness - 1.0)
        shares.append(np.log2(place + 1.0) / np.log2(place + overtaking + 1.0))
    # An upper bound on the integral from 1 on: an alternating series, cut off from above.
    k = np.arange(20 * _BELOW + 1.0)
    integral = ((-1.0) ** k / (steepness * (k + 1.0) - 1.0)).sum()
    shares.append(np.log2(_PLACES + 1.0) / np.log2(_PLACES * (1.0 + integral) + 1.0))
    return float(min(shares))
