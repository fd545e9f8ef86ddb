"""What users like, as vectors: a decayed sum of the vectors of documents that they engaged with."""

import functools
import json
import warnings
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank.base.anatomy import Abilities
from online_rank.base.growth import with_zeros
from online_rank.base.halving import halved
from online_rank.base.schema import Array, Count, Derived, DictOf, Integer, Plain, Schema
from online_rank.base.transformer import require_feedback
from online_rank.base.undo import Undo
from online_rank.feedback.arrays import shown_block
from online_rank.preprocessing._keyed import KeyedStep
from online_rank.preprocessing.bilinear import inverse_lengths
from online_rank.preprocessing.vector_columns import usual_length
from online_rank.query import Block
from online_rank.query.blocks import OF_QUERY
from online_rank.query.embeddings import LENIENT, stacked, without_vectors

__all__ = ["Tastes"]

#: Without room for new keys, one in this many keys leaves at once.
_LEAVE = 16


class Tastes(KeyedStep):
    r"""Give each query the taste of its user: the direction of the vectors of documents that the user engaged with.

    The user is an entry of the query's context, `by`. After a query of user u with gains g_i of documents with the vectors d_i
    of length 1, by clicks (`Clicks`) or grades,

    .. math:: S_u \leftarrow 2^{-1 / H} S_u + \sum_i g_i d_i.

    Before it, a query of u gets :math:`S_u` as the vector of its context that is called as the vector of documents, unless it
    has one. `AdditiveRanker` behind it then learns how tastes and documents match (`VectorRanker`). A new user has no vector.
    In a service, which learns later, the taste that ranked a query waits with it.

    **Memory is bounded**: at most `max_keys` users are kept, with k float32 numbers each: 10,000 users and 768 dimensions take
    31 MB. Without room for a new one, the sixteenth that no learned query had for longest leaves, which warns the first time.

    Parameters
    ----------
    by
        The entry of the context that says who asks.
    vector
        The name of the vectors of documents.
    half_life
        H, in queries of that user with engagement.
    max_keys
        Most users.

    Attributes
    ----------
    n_keys, n_left : int
        Number of users, and how many have left so far.

    Raises
    ------
    TypeError, ValueError
        A parameter is of the wrong type, or out of its range. Later: vectors of documents differ in length.

    Examples
    --------
    >>> from online_rank import AdditiveRanker, Tastes
    >>> model = Tastes("user") | AdditiveRanker()
    >>> query = {"a": {"embedding": [1.0, 0.0]}, "b": {"embedding": [0.0, 1.0]}}
    >>> model.learn_one(query, {"a": 1, "b": 0}, context={"user": "u17"})
    >>> model["Tastes"].taste("u17")
    array([1., 0.], dtype=float32)
    """

    _supervised = True
    _called = "users"

    _schema = Schema(
        n_left=Count(),
        _n_queries=Count(),
        _n_own=Count(),
        _n_others=Count(),
        _slots=DictOf(Plain(), Integer(0)),
        _sums=Array("n_keys", None, dtype="float32", spare=True),
        _used=Array("n_keys", dtype="int64", low=0, spare=True),
        _names=Derived(),
        _keep=Derived(),
        _label=Derived(),
    )

    def __init__(self, by: str = "user", *, vector: str = "embedding", half_life: float = 50.0, max_keys: int = 10_000) -> None:
        super().__init__()
        for name, value in (("by", by), ("vector", vector)):
            if not isinstance(value, str):
                raise TypeError(f"{name} is {value!r:.80}; it is a name")
        arguments.number("half_life", half_life, 1.0)
        arguments.integer("max_keys", max_keys, 1)
        self.by = by
        self.vector = vector
        self.half_life = half_life
        self.max_keys = max_keys
        self._names = (by,)
        self._keep = halved(1.0 / half_life)
        self._slots = {}
        self._sums = np.zeros((0, 0), dtype=np.float32)
        self._used = np.zeros(0, dtype=np.int64)
        self._n_queries = self.n_left = 0
        #: How many queries had vectors of the length in use, and of another one, where that is a missing value.
        self._n_own = self._n_others = 0
        #: Under which a taste waits with a query.
        self._label = OF_QUERY + json.dumps([by, vector, half_life])

    @classmethod
    def _of_earlier(cls, state: dict[str, Any]) -> dict[str, Any]:
        return {"_n_own": 0, "_n_others": 0, **state}

    def taste(self, user: Hashable) -> np.ndarray | None:
        """S_u, float32 (k,), a copy; None for a user without engagement."""
        with self._lock:
            slot = self._slots.get(user)
            return None if slot is None else self._sums[slot].copy()

    def _abilities(self) -> Abilities:
        return Abilities(
            takes_documents=True, passes_documents=True, takes_missing=True, takes_sparse=True, takes_clicks=True,
            takes_context=True, remembers=True,
        )  # fmt: skip

    _rises = True

    def _layers(self, n_features: int) -> Any:
        raise TypeError("it changes the context of queries with each feedback")

    def _record(self, log: list[Undo], block: Any = None) -> None:
        names = ("_slots", "_used", "_n_queries", "_n_own", "_n_others", "n_left", "_sums")
        log.append(functools.partial(vars(self).update, {name: getattr(self, name) for name in names}))
        self._slots, self._used = dict(self._slots), self._used.copy()
        # Only the rows of users of the block change in place; rows beyond the number of users are nobody's.
        users = [] if block is None else [self._user(context) for context in block.context or ()]
        rows = [slot for user in users if (slot := self._slots.get(user)) is not None]
        rows = [*range(len(self._slots))] if block is None else rows
        sums, before = self._sums, self._sums[rows].copy()
        log.append(lambda: sums.__setitem__(rows, before))

    def _transform_block(self, block: Block) -> Block:
        if block.context is None:
            return block
        return block._replace(context=tuple(map(self._with_taste, block.each())))

    def _user(self, context: Any) -> Hashable:
        """Who asks; None if nobody knows."""
        user = context.get(self.by)
        return None if type(user) is np.ndarray else user

    def _with_taste(self, query: Block) -> dict[str, Any]:
        """The context of a query with the taste that waits with it, or else the taste so far."""
        context = dict(query.context[0]) if query.context else {}
        if self.vector in context:
            return context
        waiting = query.remembered
        if waiting is not None and self._label in waiting:
            taste = np.array(waiting[self._label], dtype=np.float32)
        else:
            slot = self._slots.get(self._user(context))
            taste = np.zeros(0, dtype=np.float32) if slot is None else self._sums[slot].copy()
            if waiting is not None:
                waiting[self._label] = taste.tolist()
        return {**context, self.vector: taste} if len(taste) else context

    def _learn_block(self, block: Block) -> Block:
        require_feedback(self, block)
        contexts = []
        for query in block.each():
            contexts.append(self._with_taste(query))
            self._count(query, self._user(query.context[0] if query.context else {}))
        return block if block.context is None else block._replace(context=tuple(contexts))

    def _count(self, query: Block, user: Hashable) -> None:
        """Count the feedback on one query."""
        self._n_queries += 1
        if user is None or type(query.X) is not list:
            return
        found = without_vectors(query.X, (self.vector,))[1].get(self.vector)
        if found is None:
            return
        lenient, k = LENIENT.get(), self._sums.shape[1] or None
        if lenient and k is not None:
            k = self._length(found[1], k)
        D, rows, _ = stacked(self.vector, *found, query.ids, k, lenient)
        gains = self._gains(query)[rows]
        if not (gains > 0.0).any():
            return
        added = ((gains * inverse_lengths(D))[:, None] * D).sum(axis=0)
        slot = self._slot_of(user, D.shape[1])
        # A row changes in place: whoever undoes it has kept the row before (`_record`).
        self._sums[slot] = self._keep * self._sums[slot] + added
        self._used[slot] = self._n_queries

    def _length(self, values: list[Any], k: int) -> int:
        """The length of the vectors that count: tastes begin again once more queries have vectors of another length than k."""
        given = usual_length(values)
        self._n_own += given == k
        self._n_others += given != k
        if self._n_others <= self._n_own:
            return k
        warnings.warn(f"{self}: tastes have {k} dimensions, and most queries {given}: they begin again", stacklevel=2)
        self._slots, self._used, self._sums = {}, np.zeros(0, dtype=np.int64), np.zeros((0, 0), dtype=np.float32)
        self._n_own, self._n_others = 1, 0
        return given

    def _gains(self, query: Block) -> np.ndarray:
        """The gain of each document times the weight of the query, float64 (m,)."""
        w, gains = float(query.w[0]), np.zeros(query.n_documents)
        if isinstance(query.y, tuple):
            shown = shown_block(query, drawn=False)
            n = len(shown.rows) - int(shown.held[0])
            gains[shown.rows[:n]] = shown.gains[:n]
        else:
            gains[:] = query.y
        return w * gains

    def _make_room(self) -> None:
        """Let the users leave that no query had for longest."""
        self._let_leave(max(0, self.max_keys - max(1, self.max_keys // _LEAVE)))

    def _slot_of(self, user: Hashable, k: int) -> int:
        """The row of a user; a new one gets one."""
        if (slot := self._slots.get(user)) is not None:
            return slot
        if len(self._slots) >= self.max_keys:
            self._make_room()
        slot = self._slots[user] = len(self._slots)
        if slot >= len(self._sums):
            more = max(slot // 2, 16)
            sums = np.zeros((len(self._sums) + more, k), dtype=np.float32)
            if len(self._sums):
                sums[: len(self._sums)] = self._sums
            self._sums, self._used = sums, with_zeros(self._used, more)
        else:
            self._sums[slot] = 0.0
        return slot

    def _mix(self, shards: Sequence[Any], base: Any) -> None:
        """A taste is the mean over the machines that learned from the user; of several lengths of vectors the most frequent."""
        self._n_queries += sum(shard._n_queries - base._n_queries for shard in shards)
        self.n_left += sum(shard.n_left - base.n_left for shard in shards)
        lengths = Counter(shard._sums.shape[1] for shard in shards if shard._slots)
        k = lengths.most_common(1)[0][0] if lengths else base._sums.shape[1]
        rows: dict[Hashable, list[np.ndarray]] = {}
        used: dict[Hashable, int] = {}
        shards = [shard for shard in shards if shard._sums.shape[1] == k]
        continues = base._sums.shape[1] == k
        if continues:
            rows, used = {user: [] for user in base._slots}, {user: int(base._used[slot]) for user, slot in base._slots.items()}
        for shard in shards:
            for user, slot in shard._slots.items():
                if shard._used[slot] > base._n_queries:
                    rows.setdefault(user, []).append(shard._sums[slot])
                    used[user] = max(used.get(user, 0), int(shard._used[slot]))
        # Users that no machine learned from keep the taste of the base.
        means = [np.mean(own, axis=0) if own else base._sums[base._slots[user]] for user, own in rows.items()]
        self._slots = {user: slot for slot, user in enumerate(rows)}
        self._sums = np.array(means, dtype=np.float32).reshape(len(rows), k)
        self._used = np.array([*used.values()], dtype=np.int64)
        for name in ("_n_own", "_n_others"):
            began = getattr(base, name) if continues else 0
            setattr(self, name, max(0, began + sum(getattr(shard, name) - began for shard in shards)))
        if len(self._slots) > self.max_keys:
            self._make_room()

    def __str__(self) -> str:
        return f"Tastes({self.by!r}, vector={self.vector!r})"
