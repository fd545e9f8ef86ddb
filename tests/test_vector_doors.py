"""The same queries with vectors through every door: the same scores."""

import io
import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from online_rank import AdditiveRanker, VectorRanker, read
from online_rank.distributed.keyed import KeyedRankers
from online_rank.serving import RankingService
from online_rank.stream import read_clicks
from tests.serving.topics import State

M, K = 5, 4
NAME = "embedding"


def queries(n=12):
    """Ids, documents (age, vector), the vector of the query, grades; numbers that float16 has, too."""
    rng = np.random.default_rng(0)
    found = []
    for number in range(n):
        D, q = rng.integers(-9, 10, (M, K)) / 4.0, rng.integers(-9, 10, K) / 4.0
        q[0] += 16.0
        ages = (rng.permutation(M) / 2.0).tolist()
        grades = np.argsort(np.argsort(D[:, ::-1] @ q)) // 2
        documents = {f"d{i}": {"age": ages[i], NAME: D[i].tolist()} for i in range(M)}
        found.append((number, documents, q.tolist(), grades.tolist()))
    return found


QUERIES = queries()
ROLES = {"query": "query", "grade": "grade"}


def python(as_vector=list, name=NAME):
    """Dicts of features, and the context."""
    model = AdditiveRanker()
    for _, documents, q, grades in QUERIES:
        x = {d: {"age": one["age"], name: as_vector(one[NAME])} for d, one in documents.items()}
        scores, context = model.predict_one(x, context={name: as_vector(q)}), {name: as_vector(q)}
        model.learn_one(x, dict(zip(x, grades, strict=True)), context=context)
    return [*scores.values()]


def of_frames(make):
    """Frames of documents, and the context."""
    model = AdditiveRanker()
    for _, documents, q, grades in QUERIES:
        x = make([one["age"] for one in documents.values()], np.array([one[NAME] for one in documents.values()], np.float32))
        scores = model.predict_one(x, context={NAME: q})
        model.learn_one(x, grades, context={NAME: q})
    return scores


def pandas(ages, D):
    return pytest.importorskip("pandas").DataFrame({"age": ages, NAME: [*D]})


def polars(ages, D):
    pl = pytest.importorskip("polars")
    return pl.DataFrame({"age": ages, NAME: pl.Series(D, dtype=pl.Array(pl.Float32, K))})


def arrow(ages, D):
    return pa.table({"age": ages, NAME: pa.FixedSizeListArray.from_arrays(pa.array(D.ravel()), K)})


def arrow_lists(ages, D):
    return pa.table({"age": ages, NAME: pa.array([*D.astype(np.float16)], pa.list_(pa.float16()))})


def of_files(source, **options):
    """A file that `read` yields query by query."""
    model = AdditiveRanker()
    for x, y in read(source, model=model, **options):
        scores = model.predict_one(x)
        model.learn_one(x, y)
    return [*scores.values()] if isinstance(scores, dict) else scores


def rows():
    for number, documents, q, grades in QUERIES:
        for (d, one), grade in zip(documents.items(), grades, strict=True):
            yield {"query": number, "grade": grade, "document": d, **one, f"context {NAME}": q}


def csv(cells, header):
    return io.StringIO("\n".join([header, *(",".join(map(str, cells(row))) for row in rows())]) + "\n")


def json_lists_in_csv():
    text = lambda v: f'"{json.dumps(v)}"'  # noqa: E731
    cells = lambda row: (row["query"], row["grade"], row["age"], text(row[NAME]), text(row[f"context {NAME}"]))  # noqa: E731
    return of_files(csv(cells, f"query,grade,age,{NAME},context {NAME}"), **ROLES)


def table_of_columns():
    cells = lambda row: (row["query"], row["document"], row["grade"], row["age"], *row[NAME], *row[f"context {NAME}"])  # noqa: E731
    return csv(cells, "query,document,grade,age,e0,e1,e2,e3,q0,q1,q2,q3")


def columns_of_csv():
    options = {"vectors": {NAME: "e0..e3"}, "query_vectors": {NAME: "q0..q3"}, "exclude": ["document"]}
    return of_files(table_of_columns(), **ROLES, **options)


def parquet(tmp_path):
    path = tmp_path / "queries.parquet"
    pq.write_table(pa.Table.from_pylist([{k: v for k, v in row.items() if k != "document"} for row in rows()]), path)
    return of_files(path, **ROLES)


def json_lines_of_documents():
    lines = [json.dumps({k: v for k, v in row.items() if k != "document"}) for row in rows()]
    return of_files(io.StringIO("\n".join(lines) + "\n"), **ROLES)


def json_lines_of_queries():
    lines = [
        json.dumps({"id": number, "docs": [*documents.values()], "grades": grades, "context": {NAME: q}})
        for number, documents, q, grades in QUERIES
    ]
    return of_files(io.StringIO("\n".join(lines) + "\n"))


def letor():
    lines = []
    for row in rows():
        values = [row["age"], *row[NAME], *row[f"context {NAME}"]]
        lines.append(f"{row['grade']} qid:{row['query']} " + " ".join(f"{j}:{v}" for j, v in enumerate(values, start=1)))
    return of_files(io.StringIO("\n".join(lines) + "\n"), vectors={NAME: "2..5"}, query_vectors={NAME: "6..9"})


def as_documents(number, documents, q):
    return json.dumps({"id": number, "docs": documents, "context": {NAME: q}}).encode()


def as_columns(number, documents, q):
    table = [[one["age"], one[NAME]] for one in documents.values()]
    about = {"id": number, "context": {NAME: q}}
    return json.dumps({**about, "features": ["age", NAME], "documents": [*documents], "rows": table}).encode()


def as_binary(number, documents, q):
    about = {"id": number, "context": {NAME: q}, "vectors": {NAME: K}}
    head = json.dumps({**about, "features": ["age", NAME], "documents": [*documents]}).encode()
    table = np.array([[one["age"], *one[NAME]] for one in documents.values()], "<f4")
    return b"float32\n" + head + b"\n" + table.tobytes()


def requests(form):
    for number, documents, q, grades in QUERIES:
        yield form(number, documents, q)
        yield json.dumps({"id": number, "grades": dict(zip(documents, grades, strict=True))}).encode()


def in_order(answer):
    """The scores of an answer in the order of the documents."""
    scores = dict(zip(answer["ranking"], answer["scores"], strict=True))
    return [scores[f"d{i}"] for i in range(M)]


def service(form):
    """HTTP: `POST /rank`, then `POST /learn`."""
    served = RankingService(AdditiveRanker())
    answers = [served.handle(request).answer for request in requests(form)]
    return in_order(answers[-2])


def kafka(form):
    """Messages of a topic. After half of them another worker takes the key over."""
    state, answers = State(), []
    for offset, request in enumerate(requests(form)):
        if offset % M == 0:
            handle = KeyedRankers(lambda: RankingService(AdditiveRanker()), every=3)
        answers.append(handle.event(request, b"shop", state, "events", 0, offset))
    return in_order(answers[-2])


DOORS = {
    "lists": python,
    "tuples": lambda: python(tuple),
    **{kind: lambda kind=kind: python(lambda v: np.array(v, kind)) for kind in ("float16", "float32", "float64")},
    "pandas": lambda: of_frames(pandas),
    "polars": lambda: of_frames(polars),
    "arrow": lambda: of_frames(arrow),
    "lists of arrow": lambda: of_frames(arrow_lists),
    "csv": json_lists_in_csv,
    "columns of csv": columns_of_csv,
    "parquet": parquet,
    "documents in JSON lines": json_lines_of_documents,
    "queries in JSON lines": json_lines_of_queries,
    "LETOR": letor,
    "HTTP": lambda: service(as_documents),
    "HTTP, columns": lambda: service(as_columns),
    "HTTP, binary": lambda: service(as_binary),
    "Kafka": lambda: kafka(as_documents),
    "Kafka, columns": lambda: kafka(as_columns),
}


@pytest.fixture(scope="module")
def wanted():
    return python()


@pytest.mark.parametrize("door", DOORS)
def test_every_door_gives_the_same_scores(door, wanted, tmp_path):
    make = DOORS[door]
    np.testing.assert_allclose(make(tmp_path) if make is parquet else make(), wanted, rtol=1e-6, atol=1e-7)
    # They depend on the vectors.
    assert len({*np.round(wanted, 6).tolist()}) == M


@pytest.mark.slow
def test_a_stream_on_a_pipe_and_files_of_the_command_line_give_the_same_scores(wanted, tmp_path):
    def run(*arguments, given=b""):
        command = [sys.executable, "-m", "online_rank", *map(str, arguments)]
        done = subprocess.run(command, input=given, capture_output=True, env={**os.environ, "PYTHONWARNINGS": "ignore"})
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().splitlines()

    answers = [*map(json.loads, run("stream", "--ranker", "additive", given=b"\n".join(requests(as_documents)) + b"\n"))]
    np.testing.assert_allclose(in_order(answers[-2]), wanted, rtol=1e-6, atol=1e-7)
    header, *lines = table_of_columns().getvalue().splitlines()
    roles = ("--query", "query", "--document", "document")
    vectors = ("--vector", f"{NAME}=e0..e3", "--query-vector", f"{NAME}=q0..q3")
    (tmp_path / "train.csv").write_text("\n".join([header, *lines[:-M]]) + "\n")
    (tmp_path / "last.csv").write_text("\n".join([header, *lines[-M:]]) + "\n")
    model = tmp_path / "model"
    run("train", tmp_path / "train.csv", *roles, *vectors, "--grade", "grade", "-q", "--ranker", "additive", "--save", model)
    ranked = [line.split() for line in run("rank", model, tmp_path / "last.csv", *roles, *vectors)]
    scores = {document: float(score) for _, _, document, _, score, _ in ranked}
    np.testing.assert_allclose([scores[f"d{i}"] for i in range(M)], wanted, rtol=1e-5, atol=1e-6)


def impressions():
    """Lists as displayed, with one click each: number, documents in their order, the vector of the query, the clicked one."""
    for number, documents, q, grades in QUERIES:
        yield number, [*documents.items()], q, f"d{int(np.argmax(grades))}"


def of_clicks(*files):
    model = VectorRanker("object.embedding")
    for x, clicks in read_clicks(*files, model=model):
        model.learn_one(x, clicks)
    _, documents, q, _ = QUERIES[0]
    x = [{"object.embedding": one[NAME]} for one in documents.values()]
    return model.n_clicked, model.predict_one(x, context={"object.embedding": q})


def test_logs_of_clicks_and_ubi_give_the_same_scores(tmp_path):
    table, log = [], []
    for number, documents, q, clicked in impressions():
        for place, (d, one) in enumerate(documents, start=1):
            row = {"query": f"q{number:02}", "document": d, "position": place, "click": int(d == clicked)}
            table.append({**row, "object.embedding": one[NAME], "context object.embedding": q})
        at = f"2025-03-03T10:{number:02}:"
        log.append({"query_id": f"q{number}", "user_query": "t", "timestamp": f"{at}00Z", "query_attributes": {NAME: q}})
        for kind, place, (d, one) in [("impression", *each) for each in enumerate(documents, start=1)] + [
            ("click", 0, (clicked, {}))
        ]:
            about = {"object": {"object_id": d, **one}, "position": {"ordinal": place}}
            log.append(
                {"action_name": kind, "query_id": f"q{number}", "timestamp": f"{at}{place:02}Z", "event_attributes": about}
            )
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in log))
    (n, wanted), (n_ubi, scores) = of_clicks(pa.Table.from_pylist(table)), of_clicks(tmp_path / "log.jsonl")
    assert n == n_ubi == len(QUERIES)
    np.testing.assert_allclose(scores, wanted, rtol=1e-9)
    assert not np.allclose(scores, of_clicks(pa.Table.from_pylist(table[:M]))[1])
