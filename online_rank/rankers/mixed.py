"""Mixes what several machines have learned with curves (`online_rank.distributed.mix`)."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from online_rank._kernels import additive as kernels
from online_rank._kernels.hedge import LARGEST_WEIGHT
from online_rank.base import share_lock
from online_rank.base.kinds import Kinds
from online_rank.rankers.curved import n_curves
from online_rank.rankers.fading import left_after
from online_rank.rankers.hedge import LEAST
from online_rank.rankers.mixed_trees import mix_trees
from online_rank.rankers.weighed_levels import let_excess_leave
from online_rank.rankers.worded import begun, most_words
from online_rank.rankers.words import Words


def mix(mixed: Any, shards: Sequence[Any], base: Any) -> None:
    """Mix the shards, which continued from `base`, into `mixed`, a copy of `base` with all of their features."""
    mixed._n_mixed += 1
    mixed._n_queries += sum(shard._n_queries - base._n_queries for shard in shards)
    mixed._n_served += sum(shard._n_served - base._n_served for shard in shards)
    mixed._at = max((shard._at for shard in shards if shard._at is not None), default=mixed._at)
    mixed._last_round = copy.copy(shards[-1]._last_round)  # Each instance overwrites its own row.
    _mix_vectors(mixed, shards, base)
    if mixed._linear is None and any(shard._linear is not None for shard in shards):
        mixed._begin_linear()
    if mixed._linear is None:
        mixed._drawn = mixed._answers = None
        _mix_curves(mixed, shards, base)
        let_excess_leave(mixed)
        return
    if any(n_curves(one) for one in (base, *shards)):
        raise ValueError("some of the AdditiveRankers have learned from sparse rows, and others from arrays")
    fresh = mixed._linear.clone()
    mixed._linear._reader.meet_features_of(mixed._linear, [mixed])
    mixed._linear._mix([shard._linear or fresh for shard in shards], base._linear or fresh)


def _mix_curves(mixed: Any, shards: Sequence[Any], base: Any) -> None:
    """Mix the curves of the shards.

    Maps are pooled. Weights and Hessians are averaged, each shard by the queries that it has learned. Encodings, counters,
    losses and accounts add up, and the base counts once.
    """
    if any(one.members != base.members for one in (mixed, *shards)):
        raise ValueError("some of the AdditiveRankers have the members of an earlier version, and others have the present ones")
    mixed._add_curves()
    before, *learned = (_in_columns_of(mixed, one) for one in (base, *shards))
    mixed._front._mix([one._front for one in learned], base._front)
    shares = _shares([shard._n_queries - base._n_queries for shard in shards])
    mixed._weights = _mean([one._weights for one in learned], shares)
    for name in ("_plain", "_marginals", "_curvatures"):
        setattr(mixed, name, _mean([getattr(one, name) for one in learned], shares))
    for name in ("_sums", "_losses", "_account", "_numbers"):
        began = getattr(before, name)
        setattr(mixed, name, began + sum((getattr(one, name) - began for one in learned), np.zeros_like(began)))
    # The relative error that two roundings leave in a sum of numbers >= 0.
    mixed._losses, mixed._account = np.maximum(mixed._losses, 0.0), np.maximum(mixed._account, LEAST)
    mixed._account[LARGEST_WEIGHT] = max(one._account[LARGEST_WEIGHT] for one in learned)
    mixed._sums[:, :, 1] = np.maximum(mixed._sums[:, :, 1], 0.0)
    mixed._numbers = np.maximum(mixed._numbers, 0.0)
    # What fades counts as on one machine.
    fading = slice(kernels.NUMBERS, kernels.STRAIGHTS)
    mixed._numbers[fading] = _mean([one._numbers[fading] for one in learned], shares)
    for h in range(2):
        _mix_averages(mixed, learned, before, h)
    mixed._scales = _mean([one._scales for one in learned], shares)
    missed = np.max([one._places[:, 1] for one in learned], axis=0) >= 0
    mixed._places[missed & (mixed._places[:, 1] < 0), 1] = kernels.WANTED
    mixed._decide_signs()
    mixed._decide_places()
    places, d = mixed._places, len(mixed._pending)
    grams, pending = zip(*(_in_places(one, one._gram, one._pending, places, d) for one in learned), strict=True)
    mixed._gram, mixed._pending = _mean(grams, shares), _mean(pending, shares)
    if mixed._plain.shape[1]:
        grams, moments = zip(*(_in_places(one, one._slow_gram, one._left, places, d) for one in learned), strict=True)
        mixed._slow_gram, mixed._left = _mean(grams, shares), _mean(moments, shares)
    _mix_words(mixed, shards, base)
    if mixed._trees is not None:
        mixed._trees = mix_trees([one._trees for one in learned], before._trees, shares, mixed.trees, base._n_queries)
        mixed._trees.draw(mixed.seed, mixed._n_queries)


def _mix_words(mixed: Any, shards: Sequence[Any], base: Any) -> None:
    """Mix the words of the shards, and the kinds of their texts."""
    if any(one._words is not None for one in shards):
        before, *learned = (one._words or begun(one) for one in (base, *shards))
        mixed._words = Words()
        mixed._words.mix(learned, before, most_words(mixed))
    if any(one._kinds is not None for one in shards):
        fresh = Kinds()
        mixed._kinds = (base._kinds or fresh).mixed([one._kinds or fresh for one in shards])


def _mix_vectors(mixed: Any, shards: Sequence[Any], base: Any) -> None:
    """Mix the matrices of vectors of the shards that have any."""
    learned = [one._vectors for one in shards if one._vectors is not None]
    if learned:
        fresh = learned[0].clone()
        mixed._vectors = fresh.clone()
        mixed._vectors.mix(learned, base._vectors or fresh)
        share_lock(mixed)


def _in_columns_of(mixed: Any, other: Any) -> Any:
    """A copy of another ranker with the features of the mixed one, in its order."""
    # Of trees nothing is changed in place, and their windows are large.
    made = copy.deepcopy(other, {id(other._trees): copy.copy(other._trees)})
    made._reader.meet_features_of(made, [mixed])
    made._add_curves()
    order = np.arange(mixed._n_features) if mixed._columns is None else made._columns.of(mixed._columns.names)
    made._front = made._front.arranged(order)
    for name in ("_weights", "_plain", "_marginals", "_sums", "_places", "_curvatures"):
        setattr(made, name, getattr(made, name)[order])
    if made._trees is not None:
        made._trees = made._trees.arranged(order)
    return made


def _shares(n_queries: Sequence[int]) -> np.ndarray:
    """The shares of shards that have learned as many queries: who has learned little, or nothing, holds up nobody."""
    return np.full(len(n_queries), 1.0 / len(n_queries)) if not any(n_queries) else np.array(n_queries) / sum(n_queries)


def _mix_averages(mixed: Any, learned: Sequence[Any], before: Any, h: int) -> None:
    """Mix the averages of weights with half-life h: what the base had fades by the queries of all, and counts once."""
    number, place = kernels.AVERAGES + h, 1 + h
    left, left_by_all = [_left(one, before, h) for one in learned], _left(mixed, before, h)
    had, total = before._numbers[number], before._weights[:, :, place] * before._numbers[number]
    own = sum(one._numbers[number] - f * had for one, f in zip(learned, left, strict=True))
    vectors = sum(one._numbers[number] * one._weights[:, :, place] - f * total for one, f in zip(learned, left, strict=True))
    # As many vectors as one machine would have after these queries: their sum, less by how much they fade.
    gone = sum(1.0 - f for f in left)
    scale = (1.0 - left_by_all) / gone if gone > 0.0 else 1.0
    mixed._numbers[number] = left_by_all * had + scale * own
    mixed._weights[:, :, place] = (left_by_all * total + scale * vectors) / max(mixed._numbers[number], 1e-300)


def _left(one: Any, before: Any, h: int) -> float:
    """What is left of the averages that a ranker began with."""
    if seconds := one._seconds[h]:
        return left_after(max(one._at - before._at, 0.0), seconds) if before._at is not None else 0.0
    return float(one._keep[0, h] ** (one._n_queries - before._n_queries))


def _in_places(one: Any, gram: np.ndarray, vector: np.ndarray, places: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Its triangle of a matrix and a vector, with d columns in other places (n, 2); 0 for columns that it lacks."""
    n = len(vector)
    own, whole = np.full(d, n), np.zeros((n + 1, n + 1))
    own[places[places >= 0]] = np.where(one._places >= 0, one._places, n)[places >= 0]
    whole[np.triu_indices(n)] = gram
    whole = (whole + np.triu(whole, 1).T)[np.ix_(own, own)]
    return whole[np.triu_indices(d)], np.append(vector, 0.0)[own]


def _mean(arrays: Sequence[np.ndarray], shares: np.ndarray) -> np.ndarray:
    """The mean of arrays by their shares, added up in their order."""
    return sum((share * one for share, one in zip(shares, arrays, strict=True)), np.zeros(1))
