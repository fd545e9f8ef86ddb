"""Rankers that begin with weights, or with the rule that ranks today."""

import numpy as np
import pytest

import online_rank
from online_rank import ClickPerceptron, GradientRanker, PerceptronRanker, RunFeatures, Runs, SwapRanker
from online_rank.base import ranker_of
from online_rank.base.schema import declared_state
from online_rank.cli.train_clicks import learner_for
from online_rank.rankers.rules import RULES, SWAP_BEGINNING, rule_weights

RUNS = ["bm25", "vector", "recent"]


def random_runs(rng):
    """Three lists of some of 12 documents, with ties, one of them sometimes empty."""
    lists = {}
    for name in RUNS:
        size = int(rng.integers(0, 9))
        scores = rng.integers(0, 5, size) / 2.0
        best_first = np.sort(scores)[::-1]
        lists[name] = [(int(d), float(s)) for d, s in zip(rng.permutation(12)[:size], best_first, strict=True)]
    return lists


def fused(lists, weights, k=60):
    """Reciprocal rank fusion as its definition has it: {document: score}, candidates in the order in which they are met."""
    scores = {}
    for name, weight in zip(RUNS, weights, strict=True):
        for rank, (document, _) in enumerate(sorted(lists[name], key=lambda entry: -entry[1]), start=1):
            scores[document] = scores.get(document, 0.0) + weight / (k + rank)
    return scores


@pytest.mark.first(1)
@pytest.mark.parametrize(("cls", "given"), [(PerceptronRanker, {}), (GradientRanker, {"optimizer": "adagrad"})])
@pytest.mark.parametrize("weights", [None, [0.5, 2.0, 1.0]])
def test_before_any_feedback_the_rule_itself_ranks(cls, given, weights):
    model = RunFeatures(RUNS) | cls.from_rule("rrf", RUNS, weights=weights, strength=7.0, **given)
    rng = np.random.default_rng(1)
    for _ in range(200):
        lists = random_runs(rng)
        query = Runs(lists)
        expected = fused(lists, weights or [1.0, 1.0, 1.0])
        assert model.predict_one(query) == pytest.approx({d: 7.0 * s for d, s in expected.items()}, rel=1e-10)
        # Sums in another order differ in the last bit: sums with twelve equal digits count as equal.
        assert [round(expected[d], 12) for d in model.rank_one(query)] == sorted(
            (round(s, 12) for s in expected.values()), reverse=True
        )


def test_it_learns_from_there():
    model = RunFeatures(["a", "b"], parts=("minmax",)) | PerceptronRanker.from_rule("minmax", ["a", "b"], half_life=0)
    query = Runs({"a": [("x", 2.0), ("y", 1.0)], "b": {"y": 3.0, "x": 1.0, "z": 2.0}})
    assert model.rank_one(query) == ["x", "y", "z"]
    for _ in range(20):
        model.learn_one(query, {"x": 0, "y": 2, "z": 1})
    assert model.rank_one(query) == ["y", "z", "x"]


@pytest.mark.parametrize("half_life", [None, 50.0, 0])
def test_weights_and_their_average_are_copies(half_life):
    given = np.array([1.0, -2.0])
    model = PerceptronRanker.from_weights(given, half_life=half_life)
    given[:] = 9.0
    assert model.weights.tolist() == model.served_weights.tolist() == [1.0, -2.0]
    model.learn_one([[0.0, 1.0], [1.0, 0.0]], [1, 0])
    assert model.weights.tolist() != [1.0, -2.0]


def test_learning_leaves_the_average_of_the_beginning_alone():
    model = PerceptronRanker.from_weights([1.0, 0.0])
    declared_state(model).weights[:] = 5.0
    assert model.served_weights.tolist() == [1.0, 0.0]


def test_gradient_descent_begins_with_weights_except_for_bets():
    model = GradientRanker.from_weights({"a": 1.0, "b": -1.0}, optimizer="sgd")
    assert model.predict_one([{"a": 2.0}, {"b": 3.0}]) == [2.0, -3.0]
    with pytest.raises(ValueError, match="optimizer='scale_free' begins with bets"):
        GradientRanker.from_weights([1.0])


@pytest.mark.parametrize("cls", [SwapRanker, ClickPerceptron])
def test_rankers_that_learn_from_clicks_begin_with_weights_too(cls):
    model = cls.from_weights({"a": 1.0, "b": -1.0})
    assert model.confidence == 1.0 if cls is SwapRanker else True
    assert model.rank_one({"x": {"b": 1.0}, "y": {"a": 1.0}, "z": {}}) == ["y", "z", "x"]


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_made_of_columns_that_there_are(rule):
    columns = RunFeatures(RUNS, parts=("minmax", "zscore", "reciprocal_rank", "found")).transform_one([{"bm25": 1.0}])[0]
    assert set(rule_weights(rule, RUNS)) <= set(columns)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("borda", RUNS), ValueError, "rule is 'borda'; it must be 'rrf', 'minmax' or 'zscore'"),
        (("rrf", "bm25"), TypeError, "runs is 'bm25'; it must be a list of different names of retrievers"),
        (("rrf", {"bm25": 0.3, "vector": 0.7}), TypeError, "runs is of type dict"),
        (("rrf", ["a"], {"a": 1.0}), TypeError, "weights is of type dict"),
        (("rrf", ["a", "a"]), ValueError, "different names"),
        (("rrf", ["a"], [1.0, 2.0]), ValueError, "weights has 2 numbers for 1 runs"),
        (("rrf", ["a"], ["1"]), TypeError, "weights is '1'"),
        (("rrf", ["a"], [np.inf]), ValueError, "finite"),
    ],
)
def test_bad_rules_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        rule_weights(*arguments)


def test_strength_is_positive():
    with pytest.raises(ValueError, match="strength is 0"):
        PerceptronRanker.from_rule("rrf", RUNS, strength=0)


@pytest.mark.parametrize("ranker", ["BlendRanker", "DirectRanker", "TorchRanker", "RidgeRanker"])
def test_rankers_that_cannot_begin_with_a_rule_say_which_can(ranker):
    made = getattr(online_rank, ranker)
    with pytest.raises(TypeError, match=f"{ranker} cannot begin with a rule.*PerceptronRanker.from_rule"):
        made.from_rule("minmax", ["bm25", "vector"])
    with pytest.raises(TypeError, match=f"{ranker} cannot begin with given weights.*PerceptronRanker.from_weights"):
        made.from_weights([1.0, 1.0])


def test_a_click_ranker_begins_with_a_rule_as_commands_do():
    strength, wealth = SWAP_BEGINNING["strength"], SWAP_BEGINNING["wealth"]
    model = SwapRanker.from_rule("minmax", RUNS)
    assert (declared_state(model).strength, model.wealth) == (strength, wealth)
    given = SwapRanker.from_rule("minmax", RUNS, strength=2.0, wealth=5.0)
    assert (declared_state(given).strength, given.wealth) == (2.0, 5.0)
    assert PerceptronRanker.from_rule("minmax", RUNS).weights.tolist() == [1.0, 1.0, 1.0]
    assert isinstance(ranker_of(learner_for("shuffled", None, None, None)), SwapRanker)
