"""Reads a model for a target: its closed form, and the target's names of the features."""

import unicodedata
import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from online_rank.base import serving_chain, serving_steps
from online_rank.base.closed import form_of
from online_rank.base.form import Curves, Form, InQuery, Layer, Linear, Scale, Take, Tree, Trees, first_at_least, sources_of
from online_rank.export.table import KINDS, TARGETS
from online_rank.preprocessing import RunFeatures
from online_rank.query.names import keys_in_nfc

#: The target's names of the features: all in order, or a dict from the model's names for those that differ.
Names: TypeAlias = Sequence[str] | Mapping[str, Any] | None


class Prepared(NamedTuple):
    """A model for a target.

    Attributes
    ----------
    form
        The closed form. For the kind "trees" the layers are folded into the thresholds.
    kind
        One of `KINDS`.
    texts
        The target's names of the d features.
    templates
        Queries by which the target computes features itself, by the target's name of the feature.
    """

    form: Form
    kind: str
    texts: list[str]
    templates: dict[str, Any]


def prepared(model: Any, to: str, names: Names = None, *, title: str = "") -> Prepared:
    """A model for the target `to`, or for a program called `title` that computes what `to` does.

    Raises
    ------
    TypeError
        The target cannot compute the model. The message gives the reason, and the targets that can.
    ValueError
        The model has no features yet, or `names` do not fit.
    """
    title = title or TARGETS[to].title
    if any(isinstance(step, RunFeatures) for step in serving_steps(model)):
        others = ", ".join(name for name, other in TARGETS.items() if "fusion" in other.kinds)
        reason = "RunFeatures makes features of the lists of retrievers"
        raise TypeError(f"{title} cannot compute this model: {reason}. Targets that can: {others}")
    form = form_of(model)
    kind = kind_of(form)
    if kind not in TARGETS[to].kinds:
        others = ", ".join(name for name, other in TARGETS.items() if kind in other.kinds)
        raise TypeError(f"{title} cannot compute this model: {_reason(model, kind)}. Targets that can: {others}")
    texts, templates = feature_texts(form.names, form.n_features, names)
    if any(getattr(part, "draws_candidates", False) for part in serving_chain(model)):
        warnings.warn("the blend draws one of its candidates for each query; what is exported is their mean", stacklevel=3)
    return Prepared(raw_trees(form) if kind == "trees" else form, kind, texts, templates)


def kind_of(form: Form) -> str:
    """The kind of a form, one of `KINDS`."""
    if isinstance(form.head, Linear) and all(isinstance(layer, Take | Scale) for layer in form.layers):
        return "linear"
    if isinstance(form.head, Trees) and not _splits_bent_columns(form.layers, form.n_features, form.head):
        return "trees"
    return "query" if form.is_relative else "document"


def _splits_bent_columns(layers: tuple[Layer, ...], n_features: int, head: Trees) -> bool:
    """Whether a tree splits by a column that falls somewhere in its raw feature or depends on the query."""
    bent = np.zeros(n_features, dtype=bool)
    for layer in layers:
        if isinstance(layer, Take):
            bent = bent[layer.columns] & (layer.columns >= 0)
        elif isinstance(layer, InQuery):
            bent = bent[layer.sources] | layer.relative
        elif isinstance(layer, Curves):
            falls = [curve is not None and bool((np.diff(curve[1]) < 0.0).any()) for curve in layer.knots]
            bent = bent[layer.sources] | np.array(falls, dtype=bool)
        elif isinstance(layer, Scale):
            bent = bent | (layer.factors < 0.0)
    return any(bent[tree.columns[tree.columns >= 0]].any() for tree in head.trees)


def _reason(model: Any, kind: str) -> str:
    """The reason why a target cannot compute a model of a kind."""
    if kind != "query":
        return f"it is one of {KINDS[kind]}"
    *transformers, ranker = serving_steps(model)
    names = " and ".join(type(step).__name__ for step in transformers if _needs_query(step)) or type(ranker).__name__
    return f"{names} scales by what else is in the query, and the target sees one document at a time"


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
    return Form(form.names, form.n_features, (), Trees(tuple(map(_without_infinite, trees))))


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


def _without_infinite(tree: Tree) -> Tree:
    """A tree without splits that send everything to one side, with nodes numbered from the root."""

    def place(n: int) -> int:
        while tree.columns[n] >= 0 and np.isinf(tree.thresholds[n]):
            n = int(tree.left[n] if tree.thresholds[n] > 0.0 else tree.right[n])
        return n

    order = [place(0)]
    left: list[int] = []
    right: list[int] = []
    for n in order:  # The list grows as children are found.
        for side, numbers in ((tree.left, left), (tree.right, right)):
            numbers.append(len(order) if tree.columns[n] >= 0 else 0)
            if tree.columns[n] >= 0:
                order.append(place(int(side[n])))
    return Tree(tree.columns[order], tree.thresholds[order], np.array(left), np.array(right), tree.values[order])


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
    own = [f"f{j + 1}" for j in range(n_features)] if known is None else [str(name) for name in known]
    texts, templates = list(own), {}
    if isinstance(names, Mapping):
        places = {name: j for j, name in enumerate(own)}
        if known is None:
            places |= {str(j + 1): j for j in range(n_features)}
        for name, target in keys_in_nfc(names, "names").items():
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


def require_different(names: Sequence[Hashable], texts: Sequence[str]) -> None:
    """Raise ValueError if two of the names are one text for a target, given the text of each."""
    first: dict[str, int] = {}
    for j, text in enumerate(texts):
        if (other := first.setdefault(text, j)) != j:
            both = f"{names[other]!r} and {names[j]!r}"
            raise ValueError(f"two features would be called {text!r}, {both}; give other names (argument names)")
