r"""Tests, at any time, whether the lists of a log were drawn as claimed.

The log claims that the document at position p of a list was chosen with probability :math:`P_p` from the :math:`n_p` candidates
that were left. If so, each of these numbers of a list has an expectation of at most 1, given all lists before it (means are
over the positions p):

- *candidates*: the mean of :math:`1 / (n_p P_p)`. In expectation, the share of candidates with a probability above 0.
- *again*: the mean of :math:`1\{\text{shown}_p = \tau_p\} / P_p`, an importance weight, with tau the list that was shown the
  last time for the same candidates. A deterministic log repeats it.
- *foreseen*: the same, with tau the ranking of a learner that foresees lists: by the mean place so far of each document, and by
  how each feature has gone with places.
- *sure*: the mean of :math:`P_p / (P_p^2 + (1 - P_p)^2)`, which is above 1 where P is above 1/2. Its expectation is
  :math:`\sum_i q_i^2 / (q_i^2 + (1 - q_i)^2) \le \sum_i q_i^2 / \sum_j q_j^2 = 1`, with q the probabilities of all candidates.

**Theorem.** Bets of fixed shares lambda in (0, 1) on these numbers U_t have the wealth

.. math:: W_n = \text{mean over numbers and shares of } \prod_{t \le n} (1 + \lambda (U_t / 1.05 - 1)),

and if the lists were drawn as claimed, :math:`P(W_n \ge 1 / \alpha \text{ for any } n) \le \alpha`. The factor 1.05 allows
for probabilities that are rounded: it holds for all logs whose expectations are at most 1.05.

Proof. Each factor is >= 0 with an expectation of at most 1, so W_n is a nonnegative supermartingale that begins with 1; Ville's
inequality. QED. Nothing is assumed of queries, documents and users, and policies may learn.
"""

import heapq
from collections.abc import Hashable, Sequence

import numpy as np

from online_rank import arguments
from online_rank.feedback.impressions import Impression

#: The shares of the wealth that are bet.
_SHARES = 0.9 * 0.5 ** np.arange(6.0)
#: By how much the expectations may be above 1: probabilities are rounded.
_ROUNDED = 1.05
#: What the numbers say when they are too large.
_SAYS = (
    "the inverse probabilities are {0:.1f} times what they can be for these candidates: candidates that were not shown have no "
    "row, or the probabilities are too small",
    "for the same candidates the list shown before comes again {0:.1f} times as often as the probabilities say: the log looks "
    "deterministic",
    "a learner foresees the documents {0:.1f} times as often as the probabilities say: the lists were not drawn like this, a "
    "row is of a document that could not be shown, or a column depends on the list",
    "documents with large probabilities are shown more often than these say: the probabilities are too large",
)
#: A log is deterministic if candidates came again in at least this many lists, and each list equals the one before.
_FEWEST = 10
_NAMED = 3


class OriginTest:
    """Test the claimed origin of the lists of a log: drawn with their probabilities, or moved without chance.

    Parameters
    ----------
    alpha
        The most probability with which a log whose claim is true is ever refused.

    Attributes
    ----------
    n : int
        Number of lists.
    n_alone : int
        Number of lists with one candidate, from which nothing can be learned.

    Examples
    --------
    >>> from online_rank.feedback import Impression, OriginTest
    >>> test = OriginTest()
    >>> for row in range(100):  # always in the same order
    ...     test.update(("a", "b", "c"), Impression.shuffled(("a", "b", "c")), where=f"list {row + 1}")
    Traceback (most recent call last):
        ...
    ValueError: list 2, list 3, list 4: ...deterministic...

    References
    ----------
    Waudby-Smith & Ramdas, *Estimating Means of Bounded Random Variables by Betting*, 2024.
    """

    def __init__(self, alpha: float = 0.001) -> None:
        arguments.number("alpha", alpha, above=0.0, below=1.0)
        self.alpha = alpha
        self.n = self.n_alone = 0
        self._wealth = np.zeros((len(_SAYS), len(_SHARES)))
        self._sums = np.zeros(len(_SAYS))
        self._rows: list[list[tuple[float, int, str]]] = [[] for _ in _SAYS]
        # The last list for each set of candidates, and how many came again, and how many of these were equal. By their hashes,
        # as most of a log may be lists that never come again; the order itself only where bets need it.
        self._last: dict[int, tuple[Hashable, ...] | int] = {}
        self._again = self._equal = 0
        # The number of lists with each document, and the sum of its places; of features, their mean products with places.
        self._places: dict[Hashable, tuple[int, float]] = {}
        self._slopes = np.zeros(0)

    @property
    def evidence(self) -> float:
        """The wealth: how many times better the lists are foreseen than if they had been drawn as claimed."""
        return float(np.exp(np.minimum(self._wealth, 700.0)).mean())

    def update(
        self, candidates: Sequence[Hashable], shown: Impression, X: np.ndarray | None = None, where: str = "a list"
    ) -> None:
        """Count a list.

        Parameters
        ----------
        candidates
            The ids of the m documents from which it was chosen.
        shown
            The list, with its probabilities if they are known.
        X
            Features (m, d) of the candidates, finite; None for none.
        where
            What to call it in messages.

        Raises
        ------
        ValueError
            The list contradicts its probabilities, or the evidence against the claimed origin has reached 1 / alpha.
        """
        marginal = shown.placements is not None
        chances = shown.placements if marginal else shown.chances
        m = len(candidates)
        self.n += 1
        self.n_alone += m == 1
        key, order = hash(frozenset(candidates)), shown.order if chances is not None else hash(shown.order)
        before = self._last.get(key)
        if before is not None:
            self._again += 1
            self._equal += before == order
        X = np.zeros((m, 0)) if X is None else X
        if chances is not None:
            left = [m if marginal else m - p for p in range(len(shown.order))]
            _require_chance(shown, chances, left, where)
            again = before if isinstance(before, tuple) else ()
            targets = [again, self._foreseen(candidates, X)] if m > 1 else [(), ()]
            numbers = _numbers(shown.order, np.array(chances), np.array(left), targets, marginal)
            self._bet(numbers, where)
            self._meet(candidates, shown.order, X)
        self._last[key] = order

    def finish(self, *, moved: bool = True) -> None:
        """Raise ValueError if the log had no lists, nothing to compare, or only lists that come again as they were.

        The last only if documents must have `moved`, because nothing else says how often positions are examined.
        """
        if not self.n:
            raise ValueError("the log has no lists: no row has a position")
        if self.n_alone == self.n:
            raise ValueError(
                "each list has one document and no other candidate, so there is nothing to compare it with: add rows, without "
                "a position, of the documents that might have been shown"
            )
        if moved and self._equal == self._again >= _FEWEST:
            raise ValueError(
                f"all {self._again:,} lists whose candidates came before are equal to the list before: the log is "
                "deterministic. There position 2 and position 1 share no documents that were clicked, and nothing follows "
                "about another order"
            )

    def _bet(self, numbers: np.ndarray, where: str) -> None:
        """Bet on the numbers of a list. Raises ValueError if the wealth suffices."""
        self._wealth += np.log1p(_SHARES * (numbers[:, None] / _ROUNDED - 1.0))
        self._sums += numbers
        for rows, number in zip(self._rows, numbers.tolist(), strict=True):
            heapq.heappush(rows, (number, -self.n, where))
            if len(rows) > _NAMED:
                heapq.heappop(rows)
        if self.evidence < 1.0 / self.alpha:
            return
        # The first cause that explains at least half of the strongest evidence: later ones follow from it.
        strongest = self._wealth.max(axis=1)
        worst = int((strongest >= 0.5 * strongest.max()).argmax())
        named = ", ".join(where for _, _, where in sorted(self._rows[worst], key=lambda row: -row[1]))
        says = _SAYS[worst].format(self._sums[worst] / self.n)
        raise ValueError(
            f"{named}: the lists were not drawn as claimed. After {self.n:,} lists {says} "
            f"(evidence {self.evidence:,.0f} to 1; a true log ever reaches {1.0 / self.alpha:,.0f} to 1 with probability "
            f"{100 * self.alpha:g} % at most)"
        )

    def _foreseen(self, candidates: Sequence[Hashable], X: np.ndarray) -> list[Hashable]:
        """The candidates in the order in which they are foreseen."""
        scores = _standardised(X)[:, : len(self._slopes)] @ self._slopes[: X.shape[1]] / max(1, self.n - 1)
        met = [self._places.get(document, (0, 0.0)) for document in candidates]
        scores += [total / (number + 2.0) for number, total in met]
        return [candidates[i] for i in np.argsort(-scores, kind="stable").tolist()]

    def _meet(self, candidates: Sequence[Hashable], order: Sequence[Hashable], X: np.ndarray) -> None:
        """Learn to foresee lists: places count from 1/2 at the top to -1/2; those not shown share the mean of theirs."""
        m, k = len(candidates), len(order)
        if m < 2:
            return
        places = dict.fromkeys(candidates, 0.5 - 0.5 * (k + m - 1) / (m - 1))
        places |= {document: 0.5 - p / (m - 1) for p, document in enumerate(order)}
        for document, place in places.items():
            number, total = self._places.get(document, (0, 0.0))
            self._places[document] = number + 1, total + place
        slopes = np.array([places[document] for document in candidates]) @ _standardised(X) / m
        slopes[: len(self._slopes)] += self._slopes[: len(slopes)]
        self._slopes = slopes


def _require_chance(shown: Impression, chances: Sequence[float], left: Sequence[int], where: str) -> None:
    """Raise ValueError if the only document left has a probability below 1, or one of several has probability 1."""
    for document, chance, n in zip(shown.order, chances, left, strict=True):
        if n == 1 and chance < 0.99:
            raise ValueError(
                f"{where}: document {document!r:.60} is the only candidate that was left, but its probability is {chance:g}: "
                "the other candidates need rows too, without a position"
            )
        if n > 1 and chance >= 1.0:
            raise ValueError(
                f"{where}: document {document!r:.60} has probability 1, although {n - 1} other candidates were left: it was "
                "not drawn. If no list was, use the origin moved; a pinned document has no row, and leaves a gap in positions"
            )


def _numbers(
    order: Sequence[Hashable], chances: np.ndarray, left: np.ndarray, targets: Sequence[Sequence[Hashable]], marginal: bool
) -> np.ndarray:
    """The numbers of a list on which bets are placed."""
    found = [(1.0 / (left * chances)).mean()]
    for target in targets:
        rest, total = iter(target), 0.0
        gone: set[Hashable] = set()
        wanted = next(rest, None)
        for document, inverse in zip(order, (1.0 / chances).tolist(), strict=True):
            while wanted in gone and not marginal:
                wanted = next(rest, None)
            # Without a target there is no bet.
            total += 1.0 if wanted is None else inverse * (document == wanted)
            gone.add(document)
            if marginal:
                wanted = next(rest, None)
        found.append(total / len(order))
    found.append((chances / (chances**2 + (1.0 - chances) ** 2)).mean())
    return np.array(found)


def _standardised(X: np.ndarray) -> np.ndarray:
    """Features with mean 0 and deviation 1 within a query; 0 where they are equal."""
    centred = X - X.mean(axis=0)
    deviation = centred.std(axis=0)
    return np.divide(centred, deviation, out=np.zeros(X.shape), where=deviation > 0.0)
