"""The weights of candidates in a blend, and the account of their losses."""

import math
from typing import Any, NamedTuple

import numpy as np

from online_rank._kernels import blend as kernels
from online_rank._kernels.hedge import LARGEST_WEIGHT
from online_rank.base.lock import locked

#: By how much blends may be worse than their candidates before candidates are drawn: the loss of one query.
BUDGET = 1.0


class HedgeAccount(NamedTuple):
    """The sums kept over all queries, apart from the loss of each candidate; discounted if losses are.

    In query t, candidate c has the loss l_t(c), the weights are pi_t, and l_t is the loss of the served ranking.

    Attributes
    ----------
    served
        Sum of the l_t.
    mixed
        H, the sum of h_t, the mean of the l_t(c) by pi_t.
    mixability_gap
        Delta, the sum of h_t + ln(sum of pi_t(c) exp(-eta_t l_t(c))) / eta_t.
    variance
        W, the sum of the variances of the l_t(c) by pi_t.
    serving_gap
        G, the sum of l_t - h_t over the queries in which the mean of the candidates was served.
    luck
        The same over the queries in which a candidate was drawn.
    largest_weight
        Largest sample weight, at least 1.
    n_counted, n_drawn
        Number of queries on which something can be ranked wrongly, and of those in which a candidate was drawn.
    counted_weight
        Sum of the weights of the counted queries, an upper bound on every loss.
    """

    served: float
    mixed: float
    mixability_gap: float
    variance: float
    serving_gap: float
    luck: float
    largest_weight: float
    n_counted: float
    n_drawn: float
    counted_weight: float


#: The smallest value of each. The gap of mixability is rounded, and the gaps of serving have either sign.
LEAST = HedgeAccount(0.0, 0.0, -math.inf, 0.0, -math.inf, -math.inf, 1.0, 0.0, 0.0, 0.0)


def opening() -> np.ndarray:
    """An account before the first query."""
    return np.array(HedgeAccount(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0))


def step_of(account: np.ndarray, rate: float, n: int, forgets: bool) -> float:
    """eta of the next query: min(rate, ln N / Delta), for losses of at most 1; it never rises.

    With a half-life the step is constant, because Delta then mixes losses discounted differently.
    """
    step = rate / float(account[LARGEST_WEIGHT])
    gap = float(account[2])
    return step if forgets or not gap > 0.0 else min(step, math.log(n) / gap)


class OuterHedge(NamedTuple):
    """A blend with candidates for what is served without it, which is a blend itself.

    Attributes
    ----------
    account
        The losses of what was served, and the terms of their bound.
    losses, prior
        Of each candidate, float64 (N,); the first is what would be served without this blend.
    step
        eta of the next query.
    """

    account: HedgeAccount
    losses: np.ndarray
    prior: np.ndarray
    step: float


def outer_hedge(losses: np.ndarray, account: np.ndarray, prior: np.ndarray) -> OuterHedge:
    """A blend whose losses (N,) and account are among the numbers of its owner; they are copied."""
    return OuterHedge(HedgeAccount(*account.tolist()), losses.copy(), prior.copy(), step_of(account, 1.0, len(losses), False))


def shares_of(losses: np.ndarray, prior: np.ndarray, step: float) -> np.ndarray:
    """pi (N,): prior times exp(-step * losses), with sum 1."""
    shares = np.empty(len(losses))
    kernels.shares(losses, prior, step, shares)
    return shares


def choose(shares: np.ndarray, candidates: np.ndarray, uniform: float | None) -> np.ndarray:
    """The served weights (K,): the mean of the candidates (N, K) by their shares, or the candidate selected by `uniform`."""
    if uniform is None:
        # A product of the BLAS rounds as the processor's kernels do; a sum over rows has one order.
        return (shares[:, None] * candidates).sum(axis=0)
    drawn = int(np.searchsorted(np.cumsum(shares), uniform * shares.sum(), side="right"))
    return candidates[min(drawn, len(candidates) - 1)]


def _fades(_ranker: Any) -> bool:
    """Whether the losses of candidates count less as queries, or time, go by."""
    return False


@locked
def _step(ranker: Any) -> float:
    """eta, the step of the next query."""
    return step_of(ranker._account, ranker.rate, len(ranker._losses), ranker.fades)


@locked
def _sums(ranker: Any) -> HedgeAccount:
    """The losses served so far, and the terms of their bound."""
    return HedgeAccount(*ranker._account.tolist())


@locked
def _weights(ranker: Any) -> np.ndarray:
    """The weights that each candidate gives the learners, float64 (N, number of learners), a copy."""
    return ranker._candidates.copy()


@locked
def _losses(ranker: Any) -> np.ndarray:
    """Cumulative loss of each candidate, float64 (N,), a copy."""
    return ranker._losses.copy()


@locked
def _first_shares(ranker: Any) -> np.ndarray:
    """The share of each candidate before the first query, float64 (N,), a copy."""
    return ranker._prior.copy()


#: What a ranker that blends candidates says of them and of their losses: properties of its class, which gives them these names.
#: It has `rate`, `_candidates`, `_prior`, `_losses` and `_account`.
never_fades, step, account = property(_fades), property(_step), property(_sums)
candidates, candidate_losses, candidate_prior = property(_weights), property(_losses), property(_first_shares)
