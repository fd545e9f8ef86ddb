"""The record of a round as a row of numbers, and totals over rounds."""

import math

from online_rank._kernels._jit import kernel, leaf


@leaf
def write_round(row, loss, mass, square, margin, weight, m, largest, v_max, skipped):
    """Write a `Round` to `row` (10,); `largest` is the largest squared norm of a document.

    The loss of the served ranking is set to NaN, to be filled in by a tracker. It is called last, so a rejected query leaves
    the row unchanged.
    """
    row[0], row[1], row[2], row[3], row[4] = loss, math.nan, mass, square, margin
    row[5], row[6], row[7], row[8], row[9] = weight, m, math.sqrt(largest), v_max, skipped


@kernel
def accumulate(rounds, values, totals, sums, served):
    """Add rounds (q, 10) and losses of comparators (q, n, 2) to running totals (`bounds.totals.Totals`) and sums (n, 2).

    The losses of what was served, where it could be ranked wrongly, go to the sums `served` (3,) of an interval
    (`intervals.losses.add_losses`); (0,) where they are not measured.

    One after the other, so that a block gives the same sums as its queries one by one, bit for bit.
    """
    for q in range(rounds.shape[0]):
        loss, served_loss, mass, square, margin, weight, m, norm, v_max, skipped = rounds[q]
        totals[0] += 1.0
        totals[1] += skipped
        totals[2] += 1.0 if loss > 0.0 else 0.0
        totals[3] += weight * loss
        totals[4] += weight * served_loss
        totals[5] += mass
        totals[6] += square
        totals[7] += margin * mass
        totals[8] = max(totals[8], mass)
        totals[9] = max(totals[9], norm)
        totals[10] = max(totals[10], m)
        totals[11] = max(totals[11], v_max)
        totals[12] = max(totals[12], weight)
        totals[13] += 0.0 if skipped else weight
        for n in range(sums.shape[0]):
            sums[n, 0] += values[q, n, 0]
            sums[n, 1] += values[q, n, 1]
        if served.shape[0] > 0 and not skipped:
            within = min(max(served_loss, 0.0), 1.0)
            difference = within - (0.5 + served[1]) / (served[0] + 1.0)
            served[0] += 1.0
            served[1] += within
            served[2] += difference * difference
