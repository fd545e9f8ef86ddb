"""Names of features: equal texts, plain classes, and what columns of files are called."""

import functools
import operator
import re
import reprlib
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from online_rank.limits import is_name

_ONLY_TEXTS = {str}

#: Plain classes of names, and what makes a plain name of one of a subclass. True and False stay what they are.
_PLAIN: tuple[tuple[type, Any], ...] = (
    (bool, bool),
    (str, str.__str__),
    (int, int.__index__),
    (float, float.__float__),
)
#: How deep tuples are nested in a name.
_DEEPEST = 8

#: Names under which pandas reads back the unnamed index of a frame, as a column.
_INDEX = re.compile(r"Unnamed: \d+(_level_\d+)?(\.\d+)*|__index_level_\d+__")

#: Words of names of columns that say what became of a document in this list. The plural counts what was before: "clicks".
_OUTCOMES = re.compile("click(ed)?|purchased?|order(ed)?|dwell|position|propensity|grade|label", re.IGNORECASE)
_WORDS = re.compile("[A-Z]?[a-z]+|[A-Z]+")


def is_outcome_name(name: str) -> bool:
    """Whether a word of a column's name is an outcome: a click, an order, a dwell time, a position, a grade, ...

    Examples
    --------
    >>> [is_outcome_name(name) for name in ("purchased", "dwell_time", "isClick", "clicks", "border")]
    [True, True, True, False, False]
    """
    return any(_OUTCOMES.fullmatch(word) for word in _WORDS.findall(name))


def is_index_name(name: str) -> bool:
    """Whether a column is named like the index of a pandas frame in a file, or has no name."""
    return not name.strip() or _INDEX.fullmatch(name) is not None


@functools.lru_cache(maxsize=256)
def index_among(names: tuple[str, ...]) -> str | None:
    """The first of the column names for which `is_index_name` holds."""
    return next((name for name in names if isinstance(name, str) and is_index_name(name)), None)


def in_nfc(name: Any, depth: int = _DEEPEST) -> Any:
    """A name, a category or a word in Unicode's normal form C, in which equal texts have equal characters; others as they are.

    Examples
    --------
    >>> in_nfc("cafe\N{COMBINING ACUTE ACCENT}") == "caf\N{LATIN SMALL LETTER E WITH ACUTE}"
    True
    """
    if isinstance(name, str):
        return name if name.isascii() else unicodedata.normalize("NFC", name)
    return tuple([in_nfc(part, depth - 1) for part in name]) if type(name) is tuple and depth else name


def are_nfc(names: Iterable[Any]) -> bool:
    """Whether all names are in normal form C."""
    try:
        return "".join(names).isascii() or all(map(_is_nfc, names))
    except TypeError:
        return all(map(_is_nfc, names))


def _is_nfc(name: Any, depth: int = _DEEPEST) -> bool:
    if isinstance(name, str):
        return unicodedata.is_normalized("NFC", name)
    return type(name) is not tuple or not depth or all(_is_nfc(part, depth - 1) for part in name)


def names_in_nfc(names: Iterable[Any], where: str) -> list[Any]:
    """Names in normal form C. Raises ValueError, which says `where` they are, if two become one."""
    first: dict[Any, Any] = {}
    for name in names:
        if (other := first.setdefault(in_nfc(name), name)) is not name and other != name:
            raise ValueError(
                f"{where} has {other!a} and {name!a}, which Unicode takes for the same text: give one of them another name"
            )
    return [*first]


def keys_in_nfc(given: Mapping[Any, Any], where: str) -> Mapping[Any, Any]:
    """A dict with its names in normal form C, itself if they are. Raises ValueError as `names_in_nfc`."""
    return given if are_nfc(given) else dict(zip(names_in_nfc(given, where), given.values(), strict=True))


def plain_names(names: Sequence[Hashable], where: str = "x") -> Sequence[Hashable]:
    """Names of new features as a model keeps them: strings and numbers of other classes as plain ones.

    Raises TypeError or ValueError, which says `where` they are, for names that no file can hold.

    Examples
    --------
    >>> plain_names([np.str_("clicks"), ("title", 3)])
    ['clicks', ('title', 3)]
    >>> plain_names(["clicks", frozenset()])
    Traceback (most recent call last):
        ...
    TypeError: x has a feature frozenset(): names are strings, integers of 64 bits, other numbers, or tuples of these
    """
    if not names or are_texts(names):
        return names
    return [_plain_name(name, name, where, _DEEPEST) for name in names]


def _plain_name(name: Any, whole: Any, where: str, depth: int) -> Hashable:
    if isinstance(name, np.str_):
        return str(name.item())
    if type(name) is tuple and depth:
        plain = tuple([_plain_name(part, whole, where, depth - 1) for part in name])
        return name if all(map(operator.is_, name, plain)) else plain
    for kind, as_plain in _PLAIN:
        # A class that compares in its own way may take two names for one that are two as plain ones.
        if isinstance(name, kind) and type(name).__hash__ is kind.__hash__ and type(name).__eq__ is kind.__eq__:
            name = as_plain(name)
            break
    # `repr` of a name that is nested too deeply would be a RecursionError.
    if type(name) is tuple or not is_name(name):
        error = ValueError if type(name) in (int, tuple) else TypeError
        what = "names are strings, integers of 64 bits, other numbers, or tuples of these"
        raise error(f"{where} has a feature {reprlib.repr(whole)}: {what}")
    if name != name:
        raise ValueError(
            f"{where} has a feature {reprlib.repr(whole)}: NaN equals no name, so that it would not be found again"
        )
    return name


def are_texts(names: Iterable[Hashable]) -> bool:
    """Whether all names are exactly of type str: a subclass may compare differently."""
    return {*map(type, names)} == _ONLY_TEXTS


def in_lines(names: Sequence[Hashable], as_bytes: Callable[[Any], bytes]) -> bytes:
    """Names in UTF-8, one a line; `as_bytes` encodes them if not all are strings, or one contains a line break."""
    try:
        text = encoded("\n".join(names))  # type: ignore[arg-type]
    except TypeError:
        text = None
    if text is None or text.count(b"\n") != len(names) - 1:
        # Byte 255, in place of a line break, does not occur in UTF-8, so such names differ from all others.
        text = b"\n".join(as_bytes(name).replace(b"\n", b"\xff") for name in names)
    return text


def encoded(text: str) -> bytes:
    """A text in UTF-8, which may be invalid."""
    return text.encode("utf-8", "surrogatepass")
