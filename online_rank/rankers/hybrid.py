"""Learned fusion of several retrievers, with a regret bound against today's rule from the first query."""

from collections.abc import Sequence
from typing import Any

from online_rank import arguments
from online_rank.measures.learned import measure as parsed
from online_rank.preprocessing import RunFeatures
from online_rank.preprocessing.runs import PARTS
from online_rank.rankers.blend import BlendRanker
from online_rank.rankers.fixed import FixedRanker
from online_rank.rankers.perceptron import PerceptronRanker
from online_rank.rankers.ridge import RidgeRanker
from online_rank.rankers.rules import RULES, rule_weights


def hybrid(
    runs: Sequence[str],
    *,
    today: str = "minmax",
    weights: Sequence[float] | None = None,
    k: float = 60.0,
    floor: float = 0.0,
    measure: str = "ndcg@10",
) -> Any:
    """A pipeline that begins as today's fusion rule, and learns from grades to rank better.

    It blends three rankers: today's rule, which never changes; a perceptron that begins as the rule; and ridge. Half of the
    prior is on the rule. So on any stream the served rankings lose at most as much as the rule, plus ln 2 / eta + Delta + G
    (`online_rank.bounds.certificate_of` has the numbers). Before the first feedback it ranks
    exactly as the rule.

    Queries are `Runs`.

    Parameters
    ----------
    runs
        Names of the retrievers.
    today
        The rule in use today: `"minmax"` or `"zscore"`, the weighted sum of scores normalised within each run; `"rrf"`,
        reciprocal rank fusion.
    weights
        The weights of the runs in that rule; None for 1 each.
    k
        The constant of reciprocal rank fusion.
    floor
        The min-max of the smallest score of a run (see `RunFeatures`): 0.001 in OpenSearch.
    measure
        The measure to learn for.

    Raises
    ------
    TypeError, ValueError
        An argument is out of its range.

    Examples
    --------
    >>> from online_rank import Runs, hybrid
    >>> model = hybrid(["bm25", "vector"])
    >>> query = Runs({"bm25": [("d7", 12.3), ("d2", 11.9)], "vector": [("d9", 0.83), ("d2", 0.41)]})
    >>> model.rank_one(query)
    ['d7', 'd9', 'd2']
    >>> for _ in range(10):
    ...     model.learn_one(query, {"d7": 0, "d2": 0, "d9": 2})
    >>> model.rank_one(query)[0]
    'd9'
    """
    arguments.choice("today", today, RULES)
    arguments.number("k", k, 0.0)
    arguments.number("floor", floor, 0.0, 1.0)
    parsed(measure)
    rule = rule_weights(today, runs, weights)
    # Reciprocal ranks are at most 1 / (k + 1), the other scores about 1.
    strength = k + 1.0 if today == "rrf" else 1.0
    members = [
        FixedRanker(rule, measure=measure),
        PerceptronRanker.from_weights({name: strength * weight for name, weight in rule.items()}, measure=measure),
        RidgeRanker(measure),
    ]
    return RunFeatures(runs, parts=PARTS, k=k, floor=floor) | BlendRanker(members, measure=measure, prior=(0.5, 0.0, 0.0))
