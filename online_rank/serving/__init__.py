"""A ranker as a service: requests, queries waiting for feedback, and an HTTP application (extra `serve`).

`PendingQueries`, `FeedbackPlan` and `Challenge` need no extra.
"""

from online_rank.serving.challenge import Challenge
from online_rank.serving.pending import PendingQueries
from online_rank.serving.plan import FeedbackPlan
from online_rank.support.lazy import lazily

__all__ = ["Challenge", "FeedbackPlan", "Limits", "Models", "PendingQueries", "RankingApp", "RankingService", "Reply"]

_HOMES = {"Limits": "asgi", "Models": "models", "RankingApp": "http", "RankingService": "protocol", "Reply": "outcomes"}
# Modules that need the extra are imported on first use.
__getattr__, __dir__ = lazily(__name__, _HOMES, __all__)
