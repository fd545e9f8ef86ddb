"""A service learns queries: those that wait for feedback, found by their id, and those that somebody else ranked."""

import json
import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from online_rank.base import abilities_of, learn_within, ranker_of, steps_of
from online_rank.base.growth import growth_limited
from online_rank.base.undo import all_or_nothing
from online_rank.feedback import Clicks, Impression
from online_rank.intervals import LossInterval
from online_rank.intervals.losses import served_loss, served_losses
from online_rank.limits import CELLS_A_BYTE, MAX_GROWTH, MAX_ID_LENGTH
from online_rank.measures.learned import as_scores
from online_rank.metrics.base import running_means
from online_rank.preprocessing.history import AT, PLACES
from online_rank.query import Block, as_grades
from online_rank.query.blocks import ONE, with_feedback
from online_rank.serving import answers, messages
from online_rank.serving.challenge import drafted_by_challenge, seen_by
from online_rank.serving.evidence import count_evidence, is_limited
from online_rank.serving.outcomes import Outcome, Reply, UnknownQuery
from online_rank.serving.queries import arranged, drawn_as, query_of
from online_rank.serving.reading import Evidence, digest_of, displayed_in, feedback_of, read, remembered_in, request_of
from online_rank.serving.service_state import ServiceState

#: Most rankings that wait under one id, of which a further one takes the place of the last; and what marks their ids.
_MOST_PAGES, _MARK = 10, "\x1f"
NOT_CLICKS = "this service learns from grades: its ranker draws no rankings that clicks could be learned from"


def learn(
    state: ServiceState,
    message: messages.Grades | messages.Clicks,
    request: bytes,
    at: float | None,
    evidence: Evidence | None = None,
) -> Reply:
    """Learn a query from the first feedback that comes for it, at a time, if the model asks for one. Raises ValueError."""
    feedback, ungraded = feedback_of(message)
    displayed = displayed_in(message)
    query_id, digest = meant(state, message.id, () if displayed else feedback), digest_of(message)
    if (before := state.learned_as(query_id)) is not None:
        return _came_again(state, query_id, before, digest)
    number = state._pending.number(query_id)
    if number is None:
        raise UnknownQuery(
            "no query is waiting under this id: it was never ranked, or dropped since (see stats: evicted, expired)"
        )
    day = None if evidence is None else evidence.day
    outcome = Outcome(("learn", query_id, number, at, day), feedback=request, gone=(number,), digest=digest)
    if evidence is not None and is_limited(state, evidence):
        answer = {"id": message.id, "learned": False, "limited": True}
        return forget_query(state, query_id, "limited", Reply(answer, outcome, learned=True), digest)
    is_clicks = isinstance(message, messages.Clicks)
    return learn_waiting(
        state, query_id, feedback, ungraded, outcome, at, is_clicks=is_clicks, displayed=displayed, evidence=evidence
    )


def teach(state: ServiceState, message: messages.Teach, request: bytes, at: float | None, *, n_bytes: int | None) -> Reply:
    """Learn a query that somebody else has ranked, from its documents and their grades; `n_bytes` as for `query_of`."""
    query_id, digest = message.id, digest_of(message)
    if (before := state.learned_as(query_id)) is not None:
        return _came_again(state, query_id, before, digest)
    grades, ungraded = feedback_of(message)
    query = query_of(state, message, grades if ungraded == "skip" else None, n_bytes=n_bytes)
    if n_bytes is not None and state.draws:
        answers.require_few_pairs(query, n_bytes)
    y = as_grades(grades if ungraded is None else answers.completed(grades, query), query.n_documents, query.ids)
    scores = state.model.predict_one(_at_time(state.model, query, at))
    loss = served_loss(state._target, [*scores.values()], y)
    number = state._pending.number(query_id)
    gone = () if number is None else (number,)
    outcome = Outcome(("teach", query_id, at), feedback=request, gone=gone, digest=digest)
    reply = Reply({"id": query_id, "learned": True, "loss": loss or 0.0}, outcome, learned=True)
    with _changing(state, query) as changes:
        _learn_once(state, query, y, None, at, changes, len(request))
        _end(state, changes, query_id, digest, "learned")
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
    evidence: Evidence | None = None,
) -> Reply:
    """Learn a query that waits, which waits no longer. Raises ValueError.

    `displayed` are its documents as the client displayed them, if it says so. The evidence counts if the query goes.
    """
    number = state._pending.number(query_id) or 0
    text, scores, drawn = state._pending.get(query_id)
    query = _asked_at(block_of(state, number, text), state._pending.time(query_id))
    if is_clicks and drawn is None:
        raise ValueError(NOT_CLICKS)
    account = LossInterval(state._served)
    with _changing(state, query) as changes:
        loss: float | None = None
        by: np.ndarray | None = None
        y: Any
        if evidence is not None:
            count_evidence(state, changes, evidence, len(feedback))
        if is_clicks:
            shown = drawn_as(drawn)
            changed = displayed is not None and tuple(displayed) != shown.page
            if displayed is not None and changed:
                answers.require_known(displayed, query.ids or ())
                shown = Impression(tuple(displayed))
            feedback = y = shown.clicked(feedback)
            if changed and not abilities_of(state.model).takes_any_list:
                _count_impression(state, query, y, at, changes)
                answer = {"id": asked_as(query_id), "learned": False, "displayed": True}
                return forget_query(state, query_id, "displayed", Reply(answer, outcome, learned=True), outcome.digest)
            if not _compares(state.model, shown):
                _count_impression(state, query, y, at, changes)
                answer = {"id": asked_as(query_id), "learned": True, "loss": 0.0}
                return forget_query(state, query_id, "learned", Reply(answer, outcome, learned=True), outcome.digest)
            state._counts["displayed"] += changed
            if drafted_by_challenge(y) and (state.challenge is None or number < state.challenge.since):
                # Its vote is for a comparison that has ended.
                return forget_query(state, query_id, "late", too_late(query_id, outcome), outcome.digest)
        else:
            if drawn:
                answers.require_few_pairs(query, len(text))
                served = arranged(read(request_of(text)), dict(zip(query.ids or (), scores, strict=True)), drawn_as(drawn))
                scores = answers.as_served(query.ids, served["ranking"])
            query = _placed(query, scores)
            if ungraded == "skip":
                of_all = dict(zip(query.ids or (), scores, strict=True))
                query = _part_of(query, query_of(state, read(request_of(text)), feedback))
                scores = [of_all[name] for name in query.ids or ()]
            feedback = feedback if ungraded is None else answers.completed(feedback, query)
            y = as_grades(feedback, query.n_documents, query.ids)
            by = as_scores(scores)
            running_means(state._metric, by, y, query.offsets, [1])
            lost = served_losses(state._target, by, y, query.offsets).item() if len(y) else math.nan
            loss = None if math.isnan(lost) else lost
            if loss is not None:
                account.update(loss)
        _learn_once(state, query, y, by if state.learn_served else None, at, changes, len(text))
        shown_loss = loss or 0.0
        if is_clicks and feedback.impression.teams is None:
            shown_loss = state.model.last_round.loss
        known: Any = None if is_clicks else dict(zip(query.ids or (), scores, strict=True))
        answer = {"id": asked_as(query_id), "learned": True, "loss": shown_loss}
        reply = Reply(answer, outcome, True, None, feedback, known, loss, None if loss is None else account)
        state._longest_delay = max(state._longest_delay, len(state._pending) - 1)
        state._served = account.sums
        _end(state, changes, query_id, outcome.digest, "learned")
    return reply


def _asked_at(query: Block, at: float | None) -> Block:
    """A query that waits, with the time at which it was asked, which may have been set back (`stored_times`)."""
    kept = query.remembered
    return query if kept is None or at is None else query._replace(remembered=kept | {AT: [at]})


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
    if query.remembered is None:
        return query
    places = np.argsort(np.argsort(-np.array(scores), kind="stable"))
    return query._replace(remembered=query.remembered | {PLACES: places.tolist()})


def _part_of(query: Block, part: Block) -> Block:
    """Some documents of a query, with what waits with them."""
    if query.remembered is None:
        return part
    place = {name: i for i, name in enumerate(query.ids or ())}
    rows, n = [place[name] for name in part.ids or ()], len(place)
    kept = {name: np.array(own).reshape(n, -1)[rows].ravel().tolist() for name, own in query.remembered.items() if name != AT}
    return part._replace(remembered={AT: query.remembered[AT], **kept})


def forget_query(state: ServiceState, query_id: Any, counted: str, reply: Reply, digest: int = 0) -> Reply:
    """A query goes without being learned; feedback on it is late from now on."""
    with all_or_nothing(state) as changes:
        _end(state, changes, query_id, digest, counted)
    return reply


def too_late(query_id: Any, outcome: Outcome) -> Reply:
    """The answer to feedback that is not learned."""
    return Reply({"id": asked_as(query_id), "learned": False, "late": True}, outcome, learned=True)


def _came_again(state: ServiceState, query_id: Any, before: int, digest: int) -> Reply:
    """The answer to feedback on a learned query: repeated, or a correction, which comes too late."""
    if before in (0, digest):
        counted, reply = (
            "duplicates",
            Reply({"id": query_id, "learned": False, "duplicate": True}, Outcome(("duplicate",)), True),
        )
    else:
        counted, reply = "late", too_late(query_id, Outcome(("late", None)))
    with all_or_nothing(state):
        state._count(counted)
    return reply


def _changing(state: ServiceState, query: Block) -> all_or_nothing:
    """Undo what learning a query changes, unless the request is answered."""
    changes = all_or_nothing(state, state._metric, goes_on=True)
    if state.challenge is not None:
        changes.include(state.challenge.model, query)
    return changes


def _end(state: ServiceState, changes: all_or_nothing, query_id: Any, digest: int, counted: str) -> None:
    """A query was learned, or goes: the last of the changes, which undo it."""
    number = state._pending.number(query_id)
    state._remember(changes, query_id, digest)
    state._count(counted)
    state._leave(changes, query_id, number)


def _learn_once(
    state: ServiceState,
    query: Block,
    y: Any,
    served: np.ndarray | None,
    at: float | None,
    changes: all_or_nothing,
    n_bytes: int,
) -> None:
    """Let the models learn a query from `Clicks` or grades (m,); `changes` undo it (`_changing`).

    The query has `n_bytes`, which limit what its new features may add to the models, unless it is replayed.
    """
    challenge, clicked = state.challenge, isinstance(y, Clicks)
    drafted = clicked and drafted_by_challenge(y)
    if challenge is not None and not clicked:
        challenge.compare(state._target, state.model, query, y)
    within = growth_limited(MAX_GROWTH + CELLS_A_BYTE * n_bytes)
    if not drafted:
        learned = with_feedback(query, (y,) if clicked else y, ONE, served)
        within.run(learn_within, state.model, _at_time(state.model, learned, at), changes)
    if challenge is not None and drafted:
        challenge.count(y)
    elif challenge is not None:
        within.run(challenge.learn, _at_time(challenge.model, query, at), y)


def _at_time(model: Any, query: Block, at: float | None) -> Block:
    """A query as a model takes it, with its time if it has one and the model asks for that."""
    if query.context is not None:
        query = seen_by(model, query)
    if at is None or not abilities_of(model).takes_time:
        return query
    return query._replace(at=np.array([float(at)]))


def block_of(state: ServiceState, number: int, text: str) -> Block:
    """The query that waits under a number, and was asked by this request: as it was read, or read again."""
    block = state._read.get(number)
    if block is None:
        block = query_of(state, read(request_of(text)))._replace(remembered=remembered_in(text))
        state._hold(number, len(text), block)
    return block


def known_documents(state: ServiceState, number: int, waiting: Any) -> Any:
    """The documents that feedback may be about on a query that waits: text, scores, draw."""
    text, _, drawn = waiting
    if not drawn:
        return block_of(state, number, text).ids or ()
    found = json.loads(drawn)
    return [*found["order"], *[document for _, document in found.get("pinned", ())]]


def pages_of(query_id: str | int) -> list[Any]:
    """The ids under which the rankings of an id wait, such as the pages of a result: itself, and others that clients never see.

    Examples
    --------
    >>> [asked_as(page) for page in pages_of("q1")[:3]]
    ['q1', 'q1', 'q1']
    """
    told = json.dumps(query_id)
    return [query_id, *[f"{_MARK}{page} {told}" for page in range(2, _MOST_PAGES + 1) if len(told) < MAX_ID_LENGTH - 10]]


def asked_as(page: Any) -> Any:
    """The id that a client gave, of one of `pages_of`.

    Examples
    --------
    >>> [asked_as(page) for page in pages_of(7)[:2]]
    [7, 7]
    """
    return json.loads(page.partition(" ")[2]) if type(page) is str and page[:1] == _MARK else page


def page_for(state: ServiceState, query_id: str | int, documents: Collection[Any]) -> Any:
    """The id under which a ranking of an id is to wait, whose feedback may be about these documents.

    One of the same documents that waits gives way to it.
    """
    if query_id not in state._pending._queries:
        return query_id
    pages = pages_of(query_id)
    for page in pages:
        if page not in state._pending._queries:
            if state.learned_as(page) is None:
                return page
        elif _known(state, page) == {*documents}:
            return page
    return pages[-1]


def meant(state: ServiceState, query_id: str | int, documents: Collection[Any]) -> Any:
    """The id under which the ranking waits that feedback on these documents is meant for: the last one that has them all."""
    waiting = [page for page in pages_of(query_id) if page in state._pending._queries]
    if waiting in ([], [query_id]):
        return query_id
    return next((page for page in waiting[::-1] if _known(state, page).issuperset(documents)), query_id)


def _known(state: ServiceState, page: Any) -> set[Any]:
    """The documents that feedback on a ranking that waits may be about."""
    return {*known_documents(state, state._pending.number(page) or 0, state._pending.get(page))}
