"""Rankers for grades that learn from clicks by inverse propensity weights."""

import collections

import numpy as np
import pytest

from online_rank import ClickPerceptron, ExaminedRanker, PerceptronRanker, StreamScaler, load, save
from online_rank.feedback import Clicks, FairPairs, Impression
from online_rank.metrics import NDCG
from online_rank.stream.clicks import PositionUser
from online_rank.stream.synth import NoisyTeacher


@pytest.mark.slow
def test_each_click_alone_is_relevant_as_often_as_its_position_is_rare():
    X, examination, n = np.random.default_rng(0).normal(size=(4, 3)), (1.0, 0.5, 0.05), 4000
    model = ExaminedRanker(PerceptronRanker(), examination=examination, clip=0.25)
    taught = collections.Counter()
    model.learner.learn_one(X, [0, 0, 0, 0])
    for _ in range(n):
        before = model.learner.last_round
        model.learn_one(X, Impression((2, 0, 3)).clicked({2: 1.0, 0: 2.0}))
        by_hand = model.learner.last_round
        taught[by_hand.weight if by_hand is not before else None] += 1
    # Position 1 with probability .25 / 1, and position 2, which comes last, with .25 / .5; otherwise a round without grades.
    assert taught[2.0] / n == pytest.approx(1 / 2, abs=0.03)
    model, always = ExaminedRanker(PerceptronRanker(), examination=(0.5, 0.5)), PerceptronRanker()
    model.learn_one(X, Impression((2, 0, 3)).clicked({2: 1.0, 3: 0.5}))
    always.learn_one(X, [0, 0, 1, 0], w=1.0)
    always.learn_one(X, [0, 0, 0, 1], w=0.5)
    assert (model.learner.weights == always.weights).all()
    model.learn_one(X, Impression((1, 0)).clicked([]))
    assert (model.learner.weights == always.weights).all()
    # Grades are learned as they are.
    model.learn_one(X, [0, 2, 1, 0])
    always.learn_one(X, [0, 2, 1, 0])
    assert (model.learner.weights == always.weights).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["placements", "propensities"])
def test_the_probabilities_of_an_impression_are_used_without_an_examination(kind):
    X, n = np.random.default_rng(0).normal(size=(4, 3)), 4000
    # At its place: .5, and .1 in both forms, since .5 times .2 is .1.
    chances = (0.5, 0.1) if kind == "placements" else (0.5, 0.2)
    model = ExaminedRanker(PerceptronRanker(), clip=0.25)
    taught = collections.Counter()
    for _ in range(n):
        model.learn_one(X, Impression((2, 0), **{kind: chances}).clicked({2: 1.0, 0: 2.0}))
        taught[model.learner.last_round.weight] += 1
    # The second is clipped, and always learned, last.
    assert taught == {2.0: n}
    taught.clear()
    for _ in range(n):
        model.learn_one(X, Impression((2, 0), **{kind: chances}).clicked([2]))
        taught[model.learner.last_round.skipped] += 1
    # With probability .25 / .5; otherwise there is nothing to learn.
    assert taught[False] / n == pytest.approx(1 / 2, abs=0.03)
    # Nothing is estimated from them.
    assert model.examined == ExaminedRanker(PerceptronRanker()).examined


@pytest.mark.slow
def test_what_clicks_teach_without_weights_is_the_position():
    # Two features: one of quality, and one by which a good ranker has always put documents first.
    def course(examination):
        rng, model = np.random.default_rng(1), ExaminedRanker(PerceptronRanker(half_life=None), examination=examination, k=6)
        user = PositionUser(click=(0.2, 0.6), eta=1.0, seed=3)
        for t in range(2000):
            good = rng.integers(2, size=6)
            X = np.column_stack([good + 0.8 * rng.normal(size=6), rng.normal(size=6)])
            order = np.argsort(-X[:, 1])
            model.learn_one(X, user.clicks(Impression(order.tolist()), good, t))
        return model.learner.served_weights

    quality, habit = course(tuple(1.0 / p for p in range(1, 7)))
    assert abs(habit) < 0.5 * quality
    quality, habit = course((1.0,))
    assert habit > quality


@pytest.mark.slow
def test_the_examination_is_estimated_from_its_own_lists():
    model, who, value = (
        StreamScaler() | ExaminedRanker(PerceptronRanker(), k=6, seed=1),
        PositionUser((0.1, 0.5, 0.9)),
        NDCG(k=6),
    )
    queries = list(NoisyTeacher(3000, n_features=5, n_documents=10, seed=2))
    for t, (X, y) in enumerate(queries):
        if t >= 2500:
            value.update(y, model.predict_one(X))
        model.learn_one(X, who.clicks(model.show_one(X), np.minimum(y, 2), t))
    ranker = model["ExaminedRanker"]
    assert ranker.examined == pytest.approx([1 / p for p in range(1, 7)], rel=0.35)
    assert value.get() > 0.8
    assert 0.9 < ranker.keep < 0.91


def test_it_shows_and_is_saved(tmp_path):
    X = np.random.default_rng(0).normal(size=(5, 3))
    for model in (ExaminedRanker(PerceptronRanker(), examination=(1.0, 0.5), k=3), ExaminedRanker(PerceptronRanker(), k=3)):
        model.learn_one(
            X, Impression((0, 1, 2)).clicked([]) if model.examination else FairPairs(3).show([0.0] * 5, 0).clicked([0])
        )
        shown = model.show_one(X)
        assert len(shown.order) == 3
        if model.examination:
            assert shown == Impression(tuple(model.rank_one(X)[:3]), kept=1.0)
        else:
            assert shown.pairs_from in (0, 1)
        save(model, tmp_path / "m")
        again = load(tmp_path / "m")
        for each in (model, again):
            each.learn_one(X, Clicks(shown, (0.0, 1.0, 0.0)))
        assert (again.learner.weights == model.learner.weights).all()
        assert again.examined == model.examined


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ranker": ClickPerceptron()}, "which learns from clicks directly"),
        ({"ranker": 3}, "ranker is 3; it is a ranker"),
        ({"ranker": PerceptronRanker(), "examination": ()}, "one probability > 0 for each position"),
        ({"ranker": PerceptronRanker(), "examination": (1.0, 0.0)}, "one probability > 0 for each position"),
        ({"ranker": PerceptronRanker(), "clip": 0.0}, "clip is 0"),
        ({"ranker": PerceptronRanker(), "k": 0}, "k is 0"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ExaminedRanker(**arguments)
