"""Pipelines inside `BestRanker` and `DriftAwareRanker`: each reads, forgets, is saved and exported as a whole."""

import numpy as np
import pytest
from river import base

from online_rank import (
    BestRanker,
    DriftAwareRanker,
    LossTracker,
    PerceptronRanker,
    QueryNormalizer,
    StreamQuantileMap,
    StreamScaler,
    load,
    save,
)
from online_rank.base import serving_steps
from online_rank.bounds import certificate_of
from online_rank.export import serving_weights
from online_rank.stream.synth import NoisyTeacher


class At(base.DriftDetector):
    """Reports a change after so many losses."""

    def __init__(self, position=0):
        super().__init__()
        self.position = position
        self.n = 0

    def update(self, x):
        self.n += 1
        self._drift_detected = self.n == self.position


def queries(n=60, seed=0):
    """Features of scales that differ by 10^6, of which a perceptron without a scaler learns little."""
    stream = NoisyTeacher(n, n_features=4, n_documents=(8, 16), grade_shares=(0.5, 0.3, 0.2), seed=seed)
    return [(X * [1e-3, 1.0, 1e3, 1.0], y) for X, y in stream]


def teach(model, stream):
    for X, y in stream:
        model.learn_one(X, y)
    return model


def test_best_ranker_chooses_among_pipelines_as_they_learn_alone():
    pipelines = [lambda: PerceptronRanker(), lambda: StreamScaler() | PerceptronRanker()]
    model, alone = BestRanker([make() for make in pipelines]), [make() for make in pipelines]
    losses = np.zeros(2)
    for X, y in queries():
        best = 0 if losses[0] <= losses[1] else 1
        assert model.predict_one(X) == alone[best].predict_one(X)
        losses += [1.0 - _ndcg(ranker.predict_one(X), y) for ranker in alone]
        model.learn_one(X, y)
        teach(alone[0], [(X, y)])
        teach(alone[1], [(X, y)])
    assert model.total_losses == pytest.approx(losses)
    assert losses[1] < losses[0] - 1.0
    assert model.best_ranker is model.learners[1]
    assert model.last_round._replace(served_loss=0.0) == alone[1].last_round._replace(served_loss=0.0)


def _ndcg(scores, y):
    """NDCG@10 with ties in the worst order, straight from its definition."""
    order = np.lexsort((y, -np.asarray(scores)))
    discounts = 1.0 / np.log2(np.arange(2, len(y) + 2)) * (np.arange(len(y)) < 10)
    return (2.0 ** y[order] - 1) @ discounts / ((2.0 ** np.sort(y)[::-1] - 1) @ discounts)


def turning():
    """60 queries, and 40 in which what was best is worst."""
    stream = queries(100)
    return [*stream[:60], *((5e3 - X, y) for X, y in stream[60:])]


def test_a_drift_resets_the_scaler_too():
    stream = turning()
    model = teach(DriftAwareRanker(StreamScaler() | PerceptronRanker(), detector=At(75)), stream)
    assert model.drift_positions == (75,)
    fresh = teach(StreamScaler() | PerceptronRanker(), stream[75:])
    assert model.learner["StreamScaler"].means.tolist() == fresh["StreamScaler"].means.tolist()
    assert model.predict_one(stream[0][0]) == fresh.predict_one(stream[0][0])


def test_the_limit_of_features_survives_a_reset():
    pipeline = StreamScaler() | PerceptronRanker()
    pipeline["StreamScaler"].max_features = 4
    model = teach(DriftAwareRanker(pipeline, detector=At(75)), turning())
    assert (model.n_drifts, model.learner["StreamScaler"].max_features) == (1, 4)


def test_an_average_is_restarted_inside_a_pipeline():
    pipeline = StreamScaler() | PerceptronRanker()
    model = teach(DriftAwareRanker(pipeline, detector=At(75), on_drift="restart_average"), turning()[:75])
    ranker = model.learner["PerceptronRanker"]
    assert model.n_drifts == 1
    assert ranker.served_weights.tolist() == ranker.weights.tolist()


MODELS = {
    "best": lambda: BestRanker([PerceptronRanker(), StreamScaler() | PerceptronRanker()]),
    "drift": lambda: DriftAwareRanker(StreamScaler() | PerceptronRanker()),
    "drift, map": lambda: DriftAwareRanker(StreamQuantileMap() | PerceptronRanker()),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_saved_and_loaded_they_go_on_alike(make, tmp_path):
    model = teach(make(), queries())
    save(model, tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    more = queries(seed=1)
    assert again.predict_one(more[0][0]) == model.predict_one(more[0][0])
    assert teach(again, more).predict_one(more[0][0]) == teach(model, more).predict_one(more[0][0])


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_a_rejected_query_leaves_scalers_and_rankers(make):
    model = teach(make(), queries())
    X, y = queries()[0]
    before = model.predict_one(X)
    bad = X.copy()
    bad[1, 2] = np.nan
    ids = [f"d{i}" for i in range(len(y))]
    with pytest.raises(ValueError, match="document"):
        model.learn_one(bad, y)
    with pytest.raises(ValueError, match="document"):
        model.predict_one(bad)
    with pytest.raises(ValueError, match="w is -1"):
        model.learn_one(X, y, w=-1.0)
    assert model.predict_one(X) == before
    named = teach_named(make(), X, y, ids)
    with pytest.raises(ValueError, match="'d1'"):
        named.predict_one(_named(bad, ids))


def _named(X, ids):
    return {i: dict(zip("abcd", row, strict=True)) for i, row in zip(ids, X.tolist(), strict=True)}


def teach_named(model, X, y, ids):
    model.learn_one(_named(X, ids), dict(zip(ids, y.tolist(), strict=True)))
    return model


def test_features_by_name_come_and_go():
    model = DriftAwareRanker(StreamScaler() | PerceptronRanker())
    plain = StreamScaler() | PerceptronRanker()
    for x in ({"a": {"x": 1.0, "z": 2.0}, "b": {"x": 3.0}}, {"a": {"q": 1.0}, "b": {"x": 3.0, "q": 4.0}}):
        for ranker in (model, plain):
            ranker.learn_one(x, {"a": 1, "b": 0})
    assert model.feature_names == plain["StreamScaler"].feature_names == ("x", "z", "q")
    x = {"u": {"q": 1.0, "never met": 5.0}, "v": {"x": 1.0}}
    assert model.predict_one(x) == plain.predict_one(x)


def test_the_certificate_of_a_choice_among_pipelines_holds():
    model = teach(MODELS["best"](), queries())
    certificate = certificate_of(model)
    assert certificate.holds
    assert certificate.loss == pytest.approx(model.account.served)


def test_closed_form_has_the_transformers_inside():
    X = queries()[0][0]
    for make in (
        MODELS["best"],
        MODELS["drift"],
        lambda: QueryNormalizer() | DriftAwareRanker(StreamScaler() | PerceptronRanker()),
    ):
        model = teach(make(), queries())
        kinds = [type(step).__name__ for step in serving_steps(model)]
        assert kinds[-2:] == ["StreamScaler", "PerceptronRanker"]
        if kinds[0] == "StreamScaler":
            form = serving_weights(model)
            assert X @ form.weights + form.constant == pytest.approx(np.array(model.predict_one(X)))


def test_explanations_go_through_the_transformers_inside():
    model = teach(MODELS["drift"](), queries())
    X = queries()[0][0]
    scores = model.predict_one(X)
    assert model.explain_one(X, 0, 1).difference == pytest.approx(scores[0] - scores[1])


def test_a_tracker_does_not_take_them():
    with pytest.raises(TypeError, match="RankingPipeline"):
        LossTracker(MODELS["drift"]())


def test_clicks_choose_among_pipelines():
    model = BestRanker([PerceptronRanker(), StreamScaler() | PerceptronRanker()], drafts=3)
    X, y = queries()[0]
    teach(model, queries()[:5])
    shown = model.show_one(X)
    assert set(shown.order) <= set(range(len(y)))
    model.learn_one(X, shown.clicked([shown.order[0]]))
    assert model.votes[:, 0].sum() <= 1.0
