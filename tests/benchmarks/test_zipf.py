"""Synthetic text: what its docstring says of it."""

import numpy as np
import pytest

from benchmarks._zipf import ZipfText


@pytest.mark.slow
def test_norms_sparsity_grades_and_seeds():
    stream = ZipfText(n_queries=20, n_words=5000, seed=3)
    X, y, qid = stream.block()
    assert X.shape == (2000, 5000)
    assert X.toarray().any(axis=0).mean() > 0.9
    assert np.linalg.norm(X.toarray(), axis=1) == pytest.approx(np.ones(2000))
    sizes = np.diff(X.starts)
    assert 20 < sizes.min() < sizes.mean() < sizes.max() <= 260
    for t in range(20):
        assert np.bincount(y[qid == t]).tolist() == [55, 25, 12, 5, 3]
    again = [X.values for X, _ in stream]
    assert (np.concatenate(again) == X.values).all()
    assert not np.array_equal(ZipfText(1, n_words=5000, seed=4).block()[0].values[:50], X.values[:50])


def test_frequencies_follow_zipf():
    X, _, _ = ZipfText(n_queries=30, n_words=2000, seed=1).block()
    counts = np.bincount(X.columns, minlength=2000)
    assert counts[:10].min() > counts[500:510].max() > counts[1990:].mean()


def test_the_teacher_ranks_best_without_noise():
    stream = ZipfText(n_queries=3, n_words=300, noise=0.0)
    for X, y in stream:
        scores = X.toarray() @ stream.teacher
        assert (np.diff(y[np.argsort(-scores)]) <= 0).all()


def test_an_empty_stream():
    assert ZipfText(n_queries=0).block()[0].shape == (0, 100_000)
