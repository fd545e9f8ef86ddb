"""`LossTracker` around a `ClickPerceptron`."""

import json
import math

import numpy as np
import pytest

from benchmarks._bounds_swaps import misled
from online_rank import ClickPerceptron, FairPairs, LossTracker, PlackettLuce, StreamScaler, load, save
from online_rank.feedback import Impression
from online_rank.stream.clicks import PositionUser, click_stream, user
from online_rank.stream.synth import NoisyTeacher
from tests.reference import clicks as reference

EXAMINATION = tuple(1.0 / p for p in range(1, 7))
COMPARATORS = {"up": np.array([0.3, -0.1, 0.0, 0.2]), "down": np.array([-1.0, 0.4, 2.0, 0.0])}


def teacher(n, seed=0):
    return list(NoisyTeacher(n_queries=n, n_features=4, n_documents=(2, 9), noise=0.4, seed=seed))


def swap_pairs(clicks, scores, margin):
    """{(i, j): a_ij} of the credit "swap", by its words: 4 times the push of the logistic function where scores tie."""
    shown = clicks.impression
    logits = None if shown.logits is None else [*shown.logits, *([] if shown.rest is None else [shown.rest])]

    def weight(a, b):
        if logits is None:
            return 0.5 * (b == a + 1 and (a - shown.pairs_from) % 2 == 0)
        return reference.swap_probability(range(len(shown.order)), a, b, logits)

    pushed = reference.pushes(shown.order, clicks.gains, np.zeros(len(scores)), weight)
    return {(i, j): 4 * push for (i, j), push in pushed.items() if scores[i] - scores[j] <= margin}


def propensity_pairs(clicks, scores, margin):
    """{(i, j): a_ij} of `bounds.clicks`, by its words, with the cost rank - 1: part / near = 1."""
    pairs = {}
    for p, (i, gain) in enumerate(zip(clicks.impression.order, clicks.gains, strict=True)):
        for j in range(len(scores)):
            if gain and j != i and scores[j] >= scores[i] - margin:
                pairs[i, j] = gain / EXAMINATION[p]
    return pairs


RANKERS = {
    "swap": lambda: ClickPerceptron(PlackettLuce(k=6, seed=4), half_life=0, relative_margin=0.0),
    "swap, margin": lambda: ClickPerceptron(PlackettLuce(k=4, seed=4), relative_margin=0.7),
    "neighbours": lambda: ClickPerceptron(FairPairs(k=5, seed=4), relative_margin=0.7),
    "propensity": lambda: ClickPerceptron(
        PlackettLuce(k=6, seed=4), credit="propensity", examination=EXAMINATION, relative_margin=0.0
    ),
    "propensity, margin": lambda: ClickPerceptron(
        PlackettLuce(k=5, seed=4), credit="propensity", examination=EXAMINATION, relative_margin=0.7
    ),
}


@pytest.mark.parametrize("make", RANKERS.values(), ids=RANKERS)
def test_losses_of_comparators_are_those_on_the_pairs(make):
    tracker, alone, pair_loss = LossTracker(make(), COMPARATORS), make(), dict.fromkeys(COMPARATORS, 0.0)
    who = PositionUser((0.1, 0.3, 0.5, 0.8, 1.0), seed=3)
    for draw, (X, y) in enumerate(teacher(80)):
        shown, weight = tracker.show_one(X), 0.5 + draw % 2
        assert shown == alone.show_one(X)
        clicks = who.clicks(shown, y, draw)
        scores = X @ tracker.learner.weights if draw else np.zeros(len(X))
        tracker.learn_one(X, clicks, weight)
        alone.learn_one(X, clicks, weight)
        margin = tracker.last_round.margin
        pairs = (propensity_pairs if alone.credit == "propensity" else swap_pairs)(clicks, scores, margin)
        for name, u in COMPARATORS.items():
            pair_loss[name] += math.fsum(weight * a * max(0.0, 1 - u @ (X[i] - X[j])) for (i, j), a in pairs.items())
    assert tracker.learner.weights.tolist() == alone.weights.tolist()
    totals = tracker.totals
    assert totals.mass > 5
    for name, u in COMPARATORS.items():
        certificate = tracker.certificate(name)
        assert certificate.pair_loss == pytest.approx(pair_loss[name], rel=1e-9)
        assert certificate.holds
        q = totals.squared_gradient_norms + 2 * totals.margin_mass
        bounds = {check.name: check.value for check in certificate.bounds}
        assert bounds["mass_hindsight_bound"] == pytest.approx(pair_loss[name] + u @ alone.weights, rel=1e-9)
        assert bounds["mass_data_bound"] == pytest.approx(pair_loss[name] + np.linalg.norm(u) * math.sqrt(q), rel=1e-9)
        assert totals.loss <= totals.mass <= bounds["mass_hindsight_bound"] * (1 + 1e-12)
        closed = alone.credit == "propensity" and alone.relative_margin == 0.0
        assert ("click_bound" in bounds) == closed
        assert bounds.get("click_bound", math.inf) >= bounds["mass_data_bound"] - 1e-9
        assert "click" in str(certificate) or "F(u)" in str(certificate)
        assert "nan" not in json.dumps(certificate.to_dict()).lower()


def test_grades_are_pairs_of_all_documents():
    tracker, u = LossTracker(ClickPerceptron(relative_margin=0.0), {"u": [0.25]}), 0.25
    X = np.array([[0.0], [1.0], [3.0]])
    tracker.learn_one(X, [0, 2, 1])
    # Pairs (1, 0), (2, 0) and (1, 2) with weights 1, .5 and .5 of 2, all tied.
    assert tracker.certificate().pair_loss == pytest.approx(0.5 * (1 - u) + 0.25 * (1 - 3 * u) + 0.25 * (1 + 2 * u))


def test_a_block_is_its_queries_and_files_keep_the_account(tmp_path):
    make = lambda: StreamScaler() | LossTracker(RANKERS["swap, margin"](), COMPARATORS, raw=True)  # noqa: E731
    one, many = make(), make()
    met = list(click_stream(teacher(40), one, user("position", max_grade=4)))
    for X, clicks in met:
        one.learn_one(X, clicks)
    X = np.concatenate([X for X, _ in met])
    many.learn_many(X, [clicks for _, clicks in met], np.repeat(np.arange(40), [len(X) for X, _ in met]))
    save(many, tmp_path / "many.npz")
    for name in COMPARATORS:
        expected = one["LossTracker"].certificate(name)
        assert expected.holds
        # Behind a scaler that moves, comparators on raw features move with it.
        assert [check.name for check in expected.bounds] == ["master_bound"]
        for model in (many, load(tmp_path / "many.npz")):
            assert str(model["LossTracker"].certificate(name)) == str(expected)


def test_what_is_refused():
    with pytest.raises(ValueError, match="measure_served=True: clicks do not reveal"):
        LossTracker(ClickPerceptron(), measure_served=True)
    tracker = LossTracker(ClickPerceptron(PlackettLuce(k=2)), {"u": np.ones(2)})
    with pytest.raises(ValueError, match="no logits"):
        tracker.learn_one(np.eye(2), Impression((0, 1)).clicked([1]))
    with pytest.raises(ValueError, match="cannot learn from scores that were served"):
        tracker.learn_one(np.eye(2), tracker.show_one(np.eye(2)).clicked([1]), served=[0.0, 1.0])
    assert tracker.totals.n_rounds == 0


def test_users_can_make_a_learner_from_swaps_wrong_on_every_pair():
    """docs/clicks.md, "Why no regret is certified": while some weights make no error."""
    assert misled(30) == (30, 0)
