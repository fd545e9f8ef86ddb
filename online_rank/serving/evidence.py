"""How much evidence one session or user may give in a day."""

import hashlib
import itertools
from typing import Any

from msgspec import UNSET

from online_rank.base.undo import all_or_nothing
from online_rank.serving.clock import CLOCK
from online_rank.serving.service_state import ServiceState

#: Clicked documents and events that count from one session or user in a day, and most of these that are counted.
MOST_EVIDENCE, _MOST_KEPT = 100, 100_000
DAY = 86_400.0


def day_of(message: Any, at: float | None) -> int | None:
    """The day of feedback of a time, in UTC; None for feedback that names no session and no user."""
    return int((CLOCK.now() if at is None else at) // DAY) if _keys(message) else None


def is_limited(state: ServiceState, message: Any, day: int | None) -> bool:
    """Whether the session or the user of a message has given as much evidence on this day as counts.

    Feedback of a day that is over counts for the present one: otherwise each change of the day would begin a new account.
    """
    if day is None or day > state._evidence_day:
        return False
    return any(state._evidence.get(key, 0) >= MOST_EVIDENCE for key in _keys(message))


def count_evidence(state: ServiceState, changes: all_or_nothing, message: Any, day: int | None, n: int) -> None:
    """Count n clicked documents or events of a session and a user; `changes` undo it."""
    if day is None:
        return
    if day > state._evidence_day:
        state._evidence, state._evidence_day = {}, day
    keys, known = _keys(message), state._evidence
    n_gone = max(len(known) + sum([key not in known for key in keys]) - _MOST_KEPT, 0)
    gone = [*itertools.islice((key for key in known if key not in keys), n_gone)]
    changes.include_entries(state._evidence, [*keys, *gone], sort=True)
    for key in gone:
        del state._evidence[key]
    for key in keys:
        state._evidence[key] = state._evidence.get(key, 0) + max(n, 1)


def _keys(message: Any) -> list[str]:
    """Digests of the session and the user of a message: no name is kept."""
    return [
        hashlib.blake2b(f"{kind} {name}".encode(errors="surrogatepass"), digest_size=12).hexdigest()
        for kind in ("session", "user")
        if (name := getattr(message, kind, UNSET)) is not UNSET
    ]
