"""Feedback on ranked queries: relevance grades, in every accepted form, or other kinds that only some rankers learn from."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from online_rank._kernels.codes import MAX_GRADE
from online_rank.query.blocks import as_array, document_name
from online_rank.query.labels import by_id, in_order

_INT64 = np.dtype(np.int64)
# Plain dicts first, since asking an abstract class takes longer.
_MAPPING = dict | Mapping
_REMEDY = "; online_rank.drop_ungraded(x, y, missing=0) counts it as 0, missing='skip' leaves it out"


class Feedback:
    """Feedback on one query other than a grade for each document, such as clicks; only some rankers learn from it."""

    __slots__ = ()


def as_feedback(y: Any, n_queries: int, n_documents: int, ids: Sequence[Hashable] | None = None) -> Any:
    """The feedback on queries as a block holds it.

    Parameters
    ----------
    y
        Grades in any form of `as_grades`; or `Feedback` on the only query; or a sequence of `Feedback`, one a query.
    n_queries, n_documents
        The numbers of queries and documents that it refers to.
    ids
        The ids of the documents, or None.

    Returns
    -------
    int64 grades (n_documents,), or a tuple of one `Feedback` a query.

    Raises
    ------
    TypeError, ValueError
        As `as_grades`; or there is not one `Feedback` for each query.
    """
    if isinstance(y, Feedback):
        each: tuple[Any, ...] = (y,)
    elif isinstance(y, list | tuple) and y and isinstance(y[0], Feedback):
        each = tuple(y)
    else:
        return as_grades(y, n_documents, ids)
    if len(kinds := [*dict.fromkeys(map(type, each))]) > 1:
        raise TypeError(f"y holds {kinds[0].__name__} and {kinds[1].__name__}; it is one {kinds[0].__name__} a query")
    if len(each) != n_queries:
        raise ValueError(f"y has the {type(each[0]).__name__} of {len(each)} queries, but x has {n_queries}")
    return each


def as_grades(y: Any, n_documents: int, ids: Sequence[Hashable] | None = None) -> np.ndarray:
    """The relevance grades of documents, in their order.

    Parameters
    ----------
    y
        A sequence of m integers in 0..`MAX_GRADE`, or `{document id: grade}` for documents with ids, as a pandas Series too.
    n_documents
        m, the number of documents.
    ids
        Their ids, or None.

    Returns
    -------
    int64 array of shape (m,). The range is not checked here: kernels do that, or `require_grades`.

    Raises
    ------
    TypeError
        Grades are not numbers, or are a dict while the documents have no ids.
    ValueError
        A grade is missing, superfluous or fractional, or there are not m of them.

    Examples
    --------
    >>> as_grades({"a": 2, "b": 0}, 2, ids=("b", "a"))
    array([0, 2])
    """
    # A view: another thread may change the shape and the type of the caller's array.
    view = y[...] if type(y) is np.ndarray else None
    if view is not None and view.dtype is _INT64 and view.ndim == 1:
        # A copy: kernels use checked grades as indices, and another thread may write to the caller's array.
        grades = view.copy()
    else:
        if view is not None:
            y = view
        elif type(y) is not dict:
            y = by_id("y", y, ids)
        if isinstance(y, _MAPPING):
            found: list[Any] | None = None
            if ids is not None and type(ids) is not range and len(y) == len(ids):
                try:
                    found = [*map(y.__getitem__, ids)]
                except KeyError:
                    found = None
            # There, what is wrong has a message.
            y = in_order("y", y, ids, "grade", _REMEDY) if found is None else found
        grades = _as_integers(y, ids)
    if len(grades) != n_documents:
        raise ValueError(f"y has {len(grades)} grades, but x has {n_documents} documents")
    return grades


def require_grades(y: np.ndarray, ids: Sequence[Hashable] | None = None) -> None:
    """Raise ValueError that names the first document whose grade is not in 0..`MAX_GRADE`."""
    bad = np.flatnonzero((y < 0) | (y > MAX_GRADE))
    if bad.size:
        i = int(bad[0])
        raise ValueError(
            f"y: the grade of {document_name(i, ids)} is {y[i]}; grades are integers from 0 to {MAX_GRADE}"
            + (
                "; online_rank.drop_ungraded(x, y, negative=0) counts it as 0, negative='skip' leaves it out"
                if y[i] < 0
                else ""
            )
        )


def _as_integers(y: Any, ids: Sequence[Hashable] | None) -> np.ndarray:
    """Grades as int64; whole floats are accepted."""
    if isinstance(y, str | bytes) or not (hasattr(y, "__len__") or hasattr(y, "__array__")):
        raise TypeError(f"y is of type {type(y).__name__}; grades are a sequence of integers, one a document")
    grades = np.asarray(y) if type(y) is list else as_array("y", y)
    if grades.dtype is _INT64 and grades.ndim == 1 and grades.flags.c_contiguous and not hasattr(y, "__array__"):
        return grades
    if grades.ndim != 1:
        raise ValueError(f"y has shape {grades.shape}; grades are a sequence of integers, one a document")
    if not len(grades):
        return np.empty(0, dtype=np.int64)
    if grades.dtype.kind == "f":
        for i in np.flatnonzero(~np.isfinite(grades) | (grades != np.floor(grades)) | (np.abs(grades) > 2.0**62)):
            what = f"the grade of {document_name(int(i), ids)} is {grades[i]}"
            raise ValueError(f"y: {what}; grades are whole numbers >= 0: round or bin others")
    elif grades.dtype.kind not in "biu":
        kind = type(y[0] if isinstance(y, Sequence) else grades.flat[0]).__name__
        raise TypeError(
            f"y: grades must be integers, not of type {kind}: give the least relevant documents 0, better ones 1, 2, ..."
        )
    return grades.astype(np.int64, order="C")
