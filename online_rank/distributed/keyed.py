"""A ranker for each key of a topic, on Quix Streams (extra `quix`).

Events of a key are requests of `online_rank.serving.protocol`: queries, and later their grades or clicks, joined by id. Each
key has a `RankingService` of its own, whose state is the engine's: on the disk, in a changelog topic, and moved with the key.

Nothing is learned twice. After a failure the engine may deliver an event again that was learned but not acknowledged; so the
state of a key holds the place of the last event, and an event before it is answered, but not learned.

A service is written whole only after every so many events. In between, each event is written behind it as it came: the state
follows from the events alone, so replaying them brings it back. Of both the last two generations are kept, and a service whose
write was lost is written again as soon as an event comes a second time. So the state of a key is whole whichever of the writes
since the last commit survive a failure, as long as a commit has no more events than that; `rankers` checks it.

So nothing more is needed for learning, but an answer may come twice after a failure. In the engine's exactly-once mode,
`Application(..., processing_guarantee="exactly-once")`, consumers that read what is committed get each answer once: answers,
state and acknowledgement are one transaction, and a commit may have any number of events. What a killed worker leaves open
keeps others waiting until it times out, or until a worker comes with the same `transactional.id` (`producer_extra_config`). A
broker that does not hide what was aborted shows answers twice here, too.
"""

import collections
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from online_rank.serving.protocol import RankingService
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.storage.tree import settings_of

__all__ = ["KeyedRankers", "KeyedStateError", "rankers"]

_PLACE = struct.Struct("<qqq")


class KeyedStateError(ValueError):
    """The state of a key is not that of a service with these settings."""


class _Place(NamedTuple):
    """How far a key is: the partition and offset of the last event that changed it, and how many did."""

    partition: int = -1
    offset: int = -1
    number: int = 0


class _Kept(NamedTuple):
    """A service in memory: how far it is, and the number of the event after which its state was last written whole."""

    place: _Place
    service: RankingService
    whole: int


class KeyedRankers:
    """Handles the events of all keys; what `rankers` puts into a stream. It needs no engine, only a state for each key.

    Parameters
    ----------
    make_service
        Gives a `RankingService` that has not begun; called for each new key. The same settings each time.
    every
        After how many events a service is written whole. More make writing cheaper, and coming back slower. The state of a key
        is that of a handler with the same `every`.
    max_services
        How many services are held in memory; the others come back from their state.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> from online_rank.distributed.keyed import KeyedRankers
    >>> from online_rank.serving.protocol import RankingService
    >>> class State(dict):
    ...     get_bytes = dict.get
    ...     set_bytes = dict.__setitem__
    >>> handle, state = KeyedRankers(lambda: RankingService(PerceptronRanker())), State()
    >>> handle.event(b'{"id": 1, "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}}', b"shop", state, 0, 17)
    {'id': 1, 'ranking': ['a', 'b'], 'scores': [0.0, 0.0]}
    >>> handle.event(b'{"id": 1, "grades": {"a": 0, "b": 2}}', b"shop", state, 0, 18)
    {'id': 1, 'learned': True, 'loss': 0.369...}
    >>> again = KeyedRankers(lambda: RankingService(PerceptronRanker()))  # after a failure; the event comes a second time
    >>> again.event(b'{"id": 1, "grades": {"a": 0, "b": 2}}', b"shop", state, 0, 18)
    {'id': 1, 'learned': False, 'duplicate': True}
    """

    def __init__(self, make_service: Callable[[], RankingService], *, every: int = 256, max_services: int = 1000) -> None:
        for name, value in (("every", every), ("max_services", max_services)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is {value!r}; it must be an integer >= 1")
        if not isinstance(service := make_service(), RankingService):
            raise TypeError(f"make_service gives a {type(service).__name__}; it must give a RankingService")
        self.make_service = make_service
        self.every = every
        self.max_services = max_services
        self._settings = settings_of(service)
        self._services: collections.OrderedDict[Any, _Kept] = collections.OrderedDict()

    def event(self, request: bytes, key: Any, state: Any, partition: int, offset: int) -> dict[str, Any]:
        """Answer an event of a key.

        Parameters
        ----------
        request
            A request of `online_rank.serving.protocol`, as JSON.
        key
            The key, which is hashable.
        state
            Where the state of the key is: an object with `get_bytes(name)`, which gives None for what is not there, and
            `set_bytes(name, value)`. All that an event writes must become durable together.
        partition, offset
            The place of the event. Offsets of a partition rise.

        Returns
        -------
        The answer. A bad request is answered by what is wrong, and changes nothing.

        Raises
        ------
        KeyedStateError
            The state is of a service with other settings, or not whole.
        """
        kept = self._current(key, state)
        if _came(kept.place, partition, offset):
            # It comes again, so something was lost: perhaps writes that the service in memory has seen.
            kept = self._services[key] = self._restored(state)
        place, service, whole = kept
        # Not in memory until it is written, lest it be ahead of its state.
        del self._services[key]
        again = _came(place, partition, offset)
        reply = service.answer_again(request) if again else service.handle(request, offset)
        if not (again or "error" in reply.answer or reply.command is not None or "stats" in reply.answer):
            place = _Place(partition, offset, place.number + 1)
            state.set_bytes(self._event_name(place.number), _PLACE.pack(*place) + request)
        if place.number - whole >= self.every:
            state.set_bytes(self._whole_name(place.number), _PLACE.pack(*place) + to_bytes(service))
            whole = place.number
        self._services[key] = _Kept(place, service, whole)
        return reply.answer

    def service(self, key: Any, state: Any) -> RankingService:
        """The service of a key as it is now."""
        return self._current(key, state).service

    def _event_name(self, number: int) -> str:
        return f"event {number % (2 * self.every)}"

    def _whole_name(self, number: int) -> str:
        return f"whole {number // self.every % 2}"

    def _current(self, key: Any, state: Any) -> _Kept:
        """The service that the state is of: the one in memory, unless the state has moved on, or back, without it."""
        current = self._services.pop(key, None)
        if current is None or not self._is_last(current.place, state):
            current = self._restored(state)
        self._services[key] = current
        if len(self._services) > self.max_services:
            self._services.popitem(last=False)
        return current

    def _is_last(self, place: _Place, state: Any) -> bool:
        own = self._event(place.number, state)
        return (not place.number or (own is not None and own[0] == place)) and self._event(place.number + 1, state) is None

    def _event(self, number: int, state: Any) -> tuple[_Place, bytes] | None:
        """The event with a number, and its place; None where the state does not have it."""
        found = _split(state.get_bytes(self._event_name(number)))
        return found if found is not None and found[0].number == number else None

    def _restored(self, state: Any) -> _Kept:
        wholes = [found for k in (0, 1) if (found := _split(state.get_bytes(self._whole_name(k * self.every)))) is not None]
        place, content = max(wholes, key=lambda found: found[0].number, default=(_Place(), b""))
        service = from_bytes(content) if content else self.make_service()
        if not isinstance(service, RankingService) or settings_of(service) != self._settings:
            raise KeyedStateError("the state of the key is of a service with other settings")
        whole = place.number
        while (following := self._event(place.number + 1, state)) is not None:
            place, request = following
            if "error" in service.handle(request, place.offset).answer:
                raise KeyedStateError(f"the state of the key cannot be replayed: event {place.number} is refused")
        return _Kept(place, service, whole)


def rankers(dataframe: Any, make_service: Callable[[], RankingService], *, every: int = 256, max_services: int = 1000) -> Any:
    """A stream of answers to a stream of events, with one ranker for each key.

    Parameters
    ----------
    dataframe
        A `quixstreams` StreamingDataFrame of a topic with `value_deserializer="bytes"`; messages have keys. Its Application may
        have either `processing_guarantee`.
    make_service, every, max_services
        As in `KeyedRankers`.

    Returns
    -------
    A StreamingDataFrame of answers, dicts with the keys of their events.

    Examples
    --------
    >>> from quixstreams import Application  # doctest: +SKIP
    >>> app = Application("localhost:9092", consumer_group="rankers", commit_every=100)  # doctest: +SKIP
    >>> events = app.dataframe(app.topic("events", value_deserializer="bytes"))  # doctest: +SKIP
    >>> make = lambda: RankingService(StreamScaler() | PerceptronRanker())  # doctest: +SKIP
    >>> rankers(events, make).to_topic(app.topic("answers"))  # doctest: +SKIP
    >>> app.run()  # doctest: +SKIP
    """
    from quixstreams import message_context

    handler = KeyedRankers(make_service, every=every, max_services=max_services)
    context = dataframe.processing_context
    if not context.exactly_once and not 1 <= context.commit_every <= every:
        raise ValueError(
            f"commit_every of the Application is {context.commit_every}; it must be from 1 to every={every}, so that a failure "
            "in the middle of a commit leaves a state that is whole"
        )

    def answer(value: bytes, key: Any, timestamp: int, headers: Any, state: Any) -> dict[str, Any]:
        at = message_context()
        return handler.event(value, key, state, at.partition, at.offset)

    return dataframe.apply(answer, stateful=True, metadata=True)


def _came(place: _Place, partition: int, offset: int) -> bool:
    """Whether an event is not behind a place of its partition: it has come before."""
    return place.partition == partition and offset <= place.offset


def _split(value: bytes | None) -> tuple[_Place, bytes] | None:
    """A value of the state as its place and what stands behind it."""
    return None if value is None else (_Place(*_PLACE.unpack_from(value)), value[_PLACE.size :])
