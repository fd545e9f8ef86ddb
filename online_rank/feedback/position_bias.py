"""How often each position is looked at, from the clicks themselves."""

import math

import numpy as np
from river import base

from online_rank._kernels import clicks as kernels
from online_rank.base.schema import Array, Schema
from online_rank.feedback.impressions import Clicks

__all__ = ["PositionBias"]

_MOST = 10_000


class PositionBias(base.Base):
    r"""Estimate the examination of each position, relative to the first, from clicks on rankings with chance in them.

    Where a click is (position is examined) and (document attracts), neighbours that might as well stand the other way round
    tell the ratio of two positions, whatever the documents are. For positions p and p + 1 of each ranking, with rho the
    probability of the exchanged order given that it is one of the two,

    .. math:: \mathrm{up}_p \mathrel{+}= \rho\,c_p, \quad \mathrm{down}_p \mathrel{+}= \rho\,c_{p+1}, \quad
        \frac{\theta_{p+1}}{\theta_p} = \min\Big(1, \frac{\mathrm{down}_p + 1}{\mathrm{up}_p + 1}\Big).

    Under users who are not of this kind (who stop, or trust) it says how clicks fall with the position.

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
    >>> bias.examination  # 1, and (down + 1) / (up + 1) with down = 1/2 and up = 1
    (1.0, 0.75)

    References
    ----------
    Agarwal, Zaitsev, Wang, Li, Najork & Joachims, *Estimating Position Bias without Intrusive Interventions*, 2019
    (harvesting); the weights rho are those of Oosterhuis & de Rijke, *Differentiable Unbiased Online Learning to Rank*, 2018.
    """

    _schema = Schema(_sums=Array(4, lambda bias: bias.k - 1, low=0.0))

    def __init__(self, k: int = 10) -> None:
        if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= _MOST:
            raise ValueError(f"k is {k!r}; it is the number of positions, an integer from 1 to {_MOST:,}")
        self.k = k
        self._sums = np.zeros((4, k - 1))

    def update(self, clicks: Clicks) -> None:
        """Learn from the clicks on one ranking; engagement counts like a click of that size.

        Raises
        ------
        TypeError, ValueError
            `clicks` is no `Clicks`, or its impression has neither logits nor pairs of neighbours in random order.
        """
        if not isinstance(clicks, Clicks):
            raise TypeError(f"clicks is of type {type(clicks).__name__}; it is Clicks, as Impression.clicked gives them")
        shown = clicks.impression
        if shown.pairs_from is not None:
            for p in range(shown.pairs_from, min(len(shown.order), self.k) - 1, 2):
                pair = 0.5 * np.array(clicks.gains[p : p + 2])
                self._sums[:, p] += [*pair, *(pair * pair)]
        elif shown.logits is not None:
            rest = -math.inf if shown.rest is None else shown.rest
            kernels.harvest(np.array(clicks.gains), np.array(shown.logits), rest, self._sums)
        else:
            raise ValueError("the impression has no logits: position bias is learned from rankings that a policy has drawn")

    @property
    def examination(self) -> tuple[float, ...]:
        """theta_p / theta_1 for p = 1..k: falling, and 1 at first."""
        return tuple(np.exp(np.cumsum([0.0, *self._log_ratios()])).tolist())

    def interval(self, z: float = 1.96) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Ends of intervals for `examination`, at a fixed time: `z` standard errors in logs, by the delta method."""
        up, down, up2, down2 = self._sums
        error = z * np.sqrt(np.cumsum([0.0, *((up2 + 1.0) / (up + 1.0) ** 2 + (down2 + 1.0) / (down + 1.0) ** 2)]))
        log = np.cumsum([0.0, *self._log_ratios()])
        return tuple(np.exp(log - error).tolist()), tuple(np.minimum(np.exp(log + error), 1.0).tolist())

    def _log_ratios(self) -> np.ndarray:
        up, down = self._sums[:2]
        return np.minimum(np.log((down + 1.0) / (up + 1.0)), 0.0)
