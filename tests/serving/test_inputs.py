"""What goes into a model: unknown and missing features, and drift."""

import asyncio
import json
import tracemalloc

import httpx
import numpy as np
import pytest

from online_rank import CrossFeatures, PerceptronRanker, StreamScaler
from online_rank.rankers.frozen import FrozenRanker
from online_rank.serving import Models, RankingApp, RankingService, inputs
from online_rank.serving.durable import DurableService
from online_rank.serving.inputs import InputWatch, stability_index
from online_rank.serving.served import ServedModel


@pytest.fixture(autouse=True)
def nothing_logged(monkeypatch):
    monkeypatch.setattr(inputs, "_LOGGED", set())


def documents(rng, n=5, shift=0.0, **more):
    return {str(i): {"price": rng.normal() + shift, "age": int(rng.integers(3)), **more} for i in range(n)}


def watched(n=100, **options):
    watch, rng = InputWatch(documents=200, **options), np.random.default_rng(0)
    for _ in range(n):
        watch.look(documents(rng))
    return watch, rng


def test_the_index_equals_the_definition():
    reference, current = np.array([9.5, 29.5, 59.5]), np.array([19.5, 39.5, 39.5])
    p, q = (0.1, 0.3, 0.6), (0.2, 0.4, 0.4)
    expected = sum((b - a) * np.log(b / a) for a, b in zip(p, q, strict=True))
    assert stability_index(reference, current) == pytest.approx(expected, rel=1e-12)
    assert stability_index(reference, reference) == 0.0


def test_the_first_documents_are_the_reference():
    watch, _ = watched(39)
    assert not watch.has_reference
    assert watch.look(documents(np.random.default_rng(1)))
    assert watch.figures()["reference"] == 200
    # Half of 200 documents are at or below the median.
    edges, histogram = json.loads(watch.to_json())["features"]["price"]
    assert len(edges) == 9
    assert histogram == [0.0] + [20.0] * 10


def test_values_like_the_reference_do_not_drift_and_others_do():
    watch, rng = watched(400)
    assert max(watch.drift().values()) < 0.15
    for _ in range(400):
        watch.look(documents(rng, shift=1.0))
    drift = watch.drift()
    assert drift["price"] > 0.25 > 0.15 > drift["age"]
    assert [*watch.figures()["drift"]] == ["price", "age"]


def test_a_typo_is_unknown_and_what_it_should_have_been_is_missing(caplog):
    watch, rng = watched(40)
    for _ in range(3):
        docs = {str(i): {"prise": 1.0, "age": 1} for i in range(4)}
        watch.look(docs)
    watch.look(documents(rng))
    found = watch.figures()
    assert (found["with_unknown"], found["with_missing"]) == (3, 3)
    assert found["unknown"] == {"prise": 3}
    assert found["missing"] == {"price": 3}
    # It is learned as another feature; the log says so once, also if the model of a key was put away and is back.
    watched(40)[0].look({"a": {"prise": 1.0}})
    assert [line for line in caplog.messages if "'prise'" in line] == [
        "feature 'prise' is new, or a typo: neither the model nor the reference of features knows it"
    ]


def test_a_feature_that_is_null_is_missing():
    watch = InputWatch(documents=10)
    for _ in range(10):
        watch.look({"a": {"x": 1.0, "y": 2.0}})
    watch.look({"a": {"x": 1.0, "y": None}, "b": {"x": 3.0, "y": None}})
    assert watch.figures()["missing"] == {"y": 1}
    assert watch.n_with_missing == 1


def test_a_model_that_has_learned_knows_its_features_from_the_start():
    watch = InputWatch(PerceptronRanker.from_weights({"price": 1.0, "age": 2.0}))
    watch.look({"a": {"price": 1.0, "prise": 1.0}})
    assert watch.figures()["unknown"] == {"prise": 1}


WEIGHTS = {"price": -1.0, "age": 9.0, "clicks": 3.0, "constant": 0.0}


def test_what_the_model_needs_is_missing_from_the_first_query_on():
    """The first documents said what is expected: the feature with the largest weight could be missing for ever."""
    watch, rng = InputWatch(PerceptronRanker.from_weights(WEIGHTS), documents=200), np.random.default_rng(0)
    for n in range(1, 101):
        watch.look({str(i): {"price": rng.normal(), "clicks": 1.0} for i in range(5)})
        assert (watch.figures()["missing"], watch.n_with_missing) == ({"age": n}, n)
    assert watch.has_reference
    # A process that has the reference knows what is needed, too, and so does one whose model is replaced.
    again = InputWatch(PerceptronRanker.from_weights(WEIGHTS))
    again.restore(watch.to_json())
    again.look({"a": {"price": 1.0, "clicks": 1.0}})
    assert again.figures()["missing"] == {"age": 1}
    again.serve(PerceptronRanker.from_weights({"price": 1.0, "rating": 1.0}))
    again.look({"a": {"price": 1.0, "clicks": 1.0, "rating": None}})
    assert again.figures()["missing"] == {"age": 1, "rating": 1}
    assert again.figures()["unknown"] == {}


def test_features_that_a_model_makes_are_not_needed():
    model = StreamScaler() | CrossFeatures("user") | PerceptronRanker()
    for user in "ab":
        model.learn_one(
            {"x": {"price": 1.0, "age": 1.0}, "y": {"price": 2.0, "age": 3.0}}, {"x": 1, "y": 0}, context={"user": user}
        )
    watch = InputWatch(model)
    watch.look({"a": {"price": 1.0, "age": 1.0}})
    assert watch.n_with_missing == 0
    watch.look({"a": {"age": 1.0}})
    assert watch.figures()["missing"] == {"price": 1}


def test_a_model_of_words_does_not_need_them_all_in_each_query():
    words = [f"word {j}" for j in range(400)]
    watch, rng = InputWatch(PerceptronRanker.from_weights(dict.fromkeys(words, 1.0)), documents=200), np.random.default_rng(0)
    for _ in range(100):
        watch.look({str(i): dict.fromkeys(rng.choice(words, 10).tolist(), 1.0) for i in range(5)})
    assert watch.n_with_missing == 0


def test_what_comes_now_and_then_is_not_needed_once_there_is_a_reference():
    watch = InputWatch(PerceptronRanker.from_weights(WEIGHTS), documents=100)
    for n in range(40):
        watch.look({str(i): {"price": 1.0, "clicks": 2.0, **({} if n % 2 else {"age": 1.0})} for i in range(5)})
    # Of the twenty queries with the first hundred documents, every other one lacks it.
    assert watch.figures()["missing"] == {"age": 10}


def test_what_is_kept_is_bounded(caplog):
    watch = InputWatch(PerceptronRanker.from_weights({"x": 1.0}), documents=10)
    for i in range(300):
        watch.look({str(j): {f"f{i}": 1.0, f"g{i}": "text"} for j in range(2)})
    assert len(watch._unknown) == len(caplog.messages) == 100
    assert len(watch._edges) <= 300
    assert watch.n_with_unknown == 300


def test_few_queries_are_looked_at_where_many_come():
    now = [0.0]
    watch = InputWatch(clock=lambda: now[0])
    for _ in range(1000):
        now[0] += 0.001
        if now[0] >= watch.looks_from:
            watch.look({"a": {"x": 1.0}})
    assert 18 <= watch.n_queries <= 22


def test_the_reference_survives_and_damage_begins_another(tmp_path, caplog):
    def make():
        return RankingService(StreamScaler() | PerceptronRanker())

    watch, _ = watched(60)
    durable = DurableService(make(), tmp_path)
    (tmp_path / "features.json").write_bytes(watch.to_json())

    async def main():
        model = ServedModel(durable)
        assert model.inputs.has_reference
        assert model.inputs.to_json() == watch.to_json()
        (tmp_path / "features.json").write_text("[")
        assert not ServedModel(durable).inputs.has_reference
        await model.close()

    asyncio.run(main())
    assert "a new reference of features begins" in caplog.text
    with pytest.raises(ValueError, match="damaged"):
        InputWatch().restore(b'{"known": [], "expected": [], "features": {"a": [[1], [2]]}}')


@pytest.mark.parametrize(
    "features",
    [
        "null", "3", '["a"]', "[" * 3000, '{"a": 3}', '{"a": [[1, 0], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]]}',
        '{"a": [[1], [-1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]]}', '{"a": [[1], [NaN, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]]}',
        '{"a": [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]]}',
    ],
)  # fmt: skip
def test_a_reference_that_somebody_wrote_is_refused(features):
    """An AttributeError kept the server from starting, and twelve edges let a later query raise IndexError."""
    with pytest.raises(ValueError, match="the reference of features is damaged"):
        InputWatch().restore(f'{{"known": [], "expected": [], "features": {features}}}'.encode())


def test_the_server_looks_and_says(tmp_path):
    async def main():
        app = RankingApp(Models(lambda: RankingService(StreamScaler() | PerceptronRanker()), directory=tmp_path))
        model = app.models.open_models[""]
        model.inputs = InputWatch(documents=200, clock=iter(range(10**6)).__next__)
        rng = np.random.default_rng(3)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            for i in range(90):
                docs = documents(rng) if i < 80 else {"a": {"prise": 1.0}}
                assert (await client.post("/rank", json={"id": i, "docs": docs})).status_code == 200
            found = (await client.get("/stats")).json()["inputs"]
            text = (await client.get("/metrics")).text
            # Of a user of that name, who is no feature.
            before = (tmp_path / "features.json").read_text()
            await client.post("/forget", json={"context": {"user": "price"}})
            assert (tmp_path / "features.json").read_text() == before
            assert model.inputs.figures()["missing"] == {"price": 10, "age": 10}
            model.inputs.forget("price".__eq__)
            assert model.inputs.figures()["missing"] == {"age": 10}
        await app.models.close()
        return found, text

    found, text = asyncio.run(main())
    assert found["with_unknown"] == 10
    assert found["missing"] == {"price": 10, "age": 10}
    assert "online_rank_unknown_inputs_total 10.0" in text
    assert "online_rank_input_drift 0." in text


def test_a_name_that_no_file_can_have_is_no_failure_of_a_request(tmp_path, caplog):
    async def main():
        model = PerceptronRanker.from_weights({"x": 1.0, "\ud800": 1.0})
        served = ServedModel(DurableService(RankingService(model), tmp_path))
        served.inputs._documents = 2
        status, _ = await served.answer(b'{"id": 1, "docs": {"a": {"x": 1}, "b": {"x": 2}}}')
        await served.close()
        return status

    assert asyncio.run(main()) == 200
    assert "the reference of features cannot be kept" in caplog.text


@pytest.mark.slow
def test_names_are_kept_within_limits_for_any_requests():
    watch = InputWatch(documents=1000)
    tracemalloc.start()
    for i in range(250):
        watch.look({str(k): {f"{i} {k} {j}": 1.0 for j in range(300)} | {f"{i} {k} " * 10_000: 1.0} for k in range(5)})
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert watch.has_reference
    assert kept < 4_000_000
    assert len(watch.to_json()) < 200_000
    # With this many names, the unknown ones cannot be listed.
    watch.look({"a": {"never met": 1.0}})
    assert watch.n_with_unknown == 0
    again = InputWatch()
    again.restore(watch.to_json())
    again.look({"a": {"never met": 1.0}})
    assert again.n_with_unknown == 0


def test_a_model_of_a_file_looks_at_some_features_and_the_first_documents_name_the_others():
    watch, rng = InputWatch(FrozenRanker(PerceptronRanker.from_weights({"price": 1.0})), documents=50), np.random.default_rng(0)
    for _ in range(20):
        watch.look(documents(rng, brand="acme"))
    assert (watch.n_with_unknown, watch.n_with_missing) == (0, 0)
    watch.look(documents(rng, brnad="acme"))
    assert watch.figures()["unknown"] == {"brnad": 1}
    watch.look({"a": {"age": 1, "brand": "acme"}})
    assert watch.figures()["missing"] == {"price": 1}


def test_an_integer_that_no_float_holds_is_no_number():
    watch = InputWatch(documents=10)
    for _ in range(5):
        watch.look({"a": {"x": 10**400, "y": 1.0}, "b": {"x": 1.0, "y": 2.0}})
    assert watch.has_reference
    watch.look({"a": {"x": 10**400, "y": 1.0}})


@pytest.mark.parametrize("value", [1.0, "x"])
@pytest.mark.parametrize("n", [400, 20_001])
def test_one_request_with_many_names_blinds_nobody(n, value):
    """400 numbers took all places in the reference; after 20,001 names no name was unknown any more."""
    now = iter(range(10_000))
    watch, rng = InputWatch(documents=200, clock=lambda: float(next(now))), np.random.default_rng(0)
    watch.look({"a": {f"junk {k}": value for k in range(n)}})
    for _ in range(60):
        watch.look(documents(rng))
    assert watch.has_reference
    for _ in range(60):
        watch.look({name: {"aeg": 1.0, "price": x["price"] + 9.0} for name, x in documents(rng).items()})
    figures = watch.figures()
    assert (figures["unknown"], figures["missing"], figures["with_missing"]) == ({"aeg": 60}, {"age": 60}, 60)
    assert figures["drift"]["price"] > 0.25


def test_names_that_somebody_invents_hide_no_typo(caplog):
    """150 invented names took all places of the page and of the log."""
    watch, rng = watched(60)
    watch.look({"a": {f"junk {k}": 1.0 for k in range(150)}})
    for _ in range(20):
        watch.look(documents(rng, aeg=1.0))
    assert next(iter(watch.figures()["unknown"].items())) == ("aeg", 20)
    assert len([line for line in caplog.messages if "is new, or a typo" in line]) == 11
    assert any("'aeg'" in line for line in caplog.messages)
