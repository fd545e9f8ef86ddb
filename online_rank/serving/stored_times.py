"""Times that a service has stored: a clock that was wrong may have left some that lie ahead of the clock."""

import math
from typing import Any

from online_rank.base.forgetting import parts_of
from online_rank.rankers.fading import FadingRanker
from online_rank.serving.protocol import RankingService


def latest_time(service: RankingService) -> float:
    """The latest time that a service has stored; minus infinity if there is none."""
    models = [rank._at for rank in _fading(service) if rank._at is not None]
    return max(service._pending.latest_time(), *models, -math.inf)


def set_back(service: RankingService, now: float) -> tuple[int, list[Any]]:
    """Let all stored times that lie ahead of the time `now` be that time. A checkpoint has to follow.

    Returns
    -------
    How many there were, and the ids of the waiting queries among them, which are stored in rows of their own.
    """
    ahead = [each for each in _fading(service) if each._at is not None and each._at > now]
    for each in ahead:
        each._at = now
    n, ids = service._pending.set_back(now)
    return n + len(ahead), ids


def _fading(service: RankingService) -> list[FadingRanker]:
    """The rankers that remember the time of what they learned last."""
    challenger = None if service.challenge is None else service.challenge.model
    return [*parts_of([service.model, challenger], FadingRanker)]
