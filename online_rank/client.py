"""A client of `online-rank serve`, synchronous and asynchronous (extra `client`).

Requests are the typed messages of `online_rank.serving.messages`, answers its typed dicts. What gets no answer, or 429, 502,
503 or 504, is sent again under its id until the patience is over, unless the server failed at it. Feedback under an id is
learned once, however often it comes: the answer to a repetition has `"duplicate": true`. So has the one after an answer that
was lost on its way.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, overload

try:
    import httpx
    import msgspec
except ImportError as error:
    raise ImportError(f'the client needs {error.name}: pip install "online_rank[client]"') from None

from online_rank import arguments
from online_rank.serving import messages
from online_rank.serving.kinds import Clicks, Event, Grades
from online_rank.serving.messages import (
    Accepted,
    Explain,
    Explained,
    Learned,
    Message,
    Rank,
    Ranked,
    Teach,
)

__all__ = ["AsyncClient", "Clicks", "Client", "Event", "Explain", "Grades", "Rank", "ServiceError", "Teach"]

_AGAIN = (429, 502, 503, 504)
#: Seconds until a request is sent again: at first, and at most.
_FIRST, _MOST = 0.1, 2.0

#: Feedback of any kind.
Feedback = messages.Feedback | Teach


class ServiceError(RuntimeError):
    """A request was refused, or not answered for as long as the client is patient.

    Attributes
    ----------
    status : int
        The HTTP status; 0 without an answer.
    request_id : str
        What identifies the request in the log of the server.
    made_it_fail : bool
        Whether the server failed at this request, or at others that it was written with. It is not sent again: the next server
        might fail, too.
    """

    def __init__(self, status: int, error: str, request_id: str = "", made_it_fail: bool = False) -> None:
        super().__init__(f"{status}: {error}" if status else error)
        self.status, self.request_id, self.made_it_fail = status, request_id, made_it_fail


class _Call:
    """A request until its answer: what is sent, and when it is sent again."""

    def __init__(self, message: Message, patience: float) -> None:
        path = "/rank" if isinstance(message, Rank) else "/explain" if isinstance(message, Explain) else "/learn"
        self.request: dict[str, Any] = {
            "method": "POST",
            "url": path,
            "content": msgspec.json.encode(message),
            "headers": {"Content-Type": "application/json"},
        }
        self.answer: Any = None
        self._end, self._pause = time.monotonic() + patience, _FIRST

    def seconds_to_wait(self, came: httpx.Response | httpx.TransportError) -> float | None:
        """Seconds until it is to be sent again; None where there is an answer. Raises ServiceError."""
        if isinstance(came, httpx.Response) and came.status_code == 200:
            self.answer = _answer(came)
            return None
        error = _error(came)
        # Of many clients, not all come again at once.
        wait, self._pause = self._pause * (0.5 + random.random()), min(2.0 * self._pause, _MOST)
        if error.status and (error.status not in _AGAIN or error.made_it_fail):
            raise error
        if time.monotonic() + wait > self._end:
            raise error
        return wait


def _answer(came: httpx.Response) -> dict[str, Any]:
    """The answer in a response. Raises ServiceError for one that is not of this service, but of a proxy, for one."""
    with contextlib.suppress(ValueError):
        answer = came.json()
        if isinstance(answer, dict):
            return answer
    raise ServiceError(200, f"this is no answer of online-rank: {came.text[:200]}")


def _error(came: httpx.Response | httpx.TransportError) -> ServiceError:
    if not isinstance(came, httpx.Response):
        return ServiceError(0, f"no answer: {came or type(came).__name__}")
    try:
        told = came.json()
        return ServiceError(came.status_code, str(told["error"]), str(told.get("request_id", "")), told.get("repeat") is False)
    except (ValueError, LookupError, TypeError):
        return ServiceError(came.status_code, came.text[:200])


class _Settings:
    """What both clients are made from."""

    _kind: Any = None

    def __init__(
        self,
        url: str,
        *,
        key: Mapping[str, str] | None = None,
        token: str | None = None,
        timeout: float = 5.0,
        patience: float = 30.0,
        at_once: int = 16,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"url is {url[:100]!r}; it must begin with http:// or https://")
        arguments.number("timeout", timeout, above=0.0)
        arguments.number("patience", patience, low=0.0)
        arguments.integer("at_once", at_once, 1)
        self._patience, self._at_once = patience, at_once
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        limits = httpx.Limits(max_connections=at_once, max_keepalive_connections=at_once)
        self._http: Any = self._kind(base_url=url, params=key, headers=headers, timeout=timeout, limits=limits)


class Client(_Settings):
    """A client, for any number of threads.

    Parameters
    ----------
    url
        Address of the server, `"http://localhost:8000"`.
    key
        The query parameter that names a model, and its value, `{"shop": "north"}`; None for a single model.
    token
        The token to send; None for none.
    timeout
        Seconds that a try may take.
    patience
        Seconds after which a request is not sent again; 0 sends each once.
    at_once
        Most requests under way at the same time, of `send_all`.

    Examples
    --------
    >>> from online_rank.client import Client, Grades, Rank
    >>> def search(client: Client) -> list[str]:
    ...     answer = client.send(Rank(id="q1", docs={"a": {"clicks": 3}, "b": {"clicks": 1}}))
    ...     return answer["ranking"]
    >>> def teach(client: Client) -> bool:
    ...     return client.send(Grades(id="q1", grades={"a": 0, "b": 2}))["learned"]
    """

    _kind = httpx.Client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @overload
    def send(self, message: Rank) -> Ranked: ...
    @overload
    def send(self, message: Explain) -> Explained: ...
    @overload
    def send(self, message: Feedback) -> Learned | Accepted: ...
    def send(self, message: Message) -> Any:
        """The answer to a request. Raises ServiceError."""
        call = _Call(message, self._patience)
        while True:
            try:
                came = self._http.request(**call.request)
            except httpx.TransportError as error:
                came = error
            wait = call.seconds_to_wait(came)
            if wait is None:
                return call.answer
            time.sleep(wait)

    def send_all(self, messages: Iterable[Message]) -> list[Any]:
        """The answers to requests that do not depend on one another, in their order, several at once.

        A request without an answer gets its ServiceError in the list.
        """

        def tried(message: Any) -> Any:
            try:
                return self.send(message)
            except ServiceError as error:
                return error

        with ThreadPoolExecutor(self._at_once) as pool:
            return list(pool.map(tried, messages))


class AsyncClient(_Settings):
    """A client for one event loop; parameters as for `Client`."""

    _kind = httpx.AsyncClient

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    @overload
    async def send(self, message: Rank) -> Ranked: ...
    @overload
    async def send(self, message: Explain) -> Explained: ...
    @overload
    async def send(self, message: Feedback) -> Learned | Accepted: ...
    async def send(self, message: Message) -> Any:
        """The answer to a request. Raises ServiceError."""
        call = _Call(message, self._patience)
        while True:
            try:
                came = await self._http.request(**call.request)
            except httpx.TransportError as error:
                came = error
            wait = call.seconds_to_wait(came)
            if wait is None:
                return call.answer
            await asyncio.sleep(wait)

    async def send_all(self, messages: Iterable[Message]) -> list[Any]:
        """As `Client.send_all`."""
        places = asyncio.Semaphore(self._at_once)

        async def tried(message: Any) -> Any:
            async with places:
                try:
                    return await self.send(message)
                except ServiceError as error:
                    return error

        return await asyncio.gather(*map(tried, messages))
