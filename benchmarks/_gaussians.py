"""The synthetic stream of [DR] section 4.5."""

from collections.abc import Iterator

import numpy as np

from online_rank.stream.synth import SyntheticStream, world_of


class GradedGaussians(SyntheticStream):
    """The synthetic data of [DR] section 4.5: each feature is a Gaussian whose mean and deviation depend on the grade.

    For each grade and feature the mean is drawn uniformly from [0, 100], the deviation from [50, 100]. Grades are drawn
    uniformly; label noise adds a rounded Gaussian to the grade that a learner sees. [DR] learns from pairs drawn from one pool
    of documents; here, as in their test, a query is a draw of 50..150 documents.

    Parameters
    ----------
    n_queries
        Length of the stream, or None for one without end.
    n_grades, n_features
        [DR] has 5 grades and 70 features.
    n_documents
        m, or a pair (smallest, largest) from which it is drawn, uniformly.
    label_noise
        Standard deviation of the Gaussian whose rounded values are added to the grades (then cut to the range of grades).
    seed
        Seed of the queries.
    world_seed
        Seed of the means and deviations: streams with the same one (and other seeds) are training and test data of one task.

    Attributes
    ----------
    means, deviations
        Arrays of shape (n_grades, n_features).
    """

    def __init__(
        self,
        n_queries: int | None = 1000,
        *,
        n_grades: int = 5,
        n_features: int = 70,
        n_documents: int | tuple[int, int] = (50, 150),
        label_noise: float = 0.0,
        seed: int = 0,
        world_seed: int = 0,
    ):
        self.n_queries = n_queries
        self.n_grades = n_grades
        self.n_features = n_features
        self.n_documents = n_documents
        self.label_noise = label_noise
        self.seed = seed
        self.world_seed = world_seed
        rng = np.random.default_rng([world_of(seed, world_seed), 1])
        self.means = rng.uniform(0.0, 100.0, (n_grades, n_features))
        self.deviations = rng.uniform(50.0, 100.0, (n_grades, n_features))

    def generate(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """As `SyntheticStream.generate`."""
        rng = np.random.default_rng(self.seed)
        while True:
            m = self.n_documents if isinstance(self.n_documents, int) else int(rng.integers(*self.n_documents, endpoint=True))
            y = rng.integers(self.n_grades, size=m)
            X = rng.standard_normal((m, self.n_features))
            X *= self.deviations[y]
            X += self.means[y]
            if self.label_noise:
                noise = np.rint(self.label_noise * rng.standard_normal(m)).astype(np.int64)
                y = np.clip(y + noise, 0, self.n_grades - 1)
            yield X, y
