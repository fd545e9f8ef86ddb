r"""Off-policy evaluation: what another ranker would have earned, from clicks on rankings drawn with known probabilities.

The q-th document shown was chosen with probability P_q given those above it (`Impression.chances`). The ranker to evaluate
would have put the documents tau_1, tau_2, ... first; it may learn meanwhile. With gains c_q in [0, 1] and weights
lambda_q >= 0 of the positions that add up to 1,

.. math:: W_p = \prod_{q \le p} \frac{1\{\text{shown}_q = \tau_q\}}{P_q}, \qquad X_t = \sum_p \lambda_p W_p c_p, \qquad
    X'_t = \sum_p \lambda_p W_p (1 - c_p).

If clicks at position p depend only on the documents down to p, as for users who read downwards (for p = 1 nothing is assumed),
then E X_t = v_t, the expected earnings of the other ranker on this query, and E X'_t = 1 - v_t.

**Theorem.** With guesses cut to [0, 1], V_n and V'_n the sums of (X_t - guess)^2 and (X'_t - guess')^2, and r of
`online_rank.intervals`, with probability at least 1 - alpha, for all n at once,

.. math:: \frac{\sum X_t - r(\alpha/2, V_n)}{n} \le \text{mean of } v_t \le 1 - \frac{\sum X'_t - r(\alpha/2, V'_n)}{n}.

Proof. The lower limit in `online_rank.intervals` needs only X_t - guess >= -1, which follows from X_t >= 0 and a guess <= 1; so
the lower limits of both X and X' hold, and 1 - v_t is the mean of X'. QED. Weights need no bound and nothing is clipped;
policies may learn, and users may be adversarial.
"""

import math
from collections.abc import Hashable, Sequence

import numpy as np
from river import base

from online_rank import arguments
from online_rank._kernels import clicks as kernels
from online_rank.base.schema import Array, Schema
from online_rank.feedback.impressions import Clicks
from online_rank.intervals import Interval
from online_rank.intervals.losses import largest_deviation
from online_rank.metrics.interleaving import _Votes

#: Smallest effective sample size for point estimates.
_ENOUGH = 100.0


class OffPolicyValue(base.Base):
    """Estimate what another ranker would have earned on a log, with an interval that is valid at any time.

    Parameters
    ----------
    weights
        lambda, one number >= 0 for each position, with sum 1: the weight of a gain there. `(1.0,)`: the first position only.
        1 / log2(p + 1), divided by their sum: DCG.

    Examples
    --------
    >>> from online_rank import PlackettLuce
    >>> from online_rank.metrics import OffPolicyValue
    >>> policy, value = PlackettLuce(k=1, seed=2), OffPolicyValue()
    >>> for draw in range(2000):  # every document is shown as often as every other; "b" is the one that is clicked
    ...     shown = policy.show({"a": 0.0, "b": 0.0, "c": 0.0}, draw, confidence=0.0)
    ...     value.update(shown.clicked([d for d in shown.order if d == "b"]), ["b", "a", "c"])
    >>> print(value.interval())
    1.0050, 95 % interval 0.8915 to 1.0000, n = 2,000
    >>> round(value.effective_sample_size), round(value.snips(), 3)
    (6..., 1.0)

    References
    ----------
    McInerney et al., *Counterfactual Evaluation of Slate Recommendations with Sequential Reward Interactions*, 2020: weights W.
    Waudby-Smith, Wu, Ramdas, Karampatziakis & Mineiro, *Anytime-valid Off-policy Inference for Contextual Bandits*, 2022.
    """

    _schema = Schema(
        _places=Array(lambda value: len(value.weights), 3, low=0.0), _accounts=Array(2, 3, low=0.0), _robust=Array(1)
    )

    def __init__(self, weights: Sequence[float] = (1.0,)) -> None:
        for weight in weights:
            arguments.number("weights", weight, 0.0)
        if not math.isclose(math.fsum(weights), 1.0, abs_tol=1e-9):
            raise ValueError(f"weights is {weights!r}; it is one number >= 0 a position, which add up to 1")
        # A list could change while rankings are counted.
        self.weights = tuple(weights)
        # By position: sums of W, W^2 and W c.
        self._places = np.zeros((len(weights), 3))
        # Of X and X': number, sum, and v.
        self._accounts = np.zeros((2, 3))
        self._robust = np.zeros(1)

    @property
    def n(self) -> int:
        """Number of rankings counted."""
        return int(self._accounts[0, 0])

    def update(self, clicks: Clicks, ranking: Sequence[Hashable], expected: Sequence[float] | None = None) -> None:
        """Count the clicks on one ranking of the log.

        Parameters
        ----------
        clicks
            With gains in [0, 1], on an impression that says its `chances`; for the first position alone, `placements` will do.
        ranking
            The documents in the order of the other ranker, best first, as `rank_one` returns them.
        expected
            For `doubly_robust`: the expected gain of each document of `ranking` at its position. None: the mean gain so far at
            the position.

        Raises
        ------
        ValueError
            The impression does not say how it was drawn, shows fewer positions than have weights, or a gain is not in [0, 1].
        """
        shown, gains = clicks.impression, clicks.gains
        # The probability of a document at the first position is the same, given those above it: there are none.
        chances = shown.placements if shown.placements is not None and len(self.weights) == 1 else shown.chances
        if chances is None and shown.placements is not None:
            raise ValueError(
                "the impression has placements, which say nothing about the documents above: they give a value of the first "
                "position alone, with the weights (1.0,)"
            )
        if chances is None:
            raise ValueError(
                "the impression has neither logits nor propensities: from rankings without known probabilities "
                "nothing follows about others"
            )
        if gains and max(gains) > 1.0:
            raise ValueError(f"gains: {max(gains)} is above 1; divide them by the largest there can be")
        places = len(self.weights)
        if len(shown.order) < min(places, len(ranking)):
            raise ValueError(f"the impression shows {len(shown.order)} documents, but there are weights for {places} positions")
        W, c = np.zeros(places), np.zeros(places)
        weight = 1.0
        for p in range(places):
            if p < len(shown.order) and p < len(ranking):
                weight = weight / chances[p] if shown.order[p] == ranking[p] else 0.0
                c[p] = gains[p]
            W[p] = weight
        self._count(W, c, expected)

    def _count(self, W: np.ndarray, c: np.ndarray, expected: Sequence[float] | None) -> None:
        lambdas = np.asarray(self.weights, np.float64)
        if not np.isfinite(W * W).all():
            raise ValueError("the weight of the ranking is too large to be squared: the ranking was almost impossible")
        with np.errstate(invalid="ignore", divide="ignore"):
            rates = np.where(self._places[:, 0] > 0.0, self._places[:, 2] / self._places[:, 0], 0.0)
        if expected is not None:
            rates = np.zeros(len(W))
            known = min(len(W), len(expected))
            rates[:known] = expected[:known]
        before = np.append(1.0, W[:-1])
        robust = self._robust + (lambdas * (W * (c - rates) + before * rates)).sum()
        places = self._places + np.column_stack((W, W * W, W * c))
        accounts = np.empty((2, 3))
        for i, x in enumerate(((lambdas * W * c).sum(), (lambdas * W * (1.0 - c)).sum())):
            n, total, variation = self._accounts[i].tolist()
            difference = x - min((0.5 + total) / (n + 1.0), 1.0)
            accounts[i] = n + 1.0, total + x, variation + difference * difference
        # At once: an interrupt comes before or after.
        vars(self).update(_robust=robust, _places=places, _accounts=accounts)

    @property
    def effective_sample_size(self) -> float:
        """(sum W)^2 / sum W^2 at the lowest position with a weight: the effective number of rankings of the other ranker."""
        last = int(np.flatnonzero(np.asarray(self.weights))[-1])
        total, squares = self._places[last, :2].tolist()
        return total * total / squares if squares > 0.0 else 0.0

    def interval(self, level: float = 0.95) -> Interval:
        """Interval for the mean expected earnings of the other ranker, valid at all times with probability `level`.

        `mean` is the unbiased mean of X, which may lie outside the limits if few rankings agree.

        Raises
        ------
        ValueError
            The lower limit is above the upper one. X + X' is the weighted mean of the W, whose expectation is 1: it is then
            larger than chance explains at this level, so the probabilities or the candidates of the log are wrong.
        """
        arguments.number("level", level, above=0.0, below=1.0)
        n = self.n
        if not n:
            return Interval(0.0, 1.0, math.nan, 0, level)
        lower, other = (
            (total - largest_deviation(variation, (1.0 - level) / 2.0)) / n for _, total, variation in self._accounts.tolist()
        )
        if lower > 1.0 - other:
            raise ValueError(
                f"importance weights average {self._accounts[:, 1].sum() / n:.3g} over {n:,} rankings, and no chance explains "
                f"that they are above 1 (level {level:g}): the probabilities of the log are too small, or rows of candidates "
                "that were not shown are missing"
            )
        return Interval(max(0.0, lower), min(1.0, 1.0 - other), float(self._accounts[0, 1] / n), n, level)

    def snips(self) -> float:
        """An estimate, without a guarantee: the mean gain at each position, with weights that add up to 1.

        Raises
        ------
        ValueError
            The effective sample size is below 100.
        """
        self._require_enough("snips")
        # Lower positions may have no ranking in common, and have no weight then.
        counted = np.flatnonzero(self.weights)
        return float(np.asarray(self.weights)[counted] @ (self._places[counted, 2] / self._places[counted, 0]))

    def doubly_robust(self) -> float:
        """An estimate, without a guarantee: the expected gains plus the weighted deviations from them in the log.

        It is the mean over t of sum_p lambda_p (W_p (c_p - expected_p) + W_(p-1) expected_p).

        Raises
        ------
        ValueError
            The effective sample size is below 100.
        """
        self._require_enough("doubly_robust")
        return float(self._robust[0] / self.n)

    def _require_enough(self, name: str) -> None:
        size = self.effective_sample_size
        if size < _ENOUGH:
            raise ValueError(
                f"{name}: the log agrees with this ranker in an effective {size:.1f} of {self.n} rankings, and below "
                f"{_ENOUGH:.0f} an estimate misleads; use interval()"
            )


class SwapComparison(_Votes):
    r"""Find which of two rankers the users of a log prefer, by pairs of documents whose order was random.

    For each pair of documents shown, i above j, with the weight rho of `SwapRanker` and gains g,

    .. math:: D_t = \sum \rho\,(g_i - g_j)\,\big([B \text{ puts } i \text{ first}] - [A \text{ puts } i \text{ first}]\big).

    A pair of equally attractive documents adds 0 in expectation, for any users, and a pair whose more attractive document is
    put first only by B adds a positive amount. An impression counts (1 + D_t / largest) / 2, where largest is the maximum of
    D_t; 1/2 means no difference. For similar rankers it needs less data than team drafts, and a log is enough; it measures only
    the pairs that were shown.

    Parameters
    ----------
    k
        Most documents shown. D_t is at most :math:`\lfloor k/2 \rfloor \lceil k/2 \rceil`.

    Examples
    --------
    >>> from online_rank import PlackettLuce
    >>> from online_rank.metrics import SwapComparison
    >>> policy, comparison = PlackettLuce(k=2, seed=1), SwapComparison(k=2)
    >>> for draw in range(300):
    ...     shown = policy.show({"old": 0.0, "new": 0.0}, draw, confidence=0.0)
    ...     comparison.update(shown.clicked(["new"]), ["old", "new"], ["new", "old"])
    >>> print(comparison.interval())  # D = 1/2 each time
    0.7500, 95 % interval 0.7... to 0.7..., n = 300
    """

    def __init__(self, k: int = 10) -> None:
        super().__init__()
        arguments.integer("k", k, 2)
        self.k = k

    def update(self, clicks: Clicks, a: Sequence[Hashable], b: Sequence[Hashable]) -> None:
        """Count the clicks on one ranking of the log, which A ranks as `a` and B as `b`.

        Raises
        ------
        ValueError
            The impression was not drawn from a distribution with known probabilities of exchanges, it shows more than k
            documents or one that is not ranked, or a gain is above 1.
        """
        shown, gains = clicks.impression, clicks.gains
        n = shown.n_compared
        if shown.logits is None and shown.pairs_from is None:
            raise ValueError("the impression has no logits: the probability that two documents change places is unknown")
        if n > self.k or (gains and max(gains) > 1.0):
            raise ValueError(f"{n} documents were shown, with gains up to {max(gains)}; at most {self.k} and 1 are expected")
        first, second = ({document: place for place, document in enumerate(order)} for order in (a, b))
        strange = next((d for d in shown.order if d not in first or d not in second), None)
        if strange is not None:
            raise ValueError(f"document {strange!r} was shown, but it is not in both rankings")
        e = np.empty(n)
        unshown = 0.0
        if shown.logits is not None:
            rest = np.logaddexp.reduce([-math.inf if shown.rest is None else shown.rest, *shown.logits[n:]])
            unshown = kernels.exponentials(np.array(shown.logits[:n]), float(rest), e)
        difference = 0.0
        for upper in range(n):
            for lower in range(upper + 1, n):
                i, j = shown.order[upper], shown.order[lower]
                sides = (second[i] < second[j]) - (first[i] < first[j])
                if sides and gains[upper] != gains[lower]:
                    if shown.logits is not None:
                        rho = kernels.swap_weight(e, unshown, float(e[lower + 1 :].sum()), upper, lower)
                    else:
                        rho = 0.5 * (lower == upper + 1 and (upper - (shown.pairs_from or 0)) % 2 == 0)
                    difference += sides * rho * (gains[upper] - gains[lower])
        largest = (self.k // 2) * (self.k - self.k // 2)
        self._account.update(0.5 + 0.5 * difference / largest)

    def get(self) -> float:
        """Mean of D_t: above 0 if B puts clicked documents higher; 0 before the first impression."""
        return (2.0 * self._account.mean - 1.0) * (self.k // 2) * (self.k - self.k // 2) if self.n else 0.0
