"""Blocks of queries and sparse rows, piece by piece."""

import numpy as np
import pandas as pd
import pytest

from online_rank.query.blocks import Block, query_offsets, require_finite
from online_rank.query.served import as_served
from online_rank.query.sparse import SparseRows, checked_rows


def rows(starts, columns, values, n_columns):
    return SparseRows(np.array(starts), np.array(columns, dtype=np.int32), np.array(values, dtype=np.float64), n_columns)


@pytest.fixture
def block():
    """Three queries of 2, 1 and 3 documents."""
    return Block(
        X=np.arange(12.0).reshape(6, 2),
        y=np.array([1, 0, 2, 0, 1, 2]),
        offsets=np.array([0, 2, 3, 6]),
        w=np.array([1.0, 2.0, 3.0]),
        ids=None,
        names=None,
        served=np.array([0.5, 0.4, 0.3, 0.2, 0.1, 0.0]),
    )


def test_some_queries_of_a_block_are_a_block(block):
    last = block.queries(1, 3)
    assert last.offsets.tolist() == [0, 1, 4]
    assert last.w.tolist() == [2.0, 3.0]
    assert last.X.tolist() == [[4.0, 5.0], [6.0, 7.0], [8.0, 9.0], [10.0, 11.0]]
    assert last.y.tolist() == [2, 0, 1, 2]
    assert last.served.tolist() == [0.3, 0.2, 0.1, 0.0]
    # Messages number documents by their place in the whole block.
    assert [*last.ids] == [2, 3, 4, 5]
    assert [(each.offsets.tolist(), each.w.tolist()) for each in block.each()] == [
        ([0, 2], [1.0]),
        ([0, 1], [2.0]),
        ([0, 3], [3.0]),
    ]


def test_some_of_sparse_rows_are_sparse_rows():
    X = rows([0, 2, 2, 3, 5], [0, 2, 1, 0, 2], [1.0, 2.0, 3.0, 4.0, 5.0], 3)
    some = X.rows(2, 4)
    assert some.starts.tolist() == [0, 1, 3]
    assert some.toarray().tolist() == [[0.0, 3.0, 0.0], [4.0, 0.0, 5.0]]
    assert rows([0, 2], [1, 1], [2.0, 3.0], 2).toarray().tolist() == [[0.0, 2.0 + 3.0]]


@pytest.mark.parametrize("bad", [0, 1, 2, 3])
def test_an_infinite_value_of_sparse_rows_is_named(block, bad):
    # Document 1 has no entry, so that documents 1 and 2 begin at the same one.
    X = rows([0, 2, 2, 3, 4], [0, 2, 1, 0], [1.0, 2.0, 3.0, 4.0], 3)
    X.values[bad] = np.inf
    feature, document = [(0, 0), (2, 0), (1, 2), (0, 3)][bad]
    with pytest.raises(ValueError, match=f"feature {feature} of document {document} is inf"):
        require_finite(block._replace(X=X))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (rows([1, 2], [0, 1], [1.0, 2.0], 2), "starts do not ascend from 0"),
        (rows([0, 1], [0, 1], [1.0, 2.0], 2), "starts do not ascend from 0 to the number of entries"),
        (rows([0, 2, 1, 3], [0, 1, 0], [1.0, 2.0, 3.0], 2), "starts do not ascend"),
        (rows([0, 1, 2], [0, 2], [1.0, 2.0], 2), "document 1 has a feature in column 2, but there are 2 columns"),
        (rows([0, 1, 2], [-1, 1], [1.0, 2.0], 2), "document 0 has a feature in column -1"),
    ],
)
def test_rows_that_would_lead_outside_an_array_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        checked_rows(bad)


def test_queries_that_come_back_are_refused():
    assert query_offsets([7, 7, 3, 3, 3, 9], 6).tolist() == [0, 2, 5, 6]
    with pytest.raises(ValueError, match="documents of query 7 are not contiguous"):
        query_offsets([7, 7, 3, 7], 4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_served_scores_are_finite(bad):
    with pytest.raises(ValueError, match="the score of document 'b' is"):
        as_served({"a": 1.0, "b": bad}, 2, ids=("a", "b"))


@pytest.mark.parametrize("absent", [None, float("nan"), pd.NA, pd.NaT])
@pytest.mark.parametrize("ids", [["a", "a", "b"], [1, 1, 2], [1.0, 1.0, 2.0]])
@pytest.mark.parametrize("form", [list, pd.Series, lambda ids: np.array(ids, dtype=object)])
def test_a_document_without_a_query_id_is_refused(form, ids, absent):
    with pytest.raises(ValueError, match="qid: document 3 has no query id"):
        query_offsets(form([*ids, absent]), 4)


@pytest.mark.parametrize("form", [list, pd.Series, lambda ids: np.array(ids, dtype=object)])
def test_query_ids_of_text_and_of_numbers_are_not_mixed(form):
    with pytest.raises(ValueError, match="qid has '1', which is text, and 1, which is not"):
        query_offsets(form([1, 1, "1", "1"]), 4)
    assert query_offsets(form([(1, "a"), (1, "a"), (1, "b")] if form is pd.Series else [1, 1, 2]), 3).tolist() == [0, 2, 3]
