"""Ranking measures: what a ranker learns for."""

import functools
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from online_rank import arguments
from online_rank._kernels.codes import AP, DCG, EXPECTED, IGNORED, MAX_GRADE, NDCG, OPTIMISTIC, PESSIMISTIC
from online_rank._kernels.graded import ranking_losses
from online_rank._kernels.metrics import cumulative_gains, ideal_value, metric_values
from online_rank.measures.own import OwnMeasure, is_own, own_measure
from online_rank.measures.table import MEASURES, parsed
from online_rank.query import as_array, as_grades, document_name, require_grades

#: The tie policies, and the codes by which kernels know them.
TIES = {"expected": EXPECTED, "optimistic": OPTIMISTIC, "pessimistic": PESSIMISTIC, "ignored": IGNORED}


class Measure(NamedTuple):
    """A parsed measure name; numbers only, so that kernels can take it.

    Attributes
    ----------
    kind
        The code by which kernels know it (`online_rank.measures.table`).
    k
        Cutoff; 0 for none.
    threshold
        The smallest grade that counts as relevant (AP only; 1 otherwise).
    """

    kind: int
    k: int = 0
    threshold: int = 1

    @property
    def name(self) -> str:
        """The canonical name, which `measure` parses back."""
        name = next(name for name, one in MEASURES.items() if one.kind == self.kind and one.learned)
        return name + (f"@{self.k}" if self.k else "") + (f">={self.threshold}" if self.threshold > 1 else "")

    def value(self, scores: Any, grades: Any, ties: str = "expected") -> float:
        """The measure of the ranking by `scores`.

        Parameters
        ----------
        scores
            m numbers; a higher score ranks earlier.
        grades
            m integers >= 0.
        ties
            How to treat documents with equal scores: `"expected"` (the mean over all their orders; McSherry & Najork 2008),
            `"optimistic"` (the best order), `"pessimistic"` (the worst) or `"ignored"` (the order in which they are given).

        Returns
        -------
        A number in [0, 1]; 1 for a query without relevant documents, since nothing can be ranked wrongly.

        Raises
        ------
        TypeError, ValueError
            Bad scores, grades or ties, or different numbers of scores and grades.

        Examples
        --------
        >>> measure("ap").value([0.9, 0.5, 0.1], [0, 1, 0])
        0.5
        >>> measure("ap").value([0.0, 0.0], [1, 0]), measure("ap").value([0.0, 0.0], [1, 0], ties="pessimistic")
        (0.75, 0.5)
        """
        arguments.choice("ties", ties, TIES)
        s = as_scores(scores)
        y = as_grades(grades, len(s))
        value = query_values(self.kind, self.k, self.threshold, TIES[ties], gains(), s, y, np.array([0, len(s)]))[0]
        return 1.0 if np.isnan(value) else float(value)

    def loss(self, scores: Any, grades: Any, ties: str = "expected") -> float:
        """RML = 1 - `value`: the ranking measure loss (`online_rank.bounds`). Bounds use `ties="pessimistic"`.

        Examples
        --------
        >>> measure("ap").loss([0.0, 0.0], [1, 0], ties="pessimistic")
        0.5
        """
        return 1.0 - self.value(scores, grades, ties)

    def losses(self, scores: np.ndarray, grades: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """The pessimistic loss of each query of a block, float64 (q,): 0 if nothing can be lost, 1 for scores not finite."""
        losses = np.empty(len(offsets) - 1)
        ranking_losses(*self, scores, grades, offsets, discounts(len(grades)), losses)
        return losses

    def ideal(self, grades: Any) -> float:
        """The normaliser of the measure: the unnormalised value of an ideal ranking of `grades`.

        Z(R) = sum_p G D for NDCG (positions 1..k for NDCG@k), sum_i r_i (m - position_i) for linear NDCG [JG], and for AP the
        number of relevant documents.

        Examples
        --------
        >>> measure("linear_ndcg").ideal([0, 2, 1])
        5.0
        """
        y = _as_plain(as_grades(grades, len(grades)))
        value = ideal_value(self.kind, self.k, self.threshold, y, gains(), discounts(len(y)))
        if value < 0:
            require_grades(y)
        return value


def measure(name: str | Measure) -> Measure:
    """Parse the name of a measure.

    Parameters
    ----------
    name
        `"ndcg"`, `"ndcg@10"`, `"ap"` (or `"map"`), `"ap>=2"` (grades from 2 on are relevant), `"linear_ndcg"`.

    Raises
    ------
    TypeError, ValueError
        There is no such measure.

    Examples
    --------
    >>> measure("ndcg@10")
    Measure(kind=0, k=10, threshold=1)
    >>> measure("map").name
    'ap'
    """
    if isinstance(name, Measure):
        return name
    written = parsed(name, learned=True)
    return Measure(MEASURES[written.name].kind, written.k or 0, written.threshold or 1)


#: A measure of the library, or of the user's own.
AnyMeasure: TypeAlias = Measure | OwnMeasure


def measure_of(given: Any) -> AnyMeasure:
    """What an argument `measure` of a ranker stands for: a name of the library, or a measure of the user's own."""
    return own_measure(given) if is_own(given) else measure(given)


_table = np.empty(0)
_table.flags.writeable = False
_FLOAT64 = np.dtype(np.float64)


def discounts(n: int) -> np.ndarray:
    """D(p) = 1 / log2(p + 1) for the positions p = 1, 2, ... of at least `n` documents, as a read-only float64 array."""
    global _table
    if len(_table) < n:
        table = 1.0 / np.log2(np.arange(max(256, 1 << (n - 1).bit_length())) + 2.0)
        table.flags.writeable = False
        _table = table
    return _table


@functools.cache
def gains(gain: str = "exponential") -> np.ndarray:
    """The gains of the grades 0..`MAX_GRADE`, as a read-only float64 array: 2^r - 1 (`"exponential"`) or r (`"linear"`)."""
    grades = np.arange(MAX_GRADE + 1.0)
    table = np.exp2(grades) - 1.0 if gain == "exponential" else grades
    table.flags.writeable = False
    return table


def as_scores(scores: Any) -> np.ndarray:
    """Scores in the form that kernels take: a contiguous float64 array (m,).

    Raises
    ------
    TypeError
        Scores are not numbers.
    ValueError
        They are not a plain sequence.
    """
    if type(scores) is np.ndarray:
        # A view, whose shape and type stay as they are: another thread may reshape the caller's array.
        scores = scores[...]
        if scores.dtype is _FLOAT64 and scores.ndim == 1:
            return _as_plain(scores)
    array = as_array("scores", scores)
    if array.ndim != 1:
        raise ValueError(f"scores have shape {array.shape}; they are a sequence of numbers, one a document")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"scores have dtype {array.dtype}; they are numbers, one a document")
    return _as_plain(array.astype(np.float64, copy=False))


def query_values(
    kind: int,
    k: int,
    threshold: int,
    ties: int,
    gain: np.ndarray,
    scores: np.ndarray,
    grades: np.ndarray,
    offsets: np.ndarray,
    ids: Sequence[Hashable] | None = None,
) -> np.ndarray:
    """Values of a metric for a block of queries (`metric_values`); NaN for a query without relevant documents.

    Raises
    ------
    ValueError
        A score is NaN or +inf, or a grade is out of range; the message names the document, by its id if `ids` are given.
    """
    values = np.empty(len(offsets) - 1)
    if not len(values):
        return values
    longest = len(scores) if len(values) == 1 else int(np.diff(offsets).max())
    grades = _as_plain(grades)
    if ties == IGNORED:
        scores, ties = _without_ties(scores, offsets), EXPECTED
    values_of = cumulative_gains if kind in (NDCG, DCG) else metric_values
    valued = values_of(kind, k, threshold, ties, scores, grades, offsets, gain, discounts(longest), values)
    if valued < len(values):
        bad = np.flatnonzero(~(scores < np.inf))
        if bad.size:
            i = int(bad[0])
            raise ValueError(f"the score of {document_name(i, ids)} is {scores[i]}; scores are finite")
        require_grades(grades, ids)
        i = int(np.argmax(grades))
        raise ValueError(f"the grade of {document_name(i, ids)} is {grades[i]}, but max_grade is {len(gain) - 1}")
    return values


def served_losses(measure: AnyMeasure, scores: np.ndarray, grades: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Loss of the ranking of each query of a block that was served (`online_rank.intervals.served_loss`).

    Parameters
    ----------
    measure
        The measure of the loss.
    scores, grades
        float64 (n,) and int64 (n,).
    offsets
        int64 (q + 1,): where queries, each of one document or more, begin and end.

    Returns
    -------
    float64 (q,), within [0, 1]; NaN for a query of one grade.

    Examples
    --------
    >>> from online_rank import measure
    >>> served_losses(measure("ap"), np.zeros(4), np.array([1, 0, 1, 1]), np.array([0, 2, 4]))
    array([0.5, nan])
    """
    if isinstance(measure, OwnMeasure):
        losses, seen = measure.losses(scores, grades, offsets), grades
    else:
        kind, k, threshold = measure
        values = query_values(kind, k, threshold, TIES["pessimistic"], gains(), scores, grades, offsets)
        losses = np.minimum(np.maximum(1.0 - values, 0.0), 1.0)
        seen = (grades >= threshold).astype(np.int64) if kind == AP else grades
    first = offsets[:-1]
    losses[np.minimum.reduceat(seen, first) == np.maximum.reduceat(seen, first)] = np.nan
    return losses


def _without_ties(scores: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Scores that give the same ranking of each query, with ties broken by position; -inf is unchanged."""
    if not (scores < np.inf).all():
        return scores  # They are refused.
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    ranked = np.empty_like(scores)
    ranked[np.lexsort((-scores, query))] = -np.arange(len(scores), dtype=np.float64)
    ranked[scores == -np.inf] = -np.inf
    return ranked


def _as_plain(array: np.ndarray) -> np.ndarray:
    """The array made contiguous and writeable, so that kernels are compiled for a single kind of array."""
    flags = array.flags
    return array if flags.c_contiguous and flags.writeable else array.copy()
