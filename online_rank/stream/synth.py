"""Synthetic streams of queries with known truth, seeded: iterating twice over a stream gives the same queries.

Each is an iterable of (X, y), X float64 of shape (m, d), y int64 of shape (m,), and has `block()` for benchmarks.
"""

import abc
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from online_rank import arguments

__all__ = ["Drifting", "NoisyTeacher", "Separable", "SyntheticStream"]

#: Shares of the grades 0..4, as in MSLR-WEB30K (rounded).
WEB_GRADES = (0.515, 0.325, 0.134, 0.018, 0.008)


class SyntheticStream(abc.ABC):
    """An iterable of queries (X, y).

    Attributes
    ----------
    n_queries
        Length of the stream, or None for an endless one.
    """

    n_queries: int | None

    @abc.abstractmethod
    def generate(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Queries (X, y) without end, the same at each call: what a stream of your own writes."""

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        queries = self.generate()
        t = 0
        while self.n_queries is None or t < self.n_queries:
            yield next(queries)
            t += 1

    def block(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The whole stream at once.

        Returns
        -------
        X, y, qid: arrays of shapes (n, d), (n,) and (n,); qid counts the queries from 0.

        Raises
        ------
        ValueError
            The stream has no end.
        """
        if self.n_queries is None:
            raise ValueError("n_queries is None: a stream without end does not fit in a block")
        queries = list(self)
        if not queries:
            return np.empty((0, 0)), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        qid = np.repeat(np.arange(len(queries)), [len(y) for _, y in queries])
        return np.concatenate([X for X, _ in queries]), np.concatenate([y for _, y in queries]), qid


class Separable(SyntheticStream):
    """Queries that a linear ranker can order without mistakes, with a known margin.

    Documents lie on the unit sphere, so R_X = 1. With the unit vector u = `teacher`, each grade has a range of values u . x,
    and the ranges of neighbouring grades are `margin` apart: u . (x_i - x_j) >= `margin` whenever R_i > R_j. The rest of x
    points in a random direction orthogonal to u. The mass theorem bounds the cumulative loss of a perceptron by :math:`4 /
    margin^2`, however long the stream.

    Parameters
    ----------
    n_queries
        Length of the stream, or None for one without end.
    n_features
        d, at least 2.
    n_documents
        m, or a pair (smallest, largest) from which it is drawn, uniformly.
    n_grades
        Grades are 0..n_grades - 1, drawn uniformly.
    margin
        The margin gamma. (n_grades - 1) margin must be smaller than 2.
    seed
        Seed of the queries.
    world_seed
        Seed of the truth: streams with the same one and other seeds are training and test data of one task. None: `seed`.

    Examples
    --------
    >>> from online_rank.stream.synth import Separable
    >>> stream = Separable(n_queries=3, n_features=5, n_documents=4, margin=0.5, n_grades=3)
    >>> for X, y in stream:
    ...     s = X @ stream.teacher
    ...     print(min(s[i] - s[j] for i in range(4) for j in range(4) if y[i] > y[j]) >= 0.5)
    True
    True
    True
    """

    def __init__(
        self,
        n_queries: int | None = 1000,
        *,
        n_features: int = 20,
        n_documents: int | tuple[int, int] = (5, 50),
        n_grades: int = 3,
        margin: float = 0.1,
        seed: int = 0,
        world_seed: int | None = None,
    ):
        arguments.integer("n_queries", n_queries, 0, optional=True)
        arguments.integer("n_features", n_features, 2)
        arguments.integer("n_grades", n_grades, 2)
        arguments.number("margin", margin, above=0.0, below=2.0 / (n_grades - 1))
        self.n_queries = n_queries
        self.n_features = n_features
        self.n_documents = n_documents
        self.n_grades = n_grades
        self.margin = margin
        self.seed = seed
        self.world_seed = world_seed
        self.teacher = _unit(np.random.default_rng([world_of(seed, world_seed), 1]).standard_normal(n_features))

    def generate(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """As `SyntheticStream.generate`."""
        rng = np.random.default_rng(self.seed)
        # u . x runs over [-reach, reach], cut into n_grades bands with gaps of `margin` (a little more, for rounding) between.
        gap = self.margin + 1e-12
        reach = min(1.0, 0.5 * (gap * (self.n_grades - 1) + 1.0))
        band = (2.0 * reach - gap * (self.n_grades - 1)) / self.n_grades
        while True:
            m = length_of(self.n_documents, rng)
            y = rng.integers(self.n_grades, size=m)
            along = -reach + y * (band + gap) + band * rng.random(m)
            rest = rng.standard_normal((m, self.n_features))
            rest -= np.outer(rest @ self.teacher, self.teacher)
            rest *= (np.sqrt(1.0 - along**2) / np.linalg.norm(rest, axis=1))[:, None]
            yield rest + np.outer(along, self.teacher), y


class NoisyTeacher(SyntheticStream):
    """Graded queries as a web search engine has them: long-tailed list lengths, noisy grades, few relevant documents.

    A document's relevance is u . x + `noise` e with u = `teacher`, a unit vector, and e standard normal; it is cut into grades
    0..4 at fixed levels, so that their shares over all documents are `grade_shares`. Features are standard normal plus a common
    part for all documents of a query, so that queries differ in their share of relevant documents.

    Parameters
    ----------
    n_queries
        Length of the stream, or None for one without end.
    n_features
        d.
    n_documents
        m, a pair (smallest, largest) from which it is drawn uniformly, or "web": log-normal within 5..300, mean about 120.
    noise
        Standard deviation of the noise; the signal's within a query is 1.
    query_effect
        Standard deviation of the part of each feature that is common to the documents of a query.
    grade_shares
        Share of each grade, lowest grade first; by default as in MSLR-WEB30K.
    seed
        Seed of the queries.
    world_seed
        Seed of the truth: streams with the same one and other seeds are training and test data of one task. None: `seed`.

    Examples
    --------
    >>> from online_rank.stream.synth import NoisyTeacher
    >>> X, y = next(iter(NoisyTeacher(n_queries=1)))
    >>> X.shape[1], len(X) == len(y)
    (136, True)
    """

    def __init__(
        self,
        n_queries: int | None = 1000,
        *,
        n_features: int = 136,
        n_documents: int | tuple[int, int] | str = "web",
        noise: float = 0.5,
        query_effect: float = 0.5,
        grade_shares: tuple[float, ...] = WEB_GRADES,
        seed: int = 0,
        world_seed: int | None = None,
    ):
        arguments.integer("n_queries", n_queries, 0, optional=True)
        arguments.integer("n_features", n_features, 1)
        arguments.number("noise", noise, 0.0)
        arguments.number("query_effect", query_effect, 0.0)
        require_shares(grade_shares)
        self.n_queries = n_queries
        self.n_features = n_features
        self.n_documents = n_documents
        self.noise = noise
        self.query_effect = query_effect
        self.grade_shares = grade_shares
        self.seed = seed
        self.world_seed = world_seed
        self.teacher = _unit(np.random.default_rng([world_of(seed, world_seed), 1]).standard_normal(n_features))

    def generate(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """As `SyntheticStream.generate`."""
        return self._graded_by(lambda t: self.teacher)

    def _graded_by(self, teacher_at: Callable[[int], np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The queries, of which query t is graded by the weights `teacher_at(t)`."""
        from scipy.special import ndtri

        rng = np.random.default_rng(self.seed)
        deviation = np.sqrt(1.0 + self.query_effect**2 + self.noise**2)
        levels = deviation * ndtri(np.cumsum(self.grade_shares[:-1]))
        t = 0
        while True:
            m = length_of(self.n_documents, rng)
            X = rng.standard_normal((m, self.n_features))
            X += self.query_effect * rng.standard_normal(self.n_features)
            relevance = X @ teacher_at(t) + self.noise * rng.standard_normal(m)
            yield X, np.searchsorted(levels, relevance).astype(np.int64)
            t += 1


class Drifting(NoisyTeacher):
    """`NoisyTeacher` whose teacher changes at known points.

    Parameters
    ----------
    n_queries
        Length of the stream, or None for one without end.
    drift_points
        Numbers of the queries at which the teacher begins to change, in ascending order.
    drift_width
        Number of queries over which the teacher turns, at constant speed, into the next one; 0 for an abrupt change.
    kwargs
        The other parameters of `NoisyTeacher`.

    Attributes
    ----------
    teachers
        Array of shape (len(drift_points) + 1, d): the unit vectors that grade before, between and after the drift points.

    Examples
    --------
    >>> from online_rank.stream.synth import Drifting
    >>> stream = Drifting(n_queries=1000, drift_points=(500,), n_features=4)
    >>> stream.teachers.shape
    (2, 4)
    """

    def __init__(
        self,
        n_queries: int | None = 1000,
        *,
        drift_points: tuple[int, ...] = (500,),
        drift_width: int = 0,
        **kwargs: Any,
    ):
        super().__init__(n_queries, **kwargs)
        arguments.integer("drift_width", drift_width, 0)
        points = [*drift_points]
        if any(b - a <= drift_width for a, b in itertools.pairwise(points)):
            raise ValueError(f"drift_points is {drift_points}; they must ascend by more than drift_width = {drift_width}")
        self.drift_points = drift_points
        self.drift_width = drift_width
        rng = np.random.default_rng([world_of(self.seed, self.world_seed), 1])
        self.teachers = np.stack([_unit(rng.standard_normal(self.n_features)) for _ in range(len(points) + 1)])

    def generate(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """As `SyntheticStream.generate`."""
        return self._graded_by(self._teacher_at)

    def _teacher_at(self, t: int) -> np.ndarray:
        """The weights that grade query t."""
        index = int(np.searchsorted(self.drift_points, t, side="right"))
        if index == 0:
            return self.teachers[0]
        part = (t - self.drift_points[index - 1] + 1) / (self.drift_width + 1)
        if part >= 1.0:
            return self.teachers[index]
        return _unit((1.0 - part) * self.teachers[index - 1] + part * self.teachers[index])


def require_shares(grade_shares: tuple[float, ...]) -> None:
    """Raise ValueError unless these are shares of grades."""
    if not np.isclose(sum(grade_shares), 1.0) or min(grade_shares) < 0:
        raise ValueError(f"grade_shares is {grade_shares}; shares are >= 0 and sum to 1")


def world_of(seed: int, world_seed: int | None) -> int:
    """The seed of the truth of a stream."""
    arguments.seed(seed)
    arguments.integer("world_seed", world_seed, 0, optional=True)
    return seed if world_seed is None else world_seed


def length_of(n_documents: int | tuple[int, int] | str, rng: np.random.Generator) -> int:
    """The number of documents of a query, drawn according to `n_documents`."""
    if n_documents == "web":
        return int(np.clip(rng.lognormal(np.log(106.0), 0.5), 5, 300))
    if isinstance(n_documents, str):
        raise ValueError(f"n_documents is {n_documents!r}; it is a number, a pair (smallest, largest) or 'web'")
    if isinstance(n_documents, tuple):
        return int(rng.integers(n_documents[0], n_documents[1] + 1))
    return n_documents


def _unit(v: np.ndarray) -> np.ndarray:
    return v / np.linalg.norm(v)
