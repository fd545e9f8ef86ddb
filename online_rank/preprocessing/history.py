"""Features of earlier feedback: how often a key was shown, how users engaged with it, and for how long it has been there."""

import json
import math
import warnings
import weakref
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank.base.anatomy import Abilities
from online_rank.base.names import numbers
from online_rank.base.schema import Derived, Schema
from online_rank.base.transformer import require_feedback
from online_rank.feedback.arrays import shown_block
from online_rank.preprocessing._key_table import KeyTable
from online_rank.preprocessing._keys import DOCUMENT, values_under
from online_rank.query import Block, SparseRows, require_finite, with_features
from online_rank.query.blocks import AT as AT

#: Under which the places of its documents wait with a query.
PLACES = "places"

# Those that have learned a query, and have told if it had no key.
_TOLD: "weakref.WeakSet[History]" = weakref.WeakSet()


class History(KeyTable):
    r"""Give each document what was learned from earlier feedback on its key: impressions, a rate of engagement, and an age.

    The key is the id of the document (`by="document"`), a feature of it, such as a brand, an entry of the query's context, such
    as the user, or a tuple of these. With the impressions i of key k so far, shown at time :math:`t_i` at a place that is
    examined with probability :math:`\theta_i`, with engagement :math:`g_i` and weight :math:`w_i`, it adds three features to
    the document:

    .. math:: n_k(t) = \sum_i w_i \theta_i 2^{-(t - t_i) / H}, \qquad
        r_k(t) = \frac{\sum_i w_i g_i 2^{-(t - t_i) / H} + a R}{n_k(t) + a}, \qquad t - \min_i t_i,

    named after the key and the half-life H: `"brand 7d impressions"`, `"brand 7d rate"` and `"brand 7d age"`. R is the overall
    rate, the same quotient of sums over all impressions, without a. So a new key has the overall rate, and a impressions count
    as much as it. With clicks (`Clicks`) only the documents that were shown count, and the engagement is the gain; a click at a
    place that is rarely examined then counts for more. With grades all documents of a query count, and the engagement is the
    grade; their places follow the served scores; if these are unknown, all count as examined.

    **A query is transformed first, then its feedback is counted**, so no document sees its own. The ranker behind it learns the
    same values that it would have ranked with. In a service, which learns later, the values that ranked a query wait with it.
    In Python, keep what `transform_one` gives, and teach the two steps one after the other: `ranker.learn_one(kept, y)`,
    `history.learn_one(x, y, at=t)`.

    **Memory is bounded**: at most `max_keys` keys are kept. Without room for new ones, the sixteenth that no learned query had
    for longest leaves. The first time raises a warning, and `n_left` counts all keys that left.

    **Late feedback** counts with the time of its query. A query more than 32 half-lives older than the latest one counts next
    to nothing, which raises a warning the first time.

    Engines cannot compute these features, so exports refuse them: send the values as fields of the documents, and export the
    ranker behind it. `mix` adds up what several machines have counted.

    Parameters
    ----------
    by
        `"document"`, the name of a feature or of an entry of the context, or a tuple of such names. Features may be texts,
        numbers and booleans; what is missing has no key, and gets the values of a new one.
    half_life
        H: a text in time, `"7d"`, where `learn_one` needs `at=`, the time of each query in seconds; or a number of queries,
        which then are the unit of ages, too.
    examination
        theta: the probability that a place is examined, from the first on; lower places have the last one, which may be 0.
        None counts each impression as 1.
    prior
        a: how many impressions the overall rate counts.
    max_keys
        Most keys.

    Attributes
    ----------
    n_keys, n_left : int
        Number of keys, and how many keys have left so far.

    Raises
    ------
    TypeError, ValueError
        A parameter is of the wrong type, or out of its range. Later: documents have no ids where those are keys; a name is both
        a feature and in the context; a value is neither text nor number; a feature is called as one of the three; a query has
        no time.

    References
    ----------
    Cormode, Shkapenyuk, Srivastava & Xu, *Forward Decay*, 2009, for sums that decay without being touched; Zhang & Jones,
    *Comparing Click Logs and Editorial Labels for Training Query Rewriting*, 2007, for clicks over expected clicks.

    Examples
    --------
    >>> from online_rank import AdditiveRanker, History
    >>> model = History("brand", half_life=1000) | AdditiveRanker()
    >>> query = {"a": {"brand": "acme"}, "b": {"brand": "best"}}
    >>> for _ in range(3):
    ...     model.learn_one(query, {"a": 0, "b": 1})
    >>> {name: round(value, 3) for name, value in model["History"].transform_one({"c": {"brand": "best"}})["c"].items()
    ...  if name != "brand"}
    {'brand 1000 impressions': 2.996, 'brand 1000 rate': 0.565, 'brand 1000 age': 3.0}
    """

    _supervised = True

    _schema = Schema(_names=Derived(), _adds=Derived(), _label=Derived(), _period=Derived(), _theta=Derived())

    def __init__(
        self,
        by: str | tuple[str, ...] = DOCUMENT,
        *,
        half_life: float | str = "7d",
        examination: Sequence[float] | None = None,
        prior: float = 20.0,
        max_keys: int = 100_000,
    ) -> None:
        super().__init__()
        names = (by,) if isinstance(by, str) else by
        arguments.names("by", names, "names")
        # A list could change after keys were made of it.
        self._names = tuple(names)
        if isinstance(half_life, str):
            self._period = arguments.seconds_of(half_life, "half_life")
        else:
            arguments.number("half_life", half_life, 1.0)
            self._period = float(half_life)
        if self._period < 1.0:
            raise ValueError(f"half_life is {half_life!r}; it is at least a second, or a query")
        theta = np.ones(1) if examination is None else np.array(examination)
        if theta.ndim != 1 or not theta.size or theta.dtype.kind not in "iuf" or not ((theta >= 0.0) & (theta <= 1.0)).all():
            raise ValueError(f"examination is {examination!r:.60}; it is one probability for each place")
        arguments.number("prior", prior, above=0.0)
        arguments.integer("max_keys", max_keys, 1)
        self.by = by if isinstance(by, str) else self._names
        self.half_life = half_life
        self.examination = examination
        self.prior = prior
        self.max_keys = max_keys
        self._theta = theta.astype(np.float64)
        self._adds = tuple(f"{'+'.join(self._names)} {half_life} {what}" for what in ("impressions", "rate", "age"))
        #: Under which its values wait with a query.
        self._label = json.dumps([self.by, half_life, None if examination is None else [*examination], prior])

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the three features."""
        return self._adds

    def _abilities(self) -> Abilities:
        return Abilities(
            takes_documents=True, passes_documents=True, takes_missing=True, takes_sparse=True, takes_clicks=True,
            takes_context=True, takes_time=self._is_timed, remembers=True,
        )  # fmt: skip

    def _given(self, n_features: int) -> int:
        return n_features + len(self._adds)

    # The features themselves, which it passes on.
    _rises = True

    def _layers(self, n_features: int) -> Any:
        raise TypeError("its features change with each feedback")

    def _transform_block(self, block: Block) -> Block:
        made = [self._values(query, self._keys(query)) for query in block.each()]
        return self._beside(block, made)

    def _learn_block(self, block: Block) -> Block:
        require_feedback(self, block)
        made = []
        for query in block.each():
            keys = self._keys(query)
            made.append(self._values(query, keys))
            self._count(query, keys)
        return self._beside(block, made)

    def _keys(self, query: Block) -> list[Hashable]:
        """The key of each document; None where a part of it is missing."""
        parts = [values_under(query, name) for name in self._names]
        return parts[0] if len(parts) == 1 else [None if None in key else key for key in zip(*parts, strict=True)]

    def _time(self, query: Block) -> float | None:
        """The time of a query; None if it has none."""
        if not self._is_timed:
            return float(self._n_queries)
        if query.remembered is not None and AT in query.remembered:
            return query.remembered[AT][0]
        return None if query.at is None else float(query.at[0])

    def _values(self, query: Block, keys: list[Hashable]) -> np.ndarray:
        """The features (m, 3) of the documents of one query: those that wait with it, or those by what is known now."""
        waiting = query.remembered
        if waiting is not None and self._label in waiting:
            return _checked(waiting[self._label], len(keys))
        sums, ages = self._found(keys, self._time(query))
        impressions, engaged = sums.T
        overall = self._totals[1] / self._totals[0] if self._totals[0] > 0.0 else 0.0
        rates = (engaged + self.prior * overall) / (impressions + self.prior)
        values = np.stack([impressions, rates, ages], axis=1)
        if waiting is not None:
            waiting[self._label] = values.ravel().tolist()
        return values

    def _count(self, query: Block, keys: list[Hashable]) -> None:
        """Count the feedback on one query."""
        at, w = self._time(query), float(query.w[0])
        if at is None:
            raise ValueError(f"half_life is {self.half_life!r}, a time: learn_one and learn_many need at=, the query's time")
        if not 0.0 <= w < math.inf:
            raise ValueError(f"w is {w}; the weight of a query is a finite number >= 0")
        self._tell_no_key(keys)
        rows, weights, gains = self._shown(query)
        if w > 0.0:
            counted = (weights > 0.0) | (gains > 0.0)
            with np.errstate(over="ignore"):
                amounts = w * np.stack([weights[counted], gains[counted]], axis=1)
            if not np.isfinite(amounts).all():
                raise ValueError(f"w is {w}: its product with the largest gain, {gains.max()}, is infinite")
            self._add([keys[i] for i in rows[counted].tolist()], amounts, at)

    def _shown(self, query: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The documents of one query that count, by their numbers, how far each was examined, and the engagement with it."""
        if isinstance(query.y, tuple):
            shown = shown_block(query, drawn=False)
            n = len(shown.rows) - int(shown.held[0])
            rows, places, gains = shown.rows[:n], shown.places[:n], shown.gains[:n]
        else:
            gains, rows = query.y.astype(np.float64), np.arange(len(query.y))
            if query.remembered is not None and PLACES in query.remembered:
                places = np.array(query.remembered[PLACES], dtype=np.int64)
            elif query.served is not None:
                places = np.argsort(np.argsort(-query.served, kind="stable"), kind="stable")
            else:
                return rows, np.ones(len(rows)), gains
        return rows, self._theta[np.minimum(places, len(self._theta) - 1)], gains

    def _tell_no_key(self, keys: list[Hashable]) -> None:
        """Warn if the first query to learn has no key."""
        if self not in _TOLD:
            _TOLD.add(self)
            if keys and not any(key is not None for key in keys):
                warnings.warn(
                    f"{self}: no document of the first query to learn has a key: give {' and '.join(map(repr, self._names))} "
                    "as a feature of each document, or in the context",
                    stacklevel=2,
                )

    def _beside(self, block: Block, made: list[np.ndarray]) -> Block:
        """The documents with these values (m, 3) of each query."""
        values = made[0] if len(made) == 1 else np.concatenate([np.zeros((0, len(self._adds))), *made])
        X, names = block.X, block.names
        if _is_infinite(X):
            require_finite(block)
        if isinstance(X, list):
            rows = (dict(zip(self._adds, row, strict=True)) for row in values.tolist())
            documents = [x | row for x, row in zip(X, rows, strict=True)]
            if sum(map(len, documents)) < sum(map(len, X)) + values.size:
                raise self._taken_name()
            return block._replace(X=documents)
        names = numbers(X.shape[1]) if names is None else names
        if not {*self._adds}.isdisjoint(names):
            raise self._taken_name()
        if isinstance(X, SparseRows):
            n, d = X.shape
            ends = np.repeat(X.starts[1:], len(self._adds))
            columns = np.insert(X.columns, ends, np.tile(np.arange(d, d + len(self._adds), dtype=np.int32), n))
            starts = X.starts + len(self._adds) * np.arange(n + 1)
            X = SparseRows(starts, columns, np.insert(X.values, ends, values.ravel()), d + len(self._adds))
        else:
            X = np.concatenate([X, values.astype(X.dtype)], axis=1)
        return with_features(block, X, (*names, *self._adds))

    def _taken_name(self) -> ValueError:
        shown = ", ".join(map(repr, self._adds))
        return ValueError(f"x has a feature that is called as one that {self} adds: {shown}")

    def __str__(self) -> str:
        return f"History({self.by!r}, half_life={self.half_life!r})"


def _checked(values: list[float], m: int) -> np.ndarray:
    """The features (m, 3) that wait with a query of m documents."""
    found = np.array(values, dtype=np.float64)
    if found.shape != (3 * m,) or not np.isfinite(found).all():
        raise ValueError(f"what waits with the query is {len(values)} numbers; {m} documents have {3 * m} finite ones")
    return found.reshape(m, 3)


def _is_infinite(X: Any) -> bool:
    """Whether a feature is infinite; NaN is a missing one."""
    if isinstance(X, list):
        return any(infinity in values for values in map(dict.values, X) for infinity in (math.inf, -math.inf))
    return bool(np.isinf(X.values if isinstance(X, SparseRows) else X).any())
