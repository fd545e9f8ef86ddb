"""Columns of Arrow as numbers, grades, ids and times: one rule for the columns of files and of frames.

Text is read by these rules, not by the rules of the library that split it. So a value that cannot be read is an error with its
row, and means the same at the beginning and at the end.
"""

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from online_rank.query.times import ISO, PER_SECOND, RELATIVE, ZONED, decided_unit, require_one_unit, seconds_of_text
from online_rank.support.lazy import needs

#: What means missing in numbers, grades and times. In text, such as ids and categories, only empty text does.
MISSING_WORDS = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "\\N", "None", "NaT", "<NA>")
#: From here on, floats skip whole numbers.
_WHOLE = 2.0**53
#: This many first values say of most columns what they are not.
_FIRST = 64
_TRUTHS = {"true": "1", "false": "0"}
#: What marks a column of text that was made from values of several types.
MIXED = {b"online_rank": b"mixed"}
#: The units of columns that hold no numbers.
TEXT, TYPED, LENGTHS = "ISO 8601", "dates", "lengths of time, in seconds"
#: The zones of times that say one, and that say none.
GIVEN, ASSUMED = "as given", "none given, read as UTC"
_UTC = "UTC"


class Faults(dict[int, str]):
    """What is wrong with rows, by their number: of each row the first."""

    def note(self, bad: Any, what: Callable[[int], str]) -> None:
        """Note the rows for which `bad` (n,) is true."""
        for i in np.flatnonzero(bad).tolist():
            self.setdefault(i, what(i))


class TimeFormat(NamedTuple):
    """How a column says the time.

    Attributes
    ----------
    unit : str
        Of numbers "s", "ms", "us", "ns" or `RELATIVE`; `TEXT` for texts; `TYPED` for dates and times of a frame, `LENGTHS` for
        its lengths of time.
    zone : str
        The zone, `GIVEN` or `ASSUMED`; empty for relative times and lengths.
    """

    unit: str
    zone: str

    @property
    def in_words(self) -> str:
        """The format as the plan prints it.

        Examples
        --------
        >>> TimeFormat("ms", "UTC").in_words
        'ms since 1970, zone UTC'
        """
        if self.unit == RELATIVE:
            return "numbers that are no dates: they stay as they are, a half-life takes one for a second"
        since = " since 1970" * (self.unit in PER_SECOND)
        return f"{self.unit}{since}, zone {self.zone}" if self.zone else self.unit


def arrow(module: str = "pyarrow") -> Any:
    """A module of pyarrow. Raises ImportError with advice if it is not installed."""
    with needs("reading tables", "tables"):
        return importlib.import_module(module)


def is_text(values: Any) -> bool:
    """Whether an array is of text."""
    return values.type == arrow().string()


def plain(values: Any) -> Any:
    """An array without a dictionary, and all kinds of text as one."""
    pa = arrow()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return values.cast(pa.string()) if values.type in (pa.large_string(), pa.string_view()) else values


def kind_of(values: Any) -> str:
    """The kind of a column by its type, and of text by its values."""
    types, kind = arrow("pyarrow.types"), values.type
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_boolean(kind):
        return "boolean"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_timestamp(kind) or types.is_date(kind) or types.is_duration(kind):
        return "time"
    if types.is_null(kind):
        return "empty"
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return "vector" if is_list and (types.is_integer(kind.value_type) or types.is_floating(kind.value_type)) else "other"


def kind_of_text(values: Any) -> str:
    """The kind of a column of a text file, by its first values."""
    for kind, read in (("number", _as_numbers), ("boolean", _as_truths)):
        faults = Faults()
        found = read(values, faults)
        if not faults:
            return kind if found.null_count < len(found) else "empty"
    return "time" if are_dates(values) else "text"


def kind_of_words(values: Any) -> str:
    """The kind of a column of text of a frame or of JSON, in which numbers are no texts: a boolean, a time or text."""
    return "boolean" if are_truths(values) else "time" if are_dates(values) else "text"


def are_truths(values: Any) -> bool:
    """Whether all texts of a column (n,) are true or false, and one is not missing."""
    for some in (values[:_FIRST], values):  # Of most texts the first ones say that they are only texts.
        truths = _as_truths(some, faults := Faults())
        if faults:
            return False
    return bool(truths.null_count < len(truths))


def numbers_of(values: Any, kind: str, faults: Faults, column: str) -> np.ndarray:
    """A column as float64 (n,), NaN where a number is missing. A value that is no number is a fault.

    Dates and times are seconds since 1970, in UTC without a zone.
    """
    pa = arrow()
    values, unread = plain(values), Faults()
    if kind == "time":
        return _dates_of(values, faults, column)
    if kind_of(values) in ("time", "other", "vector"):
        what = f"column {column!r} holds {values.type}, and numbers are wanted"
        faults.note(np.ones(len(values), bool), lambda i: f"{what}: make them numbers, such as days")
        return np.full(len(values), np.nan)
    if is_text(values):
        text = values
        values = (_as_truths if kind == "boolean" else _as_numbers)(values, unread)
        if kind == "grade" and unread:
            values = _as_numbers(_replaced(text), unread := Faults())
        wanted = "boolean" if kind == "boolean" else "number"
        for i in unread:
            faults.setdefault(i, f"{text[i].as_py()!r:.60} in column {column!r} is not a {wanted}")
    return np.array(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


def too_high(most: float) -> str:
    """What is wrong with a grade above the largest one, and the remedy."""
    return f"is above {most:.0f}, the largest one: take levels, such as 0 to 4"


def grades_of(values: Any, negative: str, most: float, faults: Faults, column: str) -> np.ndarray:
    """A column of grades as int64 (n,); true is 1, false 0. What is no integer, missing, above `most`, or below 0 if that is an
    error, is a fault.
    """
    numbers = numbers_of(values, "grade", faults, column)
    with np.errstate(invalid="ignore"):
        good = (numbers >= (0.0 if negative == "error" else -_WHOLE)) & (numbers <= _WHOLE) & (numbers == np.rint(numbers))
    faults.note(good & (numbers > most), lambda i: f"the grade {numbers[i]:.0f}, in column {column!r}, {too_high(most)}")
    faults.note(
        ~good,
        lambda i: (
            f"the grade is missing, in column {column!r}"
            if np.isnan(numbers[i])
            else f"the grade {numbers[i]:g} is not an integer >= 0, in column {column!r}"
        ),
    )
    return np.where(good, numbers, 0.0).astype(np.int64)


def ids_of(values: Any, role: str, faults: Faults, field: Any) -> Any:
    """A column of ids as an array of text, empty where one is missing. Floats that have lost digits are faults."""
    pa, compute = arrow(), arrow("pyarrow.compute")
    values = plain(values)
    if field.metadata and field.metadata.get(b"online_rank") == b"mixed":
        # 1 and "1" would be one id.
        faults.note(np.ones(len(values), bool), lambda i: f"{field.name!r}, the {role}, has values of several types: take one")
    if pa.types.is_floating(values.type):
        numbers = values.to_numpy(zero_copy_only=False)
        faults.note(
            np.abs(numbers) >= _WHOLE,
            lambda i: (
                f"{field.name!r}, the {role}, is {numbers[i]:.17g}, a float too large to tell ids apart: read ids as "
                "integers or text"
            ),
        )
        # Integers with missing values among them are floats in pandas.
        return pa.array(
            ["" if x != x else str(int(x)) if x.is_integer() and abs(x) < _WHOLE else str(x) for x in numbers.tolist()],
            pa.string(),
        )
    if not is_text(values):
        if kind_of(values) == "other":
            faults.note(np.ones(len(values), bool), lambda i: f"{field.name!r}, the {role}, holds {values.type}: take text")
            return pa.array([""] * len(values))
        values = values.cast(pa.string())
    return compute.fill_null(values, "")


def time_format(values: Any) -> TimeFormat | None:
    """How the first values (n,) of a column say the time; None if they are no times."""
    values, kind = plain(values), kind_of(values)
    if is_text(values):
        numbers, texts = _as_numbers(values, Faults()), _without_missing(values)
        dates = _matches(texts, ISO)
        if 2 * dates.sum() > len(texts) - texts.null_count:
            return TimeFormat(TEXT, GIVEN if 2 * _matches(texts, ZONED).sum() > dates.sum() else ASSUMED)
        values, kind = numbers, "number"
    if kind == "time":
        if arrow("pyarrow.types").is_duration(values.type):
            return TimeFormat(LENGTHS, "")
        zone = getattr(values.type, "tz", None)
        return TimeFormat(TYPED, zone or ASSUMED)
    if kind not in ("number", "empty"):
        return None
    unit = decided_unit(_floats(values))
    return TimeFormat(unit, "" if unit == RELATIVE else _UTC)


def times_of(values: Any, how: TimeFormat, faults: Faults, column: str) -> np.ndarray:
    """A column of times as float64 (n,), in seconds. What is missing, no time, or in another unit is a fault.

    Parameters
    ----------
    values
        An array of Arrow (n,).
    how
        How the column says the time.
    faults
        Takes what is wrong.
    column
        Its name, for messages.
    """
    values, what = plain(values), f"{column!r}, the event time,"
    kind, times = _read_times(values, how, faults, column)
    if kind == "other":
        faults.note(np.ones(len(values), bool), lambda i: f"{what} is neither a time nor a number")
    elif kind == "number" and how.unit not in (TEXT, TYPED, LENGTHS):
        mixed = dict(require_one_unit(times, how.unit))
        times = times / PER_SECOND.get(how.unit, 1.0)
        for i, why in mixed.items():
            faults.setdefault(i, f"{what} is mixed: {why}")
            times[i] = np.nan
    elif kind == "number" or how.unit == RELATIVE:
        of = "a number" if kind == "number" else "a date"
        why = f"{what} is mixed: it is {of} here, and before it was {how.in_words}: a column has one unit"
        faults.note(np.isfinite(times), lambda i: why)
        times = np.full(len(values), np.nan)
    faults.note(~np.isfinite(times), lambda i: f"{what} is missing")
    return times


def _read_times(values: Any, how: TimeFormat, faults: Faults, column: str) -> tuple[str, np.ndarray]:
    """What a column holds, "number", "time" or "other", and its values: numbers as they are, dates in seconds."""
    kind, unread = kind_of(values), Faults()
    if is_text(values):
        text = values
        if how.unit == TEXT:
            kind, times = "time", _of_texts(text, unread, how.zone)
        else:
            kind, times = "number", _floats(_as_numbers(text, unread))
        for i, why in unread.items():
            what = why or ("is no time in ISO 8601" if kind == "time" else "is neither a time nor a number")
            mixed = "; the column is mixed, and has one unit" if _is_of_other_kind(text[i].as_py(), kind) else ""
            faults.setdefault(i, f"{text[i].as_py()!r:.60} in column {column!r}, the event time, {what}{mixed}")
        return kind, times
    if kind == "time":
        return kind, _typed(values)
    if kind in ("number", "empty"):
        return "number", _floats(values)
    return "other", np.zeros(len(values))


def _is_of_other_kind(text: str, kind: str) -> bool:
    """Whether a text that is no time of a kind is one of the other kind."""
    if kind == "number":
        return seconds_of_text(text.strip()) is not None
    try:
        return np.isfinite(float(text))
    except ValueError:
        return False


def _dates_of(values: Any, faults: Faults, column: str) -> np.ndarray:
    """A column of dates as seconds (n,), NaN where one is missing, each in the zone that it says."""
    if is_text(values):
        times = _of_texts(values, unread := Faults(), None)
        for i in unread:
            faults.setdefault(i, f"{values[i].as_py()!r:.60} in column {column!r} is not a date in ISO 8601")
        return times
    if kind_of(values) == "time":
        return _typed(values)
    faults.note(
        np.asarray(values.is_valid().to_numpy(zero_copy_only=False), bool),
        lambda i: f"column {column!r} holds {values.type}, and dates are wanted",
    )
    return np.full(len(values), np.nan)


def are_dates(values: Any) -> bool:
    """Whether all texts of a column (n,) are dates or times in ISO 8601, and one is not missing."""
    for some in (values[:_FIRST], values):
        texts = _without_missing(some)
        if _matches(texts, ISO).sum() != len(texts) - texts.null_count:
            return False
    return bool(texts.null_count < len(texts))


def other_than_dates(values: Any) -> int | None:
    """The first row of a text (n,) that is no date in ISO 8601, where most are; None if all are, or few."""
    texts = _without_missing(values)
    there = np.asarray(texts.is_valid().to_numpy(zero_copy_only=False), bool)
    others = there & ~_matches(texts, ISO)
    return int(others.argmax()) if others.any() and 2 * others.sum() < there.sum() else None


def _matches(texts: Any, pattern: str) -> np.ndarray:
    compute = arrow("pyarrow.compute")
    found = compute.fill_null(compute.match_substring_regex(texts, pattern), False)
    return np.asarray(found.to_numpy(zero_copy_only=False), bool)


def _of_texts(values: Any, faults: Faults, zone: str | None) -> np.ndarray:
    """Times in ISO 8601 as float64 (n,), NaN where missing; `zone` is `GIVEN` or `ASSUMED`, None if each may say its own.

    The reason of a fault is empty if it is no such time.
    """
    compute, texts = arrow("pyarrow.compute"), _without_missing(values)
    there = np.asarray(texts.is_valid().to_numpy(zero_copy_only=False), bool)
    if zone is not None:
        has_zone = _matches(texts, ZONED)
        says = "says no zone, and those before it do" if zone == GIVEN else "says a zone, and those before it do not"
        faults.note(there & _matches(texts, ISO) & (has_zone != (zone == GIVEN)), lambda i: says)
    known = compute.dictionary_encode(texts)
    found = [seconds_of_text(text) for text in known.dictionary.to_pylist()]
    seconds = np.array([*(np.nan if x is None else x for x in found), np.nan])
    times = seconds[known.indices.fill_null(len(found)).to_numpy(zero_copy_only=False)]
    faults.note(there & np.isnan(times), lambda i: "")
    return times


def _typed(values: Any) -> np.ndarray:
    """Dates, times and lengths of time of Arrow as seconds, float64 (n,); NaN where missing."""
    pa, types, kind = arrow(), arrow("pyarrow.types"), values.type
    unit = "s" if types.is_date32(kind) else "ms" if types.is_date64(kind) else kind.unit
    whole = values.cast(pa.int32()).cast(pa.int64()) if types.is_date32(kind) else values.cast(pa.int64())
    per_second, days = int(PER_SECOND[unit]), 86400 if types.is_date32(kind) else 1
    numbers = np.asarray(whole.fill_null(0).to_numpy(zero_copy_only=False), np.int64) * days
    # Whole seconds apart from the rest, since a float does not hold all nanoseconds.
    times = numbers // per_second + numbers % per_second / per_second
    times[np.asarray(values.is_null().to_numpy(zero_copy_only=False), bool)] = np.nan
    return times


def _floats(values: Any) -> np.ndarray:
    pa = arrow()
    return np.array(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


def _without_missing(values: Any) -> Any:
    pa, compute = arrow(), arrow("pyarrow.compute")
    values = compute.utf8_trim_whitespace(values)
    return compute.if_else(compute.is_in(values, pa.array(MISSING_WORDS, values.type)), None, values)


def _as(values: Any, faults: Faults, pattern: str, cast: Callable[[Any], Any]) -> Any:
    """Text without the words for what is missing, converted; what the pattern does not match is a fault and missing."""
    compute, invalid = arrow("pyarrow.compute"), arrow().ArrowInvalid
    values = _without_missing(values)
    try:
        return cast(values)
    except invalid:
        good = compute.match_substring_regex(values, pattern)
        faults.note(compute.fill_null(compute.invert(good), False).to_numpy(zero_copy_only=False), lambda i: "")
        return cast(compute.if_else(good, values, None))


def _as_numbers(values: Any, faults: Faults) -> Any:
    pa = arrow()
    try:
        return values.cast(pa.float64())
    except pa.ArrowInvalid:
        number = r"^([-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?(?i:inf|infinity))$"
        plus = lambda text: arrow("pyarrow.compute").replace_substring_regex(text, r"^\+", "").cast(pa.float64())  # noqa: E731
        return _as(values, faults, number, plus)


def _as_truths(values: Any, faults: Faults) -> Any:
    return _as(values, faults, "^(?i:true|false)$", lambda text: text.cast(arrow().bool_()))


def _replaced(values: Any) -> Any:
    """true and false as 1 and 0."""
    compute = arrow("pyarrow.compute")
    for word, number in _TRUTHS.items():
        values = compute.replace_substring_regex(values, rf"^\s*(?i:{word})\s*$", number)
    return values
