"""Scores of probes by programs that read a file: ONNX Runtime, a C compiler, LightGBM and XGBoost."""

import ctypes
import importlib
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from online_rank.export.probing import Probes
from online_rank.support.lazy import MissingExtra

#: What an engine answered: its name with its version, and the scores of each query.
Answer = tuple[str, list[list[float]]]


def rows_of(given: Probes, number: int) -> np.ndarray:
    """The raw features of a query's documents, NaN where one is missing, and 0 if the model takes none as missing."""
    query, same = given.queries[number], given.contexts[number]["fields"]
    X = np.full((len(query), len(given.features)), np.nan if given.takes_missing else 0.0)
    for i, probe in enumerate(query):
        fields = probe.fields | same
        for j, feature in enumerate(given.features):
            if "field" not in feature:
                if feature["name"] in fields and "vector" not in feature:
                    X[i, j] = fields[feature["name"]]
                continue
            value = fields.get(feature["field"])
            has = value is not None and (
                value not in feature["others"] if feature["level"] is None else value == feature["level"]
            )
            X[i, j] = float(has)
    return X


def vectors_of(given: Probes) -> dict[str, tuple[int, int]]:
    """The vectors of documents, by their fields, with their lengths k, and p of queries; 0 if these have none."""
    return {one["vector"]: (one["k"], one["p"]) for one in given.features if "vector" in one}


def of_documents(given: Probes, number: int, field: str, k: int) -> np.ndarray:
    """The vectors (n, k) of a query's documents, NaN where one is missing."""
    query = given.queries[number]
    return np.array([probe.fields.get(field) or [np.nan] * k for probe in query], dtype=float).reshape(len(query), k)


def _inputs(given: Probes, number: int) -> dict[str, np.ndarray]:
    """The inputs of a graph of ONNX."""
    X = rows_of(given, number)
    plain = [j for j, feature in enumerate(given.features) if "vector" not in feature]
    made = {"features": X[:, plain]} if plain else {}
    for field, (k, p) in vectors_of(given).items():
        made[field] = of_documents(given, number, field, k)
        if p:
            query = given.contexts[number]["fields"].get(f"query {field}")
            made[f"query {field}"] = np.full(p, np.nan) if query is None else np.array(query, dtype=float)
    return made


def _imported(name: str, what: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtra(f"{what} is not installed ({error}): pip install {name}") from None


def onnx(given: Probes, content: bytes) -> Answer:
    """The scores of ONNX Runtime."""
    runtime = _imported("onnxruntime", "ONNX Runtime")
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    scores = [session.run(["scores"], _inputs(given, t))[0].ravel().tolist() for t in range(len(given.queries))]
    return f"ONNX Runtime {runtime.__version__}", scores


def lightgbm(given: Probes, content: bytes) -> Answer:
    """The scores of LightGBM."""
    library = _imported("lightgbm", "LightGBM")
    booster = library.Booster(model_str=content.decode())
    rows = [rows_of(given, t) for t in range(len(given.queries))]
    scores = [np.asarray(booster.predict(X, raw_score=True)).tolist() for X in rows]
    return f"LightGBM {library.__version__}", scores


def xgboost(given: Probes, content: bytes) -> Answer:
    """The scores of XGBoost."""
    library = _imported("xgboost", "XGBoost")
    booster = library.Booster(model_file=bytearray(content))
    scores = []
    for t in range(len(given.queries)):
        data = library.DMatrix(rows_of(given, t), feature_names=booster.feature_names)
        scores.append(np.asarray(booster.predict(data, output_margin=True), dtype=float).tolist())
    return f"XGBoost {library.__version__}", scores


def c(given: Probes, content: bytes) -> Answer:
    """The scores of a program that the C compiler of the environment (CC, or cc) makes of a header.

    Raises RuntimeError without a compiler, or if it does not compile the header.
    """
    compiler = shlex.split(os.environ.get("CC") or "cc")
    if shutil.which(compiler[0]) is None:
        raise RuntimeError(f"there is no C compiler {compiler[0]!r}: install one, or name it in the environment, CC=clang")
    with tempfile.TemporaryDirectory(prefix="online_rank_verify") as folder:
        header, source, library = (Path(folder, name) for name in ("model.h", "model.c", "model.so"))
        header.write_bytes(content)
        source.write_text(_program(given, content.decode()))
        call = [*compiler, "-std=c99", "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-lm"]
        done = subprocess.run(call, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(compiler)} does not compile the header: {done.stderr.strip()[:400]}")
        return f"a program of {compiler[0]}", _run(given, str(library))


def _program(given: Probes, header: str) -> str:
    """The source of a library that scores the documents of one query."""
    name, d = given.name, len(given.features)
    if f"{name}_scores(" in header:
        body = f"return {name}_scores(x, n, s);"
    else:
        body = f"for (int i = 0; i < n; ++i) s[i] = {name}_score(x + (long)i * {d}); return 0;"
    vectors = [*vectors_of(given)]
    more = "".join(f", const float *d{v}, const float *q{v}" for v in range(len(vectors)))
    filled = "".join(f"{name}_fill_{v + 1}(x, n, d{v}, q{v}); " for v in range(len(vectors)))
    return f'#include "model.h"\nint online_rank_run(double *x, int n, double *s{more}) {{ {filled}{body} }}\n'


def _run(given: Probes, library: str) -> list[list[float]]:
    run, pointer = ctypes.CDLL(library).online_rank_run, ctypes.POINTER(ctypes.c_double)
    scores = []
    for t, query in enumerate(given.queries):
        X, found = np.ascontiguousarray(rows_of(given, t)), np.empty(len(query))
        vectors: list[np.ndarray | None] = []
        for field, (k, _) in vectors_of(given).items():
            own = given.contexts[t]["fields"].get(f"query {field}")
            vectors.append(np.ascontiguousarray(of_documents(given, t, field, k), dtype=np.float32))
            vectors.append(None if own is None else np.array(own, dtype=np.float32))
        more = [None if one is None else one.ctypes.data_as(ctypes.c_void_p) for one in vectors]
        if run(X.ctypes.data_as(pointer), len(X), found.ctypes.data_as(pointer), *more):
            raise RuntimeError("the program has no memory for the scores")
        scores.append(found.tolist())
    return scores
