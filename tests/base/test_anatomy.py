"""What a model is made of, and what it can do: declared once, and forwarded by wrappers."""

import copy
import pickle

import numpy as np
import pytest
from river import linear_model, preprocessing

from online_rank import (
    AdditiveRanker,
    BlendRanker,
    ClickBlendRanker,
    ClickPerceptron,
    ExaminedRanker,
    ForEachDocument,
    GradientRanker,
    HashedFeatures,
    LossTracker,
    MaxAbsStreamScaler,
    PerceptronRanker,
    PointwiseRanker,
    QueryNormalizer,
    RidgeRanker,
    StreamScaler,
    SwapRanker,
)
from online_rank.base import Abilities, abilities_of, parts_of, ranker_of, serving_ranker, steps_of, transformers_of
from online_rank.base.anatomy import learned_measure
from tests.helpers import teacher_queries


def kinds(models):
    return [type(model).__name__ for model in models]


def able(model):
    return {name for name, has in model.abilities._asdict().items() if has}


def test_steps_of_pipelines_and_of_what_stands_alone():
    scaler, ranker = StreamScaler(), PerceptronRanker()
    assert steps_of(ranker) == [ranker]
    assert steps_of(QueryNormalizer() | scaler | ranker)[1:] == [scaler, ranker]
    assert kinds(transformers_of(QueryNormalizer() | scaler | ranker)) == ["QueryNormalizer", "StreamScaler"]
    # River's own pipelines may hold pipelines.
    nested = preprocessing.StandardScaler() | (preprocessing.MinMaxScaler() | linear_model.LinearRegression())
    assert kinds(steps_of(nested)) == ["StandardScaler", "MinMaxScaler", "LinearRegression"]


def test_the_ranker_that_a_model_ends_in_and_the_one_that_serves():
    tracker = LossTracker(PerceptronRanker())
    model = StreamScaler() | tracker
    assert ranker_of(model) is tracker
    assert serving_ranker(model) is tracker.learner
    blend = BlendRanker([PerceptronRanker(), StreamScaler() | RidgeRanker()])
    assert serving_ranker(StreamScaler() | blend) is blend
    for nothing in (StreamScaler(), StreamScaler() | QueryNormalizer(), linear_model.LinearRegression(), None):
        with pytest.raises(TypeError, match="ranker, or a pipeline that ends in one"):
            ranker_of(nothing)


def test_parts_in_every_depth():
    blend = BlendRanker([StreamScaler() | RidgeRanker(), LossTracker(PerceptronRanker())])
    names = ["QueryNormalizer", "BlendRanker", "StreamScaler", "RidgeRanker", "LossTracker", "PerceptronRanker"]
    assert kinds(parts_of(QueryNormalizer() | blend)) == names
    assert kinds(parts_of(QueryNormalizer() + StreamScaler())) == ["QueryUnion", "QueryNormalizer", "StreamScaler"]


ABILITIES = {
    "perceptron": (PerceptronRanker(), {"takes_sparse", "takes_served", "learns"}),
    "capped": (PerceptronRanker(norm_cap=0.5), {"takes_served", "learns"}),
    "adam": (GradientRanker(optimizer="adam"), {"learns"}),
    "swap": (SwapRanker(), {"takes_clicks", "takes_sparse", "draws", "learns"}),
    "tracker": (LossTracker(PerceptronRanker()), {"takes_sparse", "takes_served", "learns"}),
    "tracker, raw": (LossTracker(PerceptronRanker(), raw=True), {"takes_sparse", "takes_served", "wants_scale", "learns"}),
    "tracker, served": (
        LossTracker(PerceptronRanker(), measure_served=True),
        {"takes_sparse", "takes_served", "measures_answers", "learns"},
    ),
    "tracker of clicks": (LossTracker(ClickPerceptron()), {"takes_clicks", "takes_sparse", "draws", "learns"}),
    "blend": (BlendRanker([PerceptronRanker(), RidgeRanker()]), {"takes_served", "learns"}),
    "blend of clicks": (
        ClickBlendRanker(),
        {
            "takes_any_list",
            "takes_clicks",
            "takes_context",
            "takes_documents",
            "takes_missing",
            "takes_sparse",
            "draws",
            "learns",
        },
    ),
    "blend of curves": (
        BlendRanker([AdditiveRanker()]),
        {"takes_context", "takes_documents", "takes_missing", "takes_served", "learns"},
    ),
    "normaliser": (QueryNormalizer(), set()),
    "hashed": (HashedFeatures(4) | PerceptronRanker(), {"takes_documents", "takes_sparse", "takes_served", "learns"}),
    "lifted": (ForEachDocument(preprocessing.StandardScaler()) | RidgeRanker(), {"takes_documents", "learns"}),
    "sparse all the way": (MaxAbsStreamScaler() | PerceptronRanker(), {"takes_sparse", "takes_served", "learns"}),
    # What a tracker measures before a stateless step is what it would measure itself.
    "normaliser | tracker": (QueryNormalizer() | LossTracker(GradientRanker(), measure_served=True), {"learns"}),
    "scaler | tracker": (StreamScaler() | LossTracker(GradientRanker(), measure_served=True), {"measures_answers", "learns"}),
}


@pytest.mark.parametrize("name", ABILITIES)
def test_abilities(name):
    model, expected = ABILITIES[name]
    assert able(model) == expected
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), model.clone()):
        assert able(other) == expected


def test_nothing_is_known_of_what_is_not_of_this_library():
    assert abilities_of(linear_model.LinearRegression()) == Abilities()


def test_a_pipeline_that_gets_another_step_says_what_it_can_do_then():
    model = StreamScaler() | QueryNormalizer()
    assert not model.abilities.takes_clicks
    model |= SwapRanker()
    assert model.abilities.takes_clicks


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda ranker: ExaminedRanker(ranker),
        lambda ranker: LossTracker(ranker),
        lambda ranker: StreamScaler() | LossTracker(ranker),
    ],
)
def test_a_wrapper_has_the_measure_of_the_ranker_inside(wrapped):
    model = wrapped(PerceptronRanker("ap>=2"))
    assert learned_measure(model).name == "ap>=2"


def test_a_wrapper_may_have_another_measure():
    assert learned_measure(BlendRanker([PerceptronRanker("ap")], measure="ndcg")).name == "ndcg"
    assert learned_measure(PointwiseRanker(linear_model.LinearRegression(), measure="ap")).name == "ap"
    assert learned_measure(SwapRanker()).name == "ndcg@10"


def test_the_served_loss_under_a_certificate_is_of_the_learned_measure():
    tracker = LossTracker(PerceptronRanker("ap"), measure_served=True)
    ap, served = learned_measure(tracker), []
    for X, y in teacher_queries():
        scores = tracker.predict_one(X)
        tracker.learn_one(X, y)
        if not tracker.last_round.skipped:
            served.append(ap.loss(scores, y, ties="pessimistic"))
    assert tracker.totals.served_loss == pytest.approx(sum(served))


@pytest.mark.parametrize("wrapped", [LossTracker])
def test_a_wrapper_learns_sparse_queries_as_the_ranker_alone_does(wrapped):
    rng = np.random.default_rng(0)
    alone, model = PerceptronRanker(), wrapped(PerceptronRanker())
    for _ in range(30):
        query = [{f"word{j}": 1.0 for j in rng.integers(0, 3000, 4)} for _ in range(8)]
        y = rng.integers(0, 3, 8)
        alone.learn_one(query, y)
        model.learn_one(query, y)
    assert serving_ranker(model).weights.tolist() == alone.weights.tolist()
