"""Rankings that another process made with a model of a service: the queries wait here for their feedback."""

import json
import math
import struct
from binascii import a2b_base64, b2a_base64
from typing import Any

import msgspec
from msgspec import UNSET

from online_rank.base.undo import all_or_nothing
from online_rank.feedback import Impression
from online_rank.query import Block
from online_rank.serving import ranking, windows
from online_rank.serving.messages import BINARY_BEGINS, Elsewhere, Rank
from online_rank.serving.outcomes import Outcome, Reply
from online_rank.serving.protocol import RankingService
from online_rank.serving.queries import query_of
from online_rank.serving.reading import read, remembered_in, request_of, text_of

_DECODER = msgspec.json.Decoder(list[Elsewhere])


def rankings_in(body: bytes) -> list[Elsewhere]:
    """The rankings in a request, a list of `Elsewhere` as JSON. Raises ValueError."""
    try:
        return _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not a list of rankings: {error}") from None


def taken(service: RankingService, message: Elsewhere) -> Reply:
    """Let a query wait that was ranked elsewhere. One that is refused changes nothing, and raises nothing.

    One that comes again takes the place of the first, and one that was learned already does not wait again.
    """
    query_id: Any = None
    try:
        text = _text(message.request)
        asked: Any = read(request_of(text))
        query_id = getattr(asked, "id", None)
        if not isinstance(asked, Rank):
            raise ValueError("request is not one to rank a query")
        reply = _taken(service, message, asked, text)
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        return Reply({"id": query_id, "error": str(error) or type(error).__name__})
    alone = service.plan is None and service.challenge is None
    return reply if alone else windows.with_what_follows(service, reply)


def _text(request: msgspec.Raw) -> str:
    """A request of `message_of`, as the journal keeps it. Raises ValueError."""
    content = bytes(request)
    if not content.startswith(b'"'):
        return text_of(content)
    text = msgspec.json.decode(content, type=str)
    return text if text.startswith("{") else text_of(a2b_base64(text))


def _floats(scores: list[float] | str) -> list[float]:
    """The scores of a message. Raises ValueError."""
    if not isinstance(scores, str):
        return scores
    content = a2b_base64(scores, strict_mode=True)
    if len(content) % 8:
        raise ValueError("scores are not 64-bit floats in base64")
    return [*struct.unpack(f"<{len(content) // 8}d", content)]


def _taken(service: RankingService, message: Elsewhere, asked: Rank, text: str) -> Reply:
    own, now = service._times(None if message.ts is UNSET else message.ts, None)
    query, text = _remembering(service, query_of(service.needs, asked, n_bytes=len(text)), text, own)
    ids, scores = query.ids or (), _floats(message.scores)
    if len(scores) != query.n_documents or not all(map(math.isfinite, scores)):
        raise ValueError(f"scores must be {query.n_documents} finite numbers, in the order of the documents")
    shown = None
    if message.draw is not UNSET:
        if not service.draws:
            raise ValueError("draw: the model of this service draws no lists")
        shown = Impression.from_dict(message.draw)
        unknown = {*shown.page, *shown.held_back} - {*ids}
        if unknown:
            raise ValueError(f"draw has documents that the query does not have: {str(min(unknown, key=str))[:100]!r}")
    size = ranking.room_for(service, query, text)
    with all_or_nothing(service) as changes:
        reply = ranking.waits(service, changes, asked, query, text, scores, shown, own, now, size=size, answer={"id": asked.id})
    service._pending.spill()
    return reply


def _remembering(service: RankingService, query: Block, text: str, at: float) -> tuple[Block, str]:
    """A query with what waits with it where models remember, as it came or else as it is here, and its text."""
    given = remembered_in(text)
    here = ranking.scored(service, query, at)[0] if service.needs.remembers else query
    if given is None or here.remembered is None:
        return here, text_of(request_of(text), here.remembered)
    sizes = {name: len(values) for name, values in here.remembered.items()}
    if sizes != {name: len(values) for name, values in given.items()} or not all(
        math.isfinite(value) for values in given.values() for value in values
    ):
        raise ValueError(f"what waits with the query is not what the model makes of it: {sizes}")
    return here._replace(remembered=given), text


def message_of(outcome: Outcome, version: str) -> bytes:
    """The message about a ranking that a service made, by its outcome, with a version of its model."""
    _, _, at, text, scores, drawn = outcome.waiting
    # Binary requests, and what waits with a query, are no JSON.
    if text.startswith(BINARY_BEGINS.decode()):
        # As a text of JSON each of its bytes would be looked at, and half of them escaped.
        content = b'"%b"' % b2a_base64(request_of(text), newline=False)
    else:
        content = text.encode() if remembered_in(text) is None else msgspec.json.encode(text)
    draw = json.loads(drawn) if drawn else UNSET
    # To write each as a decimal takes as long as the answer to the client.
    floats = b2a_base64(struct.pack(f"<{len(scores)}d", *scores), newline=False).decode()
    return msgspec.json.encode(Elsewhere(request=msgspec.Raw(content), scores=floats, draw=draw, ts=at, model=version))
