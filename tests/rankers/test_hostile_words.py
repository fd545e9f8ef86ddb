"""Texts that try to break words, and columns that change what they are, through every door."""

import csv
import json

import numpy as np
import pytest
from river import feature_extraction

from online_rank import AdditiveRanker, ForEachDocument
from online_rank.query.words import words_of
from online_rank.rankers.curved import CurveReader
from online_rank.rankers.worded import Texts
from online_rank.serving import RankingService
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.stream import read

TEXTS = {
    "one word of a megabyte": "x" * 1_000_000,
    "many words": "ab " * 100_000,
    "NUL": "red\0shoe blue",
    "a lone surrogate": "red \ud800 shoe blue",
    "blanks": "  \t\n ",
    "emoji": "\U0001f44d \U0001f3c3\u200d\u2642\ufe0f shoe \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "Chinese and Japanese": "\u4eac\u90fd\u5e02\u306e\u8d64\u3044\u9774",
    "right to left": "\u0646\u0639\u0644 \u0623\u062d\u0645\u0631 \u05e9\u05e8",
    "mixed scripts": "red \u9774 \u0442\u0443\u0444\u043b\u0438 \u0646\u0639\u0644",
    "lines": "red\nshoe\r\nblue\u2028one\u0085two",
    "points alone": "!!! ??? ...",
    "many marks": "a" + "\u0301" * 5000,
}


def taught(**given):
    model, rng = AdditiveRanker(trees=0, **given), np.random.default_rng(0)
    for _ in range(4):
        x = [{"title": " ".join(f"w{j}" for j in rng.integers(0, 30, 5)), "price": float(i)} for i in range(8)]
        model.learn_one(x, rng.integers(0, 3, 8).tolist(), context={"q": "w1 w2"})
    return model


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("kinds", [{"title": "text", "q": "text"}, {"title": "category"}], ids=["text", "category"])
def test_a_hostile_text_is_learned_ranked_explained_and_saved(text, kinds):
    model, context = taught(kinds=kinds), {"q": text[:500]}
    x = {"a": {"title": text, "price": 1.0}, "b": {"title": f"w1 w2 {text[:20]}", "price": 2.0}}
    model.learn_one(x, {"a": 1, "b": 0}, context=context)
    scores = model.predict_one(x, context=context)
    assert np.isfinite([*scores.values()]).all()
    assert model.explain_one(x, "a", "b", context=context).difference == pytest.approx(scores["a"] - scores["b"])
    if "\ud800" not in text or kinds["title"] == "text":
        assert from_bytes(to_bytes(model)).predict_one(x, context=context) == scores


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_service_answers_and_continues(text):
    service = RankingService(taught(kinds={"title": "text", "q": "text"}))
    docs = {"a": {"title": text, "price": 1.0}, "b": {"title": "w1", "price": 2.0}}
    for number, one in ((1, docs), (2, {name: {"title": "w1 w2", "price": 1.0} for name in docs})):
        asked = {"id": f"q{number}", "docs": one, "context": {"q": text[:500]} if number == 1 else {"q": "w1"}}
        told = service.handle(json.dumps(asked).encode()).answer
        if "\ud800" in text and number == 1:
            assert "JSON" in told["error"]
            continue
        assert "ranking" in told
        learned = service.handle(json.dumps({"id": f"q{number}", "grades": {"a": 1, "b": 0}}).encode()).answer
        assert learned["learned"]


def test_texts_of_both_forms_of_unicode_have_the_same_words():
    assert words_of("cafe\u0301 re\u0301d") == words_of("caf\u00e9 r\u00e9d") == ["caf\u00e9", "r\u00e9d"]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_files_of_hostile_texts_are_learned(tmp_path, form):
    texts = [text.replace("\0", " ")[:2000] for text in TEXTS.values() if "\ud800" not in text]
    rows = [{"qid": t, "grade": i % 3, "title": f"{text} {t}", "price": i} for t in range(3) for i, text in enumerate(texts)]
    path = tmp_path / f"queries.{form}"
    with path.open("w", newline="", encoding="utf-8") as file:
        if form == "csv":
            writer = csv.DictWriter(file, [*rows[0]])
            writer.writeheader()
            writer.writerows(rows)
        else:
            file.write("".join(json.dumps(row) + "\n" for row in rows))
    model = AdditiveRanker(trees=0, kinds={"title": "text"})
    for x, y in read(path, model=model, query="qid", grade="grade"):
        model.learn_one(x, y)
    assert model.n_queries == 3
    assert model.n_words > 10
    assert "title" in model.text_features


def test_river_reads_hostile_texts_in_front():
    model = ForEachDocument(feature_extraction.TFIDF(on="title")) | AdditiveRanker(trees=0)
    texts = [text[:2000] for text in TEXTS.values() if "w" in text or " shoe " in text]
    for _ in range(3):
        model.learn_one([{"title": f"{text} end"} for text in texts], [t % 2 for t in range(len(texts))])
    assert np.isfinite(model.predict_one([{"title": text} for text in texts])).all()


def test_a_column_turns_from_category_to_text_and_back():
    model, rng, met = AdditiveRanker(trees=0), np.random.default_rng(0), []
    for t in range(600):
        new = 100 <= t < 300
        values = [f"new text {t} {i}" for i in range(10)] if new else [f"brand {j}" for j in rng.integers(0, 5, 10)]
        model.learn_one([{"title": value} for value in values], rng.integers(0, 3, 10).tolist())
        if t in (99, 299, 599):
            met.append(model.feature_kinds["title"])
            assert to_bytes(from_bytes(to_bytes(model))) == to_bytes(model)
    assert met == ["category", "text", "category"]


def test_odd_values_in_a_column_of_texts_change_nothing_for_others():
    model = taught(kinds={"title": "text"})
    x = [{"title": "w1 w2", "price": 1.0}, {"title": "w3", "price": 2.0}]
    for odd in (1.5, True, None, float("nan"), "", []):
        scores = model.predict_one([*x, {"title": odd, "price": 1.0}])
        assert scores[:2] == pytest.approx(model.predict_one([*x, {"price": 1.0}])[:2])


@pytest.mark.parametrize("odd", [1.5, True, ["a b", "c"], [1.0, 2.0], None, float("nan")], ids=repr)
@pytest.mark.parametrize("kinds", [None, {"title": "text"}], ids=["decided", "declared"])
def test_a_query_of_odd_values_alone_does_not_end_a_column_of_texts(odd, kinds):
    """One query whose titles were all numbers, or vectors, made every later text an error."""
    model, rng = AdditiveRanker(trees=0, kinds=kinds), np.random.default_rng(0)

    def query():
        return [{"title": " ".join(f"w{j}" for j in rng.integers(0, 3000, 5)), "price": 1.0} for _ in range(8)]

    for _ in range(20):
        model.learn_one(query(), rng.integers(0, 3, 8).tolist())
    words = model.n_words
    model.learn_one([{"title": odd, "price": 1.0}, {"title": odd, "price": 2.0}], [1, 0])
    assert model.n_ignored == (0 if odd is None or odd != odd else 2)
    model.learn_one(query(), rng.integers(0, 3, 8).tolist())
    assert model.feature_kinds == {"price": "number", "title": "text"}
    assert model.n_words > words


def test_a_text_that_is_numbers_from_now_on_is_a_number():
    model = taught()
    rng = np.random.default_rng(1)
    for t in range(12):
        x = [{"title": f"new words {t} {i}", "price": 1.0} for i in range(20)]
        model.learn_one(x, rng.integers(0, 3, 20).tolist())
    assert model.feature_kinds["title"] == "text"
    for _ in range(60):
        model.learn_one(
            [{"title": float(value), "price": 1.0} for value in rng.normal(size=20)], rng.integers(0, 3, 20).tolist()
        )
    assert "title" in model.feature_names


def test_a_query_without_any_text_and_one_without_features():
    model = taught(kinds={"title": "text"})
    before = model.n_words
    model.learn_one([{"price": 1.0}, {"price": 2.0}], [1, 0])
    model.learn_one([{}, {}], [1, 0])
    assert model.n_words == before
    assert np.isfinite(model.predict_one([{}, {"title": "w1"}])).all()


def test_a_text_of_a_query_has_a_limit():
    with pytest.raises(ValueError, match=r"context\['q'\] has 1000000 characters"):
        taught().predict_one([{"price": 1.0}], context={"q": "x" * 1_000_000})


@pytest.mark.slow
def test_many_columns_are_bounded():
    model = AdditiveRanker(trees=0)
    for t in range(40):
        model.learn_one([{f"c{1000 * t + 100 * i + j}": 1.5 for j in range(100)} for i in range(10)], [0, 1] * 5)
    assert model.n_features <= 1000
    assert model.n_words == 39_000


STREAMS = {
    "numbers": lambda r: [{f"f{j}": value for j, value in enumerate(row)} for row in r.normal(size=(9, 5)).tolist()],
    "an array": lambda r: r.normal(size=(9, 5)),
    "brands": lambda r: [{"brand": f"b{j}", "price": float(j)} for j in r.integers(0, 20, 9).tolist()],
    "tags": lambda r: [{"tags": [f"t{k}" for k in r.integers(0, 9, 3)], "price": float(r.normal())} for _ in range(9)],
    "missing": lambda r: [{name: float(r.normal()) for name in "abc" if r.random() < 0.7} for _ in range(9)],
    "dates": lambda r: [{"when": f"2026-01-{1 + j:02d}", "new": bool(j % 2)} for j in r.integers(0, 28, 9).tolist()],
    "counts": lambda r: [{f"w{j}": 1 for j in r.integers(0, 300, 10).tolist()} for _ in range(9)],
    "names one by one": lambda r: [{f"n{j}": 1.5 for j in r.integers(0, 30, 4).tolist()} for _ in range(9)],
}


@pytest.mark.parametrize("make", STREAMS.values(), ids=STREAMS)
def test_streams_without_texts_are_learned_as_by_a_reader_without_words(monkeypatch, make):
    """Every bit of what is served, and of the state, is as by a reader that knows no texts."""

    def learned():
        model, rng, served = AdditiveRanker(trees=20), np.random.default_rng(3), []
        for _ in range(25):
            x, y = make(rng), rng.integers(0, 3, 9).tolist()
            served.append(model.predict_one(x))
            model.learn_one(x, y)
        assert model._words is None
        model._kinds = None  # Levels of categories are texts too: their kinds are noted.
        return served, to_bytes(model)

    worded = learned()
    monkeypatch.setattr(Texts, "take", lambda *_: False)
    monkeypatch.setattr(CurveReader, "_align_named", lambda self, *given: super(CurveReader, self).align(*given))
    assert learned() == worded
