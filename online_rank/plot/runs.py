"""The bounds of a run over its queries."""

from typing import Any

import numpy as np

from online_rank.bounds import LossTracker

#: A `LossCurve` records whenever the number of queries has grown by this factor: about 1000 records for a million queries.
_SPACING = 1.01


class LossCurve:
    """Records the loss of a `LossTracker`, its comparator's loss and the bounds over time, for `loss`.

    Call it after learning queries, or pass it to `evaluate.progressive(watch=...)`. Records become rarer over time, so its size
    is logarithmic in the length of the stream.

    Parameters
    ----------
    tracker
        The tracker, which learns.
    comparator
        Name of the comparator, as in `LossTracker.certificate`.

    Examples
    --------
    >>> import numpy as np
    >>> from online_rank import LossTracker, PerceptronRanker, plot
    >>> tracker = LossTracker(PerceptronRanker(), comparators={"teacher": np.array([2.0, 0.0])})
    >>> curve = plot.LossCurve(tracker)
    >>> for _ in range(10):
    ...     tracker.learn_one([[1.0, 0.0], [0.0, 1.0]], [1, 0])
    ...     curve()
    >>> curve.columns["queries"].tolist()
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    """

    def __init__(self, tracker: LossTracker, *, comparator: str | None = None) -> None:
        # Not isinstance: river lets a pipeline pass for its last step.
        if not issubclass(type(tracker), LossTracker):
            raise TypeError(f"tracker is of type {type(tracker).__name__}; a LossCurve watches a LossTracker")
        self.tracker = tracker
        self.comparator = comparator
        self._records: list[dict[str, float]] = []
        #: The labels of the bounds in certificates.
        self.statements: dict[str, str] = {}

    def __call__(self, trace: Any = None) -> None:
        """Record the current state, if enough has been learned since the last record. `trace` is ignored."""
        n, last = self.tracker.totals.n_rounds, self._records[-1]["queries"] if self._records else 0
        if n > last and n >= _SPACING * last:
            self._records.append(self._record())

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The records as columns: "queries", "loss", "F(u)", and one for every bound that covers the model."""
        records = list(self._records)
        if self.tracker.totals.n_rounds > (records[-1]["queries"] if records else 0):
            records.append(self._record())
        return {name: np.array([record[name] for record in records]) for name in (records[-1] if records else ())}

    def _record(self) -> dict[str, float]:
        present = self.tracker.certificate(self.comparator)
        bounds = {check.name: check.value for check in present.bounds}
        self.statements = {check.name: check.statement for check in present.bounds}
        return {"queries": present.totals["n_rounds"], "loss": present.loss, "F(u)": present.pair_loss, **bounds}
