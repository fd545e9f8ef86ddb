"""Losses of comparators in a round that was learned elsewhere: its pairs are found again, from scores and grades."""

from online_rank._kernels._jit import kernel
from online_rank._kernels.codes import N_COUNTERS
from online_rank._kernels.credit import room_for_pairs
from online_rank._kernels.fits import require
from online_rank._kernels.graded import grade_query
from online_rank._kernels.perceptron import respond, settings, share_of_spread, violation
from online_rank._kernels.watching import compare_round
from online_rank._kernels.workspace import VIOLATION_KEYS, workspace


@kernel
def compare(y, s, weight, offset, scores, discounts, config, counters, out):
    """Losses of comparators in a round with an update.

    Parameters
    ----------
    y : (m,) grades of the query
    s : (m,) scores that decided the update
    weight, offset : sample weight and margin tau of the round
    scores : (n, m) scores by the comparators
    discounts, config : as `perceptron.learn` takes them
    counters : those of the ranker after the round
    out : (n, 2) out: F(u) = sum of a_ij hinge_ij(u), and f(u) = weight phi_v; infinity for overflow
    """
    require(y.shape[0] == s.shape[0] == scores.shape[1] and discounts.shape[0] >= s.shape[0])
    require(out.shape[0] == scores.shape[0] and out.shape[1] == 2 and counters.shape[0] == N_COUNTERS)
    target, rule = settings(config, discounts)
    m = s.shape[0]
    work = workspace(m)
    graded = grade_query(target, y, work)
    _, _, _, scale = respond(target, rule, graded, s, weight, offset, work, True)
    violated = violation(rule, graded, s, offset, work.reals[VIOLATION_KEYS, :m], True)
    of_spread, _, _ = share_of_spread(0.0, 0.0, 1.0, counters)
    compare_round(scores, room_for_pairs(m), target, rule, graded, violated, weight, scale, of_spread, work, out, True)
