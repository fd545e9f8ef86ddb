"""The closed form of a model, assembled from the declarations of its steps."""

import contextlib
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from online_rank.base.anatomy import serving_steps
from online_rank.base.form import Form, Layer, Layered, Take
from online_rank.query import ONE, Block, single

_Names = tuple[Hashable, ...] | None


def form_of(model: Any, names: _Names = None, n_features: int | None = None) -> Form:
    """The closed form of the scores that a model serves now, as a function of raw features.

    Parameters
    ----------
    model
        A ranker, or a pipeline that ends in one. A ranker that holds others has the form of the one that ranks.
    names, n_features
        The raw features, for steps that do not know them; None to take them from the steps.

    Raises
    ------
    TypeError
        A step has no closed form; the message names it, with the reason.
    ValueError
        The model has learned from no features yet.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, StreamScaler
    >>> model = StreamScaler() | PerceptronRanker()
    >>> model.learn_one({"a": {"clicks": 3}, "b": {"clicks": 1}}, {"a": 0, "b": 2})
    >>> form = form_of(model)
    >>> form.names, [type(layer).__name__ for layer in form.layers], type(form.head).__name__
    (('clicks',), ['Scale'], 'Linear')
    >>> form(np.array([[2.0], [0.0]]))
    array([0.    , 2.430...])
    """
    *transformers, ranker = serving_steps(model)
    return form_of_steps(transformers, ranker, names, n_features)


def form_of_steps(transformers: Sequence[Any], ranker: Any, names: _Names = None, n_features: int | None = None) -> Form:
    """The closed form of a ranker behind transformers, as `form_of`."""
    if n_features is None:
        names, n_features = _raw_features(transformers, ranker)
    layers: list[Layer] = []
    known, width = names, n_features
    for step in transformers:
        layers += _arranged(step, known, width)
        try:
            layers += step._layers(getattr(step, "n_features", 0) or width)
        except (TypeError, AttributeError) as error:
            raise TypeError(f"{type(step).__name__} has no closed form: {error}") from None
        known, width = _given(step, known, width)
    layers += _arranged(ranker, known, width)
    try:
        head = ranker._head()
        if isinstance(head, Layered):
            layers, head = [*layers, *head.layers], head.head
    except TypeError as error:
        raise TypeError(f"{type(ranker).__name__} has no closed form: {error}") from None
    return Form(names, n_features, tuple(layers), head)


def _given(step: Any, names: _Names, width: int) -> tuple[_Names, int]:
    """Names and number of the columns that a step makes of the given columns."""
    made = step._transform_block(Block(np.zeros((1, width)), None, single(1), ONE, names=names))
    return made.names, made.X.shape[1]


def _arranged(step: Any, names: _Names, width: int) -> list[Layer]:
    """The layer that puts columns into the order in which a step knows them."""
    own, n = getattr(step, "feature_names", None), getattr(step, "n_features", 0)
    if not n:
        return []
    if own is None or names is None:
        if n != width:
            raise ValueError(f"{type(step).__name__} has learned from {n} features, but gets {width}")
        return []
    if own == names:
        return []
    places = {name: j for j, name in enumerate(names)}
    return [Take(np.array([places.get(name, -1) for name in own], dtype=np.int64))]


def _raw_features(transformers: Sequence[Any], ranker: Any) -> tuple[_Names, int]:
    """The features known to the first step that has any, traced back through earlier steps that learn nothing."""
    for i, step in enumerate([*transformers, ranker]):
        if n := getattr(step, "n_features", 0):
            return _before(transformers[:i], step.feature_names, n)
    raise ValueError("the model has met no feature yet; let it learn before it is exported")


def _before(steps: Sequence[Any], names: _Names, n: int) -> tuple[_Names, int]:
    """The features from which steps that learn nothing make columns of these names."""

    def given(raw: _Names, width: int) -> tuple[_Names, int]:
        for step in steps:
            raw, width = _given(step, raw, width)
        return raw, width

    if not steps:
        return names, n
    try:
        copies = given(None, 1)[1]
    except (TypeError, ValueError, AttributeError) as error:
        raise TypeError(f"{type(steps[0]).__name__} has no closed form: {error}") from None
    if names is None:
        return None, n // copies
    for raw in (names[::copies], names[: n // copies]):
        # Some transformers refuse names that they produce themselves.
        with contextlib.suppress(ValueError):
            if set(given(raw, len(raw))[0] or ()) == set(names):
                return raw, len(raw)
    raise TypeError(f"the names of the features before {type(steps[0]).__name__} are not known")
