"""Ranking and learning a block of queries in turn: the same scores, rounds and state as `predict_one` and `learn_one`."""

import numpy as np
import pytest

from online_rank import (
    LossTracker,
    PerceptronRanker,
    QueryNormalizer,
    RidgeRanker,
    StreamQuantileMap,
    StreamScaler,
)
from online_rank.base import all_or_nothing, ranker_of
from online_rank.bounds.tracker import LossTracker as Tracker
from online_rank.query import read_query
from online_rank.stream.synth import NoisyTeacher
from tests.helpers import state_of

N, M, D = 60, 12, 7
WEIGHTS = {"a": np.arange(7.0), "b": -np.ones(7)}
MODELS = {
    "perceptron": lambda: PerceptronRanker(),
    "last weights": lambda: PerceptronRanker(half_life=0),
    "scaler": lambda: StreamScaler() | PerceptronRanker(),
    "map": lambda: StreamQuantileMap() | PerceptronRanker(),
    "stateless": lambda: QueryNormalizer() | RidgeRanker(),
    "tracker": lambda: LossTracker(PerceptronRanker(), WEIGHTS, measure_served=True),
    "tracker behind a scaler": lambda: StreamScaler() | LossTracker(PerceptronRanker(), WEIGHTS, measure_served=True),
    "tracker of last weights": lambda: StreamScaler() | LossTracker(PerceptronRanker(half_life=0), WEIGHTS),
}


def stream():
    X, y, qid = NoisyTeacher(N, n_features=D, n_documents=M, seed=3).block()
    return X, np.where(qid % 7 == 0, 0, y), qid


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_a_block_is_answered_and_learned_as_its_queries_are(make):
    X, y, qid = stream()
    one, many, blocks = make(), make(), make()
    scores, rounds = [], []
    for q in range(N):
        rows = slice(M * q, M * q + M)
        scores.append(one.predict_one(X[rows]))
        one.learn_one(X[rows], y[rows])
        rounds.append([float(value) for value in one.last_round])
    many.learn_many(X, y, qid)
    blocks.learn_one(X[:M], y[:M])
    for first, stop in ((1, 2), (2, 31), (31, N)):
        rows = slice(M * first, M * stop)
        block = read_query(X[rows], y[rows], qid=qid[rows])
        assert blocks._takes_in_turn(block)
        answers, learned = blocks._ask_and_learn(block, block)
        assert answers.reshape(-1, M).tolist() == scores[first:stop]
        np.testing.assert_array_equal(learned, rounds[first:stop])
    assert state_of(blocks) == state_of(many) == state_of(one)
    if isinstance(ranker_of(one), Tracker):
        np.testing.assert_array_equal(ranker_of(blocks).totals, ranker_of(one).totals)


@pytest.mark.parametrize("bad", [np.inf, -1])
def test_a_block_with_a_bad_query_leaves_all_steps_as_they_were(bad):
    X, y, qid = stream()
    model = StreamScaler() | LossTracker(PerceptronRanker(), WEIGHTS, measure_served=True)
    model.learn_many(X[: 9 * M], y[: 9 * M], qid[: 9 * M])
    before = state_of(model)
    if bad == np.inf:
        X[-1, 2] = bad
    else:
        y[-1] = bad
    block = read_query(X[9 * M :], y[9 * M :], qid=qid[9 * M :])
    with pytest.raises(ValueError, match="feature 2" if bad == np.inf else "grade"), all_or_nothing(model):
        model._ask_and_learn(block, block)
    assert state_of(model) == before
