"""WebLike: raw features, grades and truths that change."""

import itertools

import numpy as np
import pytest

from online_rank.stream import WebLike


@pytest.mark.parametrize("truth", ["linear", "additive", "forest"])
def test_queries(truth):
    stream = WebLike(40, truth=truth, n_features=60, seed=2)
    queries = list(stream)
    for (X, y), (again, grades) in zip(queries, stream, strict=True):
        np.testing.assert_array_equal(X, again)
        np.testing.assert_array_equal(y, grades)
        assert X.shape == (len(y), 60)
        assert 40 <= len(y) <= 120
    X, y = np.concatenate([X for X, _ in queries]), np.concatenate([y for _, y in queries])
    assert np.isfinite(X).all()
    assert X.max() > 1e6
    assert (X == 0).mean() > 0.1
    assert np.bincount(y, minlength=5) / len(y) == pytest.approx([0.515, 0.325, 0.134, 0.018, 0.008], abs=0.06)


def test_truths_differ_and_follow_their_features():
    stream = WebLike(1, truth="forest", n_features=40)
    z = stream._sample
    first, second = (stream._values(stream._truth(k), z) for k in (0, 1))
    assert first.std() == pytest.approx(1.0)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.5
    # A tree by hand: the first of the forest, followed document by document.
    truth = stream._truth(0)._replace(mean=0.0, deviation=1.0)
    one = truth._replace(features=truth.features[:1], places=truth.places[:1], weights=truth.weights[:1])
    for row in z[:20]:
        node = 0
        for level in range(5):
            at = 2**level - 1 + node
            node = 2 * node + int(row[one.features[0, at]] > one.places[0, at])
        assert stream._values(one, row[None])[0] == one.weights[0, node]


def test_raw_features_are_monotone_images():
    stream = WebLike(1, n_features=60)
    z = np.sort(stream._sample[:500], axis=0)
    assert (np.diff(stream._raw(z), axis=0) >= 0).all()


def test_phase():
    stream = WebLike(10, n_features=30, turn=100.0, jumps=(50, 80))
    assert [stream.phase(t) for t in (0, 49, 50, 79, 80, 200)] == pytest.approx([0.0, 0.49, 1.0, 1.29, 1.8, 3.0])
    still = [y for _, y in WebLike(20, n_features=30)]
    jumped = [y for _, y in WebLike(20, n_features=30, jumps=(10,))]
    same = [np.array_equal(a, b) for a, b in zip(still, jumped, strict=True)]
    assert same == [True] * 10 + [False] * 10


def test_bad_parameters():
    for parameters, message in [
        ({"truth": "tree"}, "truth is 'tree'"),
        ({"n_features": 20}, "n_features is 20"),
        ({"turn": 0.0}, "turn is 0"),
        ({"grade_shares": (0.5, 0.6)}, "grade_shares is"),
    ]:
        with pytest.raises(ValueError, match=message):
            WebLike(1, **parameters)
    assert len(list(itertools.islice(iter(WebLike(None, n_features=30)), 3))) == 3


def test_a_stream_begins_anywhere_in_its_course():
    course = {"n_features": 30, "n_documents": 5, "turn": 10.0, "jumps": (4,), "world_seed": 2}
    later, here = WebLike(1, first=7, **course), WebLike(1, **course)
    assert [here.phase(t) for t in (0, 3, 4, 7)] == [0.0, 0.3, 0.9, 1.2]
    (X, y), (same, _) = next(iter(later)), next(iter(here))
    # The same documents, graded by the truth of query 7: cos(pi f / 2) F_1 + sin(pi f / 2) F_2 with f = 0.2.
    assert X.tolist() == same.tolist()
    rng = np.random.default_rng([0, 4])
    z = later._latent(rng)
    values = np.cos(0.1 * np.pi) * later._values(later._truth(1), z) + np.sin(0.1 * np.pi) * later._values(later._truth(2), z)
    values += 0.5 * rng.standard_normal(len(z))
    assert y.tolist() == [int(np.sum(value > later._cuts)) for value in values]
    with pytest.raises(ValueError, match="first is -1"):
        WebLike(1, first=-1)
