"""Models as ONNX graphs, from raw features to scores (extra `onnx`)."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from online_rank.base import serving_ranker, transformers_of
from online_rank.export.linear import feature_texts, served_weights

__all__ = ["to_onnx"]

#: Of the operators; the newest that every runtime of the last years knows.
_OPSET = 17
_IR_VERSION = 8


class Graph:
    """Nodes of an ONNX graph and the constants that they use; every value is float64 unless a method says otherwise."""

    def __init__(self, helper: Any, numpy_helper: Any) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._helper = helper
        self._numpy_helper = numpy_helper

    def constant(self, value: Any) -> str:
        """A constant array; its name."""
        name = f"c{len(self.constants)}"
        self.constants.append(self._numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, kind: str, *inputs: str | np.ndarray | float, **attributes: Any) -> str:
        """A node; constants may be given as they are. Returns the name of what it gives."""
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        output = f"v{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(kind, names, [output], **attributes))
        return output


def to_onnx(model: Any, *, name: str = "online_rank", names: Sequence[str] | None = None) -> Any:
    """A ranker, with the transformers in front of it, as an ONNX model.

    Linear rankers and `DirectRanker`, behind any number of `StreamScaler`, `SignedLog` and `StreamGaussianizer`, and inside
    `LossTracker`, `DriftAwareRanker` or `BestRanker`.

    Parameters
    ----------
    model
        A ranker, or a pipeline that ends in one.
    name
        Name of the graph.
    names
        Names of the d features, which go into the model's metadata; None for the names that the model has learned, or f0, f1.

    Returns
    -------
    An `onnx.ModelProto` with the input `features`, float64 (n, d), and the output `scores`, float64 (n,). The order of the
    features is the JSON list `features` of the metadata. Networks are computed in float64, also those that learn in float32.

    Raises
    ------
    ImportError
        The package onnx is missing.
    TypeError
        A step depends on the other documents of a query, or is a user's own; the message names it.
    ValueError
        The model has met no feature.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> made = to_onnx(PerceptronRanker.from_weights({"clicks": 2.0, "age": -0.5}))
    >>> [node.op_type for node in made.graph.node]
    ['MatMul', 'Squeeze']
    """
    helper, numpy_helper, checker = _onnx()
    transformers, ranker = transformers_of(model), serving_ranker(model)
    first = transformers[0] if transformers else ranker
    columns = _columns(transformers, ranker)
    texts = feature_texts(columns, len(columns) if columns is not None else _n_features([*transformers, ranker]), names)
    if not texts:
        raise ValueError("the model has met no feature yet; let it learn before it is exported")
    graph = Graph(helper, numpy_helper)
    value, known = "features", columns
    for step in [*transformers, ranker]:
        value = _arranged(graph, value, known, step)
        known = getattr(step, "feature_names", None) or known
        value = _writer(step)(graph, value, step)
    graph.nodes[-1].output[0] = "scores"
    double = helper.TensorProto.DOUBLE if hasattr(helper, "TensorProto") else 11
    made = helper.make_model(
        helper.make_graph(
            graph.nodes,
            name,
            [helper.make_tensor_value_info("features", double, ["n", len(texts)])],
            [helper.make_tensor_value_info("scores", double, ["n"])],
            graph.constants,
            doc_string=f"{type(first).__name__} to {type(ranker).__name__} of online_rank",
        ),
        producer_name="online_rank",
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
    )
    helper.set_model_props(made, {"features": json.dumps(texts, ensure_ascii=False)})
    checker.check_model(made, full_check=True)
    return made


def _onnx() -> tuple[Any, Any, Any]:
    try:
        from onnx import checker, helper, numpy_helper
    except ImportError:
        raise ImportError('export to ONNX needs onnx: pip install "online_rank[onnx]"') from None
    return helper, numpy_helper, checker


def _columns(transformers: Sequence[Any], ranker: Any) -> tuple[Any, ...] | None:
    """Names of the raw features: those of the first step that has met any."""
    return next((step.feature_names for step in [*transformers, ranker] if getattr(step, "feature_names", None)), None)


def _n_features(steps: Sequence[Any]) -> int:
    return next((step.n_features for step in steps if getattr(step, "n_features", 0)), 0)


def _arranged(graph: Graph, value: str, known: tuple[Any, ...] | None, step: Any) -> str:
    """Features in the order of a step's columns."""
    own = getattr(step, "feature_names", None)
    if own is None or own == known:
        return value
    places = {name: j for j, name in enumerate(known or ())}
    if missing := [name for name in own if name not in places]:
        raise ValueError(f"{type(step).__name__} has met feature {missing[0]!r}, which the steps before it have not")
    return graph.add("Gather", value, np.array([places[name] for name in own], np.int64), axis=1)


def _writer(step: Any) -> Any:
    """The function that writes a step's nodes; it takes the graph, the name of an (n, d) value and the step."""
    kind = type(step).__name__
    if served_weights(step) is not None:
        return _linear
    if kind in _WRITERS:
        return _WRITERS[kind]
    if kind == "QueryNormalizer":
        raise TypeError("QueryNormalizer scales each query by its own documents, which a graph that scores documents cannot")
    raise TypeError(f"{kind} has no ONNX form")


def _linear(graph: Graph, X: str, ranker: Any) -> str:
    return _times(graph, X, np.asarray(served_weights(ranker)))


def _times(graph: Graph, X: str, w: np.ndarray) -> str:
    """X w. By a matrix of one column: onnxruntime refuses the product of no rows with a vector."""
    return graph.add("Squeeze", graph.add("MatMul", X, w[:, None].astype(np.float64)), np.array([1]))


def _scaler(graph: Graph, X: str, step: Any) -> str:
    centred = graph.add("Sub", X, step._mean)
    if not step.with_std:
        return centred
    varies = step._m2 > 0.0
    deviation = np.sqrt(np.where(varies, step._m2, 1.0) / max(step.n_documents, 1))
    return graph.add("Mul", centred, np.where(varies, 1.0 / deviation, 0.0))


def _signed_log(graph: Graph, X: str, step: Any) -> str:
    # log(1 + a) = log(u) + c, u the rounded 1 + a and c what rounding lost, over u.
    a = graph.add("Abs", X)
    u = graph.add("Add", a, 1.0)
    lost = graph.add("Div", graph.add("Sub", a, graph.add("Sub", u, 1.0)), u)
    return graph.add("Mul", graph.add("Sign", X), graph.add("Add", graph.add("Log", u), lost))


def _gaussianizer(graph: Graph, X: str, step: Any) -> str:
    """deviation Phi^-1(F(x)), F linear between neighbouring centroids: a search, six look-ups, a rational function."""
    tables = _sketches(step)
    d, capacity = tables["values"].shape
    # Number of centroids below x, for each feature.
    below = graph.add("Less", graph.constant(tables["values"][None]), graph.add("Unsqueeze", X, np.array([2])))
    low = graph.add("ReduceSum", graph.add("Cast", below, to=7), np.array([2]), keepdims=0)
    place = graph.add("Add", low, np.arange(d, dtype=np.int64) * (capacity + 1))

    def at(table: str) -> str:
        return graph.add("Gather", tables[table].ravel(), place, axis=0)

    part = graph.add("Div", graph.add("Sub", graph.add("Mul", X, 0.5), at("half")), at("half_width"))
    between = graph.add("Add", at("left"), graph.add("Mul", part, at("rise")))
    share = graph.add("Where", graph.add("Equal", X, at("next")), at("middle"), between)
    # One factor for each feature: onnxruntime would fuse a single one into the next product, in single precision.
    return graph.add("Mul", _normal_quantile(graph, share), np.full(d, step.deviation))


def _sketches(step: Any) -> dict[str, np.ndarray]:
    """What `_kernels.quantiles.gaussianize` finds out about each interval of each feature: (d, capacity + 1) each.

    Interval k of a feature begins at its centroid k - 1 and ends at centroid k; the first and the last have one end only.
    """
    d, capacity = step._values.shape
    tables = {name: np.zeros((d, capacity + 1)) for name in ("half", "half_width", "left", "rise", "next", "middle")}
    tables["half_width"][:] = 1.0
    tables["next"][:] = np.inf
    values = np.full((d, capacity), np.inf)
    for j in range(d):
        n = int(step._sizes[j])
        if n == 0:
            tables["left"][j] = 0.5
            continue
        v, weights = step._values[j, :n], step._weights[j, :n]
        values[j, :n] = v
        upper = np.cumsum(np.abs(weights)) / step.n_documents
        middle = (np.concatenate(([0.0], np.cumsum(np.abs(weights))[:-1])) + 0.5 * np.abs(weights)) / step.n_documents
        tables["next"][j, :n], tables["middle"][j, :n] = v, middle
        tables["left"][j, 0], tables["left"][j, n:] = middle[0], middle[-1]
        left = np.where(weights[:-1] < 0.0, middle[:-1], upper[:-1])
        right = np.where(weights[1:] < 0.0, middle[1:], upper[:-1])
        tables["left"][j, 1:n], tables["rise"][j, 1:n] = left, right - left
        tables["half"][j, 1:n], tables["half_width"][j, 1:n] = 0.5 * v[:-1], 0.5 * v[1:] - 0.5 * v[:-1]
    return {**tables, "values": values}


#: Acklam's rational approximations of Phi^-1, as in `_kernels.quantiles.normal_quantile`: coefficients from the highest power.
_TAIL_UP = (-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838, -2.549732539343734, 4.374664141464968,
            2.938163982698783)  # fmt: skip
_TAIL_DOWN = (7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996, 3.754408661907416, 1.0)
_MIDDLE_UP = (-3.969683028665376e01, 2.209460984245205e02, -2.759285104469687e02, 1.383577518672690e02, -3.066479806614716e01,
              2.506628277459239)  # fmt: skip
_MIDDLE_DOWN = (-5.447609879822406e01, 1.615858368580409e02, -1.556989798598866e02, 6.680131188771972e01,
                -1.328068155288572e01, 1.0)  # fmt: skip


def _normal_quantile(graph: Graph, p: str) -> str:
    """Phi^-1(p), 0 < p < 1."""
    tail = graph.add("Min", p, graph.add("Sub", 1.0, p))
    t = graph.add("Sqrt", graph.add("Mul", graph.add("Log", tail), -2.0))
    outer = graph.add("Div", _polynomial(graph, t, _TAIL_UP), _polynomial(graph, t, _TAIL_DOWN))
    q = graph.add("Sub", p, 0.5)
    signed = graph.add("Mul", outer, graph.add("Neg", graph.add("Sign", q)))
    r = graph.add("Mul", q, q)
    inner = graph.add("Div", _polynomial(graph, r, _MIDDLE_UP), _polynomial(graph, r, _MIDDLE_DOWN))
    return graph.add("Where", graph.add("Less", tail, 0.02425), signed, graph.add("Mul", q, inner))


def _polynomial(graph: Graph, x: str, coefficients: Sequence[float]) -> str:
    value = graph.add("Add", graph.add("Mul", x, coefficients[0]), coefficients[1])
    for coefficient in coefficients[2:]:
        value = graph.add("Add", graph.add("Mul", value, x), coefficient)
    return value


def _network(graph: Graph, X: str, ranker: Any) -> str:
    from online_rank._kernels.network import layer

    activation = {"tanh": "Tanh", "relu": "Relu"}[ranker.activation]
    value = X
    for number in range(1, len(ranker._widths)):
        weights, biases = layer.py_func(ranker._served, ranker._widths, number)
        product = graph.add("MatMul", value, weights.astype(np.float64))
        value = graph.add(activation, graph.add("Add", product, biases.astype(np.float64)))
    return _times(graph, value, ranker._served[: ranker._widths[-1]])


_WRITERS = {
    "DirectRanker": _network,
    "SignedLog": _signed_log,
    "StreamGaussianizer": _gaussianizer,
    "StreamScaler": _scaler,
}
