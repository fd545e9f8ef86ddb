"""A ranker for each key of a topic, on Quix Streams (extra `quix`).

Events of a key are requests of `online_rank.serving.protocol`: queries, and later their grades or clicks, joined by id. Each
key has its own `RankingService`. The engine keeps its state, on disk and in a changelog topic, and moves it with the key.

Nothing is learned twice. After a failure the engine may redeliver an event that was learned but not acknowledged. So the state
of a key has the position of the last event of each topic, and an earlier event is answered, but not learned.

A service is written in full only after every `every` events, and only the parts that have changed
(`online_rank.distributed.parts`). In between, each event is stored unchanged: the state is a function of the events, so
replaying them restores it. The last two generations of both are kept, and a service whose write was lost is written again as
soon as an event is redelivered. So the state of a key is complete whichever writes since the last commit survive a failure,
provided that a commit covers at most `every` events; `rankers` checks that. No value of the state is larger than `MAX_VALUE`,
which every broker accepts.

This suffices for learning, but an answer may be sent twice after a failure. In the engine's exactly-once mode,
`Application(..., processing_guarantee="exactly-once")`, a commit may cover any number of events. A transaction left open by a
killed worker blocks others until it times out, or until a worker starts with the same `transactional.id`
(`producer_extra_config`). Whether answers come once then depends on a broker that hides aborted messages: no test has had one.
"""

import base64
import collections
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from online_rank import arguments
from online_rank.distributed.parts import MAX_VALUE, has_parts, joined, names_of, written
from online_rank.serving.protocol import RankingService
from online_rank.storage.earlier import continues
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.storage.tree import settings_of

__all__ = ["KeyedRankers", "KeyedStateError", "dead_letter", "rankers"]

#: Largest size of the header before a request in its stored value, with topic names of the maximal length.
_HEAD = 1000
#: Key of the value of `every` with which the first events were written.
_FIRST_EVERY = "every"
#: Milliseconds. An event of a topic that was deleted and created again has a lower offset than the last one, and a timestamp
#: later by more than the clocks of producers differ.
_RECREATED_AFTER = 60_000


class KeyedStateError(ValueError):
    """The state of a key does not come from a service with these settings."""


class _Place(NamedTuple):
    """The position of an event, and its number among the events that changed the key."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    number: int


#: The last event of each topic and partition.
_Places = dict[tuple[str, int], _Place]


class _Whole(NamedTuple):
    """A service written in full: after how many events, with which `every`, in which parts."""

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
    """A service in memory: the number of events in it, and its last full write and slot."""

    number: int
    places: _Places
    service: RankingService
    whole: _Whole
    slot: int


class KeyedRankers:
    """Handles the events of all keys; `rankers` puts it into a stream. It needs no engine, only a state for each key.

    Parameters
    ----------
    make_service
        Returns a new `RankingService`; called for each new key. The settings must always be the same.
    every
        Number of events after which a service is written in full. More make writing cheaper and restoring slower. It may be
        changed: a state is restored with the `every` that it was written with.
    max_services
        Number of services kept in memory; others are restored from their state when needed.
    ttl
        Seconds without an event, by the timestamps of events, after which a key begins again without state at its next one;
        None for never. State that nobody asks for stays until then: a tombstone deletes it.

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

    def __init__(
        self,
        make_service: Callable[[], RankingService],
        *,
        every: int = 256,
        max_services: int = 1000,
        ttl: float | None = None,
    ) -> None:
        arguments.integer("every", every, 1)
        arguments.number("ttl", ttl, above=0, optional=True)
        arguments.integer("max_services", max_services, 1)
        if not isinstance(service := make_service(), RankingService):
            raise TypeError(f"make_service gives a {type(service).__name__}; it must give a RankingService")
        self.make_service = make_service
        self.every = every
        self.max_services = max_services
        self.ttl = ttl
        self._settings = settings_of(service)
        self._services: collections.OrderedDict[Any, _Kept] = collections.OrderedDict()

    def event(
        self, request: Any, key: Any, state: Any, topic: str, partition: int, offset: int, timestamp: int = 0
    ) -> dict[str, Any]:
        """Answer an event of a key.

        Parameters
        ----------
        request
            A request of `online_rank.serving.protocol`, as JSON. None, a tombstone, deletes all state of the key.
        key
            The key, which is hashable.
        state
            The store of the key: an object with `get_bytes(name)`, which returns None for a missing name, `set_bytes(name,
            value)` and `delete(name)`. All changes of one event must become durable together.
        topic, partition, offset
            The position of the event. Offsets rise within a partition.
        timestamp
            Timestamp of the event, in milliseconds. It reveals a topic that was deleted and created again.

        Returns
        -------
        The answer. For a bad request, even one that is not bytes, the answer is an error message, and nothing changes.

        Raises
        ------
        KeyedStateError
            The state belongs to a service with other settings, or is incomplete.
        """
        if request is not None and not isinstance(request, bytes):
            return {"error": f"an event is of type {type(request).__name__}; it must be bytes: value_deserializer='bytes'"}
        if request is not None and len(request) > MAX_VALUE - _HEAD:
            return {"error": f"an event of {len(request)} bytes; it may have {MAX_VALUE - _HEAD}"}
        kept = self._current(key, state)
        at = _Place(topic, partition, offset, timestamp, kept.number + 1)
        if _came(kept.places, at) and not self._is_restorable(kept, state):
            # It was redelivered, so something was lost: writes that the service in memory has seen.
            kept = self._services[key] = self._restored(state)
            at = at._replace(number=kept.number + 1)
        # Removed from memory until it is written, so that it is never ahead of its state.
        del self._services[key]
        if request is None:
            places = kept.places | {(at.topic, at.partition): at}
            kept, answer = self._deleted(kept, at.number, places, state), {"deleted": True}
        else:
            if self._has_expired(kept, at):
                kept = self._deleted(kept, at.number, kept.places, state)
                at = at._replace(number=kept.number + 1)
            kept, answer = self._handled(kept, at, request, state)
        self._services[key] = kept
        return answer

    def service(self, key: Any, state: Any) -> RankingService:
        """The current service of a key."""
        return self._current(key, state).service

    def _handled(self, kept: _Kept, at: _Place, request: bytes, state: Any) -> tuple[_Kept, dict[str, Any]]:
        """Answer a request, and write what it changes."""
        again = _came(kept.places, at)
        service = kept.service
        reply = service.answer_again(request) if again else service.handle(request, at.offset, at.timestamp / 1000.0)
        if reply.changed:
            if at.number == 1:
                state.set_bytes(_FIRST_EVERY, str(self.every).encode())
            state.set_bytes(_event_name(self.every, at.number), json.dumps(at).encode() + b"\n" + request)
            kept = kept._replace(number=at.number, places=kept.places | {(at.topic, at.partition): at})
        since = kept.number - kept.whole.number
        # A state written with another `every` switches to this one at the first event.
        if since >= self.every or (since and kept.whole.every != self.every):
            kept = self._written(kept, state)
        return kept, reply.answer

    def _written(self, kept: _Kept, state: Any) -> _Kept:
        """Write a service in full, replacing the generation before the last one."""
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

    def _has_expired(self, kept: _Kept, at: _Place) -> bool:
        """Whether a key was not used for too long before an event."""
        if self.ttl is None or not kept.places or _came(kept.places, at):
            return False
        return at.timestamp - max(place.timestamp for place in kept.places.values()) > 1000.0 * self.ttl

    def _deleted(self, kept: _Kept, number: int, places: _Places, state: Any) -> _Kept:
        """Forget a key, in memory and in its state, except for the positions of its events."""
        before = [whole for whole, _ in _wholes(state)]
        empty = _Whole(number, self.every, places, [])
        for slot in (0, 1):
            state.set_bytes(_whole_name(slot), empty.encoded())
        for name in set().union(*(names_of(whole.parts) for whole in before)):
            state.delete(name)
        for every in {self.every, *(whole.every for whole in before)}:
            _delete_events(every, state)
        return _Kept(number, places, self.make_service(), empty, 0)

    def _current(self, key: Any, state: Any) -> _Kept:
        """The service of a state: the one in memory, unless the state has changed without it."""
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
            wholes = [whole for whole, _ in _wholes(state)]
            return wholes[:1] == [kept.whole] if kept.number else not wholes
        own = _event(self.every, kept.number, state)
        return own is not None and own[0] in kept.places.values()

    def _is_restorable(self, kept: _Kept, state: Any) -> bool:
        """Whether restoring a state would give the service in memory: all that it would be restored from is there."""
        wholes = [whole for whole, _ in _wholes(state)]
        if kept.whole.number if not wholes else wholes[0] != kept.whole or not has_parts(wholes[0].parts, state):
            return False
        numbers = range(kept.whole.number + 1, kept.number + 1)
        return all(_event(kept.whole.every, number, state) is not None for number in numbers)

    def _restored(self, state: Any) -> _Kept:
        whole, content, slot = self._last_whole(state)
        service = from_bytes(content) if content else self.make_service()
        if not continues(settings_of(service), self._settings, "keys that began with an earlier version"):
            raise KeyedStateError("the state of the key is of a service with other settings")
        number, places = whole.number, dict(whole.places)
        while (following := _event(whole.every, number + 1, state)) is not None:
            place, request = following
            number = place.number
            if "error" in service.handle(request, place.offset, place.timestamp / 1000.0).answer:
                raise KeyedStateError(f"the state of the key cannot be replayed: event {number} is refused")
            places[place.topic, place.partition] = place
        return _Kept(number, places, service, whole, slot)

    def _last_whole(self, state: Any) -> tuple[_Whole, bytes, int]:
        """The last complete full write, its content, and its slot."""
        found = _wholes(state)
        for whole, slot in found:
            content = joined(whole.parts, state)
            if content is not None:
                return whole, content, slot
        if len(found) == 2:
            raise KeyedStateError("the state of the key is incomplete: parts of it are missing")
        # Nothing was written in full yet, or only in part.
        first = state.get_bytes(_FIRST_EVERY)
        return _Whole(0, self.every if first is None else int(first), {}, []), b"", 1


def dead_letter(request: Any, key: Any, at: tuple[str, int, int], answer: dict[str, Any]) -> dict[str, Any] | None:
    r"""What a dead-letter topic gets of an event that was answered by an error: the event, its place, and the error.

    Parameters
    ----------
    request, key
        The event and its key.
    at
        Its topic, partition and offset.
    answer
        Its answer.

    Returns
    -------
    For JSON; None for an event that was not refused. Bytes that are not UTF-8 are given in base64.

    Examples
    --------
    >>> dead_letter(b'{"id": 1', "shop", ("events", 0, 17), {"error": "not a JSON object", "line": 17})
    {'error': 'not a JSON object', 'topic': 'events', 'partition': 0, 'offset': 17, 'key': 'shop', 'event': '{"id": 1'}
    >>> dead_letter(b"\xff", b"shop", ("events", 0, 18), {"error": "not UTF-8"})["event"]
    {'base64': '/w=='}
    >>> dead_letter(b"{}", "shop", ("events", 0, 19), {"id": 1, "learned": True}) is None
    True
    """
    if "error" not in answer:
        return None
    topic, partition, offset = at
    place = {"topic": topic, "partition": partition, "offset": offset}
    return {"error": answer["error"], **place, "key": _readable(key), "event": _readable(request)}


def _readable(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value if value is None or isinstance(value, str | int) else repr(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def rankers(
    dataframe: Any,
    make_service: Callable[[], RankingService],
    *,
    every: int = 256,
    max_services: int = 1000,
    ttl: float | None = None,
    dead_letters: Any = None,
) -> Any:
    """A stream of answers to a stream of events, with one ranker for each key.

    Parameters
    ----------
    dataframe
        A `quixstreams` StreamingDataFrame of a topic with `value_deserializer="bytes"`; messages have keys. Its Application may
        have either `processing_guarantee`.
    make_service, every, max_services, ttl
        As in `KeyedRankers`.
    dead_letters
        A topic for events that are answered by an error, with their places and the errors (`dead_letter`); None for none. Its
        messages may be larger than the events, by about 2 KB, or by a third for events that are not UTF-8.

    Returns
    -------
    A StreamingDataFrame of answers, dicts with the keys of their events.

    Examples
    --------
    >>> from quixstreams import Application  # doctest: +SKIP
    >>> app = Application("localhost:9092", consumer_group="rankers", commit_every=100)  # doctest: +SKIP
    >>> events = app.dataframe(app.topic("events", value_deserializer="bytes"))  # doctest: +SKIP
    >>> make = lambda: RankingService(AdditiveRanker())  # doctest: +SKIP
    >>> rankers(events, make).to_topic(app.topic("answers"))  # doctest: +SKIP
    >>> app.run()  # doctest: +SKIP
    """
    from quixstreams import message_context

    handler = KeyedRankers(make_service, every=every, max_services=max_services, ttl=ttl)
    context = dataframe.processing_context
    if not context.exactly_once and not 1 <= context.commit_every <= every:
        raise ValueError(
            f"commit_every of the Application is {context.commit_every}; it must be from 1 to every={every}, so that a failure "
            "in the middle of a commit leaves a complete state"
        )

    def answer(value: Any, key: Any, timestamp: int, headers: Any, state: Any) -> Any:
        at = message_context()
        answered = handler.event(value, key, state, at.topic, at.partition, at.offset, timestamp)
        return answered, dead_letter(value, key, (at.topic, at.partition, at.offset), answered)

    both = dataframe.apply(answer, stateful=True, metadata=True)
    if dead_letters is not None:
        both.filter(lambda each: each[1] is not None).apply(lambda each: each[1]).to_topic(dead_letters)
    return both.apply(lambda each: each[0])


def _came(places: _Places, at: _Place) -> bool:
    """Whether an event is not after the last one of its topic and partition, so that it was handled before."""
    last = places.get((at.topic, at.partition))
    return last is not None and at.offset <= last.offset and at.timestamp <= last.timestamp + _RECREATED_AFTER


def _event_name(every: int, number: int) -> str:
    # Contains `every`, so that handlers with another value do not overwrite events that are still needed.
    return f"event {every} {number % (2 * every)}"


def _whole_name(slot: int) -> str:
    return f"whole {slot}"


def _event(every: int, number: int, state: Any) -> tuple[_Place, bytes] | None:
    """The event with a number, and its position; None if it is not in the state."""
    value = state.get_bytes(_event_name(every, number))
    if value is None:
        return None
    head, _, request = value.partition(b"\n")
    place = _Place(*json.loads(head))
    return (place, request) if place.number == number else None


def _whole(slot: int, state: Any) -> _Whole | None:
    value = state.get_bytes(_whole_name(slot))
    return None if value is None else _Whole.decoded(value)


def _wholes(state: Any) -> list[tuple[_Whole, int]]:
    """What was written in full, with its slots, the latest first."""
    found = [(whole, slot) for slot in (0, 1) if (whole := _whole(slot, state)) is not None]
    return sorted(found, key=lambda each: -each[0].number)


def _delete_events(every: int, state: Any) -> None:
    for number in range(2 * every):
        if state.get_bytes(name := _event_name(every, number)) is not None:
            state.delete(name)
