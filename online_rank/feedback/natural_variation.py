"""Estimates how often each position is examined, from logs without randomisation."""

from collections import defaultdict
from collections.abc import Hashable

import numpy as np

from online_rank import arguments
from online_rank.feedback.impressions import Clicks
from online_rank.feedback.position_bias import MOST_POSITIONS, fitted_examination

#: Fewest clicks in comparisons between two parts of the page for these to count as compared.
_FEWEST = 10.0


class UndeterminedError(ValueError):
    """Too few documents were shown at several positions."""


class NaturalVariation:
    r"""Harvest the examination of each position from a log of lists that were not drawn at random.

    Over time a document is shown for the same query at different positions, because rankers and the other documents change. For
    a document shown n_a times at a and n_b times at b, with C_a and C_b clicks, the weighted clicks

    .. math:: W_{ab} \mathrel{+}= \frac{n_b}{n_a + n_b} C_a, \quad W_{ba} \mathrel{+}= \frac{n_a}{n_a + n_b} C_b, \quad
        E W_{ab} : E W_{ba} = \theta_a : \theta_b

    are matches between the two positions, from which the examination is fitted as in `PositionBias`, over all pairs of
    positions.

    Assumptions: a click means that the position is examined and the document attracts; attraction does not change over the log;
    given query and document, the position does not depend on attraction. It depends on attraction if the log's ranker learned
    from the clicks of this very log. If in doubt, randomise some rankings (`PositionBias`).

    It keeps two numbers for each combination of document, query and position, so it is for logs, not for endless streams.

    Parameters
    ----------
    k
        Number of positions.

    Examples
    --------
    >>> from online_rank.feedback import Impression, NaturalVariation
    >>> log = NaturalVariation(k=2)
    >>> for day, order in enumerate([("a", "b"), ("b", "a")] * 40):
    ...     log.update("news", Impression(order).clicked(order if day % 4 < 2 else order[:1]))
    >>> [round(theta, 3) for theta in log.examination]  # 40 and 20 weighted clicks, and a match more in either direction
    [1.0, 0.512]

    References
    ----------
    Agarwal, Zaitsev, Wang, Li, Najork & Joachims, *Estimating Position Bias without Intrusive Interventions*, 2019: AllPairs.
    """

    def __init__(self, k: int = 10) -> None:
        arguments.integer("k", k, 1, MOST_POSITIONS)
        self.k = k
        #: Impressions and clicks by position (2, k), for each query and document.
        self.counts: dict[tuple[Hashable, Hashable], np.ndarray] = defaultdict(lambda: np.zeros((2, k)))

    def update(self, query: Hashable, clicks: Clicks) -> None:
        """Add the clicks on one list.

        Parameters
        ----------
        query
            The query that the list was shown for: a document is compared with itself within one query.
        clicks
            The clicks; engagement counts like a click of that size.
        """
        shown = clicks.impression
        positions = shown.positions or range(1, len(shown.order) + 1)
        for document, position, gain in zip(shown.order, positions, clicks.gains, strict=True):
            if position <= self.k:
                counts = self.counts[query, document]
                counts[0, position - 1] += 1.0
                counts[1, position - 1] += gain

    @property
    def matches(self) -> np.ndarray:
        """W, float64 (k, k): the wins of position a against position b."""
        wins = np.zeros((self.k, self.k))
        for shown, clicked in self.counts.values():
            if np.count_nonzero(shown) > 1:
                with np.errstate(invalid="ignore"):
                    share = np.where((shown > 0.0) & (shown[:, None] > 0.0), shown / (shown[:, None] + shown), 0.0)
                wins += clicked[:, None] * share
        np.fill_diagonal(wins, 0.0)
        return wins

    @property
    def examination(self) -> tuple[float, ...]:
        """theta_p / theta_1 for p = 1..k: falling, and 1 at first.

        Raises
        ------
        ValueError
            Some positions were never compared, or with fewer than 10 clicks, so this log does not determine their examination.
        """
        wins = self.matches
        apart = _apart(wins + wins.T)
        if apart:
            if not any(clicked.any() for _, clicked in self.counts.values()):
                raise ValueError(
                    f"nothing was clicked at the first {self.k} positions, or not in time: this log does not determine how "
                    "often they are examined"
                )
            raise UndeterminedError(
                f"position {apart[0]} and position 1 share no documents that were clicked, at least {_FEWEST:.0f} times: this "
                "log does not determine how often it is examined; take a smaller k, or a longer log"
            )
        return fitted_examination(wins)

    @property
    def known_examination(self) -> tuple[float, ...]:
        """As `examination`, for as many of the first positions as this log determines. Raises ValueError if it is only one."""
        wins, k = self.matches, self.k
        while apart := _apart((wins + wins.T)[:k, :k]):
            k = apart[0] - 1
        return fitted_examination(wins[:k, :k]) if k > 1 else self.examination


def _apart(matches: np.ndarray) -> list[int]:
    """The positions, from 1, that are not connected with position 1 by a chain of comparisons."""
    reached = {0}
    while True:
        rest = [p for p in range(len(matches)) if p not in reached]
        new = {p for p in rest if matches[p, list(reached)].sum() >= _FEWEST}
        if not new:
            return [p + 1 for p in rest]
        reached |= new
