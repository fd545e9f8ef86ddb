"""Learning curves over several seeds, and the bounds of a run over its queries."""

from typing import TYPE_CHECKING, Any

import numpy as np

from online_rank.bounds import LossTracker
from online_rank.evaluate import Repeated
from online_rank.plot._style import lines, name_lines, scale_to_settled, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: A `LossCurve` records whenever the number of queries has grown by this factor: about 1000 records for a million queries.
_SPACING = 1.01


def bands(repeated: Repeated, *, metric: str | None = None, level: float = 0.95, ax: "Axes | None" = None) -> "Axes":
    """Learning curves over several seeds, each with a band: an interval for the mean at each number of queries.

    Parameters
    ----------
    repeated
        The result of `evaluate.repeat`.
    metric
        The metric; None for the first.
    level
        The confidence of the bands.
    ax
        Axes to draw on.

    Raises
    ------
    KeyError, ValueError
        There is no such metric, or the level is not between 0 and 1.

    Examples
    --------
    >>> from online_rank import PerceptronRanker, evaluate, plot
    >>> query = [[1.0, 0.0], [0.0, 1.0]], [0, 1]
    >>> runs = evaluate.repeat(lambda seed: PerceptronRanker(), lambda seed: [query] * 20, "ndcg", seeds=3)
    >>> [line.get_label() for line in plot.bands(runs).lines]
    ['model']
    """
    found = {name: repeated.curve(name, metric, level=level) for name in repeated.traces}
    ax = styled(ax, "queries", metric or repeated.metrics[0])
    curves = {name: (band.queries, band.mean) for name, band in found.items()}
    lines(ax, curves)
    for line, band in zip(ax.get_lines(), found.values(), strict=False):
        ax.fill_between(band.queries, band.lower, band.upper, color=line.get_color(), alpha=0.2, linewidth=0)
    scale_to_settled(ax, curves)
    name_lines(ax, curves)
    return ax


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
