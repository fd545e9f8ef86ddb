"""Tastes of users: decayed sums of the vectors of what they engaged with."""

import copy
import math
import warnings

import numpy as np
import pytest

from online_rank import AdditiveRanker, Greedy, Tastes, VectorRanker, load, save
from online_rank.base.schema import declared_state
from online_rank.distributed import fork, mix

X = {"a": {"embedding": [2.0, 0.0]}, "b": {"embedding": [0.0, 3.0]}, "c": {"age": 1.0}}


def test_sums_decay_by_hand():
    step = Tastes("user", half_life=2)
    step.learn_one(X, {"a": 2, "b": 0, "c": 1}, context={"user": "u"})
    step.learn_one(X, {"a": 0, "b": 1, "c": 0}, context={"user": "u"})
    # 2 (1, 0) decays by 2^(-1/2), and (0, 1) is added; c has no vector.
    np.testing.assert_allclose(step.taste("u"), [2.0 / math.sqrt(2.0), 1.0], rtol=1e-6)
    assert step.taste("other") is None


def test_clicks_are_engagement():
    step = Tastes("user")
    shown = Greedy(k=2).show({"a": 2.0, "b": 1.0, "c": 0.0}, 0)
    step.learn_one(X, shown.clicked(["b"]), context={"user": "u"})
    np.testing.assert_allclose(step.taste("u"), [0.0, 1.0])


def test_a_query_is_ranked_by_the_taste_before_it():
    model = Tastes("user") | AdditiveRanker()
    model.learn_one(X, {"a": 0, "b": 1, "c": 0}, context={"user": "u"})
    assert model["AdditiveRanker"].vector_columns.learners.keys() == {"embedding linear"}
    model.learn_one(X, {"a": 0, "b": 1, "c": 0}, context={"user": "u"})
    assert "embedding learned" in model["AdditiveRanker"].vector_columns.learners
    # A vector that is given counts.
    model.rank_one(X, context={"user": "u", "embedding": [1.0, 1.0]})
    model.rank_one(X, context={"user": "new"})


def test_new_users_are_ranked_and_learned_by_the_ranker_of_vectors():
    model, both = Tastes("user") | VectorRanker(), {"a": 0, "b": 1, "c": 0}
    model.learn_one(X, both, context={"user": "u"})
    model.learn_one(X, {"a": 1, "b": 0, "c": 0}, context={"user": "u"})
    matrix = model["VectorRanker"].matrix
    for _ in range(5):
        assert model.rank_one(X, context={"user": "new"})[0] == "b"
        model["VectorRanker"].learn_one(X, both)
    np.testing.assert_array_equal(model["VectorRanker"].matrix, matrix)
    assert matrix.shape == (2, 2)
    assert model.rank_one(X, context={"user": "u"})[0] == "a"


def test_users_leave_and_are_forgotten():
    step = Tastes("user", max_keys=4)
    for user in range(6):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            step.learn_one(X, {"a": 1, "b": 0, "c": 0}, context={"user": f"u{user}"})
        assert ["the most users that it takes, 4" in str(one.message) for one in told] == [True] * (user == 4)
    assert (step.n_keys, step.n_left) == (4, 2)
    assert step.taste("u0") is None
    assert step.taste("u5") is not None
    assert step.forget("brand", "u5") == 0
    assert step.forget("user", "u5") == 1
    assert step.forget("user", "u5") == 0
    assert step.n_keys == 3
    np.testing.assert_allclose(step.taste("u4"), [1.0, 0.0])


def test_a_refused_query_changes_nothing():
    model = Tastes("user") | AdditiveRanker()
    for user in ("u", "v"):
        model.learn_one(X, {"a": 1, "b": 0, "c": 0}, context={"user": user})
    before = copy.deepcopy(model["Tastes"])
    for user in ("u", "new"):
        with pytest.raises(ValueError, match="grade"):
            model.learn_one(X, {"a": -1, "b": 0, "c": 0}, context={"user": user})
        with pytest.raises(ValueError, match="dimensions"):
            model.learn_one({**X, "a": {"embedding": [1.0]}}, {"a": 1, "b": 0, "c": 0}, context={"user": user})
    assert declared_state(model["Tastes"]).slots == declared_state(before).slots
    np.testing.assert_array_equal(declared_state(model["Tastes"]).sums[:2], declared_state(before).sums[:2])
    assert declared_state(model["Tastes"]).n_queries == declared_state(before).n_queries


def test_tastes_of_machines_are_mixed_user_by_user():
    likes = {"a": {"a": 1, "b": 0, "c": 0}, "b": {"a": 0, "b": 1, "c": 0}}
    base, one = Tastes("user", half_life=4) | AdditiveRanker(), Tastes("user", half_life=4)
    for step in (base, one):
        for user in ("old", "both"):
            step.learn_one(X, likes["a"], context={"user": user})
    shards = [fork(base) for _ in range(3)]
    for n, user, document in ((0, "both", "a"), (1, "both", "b"), (1, "old", "b"), (2, "new", "b"), (2, "old", "")):
        shards[n].learn_one(X, likes.get(document, dict.fromkeys(X, 0)), context={"user": user})
        if user != "both" and document:
            one.learn_one(X, likes[document], context={"user": user})
    mixed = mix(shards, base)["Tastes"]
    for user in ("old", "new"):  # As on one machine, which one of them was.
        np.testing.assert_array_equal(mixed.taste(user), one.taste(user))
    kept = 0.5 ** (1 / 4)
    np.testing.assert_allclose(mixed.taste("both"), [(2.0 * kept + 1.0) / 2.0, 0.5], rtol=1e-6)
    assert (mixed.n_keys, declared_state(mixed).n_queries) == (3, 7)
    mixed.learn_one(X, likes["b"], context={"user": "later"})
    np.testing.assert_array_equal(mixed.taste("later"), [0.0, 1.0])
    assert mix([fork(base)], base)["Tastes"].taste("both").tolist() == base["Tastes"].taste("both").tolist()
    assert mix([Tastes("user") | AdditiveRanker()])["Tastes"].n_keys == 0


def test_mixed_tastes_have_the_length_of_most_and_the_latest_users():
    shards = [Tastes("user", max_keys=16) | AdditiveRanker() for _ in range(3)]
    for n, shard in enumerate(shards):
        for user in range(8):
            x = [{"embedding": [1.0] * (2 if n else 3)}, {"embedding": [0.0] * (2 if n else 3)}]
            shard.learn_one(x, [1, 0], context={"user": f"u{n}{user}"})
    mixed = mix(shards)["Tastes"]
    assert (mixed.n_keys, mixed.n_left, mixed.taste("u00")) == (16, 0, None)
    small = [Tastes("user", max_keys=4) | AdditiveRanker() for _ in range(2)]
    for n, shard in enumerate(small):
        for user in range(4):
            shard.learn_one(X, {"a": 1, "b": 0, "c": 0}, context={"user": f"u{n}{user}"})
    with pytest.warns(UserWarning, match="the most users that it takes, 4"):
        few = mix(small)["Tastes"]
    assert (few.n_keys, few.taste("u10"), few.taste("u03") is None) == (3, None, False)


def test_a_saved_step_continues(tmp_path):
    model = Tastes("user") | AdditiveRanker()
    for n in range(30):
        model.learn_one(X, {"a": n % 2, "b": 1, "c": 0}, context={"user": f"u{n % 3}"})
    save(model, tmp_path / "model")
    other = load(tmp_path / "model")
    for n in range(30):
        for each in (model, other):
            each.learn_one(X, {"a": n % 2, "b": 1, "c": 0}, context={"user": f"u{n % 20}"})
    assert model.predict_one(X, context={"user": "u1"}) == other.predict_one(X, context={"user": "u1"})


def test_bad_arguments():
    for bad in ({"by": 1}, {"vector": 2}):
        with pytest.raises(TypeError, match="it is a name"):
            Tastes(**bad)
    with pytest.raises(ValueError, match="half_life"):
        Tastes(half_life=0.5)
