"""Metrics that users write in Python."""

import copy
import math
import pickle

import numpy as np
import pytest
from river import utils

from online_rank import PerceptronRanker, evaluate
from online_rank.metrics import MRR, QueryMetric
from online_rank.stream.synth import NoisyTeacher


class FirstRelevant(QueryMetric):
    """1 / position of the first relevant document, for scores without ties: MRR."""

    def value_of(self, scores, grades):
        return 1.0 / (1 + int(np.flatnonzero(grades[np.argsort(-scores)])[0]))


class Infinite(QueryMetric):
    def value_of(self, scores, grades):
        return math.inf


def test_a_metric_in_python_is_the_compiled_one_in_loops_blocks_and_windows():
    queries = list(NoisyTeacher(n_queries=40, n_features=4, n_documents=(1, 9), seed=3))
    model = PerceptronRanker()
    own, compiled = FirstRelevant(), MRR()
    window, compiled_window = utils.Rolling(FirstRelevant, window_size=7), utils.Rolling(MRR, window_size=7)
    rng = np.random.default_rng(0)
    for X, y in queries:
        scores = rng.normal(size=len(y))
        for metric in (own, compiled, window, compiled_window):
            metric.update(y, scores)
        model.learn_one(X, y)
    assert own.get() == compiled.get()
    assert own.n_skipped == compiled.n_skipped
    assert window.get() == compiled_window.get()
    y = np.concatenate([y for _, y in queries])
    scores, qid = rng.normal(size=len(y)), np.repeat(np.arange(40), [len(y) for _, y in queries])
    assert np.array_equal(own.value_many(y, scores, qid), compiled.value_many(y, scores, qid), equal_nan=True)
    assert repr(own) == f"FirstRelevant: {compiled.get():.6f}"


def test_it_goes_through_evaluation_copies_and_pickles():
    stream = NoisyTeacher(n_queries=30, n_features=4, n_documents=6, seed=1)
    trace = evaluate.progressive(stream, PerceptronRanker(), [FirstRelevant(), "mrr"])
    assert trace.values["FirstRelevant"] == pytest.approx(trace.values["mrr"], abs=0.05)  # the first query has ties alone
    metric = FirstRelevant(no_relevant="one")
    metric.update([0, 0], [1.0, 0.0])
    assert metric.get() == 1.0
    assert copy.deepcopy(metric).get() == pickle.loads(pickle.dumps(metric)).get() == 1.0
    assert metric.clone().n_queries == 0


@pytest.mark.parametrize(
    ("y", "scores", "message"),
    [
        ([0, 1], [0.0, math.nan], "the score of document 1 is nan"),
        ({"a": 1}, {"a": math.inf}, "the score of document 'a' is inf"),
        ([0, -1], [0.0, 1.0], "grade of document 1 is -1"),
        ([0, 1], [0.0], "2 grades"),
    ],
)
def test_bad_queries_are_refused_and_change_nothing(y, scores, message):
    metric = FirstRelevant()
    with pytest.raises(ValueError, match=message):
        metric.update(y, scores)
    assert (metric.n_queries, metric.n_skipped) == (0, 0)


def test_a_value_must_be_finite():
    with pytest.raises(ValueError, match=r"Infinite\.value_of returned inf"):
        Infinite().update([1, 0], [1.0, 0.0])
