"""A ranker as a service: requests, queries that wait for their feedback, and an application for HTTP (extra `serve`)."""

from online_rank._lazy import lazily
from online_rank.serving.pending import PendingQueries
from online_rank.serving.plan import FeedbackPlan
from online_rank.serving.protocol import RankingService, Reply

__all__ = ["FeedbackPlan", "Limits", "Models", "PendingQueries", "RankingApp", "RankingService", "Reply"]

# What needs the extra is imported when it is first used.
__getattr__, __dir__ = lazily(__name__, {"Limits": "asgi", "Models": "models", "RankingApp": "http"}, __all__)
