"""How `StreamQuantileMap`s of several machines learn parts of a stream, and become one map."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from online_rank._kernels import quantile_map as kernels


def fork(step: Any) -> None:
    """From now on keep new documents in separate sketches; knots are computed from both."""
    if step._cursor < step._n_features:
        step._join(step._n_features)
    step._base_points, step._base_sizes, step._base_masses = step._points, step._sizes, step._masses
    step._base_total, step._count_before = step._total, step._count
    if step._lacking is not None:
        step._base_lacking, step._lacking = step._lacking, np.zeros_like(step._lacking)
    step._points, step._sizes = np.zeros_like(step._points), np.zeros_like(step._sizes)
    step._masses, step._total = np.zeros_like(step._masses), 0.0
    step._begin_stretch()


def _own_lacking(step: Any) -> np.ndarray:
    """The weight of a shard's own documents that lack each feature."""
    lacking = np.array(step._lacking)
    # All documents of the base lacked the features that are new since then.
    lacking[len(step._base_points) :] -= step._base_total
    return np.maximum(lacking, 0.0)


def arranged(step: Any, order: np.ndarray) -> Any:
    """A copy for mixing, with the features known by their position in another order."""
    made = copy.copy(step)
    made._join_all()
    for name in ("_points", "_sizes", "_masses"):
        setattr(made, name, getattr(made, name)[order])
    made._lacking = _own_lacking(made)[order]
    made._base_points, made._base_total = made._base_points[:0], 0.0
    return made


def mix(step: Any, shards: Sequence[Any], base: Any) -> None:
    """Merge the sketches of each shard's own documents into the sketches of the base."""
    if any(shard._passes for shard in shards):
        if not all(shard._passes or not shard._n_features for shard in shards):
            raise ValueError("some of the StreamQuantileMaps have learned from sparse rows, and others from arrays")
        step._passes = True
        return
    step._join_all()
    step._points, step._sizes, step._masses = step._points.copy(), step._sizes.copy(), step._masses.copy()
    for k, given in enumerate(shards):
        if given._count_before != base._count:
            raise ValueError(f"StreamQuantileMap of models[{k}] did not begin as a fork of base: its own documents are unknown")
        shard = copy.copy(given)
        shard._join_all()
        points = np.ascontiguousarray(step._reader.placed_from(step, shard, np.ascontiguousarray(shard._points.T)).T)
        sizes, masses = (step._reader.placed_from(step, shard, values[None])[0] for values in (shard._sizes, shard._masses))
        kernels.join_sketches(step._points, step._sizes, step._masses, step._draw(), points, sizes, masses)
        if step._lacking is not None:
            step._lacking = step._lacking + _own_lacking(shard)
        step._total += shard._total
        step._count += shard._count - shard._count_before
        step._n_joined += 1
    if step._total > step.memory:
        kept = step.memory / step._total
        step._masses *= kept
        step._lacking = None if step._lacking is None else step._lacking * kept
        step._total = float(step.memory)
    step._forget_base()
    step._cursor = step._n_features
    step._begin_stretch()
    step._derive()
