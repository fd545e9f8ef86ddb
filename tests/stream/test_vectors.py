"""Vectors in files: JSON lists in csv, lists of parquet and JSON, columns that are one vector, LETOR text."""

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from online_rank import AdditiveRanker, PerceptronRanker, VectorRanker, read
from online_rank.stream import ReadError

D = [[1.0, 0.5, 0.0], [0.0, 1.0, 2.0], [3.0, 0.0, 1.0]]
Q = [1.0, 2.0, 3.0]
WANTED = [{"age": float(i), "embedding": d} for i, d in enumerate(D)]


def found(source, name="embedding", **options):
    ((x, y),) = [*read(source, query="q", grade="grade", model=AdditiveRanker(), **options)]
    assert y.tolist() == [0, 1, 2]
    documents = [{k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in one.items()} for one in x.X]
    return documents, None if x.context is None else {k: v.tolist() for k, v in x.context[0].items()}


def csv_of(rows, header):
    return io.StringIO("\n".join([header, *rows]) + "\n")


def test_json_lists_in_csv_are_vectors():
    rows = [f'7,{i},{i},"{json.dumps(d)}","{json.dumps(Q)}"' for i, d in enumerate(D)]
    assert found(csv_of(rows, "q,grade,age,embedding,context embedding"), query_vectors={"embedding": "context embedding"}) == (
        WANTED,
        {"embedding": Q},
    )


def test_columns_of_numbers_are_one_vector():
    rows = [f"7,{i},{i},{','.join(map(str, d))},{','.join(map(str, Q))}" for i, d in enumerate(D)]
    source = csv_of(rows, "q,grade,age,e0,e1,e2,q0,q1,q2")
    assert found(source, vectors={"embedding": "e0..e2"}, query_vectors={"embedding": "q0..q2"}) == (WANTED, {"embedding": Q})


@pytest.mark.parametrize("kind", ["list", "fixed", "half"])
def test_lists_of_parquet_and_frames_are_vectors(kind, tmp_path):
    inner = pa.float16() if kind == "half" else pa.float32()
    type_ = pa.list_(inner, 3) if kind == "fixed" else pa.list_(inner)
    columns = {
        "q": [7, 7, 7],
        "grade": [0, 1, 2],
        "age": [0.0, 1.0, 2.0],
        "embedding": pa.array([[np.float16(x) for x in d] if kind == "half" else d for d in D], type_),
        "context embedding": pa.array([[np.float16(x) for x in Q] if kind == "half" else Q] * 3, type_),
    }
    table = pa.table(columns)
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet"):
        assert found(source) == (WANTED, {"embedding": Q})


def test_json_lines_of_documents_and_of_queries():
    lines = [json.dumps({"q": "7", "grade": i, **one, "context embedding": Q}) for i, one in enumerate(WANTED)]
    assert found(csv_of(lines[1:], lines[0])) == (WANTED, {"embedding": Q})
    whole = {"id": "7", "docs": WANTED, "grades": [0, 1, 2], "context": {"embedding": Q}}
    ((x, _),) = [*read(io.StringIO(json.dumps(whole) + "\n"), model=AdditiveRanker())]
    assert x.X[2]["embedding"].tolist() == D[2]
    assert x.context[0]["embedding"].tolist() == Q


def test_ranges_of_letor_features_are_vectors():
    text = "\n".join(f"{i} qid:7 1:{i} 2:{d[0]} 3:{d[1]} 4:{d[2]} 5:1 6:2 7:3" for i, d in enumerate(D))
    options = {"vectors": {"embedding": "2..4"}, "query_vectors": {"embedding": "5..7"}, "model": AdditiveRanker()}
    ((x, _),) = [*read(io.StringIO(text + "\n"), **options)]
    assert [one["1"] for one in x.X] == [0.0, 1.0, 2.0]
    assert [one["embedding"].tolist() for one in x.X] == D
    assert x.context[0]["embedding"].tolist() == Q


def test_a_missing_vector_is_missing():
    rows = [f"7,{i},{i},{'' if i == 1 else chr(34) + json.dumps(d) + chr(34)}" for i, d in enumerate(D)]
    documents, _ = found(csv_of(rows, "q,grade,age,embedding"))
    assert documents[1]["embedding"] is None
    assert documents[0]["embedding"] == D[0]


@pytest.mark.parametrize(
    ("value", "message"),
    [("[1, NaN, 2]", "line 3: .*nan in dimension 1"), ("[1, x]", "line 3: .*no list of numbers"), ("12", "no list of numbers")],
)
def test_what_is_no_vector_is_an_error_with_its_line(value, message):
    rows = ['7,0,0,"[1, 2, 3]"', f'7,1,1,"{value}"', '7,2,2,"[1, 2, 3]"']
    with pytest.raises(ReadError, match=message):
        # The first rows say what the column is.
        [*read(csv_of(rows, "q,grade,age,embedding"), query="q", grade="grade", model=AdditiveRanker(),
               vectors={"embedding": "embedding"})]  # fmt: skip


def test_columns_that_are_missing_or_lack_numbers():
    rows = ["7,0,1,2", "7,1,,2", "7,2,1,2"]
    with pytest.raises(ReadError, match=r"line 3: a number of the vector e0\.\.e1 is missing"):
        found(csv_of(rows, "q,grade,e0,e1"), vectors={"embedding": "e0..e1"})
    with pytest.raises(ValueError, match="there is no column 'e2'"):
        found(csv_of(rows, "q,grade,e0,e1"), vectors={"embedding": "e0..e2"})


def test_a_model_of_vectors_learns_files_and_knows_their_columns_again():
    rows = [f'7,{i},{i},"{json.dumps(d)}","{json.dumps(Q)}"' for i, d in enumerate(D)]
    header, options = "q,grade,age,embedding,query", {"query_vectors": {"embedding": "query"}}
    for model in (AdditiveRanker(), VectorRanker()):
        for _ in range(3):
            for x, y in read(csv_of(rows, header), query="q", grade="grade", model=model, **options):
                model.learn_one(x, y)
        assert model.rank_one(x)
    assert model.matrix.shape == (3, 3)


def test_the_plan_says_what_a_matrix_takes():
    rows = [f'7,{i},{i},"{json.dumps(d)}"' for i, d in enumerate(D)]
    plan = read(csv_of(rows, "q,grade,age,embedding"), query="q", grade="grade", model=AdditiveRanker()).plan
    wanted = "vectors: embedding; a matrix between two vectors of 768 numbers takes 2.4 MB, and its average as much"
    assert wanted in plan.in_words()


def test_other_models_leave_vectors_out():
    rows = [f'7,{i},{i},"{json.dumps(d)}"' for i, d in enumerate(D)]
    queries = read(csv_of(rows, "q,grade,age,embedding"), query="q", grade="grade", model=PerceptronRanker())
    assert queries.plan.features == ("age",)
    table = pa.table({"q": [7], "grade": [1], "age": [1.0], "embedding": [Q]})
    plan = read(table, query="q", grade="grade", model=PerceptronRanker()).plan
    assert "a vector: AdditiveRanker takes it" in plan.in_words()[1]
