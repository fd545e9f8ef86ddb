"""Checks of arguments, by type and range, with one wording for all errors.

Each check takes the argument's name and its value, and returns nothing. A value of the wrong type raises TypeError, a value
outside the range ValueError; both messages name the argument.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from online_rank.limits import INT64_HIGH, INT64_LOW, LARGEST_SETTING, LEAST_SETTING, is_integer

#: Seconds since 1970 are below this until the year 5138; milliseconds are above it.
LATEST = 1e11

#: Seconds of each unit of a length of time.
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def integer(name: str, value: Any, low: int | None = None, high: int = INT64_HIGH, *, optional: bool = False) -> None:
    """Require an integer from `low` to `high`, both included; True and False are refused.

    Parameters
    ----------
    name, value
        The argument.
    low
        None for the smallest 64-bit integer.
    high
        At most 2^63 - 1.
    optional
        Whether None may stand in its place.

    Examples
    --------
    >>> integer("window", 8, 1)
    >>> integer("window", 8.5, 1)
    Traceback (most recent call last):
        ...
    TypeError: window is 8.5; it must be an integer >= 1
    """
    if optional and value is None:
        return
    wanted = "an integer" + _range(low, high if high != INT64_HIGH else None) + _or_none(optional)
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} is {_shown(value)}; it must be {wanted}")
    if not is_integer(value, INT64_LOW if low is None else low, high):
        raise ValueError(f"{name} is {_shown(value)}; it must be {wanted}")


def number(
    name: str,
    value: Any,
    low: float | None = None,
    high: float | None = None,
    *,
    above: float | None = None,
    below: float | None = None,
    optional: bool = False,
    measured: bool = False,
) -> None:
    """Require a finite number from `low` to `high`, both included, above `above` and below `below`.

    It is a float, or an integer of at most 64 bits; unless it was measured, 0 or from 1e-100 to 1e100 in size.

    Parameters
    ----------
    name, value
        The argument.
    low, high, above, below
        Its range; None for no limit.
    optional
        Whether None may stand in its place.
    measured
        Whether it is no setting of a model, which multiplies and squares it, but a total or a norm.

    Examples
    --------
    >>> number("margin", 1, above=0)
    >>> number("margin", 0.0, above=0)
    Traceback (most recent call last):
        ...
    ValueError: margin is 0.0; it must be a number above 0
    >>> number("half_life", "1d", above=0, optional=True)
    Traceback (most recent call last):
        ...
    TypeError: half_life is '1d'; it must be a number above 0, or None
    """
    if optional and value is None:
        return
    wanted = "a number" + _range(low, high, above, below) + _or_none(optional)
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name} is {_shown(value)}; it must be {wanted}")
    # Kernels and files take integers of 64 bits.
    if isinstance(value, int | np.integer) and not is_integer(value):
        raise ValueError(f"{name} is {_shown(value)}; it must be {wanted}, a float where 64 bits do not hold an integer")
    if not math.isfinite(value):
        raise ValueError(f"{name} is {_shown(value)}; it must be {wanted.replace('a number', 'a finite number', 1)}")
    within = (low is None or value >= low) and (high is None or value <= high)
    if not (within and (above is None or value > above) and (below is None or value < below)):
        raise ValueError(f"{name} is {_shown(value)}; it must be {wanted}")
    if value and not measured and not LEAST_SETTING <= abs(float(value)) <= LARGEST_SETTING:
        raise ValueError(
            f"{name} is {_shown(value)}; it must be {wanted}, and from {LEAST_SETTING:g} to {LARGEST_SETTING:g} in size"
        )


def choice(name: str, value: Any, choices: Iterable[Any], *, optional: bool = False) -> None:
    """Require one of the `allowed` values.

    Examples
    --------
    >>> choice("mass", "loss", ("loss", "sqrt"))
    >>> choice("mass", "losses", ("loss", "sqrt"))
    Traceback (most recent call last):
        ...
    ValueError: mass is 'losses'; it must be 'loss' or 'sqrt'
    """
    if optional and value is None:
        return
    known = list(choices)
    for known_value in known:
        # Types must match too: 1 is not True, and comparing an array gives an array.
        if type(value) is type(known_value) and value == known_value:
            return
    *first, last = map(repr, known)
    allowed = f"{', '.join(first)} or {last}" if first else last
    kind = ValueError if any(type(value) is type(known_value) for known_value in known) else TypeError
    raise kind(f"{name} is {_shown(value)}; it must be {allowed}{_or_none(optional)}")


def flag(name: str, value: Any) -> None:
    """Require True or False.

    Examples
    --------
    >>> flag("served", 1)
    Traceback (most recent call last):
        ...
    TypeError: served is 1; it must be True or False
    """
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is {_shown(value)}; it must be True or False")


def names(name: str, value: Any, wanted: str, *, optional: bool = False) -> None:
    """Require a list or tuple of different strings, at least one; `wanted` says of what.

    Examples
    --------
    >>> names("runs", ["bm25", "vector"], "names of retrievers")
    >>> names("runs", {"bm25": 0.3, "vector": 0.7}, "names of retrievers")
    Traceback (most recent call last):
        ...
    TypeError: runs is of type dict; it must be a list of different names of retrievers
    """
    if optional and value is None:
        return
    expected = f"a list of different {wanted}{_or_none(optional)}"
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise TypeError(f"{name} is {_shown(value)}; it must be {expected}")
    if not value or len({*value}) < len(value):
        raise ValueError(f"{name} is {value!r:.60}; it must be {expected}")
    for i, each in enumerate(value):
        # Files hold no other strings.
        if type(each) is not str:
            raise TypeError(f"{name}[{i}] is {each!r:.60} of type {type(each).__name__}; {wanted} are of type str")


def seed(value: Any, name: str = "seed") -> None:
    """Require a seed: an integer from 0 to 2^63 - 1.

    Examples
    --------
    >>> seed(-1)
    Traceback (most recent call last):
        ...
    ValueError: seed is -1; it must be an integer >= 0
    """
    integer(name, value, 0)


def examination(value: Any) -> None:
    """Require one probability > 0 for each position, or None.

    Examples
    --------
    >>> examination((1.0, 0.5))
    >>> examination((1.0, 0.0))
    Traceback (most recent call last):
        ...
    ValueError: examination is (1.0, 0.0); it is one probability > 0 for each position
    """
    if value is not None and not (len(value) and all(0.0 < p <= 1.0 for p in value)):
        raise ValueError(f"examination is {value}; it is one probability > 0 for each position")


def _range(low: float | None, high: float | None, above: float | None = None, below: float | None = None) -> str:
    """The range in words, with a leading space; empty without limits."""
    if low is not None and high is not None:
        return f" from {low:g} to {high:g}"
    limits = ((">=", low), ("<=", high), ("above", above), ("below", below))
    return "".join(
        f"{' and' if i else ''} {sign} {limit:g}" for i, (sign, limit) in enumerate(x for x in limits if x[1] is not None)
    )


def _or_none(optional: bool) -> str:
    return ", or None" if optional else ""


def _shown(value: Any) -> str:
    """A value as messages show it: its repr if that is short, otherwise its type."""
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, str | int | float | None):
        text = repr(value)
        return text if len(text) <= 60 else text[:57] + "..."
    return f"of type {type(value).__name__}"


def seconds_of(text: str, name: str) -> float:
    """A length of time as texts say it: 90, 90s, 30m, 12h or 7d. Raises ValueError.

    Examples
    --------
    >>> seconds_of("30m", "--feedback-window"), seconds_of("2.5", "--idle")
    (1800.0, 2.5)
    """
    unit = text[-1:]
    digits = text[:-1] if unit in _UNITS else text
    try:
        seconds = float(digits) * _UNITS.get(unit, 1.0)
    except ValueError:
        seconds = math.nan
    if not 0.0 < seconds < math.inf:
        raise ValueError(f"{name} is {_shown(text)}; it is a time above 0, such as 90s, 30m, 12h or 7d")
    return seconds


def require_time(name: str, value: Any) -> None:
    """Raise ValueError unless a value is a time in seconds.

    Examples
    --------
    >>> require_time("ts", 1_763_000_000.5)
    >>> require_time("ts", 1_763_000_000_500)
    Traceback (most recent call last):
        ...
    ValueError: ts is 1763000000500; it must be a time in seconds (of milliseconds, a thousandth)
    """
    if type(value) not in (int, float) or not -LATEST < value < LATEST:
        raise ValueError(f"{name} is {str(value)[:40]}; it must be a time in seconds (of milliseconds, a thousandth)")
