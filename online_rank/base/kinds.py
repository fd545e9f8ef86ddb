"""Decides what kind of values a feature has, by weight of evidence: number, date, category, text, vector, or identifiers.

Each query adds at most a weight of 1 to what is known of a feature, and evidence counts half after `_HALF_LIFE` queries. So
neither one odd value nor one large query decides for all that come later, and a kind may change while the stream continues.

- number: values are numbers (`online_rank.query.levels`). Booleans are categories, and texts that are dates are dates.
- date: values are dates or times.
- category: texts that recur, of one word or of several. Every text begins as a category.
- text: texts that are new for the most part, and have several words.
- ignored: texts of one word that are all new, as ids are.
- vector: lists of numbers.
"""

import zlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from river import base

from online_rank.base.schema import Array, Count, ListOf, Plain, Schema

__all__ = ["CATEGORY", "IGNORED", "KINDS", "TEXT", "WHOLE", "Kinds", "Seen", "checked_kinds"]

#: All kinds, by their codes.
KINDS = ("category", "text", "ignored", "number", "date", "vector")
CATEGORY, TEXT, IGNORED = KINDS[:3]
#: Queries after which evidence counts half.
_HALF_LIFE = 100.0
_KEEP = 2.0 ** (-1.0 / _HALF_LIFE)
#: Values of a query that count as a whole query.
WHOLE = 20
#: Values whose words are counted.
_LOOKED_AT = 8
#: Values that are remembered of each feature, and features of which they are remembered.
_REMEMBERED, _MOST_FEATURES = 256, 256
#: Evidence of a feature: queries, the share of new values in them, and the words of a value, each by weight.
QUERIES, NEW, WORDS = range(3)
#: Words of a mean value from which a feature may be a text, and by how much new values must outweigh half of all: of three
#: words or more, and of fewer.
_SEVERAL, _LONG = 1.5, 3.0
_CLEAR, _CLEARER = 0.4, 2.0
#: Identifiers: the share of new values, and by how much they must outweigh it; texts and identifiers that recur are categories
#: again by this much.
_ALL_NEW, _SURE, _BACK = 0.9, 0.45, -1.0


class Seen(NamedTuple):
    """What a query shows of a feature whose values are texts.

    Attributes
    ----------
    weight
        The number of values, over 20, at most 1.
    new
        The share of values that were not met lately, each once.
    words
        The mean number of words of a value.
    marks
        uint32 (k,): checksums of the different values.
    """

    weight: float
    new: float
    words: float
    marks: np.ndarray


def checked_kinds(kinds: Mapping[Any, str] | None) -> dict[Any, str] | None:
    """Declared kinds, a copy. Raises TypeError or ValueError for anything but `{feature: kind}`."""
    if kinds is None:
        return None
    if not isinstance(kinds, Mapping):
        raise TypeError(f"kinds is of type {type(kinds).__name__}; it is {{feature: kind}}, as {{'title': 'text'}}")
    for name, kind in kinds.items():
        if kind not in (CATEGORY, TEXT, IGNORED):
            raise ValueError(f"kinds: {name!r} is {kind!r}; a kind is one of {CATEGORY!r}, {TEXT!r} and {IGNORED!r}")
    return dict(kinds)


class Kinds(base.Base):
    """The kinds of the features whose values are texts. It is never changed: `learned` gives another one.

    Examples
    --------
    >>> kinds = Kinds()
    >>> titles = [f"shoe number {i}" for i in range(20)]
    >>> kinds.of("title", kinds.seen("title", titles)), kinds.of("brand", kinds.seen("brand", ["acme", "best"] * 10))
    ('text', 'category')
    """

    _schema = Schema(
        _names=ListOf(Plain()),
        _codes=Array(lambda own: len(own._names), dtype="int64", low=0, high=len(KINDS) - 1),
        _evidence=Array(lambda own: len(own._names), 3, low=0.0),
        _marks=Array(lambda own: len(own._names), _REMEMBERED, dtype="uint32"),
        _n_queries=Count(),
    )

    def __init__(self) -> None:
        self._names: list[Hashable] = []
        self._codes = np.zeros(0, dtype=np.int64)
        self._evidence = np.zeros((0, 3))
        self._marks = np.zeros((0, _REMEMBERED), dtype=np.uint32)
        self._n_queries = 0

    @property
    def n_queries(self) -> int:
        """From how many queries they were learned."""
        return self._n_queries

    @property
    def names(self) -> tuple[Hashable, ...]:
        """The features."""
        return tuple(self._names)

    def knows(self, name: Hashable) -> bool:
        """Whether texts of a feature were seen before."""
        return name in self._names

    def known(self) -> dict[Hashable, str]:
        """The kind of each feature."""
        return {name: KINDS[code] for name, code in zip(self._names, self._codes.tolist(), strict=True)}

    def seen(self, name: Hashable, values: Sequence[str], whole: int = WHOLE) -> Seen:
        """What the values of a feature in one query show; `whole` values count as a whole query."""
        each = [*dict.fromkeys(values)]
        marks = np.array([*map(zlib.crc32, map(_encoded, each))], dtype=np.uint32)
        j = self._place(name)
        n_new = len(marks) if j < 0 else int((self._marks[j, marks % _REMEMBERED] != marks).sum())
        looked_at = each[:_LOOKED_AT]
        words = sum(map(_n_words, looked_at)) / max(len(looked_at), 1)
        return Seen(min(len(values) / whole, 1.0), n_new / max(len(values), 1), words, marks)

    def of(self, name: Hashable, seen: Seen | None = None) -> str:
        """The kind of a feature, with what is seen of it now; a category if nothing is known."""
        j = self._place(name)
        evidence, code = (np.zeros(3), 0) if j < 0 else (self._evidence[j], int(self._codes[j]))
        return KINDS[_decided(code, evidence if seen is None else _with(evidence, seen))]

    def learned(self, seen: Mapping[Hashable, Seen]) -> "Kinds":
        """The kinds after a query that shows this."""
        made = Kinds()
        new = sorted((name for name in seen if self._place(name) < 0), key=lambda name: -seen[name].weight)[:_MOST_FEATURES]
        made._names, n_new = [*self._names, *new], len(new)
        made._codes = np.append(self._codes, np.zeros(n_new, dtype=np.int64))
        made._evidence = _KEEP * np.concatenate([self._evidence, np.zeros((n_new, 3))])
        made._marks = np.concatenate([self._marks, np.zeros((n_new, _REMEMBERED), dtype=np.uint32)])
        made._n_queries = self._n_queries + 1
        for j, name in enumerate(made._names):
            if (own := seen.get(name)) is not None:
                made._evidence[j] = _with(made._evidence[j], own)
                made._marks[j, own.marks % _REMEMBERED] = own.marks
                made._codes[j] = _decided(int(made._codes[j]), made._evidence[j])
        if len(made._names) > _MOST_FEATURES:
            made._keep_weightiest()
        return made

    def mixed(self, shards: Sequence["Kinds"]) -> "Kinds":
        """The kinds of several machines that continued from these: evidence is averaged over the machines that have any."""
        made = Kinds()
        made._names = [*dict.fromkeys(name for one in shards for name in one._names)]
        made._n_queries = self._n_queries + sum(one._n_queries - self._n_queries for one in shards)
        made._codes = np.zeros(len(made._names), dtype=np.int64)
        made._evidence, made._marks = (
            np.zeros((len(made._names), 3)),
            np.zeros((len(made._names), _REMEMBERED), dtype=np.uint32),
        )
        for j, name in enumerate(made._names):
            own = [(one, one._place(name)) for one in shards if one.knows(name)]
            most, at = max(own, key=lambda each: each[0]._evidence[each[1], QUERIES])
            made._evidence[j] = np.mean([one._evidence[i] for one, i in own], axis=0)
            made._codes[j] = _decided(int(most._codes[at]), made._evidence[j])
            for one, i in reversed([(most, at), *own]):
                made._marks[j] = np.where(one._marks[i] > 0, one._marks[i], made._marks[j])
        if len(made._names) > _MOST_FEATURES:
            made._keep_weightiest()
        return made

    def without(self, is_gone: Callable[[Hashable], bool]) -> "Kinds":
        """The kinds of all other features."""
        made = Kinds()
        vars(made).update(vars(self))
        made._keep(np.array([j for j, own in enumerate(self._names) if not is_gone(own)], dtype=np.int64))
        return made

    def _keep_weightiest(self) -> None:
        """Keep the features that queries had most, of which older ones count less."""
        self._keep(np.sort(np.argsort(-self._evidence[:, QUERIES], kind="stable")[:_MOST_FEATURES]))

    def _keep(self, kept: np.ndarray) -> None:
        self._names = [self._names[j] for j in kept.tolist()]
        self._codes, self._evidence, self._marks = self._codes[kept], self._evidence[kept], self._marks[kept]

    def has_mark(self, name: Hashable, value: str) -> bool:
        """Whether there is a checksum of a value of a feature."""
        j, mark = self._place(name), zlib.crc32(_encoded(value))
        return j >= 0 and mark != 0 and bool(self._marks[j, mark % _REMEMBERED] == mark)

    def forget(self, name: Hashable, value: str) -> None:
        """Forget the checksum of a value, in place: its owner must not be in use."""
        if self.has_mark(name, value):
            self._marks[self._place(name), zlib.crc32(_encoded(value)) % _REMEMBERED] = 0

    def _place(self, name: Hashable) -> int:
        return self._names.index(name) if name in self._names else -1


def _with(evidence: np.ndarray, seen: Seen) -> np.ndarray:
    return evidence + seen.weight * np.array([1.0, seen.new, seen.words])


def _decided(code: int, evidence: np.ndarray) -> int:
    """The code of a kind that was another, or the same, before this evidence."""
    queries, new, words = evidence.tolist()
    mean = words / queries if queries else 0.0
    beyond = new - 0.5 * queries
    if code:
        return 0 if beyond < _BACK else code
    if mean >= _SEVERAL:
        return KINDS.index(TEXT) if beyond > (_CLEAR if mean >= _LONG else _CLEARER) else 0
    return KINDS.index(IGNORED) if new - _ALL_NEW * queries > _SURE else 0


def _encoded(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _n_words(text: str) -> int:
    """About how many words a text has; in scripts without blanks a word has two characters."""
    words = len(text.split())
    return words if text.isascii() else max(words, sum(map(_is_dense, text)) // 2)


def _is_dense(character: str) -> bool:
    return "\u0e00" <= character <= "\u0eff" or "\u1000" <= character <= "\u109f" or character >= "\u3040"
