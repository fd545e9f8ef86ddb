"""The record of a round as a row of numbers."""

import math

from online_rank._kernels._jit import leaf


@leaf
def write_round(row, loss, mass, square, margin, weight, m, largest, v_max, skipped):
    """Write a `Round` to `row` (10,); `largest` is the largest squared norm of a document.

    The loss of the served ranking is set to NaN, to be filled in by a tracker. It is called last, so a rejected query leaves
    the row unchanged.
    """
    row[0] = loss
    row[1] = math.nan
    row[2] = mass
    row[3] = square
    row[4] = margin
    row[5] = weight
    row[6] = m
    row[7] = math.sqrt(largest)
    row[8] = v_max
    row[9] = skipped
