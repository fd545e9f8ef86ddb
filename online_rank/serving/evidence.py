"""How much evidence one session or user may give in a day."""

import hashlib
import itertools
from typing import Any, NamedTuple

from msgspec import UNSET

from online_rank.base.undo import all_or_nothing
from online_rank.serving.clock import CLOCK
from online_rank.serving.service_state import ServiceState

#: Clicked documents and events that count from one session or user in a day, and most of these that are counted.
MOST_EVIDENCE, _MOST_KEPT = 100, 100_000
DAY = 86_400.0


class Evidence(NamedTuple):
    """The day of feedback, in UTC, and digests of the session and the user that give it: no name is kept."""

    day: int
    keys: tuple[str, ...]


def evidence_of(message: Any, at: float | None) -> Evidence | None:
    """The evidence in feedback of a time; None if it names no session and no user."""
    keys = tuple(
        hashlib.blake2b(f"{kind} {name}".encode(errors="surrogatepass"), digest_size=12).hexdigest()
        for kind in ("session", "user")
        if (name := getattr(message, kind, UNSET)) is not UNSET
    )
    return Evidence(int((CLOCK.now() if at is None else at) // DAY), keys) if keys else None


def is_limited(state: ServiceState, evidence: Evidence | None) -> bool:
    """Whether the session or the user has given as much evidence on this day as counts.

    Feedback of a day that is over counts for the present one: otherwise each change of the day would begin a new account.
    """
    if evidence is None or evidence.day > state._evidence_day:
        return False
    return any(state._evidence.get(key, 0) >= MOST_EVIDENCE for key in evidence.keys)


def count_evidence(state: ServiceState, changes: all_or_nothing, evidence: Evidence | None, n: int) -> None:
    """Count n clicked documents or events of a session and a user; `changes` undo it."""
    if evidence is None:
        return
    if evidence.day > state._evidence_day:
        state._evidence, state._evidence_day = {}, evidence.day
    keys, known = evidence.keys, state._evidence
    n_gone = max(len(known) + sum([key not in known for key in keys]) - _MOST_KEPT, 0)
    gone = [*itertools.islice((key for key in known if key not in keys), n_gone)]
    changes.include_entries(known, [*keys, *gone], sort=True)
    for key in gone:
        del known[key]
    for key in keys:
        known[key] = known.get(key, 0) + max(n, 1)
