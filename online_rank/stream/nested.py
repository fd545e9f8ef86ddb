"""Click logs as applications write them: a JSON object for each list, with its hits and the clicks on them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from online_rank.stream.objects import objects_of
from online_rank.stream.roles import recognised
from online_rank.stream.source import ReadError, Text, name_of
from online_rank.stream.tables import of_dicts

#: Names of a hit's id, if it has none of the common names of a document.
_ID = "id"


class NestedLog:
    """Lists of hits as a frame of rows, a document each, with the columns `query`, `document`, `position` and `click`.

    Other fields of a list, such as its text or its user, are columns that all of its rows share; other fields of a hit are
    columns, too, and count before the list's. A list without a common name of a query is called by its number. A hit is at its
    position, if it has a number with a common name of one, and otherwise at its place in the list of hits.

    Parameters
    ----------
    sources
        Files of JSON, an object a line or in an array.
    hits
        The field with the list as displayed: ids, or objects with an id.
    clicked
        The field with the ids of the documents that were clicked; a list without it has no clicks.
    query, document, position
        The fields of a list's id, and of a hit's id and position; None: common names.

    Raises
    ------
    ReadError
        No list has these fields, or a hit or a click is malformed; the error names the line.

    Examples
    --------
    >>> from io import BytesIO
    >>> from online_rank.stream.nested import NestedLog
    >>> line = b'{"text": "tea", "hits": [{"id": "a", "price": 2}, {"id": "b", "price": 3}], "clicks": ["b"]}'
    >>> NestedLog([BytesIO(line)], "hits", "clicks").to_arrow().column("click").to_pylist()
    [0.0, 1.0]
    """

    #: The format of the files.
    form = "JSON lines, a list of hits each"

    def __init__(
        self,
        sources: Sequence[Any],
        hits: str,
        clicked: str,
        query: str | None = None,
        document: str | None = None,
        position: str | None = None,
    ) -> None:
        self.name = ", ".join(map(name_of, sources))
        self.schema: Mapping[str, Any] = {}
        self._places: list[str] = []
        fields = _Fields(hits, clicked, query, document, position)
        rows, met = [], set[str]()
        for number, (where, record) in enumerate(_objects(sources)):
            met.update(record)
            for row in _rows(record, fields, number, where):
                rows.append(row)
                self._places.append(where)
        if missing := [repr(name) for name in (hits, clicked) if name not in met]:
            there = ", ".join(map(repr, sorted(met)[:10]))
            raise ReadError(f"{self.name}: no list has the field {' and '.join(missing)}; there are {there}")
        if not rows:
            raise ReadError(f"{self.name}: no list has a hit")
        self._table = of_dicts(rows, self.name)

    def place(self, row: int) -> str:
        """The file and the line of a row, counted from 1, for messages."""
        return self._places[row - 1]

    def to_arrow(self) -> Any:
        """The rows."""
        return self._table


def _objects(sources: Sequence[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for source in sources:
        text = Text(source)
        try:
            yield from objects_of(text)
        finally:
            text.close()


class _Fields(NamedTuple):
    """The names of fields: of a list, and of a hit; None for common names."""

    hits: str
    clicked: str
    query: str | None
    document: str | None
    position: str | None


def _rows(record: Mapping[str, Any], names: _Fields, number: int, where: str) -> Iterator[dict[str, Any]]:
    """The rows of a list."""
    hits, clicked = names.hits, names.clicked
    shown, clicks = record.get(hits) or [], record.get(clicked) or []
    for name, value in ((hits, shown), (clicked, clicks)):
        if not isinstance(value, list):
            raise ReadError(f"{where}: {name} is of type {type(value).__name__}; it is a list")
    about = {name: value for name, value in record.items() if not isinstance(value, list | dict)}
    query = names.query or recognised(about, "query", ())
    if query is not None and query not in about:
        raise ReadError(f"{where}: no field {query!r}; there are {', '.join(map(repr, about))}")
    about = {"query": number if query is None else about.pop(query)} | about
    documents = [_document(hit, names.document, f"{where}: hit {i}") for i, hit in enumerate(shown, start=1)]
    chosen = {str(_document(click, names.document, f"{where}: click {i}")[0]) for i, click in enumerate(clicks, start=1)}
    if others := sorted(chosen - {str(document) for document, _ in documents}):
        if hits not in record:
            raise ReadError(f"{where}: no field {hits!r}; there are {', '.join(map(repr, record))}")
        raise ReadError(f"{where}: {clicked} has {others[0]!r:.60}, which is not among {hits}")
    places = [_position(fields, names.position, f"{where}: hit {i}") for i, (_, fields) in enumerate(documents, start=1)]
    if names.position is None and all(place is None for place in places):
        places = [*range(1, len(documents) + 1)]
    for position, (document, fields) in zip(places, documents, strict=True):
        own = {"query": about["query"], "document": document, "position": position, "click": float(str(document) in chosen)}
        yield about | fields | own


def _position(fields: dict[str, Any], named: str | None, where: str) -> Any:
    """The position of a hit, taken from its fields; None without one. Raises ReadError without the field that was named."""
    name = named or recognised(fields, "position", ())
    if named is not None and named not in fields:
        raise ReadError(f"{where} has no field {named!r}; there are {', '.join(map(repr, fields))}")
    if name is None or (named is None and type(fields[name]) not in (int, float)):
        return None
    return fields.pop(name)


def _document(hit: Any, named: str | None, where: str) -> tuple[Any, dict[str, Any]]:
    """The id of a hit, and its other fields. Raises ReadError without an id."""
    if isinstance(hit, str | int) and not isinstance(hit, bool):
        return hit, {}
    if not isinstance(hit, dict):
        raise ReadError(f"{where} is of type {type(hit).__name__}; it is an id, or an object with one")
    name = named or recognised(hit, "document", ()) or _ID
    if hit.get(name) is None:
        raise ReadError(f"{where} has no id: it has {', '.join(map(repr, hit)) or 'nothing'}")
    fields = {key: value for key, value in hit.items() if key != name and not isinstance(value, list | dict)}
    return hit[name], fields
