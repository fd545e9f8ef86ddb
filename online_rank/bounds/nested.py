"""Blends within blends: all candidates, and by how much the loss that was served may exceed the loss of each."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from online_rank.rankers.hedge import HedgeAccount, OuterHedge


class Candidates(NamedTuple):
    """The candidates of a blend, and of the blends that are candidates of it.

    Attributes
    ----------
    losses, prices
        The loss of each, float64 (N,), and by how much the served loss may exceed it, without Delta and G of the outermost.
    weights
        What each gives to the members, (N, K).
    members
        The names of the members.
    """

    losses: np.ndarray
    prices: np.ndarray
    weights: np.ndarray
    members: tuple[str, ...]


def nested(
    inner: Candidates, account: HedgeAccount, outer: OuterHedge, weights: np.ndarray, names: Sequence[str]
) -> Candidates:
    """The candidates of a blend whose first candidate is another blend, with its candidates in the place of it.

    The served loss is at most L(c) + ln(1 / pi_c) / eta + Delta + G for each candidate c of the outer blend. The loss of the
    inner blend alone, which is the first of these, is at most the same of each of its candidates, with its own eta, Delta and
    G: so against these the price is what both blends may lose.

    Parameters
    ----------
    inner, account
        The candidates of the inner blend, and its account.
    outer
        The outer blend.
    weights, names
        What each candidate of the outer blend gives to its members, the inner blend among them, and their names.
    """
    costs, n_inner, n_outer = -np.log(outer.prior) / outer.step, inner.weights.shape[1], weights.shape[1]
    lost = account.mixability_gap + float(outer.losses[0]) - account.mixed
    return Candidates(
        np.concatenate([inner.losses, outer.losses[1:]]),
        np.concatenate([inner.prices + lost + costs[0], costs[1:]]),
        np.concatenate([np.pad(inner.weights, ((0, 0), (0, n_outer))), np.pad(weights[1:], ((0, 0), (n_inner, 0)))]),
        (*inner.members, *names),
    )
