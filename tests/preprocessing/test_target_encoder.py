"""StreamTargetEncoder."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import PerceptronRanker, StreamTargetEncoder
from tests.helpers import mismatches
from tests.reference.preprocessing import Encoder


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.lists(st.tuples(st.floats(-4, 4), st.integers(0, 3)), min_size=1, max_size=6), min_size=1, max_size=4),
    st.integers(2, 9),
    st.floats(0.5, 50),
)
def test_tables_follow_their_definition(queries, n_points, prior):
    ours, slow = StreamTargetEncoder(n_points, prior=prior), Encoder(np.linspace(-2.6, 2.6, n_points).tolist(), prior)
    pipeline = ours | PerceptronRanker()
    for query in queries:
        z, y = [value for value, _ in query], [grade for _, grade in query]
        answer = ours.transform_one(np.array(z)[:, None]) if ours.n_features else np.column_stack([z, np.zeros(len(z))])
        assert answer[:, 0].tolist() == z
        assert answer[:, 1] == pytest.approx([slow.encode(value) for value in z], abs=1e-9)
        pipeline.learn_one(np.array(z)[:, None], y)
        slow.learn(z, y)
    assert ours._sums[0] == pytest.approx(slow.sums, abs=1e-9)
    assert ours._counts[0] == pytest.approx(slow.counts, abs=1e-9)


def test_a_query_is_encoded_by_the_tables_before_its_grades():
    seen = []

    class Spy(PerceptronRanker):
        def _learn(self, block, rounds):
            seen.append(block.X.copy())
            return super()._learn(block, rounds)

    model = StreamTargetEncoder(3, prior=5.0) | Spy()
    X = np.array([[-2.6], [0.0]])
    model.learn_one(X, [1, 0])
    model.learn_one(X, [1, 0])
    assert seen[0].tolist() == [[-2.6, 0.0], [0.0, 0.0]]
    # One document of grade 1 (standardised).
    assert seen[1][:, 1] == pytest.approx([5 * 1 / 6, -5 * 1 / 6])


def test_one_grade_teaches_nothing():
    encoder = StreamTargetEncoder()
    encoder.learn_one(np.array([[1.0], [2.0]]), [3, 3])
    assert not encoder._counts.any()


def test_a_curve_that_is_not_monotone_is_found():
    rng = np.random.default_rng(0)
    encoder = StreamTargetEncoder()
    for _ in range(300):
        z = rng.normal(size=20)
        encoder.learn_one(z[:, None], (np.abs(z) > 1).astype(int))
    low, middle, high = encoder.transform_one(np.array([[-2.0], [0.0], [2.0]]))[:, 1]
    assert low > 3
    assert high > 3
    assert middle < -2


def test_only_some_columns_are_kept():
    both, relative, none = (StreamTargetEncoder(keep=keep) for keep in ("all", "relative", "none"))
    X = np.random.default_rng(0).normal(size=(8, 3))
    for encoder in (both, relative, none):
        encoder.learn_one(X, [0, 1, 0, 2, 1, 0, 0, 0])
    np.testing.assert_array_equal(relative.transform_one(X), both.transform_one(X)[:, [1, 2, 3, 5]])
    np.testing.assert_array_equal(none.transform_one(X), both.transform_one(X)[:, 1::2])
    query = [{"a": 1.0, "a in query": 0.5, 7: 2.0}, {"a": 2.0}]
    named = StreamTargetEncoder(keep="relative")
    named.learn_one(query, [0, 1])
    assert list(named.transform_one(query)[0]) == ["a encoded", "a in query", "a in query encoded", (7, "encoded")]
    assert list(StreamTargetEncoder(keep="none").transform_one(query)[0]) == ["a encoded", "a in query encoded", (7, "encoded")]
    with pytest.raises(ValueError, match="keep is 'some'"):
        StreamTargetEncoder(keep="some")


def test_bad_input():
    with pytest.raises(TypeError, match="supervised"):
        StreamTargetEncoder().learn_one(np.ones((2, 1)))
    with pytest.raises(ValueError, match="feature 0 of document 1 is nan"):
        StreamTargetEncoder().learn_one(np.array([[1.0], [np.nan]]), [0, 1])
    with pytest.raises(ValueError, match="grade of document 1 is -1"):
        StreamTargetEncoder().learn_one(np.ones((2, 1)), [0, -1])
    with pytest.raises(ValueError, match="n_points is 1"):
        StreamTargetEncoder(1)
    with pytest.raises(ValueError, match="prior is 0"):
        StreamTargetEncoder(prior=0)


def test_state_that_kernels_could_not_take_is_refused():
    encoder = StreamTargetEncoder()
    encoder.learn_one(np.array([[1.0], [2.0]]), [0, 3])
    encoder._counts[0, 3] = -1.0
    assert "_counts has entries outside 0" in mismatches(encoder)[0]
