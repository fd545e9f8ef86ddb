"""The feedback plan of `stream`, `serve` and keyed streams: what counts as feedback on a query, and when it is learned."""

import copy
import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from online_rank.arguments import choice, number
from online_rank.base.schema import Schema
from online_rank.query.grades import MAX_GRADE

#: The kind of feedback given as a grade or an engagement rather than as an event. It replaces all events.
GRADE = ""
#: The kind by which a displayed list is kept: the place of each document. It is worth nothing.
PLACE = "\x1fplace"
_MAX_NAME = 100

#: The feedback on the documents of a query: {document: {kind of event: (value, time)}}.
Given = dict[Hashable, dict[str, tuple[float, float]]]


class FeedbackPlan:
    """What counts as feedback on a query, and when it is learned.

    Without a window, a query is learned with its first feedback. With a window, it is learned when the window ends, with all
    feedback until then, in any order. Among several values of one kind for a document the one with the latest time counts, so
    repeated feedback counts once, and a correction replaces the earlier value.

    Parameters
    ----------
    window
        Seconds after its ranking for which a query takes feedback; None to learn from the first feedback. The time is in
        requests (`"ts"`), or else the time of their arrival.
    events
        The value of an event of each kind, for example `{"click": 1, "purchase": 3}`. It needs a window.
    total
        How to combine the events of a document: "largest" or "sum". A grade replaces all of them. A total above the largest
        allowed grade counts as that grade.
    ungraded
        How to treat documents without feedback if others have some: 0 is their grade, "skip" leaves them out.
    unanswered
        How to treat queries without any feedback: "skip" drops them, "negative" learns that nothing was relevant, or that
        nothing was clicked.

    Examples
    --------
    >>> plan = FeedbackPlan(window=1800, events={"click": 1, "purchase": 3})
    >>> given = {"a": {"click": (1, 10.0), "purchase": (3, 95.0)}, "b": {"click": (1, 12.0)}}
    >>> plan.totals(given)
    {'a': 3, 'b': 1}
    """

    _schema = Schema()

    def __init__(
        self,
        *,
        window: float | None = None,
        events: Mapping[str, float] | None = None,
        total: str = "largest",
        ungraded: int | str = 0,
        unanswered: str = "skip",
    ) -> None:
        number("window", window, above=0, optional=True)
        choice("total", total, ("largest", "sum"))
        choice("ungraded", ungraded, (0, "skip"))
        choice("unanswered", unanswered, ("skip", "negative"))
        if not (events is None or isinstance(events, Mapping)):
            raise TypeError(f"events is of type {type(events).__name__}; it has the value of each kind: {{'click': 1}}")
        for name, value in (events or {}).items():
            if not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME:
                raise ValueError(f"events has {str(name)[:40]!r}; a kind of event has a name of 1 to {_MAX_NAME} characters")
            number(f"events[{name!r}]", value, 0, MAX_GRADE)
        if events and window is None:
            raise ValueError("events are added up over a window: give window=, the seconds after which a query is learned")
        self.window = window
        self.events = copy.copy(events)
        self.total = total
        self.ungraded = ungraded
        self.unanswered = unanswered

    def value_of(self, event: Any, value: Any) -> float:
        """The value of an event: its own value, or the value of its kind. Raises ValueError."""
        known = self.events or {}
        if not isinstance(event, str) or event not in known:
            declared = ", ".join(map(repr, known)) or "none"
            raise ValueError(f"event is {str(event)[:40]!r}; events are declared with their values, here: {declared}")
        if value is None:
            return known[event]
        if type(value) not in (int, float) or not 0 <= value <= MAX_GRADE:
            raise ValueError(f"value is {str(value)[:40]!r}; it must be a number from 0 to {MAX_GRADE}")
        return value

    def totals(self, given: Given) -> dict[Hashable, float]:
        """The total value of each document's feedback."""
        valued = {document: kinds for document, kinds in given.items() if kinds.keys() != {PLACE}}
        return {document: self._total(kinds) for document, kinds in valued.items()}

    def require_whole(self) -> None:
        """Raise ValueError if events have fractional values, since grades are integers."""
        for name, value in (self.events or {}).items():
            if value != int(value):
                raise ValueError(f"event {name!r} is worth {value}; a model that learns from grades takes integers")

    def _total(self, kinds: Mapping[str, tuple[float, float]]) -> float:
        if GRADE in kinds:
            return kinds[GRADE][0]
        values = [value for kind, (value, _) in kinds.items() if kind != PLACE]
        # fsum: the order in which events came must not matter.
        return max(values) if self.total == "largest" else min(_plain(math.fsum(values), values), MAX_GRADE)


def _plain(total: float, values: Iterable[float]) -> float:
    """A sum of integers as an integer."""
    return int(total) if all(type(value) is int for value in values) else total
