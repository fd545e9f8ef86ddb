import numpy as np
import pytest

from online_rank import Impression, LossTracker, PerceptronRanker
from online_rank.query import Feedback, as_feedback, read_query

CLICKS = Impression((1, 0), logits=(0.0, 0.0)).clicked([1])


def test_grades_and_clicks():
    assert isinstance(CLICKS, Feedback)
    assert as_feedback([0, 2], 1, 2).tolist() == [0, 2]
    assert as_feedback(CLICKS, 1, 2) == as_feedback([CLICKS], 1, 2) == (CLICKS,)
    assert read_query(np.eye(2), CLICKS).y == (CLICKS,)
    assert read_query(read_query(np.eye(2)), CLICKS).y == (CLICKS,)


def test_a_part_of_a_block_has_its_clicks():
    other = Impression((0,), logits=(0.0,)).clicked([])
    block = read_query(np.ones((5, 1)), [CLICKS, other, CLICKS], qid=[0, 0, 1, 2, 2])
    assert block.queries(1, 3).y == (other, CLICKS)
    assert [query.y for query in block.each()] == [(CLICKS,), (other,), (CLICKS,)]


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        ([CLICKS, CLICKS], ValueError, "y has the Clicks of 2 queries, but x has 1"),
        ([CLICKS, 1], TypeError, "y holds Clicks and int"),
        ([1, CLICKS], TypeError, "grades"),
    ],
)
def test_bad_feedback(y, error, message):
    with pytest.raises(error, match=message):
        read_query(np.eye(2), y)


def test_who_learns_from_grades_refuses_clicks():
    for model in (PerceptronRanker(), LossTracker(PerceptronRanker())):
        with pytest.raises(TypeError, match="learns from grades, not from Clicks"):
            model.learn_one(np.eye(2), CLICKS)
