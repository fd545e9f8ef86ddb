"""A ranker as a service: requests, and queries that wait for their feedback."""

from online_rank.serving.pending import PendingQueries
from online_rank.serving.protocol import RankingService, Reply

__all__ = ["PendingQueries", "RankingService", "Reply"]
