"""Graphs of curves, ranks and trees, which look up tables: values next to each other, queries of every length."""

import numpy as np
import pytest

from online_rank import AdditiveRanker, ClickBlendRanker, export
from online_rank.base.form import Curves, InQuery, Tree
from online_rank.export.onnx_curves import cells_of, curves_on, known
from online_rank.export.onnx_graph import DOUBLE, Graph
from online_rank.export.onnx_ranks import rank_scores
from online_rank.export.onnx_trees import is_by_tables, thresholds_of, trees_on

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

#: Columns of points: neighbouring floats, all sizes, equal steps far from 0, one, and as many as a byte cannot count.
COLUMNS = (
    np.array([0.3, np.nextafter(0.3, 1.0), np.nextafter(0.3, 2.0) + 1e-15, 0.5]),
    np.concatenate([-np.logspace(300.0, -300.0, 30), [0.0], np.logspace(-300.0, 300.0, 30)]),
    1.7e9 + np.arange(80.0),
    np.array([5.0]),
    np.sort(np.random.default_rng(1).standard_cauchy(300)),
)


def run(build, X):
    """What a graph that `build` adds computes of columns X."""
    from onnx import helper, numpy_helper

    graph = Graph(helper, numpy_helper)
    build(graph)  # The last node has it.
    made = helper.make_graph(
        graph.nodes, "made", [helper.make_tensor_value_info("features", DOUBLE, ["n", X.shape[1]])],
        [helper.make_empty_tensor_value_info(graph.nodes[-1].output[0])], graph.constants,
    )  # fmt: skip
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"features": X})[0]


def values_around(points):
    """Points, their neighbours, values between and far from them, and a missing one."""
    near = [np.nextafter(points, -np.inf), points, np.nextafter(points, np.inf), points + 1e-9 * np.abs(points)]
    return np.concatenate([*near, (points[1:] + points[:-1]) / 2.0, [0.0, -1e305, 1e305, np.nan]])


def in_columns():
    values = [values_around(points) for points in COLUMNS]
    return np.stack([np.resize(own, max(map(len, values))) for own in values], axis=1)


def test_each_value_reaches_its_points():
    X = in_columns()
    found = run(lambda graph: cells_of(graph, X="features", points=COLUMNS).starts, X)
    expected = [np.append(-1e308, own)[np.searchsorted(own, x, side="right")] for own, x in zip(COLUMNS, X.T, strict=True)]
    np.testing.assert_array_equal(found, np.where(np.isnan(X.T), 0.0, expected))


def test_curves_equal_the_form():
    X, rng = in_columns(), np.random.default_rng(0)
    knots = tuple((own, rng.normal(size=len(own))) for own in COLUMNS)
    layer = Curves(np.arange(len(knots)), knots, rng.normal(size=len(knots)))
    found = run(lambda graph: curves_on(graph, "features", layer), X)
    # `interp` divides otherwise between neighbouring floats, and where differences overflow.
    np.testing.assert_allclose(found[:, 1:], layer(X)[:, 1:], rtol=1e-9, atol=1e-12)
    at = np.flatnonzero(np.isin(X[:, 0], COLUMNS[0]))
    np.testing.assert_allclose(found[at, 0], layer(X)[at, 0], rtol=1e-9)


@pytest.mark.parametrize("m", [0, 1, 2, 20, 160, 161, 400])
def test_ranks_equal_the_form(m):
    rng = np.random.default_rng(m)
    X = np.stack([rng.normal(size=m), np.floor(3.0 * rng.normal(size=m)), np.zeros(m), rng.normal(size=m)], axis=1)
    X[rng.random((m, 4)) < 0.2] = np.nan
    X[:, 3] = np.nan
    layer = InQuery(np.arange(4), np.ones(4, dtype=bool), "ranks")
    np.testing.assert_allclose(run(lambda graph: rank_scores(graph, "features"), X), layer(X), rtol=0.0, atol=1e-8)


def grown(rng, depth, d):
    """A random tree, some of whose leaves are above the last level, numbered level by level."""
    nodes, level = [(0, 0)], 0
    columns, limits, left, right = [], [], [], []
    for _, level in nodes:
        splits = level < depth and (level == 0 or rng.random() < 0.8)
        columns.append(rng.integers(d) if splits else -1)
        limits.append(rng.integers(-9, 10) / 4.0)
        left.append(len(nodes) if splits else 0)
        right.append(len(nodes) + 1 if splits else 0)
        nodes += [(0, level + 1)] * (2 * splits)
    return Tree(*map(np.array, (columns, limits, left, right)), rng.normal(size=len(nodes)))


@pytest.mark.parametrize("depth", [1, 3, 4])
def test_trees_by_tables_equal_the_form(depth):
    rng, d = np.random.default_rng(depth), 5
    trees = [grown(rng, depth, d) for _ in range(40)]
    X = rng.integers(-12, 13, size=(70, d)) / 4.0
    X[rng.random(X.shape) < 0.1] = np.nan
    assert is_by_tables(trees, d)
    found = run(lambda graph: trees_on(graph, cells_of(graph, "features", thresholds_of(trees, d)), trees), X)
    np.testing.assert_allclose(found, sum(tree(X) for tree in trees), rtol=0.0, atol=1e-12)


def test_deep_trees_and_few_are_left_to_the_runtime():
    rng = np.random.default_rng(0)
    assert not is_by_tables([grown(rng, 4, 200)], 200)
    assert not is_by_tables([grown(rng, 6, 5) for _ in range(40)], 5)


def test_missing_values_are_below_all():
    X = np.array([[np.nan, 1.0]])
    assert (run(lambda graph: known(graph, "features"), X) == [[-np.finfo(np.float64).max, 1.0]]).all()


@pytest.mark.parametrize("make", [AdditiveRanker, lambda: AdditiveRanker(relative=False), ClickBlendRanker])
def test_models_with_trees_on_queries_of_every_length(make):
    rng, model = np.random.default_rng(0), make()

    def drawn(m):
        X = rng.normal(size=(m, 6))
        X[:, 1], X[:, 2], X[:, 3] = np.floor(2.0 * X[:, 1]), np.exp(4.0 * X[:, 2]), 1.7e9 + rng.integers(0, 50, m)
        X[rng.random(X.shape) < 0.1] = np.nan
        return X

    for _ in range(150):
        X = drawn(30)
        model.learn_one(X, np.digitize(np.nan_to_num(X[:, 0] * X[:, 1]) + 3.0 * (X[:, 2] > 1.0), [-1.0, 1.0, 3.0]))
    made = export.to_onnx(model)
    # 200 trees, by tables: the runtime takes four times as long to walk them.
    assert isinstance(model, ClickBlendRanker) or "TreeEnsembleRegressor" not in {node.op_type for node in made.graph.node}
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    assert session.run(None, {"features": np.empty((0, 6))})[0].shape == (0,)
    for m in (1, 2, 50, 160, 161, 300):
        X = drawn(m)
        expected = np.asarray(model.predict_one(X))
        np.testing.assert_allclose(
            session.run(None, {"features": X})[0], expected, rtol=0.0, atol=1e-6 * np.abs(expected).max()
        )
