"""Dates, booleans and texts with blanks are the same features in every format of tables, in dicts and over HTTP."""

import contextlib
import datetime as dt
import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from online_rank import AdditiveRanker, PerceptronRanker, StreamScaler, load, read
from online_rank.cli import main
from online_rank.serving import Models, RankingApp, RankingService
from online_rank.storage.files import to_bytes
from online_rank.stream import ReadError
from tests.serving.asking import asked

DAYS = [f"2026-01-{1 + i % 9:02d}" for i in range(40)]
#: 40 documents, two a query.
ROWS = {
    "query": [i // 2 for i in range(40)],
    "price": [float(i % 7) for i in range(40)],
    "published": DAYS,
    "new": [i % 3 > 0 for i in range(40)],
    "region": [("nord", "sud", "west")[i % 3] for i in range(40)],
    "grade": [i % 2 for i in range(40)],
}
NAMES = (
    "price", "published", ("new", "is", "false"), ("new", "is", "true"),
    ("region", "is", "nord"), ("region", "is", "sud"), ("region", "is", "west"),
)  # fmt: skip


def _csv(frame, path):
    frame.to_csv(path, index=False)
    return path


def _lines(frame, path):
    frame = frame.assign(published=frame["published"].astype(str))
    path.write_text("".join(json.dumps(row) + "\n" for row in frame.to_dict("records")))
    return path


def _parquet(frame, path):
    frame.to_parquet(path, index=False)
    return path


FORMATS = {
    "csv": lambda frame, folder: _csv(frame, folder / "t.csv"),
    "JSON lines": lambda frame, folder: _lines(frame, folder / "t.jsonl"),
    "parquet of texts": lambda frame, folder: _parquet(frame, folder / "t.parquet"),
    "parquet of times": lambda frame, folder: _parquet(
        frame.assign(published=pd.to_datetime(frame["published"]).astype("datetime64[ns]")), folder / "t.parquet"
    ),
    "parquet of dates": lambda frame, folder: _parquet(
        frame.assign(published=[dt.date.fromisoformat(day) for day in frame["published"]]), folder / "t.parquet"
    ),
    "pandas": lambda frame, folder: frame.assign(published=pd.to_datetime(frame["published"], utc=True)),
    "pandas of texts": lambda frame, folder: frame.assign(new=frame["new"].astype(str)),
    "polars": lambda frame, folder: pl.DataFrame(frame.to_dict("list")).with_columns(pl.col("published").str.to_date()),
    "pyarrow": lambda frame, folder: pl.DataFrame(frame.to_dict("list")).to_arrow(),
}


def _state(model):
    """The state by names of features: columns of JSON may come in another order."""
    documents = [{"price": 3.0, "published": dt.date(2026, 1, day), "new": bool(day % 2), "region": "sud"} for day in (1, 5, 8)]
    return {*model.feature_names}, pytest.approx(model.predict_one(documents), rel=1e-9)


@pytest.mark.parametrize("form", FORMATS)
def test_a_format_makes_the_features_that_dicts_make(form, tmp_path):
    frame, alone, model = pd.DataFrame(ROWS), AdditiveRanker(), AdditiveRanker()
    documents = frame.drop(columns=["query", "grade"]).to_dict("records")
    for i in range(0, 40, 2):
        alone.learn_one([{**x, "published": dt.date.fromisoformat(x["published"])} for x in documents[i : i + 2]], [0, 1])
    source = read(FORMATS[form](frame, tmp_path), query="query", grade="grade", model=model)
    types = {column.name: column.type for column in source.plan.columns}
    assert (types["published"], types["new"], types["region"]) == ("time", "boolean", "text")
    assert source.plan.in_words()[-1].startswith("times: published, feature (")
    for x, y in source:
        model.learn_one(x, y)
    assert {*model.feature_names} == {*NAMES}
    names, scores = _state(alone)
    assert ({*model.feature_names}, model.predict_one(_probe())) == (names, scores)


def _probe():
    return [{"price": 3.0, "published": dt.date(2026, 1, day), "new": bool(day % 2), "region": "sud"} for day in (1, 5, 8)]


@pytest.mark.parametrize("form", FORMATS)
def test_booleans_are_1_and_0_for_models_of_numbers(form, tmp_path):
    model = StreamScaler() | PerceptronRanker()
    source = read(FORMATS[form](pd.DataFrame(ROWS), tmp_path), query="query", grade="grade", model=model)
    seen = [x.X.tolist() for x, _ in source]
    assert source.plan.features == ("price", "new")
    assert seen[0] == [[0.0, 0.0], [1.0, 1.0]]
    left = {column.name: column.why for column in source.plan.left_out}
    assert left["published"].startswith("a time: AdditiveRanker takes it (--ranker additive)")


def test_a_date_among_dates_that_is_none_is_an_error_with_its_row(tmp_path):
    frame = pd.DataFrame(ROWS)
    _csv(frame.assign(published=[*DAYS[:20], "soon", *DAYS[21:]]), tmp_path / "t.csv")
    source = read(tmp_path / "t.csv", query="query", grade="grade", model=AdditiveRanker())
    (left,) = source.plan.left_out
    assert (left.name, left.type) == ("published", "text")
    assert left.why.startswith("text, because of 'soon' (")
    assert "t.csv, line 22), among dates: name it as a feature" in left.why
    model = AdditiveRanker()
    for x, y in read(_csv(frame, tmp_path / "good.csv"), query="query", grade="grade", model=model):
        model.learn_one(x, y)
    with pytest.raises(ReadError, match=r"t\.csv, line 22: 'soon' in column 'published'"):
        list(read(tmp_path / "t.csv", query="query", grade="grade", model=model))


def test_missing_dates_and_booleans_are_missing(tmp_path):
    frame = pd.DataFrame(ROWS).astype({"new": object})
    frame.loc[0, ["published", "new"]] = None
    for form in ("csv", "parquet of texts"):
        model = AdditiveRanker()
        x, _ = next(read(FORMATS[form](frame, tmp_path), query="query", grade="grade", model=model))
        assert x.X[0]["new"] is None
        assert np.isnan(x.X[0]["published"])
        assert x.X[1]["new"] is True
        assert x.X[1]["published"] == 1767312000.0


def _model(folder, source, *options):
    saved = str(folder / "m.npz")
    with contextlib.suppress(SystemExit):
        main(["train", str(source), "--query", "query", "--grade", "grade", "--save", saved, "-q", *options])
    return load(saved)


@pytest.mark.parametrize("ranker", ["additive", "perceptron"])
@pytest.mark.parametrize("form", ["csv", "JSON lines", "parquet of times"])
def test_a_model_of_a_table_takes_its_own_data_over_http(ranker, form, tmp_path):
    model = _model(tmp_path, FORMATS[form](pd.DataFrame(ROWS), tmp_path), "--ranker", ranker)
    keys = ("price", "published", "new", "region") if ranker == "additive" else ("price", "new")
    docs = {f"d{i}": {key: ROWS[key][i] for key in keys} for i in range(9)}
    words = {name: {**x, "new": str(x["new"])} for name, x in docs.items()}

    async def send(client, app):
        answers = [(await client.post("/rank", json={"id": i, "docs": each})).json() for i, each in enumerate((docs, words))]
        grades = {name: i % 2 for i, name in enumerate(docs)}
        answers.append((await client.post("/learn", json={"id": 0, "grades": grades})).json())
        rows = [[x[key] for key in keys] for x in docs.values()]
        columns = {"features": [*keys], "documents": [*docs], "rows": rows}
        answers.append((await client.post("/rank", json={"id": 3, **columns})).json())
        return answers

    before = model.feature_names if ranker == "additive" else model["StreamScaler"].feature_names
    first, second, learned, _ = answers = asked(send, RankingApp(Models(lambda: RankingService(model))))
    assert not [answer for answer in answers if "error" in answer]
    assert (first["ranking"], first["scores"]) == (second["ranking"], second["scores"])
    assert learned["learned"]
    assert (model.feature_names if ranker == "additive" else model["StreamScaler"].feature_names) == before


def test_a_model_of_requests_takes_the_same_data_as_csv(tmp_path):
    served, alone, frame = AdditiveRanker(), AdditiveRanker(), pd.DataFrame(ROWS)

    async def send(client, app):
        for i in range(20):
            docs = {str(k): {key: ROWS[key][k] for key in ROWS if key not in ("query", "grade")} for k in (2 * i, 2 * i + 1)}
            grades = {str(2 * i): 0, str(2 * i + 1): 1}
            assert (await client.post("/learn", json={"id": i, "docs": docs, "grades": grades})).json()["learned"]

    asked(send, RankingApp(Models(lambda: RankingService(served))))
    for x, y in read(_csv(frame, tmp_path / "t.csv"), query="query", grade="grade", model=alone):
        alone.learn_one(x, y)
    assert to_bytes(served) == to_bytes(alone)
    for x, y in read(tmp_path / "t.csv", query="query", grade="grade", model=served):
        served.learn_one(x, y)
    assert {*served.feature_names} == {*NAMES}


def test_a_model_that_learned_booleans_as_numbers_takes_booleans():
    """As models of earlier versions, which read a csv, did."""
    model = AdditiveRanker()
    model.learn_one([{"new": 1.0}, {"new": 0.0}], [1, 0])
    scores = model.predict_one([{"new": 1.0}, {"new": 0.0}, {"new": 1.0}])
    assert model.predict_one([{"new": True}, {"new": False}, {"new": "True"}]) == scores
    with pytest.raises(ValueError, match="feature 'new' of document 1 is a boolean, True, and a number elsewhere"):
        model.predict_one([{"new": 1.0}, {"new": True}])
    assert model.feature_names == ("new",)


@pytest.mark.parametrize("form", ["csv", "JSON lines", "parquet of texts"])
def test_blanks_around_categories_are_trimmed_and_counted_once(form, tmp_path):
    frame = pd.DataFrame(ROWS)
    blank = frame.assign(region=[f" {x} " if i % 4 == 1 else x for i, x in enumerate(ROWS["region"])])
    model, alone = AdditiveRanker(), AdditiveRanker()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        source = read(FORMATS[form](blank, tmp_path), query="query", grade="grade", model=model)
        for x, y in source:
            model.learn_one(x, y)
    (line,) = [str(each.message) for each in told if issubclass(each.category, UserWarning)]
    assert "blanks around categories were trimmed: 10 in column 'region'; the first is ' sud '" in line
    assert ("line 3" if form == "csv" else "line 2" if form == "JSON lines" else "row 2") in line
    assert (source.n_trimmed, model.n_trimmed) == (10, 0)
    for x, y in read(FORMATS[form](frame, tmp_path), query="query", grade="grade", model=alone):
        alone.learn_one(x, y)
    assert to_bytes(model) == to_bytes(alone)


GRADES, IDS = [0, 1, 2, 0] * 3, [i // 4 for i in range(12)]


def test_blanks_in_dicts_are_trimmed_counted_and_told_once():
    model, alone = AdditiveRanker(), AdditiveRanker()
    with pytest.warns(UserWarning, match="blanks around categories are trimmed, here of 'region' in 2 documents") as told:
        model.learn_many([{"region": text} for _ in range(3) for text in ("nord ", "nord", "sud", " ")], GRADES, IDS)
    alone.learn_many([{"region": text} for _ in range(3) for text in ("nord", "nord", "sud", None)], GRADES, IDS)
    assert len(told) == 1
    assert model.n_trimmed == 6  # With the blank text, which is missing.
    assert to_bytes(model) == to_bytes(alone)


def test_a_level_that_was_learned_with_blanks_stays(tmp_path):
    """As models of earlier versions learned them."""
    from online_rank.base.names import Columns

    model = AdditiveRanker()
    model.learn_one([{"region": "nord"}, {"region": "sud"}], [0, 1])
    model._columns = Columns([("region", "is", "nord "), ("region", "is", "sud")])
    model._known_levels = None
    score, of_sud = model.predict_one([{"region": "nord "}, {"region": "sud "}])
    assert score != of_sud
    frame = pd.DataFrame({"query": [1, 1], "region": ["nord ", "sud"], "grade": [0, 1]})
    x, _ = next(read(frame, query="query", grade="grade", model=model))
    assert model.predict_one(x) == pytest.approx([score, of_sud])
