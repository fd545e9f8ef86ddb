"""A ranker that detects drift."""

import copy
from typing import Any

import numpy as np
from river import base

from online_rank import arguments
from online_rank.base import Abilities, QueryEstimator, Ranker, RankingPipeline, Round, ranker_of, share_lock, steps_of
from online_rank.base.anatomy import learned_measure
from online_rank.base.schema import Array, Count, Derived, ListOf, Nested, Schema
from online_rank.measures.learned import measure as parse_measure
from online_rank.query import Block
from online_rank.rankers.nested import NestedRanker, adopt_features, require_model, share_columns, teach

_ON_DRIFT = ("reset", "restart_average")

#: Approximate number of losses in the mean `recent`, and the largest number of drift positions kept.
_RECENT = 30
_MAX_POSITIONS = 100

_SERVED_LOSS, _SKIPPED = Round._fields.index("served_loss"), Round._fields.index("skipped")


class DriftAwareRanker(NestedRanker):
    """Watch the loss of the rankings that a ranker serves, and restart the ranker when it gets worse.

    Each query is ranked, as it would be served, before it is learned. If something can be learned from it, a drift detector
    receives the loss of that ranking (1 - `measure`, ties broken pessimistically), which is also `last_round.served_loss`. The
    ranker reacts when the detector reports a change and the loss has risen. A falling loss, as while a ranker is still
    learning, is not drift.

    The served rankings are watched because the weights that learn often recover from a change within too few queries for a
    detector to notice, while their average over the past goes on serving the old ranking.

    Around a pipeline the whole begins anew, as in `DriftAwareRanker(StreamQuantileMap() | PerceptronRanker())`; behind a
    transformer the ranker alone: `StreamQuantileMap() | DriftAwareRanker(PerceptronRanker())`.

    Parameters
    ----------
    ranker
        A ranker, or a pipeline that ends in one. A copy of it learns and ranks; after a reset, a new one with the same
        parameters.
    detector
        A drift detector of river for numbers; None for `river.drift.ADWIN()`. A copy of it is used.
    on_drift
        `"reset"`: forget everything. `"restart_average"`: keep the learning weights and restart their average (for rankers that
        serve averaged weights).
    measure
        The measure of the loss (see `online_rank.measure`); None for the measure of `ranker`.

    Raises
    ------
    TypeError, ValueError
        `ranker` is no ranker, and no pipeline that ends in one, or has no average to restart; a detector is none, or `on_drift`
        is unknown.

    References
    ----------
    Bifet & Gavaldà, *Learning from Time-Changing Data with Adaptive Windowing*, 2007.

    Examples
    --------
    >>> from online_rank import DriftAwareRanker, PerceptronRanker
    >>> from online_rank.stream.synth import Drifting
    >>> model = DriftAwareRanker(PerceptronRanker())
    >>> for X, y in Drifting(n_queries=2000, drift_points=(1000,), n_features=10, n_documents=20):
    ...     model.learn_one(X, y)
    >>> model.n_drifts, model.drift_positions
    (1, (1026,))
    """

    _schema = Schema(
        _measure=Derived(),
        _alarms=Nested("DriftDetector"),
        _learner=Nested("Ranker", "RankingPipeline", features=True),
        _positions=ListOf(Count(), kind=tuple),
        _n_drifts=Count(),
        _n_queries=Count(),
        _losses=Array(3, low=0.0),
    )

    def __init__(
        self,
        ranker: Ranker | RankingPipeline,
        *,
        detector: base.DriftDetector | None = None,
        on_drift: str = "reset",
        measure: str | None = None,
    ) -> None:
        from river import drift  # With it come all data sets of river, and scikit-learn and pandas if installed: half a second.

        super().__init__()
        require_model("ranker", ranker)
        arguments.choice("on_drift", on_drift, _ON_DRIFT)
        if on_drift == "restart_average" and not hasattr(ranker_of(ranker), "restart_average"):
            name = type(ranker_of(ranker)).__name__
            raise TypeError(f"on_drift='restart_average' needs a ranker with an average; {name} has none")
        if detector is not None and not isinstance(detector, base.DriftDetector):
            raise TypeError(f"detector is {detector!r}; it is a drift detector of river for numbers, such as drift.ADWIN()")
        self.ranker = ranker
        self.detector = detector
        self.on_drift = on_drift
        self.measure = measure
        self._measure = learned_measure(ranker) if measure is None else parse_measure(measure)
        self._alarms = (detector or drift.ADWIN()).clone()
        self._learner: Any = copy.deepcopy(ranker)
        self._positions: tuple[int, ...] = ()
        self._n_drifts = 0
        self._n_queries = 0
        # Number and mean of the losses since the last change that `_alarms` reported, and the mean of the recent ones.
        self._losses = np.zeros(3)
        adopt_features(self, [self._learner])
        share_lock(self)

    @property
    def learner(self) -> Ranker | RankingPipeline:
        """The ranker, or pipeline, that learns and ranks."""
        return self._learner

    @property
    def n_drifts(self) -> int:
        """How often drift was detected."""
        return self._n_drifts

    @property
    def drift_positions(self) -> tuple[int, ...]:
        """The number of queries after which each drift was detected; the latest 100."""
        return self._positions

    _forwards = ("takes_served", "takes_sparse")

    def _abilities(self) -> Abilities:
        return super()._abilities()._replace(measures_answers=True)

    def _learn_query(self, query: Block, row: np.ndarray) -> bool:
        served = self._served_scores(query, self._learner)
        if not teach(self._learner, query, row):
            return False
        self._n_queries += 1
        if not row[0, _SKIPPED]:
            loss = self._measure.loss(served, query.y, ties="pessimistic") if np.isfinite(served).all() else 1.0
            row[0, _SERVED_LOSS] = loss
            self._watch(loss)
        return True

    @property
    def _reporter(self) -> Ranker:
        return ranker_of(self._learner)

    @property
    def _parts(self) -> list[base.Base]:
        return [self._learner, self._alarms]

    @property
    def _wrapped(self) -> list[Ranker | RankingPipeline]:
        return [self._learner]

    def _new_ranker(self) -> Ranker | RankingPipeline:
        ranker = self.ranker.clone()
        for step, old in zip(steps_of(ranker), steps_of(self.ranker), strict=True):
            if isinstance(step, QueryEstimator):
                step.max_features = old.max_features
        share_columns(self, ranker)
        share_lock(self, ranker)
        return ranker

    def _watch(self, loss: float) -> None:
        """Pass a loss to the detectors, and react to their reports."""
        n, mean, recent = self._losses.tolist()
        n += 1.0
        mean += (loss - mean) / n
        recent += (loss - recent) / min(n, _RECENT)
        worse = recent > mean
        self._losses[:] = n, mean, recent
        self._alarms.update(loss)
        if self._alarms.drift_detected:
            self._losses[:] = _RECENT, recent, recent
            if worse:
                self._n_drifts += 1
                self._positions = (*self._positions, self._n_queries)[-_MAX_POSITIONS:]
                self._react()

    def _react(self) -> None:
        if self.on_drift == "restart_average":
            ranker_of(self._learner).restart_average()
        else:
            self._learner = self._new_ranker()
