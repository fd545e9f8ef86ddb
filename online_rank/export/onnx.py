"""Models as ONNX graphs, from raw features to scores (extra `onnx`)."""

import functools
import json
from typing import Any, NamedTuple

import numpy as np

from online_rank.base.form import Blend, Crossed, Curves, Form, InQuery, Linear, Network, Scale, Take, Tree, Trees, sources_of
from online_rank.export.onnx_curves import cells_of, curves_on, lines_of, on_lines
from online_rank.export.onnx_graph import DOUBLE, Graph
from online_rank.export.onnx_ranks import curves_of_ranks, rank_scores
from online_rank.export.onnx_trees import is_by_tables, thresholds_of, trees_on
from online_rank.export.reading import Names, Prepared, prepared
from online_rank.support.lazy import needs

#: Version of the operator set; the newest that all runtimes of recent years support.
_OPSET = 17
_IR_VERSION = 8
#: Version of the operator set for trees.
_ML, _ML_OPSET = "ai.onnx.ml", 3


def to_onnx(model: Any, *, name: str = "online_rank", names: Names = None) -> Any:
    """A model, including its transformers, as an ONNX model.

    Parameters
    ----------
    model
        Any model with a closed form.
    name
        Name of the graph.
    names
        Names of the d features for the model's metadata, in order, or `{name: other name}` for those that differ;
        None for the names that the model has learned, or f1, f2, ...

    Returns
    -------
    An `onnx.ModelProto` with the input `features`, float64 (n, d), and the output `scores`, float64 (n,). The JSON list
    `features` of the metadata gives the order of the features. If scores depend on the other documents of the query, the n
    documents must be all documents of one query, and the metadata `documents` is "of one query"; if not, it is "any".
    A vector is an input of its name, float64 (n, k), NaN for documents that lack it; the vector of the query is the input
    "query NAME", (p,), NaN without one. Entries of a context are columns, the same for all documents of a query.
    Networks are computed in float64, even if they learned in float32. Trees deeper than 4, or few, are summed in float32.

    Raises
    ------
    ImportError
        The package onnx is missing.
    TypeError
        A step has no closed form; the message names it.
    ValueError
        The model has no features yet.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> made = to_onnx(PerceptronRanker.from_weights({"clicks": 2.0, "age": -0.5}))
    >>> [node.op_type for node in made.graph.node]
    ['MatMul', 'Squeeze']
    """
    helper, numpy_helper, checker = _onnx()
    given = prepared(model, "onnx", names)
    form, texts = given.form, given.texts
    graph = Graph(helper, numpy_helper)
    _sum(graph, _with_vectors(graph, given), _terms(form), form.n_features)
    graph.nodes[-1].output[0] = "scores"
    opsets = [helper.make_opsetid("", _OPSET), *([helper.make_opsetid(_ML, _ML_OPSET)] if graph.has_trees else [])]
    made = helper.make_model(
        helper.make_graph(
            graph.nodes,
            name,
            [helper.make_tensor_value_info(name, DOUBLE, shape) for name, shape in _inputs(given).items()],
            [helper.make_tensor_value_info("scores", DOUBLE, ["n"])],
            graph.constants,
            doc_string=f"{type(form.head).__name__} of {len(form.layers)} layers, by online_rank",
        ),
        producer_name="online_rank",
        opset_imports=opsets,
        ir_version=_IR_VERSION,
    )
    documents = "of one query" if form.is_relative else "any"
    own = [text for j, text in enumerate(texts) if j not in given.of_vectors]
    helper.set_model_props(made, {"features": json.dumps(own, ensure_ascii=False), "documents": documents})
    checker.check_model(made, full_check=True)
    return made


def to_onnx_bytes(model: Any, *, name: str = "online_rank", names: Names = None) -> bytes:
    """The content of an ONNX file: see `to_onnx`."""
    return to_onnx(model, name=name, names=names).SerializeToString()


def _onnx() -> tuple[Any, Any, Any]:
    with needs("export to ONNX", "onnx"):
        from onnx import checker, helper, numpy_helper
    return helper, numpy_helper, checker


class Term(NamedTuple):
    """What is added to scores: a weight, layers and a head that is no blend."""

    weight: float
    layers: tuple[Any, ...]
    head: Any


def _terms(form: Form, weight: float = 1.0, before: tuple[Any, ...] = ()) -> list[Term]:
    """The terms of a form. Curves of values are apart from curves of their ranks."""
    layers, head = (*before, *form.layers), form.head
    if isinstance(head, Blend):
        parts = zip(head.forms, (weight * head.weights).tolist(), strict=True)
        return [term for inner, own in parts for term in _terms(inner, own, layers)]
    if len(layers) == 2 and isinstance(head, Linear) and _is_of_ranks(*layers):
        return _apart(weight, *layers, head.weights)
    return [Term(weight, layers, head)]


def _is_of_ranks(first: Any, second: Any) -> bool:
    return isinstance(first, InQuery) and first.how == "ranks" and isinstance(second, Curves)


def _apart(weight: float, ranks: InQuery, curves: Curves, weights: np.ndarray) -> list[Term]:
    made, relative = [], ranks.relative[curves.sources]
    sources = ranks.sources[curves.sources]
    for side in (False, True):
        own = np.flatnonzero(relative == side)
        if not len(own):
            continue
        missing = None if curves.missing is None else curves.missing[own]
        columns = np.arange(len(own)) if side else sources[own]
        part = Curves(columns, tuple(curves.knots[c] for c in own), missing)
        layers = (InQuery(sources[own], np.ones(len(own), dtype=bool), "ranks"), part) if side else (part,)
        made.append(Term(weight, layers, Linear(weights[own])))
    return made


def _sum(graph: Graph, X: str, terms: list[Term], width: int) -> str:
    """The scores on the columns X: the curves and trees of raw features share the cells of values."""
    curves, trees, others = _parted(terms, width)
    scores = _on_cells(graph, X, curves, trees, width) if curves or trees else []
    for term in others:
        made = _term(graph, X, term, width)
        scores.append(made if term.weight == 1.0 else graph.add("Mul", made, term.weight))
    return functools.reduce(lambda total, own: graph.add("Add", total, own), scores)


def _parted(terms: list[Term], width: int) -> tuple[list[Term], list[Term], list[Term]]:
    """Terms of curves of raw features alone, of trees that tables can hold, and others."""
    curves: list[Term] = []
    trees: list[Term] = []
    others: list[Term] = []
    for term in terms:
        (curves if _has_curves_alone(term) else trees if _has_trees_alone(term, width) else others).append(term)
    return curves, trees, others


def _has_curves_alone(term: Term) -> bool:
    return len(term.layers) == 1 and isinstance(term.layers[0], Curves) and isinstance(term.head, Linear)


def _has_trees_alone(term: Term, width: int) -> bool:
    return not term.layers and isinstance(term.head, Trees) and is_by_tables(term.head.trees, width)


def _on_cells(graph: Graph, X: str, curves: list[Term], trees: list[Term], width: int) -> list[str]:
    """The scores of curves and of trees of raw features."""
    points: list[list[np.ndarray]] = [[] for _ in range(width)]
    for term in curves:
        for j, (xs, _) in zip(term.layers[0].sources.tolist(), term.layers[0].knots, strict=True):
            points[j].append(xs)
    grown = [tree._replace(values=term.weight * tree.values) for term in trees for tree in term.head.trees]
    for own, limits in zip(points, thresholds_of(grown, width) if grown else [np.empty(0)] * width, strict=True):
        own.append(limits)
    cells = cells_of(graph, X, [np.concatenate(own) for own in points])
    scores = []
    if curves:
        tables = [lines_of(cells, term.layers[0].sources, term.layers[0], term.weight * term.head.weights) for term in curves]
        levels, slopes = (np.sum(parts, axis=0) for parts in zip(*tables, strict=True))
        lines = on_lines(graph, cells, levels, slopes)
        scores.append(graph.add("MatMul", np.ones(width), lines))
    if grown:
        scores.append(trees_on(graph, cells, grown))
    return scores


def _term(graph: Graph, X: str, term: Term, width: int) -> str:
    """The scores of a term, without its weight."""
    if len(term.layers) == 2 and isinstance(term.head, Linear) and _is_of_ranks(*term.layers):
        ranks, curves = term.layers
        if all(np.array_equal(xs, curves.knots[0][0]) for xs, _ in curves.knots):
            return curves_of_ranks(graph, _columns(graph, X, ranks.sources, width), curves, term.head.weights)
    for layer in term.layers:
        X = _LAYERS[type(layer)](graph, X, layer, width)
        width = len(sources_of((layer,), width))
    made: str = _HEADS[type(term.head)](graph, X, term.head)
    return made


def _inputs(given: Prepared) -> dict[str, list[Any]]:
    """The shape of each input of a graph."""
    n_plain = len(given.texts) - len(given.of_vectors)
    made: dict[str, list[Any]] = {"features": ["n", n_plain]} if n_plain else {}
    for own in given.vectors:
        made[own.field] = ["n", own.k]
        if own.p:
            made[own.query_field] = [own.p]
    return made


def _with_vectors(graph: Graph, given: Prepared) -> str:
    """The columns of the features, with those that are made of vectors at their places."""
    if not given.vectors:
        return "features"
    made, columns = [], [j for j in range(len(given.texts)) if j not in given.of_vectors]
    parts = ["features"] if columns else []
    for own in given.vectors:
        D = graph.add("Div", own.field, graph.add("ReduceL2", own.field, axes=[1], keepdims=1))
        has_query = ""
        if own.p:
            unit = graph.add("Div", own.query_field, graph.add("ReduceL2", own.query_field, axes=[0], keepdims=1))
            has_query = graph.add("Not", graph.add("IsNaN", graph.add("Gather", unit, np.array([0]), axis=0)))
        for j, column in own.columns.items():
            t = graph.add("MatMul", unit, column.matrix) if column.of_query else graph.constant(column.matrix[0])
            product = graph.add("Unsqueeze", graph.add("MatMul", D, t), np.array([1]))
            made.append(graph.add("Where", has_query, np.nan, product) if has_query and column.alone else product)
            columns.append(j)
    joined = graph.add("Concat", *parts, *made, axis=1)
    joined = _columns(graph, joined, np.argsort(columns), len(columns))
    if given.form.takes_missing:
        return joined
    return graph.add("Where", graph.add("IsNaN", joined), 0.0, joined)


def _crossed(graph: Graph, X: str, layer: Crossed, width: int) -> str:
    """Products with columns that are the same for a whole query."""
    factors = graph.add("Concat", X, graph.add("Add", graph.add("Mul", _first(graph, X), 0.0), 1.0), axis=1)
    chosen = graph.add("Gather", factors, np.where(layer.factors >= 0, layer.factors, width), axis=1)
    product = graph.add("Mul", _columns(graph, X, layer.sources, width), chosen)
    if not layer.only.any():
        return product
    gone = graph.add("And", layer.only[None], graph.add("Equal", chosen, 0.0))
    return graph.add("Where", gone, np.nan, product)


def _first(graph: Graph, X: str) -> str:
    """The first column, without missing values."""
    x = graph.add("Gather", X, np.array([0]), axis=1)
    return graph.add("Where", graph.add("IsNaN", x), 0.0, x)


def _columns(graph: Graph, X: str, columns: np.ndarray, width: int) -> str:
    """Some columns of X, which has `width` of them."""
    columns = np.asarray(columns, dtype=np.int64)
    return X if np.array_equal(columns, np.arange(width)) else graph.add("Gather", X, columns, axis=1)


def _take(graph: Graph, X: str, layer: Take, width: int) -> str:
    taken = _columns(graph, X, np.maximum(layer.columns, 0), width)
    return graph.add("Mul", taken, (layer.columns >= 0).astype(float)) if (layer.columns < 0).any() else taken


def _linear(graph: Graph, X: str, head: Linear) -> str:
    return _times(graph, X, head.weights)


def _times(graph: Graph, X: str, w: np.ndarray) -> str:
    """X w, as a product with a one-column matrix: onnxruntime refuses the product of an empty matrix with a vector."""
    return graph.add("Squeeze", graph.add("MatMul", X, w[:, None].astype(np.float64)), np.array([1]))


def _scale(graph: Graph, X: str, layer: Scale, width: int) -> str:
    centred = graph.add("Sub", X, layer.means) if layer.means.any() else X
    return graph.add("Mul", centred, layer.factors)


def _curves(graph: Graph, X: str, layer: Curves, width: int) -> str:
    return curves_on(graph, _columns(graph, X, layer.sources, width), layer)


def _in_query(graph: Graph, X: str, layer: InQuery, width: int) -> str:
    if layer.how == "ranks":
        own, ranked = (_columns(graph, X, layer.sources[layer.relative == side], width) for side in (False, True))
        order = np.argsort(np.argsort(layer.relative, kind="stable"), kind="stable")
        return _columns(graph, graph.add("Concat", own, rank_scores(graph, ranked), axis=1), order, len(order))
    X = _columns(graph, X, layer.sources, width)
    relative = _RELATIVE[layer.how](graph, X, layer.soft)
    if layer.centred is not None and not layer.centred.all():
        # Without centring the subtracted mean is added again, divided by the deviation.
        mean, deviation = _moments(graph, X)
        shift = _unless_constant(graph, X, graph.add("Div", mean, graph.add("Add", deviation, layer.soft)))
        relative = graph.add("Add", relative, graph.add("Mul", shift, (~layer.centred).astype(float)))
    return relative if layer.relative.all() else graph.add("Where", layer.relative[None], relative, X)


def _moments(graph: Graph, X: str) -> tuple[str, str]:
    """Mean and deviation of each column."""
    mean = graph.add("ReduceMean", X, axes=[0], keepdims=1)
    centred = graph.add("Sub", X, mean)
    square = graph.add("ReduceMean", graph.add("Mul", centred, centred), axes=[0], keepdims=1)
    return mean, graph.add("Sqrt", square)


def _standard(graph: Graph, X: str, soft: float) -> str:
    mean, deviation = _moments(graph, X)
    return _unless_constant(graph, X, graph.add("Div", graph.add("Sub", X, mean), graph.add("Add", deviation, soft)))


def _minmax(graph: Graph, X: str, soft: float) -> str:
    low, high = (graph.add(kind, X, axes=[0], keepdims=1) for kind in ("ReduceMin", "ReduceMax"))
    return _unless_constant(graph, X, graph.add("Div", graph.add("Sub", X, low), graph.add("Sub", high, low)))


def _unless_constant(graph: Graph, X: str, made: str) -> str:
    low, high = (graph.add(kind, X, axes=[0], keepdims=1) for kind in ("ReduceMin", "ReduceMax"))
    return graph.add("Where", graph.add("Less", low, high), made, 0.0)


_RELATIVE = {"standard": _standard, "minmax": _minmax}


def _network(graph: Graph, X: str, head: Network) -> str:
    value, activation = X, {"tanh": "Tanh", "relu": "Relu"}[head.activation]
    for weights, biases in head.layers:
        value = graph.add(activation, graph.add("Add", graph.add("MatMul", value, weights), biases))
    return _times(graph, value, head.output)


def _trees(graph: Graph, X: str, head: Trees) -> str:
    """The sum of trees, by the operator that compares in float64 and adds up in float32."""
    if not head.trees:
        return graph.add("Mul", graph.add("Gather", X, np.array(0), axis=1), 0.0)
    graph.has_trees = True
    ids = [(number, n) for number, tree in enumerate(head.trees) for n in range(len(tree.columns))]
    columns, thresholds, left, right, values = (
        np.concatenate([getattr(tree, part) for tree in head.trees]) for part in Tree._fields
    )
    leaves = np.flatnonzero(columns < 0)
    total = graph.add(
        "TreeEnsembleRegressor",
        X,
        domain=_ML,
        n_targets=1,
        nodes_treeids=[t for t, _ in ids],
        nodes_nodeids=[n for _, n in ids],
        nodes_featureids=np.maximum(columns, 0).tolist(),
        nodes_modes=["BRANCH_GTE" if column >= 0 else "LEAF" for column in columns],
        nodes_values_as_tensor=graph.tensor(np.where(columns >= 0, thresholds, 0.0)),
        nodes_truenodeids=right.tolist(),
        nodes_falsenodeids=left.tolist(),
        target_treeids=[ids[n][0] for n in leaves],
        target_nodeids=[ids[n][1] for n in leaves],
        target_ids=[0] * len(leaves),
        target_weights_as_tensor=graph.tensor(values[leaves].astype(np.float64)),
    )
    return graph.add("Squeeze", graph.add("Cast", total, to=DOUBLE), np.array([1]))


_LAYERS: dict[type, Any] = {
    Crossed: _crossed,
    Curves: _curves,
    InQuery: _in_query,
    Scale: _scale,
    Take: _take,
}

_HEADS: dict[type, Any] = {Linear: _linear, Network: _network, Trees: _trees}
