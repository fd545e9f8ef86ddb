"""Small functions on arrays for all kernels."""

import math

from online_rank._kernels._jit import kernel, leaf


@kernel
def all_finite(values):
    """Whether no value is NaN or infinite."""
    for i in range(values.shape[0]):
        if not math.isfinite(values[i]):
            return False
    return True


@leaf
def copy_to(target, source):
    """target[:] = source, for arrays (n,) that do not overlap.

    numba's own assignment checks for overlap, and may allocate, in every call.
    """
    for i in range(target.shape[0]):
        target[i] = source[i]
