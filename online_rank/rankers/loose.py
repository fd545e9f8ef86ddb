"""Names of features that come as words do: new ones in every query, of which each document has few.

They are what river's `TFIDF` and `BagOfWords` give, and dicts of words. A curve takes 4 kB and time in every query, so from
`_SETTLED` features on such names get no curve: each is an entry of the sparse table of words, with its value.
"""

import warnings
import weakref
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from online_rank.base.reader import as_array
from online_rank.query import Block, SparseRows, with_features
from online_rank.query.levels import is_level
from online_rank.query.words import Entries, Worded, joined, keys_of

__all__ = ["FILLED", "MANY_NAMES", "Loose", "attached", "loose_in", "may_meet_words", "without"]

#: Features from which on new names may be words; and queries of words: they have at least this many names, and documents have
#: less than this share of them.
_SETTLED = 256
MANY_NAMES, FILLED = 50, 0.25
#: How the names of the entries begin: no text and no level has such a name.
_BEGINNING = "\x00"
#: Those that have warned.
_TOLD: "weakref.WeakSet[Any]" = weakref.WeakSet()


class Loose(NamedTuple):
    """Columns of a block whose names are words: their numbers (k,), names, keys int64 (k,) and values float64 (n, k)."""

    columns: np.ndarray
    names: tuple[Hashable, ...]
    keys: np.ndarray
    values: np.ndarray


def loose_in(ranker: Any, block: Block, learns: bool) -> Loose | None:
    """The columns of an array with names that are words to a ranker: those that it knows as words, and new ones if it learns.

    Levels are no such names, however many there are.
    """
    words, own = ranker._words, ranker._columns
    may_begin = learns and ranker._n_features >= _SETTLED
    if own is None or not (may_begin or words is not None) or not block.n_documents:
        return None
    if isinstance(block.X, SparseRows):
        block = with_features(block, as_array(block.X, ranker), block.names)
    names = block.names or ()
    new = [j for j in np.flatnonzero(own.of(names) < 0).tolist() if not is_level(names[j])]
    if not new:
        return None
    columns, texts = np.array(new), [str(names[j]) for j in new]
    keys, values = keys_of([_BEGINNING], [texts]), np.nan_to_num(block.X[:, columns], nan=0.0, posinf=np.inf, neginf=-np.inf)
    chosen = np.zeros(len(keys), dtype=bool) if words is None else words.rows_of(keys) >= 0
    if may_begin:
        is_own = np.array([not is_level(name) for name in names])
        chosen |= _are_words(block.X[:, is_own], np.searchsorted(np.flatnonzero(is_own), columns))
    chosen &= np.isfinite(values).all(axis=0)
    if not chosen.any():
        return None
    return Loose(columns[chosen], tuple(names[j] for j in columns[chosen].tolist()), keys[chosen], values[:, chosen])


def may_meet_words(ranker: Any, block: Block) -> bool:
    """Whether names that a ranker does not know as columns may be words to it, so that each query decides about its own."""
    own = ranker._columns
    settled = own is not None and (ranker._n_features >= _SETTLED or ranker._words is not None)
    return bool(settled and block.names is not None and own.missing(block.names))


def _are_words(X: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Which of some columns of a query may be words: none unless it has many names, and documents have few of them."""
    filled = (X != 0.0) & ~np.isnan(X)
    if X.shape[1] < MANY_NAMES or filled.sum() >= FILLED * X.size:
        return np.zeros(len(columns), dtype=bool)
    few: np.ndarray = filled[:, columns].mean(axis=0) < FILLED
    return few


def without(ranker: Any, block: Block, loose: Loose, learns: bool) -> Block:
    """A block without columns that are words. A ranker that learns the first of them warns."""
    if learns and ranker not in _TOLD:
        _TOLD.add(ranker)
        warnings.warn(
            f"{type(ranker).__name__}: names of features come as words do, {loose.names[0]!r} first; after {_SETTLED} features "
            "they are learned sparsely, without curves (n_words counts them)",
            stacklevel=2,
        )
    kept = np.ones(block.X.shape[1], dtype=bool)
    kept[loose.columns] = False
    names = block.names or ()
    return with_features(block, block.X[:, kept], tuple(names[j] for j in np.flatnonzero(kept).tolist()))


def attached(block: Block, loose: Loose) -> Block:
    """A block whose array carries these words, next to those that it has."""
    i, k = loose.values.nonzero()
    starts = np.append(0, np.cumsum(np.bincount(i, minlength=len(loose.values))))
    own = Entries(starts, loose.keys[k], loose.values[i, k], np.zeros(len(k), dtype=np.int64))
    X = block.X
    tokens, seen = (X.tokens, X.seen) if type(X) is Worded else (None, {})
    parts = [own] if tokens is None else [Entries(*tokens), own]
    return with_features(block, Worded.of(np.asarray(X), joined(len(loose.values), parts), seen, True), block.names)
