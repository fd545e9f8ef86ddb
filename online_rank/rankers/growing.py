"""The growth of a tree of `BoostedRanker` and of `ClickTrees`, in small steps."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from online_rank._kernels import trees as kernels

#: Number of bins of a column.
N_BINS = 64
#: Shares of the queries and of the columns that a tree is grown from, and the largest number of columns.
_QUERIES, COLUMNS, _MOST_COLUMNS = 0.8, 0.3, 2000
_LEAST_DOCUMENTS = 20
#: Factors of a hash of at most 64 numbers: powers of a prime, modulo 2^64.
_FACTORS = np.uint64(0x9E3779B97F4A7C55) ** np.arange(1, 65, dtype=np.uint64)
#: Queries of the window are joined into pages; the fewest documents of a page.
_PAGE = 2048


def n_steps(n_pages: int, n_features: int, depth: int, share: float = COLUMNS) -> int:
    """The number of steps: one a page, then one for each level and part of the columns, and a last one for the leaves."""
    return n_pages + depth * _n_parts(n_features, share) + 1


def _n_chosen(n_features: int, share: float) -> int:
    return min(_MOST_COLUMNS, max(1, round(share * n_features)))


def _n_parts(n_features: int, share: float) -> int:
    return math.ceil(_n_chosen(n_features, share) / kernels.PART)


class Growth:
    """A tree that is being grown from a part of the window. Every step can be repeated.

    Parameters
    ----------
    pages
        The bins of the window's documents, uint8 (n, d), the oldest first.
    lengths
        Number of documents of each query, int64 (k,).
    chances
        In what proportion each column is drawn, float64 (d,).
    depth
        Depth of the tree.
    rng
        Draws columns and queries.
    share
        The share of the columns.
    levels
        How many levels split, the others do not; None for all.
    residuals
        Fills `gh` for some queries, with the arguments of the kernel `residuals`, which is the default.
    """

    #: The largest gain when it began, of those that are learned as fractions of it.
    largest = 0.0

    def __init__(
        self,
        pages: Sequence[np.ndarray],
        lengths: np.ndarray,
        chances: np.ndarray,
        depth: int,
        rng: np.random.Generator,
        share: float = COLUMNS,
        levels: int | None = None,
        residuals: Callable[..., None] | None = None,
    ) -> None:
        k, d, inner = len(lengths), len(chances), 2**depth - 1
        parts, self.levels = _n_parts(d, share), depth if levels is None else levels
        self.pages, self.n_parts, self.done = pages, parts, 0
        self.residuals = kernels.residuals if residuals is None else residuals
        # Columns are identified by a hash of the last documents' values, so that neither their order nor their names matter.
        recent = np.concatenate(last_rows(pages, min(len(_FACTORS), int(lengths[-8:].sum()))))
        order = np.argsort(_FACTORS[: len(recent)] @ recent, kind="stable")
        # The first to arrive at these rates: drawn without replacement, each in proportion to its chance among those left.
        arrivals = rng.standard_exponential(d) / chances[order]
        self.chosen = order[np.sort(np.argsort(arrivals, kind="stable")[: _n_chosen(d, share)])]
        used = np.zeros(k, dtype=np.bool_)
        used[rng.choice(k, max(1, round(_QUERIES * k)), replace=False)] = True
        self.used = used.view(np.uint8)  # Kernels compiled ahead take no arrays of flags.
        self.offsets = offsets = np.concatenate([[0], np.cumsum(lengths)])
        self.bounds_of_pages = np.searchsorted(offsets, np.cumsum([0, *map(len, pages)]))
        n = int(offsets[-1])
        self.bins = np.empty((parts, n, kernels.PART), dtype=np.uint8)
        self.gh = np.empty((n, 4))
        self.rows = np.empty((depth + 1, int(np.diff(offsets)[used].sum())), dtype=np.int64)
        self.rows[0] = np.flatnonzero(np.repeat(used, np.diff(offsets)))
        self.bounds = np.zeros((2 * inner + 1, 2), dtype=np.int64)
        self.bounds[0, 1] = self.rows.shape[1]
        self.histograms = np.empty((parts, inner, kernels.PART, N_BINS, 4))
        self.best = np.zeros((parts, inner, 3))
        self.columns = np.full(inner, -1)
        self.thresholds = np.zeros(inner, dtype=np.int64)

    def take(self, step: int, scores: np.ndarray, grades: np.ndarray, weights: np.ndarray) -> None:
        """One step: columns and residuals of a page, or histograms of a level for some columns.

        Scores (n,) and grades (n,) are of the documents, weights (k,) of the queries.
        """
        if step < len(self.pages):
            first, stop = self.bounds_of_pages[step : step + 2].tolist()
            kernels.gather(self.pages[step], self.chosen, int(self.offsets[first]), self.bins)
            self.fill(first, stop, scores, grades, weights)
            return
        level, part = divmod(step - len(self.pages), self.n_parts)
        first = part * kernels.PART
        if level < self.levels:
            kernels.find_splits(
                level, first, min(kernels.PART, len(self.chosen) - first), self.bins[part], self.rows, self.bounds, self.gh,
                _LEAST_DOCUMENTS, self.histograms[part], self.best[part],
            )  # fmt: skip
        if part == self.n_parts - 1:
            kernels.split_level(level, self.best, self.bins, self.rows, self.bounds, self.columns, self.thresholds)

    def fill(self, first: int, stop: int, scores: np.ndarray, grades: np.ndarray, weights: np.ndarray) -> None:
        """Fill `gh` for the queries first..stop: weighted residuals, and weights."""
        self.residuals(scores, grades, weights, self.offsets, self.used, first, stop, self.gh)

    def tree(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Features and thresholds of the nodes, values of the leaves, each (1, ...), and gains of the nodes, 0 without a split.

        A node that does not split has the feature 0 and the threshold `N_BINS`.
        """
        leaves = np.empty((1, len(self.columns) + 1))
        kernels.fill_leaves(self.rows, self.bounds, self.gh, leaves[0])
        split = self.columns >= 0
        features = np.where(split, self.chosen[self.columns], 0)[None]
        thresholds = np.where(split, self.thresholds, N_BINS)[None]
        return features, thresholds, leaves, np.where(split, self.best[:, :, 0].max(axis=0), 0.0)


def joined(bins: tuple[np.ndarray, ...], n_pages: int) -> list[np.ndarray]:
    """Full pages as they are; the last one, and the queries behind it, joined into pages."""
    full = n_pages - 1 if n_pages and len(bins[n_pages - 1]) < _PAGE else n_pages
    pages, page = list(bins[:full]), list[np.ndarray]()
    for part in bins[full:]:
        page.append(part)
        if sum(map(len, page)) >= _PAGE:
            pages.append(np.concatenate(page))
            page = []
    return [*pages, np.concatenate(page)] if page else pages


def last_rows(pages: Sequence[np.ndarray], n: int) -> tuple[np.ndarray, ...]:
    """The last n rows of some pages."""
    kept = list[np.ndarray]()
    for page in pages[::-1]:
        if n <= 0:
            break
        kept.append(page[-n:])
        n -= len(page)
    return tuple(kept[::-1])
