import numpy as np
import pytest
from river import preprocessing

from online_rank import ForEachDocument, PerceptronRanker, QueryNormalizer, StreamScaler
from online_rank.base import QueryUnion
from online_rank.base.schema import declared_state
from tests.helpers import as_dicts, teacher_queries


def test_a_union_gives_what_its_parts_give():
    union, scaler, normalizer = StreamScaler() + QueryNormalizer(), StreamScaler(), QueryNormalizer()
    for X, y in teacher_queries():
        union.learn_one(X, y)
        scaler.learn_one(X)
        assert np.array_equal(union.transform_one(X), np.hstack([scaler.transform_one(X), normalizer.transform_one(X)]))


def test_names_are_distinguished():
    X, y = teacher_queries()[0]
    x, _ = as_dicts(X, y)
    answer = (StreamScaler() + QueryNormalizer()).transform_one(x)
    assert list(answer["doc0"]) == [f"{kind}.{name}" for kind in ("StreamScaler", "QueryNormalizer") for name in "abc"]
    twice = (QueryNormalizer() + QueryNormalizer()).transform_one(x)
    assert list(twice["doc0"]) == [f"{kind}.{name}" for kind in ("QueryNormalizer", "QueryNormalizer2") for name in "abc"]


def test_three_before_a_ranker():
    model = (StreamScaler() + QueryNormalizer("minmax") + QueryNormalizer()) | PerceptronRanker()
    for X, y in teacher_queries():
        model.learn_one(X, y)
    assert model["PerceptronRanker"].n_features == 9


def test_a_query_that_one_part_refuses_changes_neither():
    union = StreamScaler() + StreamScaler()
    union.learn_one(np.ones((2, 3)))
    with pytest.raises(ValueError, match="finite"):
        union.learn_one(np.array([[1.0, np.nan, 0.0]]))
    assert declared_state(union.first).count == declared_state(union.second).count == 2


def test_other_things_are_refused():
    with pytest.raises(TypeError, match="ForEachDocument"):
        StreamScaler() + preprocessing.StandardScaler()
    with pytest.raises(TypeError, match="second is 3"):
        QueryUnion(StreamScaler(), 3)
    with pytest.raises(TypeError, match="product"):
        StreamScaler() * StreamScaler()


def test_texts_reach_the_parts_that_take_them():
    from river import compose

    kind = ForEachDocument(compose.Select("kind") | preprocessing.OneHotEncoder())
    model = (kind + ForEachDocument(compose.Select("length"))) | PerceptronRanker()
    query = {"a": {"kind": "pdf", "length": 3.0}, "b": {"kind": "html", "length": 1.0}}
    model.learn_one(query, {"a": 0, "b": 2})
    assert model.rank_one(query) == ["b", "a"]
    assert set(model["PerceptronRanker"].feature_names) == {
        "ForEachDocument.kind_pdf", "ForEachDocument.kind_html", "ForEachDocument2.length",
    }  # fmt: skip
    # A part that takes numbers alone names what it cannot take.
    with pytest.raises(TypeError, match="feature 'kind' of document 'a' is 'pdf'"):
        ((kind + StreamScaler()) | PerceptronRanker()).learn_one(query, {"a": 0, "b": 2})
    numbers = {"a": {"kind": 1.0, "length": 3.0}, "b": {"kind": 2.0, "length": 1.0}}
    both = (ForEachDocument(compose.Select("length")) + StreamScaler()) | PerceptronRanker()
    both.learn_one(numbers, {"a": 0, "b": 2})
    assert both.rank_one(numbers) == ["b", "a"]
