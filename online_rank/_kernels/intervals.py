"""The deviation of a sum of losses from the sum of their means: the solution r(alpha, v) of `online_rank.intervals`."""

import math

import numpy as np

from online_rank._kernels._jit import kernel

#: Relative rounding error of r.
_ROUNDING = 1e-14
#: Newton takes fewer than ten.
_MOST_STEPS = 60


@kernel
def radius(scales, psi, log_pi, variation, target):
    """The r at which the logarithm of sum_k exp(log_pi_k + scales_k r - psi_k variation) is `target`, rounded up.

    The logarithm is convex and increasing in r, so Newton's steps from the right end at the root without passing it.
    """
    n = scales.shape[0]
    r = np.inf
    for k in range(n):
        # At this point a single term is as large as the target sum.
        r = min(r, (psi[k] * variation + target - log_pi[k]) / scales[k])
    for _ in range(_MOST_STEPS):
        largest = -np.inf
        for k in range(n):
            largest = max(largest, log_pi[k] + scales[k] * r - psi[k] * variation)
        total, slope = 0.0, 0.0
        for k in range(n):
            term = math.exp(log_pi[k] + scales[k] * r - psi[k] * variation - largest)
            total += term
            slope += scales[k] * term
        step = (largest + math.log(total) - target) * total / slope
        if not step > _ROUNDING * r:
            break
        r -= step
    return r * (1.0 + 4.0 * _ROUNDING)
