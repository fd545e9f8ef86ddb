import numpy as np
import pytest

from online_rank import GradientRanker, LossTracker, PerceptronRanker, StreamScaler
from online_rank.measures.learned import measure
from online_rank.query import read_query


def moving_stream(n_queries=120, seed=0, every=25):
    """Queries whose second column is multiplied by 100 now and then, so that a scaler moves."""
    rng = np.random.default_rng(seed)
    for t in range(n_queries):
        X = rng.normal(size=(6, 3))
        y = np.clip(np.rint(X @ [1.0, -1.0, 0.5] + 0.5 * rng.normal(size=6) + 1), 0, 3).astype(int)
        X[:, 1] *= 100.0 ** (t // every % 2)
        yield X, y


RANKERS = {
    "average": lambda: LossTracker(PerceptronRanker(), measure_served=True),
    "last weights": lambda: LossTracker(PerceptronRanker(half_life=0)),
}


@pytest.mark.parametrize("make", RANKERS.values(), ids=RANKERS)
def test_behind_a_moving_scaler_the_served_loss_measures_what_was_answered(make):
    model, ndcg, expected, found, other = StreamScaler() | make(), measure("ndcg@10"), [], [], 0
    for X, y in moving_stream():
        scores = model.predict_one(X)
        model.learn_one(X, y)
        if not model.last_round.skipped:
            expected.append(ndcg.loss(scores, y, ties="pessimistic"))
            found.append(model.last_round.served_loss)
            other += abs(ndcg.loss(scores, y, ties="pessimistic") - model.last_round.loss) > 1e-9
    assert found == pytest.approx(expected, abs=1e-12)
    assert other > 0


@pytest.mark.parametrize("make", RANKERS.values(), ids=RANKERS)
def test_a_block_is_answered_query_by_query(make):
    queries = list(moving_stream(40))
    one, many = StreamScaler() | make(), StreamScaler() | make()
    for X, y in queries:
        one.learn_one(X, y)
    X, y = np.concatenate([X for X, _ in queries]), np.concatenate([y for _, y in queries])
    qid = np.repeat(np.arange(len(queries)), 6)
    many.learn_many(X, y, qid)
    assert one.last_round == many.last_round
    assert one.predict_one(queries[0][0]) == many.predict_one(queries[0][0])
    before = many.predict_one(queries[0][0])
    with pytest.raises(ValueError, match="grade of document 239"):
        many.learn_many(X, np.where(np.arange(len(y)) == len(y) - 1, -1, y), qid)
    assert many.predict_one(queries[0][0]) == before


def test_served_scores_in_every_form():
    assert read_query({"a": {"f": 1.0}, "b": {"f": 2.0}}, {"a": 0, "b": 1}, served={"b": 2, "a": 0.5}).served.tolist() == [
        0.5,
        2.0,
    ]
    block = read_query(np.ones((4, 1)), [0, 1, 0, 1], qid=[1, 1, 2, 2], served=[1.0, 2.0, 3.0, 4.0])
    assert block.queries(1, 2).served.tolist() == [3.0, 4.0]


@pytest.mark.parametrize(
    ("served", "error", "message"),
    [
        ([1.0], ValueError, "served has shape"),
        ([1.0, np.nan], ValueError, "score of document 'b' is nan"),
        ({"a": 1.0}, ValueError, "no score for document 'b'"),
        ({"a": 1.0, "b": 1.0, "c": 1.0}, ValueError, "scores document 'c'"),
        (["x", "y"], TypeError, "scores are numbers"),
        (3.0, TypeError, "served is of type float"),
    ],
)
def test_bad_served_scores_change_nothing(served, error, message):
    query, grades = {"a": {"f": 1.0}, "b": {"f": 2.0}}, {"a": 0, "b": 1}
    for model in (PerceptronRanker(), StreamScaler() | PerceptronRanker()):
        with pytest.raises(error, match=message):
            model.learn_one(query, grades, served=served)
        assert model.last_round is None
    with pytest.raises(TypeError, match="no ids"):
        PerceptronRanker().learn_one(np.eye(2), [0, 1], served={0: 1.0, 1: 2.0})


def test_rankers_that_cannot_learn_from_served_scores_say_so():
    for model in (GradientRanker(), StreamScaler() | GradientRanker()):
        with pytest.raises(ValueError, match="cannot learn from scores that were served"):
            model.learn_one(np.eye(2), [0, 1], served=[0.0, 0.0])
