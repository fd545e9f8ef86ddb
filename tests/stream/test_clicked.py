"""Logs of clicks in tables."""

import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from online_rank import ClickBlendRanker, ClickPerceptron, SwapRanker
from online_rank.feedback import Impression
from online_rank.stream import ReadError, ReadWarning, read_clicks

LOG = {
    "query": ["r1", "r1", "r1", "r2", "r2"],
    "document": ["a", "b", "c", "a", "d"],
    "position": [2, 1, None, 1, 4],
    "click": [1.0, 0.0, None, 0.0, 2.5],
    "propensity": [0.5, 0.25, None, 0.1, 1.0],
    "bm25": [2.0, 5.0, 1.0, None, 3.0],
    "note": ["x", "y", "z", "x", "y"],
}
FEATURES = [{"a": {"bm25": 2.0}, "b": {"bm25": 5.0}, "c": {"bm25": 1.0}}, {"a": {"bm25": 0.0}, "d": {"bm25": 3.0}}]


def as_dicts(x):
    """The documents of a query with their features; a missing one was read as 0."""
    return {document: dict(zip(x.names, row, strict=True)) for document, row in zip(x.ids, x.X.tolist(), strict=True)}


def tables(tmp_path, log=LOG):
    frame = pd.DataFrame(log)
    frame.to_csv(tmp_path / "log.csv", index=False)
    pl.DataFrame(log).write_parquet(tmp_path / "log.parquet")
    return {"pandas": frame, "polars": pl.DataFrame(log), "csv": tmp_path / "log.csv", "parquet": tmp_path / "log.parquet"}


@pytest.mark.parametrize("form", ["pandas", "polars", "csv", "parquet"])
def test_lists_of_every_kind_of_table(form, tmp_path):
    read = list(read_clicks(tables(tmp_path)[form], features=["bm25"]))
    assert [as_dicts(x) for x, _ in read] == FEATURES
    assert [clicks.impression for _, clicks in read] == [Impression(("b", "a")), Impression(("a", "d"), positions=(1, 4))]
    assert [clicks.gains for _, clicks in read] == [(0.0, 1.0), (0.0, 2.5)]


def test_propensities_and_random_orders():
    frame = pl.DataFrame(LOG)
    above = [clicks.impression for _, clicks in read_clicks(frame, propensity="propensity")]
    assert above[0] == Impression(("b", "a"), propensities=(0.25, 0.5))
    place = [clicks.impression for _, clicks in read_clicks(frame, propensity="propensity", propensity_of="place")]
    assert place[1] == Impression(("a", "d"), positions=(1, 4), placements=(0.1, 1.0))
    shuffled = [clicks.impression for _, clicks in read_clicks(frame.drop("propensity"), shuffled=True)]
    # A short list is compared with candidates that it might have shown next.
    assert shuffled[0] == Impression(("b", "a"), logits=(0.0, 0.0, 0.0), held_back=("c",))
    assert shuffled[1] == Impression(("a", "d"), logits=(0.0, 0.0), positions=(1, 4))
    # The propensity is no feature.
    assert as_dicts(next(read_clicks(frame, propensity="propensity"))[0]) == FEATURES[0]


def slots(n, m=9):
    """One document of m each time, at random; good ones are clicked."""
    rng, rows = np.random.default_rng(3), []
    for t in range(n):
        x, shown = rng.normal(size=m), int(rng.integers(m))
        rows += [(t, f"d{i}", 1 if i == shown else None, float(i == shown and x[i] > 0.5), x[i]) for i in range(m)]
    return pl.DataFrame(rows, schema=["query", "document", "position", "click", "x"], orient="row")


def test_a_single_slot_is_compared_with_candidates_in_random_order():
    lists = [clicks.impression for _, clicks in read_clicks(slots(300), shuffled=True)]
    assert {(len(shown.order), len(shown.held_back), shown.rest) for shown in lists} == {(1, 4, math.log(4))}
    assert all(set(shown.order).isdisjoint(shown.held_back) for shown in lists)
    # Each of the others is as likely as every other: 4 of 8.
    held = [("d0" in shown.held_back) for shown in lists if shown.order != ("d0",)]
    assert abs(sum(held) - len(held) / 2) < 4.5 * math.sqrt(len(held) / 4)
    assert lists == [clicks.impression for _, clicks in read_clicks(slots(300), shuffled=True)]


@pytest.mark.parametrize("model", [SwapRanker, ClickPerceptron])
def test_a_single_slot_teaches_or_is_refused_with_the_reason(model):
    ranker = model()
    for x, clicks in read_clicks(slots(400), shuffled=True):
        ranker.learn_one(x, clicks)
    assert ranker.rank_one({"bad": {"x": -1.0}, "good": {"x": 1.0}}) == ["good", "bad"]
    with pytest.raises(ValueError, match="has one document and holds none back, so there is nothing to compare it with"):
        ranker.learn_one(x, Impression.shuffled(clicks.impression.order, 9).clicked([]))
    # Of one candidate nothing is to be learned.
    ranker.learn_one({"d1": {"x": 0.0}}, Impression.shuffled(["d1"], 1).clicked(["d1"]))


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"document": ["a", "a", "c", "a", "d"]}, {}, "row 2: document 'a' stands twice in its list"),
        ({"document": ["a", None, "c", "a", "d"]}, {}, "row 2: 'document', the document, is missing"),
        ({"position": [1, 1, None, 1, 2]}, {}, "row 2: documents 'a' and 'b' are both at position 1"),
        ({"position": [1.5, 1, None, 1, 2]}, {}, r"row 1: position is 1\.5"),
        ({"click": [-1.0, 0, None, 0, 0]}, {}, "gains: document 'a' has -1"),
        ({"propensity": [0.0, 0.5, 0.5, 0.5, 0.5]}, {"propensity": "propensity"}, "propensities has 0.0"),
    ],
)
def test_bad_rows_are_named(change, options, message):
    with pytest.raises(ReadError, match=message):
        list(read_clicks(pl.DataFrame({**LOG, **change}), **options))


def test_bad_settings():
    with pytest.raises(ValueError, match="no column 'rank'; there are 'query'"):
        read_clicks(pl.DataFrame(LOG), position="rank")
    with pytest.raises(ValueError, match="propensity_of is 'list'"):
        read_clicks(pl.DataFrame(LOG), propensity_of="list")
    with pytest.raises(ValueError, match="leave propensity out"):
        read_clicks(pl.DataFrame(LOG), propensity="propensity", shuffled=True)


def log_of(kind, n=500):
    """A table of lists of 4 of 6 documents, of which those with x > 0 are clicked at 1 / position."""
    rng, rows = np.random.default_rng(1), []
    for t in range(n):
        x = rng.normal(size=6)
        order = rng.permutation(6) if kind != "greedy" else np.argsort(-rng.normal(size=6) - 0.5 * x)
        for place, d in enumerate(order):
            shown = place < 4
            clicked = shown and rng.random() < (x[d] > 0) / (place + 1)
            # Of a random order: 1/6 for the first, 1/5 for the second given the first, ...; 1/6 for each place.
            rows.append((t, f"d{d}", place + 1 if shown else None, float(clicked), 1 / (6 - place), 1 / 6, x[d]))
    names = ["query", "document", "position", "click", "above", "place", "x"]
    return pl.DataFrame(rows, schema=names, orient="row")


@pytest.mark.parametrize(
    ("kind", "options", "model"),
    [
        ("shuffled", {"shuffled": True}, lambda: SwapRanker()),
        ("shuffled", {"propensity": "above"}, lambda: ClickPerceptron(credit="propensity")),
        ("shuffled", {"propensity": "place", "propensity_of": "place"}, lambda: ClickPerceptron(credit="propensity")),
        ("greedy", {}, lambda: ClickPerceptron(credit="propensity", examination=(1, 1 / 2, 1 / 3, 1 / 4))),
    ],
    ids=["shuffled", "above", "place", "examination"],
)
def test_what_is_learned_from_each_shape(kind, options, model):
    ranker = model()
    for x, clicks in read_clicks(log_of(kind), features=["x"], **options):
        ranker.learn_one(x, clicks)
    assert ranker.rank_one({"bad": {"x": -1.0}, "good": {"x": 1.0}}) == ["good", "bad"]


@pytest.mark.parametrize(
    ("options", "model", "message"),
    [
        ({}, lambda: SwapRanker(), "say nothing about the order of its documents"),
        ({"propensity": "above"}, lambda: SwapRanker(), "propensities or placements, which do not give"),
        (
            {"propensity": "above", "propensity_of": "place"},
            lambda: SwapRanker(),
            "propensities or placements, which do not give",
        ),
        ({}, lambda: ClickPerceptron(credit="propensity"), "neither placements nor propensities nor logits"),
    ],
)
def test_what_cannot_be_learned_is_refused(options, model, message):
    x, clicks = next(read_clicks(log_of("greedy", 1), features=["x"], **options))
    with pytest.raises(ValueError, match=message):
        model().learn_one(x, clicks)


@pytest.mark.parametrize(
    ("position", "click"),
    [
        # Positions that begin at 0: the first document of each list would be taken for one that was not shown.
        ([0, 1, 2], [1, 0, 0]),
        ([0, 0, 0], [0, 1, 0]),
        ([1, 2, None], [0, 0, 1]),
    ],
)
def test_a_click_on_what_was_not_shown_is_refused(position, click):
    frame = pl.DataFrame({"query": [7] * 3, "document": list("abc"), "position": position, "click": click, "x": 1.0})
    with pytest.raises(ReadError, match=r"was clicked, but its position, .*, says it was not shown; positions begin at 1"):
        list(read_clicks(frame))
    assert len(list(read_clicks(frame.with_columns(pl.lit(0).alias("click"))))) == (sum(filter(None, position)) > 0)


def test_the_context_of_a_list_comes_with_its_query():
    log = pl.DataFrame(
        {"query": [1, 1, 2], "document": ["a", "b", "a"], "position": [1, 2, 1], "click": [1, 0, 0], "x": [1.0, 2.0, 3.0]}
    ).with_columns(user=pl.Series(["ada", "ada", None]))
    lists = list(read_clicks(log, context=["user"]))
    assert [x.context for x, _ in lists] == [({"user": "ada"},), ({"user": None},)]
    assert lists[0][0].ids == ("a", "b")
    assert lists[0][0].names == ("x",)
    with pytest.raises(ValueError, match="no column 'who'"):
        read_clicks(log, context=["who"])


def test_an_index_is_no_feature(tmp_path):
    frame = pd.DataFrame(LOG).drop(columns="propensity")
    frame.to_csv(tmp_path / "log.csv")
    frame.iloc[::-1].iloc[::-1].set_index("bm25", drop=False).rename_axis("row").to_parquet(tmp_path / "log.parquet")
    for name in ("log.csv", "log.parquet"):
        lists = read_clicks(tmp_path / name)
        assert lists.plan.features == ("bm25",)
        assert [as_dicts(x) for x, _ in lists] == FEATURES
    assert read_clicks(pd.DataFrame(LOG), exclude=["propensity"]).plan.features == ("bm25",)


@pytest.mark.parametrize("form", ["pandas", "polars", "csv", "parquet"])
def test_events_by_name_have_the_given_values(form, tmp_path):
    events = {**LOG, "click": ["purchase", "none", None, "click", "none"]}
    table = tables(tmp_path, events)[form]
    read = read_clicks(table, features=["bm25"], events={"none": 0, "click": 1, "purchase": 3})
    assert [clicks.gains for _, clicks in read] == [(0.0, 3.0), (1.0, 0.0)]
    with pytest.raises(ReadError, match="'purchase' in column 'click' has no value: events has 'click'"):
        list(read_clicks(table, features=["bm25"], events={"click": 1.0}))
    with pytest.raises(ValueError, match="the value of event 'click'"):
        read_clicks(table, events={"click": -1.0})


def test_codes_of_events_have_their_values_and_one_odd_click_is_named():
    """Numbers of events counted as clicks of that size, and one text among numbers made each number an error."""
    codes = pl.DataFrame({**LOG, "click": [2, 0, None, 1, 0]})
    read = read_clicks(codes, features=["bm25"], events={"0": 0, "1": 1, "2": 5})
    assert [clicks.gains for _, clicks in read] == [(0.0, 5.0), (1.0, 0.0)]
    with pytest.raises(ReadError, match="row 1: '2' in column 'click' has no value: events has 'click'"):
        list(read_clicks(codes, features=["bm25"], events={"click": 1}))
    texts = pl.DataFrame({**LOG, "click": ["1", "0", None, "1", "maybe"]})
    with pytest.raises(ReadError, match=r"row 5: 'maybe' in column 'click' has no value: .*\(--event NAME=VALUE\)"):
        list(read_clicks(texts, features=["bm25"]))


def test_lists_that_come_back_or_are_out_of_order_are_refused():
    frame = pl.DataFrame(LOG)
    with pytest.raises(ReadError, match="row 4: query r1 comes back after another one; sort the rows by 'query'"):
        list(read_clicks(pl.concat([frame[:1], frame[3:], frame[1:3]])))
    with pytest.raises(ReadError, match="row 4: query r2 is older than the one before it; sort the rows by 't' and '"):
        list(read_clicks(frame.with_columns(t=pl.Series([5, 5, 5, 4, 4])), event_time="t"))
    with pytest.raises(ReadError, match="row 2: 'query', the query, is missing"):
        list(read_clicks(frame.with_columns(query=pl.Series(["r1", None, "r1", "r2", "r2"]))))


def test_rows_that_were_not_shown_are_no_list():
    lists = read_clicks(pl.DataFrame({**LOG, "position": [None, 0, None, 1, 4]}), features=["bm25"])
    assert [as_dicts(x) for x, _ in lists] == FEATURES[1:]
    assert (lists.n_lists, lists.n_empty) == (1, 1)


def test_a_context_that_changes_within_a_list_is_refused():
    log = pl.DataFrame({"query": [1, 1], "document": ["a", "b"], "position": [1, 2], "click": [1, 0], "x": [1.0, 2.0]})
    with pytest.raises(ReadError, match="query 1 has 'ada' and 'bob' in column 'user', which is of the query itself"):
        list(read_clicks(log.with_columns(user=pl.Series(["ada", "bob"])), context=["user"]))


def test_documents_come_in_the_order_of_their_ids_not_of_the_page():
    log = {"query": ["q"] * 3, "document": ["c", "a", "b"], "click": [1, 0, 0], "position": [1, 2, 3], "x": [3.0, 1.0, 2.0]}
    ((x, _), *_) = read_clicks(pd.DataFrame(log), click="click")
    assert x.ids == ("a", "b", "c")


def test_a_list_continues_in_the_next_table_and_does_not_come_back_in_a_later_one():
    frame = pl.DataFrame(LOG)
    whole = list(read_clicks(frame, features=["bm25"]))
    for cut in range(1, 5):
        lists = read_clicks(frame[:cut], frame[cut:], features=["bm25"])
        assert [(as_dicts(x), clicks) for x, clicks in lists] == [(as_dicts(x), clicks) for x, clicks in whole]
        assert lists.n_lists == 2
    with pytest.raises(ReadError, match="row 1: query r1 comes back after another one"):
        list(read_clicks(frame, frame[:1], features=["bm25"]))
    later = frame.with_columns(query="later " + pl.col("query"))
    with pytest.warns(UserWarning, match="columns that the first table lacks are left out: bm25"):
        list(read_clicks(frame.drop("bm25"), later, features=["propensity"], missing="zero"))
    with pytest.raises(ValueError, match="nothing to read"):
        read_clicks()


def test_positions_from_0_are_refused():
    rows = [(t, f"d{d}", d, float(d == 1), float(d)) for t in range(12) for d in range(3)]
    log = pl.DataFrame(rows, schema=["query", "document", "position", "click", "x"], orient="row")
    with pytest.raises(ReadError, match="row 1: each of the first 12 lists has exactly one row at position 0"):
        next(read_clicks(log))
    # Where a list has none or several there, these are of documents that were not shown.
    assert len(list(read_clicks(log[1:]))) == 12
    both = log.with_columns(position=pl.Series([0, 0, 1] * 12), click=pl.Series([0.0, 0.0, 1.0] * 12))
    assert len(list(read_clicks(both))) == 12


def test_outcomes_are_features_only_if_they_are_named():
    log = pl.DataFrame(LOG).with_columns(purchase=pl.Series([1, 0, 0, 0, 1]), dwell_seconds=2.0, clicks=3.0)
    plan = read_clicks(log, propensity="propensity").plan
    assert plan.features == ("bm25", "clicks")
    assert "purchase, dwell_seconds (an outcome by its name: name the features (--features) to use it)" in plan.in_words()[1]
    assert read_clicks(log, features=["purchase"]).plan.features == ("purchase",)


def test_missing_values_are_zero_or_refused():
    assert len(list(read_clicks(pl.DataFrame(LOG), features=["bm25"], missing="zero"))) == 2
    with pytest.raises(ReadError, match="row 4: the value of 'bm25' is missing; missing="):
        list(read_clicks(pl.DataFrame(LOG), features=["bm25"], missing="error"))
    with pytest.raises(ValueError, match="missing is 'mean'"):
        read_clicks(pl.DataFrame(LOG), missing="mean")


@pytest.mark.parametrize(("model", "missing"), [(None, 0.0), (ClickPerceptron(), 0.0), (ClickBlendRanker(), math.nan)])
def test_missing_values_are_read_as_the_model_takes_them(model, missing):
    """A model that takes missing values learned 0 from a log, and met missing values when it ranked."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = [x for x, _ in read_clicks(pl.DataFrame(LOG), features=["bm25"], model=model)]
    assert found[1].X[:, 0].tolist() == pytest.approx([missing, 3.0], nan_ok=True)
    said = ["missing values count as 0, since the model does not take them" in str(one.message) for one in told]
    assert said == ([True] if isinstance(model, ClickPerceptron) else [])


def test_a_list_that_contradicts_itself_is_left_out_up_to_a_share(tmp_path):
    """Only rows that cannot be read counted as bad: one list with two documents at one place ended the reading."""
    rows = [f"q{q},d{d},{d + 1},{int(d == q % 2)},{d}" for q in range(50) for d in range(2)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["query,document,position,click,price", *rows, "x,d0,1,0,0", "x,d1,1,0,1"]) + "\n")
    with pytest.raises(ReadError, match="line 103: documents 'd0' and 'd1' are both at position 1"):
        list(read_clicks(path, shuffled=True))
    with pytest.warns(ReadWarning, match="both at position 1 .*; the list is left out"):
        assert len(list(read_clicks(path, shuffled=True, skip_bad=0.02))) == 50


EVENTS = {
    "query": ["q", "q", "r", "q", "q", "q"],
    "document": ["a", "b", "a", "b", "b", "b"],
    "position": [1, 2, 1, 2, None, 2],
    "action": ["impression", "impression", "impression", "click", "click", "purchase"],
    "seen": [0.0, 0.0, 5.0, 10.0, 20.0, 900.0],
    "price": [3.0, 5.0, 4.0, None, None, None],
}
WORTH = {"impression": 0, "click": 1, "purchase": 3}


@pytest.mark.parametrize("form", ["pandas", "csv", "parquet"])
def test_rows_of_events_are_joined_to_the_documents_of_their_list(form, tmp_path):
    table = tables(tmp_path, EVENTS)[form]
    named = {"click": "action", "events": WORTH, "event_time": "seen", "repeated_qid": "group"}
    lists = read_clicks(table, **named)
    found = list(lists)
    # Several events on "b" count as the largest, and its features come from its impression.
    assert [(clicks.impression.order, clicks.gains) for _, clicks in found] == [(("a", "b"), (0.0, 3.0)), (("a",), (0.0,))]
    assert [as_dicts(x) for x, _ in found] == [{"a": {"price": 3.0}, "b": {"price": 5.0}}, {"a": {"price": 4.0}}]
    lists = read_clicks(table, **named, window=60.0)
    assert [clicks.gains for _, clicks in lists] == [(0.0, 1.0), (0.0,)]
    assert lists.n_late == 1


def test_rows_of_events_that_contradict_each_other_are_named():
    frame = pd.DataFrame(EVENTS)
    named = {"click": "action", "events": WORTH, "features": ["price"]}
    with pytest.raises(ReadError, match="row 4: query q comes back after another one"):
        list(read_clicks(frame, **named))
    with pytest.raises(ReadError, match="row 6: document 'b' stands at position 2 and at position 3 of its list"):
        list(read_clicks(frame.assign(position=[1, 2, 1, 2, None, 3]), **named, repeated_qid="group"))
    with pytest.raises(ReadError, match="rows that are events need events="):
        list(read_clicks(frame.assign(click=1.0), features=["price"], repeated_qid="group"))
    with pytest.raises(ValueError, match="window needs the column of times"):
        read_clicks(frame, **named, window=1.0)
