"""Initial weights of linear rankers: given weights and named fusion rules."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank.query.names import names_in_nfc

#: How a `SwapRanker` begins with a rule: of the settings that did not fall behind the rule on synthetic fusion streams, the one
#: that gained most (`python -m benchmarks.hybrid --part strength`).
SWAP_BEGINNING = {"strength": 10.0, "wealth": 3.0}

#: The same for retrievers that differ much, and for lists in random order: the farther apart scores are, the less a pair counts
#: that they order wrongly (`--part logs`).
FAST_SWAP_BEGINNING = {"strength": 3.0, "wealth": 3.0}


def as_weights(weights: Any, argument: str = "weights") -> tuple[list[Hashable] | None, np.ndarray]:
    """Initial weights: the features' names, or None for features known by position, and float64 (d,).

    Raises
    ------
    TypeError, ValueError
        `weights` is empty or of another type, or a weight is not a finite number.
    """
    names = names_in_nfc(weights, argument) if isinstance(weights, Mapping) else None
    values = np.array(list(weights.values()) if isinstance(weights, Mapping) else weights)
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        raise TypeError(f"{argument} must be d numbers, or {{feature: weight}}")
    if not len(values) or not np.isfinite(values).all():
        raise ValueError(f"{argument} must be at least one number, all of them finite")
    return names, values.astype(np.float64)


def as_parameter(weights: Any, argument: str = "weights") -> dict[Hashable, float] | tuple[float, ...]:
    """Initial weights as a parameter to keep: a copy, in plain numbers that can be saved. Raises as `as_weights`.

    Examples
    --------
    >>> as_parameter({"price": True}), as_parameter(np.ones(2))
    ({'price': 1.0}, (1.0, 1.0))
    """
    names, values = as_weights(weights, argument)
    return tuple(values.tolist()) if names is None else dict(zip(names, values.tolist(), strict=True))


#: The rules, with the part of `RunFeatures` that each adds up.
RULES = {"rrf": "reciprocal_rank", "minmax": "minmax", "zscore": "zscore"}


def rule_weights(rule: str, runs: Sequence[str], weights: Sequence[float] | None = None) -> dict[Hashable, float]:
    """The weights by which a linear ranker behind `RunFeatures` ranks as a fusion rule does.

    Parameters
    ----------
    rule
        `"rrf"`, reciprocal rank fusion (its constant is `RunFeatures(k=60)`); `"minmax"` or `"zscore"`, the weighted sum of
        scores normalised within each run.
    runs
        Names of the retrievers.
    weights
        One weight for each run; None for 1 each.

    Raises
    ------
    TypeError, ValueError
        The rule is unknown, or the numbers of weights and runs differ.

    Examples
    --------
    >>> rule_weights("rrf", ["bm25", "vector"])
    {'bm25 reciprocal_rank': 1.0, 'vector reciprocal_rank': 1.0}
    """
    arguments.choice("rule", rule, RULES)
    arguments.names("runs", runs, "names of retrievers")
    if weights is not None and (isinstance(weights, Mapping) or not hasattr(weights, "__len__")):
        raise TypeError(
            f"weights is of type {type(weights).__name__}; it must be a list with one number for each run, in their order"
        )
    given = [1.0] * len(runs) if weights is None else list(weights)
    if len(given) != len(runs):
        raise ValueError(f"weights has {len(given)} numbers for {len(runs)} runs")
    for weight in given:
        arguments.number("weights", weight)
    return {f"{run} {RULES[rule]}": float(weight) for run, weight in zip(runs, given, strict=True)}
