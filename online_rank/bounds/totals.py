"""Totals over the rounds of a run."""

from typing import NamedTuple

import numpy as np


class Totals(NamedTuple):
    """Totals over all rounds so far. Losses and masses are multiplied by the sample weights.

    Attributes
    ----------
    n_rounds, n_skipped, n_mistakes
        Numbers of queries learned, of queries from which nothing could be learned (`Round.skipped`), and of queries with a
        loss.
    loss
        Cumulative loss of the weights that learn, ties broken pessimistically: the loss that the bounds limit.
    served_loss
        The same for the served rankings; NaN if not measured.
    mass
        Sum of the masses V_t.
    squared_gradient_norms
        Sum of the ||z_t||^2.
    margin_mass
        Sum of tau_t V_t.
    largest_mass
        B, the largest mass of a round.
    R_X
        Largest l2 norm of a document.
    m
        Largest number of documents of a query.
    v_max
        Largest ratio of two positive v_i of one query.
    largest_weight
        Largest sample weight.
    counted_weight
        Sum of the sample weights of the queries that were not skipped: an upper bound on any loss.
    """

    n_rounds: int
    n_skipped: int
    n_mistakes: int
    loss: float
    served_loss: float
    mass: float
    squared_gradient_norms: float
    margin_mass: float
    largest_mass: float
    R_X: float
    m: int
    v_max: float
    largest_weight: float
    counted_weight: float


#: Which of the totals are maxima; the others are sums.
MAXIMA = np.isin(Totals._fields, ("largest_mass", "R_X", "m", "v_max", "largest_weight"))
