"""Checks of the numbers that bounds take."""

import math

from online_rank.arguments import number

__all__ = ["growth", "require_finite", "require_non_negative", "require_positive", "square"]


def require_positive(**values: float) -> None:
    """Raise for the first value that is not a finite number > 0."""
    for name, value in values.items():
        number(name, value, above=0.0)


def require_finite(**values: float) -> None:
    """Raise for the first value that is not a finite number."""
    for name, value in values.items():
        number(name, value)


def require_non_negative(**values: float) -> None:
    """Raise for the first value that is not a number >= 0; infinity is one."""
    for name, value in values.items():
        if value != math.inf:
            number(name, value, 0.0)


def growth(largest_mass: float, relative_margin: float) -> float:
    """The factor 4 B (1 + 2 beta): in a round the squared norm of the weights grows by at most this times R_X^2 V.

    ||z||^2 + 2 tau V, with ||z||^2 <= 4 R_X^2 B V and the margin of a `PerceptronRanker`, tau = beta sum ||z||^2 / sum V over
    the rounds before, which is at most 4 beta B R_X^2.
    """
    return 4.0 * largest_mass * (1.0 + 2.0 * relative_margin)


def square(x: float) -> float:
    """x^2; infinity if it overflows."""
    return x * x
