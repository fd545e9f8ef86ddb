"""Decodes requests, each exactly once, and says what is wrong with others, where."""

import contextlib
import functools
import gc
import hashlib
import json
import re
import zlib
from collections.abc import Collection
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from online_rank.limits import MAX_REQUEST_DEPTH
from online_rank.query.columns import Columns
from online_rank.serving.clock import CLOCK
from online_rank.serving.kinds import EXAMPLES
from online_rank.serving.messages import BINARY_BEGINS, IN_COLUMNS, Command, DocsWithoutNull, Id, Message, Query, Rank
from online_rank.serving.vectors import documents_of, width_of

_COLON = ord(":")
#: Stands between what waits with a query and its request: no JSON has this character outside of a text, nor as it is in one.
_WAITS = "\x1e"
DAY = 86_400.0


class RequestError(ValueError):
    """A request is not a message of the protocol; `query_id` is the id in it, if it has one."""

    def __init__(self, message: str, query_id: str | int | None = None) -> None:
        super().__init__(message)
        self.query_id = query_id


#: The fields of each kind: those that it must have, and all.
_FIELDS = {
    kind: (
        frozenset(field.name for field in msgspec.structs.fields(kind) if field.required),
        frozenset(kind.__struct_fields__),
    )
    for kind in EXAMPLES
}
_KINDS_SHOWN = ", ".join(
    " and ".join(
        [
            *sorted(needed & {"id"}),
            *["docs (or runs or columns)"] * issubclass(kind, Query),
            *sorted(needed - {"id"}),
        ]
    )
    for kind, (needed, _) in _FIELDS.items()
)
_TYPES = {field.name: field.type for kind in EXAMPLES for field in msgspec.structs.fields(kind)}


def _any_with(types: dict[str, Any]) -> msgspec.json.Decoder[Any]:
    """Has the fields of all kinds, none of which it must have: the kind of a request is known once it is decoded."""
    fields = [(name, of | UnsetType, UNSET) for name, of in types.items()]
    return msgspec.json.Decoder(msgspec.defstruct("Request", fields, forbid_unknown_fields=True))


#: `_QUICK` refuses features that are null: they are rare, and to look for them takes a tenth of the time of decoding. It leaves
#: rows as a text, which may be read without an object for each number.
_ANY, _QUICK = _any_with(_TYPES), _any_with({**_TYPES, "docs": DocsWithoutNull, "rows": msgspec.Raw})
_SORTED = msgspec.json.Encoder(order="sorted")


def read(request: bytes) -> Message | Command:
    """Decode a request.

    Parameters
    ----------
    request
        JSON in UTF-8, or a query in binary (`messages.BINARY`).

    Raises
    ------
    RequestError
        It is not JSON, is of another size than its head says, has an object with the same key twice, or is not of any kind. The
        message names what is wrong.

    Examples
    --------
    >>> read(b'{"id": "q1", "grades": {"a": 2, "b": 0}}').grades
    {'a': 2, 'b': 0}
    >>> read(b'{"id": "q1", "grades": {"a": 2, "b": "0"}}')
    Traceback (most recent call last):
        ...
    online_rank.serving.reading.RequestError: grades['b'] is "0": expected `int`, got `str` (`{document: grade}` ...
    """
    fields = _in_binary(request) if request.startswith(BINARY_BEGINS) else _fields(_ANY, request)
    kind = _kind_with(frozenset(fields))
    if kind is None:
        raise _of_no_kind(fields, fields.get("id"))
    return kind(**fields)


def read_to_rank(request: bytes) -> Rank | None:
    """Decode a request to rank; None for anything else, and for what is no request."""
    try:
        message = read(request)
    except RequestError:
        return None
    return message if isinstance(message, Rank) else None


def _in_binary(request: bytes) -> dict[str, Any]:
    """The fields of a request in binary, whose rows are a view (m, d) of its bytes: nothing is allocated for them."""
    begin, end = len(BINARY_BEGINS), request.find(b"\n", len(BINARY_BEGINS))
    if end < 0:
        raise RequestError("a request in binary is the line float32, JSON on one line, and the bytes of the values")
    fields = _fields(_ANY, request[begin:end])
    missing = IN_COLUMNS - {"rows"} - fields.keys()
    if missing or "rows" in fields:
        wrong = f"lacks {min(missing)}" if missing else "has rows"
        raise RequestError(
            f"the head of a request in binary has features and documents, not rows; this one {wrong}", fields.get("id")
        )
    vectors = fields.pop("vectors", {})
    shape = len(fields["documents"]), width_of(fields["features"], vectors)
    n_bytes, expected = len(request) - end - 1, 4 * shape[0] * shape[1]
    if n_bytes != expected:
        raise RequestError(
            f"rows has {n_bytes} bytes; {shape[0]} documents of {shape[1]} values, 4 bytes each, are {expected}",
            fields.get("id"),
        )
    rows = np.frombuffer(request, "<f4", offset=end + 1).reshape(shape)
    if not vectors:
        fields["rows"] = rows
        return fields
    features, documents = fields.pop("features"), fields.pop("documents")
    if len({*documents}) < len(documents) or len({*features}) < len(features):
        raise RequestError("features or documents has a name twice", fields.get("id"))
    fields["docs"] = dict(zip(documents, documents_of(rows, features, vectors), strict=True))
    return fields


def text_of(request: bytes, remembered: dict[str, list[float]] | None = None) -> str:
    """A request as a text, which journals and files keep, with what waits with its query (`Block.remembered`), if anything.

    `request_of` and `remembered_in` are the inverses.
    """
    text = request.decode("latin-1" if request.startswith(BINARY_BEGINS) else "utf-8")
    return f"{msgspec.json.encode(remembered).decode()}{_WAITS}{text}" if remembered else text


def request_of(text: str) -> bytes:
    """The request of which `text_of` made a text."""
    if text.startswith("{") and _WAITS in text:
        text = text.partition(_WAITS)[2]
    return text.encode("latin-1" if text.startswith(BINARY_BEGINS.decode()) else "utf-8")


def remembered_in(text: str) -> dict[str, list[float]] | None:
    """What waits with the query of a text; None for nothing. Raises ValueError for a damaged one."""
    if not (text.startswith("{") and _WAITS in text):
        return None
    try:
        return msgspec.json.decode(text.partition(_WAITS)[0], type=dict[str, list[float]])
    except msgspec.DecodeError as error:
        raise ValueError(f"what waits with a query is damaged: {error}") from None


def read_as(kind: type[Any], request: bytes) -> Any:
    """Decode a request of one type. Raises RequestError as `read`."""
    return kind(**_fields(msgspec.json.Decoder(kind), request))


def _fields(decoder: msgspec.json.Decoder[Any], request: bytes) -> dict[str, Any]:
    """The fields that a request has, checked. Raises RequestError."""
    # Collecting garbage would find nothing and take longer than decoding. It continues by one call in C, chosen before, so
    # that no interrupt can come in between.
    go_on = gc.enable if gc.isenabled() else gc.isenabled
    has_null = False
    try:
        gc.disable()
        try:
            found = (_QUICK if decoder is _ANY else decoder).decode(request)
            if decoder is _ANY and found.rows is not UNSET:
                found.rows = _numbers(found)
        except msgspec.ValidationError:
            found, has_null = decoder.decode(request), decoder is _ANY
    except RecursionError:
        raise _too_deep() from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        try:
            refused = _refused(decoder, request, error)
        except RecursionError:
            refused = _too_deep()
        raise refused from None
    finally:
        go_on()
    fields = {name: value for name, value in msgspec.structs.asdict(found).items() if value is not UNSET}
    _require_distinct(fields, request)
    if has_null:  # A feature that is null is missing.
        for document in fields.get("docs", {}).values():
            for name in [name for name, value in document.items() if value is None]:
                del document[name]
    return fields


def _numbers(found: Any) -> np.ndarray:
    """The rows of a request whose rows are a text. Raises ValidationError if they have to be decoded."""
    is_whole = found.features is not UNSET and found.documents is not UNSET
    rows = Columns.numbers_in(memoryview(found.rows), found.features, found.documents) if is_whole else None
    if rows is None:
        raise msgspec.ValidationError
    return rows


def _require_distinct(fields: dict[str, Any], request: bytes) -> None:
    """Raise RequestError if an object has a key twice; the decoder keeps the last value.

    Every pair has a colon, so if there are as many pairs as colons, none was lost.
    """
    meta, n = fields.get("meta"), len(fields)
    if meta is not None:
        n += _pairs_in(meta, MAX_REQUEST_DEPTH - 1)
    for value in fields.values():
        if type(value) is dict and value is not meta:
            n += len(value)
    if "docs" in fields:
        n += sum(map(len, fields["docs"].values()))
    if "runs" in fields:
        n += sum([len(run) for run in fields["runs"].values() if type(run) is dict])
    if n == np.count_nonzero(np.frombuffer(request, np.uint8) == _COLON):  # `bytes.count` takes five times as long.
        return
    # Colons outside of texts: without escaped quotes, every second part between quotes is a text.
    if n != b"".join(re.sub(rb"\\.", b"", request).split(b'"')[::2]).count(b":"):
        json.loads(request, object_pairs_hook=_without_repeats)


def _pairs_in(value: Any, levels: int) -> int:
    """How many pairs the objects in a value have. Raises RequestError for too many levels."""
    if type(value) is not dict and type(value) is not list:
        return 0
    if not levels:
        raise _too_deep()
    inner = value.values() if type(value) is dict else value
    return len(value) * (type(value) is dict) + sum([_pairs_in(each, levels - 1) for each in inner])


def _too_deep() -> RequestError:
    return RequestError(f"it is nested deeper than {MAX_REQUEST_DEPTH} levels")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise RequestError(f"{twice[:100]!r} stands twice in an object")
    return found


@functools.lru_cache(1024)
def _kind_with(names: frozenset[str]) -> type[Message] | type[Command] | None:
    """The kind of request that has these fields."""
    for kind, (needed, known) in _FIELDS.items():
        if needed <= names <= known and (not issubclass(kind, Query) or _has_documents(names)):
            return kind
    return None


def _has_documents(names: frozenset[str]) -> bool:
    """Whether fields are documents in one form: `docs`, `runs` or both, or columns."""
    others = names & {"docs", "runs"}
    return not others if names >= IN_COLUMNS else bool(others) and names.isdisjoint(IN_COLUMNS)


def _of_no_kind(names: Collection[str], query_id: Any) -> RequestError:
    found = ", ".join(name[:20] for name in list(names)[:5]) or "none"
    columns = "; columns are features, documents and rows, in place of docs and runs" * (not IN_COLUMNS.isdisjoint(names))
    return RequestError(f"a request has the fields {_KINDS_SHOWN}; this one has {found}{columns}", query_id)


def _refused(decoder: msgspec.json.Decoder[Any], request: bytes, error: Exception) -> RequestError:
    """The error of a request that cannot be decoded, with its place by the names of documents and features."""
    try:
        request.decode()
        fields = msgspec.json.decode(request, type=dict[str, msgspec.Raw])
        if not isinstance(error, msgspec.ValidationError):
            raise error
    except (msgspec.DecodeError, UnicodeDecodeError) as malformed:
        return RequestError(f"not a JSON object: {malformed}")
    query_id = None
    with contextlib.suppress(msgspec.DecodeError):
        query_id = msgspec.json.decode(fields.get("id", b"null"), type=Id)
    what, _, path = str(error).partition(" - at `$")
    if not path:
        return _of_no_kind(fields, query_id) if decoder is _ANY else RequestError(what)
    place: list[Any] = []
    inside: Any = fields
    for name, key in re.findall(r"\.(\w+)|\[([.\d]+)\]", path):
        if key.isdigit():
            step: Any = int(key)
            inside = msgspec.json.decode(inside, type=list[msgspec.Raw])[step]
        else:
            entries = [(name, fields[name])] if name else [*msgspec.json.decode(inside, type=dict[str, msgspec.Raw]).items()]
            while len(entries) > 1:
                half = entries[: len(entries) // 2]
                entries = half if _is_refused(decoder, place, dict(half)) else entries[len(half) :]
            ((step, inside),) = entries
        place.append(step)
    where = "".join(f"[{step[:100]!r}]" if type(step) is str else f"[{step}]" for step in place[1:])
    if place[0] == "rows":
        where += _in_words(place[1:], fields)
    value, meaning = bytes(inside)[:40].decode(errors="replace"), _meanings(decoder.type)[place[0]]
    return RequestError(f"{place[0]}{where} is {value}: {what[:1].lower()}{what[1:]} ({meaning})", query_id)


def _in_words(place: list[int], fields: dict[str, msgspec.Raw]) -> str:
    """The document, and the feature, of a place in rows, as far as a refused request has them."""
    names = []
    for what, field, k in zip(("document", "feature"), ("documents", "features"), place, strict=False):
        with contextlib.suppress(msgspec.DecodeError, KeyError, IndexError):
            names.append(f"{what} {msgspec.json.decode(fields[field], type=list[str])[k][:100]!r}")
    return f" ({', '.join(names)})" if names else ""


def _meanings(kind: Any) -> dict[str, str]:
    """What the fields of a type mean."""
    _, schemas = msgspec.json.schema_components([kind])
    return {name: field["description"] for name, field in schemas[kind.__name__]["properties"].items()}


def _is_refused(decoder: msgspec.json.Decoder[Any], place: list[Any], entries: dict[str, Any]) -> bool:
    """Whether a request with only these entries in that place is refused."""
    for name in reversed(place):
        entries = {name: entries}
    try:
        decoder.decode(msgspec.json.encode(entries))
    except msgspec.ValidationError:
        return True
    return False


def digest_of(message: Any) -> int:
    """A digest of the feedback in a message, by which repeated feedback is distinguished from other feedback.

    Examples
    --------
    >>> repeated = read(b'{"grades": {"b": 1, "a": 0}, "id": 1, "ts": 5}')
    >>> digest_of(read(b'{"id": 1, "grades": {"a": 0, "b": 1}}')) == digest_of(repeated)
    True
    """
    feedback, ungraded = message.feedback
    return zlib.crc32(_SORTED.encode((feedback, None if ungraded is UNSET else ungraded)))


class Evidence(NamedTuple):
    """The day of feedback, in UTC, and digests of the session and the user that give it: no name is kept."""

    day: int
    keys: tuple[str, ...]


#: The fields that say who gives feedback.
GIVERS = "session", "user"
#: The evidence of feedback that names no session and no user.
NO_EVIDENCE = Evidence(0, ())


def evidence_of(message: Any, at: float | None) -> Evidence:
    """The evidence in feedback of a time."""
    if message.session is UNSET and message.user is UNSET:
        return NO_EVIDENCE
    given = [(kind, name) for kind in GIVERS if (name := getattr(message, kind)) is not UNSET]
    keys = tuple([evidence_key(kind, name) for kind, name in given])
    return Evidence(int((CLOCK.now() if at is None else at) // DAY), keys)


def evidence_key(kind: str, name: Any) -> str:
    """The digest of a session or a user that gives feedback."""
    return hashlib.blake2b(f"{kind} {name}".encode(errors="surrogatepass"), digest_size=12).hexdigest()
