"""Policies that draw the ranking to show, with enough randomness that its clicks can be learned from."""

import abc
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from river import base

from online_rank import arguments
from online_rank._kernels import clicks as kernels
from online_rank.base.draws import counted_generator
from online_rank.base.schema import Schema
from online_rank.feedback.exploring import kept_share, retention
from online_rank.feedback.impressions import Impression

#: If at most this many documents are shown, this many more are drawn and held back.
FEW, HELD_BACK = 2, 4
#: What exploring costs is computed for at most this many of the best documents, so that long lists do not take m^2.
_FIRST = 100


class Policy(base.Base, abc.ABC):
    """Base class of policies, which draw the ranking to show from scores. Without state: draw number t of a seed never
    changes.
    """

    _schema = Schema()

    def __init__(self, k: int | None = 10, *, seed: int = 0) -> None:
        arguments.integer("k", k, 1, optional=True)
        arguments.seed(seed)
        self.k = k
        self.seed = seed

    def _record(self, log: list[Callable[[], None]], block: Any = None) -> None:
        """Nothing to undo: a policy never changes."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def show(
        self, scores: Sequence[float] | np.ndarray | Mapping[Hashable, float], draw: int, confidence: float = 1.0
    ) -> Impression:
        """Draw the ranking to show.

        Parameters
        ----------
        scores
            Scores of the m documents of a query, or `{id: score}`, as `predict_one` of any ranker returns them.
        draw
            Number of the draw: the same number gives the same randomness. Use a counter, or a number of the request.
        confidence
            How far to trust the scores, from 0 (not at all: a random order) to 1.

        Raises
        ------
        ValueError
            A score is not finite, or `confidence` is not between 0 and 1.
        """
        arguments.number("confidence", confidence, 0.0, 1.0)
        ids: Sequence[Hashable] = tuple(scores) if isinstance(scores, Mapping) else range(len(scores))
        values = np.array(list(scores.values()) if isinstance(scores, Mapping) else scores, np.float64)
        if not np.isfinite(values).all():
            i = int(np.flatnonzero(~np.isfinite(values))[0])
            raise ValueError(f"scores: that of document {ids[i]!r} is {values[i]}; scores are finite")
        rng = counted_generator(self, self.seed, draw)
        return self.draw_list(values, ids, len(values) if self.k is None else min(self.k, len(values)), rng, confidence)

    @abc.abstractmethod
    def retention(self, confidence: float) -> float:
        """Lower bound, for any scores, on the expected DCG of a draw as a share of the greedy ranking's DCG."""

    def kept_share(self, scores: Sequence[float] | np.ndarray, confidence: float = 1.0) -> float:
        """Lower bound, for these scores, on the expected DCG of a draw as a share of the greedy ranking's DCG.

        Documents that the greedy ranking would not show, or below its first 100, count as not relevant. Here, `retention`.
        """
        return self.retention(confidence) if len(scores) > 1 else 1.0

    @abc.abstractmethod
    def draw_list(
        self, scores: np.ndarray, ids: Sequence[Hashable], k: int, rng: np.random.Generator, confidence: float
    ) -> Impression:
        """Draw a list: what a policy of your own writes.

        Parameters
        ----------
        scores
            Finite scores (m,), float64.
        ids
            The m documents.
        k
            How many to show, at most m.
        rng
            Where all randomness comes from.
        confidence
            How far to trust the scores, from 0 to 1.

        Returns
        -------
        Impression
            The list, with what learning from its clicks needs: logits, or propensities.
        """


class PlackettLuce(Policy):
    r"""Draw documents one after the other, better ones with a higher probability.

    Each of the remaining documents is drawn with probability proportional to exp(logit), where

    .. math:: \mathrm{logit}_i = a\,\Big(8\,\frac{s_i - \bar s}{\mathrm{std}(s)} - 4 \ln \mathrm{rank}_i\Big),

    with the first term 0 if all scores are equal; tied documents have the ranks that `rank_one` gives them. One term depends on
    scores and the other on ranks, so that neither outliers nor ties dominate, and both are independent of the scale of scores.
    The confidence a in [0, 1] is the ranker's own (`SwapRanker`: how clearly the gradients so far agree), and 1 for rankers
    without one; 0 draws uniformly.

    Drawing adds Gumbel noise to the logits and takes the k largest. Every ranking has a positive probability. If only one or
    two documents are shown, some more are drawn and held back for comparison.

    Parameters
    ----------
    k
        Number of documents shown; None for all.
    seed
        Seed of the draws.

    Examples
    --------
    >>> from online_rank.feedback import PlackettLuce
    >>> policy = PlackettLuce(k=2, seed=1)
    >>> shown = policy.show({"a": 0.3, "b": 0.1, "c": 0.2}, draw=0)
    >>> shown.order
    ('a', 'c')
    >>> shown == policy.show({"a": 0.3, "b": 0.1, "c": 0.2}, draw=0)
    True
    """

    def retention(self, confidence: float) -> float:
        """Lower bound, for any scores, on the expected DCG of a draw as a share of the greedy ranking's DCG.

        It is `online_rank.feedback.exploring.retention`, for the DCG of the whole drawn ranking: .92 at confidence 1.
        """
        return retention(confidence)

    def logits(self, scores: Sequence[float] | np.ndarray, confidence: float = 1.0) -> np.ndarray:
        """The m logits from which the ranking of m documents with these scores is drawn, float64.

        Raises
        ------
        ValueError
            The scores have no finite standard deviation, or `confidence` is not between 0 and 1.
        """
        arguments.number("confidence", confidence, 0.0, 1.0)
        return self._mixed(scores, confidence)

    def _mixed(self, scores: Sequence[float] | np.ndarray, confidence: float) -> np.ndarray:
        """`logits`, at a confidence from 0 to 1."""
        values = np.asarray(scores, np.float64)
        logits = np.empty(len(values))
        if not kernels.mixed_logits(values, float(confidence), logits):
            raise ValueError("scores are too large for a deviation; scale the features")
        return logits

    def kept_share(self, scores: Sequence[float] | np.ndarray, confidence: float = 1.0) -> float:
        """Lower bound, for these scores, on the expected DCG of a draw as a share of the greedy ranking's DCG.

        `online_rank.feedback.exploring.kept_share` of the logits and k, at most 100.
        """
        return kept_share(self.logits(scores, confidence), k=_FIRST if self.k is None else min(self.k, _FIRST))

    def draw_list(
        self, scores: np.ndarray, ids: Sequence[Hashable], k: int, rng: np.random.Generator, confidence: float
    ) -> Impression:
        """As `Policy.draw_list`."""
        n = min(k + (HELD_BACK if k <= FEW else 0), len(scores))
        logits = self._mixed(scores, confidence)
        order, drawn_logits = np.empty(n, np.int64), np.empty(n)
        rest = kernels.draw(logits, rng.gumbel(size=len(scores)), n, order, drawn_logits)
        drawn = tuple(order.tolist() if isinstance(ids, range) else [ids[i] for i in order.tolist()])
        return Impression(drawn[:k], tuple(drawn_logits.tolist()), rest if n < len(scores) else None, held_back=drawn[k:])


class FairPairs(Policy):
    """Show the ranking by scores, with each pair of neighbours in random order (Radlinski & Joachims 2006).

    The pairs are those of the positions (0, 1), (2, 3), ... or (1, 2), (3, 4), ..., each partition half of the time. No
    document moves by more than one position, so even a cautious site can learn from clicks, though more slowly, since only
    neighbours are compared. If only one or two documents are shown, the last may be exchanged with the next one, which is held
    back.

    Parameters
    ----------
    k
        How many documents are shown; None for all.
    seed
        Seed of the draws.

    References
    ----------
    Radlinski & Joachims, *Minimally Invasive Randomization for Collecting Unbiased Preferences from Clickthrough Logs*, 2006.

    Examples
    --------
    >>> from online_rank.feedback import FairPairs
    >>> shown = FairPairs(k=4, seed=2).show([0.4, 0.3, 0.2, 0.1, 0.0], draw=0)
    >>> shown.order, shown.pairs_from
    ((1, 0, 2, 3), 0)
    """

    def retention(self, confidence: float) -> float:
        """Lower bound, for any scores, on the expected DCG@k of a draw as a share of the greedy ranking's: .908 from k = 3 on.

        The first document loses in a quarter of the draws. All others move up as often as down, and discounts are convex; but
        the second of two that are shown leaves the list in a quarter, and with it all that it brings.
        """
        first, second = 1.0 - 0.25 * (1.0 - 1.0 / math.log2(3.0)), 0.5 + 0.25 * math.log2(3.0)
        return 0.75 if self.k == 1 else second if self.k == 2 else first

    def draw_list(
        self, scores: np.ndarray, ids: Sequence[Hashable], k: int, rng: np.random.Generator, confidence: float
    ) -> Impression:
        """As `Policy.draw_list`."""
        order = np.argsort(-scores, kind="stable")
        n = min(k + (k <= FEW), len(order))
        first = int(rng.integers(2))
        swaps = rng.random(len(order) // 2) < 0.5
        for a, swap in zip(range(first, n - 1, 2), swaps.tolist(), strict=False):
            if swap:
                order[a], order[a + 1] = order[a + 1], order[a]
        drawn = tuple([ids[i] for i in order[:n].tolist()])
        return Impression(drawn[:k], pairs_from=first, held_back=drawn[k:])


class Greedy(Policy):
    """Show the best documents in order, without chance.

    Clicks on its lists teach only rankers that know how often each position is looked at
    (`ClickPerceptron(credit="propensity", examination=...)`).

    Parameters
    ----------
    k
        How many documents are shown; None for all.
    seed
        Not used.

    Examples
    --------
    >>> from online_rank.feedback import Greedy
    >>> Greedy(k=2).show({"a": 0.1, "b": 0.3, "c": 0.2}, draw=0)
    Impression(order=('b', 'c'), ...)
    """

    def retention(self, confidence: float) -> float:
        """The share of the greedy ranking's DCG that is kept: 1."""
        return 1.0

    def draw_list(
        self, scores: np.ndarray, ids: Sequence[Hashable], k: int, rng: np.random.Generator, confidence: float
    ) -> Impression:
        """As `Policy.draw_list`."""
        return Impression(tuple(ids[i] for i in np.argsort(-scores, kind="stable")[:k].tolist()))


def require_policy(policy: Any) -> None:
    """Raise TypeError unless `policy` is a policy or None."""
    if policy is not None and not isinstance(policy, Policy):
        raise TypeError(f"policy is {policy!r}; it is a policy of online_rank.feedback, such as PlackettLuce(k=10)")
