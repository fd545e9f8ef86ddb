"""Synthetic text: sparse queries whose words follow Zipf's law."""

from collections.abc import Iterator

import numpy as np

from online_rank.query import SparseRows

__all__ = ["ZipfText"]

#: Shares of the grades 4, 3, 2 and 1 in every query; the others have grade 0.
_SHARES = (0.03, 0.05, 0.12, 0.25)


class ZipfText:
    """Queries of documents with few words each from a large vocabulary, graded by a linear teacher with noise.

    A document has from 60 to 260 tokens, of which about a quarter repeat a word. Each is word j = 0, 1, ... with probability
    proportional to (j + 6)^-.95. A word that occurs tf times has the value log(1 + tf) idf, with a capped idf, and each
    document is scaled to norm 1. The relevance is u . x, u = `teacher`, plus noise. The best 3 % of each query have grade 4,
    the next 5, 12 and 25 % the grades 3, 2 and 1.

    Parameters
    ----------
    n_queries
        Length of the stream.
    n_words
        Size d of the vocabulary.
    n_documents
        m, the number of documents of every query.
    noise
        Standard deviation of the noise, relative to the signal's within a query.
    seed
        Seed of the queries and of the teacher.
    """

    def __init__(
        self, n_queries: int, *, n_words: int = 100_000, n_documents: int = 100, noise: float = 0.3, seed: int = 0
    ) -> None:
        self.n_queries, self.n_words, self.n_documents = n_queries, n_words, n_documents
        self.noise, self.seed = noise, seed
        self.teacher = np.random.default_rng([seed, 1]).standard_normal(n_words)

    def __iter__(self) -> Iterator[tuple[SparseRows, np.ndarray]]:
        rng = np.random.default_rng(self.seed)
        share = (np.arange(self.n_words) + 6.0) ** -0.95
        share /= share.sum()
        reach, idf = np.cumsum(share), np.minimum(np.log1p(1.0 / (200.0 * share)), 4.0) + 0.3
        for _ in range(self.n_queries):
            X = self._documents(rng, reach, idf)
            yield X, self._grades(X, rng)

    def block(self) -> tuple[SparseRows, np.ndarray, np.ndarray]:
        """The whole stream at once: X (n rows), y (n,) and qid (n,), which counts the queries from 0."""
        starts, grades = [np.zeros(1, np.int64)], [np.empty(0, np.int64)]
        columns, values = [np.empty(0, np.int32)], [np.empty(0)]
        for X, y in self:
            starts.append(starts[-1][-1] + X.starts[1:])
            columns.append(X.columns)
            values.append(X.values)
            grades.append(y)
        X = SparseRows(np.concatenate(starts), np.concatenate(columns), np.concatenate(values), self.n_words)
        return X, np.concatenate(grades), np.repeat(np.arange(self.n_queries), self.n_documents)

    def _documents(self, rng: np.random.Generator, reach: np.ndarray, idf: np.ndarray) -> SparseRows:
        m, d = self.n_documents, self.n_words
        length = rng.integers(60, 261, m)
        words = np.minimum(np.searchsorted(reach, rng.random(int(length.sum()))), d - 1)
        cells, counts = np.unique(np.repeat(np.arange(m), length) * d + words, return_counts=True)
        row, word = cells // d, cells % d
        x = np.log1p(counts) * idf[word]
        x /= np.sqrt(np.bincount(row, x * x, minlength=m))[row]
        starts = np.append(0, np.cumsum(np.bincount(row, minlength=m)))
        return SparseRows(starts, word.astype(np.int32), x, d)

    def _grades(self, X: SparseRows, rng: np.random.Generator) -> np.ndarray:
        m = self.n_documents
        signal = np.bincount(np.repeat(np.arange(m), np.diff(X.starts)), X.values * self.teacher[X.columns], minlength=m)
        relevance = signal / (signal.std() or 1.0) + self.noise * rng.standard_normal(m)
        place = np.empty(m)
        place[np.argsort(-relevance)] = np.arange(m) / m
        return 4 - np.searchsorted(np.cumsum(_SHARES), place, side="right").astype(np.int64)
