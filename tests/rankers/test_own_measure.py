"""Measures of the user's own in the perceptron."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array

from online_rank import BlendRanker, LossTracker, PerceptronRanker, evaluate, load, measure, register, save
from online_rank.base.schema import declared_state
from online_rank.checks import check_ranker
from online_rank.measures.own import OwnMeasure, RankingLoss
from online_rank.rankers.own_pairs import GradeWeights, mean_pair
from online_rank.stream import NoisyTeacher
from tests.reference import own_pairs as reference

NDCG = measure("ndcg")
CREDITS = ("argmax", "spread", "sort", "adaptive")


def own_ndcg(ranked):
    """The loss of NDCG again, of a ranking without ties."""
    return NDCG.loss(-np.arange(float(len(ranked))), ranked)


@register("tests.first")
@dataclasses.dataclass(frozen=True)
class First:
    """1 - 1 / (1 + position of the first document of a grade from `threshold` on), or of the best grade."""

    threshold: int = 1

    def loss(self, ranked):
        return 1.0 - 1.0 / (1.0 + np.flatnonzero(ranked >= min(self.threshold, ranked.max()))[0])


def queries(n, seed, d=5, m=9):
    return list(NoisyTeacher(n_queries=n, n_features=d, n_documents=m, seed=seed))


def learned(model, stream, **more):
    for X, y in stream:
        model.learn_one(X, y, **more)
    return model


@pytest.mark.parametrize("mass", ["loss", "sqrt"])
@pytest.mark.parametrize("credit", ["argmax", "spread", "sort"])
def test_the_librarys_loss_as_ones_own_learns_the_same_bits(credit, mass):
    stream = queries(60, 1)
    own, builtin = (learned(PerceptronRanker(one, credit=credit, mass=mass), stream) for one in (own_ndcg, "ndcg"))
    np.testing.assert_allclose(own.weights, builtin.weights, rtol=1e-12, atol=1e-14)
    for name in ("loss", "mass", "squared_gradient_norm", "margin", "n_documents"):
        assert getattr(own.last_round, name) == pytest.approx(getattr(builtin.last_round, name), rel=1e-12)


def test_one_round_by_hand():
    model = PerceptronRanker(lambda ranked: 0.25 * (ranked[0] == 0), credit="spread", half_life=0)
    model.learn_one([[1.0, 0.0], [0.0, 1.0]], [0, 1], w=2.0)
    # The mass 2 * 0.25 on the only pair, x_2 - x_1.
    np.testing.assert_allclose(model.weights, [-0.5, 0.5], rtol=1e-15)
    assert (model.last_round.loss, model.last_round.weight) == (0.25, 2.0)
    np.testing.assert_allclose(model.last_round.mass, 0.5, rtol=1e-15)


def test_equal_scores_are_in_the_worst_order_and_one_grade_is_not_asked_about():
    asked = []

    def loss(ranked):
        asked.append(ranked.tolist())
        return 0.5

    model = PerceptronRanker(loss)
    learned(model, [([[1.0], [1.0], [1.0]], [2, 0, 1]), ([[1.0], [2.0]], [1, 1]), ([[1.0]], [1])])
    # What follows are exchanges in rankings in random order.
    assert asked[0] == [0, 1, 2]
    assert {tuple(sorted(ranked)) for ranked in asked} == {(0, 1, 2)}
    assert model.last_round.skipped


def test_a_round_without_a_loss_has_no_update():
    model = PerceptronRanker(lambda ranked: 0.0)
    learned(model, queries(20, 2))
    assert not model.weights.any()
    assert (model.last_round.loss, model.last_round.mass) == (0.0, 0.0)


@pytest.mark.first(2)
@pytest.mark.parametrize("settings", [{}, {"norm_cap": 0.5}, {"served": "average"}, {"signs": {"1": 1}}], ids=str)
@pytest.mark.parametrize("credit", CREDITS)
def test_the_mass_theorem_covers_it_for_any_credit(credit, settings):
    stream = queries(120, 3)
    model = PerceptronRanker(First(), credit=credit, **settings)
    tracker, blocks = (LossTracker(model, {"u": np.arange(5) / 3.0}, measure_served=True) for _ in range(2))
    learned(tracker, stream, w=1.5)
    learned(model, stream, w=1.5)
    X, y = (np.concatenate(part) for part in zip(*stream, strict=True))
    blocks.learn_many(X, y, np.repeat(range(120), 9), w=np.full(120, 1.5))
    assert tracker.learner.weights.tolist() == model.weights.tolist() == blocks.learner.weights.tolist()
    assert blocks.totals == tracker.totals
    certificate = tracker.certificate()
    assert certificate.holds
    assert tracker.totals.loss <= tracker.totals.mass * (1.0 + 1e-12)
    assert certificate.settings["measure"] == "tests.first"
    assert not any("surrogate" in check.name for check in certificate.bounds)


def test_a_surrogate_bound_says_why_it_does_not_cover_it():
    tracker = learned(LossTracker(PerceptronRanker(First(), credit="spread"), {"u": np.ones(5)}), queries(30, 5))
    assert "a user's measure" in tracker.certificate().not_covered["mass_surrogate_bound"]


def test_sparse_rows_learn_the_same():
    stream = queries(40, 6)
    dense, sparse = PerceptronRanker(First()), PerceptronRanker(First())
    for X, y in stream:
        dense.learn_one(X, y)
        sparse.learn_one(csr_array(X), y)
    np.testing.assert_allclose(sparse.weights, dense.weights, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("given", ["tests.first", First, First(threshold=2)], ids=str)
def test_models_continue_from_their_files(given, tmp_path):
    stream = queries(40, 7)
    model = learned(LossTracker(PerceptronRanker(given), {"u": np.ones(5)}, measure_served=True), stream[:20])
    save(model, tmp_path / "model.npz")
    read = load(tmp_path / "model.npz")
    for twin in (read, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        on, other = learned(twin, stream[20:]), learned(copy.deepcopy(model), stream[20:])
        assert on.learner.weights.tolist() == other.learner.weights.tolist()
        assert on.totals == other.totals


def test_without_a_name_it_cannot_be_saved(tmp_path):
    with pytest.raises(TypeError, match=r"online_rank\.register"):
        save(PerceptronRanker(own_ndcg), tmp_path / "model.npz")


@pytest.mark.slow
def test_it_passes_all_checks():
    check_ranker(PerceptronRanker("tests.first"))


def test_evaluation_measures_its_loss():
    stream = queries(50, 8)
    trace = evaluate.progressive(stream, PerceptronRanker(First()), "mrr")
    assert trace.served_interval().mean == pytest.approx(1.0 - trace.values["mrr"], abs=0.02)  # the first query has ties alone


BAD = {
    "returned 1.5; a loss is from 0 to 1": lambda ranked: 1.5,
    "returned nan": lambda ranked: np.nan,
    "returned a NoneType": lambda ranked: None,
    "gives an ideal ranking the loss": lambda ranked: 0.5,
}


@pytest.mark.parametrize("message", BAD)
def test_a_measure_that_fails_changes_nothing(message):
    failing = []
    model = learned(PerceptronRanker(lambda ranked: BAD[message](ranked) if failing else own_ndcg(ranked)), queries(5, 9))
    model.learn_one(np.eye(5), [0, 0, 0, 0, 1])
    before = pickle.dumps(vars(declared_state(model)))
    failing.append(True)
    best = np.sign(model.weights)
    with pytest.raises((TypeError, ValueError), match=message):
        model.learn_many(np.stack([best, -best]), [1, 0], [7, 7])
    assert pickle.dumps(vars(declared_state(model))) == before


@pytest.mark.parametrize("w", [-1.0, np.nan, np.inf])
def test_bad_weights_and_values_are_refused_though_the_loss_is_0(w):
    model = learned(PerceptronRanker(lambda ranked: 0.0), queries(3, 10))
    with pytest.raises(ValueError, match="w is"):
        model.learn_one(np.eye(5), [0, 0, 0, 0, 1], w=w)
    with pytest.raises(ValueError, match="grade of document 1 is -1"):
        model.learn_one(np.eye(5), [0, -1, 0, 0, 1])
    with pytest.raises(ValueError, match="x: "):
        model.learn_one(np.eye(5) * np.nan, [0, 1, 0, 0, 1])


def test_what_is_no_measure_is_refused():
    for wrong in (3, None, object()):
        with pytest.raises(TypeError, match="it is a name"):
            PerceptronRanker(wrong)
    with pytest.raises(ValueError, match=r"'tests\.nothing' is not registered"):
        PerceptronRanker("tests.nothing")
    with pytest.raises(TypeError, match="it is a name"):
        BlendRanker([PerceptronRanker()], measure=First())


def test_the_protocol():
    assert isinstance(First(), RankingLoss)
    assert not isinstance(own_ndcg, RankingLoss)


@pytest.mark.parametrize("seed", range(12))
def test_the_mean_pair_adds_up_all_pairs(seed):
    rng = np.random.default_rng(seed)
    m, ties = int(rng.integers(2, 15)), seed % 3 == 0
    grades = np.append([0, 3], rng.integers(4, size=m - 2))
    scores = rng.integers(3, size=m) / 2.0 if ties else rng.normal(size=m)
    weights = np.tri(len(set(grades.tolist())), k=-1) * rng.random(4)[:1] if seed == 5 else np.tril(rng.random((4, 4)), -1)
    weights = weights[: len(set(grades.tolist())), : len(set(grades.tolist()))]
    margin = [0.0, 0.7][seed % 2]
    c, discordance = reference.mean_pair(weights, scores, grades, margin)
    pair = mean_pair(weights, scores, grades, margin)
    if c is None:
        assert pair is None
        return
    # The differences of the shares are the credits; documents that give and take have both.
    np.testing.assert_allclose(pair.shares[0] - pair.shares[1], c, atol=1e-12)
    np.testing.assert_allclose(pair.shares.sum(axis=1), 1.0)
    assert pair.discordance == pytest.approx(discordance)


def test_weights_of_grades_are_mean_changes_by_exchanges():
    # Two documents, of which one has grade 1: an exchange turns the loss from 0 to .25, or back.
    weights = GradeWeights(OwnMeasure(lambda ranked: 0.25 * (ranked[0] == 0)))(np.array([1, 0]))
    np.testing.assert_allclose(weights, [[0.0, 0.0], [0.25, 0.0]])
    # Only the gap between grade 2 and the others counts: documents of grades 0 and 1 may be exchanged for nothing.
    top = GradeWeights(OwnMeasure(lambda ranked: 1.0 - 1.0 / (1.0 + np.argmax(ranked == 2))))
    weights = top(np.array([0, 2, 1, 1, 0, 0]))
    assert weights[1, 0] == 0.0
    assert weights[2, 0] > 0.0
    assert weights[2, 1] > 0.0
    np.testing.assert_array_equal(weights, top(np.array([2, 1, 1, 0, 0, 0])))


def test_one_round_of_the_default_credit_by_hand():
    model = PerceptronRanker(lambda ranked: 0.25 * (ranked[0] == 0), half_life=0, relative_margin=0.0)
    X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    model.learn_one(X, [0, 1, 0])
    # Both documents of grade 0 are before the other: the whole weight is in the wrong order, and the mass is sqrt(1).
    np.testing.assert_allclose(model.weights, [-0.5, 1.0, -0.5], rtol=1e-12)
    assert model.last_round[:3] == pytest.approx((0.25, np.nan, 1.0), nan_ok=True)
    assert (model.last_round.n_documents, model.last_round.largest_norm) == (3, 1.0)


def test_a_query_teaches_though_the_measure_has_no_loss():
    model = PerceptronRanker(lambda ranked: 1.0 - 1.0 / (1.0 + np.argmax(ranked > 0)), half_life=0, relative_margin=0.0)
    model.learn_one([[3.0, 0.0], [2.0, 0.0], [1.0, 1.0]], [1, 0, 1], served=[3.0, 2.0, 1.0])
    assert model.last_round.loss == 0.0
    # The first document is where it should be; the second and third are in the wrong order.
    assert model.weights[1] > 0.0
    assert 0.0 < model.last_round.mass < 1.0
