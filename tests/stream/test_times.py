"""Each format of times through each door: the same seconds everywhere."""

import datetime as dt
import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from online_rank import History, RidgeRanker, read
from online_rank.base.schema import declared_state
from online_rank.distributed.keyed import KeyedRankers
from online_rank.query.times import seconds_of_time
from online_rank.serving import Models, RankingApp, RankingService
from online_rank.stream import ReadError, read_clicks
from tests.distributed.test_keyed import State
from tests.serving.asking import asked

#: 2026-01-01T00:00:00Z, an hour later, and an hour and half a second after that.
SECONDS = [1767225600.0, 1767229200.0, 1767232800.5]
DAYS = [1767225600.0, 1767312000.0, 1767398400.0]
UTC = dt.UTC


#: Numbers and texts, which all doors take: their values, and the seconds that they stand for.
WRITTEN = {
    "s": ([1767225600, 1767229200, 1767232800.5], SECONDS),
    "ms": ([1767225600000, 1767229200000, 1767232800500], SECONDS),
    "us": ([1767225600000000, 1767229200000000, 1767232800500000], SECONDS),
    "ns": ([1767225600000000000, 1767229200000000000, 1767232800500000000], SECONDS),
    "ISO with Z": (["2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", "2026-01-01T02:00:00.5Z"], SECONDS),
    "ISO with UTC": (["2026-01-01 00:00:00 UTC", "2026-01-01 01:00:00 UTC", "2026-01-01 02:00:00.5 UTC"], SECONDS),
    "ISO of other zones": (
        ["2026-01-01T05:30:00+05:30", "2025-12-31T17:00:00-0800", "2026-01-01T03:00:00.5+01"],
        SECONDS,
    ),
    "ISO without a zone": (["2026-01-01T00:00:00", "2026-01-01 01:00", "2026-01-01T02:00:00.5"], SECONDS),
    "ISO with nine digits": (
        ["2026-01-01T00:00:00.000000000Z", "2026-01-01T01:00:00.000000000Z", "2026-01-01T02:00:00.500000000Z"],
        SECONDS,
    ),
    "days": (["2026-01-01", "2026-01-02", "2026-01-03"], DAYS),
    "relative": ([0, 60, 90.5], [0.0, 60.0, 90.5]),
}
PLAIN = [dt.datetime(2026, 1, 1, 0), dt.datetime(2026, 1, 1, 1), dt.datetime(2026, 1, 1, 2, 0, 0, 500_000)]
AHEAD = dt.timezone(dt.timedelta(hours=2))
#: Values of classes, which frames and Python have.
OBJECTS = {
    "datetime": (PLAIN, SECONDS),
    "datetime of a zone": ([each.replace(tzinfo=UTC).astimezone(AHEAD) for each in PLAIN], SECONDS),
    "date": ([dt.date(2026, 1, 1), dt.date(2026, 1, 2), dt.date(2026, 1, 3)], DAYS),
    "numpy ms": ([np.datetime64(each, "ms") for each in PLAIN], SECONDS),
    "numpy ns": ([np.datetime64(each, "ns") for each in PLAIN], SECONDS),
    "pandas": ([pd.Timestamp(each) for each in PLAIN], SECONDS),
    "pandas of a zone": ([pd.Timestamp(each, tz="UTC").tz_convert("Asia/Tokyo") for each in PLAIN], SECONDS),
    "arrow": ([pa.scalar(each) for each in PLAIN], SECONDS),
}
#: What it takes to see the time of a query in a frame: two documents each.
HEAD = {"query": [1, 1, 2, 2, 3, 3], "f": [0.0, 1.0] * 3, "grade": [0, 1] * 3}


def _rows(values):
    return {**HEAD, "t": [value for value in values for _ in range(2)]}


def _times(source):
    return [
        float(x.at[0]) for x, _ in read(source, query="query", grade="grade", event_time="t", model=RidgeRanker(half_life="1h"))
    ]


def _lines(path, rows):
    names = [*rows]
    path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in zip(*rows.values(), strict=True)))
    return path


def _csv(values, folder, sep=","):
    rows = _rows(values)
    text = "\n".join(sep.join(map(str, row)) for row in zip(*rows.values(), strict=True))
    path = folder / ("t.csv" if sep == "," else "t.tsv")
    path.write_text(sep.join(rows) + "\n" + text + "\n")
    return _times(path)


def _whole_queries(values, folder):
    lines = (
        json.dumps({"id": i, "docs": {"a": {"f": 0}, "b": {"f": 1}}, "grades": {"a": 0, "b": 1}, "t": value})
        for i, value in enumerate(values)
    )
    (folder / "t.jsonl").write_text("\n".join(lines) + "\n")
    source = read(folder / "t.jsonl", event_time="t", model=RidgeRanker(half_life="1h"))
    return [float(x.at[0]) for x, _ in source]


def _table(values):
    return pa.Table.from_pandas(pd.DataFrame(_rows(values)))


def _parquet(values, folder):
    pa.parquet.write_table(_table(values), folder / "t.parquet")
    return _times(folder / "t.parquet")


def _feather(values, folder):
    pa.feather.write_feather(_table(values), str(folder / "t.arrow"))
    return _times(folder / "t.arrow")


def _clicks(values, folder):
    rows = {**_rows(values), "document": ["a", "b"] * 3, "position": [1, 2] * 3, "click": [0, 1] * 3}
    del rows["grade"]
    path = _lines(folder / "log.jsonl", rows)
    return [float(x.at[0]) for x, _ in read_clicks(path, event_time="t", model=RidgeRanker(half_life="1h"))]


def _ubi(values, folder):
    events = [
        {
            "action_name": action, "query_id": f"q{i}", "timestamp": value, "application": "shop",
            "event_attributes": {"object": {"object_id": document, "price": p}, "position": {"ordinal": p}},
        }
        for i, value in enumerate(values) for p, document in ((1, "a"), (2, "b")) for action in ("impression", "click")[:p]
    ]  # fmt: skip
    (folder / "ubi.jsonl").write_text("".join(json.dumps(each) + "\n" for each in events))
    with pytest.warns(UserWarning, match="are in") if _is_odd_number(values) else _nothing():
        lists = read_clicks(folder / "ubi.jsonl", model=RidgeRanker(half_life="1h"))
    return [float(x.at[0]) for x, _ in lists]


def _is_odd_number(values):
    return not isinstance(values[0], str) and values[0] in (1767225600, 1767225600000000, 1767225600000000000)


class _nothing:
    def __enter__(self):
        return None

    def __exit__(self, *_):
        return None


def _at(values, folder):
    model, seen = RidgeRanker(half_life="1h"), []
    for value in values:
        model.learn_one([{"f": 0.0}, {"f": 1.0}], [0, 1], at=value)
        seen.append(declared_state(model).at)
    return seen


def _at_of_many(values, folder):
    seen = []
    for n in range(1, len(values) + 1):
        model = RidgeRanker(half_life="1h")
        model.learn_many([{"f": 0.0}, {"f": 1.0}] * n, [0, 1] * n, [i for i in range(n) for _ in range(2)], at=values[:n])
        seen.append(declared_state(model).at)
    return seen


DOCS = {"a": {"f": 0.0}, "b": {"f": 1.0}}


def _http(values, folder):
    service, seen = RankingService(RidgeRanker(half_life="1h")), []

    async def send(client, app):
        for i, value in enumerate(values):
            request = {"id": i, "docs": DOCS, "grades": {"a": 0, "b": 1}, "ts": value}
            assert (await client.post("/learn", json=request)).json()["learned"]
            seen.append(declared_state(service.model).at)

    asked(send, RankingApp(Models(lambda: service)))
    return seen


def _kafka(values, folder):
    keyed, state, seen = KeyedRankers(lambda: RankingService(RidgeRanker(half_life="1h"))), State(), []
    for i, value in enumerate(values):
        request = {"id": i, "docs": DOCS, "grades": {"a": 0, "b": 1}, "ts": value}
        assert keyed.event(json.dumps(request).encode(), "k", state, "t", 0, i)["learned"]
        seen.append(declared_state(keyed.service("k", state).model).at)
    return seen


def _frames(values, folder):
    return _times(pd.DataFrame(_rows(values)))


OF_ALL = {
    "pandas": _frames,
    "polars": lambda values, folder: _times(pl.DataFrame(_rows(values), strict=False)),
    "pyarrow": lambda values, folder: _times(_table(values)),
    "parquet": _parquet,
    "arrow file": _feather,
    "at= of one": _at,
    "at= of many": _at_of_many,
}
OF_TEXT = {
    "csv": _csv,
    "tsv": lambda values, folder: _csv(values, folder, "\t"),
    "JSON lines": lambda values, folder: _times(_lines(folder / "t.jsonl", _rows(values))),
    "JSON lines of queries": _whole_queries,
    "log of clicks": _clicks,
    "UBI": _ubi,
    "HTTP": _http,
    "Kafka": _kafka,
}
FRAMES = ("polars", "pyarrow", "parquet", "arrow file")
CELLS = [(d, f) for d in OF_ALL for f in (*WRITTEN, *OBJECTS)] + [(d, f) for d in OF_TEXT for f in WRITTEN]


@pytest.mark.first(39)
@pytest.mark.parametrize(("door", "form"), CELLS, ids=[f"{d}: {f}" for d, f in CELLS])
def test_a_format_is_the_same_seconds_at_each_door(door, form, tmp_path):
    values, seconds = (WRITTEN | OBJECTS)[form]
    if door == "UBI" and form == "relative":
        seconds = [second / 1000.0 for second in seconds]  # The standard has milliseconds.
    if door in FRAMES and form == "arrow":
        values = [value.as_py() for value in values]
    if door == "polars" and form.startswith("numpy"):
        values = [pd.Timestamp(value) for value in values]
    assert (OF_ALL | OF_TEXT)[door](values, tmp_path) == seconds


def _written(folder, values):
    lines = [f"{i // 2},{i % 2},{value},{i % 2}" for i, value in enumerate(values)]
    (folder / "t.csv").write_text("query,f,t,grade\n" + "\n".join(lines) + "\n")
    return folder / "t.csv"


OTHERS = {
    "ms after s": (
        ["1767225600"] * 4 + ["1767225600000"] * 2,
        "line 6: 't', the event time, is mixed: 1767225600000 is a date in ms",
    ),
    "s after us": (
        ["1767225600000000"] * 4 + ["1767225600"] * 2,
        "line 6: 't', the event time, is mixed: 1767225600 is a date in s",
    ),
    "a number after texts": (
        ["2026-01-01"] * 4 + ["1767225600"] * 2,
        "line 6: '1767225600' in column 't', .*the column is mixed",
    ),
    "a text after numbers": (
        ["1767225600"] * 4 + ["2026-01-01"] * 2,
        "line 6: '2026-01-01' in column 't', .*the column is mixed",
    ),
    "a zone after none": (
        ["2026-01-01T00:00:00"] * 4 + ["2026-01-01T00:00:00Z"] * 2,
        "line 6: .* says a zone, and those before it",
    ),
    "no zone after one": (
        ["2026-01-01T00:00:00Z"] * 4 + ["2026-01-01T00:00:00"] * 2,
        "line 6: .* says no zone, and those before",
    ),
    "month 13": (
        ["2026-01-01"] * 4 + ["2026-13-01"] * 2,
        "line 6: '2026-13-01' in column 't', the event time, is no time in ISO",
    ),
}


@pytest.mark.parametrize(("values", "message"), OTHERS.values(), ids=OTHERS)
def test_a_column_of_several_units_is_refused_with_its_line(values, message, tmp_path):
    with pytest.raises(ReadError, match=r"t\.csv, " + message):
        list(read(_written(tmp_path, values), query="query", grade="grade", event_time="t"))


def test_a_second_file_of_another_unit_is_refused(tmp_path):
    (tmp_path / "a").mkdir()
    first = _written(tmp_path, ["1767225600"] * 2)
    second = _written(tmp_path / "a", ["1767225700000"] * 2)
    second.write_text(second.read_text().replace("\n0,", "\n7,"))
    with pytest.raises(ReadError, match=r"a/t\.csv, line 2: 't', the event time, is mixed: 1767225700000 is a date in ms"):
        list(read(first, second, query="query", grade="grade", event_time="t"))


def test_numbers_of_at_have_one_unit():
    model = RidgeRanker(half_life="1h")
    with pytest.raises(ValueError, match="at: query 1: 1767225600000 is a date in ms, and the times before it are in s"):
        model.learn_many([{"f": 0.0}] * 3, [0, 1, 0], [0, 1, 2], at=[1767225600, 1767225600000, 1767225601])
    assert declared_state(model).at is None
    with pytest.raises(ValueError, match="at: query 1: nan is no time"):
        model.learn_many([{"f": 0.0}] * 2, [0, 1], [0, 1], at=[1767225600, float("nan")])


def test_ubi_of_several_units_is_refused_with_its_line(tmp_path):
    events = [
        {"action_name": "impression", "query_id": f"q{i}", "timestamp": value, "event_attributes": {
            "object": {"object_id": "a"}, "position": {"ordinal": 1}}}
        for i, value in enumerate([1767225600000, 1767225600])
    ]  # fmt: skip
    (tmp_path / "ubi.jsonl").write_text("".join(json.dumps(each) + "\n" for each in events))
    with pytest.raises(
        ReadError, match=r"ubi\.jsonl, line 2: timestamp 1767225600 is a date in s, and those before it are in ms"
    ):
        read_clicks(tmp_path / "ubi.jsonl")


PLANS = {
    "s": (["1767225600"] * 4, "s since 1970, zone UTC"),
    "ms": (["1767225600000"] * 4, "ms since 1970, zone UTC"),
    "ISO with a zone": (["2026-01-01T00:00:00+01:00"] * 4, "ISO 8601, zone as given"),
    "ISO without a zone": (["2026-01-01"] * 4, "ISO 8601, zone none given, read as UTC"),
    "relative": (
        ["0", "0", "60", "60"],
        "numbers that are no dates: they stay as they are, a half-life takes one for a second",
    ),
    # A counter of nanoseconds that rises evenly: more than nine of ten numbers could be dates in ms.
    "a counter": ([str(2 * 10**10 * (i // 2)) for i in range(400)], "numbers that are no dates: they stay as they are, "),
}


@pytest.mark.parametrize(("values", "words"), PLANS.values(), ids=PLANS)
def test_the_plan_says_unit_and_zone(values, words, tmp_path):
    source = read(_written(tmp_path, values), query="query", grade="grade", event_time="t")
    assert source.plan.in_words()[-1].startswith(f"times: t, event time ({words}")
    assert len(list(source)) == len(values) // 2


def test_a_time_of_a_zone_in_a_frame_is_named_in_the_plan():
    frame = pd.DataFrame(_rows([pd.Timestamp("2026-01-01", tz="Europe/Berlin")] * 3))
    assert read(frame, grade="grade", event_time="t").plan.in_words()[-1] == "times: t, event time (dates, zone Europe/Berlin)"


def test_nine_digits_of_a_second_count():
    text = "2026-01-01T00:00:00.123456789Z"
    assert seconds_of_time("at", text) == pytest.approx(1767225600.123456789, abs=2.4e-7)  # the spacing of floats there
    assert seconds_of_time("at", "1970-01-01T00:00:00.123456789+00:00") == 0.123456789
    assert seconds_of_time("at", pd.Timestamp(123456789)) == 0.123456789


@pytest.mark.parametrize("wrong", [1e11, -1e11, 5e13, 1e20, float("nan"), float("inf"), "2026", "now", "2026-02-30", pd.NaT])
def test_what_is_no_time_is_refused(wrong):
    with pytest.raises(ValueError, match=r"at is .*; times are dates of 1980 to 2100 in s, ms, us or ns"):
        seconds_of_time("at", wrong)


@pytest.mark.parametrize("wrong", [True, None, [1.0], b"2026-01-01"])
def test_what_is_of_no_type_of_times_is_refused(wrong):
    with pytest.raises(TypeError, match=r"at is .*; times are dates"):
        seconds_of_time("at", wrong)


def _timed(folder, gap):
    lines = [f"{q},d{d},{1767225600 + q * gap},{d},{d}" for q in range(20) for d in range(2)]
    (folder / "t.csv").write_text("query,doc,t,f,grade\n" + "\n".join(lines) + "\n")
    return folder / "t.csv"


#: The gap between lists, the half-life, and what the one warning says.
PACES = {
    "below the gap": (3600, "30m", "half-life 30m is below the median gap between lists, 1h: nearly all of the past"),
    "above the span": (60, "1h", "half-life 1h is above the span of all lists, 19m: hardly anything is forgotten"),
    "between": (600, "1h", None),
}


@pytest.mark.parametrize(("gap", "half_life", "told"), PACES.values(), ids=PACES)
def test_a_half_life_that_does_not_fit_the_lists_raises_one_warning(gap, half_life, told, tmp_path):
    model = History("document", half_life=half_life) | RidgeRanker()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        list(read(_timed(tmp_path, gap), query="query", grade="grade", document="doc", event_time="t", model=model))
    lines = [str(each.message) for each in found if issubclass(each.category, UserWarning)]
    assert len(lines) == (told is not None)
    assert told is None or told in lines[0]


#: A list, a click after 10 minutes, and one after 45, in several formats.
WINDOWS = {
    "s": [1767225600, 1767225600, 1767226200, 1767228300],
    "ms": [1767225600000, 1767225600000, 1767226200000, 1767228300000],
    "us": [1767225600000000, 1767225600000000, 1767226200000000, 1767228300000000],
    "ns": [1767225600000000000, 1767225600000000000, 1767226200000000000, 1767228300000000000],
    "ISO": ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z", "2026-01-01T00:45:00Z"],
}


@pytest.mark.parametrize("times", WINDOWS.values(), ids=WINDOWS)
def test_a_window_is_as_long_in_each_unit(times, tmp_path):
    rows = {
        "query": ["q"] * 4, "document": ["a", "b", "a", "b"], "position": [1, 2, 1, 2],
        "click": ["shown", "shown", "click", "click"], "f": [1.0, 2.0, 1.0, 2.0], "t": times,
    }  # fmt: skip
    path = _lines(tmp_path / "log.jsonl", rows)
    lists = read_clicks(path, event_time="t", window=1800.0, events={"shown": 0.0, "click": 1.0})
    ((_, clicks),) = lists
    assert (clicks.gains, lists.n_late) == ((1.0, 0.0), 1)
