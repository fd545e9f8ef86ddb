"""The messages of the protocol. Each is one type, from which decoding, its checks, the description and the guide follow.

A request is of the kind whose fields it has. `read` decodes one, exactly once. Answers are dicts of the types below.
"""

import contextlib
import functools
import gc
import json
import re
import zlib
from collections.abc import Collection
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from online_rank.arguments import LATEST
from online_rank.limits import INT64_HIGH, INT64_LOW, MAX_DOCUMENTS, MAX_ID_LENGTH, MAX_REQUEST_DEPTH
from online_rank.query import Runs
from online_rank.query.grades import MAX_GRADE

__all__ = [
    "EXAMPLES",
    "Forget",
    "Message",
    "Query",
    "RequestError",
    "RollBack",
    "digest_of",
    "feedback_of",
    "guide",
    "read",
    "read_as",
]

_COLON = ord(":")


def _about(text: str) -> Meta:
    return Meta(description=text)


_Text = Annotated[str, Meta(max_length=MAX_ID_LENGTH)]
_Int64 = Annotated[int, Meta(ge=INT64_LOW, le=INT64_HIGH)]
_Id = Annotated[_Text | _Int64, _about("identifies one query")]
#: What a feature may be; a model may take fewer types.
_Feature = int | float | bool | str | list[str] | None
_Docs = Annotated[
    dict[str, dict[str, _Feature]],
    _about("the documents of the query: `{document: {feature: value}}`"),
    Meta(extra_json_schema={"maxProperties": MAX_DOCUMENTS}),
]
_Runs = Annotated[
    dict[str, dict[str, float] | list[tuple[str, float]]],
    _about("what retrievers returned, for models that fuse it: `{retriever: {document: score}}` or `... [[document, score]]`"),
]
_Context = Annotated[
    dict[str, _Text | _Int64 | float | bool | None],
    _about("what is known of the query itself, for models that look at it (`CrossFeatures`): `{name: value}`"),
]
_Explain = Annotated[tuple[str, str], _about("two documents: why the first scores higher or lower than the second")]
_Greedy = Annotated[bool, _about("true: rank by the scores, draw nothing, expect no feedback")]
_Grade = Annotated[int, Meta(ge=0, le=MAX_GRADE)]
_Grades = Annotated[dict[str, _Grade], _about("`{document: grade}` of all documents; of some, with `ungraded` or a window")]
# Versions of msgspec before 0.22 cannot describe one `Literal` of both types.
_Ungraded = Annotated[
    Annotated[Literal[0], Meta()] | Literal["skip"], _about("0 or `skip`: the other documents have grade 0, or are left out")
]
_Positive = Annotated[float, Meta(ge=0)]
_Clicks = Annotated[list[str] | dict[str, _Positive], _about("documents that were clicked, or `{document: engagement}`")]
_Event = Annotated[str, _about("a kind of event that was declared (`--event`); needs a feedback window")]
_Doc = Annotated[str, _about("the document that the event is about")]
_Value = Annotated[
    _Grade | Annotated[float, Meta(ge=0, le=MAX_GRADE)] | None,
    _about("what the event is worth, if not what its kind is; 0 takes it back"),
]
_Seconds = Annotated[float, Meta(gt=-LATEST, lt=LATEST)]
_Time = Annotated[
    _Seconds,
    _about("the time of the request in seconds since 1970 (of milliseconds, a thousandth); otherwise that of its arrival"),
]
_Meta = Annotated[Any, _about("anything; it is answered as it came, and is never a feature")]
_Cmd = Annotated[Literal["stats", "save"], _about("`stats` answers counts and figures, `save` writes a checkpoint")]
_Entry = Annotated[dict[str, str | _Int64 | bool], Meta(min_length=1, max_length=1)]


class Message(Struct, kw_only=True, forbid_unknown_fields=True):
    """A request about a query, of any kind."""

    id: _Id
    meta: _Meta | UnsetType = UNSET


class Query(Message, kw_only=True):
    """A request with the documents of a query: `docs`, `runs` or both."""

    docs: _Docs | UnsetType = UNSET
    runs: _Runs | UnsetType = UNSET
    context: _Context | UnsetType = UNSET

    def asked(self, null_is_missing: bool = False) -> Any:
        """The query, `{document: features}` or `Runs`; features that are null may count as missing."""
        docs: Any = self.docs or {}
        if null_is_missing:
            docs = {name: {key: value for key, value in each.items() if value is not None} for name, each in docs.items()}
        return docs if self.runs is UNSET else Runs(self.runs, docs)  # type: ignore[arg-type]


class Rank(Query, kw_only=True):
    """ranks the documents of a query, which then waits for its feedback"""

    greedy: _Greedy | UnsetType = UNSET
    ts: _Time | UnsetType = UNSET


class Explain(Query, kw_only=True):
    """says what each feature contributes to the difference between two scores"""

    explain: _Explain


class Teach(Query, kw_only=True):
    """learns a query that somebody else ranked, at once"""

    grades: _Grades
    ungraded: _Ungraded | UnsetType = UNSET
    ts: _Time | UnsetType = UNSET


class Grades(Message, kw_only=True):
    """learns the query from grades"""

    grades: _Grades
    ungraded: _Ungraded | UnsetType = UNSET
    ts: _Time | UnsetType = UNSET


class Clicks(Message, kw_only=True):
    """learns the query from clicks on the documents that were shown; with none of them, nothing was clicked"""

    clicks: _Clicks
    ts: _Time | UnsetType = UNSET


class Event(Message, kw_only=True):
    """adds an event to the feedback of a query"""

    event: _Event
    doc: _Doc
    value: _Value | UnsetType = UNSET
    ts: _Time | UnsetType = UNSET


class Command(Struct, kw_only=True, forbid_unknown_fields=True):
    """answers counts and figures, or writes a checkpoint"""

    cmd: _Cmd


#: An example of each kind of request, whose name is that of its type in small letters.
EXAMPLES: dict[type[Message] | type[Command], dict[str, Any]] = {
    Rank: {"id": "q1", "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}},
    Explain: {"id": "q1", "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}, "explain": ["a", "b"]},
    Teach: {"id": "q2", "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}, "grades": {"a": 0, "b": 2}},
    Grades: {"id": "q1", "grades": {"a": 0, "b": 2}},
    Clicks: {"id": "q1", "clicks": ["a"]},
    Event: {"id": "q1", "event": "purchase", "doc": "b", "ts": 1763000000},
    Command: {"cmd": "stats"},
}


class Forget(Struct, kw_only=True, forbid_unknown_fields=True):
    """what is to be forgotten, in one of the fields or several; names and values are compared as a whole"""

    ids: Annotated[list[_Id], _about("queries, waiting or learned")] | UnsetType = UNSET
    context: Annotated[_Entry, _about("queries with this entry, and features that `CrossFeatures` made")] | UnsetType = UNSET
    document: Annotated[str, _about("queries that have this document, and feedback on it")] | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.ids is UNSET and self.context is UNSET and self.document is UNSET:
            raise ValueError("the fields are ids, context and document, one of them or several")

    @property
    def entry(self) -> tuple[str, str] | None:
        """The entry of the context. A number is as good as its text, as in the names of features."""
        return next(((name, str(value)) for name, value in (self.context or {}).items()), None)


class RollBack(Struct, kw_only=True, forbid_unknown_fields=True):
    """which model is to be restored"""

    to: Annotated[str, _about("a day of which the model is kept; without it, the model before")] | UnsetType = UNSET


class Ranked(TypedDict):
    """a ranking"""

    id: _Id
    ranking: Annotated[list[str], _about("best first")]
    scores: Annotated[list[float], _about("of the documents in that order")]
    shown: NotRequired[Annotated[int, _about("how many of the first documents were drawn to be shown, to learn from clicks")]]
    meta: NotRequired[_Meta]


class Explanation(TypedDict):
    """why one document scores higher than another"""

    difference: Annotated[float, _about("the score of the first document less that of the second")]
    contributions: Annotated[list[tuple[str, float]], _about("of the features, largest first; they add up to the difference")]
    exact: Annotated[bool, _about("false: shares of a model whose scores are no sum over features, such as trees")]


class Explained(TypedDict):
    """an explanation"""

    id: _Id
    explanation: Explanation
    meta: NotRequired[_Meta]


class Learned(TypedDict):
    """what became of feedback"""

    id: _Id
    learned: bool
    loss: NotRequired[Annotated[float, _about("of the ranking that was served")]]
    duplicate: NotRequired[Annotated[bool, _about("it was learned before")]]
    late: NotRequired[Annotated[bool, _about("other feedback was learned before, or a challenge has ended")]]
    meta: NotRequired[_Meta]


class Accepted(TypedDict):
    """what became of feedback that is learned when its window ends"""

    id: _Id
    accepted: bool
    early: NotRequired[Annotated[bool, _about("its query has not come yet")]]
    late: NotRequired[Annotated[bool, _about("its window has ended: not learned")]]
    meta: NotRequired[_Meta]


class Done(TypedDict):
    """what a command did"""

    stats: NotRequired[dict[str, Any]]
    saved: NotRequired[bool]


class Found(TypedDict):
    """how much was forgotten"""

    waiting: Annotated[int, _about("queries that waited for feedback")]
    early: Annotated[int, _about("queries with feedback that had not come yet")]
    learned: Annotated[int, _about("ids that were remembered as learned")]
    features: Annotated[int, _about("features that lost their names")]


class Forgotten(TypedDict):
    """what was forgotten"""

    forgotten: Found
    note: NotRequired[Literal["nothing found"]]


class Stats(TypedDict):
    """counts and figures"""

    stats: Annotated[dict[str, Any], _about("since the first start of the service")]
    served: Annotated[dict[str, Any], _about("mean and interval of the measure that it names, over served rankings")]
    drifts: Annotated[list[int], _about("after how many rankings the loss rose")]
    inputs: Annotated[dict[str, Any], _about("unknown and missing features, and how far values have drifted, by a sample")]
    journal_bytes: int | None


class Ready(TypedDict):
    """whether all is well"""

    ok: bool
    seconds_ahead: NotRequired[Annotated[float, _about("how far stored times lie ahead of the clock, if they do")]]
    remedy: NotRequired[str]


class Refusal(TypedDict):
    """why a request was refused, or failed"""

    error: str
    request_id: Annotated[str, _about("in X-Request-Id, too: that of the request, or a new one")]


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
    " and ".join([*sorted(needed & {"id"}), *["docs (or runs)"] * issubclass(kind, Query), *sorted(needed - {"id"})])
    for kind, (needed, _) in _FIELDS.items()
)
#: Has the fields of all kinds, none of which it must have: the kind of a request is known once it is decoded.
_ANY = msgspec.json.Decoder(
    msgspec.defstruct(
        "Request",
        {
            field.name: (field.name, field.type | UnsetType, UNSET)
            for kind in EXAMPLES
            for field in msgspec.structs.fields(kind)
        }.values(),
        forbid_unknown_fields=True,
    )
)
_SORTED = msgspec.json.Encoder(order="sorted")


def read(request: bytes) -> Message | Command:
    """Decode a request.

    Parameters
    ----------
    request
        JSON in UTF-8.

    Raises
    ------
    RequestError
        It is not JSON, has an object with the same key twice, or is not of any kind. The message names what is wrong.

    Examples
    --------
    >>> read(b'{"id": "q1", "grades": {"a": 2, "b": 0}}').grades
    {'a': 2, 'b': 0}
    >>> read(b'{"id": "q1", "grades": {"a": 2, "b": "0"}}')
    Traceback (most recent call last):
        ...
    online_rank.serving.messages.RequestError: grades['b'] is "0": expected `int`, got `str` (`{document: grade}` ...
    """
    fields = _fields(_ANY, request)
    kind = _kind_with(frozenset(fields))
    if kind is None:
        raise _of_no_kind(fields, fields.get("id"))
    return kind(**fields)


def read_as(kind: type[Any], request: bytes) -> Any:
    """Decode a request of one type. Raises RequestError as `read`."""
    return kind(**_fields(msgspec.json.Decoder(kind), request))


def _fields(decoder: msgspec.json.Decoder[Any], request: bytes) -> dict[str, Any]:
    """The fields that a request has, checked. Raises RequestError."""
    # Collecting garbage would find nothing and take longer than decoding. What lets it go on is one call in C, chosen before,
    # so that no interrupt can come in between.
    go_on = gc.enable if gc.isenabled() else gc.isenabled
    try:
        gc.disable()
        found = decoder.decode(request)
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
    return fields


def _require_distinct(fields: dict[str, Any], request: bytes) -> None:
    """Raise RequestError if an object has a key twice, of which the decoder keeps the last.

    Every pair has a colon, so if there are as many pairs as colons, none was lost.
    """
    n = len(fields)
    for name, value in fields.items():
        if name == "meta":
            n += _pairs_in(value, MAX_REQUEST_DEPTH - 1)
        elif type(value) is dict:
            n += len(value)
            if name in ("docs", "runs"):
                n += sum([len(inner) for inner in value.values() if type(inner) is dict])
    if n == np.add.reduce(np.frombuffer(request, np.uint8) == _COLON):  # `bytes.count` takes five times as long.
        return
    # Colons outside of texts: where no quote is escaped, every second part between quotes is a text.
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
        if needed <= names <= known and (not issubclass(kind, Query) or names & {"docs", "runs"}):
            return kind
    return None


def _of_no_kind(names: Collection[str], query_id: Any) -> RequestError:
    found = ", ".join(name[:20] for name in list(names)[:5]) or "none"
    return RequestError(f"a request has the fields {_KINDS_SHOWN}; this one has {found}", query_id)


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
        query_id = msgspec.json.decode(fields.get("id", b"null"), type=_Id)
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
    value, meaning = bytes(inside)[:40].decode(errors="replace"), _meanings(decoder.type)[place[0]]
    return RequestError(f"{place[0]}{where} is {value}: {what[:1].lower()}{what[1:]} ({meaning})", query_id)


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


def feedback_of(message: Any) -> tuple[Any, int | str | None]:
    """The grades or clicks of a message, and what becomes of documents without a grade, if it says that."""
    given = message.clicks if isinstance(message, Clicks) else message.grades
    ungraded = getattr(message, "ungraded", UNSET)
    return given, None if ungraded is UNSET else ungraded


def digest_of(message: Any) -> int:
    """A digest of the feedback in a message, by which repeated feedback is distinguished from other feedback.

    Examples
    --------
    >>> repeated = read(b'{"grades": {"b": 1, "a": 0}, "id": 1, "ts": 5}')
    >>> digest_of(read(b'{"id": 1, "grades": {"a": 0, "b": 1}}')) == digest_of(repeated)
    True
    """
    return zlib.crc32(_SORTED.encode(feedback_of(message)))


def guide() -> str:
    """The kinds of requests and their fields, as tables for the guide."""
    lines = ["| kind | request | what it does |", "|---|---|---|"]
    lines += [f"| {kind.__name__.lower()} | `{json.dumps(example)}` | {kind.__doc__} |" for kind, example in EXAMPLES.items()]
    lines += ["", "| field | of | meaning |", "|---|---|---|"]
    for name, meaning in _meanings(_ANY.type).items():
        kinds = [kind.__name__.lower() for kind in EXAMPLES if name in kind.__struct_fields__]
        lines.append(f'| `"{name}"` | {", ".join(kinds)} | {meaning} |')
    return "\n".join(lines) + "\n"
