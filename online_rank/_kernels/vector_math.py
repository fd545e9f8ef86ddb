"""exp, log, log1p, tanh and whole powers without calls of the C library, whose last bits differ between machines.

All but `power` are free of branches, so that loops over them vectorise: calling the C library for each element takes longer
than a network's matrix products. The polynomials are Taylor series, except the logarithm's.
"""

import numpy as np

from online_rank._kernels._jit import inner
from online_rank._kernels.primitives import power_of_two, split_float

# ln 2 = head + tail; the head has so few bits that its product with n is exact.
_SHIFT, _INVERSE, _LOWEST = 1.5 * 2.0**52, 1.4426950408889634, -700.0
_HEAD, _TAIL = 0.693147180369123816490, 1.90821492927058770002e-10
_E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9, _E10, _E11, _E12, _E13 = (float(1.0 / f) for f in np.cumprod(np.arange(2.0, 14.0)))
_L1, _L2, _L3, _L4, _L5, _L6, _L7, _L8 = (1.0 / k for k in range(3, 19, 2))
_L9, _L10, _L11, _L12, _L13, _L14, _L15, _L16 = (1.0 / k for k in range(19, 35, 2))


@inner
def _exp_parts(x):
    """p and 2^n with e^x = 2^n (1 + p), |p| < 1/2, for x <= 0."""
    x = _LOWEST if x < _LOWEST else x
    shifted = x * _INVERSE + _SHIFT
    n = shifted - _SHIFT
    r = (x - n * _HEAD) - n * _TAIL
    p = _E8 + r * (_E9 + r * (_E10 + r * (_E11 + r * (_E12 + r * _E13))))
    p = _E2 + r * (_E3 + r * (_E4 + r * (_E5 + r * (_E6 + r * (_E7 + r * p)))))
    return r + r * r * p, power_of_two(shifted)


@inner
def exp_negative(x):
    """e^x of a float64 x <= 0, to 2 ulp. Below -700 it is e^-700, about 10^-304."""
    p, scale = _exp_parts(x)
    return scale + scale * p


@inner
def expm1_negative(x):
    """e^x - 1 of a float64 x <= 0, to 2 ulp."""
    p, scale = _exp_parts(x)
    return scale * p + (scale - 1.0)


@inner
def log1p_unit(x):
    """log(1 + x) of a float64 x in [0, 1], to 2 ulp: 2 artanh(x / (2 + x))."""
    z = x / (2.0 + x)
    u = z * z
    p = _L9 + u * (_L10 + u * (_L11 + u * (_L12 + u * (_L13 + u * (_L14 + u * (_L15 + u * _L16))))))
    p = _L1 + u * (_L2 + u * (_L3 + u * (_L4 + u * (_L5 + u * (_L6 + u * (_L7 + u * (_L8 + u * p)))))))
    return 2.0 * (z + z * u * p)


@inner
def log(x):
    """log of a positive normal float64, to 1 ulp, as in fdlibm: x = 2^n m, log(m) from s = r / (2 + r), r = m - 1."""
    m, n = split_float(x)
    r = m - 1.0
    half = 0.5 * r * r
    s = r / (2.0 + r)
    z = s * s
    w = z * z
    even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01))
    odd = w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01))
    polynomial = even + z * (6.666666666666735130e-01 + odd)
    return n * _HEAD - ((half - (s * (half + polynomial) + n * _TAIL)) - r)


@inner
def power(base, exponent):
    """base^exponent, for a whole number >= 0: by squaring, so that the relative error is at most about exponent ulp."""
    left = np.int64(exponent)
    result = 1.0
    while left > 0:
        if left % 2 == 1:
            result *= base
        left //= 2
        if left > 0:
            base *= base
    return result


@inner
def tanh64(x):
    """tanh of a float64, to 3 ulp; exactly odd; NaN stays NaN."""
    # tanh |x| = (1 - e^(-2 |x|)) / (1 + e^(-2 |x|))
    e = expm1_negative(-2.0 * abs(x))
    return np.copysign(e / (2.0 + e), x)


_f = np.float32
_ONE32, _TWO32, _LOWEST32 = _f(1.0), _f(2.0), _f(-80.0)
_SHIFT32, _INVERSE32 = _f(1.5 * 2.0**23), _f(1.4426950408889634)
_HEAD32, _TAIL32 = _f(0.693359375), _f(-2.12194440e-4)
_F2, _F3, _F4, _F5, _F6, _F7 = (_f(1.0 / f) for f in np.cumprod(np.arange(2.0, 8.0)))


@inner
def tanh32(x):
    """tanh of a float32, to 3 ulp; exactly odd; NaN stays NaN."""
    y = -_TWO32 * abs(x)
    y = _LOWEST32 if y < _LOWEST32 else y
    shifted = y * _INVERSE32 + _SHIFT32
    n = shifted - _SHIFT32
    r = (y - n * _HEAD32) - n * _TAIL32
    p = r + r * r * (_F2 + r * (_F3 + r * (_F4 + r * (_F5 + r * (_F6 + r * _F7)))))
    scale = power_of_two(shifted)
    e = scale * p + (scale - _ONE32)
    return np.copysign(e / (_TWO32 + e), x)


#: Below it, and above one minus it, `normal_quantile` takes other approximations.
TAIL = 0.02425


@inner
def central_quantile(p):
    """Phi^-1(p), TAIL <= p <= 1 - TAIL, as `normal_quantile`."""
    q = p - 0.5
    r = q * q
    up = ((((-3.969683028665376e01 * r + 2.209460984245205e02) * r - 2.759285104469687e02) * r + 1.383577518672690e02) * r
          - 3.066479806614716e01) * r + 2.506628277459239  # fmt: skip
    down = ((((-5.447609879822406e01 * r + 1.615858368580409e02) * r - 1.556989798598866e02) * r + 6.680131188771972e01) * r
            - 1.328068155288572e01) * r + 1.0  # fmt: skip
    return q * up / down


@inner
def normal_quantile(p):
    """Phi^-1(p), 0 < p < 1, by the rational approximations of Acklam (2003), within 1.2e-9 relative."""
    tail = min(p, 1.0 - p)
    if tail >= TAIL:
        return central_quantile(p)
    t = np.sqrt(-2.0 * log(tail))
    up = ((((-7.784894002430293e-03 * t - 3.223964580411365e-01) * t - 2.400758277161838) * t - 2.549732539343734) * t
          + 4.374664141464968) * t + 2.938163982698783  # fmt: skip
    down = (((7.784695709041462e-03 * t + 3.224671290700398e-01) * t + 2.445134137142996) * t + 3.754408661907416) * t + 1.0
    return up / down if p < 0.5 else -up / down
