"""Another model takes the place of the one that serves, and what is to be forgotten leaves it."""

import asyncio
import logging
from typing import Any

from msgspec import UNSET

from online_rank.base import ranker_of
from online_rank.rankers.fixed import FixedRanker
from online_rank.rankers.fixed_trees import FixedTrees
from online_rank.serving import windows
from online_rank.serving.clock import CLOCK
from online_rank.serving.commit import CommitError
from online_rank.serving.messages import Forget, RollBack
from online_rank.serving.outcomes import Outcome
from online_rank.serving.protocol import RankingService
from online_rank.serving.reading import RequestError, read_as
from online_rank.serving.served import Answer, ServedModel, answering
from online_rank.serving.snapshots import today
from online_rank.storage.files import from_bytes, to_bytes

_log = logging.getLogger("online_rank.serving")

#: A model is replaced if the disk has room for this many files of it: in the journal, in the next checkpoint, and to spare.
_ROOM = 4


@answering
async def replace(served: ServedModel, content: bytes, /, line: str | None = None, back: str = "") -> Answer:
    """Replace the model by one from a file; `roll_back` restores the previous one.

    With a ranking of today it takes the place of the model that is compared with that, whether it serves or waits; the evidence
    stays if the request says that the `line` of models is the "same". `back` says to which model a rollback returns.

    The file is checked in full, and the model ranks once, while requests are answered; then it is exchanged between two of
    them.
    """
    if line not in (None, "same"):
        return 400, {"error": f"line is {line!r:.60}; it is same, for a model of the same line as the one before, or absent"}
    if line is not None and not _has_line(served):
        return 409, {"error": "line is for a model that is compared with the ranking of today (--from-today)"}
    try:
        file = await asyncio.to_thread(own_file, content)
        model = await asyncio.to_thread(tried, file)
    except (ValueError, TypeError) as error:
        return 400, {"error": f"this is not a model that can be served: {error}"}
    if _has_line(served) and isinstance(ranker_of(model), FixedRanker):  # As a day began with it (`--snapshots`).
        if served.durable.service.challenge.n_turns % 2:  # type: ignore[union-attr]
            return await _turn_back(served)
        return 409, {"error": "the ranking of today serves already"}
    said = f"rolled back to the model {back}" if back else f"the model was replaced by a file of {len(content)} bytes"
    async with served.alone:
        return await _replaced_by(served, model, file, line == "same", said)


def _has_line(served: ServedModel) -> bool:
    """Whether a model is compared with the ranking of today."""
    challenge = served.durable.service.challenge
    return challenge is not None and challenge.keep is not None


async def _replaced_by(served: ServedModel, model: Any, content: bytes, same: bool, said: str) -> Answer:
    """Exchange the model, and say so. Raises CommitError."""
    service, commits, store = served.durable.service, served.commits, served.durable.store
    if waits := _has_line(served) and service.challenge.n_turns % 2 == 0:  # type: ignore[union-attr]
        said = f"{said}; it waits"
    if store is not None and not store.has_room(_ROOM * len(content)):
        return 503, {"error": "there is no room on the disk for another model"}
    commits.require_working()
    try:
        if _has_line(served):
            outcome = service.exchange_line(model, content, same, CLOCK.now(), said)
        else:
            outcome = service.exchange_model(model, content, CLOCK.now(), said)
    except (ValueError, TypeError) as error:
        return 400, {"error": f"this model cannot replace the one that serves: {error}"}
    on_disk = commits.add_and_wait(outcome)
    if waits:
        served.inputs.serve(service.learning_model)
    else:
        served.exchanged()
    before = to_bytes(service.replaced)
    await on_disk
    served.decided(said)
    # It is in the journal, with the model before it: the next checkpoint or a restart makes up for any failure now.
    try:
        await asyncio.to_thread(served.kept.put, before)
        await commits.checkpoint()
    except (CommitError, OSError) as error:
        _log.error("a model was replaced, but only the journal has it yet: %s", error)
    return 200, {"replaced": True}


@answering
async def roll_back(served: ServedModel, request: bytes = b"{}", /) -> Answer:
    """Restore the model that was replaced last, or the one with which a day began; without a day, again undoes this.

    If a model has taken the place of the ranking of today, that serves again without a day, and the model waits.
    """
    try:
        day = read_as(RollBack, request).to
    except RequestError as error:
        return 400, {"error": f'{error}; the only field is to, a day: {{"to": "2026-11-25"}}'}
    service = served.durable.service
    if day is UNSET and service.challenge is not None and _has_line(served) and service.challenge.n_turns % 2:
        return await _turn_back(served)
    which, days = (None if day is UNSET else day), await asyncio.to_thread(served.kept.days)
    content = await asyncio.to_thread(served.kept.get, which) if which in (None, *days) else None
    if content is None and which is None:
        return 409, {"error": "no model was replaced"}
    if content is None:
        return 404, {"error": f"no model of that day is kept; there are {', '.join(days) or 'none (see --snapshots)'}"}
    return await replace(served, content, back="before" if which is None else f"with which {which} began")


async def _turn_back(served: ServedModel) -> Answer:
    """Let the ranking of today serve again; the model that served waits, compared from the beginning. Raises CommitError."""
    async with served.alone:
        served.commits.require_working()
        since = CLOCK.now(), "rolled back to the ranking of today; the model that served waits"
        windows.promote(served.durable.service, *since)
        on_disk = served.commits.add_and_wait(Outcome(("promote", *since)))
        served.exchanged()
        await on_disk
        served.decided(since[1])
    return 200, {"replaced": True}


async def keep_snapshot(served: ServedModel) -> None:
    """Keep the model with which the day began, unless it is kept already."""
    kept, day = served.kept, today()
    if not kept.lacks_today:
        return
    served.n_users += 1
    try:
        # While a user is forgotten, a model that knows the user would be kept.
        async with served.alone:
            if day not in await asyncio.to_thread(kept.days):
                await asyncio.to_thread(kept.put, served.model_file(), day)
            await asyncio.to_thread(kept.complete, day)
    except (OSError, TypeError, ValueError) as error:
        _log.error("the model with which %s began cannot be kept: %s", day, error)
    finally:
        served.n_users -= 1


async def keep_in_cache(served: ServedModel) -> bool:
    """Keep the present model in the cache of a service that has one. Returns whether no cache has another model."""
    kept, version = served.kept, served.version
    if kept.cache is not None and kept.cached != version and served.durable.keeps:
        try:
            if not await asyncio.to_thread(kept.cache.put, served.model_file()):
                return False
        except (TypeError, ValueError) as error:
            _log.error("the model cannot be kept in the cache: %s", error)
            return False
        kept.cached = version
    return True


@answering
async def forget(served: ServedModel, request: bytes, /) -> Answer:
    """Forget queries, and the features that their context made (`Forget`); the files have none of it when this returns."""
    try:
        wanted = read_as(Forget, request)
    except ValueError as error:
        return 400, {"error": str(error)}
    # While a model is replaced, the one before would be kept as it was.
    async with served.alone:
        served.commits.require_working()
        try:
            changed, names = await asyncio.to_thread(served.kept.without, wanted)
            done = served.durable.forget(wanted)
            done = done._replace(features=done.features | names)
            served.forgotten(done.features)
            for day, content in changed.items():
                await asyncio.to_thread(served.kept.put, content, day)
            if not await keep_in_cache(served):
                raise OSError("the cache has the model as it was")
            await served.commits.checkpoint()
        except ValueError as error:
            return 409, {"error": str(error)}
        except (CommitError, OSError) as error:
            _log.error("forgotten, but not on the disk yet: %s", error)
            return 503, {"error": f"forgotten, but files may have it still; send this again: {error}"}
    return 200, done.answer()


def own_file(content: bytes) -> bytes:
    """The file as online_rank writes it: a text is a model of LightGBM, and JSON one of XGBoost. Raises ValueError."""
    return to_bytes(FixedTrees(content.decode())) if content[:1] == b"{" or content[:4] == b"tree" else content


def tried(content: bytes) -> Any:
    """The model of a file, after a copy of it has ranked and learned, so that kernels are compiled. Raises ValueError."""
    model = from_bytes(content)
    ranker_of(model)
    trial = RankingService(from_bytes(content))
    answer = trial.handle(b'{"id": 1, "docs": {"a": {"1": 1.0}, "b": {"1": 2.0}}}').answer
    if "error" in answer:
        raise ValueError(answer["error"])
    trial.handle(b'{"id": 1, "grades": {"a": 1, "b": 0}}')
    return model
