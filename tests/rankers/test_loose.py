"""Names of features that come as words do, as river's TFIDF gives them."""

import copy

import numpy as np
import pandas as pd
import pytest
from river import compose, feature_extraction

from online_rank import AdditiveRanker, ForEachDocument, measure
from online_rank.rankers import loose
from online_rank.storage.files import from_bytes, to_bytes

WORTH = np.random.default_rng(7).normal(size=4000)
OFTEN = 1.0 / (np.arange(4000) + 20.0)
OFTEN /= OFTEN.sum()


def titles(n, seed=0, m=15):
    """Queries of titles of eight words in a long tail, with a price that counts too."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        words, prices = rng.choice(4000, (m, 8), p=OFTEN), rng.normal(size=m)
        grades = np.searchsorted([0.0, 2.0], WORTH[words].sum(axis=1) - 2.0 * prices).tolist()
        yield (
            [
                {"title": " ".join(f"w{j}" for j in own), "price": price}
                for own, price in zip(words.tolist(), prices.tolist(), strict=True)
            ],
            grades,
        )


def behind_tfidf():
    words = feature_extraction.TFIDF(on="title") + compose.Select("price")
    return ForEachDocument(words) | AdditiveRanker(trees=0)


def learned(queries):
    model = behind_tfidf()
    for x, y in queries:
        model.learn_one(x, y)
    return model


@pytest.fixture(scope="module")
def taught():
    with pytest.warns(UserWarning, match="names of features come as words do"):
        return learned(titles(150))


def test_names_that_come_as_words_do_get_no_curves(taught):
    ranker, quality = taught["AdditiveRanker"], []
    assert ranker.n_features < 2 * loose._SETTLED
    assert ranker.n_words > 500
    assert "price" in ranker.feature_names
    for x, y in titles(40, seed=5):
        quality.append(measure("ndcg@10").value(taught.predict_one(x), y))
    assert np.mean(quality) > 0.85


def test_a_word_that_is_known_counts_and_an_unknown_one_does_not(taught):
    ranker, names = taught["AdditiveRanker"], taught["AdditiveRanker"].feature_names
    word = next(f"w{j}" for j in range(4000) if f"w{j}" not in names)
    x = [{"price": 0.0, word: 0.5}, {"price": 0.0, "never met": 0.5}]
    entry = loose.keys_of([loose._BEGINNING], [[word]])
    first, second = ranker.predict_one(x)
    assert first - second == pytest.approx(0.5 * ranker._words.weights_of(entry)[0])
    assert first != second
    assert ranker.explain_one(x, 0, 1).contributions[word] == pytest.approx(first - second)


def test_explanations_add_up(taught):
    x, _ = next(titles(1, seed=9))
    scores, told = taught.predict_one(x), taught.explain_one(x, 0, 1)
    assert told.difference == pytest.approx(scores[0] - scores[1])
    assert sum(told.contributions.values()) == pytest.approx(told.difference)


def test_files_and_refused_queries_keep_every_bit(taught):
    content = to_bytes(taught)
    other, model = from_bytes(content), copy.deepcopy(taught)
    x, y = next(titles(1, seed=11))
    with pytest.raises(ValueError, match="grade"):
        model.learn_one([{**x[0], "title": "brand new words here"}, *x[1:]], [-1, *y[1:]])
    assert to_bytes(model) == content
    for own in (model, other):
        own.learn_one(x, y)
    assert to_bytes(model) == to_bytes(other) != content


def test_a_block_is_its_queries():
    queries, many = [*titles(40)], behind_tfidf()
    documents, grades = [each for x, _ in queries for each in x], [g for _, y in queries for g in y]
    with pytest.warns(UserWarning, match="as words do"):
        one = learned(queries)
    with pytest.warns(UserWarning, match="as words do"):
        many.learn_many(documents, grades, np.repeat(np.arange(40), 15))
    assert to_bytes(one) == to_bytes(many)


def test_infinite_values_of_new_names_are_refused():
    model = AdditiveRanker(trees=0)
    rng = np.random.default_rng(0)
    for t in range(3):
        model.learn_one([{f"n{300 * t + j}": float(rng.normal()) for j in rng.choice(300, 20)} for _ in range(20)], [0, 1] * 10)
    x = [{f"m{20 * i + j}": 0.5 for j in range(20)} for i in range(10)]
    before = to_bytes(model)
    with pytest.raises(ValueError, match="'m0' of document 0 is inf"):
        model.learn_one([{**x[0], "m0": np.inf}, *x[1:]], [0, 1] * 5)
    assert to_bytes(model) == before


def test_wide_numbers_that_all_have_keep_their_curves():
    """New names that most documents have are no words, however many there are."""
    model = AdditiveRanker(trees=0)
    rng = np.random.default_rng(0)
    for names in (range(300), range(310)):
        model.learn_one([{f"n{j}": float(rng.normal()) for j in names} for _ in range(6)], [0, 1, 2, 0, 1, 2])
    assert model.n_features == 310
    assert model.n_words == 0


def test_a_block_of_a_frame_is_its_queries():
    """A column that is zero in the first query of a block may have a curve, as it gets one if its query comes alone."""
    rng = np.random.default_rng(0)
    known = pd.DataFrame(rng.normal(size=(6, 300)), columns=[f"n{j}" for j in range(300)])
    wide = pd.DataFrame(np.zeros((40, 120)), columns=[f"m{j}" for j in range(120)])
    for i in range(40):
        wide.iloc[i, rng.choice(119, 5, replace=False)] = 0.5
    wide.iloc[20:, 119] = rng.normal(size=20)
    grades, qid = rng.integers(0, 3, 40), np.repeat([0, 1], 20)
    one, many = AdditiveRanker(trees=0), AdditiveRanker(trees=0)
    for model in (one, many):
        model.learn_one(known, [0, 1, 2, 0, 1, 2])
    with pytest.warns(UserWarning, match="as words do"):
        many.learn_many(wide, grades, qid)
    with pytest.warns(UserWarning, match="as words do"):
        one.learn_one(wide[:20], grades[:20])
    one.learn_one(wide[20:], grades[20:])
    assert "m119" in one.feature_names
    assert to_bytes(one) == to_bytes(many)
