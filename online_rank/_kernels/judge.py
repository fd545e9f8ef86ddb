"""The pessimistic losses of several rankings of one query at once."""

from online_rank._kernels._jit import kernel
from online_rank._kernels.fits import require
from online_rank._kernels.graded import Target, grade_query, rank_pessimistically, ranking_loss
from online_rank._kernels.workspace import ORDER, workspace


@kernel
def judge_rankings(kind, cutoff, threshold, S, y, discounts, losses):
    """losses[k] = 1 - measure of the ranking by S[k], ties broken pessimistically.

    Parameters
    ----------
    kind, cutoff, threshold : the measure
    S : (K, m) scores, finite
    y : (m,) int64 grades
    discounts : (>= m,) table of D(p)
    losses : (K,) out; 0 if nothing can be ranked wrongly

    Returns
    -------
    Number of levels of grades: -1 when a grade is out of range, below 2 when nothing can be learned.
    """
    require(S.shape[1] == y.shape[0] <= discounts.shape[0] and losses.shape[0] >= S.shape[0])
    m = y.shape[0]
    target = Target(kind, cutoff, threshold, discounts)
    work = workspace(m)
    losses[:] = 0.0
    graded = grade_query(target, y, work)
    if graded.levels < 2:
        return graded.levels
    order = work.integers[ORDER, :m]
    for k in range(S.shape[0]):
        rank_pessimistically(S[k], graded, graded.depth, order, work)
        losses[k] = ranking_loss(target, graded, order)
    return graded.levels
