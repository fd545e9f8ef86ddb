import copy
import json
import pickle
import re

import numpy as np
import pytest

from online_rank._kernels.codes import PLACKETT_LUCE
from online_rank.feedback import Clicks, Impression
from online_rank.feedback.arrays import ShownBlock, shown_block
from online_rank.query import read_query


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


def test_what_is_stored_says_its_format():
    kept = Impression(("b", "a"), logits=(0.5, 0.0)).to_dict()
    assert kept == {"format": 1, "order": ["b", "a"], "logits": [0.5, 0.0]}
    assert Impression.from_dict({"order": ["b", "a"]}) == Impression(("b", "a"))  # what is lacking has its default
    for version in (2, 0, "1", None, True):
        with pytest.raises(ValueError, match="format is"):
            Impression.from_dict({**kept, "format": version})
    with pytest.raises(ValueError, match="no field 'place'"):
        Impression.from_dict({**kept, "place": 3})
    with pytest.raises(ValueError, match="needs its order"):
        Impression.from_dict({"format": 1})


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
        (lambda: Impression(("a",)).clicked({"a": -1}), ValueError, "gains: document 'a' has -1.0"),
        (lambda: Impression(("a",)).clicked({"a": float("inf")}), ValueError, "gains has inf"),
        (lambda: Clicks(Impression(("a", "b")), (1.0,)), ValueError, "gains has 1 values for 2 documents"),
        (lambda: Clicks(("a", "b"), (1.0, 0.0)), TypeError, "impression is of type tuple"),
    ],
)
def test_bad_input(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_impressions_as_arrays():
    X = np.zeros((12, 1))
    clicks = [
        Impression((2, 0), logits=(0.5, 0.1), rest=0.0, positions=(2, 5)).clicked([0]),
        Impression((1,), logits=(0.3, 0.2, 0.1), held_back=(3, 0), positions=(4,)).clicked([1]),
        Impression((0, 1), pairs_from=1).clicked([]),
    ]
    shown = shown_block(read_query(X, clicks, qid=np.repeat([7, 8, 9], 4)))
    assert shown.rows.tolist() == [2, 0, 1, 3, 0, 0, 1]
    assert shown.starts.tolist() == [0, 2, 5, 7]
    assert shown.held.tolist() == [0, 2, 0]
    assert shown.gains.tolist() == [0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    # Positions 2 and 5; position 4, and those held back below it; 1 and 2.
    assert shown.places.tolist() == [1, 4, 3, 4, 4, 0, 1]
    assert shown.logits.tolist() == [0.5, 0.1, 0.3, 0.2, 0.1, 0.0, 0.0]
    assert shown.rests.tolist() == [0.0, -np.inf, -np.inf]
    assert shown.kinds.tolist() == [PLACKETT_LUCE, PLACKETT_LUCE, 1]


@pytest.mark.parametrize("n_queries", [2, 30])
def test_long_blocks_are_the_queries_one_by_one(n_queries):
    rng = np.random.default_rng(0)
    sizes = rng.integers(3, 9, n_queries)
    clicks = []
    for q, m in enumerate(sizes):
        order = tuple(rng.permutation(m)[:3].tolist())
        others = tuple(i for i in range(m) if i not in order)[: q % 2]
        logits = tuple(rng.normal(size=3 + len(others)).tolist())
        positions = (1, 4, 6) if q % 3 == 0 else None
        clicks.append(Impression(order, logits, held_back=others, positions=positions).clicked(order[:1]))
    X, qid = np.zeros((sizes.sum(), 1)), np.repeat(np.arange(n_queries), sizes)
    together = shown_block(read_query(X, clicks, qid=qid))
    alone = [shown_block(read_query(np.zeros((m, 1)), [each], qid=np.zeros(m))) for m, each in zip(sizes, clicks, strict=True)]
    for name in set(ShownBlock._fields) - {"starts"}:
        expected = np.concatenate([getattr(each, name) for each in alone])
        assert getattr(together, name).dtype == expected.dtype
        np.testing.assert_array_equal(getattr(together, name), expected)
    np.testing.assert_array_equal(np.diff(together.starts), [each.starts[1] for each in alone])


@pytest.mark.parametrize("n_queries", [2, 30])
@pytest.mark.parametrize("wrong", [-1, 4, True, 1.0, "1", None, 2**70])
def test_documents_without_ids_are_numbers_of_their_query(wrong, n_queries):
    fine = [Impression.shuffled((0, 2, 3)).clicked([2]) for _ in range(n_queries - 1)]
    bad = Impression.shuffled((0, wrong, 3)).clicked([])
    X, qid = np.zeros((5 * n_queries - 1, 1)), np.repeat(np.arange(n_queries), 5)[:-1]
    message = f"document {re.escape(repr(wrong))} was shown, but x has the documents 0 to 3"
    with pytest.raises(ValueError, match=message):
        shown_block(read_query(X, [*fine, bad], qid=qid))
    shown_block(read_query(X, [*fine, Impression.shuffled((np.int64(0), np.int32(1), 3)).clicked([])], qid=qid))


def test_an_impression_says_how_its_list_came_about():
    shown = Impression(("a", "b"), propensities=(0.5, 0.25), positions=np.array([1, 3]))
    assert (shown.chances, shown.positions) == ((0.5, 0.25), (1, 3))
    assert Impression(("a",)).chances is None
    assert Impression.shuffled(("a", "b"), 3).chances == pytest.approx((1 / 3, 1 / 2))
    assert Impression.shuffled(("a", "b")).chances == pytest.approx((1 / 2, 1.0))
    for each in (shown, Impression(("a",), logits=(0.0, 0.0), held_back=("b",)), Impression(("a",), placements=(1.0,))):
        assert Impression.from_dict(json.loads(json.dumps(each.to_dict()))) == each


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"positions": (2, 2)}, "positions is .*; they rise"),
        ({"positions": (0, 1)}, "positions is 0"),
        ({"positions": (1,)}, "positions has 1 values for 2 documents"),
        ({"propensities": (0.5, 0.0)}, r"propensities has 0\.0; it is one probability"),
        ({"placements": (0.5, 1.5)}, r"placements has 1\.5"),
        ({"held_back": ("c",)}, "held_back goes with logits or pairs_from"),
        ({"held_back": ("a",), "logits": (0.0,) * 3}, "shows document 'a' twice"),
        ({"held_back": ("c",), "logits": (0.0,) * 2}, "logits has 2 values for 3 documents"),
    ],
)
def test_fields_that_do_not_fit(fields, message):
    with pytest.raises(ValueError, match=message):
        Impression(("a", "b"), **fields)
