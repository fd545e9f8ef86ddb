"""A model that is served: a service with its journal and its monitor, in an event loop."""

import asyncio
import collections
import contextlib
import functools
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, Concatenate, ParamSpec

from online_rank.base.anatomy import learned_measure
from online_rank.serving import curves
from online_rank.serving.cached import Cache
from online_rank.serving.clock import CLOCK
from online_rank.serving.commit import CommitError, GroupCommit, begun_in_thread
from online_rank.serving.course import Today
from online_rank.serving.durable import DurableService
from online_rank.serving.elsewhere import rankings_in, taken
from online_rank.serving.inputs import InputWatch
from online_rank.serving.messages import Command, Explain, Rank
from online_rank.serving.monitor import MOST_WAITING, Monitor
from online_rank.serving.outcomes import REFERENCE
from online_rank.serving.protocol import Reply
from online_rank.serving.reading import RequestError, read, read_to_rank
from online_rank.serving.snapshots import KeptModels
from online_rank.serving.stored_times import latest_time
from online_rank.storage.files import to_bytes

_log = logging.getLogger("online_rank.serving")

#: Seconds for which feedback waits for a ranking that a reader may be sending, and seconds in which readers come back after a
#: restart: until then feedback on unknown queries is not refused for good, because readers may have their rankings.
_ON_THE_WAY, _AFTER_RESTART = 2.0, 10.0
#: With this much evidence the log says for the first time how a comparison goes; then each time there is twice as much.
_FIRST_TOLD = 50.0
_READERS_MAY_KNOW = (
    503,
    {"error": "no query is waiting under this id, and after a restart readers may have it: send this again"},
)

#: HTTP status and the answer, for JSON.
Answer = tuple[int, dict[str, Any]]
_P = ParamSpec("_P")


def answering(
    method: Callable[Concatenate["ServedModel", _P], Awaitable[Answer]],
) -> Callable[Concatenate["ServedModel", _P], Awaitable[Answer]]:
    """Meanwhile the model is not put away, and it is answered with 503 if the disk does not take what has changed."""

    @functools.wraps(method)
    async def in_use(served: "ServedModel", *arguments: _P.args, **named: _P.kwargs) -> Answer:
        served.n_users += 1
        try:
            return await method(served, *arguments, **named)
        except CommitError as error:
            return error.status, error.answer
        finally:
            served.n_users -= 1

    return in_use


class ServedModel:
    """A service with its journal and monitor. All methods must be called in one event loop.

    It is replaced, and forgets, in `online_rank.serving.replacing`.

    Parameters
    ----------
    durable
        The service and its journal.
    idle
        After how many seconds without a request time passes by the clock; None for never.
    snapshots
        For how many days the model with which each began is kept; 0 for none.
    cache
        Keeps the present model, to rank while the state cannot be opened; None for none.
    """

    #: What is answered to requests to replace it, or to take rankings from elsewhere; None if they are answered.
    refusal: Answer | None = None
    #: Why requests should go elsewhere; empty if they should not.
    why_not_ready = ""

    def __init__(
        self, durable: DurableService, idle: float | None = None, snapshots: int = 0, cache: Cache | None = None
    ) -> None:
        self.durable = durable
        self.commits = GroupCommit(durable)
        service = durable.service
        self.n_users = 0
        self._idle = idle
        #: When the last request came, by the monotonic clock, and what time it was by the requests; None if nobody has looked.
        self._moved: tuple[float, float | None] = (time.monotonic(), None)
        self.n_promotions = 0
        #: When this process began, and how many odd values somebody has seen figures of.
        self._begun, self._n_odd = CLOCK.now(), 0
        self._tells_at = _FIRST_TOLD
        self._tells_failures_at = 1 if service.challenge is None else service.challenge.n_failed + 1
        #: A part of the model's version that no other process has, and how often another one took its place, or it forgot.
        self._run, self._n_models = secrets.token_hex(8), 0
        #: The file of the model, for those who read it again and again, and its version.
        self._file: tuple[str, bytes] | None = None
        #: How many rankings were made elsewhere, and how many of them with another model than the present one.
        self.n_elsewhere = self.n_older = 0
        #: Until when rankings may come from elsewhere: always, once somebody has read the model, and for a while after a
        #: restart (`_back_until`); and what is set when more of them have come.
        recovered = durable.store is not None and service.n_changes > 0
        self.read_until = self._back_until = time.monotonic() + _AFTER_RESTART if recovered else 0.0
        self._arrival = asyncio.Event()
        self.kept = KeptModels(durable.store, snapshots, cache)
        # It continues the service's account of losses, which outlives the process.
        self.monitor = Monitor(learned_measure(service.model), service.served, clicks=service.draws)
        self.inputs = self._inputs()
        self._latest_time = latest_time(service)
        if self.seconds_ahead:
            where = "a service" if durable.store is None else durable.store
            _log.warning(
                "%s has times that lie %.0f seconds ahead of the clock; if that is right, stop the server and run "
                "online-rank repair %s", where, self.seconds_ahead, where,
            )  # fmt: skip
        self._before = service.counts()
        self._today = Today(self._counted())
        #: Held while the model is replaced, forgets, or is kept.
        self.alone = asyncio.Lock()
        if service.replaced is not None:
            # The process may have been killed before the file was written.
            self.keep_replaced()

    @property
    def seconds_ahead(self) -> float:
        """By how many seconds stored times lie ahead of the clock; 0.0 for less than is accepted of requests."""
        ahead = self._latest_time - CLOCK.now()
        return ahead if ahead > self.durable.service.clock_skew else 0.0

    @property
    def is_idle(self) -> bool:
        """Whether no request is waiting for it."""
        return self.n_users == 0 and self.commits.is_idle

    async def answer(self, request: bytes, kinds: Collection[str] | None = None) -> Answer:
        """Answer a request of `online_rank.serving.protocol`; feedback is on the disk when this returns."""
        service, commits, now = self.durable.service, self.commits, time.monotonic()
        before = self._seen_before(now)
        self.n_users += 1
        try:
            if commits.failure is None and commits.full is None:
                reply = service.handle(request, kinds=kinds)
            else:
                reply = self._without_change(request, kinds)
            if reply.is_unknown and (now < self.read_until or now < self._back_until):
                reply = await self._once_it_arrives(request, kinds, reply)
                if reply.is_unknown and time.monotonic() < self._back_until:
                    return _READERS_MAY_KNOW
            on_disk = self._noted(reply, now, before)
            if reply.command == "save":
                await commits.checkpoint()
                return 200, {"saved": self.durable.store is not None}
            if on_disk is not None:
                await on_disk
        except CommitError as error:
            return error.status, error.answer
        finally:
            self.n_users -= 1
        return answered(reply)

    def at_once(self, request: bytes, kinds: Collection[str] | None = None) -> dict[str, Any] | None:
        """The answer to a request to rank, which waits for nothing; None, with nothing changed, if `answer` has to answer."""
        message = read_to_rank(request)
        if message is None or not self.commits.is_working:
            return None
        now = time.monotonic()
        before = self._seen_before(now)
        reply = self.durable.service.handle_read(message, request, kinds)
        if "error" in reply.answer:
            return None
        self._noted(reply, now, before)
        return reply.answer

    def _seen_before(self, now: float) -> Any:
        """What `watch` needs from before a request; its day may be a new one."""
        if now >= self._today.until:
            self._today.begin(self._counted())
        return None if now < self.monitor.shows_from else self.monitor.before_learning(self.durable.service.model)

    def _noted(self, reply: Reply, now: float, before: Any) -> Awaitable[None] | None:
        """Add what has changed to the journal, and show it; what to wait for before feedback is acknowledged."""
        self._moved = (now, None)
        on_disk = None
        if reply.outcome is not None:
            outcomes = reply.outcomes if reply.closed else (reply.outcome,)
            if not self.durable.keeps:
                pass  # No thread has to say that it is on the disk.
            elif reply.learned:
                on_disk = self.commits.add_and_wait(*outcomes)
            else:
                self.commits.add(*outcomes)
            self.watch(reply, before)
        elif reply.learned:
            on_disk = self.commits.add_and_wait()
        if reply.missing:
            self.inputs.lacks(reply.missing)
        return on_disk

    async def _once_it_arrives(self, request: bytes, kinds: Collection[str] | None, reply: Reply) -> Reply:
        """The reply to feedback whose ranking a reader may be sending, as soon as it comes, or after some seconds."""
        service, until = self.durable.service, time.monotonic() + _ON_THE_WAY
        while reply.is_unknown and (left := min(until, self.read_until) - time.monotonic()) > 0.0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._arrival.wait(), left)
            reply = service.handle(request, kinds=kinds) if self.commits.is_working else self._without_change(request, kinds)
        return reply

    def _without_change(self, request: bytes, kinds: Collection[str] | None) -> Reply:
        """Answer a request while nothing can be kept: a ranking is by the scores alone, and waits for no feedback.

        Raises CommitError for what would change the service.
        """
        try:
            message = read(request)
        except RequestError:
            return self.durable.service.handle(request, kinds=kinds)
        if self.commits.failure is not None or not isinstance(message, Rank | Explain | Command):
            self.commits.require_working()
        reply = self.durable.service.handle(request, kinds=kinds, greedy=True)
        if "ranking" in reply.answer:
            reply.answer["greedy"] = True
        return reply

    def explain(self, request: bytes) -> Answer:
        """Answer a request for an explanation, and no other. Nothing changes."""
        # Another kind is a mistake on this path, regardless of what the client may do.
        return answered(self.durable.service.handle(request, kinds=("explain",))._replace(is_refused=False))

    def let_time_pass(self) -> None:
        """Learn the queries whose windows have ended while no requests came."""
        service, (since, then) = self.durable.service, self._moved
        if then is None:
            then = service.now
            self._moved = (since, then)
        passed = time.monotonic() - since
        if self.commits.is_working and self._idle is not None and then is not None and passed >= self._idle:
            if time.monotonic() >= self._today.until:
                self._today.begin(self._counted())
            before = self.monitor.before_learning(service.model)
            while (reply := service.advance(then + passed)).changed:
                self.commits.add(*reply.outcomes)
                self.watch(reply, before)

    def watch(self, reply: Reply, before: Any = None) -> None:
        """Show what a request led to; `before` is what `Monitor.before_learning` returned."""
        monitor, model = self.monitor, self.durable.service.model
        monitor.version += 1
        if before is None and reply.loss is not None and len(monitor.waiting) < MOST_WAITING:
            monitor.waiting.append(("grades", reply.loss, None))
        elif reply.feedback is not None:
            monitor.learned(reply, model, before)
        for closed in reply.closed:
            if closed.feedback is not None:
                monitor.learned(closed, model, before)
        if reply.promoted:
            self.decided(f"promoted: {reply.promoted}")
            self.n_promotions += 1
            self._n_models += 1
            self.inputs.serve(self.durable.service.learning_model)
            if self.durable.service.challenge is None:  # Otherwise the model before waits.
                self.keep_replaced()
        challenge = self.durable.service.challenge
        if challenge is not None:  # It may have begun again.
            self._tells_at = min(self._tells_at, max(_FIRST_TOLD, 2.0 * float(challenge.sums[0, 0])))
            self._tells_failures_at = min(self._tells_failures_at, max(1, 2 * challenge.n_failed))
        if challenge is not None and challenge.sums[0, 0] >= self._tells_at:
            self._tells_at = 2.0 * float(challenge.sums[0, 0])
            _log.info("the model that waits: %s", challenge.in_words())
        if challenge is not None and challenge.n_failed >= self._tells_failures_at:
            self._tells_failures_at = 2 * challenge.n_failed
            _log.warning(
                "the model that waits could not rank or learn a query %d times so far, which is no evidence: %s",
                challenge.n_failed, challenge.failure,
            )  # fmt: skip
        if reply.docs is not None and time.monotonic() >= self.inputs.looks_from and self.inputs.look(reply.docs):
            self._keep_reference()

    def _counted(self) -> dict[str, float]:
        """What `Today` counts: also the lists drawn, and the sum of what they keep."""
        service = self.durable.service
        return {**service.counts(), **dict(zip(("drawn", "kept"), service._kept.tolist(), strict=True))}

    def decided(self, text: str) -> None:
        """Say in the log and on the page that another model serves, or waits."""
        _log.warning(text)
        self.monitor.decided(text)

    def _inputs(self) -> InputWatch:
        """What watches the features of queries, with the reference that was kept."""
        watch = InputWatch(self.durable.service.learning_model)
        if self.durable.store is not None:
            try:
                kept = self.durable.store.file(REFERENCE)
                if kept is not None:
                    watch.restore(kept)
            except (OSError, ValueError) as error:
                _log.error("a new reference of features begins: %s", error)
        return watch

    def _keep_reference(self) -> None:
        """Keep the reference of features for later processes."""
        if self.durable.store is not None:
            try:
                self.durable.store.put_file(REFERENCE, self.inputs.to_json())
            except (OSError, ValueError) as error:  # Names of a model may be what no file in UTF-8 has.
                _log.error("the reference of features cannot be kept: %s", error)

    def keep_replaced(self) -> None:
        """Keep the model that was replaced, for `roll_back`."""
        try:
            self.kept.put(to_bytes(self.durable.service.replaced))
        except (OSError, TypeError, ValueError) as error:
            _log.error("the model before cannot be kept: %s", error)

    @property
    def version(self) -> str:
        """What distinguishes the current model from models before, and from models of other processes."""
        counts = self.durable.service.counts()
        return f"{self._run}-{self._n_models}-{counts['learned'] + counts['displayed']}"

    def model_file(self) -> bytes:
        """The current model, in the format of `online_rank.save`."""
        if self._file is None or self._file[0] != self.version:
            self._file = self.version, to_bytes(self.durable.service.model)
        return self._file[1]

    @answering
    async def take_rankings(self, request: bytes, /) -> Answer:
        """Let queries wait that were ranked elsewhere (`messages.Elsewhere`); they are on the disk when this returns."""
        try:
            rankings = rankings_in(request)
        except ValueError as error:
            return 400, {"error": str(error)}
        self.commits.require_working()
        if time.monotonic() >= self._today.until:
            self._today.begin(self._counted())
        before, version, refused = self.monitor.before_learning(self.durable.service.model), self.version, []
        for each in rankings:
            reply = taken(self.durable.service, each)
            if "error" in reply.answer:
                refused.append(reply.answer)
                continue
            self.n_elsewhere += 1
            self.n_older += each.model != version
            self.commits.add(*reply.outcomes)
            self.watch(reply, before)
        self._moved = (time.monotonic(), None)
        self._arrival.set()
        self._arrival = asyncio.Event()
        await self.commits.add_and_wait()
        return 200, {"ranked": len(rankings) - len(refused), "refused": refused}

    def exchanged(self) -> None:
        """Show another model, which serves from now on."""
        service, watched = self.durable.service, self.monitor
        self._n_models += 1
        self._latest_time = latest_time(service)
        self.inputs.serve(service.learning_model)
        self.monitor = Monitor(learned_measure(service.model), service.served, clicks=service.draws)
        self.monitor.continues(watched)

    def forgotten(self, features: Collection[str]) -> None:
        """Show no query that was forgotten, and none of these features."""
        self._n_models += 1
        self._file = None
        self.monitor.forget()
        self.monitor.version += 1
        self.inputs.forget(features.__contains__)
        if self.inputs.has_reference:
            self._keep_reference()

    @property
    def who(self) -> dict[str, Any]:
        """Which model serves, since when and why, and which one waits, for JSON."""
        service = self.durable.service
        since, why = service.serving_since or (self._begun, "this process began with it")
        return {"serving": {"name": service.names[0], "since": since, "why": why}, "waiting": service.names[1]}

    def figures(self) -> dict[str, Any]:
        """Counts and figures, for JSON."""
        odd = self.durable.service.n_odd
        if odd != self._n_odd:
            self._n_odd = odd
            self.inputs.last["odd"] = CLOCK.now()
        return {
            "models": self.who,
            **self.monitor.figures(self.durable.service.stats()),
            "inputs": self.inputs.figures(),
            "journal_bytes": self.durable.journal_bytes,
            "odd": {str(name): n for name, n in (self.durable.service.odd or collections.Counter()).most_common(10)},
            "limited_by": {} if (limited := self.durable.service.limited_by) is None else dict(limited.most_common(10)),
        }

    def snapshot(self) -> dict[str, Any]:
        """The data of the page, for JSON."""
        counted = self._counted()
        self._today.begin(counted)
        service = self.durable.service
        shown = self.monitor.shown(service.model)
        if not shown["has_curves"]:
            shown["waiting_curves"] = curves.copied(service.learning_model) is not None
        return {**self.figures(), **shown, "today": self._today.figures(counted)}

    def counts(self) -> collections.Counter[str]:
        """Counts since it was loaded into memory."""
        watch = self.inputs
        own = {
            "inputs": watch.n_queries,
            "unknown_inputs": watch.n_with_unknown,
            "missing_inputs": watch.n_with_missing,
            "missing_declared": watch.declared.total(),
            "odd_values": self.durable.service.n_odd,
            "drifts": self.monitor.n_drifts,
            "promotions": self.n_promotions,
            "elsewhere": self.n_elsewhere,
            "older": self.n_older,
        }
        since = {name: count - self._before[name] for name, count in self.durable.service.counts().items()}
        return collections.Counter({**since, **own})

    async def close(self) -> None:
        """Write the remaining changes and a checkpoint, then release the directory."""
        with contextlib.suppress(CommitError):
            await self.commits.checkpoint()
        await self.commits.flush()
        await begun_in_thread(self.durable.close)

    def put_away(self) -> None:
        """Write a checkpoint, unless one has all changes, and release the directory; while nobody uses it, from any
        thread.

        Raises
        ------
        OSError, ValueError, MemoryError
            It cannot be written; the model continues.
        """
        if not self.durable.is_saved:
            self.durable.save()
        self.durable.close()


def seconds_ahead(models: Iterable[ServedModel]) -> float:
    """By how many seconds times that models have stored lie ahead of the clock."""
    return max((model.seconds_ahead for model in models), default=0.0)


def answered(reply: Reply) -> Answer:
    """The answer over HTTP, where requests have no line."""
    if "error" in reply.answer:
        return 403 if reply.is_refused else 400, {name: value for name, value in reply.answer.items() if name != "line"}
    return 200, reply.answer
