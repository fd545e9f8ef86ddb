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

from online_rank.export.probing import Probe, Probes
from online_rank.support.lazy import MissingExtra

#: What an engine answered: its name with its version, and the scores of each query.
Answer = tuple[str, list[list[float]]]


def rows_of(given: Probes, query: list[Probe]) -> np.ndarray:
    """The raw features of a query's documents, NaN where one is missing, and 0 if the model takes none as missing."""
    X = np.full((len(query), len(given.features)), np.nan if given.takes_missing else 0.0)
    for i, probe in enumerate(query):
        for j, feature in enumerate(given.features):
            if "field" not in feature:
                if feature["name"] in probe.fields:
                    X[i, j] = probe.fields[feature["name"]]
                continue
            value = probe.fields.get(feature["field"])
            has = value is not None and (
                value not in feature["others"] if feature["level"] is None else value == feature["level"]
            )
            X[i, j] = float(has)
    return X


def _imported(name: str, what: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtra(f"{what} is not installed ({error}): pip install {name}") from None


def onnx(given: Probes, content: bytes) -> Answer:
    """The scores of ONNX Runtime."""
    runtime = _imported("onnxruntime", "ONNX Runtime")
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    scores = [session.run(["scores"], {"features": rows_of(given, query)})[0].ravel().tolist() for query in given.queries]
    return f"ONNX Runtime {runtime.__version__}", scores


def lightgbm(given: Probes, content: bytes) -> Answer:
    """The scores of LightGBM."""
    library = _imported("lightgbm", "LightGBM")
    booster = library.Booster(model_str=content.decode())
    scores = [np.asarray(booster.predict(rows_of(given, query), raw_score=True)).tolist() for query in given.queries]
    return f"LightGBM {library.__version__}", scores


def xgboost(given: Probes, content: bytes) -> Answer:
    """The scores of XGBoost."""
    library = _imported("xgboost", "XGBoost")
    booster = library.Booster(model_file=bytearray(content))
    scores = []
    for query in given.queries:
        data = library.DMatrix(rows_of(given, query), feature_names=booster.feature_names)
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
    return f'#include "model.h"\nint online_rank_run(const double *x, int n, double *s) {{ {body} }}\n'


def _run(given: Probes, library: str) -> list[list[float]]:
    run, pointer = ctypes.CDLL(library).online_rank_run, ctypes.POINTER(ctypes.c_double)
    scores = []
    for query in given.queries:
        X, found = np.ascontiguousarray(rows_of(given, query)), np.empty(len(query))
        if run(X.ctypes.data_as(pointer), len(X), found.ctypes.data_as(pointer)):
            raise RuntimeError("the program has no memory for the scores")
        scores.append(found.tolist())
    return scores
