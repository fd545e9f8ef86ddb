"""What rankers share that learn linear weights from clicks on rankings that they draw."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from online_rank._kernels import sparse
from online_rank._kernels.clicks import confidence as confidence_in
from online_rank._kernels.clicks import evidence
from online_rank._kernels.codes import AVERAGED
from online_rank.base.anatomy import Abilities
from online_rank.base.schema import Array, Derived, Field, Flag
from online_rank.feedback.policies import PlackettLuce, Policy, require_policy
from online_rank.query import Block
from online_rank.rankers.signs import checked_signs, project

#: How many counters such a ranker has.
N_COUNTERS = 6
#: How a ranker that begins with nothing draws, and one that begins with weights.
_COLD, BEGUN = PlackettLuce(), PlackettLuce(keep=0.98, newcomers=0.01)
#: What such a ranker adds to the state of a `LinearRanker`; `_begun` says whether it began with given weights.
STATE: dict[str, Field] = {"_counters": Array(N_COUNTERS, low=0.0), "_begun": Flag(), "_learns_atomically": Derived()}


def begin(ranker: Any, policy: Policy | None, signs: Mapping[Any, int] | None) -> None:
    """Give a `LinearRanker` a policy by which it draws rankings, and signs of weights. Raises TypeError, ValueError."""
    require_policy(policy)
    ranker.policy = policy
    ranker.signs = checked_signs(signs)
    ranker._learns_atomically = signs is None
    ranker._begun = False


def abilities(ranker: Any) -> Abilities:
    """The abilities of such a ranker."""
    examined = getattr(ranker, "examination", None) is not None
    return Abilities(takes_clicks=True, takes_sparse=ranker.signs is None, takes_any_list=examined, draws=True)


def policy_of(ranker: Any) -> Policy:
    """Its policy: the given one, or a default."""
    if ranker.policy is not None:
        given: Policy = ranker.policy
        return given
    return BEGUN if ranker._begun else _COLD


def confidence_of(ranker: Any, updates: np.ndarray, squares: np.ndarray) -> float:
    """How far to trust its scores, by the sums (d,) of the updates of dense weights, and of their squares."""
    if ranker._begun:
        return 1.0
    if ranker._rows is not None:
        return float(confidence_in(*ranker._counters[[sparse.EVIDENCE, sparse.WITH_GRADIENTS]]))
    return float(confidence_in(*evidence(updates, squares)))


def note_evidence(ranker: Any, updates: np.ndarray, squares: np.ndarray) -> None:
    """Keep what the updates of dense weights say, before the weights become rows."""
    ranker._counters[[sparse.EVIDENCE, sparse.WITH_GRADIENTS]] = evidence(updates, squares)


def learn_with_signs(ranker: Any, block: Block, rounds: np.ndarray) -> int:
    """Learn queries (`_descend`, which knows no signs), and project the weights after each if signs are known; how many."""
    if ranker.signs is None:
        return int(ranker._descend(block, rounds))
    columns, signs = ranker._signed_columns()
    ranker._warn_of_unknown_signs(columns)
    for t, query in enumerate(block.each()):
        if not ranker._descend(query, rounds[t : t + 1]):
            return t
        project(ranker._weights, ranker._average, ranker._counters[AVERAGED], columns, signs)
    return len(block.w)


def _confidence(ranker: Any) -> float:
    """How far `show_one` trusts the scores: from 0, before anything is learned, towards 1; 1 if it began with given weights."""
    return float(ranker._confidence())


#: A property of such a class, which gives it this name.
confidence = property(_confidence)
