"""`learn_files` on engines, by the `map` that docs/machines.md gives for each."""

import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from online_rank import AdditiveRanker
from online_rank.distributed import learn_files, to_bytes
from tests.distributed.parts import KilledOnce
from tests.helpers import linear_queries

pytestmark = pytest.mark.slow
PAGE = Path(__file__).parents[2] / "docs" / "machines.md"


def map_of(engine, **names):
    """The `map` of an engine, from the page's table."""
    (code,) = re.findall(rf"^\| {engine} \| `(.*?)` \|", PAGE.read_text(), re.MULTILINE)
    return eval(code, names)


@pytest.fixture
def learn(tmp_path):
    pq, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    queries = linear_queries(60, d=3)
    X, y = (np.concatenate(part) for part in zip(*queries, strict=True))
    query = np.repeat(np.arange(len(queries)), [len(grades) for _, grades in queries])
    rows = pa.table({"query": query, "grade": y, **{f"f{j}": X[:, j] for j in range(3)}})
    pq.write_table(rows, tmp_path / "log.parquet", row_group_size=len(rows) // 4 + 1)

    def learned(run):
        model, files = AdditiveRanker(), [tmp_path / "log.parquet"]
        training = learn_files(model, files, run=run, shards=2, rounds=2, query="query", grade="grade")
        assert (training.queries, training.rounds, training.shards) == (60, 2, 2)
        return to_bytes(model)

    return learned


def test_spark_maps_parts_of_files_also_after_a_worker_was_killed(learn, tmp_path, monkeypatch):
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    from pyspark.sql import SparkSession

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    settings = {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.driver.host": "127.0.0.1"}
    session, mark = SparkSession.builder.master("local[2,4]").config(map=settings).getOrCreate(), tmp_path / "killed"
    try:
        run = map_of("Spark, for files", sc=session.sparkContext)
        assert learn(run) == learn(map)
        assert learn(lambda each, parts: run(KilledOnce(each, str(mark)), parts)) == learn(map)
        assert int(mark.read_text()) > 0
    finally:
        session.stop()


def test_ray_maps_parts_of_files(learn):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        assert learn(map_of("Ray", ray=ray)) == learn(map)
    finally:
        ray.shutdown()
