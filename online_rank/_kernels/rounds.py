"""What a round leaves behind, as a row of numbers."""

import math

from online_rank._kernels._jit import leaf


@leaf
def write_round(row, loss, mass, square, margin, weight, m, largest, v_max, skipped):
    """Write a `Round` to `row` (10,); `largest` is the largest squared norm of a document.

    The loss of what was served is left open, NaN: who measures it fills it in. Called last: a query that is rejected leaves the
    row as it was.
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
