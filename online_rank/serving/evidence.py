"""How much evidence one session or user may give in a day."""

import itertools

from online_rank.base.undo import all_or_nothing
from online_rank.serving.reading import Evidence
from online_rank.serving.service_state import ServiceState

#: Clicked documents and events that count from one session or user in a day, and most of these that are counted.
MOST_EVIDENCE, _MOST_KEPT = 100, 100_000


def is_limited(state: ServiceState, evidence: Evidence) -> bool:
    """Whether the session or the user has given as much evidence on this day as counts.

    Feedback of a day that is over counts for the present one: otherwise each change of the day would begin a new account.
    """
    if evidence.day > state._evidence_day:
        return False
    return any(state._evidence.get(key, 0) >= MOST_EVIDENCE for key in evidence.keys)


def count_evidence(state: ServiceState, changes: all_or_nothing, evidence: Evidence, n: int) -> None:
    """Count n clicked documents or events of a session and a user; `changes` undo it."""
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
