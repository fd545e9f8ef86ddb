"""Levels by weight: which of them have a column, and what the weights of levels add to a score."""

import functools
from collections.abc import Hashable
from typing import Any

import numpy as np

from online_rank.base import leaving
from online_rank.base.form import Curves
from online_rank.base.kinds import CATEGORY, IGNORED, TEXT
from online_rank.base.names import numbers
from online_rank.base.reader import own_names
from online_rank.query.levels import Levels
from online_rank.query.words import keys_of
from online_rank.rankers.words import Words

__all__ = ["curves_of_levels", "let_excess_leave", "let_stale_leave", "levels_of", "n_beyond", "renew_levels"]

#: A level takes the place of one in use if it counts more than this many times as much; the most that a query renews, and the
#: least difference.
_MORE, _AT_ONCE, _LEAST = 2.0, 16, 1e-9
#: Arrays with more features are no features that people send by name.
_WIDE = 4096


@functools.lru_cache(maxsize=8)
def _numbered(n_features: int) -> tuple[str, ...]:
    """The names of features of arrays: the same tuple each time. None for very wide ones, which have no categories."""
    return numbers(n_features) if n_features <= _WIDE else ()


def levels_of(ranker: Any) -> Levels:
    """The levels of all categories that a ranker has met."""
    known: Levels | None = ranker._known_levels
    columns = ranker._columns
    names = _numbered(ranker._n_features) if columns is None else columns._names or columns.names
    # Names are another tuple once they changed, also where a query that is refused had brought some.
    if known is None or known.names is not names:
        known = ranker._known_levels = Levels(names, ranker.max_levels)
    return known


def let_stale_leave(step: Any, levels: Levels) -> None:
    """Let levels leave whose feature is no category any more."""
    kinds = step._kinds
    if kinds is None or not levels.columns or _is_held(step):
        return
    kinds = {**kinds.known(), **(step.kinds or {})}
    gone = {name for name in levels.categories() if kinds.get(name, CATEGORY) in (TEXT, IGNORED)}
    if gone:
        columns = levels.of_any(gone)
        leaving.leave(step, np.array([j for j in range(len(step._columns.names)) if j not in columns], dtype=np.int64))


def let_excess_leave(step: Any) -> None:
    """Let levels beyond `max_levels`, which several machines have met, leave: those that count least lately."""
    if step._columns is None:
        return
    gone: set[int] = set()
    levels = Levels(step._columns.names, step.max_levels)
    for name in levels.categories():
        in_use, keys = _keys_in_use(levels, name)
        excess = len(in_use) - step.max_levels
        if excess > 0:
            counts = np.zeros(len(in_use)) if step._words is None else step._words.counts_of(keys)
            order = np.argsort(counts[::-1], kind="stable")[:excess]
            gone |= {levels.column(name, in_use[len(in_use) - 1 - k]) for k in order.tolist()}
    if gone:
        leaving.leave(step, np.array([j for j in range(len(step._columns.names)) if j not in gone], dtype=np.int64))


def renew_levels(step: Any, texts: Any, levels: Levels) -> None:
    """Let levels without a column take the place of levels that count less lately: of half the weight at most."""
    words: Words | None = step._words
    if words is None or _is_held(step):
        return
    gone: set[int] = set()
    for name, (_, lists) in texts.levels.items():
        used = levels.levels_of(name)
        others = [*({level for own in lists for level in own} - used.keys())] if levels.is_full(name) else []
        if not others:
            continue
        counts = words.counts_of(keys_of([f"{name}="], [others]))
        in_use, keys = levels.remembered(name, _keys_in_use)
        weights = words.counts_of(keys)
        order = np.argsort(weights, kind="stable")[: min(len(counts), _AT_ONCE)]
        best = -np.sort(-counts)[: len(order)]
        n = int((best > _MORE * weights[order] + _LEAST).sum())
        gone |= {levels.column(name, in_use[k]) for k in order[:n].tolist()}
    if gone:
        leaving.leave(step, np.array([j for j in range(len(step._columns.names)) if j not in gone], dtype=np.int64))


def _keys_in_use(levels: Levels, name: Hashable) -> tuple[list[str], np.ndarray]:
    """The levels of a category that have a column, and their keys."""
    in_use = [level for level in levels.levels_of(name) if level is not None]
    return in_use, keys_of([f"{name}="], [in_use])


def curves_of_levels(ranker: Any) -> Curves:
    """What levels with a column add to a score that is served, by their weights as words. A level is 1 or 0.

    Raises TypeError if there are other words: engines cannot compute these yet.
    """
    words: Words = ranker._words
    if ranker.text_features or words.has_pairs or words.has_names:
        texts = ", ".join(map(repr, ranker.text_features))
        learned = f"words of {texts}" if texts else "pairs of the context with levels" if words.has_pairs else "words"
        ignored = dict.fromkeys(ranker.text_features, "ignored")
        remedy = f"AdditiveRanker(kinds={ignored})" if ignored else "learn without the context"
        raise TypeError(
            f"it has learned {learned}, which are kept by hashes that engines cannot look up; for a model that can be "
            f"exported: {remedy}; in the shell train --for, which prints what the default model reaches on the same file"
        )
    levels = Levels(own_names(ranker), ranker.max_levels)
    places, weights = [], []
    for name in filter(levels.is_full, levels.categories()):
        own, keys = _keys_in_use(levels, name)
        places += [levels.column(name, level) for level in own]
        weights += words.weights_of(keys).tolist()
    knots = tuple((np.array([0.0, 1.0]), np.array([0.0, weight])) for weight in weights)
    return Curves(np.array(places, dtype=np.int64), knots)


def n_beyond(ranker: Any) -> int:
    """How many levels without a column have a weight, which engines count as all others without one."""
    words: Words | None = ranker._words
    if words is None or not words.share:
        return 0
    levels = Levels(own_names(ranker), ranker.max_levels)
    own = (_keys_in_use(levels, name)[1] for name in levels.categories())
    return words.n_words - sum(int((words.rows_of(keys) >= 0).sum()) for keys in own)


def _is_held(step: Any) -> bool:
    """Whether rankers around a step keep state in its columns."""
    return bool(step._holds_features) or any(owner._is_ranker and owner._wrapped for owner in step._lock.owners)
