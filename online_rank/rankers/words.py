"""The words of an `AdditiveRanker`: a sparse regression whose table grows with what was seen, blended with curves and trees."""

import functools
import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from river import base

from online_rank._kernels import words as kernels
from online_rank._kernels.hedge import LARGEST_WEIGHT
from online_rank.base.leaving import warn_of_leaving
from online_rank.base.schema import Array, Count, Derived, Flag, Schema
from online_rank.base.undo import Undo, put_back
from online_rank.query.words import Tokens
from online_rank.rankers.hedge import LEAST, HedgeAccount, OuterHedge, opening, outer_hedge

#: The weights of what is next to the words, and of both together, in each candidate; and their prior.
MIXTURES = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
_PRIOR = np.array([0.5, 0.25, 0.25])
#: What a word counts of a feature of `max_features`, which takes about 4 kB.
WORDS_OF_FEATURE = 16
#: Of words without room, one in this many leaves at once.
_LEAVE = 8
#: Places for bits of keys that were met once; the fewest rows of a table.
_MET, _FEWEST = 1 << 16, 256
_BEGUN = 0.3


class _Journal:
    """What learning overwrites while somebody may undo it: entries of arrays, and what they were."""

    __slots__ = ("__weakref__", "entries")

    def __init__(self) -> None:
        self.entries: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []


#: The journals of each object that are still wanted. They are no state.
_OPEN: "weakref.WeakKeyDictionary[Any, list[weakref.ref[_Journal]]]" = weakref.WeakKeyDictionary()


class Words(base.Base):
    """Words with a weight and a precision each, in arrays; undoing a query takes time proportional to its words.

    Without room for new words, the eighth of all leaves that lately had the fewest documents.
    """

    _schema = Schema(
        n_words=Count(),
        n_left=Count(),
        has_names=Flag(),
        _keys=Array("n_words", dtype="int64", spare=True),
        _owners=Array("n_words", dtype="int64", spare=True),
        _table=Array("n_words", kernels.N_OF_WORD, spare=True),
        _met=Array(None, dtype="uint16"),
        _numbers=Array(kernels.N_NUMBERS),
        _index=Derived(lambda own: _size_of_index(len(own._keys)) // 2),
    )

    def __init__(self) -> None:
        self.n_words = self.n_left = 0
        #: Whether names of features may be among the words.
        self.has_names = False
        self._keys = np.zeros(0, dtype=np.int64)
        #: Of pairs, the key of the query's entry.
        self._owners = np.zeros(0, dtype=np.int64)
        self._table = np.zeros((0, kernels.N_OF_WORD))
        self._met = np.zeros(1, dtype=np.uint16)
        self._numbers = np.zeros(kernels.N_NUMBERS)
        self._numbers[kernels.ACCOUNT : kernels.SCALES] = opening()
        self._numbers[kernels.FACTOR], self._numbers[kernels.SLOPE] = 1.0, _BEGUN
        self._index = np.zeros(1, dtype=np.int32)

    def begin(self, account: HedgeAccount) -> None:
        """Begin where so much was lost without words, which all candidates then have lost."""
        made = HedgeAccount(*opening())._replace(
            served=account.served, mixed=account.served, largest_weight=account.largest_weight, n_counted=account.n_counted,
            counted_weight=account.counted_weight,
        )  # fmt: skip
        self._numbers[kernels.LOSSES : kernels.ACCOUNT] = account.served
        self._numbers[kernels.ACCOUNT : kernels.SCALES] = made

    @property
    def n_lately(self) -> float:
        """How many queries were learned, of which older ones count less."""
        return float(self._numbers[kernels.LATELY])

    @property
    def factor(self) -> float:
        """The factor of the scores next to the words in what is served."""
        return float(self._numbers[kernels.FACTOR])

    @property
    def share(self) -> float:
        """The factor of the words in what is served."""
        return float(self._numbers[kernels.SHARE])

    @property
    def hedge(self) -> OuterHedge:
        """The blend with what is next to the words, by `MIXTURES`."""
        numbers = self._numbers
        return outer_hedge(numbers[: kernels.N_CANDIDATES], numbers[kernels.ACCOUNT : kernels.SCALES], _PRIOR)

    @classmethod
    def _of_earlier(cls, state: dict[str, Any]) -> dict[str, Any]:
        return {"has_names": False, **state}

    @property
    def has_pairs(self) -> bool:
        """Whether there are pairs of what is known of a query with what is known of documents."""
        return bool(self._owners[: self.n_words].any())

    def _check_state(self) -> None:
        """Raise ValueError for a state that is impossible."""
        keys, table, size = self._keys[: self.n_words], self._table[: self.n_words], len(self._met)
        if len(np.unique(keys)) < len(keys) or (keys == 0).any():
            raise ValueError("_keys: a word has two rows, or no key")
        if (table[:, kernels.PRECISION :] < 0.0).any() or (table[:, kernels.LAST] > self._numbers[kernels.CLOCK]).any():
            raise ValueError("_table: a word has an impossible precision, count or time")
        if size < 1 or size & (size - 1):
            raise ValueError("_met: its size is a power of 2")
        scales = self._numbers[kernels.SCALES : kernels.FACTOR]
        if (scales < 0.0).any() or self._numbers[kernels.SURE] < 0.0 or self._numbers[kernels.ACCOUNT + LARGEST_WEIGHT] < 1.0:
            raise ValueError("_numbers: a scale, a precision or a weight is impossible")

    def _derive(self) -> None:
        """Build the index of the words."""
        self._index = np.zeros(_size_of_index(len(self._keys)), dtype=np.int32)
        kernels.build(self._index, self._keys, self.n_words)

    def _fork(self, number: int) -> None:
        """Nothing is shared by copies."""

    def rows_of(self, keys: np.ndarray) -> np.ndarray:
        """The row of each key, -1 for unknown ones."""
        rows = np.empty(len(keys), dtype=np.int64)
        kernels.find(self._index, self._keys, self.n_words, keys, rows)
        return rows

    def weights_of(self, keys: np.ndarray) -> np.ndarray:
        """What each word adds to a score that is served; 0 for unknown ones."""
        rows = self.rows_of(keys)
        known = rows >= 0
        weights = np.zeros(len(keys))
        weights[known] = self.share * self._table[rows[known], kernels.WEIGHT]
        return weights

    def counts_of(self, keys: np.ndarray) -> np.ndarray:
        """How many queries had each word lately, of which each counts by the share of its documents that have it."""
        rows = self.rows_of(keys)
        known, counts = rows >= 0, np.zeros(len(keys))
        own = self._table[rows[known]]
        counts[known] = own[:, kernels.COUNT] * 2.0 ** (own[:, kernels.LAST] - self._numbers[kernels.CLOCK])
        return counts

    def served(self, tokens: Tokens, scores: np.ndarray) -> np.ndarray:
        """The scores that are served (n,), from the scores by what is next to the words."""
        answers = self.factor * scores
        if self.share:
            kernels.add_words(tokens.starts, self.rows_of(tokens.keys), tokens.values, self._table, self.share, answers)
        return answers

    def learn(
        self, tokens: Tokens, y: np.ndarray, weight: float, given: np.ndarray, scores: np.ndarray, half_lives: float, most: int,
        rule: tuple[np.ndarray, np.ndarray], seed: int, query: int,
    ) -> float:  # fmt: skip
        """Learn a query by the scores (m,) next to the words; the loss of what was served, NaN if nothing can be learned.

        half_lives : since the query before; most : words; rule : as `kernels.learn` takes it
        """
        if not np.isfinite(scores).all():
            return math.nan
        self._numbers = self._numbers.copy()
        rows = self._met_now(tokens, most) if weight > 0.0 and len(y) > 1 and (y != y[0]).any() else self.rows_of(tokens.keys)
        self._note(self._table, rows[rows >= 0])
        order = _order_of(tokens, rows, scores, y)
        return float(
            kernels.learn(
                y, weight, given, scores, tokens.starts, rows, tokens.values, order, self._table, self._numbers, half_lives,
                MIXTURES, _PRIOR, *rule, seed, query,
            )
        )  # fmt: skip

    def _met_now(self, tokens: Tokens, most: int) -> np.ndarray:
        """The rows of the words of a query, with new ones; -1 for crossed ones that no earlier query had."""
        keys = tokens.keys
        if len(self._met) < _MET and tokens.of_query.any():
            self._met = np.zeros(_MET, dtype=np.uint16)
        rows = self.rows_of(keys)
        new = len(np.unique(keys[rows < 0])) if (rows < 0).any() else 0
        if not new:
            return rows
        if self.n_words + new > most:
            self._let_leave(keys, max(most - new, 0), most)
            rows = self.rows_of(keys)
        self._make_room(self.n_words + len(keys))
        places, before = np.empty(len(keys), dtype=np.int64), np.empty(len(keys), dtype=np.uint16)
        clock = float(self._numbers[kernels.CLOCK])
        self.n_words = kernels.add(
            self._index, self._keys, self._owners, self._table, self.n_words, clock, keys, tokens.of_query, self._met, rows,
            places, before,
        )  # fmt: skip
        changed = places >= 0
        self._remember(self._met, places[changed], before[changed])
        return rows

    def _make_room(self, n: int) -> None:
        """Give n words room."""
        if n > len(self._keys):
            spare = max(n, 2 * len(self._keys), _FEWEST) - len(self._keys)
            self._keys = np.append(self._keys, np.zeros(spare, dtype=np.int64))
            self._owners = np.append(self._owners, np.zeros(spare, dtype=np.int64))
            self._table = np.concatenate([self._table, np.zeros((spare, kernels.N_OF_WORD))])
            self._derive()

    def _let_leave(self, used: np.ndarray, room: int, most: int) -> None:
        """Keep at most `room` words, and seven of eight of `most`: the words of this query, then the highest counts."""
        n = self.n_words
        kept = min(room, most - most // _LEAVE)
        if not self.n_left:
            warn_of_leaving("AdditiveRanker", "words", most, "attribute max_features", "attribute n_left_words")
        table, rows = self._table[:n], self.rows_of(used)
        counts = table[:, kernels.COUNT] * 2.0 ** (table[:, kernels.LAST] - self._numbers[kernels.CLOCK])
        counts[rows[rows >= 0]] = np.inf
        stay = np.sort(np.argsort(-counts, kind="stable")[:kept])
        self.n_left += n - len(stay)
        self._keep_only(stay)

    def _keep_only(self, stay: np.ndarray) -> None:
        """Keep some words, given by their rows; arrays are replaced."""
        self.n_words = len(stay)
        self._keys, self._owners, self._table = self._keys[stay], self._owners[stay], self._table[stay]
        self._derive()

    def has_pairs_of(self, keys: np.ndarray) -> bool:
        """Whether there are pairs of an entry of the context, by its key (1,)."""
        return bool((self._owners[: self.n_words] == keys).any())

    def forget(self, keys: np.ndarray) -> int:
        """Forget words, and the pairs with these entries of queries. Returns how many there were."""
        n = self.n_words
        gone = np.isin(self._keys[:n], keys) | np.isin(self._owners[:n], keys)
        if gone.any():
            self._keep_only(np.flatnonzero(~gone))
            # Bits of what was met once do not say of whom.
            self._met = np.zeros_like(self._met)
        return int(gone.sum())

    def mix(self, shards: Sequence["Words"], base: "Words", most: int) -> None:
        """Become what shards have learned that continued from `base`, with at most this many words.

        Precisions, counts and precisions times weights add up, and the base counts once: what one regression knows after all
        queries, if machines learned independently.
        """
        every = [base, *shards]
        keys, places = np.unique(np.concatenate([own._keys[: own.n_words] for own in every]), return_inverse=True)
        ends = np.cumsum([0, *(own.n_words for own in every)])
        sums, owners = np.zeros((len(every), len(keys), 3)), np.zeros(len(keys), dtype=np.int64)
        clock = max(float(own._numbers[kernels.CLOCK]) for own in every)
        for k, own in enumerate(every):
            at, rows = places[ends[k] : ends[k + 1]], own._table[: own.n_words]
            # As of the last clock of all, so that the base fades alike in all of them.
            left = 2.0 ** (rows[:, kernels.LAST] - clock)
            precision = left * rows[:, kernels.PRECISION]
            sums[k, at, 0] = (kernels.PRIOR + precision) * rows[:, kernels.WEIGHT]
            sums[k, at, 1], sums[k, at, 2] = precision, left * rows[:, kernels.COUNT]
            owners[at] = own._owners[: own.n_words]
        moved = sums[0] + sum(sums[1:] - sums[0])
        precision, counts = np.maximum(moved[:, 1:], 0.0).T
        self._keys, self._owners, self.n_words = keys, owners, len(keys)
        self._table = np.zeros((len(keys), kernels.N_OF_WORD))
        self._table[:, kernels.WEIGHT] = moved[:, 0] / (kernels.PRIOR + precision)
        self._table[:, kernels.PRECISION], self._table[:, kernels.COUNT] = precision, counts
        self._table[:, kernels.LAST] = clock
        self._numbers = _mixed_numbers([own._numbers for own in shards], base._numbers, clock)
        self.n_left = base.n_left + sum(own.n_left - base.n_left for own in shards)
        self.has_names = any(own.has_names for own in every)
        self._met = base._met.copy()
        for met in (own._met for own in shards if len(own._met) > 1):
            self._met = met.copy() if len(self._met) < len(met) else np.where(met != self._met, np.maximum(met, self._met), met)
        self._derive()
        if self.n_words > most:
            self._let_leave(np.zeros(0, dtype=np.int64), most, most)

    def _note(self, array: np.ndarray, rows: np.ndarray) -> None:
        """Keep what is in rows that are about to change."""
        self._remember(array, rows, array[rows])

    def _remember(self, array: np.ndarray, rows: np.ndarray, before: np.ndarray) -> None:
        for each in _OPEN.get(self, ()):
            if (journal := each()) is not None:
                journal.entries.append((array, rows, before))

    def _record(self, log: list[Undo], block: Any = None) -> None:
        """Add to a log what undoes learning: as long as the log is there, what changes is kept."""
        journal = _Journal()
        _OPEN[self] = [*(each for each in _OPEN.get(self, ()) if each() is not None), weakref.ref(journal)]
        log.append(functools.partial(self._undo, vars(self).copy(), journal))

    def _undo(self, before: dict[str, Any], journal: _Journal) -> None:
        for array, rows, values in reversed(journal.entries):
            # A place that changed twice has what it was at first.
            array[rows[::-1]] = values[::-1]
        put_back(self, before)
        self._derive()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Words":
        made = memo[id(self)] = type(self)()
        vars(made).update(vars(self))
        made._make_own()
        return made

    def _make_own(self) -> None:
        """Take copies of the arrays."""
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(self, name, value.copy())


def _mixed_numbers(shards: Sequence[np.ndarray], base: np.ndarray, clock: float) -> np.ndarray:
    """The numbers of mixed words: losses, the account and the number of queries add up, scales and factors are averaged."""
    numbers: np.ndarray = np.mean(shards, axis=0)
    added, account = [*range(kernels.SCALES), kernels.LATELY], slice(kernels.ACCOUNT, kernels.SCALES)
    faded = [
        np.append(own[: kernels.SCALES], own[kernels.LATELY] * 2.0 ** (own[kernels.CLOCK] - clock)) for own in (base, *shards)
    ]
    numbers[added] = np.maximum(faded[0] + sum(own - faded[0] for own in faded[1:]), 0.0)
    numbers[account] = np.maximum(numbers[account], LEAST)
    numbers[kernels.ACCOUNT + LARGEST_WEIGHT] = max(own[kernels.ACCOUNT + LARGEST_WEIGHT] for own in shards)
    numbers[kernels.CLOCK] = clock
    return numbers


def _size_of_index(n: int) -> int:
    """Places of an index for n words: a power of 2, at least twice as many."""
    return 1 << max(2 * n, 1).bit_length()


def _order_of(tokens: Tokens, rows: np.ndarray, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The order in which documents are learned: by what they are, so that it does not matter in which they came."""
    mixed = tokens.keys.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    ends = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    sums = ends[tokens.starts[1:]] - ends[tokens.starts[:-1]]
    return np.lexsort((sums, scores, y))
