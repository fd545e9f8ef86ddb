"""A synthetic stream with raw features as in web search, and a linear, additive or forest truth."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from online_rank import arguments
from online_rank.stream.synth import WEB_GRADES, SyntheticStream, length_of, require_shares, world_of

_TRUTHS = ("linear", "additive", "forest")
#: Number of common factors of the latent features, and of features used by the truth.
_N_FACTORS, _N_SEEN = 10, 30
#: Trees of a forest, and their depth; thresholds that interact in an additive truth.
_N_TREES, _DEPTH, _N_PAIRS = 50, 5, 25
#: Number of queries used to standardise truths and to set the levels of grades.
_N_CALIBRATED = 150


class _Truth(NamedTuple):
    """One truth: its features, and its function of them."""

    features: np.ndarray
    shapes: np.ndarray
    places: np.ndarray
    weights: np.ndarray
    mean: float = 0.0
    deviation: float = 1.0


class WebLike(SyntheticStream):
    r"""Graded queries with heavy-tailed raw features, as search engines have them, and a choice of truths.

    Every raw feature is a monotone function of a latent one, which is standard normal within a query and correlated with
    others; documents of a query share a part of it. Raw features are plain values, exponentials up to 10^8 and beyond, counts
    with many zeros, clipped values, negative logarithms, values rounded to hundredths. The truth depends on 30 latent features:

    - `"linear"`: a weighted sum;
    - `"additive"`: steps, bumps, kinks and lines of single features, and products of steps of two;
    - `"forest"`: the sum of 50 trees of depth 5.

    Its standard deviation is 1; normal noise is added, and the sum is cut into grades 0..4 with shares of about `grade_shares`.

    The truth may change. It is cos(pi f / 2) F_k + sin(pi f / 2) F_{k + 1} of independent truths F_0, F_1, ..., with k + f the
    *phase*, which grows by 1 in `turn` queries and by a half at every query of `jumps`.

    Parameters
    ----------
    n_queries
        Length of the stream, or None for one without end.
    truth
        `"linear"`, `"additive"` or `"forest"`.
    n_features
        d, at least 30.
    n_documents
        m, or a pair (smallest, largest) from which it is drawn uniformly.
    noise
        Standard deviation of the noise.
    turn
        Number of queries in which a truth turns into the next, at constant speed; None for never.
    jumps
        Numbers of the queries before which the truth jumps halfway to the next.
    grade_shares
        Shares of the grades 0, 1, ...
    seed
        Seed of the queries.
    first
        Number of the first query in the course of the truth, so that a long stream can be made in parts.
    world_seed
        Seed of the truth: streams with the same one and other seeds are training and test data of one task. None: `seed`.

    Raises
    ------
    ValueError
        A parameter is out of its range.

    Examples
    --------
    >>> from online_rank.stream.weblike import WebLike
    >>> X, y = next(iter(WebLike(n_queries=1, truth="forest")))
    >>> X.shape[1], 40 <= len(X) <= 120, bool(abs(X).max() > 1e5)
    (136, True, True)
    """

    def __init__(
        self,
        n_queries: int | None = 1000,
        *,
        truth: str = "additive",
        n_features: int = 136,
        n_documents: int | tuple[int, int] = (40, 120),
        noise: float = 0.5,
        turn: float | None = None,
        jumps: tuple[int, ...] = (),
        grade_shares: tuple[float, ...] = WEB_GRADES,
        seed: int = 0,
        world_seed: int | None = None,
        first: int = 0,
    ):
        arguments.integer("n_queries", n_queries, 0, optional=True)
        arguments.choice("truth", truth, _TRUTHS)
        arguments.integer("n_features", n_features, _N_SEEN)
        arguments.number("noise", noise, 0.0)
        arguments.number("turn", turn, above=0.0, optional=True)
        arguments.integer("first", first, 0)
        require_shares(grade_shares)
        self.n_queries = n_queries
        self.truth = truth
        self.n_features = n_features
        self.n_documents = n_documents
        self.noise = noise
        self.turn = turn
        self.jumps = jumps
        self.grade_shares = grade_shares
        self.seed = seed
        self.world_seed = world_seed
        self.first = first
        self._world = world_of(seed, world_seed)
        rng = np.random.default_rng([self._world, 1])
        self._mixing = rng.standard_normal((_N_FACTORS, n_features)) * 0.25
        self._shared = rng.choice([0.0, 0.5, 1.0], size=n_features, p=[0.4, 0.3, 0.3])
        self._kinds = rng.integers(6, size=n_features)
        self._scales = 10.0 ** rng.uniform(-2, 6, size=n_features)
        sample = np.random.default_rng([self._world, 2])
        self._sample = np.concatenate([self._latent(sample) for _ in range(_N_CALIBRATED)])
        values = self._values(self._truth(0), self._sample) + noise * sample.standard_normal(len(self._sample))
        self._cuts = np.quantile(values, np.cumsum(grade_shares)[:-1])

    def phase(self, t: int) -> float:
        """The phase of query t: k + f is between the k-th truth and the next, by a share f of a quarter turn."""
        return (0.0 if self.turn is None else t / self.turn) + 0.5 * sum(t >= jump for jump in self.jumps)

    def _latent(self, rng: np.random.Generator) -> np.ndarray:
        m = length_of(self.n_documents, rng)
        own = rng.standard_normal((m, _N_FACTORS)) @ self._mixing + 0.7 * rng.standard_normal((m, self.n_features))
        own /= np.sqrt((self._mixing**2).sum(axis=0) + 0.49)
        return own + self._shared * rng.standard_normal(self.n_features)

    def _truth(self, k: int) -> _Truth:
        """The k-th truth, standardised on the sample."""
        rng = np.random.default_rng([self._world, 3, k])
        seen = rng.choice(self.n_features, _N_SEEN, replace=False)
        if self.truth == "forest":
            shape = (_N_TREES, 2**_DEPTH)
            truth = _Truth(rng.choice(seen, shape), np.empty(0), 0.7 * rng.standard_normal(shape), rng.standard_normal(shape))
        else:
            pairs = rng.choice(seen, (2, _N_PAIRS))
            n = _N_SEEN + 2 * _N_PAIRS
            shapes = rng.integers(4, size=_N_SEEN)
            places, weights = 0.7 * rng.standard_normal(n), rng.standard_normal(_N_SEEN + _N_PAIRS)
            truth = _Truth(np.concatenate([seen, *pairs]), shapes, places, weights)
        values = self._values(truth, self._sample)
        return truth._replace(mean=values.mean(), deviation=values.std())

    def _values(self, truth: _Truth, z: np.ndarray) -> np.ndarray:
        features, places, weights = truth.features, truth.places, truth.weights
        if self.truth == "forest":
            value = np.zeros(len(z))
            for feature, place, leaves in zip(features, places, weights, strict=True):
                node = np.zeros(len(z), dtype=np.int64)
                for level in range(_DEPTH):
                    at = 2**level - 1 + node
                    node = 2 * node + (z[np.arange(len(z)), feature[at]] > place[at])
                value += leaves[node]
        elif self.truth == "linear":
            value = z[:, features[:_N_SEEN]] @ weights[:_N_SEEN]
        else:
            value = np.zeros(len(z))
            shapes = (
                lambda x, a: 1.0 * (x > a),
                lambda x, a: 2.0 * np.exp(-2.0 * (x - a) ** 2),
                lambda x, a: np.abs(x - a),
                lambda x, a: x,
            )
            for j in range(_N_SEEN):
                value += weights[j] * shapes[truth.shapes[j]](z[:, features[j]], places[j])
            above = z[:, features[_N_SEEN:]] > places[_N_SEEN:]
            value += 1.5 * (above[:, :_N_PAIRS] & above[:, _N_PAIRS:]) @ weights[_N_SEEN:]
        return (value - truth.mean) / truth.deviation

    def _raw(self, z: np.ndarray) -> np.ndarray:
        """Raw features as monotone functions of the latent features."""
        images = (
            lambda x, scale: x,
            lambda x, scale: np.exp(1.5 * x) * scale,
            lambda x, scale: np.floor(2.0 * np.exp(1.2 * x - 0.5)),
            lambda x, scale: np.maximum(x, 0.0) * scale,
            lambda x, scale: -10.0 * np.exp(-0.8 * x),
            lambda x, scale: np.round(1.0 / (1.0 + np.exp(-x)), 2),
        )
        X = np.empty_like(z)
        for kind, image in enumerate(images):
            columns = self._kinds == kind
            X[:, columns] = image(z[:, columns], self._scales[columns])
        return X

    def generate(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """As `SyntheticStream.generate`."""
        rng = np.random.default_rng([self.seed, 4])
        truths: dict[int, _Truth] = {}
        t = self.first
        while True:
            k, f = divmod(self.phase(t), 1.0)
            truths = {i: truths.get(i) or self._truth(i) for i in (int(k), int(k) + 1)}
            z = self._latent(rng)
            value = np.cos(np.pi / 2 * f) * self._values(truths[int(k)], z)
            if f:
                value += np.sin(np.pi / 2 * f) * self._values(truths[int(k) + 1], z)
            value += self.noise * rng.standard_normal(len(z))
            yield self._raw(z), np.searchsorted(self._cuts, value).astype(np.int64)
            t += 1
