"""How often positions are looked at, where users may trust the first one."""

from typing import NamedTuple

import numpy as np

#: The shares of trust that are compared, and steps of Newton's method for each.
_TRUST, _STEPS = np.arange(81) / 100.0, 60
#: The most groups of documents that attract alike, and the fewest clicks for each.
_GROUPS, _CLICKS = 20, 25.0
#: Trust is taken for none unless it raises the log likelihood by this much. Scores that have learned from the same clicks raise
#: it by up to 8 where nobody trusts; a trust of .3 raises it by 66 in 2,000 lists.
_EVIDENCE = 10.0
#: Limits of probabilities, and by how much a step may change one.
_LEAST, _STEP = 1e-4, 3.0


class Looked(NamedTuple):
    """What clicks say about positions.

    Attributes
    ----------
    examination : tuple of float
        How often each position is looked at, over the first; down to the lowest with a click. A position between others at
        which nothing was displayed takes a value between theirs.
    trust : float
        The share of users who click the first document because it is the first, whether it attracts them or not.
    """

    examination: tuple[float, ...]
    trust: float


def looked_at(scores: np.ndarray, places: np.ndarray, clicks: np.ndarray) -> Looked:
    r"""How often positions are looked at, by the clicks on documents whose attraction has been learned.

    Documents are put into groups b by their scores. With :math:`a_b` the probability that a document of the group attracts
    someone who looks at it, :math:`\theta_p` the examination of position p, and t the trust in the first one, a click has the
    probability

    .. math:: P_{1b} = t + (1 - t) a_b, \qquad P_{pb} = \theta_p a_b \quad (p > 1).

    All are fitted by maximum likelihood: for each t of a grid by steps of Newton's method, in turn for a and for theta; then
    the best t is taken, if it makes the clicks more likely by more than scores can that have learned from the same clicks.

    **What is identifiable.** From clicks and positions alone an affine model of each position is known up to an affine
    transformation of all attractions. Two assumptions fix it: everybody looks at the first position, and only the first one is
    trusted. Groups must differ in attraction: clicks on documents that attract alike fit any t, and none is then taken. If only
    a part of the users look at the first position, trust and examination are relative to these, and theta is too large by the
    factor (1 - t theta_1) / (1 - t).

    Parameters
    ----------
    scores
        (n,) larger where a document attracts more; no part of it comes from the position.
    places
        (n,) int64, positions from 0.
    clicks
        (n,) from 0 to 1.

    References
    ----------
    Agarwal, Wang, Li, Bendersky & Najork, *Addressing Trust Bias for Unbiased Learning-to-Rank*, 2019; Vardasbi, Oosterhuis &
    de Rijke, *When Inverse Propensity Scoring does not Work: Affine Corrections for Unbiased Learning to Rank*, 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from online_rank.feedback.trust import looked_at
    >>> shown = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], 1000, axis=0)  # whether it attracts, and its place
    >>> chances = {(0, 0): 0.2 + 0.8 * 0.1, (0, 1): 0.5 * 0.1, (1, 0): 0.2 + 0.8 * 0.6, (1, 1): 0.5 * 0.6}
    >>> clicks = [i < round(1000 * chance) for chance in chances.values() for i in range(1000)]
    >>> found = looked_at(shown[:, 0], shown[:, 1], np.array(clicks, float))
    >>> [round(theta, 3) for theta in found.examination], found.trust
    ([1.0, 0.5], 0.2)
    """
    if not clicks.any():
        return Looked((), 0.0)
    first, n = int(places[clicks > 0.0].min()), int(places[clicks > 0.0].max()) + 1
    kept = (places >= first) & (places < n)
    shown, clicked = _tables(scores[kept], places[kept] - first, clicks[kept], n - first)
    theta, likelihoods = _fitted(shown, clicked, _TRUST if first == 0 else _TRUST[:1])
    best = int(likelihoods.argmax())
    best = best if likelihoods[best] > likelihoods[0] + _EVIDENCE else 0
    known = np.flatnonzero(shown.any(axis=0))
    examination = np.interp(np.arange(n - first), known, theta[best][known])
    return Looked((1.0,) * first + tuple(examination.tolist()), float(_TRUST[best]))


def _tables(scores: np.ndarray, places: np.ndarray, clicks: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Documents shown, and clicks, of each group at each position: float64 (groups, n)."""
    groups = int(np.clip(clicks.sum() // _CLICKS, 1, _GROUPS))
    group = np.searchsorted(np.quantile(scores, np.arange(1, groups) / groups), scores)
    cells, size = group * n + places, groups * n
    shown = np.bincount(cells, minlength=size).astype(np.float64)
    return shown.reshape(groups, n), np.bincount(cells, clicks, size).reshape(groups, n)


def _fitted(shown: np.ndarray, clicked: np.ndarray, trust: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The examination (trust, n) for each trust, and the log likelihood of the clicks."""
    n, rates = shown.shape[1], clicked.sum(axis=0) / np.maximum(shown.sum(axis=0), 1.0)
    slopes = np.tile(np.maximum(rates / rates[0], _LEAST), (len(trust), 1))
    attracts = np.tile((clicked.sum(axis=1) + 0.5) / (shown @ slopes[0] + 1.0), (len(trust), 1)).clip(_LEAST, 1.0 - _LEAST)
    floor = np.zeros((len(trust), 1, n))
    floor[:, 0, 0], slopes[:, 0] = trust, 1.0 - trust

    def chances() -> np.ndarray:
        return np.clip(floor + slopes[:, None] * attracts[:, :, None], 1e-9, 1.0 - 1e-9)

    def stepped(values: np.ndarray, factor: np.ndarray, axis: int) -> np.ndarray:
        p = chances()
        weights = 1.0 / (p * (1.0 - p))
        pushes, curves = ((clicked - shown * p) * weights * factor).sum(axis), (shown * weights * factor**2).sum(axis)
        return np.clip(values + pushes / np.maximum(curves, 1e-9), values / _STEP, values * _STEP)

    for _ in range(_STEPS):
        attracts = stepped(attracts, slopes[:, None], 2).clip(_LEAST, 1.0 - _LEAST)
        slopes[:, 1:] = np.maximum(stepped(slopes, attracts[:, :, None], 1)[:, 1:], _LEAST)
    p = chances()
    slopes[:, 0] = 1.0
    return slopes, (clicked * np.log(p) + (shown - clicked) * np.log1p(-p)).sum((1, 2))
