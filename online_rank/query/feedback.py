"""Feedback on ranked queries: grades, or other kinds that only some rankers learn from."""

from collections.abc import Hashable, Sequence
from typing import Any

from online_rank.query.grades import as_grades


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
