"""BestRanker: who is the best, who learns, and that it stays a ranker."""

import copy
import pickle

import numpy as np
import pytest
from river import linear_model

from online_rank import (
    BestRanker,
    GradientRanker,
    PairwiseRanker,
    PerceptronRanker,
    PointwiseRanker,
    StreamScaler,
    load,
    measure,
    save,
)
from online_rank.stream.synth import NoisyTeacher


def queries(n=60, seed=0):
    return list(NoisyTeacher(n, n_features=5, n_documents=(6, 12), grade_shares=(0.7, 0.2, 0.1), seed=seed))


def rankers():
    return [PerceptronRanker(average=False), PerceptronRanker(), GradientRanker("listnet", optimizer="sgd")]


def loss(scores, y):
    return measure("ndcg@10").loss(scores, y, ties="pessimistic")


def test_greedy_choice_is_that_of_the_smallest_mean_loss():
    model, alone, losses = BestRanker(rankers()), rankers(), [[], [], []]
    for X, y in queries():
        best = int(np.argmin([np.mean(own) if own else 0.0 for own in losses]))
        assert model.predict_one(X) == alone[best].predict_one(X)
        for own, ranker in zip(losses, alone, strict=True):
            scores = ranker.predict_one(X)
            ranker.learn_one(X, y)
            if not ranker.last_round.skipped:
                own.append(loss(scores, y))
        model.learn_one(X, y)
        assert model.last_round._replace(served_loss=0) == pytest.approx(
            alone[best].last_round._replace(served_loss=0), nan_ok=True
        )
    assert model.mean_losses == pytest.approx([np.mean(own) for own in losses])
    for learner, ranker in zip(model.learners, alone, strict=True):
        assert learner.weights.tolist() == ranker.weights.tolist()
    assert all(ranker.last_round is None for ranker in model.rankers)


def test_half_life_weighs_recent_losses():
    model, losses = BestRanker([PerceptronRanker()], half_life=2.0), []
    plain = PerceptronRanker()
    for X, y in queries(20):
        scores = plain.predict_one(X)
        plain.learn_one(X, y)
        model.learn_one(X, y)
        if not plain.last_round.skipped:
            losses.append(loss(scores, y))
    weights = 0.5 ** (np.arange(len(losses))[::-1] / 2)
    assert model.mean_losses[0] == pytest.approx(np.average(losses, weights=weights))


def test_half_life_follows_a_change():
    # The truth turns round: the average of all weights goes on to serve the old one.
    stream = queries(300)
    stream += [(-X, y) for X, y in queries(40, seed=1)]
    slow, fast = (BestRanker([PerceptronRanker(), PerceptronRanker(average=5.0)], half_life=h) for h in (None, 10.0))
    for X, y in stream:
        slow.learn_one(X, y)
        fast.learn_one(X, y)
    assert fast.best_ranker is fast.learners[1]
    assert slow.best_ranker is slow.learners[0]


def test_bandit_teaches_one_a_query_each_in_turn_at_first():
    model = BestRanker(rankers(), epsilon=0.2, seed=4)
    stream, learned, by_best = queries(400), np.zeros(3), 0
    for t, (X, y) in enumerate(stream):
        best, before = model._best, [learner.last_round for learner in model.learners]
        model.learn_one(X, y)
        (who,) = (i for i, learner in enumerate(model.learners) if repr(learner.last_round) != repr(before[i]))
        if t < 30:
            assert who == t % 3
        else:
            learned[who] += 1
            by_best += who == best
    # With probability 0.2 any of three learns, else the best: 0.8 + 0.2 / 3 = 0.867, +- 3 deviations over 370 queries.
    assert by_best / 370 == pytest.approx(0.8 + 0.2 / 3, abs=3 * np.sqrt(0.867 * 0.133 / 370))
    assert (learned > 0).all()


def test_seed():
    a, b, c = (BestRanker(rankers(), epsilon=0.5, seed=seed) for seed in (1, 1, 2))
    for X, y in queries(150):
        for model in (a, b, c):
            model.learn_one(X, y)
    assert a.mean_losses.tolist() == b.mean_losses.tolist()
    assert a.mean_losses.tolist() != c.mean_losses.tolist()


@pytest.mark.parametrize(
    "first", [lambda: PerceptronRanker(), lambda: PointwiseRanker(linear_model.LinearRegression()), lambda: GradientRanker()]
)
def test_nobody_learns_what_one_cannot(first):
    # The last one refuses every query from now on, after all others have learned it.
    model = BestRanker([first(), PerceptronRanker()])
    for X, y in queries(10):
        model.learn_one(X, y)
    before = pickle.dumps(model)
    refusing = copy.copy(model)
    refusing._learners = [model.learners[0], Refusing()]
    refusing.learners[1]._extend(None, 5)
    for X, y in queries(5, seed=1):
        with pytest.raises(ValueError, match="would make BestRanker non-finite"):
            refusing.learn_one(X, y)
    assert pickle.dumps(model) == before


class Refusing(PerceptronRanker):
    def _learn(self, block, rounds):
        return 0


def test_a_clone_has_learned_nothing():
    model = BestRanker([PairwiseRanker(linear_model.LogisticRegression()), PerceptronRanker()])
    for X, y in queries(10):
        model.learn_one(X, y)
    assert all(learner.last_round is None for learner in model.clone().learners)
    assert np.isnan(model.clone().mean_losses).all()


def test_in_a_pipeline_and_in_a_file(tmp_path):
    model = StreamScaler() | BestRanker(rankers(), epsilon=0.3)
    for X, y in queries(50):
        model.learn_one(X, y)
    save(model, tmp_path / "model.npz")
    twin = load(tmp_path / "model.npz")
    for X, y in queries(50, seed=1):
        model.learn_one(X, y)
        twin.learn_one(X, y)
        assert twin.rank_one(X) == model.rank_one(X)
    assert twin["BestRanker"].mean_losses.tolist() == model["BestRanker"].mean_losses.tolist()


def test_refused():
    for bad in ([], PerceptronRanker(), None):
        with pytest.raises(TypeError, match="a list of rankers"):
            BestRanker(bad)
    with pytest.raises(TypeError, match=r"(?s)rankers\[1\] is .*Transformers go in front of the whole"):
        BestRanker([PerceptronRanker(), StreamScaler() | PerceptronRanker()])
    with pytest.raises(ValueError, match="half_life is 0"):
        BestRanker(rankers(), half_life=0)
    with pytest.raises(ValueError, match=r"epsilon is 1\.5"):
        BestRanker(rankers(), epsilon=1.5)
    with pytest.raises(ValueError, match="ndgc"):
        BestRanker(rankers(), measure="ndgc")
