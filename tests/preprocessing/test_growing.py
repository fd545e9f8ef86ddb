"""A feature that grows with the stream: its values tie in the map, which a warning says once, with the remedy."""

import warnings

import numpy as np
import pytest

from online_rank import AdditiveRanker, PerceptronRanker, StreamQuantileMap, metrics
from online_rank.storage.files import to_bytes


def newest_first(model, n=900, sign=1.0):
    """The warnings of a stream whose newest documents are best, and NDCG@10 over its last third."""
    draw, metric, values = np.random.default_rng(0), metrics.NDCG(k=10), []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for t in range(n):
            age = draw.random(10) * 3.0
            x = [{"noise": float(draw.random()), "published": sign * (t / 20.0 - a)} for a in age]
            y = np.argsort(np.argsort(-age)) * 4 // 9
            if 3 * t > 2 * n:
                scores = model.predict_one(x)
                values.append(metric.value_one(y, scores))
            model.learn_one(x, y)
    return [str(each.message) for each in told], float(np.mean(values))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_feature_that_grows_or_falls_raises_one_warning_with_the_remedy(sign):
    told, value = newest_first(StreamQuantileMap() | PerceptronRanker(), sign=sign)
    assert value < 0.8
    (line,) = told
    assert line.startswith("StreamQuantileMap: most values of feature 'published' lie beyond all that came before")
    assert line.endswith("such as an age, or take AdditiveRanker, which ranks such values within the query")


def test_the_remedy_ranks_well_without_a_word():
    told, value = newest_first(AdditiveRanker())
    assert not told
    assert value > 0.95


def test_other_streams_raise_no_warning():
    draw = np.random.default_rng(1)
    model = StreamQuantileMap() | PerceptronRanker()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(900):
            x = np.column_stack([draw.standard_cauchy(8), draw.poisson(0.1, 8), np.ones(8), draw.normal(size=8)])
            model.learn_one(x, draw.integers(0, 3, 8))


def test_the_warning_changes_nothing(monkeypatch):
    told, silent = StreamQuantileMap() | PerceptronRanker(), StreamQuantileMap() | PerceptronRanker()
    assert newest_first(told)[0]
    monkeypatch.setattr(StreamQuantileMap, "_note_growing", lambda self: None)
    assert not newest_first(silent)[0]
    assert to_bytes(told) == to_bytes(silent)
