"""Standard normal quantiles for targets that have no function for them: the rational approximations of Acklam (2003).

Both are ratios of polynomials, highest power first: below `NORMAL_SPLIT` of the square root of -2 ln p, and in the middle,
times p - 1/2, of the square of p - 1/2. They are what the kernels compute.
"""

NORMAL_SPLIT = 0.02425
NORMAL_TAIL = (
    (
        -7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838, -2.549732539343734, 4.374664141464968,
        2.938163982698783,
    ),
    (7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996, 3.754408661907416, 1.0),
)  # fmt: skip
NORMAL_MIDDLE = (
    (
        -3.969683028665376e01, 2.209460984245205e02, -2.759285104469687e02, 1.383577518672690e02, -3.066479806614716e01,
        2.506628277459239,
    ),
    (
        -5.447609879822406e01, 1.615858368580409e02, -1.556989798598866e02, 6.680131188771972e01, -1.328068155288572e01, 1.0,
    ),
)  # fmt: skip


def polynomial(t: str, coefficients: tuple[float, ...]) -> str:
    """A polynomial as an expression, by Horner's rule."""
    text = f"{coefficients[0]!r} * {t}"
    for coefficient in coefficients[1:-1]:
        text = f"({text} + {coefficient!r}) * {t}"
    return f"({text} + {coefficients[-1]!r})"
