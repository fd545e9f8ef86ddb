"""What a `History` keeps of its keys: sums that decay, in bounded memory."""

import functools
import math
import warnings
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from online_rank.base.growth import with_zeros
from online_rank.base.halving import halved
from online_rank.base.schema import Array, Count, DictOf, Integer, Plain, Real, Schema
from online_rank.base.undo import Undo
from online_rank.limits import is_name
from online_rank.preprocessing._keyed import KeyedStep
from online_rank.query import Block

#: Sums grow by at most this many half-lives before they are scaled down; of feedback that is older, next to nothing is left.
_MOST_HALF_LIVES = 32
#: Without room for new keys, one in this many keys leaves at once.
_LEAVE = 16

# Those that have told of feedback that is too old to count.
_TOLD: "weakref.WeakSet[KeyTable]" = weakref.WeakSet()


class KeyTable(KeyedStep):
    """Keys of documents, `max_keys` at most: for each two sums, the time of its first use, and the number of its last one.

    Sums are multiplied by 2^(t / H - epoch) of the time t of each addend, so that they decay without being touched.
    """

    _schema = Schema(
        n_left=Count(),
        _n_queries=Count(),
        _epoch=Integer(),
        _at=Real(optional=True),
        _totals=Array(2, low=0.0),
        _slots=DictOf(Plain(), Integer(0)),
        _sums=Array("n_keys", 2, low=0.0, spare=True),
        _first=Array("n_keys", spare=True),
        _used=Array("n_keys", dtype="int64", low=0, spare=True),
    )

    _by_key = ("_sums", "_first", "_used")

    #: H, as it was given and as a number.
    half_life: float | str
    _period: float
    #: The key of each document of a query; None for no key.
    _keys: Callable[[Block], list[Hashable]]

    def __init__(self) -> None:
        super().__init__()
        self._slots = {}
        self._sums = np.zeros((0, 2))
        self._first = np.zeros(0)
        self._used = np.zeros(0, dtype=np.int64)
        self._totals = np.zeros(2)
        self._epoch = 0
        self._at: float | None = None
        self._n_queries = self.n_left = 0

    @property
    def _is_timed(self) -> bool:
        return isinstance(self.half_life, str)

    def _check_state(self) -> None:
        super()._check_state()
        if self._at is not None and not -1.0 <= self._at / self._period - self._epoch <= _MOST_HALF_LIVES + 1.0:
            raise ValueError(f"_epoch is {self._epoch}, too far from _at, {self._at / self._period:.17g} half-lives")

    def _found(self, keys: list[Hashable], at: float | None) -> tuple[np.ndarray, np.ndarray]:
        """The sums (n, 2) of keys at a time, and how long ago the first use of each was; 0 for unknown ones."""
        slots = np.fromiter((self._slots.get(key, -1) for key in keys), np.int64, len(keys))
        known = np.flatnonzero(slots >= 0)
        sums, ages = np.zeros((len(keys), 2)), np.zeros(len(keys))
        latest = self._at if at is None or (self._at is not None and at < self._at) else at
        if latest is not None:
            sums[known] = self._sums[slots[known]] * halved(latest / self._period - self._epoch)
            ages[known] = np.maximum(latest - self._first[slots[known]], 0.0)
        return sums, ages

    def _add(self, keys: list[Hashable], amounts: np.ndarray, at: float) -> None:
        """Add amounts (n, 2) of a time to the sums of keys, and to the totals."""
        later = at / self._period - self._epoch
        if self._at is None:
            self._epoch = math.floor(at / self._period)
        elif later > _MOST_HALF_LIVES:
            self._move_epoch(math.floor(later))
        elif (self._at - at) / self._period > _MOST_HALF_LIVES and self not in _TOLD:
            _TOLD.add(self)
            warnings.warn(
                f"{self}: a query is {(self._at - at) / self._period:.0f} half-lives older than the latest one, so its "
                "feedback counts next to nothing: give at= in seconds, and queries in the order of their times",
                stacklevel=2,
            )
        amounts = amounts * halved(self._epoch - at / self._period)
        slots = self._slots_of(keys)
        known = slots >= 0
        slots = slots[known]
        np.add.at(self._sums, slots, amounts[known])
        np.minimum.at(self._first, slots, at)
        self._totals = self._totals + amounts.sum(axis=0)
        self._at = at if self._at is None else max(at, self._at)
        self._n_queries += 1

    def _move_epoch(self, by: int) -> None:
        """Scale all sums by a power of two, which is exact."""
        self._epoch += by
        self._sums, self._totals = np.ldexp(self._sums, -by), np.ldexp(self._totals, -by)

    def _slots_of(self, keys: list[Hashable]) -> np.ndarray:
        """The numbers of keys that are used now; new ones get theirs, and -1 stands for no key, or no room."""
        new = [key for key in dict.fromkeys(keys) if key is not None and key not in self._slots]
        for key in new:
            if not is_name(key):
                raise TypeError(f"a key of {self} is {key!r:.60}; it is made of texts, numbers and tuples of them")
        known = [slot for key in keys if (slot := self._slots.get(key)) is not None]
        self._used[known] = self._n_queries + 1
        if len(self._slots) + len(new) > self.max_keys:
            self.n_left += max(0, len(new) - self.max_keys)
            new = new[: self.max_keys]
            self._let_leave(max(0, self.max_keys - self.max_keys // _LEAVE - len(new)))
        n = len(self._slots) + len(new)
        if n > len(self._used):
            n_spare = max(n, min(2 * n, self.max_keys)) - len(self._used)
            self._sums, self._first, self._used = (
                with_zeros(array, n_spare) for array in (self._sums, self._first, self._used)
            )
        made = slice(len(self._slots), n)
        self._sums[made], self._first[made], self._used[made] = 0.0, np.inf, self._n_queries + 1
        for key in new:
            self._slots[key] = len(self._slots)
        return np.fromiter((self._slots.get(key, -1) for key in keys), np.int64, len(keys))

    def _record(self, log: list[Undo], block: Any = None) -> None:
        n = len(self._slots)
        if block is None or block.y is None:
            touched = np.arange(n)
        else:
            found = {self._slots.get(key, -1) for query in block.each() for key in self._keys(query)}
            touched = np.array(sorted(found - {-1}), dtype=np.int64)
        rows = self._sums[touched], self._first[touched], self._used[touched]
        log.append(functools.partial(self._undo, vars(self).copy(), n, touched, rows))

    def _undo(self, before: dict[str, Any], n: int, touched: np.ndarray, rows: tuple[np.ndarray, ...]) -> None:
        """Restore the state with `n` keys, and these rows of the `touched` ones."""
        vars(self).update(before)
        while len(self._slots) > n:
            self._slots.popitem()
        for array, own in zip((self._sums, self._first, self._used), rows, strict=True):
            array[touched] = own

    def _mix(self, shards: Sequence[Any], base: Any) -> None:
        if not self._is_timed:
            raise ValueError(
                f"{self}: its half-life counts the queries of one machine; in time, half_life='7d', it can be mixed"
            )
        every = [step for step in (base, *shards) if step._at is not None]
        if not every:
            return
        epoch = max(step._epoch for step in every)
        sums: dict[Hashable, np.ndarray] = {}
        first: dict[Hashable, float] = {}
        used: dict[Hashable, int] = {}
        self._totals, starts = np.zeros(2), {key: base._scaled(epoch, slot) for key, slot in base._slots.items()}
        for step in every:
            own = step is not base
            scaled = np.ldexp(step._totals, step._epoch - epoch)
            self._totals += scaled - (np.ldexp(base._totals, base._epoch - epoch) if own else 0.0)
            for key, slot in step._slots.items():
                # What left a machine and came back there may be less than it was.
                more = np.maximum(step._scaled(epoch, slot) - starts.get(key, 0.0), 0.0) if own else starts[key]
                sums[key] = sums.get(key, 0.0) + more
                first[key] = min(first.get(key, np.inf), float(step._first[slot]))
                used[key] = max(used.get(key, 0), int(step._used[slot]))
        self._totals = np.maximum(self._totals, 0.0)
        self._slots = {key: slot for slot, key in enumerate(sums)}
        self._sums = np.array([*sums.values()]).reshape(-1, 2)
        self._first, self._used = np.array([*first.values()]), np.array([*used.values()], dtype=np.int64)
        self._epoch, self._at = epoch, max(step._at for step in every)
        self._n_queries += sum(shard._n_queries - base._n_queries for shard in shards)
        self.n_left += sum(shard.n_left - base.n_left for shard in shards)
        if len(self._slots) > self.max_keys:
            self._let_leave(self.max_keys)

    def _scaled(self, epoch: int, slot: int) -> np.ndarray:
        """The sums of a key for a later epoch."""
        return np.ldexp(self._sums[slot], self._epoch - epoch)

    def set_back(self, now: float) -> bool:
        """Let all times that lie ahead of `now` be that time. Returns whether there were any."""
        with self._lock:
            if not self._is_timed or self._at is None or self._at <= now:
                return False
            self._epoch -= max(0, math.floor(self._at / self._period) - math.floor(now / self._period))
            self._first, self._at = np.minimum(self._first, now), now
            return True
