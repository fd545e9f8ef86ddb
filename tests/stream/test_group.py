"""Rows of river's streams as queries."""

import datetime as dt
import io
import itertools

import pytest
from river import stream

from online_rank import PerceptronRanker, evaluate
from online_rank.stream import group_rows

CSV = """query,page,clicks,grade
shoes,a,3,0
shoes,b,1,2
hats,c,2,1
hats,d,0,0
"""


def rows():
    return stream.iter_csv(io.StringIO(CSV), target="grade", converters={"clicks": int, "grade": int})


def test_the_rows_of_a_csv_file_become_queries():
    queries = [*group_rows(rows(), "query", document="page")]
    assert queries == [
        ({"a": {"clicks": 3}, "b": {"clicks": 1}}, {"a": 0, "b": 2}),
        ({"c": {"clicks": 2}, "d": {"clicks": 0}}, {"c": 1, "d": 0}),
    ]
    assert evaluate.progressive(group_rows(rows(), "query", document="page"), PerceptronRanker(), "ndcg").n_queries == 2
    assert [*group_rows(rows(), "query")][1] == ([{"page": "c", "clicks": 2}, {"page": "d", "clicks": 0}], [1, 0])
    assert [*group_rows([], "query")] == []


def test_it_reads_one_row_more_than_a_query():
    endless = (({"q": i // 2, "t": float(i)}, i % 2) for i in itertools.count())
    queries = group_rows(endless, "q", at="t")
    assert next(queries) == ([{}, {}], [0, 1], {"at": 0.0})
    assert next(endless)[0]["t"] == 3.0


def test_times_may_be_datetimes():
    start = dt.datetime(2026, 1, 1)
    assert next(group_rows([({"q": 1, "t": start, "a": 2.0}, 1)], "q", at="t")) == ([{"a": 2.0}], [1], {"at": start})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([({"q": 1, "d": "a"}, 0), ({"d": "b"}, 0)], "row 1 has no 'q'"),
        ([({"q": 1, "d": "a"}, 0), ({"q": 1, "d": "a"}, 0)], "row 1: document 'a' occurs twice in query 1"),
        ([({"q": q, "d": "a"}, 0) for q in (1, 2, 1)], "row 2: the rows of query 1 do not follow each other"),
        ([({"q": missing, "d": "a"}, 0) for missing in (1, None)], "row 1: 'q' is missing"),
        ([({"q": 1, "d": missing}, 0) for missing in ("a", float("nan"))], "row 1: 'd' is missing"),
        ([({"q": 1, "d": ""}, 0)], "row 0: 'd' is missing"),
    ],
)
def test_what_cannot_be_grouped_is_named(given, message):
    with pytest.raises(ValueError, match=message):
        [*group_rows(given, "q", document="d")]


def test_a_query_that_returns_is_noticed_within_the_last_thousand():
    def returning(n):
        """Query 0, then n others, then query 0 again, a row each."""
        return (({"q": q}, 1) for q in (*range(n + 1), 0))

    queries = group_rows(returning(999), "q")
    # Everything before it was given out.
    assert [next(queries) for _ in range(1000)] == [([{}], [1])] * 1000
    with pytest.raises(ValueError, match="row 1000: the rows of query 0 do not follow each other; sort them by 'q'"):
        next(queries)
    # After 1,000 other queries it is forgotten.
    assert len([*group_rows(returning(1000), "q")]) == 1002


def test_one_name_for_two_things_is_refused():
    with pytest.raises(ValueError, match="query, document and at are 'page', 'page'; they are different names"):
        next(group_rows(rows(), "page", document="page"))
