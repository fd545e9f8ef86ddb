import copy
import json
import pickle

import numpy as np
import pytest

from online_rank.feedback import Clicks, Impression


def test_clicks_by_id_in_the_order_shown():
    shown = Impression(["b", "a", "c"])
    assert shown.order == ("b", "a", "c")
    assert shown.clicked(["a", "b"]).gains == (1.0, 1.0, 0.0)
    assert shown.clicked({"a": 0.7, "c": 2}).gains == (0.0, 0.7, 2.0)
    assert shown.clicked([]).gains == (0.0, 0.0, 0.0)
    assert not shown.clicked([]).any
    assert shown.clicked(["a"]).any


def test_clicks_by_position_in_the_query():
    shown = Impression((4, 0, 7))
    assert shown.clicked([np.int64(7)]).gains == (0.0, 0.0, 1.0)


def test_frozen_and_ready_for_json():
    shown = Impression(np.array([3, 1]).tolist(), logits=np.array([0.5, -1.5]), rest=2.0)
    assert shown.logits == (0.5, -1.5)
    with pytest.raises(AttributeError):
        shown.rest = 0.0
    for each in (shown, Impression((1, 2), pairs_from=1), Impression(("x",), logits=(0.0,)), Impression(())):
        assert Impression.from_dict(json.loads(json.dumps(each.to_dict()))) == each
        assert pickle.loads(pickle.dumps(each)) == copy.deepcopy(each) == each
        assert len({each, copy.deepcopy(each)}) == 1


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Impression("abc"), TypeError, "order is of type str"),
        (lambda: Impression(3), TypeError, "order is of type int"),
        (lambda: Impression(("a", "b", "a")), ValueError, "shows document 'a' twice"),
        (lambda: Impression(("a",), logits=(1.0, 2.0)), ValueError, "logits has 2 values for 1 documents"),
        (lambda: Impression(("a",), logits=(float("nan"),)), ValueError, "logits has nan"),
        (lambda: Impression(("a",), logits=("x",)), TypeError, "logits is"),
        (lambda: Impression(("a",), rest=1.0), ValueError, "rest is 1.0"),
        (lambda: Impression(("a",), logits=(1.0,), rest=float("inf")), ValueError, "rest is inf"),
        (lambda: Impression(("a",), pairs_from=2), ValueError, "pairs_from is 2"),
        (lambda: Impression(("a",)).clicked(["b"]), ValueError, "document 'b' was not shown"),
        (lambda: Impression(("a",)).clicked("a"), TypeError, "clicks is of type str"),
        (lambda: Impression(("a",)).clicked({"a": -1}), ValueError, "that of document 'a' is -1.0"),
        (lambda: Impression(("a",)).clicked({"a": float("inf")}), ValueError, "gains has inf"),
        (lambda: Clicks(Impression(("a", "b")), (1.0,)), ValueError, "gains has 1 values for 2 documents"),
        (lambda: Clicks(("a", "b"), (1.0, 0.0)), TypeError, "impression is of type tuple"),
    ],
)
def test_bad_input(make, error, message):
    with pytest.raises(error, match=message):
        make()
