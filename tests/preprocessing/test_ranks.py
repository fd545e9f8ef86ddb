import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from online_rank import PerceptronRanker, QueryRanks, StreamScaler, load, save
from online_rank.checks import check_transformer


def test_by_hand():
    X = np.array([[3.0, 7.0], [1.0, 7.0], [3.0, 7.0], [9.0, 7.0]])
    # 3: one is smaller, two are equal: (1 + 2/2)/4 - 1/2.
    expected = [[(1 + 1.0) / 4 - 0.5, 0.0], [(0 + 0.5) / 4 - 0.5, 0.0], [(1 + 1.0) / 4 - 0.5, 0.0], [(3 + 0.5) / 4 - 0.5, 0.0]]
    assert QueryRanks().transform_one(X).tolist() == np.hstack([X, expected]).tolist()
    assert QueryRanks(keep=False).transform_one(X).tolist() == expected


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.floats(-1e300, 1e300), min_size=3, max_size=3), min_size=1, max_size=40),
    st.sampled_from([np.float32, np.float64]),
)
def test_against_scipy(rows, dtype):
    X = np.clip(np.array(rows), -3e38, 3e38).astype(dtype)
    out = QueryRanks().transform_one(X)
    assert out.dtype == dtype
    assert (out[:, :3] == X).all()
    assert out[:, 3:] == pytest.approx((rankdata(X, axis=0) - 0.5) / len(X) - 0.5, abs=1e-6)


def test_each_query_by_itself():
    X, qid = np.array([[1.0], [2.0], [1.0], [2.0], [3.0]]), [1, 1, 2, 2, 2]
    many = QueryRanks(keep=False).transform_many(X, qid)
    assert many.ravel().tolist() == [-0.25, 0.25, *(QueryRanks(keep=False).transform_one(X[2:]).ravel())]


def test_names_and_forms():
    query = {"a": {"x": 2.0}, "b": {"y": 5.0}}
    assert QueryRanks().transform_one(query) == {
        "a": {"x": 2.0, "y": 0.0, "rank of x": 0.25, "rank of y": -0.25},
        "b": {"x": 0.0, "y": 5.0, "rank of x": -0.25, "rank of y": 0.25},
    }
    model = QueryRanks() | StreamScaler() | PerceptronRanker()
    model.learn_one(query, {"a": 0, "b": 1})
    assert model.rank_one(query) == ["b", "a"]
    with pytest.raises(ValueError, match="a feature is called 'rank of x'"):
        QueryRanks().transform_one([{"x": 1.0, "rank of x": 2.0}])


def test_bad_input_and_nothing():
    with pytest.raises(ValueError, match="feature 0 of document 1 is nan"):
        QueryRanks().transform_one(np.array([[1.0], [np.nan]]))
    assert QueryRanks().transform_one(np.empty((0, 2))).shape == (0, 4)


def test_contract(tmp_path):
    check_transformer(QueryRanks())
    save(QueryRanks(keep=False), tmp_path / "ranks.npz")
    assert load(tmp_path / "ranks.npz").keep is False
