"""Learning from a DataFrame of Spark, in local mode."""

import shutil
import signal
import sys
from datetime import date, datetime

import numpy as np
import pytest

from online_rank import AdditiveRanker, CheckpointError, DirectRanker, PerceptronRanker, StreamScaler
from online_rank.distributed import to_bytes
from online_rank.distributed.rounds import learn_rounds
from tests.distributed.parts import KilledOnce, PackerKilledOnce
from tests.helpers import linear_queries

pytest.importorskip("pyspark")
pa = pytest.importorskip("pyarrow")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java", allow_module_level=True)

from online_rank.distributed import spark as on_spark  # noqa: E402

pytestmark = pytest.mark.slow
QUERIES = linear_queries(40, d=3, seed=1)


def table(queries=QUERIES):
    """A row for each document: the query, its day, its grade and features, one of them a category."""
    n = [len(y) for _, y in queries]
    X, y = (np.concatenate(part) for part in zip(*queries, strict=True))
    query = np.repeat(np.arange(len(queries)), n)
    columns = {"query": [f"q{k}" for k in query], "grade": y, **{f"f{j}": X[:, j] for j in range(X.shape[1])}}
    columns["brand"] = np.where(X[:, 0] > 0.0, "acme", "best").tolist()
    columns["at"] = [datetime(2026, 1, 1 + int(k) // 4, int(k) % 4) for k in query]
    return pa.table(columns)


@pytest.fixture(scope="module")
def session():
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.driver.host": "127.0.0.1",
    }
    # Two tasks at once, each tried up to four times.
    interrupted = signal.getsignal(signal.SIGINT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = SparkSession.builder.master("local[2,4]").config(map=settings).getOrCreate()
        yield session
        session.stop()
    # Spark leaves its own, which other tests of the process would find.
    signal.signal(signal.SIGINT, interrupted)


@pytest.fixture(scope="module")
def rows(session):
    return session.createDataFrame(table())


def bits(rows, make=PerceptronRanker, **options):
    model = make()
    training = on_spark.train(rows, "query", "grade", model, **{"shards": 2, "rounds": 2, **options})
    return to_bytes(model), training


def without_category(rows):
    return rows.drop("brand")


def test_the_order_of_rows_and_their_partitions_change_no_bit(rows):
    expected, training = bits(rows, AdditiveRanker, event_time="at")
    mixed_up = rows.orderBy("f1").repartition(5)
    assert bits(mixed_up, AdditiveRanker, event_time="at")[0] == expected
    assert (training.queries, training.documents, training.rounds, training.shards) == (40, len(table()), 2, 2)
    assert 0.0 < training.value < 1.0
    # More rounds end elsewhere, and so do three shards.
    assert bits(rows, AdditiveRanker, event_time="at", rounds=3)[0] != expected


def test_settings_of_the_session_are_as_before(session):
    name = on_spark._MAX_BYTES
    for before in (session.conf.get(name, None), "1048576"):
        if before is not None:
            session.conf.set(name, before)
        with on_spark._batches(session, 1 << 22):
            assert session.conf.get(name) == str(1 << 22)
        assert session.conf.get(name, None) == before
    session.conf.unset(name)


def test_documents_are_ordered_by_all_their_columns(session, rows):
    """Also by those that Arrow cannot sort by, and with values that are missing."""
    from pyspark.sql import functions as F

    same = rows.selectExpr(
        "query", "grade", "at", "if(f0 > 0, null, 1.0) AS f0", "array(f1, f2) AS about", "cast(null AS double) AS none"
    )
    expected, _ = bits(same, AdditiveRanker, event_time="at")
    assert bits(same.orderBy(F.hash("about")), AdditiveRanker, event_time="at")[0] == expected


def test_rounds_are_stretches_of_time_that_shards_of_whole_queries_learn(rows):
    met, halves = on_spark._Rows(without_category(rows), "query", "grade", "at", 2, 2, {}), [[], []]
    met.check()
    with met.packed() as packed:
        for number, half in enumerate(halves):
            packs = on_spark._of_round(packed, number).toArrow().to_batches()
            half += [table.to_pylist() for _, table in on_spark._unpacked(iter(packs), "query")]
    days = [{row["at"] for shard in half for row in shard} for half in halves]
    assert max(days[0]) < min(days[1])
    for half in halves:
        assert len(half) == 2
        assert sum(map(len, half)) == pytest.approx(len(table()) / 2, abs=15)
        for shard in half:
            assert [row["at"] for row in shard] == sorted(row["at"] for row in shard)
    queries = [{row["query"] for half in halves for row in half[k]} for k in range(2)]
    assert not queries[0] & queries[1]
    assert queries[0] | queries[1] == {f"q{k}" for k in range(40)}


def test_one_shard_in_one_round_is_one_process(session):
    """Queries in the order of time, documents in any: a perceptron whose sums are exact."""
    exact = [(np.round(4.0 * X), y) for X, y in QUERIES]
    alone = PerceptronRanker(half_life=None)
    taught = PerceptronRanker(half_life=None)
    for X, y in exact:
        alone.learn_one([dict(zip(("f0", "f1", "f2"), x, strict=True)) for x in X.tolist()], y.tolist())
    on_spark.train(without_category(session.createDataFrame(table(exact))), "query", "grade", taught,
                   event_time="at", shards=1, rounds=1)  # fmt: skip
    assert taught.weights == pytest.approx(alone.weights, rel=1e-9)


@pytest.fixture(params=["packs in files", "packs through Spark"])
def moved(request, monkeypatch):
    """How packs move: in local mode, and on a cluster whose machines share no directory."""
    if request.param == "packs through Spark":
        monkeypatch.setattr(on_spark, "_local_directory", lambda session: None)


def test_packs_in_a_directory_and_through_spark_give_the_same_bits(rows, tmp_path, moved):
    through, _ = bits(rows, AdditiveRanker, event_time="at")
    shared, _ = bits(rows, AdditiveRanker, event_time="at", scratch=tmp_path)
    assert shared == through
    assert not [*tmp_path.iterdir()]


def test_a_worker_that_is_killed_in_a_round_changes_no_bit(rows, tmp_path, monkeypatch, moved):
    expected, training = bits(rows, AdditiveRanker)
    mark, worker = tmp_path / "killed", on_spark._Worker
    monkeypatch.setattr(on_spark, "_Worker", lambda learn, reading: worker(KilledOnce(learn, str(mark)), reading))
    after, again = bits(rows, AdditiveRanker)
    assert int(mark.read_text()) > 0
    assert after == expected
    assert again._replace(elapsed=0.0) == training._replace(elapsed=0.0)


def test_a_worker_that_is_killed_while_it_packs_changes_no_bit(rows, tmp_path, monkeypatch, moved):
    expected, training = bits(rows, AdditiveRanker)
    mark, packer = tmp_path / "killed", on_spark._Packer
    monkeypatch.setattr(on_spark, "_Packer", lambda *given: PackerKilledOnce(packer(*given), str(mark)))
    after, again = bits(rows, AdditiveRanker)
    assert int(mark.read_text()) > 0
    assert after == expected
    assert again._replace(elapsed=0.0) == training._replace(elapsed=0.0)


def test_a_driver_that_is_killed_continues_at_its_round(rows, tmp_path, monkeypatch):
    expected, training = bits(rows)
    begun = learn_rounds

    def dying(model, rounds, run, **options):
        calls = []

        def once(learn, parts):
            calls.append(1)
            if len(calls) > 1:
                raise KeyboardInterrupt
            return run(learn, parts)

        return begun(model, rounds, once, **options)

    with monkeypatch.context() as patch:
        patch.setattr(on_spark, "learn_rounds", dying)
        with pytest.raises(KeyboardInterrupt):
            bits(rows, checkpoint=tmp_path / "c")
    after, resumed = bits(rows, checkpoint=tmp_path / "c")
    assert after == expected
    assert resumed._replace(elapsed=0.0) == training._replace(elapsed=0.0)
    with pytest.raises(CheckpointError, match="its parts differ"):
        bits(rows.where("query != 'q3'"), checkpoint=tmp_path / "c")


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"query": "id"}, ValueError, "query: dataframe has no column 'id'; there are query, grade, f0"),
        ({"query": "f0"}, TypeError, "query: column 'f0' is of type double; it must be a text or an integer"),
        ({"grade": "brand"}, TypeError, "grade: column 'brand' is of type string; it must be integers >= 0"),
        ({"event_time": "brand"}, TypeError, "event_time: column 'brand' is of type string; it must be a timestamp"),
        ({"features": ["f0", "f9"]}, ValueError, "features: dataframe has no column 'f9'"),
        ({"exclude": ["f9"]}, ValueError, "exclude: dataframe has no column 'f9'"),
        ({"context": ["who"]}, ValueError, "context: dataframe has no column 'who'"),
        ({"document": "id"}, ValueError, "document: dataframe has no column 'id'"),
        ({"features": ["grade"]}, ValueError, "column 'grade' cannot be grade and a feature at once"),
        ({"dataframe": [1]}, TypeError, "dataframe is of type list; it must be a DataFrame of Spark"),
        ({"shards": 0}, ValueError, "shards is 0"),
        ({"model": DirectRanker(hidden=(3,))}, TypeError, "DirectRanker has no rule"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(rows, given, error, message):
    arguments = {"dataframe": rows, "query": "query", "grade": "grade", "model": AdditiveRanker(), **given}
    before = to_bytes(arguments["model"])
    with pytest.raises(error, match=message):
        on_spark.train(**arguments)
    assert to_bytes(arguments["model"]) == before


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("query", "if(query = 'q7', null, query)", "column 'query' is null in"),
        ("grade", "if(query = 'q7', null, grade)", "column 'grade' is null in"),
        ("at", "if(query = 'q7', null, at)", "column 'at' is null in"),
        ("grade", "if(query = 'q7', -1, grade)", "column 'grade' is no integer >= 0 in"),
        ("grade", "if(query = 'q7', 0.5, grade)", "column 'grade' is no integer >= 0 in"),
        ("grade", "double('NaN')", "column 'grade' is no integer >= 0 in"),
        ("f1", "if(query = 'q7', double('Infinity'), f1)", "the value of 'f1' is not finite"),
        ("extra", "map('a', 1)", "column 'extra' is of type map, which is no feature: .*exclude="),
        ("f1", "struct(f1)", "column 'f1' is of type struct, which is no feature"),
    ],
)
def test_values_that_are_bad_are_refused_with_their_column(rows, column, value, message):
    from pyspark.sql import functions as F

    model = StreamScaler() | PerceptronRanker()
    before = to_bytes(model)
    bad = without_category(rows).withColumn(column, F.expr(value))
    with pytest.raises((TypeError, ValueError), match=message):
        on_spark.train(bad, "query", "grade", model, event_time="at", shards=2, rounds=2)
    assert to_bytes(model) == before


def test_a_frame_without_rows_or_with_a_name_twice_is_refused(rows):
    with pytest.raises(ValueError, match="dataframe has no rows"):
        bits(rows.where("false"))
    with pytest.raises(ValueError, match="dataframe has two columns called 'f0'"):
        bits(rows.withColumnRenamed("f1", "f0"))


def test_other_types_and_names_of_columns(session, rows):
    """Decimals, dates, empty shards, and a name with dots and quotes."""
    from pyspark.sql import functions as F

    other = (
        rows.withColumn("f1", F.col("f1").cast("decimal(20, 6)"))
        .withColumn("at", F.col("at").cast("date"))
        .withColumnRenamed("f0", "the.`first`")
        .withColumn("none", F.lit(None).cast("double"))
    )
    _, training = bits(other, AdditiveRanker, event_time="at", shards=3, rounds=4, exclude=["brand"])
    assert training.queries == 40
    assert date(2026, 1, 1) in {row["at"] for row in other.select("at").collect()}
    few = session.createDataFrame(table(QUERIES[:2]))
    assert bits(few, AdditiveRanker, shards=4, rounds=3)[1].queries == 2
