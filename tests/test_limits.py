"""What is accepted can be saved, read back and gone on from: the limits, at the doors that read them."""

import json

import numpy as np
import pytest
from river import preprocessing

from online_rank import (
    AdditiveRanker,
    BlendRanker,
    ExaminedRanker,
    ForEachDocument,
    GradientRanker,
    LossTracker,
    PerceptronRanker,
)
from online_rank.base.schema import Plain, StateError
from online_rank.limits import INT64_HIGH, INT64_LOW, LEAST_WEIGHT, MAX_ID_LENGTH, MAX_LIFTED, is_id, is_integer, is_name
from online_rank.serving.protocol import RankingService
from online_rank.storage.files import from_bytes, to_bytes

DOCS = {"a": {"x": 3}, "b": {"x": 1}}


def asked(service, query_id, docs, grades=None):
    """What a service answers to a query and its grades; after each a service must be able to continue from a file."""
    grades = {name: i % 3 for i, name in enumerate(docs)} if grades is None else grades
    answers = []
    for fields in ({"id": query_id, "docs": docs}, {"id": query_id, "grades": grades}):
        answers.append(service.handle(json.dumps(fields).encode()).answer)
        assert to_bytes(from_bytes(to_bytes(service))) == to_bytes(service)
    return answers


@pytest.mark.parametrize("query_id", [INT64_LOW, INT64_HIGH, 0, "", "x" * MAX_ID_LENGTH])
def test_every_id_that_is_accepted_can_be_saved(query_id):
    assert is_id(query_id)
    assert asked(RankingService(PerceptronRanker()), query_id, DOCS)[1]["learned"]


@pytest.mark.parametrize("query_id", [INT64_LOW - 1, INT64_HIGH + 1, "x" * (MAX_ID_LENGTH + 1), True, 1.0, None, [1]])
def test_every_other_id_is_refused(query_id):
    assert not is_id(query_id)
    service = RankingService(PerceptronRanker())
    assert all("identifies one query" in answer["error"] for answer in asked(service, query_id, DOCS))
    assert to_bytes(service) == to_bytes(RankingService(PerceptronRanker()))


@pytest.mark.parametrize("name", ["", "\ud800", 1.5, INT64_LOW, None, True, ("a", (1,)), np.float32(2)])
def test_names_that_files_hold(name):
    assert is_name(name)
    Plain().check(name, "a name", None)


@pytest.mark.parametrize("name", [INT64_LOW - 1, 2**63, frozenset(), b"x", ("a", [1]), np.complex64(1), np.datetime64("2026")])
def test_names_that_files_do_not_hold(name):
    assert not is_name(name)
    with pytest.raises(StateError, match="a name should be"):
        Plain().check(name, "a name", None)


@pytest.mark.parametrize("value", [True, np.True_, 1.0, 2**63, INT64_LOW - 1])
def test_what_is_no_integer_of_64_bits(value):
    assert not is_integer(value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LossTracker(PerceptronRanker()),
        lambda: BlendRanker([PerceptronRanker(), GradientRanker()]),
    ],
)
def test_a_first_query_without_features_can_be_saved_and_leaves_both_kinds_of_features_open(make):
    service = RankingService(make())
    assert asked(service, 1, {"a": {}, "b": {}})[1]["learned"]
    assert asked(service, 2, DOCS)[1]["learned"]
    model = make()
    model.learn_one({"a": {}, "b": {}}, {"a": 1, "b": 0})
    model.learn_one([[1.0, 0.0], [0.0, 1.0]], [0, 1])
    assert to_bytes(from_bytes(to_bytes(model))) == to_bytes(model)


@pytest.mark.parametrize("scaler", [preprocessing.MinMaxScaler, preprocessing.StandardScaler, preprocessing.MaxAbsScaler])
@pytest.mark.parametrize("value", [True, False, MAX_LIFTED, -MAX_LIFTED, 10**69, 5e-324])
def test_what_a_scaler_of_river_takes_can_be_saved(scaler, value):
    service = RankingService(ForEachDocument(scaler()) | PerceptronRanker())
    for query_id in range(3):
        assert asked(service, query_id, {"a": {"x": value}, "b": {"x": -1 * value}, "c": {}})[1].get("learned")


@pytest.mark.parametrize("value", [1e71, -1e300, 10**71, 10**400])
def test_what_a_scaler_of_river_cannot_add_up_is_refused_by_name(value):
    service = RankingService(ForEachDocument(preprocessing.StandardScaler()) | PerceptronRanker())
    before = to_bytes(service)
    answer = asked(service, 1, {"a": {"x": 1}, "b": {"x": value}})[0]
    assert "feature 'x' of document 'b'" in answer["error"]
    assert "at most 1e+70" in answer["error"]
    assert to_bytes(service) == before


def test_any_error_of_a_transformer_of_river_names_the_document():
    service = RankingService(ForEachDocument(preprocessing.Normalizer()) | PerceptronRanker())
    answer = asked(service, 1, {"a": {"x": 1}, "b": {"x": 0}})[0]
    assert "cannot take document 'b': " in answer["error"]
    assert "division by zero" in answer["error"]


@pytest.mark.parametrize("make", [PerceptronRanker, AdditiveRanker])
def test_weights_whose_squares_would_be_0_are_refused(make):
    """They were learned, and the model could not be saved: a counter was no number."""
    model, X = make(), [[0.0, 1.0], [1.0, 0.0]]
    before = to_bytes(model)
    for learn in (lambda: model.learn_one(X, [1, 0], w=1e-300), lambda: model.learn_many(X, [1, 0], [7, 7], w=[1e-300])):
        with pytest.raises(ValueError, match="w has 1e-300; it is 0 or at least 1e-75"):
            learn()
    assert to_bytes(model) == before
    model.learn_one(X, [1, 0], w=LEAST_WEIGHT)
    assert to_bytes(from_bytes(to_bytes(model))) == to_bytes(model)


def test_gains_of_clicks_whose_squares_would_be_0_are_refused():
    model = ExaminedRanker(PerceptronRanker(), examination=(1.0, 1.0))
    query = {"a": {"x": 0.0}, "b": {"x": 1.0}}
    with pytest.raises(ValueError, match="gains has 1e-300; it is 0 or at least"):
        model.show_one(query).clicked({"b": 1e-300})
    model.learn_one(query, model.show_one(query).clicked({"b": LEAST_WEIGHT}), w=LEAST_WEIGHT)
    assert to_bytes(from_bytes(to_bytes(model))) == to_bytes(model)


def test_documents_with_different_features_are_no_array_for_the_default_model():
    """A request of 83 kB took 324 MB: each document was a row of an array with the features of all others."""
    service = RankingService(AdditiveRanker())
    assert asked(service, "q", DOCS)[1]["learned"]
    docs = {f"d{i}": {f"f{i}": 1} for i in range(1000)}
    answer = service.handle(json.dumps({"id": "r", "docs": docs}).encode()).answer
    assert "AdditiveRanker needs an array of 1000000 numbers" in answer["error"]
