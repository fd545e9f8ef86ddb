"""The one notion of time: which unit numbers have, and the seconds since 1970 of everything that is a time.

A number is a date in a unit if it lies between the years 1980 and 2100 there. These ranges of seconds, milliseconds,
microseconds and nanoseconds do not overlap, so the size of a number tells its unit. Smaller numbers are times relative to some
beginning, or counts of queries, and stay as they are. Times without a zone are in UTC.
"""

import datetime as dt
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from online_rank.arguments import LATEST

__all__ = [
    "ISO", "PER_SECOND", "RELATIVE", "WANTED", "ZONED", "decided_unit", "require_one_unit", "seconds_of_dates",
    "seconds_of_text", "seconds_of_time", "unit_of", "units_of",
]  # fmt: skip

#: How many of each unit a second has.
PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
#: What stands for the unit of numbers that are no dates.
RELATIVE = "relative"
#: Seconds since 1970 at the beginning of 1980 and of 2100.
_FIRST, _LAST = 315_532_800.0, 4_102_444_800.0
#: The least share of the numbers of a column that are dates, if the column has dates. Of a counter that rises evenly from 0,
#: at most .923 lie between the dates of a unit.
_DATES = 0.95
_NAMES = ("", *PER_SECOND)
_ZONE = r" ?(?:[Zz]|UTC|[-+]\d{2}(?::?\d{2})?)"
_TIME = r"\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?"
#: Texts in ISO 8601 that are dates or times, with up to nine digits of a second; and texts of times with a zone.
ISO = rf"^\d{{4}}-\d{{2}}-\d{{2}}(?:[Tt ]{_TIME}(?:{_ZONE})?)?$"
ZONED = rf":\d{{2}}(?:[.,]\d+)?{_ZONE}$"
_PARTS = re.compile(
    rf"(\d{{4}}-\d{{2}}-\d{{2}})(?:[Tt ](\d{{2}}:\d{{2}}(?::\d{{2}})?)(?:[.,](\d{{1,9}}))?({_ZONE})?)?", re.ASCII
)
_EPOCH = dt.datetime(1970, 1, 1)
#: What may be a time, for messages.
WANTED = "dates of 1980 to 2100 in s, ms, us or ns since 1970, smaller numbers, datetimes, and texts in ISO 8601"


def units_of(values: np.ndarray) -> np.ndarray:
    """For each number the unit in which it is a date, as an index: 0 for none, 1 s, 2 ms, 3 us, 4 ns.

    Parameters
    ----------
    values
        float64 (n,).

    Returns
    -------
    int64 (n,).

    Examples
    --------
    >>> units_of(np.array([12.0, 1.76e9, 1.76e12, 1.76e15, 1.76e18])).tolist()
    [0, 1, 2, 3, 4]
    """
    found = np.zeros(len(values), dtype=np.int64)
    for k, per_second in enumerate(PER_SECOND.values(), start=1):
        found[(values >= _FIRST * per_second) & (values < _LAST * per_second)] = k
    return found


def unit_of(number: float) -> str:
    """The unit in which one number is a date; `RELATIVE` if it is none."""
    return _NAMES[int(units_of(np.array([number]))[0])] or RELATIVE


def decided_unit(values: np.ndarray) -> str:
    """The unit of the numbers of a column, by the weight of evidence: "s", "ms", "us", "ns", or `RELATIVE`.

    Nearly all numbers above 0 must be dates, and then the most frequent unit is the column's. Otherwise the numbers are
    relative.

    Parameters
    ----------
    values
        float64 (n,): the first numbers of the column; NaN is missing.

    Examples
    --------
    >>> decided_unit(np.array([1.76e12, 1.77e12, 0.0])), decided_unit(np.array([0.0, 60.0, 1.76e9]))
    ('ms', 'relative')
    """
    values = values[values > 0.0]
    counts = np.bincount(units_of(values), minlength=len(_NAMES))[1:]
    if not len(values) or counts.sum() < _DATES * len(values):
        return RELATIVE
    return _NAMES[1 + int(counts.argmax())]


def require_one_unit(values: np.ndarray, unit: str) -> Iterator[tuple[int, str]]:
    """The numbers that are dates in another unit than their column, by their index, and what is wrong with each.

    Examples
    --------
    >>> list(require_one_unit(np.array([1.76e9, 1.76e12]), "s"))
    [(1, '1760000000000 is a date in ms, and the times before it are in s: a column has one unit')]
    """
    if unit == RELATIVE:
        return
    found = units_of(values)
    for i in np.flatnonzero((found > 0) & (found != _NAMES.index(unit))).tolist():
        what = f"is a date in {_NAMES[found[i]]}, and the times before it are in {unit}: a column has one unit"
        yield i, f"{values[i]:.17g} {what}"


def seconds_of_text(text: str) -> float | None:
    """Seconds since 1970 of a date or a time in ISO 8601, in UTC without a zone; None for any other text.

    Examples
    --------
    >>> seconds_of_text("1970-01-02"), seconds_of_text("1970-01-01T01:00:00.000000500+01:00"), seconds_of_text("1970")
    (86400.0, 5e-07, None)
    """
    if text[4:5] != "-" or (found := _PARTS.fullmatch(text)) is None:
        return None
    day, time, fraction, zone = found.groups()
    zone = (zone or "").strip()
    offset = "+00:00" if zone in ("", "Z", "z", "UTC") else zone if len(zone) != 3 else zone + ":00"
    try:
        when = dt.datetime.fromisoformat(f"{day}T{time or '00:00'}{offset}")
    except ValueError:  # such as month 13
        return None
    return _of_nanoseconds(_microseconds(when) * 1000 + int((fraction or "").ljust(9, "0")))


def seconds_of_dates(value: Any) -> float | None:
    """Seconds since 1970 of a date or a time of Python, numpy, pandas or Arrow, and of a length of time; None for the rest.

    NaT is NaN. Without a zone it is in UTC.

    Examples
    --------
    >>> seconds_of_dates(dt.date(1970, 1, 2)), seconds_of_dates(np.datetime64("1970-01-01T00:00:01")), seconds_of_dates(3.0)
    (86400.0, 1.0, None)
    """
    if isinstance(value, np.datetime64 | np.timedelta64):
        value = value - np.datetime64(0, "s") if isinstance(value, np.datetime64) else value
        return float(value / np.timedelta64(1, "s"))
    if type(value).__name__ == "NaTType":
        return math.nan
    if isinstance(value, dt.datetime):  # pandas counts nanoseconds beyond the microseconds.
        return _of_nanoseconds(_microseconds(value) * 1000 + getattr(value, "nanosecond", 0))
    if isinstance(value, dt.date):
        return float(value.toordinal() - _EPOCH.toordinal()) * 86400.0
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if hasattr(value, "as_py") and hasattr(value, "type"):
        return seconds_of_dates(value.as_py())
    return None


def seconds_of_time(name: str, value: Any) -> float:
    """Seconds of one time in any form: a number, whose size tells its unit, a date, or a text in ISO 8601.

    Parameters
    ----------
    name, value
        The argument. Numbers below 1980 in each unit are relative times, and stay as they are.

    Raises
    ------
    TypeError, ValueError
        It is no time, or a number that is no date in any unit and too large to be a relative time.

    Examples
    --------
    >>> [seconds_of_time("at", at) for at in (60, 1_763_000_000_500, "2025-11-13T02:13:20.5Z")]
    [60.0, 1763000000.5, 1763000000.5]
    >>> seconds_of_time("at", 5e13)
    Traceback (most recent call last):
        ...
    ValueError: at is 50000000000000.0; times are dates of 1980 to 2100 in s, ms, us or ns since 1970, smaller numbers,
    datetimes, and texts in ISO 8601
    """
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is {value}; times are {WANTED}")
    if isinstance(value, int | float | np.integer | np.floating):
        number = float(value)
        unit = unit_of(number)
        if unit != RELATIVE or -LATEST < number < LATEST:
            return number / PER_SECOND.get(unit, 1.0)
    else:
        found = seconds_of_text(value) if isinstance(value, str) else seconds_of_dates(value)
        if found is None and not isinstance(value, str):
            raise TypeError(f"{name} is of type {type(value).__name__}; times are {WANTED}")
        if found is not None and math.isfinite(found):
            return found
    raise ValueError(f"{name} is {str(value)[:40]}; times are {WANTED}")


def _microseconds(when: dt.datetime) -> int:
    """Microseconds since 1970, without the rounding of floats."""
    gone = when.replace(tzinfo=None) - _EPOCH - (when.utcoffset() or dt.timedelta())
    return int((gone.days * 86400 + gone.seconds) * 1_000_000 + gone.microseconds)


def _of_nanoseconds(number: int) -> float:
    return number / 1_000_000_000
