"""Pages that show how a model learns, and answers in parts."""

import asyncio
import html
import importlib.resources
import json
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.responses import StreamingResponse

from online_rank.serving.asgi import Refused
from online_rank.serving.models import KeyRefused
from online_rank.serving.readers import AnyModels
from online_rank.serving.served import ServedModel

#: Allows only the page itself, and the server it came from.
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
#: Bytes of a file that are sent at a time.
_A_PART = 1 << 18


class OpenPages:
    """The pages that are open; what they show of a model is computed once for all of them."""

    def __init__(self) -> None:
        self.n_open = 0
        self._snapshots: weakref.WeakKeyDictionary[ServedModel, tuple[int, str]] = weakref.WeakKeyDictionary()

    def events(self, models: AnyModels, key: str | None, stopping: asyncio.Event, most: int) -> "Parts":
        """The events of one more page, until the server is stopping. Raises Refused if `most` are open already."""
        if self.n_open >= most:
            raise Refused(503, f"{self.n_open} pages are open already")
        self.n_open += 1
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return Parts(self._events(models, key, stopping), "text/event-stream", headers, self._closed)

    def _closed(self) -> None:
        self.n_open -= 1

    async def _events(self, models: AnyModels, key: str | None, stopping: asyncio.Event) -> AsyncIterator[str]:
        """A snapshot per second while something happens, and comments in between, so that a closed page is noticed."""
        last, quiet = None, 0
        try:
            while not stopping.is_set():
                model = await models.get(key, may_make=False)
                version = (id(model), model.monitor.version)
                quiet += 1
                if version != last:
                    yield f"data: {self._snapshot(model)}\n\n"
                    last, quiet = version, 0
                elif quiet % 15 == 0:
                    yield ": still here\n\n"
                try:
                    await asyncio.wait_for(stopping.wait(), 1.0)
                except TimeoutError:
                    continue
        except KeyRefused:
            return

    def _snapshot(self, model: ServedModel) -> str:
        """The data that pages show of a model."""
        kept = self._snapshots.get(model)
        if kept is None or kept[0] != model.monitor.version:
            kept = self._snapshots[model] = (model.monitor.version, json.dumps(model.snapshot()))
        return kept[1]


class Parts(StreamingResponse):
    """An answer in parts, for at most `seconds`; `ended` is called when it ends, even before it has begun."""

    def __init__(
        self,
        parts: AsyncIterator[Any],
        kind: str,
        headers: dict[str, str],
        ended: Callable[[], None],
        seconds: float | None = None,
    ) -> None:
        super().__init__(parts, media_type=kind, headers=headers)
        self._ended, self._seconds = ended, seconds

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it."""
        try:
            async with asyncio.timeout(self._seconds):
                await super().__call__(scope, receive, send)
        except TimeoutError:
            pass  # The server closes the connection, since the answer is not complete.
        finally:
            self._ended()


async def cut(content: bytes) -> AsyncIterator[bytes]:
    """The parts of a file."""
    for first in range(0, len(content), _A_PART):
        yield content[first : first + _A_PART]


def page_of(key: str | None) -> str:
    """The page, with the name of the query parameter that it must send."""
    page = importlib.resources.files("online_rank.serving").joinpath("page.html").read_text("utf-8")
    return page if key is None else page.replace("<html ", f'<html data-key="{html.escape(key)}" ', 1)
