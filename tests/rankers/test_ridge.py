"""RidgeRanker: its sums, its solutions, and which of them serves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank import RidgeRanker, measure
from online_rank._kernels import ridge as kernels
from online_rank.base.schema import declared_state
from online_rank.rankers import ridge
from online_rank.rankers.ridge import _LAMBDAS
from online_rank.storage.files import to_bytes
from online_rank.stream.synth import NoisyTeacher
from tests.helpers import mismatches
from tests.reference import ridge as reference


def queries(n=40, d=5, seed=0):
    return list(NoisyTeacher(n, n_features=d, n_documents=(1, 12), grade_shares=(0.6, 0.3, 0.1), seed=seed))


def taught(stream, **parameters):
    model = RidgeRanker(**parameters)
    for X, y in stream:
        model.learn_one(X, y)
    return model


@settings(max_examples=40)
@given(st.integers(1, 21), st.integers(1, 19), st.integers(0, 100), st.sampled_from([1.0, 1e6, 1e-3]), st.booleans())
def test_sums_and_solutions(d, m, seed, scale, single):
    rng = np.random.default_rng(seed)
    stream = [(scale * (rng.normal(size=(m, d)) + 3), rng.integers(0, 3, m)) for _ in range(3)]
    if single:
        stream = [(X.astype(np.float32), y) for X, y in stream]
    model = taught(stream)
    A, b = reference.sums([(X.astype(np.float64), y) for X, y in stream])
    np.testing.assert_allclose(model._full_gram(), A[np.triu_indices(d)], atol=1e-12 * scale**2, rtol=1e-9)
    np.testing.assert_allclose(declared_state(model).moment, b, atol=1e-12 * scale, rtol=1e-9)
    strength = 0.1 * scale**2
    strengths, solutions = np.array([strength, 3.0 * strength]), np.full((2, d), np.nan)
    kernels.solve(model._full_gram(), declared_state(model).moment, strengths, solutions)
    for own, solution in zip(strengths, solutions, strict=True):
        expected = reference.solution(A, b, own)
        np.testing.assert_allclose(solution, expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max(initial=0))


def test_a_matrix_that_is_not_positive_definite_is_passed_over():
    # [[1.5, 2], [2, 1.5]] has the eigenvalue -0.5; (A + 2 I) (1, 1) = (5, 5).
    gram, solutions = np.array([1.0, 2.0, 1.0]), np.full((2, 2), 7.0)
    kernels.solve(gram, np.full(2, 5.0), np.array([0.5, 2.0]), solutions)
    np.testing.assert_allclose(solutions, [[7.0, 7.0], [1.0, 1.0]], rtol=1e-15)


def test_a_solution_that_is_not_finite_is_passed_over():
    solutions = np.full((1, 1), 7.0)
    kernels.solve(np.array([1e-300]), np.array([1e300]), np.array([0.0]), solutions)
    assert solutions.tolist() == [[7.0]]


def test_weights_and_half_life():
    stream, weights = queries(20), [0.5, 2.0, 0.0, 1.0] * 5
    model = RidgeRanker(half_life=10.0)
    for (X, y), w in zip(stream, weights, strict=True):
        model.learn_one(X, y, w=w)
    A, b = reference.sums(stream, 0.5**0.1, weights)
    np.testing.assert_allclose(model._full_gram(), A[np.triu_indices(5)], atol=1e-12)
    np.testing.assert_allclose(declared_state(model).moment, b, atol=1e-12)


def test_the_lambda_of_least_loss_before_learning_serves():
    model, losses = RidgeRanker(), np.zeros(len(_LAMBDAS))
    for X, y in queries(60):
        before = [w.copy() for w in declared_state(model).weights] if model.n_features else [np.zeros(5)] * len(_LAMBDAS)
        best = int(np.argmin(losses))
        served = model.predict_one(X)
        assert served == pytest.approx(X @ before[best], abs=1e-12)
        model.learn_one(X, y)
        told = model.last_round
        assert told.loss == pytest.approx(measure("ndcg@10").loss(served, y, ties="pessimistic"))
        if not told.skipped:
            losses += [measure("ndcg@10").loss(X @ w, y, ties="pessimistic") for w in before]
        assert list(model.losses.values()) == pytest.approx(losses.tolist())
    assert model.best_lambda == _LAMBDAS[np.argmin(losses)]
    assert model.weights.tolist() == declared_state(model).weights[np.argmin(losses)].tolist()


def test_solutions_are_of_the_sums_when_they_were_due():
    stream = [(X, y) for X, y in queries(60) if len(set(y.tolist())) > 1]
    # Of the first five queries each is a fifth more than those before; all lambdas are then solved for at once.
    model = taught(stream[:5])
    A, b = reference.sums(stream[:5])
    for strength, weights in zip(_LAMBDAS, declared_state(model).weights, strict=True):
        np.testing.assert_allclose(weights, reference.solution(A, b, strength), rtol=1e-6, atol=1e-9)


def test_a_wide_matrix_is_solved_a_lambda_a_query():
    rng = np.random.default_rng(0)
    model, solved = RidgeRanker(), []
    for _ in range(14):
        before = declared_state(model).weights.copy()
        model.learn_one(rng.normal(size=(4, 520)), [0, 1, 2, 0])
        solved.append(int((declared_state(model).weights != before).any(axis=1).sum()) if before.shape[1] else 1)
    assert solved == [1] * 14


def test_what_is_too_large_is_refused_before_anything_changes():
    model = taught(queries(10))
    before = to_bytes(model)
    for X in (np.full((2, 5), 1e200), np.array([[1e154] * 5, [-1e154] * 5])):
        with pytest.raises(ValueError, match="would make RidgeRanker non-finite"):
            model.learn_one(X, [0, 1])
    assert to_bytes(model) == before
    with pytest.raises(ValueError, match="at most 2048 are accepted"):
        RidgeRanker().learn_one(np.zeros((2, 2049)), [0, 1])


def test_constant_features_get_no_weight():
    model = RidgeRanker()
    for X, y in queries(30):
        model.learn_one(np.column_stack([X, np.full(len(X), 0.1)]), y)
    assert (model._full_gram()[np.triu_indices(6)[1] == 5] == 0.0).all()
    assert model.weights[-1] == 0.0


@pytest.mark.parametrize("half_life", [None, 7.0])
def test_queries_are_added_together_when_they_are_many_documents(half_life, monkeypatch):
    monkeypatch.setattr(ridge, "_AT_ONCE", 30)
    monkeypatch.setattr(ridge, "_GROWTH", 1e9)
    stream = [(X, y) for X, y in queries(40) if len(set(y.tolist())) > 1]
    model, waiting = RidgeRanker(half_life=half_life), []
    for n, (X, y) in enumerate(stream, start=1):
        model.learn_one(X, y)
        waiting.append(sum(map(len, declared_state(model).pending)))
        A, _ = reference.sums(stream[:n], model._keep)
        np.testing.assert_allclose(model._full_gram(), A[np.triu_indices(5)], rtol=1e-9, atol=1e-12)
    # The first query is due, and solved for; of those after it none waits when all are 30 documents or more.
    assert waiting[0] == 0 < max(waiting) < 30
    assert waiting.count(0) > 3


def test_bad_parameters_and_state():
    for half_life in (0.0, np.inf):
        with pytest.raises(ValueError, match="half_life is"):
            RidgeRanker(half_life=half_life)
    model = taught(queries(10))
    model._next = 12
    assert "_next should be an integer from 0 to 11" in mismatches(model)[0]
