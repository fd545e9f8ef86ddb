"""DriftAwareRanker: what it notices, what it does then, and that it stays a ranker."""

import contextlib
import copy
import itertools

import numpy as np
import pytest
from river import base, drift, linear_model
from river import tree as river_tree

from online_rank import (
    DriftAwareRanker,
    GradientRanker,
    LossTracker,
    PerceptronRanker,
    PointwiseRanker,
    QueryNormalizer,
    StreamScaler,
    load,
    measure,
    save,
)
from online_rank.stream.synth import Drifting, NoisyTeacher


class At(base.DriftDetector):
    """Reports a change at given updates, and remembers what it was told."""

    def __init__(self, positions=(0,)):
        super().__init__()
        self.positions = positions
        self.told = []

    def update(self, x):
        self.told.append(x)
        self._drift_detected = len(self.told) in self.positions


def queries(n=40, seed=0):
    stream = NoisyTeacher(None, n_features=4, n_documents=(8, 16), grade_shares=(0.8, 0.15, 0.05), seed=seed)
    return list(itertools.islice(((X, y) for X, y in stream if len(set(y.tolist())) > 1), n))


def turned(stream):
    """The same queries with all features negated: what was best is worst."""
    return [(-X, y) for X, y in stream]


def drifting(n=60):
    return queries(n, seed=1), turned(queries(90, seed=2))


def teach(model, stream):
    for X, y in stream:
        model.learn_one(X, y)
    return model


def test_without_drift_it_is_the_ranker():
    stream = queries()
    model, plain = DriftAwareRanker(PerceptronRanker(), detector=At()), PerceptronRanker()
    for X, y in stream:
        assert model.predict_one(X) == plain.predict_one(X)
        model.learn_one(X, y)
        plain.learn_one(X, y)
        assert model.last_round._replace(served_loss=0.0) == plain.last_round._replace(served_loss=0.0)
    assert model.n_drifts == 0
    assert model.drift_positions == ()
    assert model.learner.weights.tolist() == plain.weights.tolist()


def test_detectors_are_told_the_loss_of_what_was_served():
    model = DriftAwareRanker(PerceptronRanker(), detector=At(), measure="ndcg@3")
    expected = []
    for X, y in [*queries(), (np.ones((2, 4)), np.array([1, 1]))]:
        scores = model.predict_one(X)
        model.learn_one(X, y)
        if len(set(y.tolist())) > 1:
            expected.append(measure("ndcg@3").loss(scores, y, ties="pessimistic"))
            assert model.last_round.served_loss == expected[-1]
    assert model.last_round.skipped
    assert model._alarms.told == expected
    assert model.detector.told == []


def test_scores_that_are_given_decide_the_loss_that_was_served():
    model = DriftAwareRanker(PerceptronRanker(), detector=At(), measure="ndcg@3")
    X, y = [[1.0], [0.0]], [1, 0]
    model.learn_one(X, y, served=[1.0, 0.0])  # Its own scores are still 0, which counts as the worst order.
    assert model.last_round.served_loss == 0.0
    model.learn_one(X, y, served=[0.0, 1.0])  # Its own are in the right order by now.
    assert model.last_round.served_loss == 1.0 - 1.0 / np.log2(3.0)


def test_reset_is_a_new_ranker():
    before, after = drifting()
    model = teach(DriftAwareRanker(PerceptronRanker(), detector=At((70,))), before + after[:10])
    assert (model.n_drifts, model.drift_positions) == (1, (70,))
    assert not model.learner.weights.any()
    assert model.n_features == model.learner.n_features == 4
    fresh = teach(PerceptronRanker(), after[10:])
    assert teach(model, after[10:]).predict_one(after[0][0]) == fresh.predict_one(after[0][0])


def test_a_new_ranker_takes_no_more_features_than_the_old_one():
    before, after = drifting()
    inner = StreamScaler() | PerceptronRanker()
    for step in inner.steps.values():
        step.max_features = 4
    model = teach(DriftAwareRanker(inner, detector=At((70,))), before + after[:10])
    assert model.n_drifts == 1
    assert [step.max_features for step in model.learner.steps.values()] == [4, 4]


def test_restarted_average_keeps_what_was_learned():
    before, after = drifting()
    model = teach(
        DriftAwareRanker(PerceptronRanker(half_life=None), detector=At((70,)), on_drift="restart_average"), before + after[:10]
    )
    plain = teach(PerceptronRanker(half_life=None), before + after[:10])
    assert model.n_drifts == 1
    assert model.learner.weights.tolist() == plain.weights.tolist()
    assert model.learner.served_weights.tolist() == plain.weights.tolist()
    model.learn_one(*after[10])
    plain.learn_one(*after[10])
    assert model.learner.served_weights.tolist() == plain.weights.tolist()  # The average of one vector.
    first = plain.weights
    model.learn_one(*after[11])
    plain.learn_one(*after[11])
    assert model.learner.served_weights == pytest.approx((first + plain.weights) / 2)


@pytest.mark.parametrize(
    "make",
    [lambda: GradientRanker("listnet", optimizer="adagrad"), lambda: GradientRanker("listnet", optimizer="sgd", half_life=9.0)],
)
def test_restarted_average_of_the_gradient_ranker(make):
    model = teach(make(), queries())
    model.restart_average()
    assert model.served_weights.tolist() == model.weights.tolist()
    model.learn_one(*queries(seed=3)[5])
    assert model.served_weights == pytest.approx(model.weights, rel=1e-12)


def test_the_round_is_its_own():
    model = teach(DriftAwareRanker(PerceptronRanker(), detector=At()), queries())
    before, inner = model.last_round, model.learner.last_round
    model.learner.learn_one(*queries(seed=5)[0])
    assert model.last_round == before
    assert model.learner.last_round != inner


def test_better_is_no_drift():
    before, after = drifting()
    model = teach(DriftAwareRanker(PerceptronRanker(), detector=At((60,))), before)
    assert model.n_drifts == 0
    # Told of the same change later, when the loss is compared with that at the last report, it has risen.
    assert teach(DriftAwareRanker(PerceptronRanker(), detector=At((60, 75))), before + after[:15]).drift_positions == (75,)


def test_adwin_notices_an_abrupt_change_and_nothing_else():
    stream = Drifting(2000, drift_points=(1000,), n_features=10, n_documents=(10, 20), seed=3)
    model = teach(DriftAwareRanker(PerceptronRanker()), stream)
    assert model.n_drifts == 1
    assert 1000 < model.drift_positions[0] < 1100
    assert (
        teach(DriftAwareRanker(PerceptronRanker()), NoisyTeacher(2000, n_features=10, n_documents=(10, 20), seed=3)).n_drifts
        == 0
    )


def test_positions_are_bounded():
    before, after = drifting()
    model = DriftAwareRanker(PerceptronRanker(), detector=At(tuple(range(1000))))
    for _ in range(3):
        for t, (X, y) in enumerate(before + after):
            model._losses[:] = 50.0, 0.0, 1.0  # As if the loss had risen.
            model.learn_one(X, y)
            assert len(model.drift_positions) <= 100, t
    assert model.n_drifts > 100
    assert model.drift_positions[-1] == model._n_queries


@pytest.mark.parametrize("on_drift", ["reset", "restart_average"])
def test_a_block_with_drifts_is_the_loop(on_drift):
    before, after = drifting(300)
    stream = before + after
    loop, block = (
        StreamScaler() | DriftAwareRanker(PerceptronRanker(), detector=drift.ADWIN(0.3, clock=1), on_drift=on_drift)
        for _ in range(2)
    )
    teach(loop, stream)
    X, y = (np.concatenate(part) for part in zip(*stream, strict=True))
    block.learn_many(X, y, np.repeat(np.arange(len(stream)), [len(y) for _, y in stream]))
    assert loop[-1].n_drifts > 0
    assert block[-1].drift_positions == loop[-1].drift_positions
    assert block.predict_one(stream[0][0]) == loop.predict_one(stream[0][0])


@pytest.mark.parametrize(
    "inner",
    [
        lambda: PerceptronRanker(),
        lambda: PointwiseRanker(linear_model.LinearRegression()),
        lambda: PointwiseRanker(river_tree.HoeffdingTreeRegressor(grace_period=20)),
        lambda: LossTracker(PerceptronRanker()),
    ],
)
def test_a_rejected_block_undoes_drifts(inner):
    before, after = drifting()
    model = teach(DriftAwareRanker(inner(), detector=At((75,))), before)
    twin = copy.deepcopy(model)
    X, y = (np.concatenate(part) for part in zip(*after[:20], strict=True))
    qid = np.repeat(np.arange(20), [len(y) for _, y in after[:20]])
    X[-1, 0] = np.nan
    with pytest.raises(ValueError, match=f"feature 0 of document {len(X) - 1} is nan"):
        model.learn_many(X, y, qid)
    assert model.n_drifts == 0
    teach(model, after[:16])
    teach(twin, after[:16])
    assert model.drift_positions == twin.drift_positions == (75,)
    assert model.predict_one(X[:5]) == twin.predict_one(X[:5])


def test_named_features_reach_new_rankers():
    def named(stream):
        for X, y in stream:
            yield [dict(zip("abcd", row, strict=True)) for row in X.tolist()], y

    before, after = drifting()
    model = DriftAwareRanker(PerceptronRanker(), detector=At((70,)))
    teach(model, named(before + after[:9]))
    model.learn_one([{"d": 1.0, "e": 2.0}, {"a": 1.0}], [2, 0])
    assert model.drift_positions == (70,)
    assert model.feature_names == model.learner.feature_names == tuple("abcde")
    assert len(model.learner.weights) == 5


def test_a_ranker_that_has_learned_goes_on():
    taught = teach(PerceptronRanker(), queries())
    expected = taught.predict_one(queries()[0][0])
    assert DriftAwareRanker(taught).predict_one(queries()[0][0]) == expected


@pytest.mark.parametrize("detector", [None, drift.ADWIN(0.3, clock=1), drift.KSWIN(window_size=40, stat_size=10, seed=1)])
def test_files_hold_the_detectors(detector, tmp_path):
    before, after = drifting(300)
    model = teach(
        DriftAwareRanker(PerceptronRanker(), detector=detector),
        before + after[:2],
    )
    save(model, tmp_path / "model.npz")
    twin = load(tmp_path / "model.npz")
    teach(model, after[2:])
    teach(twin, after[2:])
    save(model, tmp_path / "a.npz")
    save(twin, tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert detector is None or model.n_drifts > 0, model._losses


def test_damaged_windows_are_refused():
    from online_rank.base.schema import StateError
    from online_rank.storage.tree import Packed, pack, unpack

    drift_model = teach(DriftAwareRanker(PerceptronRanker()), queries())
    with contextlib.ExitStack() as held:
        tree, arrays, pooled = pack(drift_model, held)
    for content in ("zz", "00", "ff" * 40, tree["state"]["_alarms"]["state"]["_helper"]["adwin"][:-8]):
        tree["state"]["_alarms"]["state"]["_helper"]["adwin"] = content
        with pytest.raises(StateError, match=r"_alarms\._helper is not the state of adwin"):
            unpack(Packed(copy.deepcopy(tree), [array.copy() for array in arrays], pooled))
    assert drift_model.n_drifts == 0


def test_refused():
    with pytest.raises(TypeError, match=r"(?s)^ranker is .*a pipeline that ends in one"):
        DriftAwareRanker(StreamScaler() | QueryNormalizer())
    with pytest.raises(ValueError, match="on_drift is 'panic'"):
        DriftAwareRanker(PerceptronRanker(), on_drift="panic")
    with pytest.raises(TypeError, match="PointwiseRanker has none"):
        DriftAwareRanker(StreamScaler() | PointwiseRanker(linear_model.LinearRegression()), on_drift="restart_average")
    with pytest.raises(TypeError, match=r"(?s)^detector is .*a drift detector of river for numbers"):
        DriftAwareRanker(PerceptronRanker(), detector=drift.binary.DDM())
    with pytest.raises(ValueError, match="ndgc"):
        DriftAwareRanker(PerceptronRanker(), measure="ndgc@10")
