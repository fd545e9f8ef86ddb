"""A read replica: it does again whatever happens to the service of another server; as a standby it can take its place."""

import asyncio
import http.client
import json
import logging
import shutil
import time
import urllib.parse
from pathlib import Path
from typing import Any, NamedTuple

from online_rank.serving.commit import GroupCommit
from online_rank.serving.durable import DurableService, read_service, write_service
from online_rank.serving.idle import IdleClock
from online_rank.serving.outcomes import waiting_query
from online_rank.serving.protocol import RankingService
from online_rank.serving.served import Answer, ServedModel, answered
from online_rank.storage.files import from_bytes

__all__ = ["Replica", "TakeOver"]

_log = logging.getLogger("online_rank.serving")

#: What follows from an answer that is not one of a server that is followed: it may be anything.
_NO_CHANGES = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError)

#: Seconds of work on outcomes, after which requests have their turn.
_TURN = 0.01


class TakeOver(NamedTuple):
    """When a replica takes the place of the server that it follows, and as what it goes on.

    Attributes
    ----------
    folder
        The folder for its state. If there is a state in it already, the replica has taken over before, and goes on with it.
    seconds
        For how long the server could not be reached, from the first attempt that failed.
    every
        Number of changes between two checkpoints.
    idle
        After how many seconds without a request time goes on by itself (`IdleClock`).
    """

    folder: str | Path
    seconds: float
    every: int = 10_000
    idle: float | None = None


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
    take_over
        When it takes the server's place, and learns from then on; None for never.

    Attributes
    ----------
    leads : bool
        Whether it has taken the server's place.
    n_behind : int
        How many changes of the server are known of, but not done again yet.
    """

    def __init__(self, url: str, *, token: str | None = None, take_over: TakeOver | None = None) -> None:
        parsed = urllib.parse.urlsplit(url if "//" in url else f"http://{url}")
        if parsed.scheme not in ("http", "https") or not parsed.hostname:
            raise ValueError(f"--follow is {url!r}; it is the address of a server, such as http://ranker:8000")
        self._server = parsed
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._query = parsed.query
        self._connection: http.client.HTTPConnection | None = None
        self._take_over = take_over
        # Where nothing is answered for so long, the server counts as not reached.
        self._timeout = 30.0 if take_over is None else min(30.0, max(1.0, take_over.seconds))
        self._epoch, self.n_behind = "", 0
        self._current_at = time.monotonic()
        # When the first attempt failed since the server was last reached. While nothing was tried, it need not be away: this
        # process may have been starting, or stopped.
        self._away_since: float | None = None
        self._told_of = ""
        self.leads = take_over is not None and _has_state(take_over.folder)
        if take_over is None or not self.leads:
            super().__init__(DurableService(self._begun()))
        else:
            super().__init__(_opened(take_over), take_over.idle)

    @property
    def seconds_behind(self) -> float:
        """For how many seconds at most the server has been ahead: since it was last reached, and nothing was left to do."""
        return time.monotonic() - self._current_at

    async def answer(self, request: bytes) -> Answer:
        """Rank by the scores; feedback is refused, and told where to go."""
        if self.leads:
            return await super().answer(request)
        reply = self.durable.service.rank_greedily(request)
        if reply is None:
            return 409, {"error": f"this is a replica: it ranks, and learns nothing; send feedback to {self._server.geturl()}"}
        status, answer = answered(reply)
        return status, {**answer, "replica": True} if status == 200 else answer

    async def replace(self, content: bytes) -> Answer:
        """A replica has the model of its server."""
        if self.leads:
            return await super().replace(content)
        return 409, {"error": f"this is a replica: send the model to {self._server.geturl()}"}

    async def roll_back(self) -> Answer:
        """A replica has the model of its server."""
        return await (super().roll_back() if self.leads else self.replace(b""))

    async def forget(self, request: bytes) -> Answer:
        """A replica forgets what its server forgets."""
        if self.leads:
            return await super().forget(request)
        return 409, {"error": f"this is a replica: send this to {self._server.geturl()}"}

    def figures(self) -> dict[str, Any]:
        """Counts and figures, and how far behind this replica is."""
        if self.leads:
            return super().figures()
        behind = {"changes": self.n_behind, "seconds": round(self.seconds_behind, 3)}
        shown = super().figures()
        return {**shown, "stats": {**shown["stats"], "behind": behind}}

    async def follow(self) -> None:
        """Follow the server, as long as this runs; where it cannot be reached, go on trying, or take its place."""
        patience, longest = 0.1, 1.0 if self._take_over is None else min(1.0, self._take_over.seconds / 4.0)
        while not self.leads:
            try:
                content = await asyncio.to_thread(self._more)
                if content is None:
                    self._begin_anew(await asyncio.to_thread(self._begun))
                else:
                    await self._do_again(content)
                patience = 0.1
                self._told_of = ""
            except (OSError, http.client.HTTPException, *_NO_CHANGES) as error:
                if self._told_of != str(error):
                    _log.error("following %s: %s", self._server.geturl(), error)
                    self._told_of = str(error)
                self._connection = None
                if self._away_since is None:
                    self._away_since = time.monotonic()
                if not await self._may_take_over(self._away_since):
                    await asyncio.sleep(patience)
                    patience = min(2.0 * patience, longest)

    async def _may_take_over(self, away_since: float) -> bool:
        """Take the place of the server, if it could not be reached for long enough. Returns whether that was tried."""
        wanted, service = self._take_over, self.durable.service
        if wanted is None or time.monotonic() - away_since < wanted.seconds:
            return False
        try:
            durable = await asyncio.to_thread(_begun_in, wanted, service)
        except (OSError, ValueError) as error:
            _log.error("the place of %s cannot be taken: %s", self._server.geturl(), error)
            await asyncio.sleep(1.0)
            return True
        version = self.monitor.version
        self.durable, self.commits = durable, GroupCommit(durable)
        self.clock = IdleClock(durable.service, wanted.idle)
        self._attend()
        self.monitor.version = version + 1
        self.leads = True
        counts, url = durable.service.counts(), self._server.geturl()
        _log.warning(
            "%s was not reached for %g seconds: this one takes its place, with %d queries ranked, %d learned, %d waiting",
            url, wanted.seconds, counts["ranked"], counts["learned"], durable.service.n_waiting,
        )  # fmt: skip
        return True

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
            service.replay(fields, number, waiting and waiting_query(waiting), feedback.encode())
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
            self._connection = kind(self._server.netloc, timeout=self._timeout)
        if self._query:
            path += ("&" if "?" in path else "?") + self._query
        self._connection.request("GET", self._server.path.rstrip("/") + path, headers=self._headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status < 500:
            # Also where it refuses: it is there, and a second one must not learn beside it.
            self._away_since = None
        if answer.status != 200:
            raise OSError(f"{answer.status} {content[:200].decode(errors='replace')}")
        return content, answer.headers


def _begun_in(wanted: TakeOver, service: RankingService) -> DurableService:
    """The service, in its new folder. Raises OSError, ValueError; then there is none."""
    write_service(service, wanted.folder)
    try:
        return _opened(wanted)
    except (OSError, ValueError):
        shutil.rmtree(wanted.folder, ignore_errors=True)
        raise


def _opened(wanted: TakeOver) -> DurableService:
    """The service in the folder. Raises OSError, ValueError."""
    return DurableService(read_service(wanted.folder), wanted.folder, wanted.every)


def _has_state(folder: str | Path) -> bool:
    """Whether there is a state in a folder."""
    try:
        return any(Path(folder).iterdir())
    except FileNotFoundError:
        return False
