"""What a ranker loses while it learns, and what other weights would have lost."""

import copy
import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from river import base

from online_rank._kernels.comparators import accumulate, compare
from online_rank._kernels.dense import score_with_norms
from online_rank._kernels.graded import ranking_losses
from online_rank.base import Round
from online_rank.base.schema import Array, Derived, Nested, Real, Schema
from online_rank.bounds.certificate import Certificate, certify
from online_rank.measures import discounts
from online_rank.measures import measure as parse_measure
from online_rank.query import Block
from online_rank.rankers.nested import NestedRanker, learn_query, share_columns
from online_rank.rankers.perceptron import PerceptronRanker

__all__ = ["LossTracker", "Totals"]

#: Largest norm of a comparator: its square, and its scores of documents that a ranker accepts, stay finite.
_LARGEST_NORM = 1e150

_LOSS, _SERVED_LOSS, _MARGIN, _WEIGHT = map(Round._fields.index, ("loss", "served_loss", "margin", "weight"))


class Totals(NamedTuple):
    """What all rounds so far add up to. Losses and masses are multiplied by the sample weights.

    Attributes
    ----------
    n_rounds, n_skipped, n_mistakes
        Number of queries learned, of those from which nothing could be learned (`Round.skipped`), and of those with a loss.
    loss
        Cumulative loss of the weights that learn, ties broken pessimistically: what the bounds speak of.
    served_loss
        The same for the weights that serve rankings; NaN unless asked for. No bound speaks of it.
    mass
        Sum of the masses V_t.
    squared_gradient_norms
        Sum of the ||z_t||^2.
    margin_mass
        Sum of tau_t V_t.
    largest_mass
        B, the largest mass of a round.
    R_X
        Largest l2 norm of a document.
    m
        Largest number of documents of a query.
    v_max
        Largest ratio of two positive v_i of one query.
    largest_weight
        Largest sample weight.
    """

    n_rounds: int
    n_skipped: int
    n_mistakes: int
    loss: float
    served_loss: float
    mass: float
    squared_gradient_norms: float
    margin_mass: float
    largest_mass: float
    R_X: float
    m: int
    v_max: float
    largest_weight: float


class LossTracker(NestedRanker):
    """A ranker that keeps account of the losses of the ranker it holds, and certifies them.

    It learns, scores and ranks as `ranker` does, and goes wherever a ranker goes. What it measures it computes itself, from
    scores and grades; learning is not touched. Behind a transformer everything is measured on the transformed features.

    Parameters
    ----------
    ranker
        A `PerceptronRanker`; a copy of it learns, from w = 0, where the bounds start.
    comparators
        Weights to compare with, by name: `{name: (d,) array}`, or `{name: {feature: weight}}` for queries whose features have
        names (a feature without a weight has weight 0). They are copied. Each costs about one more pass of scores.
    served
        Whether to compute the loss of the weights that serve rankings too. With `average=False` these are the weights that
        learn, and it costs nothing; else it takes a second score of every document.

    Raises
    ------
    TypeError, ValueError
        `ranker` is of another kind, learns by a method of its own, or has learned already; or a comparator is not a vector of
        finite numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from online_rank import LossTracker, PerceptronRanker
    >>> rng = np.random.default_rng(0)
    >>> teacher = np.array([4.0, -2.0, 0.0])
    >>> tracker = LossTracker(PerceptronRanker(), comparators={"teacher": teacher})
    >>> for _ in range(200):
    ...     X = rng.normal(size=(8, 3))
    ...     tracker.learn_one(X, (X @ teacher > 2).astype(int) + (X @ teacher > 6))
    >>> tracker.totals.n_rounds
    200
    >>> certificate = tracker.certificate("teacher")
    >>> certificate.holds
    True
    >>> certificate.loss <= certificate.bound("mass_data_bound") <= certificate.bound("mass_bound")
    True
    """

    _schema = Schema(
        _learner=Nested("PerceptronRanker", features=True),
        _totals=Array(len(Totals._fields), finite=False),
        _sums=Array(lambda tracker: len(tracker.comparators or {}), 2, finite=False),
        _n_documents=Real(0.0),
        _aligned=Derived(lambda tracker: len(tracker.comparators or {}), "d"),
        _measure=Derived(),
    )

    def __init__(
        self, ranker: PerceptronRanker, comparators: Mapping[str, Any] | None = None, *, served: bool = False
    ) -> None:
        super().__init__()
        _require_perceptron(ranker)
        if comparators is not None and not isinstance(comparators, Mapping):
            raise TypeError(f"comparators is of type {type(comparators).__name__}; it is a dict {{name: weights}}")
        self.ranker = ranker
        self.comparators = None if comparators is None else {name: _copied(name, u) for name, u in comparators.items()}
        self.served = served
        self._learner = copy.deepcopy(ranker)
        self._measure = parse_measure(ranker.measure)
        self._totals = np.zeros(len(Totals._fields))
        self._sums = np.zeros((len(comparators or {}), 2))
        self._aligned = np.empty((len(self._sums), 0))
        # Number of documents that the learner has learned from through this tracker.
        self._n_documents = 0.0

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"ranker": PerceptronRanker()}

    @property
    def learner(self) -> PerceptronRanker:
        """The ranker that learns. Taught by itself it makes the account incomplete: the next query or certificate refuses."""
        return self._learner

    @property
    def totals(self) -> Totals:
        """The `Totals` of all rounds so far."""
        values = Totals._make(self._totals.tolist())
        return values._replace(**{name: int(getattr(values, name)) for name in ("n_rounds", "n_skipped", "n_mistakes", "m")})

    def certificate(self, comparator: str | None = None) -> Certificate:
        """The loss so far beside every bound that covers the ranker's settings, against one of the comparators.

        Parameters
        ----------
        comparator
            Its name; not needed when there is only one.

        Raises
        ------
        KeyError
            There is no such comparator.
        ValueError
            No name was given, and there is none or more than one; or the learner was taught by itself.
        """
        names = list(self.comparators or {})
        if not names:
            raise ValueError("there is no comparator: give LossTracker(model, comparators={name: weights}) one to begin with")
        if comparator is None:
            if len(names) != 1:
                raise ValueError(f"there are {len(names)} comparators {names}; certificate(name) is against one of them")
            comparator = names[0]
        if comparator not in names:
            raise KeyError(f"there is no comparator {comparator!r}; there are {names}")
        self._require_complete()
        row = names.index(comparator)
        pair_loss, surrogate_loss = self._sums[row].tolist()
        return certify(self._learner, self.totals._asdict(), comparator, self._align_comparators()[row], pair_loss, surrogate_loss)

    @property
    def _parts(self) -> list[base.Base]:
        return [self._learner]

    def _derive(self) -> None:
        self._aligned = self._align_comparators()

    def _extend(self, names: Iterable[Hashable] | None, n_new: int = 0) -> None:
        super()._extend(names, n_new)
        self._aligned = self._align_comparators()

    def _score(self, X: np.ndarray) -> np.ndarray:
        return self._learner._score(X)

    def _learn(self, block: Block, rounds: np.ndarray) -> int:
        self._require_complete()
        share_columns(self, self._learner)
        values = np.zeros((len(block.w), *self._sums.shape))
        # Scores that were served decide the update too: their loss is that of the round.
        served_decides = self._learner.average is False or block.served is not None
        if len(self._sums) or (self.served and not served_decides):
            learned = self._learn_each(block, rounds, values, self.served and not served_decides)
        else:
            learned = self._learner._learn(block, rounds)
        if learned == len(block.w):
            if served_decides:
                rounds[:, _SERVED_LOSS] = rounds[:, _LOSS]
            accumulate(rounds, values, self._totals, self._sums)
            self._learner._last_round = rounds[-1:].copy()
            self._n_documents = float(self._learner._counters[1])
        return learned

    def _learn_each(self, block: Block, rounds: np.ndarray, values: np.ndarray, score_served: bool) -> int:
        """Learn query by query, and measure each by the weights before its update.

        `values` (q, n, 2) receives the losses of the comparators; `score_served`: whether the loss of the averaged weights is
        wanted.
        """
        learner, table = self._learner, discounts(len(block.y))
        for t, query in enumerate(block.each()):
            row = rounds[t]
            s = query.served
            if s is None and len(self._sums):
                s = np.empty(query.n_documents)
                score_with_norms(query.X, learner._weights, s)
            served = learner._score(query.X) if score_served else None
            if not learn_query(learner, query, rounds[t : t + 1]):
                return t
            if served is not None:
                ranking_losses(*self._measure, served, query.y, query.offsets, table, row[_SERVED_LOSS : _SERVED_LOSS + 1])
            if len(self._sums) and row[_LOSS] > 0.0:
                compare(
                    query.X, query.y, s, row[_WEIGHT], row[_MARGIN], self._aligned, table,
                    learner._config, learner._constants, values[t],
                )  # fmt: skip
        return len(block.w)

    def _require_complete(self) -> None:
        if self._learner._counters[1] != self._n_documents:
            raise ValueError(
                "the learner was taught by itself: the tracker's account is incomplete; teach it through the LossTracker"
            )

    def _align_comparators(self) -> np.ndarray:
        """The comparators (n, d) in the order of the model's columns. A feature that no document has had does not count."""
        rows = np.zeros((len(self._sums), self._n_features))
        if not self._n_features:
            return rows
        for row, (name, u) in zip(rows, (self.comparators or {}).items(), strict=True):
            if isinstance(u, Mapping):
                if self.feature_names is None:
                    raise TypeError(f"comparators[{name!r}] names its features, but the queries do not")
                row[:] = [u.get(feature, 0.0) for feature in self.feature_names]
            elif self.feature_names is not None:
                raise TypeError(f"comparators[{name!r}] is an array, but the queries name their features: give a dict")
            elif len(u) != len(row):
                raise ValueError(f"comparators[{name!r}] has {len(u)} weights, but the queries have {len(row)} features")
            else:
                row[:] = u
        return rows


def _require_perceptron(ranker: Any) -> None:
    """Raise TypeError or ValueError unless the bounds cover what `ranker` learns."""
    # Not isinstance: river lets a pipeline pass for its last step.
    if not issubclass(type(ranker), PerceptronRanker):
        transformers = "; transformers go before it: scaler | LossTracker(ranker)" if hasattr(ranker, "steps") else ""
        raise TypeError(f"ranker is of type {type(ranker).__name__}; a LossTracker holds a PerceptronRanker{transformers}")
    if type(ranker)._learn is not PerceptronRanker._learn:
        raise TypeError(f"ranker is a {type(ranker).__name__}, which learns in its own way: no bound speaks of it")
    if ranker.last_round is not None:
        raise ValueError("ranker has learned already; the bounds start from w = 0, so give a LossTracker one that has not")


def _copied(name: Hashable, u: Any) -> Any:
    """A comparator that its owner cannot change any more. Raises TypeError or ValueError for what is none."""
    values = np.array(list(u.values()) if isinstance(u, Mapping) else u)
    if values.ndim != 1 or (values.size and values.dtype.kind not in "biuf"):
        raise TypeError(f"comparators[{name!r}] must be a vector of numbers or a dict {{feature: weight}}")
    if not math.hypot(*values.tolist()) <= _LARGEST_NORM:
        raise ValueError(f"comparators[{name!r}] has weights that are not finite, or a norm above {_LARGEST_NORM:g}")
    return dict(u) if isinstance(u, Mapping) else values
