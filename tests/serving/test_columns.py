"""Queries in columns and in binary are those by document, over every way in."""

import itertools
import json
import struct
import subprocess
import sys

import numpy as np
import pytest

from online_rank import (
    AdditiveRanker,
    BlendRanker,
    CrossFeatures,
    HashedFeatures,
    PerceptronRanker,
    StreamScaler,
    SwapRanker,
    load,
)
from online_rank.base import steps_of
from online_rank.query.columns import Columns
from online_rank.serving import Models, RankingApp
from online_rank.serving.durable import DurableService
from online_rank.serving.messages import BINARY, Forget
from online_rank.serving.protocol import RankingService
from online_rank.serving.reading import read, request_of, text_of
from online_rank.storage.files import to_bytes
from tests.serving.asking import asked

FEATURES, DOCUMENTS = ["clicks", "price", "naïve"], ["a", "b", "é"]
ROWS = [[3, 9.5, 1.0], [1, 0.25, 0.0], [2, -4.0, 2.5]]
GRADES = {"a": 0, "b": 2, "é": 1}
MODELS = {
    "additive": AdditiveRanker,
    "blend": lambda: BlendRanker([AdditiveRanker()]),
    "perceptron": PerceptronRanker,
    "scaled": lambda: StreamScaler() | PerceptronRanker(),
    "hashed": lambda: HashedFeatures(10) | PerceptronRanker(),
    "crossed": lambda: CrossFeatures("user") | AdditiveRanker(),
    "clicks": SwapRanker,
}


def by_document(rows, features=FEATURES):
    return {
        d: {f: v for f, v in zip(features, row, strict=True) if v is not None} for d, row in zip(DOCUMENTS, rows, strict=True)
    }


def in_columns(rows, features=FEATURES, **fields):
    return json.dumps({"features": features, "documents": DOCUMENTS, "rows": rows, **fields}).encode()


def in_binary(rows, features=FEATURES, **fields):
    head = json.dumps({"features": features, "documents": DOCUMENTS, **fields}, ensure_ascii=False).encode()
    return b"float32\n" + head + b"\n" + np.array(rows, dtype="<f4").tobytes()


def as_documents(rows, features=FEATURES, **fields):
    return json.dumps({"docs": by_document(rows, features), **fields}).encode()


@pytest.mark.parametrize("form", [in_columns, in_binary])
@pytest.mark.parametrize("name", MODELS)
def test_a_query_is_ranked_explained_and_learned_as_by_document(name, form):
    services = {make: RankingService(MODELS[name]()) for make in (as_documents, form)}
    for t in range(6):
        rows = [[value + t % 3 for value in row] for row in ROWS]
        answers = []
        for make, service in services.items():
            if name == "clicks":
                learn = lambda shown: {"clicks": shown["ranking"][:1]}  # noqa: E731
            else:
                learn = lambda _: {"grades": GRADES}  # noqa: E731
                taught = service.handle(make(rows, id=f"taught {t}", grades=GRADES), at=1.0).answer
                assert taught["learned"], taught
            shown = service.handle(make(rows, id=t), at=1.0).answer
            if t % 2:
                service._read.clear()  # As after a restart: what waits is read again.
            explained = service.handle(make(rows, id=t, explain=["a", "é"]), at=1.0).answer
            learned = service.handle(json.dumps({"id": t, **learn(shown)}).encode(), at=1.0).answer
            assert learned["learned"], learned
            answers.append((shown, explained, learned))
        assert answers[0] == answers[1]
    models = [to_bytes(service.model) for service in services.values()]
    assert models[0] == models[1]


def sizes(model):
    """How many features each step has met."""
    return [getattr(step, "n_features", 0) for step in steps_of(model)]


@pytest.mark.parametrize("name", ["additive", "blend", "perceptron", "scaled", "hashed"])
def test_null_and_nan_are_missing_values(name):
    rows = [[3, None, 1.0], [None, 0.25, 0.0], [2, -4.0, None]]
    nan = [[np.nan if value is None else value for value in row] for row in rows]
    models = []
    for form, values in ((as_documents, rows), (in_columns, rows), (in_binary, nan)):
        service = RankingService(MODELS[name]())
        for t in range(4):
            assert service.handle(form(values, id=t, grades=GRADES), at=1.0).answer["learned"]
        scores = service.handle(form(values, id="q"), at=1.0).answer
        models.append((service.model, dict(zip(scores["ranking"], scores["scores"], strict=True))))
    for model, scores in models[1:]:
        assert scores == pytest.approx(models[0][1])
        assert sizes(model) == sizes(models[0][0])


@pytest.mark.parametrize(
    ("rows", "features", "is_array"),
    [
        (ROWS, FEATURES, True),
        ([[1, 2, -0.0], [2**60, 1e-9, 5e-7], [0.30000000000000004, -7, 0]], FEATURES, True),
        ([[3, None, 1.0], *ROWS[1:]], FEATURES, False),
        ([[3, "9", 1.0], *ROWS[1:]], FEATURES, False),
        ([[3, True, 1.0], *ROWS[1:]], FEATURES, False),
        ([[3, 10**400, 1.0], *ROWS[1:]], FEATURES, False),
        (ROWS[:2], FEATURES, False),
        (ROWS, ["clicks", "price", "e\u0301"], False),
    ],
)
def test_rows_of_numbers_take_no_object_for_each(rows, features, is_array):
    for found in (read(in_columns(rows, features, id=1)), read(in_columns(rows, features, id=1, grades=GRADES))):
        assert isinstance(found.rows, np.ndarray) == is_array
        assert np.array(found.rows, object).tolist() == rows


def test_a_feature_that_no_document_has_is_not_met():
    service = RankingService(AdditiveRanker())
    service.handle(in_columns([[1, None, 2], [2, None, 1], [3, None, 3]], id=1, grades=GRADES))
    assert service.model.feature_names == ("clicks", "naïve")


def test_text_booleans_and_lists_are_categories():
    rows = [["acme", True, ["new", "red"]], [None, False, "red"], ["other", True, None]]
    services = [RankingService(AdditiveRanker()) for _ in range(2)]
    for service, form in zip(services, (as_documents, in_columns), strict=True):
        for t in range(3):
            assert service.handle(form(rows, id=t, grades=GRADES)).answer["learned"]
    assert to_bytes(services[0].model) == to_bytes(services[1].model)
    numbers = [[True, 1, 2], [False, 2, 3], [True, 3, 4]]
    answers = [RankingService(PerceptronRanker()).handle(form(numbers, id=1)).answer for form in (as_documents, in_columns)]
    assert answers[0] == answers[1]


def test_words_that_are_mostly_missing_are_sparse_in_columns_too():
    names, documents = [f"word {j}" for j in range(60)], [f"d{i}" for i in range(6)]
    grades = dict(zip(documents, [0, 1, 2, 0, 1, 2], strict=True))

    def asked(t, row):
        rows = [[row(i, j) for j in range(60)] for i in range(6)]
        return json.dumps({"id": t, "features": names, "documents": documents, "rows": rows, "grades": grades}).encode()

    service = RankingService(AdditiveRanker())
    assert service.handle(asked(1, lambda i, j: 3 if j % 6 == i else None)).answer["learned"]
    assert not service.model.has_curves
    # It takes no missing values in arrays any more.
    for t, row in enumerate((lambda i, j: 1, lambda i, j: (i + j) % 9 or None), start=2):
        assert service.handle(asked(t, row)).answer["learned"]


REFUSED = [
    ({"rows": ROWS[:2]}, "rows has 2 rows, but documents has 3 ids"),
    ({"rows": [[1, 2, 3], [1, 2], [1, 2, 3]]}, "the row of document 'b' has 2 values, but features has 3 names"),
    ({"documents": ["a", "b", "a"]}, "documents has 'a' twice"),
    ({"features": ["x", "y", "x"]}, "features has 'x' twice"),
    (
        {"rows": [[1, 2, 3], [1, {}, 3], [1, 2, 3]]},
        "rows[1][1] (document 'b', feature 'price') is {}: expected `bool | int | float",
    ),
    ({"rows": [[1, 2, 3], 7, [1, 2, 3]]}, "rows[1] (document 'b') is 7: expected `array`"),
    ({"rows": [[1, 2, 1e400], ROWS[1], ROWS[2]]}, "rows[0][2] (document 'a', feature 'naïve') is 1e400: number out of range"),
    ({"rows": [[1, 2, "3"], ROWS[1], ROWS[2]]}, "feature 'naïve' of document 'a' is '3'; features are numbers"),
    ({"rows": [[10**400, 2, 3], ROWS[1], ROWS[2]]}, "feature 'clicks' of document 'a' is too large for a float"),
    ({"features": 3}, "features is 3: expected `array`, got `int`"),
    ({"docs": {}}, "columns are features, documents and rows, in place of docs and runs"),
    ({"runs": {}}, "columns are features, documents and rows, in place of docs and runs"),
]


@pytest.mark.parametrize(("fields", "reason"), REFUSED)
def test_what_does_not_fit_is_refused_by_document_and_feature(fields, reason):
    service = RankingService(StreamScaler() | PerceptronRanker())
    before = to_bytes(service)
    given = json.dumps({"id": "q", "features": FEATURES, "documents": DOCUMENTS, "rows": ROWS, **fields})
    answer = service.handle(given.replace("Infinity", "1e400").encode()).answer
    assert reason in answer["error"]
    assert answer["id"] == "q"
    assert to_bytes(service) == before


HEAD = {"id": "q", "features": FEATURES, "documents": DOCUMENTS}
VALUES = struct.pack("<9f", *itertools.chain(*ROWS))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"float32\n" + json.dumps(HEAD).encode() + b"\n" + VALUES[:-1], "rows has 35 bytes; 3 documents of 3 values, 4 bytes"),
        (b"float32\n" + json.dumps(HEAD).encode() + b"\n" + VALUES + b"\0", "rows has 37 bytes"),
        (b"float32\n" + json.dumps(HEAD | {"rows": ROWS}).encode() + b"\n" + VALUES, "not rows; this one has rows"),
        (b"float32\n" + json.dumps({"id": "q", "features": ["x"]}).encode() + b"\n", "this one lacks documents"),
        (b"float32\n" + json.dumps({"id": "q"}).encode() + b"\n", "this one lacks documents"),
        (b"float32\n" + json.dumps(HEAD).encode(), "JSON on one line, and the bytes of the values"),
        (b"float32\n", "JSON on one line, and the bytes of the values"),
        (b"float32\n\n", "not a JSON object"),
        (b"float32\n{\n}", "not a JSON object"),
        (b"float32\n" + json.dumps(HEAD | {"docs": {}}).encode() + b"\n" + VALUES, "in place of docs and runs"),
        (b"float32\n" + json.dumps(HEAD | {"features": ["x", "x", "y"]}).encode() + b"\n" + VALUES, "features has 'x' twice"),
        (in_binary([[1, 2, 3], [4, np.inf, 6], [7, 8, 9]], id="q"), "feature 'price' of document 'b' is inf"),
    ],
)
@pytest.mark.parametrize("make", [AdditiveRanker, PerceptronRanker])
def test_binary_of_another_size_or_form_is_refused(make, body, reason):
    service = RankingService(make())
    service.handle(in_columns(ROWS, id=0, grades=GRADES))
    before = to_bytes(service)
    assert reason in service.handle(body).answer["error"]
    assert to_bytes(service) == before


def test_a_head_that_promises_much_is_refused_before_anything_is_allocated():
    import tracemalloc

    head = {"id": "q", "features": [f"{j}" for j in range(50_000)], "documents": [f"{i}" for i in range(4000)]}
    body = b"float32\n" + json.dumps(head).encode() + b"\n" + bytes(8)
    service = RankingService(AdditiveRanker())
    tracemalloc.start()
    try:
        error = service.handle(body).answer["error"]
        assert tracemalloc.get_traced_memory()[1] < 40 * len(body)  # The array would be 1.6 GB.
    finally:
        tracemalloc.stop()
    assert error == "rows has 8 bytes; 4000 documents of 50000 values, 4 bytes each, are 800000000"


def test_there_may_be_as_many_documents_as_by_document():
    documents = [str(i) for i in range(5001)]
    request = json.dumps({"id": 1, "features": [], "documents": documents, "rows": [[]] * 5001}).encode()
    assert (
        "docs has 5001 documents; a query may have 5000" in RankingService(PerceptronRanker()).handle(request).answer["error"]
    )


@pytest.mark.parametrize("form", [in_columns, in_binary])
def test_a_query_waits_survives_a_restart_and_is_forgotten_by_a_document(form, tmp_path):
    body = form(ROWS, id="q")
    assert request_of(text_of(body)) == body
    state = DurableService(RankingService(AdditiveRanker()), tmp_path / "state")
    answer = state.service.handle(body)
    state.append([answer.outcome, state.service.handle(form(ROWS, id="gone")).outcome], sync=True)
    state.close()
    again = DurableService(RankingService(AdditiveRanker()), tmp_path / "state")
    assert again.service.handle(b'{"id": "q", "grades": {"a": 0, "b": 2, "\xc3\xa9": 1}}').answer["learned"]
    assert len(again.forget(Forget(document="é")).queries) == 1
    assert again.service.n_waiting == 0
    again.close()


@pytest.mark.parametrize("form", [in_columns, in_binary])
def test_documents_without_a_grade_are_left_out(form):
    services = [RankingService(AdditiveRanker()) for _ in range(2)]
    for service, make in zip(services, (as_documents, form), strict=True):
        assert service.handle(make(ROWS, id=1, grades={"a": 0, "é": 1}, ungraded="skip")).answer["learned"]
    assert to_bytes(services[0].model) == to_bytes(services[1].model)


def test_the_mapping_is_the_documents():
    query = Columns(FEATURES, DOCUMENTS, np.array([[1, 2, np.nan], [4, 5, 6], [7, 8, 9]], np.float32))
    assert dict(query) == {"a": {"clicks": 1.0, "price": 2.0}} | {
        d: dict(zip(FEATURES, row, strict=True)) for d, row in zip("bé", [[4.0, 5.0, 6.0], [7.0, 8.0, 9.0]], strict=True)
    }
    assert "a" in query
    assert "z" not in query


def test_http_takes_both_and_pages_that_take_no_queries_do_not():
    async def scenario(client, app):
        kind = {"content-type": BINARY}
        taught = await client.post("/learn", content=in_binary(ROWS, id=0, grades=GRADES), headers=kind)
        assert taught.json()["learned"]
        ranked = await client.post("/rank", content=in_binary(ROWS, id=1), headers=kind)
        assert ranked.json()["ranking"][0] == "b"
        again = await client.post("/rank", content=in_columns(ROWS, id=2), headers={"content-type": "application/json"})
        assert again.json()["scores"] == ranked.json()["scores"]
        explained = await client.post("/explain", content=in_binary(ROWS, id=1, explain=["b", "a"]), headers=kind)
        assert explained.json()["explanation"]["difference"] > 0
        refused = await client.post("/forget", content=b"{}", headers=kind)
        assert refused.status_code == 415
        cut = await client.post("/rank", content=in_binary(ROWS, id=3)[:-2], headers=kind)
        assert (cut.status_code, "rows has 34 bytes" in cut.json()["error"]) == (400, True)
        described = (await client.get("/openapi.json")).json()
        content = described["paths"]["/rank"]["post"]["requestBody"]["content"]
        assert {*content} == {"application/json", BINARY}
        assert BINARY not in described["paths"]["/forget"]["post"]["requestBody"]["content"]
        assert BINARY in (await client.get("/docs")).text

    asked(scenario, RankingApp(Models(lambda: RankingService(AdditiveRanker()))))


def test_a_service_that_cannot_keep_anything_ranks_binary_greedily():
    reply = RankingService(SwapRanker()).handle(in_binary(ROWS, id=1), greedy=True)
    assert reply.answer["ranking"]
    assert not reply.changed


@pytest.mark.slow
def test_stream_takes_columns(tmp_path):
    lines = b"\n".join([in_columns(ROWS, id=1, grades=GRADES), in_columns(ROWS, id=2)])
    command = [sys.executable, "-m", "online_rank", "stream", "--save", str(tmp_path / "model")]
    answers = subprocess.run(command, input=lines, capture_output=True, check=True).stdout.splitlines()
    assert json.loads(answers[1])["ranking"][0] == "b"
    assert load(tmp_path / "model").feature_names == tuple(FEATURES)
    assert read(lines.splitlines()[1]).given["a"] == {"clicks": 3, "price": 9.5, "naïve": 1.0}


def test_documents_name_their_features_in_any_order():
    rng = np.random.default_rng(0)
    service, model = RankingService(AdditiveRanker()), AdditiveRanker()
    for t in range(30):
        values = [dict(zip("abc", row, strict=True)) for row in rng.normal(size=(6, 3)).tolist()]
        docs = {f"d{i}": {name: x[name] for name in ("abc", "cab", "bca")[i % 3]} for i, x in enumerate(values)}
        answer = service.handle(json.dumps({"id": t, "docs": docs}).encode(), at=1.0).answer
        assert dict(zip(answer["ranking"], answer["scores"], strict=True)) == model.predict_one(docs)
        grades = {name: i % 3 for i, name in enumerate(docs)}
        assert service.handle(json.dumps({"id": t, "grades": grades}).encode(), at=1.0).answer["learned"]
        model.learn_one(docs, grades)
    assert to_bytes(service.model) == to_bytes(model)
