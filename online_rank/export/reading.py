"""Reads a model for a target: its closed form, and the target's names of the features."""

import unicodedata
import warnings
from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from online_rank.base import serving_chain, serving_steps
from online_rank.base.form import (
    Blend,
    Curves,
    Form,
    InQuery,
    Layer,
    Linear,
    Scale,
    Take,
    Tree,
    Trees,
    first_at_least,
    sources_of,
)
from online_rank.export.cells import reason_of_kind, require_parts
from online_rank.export.door import Opened, opened
from online_rank.export.table import KINDS, TARGETS
from online_rank.export.vector_fields import VectorField
from online_rank.preprocessing import RunFeatures
from online_rank.query.levels import is_level
from online_rank.query.names import keys_in_nfc

#: The target's names of the features: all in order, or a dict from the model's names for those that differ.
Names: TypeAlias = Sequence[str] | Mapping[str, Any] | None
#: Targets that compute features by templates.
_COMPUTES_FEATURES = ("solr", "elasticsearch", "opensearch")


class Level(NamedTuple):
    """A column that is 1 in the documents whose category has a level, and 0 in others.

    Attributes
    ----------
    field
        The target's name of the category.
    level
        The level; None for all that have no column.
    others
        The levels that have one.
    """

    field: str
    level: str | None
    others: tuple[str, ...]


class Prepared(NamedTuple):
    """A model for a target.

    Attributes
    ----------
    form
        The closed form, as `simplified` makes it.
    kind
        One of `KINDS`.
    texts
        The target's names of the d features.
    templates
        Queries by which the target computes features itself, by the target's name of the feature.
    levels
        The features that are levels of categories, by their number.
    vectors
        The vectors that columns are made of.
    context
        The features that are entries of the query's context, by their number: the name of the entry.
    n_before
        How many steps of the model make features that the target gets as fields, or from vectors.
    """

    form: Form
    kind: str
    texts: list[str]
    templates: dict[str, Any]
    levels: dict[int, Level]
    vectors: Sequence[VectorField] = ()
    context: Mapping[int, str] = MappingProxyType({})
    n_before: int = 0

    @property
    def of_vectors(self) -> frozenset[int]:
        """The features that are made of vectors."""
        return frozenset(j for field in self.vectors for j in field.columns)

    @property
    def fields(self) -> list[str]:
        """The target's names of features, each category once; vectors, and vectors of the query."""
        made = self.of_vectors
        own = [self.levels[j].field if j in self.levels else text for j, text in enumerate(self.texts) if j not in made]
        return [*dict.fromkeys(own), *self.vector_fields]

    @property
    def vector_fields(self) -> list[str]:
        """The target's names of vectors, and of the vectors of queries."""
        return [name for own in self.vectors for name in (own.field, *([own.query_field] if own.p else []))]


def prepared(model: Any, to: str, names: Names = None) -> Prepared:
    """A model for the target `to`.

    Raises
    ------
    TypeError
        The target cannot compute the model: the message gives the reason, and the targets that can. Or `names` has a template,
        and the target computes no features.
    ValueError
        The model has no features yet, or `names` do not fit.
    """
    title = TARGETS[to].title
    if any(isinstance(step, RunFeatures) for step in serving_steps(model)):
        others = ", ".join(name for name, other in TARGETS.items() if "fusion" in other.kinds)
        reason = "RunFeatures makes features of the lists of retrievers"
        raise TypeError(f"{title} cannot compute this model: {reason}. Targets that can: {others}")
    door = opened(model, names)
    form, kind = simplified(door.form)
    require_parts(to, door)
    if kind not in TARGETS[to].kinds:
        others = ", ".join(name for name, other in TARGETS.items() if kind in other.kinds)
        raise TypeError(f"{title} cannot compute this model: {_reason(model, kind)}. Targets that can: {others}")
    texts, templates = feature_texts(form.names, form.n_features, _without_vectors(names, door))
    if templates and to not in _COMPUTES_FEATURES:
        raise TypeError(f"names: {next(iter(templates))!r} has a template; {title} takes names")
    if any(getattr(part, "draws_candidates", False) for part in serving_chain(model)):
        warnings.warn("the blend draws one of its candidates for each query; what is exported is their mean", stacklevel=3)
    if beyond := sum(getattr(part, "n_levels_beyond", 0) for part in serving_chain(model)):
        warnings.warn(
            f"{beyond:,} levels without a column have a separate weight, as levels beyond max_levels; they are exported "
            "as all others without one, whose weight is 0",
            stacklevel=3,
        )
    if door.kept:
        warnings.warn(
            f"the features {', '.join(door.kept)} are kept by History: documents in {title} need them as fields, as "
            "History.transform_one gives them",
            stacklevel=3,
        )
    levels = _levels(form.names, texts, names)
    return Prepared(form, kind, texts, templates, levels, door.vectors, door.context, door.n_before)


def _without_vectors(names: Names, door: Opened) -> Names:
    """The target's names of features, without the names of vectors."""
    if not isinstance(names, Mapping):
        return names
    own = {field.name for field in door.vectors}
    return {name: target for name, target in names.items() if name not in own}


def simplified(form: Form) -> tuple[Form, str]:
    """An equal form that is easier to compute, and its kind, one of `KINDS`.

    Trees are on raw features; weights are in the curves; a blend of trees is trees, and a blend is behind no layers.
    """
    if isinstance(form.head, Blend):
        return _simplified_blend(form, form.head)
    kind = "query" if form.is_relative else "document"
    if isinstance(form.head, Trees):
        bent = _splits_bent_columns(form.layers, form.n_features, form.head)
        return (form, kind) if bent else (raw_trees(form), "trees")
    if isinstance(form.head, Linear) and all(isinstance(layer, Take | Scale) for layer in form.layers):
        return form, "linear"
    if isinstance(form.head, Linear) and isinstance(form.layers[-1], Curves):
        layers = _with_weights(form.layers, form.layers[-1], form.head.weights, form.n_features)
        made = form._replace(layers=layers, head=Linear(np.ones(len(form.head.weights))))
        return made, "curves" if len(layers) == 1 else kind
    return form, kind


def _with_weights(layers: tuple[Layer, ...], curves: Curves, weights: np.ndarray, n_features: int) -> tuple[Layer, ...]:
    """Layers that end in these curves, times weights; without those before that only put features in another order."""
    knots = tuple((xs, weight * ys) for (xs, ys), weight in zip(curves.knots, weights.tolist(), strict=True))
    curves = curves._replace(knots=knots, missing=None if curves.missing is None else curves.missing * weights)
    before = layers[:-1]
    sources = sources_of(before, n_features)
    if all(isinstance(layer, Take) for layer in before) and (sources >= 0).all():
        return (curves._replace(sources=sources[curves.sources]),)
    return (*before, curves)


def _simplified_blend(form: Form, head: Blend) -> tuple[Form, str]:
    made = [simplified(inner._replace(layers=(*form.layers, *inner.layers))) for inner in head.forms]
    forms, kinds = [inner for inner, _ in made], {kind for _, kind in made}
    if kinds == {"trees"}:
        trees = [_weighted(inner.head, weight) for inner, weight in zip(forms, head.weights.tolist(), strict=True)]
        whole = Trees(tuple(tree for own in trees for tree in own.trees), any(own.takes_missing for own in trees))
        return Form(form.names, form.n_features, (), whole), "trees"
    whole_form = Form(form.names, form.n_features, (), Blend(tuple(forms), head.weights))
    if kinds == {"linear"}:
        return whole_form, "linear"
    return whole_form, "query" if form.is_relative else "curves" if kinds <= {"curves", "trees"} else "document"


def _weighted(head: Any, weight: float) -> Trees:
    """Trees with leaves times a weight."""
    return Trees(tuple(tree._replace(values=weight * tree.values) for tree in head.trees), head.takes_missing)


def _splits_bent_columns(layers: tuple[Layer, ...], n_features: int, head: Trees) -> bool:
    """Whether a tree splits by a column that does not rise with its raw feature, from missing values on, or is relative."""
    bent = np.zeros(n_features, dtype=bool)
    for layer in layers:
        if isinstance(layer, Take):
            bent = bent[layer.columns] & (layer.columns >= 0)
        elif isinstance(layer, InQuery):
            bent = bent[layer.sources] | layer.relative
        elif isinstance(layer, Curves):
            falls = [bool((np.diff(ys) < 0.0).any()) for _, ys in layer.knots]
            if layer.missing is not None:
                falls = [own or low > ys[0] for own, low, (_, ys) in zip(falls, layer.missing, layer.knots, strict=True)]
            bent = bent[layer.sources] | np.array(falls, dtype=bool)
        elif isinstance(layer, Scale):
            bent = bent | (layer.factors < 0.0)
    return any(bent[tree.columns[tree.columns >= 0]].any() for tree in head.trees)


def _reason(model: Any, kind: str) -> str:
    """The reason why a target cannot compute a model of a kind."""
    if kind != "query":
        return f"it is one of {KINDS[kind]}, and {reason_of_kind(kind)}"
    *transformers, ranker = serving_steps(model)
    names = [type(step).__name__ for step in transformers if _needs_query(step)]
    if not names and getattr(ranker, "relative", False):
        return (
            f"{type(ranker).__name__} scores documents relative to their query, and the target sees one document at a time; "
            "relative=False does not (in the shell: train --for)"
        )
    steps = " and ".join(names) or type(ranker).__name__
    return f"{steps} scales by what else is in the query, and the target sees one document at a time"


def _needs_query(step: Any) -> bool:
    return any(isinstance(layer, InQuery) for layer in step._layers(getattr(step, "n_features", 0) or 1))


def raw_trees(form: Form) -> Form:
    """Rewrite trees on columns that are non-decreasing functions of one raw feature each as trees on raw features."""
    if not isinstance(form.head, Trees):
        raise TypeError(f"form ends in {type(form.head).__name__}; it ends in trees")
    sources = sources_of(form.layers, form.n_features)
    by_column = [
        np.unique(np.concatenate([[], *(t.thresholds[t.columns == j] for t in form.head.trees)])) for j in range(len(sources))
    ]
    moved: list[np.ndarray] = []
    for j, targets in enumerate(by_column):
        moved.append(_moved(form, int(sources[j]), j, targets) if len(targets) else targets)
    trees = []
    for tree in form.head.trees:
        inner = tree.columns >= 0
        thresholds = tree.thresholds.copy()
        for n in np.flatnonzero(inner).tolist():
            j = tree.columns[n]
            thresholds[n] = moved[j][np.searchsorted(by_column[j], tree.thresholds[n])]
        trees.append(tree._replace(columns=np.where(inner, sources[tree.columns], -1), thresholds=thresholds))
    return Form(form.names, form.n_features, (), Trees(tuple(map(in_levels, trees)), form.takes_missing))


def _moved(form: Form, source: int, column: int, targets: np.ndarray) -> np.ndarray:
    """The smallest raw values of a feature at which a column reaches targets."""

    def made(x: np.ndarray) -> np.ndarray:
        X = np.zeros((len(x), form.n_features))
        if source >= 0:
            X[:, source] = x
        for layer in form.layers:
            X = X[:, layer.sources] if isinstance(layer, InQuery) else layer(X)
        return X[:, column]

    return first_at_least(made, targets)


def in_levels(tree: Tree) -> Tree:
    """A tree without splits that send everything to one side, numbered level by level: a second child follows the first."""

    def place(n: int) -> int:
        while tree.columns[n] >= 0 and np.isinf(tree.thresholds[n]):
            n = int(tree.left[n] if tree.thresholds[n] > 0.0 else tree.right[n])
        return n

    order = [place(0)]
    left: list[int] = []
    right: list[int] = []
    for n in order:  # The list grows as children are found.
        inner = tree.columns[n] >= 0
        left.append(len(order) if inner else 0)
        right.append(len(order) + 1 if inner else 0)
        order += [place(int(tree.left[n])), place(int(tree.right[n]))] if inner else []
    return Tree(tree.columns[order], tree.thresholds[order], np.array(left), np.array(right), tree.values[order])


def depth_of(tree: Tree) -> int:
    """The most splits on a way through a tree that is numbered level by level."""
    depths = np.zeros(len(tree.columns), dtype=np.int64)
    for n in np.flatnonzero(tree.columns >= 0).tolist():
        depths[tree.left[n]] = depths[tree.right[n]] = depths[n] + 1
    return int(depths.max())


def feature_texts(known: Sequence[Hashable] | None, n_features: int, names: Names = None) -> tuple[list[str], dict[str, Any]]:
    """The target's names of the d features, and templates for those that it computes itself.

    Parameters
    ----------
    known
        The names that the model has learned; None for features known by their position, which are called "f1", "f2", ..., as
        text files number them.
    n_features
        d.
    names
        The target's names of all features, in order; or `{name: target's name}` for those that differ. In place of a name a
        mapping may have a template: a dict that is a query of the target.

    Raises
    ------
    TypeError, ValueError
        `names` has another length or names an unknown feature, or two features would have the same name.
    """
    own = [f"f{j + 1}" for j in range(n_features)] if known is None else [_text(name) for name in known]
    texts, templates = list(own), {}
    if isinstance(names, Mapping):
        places = {name: j for j, name in enumerate(own)}
        if known is None:
            places |= {str(j + 1): j for j in range(n_features)}
        for name, target in keys_in_nfc(names, "names").items():
            levels = [j for j, whole in enumerate(known or ()) if is_level(whole) and _parts(whole)[0] == name]
            if levels and isinstance(target, str):
                for j in levels:
                    texts[j] = target + own[j].removeprefix(str(name))
                continue
            if levels:
                raise TypeError(
                    f"names[{name!r}] is a category: give a name, or templates of its levels, {own[levels[0]]!r}, ..."
                )
            if name not in places:
                shown = ", ".join(own[:10]) + (", ..." if n_features > 10 else "")
                raise ValueError(f"names: the model has no feature {name!r}; there are {shown}")
            if isinstance(target, Mapping):
                templates[own[places[name]]] = dict(target)
            elif isinstance(target, str):
                texts[places[name]] = target
            else:
                raise TypeError(f"names[{name!r}] is of type {type(target).__name__}; it is a name, or a template (a dict)")
    elif names is not None:
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise TypeError("names is a sequence of one text for each feature, or {name: target's name}")
        if len(names) != n_features:
            raise ValueError(f"names has {len(names)} names, but the model has {n_features} features")
        texts = list(names)
    require_different(own if known is None else known, [unicodedata.normalize("NFC", text) for text in texts])
    return texts, templates


def _text(name: Hashable) -> str:
    """The text of a name: "brand=acme" for a level, and "brand=*" for all levels that have no column."""
    if not is_level(name):
        return str(name)
    field, level = _parts(name)
    return f"{field}={'*' if level is None else level}"


def _parts(name: Any) -> tuple[Hashable, str | None]:
    """The category of a level, and its text."""
    return name[0], name[2]


def _levels(known: Sequence[Hashable] | None, texts: Sequence[str], names: Names) -> dict[int, Level]:
    """The features that are levels, with the target's names of their categories."""
    found: dict[int, Level] = {}
    columns = [(j, *_parts(name)) for j, name in enumerate(known or ()) if is_level(name)]
    for j, field, level in columns:
        others = tuple(other for _, own, other in columns if own == field and other is not None)
        renamed = names.get(str(field)) if isinstance(names, Mapping) else None
        found[j] = Level(renamed if isinstance(renamed, str) else str(field), level, others)
    return found


def require_different(names: Sequence[Hashable], texts: Sequence[str]) -> None:
    """Raise ValueError if two of the names are one text for a target, given the text of each."""
    first: dict[str, int] = {}
    for j, text in enumerate(texts):
        if (other := first.setdefault(text, j)) != j:
            both = f"{names[other]!r} and {names[j]!r}"
            raise ValueError(f"two features would be called {text!r}, {both}; give other names (argument names)")
