import math

import numpy as np
import pandas as pd
import pytest

from online_rank import PerceptronRanker, RunFeatures, Runs, Vectors, drop_ungraded, hybrid

PAGES = {"a": {"x": 1.0}, "b": {"x": 2.0}, "c": {"x": 3.0}}


@pytest.mark.parametrize(
    ("missing", "negative", "grades"),
    [
        (0, 0, {"a": 1, "b": 0, "c": 0}),
        ("skip", 0, {"a": 1, "c": 0}),
        (0, "skip", {"a": 1, "b": 0}),
        ("skip", "skip", {"a": 1}),
    ],
)
def test_policies(missing, negative, grades):
    x, y = drop_ungraded(PAGES, {"a": 1, "c": -2}, missing=missing, negative=negative)
    assert (y, list(x)) == (grades, list(grades))
    PerceptronRanker().learn_one(x, y)


@pytest.mark.parametrize("nothing", [None, math.nan, pd.NA])
def test_forms(nothing):
    y = [1, nothing, -1]
    X, grades = drop_ungraded(np.arange(6.0).reshape(3, 2), y, missing="skip", negative=0)
    assert (X.tolist(), grades) == ([[0.0, 1.0], [4.0, 5.0]], [1, 0])
    frame, grades = drop_ungraded(pd.DataFrame({"x": [1.0, 2.0, 3.0]}), y, missing=0, negative="skip")
    assert (frame["x"].tolist(), grades) == ([1.0, 2.0], [1, 0])
    rows, grades = drop_ungraded([{"x": 1.0}, {"x": 2.0}, {"x": 3.0}], np.array([1, -1, -1]), negative="skip")
    assert (rows, grades.tolist()) == ([{"x": 1.0}], [1])
    rows, grades = drop_ungraded(np.eye(3), np.ma.masked_equal([1, 9, 0], 9), missing="skip")
    assert (rows.tolist(), type(grades), grades.tolist()) == ([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], np.ndarray, [1, 0])


def test_lists_of_retrievers():
    model, query = hybrid(["bm25", "vector"]), Runs({"bm25": {"a": 2.0, "b": 1.0}, "vector": {"c": 1.0, "b": 0.5}})
    with pytest.raises(ValueError, match=r"drop_ungraded\(x, y, missing=0\)"):
        model.learn_one(query, {"c": 1})
    x, y = drop_ungraded(query, {"c": 1}, missing=0)
    assert (x, y) == (query, {"a": 0, "b": 0, "c": 1})
    model.learn_one(x, y)
    assert drop_ungraded(query, [1, None, 0], missing=0) == (query, [1, 0, 0])
    # Without a document the lists would be normalised otherwise than they were ranked.
    with pytest.raises(ValueError, match=r"no document can be left out.*features.transform_one"):
        drop_ungraded(query, {"c": 1}, missing="skip")
    made = RunFeatures(["bm25", "vector"]).transform_one(query)
    assert drop_ungraded(made, {"c": 1, "a": 0}, missing="skip") == ({"a": made["a"], "c": made["c"]}, {"a": 0, "c": 1})
    with pytest.raises(ValueError, match="grades document 'z'"):
        drop_ungraded(query, {"z": 1}, missing=0)


def test_vectors():
    named = Vectors([1.0, 1.0], {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [1.0, 2.0]})
    x, y = drop_ungraded(named, {"c": 1, "a": 0}, missing="skip")
    assert (x.ids, x.products.tolist(), y) == (("a", "c"), named.products[[0, 2]].tolist(), {"a": 0, "c": 1})
    PerceptronRanker().learn_one(x, y)
    x, grades = drop_ungraded(Vectors([1.0, 1.0], np.eye(2)), np.array([1, -1]), negative="skip")
    assert (x.ids, len(x), grades.tolist()) == (None, 1, [1])


def test_errors_name_the_document_and_the_remedy():
    with pytest.raises(ValueError, match="document 'b' has no grade; missing=0"):
        drop_ungraded(PAGES, {"a": 1, "c": 2})
    with pytest.raises(ValueError, match="document 2 has the grade -2; negative=0"):
        drop_ungraded([[1.0]] * 3, [0, 1, -2])
    with pytest.raises(ValueError, match="grades document 'z', which is not in x"):
        drop_ungraded(PAGES, {"z": 1}, missing=0)
    with pytest.raises(ValueError, match="missing is True"):
        drop_ungraded(PAGES, {}, missing=True)
    with pytest.raises(TypeError, match="no ids"):
        drop_ungraded([[1.0]], {"a": 1})
    for y, advice in (({"a": 1, "b": 0}, "missing=0"), ({"a": 1, "b": 0, "c": -1}, "negative=0")):
        with pytest.raises(ValueError, match=rf"drop_ungraded\(x, y, {advice}\)"):
            PerceptronRanker().learn_one(PAGES, y)
