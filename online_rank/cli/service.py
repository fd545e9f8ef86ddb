"""How services begin, for `online-rank stream` and `serve`; and `stream` itself: the service on standard input and output."""

import contextlib
import copy
import hashlib
import logging
import os
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from online_rank.arguments import seconds_of
from online_rank.cli.events import events_of
from online_rank.cli.files import refuse_overwriting
from online_rank.cli.logs import say
from online_rank.limits import is_id
from online_rank.serving import Challenge, FeedbackPlan
from online_rank.serving.clock import CLOCK
from online_rank.serving.durable import DurableService, read_service
from online_rank.serving.forgetting import Wanted, without
from online_rank.serving.idle import IdleClock
from online_rank.serving.outcomes import PREVIOUS, REFERENCE
from online_rank.serving.protocol import Outcome, RankingService
from online_rank.serving.wire import encoded
from online_rank.storage.files import require_replaceable, save, write_atomically

__all__ = ["Beginning", "Feedback", "Pending", "Places", "forget", "maker", "repair", "run", "say_where_it_goes_on"]

_CHUNK = 1 << 18
#: What `forget` prints of what it found.
_FOUND = {
    "waiting": "waiting queries", "early": "queries with feedback that had not come", "learned": "learned ids",
    "features": "names of features",
}  # fmt: skip


class Beginning(NamedTuple):
    """What a service begins with: a file, or a new model of some kind."""

    model: str | None
    measure: str
    ranker: str
    clicks: bool
    scale: str
    log: bool
    challenger: str | None = None
    promote_at: float | None = None
    strict: bool = False


class Pending(NamedTuple):
    """Limits on the queries that wait for feedback: how many, for how many further queries, in how much memory, and by how many
    seconds their times may be ahead of the clock.
    """

    queries: int
    age: int
    n_bytes: int
    clock_skew: float = 300.0


class Feedback(NamedTuple):
    """What counts as feedback, as options say it."""

    window: str | None = None
    events: Sequence[str] = ()
    total: str = "largest"
    ungraded: str = "0"
    unanswered: str = "skip"
    null_is_missing: bool = False

    def plan(self) -> FeedbackPlan | None:
        """The plan of a service; None where all is as usual. Raises ValueError."""
        usual = Feedback(null_is_missing=self.null_is_missing)
        if self._replace(events=()) == usual and not self.events:
            return None
        if self.window is None:
            raise ValueError("--event, --total, --ungraded and --unanswered need a --feedback-window")
        return FeedbackPlan(
            window=seconds_of(self.window, "--feedback-window"),
            events=events_of(self.events),
            total=self.total,
            ungraded=0 if self.ungraded == "0" else self.ungraded,
            unanswered=self.unanswered,
        )


class Places(NamedTuple):
    """Where `stream` keeps its state, and the largest request."""

    checkpoint: str | None
    every: int
    save: str | None
    max_request: int
    replace_model: bool = False
    idle: float | None = None


_USUAL = Feedback()


def say_where_it_goes_on(durable: DurableService) -> None:
    """Print on stderr that a service continues from a folder, unless it is new."""
    if durable.store is not None and durable.service.n_changes:
        counts = durable.service.counts()
        done = f"{counts['ranked']} queries ranked, {counts['learned']} learned, {durable.service.n_waiting} waiting"
        say(f"continuing from {durable.store}: {done}")


def maker(beginning: Beginning, pending: Pending, feedback: Feedback = _USUAL) -> Callable[[], RankingService]:
    """A function that makes new services, each with a model of its own.

    Raises
    ------
    ValueError, OSError
        The file cannot be read, or options contradict one another.
    """
    from online_rank.cli.files import declared, load_model
    from online_rank.cli.train import new_model

    if beginning.strict and beginning.model is None:
        raise ValueError("--strict needs a MODEL, whose features are known")
    if beginning.clicks and beginning.ranker != "perceptron":
        raise ValueError(f"--clicks has a ranker of its own; --ranker {beginning.ranker} learns from grades")
    if beginning.promote_at is not None and beginning.challenger is None:
        raise ValueError("--promote-at needs a --challenger")
    challenge = None
    if beginning.challenger is not None:
        challenger = declared(load_model(beginning.challenger), beginning.strict)
        challenge = Challenge(challenger, origin=_digest(beginning.challenger), promote_at=beginning.promote_at)
    origin = None
    if beginning.model is not None:
        model = declared(load_model(beginning.model), beginning.strict)
        origin = _digest(beginning.model)
    else:
        kind = "swap" if beginning.clicks else beginning.ranker
        model = new_model(beginning.measure, beginning.scale, beginning.log, kind)

    def make() -> RankingService:
        mine = copy.deepcopy(model)
        return RankingService(
            mine,
            measure=beginning.measure,
            max_pending=pending.queries,
            max_age=pending.age,
            max_pending_bytes=pending.n_bytes,
            clock_skew=pending.clock_skew,
            origin=origin,
            challenge=copy.deepcopy(challenge),
            plan=feedback.plan(),
            null_is_missing=feedback.null_is_missing,
        )

    return make


def _digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def run(service: RankingService, places: Places) -> None:
    """Serve until the input ends, then save."""
    for option, place in (("--save", places.save), ("--checkpoint", places.checkpoint)):
        if place is not None:
            refuse_overwriting(option, place, [])
    if places.save is not None:
        require_replaceable(places.save)  # Now rather than after everything is learned.
    sys.stdout.flush()
    durable = DurableService(service, places.checkpoint, places.every, places.replace_model)
    say_where_it_goes_on(durable)
    with contextlib.closing(durable) as state:
        number = 0
        clock = IdleClock(state.service, places.idle)
        for lines in _batches(0, places.max_request, places.idle):
            answers: list[dict[str, Any]] = []
            records: list[Outcome] = []
            learned = False
            for line in lines:
                number += 1
                if line is None:
                    answers.append({"error": f"a line of more than {places.max_request} bytes", "line": number})
                elif not line.strip():
                    answers.append({"error": "an empty line", "line": number})
                else:
                    reply = state.service.handle(line, number)
                    clock.moved()
                    if reply.promoted:
                        say(f"promoted: {reply.promoted}", logging.WARNING)
                    if reply.changed:
                        records += reply.outcomes
                        learned |= reply.learned
                    if reply.command == "save":
                        state.append(records, sync=learned)
                        records, learned = [], False
                        answers.append(_saved(state, places, number))
                    else:
                        answers.append(reply.answer)
            if not lines:
                records += clock.idle().outcomes
            state.append(records, sync=learned)
            _write(b"".join(encoded(answer) + b"\n" for answer in answers))
            state.between_commits()
        _save(state, places)


def forget(folder: str, ids: Sequence[str], context: str | None, document: str | None) -> None:
    """Forget queries, and features made of their context, in the folder of a service that does not run.

    An id of digits is that of a text and of a number. Raises ValueError, OSError.
    """
    name, given, value = (context or "").partition("=")
    if context is not None and not (name and given):
        raise ValueError(f"--context is {context!r}; it is NAME=VALUE, such as user=u17")
    numbers = [int(each) for each in ids if each.isdecimal() and is_id(int(each))]
    wanted = Wanted((*ids, *numbers), None if context is None else (name, value), document)
    kept = Path(folder) / PREVIOUS
    previous = kept.read_bytes() if kept.exists() else None
    with contextlib.closing(DurableService(read_service(folder), folder)) as state:
        names: frozenset[str] = frozenset()
        if previous is not None:
            content, names = without(previous, wanted)
            write_atomically(kept, content, 0o600)
        done = state.forget(wanted)
        done = done._replace(features=done.features | names)
        if done.features:
            # Another one begins with the service.
            (Path(folder) / REFERENCE).unlink(missing_ok=True)
        state.save()
    answer = done.answer()
    print(answer.get("note") or "forgotten: " + ", ".join(f"{n} {_FOUND[name]}" for name, n in answer["forgotten"].items()))


def repair(folder: str) -> None:
    """Set times in the folder of a service that does not run, which lie ahead of the clock, back to it. Raises ValueError,
    OSError.
    """
    with contextlib.closing(DurableService(read_service(folder), folder)) as state:
        n = state.set_back(CLOCK.now())
    print(f"set back to the clock: {n} stored times" if n else "no stored time lies ahead of the clock")


def _save(state: DurableService, places: Places) -> str | None:
    """Write checkpoint and model; returns where to."""
    state.save()
    if places.save is not None:
        save(state.service.model, places.save)
    return places.save or places.checkpoint


def _saved(state: DurableService, places: Places, number: int) -> dict[str, Any]:
    place = _save(state, places)
    return {"saved": place} if place else {"error": "nowhere to save to: start with --save or --checkpoint", "line": number}


def _batches(file: int, max_request: int, idle: float | None) -> Iterator[list[bytes | None]]:
    """The available lines, in lists, until the end; None stands for a line that is too long.

    Where nothing comes for `idle` seconds, there are no lines.
    """
    pieces: list[bytes] = []
    size, dropping = 0, False
    while True:
        while idle is not None and not select.select([file], [], [], idle)[0]:
            yield []
        if not (data := os.read(file, _CHUNK)):
            break
        *ended, rest = data.split(b"\n")
        lines: list[bytes | None] = []
        for piece in ended:
            too_long = dropping or size + len(piece) > max_request
            lines.append(None if too_long else b"".join([*pieces, piece]))
            pieces, size, dropping = [], 0, False
        if dropping or size + len(rest) > max_request:
            pieces, size, dropping = [], 0, True
        elif rest:
            pieces.append(rest)
            size += len(rest)
        if lines:
            yield lines
    if dropping or pieces:
        yield [None if dropping else b"".join(pieces)]


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]
