"""Rows of numbers in JSON, an array of arrays, read into an array without an object for each number."""

from online_rank._kernels._jit import kernel, leaf
from online_rank._kernels.tokens import MINUS, NUMBER, byte, number

_OPEN, _CLOSE, _COMMA = b"[],"


@leaf
def _skip_space(text, at):
    """The first position from `at` on that is no white space of JSON; the bracket that ends the text is none."""
    c = byte(text, at)
    while c == 32 or c == 10 or c == 13 or c == 9:
        at += 1
        c = byte(text, at)
    return at


@leaf
def _next_part(text, at, is_first):
    """Where the next part of an array begins, or -1 if one that is not the first lacks its comma."""
    at = _skip_space(text, at)
    if is_first:
        return at
    return _skip_space(text, at + 1) if byte(text, at) == _COMMA else -1


@kernel
def read_rows(text, X):
    """Whether a text is m arrays of d numbers, which are read into X (m, d), each to the nearest double.

    Parameters
    ----------
    text : (n,) uint8
        Valid JSON.
    X : (m, d) float64
        Receives the numbers. If the result is False, what it has then has no meaning.

    Returns
    -------
    False also for numbers that need exact conversion, and for the integer -0, which has no sign: the caller reads them.
    """
    n = text.shape[0]
    # The last bracket stops every loop here, so none checks the end of the text.
    if n < 2 or byte(text, 0) != _OPEN or byte(text, n - 1) != _CLOSE:
        return False
    at = 1
    for i in range(X.shape[0]):
        at = _next_part(text, at, i == 0)
        if at < 0 or byte(text, at) != _OPEN:
            return False
        at += 1
        for j in range(X.shape[1]):
            begin = _next_part(text, at, j == 0)
            if begin < 0:
                return False
            value, at, kind = number(text, begin)
            if kind != NUMBER or (value == 0.0 and at == begin + 2 and byte(text, begin) == MINUS):
                return False
            X[i, j] = value
        at = _skip_space(text, at)
        if byte(text, at) != _CLOSE or at == n - 1:
            return False
        at += 1
    return _skip_space(text, at) == n - 1
