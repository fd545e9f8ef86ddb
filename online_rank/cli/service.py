"""How services begin, for `online-rank stream` and `serve`; and what is forgotten and repaired in their folders."""

import contextlib
import copy
import hashlib
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

import typer

from online_rank.base import steps_of
from online_rank.cli.beginning import model_to_serve
from online_rank.cli.declaring import is_given
from online_rank.cli.logs import say
from online_rank.cli.options import Service
from online_rank.limits import is_id
from online_rank.serving import Challenge, FeedbackPlan
from online_rank.serving.challenge import SURE, from_today
from online_rank.serving.clock import CLOCK
from online_rank.serving.durable import DurableService, read_service
from online_rank.serving.messages import UNSET, Forget, Rank
from online_rank.serving.outcomes import REFERENCE
from online_rank.serving.protocol import RankingService
from online_rank.serving.reading import read
from online_rank.serving.snapshots import KeptModels
from online_rank.storage.postgres import require_folder

#: What `forget` prints of what it found.
_FOUND = {
    "waiting": "waiting queries", "early": "queries with feedback that had not come", "learned": "learned ids",
    "features": "names of features", "keys": "keys of histories",
}  # fmt: skip


def say_where_it_goes_on(durable: DurableService) -> None:
    """Print on stderr that a service continues from a folder, unless it is new."""
    if durable.store is not None and durable.service.n_changes:
        counts = durable.service.counts()
        done = f"{counts['ranked']} queries ranked, {counts['learned']} learned, {durable.service.n_waiting} waiting"
        say(f"continuing from {durable.store}: {done}")


def check(context: typer.Context, service: Service) -> None:
    """Raise a usage error for options of a new model together with a MODEL, and for options that need another one."""
    if service.model is not None and is_given(context, "ranker"):
        raise typer.BadParameter(f"--ranker is for a new model; {service.model} has its own")
    for option, front in (("--history", service.history), ("--tastes", service.tastes)):
        if service.model is not None and front:
            raise typer.BadParameter(f"{option} is for a new model: train {service.model} with it")
    for option, given, needed, there in (
        ("--replace-model", service.replace_model, "a MODEL", service.model),
        ("--event", service.event, "a --feedback-window", service.feedback_window),
    ):
        if given and there is None:
            raise typer.BadParameter(f"{option} needs {needed}")


def maker(service: Service, today: str | None = None, keep: float = 0.98) -> Callable[[], RankingService]:
    """A function that makes new services, each with a new model. Raises ValueError or OSError for unreadable files.

    With `today`, the ranking by this feature serves within the budget `keep` until the model is better; a minus before
    the name means that less is better.
    """
    field = (today or "").removeprefix("-")
    by_field: dict[Hashable, float] = {field: 1.0 if field == today else -1.0}
    challenge = None
    if service.challenger is not None:
        challenge = Challenge(
            _begun(service, service.challenger),
            origin=_digest(service.challenger, service.examination),
            promote_at=SURE,
        )
    model = _begun(service, service.model, None if today is None else by_field)
    origin = None if service.model is None else _digest(service.model, service.examination)
    if today is not None:
        model, challenge = from_today(by_field, model, keep=keep)
        challenge.origin, origin = origin, None
    seconds, plan = service.seconds, None
    if service.feedback_window is not None:
        plan = FeedbackPlan(window=seconds["feedback_window"], events=service.events)

    def make() -> RankingService:
        return RankingService(
            copy.deepcopy(model),
            measure=service.measure,
            wait=seconds["wait"],
            wait_bytes=service.wait_bytes,
            clock_skew=seconds["clock_skew"],
            origin=origin,
            challenge=copy.deepcopy(challenge),
            plan=plan,
        )

    return make


def _begun(service: Service, file: str | None, today: dict[Hashable, float] | None = None) -> Any:
    """The model of a file, after the queries of `--reference`, or else a new one. Raises ValueError, OSError."""
    model = model_to_serve(service, file, today)
    return model if file is None or service.reference is None else met(model, service.reference)


def met(model: Any, reference: str) -> Any:
    """The model, whose transformers have met the queries of a file, a line each as `POST /rank` takes them.

    Raises ValueError that names the line.
    """
    with open(reference, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                message = read(line)
                if not isinstance(message, Rank):
                    raise ValueError("it is no query as POST /rank takes it")
                query = {name: dict(x) for name, x in message.given.items()}
                for step in steps_of(model)[:-1]:
                    step.learn_one(query)
                    query = step.transform_one(query)
            except (ValueError, TypeError) as error:
                raise ValueError(f"{reference}, line {number}: {error}") from None
    return model


def _digest(path: str, examination: str | None) -> str:
    """What identifies the model of a file, as it is served."""
    return hashlib.sha256(Path(path).read_bytes() + (examination or "").encode()).hexdigest()


def forget(folder: str, ids: Sequence[str], context: str | None, document: str | None) -> None:
    """Forget queries, and features made of their context, in the folder of a service that does not run.

    An id of digits stands for a text and for a number. Raises ValueError, OSError.
    """
    require_folder(folder, "send POST /forget to the server that leads")
    name, given, value = (context or "").partition("=")
    if context is not None and not (name and given):
        raise ValueError(f"--context is {context!r}; it is NAME=VALUE, such as user=u17")
    numbers = [int(each) for each in ids if each.isdecimal() and is_id(int(each))]
    entry: Any = UNSET if context is None else {name: value}
    wanted = Forget(ids=[*ids, *numbers], context=entry, document=UNSET if document is None else document)
    with contextlib.closing(DurableService(read_service(folder), folder)) as state:
        kept = KeptModels(state.store)
        changed, names = kept.without(wanted)
        done = state.forget(wanted)
        done = done._replace(features=done.features | names)
        for day, content in changed.items():
            kept.put(content, day)
        if done.features and state.store is not None:
            # Another one begins with the service.
            state.store.delete_file(REFERENCE)
        state.save()
    answer = done.answer()
    print(answer.get("note") or "forgotten: " + ", ".join(f"{n} {_FOUND[name]}" for name, n in answer["forgotten"].items()))


def repair(folder: str) -> None:
    """Set times that lie ahead of the clock back to it, in the folder of a service that does not run.

    Raises ValueError, OSError.
    """
    with contextlib.closing(DurableService(read_service(folder), folder)) as state:
        n = state.set_back(CLOCK.now())
    print(f"set back to the clock: {n} stored times" if n else "no stored time lies ahead of the clock")
