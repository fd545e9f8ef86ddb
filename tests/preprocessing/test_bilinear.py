"""The learner of a matrix between vectors, against explicit products of their numbers."""

import copy
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from online_rank._kernels import bilinear as kernels
from online_rank.base.schema import declared_state
from online_rank.preprocessing.bilinear import BilinearLearner, inverse_lengths, unit_vector
from tests.reference.bilinear import SlowMatrix


def stream(seed, p, k, n, m=6, levels=3):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        yield (
            rng.normal(size=p).astype(np.float32),
            rng.normal(size=(m, k)).astype(np.float32),
            rng.integers(0, levels, m),
        )


def learned(learner, q, D, y, w=1.0, served=None):
    row = np.empty(10)
    assert learner.learn(D, q, y, w, row, *([] if served is None else [served]))
    return row


@pytest.mark.parametrize(("p", "k"), [(3, 3), (2, 4), (5, 5), (1, 3)])
@pytest.mark.parametrize("half_life", [None, 7.0])
def test_scores_equal_those_by_all_products_of_numbers(p, k, half_life):
    fast = BilinearLearner(half_life=half_life)
    slow = SlowMatrix(p, k, decay=1.0 if half_life is None else 0.5 ** (1 / half_life))
    fast.begin(p, k)
    # 160 queries fold the terms twice.
    n_counted = 0
    for q, D, y in stream(1, p, k, 160):
        for averaged in (True, False):
            found = fast.scores(D, inverse_lengths(D), unit_vector(q), averaged)
            wanted = slow.scores(q.tolist(), D.tolist(), averaged)
            np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)
        learned(fast, q, D, y)
        slow.learn(q.tolist(), D.tolist(), y.tolist())
        n_counted += len({*y.tolist()}) > 1
    assert fast.mass == pytest.approx(slow.learner.mass, rel=1e-5)
    assert fast.sums.n_counted == n_counted


@pytest.mark.parametrize("m", range(1, 10))
@pytest.mark.parametrize("k", [4, 11])
def test_any_number_of_documents_is_scored_alike_by_all_kernels(m, k):
    fast, served = (BilinearLearner(half_life=0, certifies=True) for _ in range(2))
    for q, D, y in stream(4, k, k, 9, m):
        for learner in (fast, served):
            if not learner.shape[0]:
                learner.begin(k, k)
        scores = fast.answer(D, q)
        assert scores.tolist() == fast.scores(D, inverse_lengths(D), unit_vector(q)).tolist()
        row = learned(fast, q, D, y)
        np.testing.assert_array_equal(learned(served, q, D, y, served=scores), row)
    before, after = declared_state(fast), declared_state(served)
    for name in ("left", "right", "numbers"):
        np.testing.assert_array_equal(getattr(before, name), getattr(after, name))


@pytest.mark.slow
def test_plain_python_scales_vectors_alike():
    code = (
        "import numpy as np; from online_rank.preprocessing.bilinear import unit_vector;"
        "print([unit_vector(q).tolist() for q in np.random.default_rng(0).normal(size=(9, 9)).astype(np.float32)])"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "NUMBA_DISABLE_JIT": off},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for off in ("0", "1")
    ]
    assert printed[0] == printed[1] != ""


def test_an_interrupt_before_the_kernel_changes_nothing(monkeypatch):
    learner, (q, D, y) = BilinearLearner(), next(stream(5, 3, 3, 1))
    learned(learner, q, D, y)
    n = learner._n_terms

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(kernels, "learn", interrupted)
    # What happened to be in the memory of a round that is not written yet.
    for row in (np.ones(10), np.full(10, np.nan)):
        with pytest.raises(KeyboardInterrupt):
            learner.learn(D, q, y, 1.0, row)
        assert learner._n_terms == n


def test_an_update_is_worked_out_by_hand():
    """Two documents, the relevant one last: NDCG@10 is 1 / log2(3), and the mass the square root of the loss."""
    learner = BilinearLearner(kappa=10.0)
    D = np.array([[2.0, 0.0], [0.0, 3.0]], dtype=np.float32)
    row = learned(learner, np.array([5.0, 0.0], dtype=np.float32), D, np.array([0, 1]))
    loss = 1.0 - 1.0 / np.log2(3.0)
    mass = np.sqrt(loss)
    assert row[0] == pytest.approx(loss)
    assert row[2] == pytest.approx(mass)
    # One pair: z = mass (d_2 - d_1), on the row of the query's only dimension.
    np.testing.assert_allclose(learner.matrix(averaged=False), [[10.0 - mass, mass], [0.0, 10.0]], rtol=1e-6)
    assert learner.squares == pytest.approx(2.0 * mass**2, rel=1e-4)


def test_folding_changes_scores_by_rounding_alone():
    learner = BilinearLearner()
    for q, D, y in stream(3, 8, 8, 28):
        learned(learner, q, D, y)
    assert declared_state(learner).n_terms > 20
    folded = copy.deepcopy(learner)
    folded._fold()
    assert declared_state(folded).n_terms == 0
    for averaged in (True, False):
        np.testing.assert_allclose(folded.matrix(averaged), learner.matrix(averaged), rtol=1e-6, atol=1e-6)
    assert folded.sums.rounded > learner.sums.rounded


@pytest.mark.parametrize("n", [1, 6, 17, 63])
def test_what_folding_rounds_is_bounded(n):
    rng, learner = np.random.default_rng(n), BilinearLearner()
    learner.begin(33, 29)
    left = rng.normal(size=(n, 33))
    learner._left[:n] = left / np.linalg.norm(left, axis=1, keepdims=True)
    learner._right[:n], learner._shares[:n], learner._n_terms = rng.normal(size=(n, 29)), rng.random(n), n
    learner._numbers[kernels.KEPT] = 0.25
    exact, average = learner.matrix(averaged=False), learner.matrix()
    learner._fold()
    assert 0.0 < np.linalg.norm(learner.matrix(averaged=False) - exact) < learner.sums.rounded < 1e-3
    np.testing.assert_allclose(learner.matrix(), average, rtol=1e-5, atol=1e-5)


def test_folding_does_not_change_arrays_that_others_hold():
    learner = BilinearLearner()
    for q, D, y in stream(3, 4, 4, 28):
        learned(learner, q, D, y)
    first = declared_state(learner)
    n, held, terms = first.n_terms, first.matrix, first.left
    before, left = held.copy(), terms.copy()
    for q, D, y in stream(4, 4, 4, 80):
        learned(learner, q, D, y)
    assert declared_state(learner).matrix is not held
    np.testing.assert_array_equal(held, before)
    np.testing.assert_array_equal(terms[:n], left[:n])


def test_a_rectangular_matrix_begins_at_zero_and_learns():
    rng = np.random.default_rng(0)
    W, learner, losses = rng.normal(size=(5, 9)), BilinearLearner(), []
    for q, D, _ in stream(5, 5, 9, 1500, m=8):
        y = np.argsort(np.argsort(D @ (q @ W))) // 3
        losses.append(learned(learner, q, D, y)[0])
    assert learner.beginning == 0.0
    assert np.mean(losses[-300:]) < 0.5 * np.mean(losses[:100])


def test_shuffled_dimensions_are_learned():
    """Documents whose dimensions are in another order than the query: the cosine knows nothing."""
    rng = np.random.default_rng(0)
    order, learner, losses, cosines = rng.permutation(8), BilinearLearner(kappa=3.0), [], []
    for q, D, _ in stream(6, 8, 8, 1500, m=8):
        y = np.argsort(np.argsort(D @ q)) // 3
        losses.append(learned(learner, q, np.ascontiguousarray(D[:, order]), y)[0])
        cosines.append(learned(BilinearLearner(), q, np.ascontiguousarray(D[:, order]), y)[0])
    assert np.mean(losses[-300:]) < 0.5 * np.mean(cosines)


def test_bad_values_change_nothing():
    learner = BilinearLearner()
    for q, D, y in stream(7, 3, 3, 5):
        learned(learner, q, D, y)
    before = pickled(learner)
    D, q = np.eye(3, dtype=np.float32), np.array([1.0, 0.0, 0.0], dtype=np.float32)
    for y, w in (([-1, 0, 1], 1.0), ([0, 1, 2], -1.0), ([0, 1, 2], np.nan), ([0, 1, 2], np.inf)):
        assert not learner.learn(D, q, np.array(y), w, np.empty(10))
        assert pickled(learner) == before


def pickled(learner):
    held = declared_state(learner)
    n = held.n_terms
    parts = held.matrix, held.average, held.left[:n], held.right[:n], held.shares, held.numbers
    return [part.tobytes() for part in parts]


@settings(max_examples=40, deadline=None)
@given(
    p=st.integers(1, 9), k=st.integers(1, 9), m=st.integers(1, 7), seed=st.integers(0, 1000),
    scale=st.sampled_from([1e-12, 1.0, 1e12]),
)  # fmt: skip
def test_scores_do_not_depend_on_lengths(p, k, m, seed, scale):
    one, other = BilinearLearner(), BilinearLearner()
    for q, D, y in stream(seed, p, k, 4, m):
        if len(set(y.tolist())) > 1:
            learned(one, q, D, y)
            learned(other, (q * np.float32(scale)).astype(np.float32), (D * np.float32(scale)).astype(np.float32), y)
            np.testing.assert_allclose(one.matrix(), other.matrix(), rtol=1e-3, atol=1e-4)


def test_a_vector_of_length_zero_is_none():
    assert unit_vector(np.zeros(3, dtype=np.float32)) is None
    np.testing.assert_array_equal(inverse_lengths(np.array([[0.0, 0.0], [0.0, 4.0]], dtype=np.float32)), [0.0, 0.25])
