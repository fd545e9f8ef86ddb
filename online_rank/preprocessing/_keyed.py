"""Steps that keep something of each key: of `max_keys` keys at most, which leave or are forgotten."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from online_rank.base.forgetting import parts_of
from online_rank.base.leaving import last_used, warn_of_leaving
from online_rank.base.transformer import QueryTransformer


class KeyedStep(QueryTransformer):
    """A step with keys, each of which is a value, or a tuple of the values of several names."""

    #: What keys are called in a warning, and the arrays with a row for each.
    _called = "keys"
    _by_key: tuple[str, ...] = ("_sums", "_used")

    #: The names of which a key is made, and the most keys.
    _names: tuple[str, ...]
    max_keys: int
    #: The number of each key, in the order in which they came, and how many have left.
    _slots: dict[Hashable, int]
    n_left: int
    #: For each key, by how many queries the last one with it was learned.
    _used: np.ndarray

    @property
    def names(self) -> tuple[str, ...]:
        """The names of which a key is made."""
        return self._names

    @property
    def n_keys(self) -> int:
        """Number of keys."""
        return len(self._slots)

    def _check_state(self) -> None:
        if [*self._slots.values()] != [*range(len(self._slots))] or len(self._slots) > self.max_keys:
            raise ValueError("_slots: keys are numbered from 0 in their order, and are at most max_keys")

    def _let_leave(self, n_kept: int) -> None:
        """Keep the keys that were used last."""
        n = len(self._slots)
        if not self.n_left:
            warn_of_leaving(str(self), self._called, self.max_keys, "max_keys", "n_left")
        self._keep_only(last_used(self._used[:n], n_kept))
        self.n_left += n - n_kept

    def _keep_only(self, kept: np.ndarray) -> None:
        """Keep some keys, given by their numbers in ascending order; the state is replaced, so that it can come back."""
        names = [*self._slots]
        self._slots = {names[slot]: i for i, slot in enumerate(kept.tolist())}
        for array in self._by_key:
            setattr(self, array, getattr(self, array)[kept])

    def forget(self, name: str, value: Hashable) -> int:
        """Forget the keys that have a value under one of the names, as a text or as it is. Returns how many there were.

        Examples
        --------
        >>> from online_rank import History
        >>> step = History(("user", "brand"), half_life=1000)
        >>> step.learn_one([{"brand": "acme"}], [1], context={"user": "u17"})
        >>> step.forget("user", "u17"), step.n_keys
        (1, 0)
        """
        with self._lock:
            places = [i for i, own in enumerate(self._names) if own == name]
            keys = ((slot, key if len(self._names) > 1 else (key,)) for key, slot in self._slots.items())
            kept = [slot for slot, key in keys if not any(_is_value(key[i], value) for i in places)]  # type: ignore[index]
            n_gone = len(self._slots) - len(kept)
            if n_gone:
                self._keep_only(np.array(kept, dtype=np.int64))
            return n_gone


def keyed_steps(model: Any) -> list[KeyedStep]:
    """All steps with keys in a model."""
    return [*parts_of(model, KeyedStep)]  # type: ignore[type-abstract]


def _is_value(part: Any, value: Hashable) -> bool:
    """Whether a part of a key is a value, which may be given as a text."""
    return part == value or (type(part) in (str, int, bool) and str(part) == value)
