import copy
import math
import pickle

import numpy as np
import pytest

from online_rank import ClickPerceptron, PlackettLuce, StreamScaler, load, save
from online_rank.bounds import mass_data_bound
from online_rank.bounds.declaration import BOUNDS
from online_rank.feedback import Impression
from online_rank.metrics import NDCG
from online_rank.stream.clicks import PositionUser, click_stream, user
from online_rank.stream.synth import NoisyTeacher
from tests.reference import clicks as reference

COSTS = {"rank": lambda rank: rank - 1.0, "dcg": lambda rank: 1.0 - 1.0 / math.log2(rank + 1)}
EXAMINATION = (1.0, 0.5, 0.4, 0.2, 0.1, 0.05)


def teacher(n, seed=0, d=4, most=9):
    return list(NoisyTeacher(n_queries=n, n_features=d, n_documents=(2, most), noise=0.4, seed=seed))


def swap_pairs(clicks, scores):
    """{(i, j): rho (g_i - g_j)}: the push of the logistic function is 1/4 where scores tie."""
    shown = clicks.impression
    logits = [*shown.logits, *([] if shown.rest is None else [shown.rest])]
    weight = lambda a, b: reference.swap_probability(range(len(shown.order)), a, b, logits)  # noqa: E731
    return {pair: 4 * push for pair, push in reference.pushes(shown.order, clicks.gains, np.zeros(len(scores)), weight).items()}


def propensity_pairs(clicks, scores, examination, cost, margin):
    """{(i, j): a_ij} of `bounds.clicks`, by its words."""
    pairs = {}
    for p, (i, gain) in enumerate(zip(clicks.impression.order, clicks.gains, strict=True)):
        near = [j for j in range(len(scores)) if j != i and scores[j] >= scores[i] - margin]
        for j in near:
            pairs[i, j] = gain * COSTS[cost](len(near) + 1) / examination[p] / len(near)
    return pairs


@pytest.mark.parametrize(
    "options",
    [
        {"credit": "swap", "relative_margin": 0.0},
        {"credit": "swap", "relative_margin": 0.7},
        {"credit": "propensity", "examination": EXAMINATION, "relative_margin": 0.0},
        {"credit": "propensity", "examination": EXAMINATION, "relative_margin": 0.7, "cost": "dcg"},
    ],
)
def test_updates_and_bound_from_the_definition(options):
    model, w, squares = ClickPerceptron(PlackettLuce(k=6, seed=4), half_life=0, **options), np.zeros(4), np.zeros(4)
    beta, seen, norms, V, Q, updates = options["relative_margin"], 0, 0.0, 0.0, 0.0, []
    who = PositionUser((0.1, 0.3, 0.5, 0.8, 1.0), seed=3)
    for draw, (X, y) in enumerate(teacher(120)):
        clicks = who.clicks(model.show_one(X), y, draw)
        seen, norms = seen + len(X), norms + (X * X).sum()
        margin, scores = beta * norms / seen, X @ w
        if options["credit"] == "swap":
            every = swap_pairs(clicks, scores)
            pairs = {(i, j): a for (i, j), a in every.items() if scores[i] - scores[j] <= margin}
            loss = math.fsum(a for (i, j), a in every.items() if scores[i] <= scores[j])
        else:
            cost = options.get("cost", "rank")
            pairs = propensity_pairs(clicks, scores, EXAMINATION, cost, margin)
            loss = math.fsum(propensity_pairs(clicks, scores, EXAMINATION, cost, 0.0).values())
        z = sum((a * (X[i] - X[j]) for (i, j), a in pairs.items()), np.zeros(4))
        model.learn_one(X, clicks)
        w, squares = w + z, squares + z * z
        round_ = model.last_round
        assert round_.loss == pytest.approx(loss, rel=1e-9, abs=1e-12)
        assert round_.mass == pytest.approx(math.fsum(pairs.values()), rel=1e-9, abs=1e-12)
        assert round_.loss <= round_.mass * (1 + 1e-12)
        assert round_.squared_gradient_norm == pytest.approx(z @ z, rel=1e-9, abs=1e-12)
        assert round_.margin == pytest.approx(margin)
        assert model.weights == pytest.approx(w, rel=1e-9, abs=1e-9)
        V, Q = V + round_.mass, Q + round_.squared_gradient_norm + 2 * round_.margin * round_.mass
        updates.append([(a, X[i] - X[j]) for (i, j), a in pairs.items()])
    assert V > 10
    for u in (w, 0.1 * w, np.ones(4), -w, np.random.default_rng(1).normal(size=4)):
        F = math.fsum(a * max(0.0, 1.0 - u @ difference) for pairs in updates for a, difference in pairs)
        assert F + u @ w + 1e-9 >= V
        assert F + np.linalg.norm(u) * math.sqrt(Q) + 1e-9 >= V
    e = max(0.0, np.mean(w**2 / squares) - 1.0)
    assert model._confidence() == pytest.approx(e / (e + 2))


@pytest.mark.first(1)
@pytest.mark.parametrize("cost", list(COSTS))
@pytest.mark.parametrize("scores", [(0.3, 0.1, 0.2, 0.2), (0.0, 0.0, 0.0, 0.0), (4.0, 3.0, 2.0, 1.0)])
def test_the_mass_is_the_cost_in_expectation(cost, scores):
    """All rankings, all click patterns: E V = sum r_i lambda(rank_i), and so is the estimate `last_round.loss`."""
    attracts, logits = (0.1, 0.9, 0.4, 0.0), (0.5, 0.0, -0.5, 1.0)
    X = np.array(scores)[:, None]
    mass = loss = 0.0
    for order, p_order in reference.rankings(logits, 4):
        for gains, p_gains in reference.independent_patterns([EXAMINATION[p] * attracts[i] for p, i in enumerate(order)]):
            model = ClickPerceptron(credit="propensity", examination=EXAMINATION, cost=cost, relative_margin=0.0, half_life=0)
            model.learn_one(np.zeros((2, 1)), Impression(()).clicked([]))
            model._weights = np.ones(1)
            model.learn_one(X, Impression(order).clicked([i for i, gain in zip(order, gains, strict=True) if gain]))
            mass += p_order * p_gains * model.last_round.mass
            loss += p_order * p_gains * model.last_round.loss
    rank = [1 + sum(scores[j] >= scores[i] for j in range(4) if j != i) for i in range(4)]
    expected = math.fsum(r * COSTS[cost](place) for r, place in zip(attracts, rank, strict=True))
    assert mass == pytest.approx(expected, abs=1e-12)
    assert loss == pytest.approx(expected, abs=1e-12)


@pytest.mark.first(1)
@pytest.mark.parametrize("options", [{}, {"credit": "propensity", "examination": tuple(1 / (p + 1) for p in range(10))}])
def test_learns_and_is_kept(options, tmp_path):
    train, held_out = teacher(1200, seed=1, most=15)[:1000], teacher(1200, seed=1, most=15)[1000:]
    model = StreamScaler() | ClickPerceptron(PlackettLuce(k=10, seed=3), **options)
    for x, clicks in click_stream(train, model, user("position", max_grade=4)):
        model.learn_one(x, clicks)
    metric = NDCG(k=10)
    for x, y in held_out:
        metric.update(y, model.predict_one(x))
    assert metric.get() > 0.85
    ranker = model["ClickPerceptron"]
    save(ranker, tmp_path / "ranker.npz")
    copies = load(tmp_path / "ranker.npz"), copy.deepcopy(ranker), pickle.loads(pickle.dumps(ranker))
    expected = [ranker.show_one(x) for x, _ in held_out[:5]]
    for other in copies:
        assert [other.show_one(x) for x, _ in held_out[:5]] == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"examination": (1.0,)}, "examination goes with credit='propensity'"),
        ({"credit": "propensity", "examination": (1.0, 0.0)}, "examination is"),
        ({"credit": "click"}, "credit is 'click'"),
        ({"cost": "ap"}, "cost is 'ap'"),
        ({"relative_margin": -1.0}, "relative_margin is -1.0"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        ClickPerceptron(**options)


def test_more_documents_shown_than_positions_known():
    model = ClickPerceptron(credit="propensity", examination=(1.0, 0.5))
    with pytest.raises(ValueError, match="position 3 was shown, but examination has 2 positions"):
        model.learn_one(np.eye(3), Impression((0, 1, 2)).clicked([0]))


def test_examination_relative_to_position_one_gives_a_cost_relative_to_it():
    """The documentation proposed `PositionBias.examination` as it is: 30.3 against a true cost of 59.4."""
    absolute, clicks = (0.5, 0.25, 0.1), Impression((0, 1, 2)).clicked([1, 2])
    masses = []
    for examination in (absolute, tuple(p / absolute[0] for p in absolute)):
        model = ClickPerceptron(credit="propensity", examination=examination, relative_margin=0.0)
        model.learn_one(np.eye(3), clicks)
        masses.append(model.last_round.mass)
    assert masses[0] > 0.0
    assert masses[1] == pytest.approx(absolute[0] * masses[0])
    said = " ".join(ClickPerceptron.__doc__.split())
    assert "`PositionBias` and `NaturalVariation` give it relative to position 1: V_t is then relative to it too" in said


def test_bounds_that_speak_of_it():
    swap = ClickPerceptron()
    counted = ClickPerceptron(credit="propensity", examination=(1.0,) * 10, relative_margin=0.0)
    for name in ("mass_hindsight_bound", "mass_data_bound", "click_bound"):
        assert issubclass(type(swap), BOUNDS[name].of)
        assert BOUNDS[name].excludes(counted) is None
    assert BOUNDS["mass_data_bound"].excludes(swap) is None
    assert "credit='propensity'" in BOUNDS["click_bound"].excludes(swap)
    assert not issubclass(type(swap), BOUNDS["mass_bound"].of)


@pytest.mark.first(1)
@pytest.mark.parametrize("seed", range(3))
def test_the_cost_is_below_its_bound_in_expectation(seed):
    """The cost of the rankings themselves, which no click shows, is on average below the bound with mean figures."""
    rng = np.random.default_rng(seed)
    queries = [(rng.normal(size=(5, 3)), rng.random(5) * 0.9) for _ in range(25)]
    u, costs, limits = np.array([2.0, -1.0, 0.5]), [], []
    for repeat in range(60):
        model = ClickPerceptron(
            PlackettLuce(k=None, seed=repeat),
            credit="propensity",
            examination=EXAMINATION[:5],
            relative_margin=0.0,
            half_life=0,
        )
        user_rng, cost, F, Q = np.random.default_rng([seed, repeat]), 0.0, 0.0, 0.0
        for X, attracts in queries:
            shown, scores = model.show_one(X), np.array(model.predict_one(X))
            rank = (scores[None, :] >= scores[:, None]).sum(axis=1)
            cost += attracts @ (rank - 1.0)
            clicked = user_rng.random(5) < attracts[list(shown.order)] * EXAMINATION[:5]
            clicks = shown.clicked([i for i, c in zip(shown.order, clicked, strict=True) if c])
            pairs = propensity_pairs(clicks, scores, EXAMINATION, "rank", 0.0)
            F += math.fsum(a * max(0.0, 1.0 - u @ (X[i] - X[j])) for (i, j), a in pairs.items())
            model.learn_one(X, clicks)
            Q += model.last_round.squared_gradient_norm
        costs.append(cost)
        limits.append((F, Q))
    F, Q = np.mean(limits, axis=0)
    bound = mass_data_bound(comparator_loss=F, norm=float(np.linalg.norm(u)), squared_gradient_norms=Q)
    assert np.mean(costs) <= bound


def test_what_propensities_taught_is_shown_greedily():
    # Its confidence comes from gradients, and says nothing: drawn with it, the worst documents came first.
    rng = np.random.default_rng(0)
    model = StreamScaler() | ClickPerceptron(credit="propensity", examination=(1.0, 0.5, 0.3))
    for _ in range(300):
        x = {name: {"quality": rng.random()} for name in "abc"}
        order = rng.permutation([*x]).tolist()
        seen = [d for place, d in enumerate(order, start=1) if rng.random() < (1.0, 0.5, 0.3)[place - 1]]
        model.learn_one(x, Impression(order).clicked([d for d in seen if rng.random() < x[d]["quality"]]))
    assert model["ClickPerceptron"].confidence < 0.1
    x = {"poor": {"quality": 0.1}, "good": {"quality": 0.9}, "fair": {"quality": 0.5}}
    shown = [model.show_one(x) for _ in range(5)]
    assert shown == [Impression(("good", "fair", "poor"), kept=1.0)] * 5
    assert model["ClickPerceptron"].keep == 1.0
    model.learn_one(x, shown[0].clicked(["fair"]))
    # A policy that was given draws.
    drawn = ClickPerceptron(PlackettLuce(k=3), credit="propensity").show_one(x)
    assert drawn.logits is not None
