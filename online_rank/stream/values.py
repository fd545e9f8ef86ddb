"""Columns of Arrow as numbers, grades, ids and times: one rule for the columns of files and of frames.

Text is read by these rules, not by the rules of the library that split it. So a value that cannot be read is an error with its
row, and means the same at the beginning and at the end.
"""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from online_rank.support.lazy import needs

#: What means missing in numbers, grades and times. In text, such as ids and categories, only empty text does.
MISSING_WORDS = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "\\N", "None", "NaT", "<NA>")
#: From here on, floats skip whole numbers.
_WHOLE = 2.0**53
_TRUTHS = {"true": "1", "false": "0"}
#: What marks a column of text that was made from values of several types.
MIXED = {b"online_rank": b"mixed"}


class Faults(dict[int, str]):
    """What is wrong with rows, by their number: of each row the first."""

    def note(self, bad: Any, what: Callable[[int], str]) -> None:
        """Note the rows for which `bad` (n,) is true."""
        for i in np.flatnonzero(bad).tolist():
            self.setdefault(i, what(i))


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
    if types.is_temporal(kind):
        return "time"
    if types.is_null(kind):
        return "empty"
    return "other"


def kind_of_text(values: Any) -> str:
    """The kind of a column of a text file, by its first values."""
    for kind, read in (("number", _as_numbers), ("boolean", _as_truths), ("time", _as_times)):
        faults = Faults()
        found = read(values, faults)
        if not faults:
            return kind if found.null_count < len(found) else "empty"
    return "text"


def numbers_of(values: Any, kind: str, faults: Faults, column: str) -> np.ndarray:
    """A column as float64 (n,), NaN where a number is missing. A value that is no number is a fault."""
    pa = arrow()
    values, unread = plain(values), Faults()
    if kind_of(values) in ("time", "other"):
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


def grades_of(values: Any, negative: str, faults: Faults, column: str) -> np.ndarray:
    """A column of grades as int64 (n,); true is 1, false 0. What is no integer, missing, or below 0 if that is an error, is a
    fault.
    """
    numbers = numbers_of(values, "grade", faults, column)
    with np.errstate(invalid="ignore"):
        good = (numbers >= (0.0 if negative == "error" else -_WHOLE)) & (numbers <= _WHOLE) & (numbers == np.rint(numbers))
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


def times_of(values: Any, faults: Faults, column: str) -> np.ndarray:
    """A column of times as float64 (n,): numbers unchanged, dates and times in seconds. Missing and unreadable are faults."""
    pa, values, unread = arrow(), plain(values), Faults()
    text, kind = values, kind_of(values)
    if is_text(values):
        values = _as_numbers(text, unread)
        kind = "number"
        if unread:
            values, kind = _as_times(text, unread := Faults()), "time"
    for i in unread:
        faults.setdefault(i, f"{text[i].as_py()!r:.60} in column {column!r}, the event time, is neither a time nor a number")
    if kind == "time":
        try:
            values = values.cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.float64(), safe=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            kind = "other"
    if kind in ("other", "boolean"):
        faults.note(np.ones(len(values), bool), lambda i: f"{column!r}, the event time, is neither a time nor a number")
        return np.zeros(len(values))
    times = np.array(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)
    faults.note(~np.isfinite(times), lambda i: f"{column!r}, the event time, is missing")
    return times / 1e6 if kind == "time" else times


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


def _as_times(values: Any, faults: Faults) -> Any:
    pa, compute = arrow(), arrow("pyarrow.compute")

    def cast(text: Any) -> Any:
        try:
            return text.cast(pa.timestamp("us"))
        except pa.ArrowInvalid:
            zoned = compute.replace_substring_regex(text, " ?UTC$", "Z")
            return zoned.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))

    try:
        return _as(
            values, faults, r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?( ?UTC|Z|[-+]\d{2}:?\d{2})?)?$", cast
        )
    except pa.ArrowInvalid:  # such as month 13, or only some with a zone
        faults.note(np.ones(len(values), bool), lambda i: "")
        return pa.nulls(len(values), pa.timestamp("us"))


def _replaced(values: Any) -> Any:
    """true and false as 1 and 0."""
    compute = arrow("pyarrow.compute")
    for word, number in _TRUTHS.items():
        values = compute.replace_substring_regex(values, rf"^\s*(?i:{word})\s*$", number)
    return values
