r"""Weights with signs that are known: a lower price is never worse, more clicks are never worse.

Weights with given signs form a closed convex cone K: all w with sign_j w_j >= 0 for the features j that have a sign. After each
update the weights that learn are projected onto K, :math:`w_{t+1} = \Pi(w_t + z_t)`: a weight of the wrong sign becomes 0, the
others stay. Averages of points of K lie in K.

**Every bound holds against every comparator u in K.** The proofs use the sum of the updates, <u, w_{T+1}>, and the norm of the
weights, or their distance to u. For v = w_t + z_t and any u in K, with p = Pi(v) - v,

- <u, p> >= 0, because p_j is 0, or -v_j where sign_j v_j < 0, so that u_j p_j >= 0. So <u, w_{T+1} - w_1> is at least the sum
  of the <u, z_t>, and V - F(u) is at most the latter: the hindsight forms hold.
- ||Pi(v)|| <= ||v||: the norms grow no faster, so that ||w_{T+1}||^2 <= ||w_1||^2 + sum (||z_t||^2 + 2 tau_t V_t) as before.
- ||Pi(v) - u|| <= ||v - u||: v - u = (Pi(v) - u) - p with <Pi(v) - u, p> = -<u, p> <= 0, since <Pi(v), p> = 0. The distance to
  u does not grow: the bounds for online gradient descent, and for given initial weights in K, hold.
- ||Pi(w_t + z_t) - w_t|| <= ||z_t|| for w_t in K, the same with u = w_t: forms for averages and late grades, which measure how
  far the weights have moved since, hold.

A norm cap comes first; projecting afterwards does not lengthen the weights. Mixed weights are means of points of K. Against
comparators outside K nothing is proved: certificates say so. Statements about all weights of some norm are then about those in
K.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from online_rank._kernels.sparse import LAZY, WEIGHT
from online_rank.base import parts_of
from online_rank.base.names import are_numbers
from online_rank.query.levels import is_level
from online_rank.query.names import keys_in_nfc


def checked_signs(signs: Any) -> Any:
    """The signs, with names in normal form C. Raises TypeError or ValueError unless they are None or `{feature: 1 or -1}`."""
    if signs is None:
        return None
    if not isinstance(signs, Mapping):
        raise TypeError(f"signs is of type {type(signs).__name__}; it is a dict {{feature: 1 or -1}}")
    if not signs:
        raise ValueError("signs is empty; it is None, or a dict {feature: 1 or -1}")
    for name, sign in signs.items():
        if isinstance(sign, bool) or sign not in (1, -1):
            raise ValueError(f"signs[{name!r}] is {sign!r}; it is 1 (no weight below 0) or -1 (no weight above 0)")
    return {**keys_in_nfc(signs, "signs")}


def require_in_array(signs: Mapping[Any, int] | None, n_features: int) -> None:
    """Raise ValueError unless every feature with a sign is a column of an array: "1" for column 0, and so on.

    Arrays without columns, as before the first query, lack none.
    """
    for name in signs or () if n_features else ():
        if not are_numbers((name,)) or int(name) > n_features:
            raise ValueError(
                f"signs names {name!r}, but the queries do not name their {n_features} features: column 0 of an array is '1', "
                f"and the last one is '{n_features}'"
            )


def signs_of_columns(signs: Mapping[Any, int], names: Sequence[Hashable]) -> np.ndarray:
    """The sign of each column, int64 (d,), 0 for none, where booleans are levels: true is never worse, or never better.

    Raises ValueError for a sign of a category.
    """
    found = np.array([signs.get(name, 0) for name in names], dtype=np.int64)
    for j, name in enumerate(names):
        if is_level(name) and (sign := signs.get(name[0], 0)):  # type: ignore[index]
            rises = {"true": 1, "false": -1}.get(name[2], 0)  # type: ignore[index]
            if not rises:
                raise ValueError(f"signs has {name[0]!r}, which is a category: numbers and booleans have signs")  # type: ignore[index]
            found[j] = rises * sign
    return found


def against_signs(
    signs: Mapping[Any, int] | None, names: Iterable[Hashable], weights: np.ndarray
) -> tuple[Hashable, float] | None:
    """The first feature whose weight has the wrong sign, with the weight; None if all signs are right.

    Parameters
    ----------
    signs
        As in `PerceptronRanker`.
    names
        The names of the features.
    weights
        One weight for each.
    """
    if signs is None:
        return None
    pairs = zip(names, weights.tolist(), strict=True)
    return next(((name, w) for name, w in pairs if w * signs.get(name, 0) < 0.0), None)


def clip(weights: np.ndarray, columns: np.ndarray, signs: np.ndarray) -> None:
    """Set to 0 the weights (d,) that have a wrong sign; `columns` have signs, `signs` are theirs."""
    weights[columns[weights[columns] * signs < 0.0]] = 0.0


def project(weights: np.ndarray, average: np.ndarray, n_averaged: float, columns: np.ndarray, signs: np.ndarray) -> None:
    """Project weights (d,) onto the cone after a round, and correct their average of `n_averaged` vectors, (d,) or (0,)."""
    wrong = columns[weights[columns] * signs < 0.0]
    if len(average):
        if len(wrong):
            average[wrong] -= weights[wrong] / n_averaged
        # The average of points of the cone lies in the cone, up to rounding.
        clip(average, columns, signs)
    weights[wrong] = 0.0


def project_rows(rows: np.ndarray, lag: float, columns: np.ndarray, signs: np.ndarray) -> None:
    """As `project`, for rows (`_kernels.sparse`).

    `lag` is the factor of the last round's update in the lazy average: the correction of the weights is part of that update.
    """
    wrong = columns[rows[columns, WEIGHT] * signs < 0.0]
    rows[wrong, LAZY] -= lag * rows[wrong, WEIGHT]
    rows[wrong, WEIGHT] = 0.0


def signs_inside(model: Any) -> list[Mapping[Any, int]]:
    """The signs of all rankers inside a model that have some."""
    return [signs for part in parts_of(model) if isinstance(signs := getattr(part, "signs", None), Mapping)]
