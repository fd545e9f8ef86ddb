"""The mass theorem for a perceptron on pairs of vectors.

It is new in this library. The score q' W d is linear in the products q_a d_b, whose norm is |q| |d|, and an update q z' has the
norm |q| |z|. So all that holds for weights and documents holds for matrices and such products, with the Frobenius norm.
"""

import math
from typing import Any

from online_rank.bounds.certificate import Run
from online_rank.bounds.declaration import PLAIN, bound
from online_rank.rankers.vectors import VectorRanker

__all__ = ["run_of_vectors", "vector_hindsight_bound", "vector_mass_bound"]

_ALONE = {"comparator": ("none",), "beginning": ("zero", "given")}

_NOTE = (
    "The loss is of the rankings by the matrix that learns; the average of matrices serves. Q counts what float32 rounds, "
    "so the bounds hold for the numbers that are stored."
)
_NOTE_ON_OTHERS = "Queries without a vector are not part of it: a linear score ranks them."


@bound("F(u) + ||u|| sqrt(||w_1||^2 + Q) - <u, w_1>, at u = w_1", of=VectorRanker, runs=_ALONE)
def vector_mass_bound(
    *, comparator_loss: float, comparator_norm: float, beginning_norm: float, beginning_product: float, squares: float
) -> float:
    r"""Upper bound on the loss of a matrix that learns, against every matrix U.

    .. math:: \sum_t RML_t \le V \le F(U) + \|U\| \sqrt{\|W_1\|^2 + Q} - \langle U, W_1 \rangle, \qquad
        Q = \sum_t \|q_t\|^2 \|z_t\|^2 + 2 (\tau_t + \delta_t) V_t

    Proof: `beginning_data_bound` with the products of q and d as features. The matrix is stored in float32. Let G_t be the
    exact sum of the beginning and all updates: the stored matrix differs from it by at most the sum of what was rounded, in
    norm, and a computed difference of two scores from the difference by G_t by at most delta_t, since |q| |d| <= 1. The pairs
    of the update are wrong, or right by at most tau_t, by the computed scores; so <G_t, q z'> <= (tau_t + delta_t) V_t, which
    is all that the proof uses. At U = W1, the cosine, the last two terms are at most Q / 2; where the matrix begins at 0, F is
    V at U = 0.

    Parameters
    ----------
    comparator_loss, comparator_norm
        F(U) on the pairs of the updates, and the Frobenius norm of U.
    beginning_norm, beginning_product
        |W1|, and <U, W1>.
    squares
        Q.

    Examples
    --------
    >>> vector_mass_bound(  # 1 + 3 * 5 - 9
    ...     comparator_loss=1.0, comparator_norm=3.0, beginning_norm=3.0, beginning_product=9.0, squares=16.0
    ... )
    7.0
    """
    return comparator_loss + comparator_norm * math.hypot(beginning_norm, math.sqrt(squares)) - beginning_product


@bound("F(u) + <u, w - w_1> + ||u|| rho, at u = w_1", of=VectorRanker, runs=_ALONE)
def vector_hindsight_bound(*, comparator_loss: float, gain_product: float, comparator_norm: float, rounded: float) -> float:
    r"""The same once the stream is over: :math:`V \le F(U) + \langle U, W_{T+1} - W_1 \rangle + \|U\| \rho`.

    Proof: the hinges of the pairs of an update give V_t - F_t(U) <= <U, q z'>; add up. The exact sum of updates differs from
    the stored one by at most rho in norm.

    Parameters
    ----------
    comparator_loss, comparator_norm
        As for `vector_mass_bound`.
    gain_product
        <U, W_{T+1} - W1>, of either sign.
    rounded
        rho, the sum of all that float32 rounded.

    Examples
    --------
    >>> vector_hindsight_bound(comparator_loss=1.0, gain_product=-0.5, comparator_norm=2.0, rounded=0.25)
    1.0
    """
    return comparator_loss + gain_product + comparator_norm * rounded


def run_of_vectors(ranker: VectorRanker, *, moved: bool) -> Run:
    """The run of a `VectorRanker` so far, against the matrix that it began with.

    Parameters
    ----------
    ranker
        The ranker.
    moved
        Whether transformers before it may have learned from each query before it did, which the run does not ask.
    """
    learner, sums = ranker.learner, ranker.learner.sums
    norm = learner.beginning
    facts: dict[str, Any] = {
        "loss_of": "of the matrix that learns" + (", on the vectors that were learned" if moved else ""),
        "comparator_loss": sums.compared if norm else sums.mass,
        "comparator_norm": norm,
        "beginning_norm": norm,
        "beginning_product": norm * norm,
        "squares": sums.squares,
        "gain_product": learner.gain_of_beginning,
        "rounded": sums.rounded,
    }
    totals = {
        "loss": sums.loss, "n_queries": ranker.n_queries, "n_counted": sums.n_counted, "counted_weight": sums.weight,
        "mass": sums.mass,
    }  # fmt: skip
    unknown = {}
    if ranker._n_served:
        unknown["comparator_loss"] = "covers a matrix that learns from its own mistakes, without served="
    if ranker.n_clicked:
        unknown["comparator_loss"] = "covers grades, and this one has learned from clicks"
    size = sums.mass + norm * norm + sums.squares
    properties = PLAIN | {"comparator": "none", "beginning": "given" if norm else "zero"}
    both = learner is not ranker.linear and ranker.linear.shape[0]
    notes = (_NOTE, _NOTE_ON_OTHERS) if both else (_NOTE,)
    return Run(properties, totals, facts, unknown, size=size, notes=notes)
