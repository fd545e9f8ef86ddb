import inspect
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import LossTracker, PerceptronRanker, SlamRanker, bounds
from online_rank.bounds.declaration import BOUNDS, declare_for
from tests.helpers import MEASURES
from tests.reference import bounds as reference
from tests.reference import perceptron as perceptron_reference

declare_for(SlamRanker)

NUMBERS = {
    "comparator_loss": 2.0, "norm": 3.0, "R_X": 1.5, "m": 4, "k": 3, "v_max": 5.0, "gamma": 0.5, "squared_gradient_norms": 7.0,
    "inner_product": 1.0, "learning_rate": 1e-4,
}  # fmt: skip


def call(name, **changes):
    function = BOUNDS[name].value if name in BOUNDS else getattr(bounds, name)
    required = [p for p in inspect.signature(function).parameters if p in NUMBERS]
    return function(**{name: NUMBERS[name] for name in required} | changes)


@pytest.mark.parametrize(
    ("names", "covered", "not_covered"),
    [
        (
            ["theorem_5", "regret_bound"],
            [SlamRanker(), SlamRanker("ap", within_grade="tight")],
            [],
        ),
        (
            ["corollary_7"],
            [SlamRanker(), SlamRanker("ndcg@3", within_grade="tight")],
            [SlamRanker("ndcg")],
        ),
        (
            ["any_step_bound", "any_step_data_bound", "any_step_hindsight_bound"],
            [SlamRanker(), SlamRanker(margin_scale="grade")],
            [],
        ),
        (
            ["mass_bound", "mass_data_bound", "mass_hindsight_bound"],
            [PerceptronRanker(), PerceptronRanker(relative_margin=0.0, credit="argmax")],
            [],
        ),
        (
            ["mass_surrogate_bound"],
            [PerceptronRanker(credit="spread"), PerceptronRanker(credit="argmax", relative_margin=0.1)],
            [PerceptronRanker(), PerceptronRanker(credit="spread", mass="sqrt")],
        ),
    ],
)
def test_a_bound_knows_the_settings_that_it_covers(names, covered, not_covered):
    for name in names:
        for model in covered:
            assert issubclass(type(model), BOUNDS[name].of)
            assert BOUNDS[name].excludes(model) is None
        for model in not_covered:
            assert BOUNDS[name].excludes(model).startswith(f"{name} covers ")
        other = PerceptronRanker() if isinstance(covered[0], SlamRanker) else SlamRanker()
        assert not issubclass(type(other), BOUNDS[name].of)
        assert not issubclass(object, BOUNDS[name].of)


def test_the_margin_of_a_model_matches_its_bound():
    """`relative_margin` meant two things: 0.3, the default, gave 4.6, but the margin of the model grows to 4 beta B R_X^2."""
    numbers = {"comparator_loss": 0.0, "norm": 1.0, "R_X": 1.0}
    valid = 4.0 * (1.0 + 2.0 * 0.3)
    assert bounds.mass_bound(**numbers, relative_margin=0.3) == pytest.approx(valid)
    assert bounds.mass_separable_bound(gamma=1.0, R_X=1.0, relative_margin=0.3) == pytest.approx(valid)
    assert bounds.mass_bound(**numbers) == 4.0


def test_extreme_scales_neither_overflow_nor_vanish():
    """`any_step_data_bound` squared squares of the norm."""
    numbers = {"comparator_loss": 0.0, "learning_rate": 1.0, "squared_gradient_norms": 1.0}
    assert BOUNDS["any_step_data_bound"].value(norm=1e-160, **numbers) == pytest.approx(1e-160)
    assert BOUNDS["any_step_data_bound"].value(norm=1e100, **numbers) == pytest.approx(2e200)
    assert BOUNDS["any_step_data_bound"].value(norm=1e-180, **numbers | {"comparator_loss": 1e-300}) == pytest.approx(1e-180)


def test_surrogate_forms_are_refused_where_they_are_false():
    """With mass `sqrt` F(u) exceeds sum f_t(u): documents 1.5, -.5, .5 with grades 12, 1, 0 while w > 0, else .5, -.5."""
    tracker = LossTracker(PerceptronRanker("ndcg", credit="spread", mass="sqrt"), {"u": np.ones(1)})
    for _ in range(3000):
        if tracker.n_features and tracker.learner.weights[0] > 0.0:
            tracker.learn_one(np.array([[1.5], [-0.5], [0.5]]), [12, 1, 0])
        else:
            tracker.learn_one(np.array([[0.5], [-0.5]]), [1, 0])
    certificate = tracker.certificate()
    false = 2.0 * certificate.surrogate_loss + 4.0 * certificate.totals["largest_mass"] * certificate.totals["R_X"] ** 2
    assert certificate.pair_loss > certificate.surrogate_loss
    assert certificate.loss > false
    assert certificate.holds
    with pytest.raises(ValueError, match="covers mass='loss'"):
        certificate.bound("mass_surrogate_bound")


def test_bad_numbers():
    with pytest.raises(ValueError, match="norm is -1"):
        call("mass_bound", norm=-1.0)
    with pytest.raises(ValueError, match="R_X is 0"):
        call("theorem_5", R_X=0.0)
    with pytest.raises(ValueError, match="steps below"):
        call("theorem_5", learning_rate=1.0)
    for name in ("corollary_6", "mass_separable_bound"):
        with pytest.raises(ValueError, match="gamma is 0"):
            call(name, gamma=0.0)
    with pytest.raises(ValueError, match="n is 0"):
        bounds.theorem_8(n=0, norm=1.0, lipschitz=2.0)


def test_forms_of_one_theorem_agree():
    theory = call("theory_learning_rate")
    assert call("theorem_5", learning_rate=theory) == pytest.approx(call("theorem_5", learning_rate=None))
    assert call("corollary_6") == pytest.approx(call("theorem_5", comparator_loss=0.0, norm=1 / 0.5, learning_rate=None))
    assert call("mass_separable_bound") == pytest.approx(call("mass_bound", comparator_loss=0.0, norm=1 / 0.5))
    # The data-dependent V solves Delta V = F + ||u|| sqrt(2 Delta V / eta + Q).
    V = call("any_step_data_bound", margin=2.0, learning_rate=0.3)
    assert pytest.approx(2.0 + 3.0 * math.sqrt(2.0 * 2.0 * V / 0.3 + 7.0)) == 2.0 * V


A = 0.01


def repeat_counterexample(model, teacher, stop, block):
    """A = a (1, 0), B = (0, 0), C = a (0.5, -0.3) with grades 2, 1, 0, until the ranking is right or the loss above `stop`."""
    X = A * np.array([[1.0, 0.0], [0.0, 0.0], [0.5, -0.3]])
    tracker = LossTracker(model, {"teacher": teacher})
    while tracker.totals.loss <= stop:
        tracker.learn_many(np.tile(X, (block, 1)), np.tile([2, 1, 0], block), np.repeat(np.arange(block), 3))
        if tracker.last_round.loss == 0.0:
            break
    return tracker


@pytest.mark.slow
def test_the_counterexample_violates_theorem_5_with_step_1_and_obeys_it_with_the_theory_step():
    # The smallest u with u . (A - B) >= 1 and u . (B - C) >= 1: u = (p, q) / a, p = 1 and 0.5 p - 0.3 q = -1, so q = 5.
    teacher = np.array([1.0, 5.0]) / A
    options = {"measure": "ndcg", "within_grade": "document"}
    numbers = {"comparator_loss": 0.0, "norm": math.sqrt(26.0) / A, "m": 3, "R_X": A}
    printed = repeat_counterexample(SlamRanker(learning_rate=1.0, **options), teacher, 3575.0, 5000)
    bound = bounds.theorem_5(v_max=printed.totals.v_max, **numbers)
    assert bound == pytest.approx(3574.4, abs=0.05)
    assert printed.totals.loss > bound
    # What is true for step 1 is the form with the step in it, and that holds.
    certificate = printed.certificate()
    assert certificate.bound("theorem_5") > 1e5
    assert certificate.holds

    step = bounds.theory_learning_rate(m=3, R_X=A, v_max=printed.totals.v_max)
    theory = repeat_counterexample(SlamRanker(learning_rate=step, **options), teacher, math.inf, 100)
    certificate = theory.certificate()
    assert certificate.pair_loss == pytest.approx(0.0, abs=1e-9)
    assert certificate.bound("theorem_5") == pytest.approx(bound)
    assert certificate.holds
    assert theory.totals.loss == pytest.approx(245.4, abs=0.05)
    assert theory.totals.n_mistakes == 6794

    certificate = repeat_counterexample(PerceptronRanker("ndcg", credit="argmax"), teacher, math.inf, 10).certificate()
    assert certificate.holds
    assert certificate.loss == pytest.approx(0.954, abs=0.0005)
    assert certificate.bound("mass_bound") <= 104.0 + 1e-9
    assert certificate.totals["n_mistakes"] == 16


@given(st.integers(0, 10**6), st.sampled_from(MEASURES), st.sampled_from(["mean", "document", "tight"]))
@settings(max_examples=300)
def test_surrogates_bound_the_losses_and_their_gradients(seed, measure, within):
    """Theorems 2 and 3 of [CT], Corollary 7 and eq. 16, by loops; V lies between."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 14))
    grades = perceptron_reference.effective(measure, rng.integers(0, 4, m).tolist())
    s = (rng.integers(-3, 4, m) / rng.choice([1.0, 2.0])).tolist()
    if len(set(grades)) < 2:
        return
    v = perceptron_reference.weights(measure, within, s, grades)
    loss = perceptron_reference.loss(measure, s, grades)
    outscored = [i for i in range(m) if any(grades[j] < grades[i] and s[j] >= s[i] for j in range(m))]
    V = sum(v[i] for i in outscored)
    assert loss <= V + 1e-12
    assert reference.slam(v, s, grades) >= V - 1e-12
    assert sum(v) <= 1.0 + 1e-12
    gradient = reference.slam_gradient(v, s, grades)
    assert sum(map(abs, gradient)) <= reference.gradient_l1_constant("slam", m) + 1e-12
    if loss > 1e-12:
        X = rng.normal(size=(m, 3))
        positive = [x for x in v if x > 0.0]
        R_X, v_max = float(np.linalg.norm(X, axis=1).max()), max(positive) / min(positive)
        bound = 4.0 * perceptron_reference.cutoff(measure, m) * R_X**2 * v_max * reference.slam(v, s, grades)
        assert float(np.sum((np.array(gradient) @ X) ** 2)) <= bound * (1 + 1e-9)


def test_no_weight_of_average_precision_can_be_lowered():
    for m, r in itertools.product(range(2, 7), range(1, 6)):
        if r >= m:
            continue
        y = [1] * r + [0] * (m - r)
        v = perceptron_reference.weights_by_position("ap", y)
        for lowered in range(r):
            # The documents before it stand above everything, it and the rest tie with the irrelevant ones.
            s = [10.0 if i < lowered else 0.0 for i in range(m)]
            loss = perceptron_reference.loss("ap", s, y)
            assert reference.slam(v, s, y) == pytest.approx(loss, abs=1e-12)
            less = [0.99 * x if i == lowered else x for i, x in enumerate(v)]
            assert reference.slam(less, s, y) < loss - 1e-4


def bounds_ap(v, r, n):
    """Whether the sums of v (r,) over the outscored bound 1 - AP for every ranking of r relevant and n irrelevant documents."""
    for ranking in itertools.permutations(range(r + n)):
        places = [ranking.index(i) for i in range(r)]
        first = min(ranking.index(i) for i in range(r, r + n))
        ap = sum((Fraction(k, place + 1) for k, place in enumerate(sorted(places), 1)), Fraction(0)) / r
        if sum((v[i] for i in range(r) if places[i] > first), Fraction(0)) < 1 - ap:
            return False
    return True


def test_the_weights_of_average_precision_are_not_the_least_as_equation_8_says():
    """[CT, eq. 8] states that every v that bounds 1 - AP is at least v_MAP, document by document."""
    v_map, even = [Fraction(1, 4), Fraction(1, 6)], [Fraction(5, 24), Fraction(5, 24)]
    assert perceptron_reference.weights_by_position("ap", [1, 1, 0]) == pytest.approx([*map(float, v_map), 0.0])
    assert bounds_ap(v_map, 2, 1)
    assert bounds_ap(even, 2, 1)
    assert not all(a <= b for a, b in zip(v_map, even, strict=True))
    # The surrogate bounds the loss, too, for scores of every order.
    for s in itertools.product([-1.0, -0.5, 0.0, 0.5, 1.0], repeat=3):
        assert reference.slam([5 / 24, 5 / 24, 0.0], s, [1, 1, 0]) >= perceptron_reference.loss("ap", s, [1, 1, 0]) - 1e-12


def test_weights_bound_average_precision_if_the_sums_of_their_smallest_equal_the_sums_of_v_map():
    """docs/papers.md, "Equation 8 of [CT]"."""
    rng, seen = np.random.default_rng(0), [0, 0]
    for r, n in itertools.product((1, 2, 3), (1, 2)):
        v_map = [Fraction(n, r * (n + i)) for i in range(1, r + 1)]
        least = [sum(v_map[r - k :], Fraction(0)) for k in range(r + 1)]
        for _ in range(60):
            v = [x + Fraction(int(rng.integers(-3, 5)), 60) for x in rng.permutation(v_map)]
            enough = all(sum(sorted(v)[:k], Fraction(0)) >= least[k] for k in range(r + 1))
            assert bounds_ap(v, r, n) == enough
            seen[enough] += 1
    assert min(seen) > 50


@given(st.integers(0, 10**6))
@settings(max_examples=100)
def test_slam_is_convex(seed):
    """Lemma 1 of [CT]."""
    rng = np.random.default_rng(seed)
    m, share = int(rng.integers(2, 9)), rng.random()
    grades, v = rng.integers(0, 3, m).tolist(), rng.random(m).tolist()
    s, t = rng.normal(size=(2, m)) * 3.0
    between = reference.slam(v, (share * s + (1 - share) * t).tolist(), grades)
    assert (
        between <= share * reference.slam(v, s.tolist(), grades) + (1 - share) * reference.slam(v, t.tolist(), grades) + 1e-12
    )


@pytest.mark.parametrize(
    ("surrogate", "gradient"),
    [
        ("listnet", reference.listnet_gradient),
        ("ranksvm", reference.ranksvm_gradient),
        ("structured_margin", reference.structured_margin_gradient),
        ("svm_map", reference.svm_map_gradient),
    ],
)
def test_l1_norms_of_gradients(surrogate, gradient):
    rng = np.random.default_rng(1)
    largest = 0.0
    for _ in range(60):
        m = int(rng.integers(2, 7))
        y = rng.integers(0, 2 if surrogate == "svm_map" else 3, m).tolist()
        # Scores against the grades reach the largest norms.
        s = (rng.normal(size=m) - rng.choice([0.0, 5.0]) * np.array(y)).tolist()
        norm = sum(map(abs, gradient(s, y)))
        constant = reference.gradient_l1_constant(surrogate, m)
        assert norm <= constant + 1e-12
        largest = max(largest, norm / constant)
    assert largest > 0.45


def test_theorem_8():
    # 2 L B (8 / n + sqrt(2 / n)), lambda = sqrt(4 L^2 / n / (B^2 / 2 + 4 B^2 / n))
    assert bounds.theorem_8(n=50, norm=3.0, lipschitz=2.0) == pytest.approx(2 * 2 * 3 * (8 / 50 + 0.2))
    expected = math.sqrt(4 * 4 / 50 / (9 / 2 + 4 * 9 / 50))
    assert bounds.theorem_8_regularization(n=50, norm=3.0, lipschitz=2.0) == pytest.approx(expected)


def test_the_proof_in_the_docs_holds_round_by_round():
    """`docs/theorem_5.md`, by hand and for a = .05: while A is above C by less than 1, the ranking is A, C, B."""
    a, discount = 0.05, 1.0 / math.log2(3.0)
    v_a, v_b = 1.5 / (3.0 + discount), (discount - 0.5) / (3.0 + discount)
    for A, B, C in ([0, 1, 2], [0, 2, 1]):  # the documents in two orders: the tie of the first round is broken both ways
        X = np.empty((3, 2))
        X[[A, B, C]] = a * np.array([[1.0, 0.0], [0.0, 0.0], [0.5, -0.3]])
        w, n, total = np.zeros(2), 0, 0.0
        while (s := X @ w)[A] - s[C] < 1.0:
            assert not n or s[A] > s[C] > s[B]
            k = max((B, C), key=lambda i: (s[i], -i))
            assert 1.0 + max(s[B], s[C]) - s[A] > 0.0 and 1.0 + s[C] - s[B] > 0.0  # noqa: PT018
            w += v_a * (X[A] - X[k]) + v_b * (X[B] - X[C])
            n, total = n + 1, total + v_b  # B and C exchanged
        assert n >= 7.42 / a**2 - 1.0
        assert total >= 0.2675 / a**2 - 0.04
    assert 0.2675 / 0.0086**2 - 0.04 > 312.0 * v_a / v_b == pytest.approx(3574.4, abs=0.05)
