"""Names and levels that a model does not know are counted; a query with hardly any that it knows raises a warning, once."""

import warnings

import numpy as np
import pandas as pd
import pytest

from online_rank import AdditiveRanker, BlendRanker, PerceptronRanker, Runs, StreamQuantileMap, StreamScaler, hybrid
from online_rank.rankers.fixed import FixedRanker

MAKERS = {
    "curves": AdditiveRanker,
    "blend": lambda: BlendRanker([AdditiveRanker()]),
    "perceptron": PerceptronRanker,
    "scaler": lambda: StreamScaler() | PerceptronRanker(),
    "map": lambda: StreamQuantileMap() | PerceptronRanker(),
}
DOCUMENTS = {f"d{i}": {"size": float(i), "price": 9.0 - i, "stars": 1.0} for i in range(6)}


def taught(make):
    model = make()
    for _ in range(5):
        model.learn_one(DOCUMENTS, {name: int(x["size"] > 3) for name, x in DOCUMENTS.items()})
    return model


def told_of(call):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        call()
    return [str(each.message) for each in told]


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_query_without_a_known_name_raises_one_warning(make):
    model = taught(make)
    (line,) = told_of(lambda: model.predict_one({"a": {"Size": 4.0}, "b": {"Size": 1.0}}))
    assert line.startswith("x: none of its features is known to ")
    assert "'Size'" in line
    assert "'size', 'price', 'stars'" in line
    assert not told_of(lambda: model.rank_one({"a": {"Size": 4.0}, "b": {"Size": 1.0}}))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_frame_with_renamed_columns_raises_a_warning(make):
    model = taught(make)
    frame = pd.DataFrame({"Size": [4.0, 1.0], "Price": [1.0, 2.0], "stars": [1.0, 1.0]})
    (line,) = told_of(lambda: model.predict_one(frame))
    assert line.startswith("x: 2 of its 3 features are unknown to ")


def test_a_few_unknown_names_are_counted_without_a_word():
    model = taught(AdditiveRanker)
    assert not told_of(lambda: [model.predict_one([{"size": 1.0, "price": 2.0, "new": 3.0}]) for _ in range(3)])
    assert tuple(model.n_unknown) == (3, 0)


def test_levels_of_known_categories_are_counted_apart():
    model = AdditiveRanker()
    model.learn_one([{"brand": "acme"}, {"brand": "best"}], [0, 1])
    assert not told_of(lambda: model.predict_one([{"brand": "acme"}, {"brand": "new"}]))
    assert not told_of(lambda: model.predict_one([{"brand": "newer"}]))
    assert (model.n_unknown.names, model.n_unknown.levels) == (0, 2)
    assert len(told_of(lambda: model.predict_one([{"Brand": "acme"}, {"Brand": "best"}]))) == 1
    assert (model.n_unknown.names, model.n_unknown.levels) == (1, 2)


def test_new_words_of_sparse_queries_are_no_news():
    model = PerceptronRanker()
    words = [{f"w{i}": 1.0 for i in range(k, 4000, 97)} for k in range(8)]
    model.learn_one(words, np.arange(8) % 2)
    assert not told_of(lambda: model.predict_one([{f"v{i}": 1.0 for i in range(k, 4000, 97)} for k in range(8)]))
    assert model.n_unknown.names == 4000 - sum(1 for i in range(4000) if i % 97 >= 8)


def test_a_model_that_has_learned_nothing_says_nothing():
    assert not told_of(lambda: AdditiveRanker().predict_one([{"size": 1.0}]))
    assert not told_of(lambda: taught(PerceptronRanker).predict_one({}))


def test_weights_that_somebody_gave_are_for_a_part_of_the_features():
    query = Runs({"bm25": [("d7", 12.3), ("d2", 11.9)], "vector": [("d9", 0.83), ("d2", 0.41)]})
    assert not told_of(lambda: hybrid(["bm25", "vector"]).rank_one(query))
    for make in (FixedRanker, PerceptronRanker.from_weights):
        assert not told_of(lambda make=make: make({"size": 1.0}).rank_one(DOCUMENTS))
        (line,) = told_of(lambda make=make: make({"size": 1.0, "Price": 1.0, "Stars": 2.0}).rank_one(DOCUMENTS))
        assert line.startswith("x: 2 of its 3 features are unknown to ")
