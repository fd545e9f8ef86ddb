"""Models as ONNX graphs, from raw features to scores (extra `onnx`)."""

import json
from typing import Any

import numpy as np

from online_rank.base.form import Blend, Crossed, Curves, Form, InQuery, Linear, Network, Scale, Take, Tree, Trees, sources_of
from online_rank.export.normal import NORMAL_MIDDLE, NORMAL_SPLIT, NORMAL_TAIL
from online_rank.export.reading import Names, Prepared, prepared
from online_rank.support.lazy import needs

#: Version of the operator set; the newest that all runtimes of recent years support.
_OPSET = 17
_IR_VERSION = 8
#: Version of the operator set for trees.
_ML, _ML_OPSET = "ai.onnx.ml", 3
#: Numbers of types: `onnx.TensorProto`.
_UINT8, _INT64, _DOUBLE = 2, 7, 11


class Graph:
    """Nodes of an ONNX graph and the constants that they use; every value is float64 unless a method says otherwise."""

    def __init__(self, helper: Any, numpy_helper: Any) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._helper = helper
        self._numpy_helper = numpy_helper
        self.has_trees = False

    def tensor(self, values: np.ndarray) -> Any:
        """Values as a tensor, for an attribute of a node."""
        return self._numpy_helper.from_array(values)

    def constant(self, value: Any) -> str:
        """A constant array; its name."""
        name = f"c{len(self.constants)}"
        self.constants.append(self._numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, kind: str, *inputs: str | np.ndarray | float, **attributes: Any) -> str:
        """Add a node; inputs may be names or constants. Returns the name of its output."""
        return self.add_several(kind, 1, *inputs, **attributes)[0]

    def add_several(self, kind: str, n_outputs: int, *inputs: str | np.ndarray | float, **attributes: Any) -> list[str]:
        """The same for a node with several outputs."""
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        outputs = [f"v{len(self.nodes)}_{k}" for k in range(n_outputs)]
        self.nodes.append(self._helper.make_node(kind, names, outputs, **attributes))
        return outputs


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
    Networks are computed in float64, even if they learned in float32; trees are summed in float32.

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
    _form(graph, _with_vectors(graph, given), form)
    graph.nodes[-1].output[0] = "scores"
    opsets = [helper.make_opsetid("", _OPSET), *([helper.make_opsetid(_ML, _ML_OPSET)] if graph.has_trees else [])]
    made = helper.make_model(
        helper.make_graph(
            graph.nodes,
            name,
            [helper.make_tensor_value_info(name, _DOUBLE, shape) for name, shape in _inputs(given).items()],
            [helper.make_tensor_value_info("scores", _DOUBLE, ["n"])],
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


def _form(graph: Graph, X: str, form: Form) -> str:
    """The scores of a form on the columns X."""
    width = form.n_features
    for layer in form.layers:
        X = _LAYERS[type(layer)](graph, X, layer, width)
        width = len(sources_of((layer,), width))
    return _HEADS[type(form.head)](graph, X, form.head)


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
            made.append(graph.add("Where", has_query, np.nan, product) if has_query and not column.of_query else product)
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
    """The line from the last point that is <= each value, level + slope (x - start). Values are compared with all points."""
    chosen, k = _columns(graph, X, layer.sources, width), len(layer.knots)
    # Nothing is >= NaN, where a curve has fewer points than others.
    points = np.full((max((len(xs) for xs, _ in layer.knots), default=0), 1, k), np.nan)
    lines = []
    for c, (xs, ys) in enumerate(layer.knots):
        points[: len(xs), 0, c] = xs
        lines.append(np.stack([np.append(xs[0], xs), np.append(ys[0], ys), [0.0, *layer.slopes(c), 0.0]], axis=1))
    reached = graph.add("Cast", graph.add("GreaterOrEqual", chosen, points), to=_UINT8)
    reached = graph.add("Reshape", reached, np.array([len(points), -1]))
    n_reached = graph.add("MatMulInteger", np.ones((1, len(points)), dtype=np.uint8), reached)
    before = np.cumsum([0, *map(len, lines)])[:-1].astype(np.int32)
    place = graph.add("Add", graph.add("Reshape", n_reached, np.array([-1, k])), before)
    start, level, slope = graph.add_several("Split", 3, graph.add("Gather", np.concatenate(lines), place, axis=0), axis=2)
    beyond = graph.add("Sub", graph.add("Unsqueeze", chosen, np.array([2])), start)
    made = graph.add("Squeeze", graph.add("Add", level, graph.add("Mul", beyond, slope)), np.array([2]))
    return made if layer.missing is None else graph.add("Where", graph.add("IsNaN", chosen), layer.missing[None], made)


def _in_query(graph: Graph, X: str, layer: InQuery, width: int) -> str:
    if layer.how == "ranks":
        own, ranked = (_columns(graph, X, layer.sources[layer.relative == side], width) for side in (False, True))
        order = np.argsort(np.argsort(layer.relative, kind="stable"), kind="stable")
        return _columns(graph, graph.add("Concat", own, _ranks(graph, ranked), axis=1), order, len(order))
    X = _columns(graph, X, layer.sources, width)
    relative = _RELATIVE[layer.how](graph, X, layer.soft)
    if layer.centred is not None and not layer.centred.all():
        # Without centring the subtracted mean is added again, divided by the deviation.
        mean, deviation = _moments(graph, X)
        shift = _unless_constant(graph, X, graph.add("Div", mean, graph.add("Add", deviation, layer.soft)))
        relative = graph.add("Add", relative, graph.add("Mul", shift, (~layer.centred).astype(float)))
    return relative if layer.relative.all() else graph.add("Where", layer.relative[None], relative, X)


def _ranks(graph: Graph, X: str) -> str:
    """The normal scores of the ranks of columns; NaN for NaN. Rows are sorted, and groups of equal values counted."""
    missing = graph.add("IsNaN", graph.add("Transpose", X, perm=[1, 0]))
    rows = graph.add("Where", missing, np.inf, graph.add("Transpose", X, perm=[1, 0]))
    n = graph.add("Shape", rows, start=1)
    values, places = graph.add_several("TopK", 2, rows, n, axis=1, largest=0, sorted=1)
    zeros = graph.add("Mul", graph.add("Cast", missing, to=_DOUBLE), 0.0)
    before = graph.add("Slice", values, np.array([0]), np.array([-1]), np.array([1]))
    after = graph.add("Slice", values, np.array([1]), np.array([2**31]), np.array([1]))
    begins = graph.add("Cast", graph.add("Less", before, after), to=_INT64)
    group = graph.add("Pad", graph.add("CumSum", begins, np.array(1)), np.array([0, 1, 0, 0]))
    ones = graph.add("Add", zeros, 1.0)
    sizes = graph.add("ScatterElements", zeros, group, ones, axis=1, reduction="add")
    last, size = (graph.add("GatherElements", part, group, axis=1) for part in (graph.add("CumSum", sizes, np.array(1)), sizes))
    share = graph.add("Sub", last, graph.add("Mul", size, 0.5))
    share = graph.add("ScatterElements", zeros, places, share, axis=1)
    known = graph.add("ReduceSum", graph.add("Cast", graph.add("Not", missing), to=_DOUBLE), np.array([1]), keepdims=1)
    scores = _normal_scores(graph, graph.add("Div", share, known))
    return graph.add("Transpose", graph.add("Where", missing, np.nan, scores), perm=[1, 0])


def _normal_scores(graph: Graph, p: str) -> str:
    """The standard normal quantiles of p: approximations of Acklam, one for the tails and one for the middle."""

    def ratio(t: str, up: tuple[float, ...], down: tuple[float, ...]) -> str:
        return graph.add("Div", *(_polynomial(graph, t, coefficients) for coefficients in (up, down)))

    low = graph.add("Min", p, graph.add("Sub", 1.0, p))
    tail = ratio(graph.add("Sqrt", graph.add("Mul", graph.add("Log", graph.add("Max", low, 1e-300)), -2.0)), *NORMAL_TAIL)
    centred = graph.add("Sub", p, 0.5)
    middle = graph.add("Mul", centred, ratio(graph.add("Mul", centred, centred), *NORMAL_MIDDLE))
    signed = graph.add("Mul", tail, graph.add("Neg", graph.add("Sign", centred)))
    return graph.add("Where", graph.add("Less", low, NORMAL_SPLIT), signed, middle)


def _polynomial(graph: Graph, t: str, coefficients: tuple[float, ...]) -> str:
    value = graph.add("Mul", t, coefficients[0])
    for coefficient in coefficients[1:-1]:
        value = graph.add("Mul", graph.add("Add", value, coefficient), t)
    return graph.add("Add", value, coefficients[-1])


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
    return graph.add("Squeeze", graph.add("Cast", total, to=_DOUBLE), np.array([1]))


def _blend(graph: Graph, X: str, head: Blend) -> str:
    scores = [graph.add("Unsqueeze", _form(graph, X, form), np.array([1])) for form in head.forms]
    return _times(graph, graph.add("Concat", *scores, axis=1), head.weights)


_LAYERS: dict[type, Any] = {
    Crossed: _crossed,
    Curves: _curves,
    InQuery: _in_query,
    Scale: _scale,
    Take: _take,
}

_HEADS: dict[type, Any] = {Blend: _blend, Linear: _linear, Network: _network, Trees: _trees}
