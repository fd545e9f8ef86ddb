"""What stands before the closed form of a model: vectors, products with the context, and histories.

Their columns become raw features of the form. An engine gets them as fields of documents, as products of vectors, or as
parameters of the query.
"""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank.base import serving_steps
from online_rank.base.closed import form_of, form_of_steps
from online_rank.base.form import Crossed, Form, InQuery, Layer, Scale, Take
from online_rank.export.vector_fields import VectorField, form_of_vectors, vector_fields
from online_rank.preprocessing import CrossFeatures, History, VectorFeatures
from online_rank.query.levels import is_level
from online_rank.rankers.vectors import VectorRanker


class Opened(NamedTuple):
    """A model as a form, and where its raw features come from.

    Attributes
    ----------
    form
        The closed form of what is behind the door.
    vectors
        The vectors that columns are made of.
    context
        The raw features that are entries of the query's context, by their number: the name of the entry.
    kept
        The features that a `History` keeps, which documents must have as fields.
    n_before
        How many steps of the model are before the form.
    """

    form: Form
    vectors: list[VectorField]
    context: dict[int, str]
    kept: list[str]
    n_before: int


def opened(model: Any, names: Any = None) -> Opened:
    """A model as a form behind its door; `names` are the target's names. Raises TypeError and ValueError as `form_of`."""
    *transformers, ranker = serving_steps(model)
    n = 0
    while n < len(transformers) and isinstance(transformers[n], History | VectorFeatures):
        n += 1
    kept = [name for step in transformers[:n] if isinstance(step, History) for name in step.columns]
    context: dict[int, str] = {}
    if isinstance(ranker, VectorRanker) and n == len(transformers):
        form = form_of_vectors(ranker)
    elif crossing := [k for k, step in enumerate(transformers) if isinstance(step, CrossFeatures)]:
        form, context = _crossed(
            transformers[n : crossing[0]], transformers[crossing[0]], transformers[crossing[0] + 1 :], ranker
        )
    else:
        form = form_of(model) if not n else form_of_steps(transformers[n:], ranker)
    return Opened(form, vector_fields(model, form, names), context, [*dict.fromkeys(kept)], n)


def _crossed(before: Sequence[Any], step: CrossFeatures, behind: Sequence[Any], ranker: Any) -> tuple[Form, dict[int, str]]:
    """The form of a model that crosses features with the context, whose entries become raw features behind the others."""
    inner = form_of_steps(behind, ranker)
    if inner.names is None:
        raise TypeError(f"{type(step).__name__} has no closed form: the columns behind it have no names")
    parts = [_product_of(step, name, {*inner.names}) for name in inner.names]
    front = _front_of(before, [name for name, key in parts if key is None])
    own = {name: j for j, name in enumerate(front.made)}
    entries: dict[Any, int] = {}
    for _, key in parts:
        if key is not None:
            entries.setdefault(key, len(front.raw) + len(entries))
    at = {key: len(own) + place - len(front.raw) for key, place in entries.items()}
    is_level_of = np.array([is_level(name) for name in inner.names], dtype=bool)
    factors = np.array([-1 if key is None else at[key] for _, key in parts], dtype=np.int64)
    of_category = np.array([key is not None and is_level(key) for _, key in parts], dtype=bool)
    layer = Crossed(
        np.array([own[name] for name, _ in parts], dtype=np.int64), factors, of_category & ~is_level_of & inner.takes_missing
    )
    widened = tuple(_widened(each, len(entries)) for each in front.layers)
    names = (*front.raw, *entries)
    form = Form(names, len(names), (*widened, layer, *inner.layers), inner.head)
    return form, {place: key[0] if is_level(key) else key for key, place in entries.items()}


class _Front(NamedTuple):
    """The steps before features are crossed: their raw features, their layers, and the columns that they make."""

    raw: list[Hashable]
    layers: tuple[Layer, ...]
    made: list[Hashable]


def _front_of(before: Sequence[Any], names: list[Hashable]) -> _Front:
    if not before:
        return _Front(names, (), names)
    form = form_of_steps(before, _Nothing())
    known = form.names
    if known is None:
        raise TypeError(f"{type(before[0]).__name__} has learned arrays without names, before CrossFeatures")
    # Steps that learned the same features in another order have a layer that is refused.
    return _Front([*known], form.layers, [*known])


class _Nothing:
    """A ranker that scores nothing: transformers alone have a form."""

    n_features = 0
    feature_names = None

    def _head(self) -> Any:
        return None


def _widened(layer: Layer, n: int) -> Layer:
    """A layer that passes on n further columns."""
    if isinstance(layer, Take):
        raise TypeError("columns before CrossFeatures are in another order; let the steps learn the same features")
    if isinstance(layer, Scale):
        return Scale(np.append(layer.means, np.zeros(n)), np.append(layer.factors, np.ones(n)))
    if not isinstance(layer, InQuery):
        raise TypeError(f"{type(layer).__name__.lower()} of features before CrossFeatures are not exported: put scalers there")
    d = int(layer.sources.max(initial=-1)) + 1
    centred = None if layer.centred is None else np.append(layer.centred, np.ones(n, dtype=bool))
    sources, relative = np.append(layer.sources, np.arange(d, d + n)), np.append(layer.relative, np.zeros(n, dtype=bool))
    return layer._replace(sources=sources, relative=relative, centred=centred)


def _product_of(step: CrossFeatures, name: Hashable, names: set[Hashable]) -> tuple[Hashable, Any]:
    """The feature and the entry of the context whose product has this name; the entry is None for a feature itself.

    An entry is the name of a number, or a level (key, "is", value) of a category.
    """
    text = str(name[0] if is_level(name) else name)  # type: ignore[index]
    for key in step.keys:
        entry: Any = key
        base = text.removesuffix(f"*{key}")
        if key in step.categories:
            base, found, value = text.rpartition(f"*{key}=")
            base, entry = (base, (key, "is", value)) if found else (text, key)
        if base == text:
            continue
        own = (base, *name[1:]) if is_level(name) else base  # type: ignore[index]
        if own not in names or (is_level(name) and name[2] is None):  # type: ignore[index]
            raise TypeError(
                f"CrossFeatures has no closed form here: {text!r} is crossed of a level that has no column; raise max_levels"
            )
        return own, entry
    return name, None
