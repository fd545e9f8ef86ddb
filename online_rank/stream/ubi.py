"""User Behavior Insights (UBI 1.3), the standard of OpenSearch and others for queries and what users do with their results.

Files hold queries, events, or both, in any order: JSON lines, also as a bulk request or a dump of an index wraps them, or
tables, whose nested fields may be columns such as `event_attributes.object.object_id`.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from online_rank.query.embeddings import is_vector
from online_rank.query.times import PER_SECOND, RELATIVE, seconds_of_dates, seconds_of_text, unit_of
from online_rank.stream.objects import objects_of
from online_rank.stream.source import ReadError, Text, format_of, is_stdin, name_of, path_of
from online_rank.stream.tables import Batch, Table, of_dicts
from online_rank.stream.values import Faults, numbers_of
from online_rank.stream.vectors import IN_CONTEXT, json_vector

#: The columns of times, of texts, of sessions and of users.
TIME, TEXT, SESSION, USER = "time", "user_query", "session", "user"
#: What events are worth by default.
EVENTS = {"click": 1.0, "click_through": 1.0}

_SHOWN = "impression"
#: The fields of each key, the first that is not empty.
_KEYS = {TEXT: ("user_query",), SESSION: ("session_id",), USER: ("user_id", "client_id")}
_ATTRIBUTES = "query_attributes"
_OBJECT, _ORDINAL = "event_attributes.object", "event_attributes.position.ordinal"
#: Fields of an object that identify it.
_IDS = ("object_id", "object_id_field", "object_id_type", "internal_id")
_ROWS = 1 << 14
#: The number of first records, one of which has the fields of UBI.
_LOOKED_AT = 20
#: Milliseconds are below this.
_LARGEST = 1e15
#: Numbers as text, as csv has them.
_NUMBER = re.compile(r"-?\d+(\.\d*)?(e\+\d+)?", re.ASCII)
_PLURAL = {"event": "events", "query": "queries"}
_OF = {True: "text", False: "a number or a date"}


class UbiLog:
    """Lists and the events on them as a frame of event rows, a list after the other.

    Attributes
    ----------
    name : str
        The files.
    events : dict
        What the events in it are worth.
    lines : list of str
        What was left out or taken for something, with counts.
    """

    #: The format of the files.
    form = "UBI (User Behavior Insights)"

    def __init__(self, sources: Sequence[Any], events: Mapping[str, float] | None = None) -> None:
        self.name = ", ".join(map(name_of, sources))
        self.lines: list[str] = []
        self.events = {_SHOWN: 0.0, **(EVENTS if events is None else events)}
        self.schema: Mapping[str, Any] = {}
        self._places: list[str] = []
        self._table = _Joined(self, sources).table(self._places)

    def place(self, row: int) -> str:
        """The file and the line of a row, counted from 1, for messages."""
        return self._places[row - 1]

    def to_arrow(self) -> Any:
        """The rows."""
        return self._table


def is_ubi(sources: Sequence[Any]) -> bool:
    """Whether sources are UBI, by the fields of the first rows of the first one."""
    if not sources or isinstance(sources[0], UbiLog) or is_stdin(sources[0]) or hasattr(sources[0], "read"):
        return False
    try:
        return any(_kind(record) for record, _ in itertools.islice(_records(sources[0]), _LOOKED_AT))
    except (TypeError, ValueError):
        return False  # whoever reads it says what is wrong


class _Shown(NamedTuple):
    """An impression: where a document was shown, when, what is known of it, and its place in the files."""

    position: int
    time: float
    application: str
    features: dict[str, Any]
    where: str


class _Times:
    """The times of the records of one kind in one source, whose numbers have one unit.

    Attributes
    ----------
    unit : str
        The unit of numbers, once a date was among them: milliseconds in the standard.
    """

    def __init__(self) -> None:
        self.unit = ""
        self._are_texts: bool | None = None

    def seconds(self, value: Any, where: str) -> float:
        """A time in seconds: text in ISO 8601, a date, or a number. Raises ReadError."""
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            value = float(value)
        is_text = isinstance(value, str)
        if value is not None and self._are_texts is not None and is_text != self._are_texts:
            raise ReadError(f"{where}: timestamp {value!r:.60} is {_OF[is_text]}, and those before it are {_OF[not is_text]}")
        self._are_texts = is_text
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self._of_number(value, where)
        seconds = seconds_of_text(value) if isinstance(value, str) else seconds_of_dates(value)
        if seconds is None or seconds != seconds:
            what = f"timestamp {value!r:.60} is not a time" if is_text else f"timestamp is {value!r:.60}; it is a time"
            raise ReadError(f"{where}: {what} in ISO 8601" + ", or a number of milliseconds" * (not is_text))
        return seconds

    def _of_number(self, value: float, where: str) -> float:
        unit = unit_of(value)
        if unit == RELATIVE:
            if not abs(value) < _LARGEST:
                raise ReadError(f"{where}: timestamp is {value!r:.60}; it is a time in ISO 8601, or milliseconds")
            return value / PER_SECOND["ms"]
        self.unit = self.unit or unit
        if unit != self.unit:
            what = f"is a date in {unit}, and those before it are in {self.unit}: times have one unit"
            raise ReadError(f"{where}: timestamp {value:.17g} {what}")
        return value / PER_SECOND[unit]


class _Joined:
    """Queries and events of files, joined by the id of the query."""

    def __init__(self, log: UbiLog, sources: Sequence[Any]) -> None:
        self._log = log
        #: By the id of the query: its record; its impressions by document; its other events; its keys; its attributes.
        self._queries: dict[str, tuple[float | None, list[str], str]] = {}
        self._shown: dict[str, dict[str, _Shown]] = {}
        self._acts: dict[str, list[tuple[str, str, float, str]]] = {}
        self._keys: dict[str, dict[str, str]] = {}
        self._attributes: dict[str, dict[str, Any]] = {}
        self._count: Counter[str] = Counter()
        for source in sources:
            times = {"event": _Times(), "query": _Times()}
            for record, where in _records(source):
                kind = _kind(record)
                if kind is None:
                    raise ReadError(
                        f"{where}: neither a query nor an event of UBI: it has {', '.join(map(repr, [*record][:8]))}"
                    )
                if kind == "event":
                    self._add_event(record, where, times[kind])
                else:
                    time = None if record.get("timestamp") in (None, "") else times[kind].seconds(record["timestamp"], where)
                    query = self._note(record, where)
                    if query:
                        self._queries[query] = time, _hits(record, where), where
                        self._attributes[query] = _leaves(record, _ATTRIBUTES)
                    self._count["queries without an id"] += not query
            for kind, each in times.items():
                if each.unit not in ("", "ms"):
                    log.lines.append(f"{name_of(source)}: the times of its {_PLURAL[kind]} are in {each.unit}, not in ms")

    def _note(self, record: Mapping[str, Any], where: str) -> str:
        """Note the text, the session and the user of a query as far as a record has them; returns the id of the query."""
        query = _id(record.get("query_id"), where)
        keys = self._keys.setdefault(query, {})
        for name, fields in _KEYS.items():
            value = next((text for field in fields if (text := _id(record.get(field), where))), "")
            if value and keys.setdefault(name, value) != value and len(fields) == 1:
                self._count[f"values of {name} that differ from the first of their query"] += 1
        return query

    def _add_event(self, record: Mapping[str, Any], where: str, times: _Times) -> None:
        kind, query = _id(record["action_name"], where), _id(record.get("query_id"), where)
        document = _id(_at(record, f"{_OBJECT}.object_id"), where)
        if not query or not document:
            self._count["events of no query or no object"] += 1
            return
        if kind not in self._log.events:
            self._count[f"events {kind!r}, which have no value"] += 1
            return
        time = times.seconds(record.get("timestamp"), where)
        self._note(record, where)
        if kind != _SHOWN:
            self._acts.setdefault(query, []).append((document, kind, time, where))
            return
        position = _position(_at(record, _ORDINAL), where)
        if position is None:
            self._count["impressions without a position"] += 1
            return
        shown = self._shown.setdefault(query, {})
        before = shown.get(document)
        if before is not None and before.position != position:
            self._count["impressions of a document that their list shows elsewhere, earlier"] += 1
        if before is None or time < before.time:
            shown[document] = _Shown(position, time, _id(record.get("application"), where), _features(record), where)

    def table(self, row_places: list[str]) -> Any:
        """The rows as a table of Arrow, whose places in the files are added to a list. Raises ReadError without lists."""
        from_zero = {one.application for shown in self._shown.values() for one in shown.values() if one.position == 0}
        lists: list[tuple[float, list[tuple[dict[str, Any], str]]]] = []
        returned = 0
        for query in dict.fromkeys([*self._queries, *self._shown]):
            time, hits, where = self._queries.get(query, (None, [], ""))
            shown, acts = self._shown.get(query), self._acts.pop(query, [])
            if shown is None:
                places = {hit: place for place, hit in enumerate(hits, start=1)}
                returned += bool(hits)
            else:
                places = {document: one.position + (one.application in from_zero) for document, one in self._first(shown)}
            if not places:
                self._count["events of queries without a list"] += len(acts)
                continue
            if time is None:
                time = min([one.time for one in (shown or {}).values()] + [at for _, _, at, _ in acts], default=0.0)
            keys = {"query": query, **dict.fromkeys(_KEYS, ""), **self._keys[query], **self._vectors_of(query, shown or {})}
            rows = []
            for document in sorted(places, key=places.__getitem__):
                features, there = (shown[document].features, shown[document].where) if shown else ({}, where)
                row = {"document": document, "position": places[document], "click": _SHOWN, TIME: time}
                rows.append((keys | row | features, there))
            for document, kind, at, there in acts:
                if document in places:
                    row = {"document": document, "position": places[document], "click": kind, TIME: max(at, time)}
                    rows.append((keys | row, there))
                else:
                    self._count["events on documents that their list does not show"] += 1
            lists.append((time, rows))
        self._count["events of queries without a list"] += sum(map(len, self._acts.values()))
        if not lists:
            raise ReadError(f"{self._log.name}: no lists: neither events {_SHOWN!r} nor query_response_hit_ids")
        self._say(len(lists), returned, from_zero)
        every = [row for _, rows in sorted(lists, key=lambda one: one[0]) for row in rows]
        row_places += [there for _, there in every]
        return of_dicts([row for row, _ in every], self._log.name)

    def _vectors_of(self, query: str, shown: Mapping[str, _Shown]) -> dict[str, Any]:
        """The vectors among the attributes of a query, as columns, for the vectors of its documents that end in their names."""
        given = {name: vector for name, value in self._attributes.get(query, {}).items() if (vector := _as_vector(value))}
        names = (
            {name: None for one in shown.values() for name, value in one.features.items() if _as_vector(value)} if given else {}
        )
        return {IN_CONTEXT + name: given[last] for name in names if (last := name.rpartition(".")[2]) in given}

    def _first(self, shown: Mapping[str, _Shown]) -> Iterator[tuple[str, _Shown]]:
        """The documents of a list: at each position the first one that was shown there."""
        taken: set[int] = set()
        for document, one in sorted(shown.items(), key=lambda item: item[1].time):
            if one.position in taken:
                self._count["impressions at a position where their list shows another document, earlier"] += 1
                continue
            taken.add(one.position)
            yield document, one

    def _say(self, n: int, returned: int, from_zero: set[str]) -> None:
        say = self._log.lines.append
        for what, count in sorted(self._count.items()):
            if count:
                say(f"left out: {count:,} {what}")
        if returned:
            say(f"{returned:,} of {n:,} queries have no impressions: what the engine returned is taken as shown, in its order")
        if from_zero:
            where = f" in {', '.join(map(repr, sorted(from_zero)))}" if any(from_zero) else ""
            say(f"positions begin at 0{where}: 1 is added to each")


def _records(source: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """The records of a source, and the place of each; without what a bulk request or a dump wraps them in."""
    path, text, fmt = path_of(source), None, "frame"
    if path is not None or hasattr(source, "read"):
        text = Text(source)
        fmt = format_of(source, text.head)
    try:
        if text is not None and fmt == "json":
            for where, record in objects_of(text):
                if isinstance(record.get("_source"), dict):
                    record = record["_source"]
                if not (len(record) == 1 and isinstance(next(iter(record.values())), dict)):
                    yield record, where
            return
        table = Table(source, "csv" if fmt == "letor" else fmt, text, _ROWS)
        for batch in table.batches(()):
            numbers = _numbers(table, batch) if table.is_text else {}
            for i, record in enumerate(batch.rows.to_pylist()):
                yield record | {name: values[i] for name, values in numbers.items()}, batch.where(i)
    finally:
        if text is not None:
            text.close()


def _numbers(table: Table, batch: Batch) -> dict[str, list[float]]:
    """The columns of a text file that are numbers about an object. Raises ReadError for a value that is none."""
    names = [
        name for name, kind in table.kinds.items()
        if kind == "number" and name.startswith(_OBJECT + ".") and name.removeprefix(_OBJECT + ".") not in _IDS
    ]  # fmt: skip
    faults = Faults()
    numbers = {name: numbers_of(table.column(batch.rows, name), "number", faults, name).tolist() for name in names}
    if faults:
        row = min(faults)
        raise ReadError(f"{batch.where(row)}: {faults[row]}")
    return numbers


def _kind(record: Mapping[str, Any]) -> str | None:
    """The kind of a record, "event" or "query"; None for anything else."""
    if "action_name" in record and any(name.partition(".")[0] == "event_attributes" for name in record):
        return "event"
    return "query" if "query_id" in record and "user_query" in record else None


def _at(record: Any, path: str) -> Any:
    """A nested field, or the column with its whole name; None without it."""
    if path in record:
        return record[path]
    for name in path.split("."):
        record = record.get(name) if isinstance(record, dict) else None
    return record


def _id(value: Any, where: str) -> str:
    """An id or a text, empty if it is missing."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ReadError(f"{where}: {str(value)[:60]!r} is an id or a text of type {type(value).__name__}")
    # Integers with missing values among them are floats in tables.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _position(value: Any, where: str) -> int | None:
    """A position, None if it is missing."""
    if value is None or value == "" or value != value:
        return None
    try:
        if not isinstance(value, bool) and 0.0 <= (number := float(value)) == int(number):
            return int(number)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ReadError(f"{where}: {_ORDINAL} is {str(value)[:60]!r}; it is an integer >= 0")


def _hits(record: Mapping[str, Any], where: str) -> list[str]:
    """What the engine returned, in its order."""
    hits = record.get("query_response_hit_ids")
    if hits is not None and not isinstance(hits, list):
        raise ReadError(f"{where}: query_response_hit_ids is of type {type(hits).__name__}; it is a list of ids")
    return [*dict.fromkeys(hit for one in hits or () if (hit := _id(one, where)))]


def _features(record: Mapping[str, Any]) -> dict[str, Any]:
    """What an impression says of its object: values by their names, such as "object.price"."""
    return {
        f"object.{name}": value for name, value in _leaves(record, _OBJECT).items()
        if name not in _IDS and (isinstance(value, str | int | float) or is_vector(value))
    }  # fmt: skip


def _leaves(record: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The values below a nested field, by the rest of their names: of columns with whole names, and of objects."""
    found = {name.removeprefix(path + "."): value for name, value in record.items() if name.startswith(path + ".")}
    waiting = [("", _at(record, path) or {})]
    while waiting:
        before, fields = waiting.pop()
        for key, value in fields.items() if isinstance(fields, dict) else ():
            if isinstance(value, dict):
                waiting.append((f"{before}{key}.", value))
            else:
                found[before + key] = value
    return found


def _as_vector(value: Any) -> Any:
    """A list of numbers, also of a JSON list in text; None for anything else."""
    value = json_vector(value) if isinstance(value, str) else value
    return value if is_vector(value) else None
