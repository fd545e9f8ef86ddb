"""Clicks instead of grades: what was shown, what was clicked, and how rankings are drawn that can be learned from.

What is learned from a log depends on what it says of how its lists came about:

| the log | said by | learned by | what is assumed of users |
|---|---|---|---|
| lists of `show_one` | the `Impression` itself | `SwapRanker`, `ClickPerceptron` | nothing |
| lists in random order | `Impression.shuffled` | the same | nothing |
| chances of each document given those above | `propensities` | `ClickPerceptron(credit="propensity")` | they read downwards |
| probabilities of each document at its place | `placements` | the same | a click depends on a document and its place alone |
| no chance, but documents that moved | nothing | the same, with `examination` of `NaturalVariation` | position-based clicks |
| no chance, nothing moved | nothing | nothing: refused | |

Lists may have gaps (`positions`), and a single slot is enough: documents that were drawn and held back stand for the others.
"""

from online_rank.feedback.exploring import expected_places, kept_share, retention
from online_rank.feedback.impressions import Clicks, Impression
from online_rank.feedback.natural_variation import NaturalVariation
from online_rank.feedback.policies import FairPairs, PlackettLuce, Policy
from online_rank.feedback.position_bias import PositionBias

__all__ = [
    "Clicks",
    "FairPairs",
    "Impression",
    "NaturalVariation",
    "PlackettLuce",
    "Policy",
    "PositionBias",
    "expected_places",
    "kept_share",
    "retention",
]
