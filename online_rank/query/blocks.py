"""The form in which queries travel through the library."""

import functools
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank.arguments import LATEST
from online_rank.limits import LEAST_WEIGHT
from online_rank.query.context import Context
from online_rank.query.sparse import SparseRows
from online_rank.query.times import PER_SECOND, RELATIVE, WANTED, decided_unit, require_one_unit, seconds_of_time

#: The weights of a block of one query of weight 1.
ONE = np.ones(1)
#: Under which the time of a query waits with it (`Block.remembered`), and how names of other values of the query itself begin.
AT, OF_QUERY = "at", "of the query: "


class Block(NamedTuple):
    """Queries stacked one below the other, with their grades, names and weights.

    Attributes
    ----------
    X
        Features of the n documents of all queries: an (n, d) float32 or float64 array, C-contiguous, or `SparseRows`. For
        pipeline steps that take text and categories: the n feature dicts, unchanged.
    y
        Feedback: int64 grades (n,), a tuple with one `Feedback` (such as clicks) for each query, or None for queries to rank.
    offsets
        int64 (q + 1,): query t holds the documents `offsets[t]:offsets[t + 1]`.
    w
        float64 (q,): the weight of each query.
    ids
        The n document ids; None when documents are known by their position. A `range` holds numbers used only in messages.
    names
        The d feature names; None when features are known by their position.
    served
        float64 (n,): the scores that the documents were served with, whose mistakes to learn from; None for the ranker's
        current scores.
    form
        The form of the user's documents: None for an array or rows, `dict` for feature dicts, otherwise the module of the
        frames.
    answered
        float64 (n,): the scores of `predict_one` before any step of the pipeline learned the query, if the ranker measures
        served scores (`Abilities.measures_answers`).
    scale
        float64 (d,): the divisors that the pipeline's scalers applied to the features of one query, if the ranker wants them
        (`Abilities.wants_scale`).
    context
        The context of each query, a tuple with one dict for each; None without contexts.
    at
        float64 (q,): the time of each query, in seconds; None where they have none.
    remembered
        What steps that learn from feedback (`History`, `Tastes`) made of one query when it was ranked, by their names, so that
        it is learned with the same values; those that are not there are added. None where nothing has to wait.
    """

    X: Any
    y: Any
    offsets: np.ndarray
    w: np.ndarray
    ids: Sequence[Hashable] | None = None
    names: tuple[Hashable, ...] | None = None
    served: np.ndarray | None = None
    form: Any = None
    answered: np.ndarray | None = None
    scale: np.ndarray | None = None
    context: tuple[Context, ...] | None = None
    at: np.ndarray | None = None
    remembered: dict[str, list[float]] | None = None

    @property
    def n_documents(self) -> int:
        """n, the number of documents of all queries."""
        return int(self.offsets[-1])

    def queries(self, first: int, stop: int) -> "Block":
        """The queries `first:stop`. Messages still number documents without ids by their position in the whole block."""
        a, b = int(self.offsets[first]), int(self.offsets[stop])
        X, y, served, answered = self.X, self.y, self.served, self.answered
        fields = (
            X.rows(a, b) if isinstance(X, SparseRows) else X[a:b],
            None if y is None else y[first:stop] if isinstance(y, tuple) else y[a:b],
            self.offsets[first : stop + 1] - a,
            self.w[first:stop],
            range(a, b) if self.ids is None else self.ids[a:b],
            self.names,
            None if served is None else served[a:b],
            self.form,
            None if answered is None else answered[a:b],
            self.scale,
            None if self.context is None else self.context[first:stop],
            None if self.at is None else self.at[first:stop],
            None,
        )
        return _new(Block, fields)

    def remembered_of(self, rows: Sequence[int]) -> dict[str, list[float]]:
        """What waits with some documents of one query, and with the query itself.

        Examples
        --------
        >>> waiting = {"at": [7.0], "brand rate": [0.1, 0.2, 0.3], "of the query: taste": [1.0, 0.0]}
        >>> Block(np.zeros((3, 1)), None, single(3), ONE, remembered=waiting).remembered_of([2])
        {'at': [7.0], 'brand rate': [0.3], 'of the query: taste': [1.0, 0.0]}
        """
        return {
            name: own
            if name == AT or name.startswith(OF_QUERY)
            else np.reshape(own, (self.n_documents, -1))[rows].ravel().tolist()
            for name, own in (self.remembered or {}).items()
        }

    def each(self) -> Iterator["Block"]:
        """Each query as a block of one query."""
        if len(self.w) == 1:
            yield self
            return
        for t in range(len(self.w)):
            yield self.queries(t, t + 1)


@functools.lru_cache(maxsize=1024)
def single(n_documents: int) -> np.ndarray:
    """Offsets of a block of one query; shared, so never written to."""
    return np.array([0, n_documents])


_new = tuple.__new__


def plain_block(x: np.ndarray, y: np.ndarray | None, m: int) -> Block:
    """A query of m documents and weight 1 that needs no conversion (`plain_query`). `Block(...)` takes three times as long."""
    return _new(Block, (x, y, single(m), ONE, None, None, None, None, None, None, None, None, None))


def with_features(block: Block, X: Any, names: tuple[Hashable, ...] | None) -> Block:
    """The same queries with other features. `Block._replace` takes ten times as long."""
    return _new(Block, (X, *block[1:5], names, *block[6:]))


def with_feedback(block: Block, y: Any, w: np.ndarray = ONE, served: np.ndarray | None = None) -> Block:
    """The same queries with feedback, weights, and the scores that they were served with; a query has weight 1."""
    X, _, offsets, _, ids, names, _, *others = block
    return _new(Block, (X, y, offsets, w, ids, names, served, *others))


def as_weights(w: Any, n_queries: int) -> np.ndarray:
    """The weights of queries as float64 (n_queries,); all 1 for None.

    Raises TypeError or ValueError if `w` is neither None nor one number for each query, or one is too small. Learning checks
    that weights are finite and >= 0.
    """
    if w is None:
        return np.ones(n_queries)
    weights = _of_queries("w", as_array("w", w), n_queries, "biuf", "weights of queries are numbers: one weight")
    require_no_tiny("w", weights)
    return weights


def require_no_tiny(name: str, weights: np.ndarray) -> None:
    """Raise ValueError for a weight, or a gain, that is above 0 and below `LEAST_WEIGHT`."""
    tiny = (weights > 0.0) & (weights < LEAST_WEIGHT)
    if tiny.any():
        raise ValueError(f"{name} has {weights[tiny.argmax()]:g}; it is 0 or at least {LEAST_WEIGHT:g}: take larger units")


def as_times(at: Any, n_queries: int) -> np.ndarray:
    """Times of queries as float64 (n_queries,), in seconds: numbers of one unit, dates, or texts in ISO 8601 (`times`).

    Raises TypeError or ValueError if `at` is not one time for each query, or numbers are of several units.

    Examples
    --------
    >>> import datetime as dt
    >>> as_times(dt.datetime(1970, 1, 1, 1), 1), as_times([1_763_000_000_000, 1_763_000_000_500], 2)
    (array([3600.]), array([1.763e+09, 1.763e+09]))
    """
    if hasattr(at, "to_pylist"):
        at = at.to_pylist()
    elif hasattr(at, "to_numpy") and np.ndim(at) == 1:
        at = at.to_numpy()
    given = as_array("at", at) if isinstance(at, np.ndarray | list | tuple) else np.empty(1, dtype=object)
    n = given.size
    if given.ndim > 1 or n != n_queries:
        raise ValueError(f"at has shape {given.shape}, but there are {n_queries} queries: one time a query")
    if n > 1 and given.dtype.kind in "iuf":
        return _seconds_of_column(given.astype(np.float64))
    each = list(at) if isinstance(at, np.ndarray | list | tuple) and given.ndim else [at]
    return np.array([seconds_of_time("at", one) for one in each], dtype=np.float64)


def _seconds_of_column(values: np.ndarray) -> np.ndarray:
    """Seconds of the times of several queries, in the one unit that they have. Raises ValueError."""
    unit = decided_unit(values)
    for i, what in require_one_unit(values, unit):
        raise ValueError(f"at: query {i}: {what}")
    beyond = ~np.isfinite(values) if unit != RELATIVE else ~(np.abs(values) < LATEST)
    if beyond.any():
        raise ValueError(f"at: query {beyond.argmax()}: {values[beyond.argmax()]:.17g} is no time: times are {WANTED}")
    return values / PER_SECOND.get(unit, 1.0)


def _of_queries(name: str, values: np.ndarray, n_queries: int, kinds: str, wanted: str) -> np.ndarray:
    """The values of an argument as float64, one a query; `kinds` are kinds of dtypes."""
    if values.dtype.kind not in kinds:
        raise TypeError(f"{name} has dtype {values.dtype}; {wanted} a query")
    if values.shape != (n_queries,):
        raise ValueError(f"{name} has shape {values.shape}, but there are {n_queries} queries; {wanted} a query")
    return values.astype(np.float64, copy=False)


def as_array(name: str, value: Any) -> np.ndarray:
    """`np.asarray`, except that masked arrays are refused: their masked values would be used. Raises TypeError."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; fill in or leave out what is missing first, as by {name}.filled(0)")
    # A view, whose shape and type stay as they are: another thread may reshape the caller's array.
    return np.asarray(value)[...]


def document_name(i: int, ids: Sequence[Hashable] | None) -> str:
    """The name of the i-th document in messages: its id, or its number.

    Examples
    --------
    >>> document_name(1, None), document_name(1, ("a", "b"))
    ('document 1', "document 'b'")
    """
    return f"document {i if ids is None else repr(ids[i])}"


def require_finite(block: Block) -> None:
    """Raise ValueError that names the first document and feature of `block` that is NaN or infinite."""
    X = block.X
    if isinstance(X, SparseRows):
        bad = np.flatnonzero(~np.isfinite(X.values))
        if not len(bad):
            return
        i, j, value = int(np.searchsorted(X.starts, bad[0], side="right")) - 1, int(X.columns[bad[0]]), X.values[bad[0]]
    elif isinstance(X, np.ndarray):
        if np.isfinite(X).all():
            return
        i, j = (int(k) for k in np.argwhere(~np.isfinite(X))[0])
        value = X[i, j]
    else:
        _require_finite_documents(X, block.ids)
        return
    feature = repr(block.names[j]) if block.names is not None else str(j)
    raise ValueError(f"x: feature {feature} of {document_name(i, block.ids)} is {value}; features must be finite")


def _require_finite_documents(documents: Sequence[Mapping[Hashable, Any]], ids: Sequence[Hashable] | None) -> None:
    for i, x in enumerate(documents):
        for name, value in x.items():
            if isinstance(value, float) and not np.isfinite(value):
                raise ValueError(f"x: feature {name!r} of {document_name(i, ids)} is {value}; features must be finite")


def _require_ids(qid: Any, ids: np.ndarray) -> None:
    """Raise ValueError if a document has no query id, or ids are of text and of other types."""
    given = qid if isinstance(qid, list | tuple) else ids.tolist()
    missing = (i for i, one in enumerate(given) if one is None or type(one).__name__ in ("NAType", "NaTType") or one != one)
    if (absent := next(missing, None)) is not None:
        raise ValueError(f"qid: document {absent} has no query id ({given[absent]!r})")
    if ids.dtype.kind not in "OUS":
        return
    is_text = [isinstance(one, str | bytes) for one in given]
    if any(is_text) and not all(is_text):
        one, other = given[is_text.index(True)], given[is_text.index(False)]
        raise ValueError(f"qid has {one!r}, which is text, and {other!r}, which is not; use ids of one type")


def query_offsets(qid: Any, n_documents: int) -> np.ndarray:
    """Where the queries of a block begin and end.

    Parameters
    ----------
    qid
        A sequence of one query id for each document; the documents of a query must be contiguous.
    n_documents
        The number of documents in the block.

    Returns
    -------
    int64 array of shape (number of queries + 1,): query t holds the documents `offsets[t]:offsets[t + 1]`.

    Raises
    ------
    ValueError
        `qid` has another length, lacks an id, has ids of text and of other types, or a query's documents are not contiguous.

    Examples
    --------
    >>> query_offsets([7, 7, 7, 3, 3], 5)
    array([0, 3, 5])
    """
    ids = as_array("qid", qid)
    if ids.shape != (n_documents,):
        is_sizes = ids.ndim == 1 and ids.dtype.kind in "iu" and ids.sum() == n_documents
        remedy = "; of the sizes of groups make ids by np.repeat(np.arange(len(sizes)), sizes)" if is_sizes else ""
        raise ValueError(f"qid has shape {ids.shape}, but there are {n_documents} documents: one query id a document{remedy}")
    if n_documents == 0:
        return np.zeros(1, dtype=np.int64)
    if ids.dtype.kind not in "biu":
        _require_ids(qid, ids)
    starts = np.concatenate(([0], np.flatnonzero(ids[1:] != ids[:-1]) + 1))
    first = ids[starts]
    ascend = first.dtype.kind in "iu" and (first[1:] > first[:-1]).all()
    if not ascend and len(set(first.tolist())) != len(first):
        scattered = Counter(first.tolist()).most_common(1)[0][0]
        raise ValueError(f"qid: the documents of query {scattered!r} are not contiguous; sort the block by qid")
    return np.append(starts, n_documents).astype(np.int64)
