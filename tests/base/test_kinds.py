"""The kinds of features, by weight of evidence."""

import pytest

from online_rank.base.kinds import Kinds, checked_kinds


def after(kinds, name, queries):
    for values in queries:
        kinds = kinds.learned({name: kinds.seen(name, values)})
    return kinds


def test_titles_are_texts_from_the_first_query_on():
    kinds, titles = Kinds(), [f"red shoe number {i}" for i in range(20)]
    assert kinds.of("title", kinds.seen("title", titles)) == "text"
    assert after(kinds, "title", [titles]).of("title") == "text"
    # Three documents are .15 of a query: 3 queries are .45, and .45 - .45 / 2 < .4; from 6 on it is .9 - .45 > .4.
    few = [[f"red shoe number {3 * t + i}" for i in range(3)] for t in range(7)]
    assert after(kinds, "title", few[:3]).of("title") == "category"
    assert after(kinds, "title", few).of("title") == "text"


def test_words_that_recur_are_a_category():
    values = ["full time", "part time", "New Balance", "night shift"] * 5
    assert after(Kinds(), "work", [values] * 5).known() == {"work": "category"}


def test_ids_are_ignored_once_that_is_clear():
    queries = [[f"id{20 * t + i}" for i in range(20)] for t in range(6)]
    # New values outweigh .9 of all by .1 a query: .45 is passed with the fifth.
    assert after(Kinds(), "sku", queries[:4]).of("sku") == "category"
    assert after(Kinds(), "sku", queries).of("sku") == "ignored"


def test_one_query_does_not_decide_for_all_later_ones():
    kinds = after(Kinds(), "brand", [["acme", "best", "cats"] * 7] * 20)
    assert after(kinds, "brand", [[f"a made up brand {i}" for i in range(500)]]).of("brand") == "category"
    texts = after(Kinds(), "title", [[f"a made up title {i} {t}" for i in range(20)] for t in range(3)])
    assert texts.of("title") == "text"
    assert after(texts, "title", [["acme", "best"] * 10] * 12).of("title") == "category"


def test_declared_kinds_are_checked():
    assert checked_kinds({"title": "text"}) == {"title": "text"}
    with pytest.raises(ValueError, match="'title' is 'words'; a kind is one of 'category', 'text' and 'ignored'"):
        checked_kinds({"title": "words"})
    with pytest.raises(TypeError, match="kinds is of type list"):
        checked_kinds(["title"])


def test_a_flood_of_features_takes_no_place_for_good():
    """The first 256 features had all places for ever, so that a later one could never be a text."""
    kinds = Kinds()
    flood = {f"made up {i}": kinds.seen(f"made up {i}", [f"some text {i}"]) for i in range(1000)}
    kinds = kinds.learned(flood)
    assert len(kinds.names) == 256
    for t in range(5):
        titles = [f"shoe number {t} {i}" for i in range(20)]
        kinds = kinds.learned({"title": kinds.seen("title", titles)})
    assert len(kinds.names) == 256
    assert kinds.of("title") == "text"
    kinds = kinds.learned({f"again {i}": kinds.seen(f"again {i}", ["x y z"] * 20) for i in range(1000)})
    assert kinds.of("title") == "text"
