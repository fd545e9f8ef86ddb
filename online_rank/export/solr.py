"""Linear models and trees for Apache Solr's learning-to-rank module."""

from typing import Any

import numpy as np

from online_rank.base.form import Tree
from online_rank.export.ensembles import ZERO_FILLED, as_trees, in_single
from online_rank.export.linear import linear_form
from online_rank.export.reading import Level, Names, Prepared, prepared

_LINEAR = "org.apache.solr.ltr.model.LinearModel"
_TREES = "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
#: What Solr adds to thresholds (`RegressionTreeNode.NODE_SPLIT_SLACK`).
_SLACK = np.float32(1e-6)


def to_solr(model: Any, *, name: str = "online_rank", store: str | None = None, names: Names = None) -> dict[str, Any]:
    """A model as Solr's `LinearModel` or `MultipleAdditiveTreesModel`, to upload to `schema/model-store` as JSON.

    Solr adds up in single precision; the constant of a linear model is left out, since it changes no ranking. Curves become
    trees. Define the features in `schema/feature-store`; `solr_features` writes the definitions of features that are fields,
    and of levels of categories. Solr takes a missing field for 0, so all known values of a feature that has been missing
    must be above 0.

    Parameters
    ----------
    model
        A linear ranker, or a model of curves and trees of single documents.
    name
        Name of the model in Solr.
    store
        The feature store; None for Solr's default.
    names
        Solr's names of the d features, in order, or `{name: Solr's name}` for those that differ; None for the names that the
        model has learned, or f1, f2, ...

    Returns
    -------
    A dict for `json.dumps`.

    Raises
    ------
    TypeError, ValueError
        Solr cannot compute the model.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> model = PerceptronRanker.from_weights({"clicks": 2.0, "age": -0.5})
    >>> to_solr(model)["params"]
    {'weights': {'clicks': 2.0, 'age': -0.5}}
    """
    given = prepared(model, "solr", names)
    features: list[dict[str, Any]] = [{"name": text} for text in given.texts]
    if given.kind != "linear":
        trees = as_trees(given, zero_filled=ZERO_FILLED["solr"])
        params: dict[str, Any] = {"trees": [{"weight": "1", "root": _node(tree, 0, given)} for tree in trees]}
    else:
        params = {"weights": dict(zip(given.texts, linear_form(given.form).weights.tolist(), strict=True))}
    kind = _LINEAR if given.kind == "linear" else _TREES
    return {"class": kind, "name": name, **({} if store is None else {"store": store}), "features": features, "params": params}


def solr_features(model: Any, *, store: str | None = None, names: Names = None) -> list[dict[str, Any]]:
    """The features of a model as fields, to upload to Solr's `schema/feature-store` as JSON.

    Parameters
    ----------
    model, store, names
        As in `to_solr`. A template in `names`, a dict, replaces the field, for example
        `{"class": "org.apache.solr.ltr.feature.SolrFeature", "params": {"q": "{!dismax qf=title}${text}"}}`.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> solr_features(PerceptronRanker.from_weights({"clicks": 2.0}))
    [{'name': 'clicks', 'class': 'org.apache.solr.ltr.feature.FieldValueFeature', 'params': {'field': 'clicks'}}]
    """
    given = prepared(model, "solr", names)
    made = []
    for j, text in enumerate(given.texts):
        field = {"class": "org.apache.solr.ltr.feature.FieldValueFeature", "params": {"field": text}}
        own = given.templates.get(text) or (_level(given.levels[j]) if j in given.levels else field)
        made.append({"name": text, **own, **({} if store is None else {"store": store})})
    return made


def _level(level: Level) -> dict[str, Any]:
    """The feature that is 1 in the documents that have a level: they match a filter."""
    name = _quoted(level.field)
    query = f"{{!field f={name}}}{level.level}"
    if level.level is None:
        without = " ".join(f"must_not={_quoted(f'{{!field f={name}}}{other}')}" for other in level.others)
        query = f"{{!bool must={_quoted(f'{{!field f={name}}}*')} {without}}}"
    return {"class": "org.apache.solr.ltr.feature.SolrFeature", "params": {"fq": [query]}}


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _node(tree: Tree, n: int, given: Prepared) -> dict[str, Any]:
    """A node of a tree. Solr goes left if the value, in single precision, is <= the threshold and its slack."""
    if tree.columns[n] < 0:
        return {"value": repr(float(tree.values[n]))}
    return {
        "feature": given.texts[tree.columns[n]],
        "threshold": repr(_at_most(float(tree.thresholds[n]))),
        "left": _node(tree, int(tree.left[n]), given),
        "right": _node(tree, int(tree.right[n]), given),
    }


def _at_most(threshold: float) -> float:
    """The number to which Solr adds its slack, in single precision, so that values < the threshold go to the left."""
    largest = np.nextafter(np.float32(in_single([threshold])[0]), np.float32(-np.inf))
    given = np.float32(largest - _SLACK)
    while given + _SLACK > largest:
        given = np.nextafter(given, np.float32(-np.inf))
    while (above := np.nextafter(given, np.float32(np.inf))) + _SLACK <= largest:
        given = above
    return float(given)
