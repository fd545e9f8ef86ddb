"""Vectors among the features of documents, and in the context of a query: embeddings of texts, pictures, users."""

import contextvars
import numbers
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank.limits import MAX_DIMENSIONS

__all__ = ["LENIENT", "VectorsMet", "as_vector", "checked_dimensions", "is_vector", "stacked", "without_vectors"]

#: Whether a vector of another length than those learned is missing, and counted, as in a service; otherwise it is an error.
LENIENT: contextvars.ContextVar[bool] = contextvars.ContextVar("LENIENT", default=False)

_ONE = (list, tuple)


class VectorsMet(TypeError):
    """A feature is a vector, and the reader takes numbers, texts, booleans and times."""


def is_vector(value: Any) -> bool:
    """Whether a value is a vector: a list, a tuple or an array of numbers, of one dimension and not empty.

    It looks at the first number alone: `as_vector` raises for others that are none.

    Examples
    --------
    >>> is_vector([0.5, 1]), is_vector(np.ones(3, np.float16)), is_vector(["new"]), is_vector([True]), is_vector([])
    (True, True, False, False, False)
    """
    kind = type(value)
    if kind is list or kind is tuple:
        if not value:
            return False
        first = value[0]
        return type(first) in (float, int) or (isinstance(first, numbers.Real) and not isinstance(first, bool | np.bool_))
    if kind is np.ndarray:
        return value.ndim == 1 and value.dtype.kind in "iuf" and len(value) > 0
    return isinstance(value, _ONE) and is_vector([*value[:1]])


def as_vector(what: str, value: Any) -> np.ndarray:
    """A vector as float32 (k,), without a copy if it is float32.

    Parameters
    ----------
    what
        How messages call it.
    value
        A list, a tuple or an array of numbers.

    Raises
    ------
    TypeError, ValueError
        It holds something else than numbers, NaN or infinity, or a number beyond float32; it is empty, or has more than
        `MAX_DIMENSIONS` dimensions.

    Examples
    --------
    >>> as_vector("context['embedding']", [3, 4.0])
    array([3., 4.], dtype=float32)
    """
    if not isinstance(value, np.ndarray):
        try:
            value = np.array(value)
        except ValueError:
            raise ValueError(f"{what} is ragged; a vector is a list of numbers") from None
    if value.dtype.kind not in "iuf":
        raise TypeError(f"{what} has {_odd(value)!r:.40}; a vector is a list of numbers")
    if value.ndim != 1 or not len(value):
        raise ValueError(f"{what} has shape {value.shape}; a vector is a list of numbers")
    if len(value) > MAX_DIMENSIONS:
        raise ValueError(f"{what} has {len(value)} dimensions; at most {MAX_DIMENSIONS} are accepted")
    vector = value
    if value.dtype != np.float32:
        with np.errstate(over="ignore"):
            vector = value.astype(np.float32)
    if not np.isfinite(vector).all():
        place = int(np.flatnonzero(~np.isfinite(vector))[0])
        raise ValueError(f"{what} has {value[place]} in dimension {place}; the numbers of vectors are finite and fit float32")
    return vector


def _odd(values: np.ndarray) -> Any:
    """The first value that is no number."""
    given = values.ravel().tolist()
    return next((x for x in given if isinstance(x, bool) or not isinstance(x, numbers.Real)), values.dtype)


def _document(i: int, ids: Any) -> str:
    # `blocks.document_name`, whose module reads contexts, which have vectors.
    return f"document {i if ids is None else repr(ids[i])}"


def stacked(
    name: Hashable, rows: Sequence[int], values: Sequence[Any], ids: Any, k: int | None = None, lenient: bool = False
) -> tuple[np.ndarray, np.ndarray, int]:
    """The vectors of one feature as float32 (n, k), the documents that have them, int64 (n,), and how many were left out.

    Parameters
    ----------
    name, ids
        The feature, and the ids of documents, for messages.
    rows, values
        The documents that have a value, by position, and the values; None is missing.
    k
        The length of the vectors; None for the length of the first.
    lenient
        Whether a vector that is none, or of another length, counts as missing. If not, it is an error.

    Raises
    ------
    TypeError, ValueError
        A value is no vector, or one of another length.

    Examples
    --------
    >>> D, rows, n_odd = stacked("embedding", [0, 2], [[1, 2], [3, 4]], None)
    >>> D.tolist(), rows.tolist(), n_odd
    ([[1.0, 2.0], [3.0, 4.0]], [0, 2], 0)
    """
    first = values[0] if len(values) else None
    if type(first) is np.ndarray and first.dtype.kind == "f" and k in (None, len(first)) and first.ndim == 1:
        shape = first.shape
        if len(first) <= MAX_DIMENSIONS and all(type(v) is np.ndarray and v.shape == shape for v in values):
            D = np.stack(values)
            D = D.astype(np.float32, copy=False) if D.dtype.kind == "f" else D
            if D.dtype == np.float32 and np.isfinite(D).all():
                return D, np.array(rows, dtype=np.int64), 0
    kept, vectors, n_odd = [], [], 0
    for i, value in zip(rows, values, strict=True):
        if value is None or (isinstance(value, float) and value != value):
            continue
        what = f"x: feature {name!r} of {_document(i, ids)}"
        try:
            if not is_vector(value) and not isinstance(value, np.ndarray):
                raise TypeError(f"{what} is {value!r:.40}, and a vector elsewhere")
            vector = as_vector(what, value)
            k = len(vector) if k is None else k
            if len(vector) != k:
                raise ValueError(f"{what} has {len(vector)} dimensions, and {k} elsewhere")
        except (TypeError, ValueError):
            if not lenient:
                raise
            n_odd += 1
            continue
        kept.append(i)
        vectors.append(vector)
    D = np.array(vectors, dtype=np.float32).reshape(len(vectors), k or 0)
    return D, np.array(kept, dtype=np.int64), n_odd


def without_vectors(
    documents: Sequence[Mapping[Hashable, Any]], known: Sequence[Hashable] = ()
) -> tuple[list[dict[Hashable, Any]], dict[Hashable, tuple[list[int], list[Any]]]]:
    """The documents without their vectors, and for each feature that is a vector the documents that have it, and its values.

    `known` are features that were vectors before: any value of them is taken for one.

    Examples
    --------
    >>> without_vectors([{"age": 1.0, "embedding": [1.0, 2.0]}, {"age": 2.0}])
    ([{'age': 1.0}, {'age': 2.0}], {'embedding': ([0], [[1.0, 2.0]])})
    """
    names = {*known}
    sequences = (list, tuple, np.ndarray)
    for x in documents:
        for name, value in x.items():
            if isinstance(value, sequences) and name not in names and is_vector(value):
                names.add(name)
    if not names:
        return [x if type(x) is dict else dict(x) for x in documents], {}
    found: dict[Hashable, tuple[list[int], list[Any]]] = {}
    for i, x in enumerate(documents):
        for name in names & x.keys():
            if x[name] is not None:
                rows, values = found.setdefault(name, ([], []))
                rows.append(i)
                values.append(x[name])
    rest = [{name: value for name, value in x.items() if name not in names} for x in documents]
    return rest, dict(sorted(found.items(), key=lambda item: str(item[0])))


def checked_dimensions(dimensions: Mapping[str, int] | None) -> dict[str, int] | None:
    """Declared lengths of vectors, a copy. Raises TypeError or ValueError for anything but `{vector: length}`."""
    if dimensions is None:
        return None
    if not isinstance(dimensions, Mapping):
        raise TypeError(f"dimensions is of type {type(dimensions).__name__}; it is {{vector: length}}, as {{'embedding': 256}}")
    for name, k in dimensions.items():
        if not isinstance(name, str):
            raise TypeError(f"dimensions has the name {name!r:.60} of type {type(name).__name__}; names of vectors are texts")
        arguments.integer(f"dimensions[{name!r}]", k, 1, MAX_DIMENSIONS)
    return dict(dimensions)
