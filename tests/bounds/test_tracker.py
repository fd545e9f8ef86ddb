import copy
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import GradientRanker, HashedFeatures, LossTracker, PerceptronRanker, SlamRanker, StreamScaler, load, save
from online_rank._kernels import best_violators, spread_credit
from online_rank._kernels.workspace import PREFERRED, SHARES
from online_rank.base.schema import declared_state
from tests.helpers import MEASURES, SETTINGS, SLAM_SETTINGS, as_block, random_queries
from tests.kernels.calling import Module, graded, workspace
from tests.reference import bounds as reference
from tests.reference import perceptron as perceptron_reference
from tests.reference import slam as slam_reference

WEIGHT = 0.5

kernels = Module(spread_credit)


def ranker_with(measure, options):
    """A ranker with settings of `SETTINGS` or `SLAM_SETTINGS`."""
    return (SlamRanker if "within_grade" in options else PerceptronRanker)(measure, **options)


def state(estimator):
    """All state as comparable values, through the ranker that a tracker holds."""
    return {
        name: state(value)
        if isinstance(value, PerceptronRanker)
        else value.tobytes()
        if isinstance(value, np.ndarray)
        else value
        for name, value in vars(estimator).items()
        if name != "comparators"
    }


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("options", [*SETTINGS, *SLAM_SETTINGS], ids=lambda o: "-".join(map(str, o.values())))
def test_losses_of_comparators_equal_the_reference(options, measure):
    comparators = {"a": np.array([0.3, -0.2, 0.1]), "zero": np.zeros(3), "large": np.array([-5.0, 4.0, 7.0])}
    tracker = LossTracker(ranker_with(measure, options), comparators)
    margin = {name: options[name] for name in ("margin", "margin_scale") if name in options}
    within_grade = options.get("within_grade", "mean")
    expected = np.zeros((3, 2))
    for X, y in random_queries(seed=len(measure) + 7, n_queries=8):
        before = tracker.learner.weights.tolist() if tracker.n_features else [0.0] * 3
        grades = perceptron_reference.effective(measure, y)
        totals = tracker.totals
        so_far = totals.squared_gradient_norms / totals.mass if totals.mass else 0.0
        if "within_grade" in options:
            *_, a = slam_reference.learn(X.tolist(), y.tolist(), before, measure=measure, weight=WEIGHT, **options)
        else:
            *_, a = perceptron_reference.learn(
                X.tolist(), y.tolist(), before, measure=measure, square_over_mass=so_far, weight=WEIGHT, **options
            )
        tracker.learn_one(X, y, WEIGHT)
        if a:
            v = perceptron_reference.weights(measure, within_grade, (X @ before).tolist(), grades)
            for row, u in zip(expected, comparators.values(), strict=True):
                row += (
                    reference.pair_loss(a, (X @ u).tolist(), grades, **margin),
                    WEIGHT * reference.slam(v, (X @ u).tolist(), grades, **margin),
                )
        assert declared_state(tracker).sums == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_comparator_loss_by_hand():
    # w = 0, so all three documents tie; NDCG, document order: Z = 3 + 1 / log2(3).
    tracker = LossTracker(PerceptronRanker("ndcg", credit="spread"), {"u": np.array([0.25])})
    tracker.learn_one(np.array([[2.0], [4.0], [3.0]]), [2, 1, 0])
    z = 3.0 + 1.0 / math.log2(3)
    v = [3.0 * (1.0 - 0.5) / z, 1.0 * (1.0 / math.log2(3) - 0.5) / z]
    loss = 1.0 - (1.0 / math.log2(3) + 3.0 * 0.5) / z
    # u-scores 0.5, 1, 0.75. Hinges of the first: 1 + 1 - 0.5 and 1 + 0.75 - 0.5; of the second: 1 + 0.75 - 1.
    certificate = tracker.certificate()
    assert certificate.pair_loss == pytest.approx(loss / sum(v) * (v[0] * (1.5 + 1.25) / 2 + v[1] * 0.75))
    assert certificate.surrogate_loss == pytest.approx(v[0] * 1.5 + v[1] * 0.75)
    assert certificate.norm == 0.25
    assert tracker.totals.mass == pytest.approx(loss)


@pytest.mark.first(1)
@pytest.mark.parametrize("credit", ["argmax", "spread"])
@pytest.mark.parametrize("shift", [0.0, 1e7])
def test_many_documents_and_a_shift_that_cancels(credit, shift):
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=(80, 4)), np.full(80, shift)])
    y = rng.integers(0, 5, 80)
    u = np.append(rng.normal(size=4), 1.0)
    tracker = LossTracker(PerceptronRanker("ndcg@10", credit=credit), {"u": u})
    tracker.learn_one(X, y)
    *_, a = perceptron_reference.learn(X.tolist(), y.tolist(), [0.0] * 5, measure="ndcg@10", credit=credit)
    expected = reference.pair_loss(a, (X[:, :4] @ u[:4]).tolist(), y.tolist())
    assert tracker.certificate().pair_loss == pytest.approx(expected, rel=1e-6 if shift else 1e-10)


def test_huge_numbers_stay_numbers():
    tracker = LossTracker(PerceptronRanker(credit="spread"), {"u": np.array([1e150, 0.0])})
    tracker.learn_one(np.array([[-1e150, 0.0], [1e150, 1.0]]), [1, 0])
    certificate = tracker.certificate()
    # Mass 1 - 1 / log2(3) on one pair, whose hinge is 1 + 2e300.
    assert certificate.pair_loss == pytest.approx((1.0 - 1.0 / math.log2(3)) * 2e300)
    assert certificate.bound("mass_bound") == math.inf
    assert certificate.holds


@given(st.integers(0, 10**6))
@settings(max_examples=40)
def test_slam_loss_is_the_reference(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 9))
    y = rng.integers(0, 4, m)
    query = graded(y)
    k, v = rng.integers(-3, 4, m) / 2.0, rng.random(m)
    preferred = np.flatnonzero(query.level > 0)
    loss = Module(best_violators).slam_loss(query, v, preferred, k, 1.0, np.empty(m))
    assert loss == pytest.approx(reference.slam(v, k, y))


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), m=st.integers(2, 60), offset=st.sampled_from([0.0, 0.7]))
@settings(max_examples=60)
def test_hinges_of_spread_equal_the_hinges_of_its_pairs(seed, m, offset):
    rng = np.random.default_rng(seed)
    query, work = graded(rng.integers(0, 5, m)), workspace(m)
    level = query.level
    s, k, v, share = rng.integers(-4, 5, m) / 2.0, rng.integers(-4, 5, m) / 3.0, rng.random(m), rng.random(m)
    work.reals[SHARES, :m] = share
    preferred = work.integers[PREFERRED, : kernels.list_preferred(level, v, work.integers[PREFERRED])]
    expected = 0.0
    for i in range(m):
        for j in range(m):
            if level[j] < level[i] and s[j] >= s[i] - offset:
                expected += share[i] * max(0.0, 1.0 + k[j] - k[i])
    assert kernels.hinge_of_spread(level, s, offset, preferred, k, work) == pytest.approx(expected, rel=1e-12)


class Recorder(PerceptronRanker):
    """A ranker whose updates are `factor` times what its rounds say."""

    factor = 1.0

    def _learn(self, block, rounds):
        before = self._weights.copy()
        learned = super()._learn(block, rounds)
        self._weights += (self.factor - 1.0) * (self._weights - before)
        return learned


def assert_certified(tracker):
    """The certificate holds, and so does every link of the chain of inequalities that its bounds are made of."""
    for name in tracker.comparators:
        certificate = tracker.certificate(name)
        assert certificate.holds, str(certificate)
        totals, checks = certificate.totals, {check.name: check.value for check in certificate.bounds}
        kind = "any_step" if isinstance(tracker.learner, SlamRanker) else "mass"
        closed = f"{kind}_bound"
        links = [checks[name] for name in (f"{kind}_hindsight_bound", f"{kind}_data_bound", closed)]
        if (surrogate := closed.replace("_bound", "_surrogate_bound")) in checks:
            links.append(checks[surrogate])
        slack = 1e-9 * (links[-1] + totals["mass"])
        if kind == "mass" and tracker.learner.in_force["mass"] == "loss":
            assert totals["mass"] == pytest.approx(totals["loss"])
        if kind == "mass" or tracker.learner.margin_scale == "constant":
            links.insert(0, totals["mass"])
        for smaller, larger in zip([totals["loss"], *links], links, strict=False):
            assert smaller <= larger + slack, str(certificate)


def attained(horizon):
    """Documents +- e_t in round t; the one ranked first (of equal scores, pessimistically) is irrelevant."""
    for t in range(horizon):
        X = np.zeros((2, horizon))
        X[:, t] = 1.0, -1.0
        yield X, [1, 0]


def test_the_bound_is_attained():
    horizon = 50
    teacher = np.full(horizon, 0.5)
    tracker = LossTracker(PerceptronRanker("ndcg", credit="spread"), {"teacher": teacher})
    for X, y in attained(horizon):
        tracker.learn_one(X, y)
    # Every round ranks the relevant document second: its loss is 1 - 1 / log2(3).
    loss = horizon * (1.0 - 1.0 / math.log2(3))
    certificate = tracker.certificate()
    assert certificate.loss == pytest.approx(loss, rel=1e-12)
    assert loss == pytest.approx(18.4535, abs=5e-5)
    # 4 B R_X^2 / gamma^2 with B = 1 - 1 / log2(3), R_X = 1 and gamma = 2 / sqrt(T).
    for name in ("mass_hindsight_bound", "mass_data_bound", "mass_bound"):
        assert certificate.bound(name) == pytest.approx(loss, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_a_broken_update_is_caught(factor):
    sound, broken = (LossTracker(PerceptronRanker("ndcg"), {"teacher": np.full(20, 0.5)}) for _ in range(2))
    broken._learner = Recorder("ndcg")
    broken.learner.factor = factor
    for X, y in attained(20):
        sound.learn_one(X, y)
        broken.learn_one(X, y)
    assert_certified(sound)
    with pytest.raises(AssertionError):
        assert_certified(broken)


CASES = [
    *SETTINGS,
    {},
    {"credit": "sort"},
    {"credit": "sort", "mass": "loss", "relative_margin": 0.0},
    {"credit": "adaptive", "mass": "loss", "relative_margin": 0.0},
    *SLAM_SETTINGS,
    {"within_grade": "mean", "learning_rate": 1e-3, "margin": 2.0},
]


@pytest.mark.slow
@given(
    seed=st.integers(0, 10**6),
    options=st.sampled_from(CASES),
    measure=st.sampled_from([*MEASURES, "ndcg@1"]),
    kind=st.sampled_from(["random", "ties", "teacher", "adversary"]),
    scale=st.sampled_from([1e-6, 0.1, 1.0, 30.0, 1e6]),
    weighted=st.booleans(),
    dtype=st.sampled_from([np.float64, np.float32]),
)
@settings(max_examples=300)
def test_no_certificate_ever_fails(seed, options, measure, kind, scale, weighted, dtype):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 6))
    teacher = rng.normal(size=d)
    comparators = {
        f"{c:g} times the teacher": c / scale * teacher for c in (0.0, 0.1, 1.0, 10.0)
    } | {"opposite": -teacher, "random": rng.normal(size=d) / scale}  # fmt: skip
    tracker = LossTracker(ranker_with(measure, options), comparators)
    for _ in range(int(rng.integers(0, 40))):
        m = int(rng.integers(0, 9))
        X = rng.integers(-2, 3, (m, d)).astype(float) if kind == "ties" else rng.normal(size=(m, d))
        if kind == "teacher":
            y = np.clip(np.rint(X @ teacher + 0.3 * rng.normal(size=m) + 1), 0, 4).astype(int)
        elif kind == "adversary" and m and tracker.n_features:
            y = np.argsort(np.argsort(np.array(tracker.predict_one(scale * X)))[::-1]) % 4
        else:
            y = rng.integers(0, 4, m)
        tracker.learn_one((scale * X).astype(dtype), y, float(rng.choice([0.0, 0.3, 4.0])) if weighted else 1.0)
    assert_certified(tracker)


def test_a_block_adds_up_as_its_queries_do():
    queries = list(random_queries(seed=3, n_queries=30))
    X, y, qid = as_block(queries)
    comparators = {"a": np.array([0.3, -0.2, 0.1]), "b": np.array([1.0, 1.0, -1.0])}
    one, many = LossTracker(PerceptronRanker(), comparators), LossTracker(PerceptronRanker(), comparators)
    for query, grades in queries:
        if len(query):
            one.learn_one(query, grades)
    many.learn_many(X, y, qid)
    assert state(one) == state(many)


def test_learns_and_ranks_as_the_ranker_it_holds():
    model, tracker = PerceptronRanker(), LossTracker(PerceptronRanker(), {"u": np.ones(3)}, measure_served=True)
    losses, served = 0.0, 0.0
    for X, y in random_queries(seed=5):
        if len(set(y.tolist())) > 1:
            served += perceptron_reference.loss("ndcg@10", tracker.predict_one(X), y.tolist())
        model.learn_one(X, y)
        tracker.learn_one(X, y)
        losses += model.last_round.loss
        assert tracker.predict_one(X) == model.predict_one(X)
        assert tracker.rank_one(X) == model.rank_one(X)
        assert tracker.last_round._replace(served_loss=0.0) == model.last_round._replace(served_loss=0.0)
        assert tracker.learner.last_round == tracker.last_round
    assert tracker.totals.loss == pytest.approx(losses)
    assert tracker.totals.served_loss == pytest.approx(served)
    assert tracker.totals.n_rounds == 12
    assert model.served_weights.tolist() == tracker.learner.served_weights.tolist()


def test_totals_by_hand():
    tracker = LossTracker(PerceptronRanker("ndcg", credit="spread", half_life=0))
    tracker.learn_one(np.array([[3.0, 4.0], [0.0, 1.0]]), [1, 0], w=2.0)  # ties: the loss is 1 - 1 / log2(3), the norm 5
    tracker.learn_one(np.array([[3.0, 4.0], [0.0, 1.0], [1.0, 1.0]]), [1, 0, 0])  # right by now
    tracker.learn_one(np.array([[6.0, 8.0]]), [1])  # skipped; the norm is 10
    loss = 2.0 * (1.0 - 1.0 / math.log2(3))
    totals = tracker.totals
    assert (totals.n_rounds, totals.n_skipped, totals.n_mistakes, totals.m) == (3, 1, 1, 3)
    assert (totals.loss, totals.served_loss, totals.mass, totals.largest_mass) == pytest.approx((loss,) * 4)
    assert totals.squared_gradient_norms == pytest.approx((loss * 3.0) ** 2 + (loss * 3.0) ** 2)
    assert (totals.R_X, totals.largest_weight, totals.margin_mass) == (10.0, 2.0, 0.0)


@pytest.mark.parametrize(
    ("X", "y", "error"),
    [
        (np.array([[1.0, np.nan, 0.0], [0.0, 0.0, 0.0]]), [1, 0], "feature 1 of document 0"),
        (np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0]]), [1, -1], "grade of document 1"),
        (np.ones((2, 4)), [1, 0], "4 features"),
        (np.array([[1e200, 0.0, 0.0], [-1e200, 0.0, 0.0]]), [1, 0], "non-finite"),
    ],
)
def test_a_rejected_query_changes_nothing(X, y, error):
    tracker = LossTracker(PerceptronRanker(), {"u": np.ones(3)})
    for query, grades in random_queries(seed=6):
        tracker.learn_one(query, grades)
    before = state(tracker)
    with pytest.raises(ValueError, match=error):
        tracker.learn_one(X, y)
    assert state(tracker) == before
    if X.shape[1] == 3:
        good = np.eye(3)
        with pytest.raises(ValueError, match=r"document|query 1"):
            tracker.learn_many(np.concatenate([good, X]), [2, 1, 0, *y], [0, 0, 0, 1, 1])
        assert state(tracker) == before


@pytest.mark.slow
@pytest.mark.parametrize("raw", [False, True])
def test_arrays_of_all_features_are_not_written_to(raw):
    # They are not copied before a query is learned, which may have to be undone.
    tracker = LossTracker(PerceptronRanker(), {"u": np.ones(5)}, raw=raw)
    model = (StreamScaler() | tracker) if raw else tracker
    for n, (X, y) in enumerate(random_queries(0, 30, d=5)):
        for name in LossTracker._replaced:
            if (values := getattr(model["LossTracker"] if raw else model, name)) is not None:
                values.flags.writeable = False
        model.learn_one(X, y)
        if n == 20 and not raw:
            model.move_comparator("u", np.full(5, 2.0))


def test_a_query_costs_nothing_a_feature():
    model = HashedFeatures(16) | LossTracker(PerceptronRanker())
    model.learn_one([{"a": 1.0}, {"b": 1.0}], [0, 1])
    tracker = model["LossTracker"]
    before = declared_state(tracker).scaled_by
    model.learn_one([{"a": 1.0}, {"c": 1.0}], [1, 0])
    assert declared_state(tracker).scaled_by is before


def test_named_features_come_and_go():
    tracker = LossTracker(PerceptronRanker(), {"u": {"b": 2.0, "never": 9.0, "a": -1.0}})
    tracker.learn_one({"p": {"a": 1.0}, "q": {"a": 2.0}}, {"p": 0, "q": 1})
    assert tracker.certificate().norm == 1.0
    before = state(tracker)
    with pytest.raises(ValueError, match="'new'"):
        tracker.learn_one([{"a": 1.0, "new": math.inf}, {"a": 0.0}], [1, 0])
    assert state(tracker) == before
    tracker.learn_one([{"a": 1.0, "b": 2.0}, {"b": 1.0}], [1, 0])
    assert tracker.feature_names == tracker.learner.feature_names == ("a", "b")
    assert tracker.certificate().norm == pytest.approx(math.sqrt(2.0**2 + 1.0**2))
    assert_certified(tracker)


def test_bad_arguments():
    with pytest.raises(TypeError, match="type LossTracker"):
        LossTracker(LossTracker(PerceptronRanker()))
    with pytest.raises(ValueError, match=r"comparators\['u'\] has weights that are not finite"):
        LossTracker(PerceptronRanker(), {"u": [1.0, math.nan]})
    with pytest.raises(ValueError, match=r"comparators\['u'\].* norm above 1e\+150"):
        LossTracker(PerceptronRanker(), {"u": [1e200]})
    with pytest.raises(TypeError, match=r"comparators\['u'\]"):
        LossTracker(PerceptronRanker(), {"u": "abc"})
    tracker = LossTracker(PerceptronRanker(), {"u": [1.0, 2.0, 3.0], "v": [1.0, 2.0, 3.0]})
    before = state(tracker)
    with pytest.raises(ValueError, match="3 weights, but the queries have 2"):
        tracker.learn_one(np.eye(2), [1, 0])
    with pytest.raises(TypeError, match="give a dict"):
        tracker.learn_one([{"a": 1.0}, {"a": 2.0}], [1, 0])
    assert state(tracker) == before
    with pytest.raises(ValueError, match="2 comparators"):
        tracker.certificate()
    with pytest.raises(KeyError, match="'w'"):
        tracker.certificate("w")
    with pytest.raises(TypeError, match="names its features"):
        LossTracker(PerceptronRanker(), {"u": {"a": 1.0}}).learn_one(np.eye(2), [1, 0])


def test_copies_and_clones():
    tracker = LossTracker(PerceptronRanker("ap", credit="argmax"), {"u": np.ones(3)})
    for query, grades in random_queries(seed=8):
        tracker.learn_one(query, grades)
    for twin in (copy.deepcopy(tracker), pickle.loads(pickle.dumps(tracker))):
        assert state(twin) == state(tracker)
        twin.learn_one(np.eye(3), [0, 1, 2])
        assert twin.totals.n_rounds == tracker.totals.n_rounds + 1
    fresh = tracker.clone()
    assert fresh.totals.n_rounds == 0
    assert fresh.learner.measure == "ap"
    assert fresh.learner.last_round is None
    assert tracker.totals.n_rounds == 12


def test_behind_a_scaler_and_on_disk(tmp_path):
    pipeline = StreamScaler() | LossTracker(PerceptronRanker(), {"u": np.array([1.0, 0.0, -1.0])})
    plain = StreamScaler() | PerceptronRanker()
    X, y, qid = as_block([query for query in random_queries(seed=11) if len(query[1])])
    pipeline.learn_many(X, y, qid)
    plain.learn_many(X, y, qid)
    assert pipeline.predict_many(X, qid).tolist() == plain.predict_many(X, qid).tolist()
    tracker = pipeline["LossTracker"]
    assert_certified(tracker)
    # A rejected block leaves both steps as they were.
    before = state(tracker), tracker.certificate().to_dict()
    with pytest.raises(ValueError, match="grade of document"):
        pipeline.learn_many(X, np.where(np.arange(len(y)) == len(y) - 1, -1, y), qid)
    assert (state(tracker), tracker.certificate().to_dict()) == before
    save(pipeline, tmp_path / "model.npz")
    restored = load(tmp_path / "model.npz")
    assert restored["LossTracker"].certificate().to_dict() == tracker.certificate().to_dict()
    restored.learn_one(X[:4], [0, 1, 2, 0])
    assert_certified(restored["LossTracker"])


def test_certificate_before_the_first_query():
    certificate = LossTracker(PerceptronRanker(), {"u": np.ones(3)}).certificate()
    assert certificate.loss == 0.0
    assert certificate.holds


def test_certificate_as_table_and_dict():
    tracker = LossTracker(PerceptronRanker(), {"u": np.ones(3)})
    for query, grades in random_queries(seed=9):
        tracker.learn_one(query, grades)
    certificate = tracker.certificate()
    content = json.loads(json.dumps(certificate.to_dict()))
    assert content["loss"] == certificate.loss
    assert content["holds"] is True
    assert content["totals"]["served_loss"] is None
    assert [bound["name"] for bound in content["bounds"]][:3] == ["mass_hindsight_bound", "mass_data_bound", "mass_bound"]
    text = str(certificate)
    assert "'u'" in text
    assert "holds" in text
    assert "VIOLATED" not in text
    assert "not measured" in text
    with pytest.raises(ValueError, match="but the model has credit='adaptive'"):
        certificate.bound("mass_surrogate_bound")
    with pytest.raises(ValueError, match="another kind of run; it covers a SlamRanker"):
        certificate.bound("theorem_5")
    with pytest.raises(ValueError, match="no bound 'x'"):
        certificate.bound("x")


def test_a_score_before_learning_that_is_not_finite_names_its_document():
    """The scaler divides by a deviation of 1e-160 before it learns the large feature, and by a large one afterwards."""
    X = np.vstack([1e-160 * np.random.default_rng(0).normal(size=(30, 2)), [[0.0, 0.0], [1e150, 1e150], [0.0, 1.0]]])
    model = StreamScaler() | LossTracker(GradientRanker())
    model.learn_many(X[:30], [0, 1, 2] * 10, np.repeat(np.arange(10), 3))
    with pytest.raises(ValueError, match="document 1 is inf"):
        model.learn_one(X[30:], [0, 1, 2])
