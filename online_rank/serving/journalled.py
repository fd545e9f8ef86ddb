"""Outcomes and waiting queries in the form in which a journal keeps them."""

import json
from json.encoder import encode_basestring_ascii
from typing import Annotated, Any

import msgspec

from online_rank.serving.messages import Id
from online_rank.serving.outcomes import Outcome
from online_rank.storage.store import Change

#: As `json.dumps`.
_encode = json.JSONEncoder().encode

#: The outcomes after which feedback on an id comes too late.
_ENDS = ("learn", "teach", "close", "drop")

#: What precedes the request of a waiting query in the journal: its id, its size, its time, its scores, the draw.
_WAITING = msgspec.json.Decoder(tuple[Id, Annotated[int, msgspec.Meta(ge=0)], float | None, list[float], str | None])


def id_in_journal(query_id: str | int) -> str:
    """An id as JSON."""
    return encode_basestring_ascii(query_id) if type(query_id) is str else json.dumps(query_id)


def change_of(outcome: Outcome, now: float) -> Change:
    """The change of a request, in the form of the journal; with an id if feedback on it comes too late after this."""
    fields, query, learned = outcome.fields, b"", None
    if fields[0] in _ENDS:
        learned = id_in_journal(fields[1]), outcome.digest, now
    if outcome.number is not None:
        query = written(outcome.waiting)
    return Change(_encode(fields).encode() + b"\n" + outcome.feedback, outcome.number, query, learned)


def written(waiting: tuple[Any, ...]) -> bytes:
    """A waiting query, in the form of the journal."""
    query_id, size, at, text, scores, drawn = waiting
    return _encode((query_id, size, at, scores, drawn)).encode() + b"\n" + str(text).encode()


def parsed(query: bytes) -> tuple[Any, ...]:
    """A waiting query, in the form of an outcome. Raises ValueError for anything else."""
    head, _, text = query.partition(b"\n")
    try:
        query_id, size, at, scores, drawn = _WAITING.decode(head)
    except msgspec.MsgspecError as error:
        raise ValueError(f"a query that waits has an id, a size, a time or none, scores, and a draw or none: {error}") from None
    return query_id, size, at, text.decode(), scores, drawn
