"""Combines the accounts of the `LossTracker`s of several machines."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from online_rank.bounds.totals import MAXIMA
from online_rank.rankers.nested import share_columns


def mix(tracker: Any, shards: Sequence[Any], base: Any) -> None:
    """Combine the shards, which continued from `base`, into `tracker`, a copy of `base`.

    Sums are added, counting the base once; of maxima the largest is taken.
    """
    share_columns(tracker, tracker._learner)
    tracker._learner._mix([shard._learner for shard in shards], base._learner)
    for shard in shards:
        tracker._totals = np.where(
            MAXIMA, np.maximum(tracker._totals, shard._totals), tracker._totals + (shard._totals - base._totals)
        )
        for name in ("_sums", "_paired", "_served", "_n_served", "_n_as_served", "_n_moved"):
            setattr(tracker, name, getattr(tracker, name) + (getattr(shard, name) - getattr(base, name)))
    if not tracker._blends:
        _mix_paths(tracker, shards, base)
    same = base._machines in (0, len(shards)) and base._mixed_at == base._totals[0]
    tracker._machines = len(shards) if same else -1
    tracker._mixed_at = int(tracker._totals[0])
    tracker._last_round = copy.copy(shards[-1]._last_round)  # Each instance overwrites its own row.
    tracker._n_documents = tracker._learned_so_far()


def _mix_paths(tracker: Any, shards: Sequence[Any], base: Any) -> None:
    """Combine the sums of updates, and the paths of the comparators."""
    gains = tracker._reader.placed_from(tracker, base, base._gains()[None])[0]
    products, before = _products(base), gains.copy()
    for shard in shards:
        gains = gains + (tracker._reader.placed_from(tracker, shard, shard._gains()[None])[0] - before)
        products = products + (_products(shard) - _products(base))
        tracker._path[:, 0] += shard._path[:, 0] - base._path[:, 0]
        tracker._path[:, 2] = np.maximum(tracker._path[:, 2], shard._path[:, 2])
        # A shard knows only the scale of the features that it has seen.
        scaled_by = tracker._reader.placed_from(tracker, shard, shard._scaled_by[None])[0]
        tracker._scaled_by = np.where(scaled_by > 0.0, scaled_by, tracker._scaled_by)
    tracker._path[:, 1] = (tracker._aligned * tracker._scaled_by) @ gains - products
    if tracker._gained is None:
        tracker._offset = gains - tracker._learner.weights
    else:
        tracker._gained = gains


def _products(tracker: Any) -> np.ndarray:
    """For each comparator the sum of <u_t, z_t>, where z_t is the update of round t."""
    return (tracker._aligned * tracker._scaled_by) @ tracker._gains() - tracker._path[:, 1]
