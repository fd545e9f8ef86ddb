"""Grades from clicks, for documents that are shown for the same query again and again."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from online_rank import arguments
from online_rank.feedback.impressions import Clicks
from online_rank.feedback.natural_variation import NaturalVariation

#: The shares of the pairs judged whose attraction is below that at which the grades 1, 2, ... begin.
SHARES = (0.5, 0.7, 0.85, 0.95)
#: The fewest expected clicks of a pair that is graded.
LEAST = 0.5
#: Limits of the evidence that every estimate begins with, in expected clicks.
_WEAKEST, _STRONGEST = 0.5, 50.0


class Judgement(NamedTuple):
    """What clicks say of a document for a query.

    Attributes
    ----------
    query, document
        The query and the document.
    impressions : int
        How often the document was shown.
    clicks : float
        The sum of the gains of its clicks.
    expected : float
        What this sum would be, in expectation, for a document of average attraction at the same positions.
    attraction, lower, upper : float
        Clicks over expected clicks, shrunk towards 1, and the limits of its 95 % credible interval.
    grade : int
        The number of cuts that `attraction` reaches.
    """

    query: Hashable
    document: Hashable
    impressions: int
    clicks: float
    expected: float
    attraction: float
    lower: float
    upper: float
    grade: int


class Caps:
    """Lists that count for one value of a key: the first ones, up to a number. A list without a value is not capped.

    Parameters
    ----------
    most
        The number for each key, such as ``{"session": 20}``.

    Attributes
    ----------
    left_out : dict
        The number of lists left out by each key.
    """

    def __init__(self, most: Mapping[str, int]) -> None:
        for name, number in most.items():
            arguments.integer(f"caps[{name!r}]", number, 1)
        self._most, self._met = most, {name: Counter[Hashable]() for name in most}
        self.left_out = dict.fromkeys(most, 0)

    def counts(self, keys: Mapping[str, Hashable]) -> bool:
        """Whether the next list counts, which has these keys."""
        full = next((name for name, met in self._met.items() if met[keys.get(name)] >= self._most[name]), None)
        if full is not None:
            self.left_out[full] += 1
            return False
        for name, met in self._met.items():
            if keys.get(name) is not None:
                met[keys[name]] += 1
        return True


class Judgements(NamedTuple):
    """What `judgements` returns.

    Attributes
    ----------
    judged : list of Judgement
        In the order in which pairs of a query and a document were first shown.
    examination : tuple of float
        The examination of positions 1, 2, ... that was used.
    cuts : tuple of float
        The attraction at which the grades 1, 2, ... begin.
    strength : float
        The evidence that every estimate begins with, in expected clicks.
    lists : int
        The lists that were counted.
    capped : dict
        The lists left out by each cap.
    deep : int
        Documents shown at positions whose examination is unknown; they count as not shown.
    scarce : int
        Pairs left out because too few clicks were expected.
    """

    judged: list[Judgement]
    examination: tuple[float, ...]
    cuts: tuple[float, ...]
    strength: float
    lists: int
    capped: dict[str, int]
    deep: int
    scarce: int


def judgements(
    lists: Iterable[tuple[Hashable, Clicks, Mapping[str, Hashable]]],
    *,
    examination: Sequence[float] | None = None,
    k: int = 20,
    caps: Mapping[str, int] | None = None,
    least: float = LEAST,
    cuts: Sequence[float] | None = None,
) -> Judgements:
    r"""Grade documents by clicks over expected clicks, for each query.

    Document i was shown for query q n_p times at position p, with clicks of gains c in total. With the examination theta_p and
    the mean mu of the gain of a click times attraction, so that expected and measured clicks of the whole log are equal,

    .. math:: e = \mu \sum_p n_p \theta_p, \qquad \hat r = \frac{c + s}{e + s}, \qquad
        \mu = \frac{\sum c}{\sum n_p \theta_p}.

    r is the attraction relative to the average document, 1; over pairs it is taken as gamma distributed, with a variance v that
    is fitted to the log by moments,

    .. math:: \sum (c - e)^2 = \sum \big( v e^2 + \varphi c - (1 + v) \mu^2 \sum_p n_p \theta_p^2 \big), \qquad s = \varphi / v,

    with phi the sum of squared gains over the sum of gains, 1 for clicks alone. Given r, c / phi is taken as Poisson, which
    makes intervals too wide where most of those who look click. r-hat is the posterior mean, and the interval has the
    posterior's quantiles. The grade is the number of `cuts` that r-hat reaches.

    Assumptions: a click means that the position is examined and the document attracts; the attraction for a query does not
    change over the log. Estimated examination also needs the assumptions of `NaturalVariation`. ``docs/clicks.md`` says what
    happens where they fail.

    Parameters
    ----------
    lists
        The query that was asked, the clicks on the list shown, and keys such as ``{"session": "s1", "user": "u7"}``.
    examination
        theta, one probability > 0 a position; relative to the first is enough. None to estimate it from the documents that were
        shown at several positions (`NaturalVariation`).
    k
        The number of first positions that count, if the examination is estimated.
    caps
        The most lists that count for one value of a key: ``{"session": 20}``; the first ones do. A list without a value is not
        capped.
    least
        The fewest expected clicks of a pair that is graded.
    cuts
        The attraction at which the grades 1, 2, ... begin: rising numbers > 0. None: the attraction that half of the pairs are
        below, 70 %, 85 % and 95 %. Some users click nearly as often on what they do not want, others hardly ever, so the same
        grades mean other multiples of the average.

    Raises
    ------
    ValueError
        The log does not determine the examination, nothing was clicked, or an argument is out of its range.

    Examples
    --------
    >>> from online_rank.feedback import Impression, judgements
    >>> clicked = [["a"], ["a"], [], ["b"], ["a"], []] * 10
    >>> lists = [("news", Impression(("a", "b")).clicked(clicks), {}) for clicks in clicked]
    >>> for j in judgements(lists, examination=(1.0, 0.5), cuts=(0.5, 1.0)).judged:  # of 40 clicks 26.7 and 13.3 are expected
    ...     print(j.document, j.impressions, j.clicks, round(j.expected, 1), round(j.attraction, 2), j.grade)
    a 60 30.0 26.7 1.04 2
    b 60 10.0 13.3 0.95 1

    References
    ----------
    Zhang & Jones, *Comparing Click Logs and Editorial Labels for Training Query Rewriting*, 2007; Chapelle & Zhang, 2009
    (clicks over expected clicks). Here the expected clicks come from the examination of a position, not from its click rate,
    which is high at the top because good documents stand there.
    """
    if examination is not None:
        arguments.examination(examination)
        k = len(examination)
    arguments.number("least", least, 0.0)
    if cuts is not None and any(b <= a for a, b in zip((0.0, *cuts), cuts, strict=False)):
        raise ValueError(f"cuts is {tuple(cuts)}; they are numbers > 0, and rise")
    counts, capped = NaturalVariation(k=k), Caps(caps or {})
    n, positions, total, squares = 0, 0, 0.0, 0.0
    for query, clicks, keys in lists:
        if not capped.counts(keys):
            continue
        counts.update(query, clicks)
        n += 1
        positions += len(clicks.gains)
        total += sum(clicks.gains)
        squares += sum(gain * gain for gain in clicks.gains)
    theta = np.array(counts.known_examination if examination is None else examination)
    shown, clicked = np.array(list(counts.counts.values())).reshape(-1, 2, k)[:, :, : len(theta)].transpose(1, 0, 2)
    if not clicked.sum() > 0.0:
        raise ValueError("lists: nothing was clicked at a position whose examination is known")
    impressions, gains, examined = shown.sum(axis=1), clicked.sum(axis=1), shown @ theta
    mean, size = gains.sum() / examined.sum(), squares / total
    expected = mean * examined
    variance = _variance(gains, expected, mean**2 * (shown @ theta**2), size)
    strength = float(np.clip(size / max(variance, 1e-9), _WEAKEST * size, _STRONGEST * size))
    attraction, lower, upper = _posterior((gains + strength) / size, (expected + strength) / size)
    enough = (impressions > 0.0) & (expected >= least)
    if cuts is None:
        cuts = np.quantile(attraction[enough], SHARES).tolist() if enough.any() else ()
    grades = np.searchsorted(np.array(cuts), attraction, side="right")
    numbers = zip(
        impressions.astype(np.int64).tolist(),
        *(of.tolist() for of in (gains, expected, attraction, lower, upper, grades)),
        strict=True,
    )
    every = [Judgement(query, document, *of) for (query, document), of in zip(counts.counts, numbers, strict=True)]
    judged = [one for one, is_enough in zip(every, enough.tolist(), strict=True) if is_enough]
    scarce = int((impressions > 0.0).sum()) - len(judged)
    return Judgements(
        judged, tuple(theta.tolist()), tuple(cuts), strength, n, capped.left_out, positions - int(impressions.sum()), scarce
    )


def n_judged(counts: NaturalVariation, least: float = LEAST) -> tuple[int, int]:
    """How many pairs of a query and a document have enough expected clicks for a grade, and the number of all pairs.

    Raises
    ------
    ValueError
        The log does not determine the examination.
    """
    theta = np.array(counts.known_examination)
    shown, clicked = np.array(list(counts.counts.values())).reshape(-1, 2, counts.k)[:, :, : len(theta)].transpose(1, 0, 2)
    examined = shown @ theta
    expected = clicked.sum() / max(examined.sum(), 1e-300) * examined
    return int((expected >= least).sum()), int((shown.sum(axis=1) > 0.0).sum())


def _variance(gains: np.ndarray, expected: np.ndarray, squared: np.ndarray, size: float) -> float:
    """The variance of the attraction over pairs (n,); `squared` sums the squared expected gains of single impressions."""
    beyond = ((gains - expected) ** 2 - size * gains + squared).sum()
    return float(beyond / max((expected**2 - squared).sum(), 1e-300))


def _posterior(shape: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """The mean of gamma distributions (n,), and their limits at 95 %, (3, n)."""
    # Imported here because it takes a tenth of a second.
    from scipy.special import gammaincinv

    return np.array([shape / rate, *(gammaincinv(shape, tail) / rate for tail in (0.025, 0.975))])
