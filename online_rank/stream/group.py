"""Rows of other libraries as queries."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

__all__ = ["group_rows"]


def group_rows(
    rows: Iterable[tuple[Mapping[Hashable, Any], Any]],
    query: Hashable,
    *,
    document: Hashable | None = None,
    at: Hashable | None = None,
) -> Iterator[tuple[Any, ...]]:
    """Group rows (x, y), as river's streams yield them, into queries: one row is a document with its grade.

    It reads one query at a time, so the rows of a query must follow each other. `online_rank.read` reads files and frames.

    Parameters
    ----------
    rows
        Yields (features of a document, grade), for example `river.stream.iter_csv(path, target="grade", converters=...)`.
    query
        Name of the feature with the id of the query. It is taken out of the features, like the next two.
    document
        Name of the feature with the id of the document; None for documents without ids.
    at
        Name of the feature with the time of the query, in seconds or as a datetime; None for none. The first row of a query
        counts.

    Yields
    ------
    (x, y), or (x, y, {"at": time}): what `evaluate.progressive` takes. With ids, x is `{id: features}` and y `{id: grade}`;
    without ids they are lists.

    Raises
    ------
    ValueError
        Two names are one, a row lacks one of them or an id, a document occurs twice in a query, or the rows of a query come in
        two places: within the last 1,000 queries.

    Examples
    --------
    >>> rows = [
    ...     ({"q": "shoes", "page": "a", "clicks": 3}, 0),
    ...     ({"q": "shoes", "page": "b", "clicks": 1}, 2),
    ...     ({"q": "hats", "page": "c", "clicks": 2}, 1),
    ... ]
    >>> for x, y in group_rows(rows, "q", document="page"):
    ...     print(x, y)
    {'a': {'clicks': 3}, 'b': {'clicks': 1}} {'a': 0, 'b': 2}
    {'c': {'clicks': 2}} {'c': 1}
    """
    names = [name for name in (query, document, at) if name is not None]
    if len({*names}) < len(names):
        raise ValueError(f"query, document and at are {', '.join(map(repr, names))}; they are different names")
    recent: dict[Any, None] = {}
    current, time = None, None
    documents: dict[Any, dict[Hashable, Any]] = {}
    grades: dict[Any, Any] = {}
    for i, (given, y) in enumerate(rows):
        x = dict(given)
        for name in names:
            if name not in x:
                raise ValueError(f"row {i} has no {name!r}; its names are {', '.join(map(repr, x))}")
            if x[name] is None or x[name] != x[name] or x[name] == "":
                raise ValueError(f"row {i}: {name!r} is missing")
        asked = x.pop(query)
        place = len(documents) if document is None else x.pop(document)
        moment = None if at is None else x.pop(at)
        if not documents or asked != current:
            if documents:
                yield _query(documents, grades, document is not None, time)
            if asked in recent:
                raise ValueError(f"row {i}: the rows of query {asked!r} do not follow each other; sort them by {query!r}")
            recent[asked] = None
            if len(recent) > _RECENT:
                del recent[next(iter(recent))]
            current, time, documents, grades = asked, moment, {}, {}
            place = 0 if document is None else place
        if place in documents:
            raise ValueError(f"row {i}: document {place!r} occurs twice in query {asked!r}")
        documents[place], grades[place] = x, y
    if documents:
        yield _query(documents, grades, document is not None, time)


#: Of how many queries it is remembered that they have passed.
_RECENT = 1000


def _query(documents: dict[Any, Any], grades: dict[Any, Any], named: bool, time: Any) -> tuple[Any, ...]:
    x, y = (documents, grades) if named else ([*documents.values()], [*grades.values()])
    return (x, y) if time is None else (x, y, {"at": time})
