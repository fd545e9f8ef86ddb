"""Clicks instead of grades: what was shown, what was clicked, and how rankings are drawn that can be learned from."""

from online_rank.feedback.impressions import Clicks, Impression
from online_rank.feedback.policies import FairPairs, PlackettLuce, Policy
from online_rank.feedback.position_bias import PositionBias

__all__ = ["Clicks", "FairPairs", "Impression", "PlackettLuce", "Policy", "PositionBias"]
