"""A model as one weight for each raw feature and a constant."""

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from online_rank.base.closed import form_of
from online_rank.base.form import Blend, Curves, Form, InQuery, Linear, Scale, Take
from online_rank.export.reading import simplified

#: The reasons why layers are not linear.
_REASONS = {
    Curves: "curves of features have no linear form",
    InQuery: "columns relative to the query have no linear form",
}


class LinearForm(NamedTuple):
    """Scores that are linear in the raw features: s = X weights + constant.

    Attributes
    ----------
    weights
        float64 (d,), for raw features.
    constant
        The same for all documents: it changes scores, but no rankings.
    names
        The d feature names; None when features are known by their position.
    """

    weights: np.ndarray
    constant: float
    names: tuple[Hashable, ...] | None


def serving_weights(model: Any) -> LinearForm:
    """The weights that serve rankings, on raw features, with all scalers in front of the ranker folded in.

    Parameters
    ----------
    model
        A linear ranker, or a pipeline of scalers and one. For a `LossTracker` the weights of the ranker inside.

    Returns
    -------
    A `LinearForm`; its scores equal the scores of `predict_many` up to rounding.

    Raises
    ------
    TypeError
        The scores of the model are not linear in the raw features; the message names the step.
    ValueError
        The model has no features yet, or weights on raw features are not finite.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, StreamScaler
    >>> model = StreamScaler() | PerceptronRanker()
    >>> model.learn_one({"a": {"clicks": 3}, "b": {"clicks": 1}}, {"a": 0, "b": 2})
    >>> form = serving_weights(model)
    >>> form.names, form.weights, form.constant
    (('clicks',), array([-1.215...]), 2.430...)
    >>> model.predict_one({"c": {"clicks": 2}, "d": {"clicks": 0}})
    {'c': 0.0, 'd': 2.430...}
    """
    return linear_form(simplified(form_of(model))[0])


def linear_form(form: Form) -> LinearForm:
    """A closed form of scalers and a linear head as one weight for each raw feature. Raises as `serving_weights`."""
    d = form.n_features
    if isinstance(form.head, Blend):
        parts = [linear_form(inner) for inner in form.head.forms]
        weights = form.head.weights @ np.array([part.weights for part in parts])
        constant = float(form.head.weights @ np.array([part.constant for part in parts]))
        return LinearForm(weights, constant, form.names)
    # For each column: its raw feature, and the factors and shifts; the means, as long as there is only one scaler.
    sources, factors, means = np.arange(d), np.ones(d), np.zeros(d)
    for layer in form.layers:
        if isinstance(layer, Take):
            known = layer.columns >= 0
            sources, factors, means = (values[layer.columns] for values in (sources, factors, means))
            sources, factors = np.where(known, sources, -1), np.where(known, factors, 0.0)
        elif isinstance(layer, Scale):
            # A column that never varied is 0, before and after another scaler.
            safe = np.where(factors == 0.0, 1.0, factors)
            means, factors = means + layer.means / safe, factors * layer.factors
        else:
            raise TypeError(_REASONS[type(layer)])
    if not isinstance(form.head, Linear):
        raise TypeError("trees and networks have no linear form: their scores are not a weighted sum of the features")
    weights, at, used = np.zeros(d), np.zeros(d), factors != 0.0
    at[sources[sources >= 0]] = means[sources >= 0]
    weights[sources[used]] = (form.head.weights * factors)[used]
    constant = -float(weights @ at)
    if not (np.isfinite(weights).all() and np.isfinite(constant)):
        raise ValueError("weights on raw features are not finite; scale the features down")
    return LinearForm(weights, constant, form.names)
