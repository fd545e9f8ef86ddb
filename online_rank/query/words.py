"""Words of texts, by hashes of their names, and arrays of features that carry them."""

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank._kernels.words import cross, hash_lines
from online_rank.query.names import encoded, in_nfc

__all__ = ["WORDS", "Entries", "Tokens", "Worded", "crossed", "entries_of", "joined", "key_of_pair", "keys_of", "words_of"]

#: Accents and vowel signs, which are parts of words, and no letters to `re`: without them Hindi and Tamil have no whole words.
_MARKS = "".join(c for c in map(chr, range(0x300, 0x1E00)) if unicodedata.category(c)[0] == "M")
#: Words, as `HashedFeatures` finds them, too; and runs of scripts that are written without blanks.
WORDS = re.compile(rf"\w[\w{_MARKS}]*")
_DENSE = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+")


def words_of(text: str) -> list[str]:
    """The words of a text in lower case, as `HashedFeatures` finds them; pairs of characters in scripts without blanks.

    Examples
    --------
    >>> words_of("Red running-shoe 42"), words_of("\u4eac\u90fd\u5e02 map")
    (['red', 'running', 'shoe', '42'], ['map', '\u4eac\u90fd', '\u90fd\u5e02'])
    """
    if text.isascii():
        return WORDS.findall(text.lower())
    text = str(in_nfc(text)).casefold()
    runs = _DENSE.findall(text)
    return WORDS.findall(_DENSE.sub(" ", text)) + [run[i : i + 2] for run in runs for i in range(max(len(run) - 1, 1))]


class Tokens(NamedTuple):
    """The entries of n documents in a sparse table.

    Attributes
    ----------
    starts
        int64 (n + 1,): document i has the entries `starts[i]:starts[i + 1]`.
    keys, values
        int64 and float64 (e,): the hash of each name, and its value.
    of_query
        int64 (e,): of a pair, which is learned only once it recurs, the key of the query's entry; 0 for others.
    """

    starts: np.ndarray
    keys: np.ndarray
    values: np.ndarray
    of_query: np.ndarray

    def rows(self, places: Any) -> "Tokens":
        """The entries of some documents."""
        documents = np.arange(len(self.starts) - 1)[places]
        sizes = np.diff(self.starts)[documents]
        starts = np.append(0, np.cumsum(sizes))
        entries = np.repeat(self.starts[documents] - starts[:-1], sizes) + np.arange(starts[-1])
        return Tokens(starts, self.keys[entries], self.values[entries], self.of_query[entries])


class Worded(np.ndarray):
    """An array of features (n, d) whose documents have words, which rows that are taken of it keep.

    Examples
    --------
    >>> X = Worded.of(np.ones((2, 1)), Tokens(np.array([0, 1, 1]), np.array([7]), np.ones(1), np.zeros(1, int)), None)
    >>> X[1:].tokens.starts.tolist(), X[:1].tokens.keys.tolist(), type(X[:, 0]).__name__
    ([0, 0], [7], 'ndarray')
    """

    tokens: Tokens | None
    seen: Any
    #: Whether names of features are among the words.
    has_names: bool

    @classmethod
    def of(cls, X: np.ndarray, tokens: Tokens, seen: Any, has_names: bool = False) -> "Worded":
        """An array with words, and with what the query shows of the kinds of its features."""
        made = np.asarray(X).view(cls)
        made.tokens, made.seen, made.has_names = tokens, seen, has_names
        return made

    def __array_finalize__(self, source: Any) -> None:
        self.tokens = self.seen = None
        self.has_names = False

    def __getitem__(self, places: Any) -> Any:
        taken = np.asarray(self)[places]
        if self.tokens is None or isinstance(places, tuple) or taken.ndim != 2:
            return taken
        return Worded.of(taken, self.tokens.rows(places), self.seen, self.has_names)


class Entries(NamedTuple):
    """As `Tokens`, of one field of n documents."""

    starts: np.ndarray
    keys: np.ndarray
    values: np.ndarray
    of_query: np.ndarray


def keys_of(beginnings: Sequence[str], texts: Sequence[Sequence[str]]) -> np.ndarray:
    """The keys, int64, of several groups of texts, each after the beginning of its group.

    Examples
    --------
    >>> bool((keys_of(["a=", "b="], [["x"], ["x"]]) == keys_of([""], [["a=x", "b=x"]])).all())
    True
    """
    lengths = np.array([*map(len, texts)], dtype=np.int64)
    keys = np.empty(int(lengths.sum()), dtype=np.int64)
    begins = b"".join(encoded(each.replace("\n", " ")) + b"\n" for each in beginnings)
    lines = encoded("\n".join(map("\n".join, filter(None, texts))))
    if lines.count(b"\n") != len(keys) - 1 and len(keys):
        lines = encoded("\n".join(text.replace("\n", " ") for group in texts for text in group))
    hash_lines(np.frombuffer(lines, np.uint8), np.frombuffer(begins, np.uint8), lengths, keys)
    return keys


def entries_of(n: int, name: Hashable, rows: Sequence[int], words: Sequence[Sequence[str]]) -> Entries:
    """The words of one field of n documents, counted; `rows` are the documents that have it."""
    starts = np.zeros(n + 1, dtype=np.int64)
    is_repeated = [len(set(own)) < len(own) for own in words]
    if any(is_repeated):
        counts = [Counter(own) for own in words]
        words = [[*own] for own in counts]
        values = np.array([count for own in counts for count in own.values()], dtype=np.float64)
    else:
        values = np.ones(sum(map(len, words)))
    starts[np.array(rows, dtype=np.int64) + 1] = [*map(len, words)]
    keys = keys_of([f"{name}="], [[*itertools.chain.from_iterable(words)]])
    return Entries(np.cumsum(starts), keys, values, np.zeros(len(keys), dtype=np.int64))


def joined(n: int, parts: Sequence[Entries]) -> Tokens:
    """The entries of several fields of n documents."""
    if len(parts) == 1:
        return Tokens(*parts[0])
    documents = np.concatenate([np.repeat(np.arange(n), np.diff(own.starts)) for own in parts])
    order = np.argsort(documents, kind="stable")
    starts = np.append(0, np.cumsum(np.bincount(documents, minlength=n)))
    return Tokens(starts, *(np.concatenate([own[k] for own in parts])[order] for k in (1, 2, 3)))


def crossed(entries: Entries, firsts: np.ndarray, wanted: np.ndarray) -> Entries:
    """The pairs of entries of documents with entries of their queries.

    Parameters
    ----------
    entries
        Of n documents.
    firsts
        int64 (n, 2): which of the wanted ones belong to the query of each document.
    wanted
        int64 (k,): keys of entries of queries.
    """
    n = int((np.diff(entries.starts) * (firsts[:, 1] - firsts[:, 0])).sum())
    starts, (keys, owners), values = (
        np.empty(len(entries.starts), dtype=np.int64),
        np.empty((2, n), dtype=np.int64),
        np.empty(n),
    )
    cross(entries.starts, entries.keys, entries.values, firsts, wanted, starts, keys, values, owners)
    return Entries(starts, keys, values, owners)


def key_of_pair(wanted: str, own: str) -> int:
    """The key of an entry of a query with an entry of a document, as `crossed` makes it."""
    keys = keys_of([""], [[wanted, own]])
    pair = crossed(Entries(np.array([0, 1]), keys[1:], np.ones(1), np.zeros(1, dtype=np.int64)), np.array([[0, 1]]), keys[:1])
    return int(pair.keys[0])
