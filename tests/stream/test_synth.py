"""Synthetic streams."""

import itertools

import numpy as np
import pytest

from benchmarks._gaussians import GradedGaussians
from online_rank import PerceptronRanker
from online_rank.stream import WebLike
from online_rank.stream.synth import WEB_GRADES, Drifting, NoisyTeacher, Separable

STREAMS = [
    Separable(n_queries=20),
    NoisyTeacher(n_queries=20),
    Drifting(n_queries=20, drift_points=(5, 12), drift_width=3),
    GradedGaussians(n_queries=20, label_noise=0.5),
]
every_stream = pytest.mark.parametrize("stream", STREAMS, ids=lambda s: type(s).__name__)


@every_stream
def test_same_stream_twice_and_as_a_block(stream):
    first, second = list(stream), list(stream)
    assert len(first) == 20
    assert all((X == Z).all() and (y == z).all() for (X, y), (Z, z) in zip(first, second, strict=True))
    assert all(X.shape == (len(y), stream.n_features) and X.dtype == np.float64 and y.dtype == np.int64 for X, y in first)
    X, y, qid = stream.block()
    assert (np.concatenate([X for X, _ in first]) == X).all()
    assert (y == np.concatenate([y for _, y in first])).all()
    assert np.bincount(qid).tolist() == [len(y) for _, y in first]


@every_stream
def test_other_seed_other_stream(stream):
    other = type(stream)(n_queries=1, seed=stream.seed + 1)
    assert next(iter(other))[0].tobytes() != next(iter(stream))[0].tobytes()


@every_stream
def test_stream_without_end(stream):
    endless = type(stream)(n_queries=None)
    assert len(list(itertools.islice(endless, 30))) == 30
    with pytest.raises(ValueError, match="without end"):
        endless.block()


def test_empty_block():
    X, y, qid = Separable(n_queries=0).block()
    assert len(X) == len(y) == len(qid) == 0


@pytest.mark.parametrize(("n_grades", "margin"), [(2, 0.3), (3, 0.05), (5, 0.49), (2, 1.9)])
def test_separable_has_its_margin(n_grades, margin):
    stream = Separable(n_queries=50, n_grades=n_grades, margin=margin, n_features=6)
    X, y, _ = stream.block()
    assert np.linalg.norm(stream.teacher) == pytest.approx(1.0)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1.0, rtol=1e-12)
    s = X @ stream.teacher
    for grade in range(1, n_grades):
        gap = s[y == grade].min() - s[y == grade - 1].max()
        assert margin <= gap < margin + 0.2


def test_separable_meets_the_mass_theorem():
    stream = Separable(n_queries=400, margin=0.3, n_grades=2, n_features=10)
    model = PerceptronRanker(measure="ndcg", half_life=0)
    loss = 0.0
    for X, y in stream:
        model.learn_one(X, y)
        loss += model.last_round.loss
    # The mass theorem on separable streams: 4 B R_X^2 / gamma^2 with B <= 1 and R_X = 1.
    assert 0.0 < loss <= 4.0 / 0.3**2


def test_noisy_teacher_has_web_like_lists_and_grades():
    stream = NoisyTeacher(n_queries=1500, n_features=8)
    X, y, qid = stream.block()
    lengths = np.bincount(qid)
    assert lengths.min() >= 5
    assert 250 < lengths.max() <= 300
    assert 110 < lengths.mean() < 130
    assert np.median(lengths) < lengths.mean()
    np.testing.assert_allclose(np.bincount(y, minlength=5) / len(y), WEB_GRADES, atol=0.02)
    # Within a query the grade follows the teacher.
    relevant = X @ stream.teacher
    assert relevant[y >= 3].mean() > relevant[y == 1].mean() + 0.5 > relevant[y == 0].mean() + 1.0


def test_without_noise_the_teacher_ranks_without_mistake():
    stream = NoisyTeacher(n_queries=50, noise=0.0, n_features=5)
    for X, y in stream:
        assert (np.diff(y[np.argsort(X @ stream.teacher)]) >= 0).all()


@pytest.mark.parametrize("width", [0, 9])
def test_drift_is_at_the_drift_points(width):
    stream = Drifting(n_queries=100, drift_points=(30, 60), drift_width=width, noise=0.0, n_features=5)
    right = np.array([[(np.diff(y[np.argsort(X @ u)]) >= 0).all() for u in stream.teachers] for X, y in stream])
    assert right[:30, 0].all()
    assert right[30 + width : 60, 1].all()
    assert right[60 + width :, 2].all()
    for a, b, other in [(0, 30, 1), (30 + width, 60, 0), (30 + width, 60, 2), (60 + width, 100, 1)]:
        assert not right[a:b, other].all()
    if width:
        assert not right[32:37, :].any(axis=1).all()


def test_graded_gaussians_have_their_moments():
    stream = GradedGaussians(n_queries=400, n_features=3)
    X, y, qid = stream.block()
    assert 50 <= np.bincount(qid).min() < np.bincount(qid).max() <= 150
    assert stream.means.min() >= 0.0
    assert stream.means.max() <= 100.0
    assert stream.deviations.min() >= 50.0
    assert stream.deviations.max() <= 100.0
    for grade in range(5):
        np.testing.assert_allclose(X[y == grade].mean(axis=0), stream.means[grade], atol=5.0)
        np.testing.assert_allclose(X[y == grade].std(axis=0), stream.deviations[grade], rtol=0.05)


def test_label_noise_is_a_rounded_gaussian():
    clean = GradedGaussians(n_queries=1, n_documents=100_000, n_grades=21, n_features=1)
    noisy = GradedGaussians(n_queries=1, n_documents=100_000, n_grades=21, n_features=1, label_noise=0.75)
    ((X, y),), ((Z, z),) = clean, noisy
    assert (X == Z).all()
    inner = (y > 5) & (y < 15)
    # P(|0.75 e| >= 0.5) = 2 (1 - Phi(2 / 3)) = 0.505, P(|0.75 e| >= 1.5) = 2 (1 - Phi(2)) = 0.0455
    assert np.mean((z != y)[inner]) == pytest.approx(0.505, abs=0.01)
    assert np.mean((abs(z - y) >= 2)[inner]) == pytest.approx(0.0455, abs=0.005)
    assert z.min() == 0
    assert z.max() == 20


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Separable(n_features=1), "n_features is 1"),
        (lambda: Separable(margin=0.0), "margin is 0.0"),
        (lambda: Separable(margin=1.0, n_grades=3), "margin is 1.0; it must be a number above 0 and below 1"),
        (lambda: NoisyTeacher(grade_shares=(0.5, 0.4)), "grade_shares"),
        (lambda: Drifting(drift_points=(10, 10)), "drift_points"),
        (lambda: next(iter(NoisyTeacher(n_documents="mail"))), "n_documents is 'mail'"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("stream", "truth"),
    [
        (lambda **seeds: NoisyTeacher(3, n_features=4, n_documents=5, **seeds), lambda stream: stream.teacher),
        (lambda **seeds: Separable(3, n_features=4, n_documents=5, **seeds), lambda stream: stream.teacher),
        (lambda **seeds: Drifting(3, drift_points=(2,), n_features=4, n_documents=5, **seeds), lambda stream: stream.teachers),
        (
            lambda **seeds: WebLike(3, truth="linear", n_features=30, n_documents=5, **seeds),
            lambda stream: stream._truth(0).weights,
        ),
    ],
)
def test_one_truth_for_other_queries(stream, truth):
    train, test, other = stream(seed=1), stream(seed=2, world_seed=1), stream(seed=1, world_seed=2)
    assert truth(train).tolist() == truth(test).tolist()
    assert truth(train).tolist() != truth(other).tolist()
    assert train.block()[1].tolist() != test.block()[1].tolist()
    assert stream(seed=1, world_seed=1).block()[1].tolist() == train.block()[1].tolist()
    with pytest.raises(ValueError, match="world_seed is -1"):
        stream(world_seed=-1)
