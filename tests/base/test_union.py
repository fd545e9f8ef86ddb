import numpy as np
import pytest
from river import preprocessing

from online_rank import PerceptronRanker, QueryNormalizer, SignedLog, StreamScaler
from online_rank.base import QueryUnion
from tests.helpers import as_dicts, teacher_queries


def test_a_union_gives_what_its_parts_give():
    union, scaler, log = StreamScaler() + SignedLog(), StreamScaler(), SignedLog()
    for X, y in teacher_queries():
        union.learn_one(X, y)
        scaler.learn_one(X)
        assert np.array_equal(union.transform_one(X), np.hstack([scaler.transform_one(X), log.transform_one(X)]))


def test_names_are_told_apart():
    X, y = teacher_queries()[0]
    x, _ = as_dicts(X, y)
    answer = (SignedLog() + QueryNormalizer()).transform_one(x)
    assert list(answer["doc0"]) == [f"{kind}.{name}" for kind in ("SignedLog", "QueryNormalizer") for name in "abc"]
    twice = (SignedLog() + SignedLog()).transform_one(x)
    assert list(twice["doc0"]) == [f"{kind}.{name}" for kind in ("SignedLog", "SignedLog2") for name in "abc"]


def test_three_before_a_ranker():
    model = (StreamScaler() + SignedLog() + QueryNormalizer()) | PerceptronRanker()
    for X, y in teacher_queries():
        model.learn_one(X, y)
    assert model["PerceptronRanker"].n_features == 9


def test_a_query_that_one_part_refuses_changes_neither():
    union = StreamScaler() + StreamScaler()
    union.learn_one(np.ones((2, 3)))
    with pytest.raises(ValueError, match="finite"):
        union.learn_one(np.array([[1.0, np.nan, 0.0]]))
    assert union.first._count == union.second._count == 2


def test_other_things_are_refused():
    with pytest.raises(TypeError, match="ForEachDocument"):
        StreamScaler() + preprocessing.StandardScaler()
    with pytest.raises(TypeError, match="second is 3"):
        QueryUnion(StreamScaler(), 3)
    with pytest.raises(TypeError, match="product"):
        StreamScaler() * StreamScaler()
