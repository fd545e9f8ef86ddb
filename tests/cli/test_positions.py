"""What `serve` and `stream` do about positions: `--examination`, given weights, and what they say at first."""

import json

import numpy as np
import pytest

from online_rank import (
    AdditiveRanker,
    ClickPerceptron,
    ExaminedRanker,
    FairPairs,
    PerceptronRanker,
    StreamQuantileMap,
    StreamScaler,
    SwapRanker,
    save,
)
from online_rank.base import ranker_of
from online_rank.cli.options import Service
from online_rank.cli.positions import how_it_serves, with_examination
from online_rank.cli.service import maker, met

WINDOW = {"feedback_window": "30m", "event": ["click=1"]}


def taught(model):
    for t in range(20):
        X = np.random.default_rng(t).normal(size=(4, 2))
        model.learn_one([{"x": a, "y": b} for a, b in X.tolist()], (X[:, 0] > 0).astype(int).tolist())
    return model


def test_clicks_on_a_model_for_grades_need_the_examination(tmp_path, capsys):
    save(taught(StreamScaler() | PerceptronRanker()), tmp_path / "m")
    for model, kind in ((str(tmp_path / "m"), PerceptronRanker), (None, AdditiveRanker)):
        with pytest.raises(ValueError, match="unless --examination says how often each is looked at: a FILE"):
            maker(Service(model, **WINDOW))
        assert isinstance(ranker_of(maker(Service(model, **WINDOW, examination="none"))().model), kind)
        (tmp_path / "looked.json").write_text("[1, 0.5, 0.25]")
        service = maker(Service(model, **WINDOW, examination=str(tmp_path / "looked.json")))()
        assert ranker_of(service.model).examination == (1.0, 0.5, 0.25)
        estimated = ranker_of(maker(Service(model, **WINDOW, examination="estimated"))().model)
        assert (estimated.examination, type(estimated._own_policy)) == (None, FairPairs)
    # What it learned is kept, and its lists are learned with the weights.
    service = maker(Service(str(tmp_path / "m"), **WINDOW, examination=str(tmp_path / "looked.json")))()
    x = {"a": {"x": 2.0, "y": 0.0}, "b": {"x": -2.0, "y": 0.0}}
    answer = service.handle(json.dumps({"id": 1, "docs": x, "ts": 0}).encode()).answer
    assert (answer["ranking"], answer["shown"]) == (["a", "b"], 2)
    service.handle(b'{"id": 1, "event": "click", "doc": "b", "ts": 1}')
    assert service.advance(4000.0).closed[0].learned
    assert service.counts()["learned"] == 1
    # Without a window or events a model for grades is what it was.
    assert maker(Service(str(tmp_path / "m")))().draws is False


@pytest.mark.parametrize(
    ("text", "found"),
    [("[1, 0.5]", (1.0, 0.5)), ('{"examination": [1, 0.3], "lists": 5}', (1.0, 0.3)), ("1.0\n0.5\n0.25\n", (1.0, 0.5, 0.25))],
)
def test_files_of_examination(text, found, tmp_path):
    (tmp_path / "e").write_text(text)
    assert with_examination(PerceptronRanker(), str(tmp_path / "e"), True).examination == found


@pytest.mark.parametrize("text", ["", "a b", "[1, 0]", "[1.5]", '{"x": 1}'])
def test_files_of_something_else_are_refused(text, tmp_path):
    (tmp_path / "e").write_text(text)
    with pytest.raises(ValueError, match="--examination takes one probability above 0 for each position"):
        with_examination(PerceptronRanker(), str(tmp_path / "e"), True)


def test_a_click_model_takes_an_examination_where_it_lacks_one(tmp_path):
    (tmp_path / "e").write_text("1 0.5")
    lacking = ClickPerceptron(credit="propensity")
    assert "learns from no feedback" in how_it_serves(lacking, None, [])[0]
    assert with_examination(lacking, str(tmp_path / "e"), False).examination == (1.0, 0.5)
    assert how_it_serves(lacking, None, []) == ["ranks greedily; learns from clicks on what it shows"]
    assert with_examination(SwapRanker(), str(tmp_path / "e"), True).confidence == 0.0


def test_it_prints_what_is_shown_and_learned():
    assert how_it_serves(PerceptronRanker(), None, []) == ["ranks greedily; learns from grades"]
    assert how_it_serves(AdditiveRanker(), None, ["click"]) == [
        "ranks greedily; learns from grades and events (click), as if positions did not matter"
    ]
    assert how_it_serves(SwapRanker(), None, []) == [
        "draws the lists to show from all documents, at confidence 0.00, without a budget: the model began with nothing "
        "(--from-today FIELD draws around the ranking of today); "
        "learns from clicks on what it shows"
    ]
    assert (
        "draws the lists to show within a budget: users see at least 98.0% of the greedy lists' DCG"
        in how_it_serves(SwapRanker.from_weights([1.0]), None, [])[0]
    )
    assert "at least 90.8% of" in how_it_serves(ExaminedRanker(PerceptronRanker()), None, [])[0]


def test_given_weights_behind_what_has_met_nothing_are_refused_or_taught(tmp_path):
    given = SwapRanker.from_weights({"x": 1.0, "y": 0.0})
    save(StreamQuantileMap() | given, tmp_path / "m")
    with pytest.raises(ValueError, match="weights behind StreamQuantileMap, which has met no query, so that all scores are 0"):
        maker(Service(str(tmp_path / "m")))()
    rng = np.random.default_rng(0)
    with (tmp_path / "queries").open("w") as lines:
        for _ in range(30):
            lines.write(json.dumps({"id": 1, "docs": {f"{d}": {"x": rng.normal(), "y": 1.0} for d in range(5)}}) + "\n")
    service = maker(Service(str(tmp_path / "m"), reference=str(tmp_path / "queries")))()
    scores = service.model.predict_one({"low": {"x": -1.0, "y": 1.0}, "high": {"x": 1.0, "y": 1.0}})
    assert scores["high"] > scores["low"] + 0.5


def test_queries_of_a_reference_are_in_any_form_and_what_is_none_is_named_by_its_line(tmp_path):
    file, weights = tmp_path / "queries", {"clicks": 1.0}
    docs = '{"id": 1, "docs": {"a": {"clicks": 3}, "b": {"clicks": 1}}}'
    columns = '{"id": 2, "features": ["clicks"], "documents": ["a", "b"], "rows": [[3], [1]]}'
    scores = []
    for lines in ([docs, docs], [docs, columns]):
        file.write_text("\n".join(lines))
        model = met(StreamScaler() | PerceptronRanker.from_weights(weights), str(file))
        scores.append(model.predict_one({"a": {"clicks": 2}, "b": {"clicks": 1}}))
    assert scores[0] == scores[1]
    for wrong, says in (
        ("hello", "JSON"),
        ('{"id": 1, "clicks": ["a"]}', "it is no query as POST /rank takes it"),
        ('{"id": 1, "docs": {"a": {"clicks": "many"}}}', "feature 'clicks' of document 'a' is 'many'"),
    ):
        file.write_text(f"{docs}\n{wrong}\n")
        with pytest.raises(ValueError, match="queries, line 2: ") as refused:
            met(StreamScaler() | PerceptronRanker.from_weights(weights), str(file))
        assert says in str(refused.value)
