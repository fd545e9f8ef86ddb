"""Linear models and trees for the learning-to-rank plugins of Elasticsearch and OpenSearch."""

import json
from typing import Any

from online_rank.base.form import Scale, Tree
from online_rank.export.ensembles import ZERO_FILLED, as_trees, in_single, lowest_values
from online_rank.export.linear import linear_form
from online_rank.export.reading import Level, Names, Prepared, prepared


def to_elasticsearch(model: Any, *, name: str = "online_rank", names: Names = None) -> dict[str, Any]:
    """A model for the LTR plugin of Elasticsearch and OpenSearch, with its feature set if you give templates.

    Weights and splits name their features: the feature set must have features of these names, in any order. The plugin must
    compute the same feature values that the model has learned from: the value of a field, or the score of a query. Templates in
    `names` are written as a feature set too, with a template for each level of a category. Curves become trees. The plugin
    takes a missing feature for 0, so all known values of a feature that has been missing must be above 0.

    Parameters
    ----------
    model
        A linear ranker, or a model of curves and trees of single documents.
    name
        Name of the feature set and of the model.
    names
        The plugin's names of the d features, in order, or `{name: plugin's name}` for those that differ. A dict in place of a
        name is the feature's query, as in `{"bm25": {"match": {"title": "{{text}}"}}}`; its parameters in `{{}}` are declared.

    Returns
    -------
    A dict from requests to their bodies: always `POST _ltr/_featureset/NAME/_createmodel`, and with templates for all features
    also `POST _ltr/_featureset/NAME`.

    Raises
    ------
    TypeError, ValueError
        The plugin cannot compute the model, only some features have templates, or a feature without a template has been
        negative, which the plugin refuses.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> ranker = PerceptronRanker.from_weights({"clicks": 2.0, "age": -0.5})
    >>> for request, body in to_elasticsearch(ranker, name="shop").items():
    ...     print(request, body["model"]["model"])
    POST _ltr/_featureset/shop/_createmodel {'type': 'model/linear', 'definition': '{"clicks": 2.0, "age": -0.5}'}
    """
    given = prepared(model, "elasticsearch", names)
    _require_no_negative(given)
    if given.kind != "linear":
        kind = "model/xgboost+json"
        definition: Any = [_node(tree, 0, 0, given) for tree in as_trees(given, zero_filled=ZERO_FILLED["elasticsearch"])]
    else:
        weights = linear_form(given.form).weights.tolist()
        kind = "model/linear"
        definition = dict(zip(given.texts, weights, strict=True))
    body = {"model": {"name": name, "model": {"type": kind, "definition": json.dumps(definition, ensure_ascii=False)}}}
    return {**_feature_set(given, name), f"POST _ltr/_featureset/{name}/_createmodel": body}


def _feature_set(given: Prepared, name: str) -> dict[str, Any]:
    """The request that creates the feature set, if all features have templates."""
    if not given.templates:
        return {}
    templates = {given.texts[j]: _level(level) for j, level in given.levels.items()} | given.templates
    if without := [text for text in given.texts if text not in templates]:
        raise ValueError(f"names has templates for {len(given.templates)} features, but none for {', '.join(without[:10])}")
    features = [
        {"name": text, "params": _parameters(templates[text]), "template_language": "mustache", "template": templates[text]}
        for text in given.texts
    ]
    return {f"POST _ltr/_featureset/{name}": {"featureset": {"name": name, "features": features}}}


def _level(level: Level) -> dict[str, Any]:
    """The query that gives 1 to the documents that have a level, and 0 to others.

    It matches all: versions of OpenSearch's plugin send what does not match to the second side of each split.
    """
    wanted: dict[str, Any] = {"term": {level.field: level.level}}
    if level.level is None:
        wanted = {"bool": {"must": {"exists": {"field": level.field}}, "must_not": {"terms": {level.field: [*level.others]}}}}
    has = {"constant_score": {"filter": wanted, "boost": 1.0}}
    return {"bool": {"must": {"constant_score": {"filter": {"match_all": {}}, "boost": 0.0}}, "should": has}}


def _parameters(template: Any) -> list[str]:
    """The parameters {{name}} in the strings of a template, in order of first appearance."""
    parts = json.dumps(template, ensure_ascii=False).split("{{")[1:]
    return list(dict.fromkeys(part.partition("}}")[0].strip("{#^/ ") for part in parts))


def _require_no_negative(given: Prepared) -> None:
    """Raise ValueError for a feature that has been negative, as far as the statistics of a scaler show."""
    lowest = lowest_values(given.form)
    for layer in given.form.layers[:1]:
        if isinstance(layer, Scale):
            lowest = dict(enumerate(layer.means.tolist()))
    for j, low in lowest.items():
        if low < 0.0 and j not in given.levels and given.texts[j] not in given.templates:
            raise ValueError(
                f"feature {given.texts[j]!r} has been negative, about {low:.3g}, and the plugin refuses negative values: learn "
                "from it with a constant added, or give a template that adds one (names, --map-feature)"
            )


def _node(tree: Tree, n: int, depth: int, given: Prepared) -> dict[str, Any]:
    """A node of a tree in XGBoost's dump format: a value < the condition goes to "yes"; a missing one is treated as 0."""
    if tree.columns[n] < 0:
        return {"nodeid": n, "leaf": float(tree.values[n])}
    yes, no, threshold = int(tree.left[n]), int(tree.right[n]), float(in_single(tree.thresholds[n : n + 1])[0])
    return {
        "nodeid": n,
        "depth": depth,
        "split": given.texts[tree.columns[n]],
        "split_condition": threshold,
        "yes": yes,
        "no": no,
        "missing": yes if threshold > 0.0 else no,
        "children": [_node(tree, yes, depth + 1, given), _node(tree, no, depth + 1, given)],
    }
