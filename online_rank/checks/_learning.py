"""Checks of rankers alone."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from online_rank.base import QueryTransformer, parts_of, ranker_of
from online_rank.base.anatomy import learned_measure
from online_rank.base.schema import schema_of
from online_rank.checks._subject import (
    as_dicts,
    close,
    late_and_known,
    make_queries,
    numbers,
    rejects,
    same,
    state_of,
    taught_by,
)
from online_rank.rankers.inside import averages


def ranking(model: Any) -> None:
    """`rank_one` sorts the documents by score, best first, equal ones in the order in which they were given."""
    for dicts in (False, True):
        model = taught_by(model.clone(), make_queries(), dicts)
        for X, y in make_queries(seed=1):
            scores = numbers(model.predict_one(as_dicts(X, y)[0] if dicts else X))
            ranked = model.rank_one(as_dicts(X, y)[0] if dicts else X)
            order = np.argsort(-scores, kind="stable").tolist()
            assert ranked == ([f"doc{i}" for i in order] if dicts else order), "rank_one does not follow the scores"


def last_round(model: Any) -> None:
    """`last_round` is None at first, then describes the last query learned, with its weight."""
    assert model.last_round is None, "last_round is not None before the first query"
    for t, (X, y) in enumerate(make_queries()):
        w = (0.5, 1.0, 2.0)[t % 3]
        try:
            model.learn_one(X, y, w=w)
        except ValueError:
            if w == 1.0:
                raise
            continue  # A ranker that does not support weights raises an error.
        told: Any = model.last_round
        assert 0.0 <= told.loss <= 1.0, f"the loss of a query is {told.loss}"
        assert told.n_documents == len(y), f"{len(y)} documents were reported as {told.n_documents}"
        assert told.weight == w, f"the weight {w} was reported as {told.weight}"
        fields = (told.mass, told.squared_gradient_norm, told.margin, told.largest_norm, told.v_max)
        assert not any(field < 0.0 for field in fields), f"a field of {told} is negative"
    before = state_of(model)
    for w in (-1.0, math.nan, math.inf):
        with rejects(f"the weight {w}"):
            model.learn_one(X, y, w=w)
        assert state_of(model) == before, f"the weight {w} was rejected, but changed the model"


def late_features(model: Any) -> None:
    """A feature that appears late is learned as if it had been absent, 0 or missing, from the start, up to rounding."""
    ranker = ranker_of(model)
    if any(isinstance(part, QueryTransformer) for part in parts_of(ranker)):
        return  # Transformers inside may turn 0 into another number.
    for late, known in late_and_known(ranker):
        assert close(late, known, 1e-12), "a feature that came late was learned differently from one that was absent before"


def sample_weights(model: Any) -> None:
    """A query of weight 0 changes no weights, and one of weight 2 is not learned like one of weight 1."""
    ranker, queries = _last_weights(ranker_of(model)), make_queries()
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


def honest_loss(model: Any) -> None:
    """`last_round.loss` is 1 - measure of the ranking by the weights that learn, before the query was learned. The weight of
    the query does not change it.
    """
    ranker = _last_weights(ranker_of(model))
    if ranker is None or ranker.abilities.takes_clicks:
        return  # It answers by other weights than those that learn, or its loss is about clicks.
    measure = learned_measure(ranker)
    for t, (X, y) in enumerate(make_queries(40)):
        w = (1.0, 0.5, 2.0)[t % 3]
        expected = measure.loss(numbers(ranker.predict_one(X)), y, ties="pessimistic")
        try:
            ranker.learn_one(X, y, w=w)
        except ValueError:
            if w == 1.0:
                raise
            continue  # A ranker that does not support weights raises an error.
        told = ranker.last_round.loss
        assert abs(told - expected) < 1e-9, f"a ranking with a loss of {expected:.6g} was reported with {told:.6g}"


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


def _last_weights(ranker: Any) -> Any:
    """A ranker with these settings that answers by the weights that learn; None if that is impossible."""
    ranker = ranker.clone({"half_life": 0} if averages(ranker) else {})
    return None if any(averages(part) for part in parts_of(ranker)) else ranker


def _arrays(model: Any) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of a model's state that must be finite, with their names."""
    for part in parts_of(model):
        kind: Any = type(part)
        declared = schema_of(kind) or {}
        for name, value in vars(part).items():
            allowed = name == "_last_round" or not getattr(declared.get(name), "finite", True)
            if isinstance(value, np.ndarray) and value.dtype.kind == "f" and not allowed:
                yield f"{type(part).__name__}.{name}", value
