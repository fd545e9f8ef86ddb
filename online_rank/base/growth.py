"""State arrays that grow with the features, and a limit on what a request may add to them."""

import contextvars

import numpy as np

#: How many numbers the features of the query that is learned may still add to states, in a list of one; None for any number.
GROWTH: contextvars.ContextVar[list[float] | None] = contextvars.ContextVar("GROWTH", default=None)


def growth_limited(numbers: float) -> contextvars.Context:
    """A context in which learning adds at most this many numbers to states, and no more than the present context still allows.

    The limit ends with the context, also after an exception. A limit that stayed would refuse what others learn.

    Examples
    --------
    >>> within = growth_limited(100.0)
    >>> within.run(GROWTH.get), GROWTH.get()
    ([100.0], None)
    """
    within = contextvars.copy_context()
    within.run(GROWTH.set, GROWTH.get() or [numbers])
    return within


def with_zeros(array: np.ndarray, n_new: int, axis: int = 0) -> np.ndarray:
    """An array with `n_new` more zeros along an axis, without another array for them.

    Zeros that are not written to take no memory.

    Examples
    --------
    >>> with_zeros(np.ones((1, 2)), 1, axis=1)
    array([[1., 1., 0.]])
    """
    shape = list(array.shape)
    shape[axis] += n_new
    grown = np.zeros(shape, array.dtype)
    grown[tuple(map(slice, array.shape))] = array
    return grown


def grown_triangle(triangle: np.ndarray, d: int, n_new: int) -> np.ndarray:
    """The upper triangle of a matrix (d, d), row by row, with zeros for `n_new` rows and columns more.

    Examples
    --------
    >>> grown_triangle(np.array([1.0, 2.0, 3.0]), 2, 1)
    array([1., 2., 0., 3., 0., 0.])
    """
    grown = np.zeros((d + n_new) * (d + n_new + 1) // 2)
    new = old = 0
    for length in range(d, 0, -1):
        grown[new : new + length] = triangle[old : old + length]
        new, old = new + length + n_new, old + length
    return grown
