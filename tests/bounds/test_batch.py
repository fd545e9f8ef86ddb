import math

import numpy as np
import pytest
from scipy.optimize import linprog

from online_rank import batch_weights
from online_rank.bounds.batch import _Problem
from tests.helpers import MEASURES, as_block, random_queries
from tests.reference import bounds as reference
from tests.reference import perceptron as perceptron_reference


def objective(queries, w, measure, lam, credit="argmax"):
    """[CT, eq. 4] by loops."""
    losses = []
    for X, y in queries:
        grades = perceptron_reference.effective(measure, y)
        if len(set(grades)) < 2:
            continue
        s = (X @ w).tolist()
        v = perceptron_reference.weights(measure, "mean", s, grades)
        if credit == "argmax":
            losses.append(reference.slam(v, s, grades))
        else:
            lower = {i: [j for j in range(len(y)) if grades[j] < grades[i]] for i in range(len(y))}
            a = {(i, j): v[i] / len(js) for i, js in lower.items() for j in js}
            losses.append(reference.pair_loss(a, s, grades))
    return lam / 2 * float(w @ w) + sum(losses) / len(losses)


@pytest.mark.parametrize("credit", ["argmax", "spread"])
@pytest.mark.parametrize("measure", MEASURES)
def test_value_gradient_and_smoothing(measure, credit):
    queries = [(X, y) for X, y in random_queries(seed=2, n_queries=15, ties=False) if len(y)]
    X, y, _ = as_block(queries)
    offsets = np.cumsum([0, *(len(y) for _, y in queries)])
    limits = np.full(X.shape[1], -np.inf), np.full(X.shape[1], np.inf)
    problem = _Problem(X, y, offsets, measure, 0.3, credit == "spread", limits)
    assert problem.best == pytest.approx(objective(queries, np.zeros(3), measure, 0.3, credit))
    rng = np.random.default_rng(0)
    for smoothing in (1.0, 0.05):
        w = 0.3 * rng.normal(size=3)
        problem.best = math.inf
        value, gradient = problem.smoothed(w, smoothing)
        true = objective(queries, w, measure, 0.3, credit)
        assert problem.best == pytest.approx(true, rel=1e-12)
        # Entropy adds at most log(1 + n) times the smoothing, n < 9; the square takes off at most half of it.
        assert true - 0.5 * smoothing <= value <= true + smoothing * math.log(9)
        step = 1e-6 * np.eye(3)
        numeric = [(problem.smoothed(w + e, smoothing)[0] - problem.smoothed(w - e, smoothing)[0]) / 2e-6 for e in step]
        assert gradient == pytest.approx(numeric, abs=1e-6)


def test_the_gap_is_one_and_the_weights_are_its_own():
    queries = [(X, y) for X, y in random_queries(seed=4, n_queries=20, ties=False) if len(y)]
    for credit in ("argmax", "spread"):
        best = batch_weights(queries, measure="ndcg", lam=0.1, credit=credit, tolerance=1e-4)
        assert best.objective == pytest.approx(objective(queries, best.weights, "ndcg", 0.1, credit))
        assert best.gap <= 1e-4 * best.objective
        rng = np.random.default_rng(0)
        others = [
            scale * rng.normal(size=3) + around for scale in (0.01, 0.1, 1) for around in (0, best.weights) for _ in range(20)
        ]
        lowest = min(objective(queries, w, "ndcg", 0.1, credit) for w in others)
        assert lowest >= best.objective - best.gap
        assert lowest > best.objective - 1e-3


def test_slam_is_the_linear_program_of_equation_3():
    rng = np.random.default_rng(3)
    for _ in range(20):
        m = int(rng.integers(2, 7))
        y, s = rng.integers(0, 3, m).tolist(), rng.normal(size=m).tolist()
        if len(set(y)) < 2:
            continue
        v = perceptron_reference.weights("ndcg", "document", s, y)
        # min v . c with c_i >= 0 and c_i >= 1 + s_j - s_i for all R_j < R_i
        pairs = [(i, j) for i in range(m) for j in range(m) if y[j] < y[i]]
        A = [[-float(h == i) for h in range(m)] for i, _ in pairs]
        program = linprog(v, A_ub=A, b_ub=[s[i] - s[j] - 1.0 for i, j in pairs])
        assert reference.slam(v, s, y) == pytest.approx(program.fun, abs=1e-9)


def test_by_hand():
    # Documents 1 and 0 with grades 1 and 0: lam / 2 w^2 + v max(0, 1 - w) with v = 1 - 1 / log2(3).
    # Its slope is lam w - v for w < 1: with lam = v / 2 the minimum is at the kink, 1, with lam = 2 v at 1 / 2.
    v = 1.0 - 1.0 / math.log2(3)
    X, y = np.array([[1.0], [0.0]]), [1, 0]
    assert batch_weights((X, y, [0, 0]), measure="ndcg", lam=v / 2, tolerance=1e-6).weights == pytest.approx([1.0], abs=1e-3)
    best = batch_weights((X, y, [0, 0]), measure="ndcg", lam=2 * v, tolerance=1e-6)
    assert best.weights == pytest.approx([0.5], abs=1e-3)
    assert best.objective == pytest.approx(v * 0.5**2 + v * 0.5, rel=1e-5)


def test_zero_minimises_slam_under_noise_but_not_its_spread_form():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4))
    y = np.clip(np.rint(X[:, 0] + 2.0 * rng.normal(size=3000)), 0, 3).astype(int)
    block = X, y, np.arange(3000) // 15
    slam = batch_weights(block, lam=1e-2)
    assert slam.weights.tolist() == [0.0] * 4
    assert slam.gap <= 1e-3
    assert batch_weights(block, lam=1e-2, credit="spread").weights[0] > 0.1


def test_forms_of_input():
    queries = list(random_queries(seed=5, n_queries=12))
    full = [(X, y) for X, y in queries if len(y)]
    as_stream = batch_weights(iter(queries), lam=0.1)
    as_blocks = batch_weights(as_block(full), lam=0.1)
    assert as_stream.weights.tolist() == as_blocks.weights.tolist()
    named = [([dict(zip("abc", row, strict=True)) for row in X.tolist()], y) for X, y in full]
    assert batch_weights(named, lam=0.1).weights == dict(zip("abc", as_stream.weights.tolist(), strict=True))
    float32 = batch_weights([(X.astype(np.float32), y) for X, y in full], lam=0.1)
    assert float32.weights == pytest.approx(as_stream.weights)


@pytest.mark.parametrize("queries", [[], [(np.ones((3, 2)), [1, 1, 1])], [(np.ones((1, 2)), [1])]])
def test_nothing_to_learn(queries):
    best = batch_weights(queries)
    assert (best.objective, best.gap, best.n_queries) == (0.0, 0.0, 0)


def test_bad_arguments():
    block = np.eye(2), [1, 0], [0, 0]
    with pytest.raises(ValueError, match="lam is 0"):
        batch_weights(block, lam=0.0)
    with pytest.raises(ValueError, match="credit is 'gain'"):
        batch_weights(block, credit="gain")
    with pytest.raises(ValueError, match="measure 'x'"):
        batch_weights(block, measure="x")
    with pytest.raises(ValueError, match="feature 0 of document 1"):
        batch_weights((np.array([[1.0], [np.nan]]), [1, 0], [0, 0]))
    with pytest.raises(ValueError, match="grade of document 0"):
        batch_weights([(np.eye(2), [-1, 0])])
