"""Tokens of text in bytes: white space, and decimal numbers read to the nearest double.

The text ends in a newline, at which every loop here stops, so none checks the buffer's end.
"""

import numpy as np

from online_rank._kernels._jit import leaf

# Result codes of `number`.
NUMBER, SLOW, NO_NUMBER = range(3)

# Characters. White space is the space and 9 to 13: tab, newline, vertical tab, form feed, carriage return.
NEWLINE, _SPACE, SHARP, PLUS, MINUS, _DOT, ZERO, COLON = b"\n #+-.0:"

_POWERS = 10.0 ** np.arange(23)  # all exact
_SPLIT = 134217729.0  # 2**27 + 1, Dekker's splitter


@leaf
def _product_error(a, b, product):
    """The rounding error a b - fl(a b), exactly (Dekker 1971)."""
    c = _SPLIT * a
    a_high = c - (c - a)
    a_low = a - a_high
    c = _SPLIT * b
    b_high = c - (c - b)
    b_low = b - b_high
    return a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


@leaf
def _scale_long(mantissa, exponent):
    """The double nearest to ``mantissa * 10**exponent``, mantissa < 10**19, abs(exponent) <= 22, and whether that is certain.

    The mantissa is a sum of two doubles, the power of ten is one, so the result is known to about 100 bits: a leading double
    and a correction. If the correction, with its own error, does not decide the rounding, the result is False.
    """
    tail = mantissa & np.uint64(2047)
    high = np.float64(mantissa - tail)  # at most 53 bits
    low = np.float64(tail)
    if exponent < 0:
        power = _POWERS[-exponent]
        lead = high / power
        product = lead * power
        rest = (((high - product) - _product_error(lead, power, product)) + low) / power
    else:
        power = _POWERS[exponent]
        lead = high * power
        rest = _product_error(high, power, lead) + low * power
    doubt = abs(rest) * 2.0**-49
    value = lead + (rest - doubt)
    return value, value == lead + (rest + doubt)


@leaf
def byte(buffer, at):
    """``buffer[at]``. Unsigned, which avoids the check for negative indices."""
    return buffer[np.uint64(at)]


@leaf
def ends_token(c):
    """White space, the end of the line, or the start of a comment."""
    return c in (_SPACE, SHARP) or 9 <= c <= 13


@leaf
def skip_space(buffer, at):
    """The first position from `at` on that is not white space; it may be the end of the line."""
    c = byte(buffer, at)
    while c == _SPACE or (9 <= c <= 13 and c != NEWLINE):
        at += 1
        c = byte(buffer, at)
    return at


@leaf
def number(buffer, at):
    """Read ``[+-] digits [. digits] [e [+-] digits]`` at `at`: (value, place after it, how it went).

    The value is the double nearest to the decimal number. Up to 2**53 with a power of ten up to 22 one rounding settles it
    (Clinger 1990); up to 19 digits `_scale_long` does; the rest is `SLOW`: well formed, left to the caller.
    """
    c = byte(buffer, at)
    negative = c == MINUS
    if negative or c == PLUS:
        at += 1
    mantissa = np.uint64(0)
    first = at
    digit = np.int64(byte(buffer, at)) - ZERO
    while 0 <= digit <= 9:
        mantissa = mantissa * np.uint64(10) + np.uint64(digit)
        at += 1
        digit = np.int64(byte(buffer, at)) - ZERO
    digits = at - first
    exponent = np.int64(0)
    if byte(buffer, at) == _DOT:
        at += 1
        point = at
        digit = np.int64(byte(buffer, at)) - ZERO
        while 0 <= digit <= 9:
            mantissa = mantissa * np.uint64(10) + np.uint64(digit)
            at += 1
            digit = np.int64(byte(buffer, at)) - ZERO
        exponent = point - at
        digits += at - point
    if digits == 0:
        return 0.0, at, NO_NUMBER
    if digits > 19:
        while first < at and (byte(buffer, first) == ZERO or byte(buffer, first) == _DOT):
            digits -= byte(buffer, first) == ZERO
            first += 1
    if byte(buffer, at) == ord("e") or byte(buffer, at) == ord("E"):
        at += 1
        c = byte(buffer, at)
        if c in (MINUS, PLUS):
            at += 1
        power = np.int64(0)
        first = at
        digit = np.int64(byte(buffer, at)) - ZERO
        while 0 <= digit <= 9:
            if power < 1_000_000:
                power = power * 10 + digit
            at += 1
            digit = np.int64(byte(buffer, at)) - ZERO
        if at == first:
            return 0.0, at, NO_NUMBER
        exponent = exponent - power if c == MINUS else exponent + power
    if digits > 19:
        return 0.0, at, SLOW
    if mantissa == 0 or (exponent == 0 and mantissa <= np.uint64(1 << 53)):
        value = np.float64(mantissa)
    elif exponent < -22 or exponent > 22:
        return 0.0, at, SLOW
    elif mantissa <= np.uint64(1 << 53):
        value = np.float64(mantissa) / _POWERS[-exponent] if exponent < 0 else np.float64(mantissa) * _POWERS[exponent]
    else:
        value, certain = _scale_long(mantissa, exponent)
        if not certain:
            return 0.0, at, SLOW
    return -value if negative else value, at, NUMBER
