"""User Behavior Insights: queries and events as lists and clicks."""

import json

import pandas as pd
import pytest

from online_rank import VectorRanker
from online_rank.feedback import Impression
from online_rank.stream import ReadError, ReadWarning, read_clicks, separated

APPLICATION = "shop"


def query(id, text, at, hits=(), **fields):
    return {
        "application": APPLICATION,
        "query_id": id,
        "client_id": f"client {id}",
        "user_query": text,
        "query_attributes": {},
        "timestamp": f"2025-03-03T{at}Z",
        "query_response_id": f"r{id}",
        "query_response_hit_ids": list(hits),
        **fields,
    }


def event(kind, id, document, at, ordinal=None, **fields):
    about = {"object_id": document, "object_id_field": "asin", "description": "a thing", **fields}
    position = {} if ordinal is None else {"position": {"ordinal": ordinal}}
    return {
        "application": APPLICATION,
        "action_name": kind,
        "query_id": id,
        "session_id": f"session {id}",
        "client_id": f"client {id}",
        "user_id": "",
        "timestamp": f"2025-03-03T{at}Z",
        "message_type": None,
        "message": None,
        "event_attributes": {"object": about, **position},
    }


QUERIES = [query("q1", "tv", "10:00:00"), query("q2", "rug", "09:00:00.5"), query("q3", "tv", "11:00:00", ["c", "a", "b"])]
EVENTS = [
    # As browsers send them: not in the order of positions, and with actions of other lists between.
    event("impression", "q1", "b", "10:00:02", 2, price=5, object_detail={"margin": 0.5}),
    event("impression", "q2", "r", "09:00:01", 1, price=7),
    event("impression", "q1", "a", "10:00:02", 1, price=3),
    event("click", "q1", "b", "10:00:09", 2),
    event("click", "q2", "r", "09:30:00", 1),
    event("impression", "q1", "d", "10:00:04", 4, price=9),
    event("purchase", "q1", "b", "10:20:00"),
    event("click", "q1", "z", "10:00:10", 7),
    event("hover", "q1", "a", "10:00:10", 1),
    event("impression", "q1", "b", "10:00:30", 2, price=5),
    event("click", "q3", "a", "11:00:05", 2),
    event("click", "gone", "a", "11:00:05", 2),
    {**event("login", None, None, "11:00:05"), "query_id": None},
]
PURCHASE = {"click": 1, "purchase": 3}


def lines(path, records, wrap=lambda record: [record]):
    path.write_text("".join(json.dumps(one) + "\n" for record in records for one in wrap(record)))
    return path


def bulk(record):
    index = "ubi_events" if "action_name" in record else "ubi_queries"
    return [{"index": {"_index": index, "_id": "1"}}, record]


def dump(record):
    return [{"_index": "ubi", "_id": "1", "_score": 1, "_source": record}]


def flat(records):
    return pd.json_normalize(records).drop(columns=["query_attributes"], errors="ignore")


def forms(tmp_path):
    queries, events = lines(tmp_path / "queries.jsonl", QUERIES), lines(tmp_path / "events.ndjson", EVENTS)
    pd.DataFrame(QUERIES).drop(columns="query_attributes").to_parquet(tmp_path / "queries.parquet")
    pd.DataFrame(EVENTS).to_parquet(tmp_path / "events.parquet")
    flat(EVENTS).to_parquet(tmp_path / "flat.parquet")
    flat(EVENTS).to_csv(tmp_path / "flat.csv", index=False)
    return {
        "lines": (queries, events),
        "events first": (events, queries),
        "bulk": (lines(tmp_path / "bulk.ndjson", EVENTS + QUERIES, bulk),),
        "dump": (lines(tmp_path / "dump.jsonl", QUERIES + EVENTS, dump),),
        "parquet": (tmp_path / "queries.parquet", tmp_path / "events.parquet"),
        "columns": (tmp_path / "flat.parquet", queries),
        "csv": (tmp_path / "flat.csv", queries),
    }


@pytest.mark.parametrize("form", ["lines", "events first", "bulk", "dump", "parquet", "columns", "csv"])
def test_queries_and_events_become_lists_and_clicks(form, tmp_path):
    with pytest.warns(ReadWarning) as told:
        lists = read_clicks(*forms(tmp_path)[form], events=PURCHASE, context=["user_query", "session", "user"])
    found = list(lists)
    # In the order of time; "b" was clicked and bought: the largest counts.
    assert [clicks.impression for _, clicks in found] == [
        Impression(("r",)),
        Impression(("a", "b", "d"), positions=(1, 2, 4)),
        Impression(("c", "a", "b")),
    ]
    assert [clicks.gains for _, clicks in found] == [(1.0,), (0.0, 3.0, 0.0), (0.0, 1.0, 0.0)]
    assert [x.context[0] for x, _ in found] == [
        {"user_query": text, "session": f"session {id}", "user": f"client {id}"}
        for id, text in (("q2", "rug"), ("q1", "tv"), ("q3", "tv"))
    ]
    x = found[1][0]
    assert set(x.names) == {"object.price", "object.object_detail.margin"}
    assert dict(zip(x.ids, x.X[:, x.names.index("object.price")].tolist(), strict=True)) == {"a": 3, "b": 5, "d": 9}
    # Garbage of other tests may warn, too.
    (told,) = [one for one in told if one.category is ReadWarning]
    assert sorted(str(told.message).partition(": ")[2].split("; ")) == [
        "1 of 3 queries have no impressions: what the engine returned is taken as shown, in its order",
        "left out: 1 events 'hover', which have no value",
        "left out: 1 events of no query or no object",
        "left out: 1 events of queries without a list",
        "left out: 1 events on documents that their list does not show",
    ]


def test_without_values_clicks_count_and_a_window_ends(tmp_path):
    with pytest.warns(ReadWarning, match="1 events 'purchase', which have no value"):
        lists = read_clicks(*forms(tmp_path)["lines"])
    assert [clicks.gains for _, clicks in lists] == [
        (1.0,),
        (0.0, 1.0, 0.0),
        (0.0, 1.0, 0.0),
    ]
    # The purchase came 20 minutes after the query, the click on "r" half an hour.
    with pytest.warns(ReadWarning, match="'hover'"):
        lists = read_clicks(*forms(tmp_path)["lines"], events=PURCHASE, window=600.0)
    assert [clicks.gains for _, clicks in lists] == [(0.0,), (0.0, 1.0, 0.0), (0.0, 1.0, 0.0)]
    assert lists.n_late == 2


def test_positions_from_0_are_found_for_each_application(tmp_path):
    other = [{**event("impression", "x", d, "12:00:00", i), "application": "other"} for i, d in enumerate("ab")]
    log = lines(
        tmp_path / "log.jsonl", [*other, event("impression", "y", "a", "12:00:01", 1), event("click", "x", "b", "12:00:02")]
    )
    with pytest.warns(ReadWarning, match="positions begin at 0 in 'other': 1 is added to each"):
        found = [clicks for _, clicks in read_clicks(log, features=[])]
    assert [(clicks.impression, clicks.gains) for clicks in found] == [
        (Impression(("a", "b")), (0.0, 1.0)),
        (Impression(("a",)), (0.0,)),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"timestamp": "yesterday"}, "line 2: timestamp 'yesterday' is not a time in ISO 8601"),
        ({"timestamp": None}, "line 2: timestamp is None"),
        ({"event_attributes": {"object": {"object_id": "a"}, "position": {"ordinal": 1.5}}}, "line 2: .*ordinal is '1.5'"),
        ({"event_attributes": {"object": {"object_id": "a"}, "position": {"ordinal": -1}}}, "line 2: .*ordinal is '-1'"),
        ({"event_attributes": {"object": {"object_id": "a"}, "position": {"ordinal": 10**400}}}, "line 2: .*ordinal is '1000"),
        ({"event_attributes": {"object": {"object_id": ["a"]}}}, r"line 2: \"\['a'\]\" is an id or a text of type list"),
        ({"query_id": {"a": 1}}, "line 2: .* is an id or a text of type dict"),
        ({"query_id": True}, "line 2: 'True' is an id or a text of type bool"),
    ],
)
def test_what_cannot_be_read_is_named(change, message, tmp_path):
    first = event("impression", "q", "a", "12:00:00", 1)
    with pytest.raises(ReadError, match=message):
        list(read_clicks(lines(tmp_path / "log.jsonl", [first, {**first, **change}]), features=[]))


def test_of_two_documents_at_one_position_the_first_one_counts(tmp_path):
    """As when users turn to a second page, whose positions begin at 1 again. The run ended."""
    events = [
        event("impression", "q", "late", "12:00:09", 1),
        event("impression", "q", "a", "12:00:01", 1),
        event("impression", "q", "b", "12:00:01", 2),
        event("impression", "q", "as soon", "12:00:01", 2),
        event("click", "q", "late", "12:00:20", 1),
        event("click", "q", "b", "12:00:20", 2),
    ]
    told = (
        "left out: 1 events on documents that their list does not show; "
        "left out: 2 impressions at a position where their list shows another document, earlier"
    )
    with pytest.warns(ReadWarning, match=told):
        ((_, clicks),) = read_clicks(lines(tmp_path / "log.jsonl", events), features=[])
    assert (clicks.impression.order, clicks.gains) == (("a", "b"), (0.0, 1.0))


def test_an_array_of_records_is_read_as_lines_are(tmp_path):
    (tmp_path / "log.json").write_text(json.dumps(QUERIES + EVENTS, indent=2))
    found = [*read_clicks(tmp_path / "log.json", features=[])]
    expected = [*read_clicks(lines(tmp_path / "log.jsonl", QUERIES + EVENTS), features=[])]
    assert [(x.ids, clicks) for x, clicks in found] == [(x.ids, clicks) for x, clicks in expected]
    assert len(found) == 3


def test_texts_that_differ_for_one_query_are_counted(tmp_path):
    asked = [{"query_id": "q", "user_query": text, "timestamp": "2025-01-01T12:00:00Z"} for text in ("tv", "rug", "tv", "lamp")]
    path = lines(tmp_path / "log.jsonl", [*asked, event("impression", "q", "a", "12:00:01", 1)])
    with pytest.warns(ReadWarning, match="left out: 2 values of user_query that differ from the first of their query"):
        ((x, _),) = read_clicks(path, features=[], context=["user_query"])
    assert x.context == ({"user_query": "tv"},)


def test_other_records_and_logs_without_lists_are_refused(tmp_path):
    with pytest.raises(ReadError, match="line 2: neither a query nor an event of UBI: it has 'a'"):
        read_clicks(lines(tmp_path / "log.jsonl", [QUERIES[0], {"a": 1}]))
    with pytest.raises(ReadError, match="line 1: query_response_hit_ids is of type str; it is a list of ids"):
        read_clicks(lines(tmp_path / "log.jsonl", [{**QUERIES[0], "query_response_hit_ids": "abc"}]))
    with pytest.raises(ReadError, match="no lists: neither events 'impression' nor query_response_hit_ids"):
        read_clicks(lines(tmp_path / "log.jsonl", QUERIES[:1]))


def test_times_in_milliseconds():
    frame = pd.DataFrame(
        [{**event("impression", q, "a", "12:00:00", 1), "timestamp": t} for q, t in (("y", 2000), ("x", 1000))]
    )
    lists = list(read_clicks(frame, features=[], context=["session"]))
    assert [x.context[0]["session"] for x, _ in lists] == ["session x", "session y"]


def test_milliseconds_are_text_in_csv(tmp_path):
    events = [
        {**event("impression", q, "a", "12:00:00", 1), "timestamp": at}
        for q, at in (("y", 1_763_000_002_000), ("x", 1_763_000_001_000), ("z", -1_763_000_001_000))
    ]
    flat(events).to_csv(tmp_path / "log.csv", index=False)
    lists = list(read_clicks(tmp_path / "log.csv", features=[], context=["session"]))
    assert [x.context[0]["session"] for x, _ in lists] == ["session z", "session x", "session y"]


def test_a_word_among_the_numbers_of_csv_is_named(tmp_path, monkeypatch):
    """In a later block. Each row was looked for from the beginning of its block: 20 seconds for 40,000 rows."""
    split, blocks = separated.lines_of, []
    monkeypatch.setattr("online_rank.stream.source._CHUNK", 4096)
    monkeypatch.setattr(separated, "lines_of", lambda *block: blocks.append(1) or split(*block))
    events = [event("impression", f"q{i}", "a", "12:00:00", 1, price=1.5) for i in range(100)]
    (tmp_path / "log.csv").write_text(
        flat(events).to_csv(index=False) + flat(events[:1]).to_csv(index=False, header=False).replace("1.5", "cheap")
    )
    with pytest.raises(ReadError, match=r"line 102: 'cheap' in column 'event_attributes\.object\.price' is not a number"):
        read_clicks(tmp_path / "log.csv")
    assert 1 < len(blocks) < 5


def test_counts_equal_counts_by_duckdb(tmp_path):
    import random

    import duckdb

    draw, queries, events = random.Random(1), [], []
    for i in range(60):
        queries.append(query(f"q{i}", f"text {i % 7}", f"{10 + i // 30}:{i % 30:02d}:00"))
        order = draw.sample(range(12), 6)
        for place, d in enumerate(order, start=1):
            events.append(event("impression", f"q{i}", f"d{d}", f"{10 + i // 30}:{i % 30:02d}:01", place))
            if draw.random() < 0.3:
                events.append(event("click", f"q{i}", f"d{d}", f"{10 + i // 30}:{i % 30:02d}:09", place))
    draw.shuffle(events)
    log = lines(tmp_path / "ubi_queries_events.ndjson", [*queries, *events], bulk)
    lists = list(read_clicks(log, features=[], context=["user_query"]))
    duckdb.sql(
        f"create table ubi as select * from read_json('{log}', format='newline_delimited', union_by_name=true, sample_size=-1)"
    )
    by_hand = duckdb.sql(
        """with q as (select query_id, user_query from ubi where user_query is not null),
                e as (select query_id, action_name, event_attributes.object.object_id as document,
                             event_attributes.position.ordinal as place from ubi where action_name is not null)
           select user_query, document, place, count(*) filter (action_name = 'impression') as shown,
                  count(distinct case when action_name = 'click' then query_id end) as clicked
           from e join q using (query_id) group by all"""
    ).fetchall()
    counted = {}
    for x, clicks in lists:
        for place, (document, gain) in enumerate(zip(clicks.impression.order, clicks.gains, strict=True), start=1):
            key = x.context[0]["user_query"], document, place
            shown, clicked = counted.get(key, (0, 0))
            counted[key] = shown + 1, clicked + int(gain)
    assert counted == {tuple(row[:3]): tuple(row[3:]) for row in by_hand}


@pytest.mark.parametrize("form", ["lines", "parquet", "columns", "csv"])
def test_lists_of_numbers_among_attributes_are_vectors(form, tmp_path):
    """They were left out. The vector of a query belongs to the vectors of documents that end in its name."""
    vectors, wanted = {"a": [1.0, 0.5], "b": [0.0, 2.0]}, [3.0, 4.0]
    events = [
        event("impression", "q1", document, "10:00:02", n, price=n, object_detail={"embedding": vector})
        for n, (document, vector) in enumerate(vectors.items(), start=1)
    ] + [event("click", "q1", "b", "10:00:09", 2)]
    queries = [query("q1", "tv", "10:00:00", query_attributes={"embedding": wanted})]
    files = [tmp_path / f"{name}.{'csv' if form == 'csv' else 'jsonl' if form == 'lines' else 'parquet'}" for name in "qe"]
    for path, records in zip(files, (queries, events), strict=True):
        frame = pd.json_normalize(records) if form in ("columns", "csv") else pd.DataFrame(records)
        if form == "lines":
            lines(path, records)
        elif form == "csv":
            frame.drop(columns="query_response_hit_ids", errors="ignore").to_csv(path, index=False)
        else:
            frame.to_parquet(path)
    name = "object.object_detail.embedding"
    model = VectorRanker(name)
    for _ in range(2):
        ((x, clicks),) = read_clicks(*files, model=model)
        assert [document[name].tolist() for document in x.X] == [vectors[id] for id in x.ids]
        assert [document["object.price"] for document in x.X] == [1.0, 2.0]
        assert x.context[0][name].tolist() == wanted
        model.learn_one(x, clicks)
    assert model.n_clicked == 2
