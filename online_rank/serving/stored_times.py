"""Times that a service has stored: a clock that was wrong may have left some that lie ahead of the clock."""

import math
from typing import Any

from online_rank.base import Ranker
from online_rank.base.forgetting import parts_of
from online_rank.preprocessing.history import History
from online_rank.serving.protocol import RankingService
from online_rank.serving.reading import DAY


def latest_time(service: RankingService) -> float:
    """The latest time that a service has stored; minus infinity without any."""
    models = [each._at for each in (*_rankers(service), *_histories(service)) if each._at is not None]
    return max(*service._pending.times(), *models, service._evidence_day * DAY or -math.inf)


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
    n, ids = service._pending.set_back(now)
    is_ahead = service._evidence_day * DAY > now
    if is_ahead:
        service._evidence_day = int(now // DAY)
    return n + len(ahead) + n_histories + is_ahead, ids


def _rankers(service: RankingService) -> list[Any]:
    """The rankers with half-lives in seconds, also those inside others, that have learned at some time."""
    timed = (ranker for ranker in parts_of(service.models, Ranker) if ranker.abilities.takes_time)
    return [ranker for ranker in timed if getattr(ranker, "_at", None) is not None]


def _histories(service: RankingService) -> list[History]:
    return [*parts_of(service.models, History)]
