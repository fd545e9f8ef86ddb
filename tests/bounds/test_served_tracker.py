"""A tracker of what is really served: given scores, averages, delay, moving comparators, caps."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import (
    GradientRanker,
    LossTracker,
    PerceptronRanker,
    QueryNormalizer,
    SlamRanker,
    StreamQuantileMap,
    StreamScaler,
)
from online_rank.base.schema import declared_state
from online_rank.intervals import PairedLosses
from online_rank.intervals.losses import served_loss
from online_rank.measures.learned import measure
from online_rank.storage.files import from_bytes, to_bytes
from tests.reference import bound_streams, perceptron

LOSS_OF_A_TIE = 1.0 - 1.0 / math.log2(3)


def queries(seed, n, d=3, teacher=None, noise=0.5, m=5):
    rng = np.random.default_rng(seed)
    teacher = rng.normal(size=d) if teacher is None else teacher
    for _ in range(n):
        X = rng.normal(size=(m, d))
        yield X, np.digitize(X @ teacher + noise * rng.normal(size=m), [0.0, 1.5])


def assert_certified(certificate, *names):
    assert certificate.holds, str(certificate)
    assert [check.name for check in certificate.bounds] == list(names), str(certificate)
    values = [check.value for check in certificate.bounds]
    assert values == sorted(values) or certificate.bounds[0].name == "capped_bound"


@pytest.mark.parametrize(("T", "D", "loss"), [(20, 3, 29.5256), (10, 9, 36.9070)])
def test_the_delayed_bound_is_attained_through_the_library(T, D, loss):
    tracker = LossTracker(PerceptronRanker("ndcg", credit="spread", half_life=0), {"u": np.full(T, 0.5)})
    tracker.learn_one(np.zeros((2, T)), [1, 1])
    for t in range(T):
        X = np.zeros((2, T))
        X[:, t] = 1.0, -1.0
        answers = [tracker.predict_one(X) for _ in range(D + 1)]
        for scores in answers:
            tracker.learn_one(X, [1, 0], served=scores)
    certificate = tracker.certificate(delay=D)
    assert certificate.loss == pytest.approx(loss, abs=5e-5)
    assert_certified(certificate, "mass_hindsight_bound", "served_norm_bound", "delay_bound")
    for name in ("mass_hindsight_bound", "served_norm_bound"):
        assert certificate.bound(name) == pytest.approx(certificate.loss, rel=1e-12)
    assert tracker.totals.served_loss == certificate.loss
    with pytest.raises(ValueError, match="learning from its own scores"):
        certificate.bound("mass_bound")


@pytest.mark.slow
@given(
    seed=st.integers(0, 10**6),
    half_life=st.sampled_from([None, 0, 1.0, 10.0]),
    beta=st.sampled_from([0.0, 1.0]),
    delay=st.integers(0, 5),
    credit=st.sampled_from(["spread", "argmax", "sort"]),
)
@settings(max_examples=40)
def test_served_scores_decide_and_are_certified(seed, half_life, beta, delay, credit):
    """Late grades, out of order: the tracker compared with a slow learner that gets the same scores."""
    rng = np.random.default_rng(seed)
    teacher = rng.normal(size=3)
    ranker = PerceptronRanker("ndcg", credit=credit, half_life=half_life, relative_margin=beta)
    tracker = LossTracker(ranker, {"u": 2.0 * teacher})
    waiting, served, longest = [], 0.0, 0
    for X, y in queries(seed, 25, teacher=teacher):
        waiting.append((X, y, tracker.predict_one(X) if tracker.n_features else [0.0] * len(y)))
        if len(waiting) > delay:
            X, y, scores = waiting.pop(int(rng.integers(len(waiting))))
            if len(set(y.tolist())) > 1:
                served += perceptron.loss("ndcg", scores, y.tolist())
                longest = max(longest, len(waiting))
            tracker.learn_one(X, y, served=scores)
    if tracker.totals.n_rounds:
        assert tracker.totals.loss == pytest.approx(served, abs=1e-9) == tracker.totals.served_loss
        names = "mass_hindsight_bound", "served_norm_bound", *(["delay_bound"] if half_life == 0 else [])
        assert_certified(tracker.certificate(delay=longest), *names)
        n = tracker.totals.n_rounds - tracker.totals.n_skipped
        assert tracker.served_interval().n == n
        assert n == 0 or tracker.served_interval().mean == pytest.approx(served / n)


def test_learning_from_the_average_is_learning_from_what_it_served():
    told = LossTracker(PerceptronRanker(half_life=5.0, relative_margin=1.0), {"u": np.ones(3)})
    own = LossTracker(PerceptronRanker(half_life=5.0, relative_margin=1.0, served="average"), {"u": np.ones(3)})
    for X, y in queries(1, 60):
        told.learn_one(X, y, served=told.predict_one(X) if told.n_features else np.zeros(len(y)))
        own.learn_one(X, y)
    assert own.learner.weights.tobytes() == told.learner.weights.tobytes()
    assert declared_state(own).sums.tobytes() == declared_state(told).sums.tobytes()
    names = "mass_hindsight_bound", "served_norm_bound"
    assert_certified(told.certificate(), *names)
    assert_certified(own.certificate(), *names, "averaged_bound")
    block = LossTracker(PerceptronRanker(half_life=5.0, relative_margin=1.0, served="average"), {"u": np.ones(3)})
    X, y = map(np.concatenate, zip(*queries(1, 60), strict=True))
    block.learn_many(X, y, np.repeat(np.arange(60), 5))
    assert to_bytes(block) == to_bytes(own)


@pytest.mark.parametrize("half_life", [None, 0])
@pytest.mark.parametrize("given_scores", [False, True])
def test_behind_a_moving_scaler_the_served_loss_measures_what_predict_one_answered(half_life, given_scores):
    """D: the second column is multiplied by 100 every 25 queries."""
    pipeline = StreamScaler() | LossTracker(PerceptronRanker(half_life=half_life), {"u": np.ones(3)}, measure_served=True)
    ndcg, answered, differ = measure("ndcg@10"), 0.0, 0
    for t, (X, y) in enumerate(queries(2, 150)):
        X[:, 1] *= 100.0 ** (t // 25 % 2)
        scores = pipeline.predict_one(X)
        pipeline.learn_one(X, y, **({"served": scores} if given_scores else {}))
        answered += ndcg.loss(scores, y, ties="pessimistic")
        differ += abs(pipeline.last_round.loss - ndcg.loss(scores, y, ties="pessimistic")) > 1e-9
    tracker = pipeline["LossTracker"]
    assert tracker.totals.served_loss == pytest.approx(answered, abs=1e-9)
    assert tracker.served_interval().mean * tracker.served_interval().n == pytest.approx(answered, abs=1e-9)
    assert (differ == 0) == given_scores
    assert tracker.certificate().holds


def test_a_ranker_around_which_nothing_is_measured_says_so():
    tracker = LossTracker(PerceptronRanker())
    tracker.learn_one(np.eye(2), [1, 0])
    with pytest.raises(ValueError, match="measure_served=True"):
        tracker.served_interval()
    with pytest.raises(ValueError, match="cannot learn from scores"):
        GradientRanker().learn_one(np.eye(2), [1, 0], served=[0.0, 0.0])


@pytest.mark.slow
@given(st.integers(0, 10**6), st.sampled_from([None, 0.2, 1.0]), st.sampled_from([0.0, 1.0]), st.booleans())
@settings(max_examples=30)
def test_moving_comparators_are_certified(seed, cap, beta, served):
    rng = np.random.default_rng(seed)
    teachers = [rng.normal(size=3) for _ in range(3)]
    ranker = PerceptronRanker("ndcg", relative_margin=beta, norm_cap=cap, half_life=0)
    tracker = LossTracker(ranker, {"u": 2.0 * teachers[0]})
    Q, moves, product = 0.0, [2.0 * teachers[0]], 0.0
    for k, teacher in enumerate(teachers):
        if k:
            product += float((2.0 * teacher - moves[-1]) @ tracker.learner.weights)
            moves.append(2.0 * teacher)
            tracker.move_comparator("u", moves[-1])
        for X, y in queries([seed, k], 10, teacher=teacher):
            scores = tracker.predict_one(X) if tracker.n_features else np.zeros(len(y))
            tracker.learn_one(X, y, **({"served": scores} if served else {}))
            Q += tracker.last_round.squared_gradient_norm + 2.0 * tracker.last_round.margin * tracker.last_round.mass
            if cap is not None:
                assert np.linalg.norm(tracker.learner.weights) <= cap * math.sqrt(Q) * (1 + 1e-12)
    certificate = tracker.certificate()
    names = ["master_bound"]
    if cap is not None and served:
        # What was served bounds nothing of the weights that the cap is for.
        assert "the scores that were served" in certificate.not_covered["capped_bound"]
    elif not served:
        names += ["path_data_bound", "path_bound"] if cap is None else ["capped_bound"]
    assert_certified(certificate, *names)
    assert declared_state(tracker).path[0, 0] == pytest.approx(bound_streams.path_length(np.array(moves)))
    if cap is None:
        exact = certificate.pair_loss + float(moves[-1] @ tracker.learner.weights) - product
        assert certificate.bounds[0].value == pytest.approx(exact)
    restored = from_bytes(to_bytes(tracker))
    assert restored.certificate().to_dict() == certificate.to_dict()


def test_a_comparator_that_is_moved_in_vain_and_one_that_is_none():
    tracker = LossTracker(PerceptronRanker(), {"u": {"a": 1.0, "b": 2.0}})
    tracker.learn_one([{"a": 1.0}, {"a": 2.0}], [1, 0])
    tracker.move_comparator("u", {"a": 4.0, "b": 9.0})
    assert declared_state(tracker).path[0, 0] == 3.0
    tracker.learn_one([{"a": 1.0, "b": 1.0}, {"a": 2.0}], [1, 0])
    # A feature that had not been met keeps its weight.
    assert tracker._aligned.tolist() == [[4.0, 2.0]]
    with pytest.raises(KeyError, match="'v'"):
        tracker.move_comparator("v", {"a": 1.0})
    with pytest.raises(TypeError, match="give a dict"):
        tracker.move_comparator("u", [1.0, 2.0])


def test_options_of_the_perceptron():
    for options, message in (
        ({"served": "x"}, "served is 'x'"),
        ({"served": "average", "half_life": 0}, "half_life=0"),
        ({"norm_cap": 0.0}, "norm_cap is 0"),
        ({"norm_cap": 2.0}, "norm_cap is 2"),
    ):
        with pytest.raises(ValueError, match=message):
            PerceptronRanker(**options)
    with pytest.raises(TypeError, match="norm_cap is 'x'"):
        PerceptronRanker(norm_cap="x")


# The defects that an audit of the certificates found, each with what was wrong.


def test_a_large_score_does_not_absorb_the_margin():
    """A: a tie of scores of 1e9 had a loss but violated nothing."""
    tracker = LossTracker(SlamRanker("ndcg"), {"z": np.zeros(1)})
    tracker.learn_one(1e9 * np.array([[1.0], [0.0]]), [1, 0])
    for _ in range(100):
        tracker.learn_one(1e9 * np.array([[1.0], [1.0]]), [1, 0])
    assert tracker.totals.loss == pytest.approx(101 * LOSS_OF_A_TIE)
    assert tracker.totals.mass == pytest.approx(tracker.totals.loss)
    assert tracker.certificate().holds


def test_gains_of_large_grades_do_not_overflow():
    """B: gains were added up, which overflowed for half of 20,000 documents at grade 1000."""
    tracker = LossTracker(PerceptronRanker(credit="argmax"), {"z": np.zeros(1)})
    y = np.repeat([1000, 0], 10_000)
    tracker.learn_one(np.arange(20_000.0)[:, None], y)
    assert tracker.totals.mass == pytest.approx(tracker.totals.loss)
    assert tracker.certificate().holds


def test_a_tiny_sample_weight_loses_no_precision():
    """C: grade 990 with sample weight 1e-20."""
    plain, light = (LossTracker(PerceptronRanker(credit="argmax"), {"u": np.ones(3)}) for _ in range(2))
    X, y = np.eye(3), [990, 5, 0]
    plain.learn_one(X, y)
    light.learn_one(X, y, 1e-20)
    assert light.learner.weights == pytest.approx(1e-20 * plain.learner.weights, rel=1e-12, abs=0.0)
    assert light.totals.mass == pytest.approx(1e-20 * plain.totals.mass, rel=1e-12, abs=0.0)


def test_a_comparator_is_copied():
    """E: an array changed by its owner later changed the certificate."""
    u = np.ones(2)
    tracker = LossTracker(PerceptronRanker(), {"u": u})
    tracker.learn_one(np.eye(2), [1, 0])
    before = tracker.certificate().to_dict()
    u[:] = 9.0
    assert tracker.certificate().to_dict() == before


def test_a_learner_that_learns_without_its_tracker_is_noticed():
    """F: `tracker.model.learn_one(...)` went unnoticed."""
    tracker = LossTracker(PerceptronRanker(), {"u": np.ones(2)})
    tracker.learn_one(np.eye(2), [1, 0])
    tracker.learner.learn_one(np.eye(2), [1, 0])
    with pytest.raises(ValueError, match="taught without the tracker"):
        tracker.certificate()
    with pytest.raises(ValueError, match="taught without the tracker"):
        tracker.learn_one(np.eye(2), [1, 0])


def test_a_perceptron_that_learns_in_its_own_way_is_refused():
    """H: a subclass that overrides learning was accepted."""

    class Own(PerceptronRanker):
        def _learn(self, block, rounds):
            return super()._learn(block, rounds)

    with pytest.raises(TypeError, match="learns in its own way"):
        LossTracker(Own())


@pytest.mark.parametrize("named", [False, True])
def test_behind_a_moving_scaler_a_comparator_on_raw_features_is_a_path(named):
    u = np.array([2.0, -2.0, 1.0])
    names = ["a", "b", "c"]
    comparator = dict(zip(names, u.tolist(), strict=True)) if named else u
    scaler, ranker = StreamScaler(), PerceptronRanker("ndcg", credit="spread", half_life=0)
    pipeline = scaler | LossTracker(ranker, {"u": comparator}, raw=True)
    tracker, scales, F, product, last = pipeline["LossTracker"], [], 0.0, 0.0, None
    for t, (X, y) in enumerate(queries(4, 60, teacher=u)):
        X = 3.0 * X + 1.0 if t > 30 else X
        query = [dict(zip(names, x.tolist(), strict=True)) for x in X] if named else X
        before = tracker.learner.weights if tracker.n_features else np.zeros(3)
        pipeline.learn_one(query, y)
        variances = pipeline["StreamScaler"].variances
        scale = np.sqrt(list(variances.values()) if named else variances)
        _, _, _, a = perceptron.learn((X / scale).tolist(), y.tolist(), before.tolist(), measure="ndcg")
        # F is measured on raw features: what the scaler does to differences of scores the moving comparator takes back.
        F += sum(a_ij * max(0.0, 1.0 - float(u @ (X[i] - X[j]))) for (i, j), a_ij in a.items())
        product += 0.0 if last is None else float((scale * u - last) @ before)
        last = scale * u
        scales.append(scale)
    certificate = tracker.certificate()
    assert certificate.pair_loss == pytest.approx(F, rel=1e-9)
    assert declared_state(tracker).path[0, 0] == pytest.approx(bound_streams.path_length(np.array(scales) * u), rel=1e-9)
    exact = F + float(last @ tracker.learner.weights) - product
    assert_certified(certificate, "master_bound", "path_data_bound", "path_bound")
    assert certificate.bounds[0].value == pytest.approx(exact, rel=1e-9)
    assert certificate.norm == pytest.approx(float(np.linalg.norm(last)))
    assert from_bytes(to_bytes(pipeline))["LossTracker"].certificate().to_dict() == certificate.to_dict()


def test_raw_features_need_a_scaler_in_front():
    with pytest.raises(ValueError, match="behind a scaler"):
        LossTracker(PerceptronRanker(), {"u": np.ones(2)}, raw=True).learn_one(np.eye(2), [1, 0])
    with pytest.raises(ValueError, match="scalers alone"):
        (QueryNormalizer() | LossTracker(PerceptronRanker(), {"u": np.ones(2)}, raw=True)).learn_one(np.eye(2), [1, 0])


@pytest.mark.parametrize("served", [False, True])
def test_a_query_that_is_interrupted_after_the_kernel_is_undone(monkeypatch, served):
    rng = np.random.default_rng(3)
    model = LossTracker(PerceptronRanker(), {"u": np.ones(4)}, measure_served=served)
    for _ in range(5):
        model.learn_one(rng.normal(size=(6, 4)), [2, 1, 0, 0, 1, 0])
    served = declared_state(model).served.copy()
    before = model.totals, model.learner.weights.copy(), model.last_round, model.learner.last_round, served

    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("online_rank.bounds.tracker.accumulate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.learn_one(rng.normal(size=(6, 4)), [2, 1, 0, 0, 1, 0])
    after = model.totals, model.learner.weights, model.last_round, model.learner.last_round, declared_state(model).served
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
    model.learn_one(rng.normal(size=(6, 4)), [2, 1, 0, 0, 1, 0])
    assert model.totals.n_rounds == 6


@pytest.mark.parametrize("transformer", [StreamScaler(), pytest.param(StreamQuantileMap(), marks=pytest.mark.slow)])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_block_with_a_feature_that_is_not_finite_is_refused_whole(transformer, bad):
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(2000, 3)), rng.integers(0, 3, 2000), np.repeat(np.arange(500), 4)
    model = transformer | LossTracker(PerceptronRanker(), measure_served=True)
    for _ in range(3):
        model.learn_many(X, y, qid)
    before = pickle.dumps(model)
    X[1997, 1] = bad
    with pytest.raises(ValueError, match="feature 1 of document 1997 is"):
        model.learn_many(X, y, qid)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_a_tracker_with_a_comparator_says_which_ranks_better(scaled, given):
    names = {"teacher": np.array([1.0, -1.0, 0.5]), "against": np.array([-1.0, 1.0, -0.5])}
    tracker = LossTracker(PerceptronRanker("ndcg"), names, measure_served=True)
    model, scaler = (StreamScaler() | tracker if scaled else tracker), StreamScaler()
    expected = {name: PairedLosses(["the ranker", name]) for name in names}
    for t, (X, y) in enumerate(queries(5, 150, teacher=names["teacher"])):
        if t % 10 == 0:
            y = np.ones(len(y), dtype=np.int64)
        scores = model.predict_one(X)
        model.learn_one(X, y, **({"served": scores} if given else {}))
        scaler.learn_one(X)
        learned = scaler.transform_one(X) if scaled else X
        for name, u in names.items():
            losses = [served_loss(measure("ndcg"), s, y) for s in (scores, learned @ u)]
            if None not in losses:
                expected[name].update(dict(zip(("the ranker", name), losses, strict=True)))
    for name, paired in expected.items():
        assert tracker.paired(name).n == paired.n > 100
        np.testing.assert_allclose(tracker.paired(name).sums, paired.sums, rtol=1e-12)
    (said,) = tracker.paired("against").better()
    assert said.better == "the ranker"
    difference = tracker.paired("against").difference("the ranker", "against")
    text = " ".join(str(tracker.certificate("against")).split())
    assert f"its rankings lose more than the served ones, a query, by {difference}" in text
    assert from_bytes(to_bytes(tracker)).paired("against").better() == [said]


def test_a_block_is_compared_as_its_queries_one_by_one():
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(400, 3)), rng.integers(0, 3, 400), np.repeat(np.arange(80), 5)
    for front in (None, StreamScaler()):
        trackers = [LossTracker(PerceptronRanker(), {"u": np.ones(3)}, measure_served=True) for _ in range(2)]
        block, single = (tracker if front is None else front.clone() | tracker for tracker in trackers)
        block.learn_many(X, y, qid)
        for q in range(80):
            single.learn_one(X[qid == q], y[qid == q])
        np.testing.assert_array_equal(*(tracker.paired().sums for tracker in trackers))


def test_comparisons_need_served_rankings_and_a_comparator():
    with pytest.raises(ValueError, match="served rankings are not measured"):
        LossTracker(PerceptronRanker(), {"u": np.ones(3)}).paired("u")
    tracker = LossTracker(PerceptronRanker(), {"u": np.ones(3), "v": np.ones(3)}, measure_served=True)
    with pytest.raises(ValueError, match=r"there are 2 comparators, \['u', 'v'\]: name one"):
        tracker.paired()
    with pytest.raises(KeyError, match="no comparator 'w'"):
        tracker.paired("w")
    assert tracker.paired("u").better() == []
