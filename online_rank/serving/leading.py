"""Several servers of one state, of which one leads: it ranks and learns, and the others wait to take its place."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.routing import Router

from online_rank.serving.asgi import ANOTHER_LEADS, Limits, Message, Receive, Scope, Send
from online_rank.serving.http import Exchange, RankingApp
from online_rank.serving.starting import StandIn, has_to_be_chosen
from online_rank.storage.folder import FolderInUse

_log = logging.getLogger("online_rank.serving")

#: The header of answers with the epoch in which their server leads.
EPOCH = b"online-rank-epoch"
#: What a server answers that only ranks; readers ask for no model that is not the present one.
_OF_STAND_IN = frozenset(
    {"/rank", "/learn", "/explain", "/stats", "/metrics", "/healthz", "/readyz", "/", "/docs", "/openapi.json"}
)
#: Seconds between two tries to lead, and between two looks whether this server still does.
_BETWEEN_TRIES, _BETWEEN_LOOKS = 0.5, 0.25


class LeadingApp:
    """An ASGI application that is a `RankingApp` while its server leads, and answers 503 while another one does.

    Parameters
    ----------
    make
        Makes the application, with a store that has an `epoch` (`PostgresState`); it is called in another thread, again and
        again. It raises FolderInUse while another server leads, OSError while the store cannot be reached, and ValueError for
        what a person has to look at; `/healthz` then has it.
    limits
        What clients may take.
    stand_in
        Makes an application that only ranks, while nobody can lead for a reason; None without a model for it.
    """

    def __init__(
        self,
        make: Callable[[], RankingApp],
        limits: Limits,
        stand_in: Callable[[Exception], RankingApp | None] = lambda _: None,
    ) -> None:
        self.limits = limits
        self._make, self._stand_in = make, stand_in
        self._app: RankingApp | None = None
        self._epoch = b""
        #: What ranks while the state cannot be reached.
        self._meanwhile: RankingApp | None = None
        self._refused = ""
        self._why = ANOTHER_LEADS
        self._stopping = asyncio.Event()
        self._no_http = Router(lifespan=self._lifespan)

    def stop(self) -> None:
        """End what keeps a stopping server waiting."""
        self._stopping.set()
        if self._app is not None:
            self._app.stop()

    def at_once(self, *_: Any) -> None:
        """None: answers have the epoch in their head."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry point."""
        if scope["type"] != "http":
            await self._no_http(scope, receive, send)
        elif (app := self._app) is not None:
            epoch = self._epoch

            async def with_epoch(message: Message) -> None:
                if message["type"] == "http.response.start":
                    message["headers"] = [*message["headers"], (EPOCH, epoch)]
                await send(message)

            await app(scope, receive, with_epoch)
        elif (stand_in := self._meanwhile) is not None and scope["path"] in _OF_STAND_IN:
            await stand_in(scope, receive, send)
        else:
            await self._answer_waiting(Exchange(scope, receive, send))

    async def _answer_waiting(self, exchange: Exchange) -> None:
        """Answer while this server does not lead."""
        status = 200 if exchange.path == "/healthz" and not self._refused else 503
        answer = {"ok": status == 200} if exchange.path in ("/healthz", "/readyz") else {}
        why = {"error": self._refused or self._why} if status == 503 else {}
        # What is posted is not read.
        with contextlib.suppress(ConnectionResetError):
            await exchange.answer(status, answer | why, ((b"retry-after", b"1"), (b"connection", b"close")))

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Any) -> AsyncIterator[None]:
        task = asyncio.create_task(self._lead_again_and_again())
        try:
            yield
        finally:
            self.stop()
            await task

    async def _lead_again_and_again(self) -> None:
        while not self._stopping.is_set():
            try:
                app = await asyncio.to_thread(self._make)
            except FolderInUse:
                self._wait_for(ANOTHER_LEADS)
                self._meanwhile = None
            except OSError as error:
                self._wait_for(f"the state cannot be reached: {error}")
                await self._rank_meanwhile(error)
            except Exception as error:
                if str(error) != self._refused:
                    _log.exception("this server cannot lead")
                self._refused = str(error) or type(error).__name__
                if has_to_be_chosen(error):
                    self._meanwhile = None
                else:
                    await self._rank_meanwhile(error)
            else:
                self._refused, self._meanwhile = "", None
                await self._lead(app)
            await self._pause(_BETWEEN_TRIES)

    def _wait_for(self, why: str) -> None:
        """Say once what this server waits for."""
        if why != self._why:
            _log.warning("%s: this server waits", why)
        self._refused, self._why = "", why

    async def _rank_meanwhile(self, why: Exception) -> None:
        """Rank with the model of the cache, until somebody leads."""
        if self._meanwhile is None:
            self._meanwhile = await asyncio.to_thread(self._stand_in, why)
        elif isinstance(model := self._meanwhile.models.single, StandIn):
            model.wait_for(why)

    async def _lead(self, app: RankingApp) -> None:
        """Serve, until the lead is lost or the server stops."""
        (model,) = app.models.open_models.values()
        store: Any = model.durable.store
        async with app.running():
            self._app, self._epoch = app, str(store.epoch).encode()
            _log.warning("this server leads, in epoch %d", store.epoch)
            while (lost := model.commits.failure or store.failure) is None and not self._stopping.is_set():
                await self._pause(_BETWEEN_LOOKS)
            if lost is not None:
                self._app, self._why = None, ANOTHER_LEADS
                _log.error("this server leads no more: %s", lost)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)
