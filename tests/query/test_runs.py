import math

import numpy as np
import pytest

from online_rank import PerceptronRanker, Runs, StreamScaler
from online_rank.query import Retrieved


def test_candidates_are_the_union_run_by_run_best_first():
    runs = Runs({"bm25": {"b": 1.0, "a": 3.0}, "vector": {"c": 0.2, "b": 0.9}, "none": []})
    assert runs.ids == ("a", "b", "c")
    assert runs.documents == {
        "a": {"bm25": Retrieved(3.0, 1)},
        "b": {"bm25": Retrieved(1.0, 2), "vector": Retrieved(0.9, 1)},
        "c": {"vector": Retrieved(0.2, 2)},
    }


def test_equal_scores_keep_their_order():
    assert Runs({"bm25": {"z": 1, "a": 1, "m": 2}}).ids == ("m", "z", "a")
    assert Runs({"bm25": [("m", 2), ("z", 1), ("a", 1)]}).ids == ("m", "z", "a")


def test_a_list_that_ascends_is_refused():
    # Distances, or SQLite's bm25(), for which smaller is better: read best score first they would be reversed without a word.
    with pytest.raises(ValueError, match=r"runs\['vector'\]: 'b' scores 0.4 behind 0.1; a list is best first"):
        Runs({"bm25": [("a", 1.0)], "vector": [("a", 0.1), ("b", 0.4)]})


def test_an_integer_and_its_text_are_not_two_documents():
    with pytest.raises(TypeError, match=r"7 and '7' are both documents; give all ids in one type"):
        Runs({"bm25": [(7, 1.0)], "vector": [("7", 0.4)]})
    assert Runs({"bm25": [(7, 1.0)], "vector": [("d7", 0.4)]}).ids == (7, "d7")
    assert Runs({"bm25": [(np.int64(7), 1.0)], "vector": [(7, 0.4)]}).ids == (7,)


def test_features_join_the_scores():
    runs = Runs({"bm25": [("a", 2.0)]}, {"a": {"price": 3}})
    assert runs.documents == {"a": {"bm25": Retrieved(2.0, 1), "price": 3}}


@pytest.mark.parametrize(
    ("runs", "features", "error", "message"),
    [
        ([("a", 1.0)], None, TypeError, "runs is of type list"),
        ({"bm25": "abc"}, None, TypeError, r"runs\['bm25'\] is of type str"),
        ({"bm25": ["a"]}, None, TypeError, r"runs\['bm25'\]\[0\] is 'a'; it must be \(document id, score\)"),
        ({"bm25": [("a", None)]}, None, TypeError, r"runs\['bm25'\]: the score of 'a' is None"),
        ({"bm25": [("a", True)]}, None, TypeError, r"the score of 'a' is True"),
        ({"bm25": {"a": math.nan}}, None, ValueError, r"the score of 'a' is nan"),
        ({"bm25": {"a": -math.inf}}, None, ValueError, r"the score of 'a' is -inf"),
        ({"bm25": {"a": 10**400}}, None, ValueError, r"the score of 'a' is 1000"),
        ({"bm25": [(["a"], 1.0)]}, None, TypeError, r"has the document \['a'\], which cannot be an id"),
        ({"bm25": [("a", 1.0), ("a", 2.0)]}, None, ValueError, r"runs\['bm25'\] has the document 'a' twice"),
        ({"bm25": [("a", 1.0)]}, {"b": {"price": 1}}, ValueError, "no retriever returned the document 'b'"),
        ({"bm25": [("a", 1.0)]}, {"a": {"bm25": 1}}, ValueError, "'bm25' is the name of a run, too"),
        ({"bm25": [("a", 1.0)]}, {"a": 3}, TypeError, r"features\['a'\] is of type int"),
    ],
)
def test_bad_runs_are_refused(runs, features, error, message):
    with pytest.raises(error, match=message):
        Runs(runs, features)


@pytest.mark.parametrize("model", [PerceptronRanker(), StreamScaler() | PerceptronRanker()])
def test_a_model_that_would_take_absences_for_zeros_refuses_runs(model):
    with pytest.raises(TypeError, match=r"put RunFeatures\(\) first.*; in the shell, begin with a model"):
        model.rank_one(Runs({"bm25": [("a", 1.0)]}))
