"""The base class of ranking metrics: an exact weighted mean over queries, with river's interface."""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank.base.anatomy import steps_of
from online_rank.base.schema import Count, ListOf, Real, Schema
from online_rank.base.undo import Undo, record_state
from online_rank.measures.learned import TIES, as_scores, gains, query_values
from online_rank.metrics._river import Metric, Metrics
from online_rank.query import as_grades, query_offsets

_NO_RELEVANT = {"skip": math.nan, "zero": 0.0, "one": 1.0}


#: Largest sum of weights, and what files hold.
_LARGEST = 1e300


class RankingMetric(Metric):
    """Base class of metrics: the weighted mean over queries of a value in [0, 1].

    The mean is exact: sums are kept without rounding, so `revert` undoes `update` to the last bit, a rolling window never
    drifts, and a block gives the same as a loop.

    Parameters
    ----------
    ties
        How to treat documents with equal scores: `"expected"` (the mean over all their orders, in closed form: McSherry &
        Najork, 2008), `"optimistic"` (the best order), `"pessimistic"` (the worst) or `"ignored"` (the order in which they are
        given, as many libraries do it: a list whose best documents come first then looks good).
    no_relevant
        How to count a query without relevant documents: `"skip"` (leave it out of the mean), `"zero"` or `"one"`.

    Attributes
    ----------
    n_queries
        Number of queries in the mean.
    n_skipped
        Number of queries left out of it.
    """

    # Parts of exact sums do not overlap, so their number is limited by the range of exponents of a double.
    _schema = Schema(
        n_queries=Count(),
        n_skipped=Count(),
        _total=ListOf(Real(-_LARGEST, _LARGEST)),
        _weight=ListOf(Real(-_LARGEST, _LARGEST)),
    )

    _fmt = ".6f"
    #: The code of the metric in kernels, and the first part of its name.
    _kind: Any
    _label: Any

    # The default for metrics without this parameter.
    k: int | None = None
    threshold: int = 1

    def __init__(self, *, ties: str = "expected", no_relevant: str = "skip"):
        arguments.choice("ties", ties, TIES)
        arguments.choice("no_relevant", no_relevant, _NO_RELEVANT)
        arguments.integer("k", self.k, 1, optional=True)
        arguments.integer("threshold", self.threshold, 1)
        self.ties = ties
        self.no_relevant = no_relevant
        self.n_queries = 0
        self.n_skipped = 0
        self._total: list[float] = []
        self._weight: list[float] = []

    @property
    def name(self) -> str:
        """The displayed name, such as `NDCG@10`; `metric` parses it."""
        cutoff = "" if self.k is None else f"@{self.k}"
        return self._label + self._variant + cutoff + ("" if self.threshold == 1 else f">={self.threshold}")

    @property
    def _variant(self) -> str:
        """The part of the name that distinguishes definitions of a metric."""
        return ""

    @property
    def bigger_is_better(self) -> bool:
        """True: larger values are better."""
        return True

    @property
    def requires_labels(self) -> bool:
        """True: the metric takes predictions as returned by `predict_one`."""
        return True

    def works_with(self, model: Any) -> bool:
        """Whether `model` is a ranker, or a pipeline that ends in one."""
        return hasattr(steps_of(model)[-1], "rank_one")

    def update(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Add one query to the mean.

        Parameters
        ----------
        y_true
            Relevance grades: m integers >= 0, or `{document id: grade}`. For a ranking also the relevant documents alone, as a
            set or a list of ids, which all have grade 1.
        y_pred
            Scores: m numbers, or `{document id: score}`; a higher score ranks earlier. A document with score -inf was not
            retrieved and earns nothing (in LinearNDCG and PairwiseAccuracy it is ranked last). Or a ranking: ids, best first,
            next to a dict or a set, or to a list of ids that are strings. A document without a grade has grade 0; one that the
            ranking lacks was not retrieved. These are the forms of river's draft of ranking metrics (online-ml/river#1996).
        w
            Weight of the query in the mean.

        Examples
        --------
        >>> from online_rank.metrics import PrecisionAtK
        >>> precision = PrecisionAtK(k=2)
        >>> precision.update({"a": 1, "b": 1}, ["c", "b", "d"])
        >>> precision.update({"a", "b"}, ["b", "a"])
        >>> precision
        P@2: 0.750000

        Raises
        ------
        TypeError, ValueError
            Lengths or ids differ, a score is NaN or +inf, a grade is negative or fractional, or `w` is not finite or negative.
        """
        self._accumulate([self.value_one(y_true, y_pred)], [w])

    def revert(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Remove a query from the mean. Raises ValueError if more weight is removed than was added."""
        self._accumulate([self.value_one(y_true, y_pred)], [w], -1)

    def update_many(self, y_true: Any, y_pred: Any, qid: Any, w: Any = None) -> None:
        """Add a block of queries to the mean: the same as a loop of `update`, bit for bit.

        Parameters
        ----------
        y_true
            The n grades of the block.
        y_pred
            The n scores.
        qid
            The n query ids; documents of a query must be contiguous.
        w
            None, or one weight a query.
        """
        values = self.value_many(y_true, y_pred, qid)
        weights = np.ones(len(values)) if w is None else np.asarray(w, dtype=np.float64)
        if weights.shape != values.shape:
            raise ValueError(f"w has shape {weights.shape}, but the block has {len(values)} queries: one weight a query")
        self._accumulate(values.tolist(), weights.tolist())

    def value_one(self, y_true: Any, y_pred: Any) -> float:
        """The value for a single query; NaN if it would be left out of the mean. Changes nothing."""
        if _is_ranking(y_true, y_pred):
            y_true, y_pred = _scored(y_true, y_pred)
        ids = tuple(y_pred) if isinstance(y_pred, Mapping) else None
        scores = as_scores(y_pred if ids is None else list(y_pred.values()))
        grades = _grades(y_true, scores, ids)
        return float(self._values(scores, grades, np.array([0, len(scores)]), ids)[0])

    def value_many(self, y_true: Any, y_pred: Any, qid: Any) -> np.ndarray:
        """The value for each query of a block: float64 array (n queries,), NaN for those left out. Changes nothing.

        Examples
        --------
        >>> from online_rank.metrics import NDCG
        >>> NDCG().value_many([1, 0, 0, 0, 2, 0], [3.0, 2.0, 1.0, 0.5, 0.1, 0.0], [1, 1, 1, 2, 2, 2])
        array([1.        , 0.63092975])
        """
        scores = as_scores(y_pred)
        return self._values(scores, _grades(y_true, scores, None), query_offsets(qid, len(scores)), None)

    def get(self) -> float:
        """The mean; 0 before the first query."""
        return self._total[0] / self._weight[0] if self._total and self._weight else 0.0

    def __repr__(self) -> str:
        return f"{self.name}: {self.get():{self._fmt}}"

    def __add__(self, other: Any) -> Metrics:
        """A collection of both metrics that updates them together."""
        if not isinstance(other, RankingMetric):
            raise ValueError(f"{type(self).__name__} and {type(other).__name__} metrics are not compatible")
        return Metrics([self, other])

    def _check_state(self) -> None:
        for name in ("_total", "_weight"):
            if getattr(self, name) != _exact_sum(getattr(self, name)):
                raise ValueError(f"{name} is not an exact sum")

    def _record(self, log: list[Undo], block: Any = None) -> None:
        """Add to a log what undoes an update."""
        record_state(log, self)

    def _gains(self) -> np.ndarray:
        """The gain of every accepted grade."""
        return gains()

    def _values(self, scores: np.ndarray, grades: np.ndarray, offsets: np.ndarray, ids: Any) -> np.ndarray:
        values = query_values(
            self._kind, self.k or 0, self.threshold, TIES[self.ties], self._gains(), scores, grades, offsets, ids
        )
        values[np.isnan(values)] = self._without_relevant
        return values

    @property
    def _without_relevant(self) -> float:
        """The value of a query without relevant documents; NaN leaves it out of the mean."""
        return _NO_RELEVANT[self.no_relevant]

    def _accumulate(self, values: list[float], weights: list[float], sign: int = 1) -> None:
        for w in weights:
            try:
                is_weight = math.isfinite(w) and w >= 0
            except (TypeError, OverflowError):
                raise TypeError(f"w is {w!r:.80}; the weight of a query is one finite number >= 0") from None
            if not is_weight:
                raise ValueError(f"w is {w}; the weight of a query is a finite number >= 0")
        added, products = [], []
        for value, w in zip(values, weights, strict=True):
            if not math.isnan(value):
                added.append(sign * w)
                products.append(sign * w * value)
        weight = _exact_sum([*self._weight, *added])
        if weight and weight[0] < 0:
            raise ValueError("more is reverted than was updated")
        total = _exact_sum([*self._total, *products])
        n_queries = self.n_queries + sign * len(added)
        n_skipped = self.n_skipped + sign * (len(values) - len(added))
        # At once: an interrupt comes before or after.
        vars(self).update(_total=total, _weight=weight, n_queries=n_queries, n_skipped=n_skipped)


def takes_blocks(metric: Any) -> bool:
    """Whether a metric takes a block into its mean as it takes the queries one by one: see `running_means`."""
    kind = type(metric)
    return issubclass(kind, RankingMetric) and (kind.update, kind.get) == (RankingMetric.update, RankingMetric.get)


def running_means(
    metric: RankingMetric, scores: np.ndarray, grades: np.ndarray, offsets: np.ndarray, due: list[int]
) -> list[float]:
    """Take the queries of a block into the mean of a metric; its values after as many queries as `due` says, rising."""
    values = metric._values(scores, grades, offsets, None).tolist()
    total, weight, n_counted = metric._total, metric._weight, 0
    means, begin = [], 0
    for stop in due:
        counted = [value for value in values[begin:stop] if not math.isnan(value)]
        if counted:
            total, weight = _exact_sum([*total, *counted]), _exact_sum([*weight, float(len(counted))])
        n_counted += len(counted)
        means.append(total[0] / weight[0] if total and weight else 0.0)
        begin = stop
    n_queries, n_skipped = metric.n_queries + n_counted, metric.n_skipped + begin - n_counted
    vars(metric).update(_total=total, _weight=weight, n_queries=n_queries, n_skipped=n_skipped)
    return means


def _is_ranking(y_true: Any, y_pred: Any) -> bool:
    """Whether predictions are ids, best first, and no scores."""
    if not isinstance(y_pred, list | tuple):
        return False
    if isinstance(y_true, set | frozenset | Mapping):
        return True
    return isinstance(y_true, list | tuple) and bool(y_true) and all(isinstance(one, str) for one in (*y_true, *y_pred))


def _scored(y_true: Any, ranking: Sequence[Hashable]) -> tuple[dict[Hashable, int], dict[Hashable, float]]:
    """Grades and scores by id of a ranking and its relevant documents. Raises TypeError for scores, whose ids are unknown."""
    if any(isinstance(one, float) and one not in y_true for one in ranking):
        raise TypeError("y_true has ids, but y_pred has no ids: give y_pred as {id: score} or as a ranking of ids")
    grades = y_true if isinstance(y_true, Mapping) else dict.fromkeys(y_true, 1)
    if len({*ranking}) != len(ranking):
        twice = next(item for i, item in enumerate(ranking) if item in ranking[:i])
        raise ValueError(f"y_pred: document {twice!r} occurs more than once in the ranking")
    scores = dict(zip(ranking, map(float, range(len(ranking), 0, -1)), strict=True))
    scores |= {item: -math.inf for item in grades if item not in scores}
    return {item: grades.get(item, 0) for item in scores}, scores


def _grades(y_true: Any, scores: np.ndarray, ids: tuple[Hashable, ...] | None) -> np.ndarray:
    """The grades of the scored documents, in the order of the scores."""
    if isinstance(y_true, Mapping):
        if ids is None:
            raise TypeError("y_true is a dict, but y_pred has no ids: give y_pred as {id: score} or as a ranking of ids")
        for name in ids:
            if name not in y_true:
                raise ValueError(f"y_true has no grade for document {name!r} of y_pred")
        if len(y_true) != len(ids):
            known = set(ids)
            extra = next(name for name in y_true if name not in known)
            raise ValueError(f"y_pred has no score for document {extra!r} of y_true; the score of one not retrieved is -inf")
        y_true = [y_true[name] for name in ids]
    elif hasattr(y_true, "__len__") and len(y_true) != len(scores):
        raise ValueError(f"y_true has {len(y_true)} grades, but y_pred has {len(scores)} scores")
    return as_grades(y_true, len(scores), ids)


def _exact_sum(terms: list[float]) -> list[float]:
    """The exact sum of `terms` as few numbers: the first is the rounded sum, the second the rounded remainder, and so on."""
    parts: list[float] = []
    try:
        while rest := math.fsum(terms):
            parts.append(rest)
            terms = [*terms, -rest]
    except OverflowError:
        parts = [math.inf]
    if parts and abs(parts[0]) > _LARGEST:
        raise ValueError(f"the weights add up to more than {_LARGEST:g}")
    return parts
