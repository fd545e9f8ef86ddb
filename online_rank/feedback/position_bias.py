"""Estimates how often each position is examined, from clicks on random rankings."""

import math

import numpy as np
from river import base

from online_rank import arguments
from online_rank._kernels import clicks as kernels
from online_rank.base.schema import Array, Count, Schema
from online_rank.feedback.impressions import Clicks

#: The most positions whose examination is estimated.
MOST_POSITIONS = 100
_N_GROUPS = 16
# Most iterations of Newton's method, which takes about ten.
_MOST_STEPS = 100
_PRECISE = 1e-9


class PositionBias(base.Base):
    r"""Estimate the examination of each position, relative to the first, from clicks on random rankings.

    If a click means that the position is examined and the document attracts, then documents whose order was random reveal the
    ratio of two positions, for documents of any attraction. For positions a < b of each ranking, with rho the probability of
    the exchanged order given that it is one of the two orders,

    .. math::
        W_{ab} \mathrel{+}= \rho\,c_a, \quad W_{ba} \mathrel{+}= \rho\,c_b, \quad
        E W_{ab} : E W_{ba} = \theta_a : \theta_b.

    These are matches between positions, W_ab of them won by a. The examination theta maximises their Bradley-Terry likelihood
    :math:`\sum_{a \ne b} W_{ab} \ln(\theta_a / (\theta_a + \theta_b))`, with one extra match in either direction between
    neighbours. If theta rises somewhere, neighbours are averaged in logarithms until it does not.

    For users of another kind (who stop reading, or trust the ranking) it describes how clicks fall with the position.

    Parameters
    ----------
    k
        Number of positions.

    Examples
    --------
    >>> from online_rank.feedback import Impression, PositionBias
    >>> bias = PositionBias(k=2)
    >>> for clicked in ("a", "a", "b"):  # a and b were as likely the other way round
    ...     bias.update(Impression(("a", "b"), logits=(0.0, 0.0)).clicked([clicked]))
    >>> [round(theta, 6) for theta in bias.examination]  # 1, and (1/2 + 1) / (1 + 1)
    [1.0, 0.75]

    References
    ----------
    Agarwal, Zaitsev, Wang, Li, Najork & Joachims, *Estimating Position Bias without Intrusive Interventions*, 2019
    (harvesting, from all pairs of positions); the weights rho are those of Oosterhuis & de Rijke, *Differentiable Unbiased
    Online Learning to Rank*, 2018.
    """

    _schema = Schema(_n_updates=Count(), _wins=Array(_N_GROUPS, lambda bias: bias.k, lambda bias: bias.k, low=0.0))

    def __init__(self, k: int = 10) -> None:
        arguments.integer("k", k, 1, MOST_POSITIONS)
        self.k = k
        self._n_updates = 0
        # Groups of impressions for the jackknife, which estimates the standard error.
        self._wins = np.zeros((_N_GROUPS, k, k))

    def update(self, clicks: Clicks) -> None:
        """Learn from the clicks on one ranking; engagement counts like a click of that size.

        Raises
        ------
        TypeError, ValueError
            `clicks` is not a `Clicks` object, or its impression has neither logits nor pairs of neighbours in random order.
        """
        if not isinstance(clicks, Clicks):
            raise TypeError(f"clicks is of type {type(clicks).__name__}; it is Clicks, as Impression.clicked gives them")
        shown, n = clicks.impression, clicks.impression.n_compared
        wins = np.zeros((n, n))
        if shown.pairs_from is not None:
            for a in range(shown.pairs_from, n - 1, 2):
                wins[a, a + 1] = 0.5 * clicks.gains[a]
                wins[a + 1, a] = 0.5 * clicks.gains[a + 1]
        elif shown.logits is not None:
            rest = np.logaddexp.reduce([-math.inf if shown.rest is None else shown.rest, *shown.logits[n:]])
            kernels.harvest(np.array(clicks.gains[:n]), np.array(shown.logits[:n]), float(rest), wins)
        else:
            raise ValueError("the impression has no logits: position bias is learned from rankings that a policy has drawn")
        places = np.arange(n) if shown.positions is None else np.array(shown.positions[:n], np.int64) - 1
        known = places < self.k
        all_wins = self._wins.copy()
        all_wins[self._n_updates % _N_GROUPS][np.ix_(places[known], places[known])] += wins[np.ix_(known, known)]
        # At once: an interrupt comes before or after.
        vars(self).update(_wins=all_wins, _n_updates=self._n_updates + 1)

    @property
    def examination(self) -> tuple[float, ...]:
        """theta_p / theta_1 for p = 1..k: falling, and 1 at first."""
        return fitted_examination(self._wins.sum(axis=0))

    def interval(self, z: float = 1.96) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The limits of intervals for `examination`, at a fixed time: `z` standard errors in logarithms.

        The standard error is the larger of those from the jackknife over 16 groups of impressions and from the likelihood,
        which dominates when there are few clicks.
        """
        wins = self._wins.sum(axis=0)
        log, variance = _bradley_terry(wins)
        without = np.array([_bradley_terry(wins - group, log)[0] for group in self._wins])
        jackknife = (_N_GROUPS - 1) * without.var(axis=0)
        error, log = z * np.sqrt(np.maximum(variance, jackknife)), _falling(log)
        return tuple(np.exp(log - error).tolist()), tuple(np.minimum(np.exp(log + error), 1.0).tolist())


def fitted_examination(wins: np.ndarray) -> tuple[float, ...]:
    """theta_p / theta_1, falling, from matches between positions (k, k)."""
    return tuple(np.exp(_falling(_bradley_terry(wins)[0])).tolist())


def _bradley_terry(wins: np.ndarray, start: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """ln theta (k,), 0 at the first position, that maximises the Bradley-Terry likelihood, by Newton's method from `start`, and
    its variances.
    """
    k = len(wins)
    wins = wins + np.eye(k, k=1) + np.eye(k, k=-1)
    matches, variance = wins + wins.T, np.zeros(k)
    log = np.zeros(k) if start is None else start.copy()
    for _ in range(_MOST_STEPS if k > 1 else 0):
        win = 1.0 / (1.0 + np.exp(np.minimum(log - log[:, None], 700.0)))
        information = -matches * win * (1.0 - win)
        np.fill_diagonal(information, -information.sum(axis=1))
        inverse = np.linalg.inv(information[1:, 1:])
        step = inverse @ (wins - matches * win).sum(axis=1)[1:]
        variance[1:] = inverse.diagonal()
        log[1:] += np.clip(step, -1.0, 1.0)
        if np.abs(step).max() < _PRECISE:
            break
    return log, variance


def _falling(log: np.ndarray) -> np.ndarray:
    """The nearest non-increasing sequence that starts at 0."""
    # Imported here because it takes a tenth of a second.
    from scipy.optimize import isotonic_regression

    fitted = isotonic_regression(log, increasing=False).x
    return fitted - fitted[0]
