"""Checks of rankers alone."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from online_rank.base import QueryTransformer, parts_of, ranker_of
from online_rank.base.schema import schema_of
from online_rank.checks._subject import (
    close,
    last_weights,
    late_and_known,
    make_queries,
    numbers,
    same,
    taught_by,
)


def late_features(model: Any) -> None:
    """A feature that appears late is learned as if it had been absent, 0 or missing, from the start, up to rounding."""
    ranker = ranker_of(model)
    if any(isinstance(part, QueryTransformer) for part in parts_of(ranker)):
        return  # Transformers inside may turn 0 into another number.
    for late, known in late_and_known(ranker):
        assert close(late, known, 1e-12), "a feature that came late was learned differently from one that was absent before"


def sample_weights(model: Any) -> None:
    """A query of weight 0 changes no weights, and one of weight 2 is not learned like one of weight 1."""
    ranker, queries = last_weights(ranker_of(model)), make_queries()
    if ranker is None:
        return  # An average counts every query.
    answers = []
    for w in (None, 0.0, 1.0, 2.0):
        taught = ranker.clone()
        try:
            if w is not None:
                taught.learn_one(*queries[17], w=w)  # The first one: later ones may have nothing to teach.
        except ValueError:
            return  # A ranker that does not support weights raises an error.
        taught_by(taught, queries)
        answers.append([numbers(taught.predict_one(X)) for X, _ in queries])
    without, zero, one, two = answers
    assert same(zero, without), "a query of weight 0 taught something"
    assert not same(two, one), "weight 2 taught the same as weight 1"


def finite_state(model: Any) -> None:
    """Huge features and weights are refused, or leave a state and answers that are finite."""
    for huge, w in itertools.product((1.0, 1e30, 1e100, 1e160, 1e300), (1.0, 1e30, 1e100)):
        ranker = taught_by(ranker_of(model).clone(), make_queries()[:12])
        for X, y in make_queries()[12:18]:
            try:
                ranker.learn_one(X * huge, y, w=w)
            except ValueError:
                continue
            for name, array in _arrays(ranker):
                assert np.isfinite(array).all(), f"features of {huge:g} with weight {w:g} left {name} not finite"


def _arrays(model: Any) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of a model's state that must be finite, with their names."""
    for part in parts_of(model):
        kind: Any = type(part)
        declared = schema_of(kind) or {}
        for name, value in vars(part).items():
            allowed = name == "_last_round" or not getattr(declared.get(name), "finite", True)
            if isinstance(value, np.ndarray) and value.dtype.kind == "f" and not allowed:
                yield f"{type(part).__name__}.{name}", value
