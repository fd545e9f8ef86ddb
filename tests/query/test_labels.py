"""Labels of pandas decide which grade is of which document; they are not passed over."""

import numpy as np
import pandas
import pytest

from online_rank import PerceptronRanker, drop_ungraded, metrics
from online_rank.query import read_query


@pytest.fixture
def frame():
    return pandas.DataFrame({"clicks": [1.0, 2.0, 3.0]}, index=["d1", "d2", "d3"])


def grades(values, labels=None):
    return pandas.Series(values, index=labels)


def test_grades_go_to_the_documents_that_their_labels_name(frame):
    by_label = grades([2, 0, 1], ["d3", "d1", "d2"])
    documents = {"d1": {"clicks": 1.0}, "d2": {"clicks": 2.0}, "d3": {"clicks": 3.0}}
    assert read_query(frame, by_label).y.tolist() == [0, 1, 2]
    assert read_query(documents, by_label).y.tolist() == [0, 1, 2]
    assert read_query(documents, [0, 1, 2], served=by_label).served.tolist() == [0, 1, 2]


def test_the_ranker_learns_what_the_labels_say(frame):
    # The document with the largest value is the relevant one; by position it was the smallest.
    model = PerceptronRanker()
    model.learn_one(frame, grades([2, 0, 0], ["d3", "d1", "d2"]))
    assert model.weights[0] > 0


@pytest.mark.parametrize("labels", [None, ["d1", "d2", "d3"]])
def test_grades_without_labels_or_with_the_same_are_in_order(frame, labels):
    assert read_query(frame, grades([0, 1, 2], labels)).y.tolist() == [0, 1, 2]
    assert read_query(frame.reset_index(drop=True), grades([0, 1, 2], labels)).y.tolist() == [0, 1, 2]


def test_values_of_a_larger_table_go_to_documents_in_its_order():
    part = grades([9, 9, 2, 0])[2:]
    assert read_query({"a": {"clicks": 1.0}, "b": {"clicks": 2.0}}, part).y.tolist() == [2, 0]


@pytest.mark.parametrize("labels", [["d1", "d2", "d4"], ["d1", "d1", "d2"], ["x", "y", "z"]])
def test_labels_of_other_documents_are_refused_before_anything_changes(frame, labels):
    model = PerceptronRanker()
    with pytest.raises(ValueError, match=r"y and x are labelled differently.*y\.loc\[x\.index\]"):
        model.learn_one(frame, grades([0, 1, 2], labels))
    assert not model.weights.size


def test_a_label_that_occurs_twice_is_named():
    with pytest.raises(ValueError, match="label 'a' twice"):
        read_query({"a": {"clicks": 1.0}, "b": {"clicks": 2.0}}, grades([0, 1], ["a", "a"]))


def test_many_queries(frame):
    qid, y = grades([7, 7, 8], ["d1", "d2", "d3"]), grades([5, 3, 4], ["d3", "d1", "d2"])
    block = read_query(frame, y, qid=qid)
    assert block.offsets.tolist() == [0, 2, 3]
    assert block.y.tolist() == [3, 4, 5]


def test_judged_and_metrics_follow_labels_too(frame):
    by_label = grades([2.0, np.nan, 1.0], ["d3", "d1", "d2"])
    assert drop_ungraded(frame, by_label, missing=0)[1] == [0, 1.0, 2.0]
    scores = {"d1": 0.0, "d2": 1.0, "d3": 2.0}
    metric = metrics.NDCG(k=2)
    metric.update(grades([2, 0, 1], ["d3", "d1", "d2"]), scores)
    assert metric.get() == 1.0


@pytest.mark.parametrize("which", ["x", "y", "qid"])
def test_rows_of_one_table_of_which_only_a_part_was_sorted_are_refused(which):
    given = {
        "x": pandas.DataFrame({"clicks": [1.0, 2.0, 3.0, 4.0]}),
        "y": pandas.Series([0, 1, 0, 1]),
        "qid": pandas.Series([1, 1, 2, 2]),
    }
    given[which] = given[which].iloc[[1, 0, 3, 2]]
    model = PerceptronRanker()
    with pytest.raises(ValueError, match="have the same numbers as labels, in another order"):
        model.learn_many(given["x"], given["y"], given["qid"])
    assert model.n_features == 0
    # Rows taken out of a larger table are not those that a new Series numbers.
    model.learn_many(given["x"].set_axis([7, 5, 6, 9]), pandas.Series([0, 1, 0, 1]), pandas.Series([1, 1, 2, 2]))
