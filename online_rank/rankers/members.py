"""The members of an additive ranker, the candidates that blend them, and the candidates' prior."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank._kernels import additive, curves

__all__ = ["CURVES", "EARLIER", "MEMBERS", "Members", "members_of", "n_candidates", "without_plain"]

#: The share of the candidates without plain members before the first query; plain ones share the rest, and candidates with the
#: ridge regression count four times. Chosen on development streams: less leaves it too late on linear truths.
_CURVED, _RIDGES = 0.65, 4.0


class Members(NamedTuple):
    """K members and N candidates.

    Attributes
    ----------
    names
        Of the members, in the order of kernels.
    candidates
        The weights that each candidate gives them over their scales, float64 (N, K). The first is the last weights alone.
    prior
        The share of each candidate before the first query, float64 (N,).
    """

    names: tuple[str, ...]
    candidates: np.ndarray
    prior: np.ndarray


def _blends(n_members: int, blends: Sequence[tuple[int, ...]]) -> np.ndarray:
    """Candidates (N, n_members) that give some members equal weights."""
    made = np.zeros((len(blends), n_members))
    for own, members in zip(made, blends, strict=True):
        own[list(members)] = 1.0 / len(members)
    return made


def _with_more(
    members: Members, names: tuple[str, ...], blends: Sequence[tuple[tuple[int, ...], float]], kept: float
) -> Members:
    """Further members and the candidates that blend them, which share 1 - `kept` of the prior by the number of each."""
    total = len(members.names) + len(names)
    wider = np.pad(members.candidates, ((0, 0), (0, len(names))))
    candidates = np.concatenate([wider, _blends(total, [blend for blend, _ in blends])])
    parts = np.array([part for _, part in blends])
    prior = np.concatenate([kept * members.prior, (1.0 - kept) * parts / parts.sum()])
    return Members(members.names + names, candidates, prior)


_ALL = range(curves.N_MEMBERS)
_PAIRS = [*((k,) for k in _ALL), *itertools.combinations(_ALL, 2)]
#: Each alone, and pairs half and half: all that models had which were saved before there were plain members.
EARLIER = Members(
    ("last", "slow", "fast", "newton"), _blends(curves.N_MEMBERS, _PAIRS), np.full(len(_PAIRS), 1.0 / len(_PAIRS))
)
_SLOW = EARLIER.names.index("slow")
_PLAIN = range(curves.N_MEMBERS, curves.N_MEMBERS + curves.N_PLAIN)
_RIDGE = curves.N_MEMBERS + curves.RIDGE
#: The plain ones too: each alone, and halved with the slow average and with the Newton learner.
CURVES = _with_more(
    EARLIER,
    ("ridge", "straight", "sparse"),
    [(blend, _RIDGES if k == _RIDGE else 1.0) for k in _PLAIN for blend in ((k,), (_SLOW, k), (curves.NEWTON, k))],
    _CURVED,
)
#: Their names, in the order of kernels.
MEMBERS = CURVES.names

BY_NUMBER = {len(members.names): members for members in (EARLIER, CURVES)}


def members_of(n_members: int) -> Members:
    """The set with this number of members. Raises ValueError for other numbers."""
    if n_members not in BY_NUMBER:
        raise ValueError(f"there is no set of {n_members} members, only of {' or '.join(map(str, BY_NUMBER))}")
    return BY_NUMBER[n_members]


def n_candidates(n_members: int) -> int:
    """The number of candidates of the set with this number of members; 0 for other numbers."""
    return len(BY_NUMBER[n_members].candidates) if n_members in BY_NUMBER else 0


def without_plain(state: dict[str, Any]) -> dict[str, Any]:
    """State of an additive ranker as the present version has it.

    A model of a version without plain members keeps its members, candidates and prior, so that its certificate stays valid. Its
    numbers ended with the scales of its members.
    """
    numbers, weights = state.get("_numbers"), state.get("_weights")
    n_before = additive.RIDGES + 2 * len(EARLIER.names)
    if "_scales" in state or not (isinstance(numbers, np.ndarray) and isinstance(weights, np.ndarray)):
        return state
    if numbers.shape != (n_before,) or weights.ndim != 3:
        return state
    counters, scales = np.split(numbers, [additive.RIDGES])
    nothing: dict[str, np.ndarray] = {name: np.zeros((len(weights), 0)) for name in ("_plain", "_marginals")}
    counters = np.append(counters, np.zeros(additive.N_NUMBERS - len(counters)))
    nothing |= {name: np.zeros(0) for name in ("_slow_gram", "_left")}
    return {**state, **nothing, "_numbers": counters, "_scales": scales.reshape(-1, 2)}
