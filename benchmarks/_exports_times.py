"""What one query takes: in models, in their exports, and in LightGBM's trees by three programs."""

import ctypes
import importlib.util
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._common import environment, table
from online_rank import AdditiveRanker
from online_rank.export import export

_MODELS: dict[str, Callable[[], Any]] = {
    "AdditiveRanker(relative=False, trees=0)": lambda: AdditiveRanker(relative=False, trees=0),
    "AdditiveRanker(relative=False)": lambda: AdditiveRanker(relative=False),
    "AdditiveRanker(trees=0)": lambda: AdditiveRanker(trees=0),
    "AdditiveRanker()": AdditiveRanker,
}
#: Documents and features of a query; rounds of turns; LightGBM's trees.
_SIZES, _ROUNDS, _TREES = ((20, 46), (120, 136), (150, 136)), 3, 300
_LEARNED = 300


def compiled(header: str, folder: Path, d: int, options: tuple[str, ...] = ("-O1",)) -> Callable[[np.ndarray], np.ndarray]:
    """The scores of an exported C header, compiled once."""
    one = f"for (int i = 0; i < n; ++i) s[i] = model_score(x + i * {d}); return 0;"
    body = "return model_scores(x, n, s);" if "model_scores(" in header else one
    (folder / "model.c").write_text(f"{header}\nint call(const double *x, int n, double *s) {{ {body} }}\n")
    subprocess.run(["cc", "-shared", "-fPIC", *options, "-w", "-o", "model.so", "model.c", "-lm"], check=True, cwd=folder)
    call = ctypes.CDLL(str(folder / "model.so")).call
    call.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)

    def scores(X: np.ndarray) -> np.ndarray:
        rows, found = np.ascontiguousarray(X, dtype=np.float64), np.empty(len(X))
        call(rows.ctypes.data, len(rows), found.ctypes.data)
        return found

    return scores


def _drawn(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    X = rng.normal(size=(n, d))
    X[:, ::3] = np.exp(2.0 * X[:, ::3])
    X[:, 1::5] = np.floor(3.0 * np.abs(X[:, 1::5]))
    return X


def _graded(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Documents whose grade is a curve of one feature, a curve of another, and a product of two."""
    X = _drawn(rng, n, d)
    signal = np.sin(X[:, 1]) + np.log(X[:, 0]) + 2.0 * (X[:, 2] > 0.0) * (X[:, 4] > 0.0)
    return X, np.digitize(signal + rng.normal(size=n), [0.5, 1.5])


def show_times(_: Any) -> str:
    """Microseconds of one query, for several sizes."""
    rows = []
    for d in sorted({d for _, d in _SIZES}):
        for name, make in _MODELS.items():
            rng, model = np.random.default_rng(0), make()
            for _query in range(_LEARNED):
                model.learn_one(*_graded(rng, 40, d))
            with tempfile.TemporaryDirectory() as folder:
                calls: dict[str, Callable[[np.ndarray], Any]] = {
                    "its array call": model.predict_one,
                    "C": compiled(export(model, "c", name="model"), Path(folder), d, ("-O3", "-march=native")),
                    "ONNX": _onnx(export(model, "onnx")),
                }
                for m in (m for m, own in _SIZES if own == d):
                    # Other queries each time: models keep what they computed of the last one.
                    taken = _medians(calls, [_drawn(rng, m, d) for _ in range(100)])
                    own = taken["its array call"]
                    ratios = (f"{taken[call]:.0f} ({taken[call] / own:.2f})" for call in ("C", "ONNX"))
                    rows.append((f"{m} x {d}", name, f"{own:.0f}", *ratios))
    m, d = _SIZES[-1]
    rng = np.random.default_rng(0)
    others = _medians(_lightgbm(*_graded(rng, 60 * 40, d), m), [_drawn(rng, m, d) for _ in range(100)])
    return f"""Microseconds of the processor of one query, after {_LEARNED} of 40 documents, the least of the medians of
{_ROUNDS} turns; in parentheses the ratio to the array call. C is compiled with `-O3 -march=native`; programs have one thread.

{table(("documents x features", "model", *calls), sorted(rows, key=lambda row: int(row[0].split()[0])))}

LightGBM's trees, {_TREES} with 31 leaves, for {m} documents of {d} features, by the programs that are installed:

{table(("program", "microseconds"), [(name, f"{value:.0f}") for name, value in others.items()])}

{environment("onnxruntime", "lightgbm", *(name for name in ("treelite", "tl2cgen") if importlib.util.find_spec(name)))}"""


def _medians(calls: dict[str, Callable[[np.ndarray], Any]], asked: list[np.ndarray]) -> dict[str, float]:
    """Microseconds of each call, which take turns."""
    least = dict.fromkeys(calls, np.inf)
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            found = []
            for X in [asked[0], *asked]:
                start = time.process_time()
                call(X)
                found.append(time.process_time() - start)
            least[name] = min(least[name], 1e6 * float(np.median(found[1:])))
    return least


def _onnx(data: Any) -> Callable[[np.ndarray], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return lambda X: session.run(None, {session.get_inputs()[0].name: X})


def _lightgbm(X: np.ndarray, y: np.ndarray, m: int) -> dict[str, Callable[[np.ndarray], Any]]:
    """LightGBM's trees for m documents by its own C API, by ONNX Runtime, and compiled by Treelite's TL2cgen."""
    import lightgbm

    booster = lightgbm.train(
        {"objective": "lambdarank", "verbose": -1, "num_threads": 1},
        lightgbm.Dataset(X, y, group=[40] * (len(X) // 40)),
        _TREES,
    )
    library, size, scores = lightgbm.basic._LIB, ctypes.c_int64(), np.empty(m)
    raw, float64 = 1, 1

    def by_api(X: np.ndarray) -> None:
        library.LGBM_BoosterPredictForMat(
            booster._handle, ctypes.c_void_p(X.ctypes.data), float64, ctypes.c_int32(len(X)), ctypes.c_int32(X.shape[1]), 1,
            raw, 0, -1, b"num_threads=1", ctypes.byref(size), ctypes.c_void_p(scores.ctypes.data),
        )  # fmt: skip

    calls = {"LightGBM's C API": by_api, "ONNX Runtime": _onnx(_as_onnx(booster.dump_model(), X.shape[1]))}
    if importlib.util.find_spec("tl2cgen"):
        calls["Treelite (TL2cgen)"] = _by_treelite(booster)
    return calls


def _by_treelite(booster: Any) -> Callable[[np.ndarray], Any]:
    import tl2cgen
    import treelite

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/trees.so"
        tl2cgen.export_lib(treelite.frontend.from_lightgbm(booster), toolchain="gcc", libpath=path)
        predictor = tl2cgen.Predictor(path, nthread=1)
    return lambda X: predictor.predict(tl2cgen.DMatrix(X))


def _as_onnx(model: dict[str, Any], d: int) -> bytes:
    """LightGBM's trees as the operator of ensembles, in float64."""
    from onnx import TensorProto, helper, numpy_helper

    nodes: dict[str, list[Any]] = {
        name: [] for name in ("treeids", "nodeids", "featureids", "modes", "truenodeids", "falsenodeids")
    }
    thresholds: list[float] = []
    leaves: list[tuple[int, int, float]] = []

    def add(tree: int, number: int, node: dict[str, Any]) -> int:
        """Add a subtree from a number on; the next number that is free."""
        place, is_leaf = len(thresholds), "leaf_value" in node
        thresholds.append(node.get("threshold", 0.0))
        for name, value in zip(
            nodes, (tree, number, node.get("split_feature", 0), "LEAF" if is_leaf else "BRANCH_LEQ", 0, 0), strict=True
        ):
            nodes[name].append(value)
        if is_leaf:
            leaves.append((tree, number, node["leaf_value"]))
            return number + 1
        after = add(tree, number + 1, node["left_child"])
        nodes["truenodeids"][place], nodes["falsenodeids"][place] = number + 1, after
        return add(tree, after, node["right_child"])

    for tree, found in enumerate(model["tree_info"]):
        add(tree, 0, found["tree_structure"])
    node = helper.make_node(
        "TreeEnsembleRegressor", ["features"], ["scores"], domain="ai.onnx.ml", n_targets=1,
        **{f"nodes_{name}": values for name, values in nodes.items()},
        nodes_values_as_tensor=numpy_helper.from_array(np.array(thresholds)),
        target_treeids=[tree for tree, _, _ in leaves], target_nodeids=[number for _, number, _ in leaves],
        target_ids=[0] * len(leaves),
        target_weights_as_tensor=numpy_helper.from_array(np.array([value for *_, value in leaves])),
    )  # fmt: skip
    ends = (("features", TensorProto.DOUBLE, d), ("scores", TensorProto.FLOAT, 1))
    inputs, outputs = ([helper.make_tensor_value_info(name, kind, ["n", width])] for name, kind, width in ends)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph([node], "trees", inputs, outputs)
    made: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    return made
