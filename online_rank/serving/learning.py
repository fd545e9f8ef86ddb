"""A service learns queries: those that wait for feedback, found by their id, and those that somebody else ranked."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET

from online_rank.base import abilities_of, learn_within, ranker_of, steps_of
from online_rank.base.growth import growth_limited
from online_rank.base.undo import all_or_nothing
from online_rank.feedback import Clicks, Impression
from online_rank.limits import CELLS_A_BYTE, MAX_GROWTH
from online_rank.measures.learned import served_losses
from online_rank.preprocessing.history import AT, PLACES
from online_rank.query import Block, as_grades
from online_rank.query.blocks import with_feedback
from online_rank.rankers.odd import ModelKinds
from online_rank.serving import messages
from online_rank.serving.challenge import ASSUMED, drafted_by_challenge, seen_by
from online_rank.serving.kinds.clicks import NOT_CLICKS
from online_rank.serving.kinds.displayed import OfDisplayed
from online_rank.serving.outcomes import Outcome, Reply, UnknownQuery
from online_rank.serving.queries import arranged, as_served, drawn_as, query_of, require_few_pairs, require_known
from online_rank.serving.reading import NO_EVIDENCE, Evidence, digest_of, read, request_of
from online_rank.serving.service_state import ServiceState
from online_rank.serving.waiting import MARK, asked_as

#: Rankings with grades that the metric takes at once; until then they wait.
_MOST_UNMEASURED = 64


#: A query, the feedback on it, and the scores whose mistakes to learn from, or None for the model's own.
Lesson = tuple[Block, Any, np.ndarray | None, bool | None]


class Due(NamedTuple):
    """A query that waited, and is to be learned.

    Attributes
    ----------
    query_id
        The id under which it waited.
    query
        The query, as it was ranked.
    text, scores, drawn
        Its request, its scores, and the list that was drawn for it, or None.
    outcome
        What the journal will say of it.
    at
        The time at which it is learned, if the model asks for one.
    evidence
        Whose feedback it is.
    asked
        The query as it came, if odd values in `query` were replaced.
    """

    query_id: Any
    query: Block
    text: str
    scores: list[float]
    drawn: str | None
    outcome: Outcome
    at: float | None
    evidence: Evidence = NO_EVIDENCE
    asked: Block | None = None


def learn(
    state: ServiceState, message: messages.Feedback, request: bytes, at: float | None, evidence: Evidence = NO_EVIDENCE
) -> Reply:
    """Learn a query from the first feedback that comes for it, at a time, if the model asks for one. Raises ValueError."""
    (feedback, ungraded), query_id = message.feedback, message.id
    ungraded = None if ungraded is UNSET else ungraded
    displayed = message.as_displayed() if isinstance(message, OfDisplayed) else None
    if query_id in state._pending.paged:
        query_id = state.meant(query_id, () if displayed else feedback)
    digest = digest_of(message)
    if (before := state.learned_as(query_id)) is not None:
        return _came_again(state, query_id, before, digest)
    found = state._pending._queries.get(query_id)
    if found is None:
        raise UnknownQuery(
            "no query is waiting under this id: it was never ranked, or dropped since (see stats: evicted, expired)"
        )
    number = found[0]
    outcome = Outcome(("learn", query_id, number, at, evidence.day), feedback=request, gone=(number,), digest=digest)
    if evidence.keys and state.is_limited(evidence):
        answer = {"id": message.id, "learned": False, "limited": True}
        return forget_query(state, query_id, "limited", Reply(answer, outcome, learned=True), digest)
    return learn_waiting(
        state, query_id, feedback, ungraded, outcome, at, is_clicks=message.is_clicks, displayed=displayed, evidence=evidence
    )


def teach(
    state: ServiceState,
    message: messages.Teach,
    request: bytes,
    at: float | None,
    evidence: Evidence = NO_EVIDENCE,
    *,
    n_bytes: int | None,
) -> Reply:
    """Learn a query that somebody else has ranked, from its documents and their grades; `n_bytes` as for `query_of`."""
    (grades, ungraded), query_id = message.feedback, message.id
    ungraded = None if ungraded is UNSET else ungraded
    digest = digest_of(message)
    if (before := state.learned_as(query_id)) is not None:
        return _came_again(state, query_id, before, digest)
    query = query_of(state.needs, message, grades if ungraded == "skip" else None, n_bytes=n_bytes)
    if n_bytes is not None and state.draws:
        require_few_pairs(query, n_bytes)
    _, y = _graded(grades, ungraded, query)
    asked = None
    try:
        scores = state.model.predict_one(_at_time(state.model, query, at))
    except (ValueError, TypeError):
        if (fitted := state.fitted(query)) is None:
            raise
        query, asked, scores = fitted, query, state.model.predict_one(_at_time(state.model, fitted, at))
    lost = served_losses(state._target, np.array([*scores.values()]), y, query.offsets).item() if len(y) else math.nan
    number = state._pending.number(query_id)
    gone = () if number is None else (number,)
    outcome = Outcome(("teach", query_id, at, evidence.day), feedback=request, gone=gone, digest=digest)
    if evidence.keys and state.is_limited(evidence):
        answer = {"id": query_id, "learned": False, "limited": True}
        return forget_query(state, query_id, "limited", Reply(answer, outcome, learned=True), digest)
    reply = Reply({"id": query_id, "learned": True, "loss": 0.0 if math.isnan(lost) else lost}, outcome, learned=True)
    n_changes = state.n_changes
    try:
        with _changing(state, query) as changes:
            query = _weighed(state, query, asked)
            whose = None if state.challenge is None else state.takes_share(changes, evidence)
            if state.challenge is not None and whose is None:
                reply.answer["assumed"] = ASSUMED
            if evidence.keys:
                state.count_evidence(changes, evidence, 1)
            state.end(changes, query_id, digest, "learned")
            _learn_once(state, (query, y, None, whose), at, changes, len(request))
    except Exception:
        if state.n_changes == n_changes:
            raise  # Otherwise it was learned before the error, and the journal must know.
    return reply


def learn_waiting(
    state: ServiceState,
    query_id: Any,
    feedback: Any,
    ungraded: Any,
    outcome: Outcome,
    at: float | None,
    *,
    is_clicks: bool,
    displayed: Sequence[Any] | None = None,
    evidence: Evidence = NO_EVIDENCE,
) -> Reply:
    """Learn a query that waits, which waits no longer. Raises ValueError.

    `displayed` are its documents as the client displayed them, if it says so. The evidence counts if the query goes.
    """
    number, _, asked_at, waiting = state._pending._queries[query_id]
    if waiting is None:
        waiting = state._pending.get(query_id)
    query = state._read.get(number) or state.block_of(number, waiting[0])
    if query.remembered is not None and asked_at is not None:
        # It may have been set back (`stored_times`).
        query = query._replace(remembered=query.remembered | {AT: [asked_at]})
    if is_clicks and waiting[2] is None:
        raise ValueError(NOT_CLICKS)
    if len(state._unmeasured) >= _MOST_UNMEASURED:
        state.measure_served()
    text, scores, drawn = waiting
    due = Due(query_id, query, text, scores, drawn, outcome, at, evidence)
    try:
        return _learned(state, due, feedback, ungraded, is_clicks, displayed)
    except (ValueError, TypeError):
        if (fitted := state.fitted(query)) is None:
            raise
        return _learned(state, due._replace(query=fitted, asked=query), feedback, ungraded, is_clicks, displayed)


def _learned(
    state: ServiceState, due: Due, feedback: Any, ungraded: Any, is_clicks: bool, displayed: Sequence[Any] | None
) -> Reply:
    """Learn a query that is due, all or nothing."""
    evidence, n_changes = due.evidence, state.n_changes
    try:
        with _changing(state, due.query, is_clicks) as changes:
            due = due._replace(query=_weighed(state, due.query, due.asked))
            if evidence.keys:
                state.count_evidence(changes, evidence, len(feedback) if is_clicks else 1)
            if is_clicks:
                counted, reply, lesson = _read_clicks(state, changes, due, feedback, displayed)
            else:
                counted, (reply, lesson) = "learned", _read_grades(state, changes, due, feedback, ungraded)
            if reply.feedback is not None:
                state._longest_delay = max(state._longest_delay, len(state._pending._queries) - 1)
            state.end(changes, due.query_id, due.outcome.digest, counted)
            # Last, so that a kernel that makes the last change needs no copies of the model to undo it.
            if lesson is not None:
                _learn_once(state, lesson, due.at, changes, len(due.text))
                if is_clicks and lesson[1].impression.teams is None:
                    reply.answer["loss"] = state.model.last_round.loss
    except Exception:
        if state.n_changes == n_changes:
            raise  # Otherwise it was learned before the error, and the journal must know.
    return reply


def _read_clicks(
    state: ServiceState, changes: all_or_nothing, due: Due, clicked: Any, displayed: Sequence[Any] | None
) -> tuple[str, Reply, Lesson | None]:
    """What clicks on the list that was drawn or displayed count as, the answer, and what they teach, if they say something."""
    query_id, query, _, _, drawn, outcome, at, *_ = due
    shown = drawn_as(drawn or "")
    changed = displayed is not None and tuple(displayed) != shown.page
    if displayed is not None and changed:
        require_known(displayed, query.ids or ())
        shown = Impression(tuple(displayed))
    y, answer = shown.clicked(state.bounded(clicked)), {"id": asked_as(query_id), "learned": True, "loss": 0.0}
    if changed and not abilities_of(state.model).takes_any_list:
        _count_impression(state, query, y, at, changes)
        return "displayed", Reply({"id": asked_as(query_id), "learned": False, "displayed": True}, outcome, learned=True), None
    if not _compares(state.model, shown):
        _count_impression(state, query, y, at, changes)
        return "learned", Reply(answer, outcome, learned=True), None
    state._counts["displayed"] += changed
    challenge = state.challenge
    if drafted_by_challenge(y) and (challenge is None or (state._pending.number(query_id) or 0) < challenge.since):
        # Its vote is for a comparison that has ended.
        return "late", _too_late(query_id, outcome), None
    whose = _whose(state, changes, due) if drafted_by_challenge(y) else None
    if drafted_by_challenge(y) and whose is None:
        answer["assumed"] = ASSUMED
    return "learned", Reply(answer, outcome, True, None, y), (query, y, None, whose)


def _read_grades(state: ServiceState, changes: all_or_nothing, due: Due, grades: Any, ungraded: Any) -> tuple[Reply, Lesson]:
    """The answer to grades, with the loss of the ranking that was served, and what they teach."""
    query_id, query, text, scores, drawn, outcome, *_ = due
    if drawn:
        require_few_pairs(query, len(text))
        served = arranged(read(request_of(text)), dict(zip(query.ids or (), scores, strict=True)), drawn_as(drawn))
        scores = as_served(query.ids, served["ranking"])
    if query.remembered is not None:
        query = _placed(query, scores)
    if ungraded == "skip":
        of_all = dict(zip(query.ids or (), scores, strict=True))
        part = query_of(state.needs, read(request_of(text)), grades)
        query = _part_of(query, state.fitted(part) or part)
        scores = [of_all[name] for name in query.ids or ()]
    grades, y = _graded(grades, ungraded, query)
    by = np.array(scores)
    lost = served_losses(state._target, by, y, query.offsets).item() if len(y) else math.nan
    loss = None if math.isnan(lost) else lost
    whose = None if state.challenge is None else _whose(state, changes, due)
    state._unmeasured = [*state._unmeasured, (scores, y.tolist(), loss)]
    asked = asked_as(query_id) if type(query_id) is str and query_id.startswith(MARK) else query_id
    answer = {"id": asked, "learned": True, "loss": loss or 0.0}
    if state.challenge is not None and whose is None:
        answer["assumed"] = ASSUMED
    known: Any = dict(zip(query.ids or (), scores, strict=True))
    return Reply(answer, outcome, True, None, grades, known, loss), (query, y, by if state.learn_served else None, whose)


def _whose(state: ServiceState, changes: all_or_nothing, due: Due) -> bool | None:
    """Whether feedback counts in the comparison with the challenger; None if it is assumed to be a person's only one."""
    if due.evidence.keys:
        return state.takes_share(changes, due.evidence)
    return state.share_of(changes, due.query_id)


def _graded(grades: dict[Any, Any], ungraded: Any, query: Block) -> tuple[dict[Any, Any], np.ndarray]:
    """The grades of all documents of a query, as a request gives them, and in order. Raises ValueError."""
    ids = query.ids or ()
    if ungraded is not None:
        grades = dict.fromkeys(ids, 0) | grades
    if len(grades) == len(ids) and all(map(grades.__contains__, ids)):
        y = np.array([*map(grades.__getitem__, ids)])
        if y.dtype == np.int64:  # As the decoder has checked them.
            return grades, y
    try:
        return grades, as_grades(grades, query.n_documents, query.ids)
    except ValueError as error:
        is_missing = any(name not in grades for name in ids)
        raise ValueError(f"{error}; requests have 'ungraded'" if is_missing else str(error)) from None


def _compares(model: Any, shown: Impression) -> bool:
    """Whether clicks on a list say something about the order of documents: not where all are pinned, or one alone was drawn."""
    swaps = not abilities_of(model).takes_any_list and getattr(ranker_of(model), "credit", "swap") == "swap"
    return bool(shown.order) and (not swaps or len(shown.order) + len(shown.held_back) > 1)


def _count_impression(state: ServiceState, query: Block, y: Clicks, at: float | None, changes: all_or_nothing) -> None:
    """Let the steps that remember feedback (`History`) count a list that the rankers cannot learn from."""
    for model in state.models:
        for step in steps_of(model)[:-1]:
            if abilities_of(step).remembers:
                changes.include(step, query)
                step.learn_one(_at_time(step, query, at), y)


def _placed(query: Block, scores: Sequence[float]) -> Block:
    """A query to learn from grades, with the places at which its documents were served."""
    places = np.argsort(np.argsort(-np.array(scores), kind="stable"))
    return query._replace(remembered=(query.remembered or {}) | {PLACES: places.tolist()})


def _part_of(query: Block, part: Block) -> Block:
    """Some documents of a query, with what waits with them."""
    if query.remembered is None:
        return part
    place = {name: i for i, name in enumerate(query.ids or ())}
    return part._replace(remembered=query.remembered_of([place[name] for name in part.ids or ()]))


def forget_query(state: ServiceState, query_id: Any, counted: str, reply: Reply, digest: int = 0) -> Reply:
    """A query goes without being learned; feedback on it is late from now on."""
    with all_or_nothing(state) as changes:
        state.end(changes, query_id, digest, counted)
    return reply


def _too_late(query_id: Any, outcome: Outcome) -> Reply:
    """The answer to feedback that is not learned."""
    return Reply({"id": asked_as(query_id), "learned": False, "late": True}, outcome, learned=True)


def _came_again(state: ServiceState, query_id: Any, before: int, digest: int) -> Reply:
    """The answer to feedback on a learned query: repeated, or a correction, which comes too late."""
    again = Reply({"id": query_id, "learned": False, "duplicate": True}, Outcome(("duplicate",)), learned=True)
    late = _too_late(query_id, Outcome(("late", None)))
    counted, reply = ("duplicates", again) if before in (0, digest) else ("late", late)
    with all_or_nothing(state):
        state._count(counted)
    return reply


def _changing(state: ServiceState, query: Block, is_clicks: bool = False) -> all_or_nothing:
    """Undo what learning a query changes, unless the request is answered."""
    # Of grades, without a challenger, the model's is the last change; after clicks its loss is still to be read.
    changes = all_or_nothing(goes_on=is_clicks or state.challenge is not None)
    state._record(changes.log)
    if state.challenge is not None:
        changes.include(state.challenge.model, query)
    return changes


def _weighed(state: ServiceState, query: Block, asked: Block | None) -> Block:
    """The query to be learned, after its values were weighed: where a kind is given up, its values are of the kind that comes.

    `asked` is the query as it came, if odd values were replaced.
    """
    came = query if asked is None else asked
    if not (state._contested or asked is not None) or not state.weigh_kinds(came, asked is not None):
        return query
    return state.fitted(came) or came


def _learn_once(state: ServiceState, lesson: Lesson, at: float | None, changes: all_or_nothing, n_bytes: int) -> None:
    """Let the models learn a query from `Clicks` or grades (m,); `changes` undo it (`_changing`).

    The query has `n_bytes`, which limit what its new features may add to the models, unless it is replayed.
    """
    query, y, served, whose = lesson
    challenge, clicked = state.challenge, isinstance(y, Clicks)
    drafted = clicked and drafted_by_challenge(y)
    if challenge is not None and not clicked:
        challenge.compare(state._target, state.model, query, y, whose, state.fitted)
    within = growth_limited(MAX_GROWTH + CELLS_A_BYTE * n_bytes)
    if not drafted:
        learned = with_feedback(query, (y,) if clicked else y, served=served)
        if at is not None or learned.context is not None:
            learned = _at_time(state.model, learned, at)
        within.run(learn_within, state.model, learned, changes)
    if challenge is not None and drafted:
        challenge.count(y, whose)
    elif challenge is not None:
        n_odd = state.n_odd

        def fit(asked: Block, models: list[Any]) -> Block | None:
            if (made := state.fitted(asked, models)) is not None:
                changes.include(challenge.model, made)
            return made

        within.run(challenge.learn, _at_time(challenge.model, query, at), y, fit)
        if state.n_odd > n_odd:
            state._contested = ModelKinds(state.models).contested(query, state._contested or {})


def _at_time(model: Any, query: Block, at: float | None) -> Block:
    """A query as a model takes it, with its time if it has one and the model asks for that."""
    if query.context is not None:
        query = seen_by(model, query)
    if at is None or not abilities_of(model).takes_time:
        return query
    return query._replace(at=np.array([float(at)]))
