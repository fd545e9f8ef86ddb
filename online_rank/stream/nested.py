"""Click logs as applications write them: a JSON object for each list, with its hits and the clicks on them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from online_rank.stream.objects import objects_of
from online_rank.stream.roles import recognised
from online_rank.stream.source import ReadError, Text, name_of
from online_rank.stream.tables import of_dicts

#: Names of a hit's id, if it has none of the common names of a document.
_ID = "id"


class NestedLog:
    """Lists of hits as a frame of rows, a document each, with the columns `query`, `document`, `position` and `click`.

    Other fields of a list, such as its text or its user, are columns that all of its rows share; other fields of a hit are
    columns, too, and count before the list's. A list without a common name of a query is called by its number.

    Parameters
    ----------
    sources
        Files of JSON, an object a line or in an array.
    hits
        The field with the list as displayed: ids, or objects with an id.
    clicked
        The field with the ids of the documents that were clicked; a list without it has no clicks.

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

    def __init__(self, sources: Sequence[Any], hits: str, clicked: str) -> None:
        self.name = ", ".join(map(name_of, sources))
        self.schema: Mapping[str, Any] = {}
        self._places: list[str] = []
        rows, met = [], set[str]()
        for number, (where, record) in enumerate(_objects(sources)):
            met.update(record)
            for row in _rows(record, hits, clicked, number, where):
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


def _rows(record: Mapping[str, Any], hits: str, clicked: str, number: int, where: str) -> Iterator[dict[str, Any]]:
    """The rows of a list."""
    shown, clicks = record.get(hits) or [], record.get(clicked) or []
    for name, value in ((hits, shown), (clicked, clicks)):
        if not isinstance(value, list):
            raise ReadError(f"{where}: {name} is of type {type(value).__name__}; it is a list")
    about = {name: value for name, value in record.items() if not isinstance(value, list | dict)}
    query = recognised(about, "query", ())
    about = {"query": number if query is None else about.pop(query)} | about
    documents = [_document(hit, f"{where}: hit {i}") for i, hit in enumerate(shown, start=1)]
    chosen = {str(_document(click, f"{where}: click {i}")[0]) for i, click in enumerate(clicks, start=1)}
    if others := sorted(chosen - {str(document) for document, _ in documents}):
        raise ReadError(f"{where}: {clicked} has {others[0]!r:.60}, which is not among {hits}")
    for position, (document, fields) in enumerate(documents, start=1):
        row = {"document": document, "position": position, "click": float(str(document) in chosen)}
        yield about | fields | row


def _document(hit: Any, where: str) -> tuple[Any, dict[str, Any]]:
    """The id of a hit, and its other fields. Raises ReadError without an id."""
    if isinstance(hit, str | int) and not isinstance(hit, bool):
        return hit, {}
    if not isinstance(hit, dict):
        raise ReadError(f"{where} is of type {type(hit).__name__}; it is an id, or an object with one")
    name = recognised(hit, "document", ()) or (_ID if _ID in hit else None)
    if name is None or hit[name] is None:
        raise ReadError(f"{where} has no id: it has {', '.join(map(repr, hit)) or 'nothing'}")
    fields = {key: value for key, value in hit.items() if key != name and not isinstance(value, list | dict)}
    return hit[name], fields
