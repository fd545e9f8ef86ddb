"""Outcomes and waiting queries in the form in which a journal keeps them."""

import json
from typing import Annotated, Any

import msgspec

from online_rank.serving.messages import Id
from online_rank.serving.outcomes import Outcome
from online_rank.storage.store import Change

#: The outcomes after which feedback on an id comes too late.
_ENDS = ("learn", "teach", "close", "drop")

#: What precedes the request of a waiting query in the journal: its id, its size, its time, its scores, the draw.
_WAITING = msgspec.json.Decoder(tuple[Id, Annotated[int, msgspec.Meta(ge=0)], float | None, list[float], str | None])


def is_end(outcome: Outcome) -> bool:
    """Whether feedback on a query comes too late after this."""
    return outcome.fields[0] in _ENDS


def change_of(outcome: Outcome, now: float) -> Change:
    """The change of a request, in the form of the journal."""
    fields = json.dumps(outcome.fields).encode()
    learned, query = (json.dumps(outcome.fields[1]), outcome.digest, now) if is_end(outcome) else None, b""
    if outcome.number is not None:
        query = written(outcome.waiting)
    return Change(fields + b"\n" + outcome.feedback, outcome.number, query, learned)


def written(waiting: tuple[Any, ...]) -> bytes:
    """A waiting query, in the form of the journal."""
    query_id, size, at, text, scores, drawn = waiting
    return json.dumps((query_id, size, at, scores, drawn)).encode() + b"\n" + str(text).encode()


def parsed(query: bytes) -> tuple[Any, ...]:
    """A waiting query, in the form of an outcome. Raises ValueError for anything else."""
    head, _, text = query.partition(b"\n")
    try:
        query_id, size, at, scores, drawn = _WAITING.decode(head)
    except msgspec.MsgspecError as error:
        raise ValueError(f"a query that waits has an id, a size, a time or none, scores, and a draw or none: {error}") from None
    return query_id, size, at, text.decode(), scores, drawn
