"""A ranker as a service: requests, queries waiting for feedback, and an HTTP application (extra `serve`)."""

from online_rank.serving.challenge import Challenge
from online_rank.serving.pending import PendingQueries
from online_rank.serving.plan import FeedbackPlan
from online_rank.serving.protocol import RankingService, Reply
from online_rank.support.lazy import lazily

__all__ = ["Challenge", "FeedbackPlan", "Limits", "Models", "PendingQueries", "RankingApp", "RankingService", "Reply"]

# Modules that need the extra are imported on first use.
__getattr__, __dir__ = lazily(__name__, {"Limits": "asgi", "Models": "models", "RankingApp": "http"}, __all__)
