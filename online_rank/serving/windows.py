"""Windows of feedback: it is gathered for a while after a ranking, and the query is learned when its window ends."""

import contextlib
from typing import Any

from msgspec import UNSET

from online_rank import arguments
from online_rank.base.undo import all_or_nothing
from online_rank.query.grades import MAX_GRADE
from online_rank.serving.challenge import ASSUMED
from online_rank.serving.clock import CLOCK
from online_rank.serving.kinds.displayed import OfDisplayed
from online_rank.serving.learning import forget_query, learn_waiting
from online_rank.serving.outcomes import Outcome, Reply
from online_rank.serving.plan import GRADE, PLACE
from online_rank.serving.queries import require_known
from online_rank.serving.reading import Evidence, evidence_of
from online_rank.serving.service_state import ServiceState

#: Most queries in windows of which it is known whose feedback they have.
MOST_SHARES = 100_000
#: Most queries that are learned after one request since their windows have ended; the others follow after the next ones.
_MOST_CLOSED = 32


def gather(state: ServiceState, message: Any, request: bytes, at: float, now: float) -> Reply:
    """Take feedback that is learned when the window of its query ends; `at` may be ahead of `now`. Raises ValueError."""
    (kind, given), pending, displayed = given_by(state, message), state._pending, _displayed(message)
    evidence = evidence_of(message, now)
    query_id = state.meant(message.id, () if displayed else given)
    place = pending.placed(query_id, at) if state.learned_as(query_id) is None else "late"
    if (why := "limited" if state.is_limited(evidence) else place) in ("limited", "late"):
        reply = Reply({"id": message.id, "accepted": False, why: True}, Outcome((why, now)), learned=True)
        with all_or_nothing(state) as changes:
            state._count(why)
            pending.advance(changes, now)
        return reply
    if place == "waits":
        if displayed is not None:
            require_known(displayed, state.block_of(pending.number(query_id) or 0, pending.get(query_id)[0]).ids or ())
            require_known(given, displayed, "displayed")
        else:
            require_known(given, state.known_documents(query_id))
    else:
        pending.require_room_for_early(len(given))
    early: dict[str, Any] = {"early": True} if place == "early" else {}
    if state.challenge is not None and not evidence.keys:
        early["assumed"] = ASSUMED
    times = (at,) if now == at else (at, now)
    reply = Reply({"id": message.id, "accepted": True, **early}, Outcome(("feedback", *times), feedback=request), learned=True)
    take(state, message, (kind, given), evidence, *times)
    return reply


def _displayed(message: Any) -> list[str] | None:
    """The documents as the client displayed them, if it says so."""
    return message.as_displayed() if isinstance(message, OfDisplayed) else None


def given_by(state: ServiceState, message: Any) -> tuple[str, dict[Any, float]]:
    """What a message gives to documents, and its kind. Raises ValueError for what this service cannot learn from."""
    kind, given = message.given(state._pending.plan, state.draws)
    for name, value in given.items():
        if value > MAX_GRADE or not (state.draws or value == int(value)):
            wanted = f"{'a number' if state.draws else 'an integer'} from 0 to {MAX_GRADE}"
            raise ValueError(f"document {name[:100]!r} is given {str(value)[:40]}; it must be {wanted}")
    return kind, given


def take(
    state: ServiceState,
    message: Any,
    given: tuple[str, dict[Any, float]],
    evidence: Evidence,
    at: float,
    now: float | None = None,
) -> None:
    """Feedback was accepted."""
    (kind, values), displayed = given, _displayed(message)
    ungraded = message.feedback[1] if kind == GRADE else None
    ungraded = None if ungraded is UNSET else ungraded
    query_id = state.meant(message.id, () if displayed else values)
    with all_or_nothing(state) as changes:
        state._count("accepted")
        state.count_evidence(changes, evidence, len(values) if kind != GRADE else 1)
        if state.challenge is not None and evidence.keys and not state._shares.get(query_id):
            gone = [*state._shares][: len(state._shares) - MOST_SHARES] if query_id not in state._shares else []
            changes.include_entries(state._shares, [query_id, *gone])
            for each in gone:
                del state._shares[each]
            state._shares[query_id] = int(bool(state.takes_share(changes, evidence)))
        state._pending.give(changes, query_id, values, kind, at, ungraded, now)
        if displayed is not None:
            state._pending.give(changes, query_id, {d: p for p, d in enumerate(displayed)}, PLACE, at, None, now)


def close(state: ServiceState, query_id: Any, outcome: Outcome) -> Reply:
    """Learn a query whose window has ended from all that was given to it. Raises ValueError."""
    pending, plan = state._pending, state._pending.plan
    totals = pending.totals(query_id)
    if plan is None or (not pending.has_feedback(query_id) and plan.unanswered == "skip"):
        return forget_query(state, query_id, "unanswered", Reply({}, outcome))
    displayed = pending.displayed(query_id)
    # Feedback that arrived before its query may name other documents.
    documents = {*(displayed or state.known_documents(query_id))}
    known = {name: value for name, value in totals.items() if name in documents}
    ungraded = pending.ungraded(query_id) if totals else 0
    is_clicks = bool(pending.get(query_id)[2])
    return learn_waiting(state, query_id, known, ungraded, outcome, state._time(None), is_clicks=is_clicks, displayed=displayed)


def drop(state: ServiceState, query_id: Any, outcome: Outcome) -> Reply:
    """A query cannot be learned."""
    return forget_query(state, query_id, "refused", Reply({}, outcome))


def with_what_follows(state: ServiceState, reply: Reply) -> Reply:
    """A reply, with what happens after its request. Nothing that has happened is missing where memory runs out."""
    with contextlib.suppress(MemoryError):
        closed: list[Reply] = []
        reply = reply._replace(closed=closed)
        if state._pending.window is not None:
            _close_due(state, closed)
        if state.challenge is not None and state.challenge.is_won:
            won = f"the challenger is better than the serving model: {state.challenge.difference_text}"
            at, why = CLOCK.now(), f"promoted: {won}"
            promoted, promotion = reply._replace(promoted=won), Reply({}, Outcome(("promote", at, why)), promoted=won)
            promote(state, at, why)
            closed.append(promotion)
            reply = promoted
    return reply


def promote(state: ServiceState, at: float | None = None, why: str = "") -> None:
    """The challenger serves, since a time and for a reason; older journals lack both."""
    if at is not None:
        arguments.require_time("the time of a promotion", at)
    with all_or_nothing(state):
        if state.challenge is not None:
            challenge, before = state.challenge, state.model
            state.model, state._promoted = challenge.model, challenge.origin or ""
            state.challenge = challenge.turned(before, state._pending.next_number)
            if state.challenge is None:  # Otherwise it waits.
                state.replaced = before
            state.serving_since = None if at is None else (at, why)
            state._read.clear()
        state._count(None)


def _close_due(state: ServiceState, closed: list[Reply]) -> None:
    """Learn queries whose windows have ended, and add what becomes of each to `closed`."""
    try:
        while len(closed) < _MOST_CLOSED and (query_id := state._pending.next_closed()) is not None:
            gone = (state._pending.number(query_id) or 0,)
            outcome = Outcome(("close", query_id), gone=gone)
            # It has its place before it is learned: what was learned must be known.
            closed.append(Reply({}, outcome))
            try:
                closed[-1] = close(state, query_id, outcome)
            except (ValueError, TypeError, OverflowError):
                # Checked when it came; what is left is a model that cannot learn this query at all.
                closed[-1] = Reply({}, Outcome(("drop", query_id), gone=gone))
                drop(state, query_id, closed[-1].outcome)  # type: ignore[arg-type]
    except MemoryError:
        if closed and closed[-1].outcome is not None and closed[-1].outcome.fields[1] not in state._learned:
            closed.pop()
