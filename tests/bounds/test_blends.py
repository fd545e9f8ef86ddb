"""Certificates of blends: any served rankings, against the best in hindsight."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import (
    BlendRanker,
    GradientRanker,
    LossTracker,
    PerceptronRanker,
    RidgeRanker,
    StreamQuantileMap,
    StreamScaler,
    measure,
)
from online_rank._kernels import blend as kernels
from online_rank.bounds import certificate_of
from online_rank.rankers.hedge import BUDGET, HedgeAccount, opening, shares_of, step_of
from online_rank.storage.files import from_bytes, to_bytes
from online_rank.stream.synth import NoisyTeacher

NDCG = measure("ndcg@10")


def queries(n=60, seed=0):
    return list(NoisyTeacher(n, n_features=5, n_documents=(1, 12), grade_shares=(0.7, 0.2, 0.1), seed=seed))


def rankers():
    return [PerceptronRanker(), GradientRanker("listnet", optimizer="sgd"), RidgeRanker()]


class Fixed(PerceptronRanker):
    """A ranker that learns nothing: its score is one feature."""

    column = 0

    def _score(self, X):
        return np.ascontiguousarray(X[:, self.column], dtype=np.float64)

    def _learn(self, block, rounds):
        rounds[:] = 0.0
        return len(block.w)


def fixed(column):
    ranker = Fixed()
    ranker.column = column
    return ranker


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), keep=st.sampled_from([1.0, 0.9]), prior=st.booleans())
@settings(max_examples=60)
def test_the_bound_holds_at_all_times_for_any_served_rankings(seed, n, keep, prior):
    """An independent account, from the definitions, next to the kernel; losses of any kind, the served one set to anything."""
    rng = np.random.default_rng(seed)
    first = rng.dirichlet(np.ones(n)) if prior else np.full(n, 1.0 / n)
    L, account, X, H, delta = np.zeros(n), opening(), 0.0, 0.0, 0.0
    for t in range(60):
        step = step_of(account, 1.0, n, keep < 1.0)
        assert step == pytest.approx(min(1.0, math.log(n) / delta) if delta > 0.0 and keep == 1.0 and n > 1 else 1.0)
        pi = first * np.exp(-step * (L - L.min()))
        pi /= pi.sum()
        assert shares_of(L, first, step) == pytest.approx(pi)
        new = [rng.random(n), (np.arange(n) % 2 == t % 2) * 1.0, (pi == pi.max()) * 1.0][seed % 3]
        x = float(rng.choice([0.0, 1.0, rng.random()]))
        h, e = float(pi @ new), step / keep
        kernels.settle(np.append(new, x), 1.0, shares_of(L, first, step), step, keep, False, L, account)
        X, H = keep * X + x, keep * H + h
        delta = keep * delta + max(0.0, h + math.log(float(pi @ np.exp(-e * new))) / e)
        a = HedgeAccount(*account.tolist())
        assert (a.served, a.mixed, a.mixability_gap) == pytest.approx((X, H, delta), abs=1e-9)
        assert a.serving_gap == pytest.approx(X - H, abs=1e-9)
        eta = step_of(account, 1.0, n, keep < 1.0)
        assert min(L - np.log(first) / eta) + delta + (X - H) + 1e-9 >= X


@pytest.mark.slow
def test_the_counterexample_of_blends():
    """Two rankers that disagree, and grades against what is served: all is lost, by the better ranker about half."""
    model = BlendRanker([fixed(0), fixed(1)], measure="ndcg", grid=1)
    lost, best = 0.0, np.zeros(2)
    for _ in range(2000):
        # The two rankers disagree, and every served ranking is wrong.
        X = np.array([[1.0, -1.0], [-1.0, 1.0]])
        scores = model.predict_one(X)
        y = [1, 0] if scores[0] <= scores[1] else [0, 1]
        model.learn_one(X, y)
        lost += NDCG.loss(scores, y, ties="pessimistic")
        best += [NDCG.loss(X[:, k], y, ties="pessimistic") for k in (0, 1)]
    certificate = certificate_of(model)
    assert certificate.loss == pytest.approx(lost)
    assert certificate.holds
    assert best.sum() == pytest.approx(lost)
    assert certificate.totals["n_drawn"] > 0
    # The mean of the candidates is served only while G is at most the budget.
    assert model.account.serving_gap <= BUDGET + 1.0 + 1e-9
    # Grades depend on the draws, so the bound in expectation does not hold; with the luck of the draws it does.
    closed, path = certificate.bound("blend_closed_bound"), certificate.bound("blend_path_bound")
    assert closed < lost <= path + 1e-9
    assert path - closed == pytest.approx(certificate.facts["luck"])
    told = {check.name: check.verdict for check in certificate.bounds}
    assert told == {"blend_bound": "holds", "blend_closed_bound": "exceeded by luck", "blend_path_bound": "holds"}


def test_what_a_blend_served_is_in_its_certificate():
    model, served = BlendRanker(rankers()), 0.0
    for X, y in queries(150):
        scores = model.predict_one(X)
        model.learn_one(X, y)
        if not model.last_round.skipped:
            served += NDCG.loss(np.round(scores, 12), y, ties="pessimistic")
    certificate = certificate_of(model)
    assert certificate.loss == pytest.approx(served, abs=1e-9)
    assert certificate.holds
    assert certificate.totals["n_drawn"] == 0
    a, least = model.account, model.candidate_losses.min()
    exact = least + math.log(len(model.candidates)) / model.step + a.mixability_gap + a.served - a.mixed
    assert certificate.bound("blend_bound") == pytest.approx(exact)
    assert f"L* = {least:,.6g}, of N = {len(model.candidate_losses)}: " in str(certificate)
    twin = from_bytes(to_bytes(model))
    assert certificate_of(twin).to_dict() == certificate.to_dict()


@pytest.mark.parametrize("half_life", [None, 20.0])
def test_weights_of_queries_and_half_lives(half_life):
    model = BlendRanker(rankers(), half_life=half_life)
    for t, (X, y) in enumerate(queries(100)):
        model.learn_one(X, y, (0.3, 1.0, 4.0)[t % 3])
    certificate = certificate_of(model)
    assert certificate.holds
    # Losses of up to 4 are divided by 4.
    assert model.step <= 0.25
    assert [check.name for check in certificate.bounds] == ["blend_bound"]


def test_a_prior_on_what_ranks_today():
    today = PerceptronRanker.from_weights(np.ones(5))
    model = BlendRanker([today, RidgeRanker()], grid=2, prior=(0.5, 0.0))
    assert model.candidate_prior == pytest.approx([0.5 / 3, 0.5 / 3, 0.5 + 0.5 / 3])
    assert model.candidates.tolist() == [[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]
    for X, y in queries(80):
        model.learn_one(X, y)
    certificate = certificate_of(model)
    assert certificate.holds
    a = model.account
    # Against today's ranker: ln(1 / (0.5 + 0.5 / 3)) / eta, less than ln 2.
    price = -math.log(0.5 + 0.5 / 3) / model.step
    assert price < math.log(2.0)
    against_today = model.candidate_losses[2] + price + a.mixability_gap + a.served - a.mixed
    assert certificate.bound("blend_bound") <= against_today + 1e-12
    (row,) = (row for row in certificate.rows() if row.name == "favoured")
    assert row.value == pytest.approx(against_today, abs=1e-12)
    assert row.text == f"PerceptronRanker lost {model.candidate_losses[2]:,.6g}, so the loss is at most {against_today:,.6g}"
    young = BlendRanker([today, RidgeRanker()], grid=2, prior=(0.5, 0.0))
    young.learn_one(np.arange(10.0)[:, None] * np.ones(5), [1] + 9 * [0])
    assert "which says nothing yet" in str(certificate_of(young))
    assert "favoured" not in str(certificate_of(BlendRanker([today, RidgeRanker()])))
    with pytest.raises(ValueError, match=r"prior has a sum of 1\.5"):
        BlendRanker([RidgeRanker(), RidgeRanker()], prior=(1.0, 0.5))
    with pytest.raises(TypeError, match="one number for each of the 2 rankers"):
        BlendRanker([RidgeRanker(), RidgeRanker()], prior=(1.0,))
    with pytest.raises(ValueError, match=r"prior\[1\] is -0.5"):
        BlendRanker([RidgeRanker(), RidgeRanker()], prior=(1.0, -0.5))


def test_late_grades_and_the_scores_that_were_served():
    model, waiting, served = BlendRanker(rankers()), [], 0.0
    for X, y in queries(120):
        waiting.append((X, y, model.predict_one(X)))
        if len(waiting) > 5:
            x, grades, scores = waiting.pop(0)
            model.learn_one(x, grades, served=scores)
            if not model.last_round.skipped:
                served += NDCG.loss(scores, grades, ties="pessimistic")
                assert model.last_round.loss == pytest.approx(NDCG.loss(scores, grades, ties="pessimistic"))
    certificate = certificate_of(model)
    assert certificate.loss == pytest.approx(served)
    assert certificate.holds
    assert "if grades are late" in str(certificate)
    # The rankers inside learn from their own scores: what was served is the blend's.
    plain = BlendRanker(rankers())
    for X, y in queries(120)[:115]:
        plain.learn_one(X, y)
    assert to_bytes(plain.learners[0]) == to_bytes(model.learners[0])


def test_draws_follow_from_the_seed_and_the_number_of_the_query():
    model, other = BlendRanker(rankers(), seed=3), BlendRanker(rankers(), seed=4)
    stream = queries(30)
    for X, y in stream:
        for blend in (model, other):
            # As if blends had been much worse than their parts.
            blend.learn_one(X, y, served=np.argsort(np.argsort(y)) * -1.0)
    assert model.draws_candidates
    candidates = model.candidates.tolist()
    X = stream[0][0]
    assert model.predict_one(X) == model.predict_one(X)
    assert model.weights.tolist() in candidates
    twin = from_bytes(to_bytes(model))
    seen = set()
    for X, y in queries(40, seed=1):
        assert twin.weights.tolist() == model.weights.tolist()
        seen.add((tuple(model.weights), tuple(other.weights)))
        for blend in (model, twin, other):
            blend.learn_one(X, y, served=np.argsort(np.argsort(y)) * -1.0)
    assert any(one != another for one, another in seen)


def test_a_tracker_certifies_what_a_pipeline_around_a_blend_answered():
    model = StreamQuantileMap() | LossTracker(BlendRanker([PerceptronRanker(), RidgeRanker()]), measure_served=True)
    alone = StreamQuantileMap() | BlendRanker([PerceptronRanker(), RidgeRanker()])
    answered = 0.0
    for X, y in queries(120):
        scores = model.predict_one(X)
        assert scores == alone.predict_one(X)
        model.learn_one(X, y)
        alone.learn_one(X, y)
        if not model.last_round.skipped:
            answered += NDCG.loss(np.round(scores, 12), y, ties="pessimistic")
    tracker = model["LossTracker"]
    certificate = certificate_of(model)
    assert certificate.loss == pytest.approx(answered, abs=1e-9)
    assert "(of the served rankings: limited by the bounds)" in str(certificate)
    assert certificate.holds
    assert tracker.certificate().to_dict() == certificate.to_dict()
    assert tracker.served_interval().n == certificate.totals["n_counted"]
    assert from_bytes(to_bytes(model))["LossTracker"].certificate().to_dict() == certificate.to_dict()
    with pytest.raises(TypeError, match="best fixed blend"):
        LossTracker(BlendRanker([PerceptronRanker()]), {"u": np.ones(3)})


def test_what_keeps_no_account():
    with pytest.raises(TypeError, match="keeps no account"):
        certificate_of(StreamScaler() | RidgeRanker())
    with pytest.raises(KeyError, match="no comparators"):
        certificate_of(BlendRanker([PerceptronRanker()]), comparator="u")
    # A tracker of perceptrons, without a comparator, says what no weights could have done.
    tracker = LossTracker(PerceptronRanker())
    tracker.learn_one(np.eye(2), [1, 0])
    certificate = certificate_of(tracker)
    assert certificate.comparator is None
    assert "no weights of norm U have a mean hinge below" in str(certificate)
