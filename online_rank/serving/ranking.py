"""A service ranks: the answer to a query, which then waits for its feedback."""

import contextlib
import functools
import json
from collections.abc import Iterable
from typing import Any

import numpy as np
from msgspec import UNSET

from online_rank.base import abilities_of, ranker_of
from online_rank.base.undo import all_or_nothing
from online_rank.feedback import Greedy, Impression
from online_rank.query import Block
from online_rank.rankers.fixed import FixedRanker
from online_rank.serving import messages
from online_rank.serving.challenge import seen_by
from online_rank.serving.declared import behind
from online_rank.serving.outcomes import Outcome, Reply
from online_rank.serving.queries import arranged, query_of, remembering
from online_rank.serving.reading import text_of
from online_rank.serving.service_state import ServiceState

#: Approximate memory of a waiting query without its text, and of each document without its features: names, scores, the draw.
_ENTRY = 500
_DOCUMENT = 200


def explain(state: ServiceState, message: messages.Explain, request: bytes) -> Reply:
    """Explain the difference between the scores of two documents. Nothing changes. Raises ValueError."""
    query = query_of(state.needs, message, n_bytes=len(request))
    if message.explain[0] == message.explain[1]:
        raise ValueError("explain must be two documents: [document, other document]")
    try:
        found = state.model.explain_one(seen_by(state.model, query), *message.explain)
    except (ValueError, TypeError):
        if (fitted := state.fitted(query)) is None:
            raise
        found = state.model.explain_one(seen_by(state.model, fitted), *message.explain)
    parts = [[str(name), value] for name, value in found.largest_first()]
    explanation = {"difference": found.difference, "contributions": parts, "exact": found.exact}
    return Reply({"id": message.id, "explanation": explanation})


def rank(state: ServiceState, message: messages.Rank, request: bytes, at: float, now: float) -> Reply:
    """Rank a query of a time `at` the time `now`. Raises ValueError."""
    needs = state.needs
    query, scores, seen = scored(state, query_of(needs, message, n_bytes=len(request)), at)
    lacking = needs.declared.lacking(message) if any(needs.declared) else {}
    without = set[Any]().union(*[lacking[name] for name in needs.declared.today if name in lacking])
    if without:
        scores = _behind(state, seen, scores, without)
    text = text_of(request, query.remembered)
    # Before anything is drawn, because a refused request must not change the next draw.
    size = room_for(state, query, text)
    pins = {} if message.pinned is UNSET and message.excluded is UNSET else _pins(message)
    draws = needs.draws
    if pins and not (draws or message.greedy is True):
        raise ValueError("pinned and excluded are for lists that are drawn, to learn from clicks; this service ranks by scores")
    if message.greedy is True:
        answer = arranged(message, scores, Greedy(None).show(scores, 0, **pins) if pins else None)
        return Reply(
            {name: value for name, value in answer.items() if name != "shown"} | _missing(lacking), missing=(*lacking,)
        )
    changes, only_counts = all_or_nothing(), not (draws or state.keeps_queries)
    if not only_counts:
        state._record(changes.log)
    with contextlib.nullcontext() if only_counts else changes:
        shown, n_shown = None, None
        if draws:
            ranker, challenge = ranker_of(state.model), state.challenge
            changes.undo_by(functools.partial(vars(ranker).update, {"_n_shown": ranker.n_shown}))
            if without:  # No evidence for a take-over: one of the two rankings is not known.
                shown = ranker.policy.show(scores, ranker.n_shown, ranker._confidence(), **pins)
                ranker.n_shown += 1
            else:
                shown = state.model.show_one(seen_by(state.model, seen), **pins)
            if challenge is not None and not without:
                shown = challenge.drafted(shown, state.model, seen, pins, state.fitted) or shown
            if challenge is not None and not without:
                challenge.count_list()
            n_shown = ranker.n_shown
        reply = waits(
            state, changes, message, query, text, [*scores.values()], shown, at, now, size=size,
            answer=arranged(message, scores, shown), n_shown=n_shown,
        )  # fmt: skip
    if state._find_learned is not None:
        state._pending.spill()
    if lacking:
        reply.answer.update(_missing(lacking))
        return reply._replace(missing=(*lacking,))
    return reply


def _missing(lacking: Iterable[str]) -> dict[str, list[str]]:
    """What an answer says of the declared inputs that its query lacks."""
    return {"missing": sorted(lacking)} if lacking else {}


def _behind(state: ServiceState, query: Block, scores: dict[Any, float], without: set[Any]) -> dict[Any, float]:
    """The scores of a query some of whose documents lack what the ranking of today needs, if that serves (`behind`)."""
    challenge = state.challenge
    if not isinstance(ranker_of(state.model), FixedRanker):
        return scores
    if challenge is None:  # A reader does not have the model that waits: those documents keep their order.
        return behind(scores, without, dict.fromkeys(scores, 0.0))
    try:
        waiting = challenge.ask(challenge.model.predict_one, query, state.fitted)
    except (ValueError, TypeError):  # A query is answered although the model that waits cannot rank it.
        waiting = dict.fromkeys(scores, 0.0)
    return behind(scores, without, waiting)


def scored(state: ServiceState, query: Block, at: float) -> tuple[Block, dict[Any, float], Block]:
    """A query of a time with what waits with it, its scores, and the query as the models see it: without odd values."""
    if state.needs.remembers:
        query = remembering(state.needs, query, at)
    seen = query
    try:
        scores = state.model.predict_one(query if query.context is None else seen_by(state.model, query))
    except (ValueError, TypeError):
        if (fitted := state.fitted(query)) is None:
            raise
        seen, scores = fitted, state.model.predict_one(seen_by(state.model, fitted))
    if state.challenge is not None and abilities_of(state.challenge.model).remembers:
        with contextlib.suppress(ValueError, TypeError):  # What it makes of earlier feedback waits, too.
            state.challenge.ask(state.challenge.model.predict_one, seen, state.fitted)
    return query, scores, seen


def waits(
    state: ServiceState,
    changes: all_or_nothing,
    message: messages.Rank,
    query: Block,
    text: str,
    scores: list[float],
    shown: Impression | None,
    at: float,
    now: float,
    *,
    size: int,
    answer: dict[str, Any],
    n_shown: int | None = None,
) -> Reply:
    """A query that was ranked waits, for feedback on the list `shown`, if one was drawn; last of the changes, which undo it.

    There must be room for its `size` (`room_for`).
    """
    pending, drawn, kept, known = state._pending, None, None, query.ids or ()
    if shown is not None:
        drawn, kept, known = json.dumps(shown.to_dict(), separators=(",", ":")), shown.kept, shown.page
    query_id, queries = message.id, pending._queries
    if query_id in queries:  # Clicks on the page before may still come.
        query_id = pending.page_for(query_id, known, state.known_documents, state.learned_as)
    waiting = (query_id, size, at, text, scores, drawn)
    docs = (message.docs or {}) if message.rows is UNSET and message.docs is not UNSET else message.given
    if not state.keeps_queries:
        _count(state, kept)
        return Reply(answer, Outcome(("rank",), None, waiting), docs=docs)
    number, gone = None, list[int]()
    if state.learned_as(query_id) is None:
        number, gone = pending._clock + 1, pending.crowded_out(query_id, size, now)
        state._hold(number, size, query)
    # Of those that feedback was given for the windows end: they go when they are learned.
    forgotten = [each for each in gone if not pending.is_given(each)] if gone else gone
    if query_id in queries:
        forgotten = [*forgotten, queries[query_id][0]]
    challenge = state.challenge
    n_asked = 0 if challenge is None else challenge.n_asked
    # Only a query ahead of the clock has another time than it is.
    fields: tuple[Any, ...] = ("rank", n_shown, gone, n_asked, kept, None if now == at else now)
    if challenge is not None:
        spent = (None, None) if challenge.keep is None else (challenge.n_shown, challenge.spent)
        fields = (*fields, *spent, challenge.n_failed)
    reply = Reply(answer, Outcome(fields, number, waiting, gone=tuple(forgotten)), docs=docs)
    let_wait(state, changes, number, waiting, gone, now, kept)
    return reply


def room_for(state: ServiceState, query: Block, text: str) -> int:
    """About the bytes that a query takes while it waits. Raises ValueError if it takes too much."""
    # In binary a character is a byte.
    is_narrow = text.isascii() or text.startswith(messages.BINARY_BEGINS.decode())
    size = _ENTRY + len(text) * (1 if is_narrow else 4) + _DOCUMENT * len(query.ids or ())
    if size > state._pending.max_bytes:
        state._pending.require_room(size)
    return size


def _pins(message: messages.Rank) -> dict[str, Any]:
    """The arguments of `show_one` for pinned and excluded documents, if a message has them. Raises ValueError."""
    pins: dict[str, Any] = {}
    if message.pinned is not UNSET:
        pinned = pins["pinned"] = dict[int, Any]()
        for place, document in message.pinned.items():
            if not (place.isascii() and place.isdecimal() and len(place) < 10) or int(place) in pinned:
                raise ValueError(f"pinned has position {place!r:.40}; positions are whole numbers from 1, each once")
            pinned[int(place)] = document
    if message.excluded is not UNSET:
        pins["excluded"] = message.excluded
    return pins


def let_wait(
    state: ServiceState,
    changes: all_or_nothing,
    number: int | None,
    waiting: tuple[Any, ...],
    gone: list[int],
    now: float | None,
    kept: float | None,
) -> None:
    """A query was ranked, and waits under its number, if it has one; the last of the changes, which undo it."""
    _count(state, kept)
    if number is not None:
        query_id, size, at, *query = waiting
        if query_id in state._pending._early:
            n_late, n_unknown = state._pending.lost(query_id, at, {*state.documents_of(number, query)})
            state._counts["late"] += n_late
            state._counts["unknown_documents"] += n_unknown
        state._pending.put(changes, query_id, tuple(query), size, number, gone, at, now)


def _count(state: ServiceState, kept: float | None) -> None:
    """Count a ranking, and the share of its DCG that a draw keeps, if it is known."""
    state._counts["ranked"] += 1
    state.n_changes += 1
    if kept is not None:
        state._kept = state._kept + np.array((1.0, kept))
