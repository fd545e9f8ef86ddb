"""Documents with missing values, text, booleans and times, as an array with columns for numbers and levels of categories.

Each level is a feature, `(feature, "is", level)`: 1 in the documents that have it and 0 in others. So a list of texts
has several levels, and a model keeps levels as it keeps features.
"""

import operator
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from online_rank.limits import MAX_FEATURES
from online_rank.query.blocks import ONE, Block, document_name, single
from online_rank.query.embeddings import VectorsMet, is_vector
from online_rank.query.forms import as_floats, documents_in_nfc, flat, table_of
from online_rank.query.names import are_nfc, in_nfc
from online_rank.query.times import seconds_of_dates, seconds_of_text

__all__ = ["Levels", "is_level", "numbers", "read_block", "read_documents", "read_known"]

_IS = "is"
_ONLY_DICTS = {dict}
#: Booleans are levels, called as in JSON, also where programs write them as texts.
_BOOLEANS = {True: "true", False: "false"}
_WORDS = {word: word.lower() for word in ("True", "False", "TRUE", "FALSE")}
_TRUTHS = {"true": 1.0, "false": 0.0}
_ARE_BOOLEAN = frozenset((bool, np.bool_))
_Column: TypeAlias = Callable[[Hashable, float], np.ndarray]
#: For each feature the documents that have it, and its values there.
_Features: TypeAlias = dict[Hashable, tuple[list[int], list[Any]]]
#: Values of pandas that stand for nothing, known by the names of their classes.
_MISSING = ("NAType", "NaTType")
#: Whether somebody else reads a feature, in these documents, of these values.
Take: TypeAlias = Callable[[Hashable, list[int], list[Any], "Levels"], bool]
_KINDS = "features are numbers, texts, booleans, lists of texts and times"


def is_level(name: Hashable) -> bool:
    """Whether a feature is a level of a category."""
    return type(name) is tuple and len(name) == 3 and name[1] == _IS


class Levels:
    """The levels of each category among the features of a model, and at most how many a category may have.

    Examples
    --------
    >>> levels = Levels([("brand", "is", "acme"), "price"], 2)
    >>> levels.name("brand", "acme"), levels.name("brand", "new"), levels.name("brand", "newer")
    (('brand', 'is', 'acme'), ('brand', 'is', 'new'), ('brand', 'is', None))
    """

    def __init__(self, names: Sequence[Hashable], most: int) -> None:
        #: The names of all features, the very tuple that was given.
        self.names = names
        #: How many texts of each feature had blanks around them, where somebody counts.
        self.trimmed: dict[Hashable, int] | None = None
        #: The columns of levels.
        self.columns = [j for j, name in enumerate(names) if is_level(name)]
        self._most = most
        self._numbers = set[Hashable]()
        self._made: dict[Hashable, Any] = {}
        self._levels: dict[Hashable, dict[str | None, tuple[Hashable, ...]]] = {}
        for name in names:
            if is_level(name):
                self._levels.setdefault(name[0], {})[name[2]] = name  # type: ignore[index, assignment]
            else:
                self._numbers.add(name)

    def copy(self) -> "Levels":
        """A copy, for the levels that one query brings."""
        made = Levels((), self._most)
        made._numbers, made._levels = self._numbers, {name: dict(levels) for name, levels in self._levels.items()}
        return made

    def name(self, feature: Hashable, level: str) -> Hashable | None:
        """The feature of a level; beyond the most levels, the feature of all others. None for an empty text, which is missing.

        Blanks around a level do not count, and TRUE is true, unless a model has learned the level as it stands.
        """
        levels = self._levels.setdefault(feature, {})
        if level not in levels:
            trimmed = level.strip()
            if trimmed != level and self.trimmed is not None:
                self.trimmed[feature] = self.trimmed.get(feature, 0) + 1
            level = _WORDS.get(trimmed, trimmed)
            if not level and "" not in levels:
                return None
        if level not in levels and len(levels) - (None in levels) >= self._most:
            level = None  # type: ignore[assignment]
        return levels.setdefault(level, (feature, _IS, level))

    def levels_of(self, feature: Hashable) -> Mapping[str | None, tuple[Hashable, ...]]:
        """The levels of a feature, None among them for all others, and what they are called."""
        return self._levels.get(feature, {})

    def is_full(self, feature: Hashable) -> bool:
        """Whether a feature has the most levels that it may have."""
        levels = self._levels.get(feature, {})
        return len(levels) - (None in levels) >= self._most

    def categories(self) -> tuple[Hashable, ...]:
        """The features that are categories."""
        return tuple(self._levels)

    def of_any(self, features: Collection[Hashable]) -> frozenset[int]:
        """The columns of the levels of some features."""
        return frozenset(j for j in self.columns if self.names[j][0] in features)  # type: ignore[index]

    def remembered(self, feature: Hashable, make: Callable[["Levels", Hashable], Any]) -> Any:
        """What a function makes of the levels of a feature, which it is asked for once."""
        if feature not in self._made:
            self._made[feature] = make(self, feature)
        return self._made[feature]

    def column(self, feature: Hashable, level: str) -> int:
        """The column of a level."""
        return self.names.index(self._levels[feature][level])

    def kind_of(self, feature: Hashable) -> str:
        """What a feature has been so far: "category", "number", or "" if it is not known."""
        return "category" if feature in self._levels else "number" if feature in self._numbers else ""

    def require_numbers(self, names: Sequence[Hashable]) -> None:
        """Raise ValueError for a name of a category, in an array of numbers."""
        if wrong := self._levels.keys() & names:
            raise ValueError(f"x: feature {min(wrong, key=str)!r} is a number, and a category elsewhere")


def read_documents(
    documents: Sequence[Mapping[Hashable, Any]],
    ids: Any,
    levels: Levels,
    trimmed: dict[Hashable, int] | None = None,
    take: Take | None = None,
    taken: Collection[Hashable] = frozenset(),
) -> tuple[np.ndarray, tuple[Hashable, ...]]:
    """The documents as float64 (n, columns), NaN where a number is missing, and the names of the columns.

    Missing are absent names, None, NaN, empty texts, and the NA and NaT of pandas. Times are seconds since 1970, also as texts
    in ISO 8601. Other texts are levels, without the blanks around them, and so are booleans, "true" and "false"; lists of texts
    are several. Where a feature is a number, booleans alone are 1 and 0. `trimmed` counts texts with blanks, by feature. `take`
    is called with each feature, the documents that have it, their values and the levels: it says whether it takes the feature.
    Of queries of numbers alone it is asked about features in `taken`.

    Raises
    ------
    TypeError, ValueError
        A document is no dict, or a value is of another kind, or a feature is text in one document and a number in another. The
        message names the document and the feature.

    Examples
    --------
    >>> X, names = read_documents([{"price": 2.0, "tags": ["new"]}, {"price": None, "tags": "new"}], None, Levels((), 10))
    >>> names, X.tolist()
    (('price', ('tags', 'is', 'new')), [[2.0, 1.0], [nan, 1.0]])
    """
    n = len(documents)
    table = table_of(documents) if {*map(type, documents)} == _ONLY_DICTS else None
    if (
        table is not None
        and levels._levels.keys().isdisjoint(table[0])
        and (
            # Known names are in normal form.
            levels._numbers.issuperset(table[0]) or (are_nfc(table[0]) and not any(name in taken for name in table[0]))
        )
    ):
        X = numbers(table[1])
        if X is not None:
            return X.reshape(n, len(table[0])), table[0]
    levels = levels.copy()
    levels.trimmed = trimmed
    found = _by_feature(documents, ids) if table is None else _cut(*table, n)
    if not are_nfc(found):
        return read_documents(documents_in_nfc(documents, ids), ids, levels, trimmed, take, taken)
    columns: dict[Hashable, np.ndarray] = {}

    def column(name: Hashable, value: float) -> np.ndarray:
        if name not in columns:
            columns[name] = np.full(n, value)
        return columns[name]

    for name in [*found]:
        rows, values = found.pop(name)  # Freed one by one, which keeps the peak low.
        if take is None or not take(name, rows, values, levels):
            _read_feature(name, rows, values, ids, levels, column)
    return np.column_stack([*columns.values()]) if columns else np.empty((n, 0)), tuple(columns)


def read_block(
    block: Block,
    levels: Levels,
    trimmed: dict[Hashable, int] | None = None,
    take: Take | None = None,
    taken: Collection[Hashable] = frozenset(),
) -> Block:
    """A block of documents, read as an array (`read_documents`)."""
    X, names = read_documents(block.X, block.ids, levels, trimmed, take, taken)
    return tuple.__new__(Block, (X, *block[1:5], names, *block[6:]))  # As `with_features`, which is another call.


def read_known(block: Block, names: tuple[Hashable, ...]) -> Block | None:
    """A block of documents as an array, if all are dicts of numbers that have these names in this order; None for any others.

    `names` are in normal form, and none is a level. This is what most queries are, and takes the fewest steps.
    """
    documents: Any = block.X
    # Lists are made and compared in half the time of tuples.
    if {*map(type, documents)} != _ONLY_DICTS or operator.countOf(map(list, documents), [*names]) != len(documents):
        return None
    X = numbers(flat(map(dict.values, documents)))
    return None if X is None else tuple.__new__(Block, (X.reshape(-1, len(names)), *block[1:5], names, *block[6:]))


def _by_feature(documents: Sequence[Mapping[Hashable, Any]], ids: Any) -> _Features:
    """The values of each feature of documents that have other names."""
    found: dict[Hashable, tuple[list[int], list[Any]]] = {}
    for i, x in enumerate(documents):
        if not isinstance(x, Mapping):
            raise TypeError(f"x: {document_name(i, ids)} is of type {type(x).__name__}, not a dict of features")
        for name, value in x.items():
            rows, values = found.setdefault(name, ([], []))
            rows.append(i)
            values.append(value)
    return found


def _cut(names: tuple[Hashable, ...], values: list[Any], n: int) -> _Features:
    """The values of each feature of n documents that all have the same names (`table_of`)."""
    every = [*range(n)]
    return {name: (every, values[j :: len(names)]) for j, name in enumerate(names)}


def _read_feature(name: Hashable, rows: list[int], values: list[Any], ids: Any, levels: Levels, column: _Column) -> None:
    """Write the values of one feature to its column, or to columns of its levels; `column` makes one filled with a value."""
    kind = levels.kind_of(name)
    floats = None if kind == "category" else numbers(values)
    if floats is None:
        given = [k for k, value in enumerate(values) if value is not None]
        rows, values = [rows[k] for k in given], [values[k] for k in given]
        floats = numbers(values) if given and kind != "category" else None
    if floats is not None:
        column(name, np.nan)[rows] = floats
        return
    if kind != "category" and (read_as := _as_numbers(values, kind)) is not None:
        values = read_as
    for i, value in zip(rows, values, strict=True):
        read = _read_value(value)
        if read is None:
            continue
        if isinstance(read, str):
            if is_vector(value):
                raise VectorsMet(
                    f"x: feature {name!r} of {document_name(i, ids)} is a vector of {len(value)} numbers, which AdditiveRanker "
                    "and VectorRanker take, and others behind VectorFeatures()"
                )
            raise TypeError(f"x: feature {name!r} of {document_name(i, ids)} is {value!r:.60}; {read}")
        own = "number" if isinstance(read, float) else "category"
        if kind not in ("", own):
            what = own if own == "number" else "boolean" if type(value) in _ARE_BOOLEAN else "text"
            raise ValueError(
                f"x: feature {name!r} of {document_name(i, ids)} is a {what}, {value!r:.60}, and a {kind} elsewhere"
            )
        kind = own
        if isinstance(read, float):
            column(name, np.nan)[i] = read
        else:
            for level in read:
                if (of_level := levels.name(name, level)) is not None:
                    column(of_level, 0.0)[i] = 1.0


def _as_numbers(values: list[Any], kind: str) -> list[Any] | None:
    """Values with dates in texts as seconds; where the feature is a number, booleans alone as 1 and 0, and no empty texts.

    None if nothing is to change: in a new feature, texts are dates only if all of them are.
    """
    if kind == "number":
        values = [None if isinstance(value, str) and not value.strip() else value for value in values]
        truths = [_truth(value) for value in values if value is not None]
        if all(truth is not None for truth in truths):
            return [_truth(value) for value in values]
    read = [seconds_of_text(value.strip()) if isinstance(value, str) else None for value in values]
    texts = sum(isinstance(value, str) for value in values)
    if kind != "number" and (not texts or sum(x is not None for x in read) < texts):
        return None
    return [value if x is None else x for x, value in zip(read, values, strict=True)]


def as_known(value: Any, kind: str) -> Any:
    """A value of one document as the kind that its feature has elsewhere, "number" or "category"; itself if it is of it.

    An integer beyond float64 is a number, which readers refuse; a vector is missing.

    Examples
    --------
    >>> [as_known(value, "number") for value in (2.5, True, "9.99", "2026-11-28")]
    [2.5, 1.0, None, '2026-11-28']
    >>> as_known(2, "category"), as_known(2.5, "category"), as_known("a", "category"), as_known([0.5, 1.0], "category")
    ('2', '2.5', 'a', None)
    """
    if value is None or (type(value) is float and value != value):
        return value
    if kind == "category":
        return str(value) if type(value) in (int, float) else None if is_vector(value) else value
    if type(value) is int or numbers([value]) is not None:
        return value
    read = _as_numbers([value] if isinstance(value, str) or type(value) in _ARE_BOOLEAN else [], kind)
    if read and numbers(read) is not None:
        return value if isinstance(value, str) and _truth(value) is None else read[0]
    return value if read == [None] else None


def _truth(value: Any) -> float | None:
    """1 or 0 of a boolean, also as a text; None for anything else."""
    if type(value) in _ARE_BOOLEAN:
        return float(value)
    return _TRUTHS.get(value.strip().lower()) if isinstance(value, str) else None


def numbers(values: list[Any]) -> np.ndarray | None:
    """Values as float64 (n,); None if one of them is a boolean, or cannot be converted to a float."""
    floats = as_floats(values)
    if floats is not None:
        # Asking each value for its type takes three times as long as converting it.
        may_be = ((floats == 0.0) | (floats == 1.0)).nonzero()[0].tolist()
        if may_be and not _ARE_BOOLEAN.isdisjoint(map(type, map(values.__getitem__, may_be))):
            return None
    return floats


def as_table(documents: Mapping[str, Mapping[str, Any]]) -> Block | None:
    """Documents with the same features, all of them numbers, as an array, which is read once to rank and to learn.

    None for any others: the model looks at their values one by one.
    """
    names, values = (table_of([*documents.values()]) if documents else None) or ((), [])
    X = numbers(values) if 0 < len(names) <= MAX_FEATURES and "".join(names).isascii() else None  # type: ignore[arg-type]
    if X is None:
        return None
    return Block(X.reshape(-1, len(names)), None, single(len(documents)), ONE, (*documents,), names, form=dict)


def _read_value(value: Any) -> float | list[str] | str | None:
    """A number, levels, None for what is missing, or a text that says what may stand there."""
    if value is None or type(value).__name__ in _MISSING:
        return None
    if isinstance(value, str):
        return [str(in_nfc(value))]
    if type(value) in _ARE_BOOLEAN:
        return [_BOOLEANS[bool(value)]]
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        texts = sorted(value) if isinstance(value, set | frozenset) else list(value)
        if all(isinstance(text, str) for text in texts):
            return [str(in_nfc(text)) for text in texts]
        return "a list holds texts, or the numbers of a vector"
    if (seconds := seconds_of_dates(value)) is not None:
        return None if seconds != seconds else seconds
    if isinstance(value, complex | np.complexfloating):
        return _KINDS
    try:
        number = float(value)
    except OverflowError:
        return "it is beyond the largest float"
    except (TypeError, ValueError):
        return _KINDS
    return None if number != number else number
