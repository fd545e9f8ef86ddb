"""The map of a query's vector, in every target, against the model's: on 500 queries."""

import ctypes
import io
import re
import shutil
import subprocess

import numpy as np
import pytest

from online_rank import AdditiveRanker, ClickRidge, PerceptronRanker, VectorFeatures, VectorRanker, save
from online_rank.cli import main
from online_rank.export import adapter, query_matrix

P, K, N = 6, 4, 500


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    made = VectorRanker()
    for _ in range(100):
        q, D = rng.normal(size=P), rng.normal(size=(8, K))
        made.learn_one(D, np.argsort(np.argsort(D @ q[:K])) // 3, context={"embedding": q})
    return made


@pytest.fixture(scope="module")
def queries():
    return np.random.default_rng(1).normal(size=(N, P)).astype(np.float32) * np.float32(3.0)


def wanted(model, queries):
    return np.array([model.adapt(q) for q in queries])


def close(found, model, queries):
    np.testing.assert_allclose(found, wanted(model, queries), atol=1e-5, rtol=1e-5)


def units(queries):
    return queries / np.linalg.norm(queries, axis=1, keepdims=True)


def test_npy(model, queries):
    W = np.load(io.BytesIO(adapter(model, "npy")))
    assert W.dtype == np.float32
    close(units(queries) @ W, model, queries)


def test_onnx(model, queries):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(adapter(model, "onnx"), providers=["CPUExecutionProvider"])
    close(session.run(None, {"query": queries})[0], model, queries)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a compiler of C")
def test_c(model, queries, tmp_path):
    (tmp_path / "adapt.c").write_text(
        adapter(model, "c", name="shop") + "\nvoid run(const float *q, float *t) { shop_adapt(q, t); }\n"
    )
    subprocess.run(["cc", "-std=c99", "-shared", "-fPIC", "-o", tmp_path / "adapt.so", tmp_path / "adapt.c", "-lm"], check=True)
    library = ctypes.CDLL(str(tmp_path / "adapt.so"))
    found = np.zeros((N, K), dtype=np.float32)
    for q, t in zip(queries, found, strict=True):
        library.run(q.ctypes.data_as(ctypes.c_void_p), t.ctypes.data_as(ctypes.c_void_p))
    close(found, model, queries)


def test_duckdb(model, queries):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute(adapter(model, "duckdb", name="shop"))
    found = [connection.execute("SELECT shop_adapt(?)", [q.tolist()]).fetchone()[0] for q in queries]
    close(np.array(found), model, queries)


def test_pgvector_by_its_documentation(model, queries):
    """`<#>` is the negative inner product, and `l2_normalize` scales to length 1."""
    sql = adapter(model, "pgvector", name="shop")
    columns = [[float(x) for x in values.split(",")] for _, values in re.findall(r"\((\d+), '\[(.*?)\]'\)", sql)]
    assert f"vector({P})" in sql
    assert f"vector({K})" in sql
    close(-(units(queries) @ -np.array(columns).T), model, queries)


def test_the_default_and_features_have_matrices(queries):
    rng = np.random.default_rng(0)
    default, features, click = AdditiveRanker(), VectorFeatures() | PerceptronRanker(), VectorFeatures() | ClickRidge()
    for _ in range(20):
        D, q = rng.normal(size=(5, P)), rng.normal(size=P)
        for each in (default, features):
            each.learn_one([{"embedding": d} for d in D], [0, 1, 2, 0, 1], context={"embedding": q})
    np.testing.assert_array_equal(query_matrix(default), query_matrix(features, vector="embedding"))
    assert query_matrix(default).shape == (P, P)
    t = default.adapt(queries[0])
    np.testing.assert_allclose(t, units(queries)[0] @ query_matrix(default), atol=1e-5)
    with pytest.raises(ValueError, match="has learned no vector"):
        query_matrix(click)
    with pytest.raises(ValueError, match="no vector of the name 'other'"):
        query_matrix(default, vector="other")
    with pytest.raises(TypeError, match="VectorRanker, AdditiveRanker and VectorFeatures do"):
        query_matrix(PerceptronRanker())


def test_bad_arguments(model):
    with pytest.raises(ValueError, match="can be written to c, duckdb, npy, onnx, pgvector"):
        adapter(model, "solr")
    with pytest.raises(ValueError, match="identifier"):
        adapter(model, "c", name="drop table")


def test_the_command_writes_it(model, queries, tmp_path):
    save(model, tmp_path / "model")
    with pytest.raises(SystemExit) as end:
        main(["export", str(tmp_path / "model"), "--matrix", "embedding", "--to", "npy", "--out", str(tmp_path / "W.npy")])
    assert not end.value.code
    close(units(queries) @ np.load(tmp_path / "W.npy"), model, queries)
