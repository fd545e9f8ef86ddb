"""Trees of `ClickTrees`: their growth in small steps, the window that they grow from, and the log odds of clicks."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from online_rank._kernels import trees as kernels
from online_rank.base.form import Trees, first_at_least, full_tree

#: Number of bins of a column; they are cut at equal distances over [-REACH, REACH], the range of normal scores.
N_BINS = 64
REACH = 2.6
_WIDTH = 2.0 * REACH / (N_BINS - 2)
#: The bin of 0.
ZERO = int(REACH / _WIDTH + 1.0)
#: The share of the lists that a tree is grown from, and the largest number of columns.
_LISTS, _MOST_COLUMNS = 0.8, 2000
_LEAST_DOCUMENTS = 20
#: Factors of a hash of at most 64 numbers: powers of a prime, modulo 2^64.
_FACTORS = np.uint64(0x9E3779B97F4A7C55) ** np.arange(1, 65, dtype=np.uint64)
#: Lists of the window are joined into pages; the fewest documents of a page.
_PAGE = 2048
#: Log odds are limited, so that sums stay finite.
_FARTHEST = 12.0


def n_steps(n_pages: int, n_features: int, depth: int, share: float) -> int:
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
        Number of documents of each list, int64 (k,).
    chances
        In what proportion each column is drawn, float64 (d,).
    depth
        Depth of the tree.
    rng
        Draws columns and lists.
    share
        The share of the columns.
    levels
        How many levels split, the others do not.
    clicks
        The gains of the documents, as fractions of the largest, float64 (n,).
    odds
        The terms of positions, by the numbers in `cells`.
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
        share: float,
        levels: int,
        clicks: np.ndarray,
        odds: np.ndarray,
    ) -> None:
        k, d, inner = len(lengths), len(chances), 2**depth - 1
        parts, self.levels = _n_parts(d, share), levels
        self.pages, self.n_parts, self.done = pages, parts, 0
        self.clicks, self.odds = clicks, odds
        # Columns are identified by a hash of the last documents' values, so that neither their order nor their names matter.
        recent = np.concatenate(last_rows(pages, min(len(_FACTORS), int(lengths[-8:].sum()))))
        order = np.argsort(_FACTORS[: len(recent)] @ recent, kind="stable")
        # The first to arrive at these rates: drawn without replacement, each in proportion to its chance among those left.
        arrivals = rng.standard_exponential(d) / chances[order]
        self.chosen = order[np.sort(np.argsort(arrivals, kind="stable")[: _n_chosen(d, share)])]
        used = np.zeros(k, dtype=np.bool_)
        used[rng.choice(k, max(1, round(_LISTS * k)), replace=False)] = True
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

    def take(self, step: int, scores: np.ndarray, cells: np.ndarray, weights: np.ndarray) -> None:
        """One step: columns and residuals of a page, or histograms of a level for some columns.

        Scores (n,), and the cells (n,) of `odds`, are of the documents, weights (k,) of the lists.
        """
        if step < len(self.pages):
            first, stop = self.bounds_of_pages[step : step + 2].tolist()
            kernels.gather(self.pages[step], self.chosen, int(self.offsets[first]), self.bins)
            self.fill(first, stop, scores, cells, weights)
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

    def fill(self, first: int, stop: int, scores: np.ndarray, cells: np.ndarray, weights: np.ndarray) -> None:
        """Fill `gh` for the lists first..stop: residuals of clicks, with their variances, 0 for lists that are not used."""
        a, b = self.offsets[[first, stop]]
        chances = chance_of(scores[a:b], self.odds[cells[a:b]])
        own = np.repeat(weights[first:stop] * self.used[first:stop], np.diff(self.offsets[first : stop + 1]))
        self.gh[a:b, 0] = own * (self.clicks[a:b] - chances)
        self.gh[a:b, 1] = own * chances * (1.0 - chances)
        self.gh[a:b, 2], self.gh[a:b, 3] = 1.0, 0.0

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


def chance_of(scores: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """The probability of a click, by the log odds of what attracts and of the position."""
    odds: np.ndarray = np.exp(-np.clip(scores + positions, -_FARTHEST, _FARTHEST))
    return 1.0 / (1.0 + odds)


def stepped(terms: np.ndarray, pushes: Any, curves: Any) -> np.ndarray:
    """Terms of log odds after a step of Newton's method."""
    return np.clip(terms + np.clip(pushes / (curves + 1.0), -1.0, 1.0), -_FARTHEST, _FARTHEST)


def bins_of(X: np.ndarray) -> np.ndarray | None:
    """The bins of documents, uint8 (n, d); None where a value is not finite."""
    bins = np.empty(X.shape, dtype=np.uint8)
    return bins if kernels.to_bins(X, -REACH, _WIDTH, N_BINS, bins) else None


def form_of_trees(features: np.ndarray, thresholds: np.ndarray, leaves: np.ndarray) -> Trees:
    """The closed form of trees."""

    def bins(x: np.ndarray) -> np.ndarray:
        found = np.empty((len(x), 1), dtype=np.uint8)
        kernels.to_bins(x[:, None], -REACH, _WIDTH, N_BINS, found)
        return found[:, 0]

    # The least value of each bin: smaller values go left. A node that does not split has the last bin.
    least = np.append(first_at_least(bins, np.arange(1, N_BINS)), [np.inf, np.inf])
    return Trees(tuple(full_tree(f, least[t], own) for f, t, own in zip(features, thresholds, leaves, strict=True)))


def chances_of_columns(features: np.ndarray, thresholds: np.ndarray, d: int) -> np.ndarray:
    """In what proportion each of d columns is drawn, by the splits of the last trees: float64 (d,)."""
    splits = np.bincount(features[thresholds < N_BINS], minlength=d)
    return 3.0 * max(1, int(splits.sum())) + 7.0 * d * splits


def check_window(
    lengths: np.ndarray, bins: Sequence[np.ndarray], n_pages: int, parts: Sequence[Any], weights: Sequence[np.ndarray]
) -> None:
    """Raise ValueError if the parts of a loaded window do not fit together.

    Parameters
    ----------
    lengths
        Number of documents of each list of the pages.
    bins, n_pages
        Pages of bins, and behind them the bins of each further list.
    parts
        What the window has of each document, except bins: an array for all pages, and one for each further list.
    weights
        The weights of the lists of all pages, and of each further list.
    """
    sizes = [len(part) for part in bins]
    pages, later, n, k = sizes[:n_pages], sizes[n_pages:], len(parts[0][0]), len(lengths)
    # None is longer than all together, so their sum does not overflow.
    fits = lengths.max(initial=0) <= n and lengths.sum() == n
    if any([len(own) for own in part] != [n, *later] for part in parts) or 0 in sizes or not fits:
        raise ValueError("a list of the window is empty, or its parts have different lengths")
    if not np.isin(np.cumsum(pages), np.cumsum(lengths)).all() or sum(pages) != n:
        raise ValueError("a page of the window ends within a list")
    if [len(own) for own in weights] != [k, *[1] * len(later)]:
        raise ValueError("the window does not have one weight for each list")


def joined(bins: tuple[np.ndarray, ...], n_pages: int) -> list[np.ndarray]:
    """Full pages as they are; the last one, and the lists behind it, joined into pages."""
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
