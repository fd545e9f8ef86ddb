"""Times that a service has stored: a clock that was wrong may have left some that lie ahead of the clock."""

import math
from typing import Any

from online_rank.base import Ranker
from online_rank.base.forgetting import parts_of
from online_rank.preprocessing.history import History
from online_rank.serving.pending import PendingQueries
from online_rank.serving.protocol import RankingService
from online_rank.serving.reading import DAY


def latest_time(service: RankingService) -> float:
    """The latest time that a service has stored; minus infinity without any."""
    models = [each._at for each in (*_rankers(service), *_histories(service)) if each._at is not None]
    return max(*_times(service._pending), *models, service._evidence_day * DAY or -math.inf)


def set_back(service: RankingService, now: float) -> tuple[int, list[Any]]:
    """Let all stored times that lie ahead of the time `now` be that time. A checkpoint has to follow.

    Returns
    -------
    How many there were, and the ids of the waiting queries among them, which are stored in separate rows.
    """
    ahead = [ranker for ranker in _rankers(service) if ranker._at > now]
    for ranker in ahead:
        ranker._at = now
    n_histories = sum([each.set_back(now) for each in _histories(service)])
    n, ids = _set_back(service._pending, now)
    is_ahead = service._evidence_day * DAY > now
    if is_ahead:
        service._evidence_day = int(now // DAY)
    return n + len(ahead) + n_histories + is_ahead, ids


def _times(pending: PendingQueries) -> list[float]:
    """The times of all that waits, and of the windows; minus infinity for none."""
    ranked = [at for _, _, at, _ in pending._queries.values() if at is not None]
    given = [at for given in pending._given.values() for kinds in given.values() for _, at in kinds.values()]
    ungraded = [at for _, at in pending._ungraded.values()]
    return [pending.now, pending._since, *pending._early.values(), *ranked, *given, *ungraded]


def _set_back(pending: PendingQueries, now: float) -> tuple[int, list[Any]]:
    """Let all times that lie ahead of `now` be that time. Returns how many there were, and the queries among them."""
    n = sum(at > now for at in _times(pending))
    ids = [query_id for query_id, (_, _, at, _) in pending._queries.items() if at is not None and at > now]
    for query_id in ids:
        number, n_bytes, _, query = pending._queries[query_id]
        pending._queries[query_id] = (number, n_bytes, now, query)
    pending.now, pending._since = min(pending.now, now), min(pending._since, now)
    pending._early = {query_id: min(at, now) for query_id, at in pending._early.items()}
    pending._ungraded = {query_id: (ungraded, min(at, now)) for query_id, (ungraded, at) in pending._ungraded.items()}
    pending._given = {
        query_id: {
            document: {kind: (value, min(at, now)) for kind, (value, at) in kinds.items()} for document, kinds in given.items()
        }
        for query_id, given in pending._given.items()
    }
    pending._derive()
    return n, ids


def _rankers(service: RankingService) -> list[Any]:
    """The rankers with half-lives in seconds, also those inside others, that have learned at some time."""
    timed = (ranker for ranker in parts_of(service.models, Ranker) if ranker.abilities.takes_time)
    return [ranker for ranker in timed if getattr(ranker, "_at", None) is not None]


def _histories(service: RankingService) -> list[History]:
    return [*parts_of(service.models, History)]
