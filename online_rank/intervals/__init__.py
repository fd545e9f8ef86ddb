r"""Intervals for the loss of the rankings actually served, valid at any time and on any stream.

Let x_t in [0, 1] be the loss of the ranking served in round t, and E_t x_t its mean given everything before. Nothing is assumed
about the queries: they may depend on each other, on the model and on the rankings it served. A guess of x_t from the past,
g_t = (1/2 + x_1 + ... + x_{t-1}) / t, keeps

.. math:: v_n = \sum_{t \le n} (x_t - g_t)^2

small if the losses vary little. With psi(l) = -ln(1 - l) - l, scales l_k = 0.9 / 2^k for k = 0..9 and weights pi_k
proportional to 1 / (k + 1), let r(alpha, v) be the solution of

.. math:: \sum_k \pi_k \exp(l_k r - \psi(l_k) v) = 1 / \alpha.

**Theorem.** With probability at least 1 - alpha, for all n at once,
:math:`\left|\sum_{t \le n} E_t x_t - \sum_{t \le n} x_t\right| \le r(\alpha/2, v_n)`; each side alone holds with r(alpha, v_n).

Proof. For xi >= -1 and 0 <= l < 1, exp(l xi - psi(l) xi^2) <= 1 + l xi [FGL]. Put xi = x_t - g_t, take the mean and use
1 + y <= exp(y): E_t exp(l (x_t - E_t x_t) - psi(l) (x_t - g_t)^2) <= 1. So the products over t are supermartingales that begin
at 1, and so is their mixture with the weights pi_k. By Ville's inequality it ever reaches 1 / alpha with probability at most
alpha, and it is increasing in the sum of the x_t - E_t x_t. The same with -xi bounds the other side. QED.

**Future queries.** If a model does not change, and queries are drawn independently from one distribution, every E_t x_t is the
model's expected loss of a future query, and so is their mean; `mean_interval` is then narrower. For the k-th copy of a model
that learns on (k = 0, 1, ...) take the level alpha / ((k + 1)(k + 2)): these add up to alpha, so the upper limits of all copies
hold together.

References
----------
[FGL] Fan, Grama & Liu, *Exponential inequalities for martingales with applications*, 2015.
[HRMS] Howard, Ramdas, McAuliffe & Sekhon, *Time-uniform, nonparametric, nonasymptotic confidence sequences*, 2021.
[V] Ville, *Étude critique de la notion de collectif*, 1939.
"""

from online_rank.intervals.betting import mean_interval
from online_rank.intervals.losses import Interval, LossInterval
from online_rank.intervals.paired import Difference, PairedLosses

__all__ = ["Difference", "Interval", "LossInterval", "PairedLosses", "mean_interval"]
