"""Compares two rankers on live clicks."""

from typing import Any

import numpy as np
from river import base

from online_rank import arguments
from online_rank.base.draws import counted_generator
from online_rank.base.schema import Array, Count, Schema
from online_rank.feedback.impressions import Clicks, Impression
from online_rank.intervals import Interval, LossInterval


class _Votes(base.Base):
    """Counts votes of impressions, numbers from 0 to 1: 1 for ranker b, 0 for a."""

    _schema = Schema(_sums=Array(3, low=0.0))

    def __init__(self) -> None:
        self._sums = np.zeros(3)

    @property
    def n(self) -> int:
        """Number of impressions counted."""
        return self._account.n

    def interval(self, level: float = 0.95) -> Interval:
        """Interval for the mean expected vote over the impressions, valid at all times with probability `level`.

        1/2 means that users see no difference; b is better if the lower limit is above it.
        """
        return self._account.interval(level)

    @property
    def _account(self) -> LossInterval:
        account = LossInterval()
        account.sums = self._sums
        return account


class TeamDraft(_Votes):
    r"""Find which of two rankers users prefer: both rankings are drafted into one list, and clicks are votes.

    As captains pick teams: in each round a coin decides which ranker picks first, and each picks its best document among those
    not picked yet. A click is a point for the ranker that picked the document. An impression counts 1 for the ranker with more
    points, or 1/2 for each if they are equal. A user to whom the rankings are equally good prefers neither in expectation,
    under any position bias (Radlinski, Kurup & Joachims 2008). If one ranking runs out of documents, the other continues
    alone.

    The interval holds at all times at once, so you may stop or continue a comparison depending on it. Nothing is assumed about
    queries and users, and the rankers may continue to learn (`online_rank.intervals`).

    Parameters
    ----------
    a, b
        Rankers, or anything with `rank_one`.
    k
        How many documents are shown; None for all.
    seed
        Seed of the coins; comparison number t depends only on the seed and t.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> from online_rank.metrics import TeamDraft
    >>> a, b = PerceptronRanker(), PerceptronRanker()
    >>> query = {"old": {"age": 9.0}, "new": {"age": 1.0}}
    >>> b.learn_one(query, {"old": 0, "new": 1})
    >>> draft = TeamDraft(a, b, k=1, seed=1)
    >>> for _ in range(100):
    ...     shown = draft.show_one(query)
    ...     draft.update(shown.clicked(["new"] if "new" in shown.order else []))
    >>> round(draft.get(), 2)  # of the impressions, the part in which b was preferred, less that of a
    0.52
    >>> print(draft.interval())
    0.7600, 95 % interval 0.6... to 0.8..., n = 100
    """

    _schema = Schema(_n_shown=Count())

    def __init__(self, a: Any, b: Any, *, k: int | None = 10, seed: int = 0) -> None:
        super().__init__()
        for name, ranker in (("a", a), ("b", b)):
            if not hasattr(ranker, "rank_one"):
                raise TypeError(f"{name} is of type {type(ranker).__name__}; it is a ranker, or a pipeline that ends in one")
        arguments.integer("k", k, 1, optional=True)
        arguments.seed(seed)
        self.a = a
        self.b = b
        self.k = k
        self.seed = seed
        self._n_shown = 0

    def show_one(self, x: Any) -> Impression:
        """Draft the two rankings of a query into one.

        Returns
        -------
        An `Impression` whose `teams` say which ranker picked each document. Pass the clicks on it to `update`.
        """
        rng = counted_generator(self, self.seed, self._n_shown)
        shown = Impression.drafted({"a": self.a.rank_one(x), "b": self.b.rank_one(x)}, self.k, rng)
        self._n_shown += 1
        return shown

    def update(self, clicks: Clicks) -> None:
        """Count the clicks on an impression of `show_one`; engagement counts as points.

        Raises
        ------
        TypeError
            `clicks` are not clicks on an impression of `show_one`.
        """
        teams = clicks.impression.teams if isinstance(clicks, Clicks) else None
        if teams is None or not {"a", "b"}.issuperset(teams):
            raise TypeError("clicks are those on an impression of TeamDraft.show_one: draft.update(shown.clicked([...]))")
        self._account.update(clicks.vote("b"))

    def get(self) -> float:
        """The share of impressions in which b was preferred, minus the share for a: from -1 to 1; 0 before the first."""
        return 2.0 * self._account.mean - 1.0 if self.n else 0.0
