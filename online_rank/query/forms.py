"""Reads the accepted forms of a query."""

import contextlib
import functools
import itertools
import operator
import struct
import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank.limits import MAX_FEATURES
from online_rank.query.blocks import (
    ONE,
    Block,
    as_array,
    as_times,
    as_weights,
    document_name,
    plain_block,
    query_offsets,
    require_no_tiny,
    single,
    with_feedback,
)
from online_rank.query.context import as_contexts, read_context
from online_rank.query.embeddings import is_vector
from online_rank.query.grades import as_feedback
from online_rank.query.labels import in_rows_of
from online_rank.query.names import are_nfc, in_nfc, index_among, keys_in_nfc, names_in_nfc
from online_rank.query.runs import Runs
from online_rank.query.served import as_served
from online_rank.query.sparse import SparseRows, checked_rows, from_scipy, is_scipy, worth_rows
from online_rank.query.vectors import Vectors

#: From this number of values on, zeros and ones are converted at once.
_MANY_VALUES = 256

_FLOAT64, _FLOAT32, _INT64 = np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.int64)
_ARRAY = np.ndarray
_ONLY_DICTS = {dict}
_TRUTHS = {"true": 1.0, "false": 0.0}
# Plain dicts first, since asking an abstract class takes longer.
_MAPPING = dict | Mapping
# `Block(...)` takes three times as long.
_new = tuple.__new__


class _Features(NamedTuple):
    """The fields of a `Block` that come from x."""

    X: Any
    ids: Sequence[Hashable] | None = None
    names: tuple[Hashable, ...] | None = None
    form: Any = None


#: In place of query ids: the documents are one query.
ONE_QUERY: Any = object()


def read_query(
    x: Any,
    y: Any = None,
    w: Any = None,
    *,
    qid: Any = ONE_QUERY,
    served: Any = None,
    context: Any = None,
    at: Any = None,
    documents: bool = False,
) -> Block:
    """Read one query, in any form, or several stacked one below the other.

    Parameters
    ----------
    x
        The query, in any form that `online_rank.query` lists, or a `Block` of one; or the n documents of several.
    y
        Its grades (see `as_grades`) or other feedback (`as_feedback`); None for a query to rank.
    w
        Its weight, of several queries one each; None for 1. It multiplies the weight of a `Block`.
    qid
        None if y is, too, or left out: x is one query. Otherwise the n query ids of several; documents of a query must be
        contiguous.
    served
        The scores that the documents were served with (see `as_served`); None if unknown.
    context
        Facts about the query, `{name: value}` (see `read_context`), of several queries one each; None for those in a
        `Block`, or none.
    at
        The time in seconds, of several queries one each; None for what a `Block` says, or none.
    documents
        Whether to keep feature dicts, and frames with columns other than numbers, unchanged, for pipeline steps that take text
        and categories, of which booleans are one kind.

    Raises
    ------
    TypeError
        `x` has no accepted form, or a feature value is not a number.
    ValueError
        The shape is wrong, documents are ragged, or there are more than `MAX_FEATURES` features; or grades or ids do not fit.

    Examples
    --------
    >>> block = read_query({"a": {"bm25": 2.0, "clicks": 1}, "b": {"bm25": 0.5}}, {"b": 0, "a": 2})
    >>> block.ids, block.names, block.y
    (('a', 'b'), ('bm25', 'clicks'), array([2, 0]))
    >>> block.X
    array([[2. , 1. ],
           [0.5, 0. ]])
    >>> read_query(np.ones((3, 1)), [0, 1, 2], qid=[7, 7, 8]).offsets
    array([0, 2, 3])
    """
    one = qid is ONE_QUERY or (qid is None and y is None)
    if one:
        weights = ONE if w is None or (type(w) is float and w == 1.0) else _as_weight(w)
    if isinstance(x, Block):
        if context is not None:
            x = x._replace(context=(read_context(context),))
        if at is not None:
            x = x._replace(at=as_times(at, len(x.w)))
        scores = x.served if served is None else as_served(served, x.n_documents, x.ids)
        if y is None:
            return x
        return with_feedback(
            x, as_feedback(y, len(x.w), x.n_documents, x.ids), weights if x.w is ONE else x.w * weights, scores
        )
    X, ids, names, form = _read(x, documents)
    n = X.shape[0] if type(X) is SparseRows else len(X)
    if form is not None and form is not dict:  # Only frames have labels.
        y, served, qid = in_rows_of(x, "y", y), in_rows_of(x, "served", served), in_rows_of(x, "qid", qid)
    offsets = single(n) if one else query_offsets(qid, n)
    n_queries = len(offsets) - 1
    try:
        feedback = None if y is None else as_feedback(y, n_queries, n, ids)
    except ValueError:
        _require_no_runs(x, y)
        raise
    scores = None if served is None else as_served(served, n, ids)
    if context is not None:
        context = (read_context(context),) if one else as_contexts(context, n_queries)
    times = None if at is None else as_times(at, n_queries)
    if not one:
        weights = as_weights(w, n_queries)
    return _new(Block, (X, feedback, offsets, weights, ids, names, scores, form, None, None, context, times, None))


def plain_array(x: Any, n_features: int) -> np.ndarray | None:
    """A view of a query that is an array (m, n_features) and needs no conversion; None for any other."""
    if type(x) is not _ARRAY:
        return None
    # Another thread may change the shape and the type of the caller's array, also after they were checked.
    x = x[...]
    kind, shape = x.dtype, x.shape
    plain = (kind is _FLOAT64 or kind is _FLOAT32) and len(shape) == 2 and shape[1] == n_features and x.flags.c_contiguous
    return x if plain else None


def plain_query(x: Any, y: Any, n_features: int) -> Block | None:
    """A query of weight 1 whose m documents and m grades are arrays that need no conversion, as views; None for any other."""
    if type(x) is not _ARRAY or type(y) is not _ARRAY:
        return None
    x, y = x[...], y[...]
    kind, m = x.dtype, len(y) if y.ndim == 1 else -1
    if (
        (kind is _FLOAT64 or kind is _FLOAT32)
        and y.dtype is _INT64
        and x.shape == (m, n_features)
        and x.flags.c_contiguous
        and y.flags.c_contiguous
    ):
        return plain_block(x, y, m)
    return None


def plain_vectors(x: Any, q: Any, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray] | None:
    """Documents (m, k) and the vector of a query (p,) that are float32 and need no conversion, as views; None for any other."""
    if type(x) is not _ARRAY or type(q) is not _ARRAY:
        return None
    x, q = x[...], q[...]
    (p, k), lengths = shape, x.shape
    fits = x.dtype is _FLOAT32 and q.dtype is _FLOAT32 and len(lengths) == 2 and lengths[1] == k and q.shape == (p,)
    return (x, q) if fits and x.flags.c_contiguous and q.flags.c_contiguous else None


def plain_grades(y: Any, m: int) -> np.ndarray | None:
    """m grades that need no conversion, as a view; None for any other."""
    if type(y) is not _ARRAY:
        return None
    y = y[...]
    return y if y.dtype is _INT64 and y.shape == (m,) and y.flags.c_contiguous else None


def answer_in_kind(scores: np.ndarray, block: Block | None) -> list[float] | dict[Hashable, float]:
    """Scores in the form returned to users: a list of floats, or `{document id: score}` for a query with ids."""
    if block is None or block.ids is None or isinstance(block.ids, range):
        return scores.tolist()
    return dict(zip(block.ids, scores.tolist(), strict=True))


def in_form(block: Block) -> Any:
    """The documents of a block in the form in which the user gave them: the inverse of reading.

    Examples
    --------
    >>> block = read_query({"a": {"bm25": 2.0}, "b": {"bm25": 0.5}})
    >>> in_form(block._replace(X=np.array([[4.0], [1.0]])))
    {'a': {'bm25': 4.0}, 'b': {'bm25': 1.0}}
    """
    if block.form is None or (block.names is None and isinstance(block.X, np.ndarray)):
        return block.X
    if block.form is not dict and isinstance(block.X, np.ndarray):
        import narwhals

        columns = {str(name): block.X[:, j] for j, name in enumerate(block.names or ())}
        return narwhals.from_dict(columns, backend=block.form).to_native()
    documents = feature_dicts(block)
    return documents if block.ids is None or isinstance(block.ids, range) else dict(zip(block.ids, documents, strict=True))


def feature_dicts(block: Block) -> list[dict[Hashable, Any]]:
    """The documents as feature dicts; features without names are called by their position. Sparse documents give only their
    entries.
    """
    X = block.X
    if not isinstance(X, np.ndarray | SparseRows):
        return [dict(x) for x in X]
    names = range(X.shape[1]) if block.names is None else block.names
    if isinstance(X, SparseRows):
        entries = [(names[j], value) for j, value in zip(X.columns.tolist(), X.values.tolist(), strict=True)]
        return [dict(entries[a:b]) for a, b in itertools.pairwise(X.starts.tolist())]
    return [dict(zip(names, row, strict=True)) for row in X.tolist()]


def _as_weight(w: Any) -> np.ndarray:
    """The weight of one query as an array (1,). Raises TypeError, or ValueError for a number beyond float64."""
    try:
        if isinstance(w, str | bytes | bytearray):  # float would read them.
            raise TypeError
        weight = np.array([float(w)])
    except OverflowError:
        raise ValueError("w is beyond the largest float; the weight of a query is one finite number >= 0") from None
    except (TypeError, ValueError):
        raise TypeError(f"w is {w!r:.80}; the weight of a query is one finite number >= 0") from None
    require_no_tiny("w", weight)
    return weight


def _read(x: Any, documents: bool) -> _Features:
    """The documents of x as arrays, or unchanged if `documents` is set."""
    if type(x) is _ARRAY:
        return _Features(_as_matrix(x))
    if isinstance(x, Runs):
        if not documents:
            raise TypeError(
                "x is Runs, whose absent scores are not 0: put RunFeatures() first, as in RunFeatures() | ranker; in the "
                "shell, begin with a model that fuse --save wrote"
            )
        return _Features([*x.documents.values()], x.ids, None, dict)
    if isinstance(x, Vectors):
        return _Features(x.products) if x.ids is None else _Features(x.products, x.ids, None, dict)
    if isinstance(x, _MAPPING):
        x = x if type(x) is dict else _read_once(x, "x")
        documents_are_dicts = {*map(type, x.values())} == _ONLY_DICTS
        for name, document in () if documents_are_dicts else x.items():
            if not isinstance(document, Mapping):
                remedy = "a single document goes into a list: [features]"
                if isinstance(document, list | tuple):
                    remedy = "lists of retrievers are a query as Runs(x)"
                raise TypeError(
                    f"x[{name!r}] is of type {type(document).__name__}, not a dict of features. A query as a dict is "
                    f"{{document id: feature dict}}; {remedy}"
                )
        return from_dicts([*x.values()], tuple(x), documents)
    if isinstance(x, list | tuple) and not isinstance(x, SparseRows):
        if not x or isinstance(x[0], Mapping):
            return from_dicts(x, None, documents)
        return _Features(_from_rows(x))
    if isinstance(x, np.ndarray):
        return _Features(_as_matrix(as_array("x", x)))
    if isinstance(x, SparseRows):
        return _Features(checked_rows(x))
    if is_scipy(x):
        return _Features(from_scipy(x))
    return _from_frame(x, documents)


def _read_once(x: Any, what: str) -> Any:
    """A plain dict of a mapping, whose length, names and values may else change, or contradict each other; others as given."""
    if type(x) is dict or not isinstance(x, Mapping):
        return x
    try:
        # A dict of a subclass would be copied without asking for its names and values.
        return {name: x[name] for name in iter(x)}
    except Exception as error:
        raise ValueError(f"{what} is a {type(x).__name__} that cannot be read: {type(error).__name__}: {error}") from error


def _require_no_runs(x: Any, y: Any) -> None:
    """Raise ValueError if x is what retrievers returned, in a bare dict: if grades are for what would be its features."""
    if isinstance(x, _MAPPING) and isinstance(y, Mapping) and not y.keys() & x.keys():
        inside = {name for document in x.values() if isinstance(document, Mapping) for name in document}
        if graded := [name for name in y if name in inside]:
            raise ValueError(
                f"y grades {graded[0]!r}, which is a feature in x and no document: a dict is {{document id: feature dict}}, "
                "and scores of retrievers are a query as Runs(x)"
            )


def _as_matrix(x: np.ndarray) -> np.ndarray:
    """An (m, d) float array, C-contiguous, without a copy if possible; a view, whose shape and type nobody else can change."""
    x = x[...]
    if (x.dtype is _FLOAT64 or x.dtype is _FLOAT32) and x.ndim == 2 and x.flags.c_contiguous and x.shape[1] <= MAX_FEATURES:
        return x
    if x.ndim != 2:
        hint = "a single document is x[None, :]" if x.ndim == 1 else "one row a document, one column a feature"
        raise ValueError(f"x has shape {x.shape}, but a query is an (m, d) array: {hint}")
    if x.dtype != np.float64 and x.dtype != np.float32:
        if x.dtype.kind not in "biuf":
            raise TypeError(f"x has dtype {x.dtype}; features are numbers")
        x = x.astype(np.float64)
    _require_few(x.shape[1])
    return x if x.flags.c_contiguous else np.ascontiguousarray(x)


def _from_rows(x: Sequence[Any]) -> np.ndarray:
    """Rows of numbers, for example lists of lists."""
    if isinstance(x[0], Runs | Vectors):
        kind = type(x[0]).__name__
        raise TypeError(
            f"x is a {type(x).__name__} of {len(x)} {kind}, each of them a query; give one at a time: learn_one(x, y)"
        )
    for i, row in enumerate(x):
        if isinstance(row, Mapping | str | bytes) or not hasattr(row, "__len__"):
            swapped = "; documents come before grades: learn_one(x, y)" if isinstance(row, int | np.integer) else ""
            what = f"document {i} is of type {type(row).__name__}"
            raise TypeError(f"x: {what}; a query is a list of feature dicts or a list of rows of numbers{swapped}")
        if (isinstance(row, np.ndarray) and row.ndim > 1) or (isinstance(row, list | tuple) and row and _is_document(row[0])):
            raise TypeError(
                f"x is a list of {len(x)} queries; a call takes one, or many whose documents stand one below the other, with "
                "their query ids: learn_many(X, y, qid), predict_many(X, qid)"
            )
        if len(row) != len(x[0]):
            raise ValueError(f"x: document {i} has {len(row)} features, but document 0 has {len(x[0])}")
    return _as_matrix(np.array(x))


def _is_document(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple)


def from_dicts(documents: Sequence[Any], ids: Sequence[Hashable] | None, as_given: bool = False) -> _Features:
    """Feature dicts, and whether to keep them; columns are in the order in which names first appear."""
    are_dicts = {*map(type, documents)} == _ONLY_DICTS
    if not are_dicts:
        documents = [_read_once(x, f"x: {document_name(i, ids)}") for i, x in enumerate(documents)]
        are_dicts = {*map(type, documents)} == _ONLY_DICTS
    if as_given and are_dicts:
        return _new(_Features, ([*documents], ids, None, dict))
    if not documents:
        return _Features(np.empty((0, 0)), ids, (), dict)
    table = table_of(documents) if are_dicts else None
    if table is None:
        return _from_ragged_dicts(documents, ids)
    names, cells = table
    if not are_nfc(names):
        names = tuple(names_in_nfc(names, f"x: {document_name(0, ids)}"))
    if len(names) > MAX_FEATURES:
        _require_few(len(names))
    values = as_floats(cells)
    X = _checked_floats(cells, names, ids, 0) if values is None else values
    return _new(_Features, (X.reshape(len(documents), len(names)), ids, names, dict))


def table_of(documents: Sequence[Any]) -> tuple[tuple[Hashable, ...], list[Any]] | None:
    """The names and the values, one document after the other, of dicts that all have the same names; None for any others.

    No Python code runs for a single feature.
    """
    names = tuple(documents[0])
    if not names or {*map(len, documents)} != {len(names)}:
        return None
    if operator.countOf(map(list, documents), [*names]) == len(documents):
        return names, flat(map(dict.values, documents))
    if len(names) == 1:
        return None
    try:
        return names, flat(map(operator.itemgetter(*names), documents))
    except KeyError:
        return None


@functools.lru_cache(maxsize=256)
def _packer(n: int) -> struct.Struct:
    return struct.Struct(f"{n}d")


def flat(parts: Iterable[Iterable[Any]]) -> list[Any]:
    """The elements of all parts, in order; twice as fast as `itertools.chain` for dicts and their values."""
    found: list[Any] = []
    for part in parts:
        found.extend(part)
    return found


def as_floats(values: list[Any]) -> np.ndarray | None:
    """Values as float64 (n,); None if one of them cannot be converted to a float."""
    if len(values) > _MANY_VALUES and type(values[0]) is int:
        with contextlib.suppress(TypeError, ValueError):  # Three times as fast for what an encoder gives, zeros and ones.
            return np.frombuffer(bytes(values), np.uint8).astype(np.float64)
    try:
        # Several times as fast as numpy's conversion of a list.
        return np.frombuffer(bytearray(_packer(len(values)).pack(*values)))
    except (struct.error, TypeError, OverflowError, ValueError):
        return None


def _checked_floats(values: list[Any], names: tuple[Hashable, ...], ids: Sequence[Hashable] | None, first: int) -> np.ndarray:
    """Values as float64, of the texts true and false 1 and 0, or an error that names the value that is not a number."""
    values = [_TRUTHS.get(value.strip().lower(), value) if isinstance(value, str) else value for value in values]
    for position, value in enumerate(values):
        i, j = divmod(position, len(names))
        what = f"feature {names[j]!r} of {document_name(first + i, ids)}"
        if not isinstance(value, int | float | np.number | np.bool_) or isinstance(value, np.complexfloating):
            raise TypeError(f"x: {what} is {value!r}; features are numbers{_remedy(value)}")
        if isinstance(value, int) and abs(value) > sys.float_info.max:
            raise ValueError(f"x: {what} is too large for a float")
    return np.fromiter(values, np.float64, len(values))


def _from_ragged_dicts(documents: Sequence[Any], ids: Sequence[Hashable] | None) -> _Features:
    """Feature dicts that do not all have the same names in the same order."""
    rows, names = rows_of_dicts(documents, ids)
    n, d = rows.shape
    if worth_rows(len(rows.values), n * d):
        return _Features(rows, ids, names, dict)
    X = np.zeros((n, d))
    # With indices of another type numpy casts them in the assignment, and ends the process where memory runs out there.
    X[np.repeat(np.arange(n), rows.starts[1:] - rows.starts[:-1]), rows.columns.astype(np.intp)] = rows.values
    return _Features(X, ids, names, dict)


def rows_of_dicts(documents: Sequence[Any], ids: Sequence[Hashable] | None) -> tuple[SparseRows, tuple[Hashable, ...]]:
    """Feature dicts as sparse rows, and the names of the columns, in the order in which they first appear."""
    if set(map(type, documents)) != {dict}:
        for i, document in enumerate(documents):
            if not isinstance(document, Mapping):
                raise TypeError(f"x: {document_name(i, ids)} is of type {type(document).__name__}, not a dict of features")
    starts = np.zeros(len(documents) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, documents), np.int64, len(documents)), out=starts[1:])
    names = flat(documents)
    different, columns = _distinct(names)
    if not are_nfc(different):
        return rows_of_dicts(documents_in_nfc(documents, ids), ids)
    _require_few(len(different))
    values = as_floats(flat(x.values() for x in documents))
    if values is None:
        rows = [_checked_floats(list(x.values()), tuple(x), ids, i) for i, x in enumerate(documents)]
        values = np.concatenate(rows)
    return SparseRows(starts, columns, values, len(different)), different


def documents_in_nfc(documents: Sequence[Mapping[Hashable, Any]], ids: Sequence[Hashable] | None) -> list[Any]:
    """Feature dicts with names in normal form C. Raises ValueError if two names of a document become one."""
    return [keys_in_nfc(x, f"x: {document_name(i, ids)}") for i, x in enumerate(documents)]


def _distinct(names: list[Hashable]) -> tuple[tuple[Hashable, ...], np.ndarray]:
    """The distinct names among n, in the order in which they first appear, and the index of each name in them, int32 (n,)."""
    # The first position of each name; names at their first position are the columns.
    column: dict[Hashable, int] = {}
    first = np.fromiter(map(column.setdefault, names, itertools.count()), np.int64, len(names))
    return tuple(column), (np.cumsum(first == np.arange(len(names))) - 1).astype(np.int32)[first]


def _remedy(value: Any) -> str:
    """Advice for a feature value that is not a number."""
    if value is None:
        return ": leave a missing one out"
    if is_vector(value):
        return ": AdditiveRanker and VectorRanker take vectors, and others behind VectorFeatures()"
    return ": encode text, as by HashedFeatures() before the ranker" if isinstance(value, str) else ""


def _from_frame(x: Any, documents: bool) -> _Features:
    """A pandas, polars, pyarrow or modin frame; its columns are the feature names."""
    import narwhals

    if not narwhals.dependencies.is_into_dataframe(x):
        raise TypeError(
            f"x is of type {type(x).__name__}; a query is an (m, d) array, a list of feature dicts, {{id: feature dict}} or a "
            "data frame"
        )
    frame = narwhals.from_native(x, eager_only=True)
    if (index := index_among(tuple(frame.columns))) is not None:
        raise ValueError(f"x: column {index!r} is the index of a frame that was written to a file; drop it before learning")
    _require_distinct(frame.columns)
    form = narwhals.get_native_namespace(x)
    for name, dtype in frame.schema.items():
        if not (dtype.is_numeric() or (dtype == narwhals.Boolean and not documents)):
            if documents:
                return _Features(list(frame.iter_rows(named=True)), None, None, form)
            raise TypeError(f"x: column {name!r} has dtype {dtype}; features are numbers")
    X = frame.to_numpy()
    if X.dtype.kind == "b" or X.dtype == object:
        # Booleans mixed with numbers, or pandas' nullable types, which have their own missing value.
        X = X.astype(object)
        for j, name in enumerate(frame.columns):
            X[frame[name].is_null().to_numpy(), j] = np.nan
        X = X.astype(np.float64)
    return _Features(_as_matrix(X), None, tuple(names_in_nfc(frame.columns, "x")), form)


def _require_distinct(columns: Sequence[Any]) -> None:
    """Raise ValueError for columns whose names become equal as texts: one of them would be lost on the way."""
    known: dict[str, Any] = {}
    for name in columns:
        text = in_nfc(str(name))
        if text in known:
            raise ValueError(f"x: the columns {known[text]!a} and {name!a} have the same name as text; rename one of them")
        known[text] = name


def _require_few(n_features: int) -> None:
    if n_features > MAX_FEATURES:
        raise ValueError(f"x has {n_features} features; at most {MAX_FEATURES} are accepted (online_rank.query.MAX_FEATURES)")
