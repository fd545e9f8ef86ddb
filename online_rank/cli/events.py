"""What events are worth, as `--event NAME=VALUE` says it."""

import math
from collections.abc import Sequence


def events_of(given: Sequence[str]) -> dict[str, float]:
    """The value of each event. Raises ValueError for what is not NAME=VALUE, or names an event twice."""
    events: dict[str, float] = {}
    for text in given:
        name, _, value = text.rpartition("=")
        try:
            worth = float(value)
        except ValueError:
            worth = math.nan
        if not name or not math.isfinite(worth):
            raise ValueError(f"--event is {text!r}; it is NAME=VALUE, such as click=1")
        if name in events:
            raise ValueError(f"--event names {name!r} twice")
        events[name] = int(worth) if worth.is_integer() else worth
    return events
