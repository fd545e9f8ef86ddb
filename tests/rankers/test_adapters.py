"""PointwiseRanker and PairwiseRanker."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from river import checks, linear_model, naive_bayes, preprocessing, tree

from online_rank import (
    BlendRanker,
    PairwiseRanker,
    PerceptronRanker,
    PointwiseRanker,
    StreamScaler,
    measure,
    save,
)
from online_rank.base.undo import record, roll_back
from online_rank.rankers.adapters import _draw_pairs
from online_rank.stream.synth import NoisyTeacher
from tests.helpers import as_block, as_dicts, teacher_queries

RANKERS = {
    "regressor": lambda: PointwiseRanker(linear_model.LinearRegression()),
    "binary": lambda: PointwiseRanker(linear_model.LogisticRegression(), threshold=2),
    "multiclass": lambda: PointwiseRanker(naive_bayes.GaussianNB()),
    "tree": lambda: PointwiseRanker(tree.HoeffdingTreeClassifier(grace_period=20)),
    "pipeline": lambda: PointwiseRanker(preprocessing.StandardScaler() | linear_model.LinearRegression()),
    "pairwise": lambda: PairwiseRanker(linear_model.LogisticRegression(), n_pairs=20),
    "pairwise tree": lambda: PairwiseRanker(tree.HoeffdingTreeClassifier(grace_period=20), n_pairs=20),
}
every_ranker = pytest.mark.parametrize("make", RANKERS.values(), ids=RANKERS)


@pytest.mark.parametrize(
    ("model", "target", "score"),
    [
        (linear_model.LinearRegression, float, lambda model, x: model.predict_one(x)),
        (linear_model.LogisticRegression, lambda grade: grade >= 2, lambda model, x: model.predict_proba_one(x)[True]),
        (
            naive_bayes.GaussianNB,
            int,
            lambda model, x: math.fsum(grade * share for grade, share in model.predict_proba_one(x).items()),
        ),
    ],
)
def test_pointwise_by_hand(model, target, score):
    plain, ranker = model(), PointwiseRanker(model(), threshold=2)
    for X, y in teacher_queries():
        x, grades = as_dicts(X, y)
        ranker.learn_one(x, grades)
        for i, document in x.items():
            plain.learn_one(document, target(grades[i]))
    x, _ = as_dicts(*teacher_queries(seed=1)[0])
    assert ranker.predict_one(x) == pytest.approx({i: score(plain, document) for i, document in x.items()}, rel=1e-12)


def test_pairwise_scores_as_its_linear_model():
    ranker = PairwiseRanker(linear_model.LogisticRegression())
    for X, y in teacher_queries():
        ranker.learn_one(X, y)
    X, _ = teacher_queries(seed=1)[0]
    w = np.array([ranker.model.weights[j] for j in range(3)])
    intercept = ranker.model.intercept
    assert ranker.predict_one(X) == pytest.approx((1.0 / (1.0 + np.exp(-X @ w - intercept))).tolist())


def test_pairs_are_drawn_uniformly():
    y = np.array([1, 0, 2, 0, 1])
    i, j = _draw_pairs(y, 64_000, np.random.default_rng(0))
    allowed = [(a, b) for a, b in itertools.permutations(range(5), 2) if y[a] != y[b]]
    counts = dict.fromkeys(allowed, 0)
    for pair in zip(i.tolist(), j.tolist(), strict=True):
        counts[pair] += 1
    # 5 * 4 ordered pairs less the 2 of grade 0 and the 2 of grade 1
    assert len(allowed) == 5 * 4 - 2 - 2
    # 64,000 / 16 = 4,000 of each, with a standard deviation of about 61
    assert max(abs(count - 64_000 / 16) for count in counts.values()) < 5 * 61


@pytest.mark.first(1)
@every_ranker
def test_learns(make):
    stream = NoisyTeacher(150, n_features=5, n_documents=(2, 12), grade_shares=(0.4, 0.3, 0.3), noise=0.3)
    model = StreamScaler() | make()
    early, late = [], []
    for t, (X, y) in enumerate(stream):
        model.learn_one(X, y)
        (early if t < 10 else late).append(model.last_round.loss)
    assert np.mean(late[-60:]) < 0.6 * early[0]


@pytest.mark.first(1)
@every_ranker
def test_round(make):
    model = make()
    stream = [query for query in teacher_queries(60) if len(query[1]) > 2]
    for X, y in stream:
        scores = model.predict_one(X)
        model.learn_one(X, y)
        done = model.last_round
        assert done.loss == measure("ndcg@10").loss(scores, y, ties="pessimistic")
        assert done.n_documents == len(y)
        assert done.weight == 1.0
        assert done.largest_norm == pytest.approx(max(math.sqrt(sum(v * v for v in row)) for row in X.tolist()))
        assert done.mass == done.squared_gradient_norm == done.margin == done.v_max == 0.0
    model.learn_one(X, [1] * len(y))
    assert model.last_round.skipped == isinstance(model, PairwiseRanker)


@every_ranker
def test_bad_input_changes_nothing(make):
    model = make()
    stream = [query for query in teacher_queries() if len(query[1]) > 3]
    for X, y in stream[:3]:
        model.learn_one(X, y)
    X, y, qid = as_block(stream[3:6])
    before = model.predict_many(X), model.last_round
    for bad, at, message in [
        (np.nan, (6, 1), "feature 1 of document 6 is nan"),
        (1e200, (6, 1), "non-finite; scale the features"),
    ]:
        spoiled = X.copy()
        spoiled[at] = bad
        with pytest.raises(ValueError, match=message):
            model.learn_many(spoiled, y, qid)
    with pytest.raises(ValueError, match="grade of document 7 is -1"):
        model.learn_many(X, np.where(np.arange(len(y)) == 7, -1, y), qid)
    with pytest.raises(ValueError, match="w is -2"):
        model.learn_many(X, y, qid, w=[1.0, 1.0, -2.0])
    assert model.predict_many(X).tolist() == before[0].tolist()
    assert model.last_round is before[1] or repr(model.last_round) == repr(before[1])


@every_ranker
def test_a_rejected_block_is_undone_also_by_who_holds_the_ranker(make):
    stream = [query for query in teacher_queries() if len(query[1]) > 3]
    X, y, qid = as_block(stream[3:6])
    X[-1, 1] = np.nan
    for model in (make(), BlendRanker([make(), PerceptronRanker()])):
        for query in stream[:3]:
            model.learn_one(*query)
        answers = model.predict_many(X[:-1])
        log = []
        record(log, model)
        model.learn_one(*stream[3])
        assert model.predict_many(X[:-1]).tolist() != answers.tolist()
        roll_back(log)
        assert model.predict_many(X[:-1]).tolist() == answers.tolist()
        with pytest.raises(ValueError, match=f"document {len(y) - 1} is nan"):
            model.learn_many(X, y, qid)
        assert model.predict_many(X[:-1]).tolist() == answers.tolist()


def test_undoing_leaves_the_users_model_in_place():
    inner = linear_model.LinearRegression()
    ranker = PointwiseRanker(inner)
    ranker.learn_one([[1.0], [2.0]], [0, 1])
    log, weights = [], dict(inner.weights)
    record(log, ranker)
    ranker.learn_one([[1.0], [2.0]], [0, 1])
    assert dict(inner.weights) != weights
    roll_back(log)
    assert ranker.model is inner
    assert dict(inner.weights) == weights


def test_not_saved_but_told_what_to_do(tmp_path):
    for make in RANKERS.values():
        with pytest.raises(TypeError, match=r"Ranker\. .* adapters around any river model.*pickle"):
            save(make(), tmp_path / "model.npz")
    assert not any(tmp_path.iterdir())


def test_weights():
    once, weighted, zero = (PointwiseRanker(linear_model.LinearRegression()) for _ in range(3))
    X, y = np.array([[1.0], [2.0]]), [0, 1]
    once.learn_one(X, y)
    weighted.learn_one(X, y, 2.0)
    zero.learn_one(X, y, 0.0)
    assert weighted.predict_one(X) != once.predict_one(X)
    assert zero.predict_one(X) == [0.0, 0.0]
    assert zero.last_round.skipped
    with pytest.raises(ValueError, match="does not learn with weights"):
        PointwiseRanker(naive_bayes.GaussianNB()).learn_one(X, y, 2.0)


@pytest.mark.parametrize("name", ["regressor", "binary", "pairwise"])
def test_river_checks(name):
    checks.check_estimator(RANKERS[name]())


def test_empty_and_before_learning():
    for make in RANKERS.values():
        model = make()
        assert model.predict_one([[1.0], [2.0]]) == [0.0, 0.0]
        model.learn_one([], [])
        assert model.predict_one({}) == {}
        model.learn_one([{"a": 1.0}], [2])


def test_refused():
    with pytest.raises(TypeError, match="model is"):
        PointwiseRanker(preprocessing.StandardScaler())
    with pytest.raises(TypeError, match="it is a river classifier"):
        PairwiseRanker(linear_model.LinearRegression())
    with pytest.raises(ValueError, match="n_pairs is 0"):
        PairwiseRanker(linear_model.LogisticRegression(), n_pairs=0)
    with pytest.raises(ValueError, match="measure 'best' is unknown"):
        PointwiseRanker(linear_model.LinearRegression(), measure="best")


@pytest.mark.slow
def test_the_dicts_of_documents_and_pairs_are_made_one_at_a_time():
    X = np.random.default_rng(0).normal(size=(40, 3000))
    model = PairwiseRanker(linear_model.LogisticRegression(), n_pairs=50)
    model.learn_one(X, np.arange(40) % 3)
    for act in (lambda: model.learn_one(X, np.arange(40) % 3), lambda: model.predict_one(X)):
        tracemalloc.start()
        act()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # By hand: a dict of 3,000 numbers takes 250 kB; forty take 10 MB. Arrays like X take 1 MB.
        assert peak < 5e6


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_learning_allocates_no_second_copy_of_the_query(dtype):
    X = np.random.default_rng(0).normal(size=(1000, 300)).astype(dtype)
    model = PointwiseRanker(linear_model.LinearRegression())
    model.learn_one(X[:3], [0, 1, 2])
    tracemalloc.start()
    model.learn_one(X, np.arange(1000) % 3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # By hand: the copy of 300 weights is small, dicts of documents are made one at a time; X again would be X.nbytes.
    assert peak < X.nbytes / 2


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e151, -1e151])
@pytest.mark.parametrize("column", [0, 1])
def test_a_value_that_cannot_be_learned_ends_a_block_before_its_query(value, column):
    X = np.ones((4, 2))
    X[2, column] = value
    model = PointwiseRanker(linear_model.LinearRegression())
    with pytest.raises(ValueError, match="document 2"):
        model.learn_many(X, [0, 1, 0, 1], [0, 0, 1, 1])


def test_the_reported_norm_belongs_to_the_longest_document():
    model = PointwiseRanker(linear_model.LinearRegression())
    model.learn_one(np.array([[3.0, 4.0], [0.0, -1.0]], np.float32), [0, 1])
    assert model.last_round.largest_norm == 5.0
