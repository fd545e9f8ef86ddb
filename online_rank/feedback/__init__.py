"""Clicks instead of grades: shown rankings, clicks on them, and policies that draw rankings to learn from.

How to learn from a log depends on what it says about the origin of its lists:

.. list-table::
   :header-rows: 1

   * - the log
     - given as
     - learned by
     - assumption about users
   * - lists of `show_one`
     - the `Impression` itself
     - `SwapRanker`, `ClickPerceptron`
     - nothing
   * - lists in random order
     - `Impression.shuffled`
     - the same; `ExaminedRanker(..., examination=(1.0,))`
     - nothing
   * - probabilities given the documents above
     - `propensities`
     - `ExaminedRanker`
     - they read downwards
   * - probabilities at each position
     - `placements`
     - the same
     - a click depends only on a document and its position
   * - by the score of a ranker, which is a feature
     - nothing
     - `ClickRidge`
     - who looks at a position does not depend on its document
   * - not random, but documents moved
     - nothing
     - `ExaminedRanker`, with `examination` of `NaturalVariation`
     - position-based clicks
   * - not random, nothing moved
     - nothing
     - the same, with `examination` from elsewhere; without it, an error
     - position-based clicks

Where the same queries are asked again and again, `judgements` makes grades from clicks, for rankers that learn from grades.

Lists may have gaps (`positions`), and a single slot is enough: it is compared with documents that were drawn and held back.
"""

from online_rank.feedback.impressions import Clicks, Impression
from online_rank.feedback.judgements import Judgement, Judgements, judgements
from online_rank.feedback.natural_variation import NaturalVariation
from online_rank.feedback.origin import OriginTest
from online_rank.feedback.policies import FairPairs, Greedy, PlackettLuce, Policy
from online_rank.feedback.position_bias import PositionBias

__all__ = [
    "Clicks",
    "FairPairs",
    "Greedy",
    "Impression",
    "Judgement",
    "Judgements",
    "NaturalVariation",
    "OriginTest",
    "PlackettLuce",
    "Policy",
    "PositionBias",
    "judgements",
]
