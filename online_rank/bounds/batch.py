"""Weights that minimise the regularised surrogate on a whole stream, as a batch learner would find them."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from online_rank import arguments
from online_rank._kernels import hindsight as kernels
from online_rank.base.names import numbers
from online_rank.base.reader import as_array
from online_rank.base.transformer import FeatureTransformer
from online_rank.measures.learned import discounts, measure
from online_rank.query import MAX_GRADE, Block, read_query, require_finite, require_grades
from online_rank.rankers.signs import checked_signs
from online_rank.support.progress import progress as shown_progress

#: Smoothing is lowered step by step; each step starts where the last one ended.
_SMOOTHINGS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)


class BatchWeights(NamedTuple):
    """Weights that minimise the regularised surrogate on a stream, and how well they do it.

    Attributes
    ----------
    weights
        float64 (d,), or `{feature: weight}` for queries that name their features: as `LossTracker` takes comparators.
    objective
        Regularised mean surrogate loss of `weights`.
    gap
        The duality gap: the minimum is lower by at most this much.
    n_queries
        Number of queries with at least two grades; the mean is over them.
    n_evaluations
        Number of passes over the queries.
    """

    weights: Any
    objective: float
    gap: float
    n_queries: int
    n_evaluations: int


def batch_weights(
    queries: Any,
    *,
    measure: str = "ndcg@10",
    lam: float = 1e-3,
    credit: str = "argmax",
    tolerance: float = 1e-3,
    max_evaluations: int = 2000,
    signs: Mapping[Any, int] | None = None,
    progress: bool | None = None,
) -> BatchWeights:
    r"""Minimise the regularised surrogate on all queries at once [CT, eq. 4].

    .. math:: \hat w = \arg\min_w \frac{\lambda}{2} \|w\|^2 + \frac{1}{n} \sum_t f_t(w)

    This is the batch estimator of [CT], the w_hat of Theorem 8, and a comparator for a `LossTracker`. A smoothed objective is
    minimised by L-BFGS, with less and less smoothing, until the duality gap is small enough. The weights are the best ones
    found, and the gap limits how much better any others can be.

    Parameters
    ----------
    queries
        A block as a tuple (X, y, qid) (a `stream.Documents` is one), or an iterable of queries (x, y) in any form.
    measure
        What to rank for, as in `PerceptronRanker`; the weights v_i are grade means.
    lam
        lambda > 0.
    credit
        `"argmax"` for f_t = SLAM, the sum of v_i max(0, max_j (1 + s_j - s_i)) over the less relevant j. `"spread"` for the
        mean over those j of the hinges max(0, 1 + s_j - s_i) in place of the largest: not a bound on the ranking loss, but the
        better comparator if grades are noisy. The largest hinge follows the noise, so that even w = 0 may minimise SLAM.
    tolerance
        Stop when the gap is at most this part of the objective.
    max_evaluations
        Stop after about this many passes over the queries.
    signs
        Signs of weights, as in `PerceptronRanker`: the minimum is then over weights with these signs.
    progress
        Whether to show a progress bar on stderr (extra `cli`); None shows one on a terminal only. The time left is computed for
        all `max_evaluations`.

    Raises
    ------
    TypeError, ValueError
        Bad input.

    Examples
    --------
    >>> import numpy as np
    >>> from online_rank.bounds import batch_weights
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3))
    >>> y = (X @ [1.0, -1.0, 0.0] > 0.5).astype(int)
    >>> best = batch_weights((X, y, np.arange(400) // 8), lam=0.01)
    >>> best.gap <= 1e-3 * best.objective
    True
    >>> bool(best.weights[0] > 1.0 and best.weights[1] < -1.0)
    True
    """
    from scipy.optimize import minimize

    arguments.number("lam", lam, above=0.0)
    arguments.number("tolerance", tolerance, above=0.0)
    arguments.integer("max_evaluations", max_evaluations, 1)
    arguments.choice("credit", credit, ("argmax", "spread"))
    signs = checked_signs(signs)
    X, y, offsets, names = _block(queries)
    low, high = _limits(signs, numbers(X.shape[1]) if names is None else names)
    problem = _Problem(X, y, offsets, measure, lam, credit == "spread", (low, high))
    w = np.zeros(X.shape[1])
    with shown_progress("batch weights, at most", max_evaluations, "passes", progress) as show:
        for smoothing in _SMOOTHINGS:
            left = max_evaluations - problem.n_evaluations
            if left <= 0 or problem.gap <= tolerance * problem.best:
                break
            # scipy stops at `maxfun` only between iterations.
            options = {"maxfun": left, "maxiter": left, "maxcor": 20, "ftol": 1e-12, "gtol": 1e-10}

            def stop_when_done(_: np.ndarray) -> None:
                show(problem.n_evaluations, lambda: {"gap": problem.gap, "objective": problem.best})
                if problem.gap <= tolerance * problem.best:
                    raise StopIteration

            w = minimize(
                problem.smoothed, w, args=(smoothing,), jac=True, method="L-BFGS-B", options=options, callback=stop_when_done,
                bounds=None if signs is None else list(zip(low, high, strict=True)),
            ).x  # fmt: skip
    weights: Any = problem.weights
    if names is not None:
        weights = dict(zip(names, weights.tolist(), strict=True))
    return BatchWeights(weights, problem.best, problem.gap, problem.n_queries, problem.n_evaluations)


class _Problem:
    """The objective, with the best weights and the best lower bound found so far; initially w = 0 and alpha = 0."""

    def __init__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        offsets: np.ndarray,
        name: str,
        lam: float,
        spread: bool,
        limits: tuple[np.ndarray, np.ndarray],
    ) -> None:
        longest = int(np.diff(offsets).max(initial=0))
        self.level = np.empty(len(y), dtype=np.int64)
        self.v = np.empty(len(y))
        self.n_queries = kernels.block_weights(y, offsets, *measure(name), discounts(longest), self.level, self.v)
        self.X, self.offsets, self.lam, self.spread, self.limits = X, offsets, lam, spread, limits
        self.workspace = np.empty(longest), np.empty(longest), np.empty((3, min(longest, MAX_GRADE + 1) + 1))
        self.weights = np.zeros(X.shape[1])
        self.best = float(self.v.sum()) / max(self.n_queries, 1)
        self.lower = 0.0
        self.n_evaluations = 0

    @property
    def gap(self) -> float:
        """Upper bound on the difference between `best` and the minimum."""
        return max(self.best - self.lower, 0.0)

    def smoothed(self, w: np.ndarray, smoothing: float) -> tuple[float, np.ndarray]:
        """The smoothed objective and its gradient."""
        gradient = np.empty_like(w)
        sums = kernels.objective(self.X, self.level, self.v, self.offsets, self.spread, smoothing, w, *self.workspace, gradient)
        smoothed, value, mass = (each / max(self.n_queries, 1) for each in sums)
        gradient /= max(self.n_queries, 1)
        penalty = 0.5 * self.lam * float(w @ w)
        if value + penalty < self.best:
            self.best, self.weights = value + penalty, w.copy()
        # alpha's own weights are -gradient / lambda, 0 where the sign is wrong; its dual value is sum alpha less lambda / 2
        # times their squared norm.
        own = np.clip(-gradient, *self.limits)
        self.lower = max(self.lower, mass - float(own @ own) / (2.0 * self.lam))
        self.n_evaluations += 1
        return smoothed + penalty, gradient + self.lam * w


def _limits(signs: Mapping[Any, int] | None, names: tuple[Hashable, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest weight of each feature."""
    own = np.array([(signs or {}).get(name, 0) for name in names], dtype=np.float64)
    return np.where(own > 0.0, 0.0, -np.inf), np.where(own < 0.0, 0.0, np.inf)


class _Columns(FeatureTransformer):
    """Puts the features of queries into common columns."""

    def _grow(self, n_new: int) -> None:
        """There is no state."""

    def _transform_block(self, block: Block) -> Block:
        return self._reader.align(self, block)


def _block(queries: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[Hashable, ...] | None]:
    """A stream or block as X, y, offsets and the names of the features, checked."""
    if isinstance(queries, tuple):
        block = read_query(queries[0], queries[1], qid=queries[2])
        _require_values(block)
        return as_array(block.X, batch_weights), block.y, block.offsets, block.names
    return _collect(queries)


def _require_values(block: Block) -> None:
    require_finite(block)
    require_grades(block.y, block.ids)


def _collect(queries: Iterable[tuple[Any, Any]]) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[Hashable, ...] | None]:
    columns = _Columns()
    parts, grades = [], []
    for x, y in queries:
        query = read_query(x, y)
        _require_values(query)
        grades.append(query.y)
        parts.append(columns._reader.align(columns, query, grow=True).X)
    X = np.zeros((sum(map(len, parts)), columns.n_features))
    offsets = np.cumsum([0, *map(len, parts)])
    for part, start, stop in zip(parts, offsets[:-1], offsets[1:], strict=True):
        # A feature that had not appeared yet is 0.
        X[start:stop, : part.shape[1]] = part
    return X, np.concatenate([np.empty(0, dtype=np.int64), *grades]), offsets, columns.feature_names
