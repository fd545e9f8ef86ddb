"""The scaler by the largest value: what it divides by, in every form, and that a query costs what it holds."""

import copy

import numpy as np
import pytest
from scipy.sparse import csr_array

from online_rank import MaxAbsStreamScaler, PerceptronRanker
from online_rank.query import SparseRows
from online_rank.query.sparse import as_rows


def queries(n=20, d=6, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        m = int(rng.integers(0, 9))
        yield rng.normal(size=(m, d)) * (rng.random((m, d)) < 0.4)


def as_dicts(X):
    return [{f"f{j}": x for j, x in enumerate(row) if x} for row in X.tolist()]


def test_values_by_hand():
    scaler = MaxAbsStreamScaler()
    scaler.learn_one(np.array([[4.0, -1.0, 0.0], [-8.0, 0.5, 0.0]]))
    assert scaler.largest.tolist() == [8.0, 1.0, 0.0]
    answer = scaler.transform_one(np.array([[4.0, 3.0, 5.0]]))
    assert answer.tolist() == [[4.0 / 8.0, 3.0 / 1.0, 0.0]]


def test_arrays_rows_and_names_agree_with_the_definition():
    by_array, by_rows, by_name = MaxAbsStreamScaler(), MaxAbsStreamScaler(), MaxAbsStreamScaler()
    largest = np.zeros(6)
    for X in queries():
        largest = np.maximum(largest, np.abs(X).max(axis=0, initial=0.0))
        for scaler, x in ((by_array, X), (by_rows, csr_array(X)), (by_name, as_dicts(X))):
            scaler.learn_one(x)
        assert by_array.largest.tolist() == by_rows.largest.tolist() == largest.tolist()
        assert by_name.largest == {name: largest[int(name[1:])] for name in by_name.largest}
        expected = np.divide(X, largest, out=np.zeros_like(X), where=largest > 0)
        assert by_array.transform_one(X).tolist() == expected.tolist()
        assert by_rows.transform_one(as_rows(X)).toarray().tolist() == expected.tolist()
        named = by_name.transform_one(as_dicts(X))
        assert [{k: v for k, v in x.items() if v} for x in named] == as_dicts(expected)


def test_a_block_is_the_loop_and_a_pipeline_learns_then_transforms():
    sequence = [X for X in queries() if len(X)]
    qid = np.repeat(np.arange(len(sequence)), [len(X) for X in sequence])
    y = np.random.default_rng(1).integers(0, 3, len(qid))
    one, many = (MaxAbsStreamScaler() | PerceptronRanker(credit="argmax") for _ in range(2))
    for t, X in enumerate(sequence):
        one.learn_one(csr_array(X), y[qid == t])
    many.learn_many(csr_array(np.concatenate(sequence)), y, qid)
    assert one["PerceptronRanker"].weights.tolist() == many["PerceptronRanker"].weights.tolist()
    assert one["MaxAbsStreamScaler"].largest.tolist() == many["MaxAbsStreamScaler"].largest.tolist()


def test_a_rejected_query_changes_nothing():
    model = MaxAbsStreamScaler() | PerceptronRanker(credit="argmax")
    for t, X in enumerate(queries()):
        model.learn_one(as_dicts(X), [t % 2] * len(X))
    before = copy.deepcopy(model["MaxAbsStreamScaler"].largest)
    with pytest.raises(ValueError, match="feature 'f1' of document 0 is inf"):
        model.learn_one([{"f0": 99.0, "f1": np.inf, "new": 1.0}], [1])
    with pytest.raises(ValueError, match="y"):
        model.learn_one([{"f0": 99.0, "new": 1.0}], [-1])
    assert model["MaxAbsStreamScaler"].largest == before
    rows = SparseRows(np.array([0, 1, 2]), np.array([0, 1], np.int32), np.array([9.0, np.nan]), 1000)
    scaler = MaxAbsStreamScaler()
    scaler.learn_one(rows._replace(values=np.ones(2)))
    with pytest.raises(ValueError, match="feature 1 of document 1 is nan"):
        scaler.learn_one(rows)
    assert scaler.largest.max() == 1.0


def test_a_feature_that_was_never_met_is_0_and_float32_stays():
    scaler = MaxAbsStreamScaler()
    assert scaler.transform_one([{"a": 1.0}]) == [{"a": 0.0}]
    scaler.learn_one([{"a": 2.0}])
    assert scaler.transform_one([{"a": 1.0, "b": 5.0}]) == [{"a": 0.5, "b": 0.0}]
    assert scaler.n_features == 1
    single = MaxAbsStreamScaler()
    single.learn_one(np.array([[3.0]], np.float32))
    assert single.transform_one(np.array([[1.0]], np.float32)).dtype == np.float32
