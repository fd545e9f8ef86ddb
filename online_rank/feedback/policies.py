"""Policies that draw the ranking to show, with enough randomness that its clicks can be learned from."""

import abc
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from river import base

from online_rank import arguments
from online_rank._kernels import clicks as kernels
from online_rank.base.draws import counted_generator
from online_rank.base.schema import Schema
from online_rank.feedback.exploring import FEW, HELD_BACK, kept_share, sharpness
from online_rank.feedback.impressions import Impression


class Policy(base.Base, abc.ABC):
    """Base class of policies, which draw the ranking to show from scores. Without state: draw number t of a seed never
    changes.
    """

    _schema = Schema()

    #: The budget: the least share of the greedy list's DCG@k that users see in expectation, whichever documents are relevant
    #: and for any scores; None without a budget.
    keep: float | None = None

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
        self,
        scores: Sequence[float] | np.ndarray | Mapping[Hashable, float],
        draw: int,
        confidence: float = 1.0,
        *,
        pinned: Mapping[int, Hashable] | None = None,
        excluded: Iterable[Hashable] = (),
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
        pinned
            `{position: document}`, positions from 1: these documents have their places, and the others are drawn over the free
            ones.
        excluded
            Documents that are not shown. As those that are pinned, they leave before the draw, so that its probabilities are
            exact.

        Raises
        ------
        TypeError, ValueError
            A score is not finite, `confidence` is not between 0 and 1, or a document is pinned that is not in the query, is
            pinned twice or excluded, or is pinned below the places that are shown.
        """
        arguments.number("confidence", confidence, 0.0, 1.0)
        ids: Sequence[Hashable] = tuple(scores) if isinstance(scores, Mapping) else range(len(scores))
        values = np.array(list(scores.values()) if isinstance(scores, Mapping) else scores, np.float64)
        if not np.isfinite(values).all():
            i = int(np.flatnonzero(~np.isfinite(values))[0])
            raise ValueError(f"scores: document {ids[i]!r} has {values[i]}; scores are finite")
        pins = _checked_pins(pinned or {}, ids, excluded := {*excluded})
        leaving = excluded | {*pins.values()}
        length = self.k or max(len(values) - len(leaving & {*ids}) + len(pins), *pins, 0)
        if (last := max(pins, default=0)) > length:
            raise ValueError(f"pinned has position {last}, but {length} documents are shown")
        if leaving:
            stay = [i for i, name in enumerate(ids) if name not in leaving]
            values, ids = values[stay], [ids[i] for i in stay]
        n_filled = min(length, len(values) + len(pins))  # k may be any number
        places = [place for place in range(1, n_filled + 1) if place not in pins]
        shown = self.draw_list(values, ids, np.array(places, np.int64), counted_generator(self, self.seed, draw), confidence)
        if not pins:
            return shown
        return replace(shown, positions=tuple(places[: len(shown.order)]), pinned=tuple(sorted(pins.items())))

    @abc.abstractmethod
    def draw_list(
        self, scores: np.ndarray, ids: Sequence[Hashable], places: np.ndarray, rng: np.random.Generator, confidence: float
    ) -> Impression:
        """Draw a list: what a policy of your own writes.

        Parameters
        ----------
        scores
            Finite scores (m,), float64.
        ids
            The m documents.
        places
            The positions on the page to fill, from 1, rising; at most m. Without pinned documents, 1 to k.
        rng
            Where all randomness comes from.
        confidence
            How far to trust the scores, from 0 to 1.

        Returns
        -------
        Impression
            The list, with what learning from its clicks needs: logits, or propensities; and with `kept`, if it is known.
        """


class PlackettLuce(Policy):
    r"""Draw documents one after the other, better ones with a higher probability.

    **With a budget**, `keep`, the first k documents of the greedy list are drawn among themselves, each with probability
    proportional to exp(logit) among the remaining ones, where

    .. math:: \mathrm{logit}_p = \tau\,\Big(8\,\frac{s_p - \bar s}{\mathrm{std}(s)} - 4 \ln p\Big)

    for the document at the greedy place p, and tau is the least number with which the expected DCG@k that users see is at least
    `keep` of the greedy list's, for any scores and any relevance (`online_rank.feedback.exploring`). The confidence of a ranker
    does not matter. This is for models whose ranking is worth something: except for newcomers, all lists show the same k
    documents. If k <= 2, four more documents are drawn and held back for comparison, and the first term is 0.

    **Without a budget**, all documents are drawn, with the confidence a in [0, 1] of the ranker (`SwapRanker`: how clearly the
    gradients so far agree) in place of tau. This is for models that begin with nothing, whose scores are all equal: a = 0 draws
    uniformly. What users lose meanwhile is not limited.

    One term depends on scores and the other on ranks, so that neither outliers nor ties dominate, and both are independent of
    the scale of scores. The first term is 0 if all scores are equal; tied documents have the ranks that `rank_one` gives them.

    Parameters
    ----------
    k
        Number of documents shown; None for all, without a budget.
    keep
        The budget, above 0 and below 1 - newcomers; None for none.
    newcomers
        In this share of the lists, a document from beyond the drawn ones takes the last place, each with the same probability.
        Clicks on it are not compared with others (an exchange of the two documents has probability 0); propensities have the
        probability of the newcomer, so that learning by propensities and `OffPolicyValue` are exact.
    seed
        Seed of the draws.

    Raises
    ------
    ValueError
        `keep` is not below 1 - newcomers, or one is given without what it needs.

    Examples
    --------
    >>> from online_rank.feedback import PlackettLuce
    >>> policy = PlackettLuce(k=2, keep=0.98, seed=1)
    >>> shown = policy.show({"a": 0.3, "b": 0.1, "c": 0.2}, draw=0)
    >>> shown.order, shown.kept >= 0.98
    (('a', 'c'), True)
    >>> shown == policy.show({"a": 0.3, "b": 0.1, "c": 0.2}, draw=0)
    True
    """

    def __init__(self, k: int | None = 10, *, keep: float | None = None, newcomers: float = 0.0, seed: int = 0) -> None:
        super().__init__(k, seed=seed)
        arguments.number("keep", keep, above=0.0, below=1.0, optional=True)
        arguments.number("newcomers", newcomers, 0.0, below=1.0)
        if keep is None and newcomers:
            raise ValueError(f"newcomers is {newcomers} without keep: without a budget every document can be drawn")
        if keep is not None and k is None:
            raise ValueError(f"keep is {keep} and k None: a budget is for the k documents that users see")
        if keep is not None and keep >= 1.0 - newcomers:
            raise ValueError(
                f"keep is {keep} and newcomers {newcomers}: a share {newcomers} of the lists lose their last document, so that "
                f"at most {1.0 - newcomers:g} can be kept; take fewer newcomers"
            )
        self.keep = keep
        self.newcomers = newcomers

    def logits(self, scores: Sequence[float] | np.ndarray, confidence: float = 1.0) -> np.ndarray:
        """The m logits from which the ranking of m documents with these scores is drawn, float64; with a budget, only the
        first k (or k + 4) documents are drawn.

        Raises
        ------
        ValueError
            The scores have no finite standard deviation, or `confidence` is not between 0 and 1.
        """
        arguments.number("confidence", confidence, 0.0, 1.0)
        values = np.asarray(scores, np.float64)
        return self._mixed(values, confidence, np.arange(1, min(self.k or len(values), len(values)) + 1))

    def _mixed(self, values: np.ndarray, confidence: float, places: np.ndarray) -> np.ndarray:
        """`logits`, at a confidence from 0 to 1, for these places."""
        sharp = float(confidence) if self.keep is None else sharpness(self.keep, tuple(places.tolist()), self.newcomers)
        logits = np.empty(len(values))
        if self.keep is not None and len(places) <= FEW:
            logits[_greedy(values)] = -4.0 * sharp * np.log(np.arange(1.0, len(values) + 1.0))
        elif not kernels.mixed_logits(values, sharp, logits):
            raise ValueError("scores are too large for a deviation; scale the features")
        return logits

    def draw_list(
        self, scores: np.ndarray, ids: Sequence[Hashable], places: np.ndarray, rng: np.random.Generator, confidence: float
    ) -> Impression:
        """As `Policy.draw_list`."""
        k = len(places)
        n = min(k + (HELD_BACK if k <= FEW else 0), len(scores))
        logits = self._mixed(scores, confidence, places)
        candidates = None if self.keep is None else _greedy(scores)
        if candidates is not None:
            logits = logits[candidates[:n]]
        order, drawn_logits = np.empty(n, np.int64), np.empty(n)
        rest = kernels.draw(logits, rng.gumbel(size=len(logits)), n, order, drawn_logits)
        rows = order if candidates is None else candidates[order]
        drawn = tuple(rows.tolist() if isinstance(ids, range) else [ids[i] for i in rows.tolist()])
        shown = Impression(drawn[:k], tuple(drawn_logits.tolist()), rest if n < len(logits) else None, held_back=drawn[k:])
        if candidates is None:
            return shown
        beyond = candidates[n:]
        newcomers = self.newcomers if k and len(beyond) else 0.0
        kept = kept_share(logits, places, newcomers)
        if not newcomers:
            return replace(shown, kept=kept)
        *above, last = shown.chances or ()
        if rng.random() >= newcomers:
            return replace(shown, kept=kept, propensities=(*above, (1.0 - newcomers) * last))
        newcomer = ids[int(beyond[rng.integers(len(beyond))])]
        return Impression(
            (*drawn[: k - 1], newcomer),
            shown.logits,
            newcomer=True,
            held_back=drawn[k - 1 :],
            propensities=(*above, newcomers / len(beyond)),
            kept=kept,
        )


class FairPairs(Policy):
    """Show the ranking by scores, with each pair of neighbours in random order (Radlinski & Joachims 2006).

    The pairs are at the positions (0, 1), (2, 3), ... or (1, 2), (3, 4), ..., each partition half of the time. No
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

    @property
    def keep(self) -> float:  # type: ignore[override]
        """The least share of the greedy list's DCG@k that users see in expectation: .908 from k = 3 on.

        The first document loses in a quarter of the draws. All others move up as often as down, and discounts are convex; but
        the second of two that are shown leaves the list in a quarter, and with it all that it brings.
        """
        first, second = 1.0 - 0.25 * (1.0 - 1.0 / math.log2(3.0)), 0.5 + 0.25 * math.log2(3.0)
        return 0.75 if self.k == 1 else second if self.k == 2 else first

    def draw_list(
        self, scores: np.ndarray, ids: Sequence[Hashable], places: np.ndarray, rng: np.random.Generator, confidence: float
    ) -> Impression:
        """As `Policy.draw_list`."""
        order, k = _greedy(scores), len(places)
        n = min(k + (k <= FEW), len(order))
        first = int(rng.integers(2))
        swaps = rng.random(len(order) // 2) < 0.5
        for a, swap in zip(range(first, n - 1, 2), swaps.tolist(), strict=False):
            if swap:
                order[a], order[a + 1] = order[a + 1], order[a]
        drawn = tuple([ids[i] for i in order[:n].tolist()])
        return Impression(drawn[:k], pairs_from=first, held_back=drawn[k:], kept=self._kept(places, len(order)))

    def _kept(self, places: np.ndarray, m: int) -> float | None:
        """What a draw of m documents keeps; None with pinned documents, where discounts may not be convex."""
        if m <= 1:
            return 1.0
        return self.keep if places.tolist() == [*range(1, min(self.k or m, m) + 1)] else None


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

    keep = 1.0

    def draw_list(
        self, scores: np.ndarray, ids: Sequence[Hashable], places: np.ndarray, rng: np.random.Generator, confidence: float
    ) -> Impression:
        """As `Policy.draw_list`."""
        return Impression(tuple(ids[i] for i in _greedy(scores)[: len(places)].tolist()), kept=1.0)


def _checked_pins(pinned: Mapping[int, Hashable], ids: Sequence[Hashable], excluded: set[Hashable]) -> dict[int, Hashable]:
    """Pinned documents by place. Raises TypeError or ValueError."""
    if not isinstance(pinned, Mapping):
        raise TypeError(f"pinned is of type {type(pinned).__name__}; it is {{position: document}}")
    if not pinned:
        return {}
    known, seen = {*ids}, set[Hashable]()
    for place, document in pinned.items():
        arguments.integer("pinned", place, 1)
        if document not in known or document in seen or document in excluded:
            wrong = "is not in the query" if document not in known else "twice" if document in seen else "and excluded"
            raise ValueError(f"pinned has document {document!r:.100}, which {'is pinned ' * (document in known)}{wrong}")
        seen.add(document)
    return {**pinned}


def _greedy(scores: np.ndarray) -> np.ndarray:
    """The documents best first; ties keep their order."""
    return np.argsort(-scores, kind="stable")


def require_policy(policy: Any) -> None:
    """Raise TypeError unless `policy` is a policy or None."""
    if policy is not None and not isinstance(policy, Policy):
        raise TypeError(f"policy is {policy!r}; it is a policy of online_rank.feedback, such as PlackettLuce(k=10)")
