"""A ranker for each key of a topic, on Quix Streams (extra `quix`).

Events of a key are requests of `online_rank.serving.protocol`: queries, and later their grades or clicks, joined by id. Each
key has a `RankingService` of its own, whose state is the engine's: on the disk, in a changelog topic, and moved with the key.

Nothing is learned twice. After a failure the engine may deliver an event again that was learned but not acknowledged; so the
state of a key holds the place of the last event of each topic, and an event before it is answered, but not learned.

A service is written whole only after every so many events, in parts of which only those are written that have changed
(`online_rank.distributed.parts`). In between, each event is written behind it as it came: the state follows from the events
alone, so replaying them brings it back. Of both the last two generations are kept, and a service whose write was lost is
written again as soon as an event comes a second time. So the state of a key is whole whichever of the writes since the last
commit survive a failure, as long as a commit has no more events than that; `rankers` checks it. No value of the state is larger
than `MAX_VALUE`, which every broker takes.

So nothing more is needed for learning, but an answer may come twice after a failure. In the engine's exactly-once mode,
`Application(..., processing_guarantee="exactly-once")`, consumers that read what is committed get each answer once: answers,
state and acknowledgement are one transaction, and a commit may have any number of events. What a killed worker leaves open
keeps others waiting until it times out, or until a worker comes with the same `transactional.id` (`producer_extra_config`). A
broker that does not hide what was aborted shows answers twice here, too.
"""

import collections
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from online_rank.arguments import integer
from online_rank.distributed.parts import MAX_VALUE, joined, names_of, written
from online_rank.serving.protocol import RankingService
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.storage.tree import settings_of

__all__ = ["KeyedRankers", "KeyedStateError", "rankers"]

#: What stands before a request in the value that holds it takes at most this, with topics as long as they may be.
_HEAD = 1000
#: Where the `every` is kept with which the first events were written.
_FIRST_EVERY = "every"
#: Milliseconds. An event of a topic that was deleted and made again has a lower offset than the last one and a later time, by
#: more than clocks of producers differ.
_RECREATED_AFTER = 60_000


class KeyedStateError(ValueError):
    """The state of a key is not that of a service with these settings."""


class _Place(NamedTuple):
    """Where an event stood, and its number among those that changed the key."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    number: int


#: The last event of each topic and partition.
_Places = dict[tuple[str, int], _Place]


class _Whole(NamedTuple):
    """A service as it was written whole: after how many events, by a handler with which `every`, in which parts."""

    number: int
    every: int
    places: _Places
    parts: list[str]

    def encoded(self) -> bytes:
        places = [list(place) for place in self.places.values()]
        return json.dumps({**self._asdict(), "places": places}, separators=(",", ":")).encode()

    @classmethod
    def decoded(cls, value: bytes) -> "_Whole":
        fields = json.loads(value)
        places = [_Place(*place) for place in fields.pop("places")]
        return cls(**fields, places={(place.topic, place.partition): place for place in places})


class _Kept(NamedTuple):
    """A service in memory: how far it is, and what was last written whole of it, in which slot."""

    number: int
    places: _Places
    service: RankingService
    whole: _Whole
    slot: int


class KeyedRankers:
    """Handles the events of all keys; what `rankers` puts into a stream. It needs no engine, only a state for each key.

    Parameters
    ----------
    make_service
        Gives a `RankingService` that has not begun; called for each new key. The same settings each time.
    every
        After how many events a service is written whole. More make writing cheaper, and coming back slower. It may be changed:
        a state comes back with the `every` that it was written with.
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
    ...     delete = dict.__delitem__
    >>> handle, state = KeyedRankers(lambda: RankingService(PerceptronRanker())), State()
    >>> handle.event(b'{"id": 1, "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}}', b"shop", state, "events", 0, 17)
    {'id': 1, 'ranking': ['a', 'b'], 'scores': [0.0, 0.0]}
    >>> handle.event(b'{"id": 1, "grades": {"a": 0, "b": 2}}', b"shop", state, "events", 0, 18)
    {'id': 1, 'learned': True, 'loss': 0.369...}
    >>> again = KeyedRankers(lambda: RankingService(PerceptronRanker()))  # after a failure; the event comes a second time
    >>> again.event(b'{"id": 1, "grades": {"a": 0, "b": 2}}', b"shop", state, "events", 0, 18)
    {'id': 1, 'learned': False, 'duplicate': True}
    """

    def __init__(self, make_service: Callable[[], RankingService], *, every: int = 256, max_services: int = 1000) -> None:
        integer("every", every, 1)
        integer("max_services", max_services, 1)
        if not isinstance(service := make_service(), RankingService):
            raise TypeError(f"make_service gives a {type(service).__name__}; it must give a RankingService")
        self.make_service = make_service
        self.every = every
        self.max_services = max_services
        self._settings = settings_of(service)
        self._services: collections.OrderedDict[Any, _Kept] = collections.OrderedDict()

    def event(
        self, request: Any, key: Any, state: Any, topic: str, partition: int, offset: int, timestamp: int = 0
    ) -> dict[str, Any]:
        """Answer an event of a key.

        Parameters
        ----------
        request
            A request of `online_rank.serving.protocol`, as JSON. None, a tombstone, deletes all that is known of the key.
        key
            The key, which is hashable.
        state
            Where the state of the key is: an object with `get_bytes(name)`, which gives None for what is not there,
            `set_bytes(name, value)` and `delete(name)`. All that an event does to it must become durable together.
        topic, partition, offset
            The place of the event. Offsets of a partition rise.
        timestamp
            Of the event, in milliseconds. By it a topic that was deleted and made again is known.

        Returns
        -------
        The answer. A bad request, which need not even be bytes, is answered by what is wrong, and changes nothing.

        Raises
        ------
        KeyedStateError
            The state is of a service with other settings, or not whole.
        """
        if request is not None and not isinstance(request, bytes):
            return {"error": f"an event is of type {type(request).__name__}; it must be bytes: value_deserializer='bytes'"}
        if request is not None and len(request) > MAX_VALUE - _HEAD:
            return {"error": f"an event of {len(request)} bytes; it may have {MAX_VALUE - _HEAD}"}
        kept = self._current(key, state)
        at = _Place(topic, partition, offset, timestamp, kept.number + 1)
        if _came(kept.places, at):
            # It comes again, so something was lost: perhaps writes that the service in memory has seen.
            kept = self._services[key] = self._restored(state)
            at = at._replace(number=kept.number + 1)
        # Not in memory until it is written, lest it be ahead of its state.
        del self._services[key]
        if request is None:
            kept, answer = self._deleted(kept, at, state), {"deleted": True}
        else:
            kept, answer = self._handled(kept, at, request, state)
        self._services[key] = kept
        return answer

    def service(self, key: Any, state: Any) -> RankingService:
        """The service of a key as it is now."""
        return self._current(key, state).service

    def _handled(self, kept: _Kept, at: _Place, request: bytes, state: Any) -> tuple[_Kept, dict[str, Any]]:
        """Answer a request, and write what it changes."""
        again = _came(kept.places, at)
        reply = kept.service.answer_again(request) if again else kept.service.handle(request, at.offset)
        if reply.changed:
            if at.number == 1:
                state.set_bytes(_FIRST_EVERY, str(self.every).encode())
            state.set_bytes(_event_name(self.every, at.number), json.dumps(at).encode() + b"\n" + request)
            kept = kept._replace(number=at.number, places=kept.places | {(at.topic, at.partition): at})
        since = kept.number - kept.whole.number
        # A state that was written with another `every` goes over to this one with the first event.
        if since >= self.every or (since and kept.whole.every != self.every):
            kept = self._written(kept, state)
        return kept, reply.answer

    def _written(self, kept: _Kept, state: Any) -> _Kept:
        """Write a service whole, in place of the generation before the last one."""
        slot = 1 - kept.slot
        replaced = _whole(slot, state)
        whole = _Whole(kept.number, self.every, kept.places, written(to_bytes(kept.service), state))
        state.set_bytes(_whole_name(slot), whole.encoded())
        if replaced is not None:
            for name in names_of(replaced.parts) - names_of(whole.parts) - names_of(kept.whole.parts):
                state.delete(name)
            if replaced.every not in (self.every, kept.whole.every):
                _delete_events(replaced.every, state)
        return kept._replace(whole=whole, slot=slot)

    def _deleted(self, kept: _Kept, at: _Place, state: Any) -> _Kept:
        """Forget a key, but for the places of its events; what is known of it goes from the state, too."""
        before = [whole for slot in (0, 1) if (whole := _whole(slot, state)) is not None]
        empty = _Whole(at.number, self.every, kept.places | {(at.topic, at.partition): at}, [])
        for slot in (0, 1):
            state.set_bytes(_whole_name(slot), empty.encoded())
        for name in set().union(*(names_of(whole.parts) for whole in before)):
            state.delete(name)
        for every in {self.every, *(whole.every for whole in before)}:
            _delete_events(every, state)
        return _Kept(at.number, empty.places, self.make_service(), empty, 0)

    def _current(self, key: Any, state: Any) -> _Kept:
        """The service that the state is of: the one in memory, unless the state has moved on, or back, without it."""
        current = self._services.pop(key, None)
        if current is None or not self._is_last(current, state):
            current = self._restored(state)
        self._services[key] = current
        if len(self._services) > self.max_services:
            self._services.popitem(last=False)
        return current

    def _is_last(self, kept: _Kept, state: Any) -> bool:
        """Whether the state ends with the last event of a service in memory."""
        if _event(self.every, kept.number + 1, state) is not None:
            return False
        if kept.number == kept.whole.number:
            wholes = [whole for slot in (0, 1) if (whole := _whole(slot, state)) is not None]
            last = max(wholes, key=lambda whole: whole.number, default=None)
            return last == kept.whole if kept.number else last is None
        own = _event(self.every, kept.number, state)
        return own is not None and own[0] in kept.places.values()

    def _restored(self, state: Any) -> _Kept:
        whole, content, slot = self._last_whole(state)
        service = from_bytes(content) if content else self.make_service()
        if not isinstance(service, RankingService) or settings_of(service) != self._settings:
            raise KeyedStateError("the state of the key is of a service with other settings")
        number, places = whole.number, dict(whole.places)
        while (following := _event(whole.every, number + 1, state)) is not None:
            place, request = following
            number = place.number
            if "error" in service.handle(request, place.offset).answer:
                raise KeyedStateError(f"the state of the key cannot be replayed: event {number} is refused")
            places[place.topic, place.partition] = place
        return _Kept(number, places, service, whole, slot)

    def _last_whole(self, state: Any) -> tuple[_Whole, bytes, int]:
        """What was last written whole, with all of its parts; its content; and its slot."""
        found = [(whole, slot) for slot in (0, 1) if (whole := _whole(slot, state)) is not None]
        for whole, slot in sorted(found, key=lambda each: -each[0].number):
            content = joined(whole.parts, state)
            if content is not None:
                return whole, content, slot
        if len(found) == 2:
            raise KeyedStateError("the state of the key is not whole: parts of it are missing")
        # Nothing was written whole yet, or not all of it.
        first = state.get_bytes(_FIRST_EVERY)
        return _Whole(0, self.every if first is None else int(first), {}, []), b"", 1


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

    def answer(value: Any, key: Any, timestamp: int, headers: Any, state: Any) -> dict[str, Any]:
        at = message_context()
        return handler.event(value, key, state, at.topic, at.partition, at.offset, timestamp)

    return dataframe.apply(answer, stateful=True, metadata=True)


def _came(places: _Places, at: _Place) -> bool:
    """Whether an event is not behind the last one of its topic and partition: it has come before."""
    last = places.get((at.topic, at.partition))
    return last is not None and at.offset <= last.offset and at.timestamp <= last.timestamp + _RECREATED_AFTER


def _event_name(every: int, number: int) -> str:
    # With `every`, so that handlers with another one do not write over what this one may still need.
    return f"event {every} {number % (2 * every)}"


def _whole_name(slot: int) -> str:
    return f"whole {slot}"


def _event(every: int, number: int, state: Any) -> tuple[_Place, bytes] | None:
    """The event with a number, and its place; None where the state does not have it."""
    value = state.get_bytes(_event_name(every, number))
    if value is None:
        return None
    head, _, request = value.partition(b"\n")
    place = _Place(*json.loads(head))
    return (place, request) if place.number == number else None


def _whole(slot: int, state: Any) -> _Whole | None:
    value = state.get_bytes(_whole_name(slot))
    return None if value is None else _Whole.decoded(value)


def _delete_events(every: int, state: Any) -> None:
    for number in range(2 * every):
        if state.get_bytes(name := _event_name(every, number)) is not None:
            state.delete(name)
