"""Powers of one half, with the same bits on every machine."""

import math

_LN_2 = 0.6931471805599453


def halved(times: float) -> float:
    """2^-times, to 2 ulp: what is left after `times` half-lives. The powers of C libraries differ in their last bits.

    Examples
    --------
    >>> halved(1.0), round(halved(2.5), 12)
    (0.5, 0.176776695297)
    """
    whole = round(times)
    r = (whole - times) * _LN_2
    # The series of e^r for |r| <= ln 2 / 2, from its smallest term.
    p = 1.0
    for k in range(15, 0, -1):
        p = 1.0 + p * r / k
    return math.ldexp(p, -whole)
