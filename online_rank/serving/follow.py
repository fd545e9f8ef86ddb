"""A read replica: it does again whatever happens to the service of another server."""

import asyncio
import http.client
import json
import logging
import time
import urllib.parse
from typing import Any

from online_rank.serving.durable import DurableService
from online_rank.serving.protocol import RankingService
from online_rank.serving.served import Answer, ServedModel
from online_rank.storage.files import from_bytes

__all__ = ["Replica"]

_log = logging.getLogger("online_rank.serving")

#: What follows from an answer that is not one of a server that is followed: it may be anything.
_NO_CHANGES = (LookupError, ValueError, TypeError, AttributeError, OverflowError, RecursionError)

#: Seconds of work on outcomes, after which requests have their turn.
_TURN = 0.01


class Replica(ServedModel):
    """A model that ranks as another server's does, and learns nothing by itself.

    It begins with that server's whole service, and then does again whatever happens to it: it draws nothing and refuses
    nothing. So its scores are those of the server at the change that it has come to, bit for bit.

    Parameters
    ----------
    url
        The server to follow, with its key where it has several models: `http://ranker:8000?shop=north`.
    token
        Its token; None where it asks for none.

    Attributes
    ----------
    n_behind : int
        How many changes of the server are known of, but not done again yet.
    """

    def __init__(self, url: str, *, token: str | None = None) -> None:
        parsed = urllib.parse.urlsplit(url if "//" in url else f"http://{url}")
        if parsed.scheme not in ("http", "https") or not parsed.hostname:
            raise ValueError(f"--follow is {url!r}; it is the address of a server, such as http://ranker:8000")
        self._server = parsed
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._query = parsed.query
        self._connection: http.client.HTTPConnection | None = None
        self._epoch, self.n_behind = "", 0
        self._current_at = time.monotonic()
        super().__init__(DurableService(self._begun()))

    @property
    def seconds_behind(self) -> float:
        """For how many seconds at most the server has been ahead: since it was last reached, and nothing was left to do."""
        return time.monotonic() - self._current_at

    async def answer(self, request: bytes) -> Answer:
        """Rank by the scores; feedback is refused, and told where to go."""
        reply = self.durable.service.rank_greedily(request)
        if reply is None:
            return 409, {"error": f"this is a replica: it ranks, and learns nothing; send feedback to {self._server.geturl()}"}
        if "error" in reply.answer:
            return 400, {name: value for name, value in reply.answer.items() if name != "line"}
        return 200, {**reply.answer, "replica": True}

    async def replace(self, content: bytes) -> Answer:
        """A replica has the model of its server."""
        return 409, {"error": f"this is a replica: send the model to {self._server.geturl()}"}

    async def roll_back(self) -> Answer:
        """A replica has the model of its server."""
        return await self.replace(b"")

    async def forget(self, request: bytes) -> Answer:
        """A replica forgets what its server forgets."""
        return 409, {"error": f"this is a replica: send this to {self._server.geturl()}"}

    def figures(self) -> dict[str, Any]:
        """Counts and figures, and how far behind this replica is."""
        behind = {"changes": self.n_behind, "seconds": round(self.seconds_behind, 3)}
        shown = super().figures()
        return {**shown, "stats": {**shown["stats"], "behind": behind}}

    async def follow(self) -> None:
        """Follow the server, as long as this runs; where it cannot be reached, go on trying."""
        patience = 0.1
        while True:
            try:
                content = await asyncio.to_thread(self._more)
                if content is None:
                    self._begin_anew(await asyncio.to_thread(self._begun))
                else:
                    await self._do_again(content)
                patience = 0.1
            except (OSError, http.client.HTTPException, *_NO_CHANGES) as error:
                _log.error("following %s: %s", self._server.geturl(), error)
                self._connection = None
                await asyncio.sleep(patience)
                patience = min(2.0 * patience, 5.0)

    def _begin_anew(self, service: RankingService) -> None:
        """The server has another model, or has forgotten something: nothing of before is kept, names in figures included."""
        version = self.monitor.version
        self.durable.service = service
        self._attend()
        self.monitor.version = version + 1

    async def _do_again(self, content: bytes) -> None:
        """What has happened to the server, in turns with requests."""
        head, *lines = content.splitlines()
        service, known = self.durable.service, json.loads(head)["change"]
        until = time.perf_counter() + _TURN
        for line in lines:
            fields, number, waiting, feedback = json.loads(line)["o"]
            service.replay(fields, number, waiting, feedback.encode())
            self.told.pass_on((line,))
            if time.perf_counter() > until:
                self.n_behind = known - service.n_changes
                await asyncio.sleep(0)
                until = time.perf_counter() + _TURN
        self.n_behind = known - service.n_changes
        if lines:
            self.monitor.changed()
        if not self.n_behind:
            self._current_at = time.monotonic()

    def _begun(self) -> RankingService:
        """The whole service, as it is now."""
        content, headers = self._get("/follow")
        service = from_bytes(content)
        if not isinstance(service, RankingService):
            raise ValueError(f"{self._server.geturl()} sends something else than a service")
        self._epoch = headers.get("x-epoch", "")
        return service

    def _more(self) -> bytes | None:
        """What has happened since; None where the server has begun anew."""
        content, _ = self._get(f"/follow?epoch={self._epoch}&after={self.durable.service.n_changes}")
        return content or None

    def _get(self, path: str) -> tuple[bytes, Any]:
        """Ask the server. Raises OSError."""
        if self._connection is None:
            kind = http.client.HTTPSConnection if self._server.scheme == "https" else http.client.HTTPConnection
            self._connection = kind(self._server.netloc, timeout=30.0)
        if self._query:
            path += ("&" if "?" in path else "?") + self._query
        self._connection.request("GET", self._server.path.rstrip("/") + path, headers=self._headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise OSError(f"{answer.status} {content[:200].decode(errors='replace')}")
        return content, answer.headers
