"""The accepted forms of a query, and of its grades.

A query is m documents with d features each. It may come as

- an (m, d) ndarray, float32 or float64 (used as it is when C-contiguous), or a list of m rows of numbers;
- a list of m feature dicts;
- a dict `{document id: feature dict}`;
- a pandas or polars data frame with one row a document.

Named features (dicts, frames) may appear, vanish and come back; a missing one is 0.
"""

import itertools
import operator
import sys
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank._kernels.codes import MAX_GRADE

__all__ = [
    "MAX_FEATURES",
    "MAX_GRADE",
    "Documents",
    "Query",
    "answer_in_kind",
    "as_documents",
    "as_grades",
    "as_query",
    "document_name",
    "in_form_of",
    "query_offsets",
    "require_finite",
    "require_grades",
]

#: Most features that one query, or one model over its life, may have.
MAX_FEATURES = 1_000_000


_FLOAT64, _FLOAT32, _INT64 = np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.int64)
_ARRAY = np.ndarray

_PLAIN_NUMBERS = {float, int, bool, np.float64, np.float32, np.int64, np.int32, np.bool_}


class Query(NamedTuple):
    """One query in the form that transformers and rankers compute with.

    Attributes
    ----------
    X
        Features, float32 or float64 array of shape (m, d), C-contiguous.
    ids
        The m document ids, or None when documents are known by their position.
    names
        The d feature names, or None when features are known by their position.
    """

    X: np.ndarray
    ids: Sequence[Hashable] | None = None
    names: tuple[Hashable, ...] | None = None


class Documents(NamedTuple):
    """One query as the user gave it, its features unread: for steps of a pipeline that take texts and categories.

    Attributes
    ----------
    X
        The m feature dicts.
    ids
        As in `Query`.
    """

    X: Sequence[Mapping[Hashable, Any]]
    ids: Sequence[Hashable] | None = None


def as_query(x: Any) -> Query:
    """Bring a query into its computational form.

    Parameters
    ----------
    x
        A query in any form that the module's documentation lists, or a `Query`, which is returned unchanged.

    Raises
    ------
    TypeError
        `x` is of no accepted form, or a feature value is not a number.
    ValueError
        The shape is wrong, documents are ragged, or there are more than `MAX_FEATURES` features.

    Examples
    --------
    >>> query = as_query({"a": {"bm25": 2.0, "clicks": 1}, "b": {"bm25": 0.5}})
    >>> query.ids, query.names
    (('a', 'b'), ('bm25', 'clicks'))
    >>> query.X
    array([[2. , 1. ],
           [0.5, 0. ]])
    """
    if type(x) is np.ndarray:
        return Query(_as_matrix(x))
    if isinstance(x, Query):
        return x
    if isinstance(x, Mapping):
        documents = list(x.values())
        for name, document in zip(x, documents, strict=True):
            if not isinstance(document, Mapping):
                raise TypeError(
                    f"x[{name!r}] is {_kind(document)}, not a dict of features. A query as a dict is "
                    "{document id: feature dict}; a single document goes into a list: [features]"
                )
        return _from_dicts(documents, tuple(x))
    if isinstance(x, list | tuple):
        if _has_dicts(x):
            return _from_dicts(x, None)
        return Query(_from_rows(x))
    if isinstance(x, np.ndarray):
        return Query(_as_matrix(np.asarray(x)))
    return _from_frame(x)


def is_plain(x: Any, y: Any, n_features: int) -> bool:
    """Whether `as_query` and `as_grades` would answer with these very arrays: a query of m documents, and its m grades."""
    return (
        type(x) is _ARRAY
        and type(y) is _ARRAY
        and (x.dtype is _FLOAT64 or x.dtype is _FLOAT32)
        and y.dtype is _INT64
        and y.ndim == 1
        and x.shape == (len(y), n_features)
        and x.flags.c_contiguous
        and y.flags.c_contiguous
    )


def as_documents(x: Any) -> Query | Documents:
    """Feature dicts, and frames that hold more than numbers, as `Documents`; every other form as `as_query` reads it.

    Examples
    --------
    >>> as_documents({"a": {"title": "On ranking"}})
    Documents(X=[{'title': 'On ranking'}], ids=('a',))
    """
    if isinstance(x, Mapping) and all(isinstance(document, Mapping) for document in x.values()):
        return Documents(list(x.values()), tuple(x))
    if isinstance(x, list | tuple) and not isinstance(x, Query) and all(isinstance(document, Mapping) for document in x):
        return Documents(x)
    if not isinstance(x, Query | Mapping | list | tuple | np.ndarray):
        import narwhals

        if narwhals.dependencies.is_into_dataframe(x):
            frame = narwhals.from_native(x, eager_only=True)
            if not all(dtype.is_numeric() or dtype == narwhals.Boolean for dtype in frame.schema.values()):
                return Documents(list(frame.iter_rows(named=True)))
    return as_query(x)


def as_grades(y: Any, query: Query | Documents) -> np.ndarray:
    """The relevance grades of the documents of `query`, in its order.

    Parameters
    ----------
    y
        A sequence of m integers in 0..`MAX_GRADE`, or `{document id: grade}` for a query with ids.
    query
        The query that is graded.

    Returns
    -------
    int64 array of shape (m,). Whether the values are in range is left to `require_grades`, which kernels make needless.

    Raises
    ------
    TypeError
        Grades are not numbers, or are a dict while the documents have no ids.
    ValueError
        A grade is missing, left over or fractional, or there are not m of them.
    """
    m = len(query.X)
    if type(y) is np.ndarray and y.dtype is _INT64 and y.ndim == 1 and y.flags.c_contiguous:
        grades = y
    elif isinstance(y, Mapping):
        if query.ids is None:
            raise TypeError("y is a dict, but the documents of x have no ids: give x as {id: feature dict}, or y as a list")
        missing = [name for name in query.ids if name not in y]
        if missing:
            raise ValueError(f"y has no grade for document {missing[0]!r} of x ({len(missing)} missing)")
        if len(y) != m:
            extra = next(name for name in y if name not in set(query.ids))
            raise ValueError(f"y grades document {extra!r}, which is not in x")
        grades = _as_integers([y[name] for name in query.ids], query)
    else:
        grades = _as_integers(y, query)
    if len(grades) != m:
        raise ValueError(f"y has {len(grades)} grades, but x has {m} documents")
    return grades


def require_grades(y: np.ndarray, ids: Sequence[Hashable] | None = None, first: int = 0) -> None:
    """Raise ValueError that names the first document whose grade is not in 0..`MAX_GRADE`.

    `first` is the number of the first document in messages, for grades that are a part of a block.
    """
    bad = np.flatnonzero((y < 0) | (y > MAX_GRADE))
    if bad.size:
        i = int(bad[0])
        raise ValueError(f"y: the grade of {document_name(i, ids, first)} is {y[i]}; grades are integers from 0 to {MAX_GRADE}")


def require_finite(query: Query, first: int = 0) -> None:
    """Raise ValueError that names the first document and feature of `query` that is NaN or infinite.

    `first` is the number of the first document in messages, for queries that are a part of a block.
    """
    if np.isfinite(query.X).all():
        return
    i, j = (int(k) for k in np.argwhere(~np.isfinite(query.X))[0])
    feature = repr(query.names[j]) if query.names is not None else str(j)
    name = document_name(i, query.ids, first)
    raise ValueError(f"x: feature {feature} of {name} is {query.X[i, j]}; features must be finite")


def document_name(i: int, ids: Sequence[Hashable] | None, first: int = 0) -> str:
    """How messages call the i-th document: by its id, or by its number, which begins at `first` in a part of a block.

    Examples
    --------
    >>> document_name(1, None, first=10), document_name(1, ("a", "b"))
    ('document 11', "document 'b'")
    """
    return f"document {first + i}" if ids is None else f"document {ids[i]!r}"


def query_offsets(qid: Any, n_documents: int) -> np.ndarray:
    """Where the queries of a block begin and end.

    Parameters
    ----------
    qid
        A sequence of one query id a document; the documents of a query stand together.
    n_documents
        The number of documents in the block.

    Returns
    -------
    int64 array of shape (number of queries + 1,): query t holds the documents `offsets[t]:offsets[t + 1]`.

    Raises
    ------
    ValueError
        `qid` has another length, or a query's documents do not stand together.

    Examples
    --------
    >>> query_offsets([7, 7, 7, 3, 3], 5)
    array([0, 3, 5])
    """
    ids = np.asarray(qid)
    if ids.shape != (n_documents,):
        is_sizes = ids.ndim == 1 and ids.dtype.kind in "iu" and ids.sum() == n_documents
        remedy = "; of the sizes of groups make ids by np.repeat(np.arange(len(sizes)), sizes)" if is_sizes else ""
        raise ValueError(f"qid has shape {ids.shape}, but there are {n_documents} documents: one query id a document{remedy}")
    if n_documents == 0:
        return np.zeros(1, dtype=np.int64)
    starts = np.concatenate(([0], np.flatnonzero(ids[1:] != ids[:-1]) + 1))
    first = ids[starts]
    ascend = first.dtype.kind in "iu" and (first[1:] > first[:-1]).all()
    if not ascend and len(np.unique(first)) != len(first):
        values, counts = np.unique(first, return_counts=True)
        scattered = values[counts > 1].tolist()[0]
        raise ValueError(f"qid: the documents of query {scattered!r} do not stand together; sort the block by qid")
    return np.append(starts, n_documents).astype(np.int64)


def answer_in_kind(scores: np.ndarray, query: Query) -> list[float] | dict[Hashable, float]:
    """Scores as a user gets them: a list of floats, or `{document id: score}` for a query with ids."""
    if query.ids is None:
        return scores.tolist()
    return dict(zip(query.ids, scores.tolist(), strict=True))


def in_form_of(x: Any, query: Query | Documents) -> Any:
    """`query` in the form that `x` has: the inverse of `as_query` and of `as_documents`.

    Examples
    --------
    >>> x = {"a": {"bm25": 2.0}, "b": {"bm25": 0.5}}
    >>> in_form_of(x, as_query(x)._replace(X=np.array([[4.0], [1.0]])))
    {'a': {'bm25': 4.0}, 'b': {'bm25': 1.0}}
    """
    if isinstance(query, Documents):
        return list(query.X) if query.ids is None else dict(zip(query.ids, query.X, strict=True))
    if isinstance(x, Query):
        return query
    if query.names is None or isinstance(x, np.ndarray) or (isinstance(x, list | tuple) and not _has_dicts(x)):
        return query.X
    if not isinstance(x, Mapping | list | tuple):
        import narwhals

        columns = {str(name): query.X[:, j] for j, name in enumerate(query.names)}
        return narwhals.from_dict(columns, backend=narwhals.get_native_namespace(x)).to_native()
    documents = [dict(zip(query.names, row, strict=True)) for row in query.X.tolist()]
    return documents if query.ids is None else dict(zip(query.ids, documents, strict=True))


def _has_dicts(x: Sequence[Any]) -> bool:
    return not x or isinstance(x[0], Mapping)


def _as_matrix(x: np.ndarray) -> np.ndarray:
    """An (m, d) float array, C-contiguous, without a copy where that is possible."""
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
    for i, row in enumerate(x):
        if isinstance(row, Mapping | str | bytes) or not hasattr(row, "__len__"):
            swapped = "; documents come before grades: learn_one(x, y)" if isinstance(row, int | np.integer) else ""
            raise TypeError(
                f"x: document {i} is {_kind(row)}; a query is a list of feature dicts or a list of rows of numbers{swapped}"
            )
        if len(row) != len(x[0]):
            raise ValueError(f"x: document {i} has {len(row)} features, but document 0 has {len(x[0])}")
    return _as_matrix(np.array(x))


def _from_dicts(documents: Sequence[Mapping], ids: tuple[Hashable, ...] | None) -> Query:
    """Feature dicts; the columns stand in the order in which names first appear."""
    if not documents:
        return Query(np.empty((0, 0)), ids, ())
    names: tuple[Hashable, ...] = tuple(documents[0])
    # The common case, documents that are plain dicts with the same names, without Python code for each feature. A plain dict,
    # because others (defaultdict) may answer for a name that they do not hold.
    if len(names) < 2 or set(map(type, documents)) != {dict} or set(map(len, documents)) != {len(names)}:
        return _from_ragged_dicts(documents, ids)
    try:
        rows = list(map(operator.itemgetter(*names), documents))
    except KeyError:
        return _from_ragged_dicts(documents, ids)
    _require_few(len(names))
    X = _as_floats(list(itertools.chain.from_iterable(rows)), names, ids).reshape(len(documents), len(names))
    return Query(X, ids, names)


def _from_ragged_dicts(documents: Sequence[Mapping], ids: tuple[Hashable, ...] | None) -> Query:
    """Feature dicts that do not all have the same names in the same order."""
    columns: dict[Hashable, int] = {}
    for i, document in enumerate(documents):
        if not isinstance(document, Mapping):
            raise TypeError(f"x: {document_name(i, ids)} is {_kind(document)}, not a dict of features")
        for name in document:
            columns.setdefault(name, len(columns))
    _require_few(len(columns))
    X = np.zeros((len(documents), len(columns)))
    for i, document in enumerate(documents):
        if document:
            names = tuple(document)
            X[i, [columns[name] for name in names]] = _as_floats(list(document.values()), names, ids, i)
    return Query(X, ids, tuple(columns))


def _as_floats(values: list[Any], names: tuple[Hashable, ...], ids: Sequence[Hashable] | None, first: int = 0) -> np.ndarray:
    """Feature values as float64; they belong to consecutive documents that all have `names`."""
    if not set(map(type, values)) <= _PLAIN_NUMBERS:
        for position, value in enumerate(values):
            if not isinstance(value, int | float | np.number | np.bool_) or isinstance(value, np.complexfloating):
                i, j = divmod(position, len(names))
                what = f"feature {names[j]!r} of {document_name(first + i, ids)} is {value!r}"
                raise TypeError(f"x: {what}; features are numbers{_remedy(value)}")
    try:
        return np.fromiter(values, np.float64, len(values))
    except OverflowError:
        position = next(k for k, value in enumerate(values) if isinstance(value, int) and abs(value) > sys.float_info.max)
        i, j = divmod(position, len(names))
        message = f"x: feature {names[j]!r} of {document_name(first + i, ids)} is too large for a float"
        raise ValueError(message) from None


def _remedy(value: Any) -> str:
    """What to do about a feature value that is no number."""
    if value is None:
        return ": leave a missing one out"
    return ": encode text, as by ForEachDocument(river.preprocessing.OneHotEncoder())" if isinstance(value, str) else ""


def _from_frame(x: Any) -> Query:
    """A pandas, polars, pyarrow or modin frame; its columns are the feature names."""
    import narwhals

    if not narwhals.dependencies.is_into_dataframe(x):
        raise TypeError(
            f"x is {_kind(x)}; a query is an (m, d) array, a list of feature dicts, {{id: feature dict}} or a data frame"
        )
    frame = narwhals.from_native(x, eager_only=True)
    for name, dtype in frame.schema.items():
        if not (dtype.is_numeric() or dtype == narwhals.Boolean):
            raise TypeError(f"x: column {name!r} has dtype {dtype}; features are numbers")
    X = frame.to_numpy()
    if X.dtype.kind == "b" or X.dtype == object:
        X = X.astype(np.float64)
    return Query(_as_matrix(X), None, tuple(frame.columns))


def _as_integers(y: Any, query: Query | Documents) -> np.ndarray:
    """Grades as int64; floats are accepted where they are whole."""
    if isinstance(y, str | bytes) or not (hasattr(y, "__len__") or hasattr(y, "__array__")):
        raise TypeError(f"y is {_kind(y)}; grades are a sequence of integers, one a document")
    grades = np.asarray(y)
    if grades.ndim != 1:
        raise ValueError(f"y has shape {grades.shape}; grades are a sequence of integers, one a document")
    if not len(grades):
        return np.empty(0, dtype=np.int64)
    if grades.dtype.kind == "f":
        for i in np.flatnonzero(~np.isfinite(grades) | (grades != np.floor(grades)) | (np.abs(grades) > 2.0**62)):
            what = f"the grade of {document_name(int(i), query.ids)} is {grades[i]}"
            raise ValueError(f"y: {what}; grades are whole numbers >= 0: round or bin others")
    elif grades.dtype.kind not in "biu":
        kind = _kind(y[0] if isinstance(y, Sequence) else grades.flat[0])
        raise TypeError(f"y: grades must be integers, not {kind}: give the least relevant documents 0, better ones 1, 2, ...")
    return grades.astype(np.int64, order="C")


def _require_few(n_features: int) -> None:
    if n_features > MAX_FEATURES:
        raise ValueError(f"x has {n_features} features; at most {MAX_FEATURES} are accepted (online_rank.query.MAX_FEATURES)")


def _kind(value: Any) -> str:
    return f"of type {type(value).__name__}"
