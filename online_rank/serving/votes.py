"""Lists drafted by two models: what they cost users, and how many there may be."""

import numpy as np

#: The share of lists that are drafted without a budget, and the most with one.
HALF = 0.5
#: The most documents of lists whose drafts are all looked at.
_MOST_DRAFTED = 12


def share_of_votes(keep: float, k: int) -> float:
    """The least share of drafted lists whose price is half of the budget; at most half of the lists."""
    return min(HALF, 0.5 * (1.0 - keep) / (1.0 - least_drafted(k)))


def least_drafted(k: int) -> float:
    """The least share of DCG@k that a list keeps which is drafted from two orders of k documents, for any other order.

    Document p is picked in round p at the latest: at place 2p - 1 or 2p with the same probability, or else at the last place.

    Examples
    --------
    >>> round(least_drafted(10), 4)  # the second document, at place 3 or 4
    0.7375
    """
    places = np.arange(1.0, k + 1.0)
    first, second = np.minimum(2.0 * places - 1.0, k), np.minimum(2.0 * places, k)
    lowest = 0.5 / np.log2(first + 1.0) + 0.5 / np.log2(second + 1.0)
    return float(np.min(lowest * np.log2(places + 1.0), initial=1.0))


def kept_by_draft(places: list[int]) -> float:
    """The least share of DCG that a draft of two orders keeps of the first one, for any relevance of the documents.

    Parameters
    ----------
    places
        The places, from 0, that the second order gives to the documents of the first one, best first.

    Returns
    -------
    The least ratio, over documents, of the expected discount of a document's place in the draft, over all coins, and the
    discount of its place in the first order. For long lists `least_drafted`.

    Examples
    --------
    >>> kept_by_draft([0, 1, 2]), round(kept_by_draft([1, 0]), 4)  # alike; the first one is shown first or second
    (1.0, 0.8155)
    """
    k = len(places)
    if k > _MOST_DRAFTED:
        return least_drafted(k)
    discounts, expected = 1.0 / np.log2(np.arange(2.0, k + 3.0)), np.zeros(k)
    other = sorted(range(k), key=places.__getitem__)
    states: dict[frozenset[int], float] = {frozenset(): 1.0}
    for begin in range(0, k, 2):
        following: dict[frozenset[int], float] = {}
        for taken, chance in states.items():
            for orders in ((range(k), other), (other, range(k))):
                now = taken
                for place, order in enumerate(orders, start=begin):
                    if len(now) < k:
                        document = next(each for each in order if each not in now)
                        expected[document] += 0.5 * chance * discounts[place]
                        now |= {document}
                following[now] = following.get(now, 0.0) + 0.5 * chance
        states = following
    return float(min(np.min(expected / discounts[:k], initial=1.0), 1.0))
