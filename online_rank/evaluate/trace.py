"""What a progressive evaluation has measured."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank.base.rounds import Round
from online_rank.base.schema import Array, Count, DictOf, Integer, ListOf, Real, Schema, Text
from online_rank.intervals import Interval, LossInterval, PairedLosses
from online_rank.intervals.losses import add_losses, running_sums
from online_rank.intervals.paired import EXPECTATION, Better, Difference

_MAX_RECORDS = 1024
#: What of a round is added up.
_COUNTED = ("loss", "weight", "mass", "squared_gradient_norm", "skipped")


class Trace:
    """What a progressive evaluation measured, query after query.

    Parameters
    ----------
    every
        Number of queries between two records. None keeps 512 to 1024 records, however long the stream: at 1024 records every
        second one is dropped and the spacing doubles.

    Attributes
    ----------
    n_queries, n_documents : int
        Numbers of queries and documents so far.
    values : dict of str to float
        The current value of each metric.
    loss : float
        Cumulative loss of the weights that learn, ties broken pessimistically: the quantity that the bounds limit (the sum of
        `Round.loss` times `Round.weight`).
    mistakes : int
        Rounds in which the model was updated.
    skipped : int
        Queries from which nothing can be learned.
    served : LossInterval
        Losses of the rankings that were served, by the measure that the model optimises.
    elapsed : float
        Seconds spent on predicting, measuring and learning, and on waiting for the stream.
    """

    _schema = Schema(
        n_queries=Count(),
        n_documents=Count(),
        mistakes=Count(),
        skipped=Count(),
        values=DictOf(Text(), Real()),
        loss=Real(0.0),
        elapsed=Real(0.0),
        _served=Array(3, low=0.0),
        _spacing=Integer(1),
        _records=ListOf(ListOf(Real(), kind=tuple)),
    )

    def __init__(self, *, every: int | None = None) -> None:
        arguments.integer("every", every, 1, optional=True)
        self.every = every
        self.n_queries = 0
        self.n_documents = 0
        self.values: dict[str, float] = {}
        self.loss = 0.0
        self.mistakes = 0
        self.skipped = 0
        self.elapsed = 0.0
        self._served = np.zeros(3)
        self._spacing = int(every or 1)
        self._records: list[tuple[float, ...]] = []

    @property
    def served(self) -> LossInterval:
        """A copy of the losses of the served rankings."""
        return LossInterval(self._served)

    def served_interval(self, level: float = 0.95) -> Interval:
        """Interval for the mean expected loss of the rankings served so far, valid at all times with probability `level`.

        It is valid on any stream (`online_rank.intervals`). Queries whose documents all have one grade are left out.
        """
        return self.served.interval(level)

    def served_intervals(self, level: float = 0.95) -> list[Interval]:
        """`served_interval` at every record; the last entry is the current state."""
        return [LossInterval(record[-3:]).interval(level) for record in self._recorded()]

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The records as columns: "query" (queries so far), one column for each metric, "loss" and "mistakes".

        The last record is the current state. `pandas.DataFrame` and `polars.DataFrame` accept these columns.
        """
        records = self._recorded()
        table = np.array(records, dtype=np.float64).reshape(len(records), len(self.values) + 6)
        names = ["query", *self.values, "loss", "mistakes"]
        counts = ("query", "mistakes")
        return {name: table[:, j].astype(np.int64) if name in counts else table[:, j] for j, name in enumerate(names)}

    def to_dict(self) -> dict[str, Any]:
        """The final figures as plain numbers, for JSON."""
        return {
            "queries": self.n_queries,
            "documents": self.n_documents,
            "metrics": dict(self.values),
            "loss": self.loss,
            "mistakes": self.mistakes,
            "skipped": self.skipped,
            "served": self.served_interval()._asdict() if self._served[0] else None,
            "elapsed": self.elapsed,
        }

    def __repr__(self) -> str:
        lower, upper, *_ = self.served_interval()
        served = [("served loss, 95 %", f"{lower:.4f} to {upper:.4f}")] if self._served[0] else []
        rows = [
            ("queries", f"{self.n_queries:,}"),
            ("documents", f"{self.n_documents:,}"),
            *((name, f"{value:.4f}") for name, value in self.values.items()),
            ("cumulative loss", f"{self.loss:,.2f}"),
            ("updates", f"{self.mistakes:,}"),
            ("skipped", f"{self.skipped:,}"),
            *served,
            ("seconds", f"{self.elapsed:.2f}"),
        ]
        width, digits = max(len(name) for name, _ in rows), max(len(value) for _, value in rows)
        return "\n".join(f"{name:<{width}}  {value:>{digits}}" for name, value in rows)

    def _recorded(self) -> list[tuple[float, ...]]:
        """The records, ending with the current state."""
        present = self._records and self._records[-1][0] == self.n_queries
        return self._records if present or not self.n_queries else [*self._records, self._record()]

    def _record(self) -> tuple[float, ...]:
        return (self.n_queries, *self.values.values(), self.loss, self.mistakes, *self._served.tolist())

    def _add(self, n_documents: int, round_: Any, values: dict[str, float], served: float | None = None) -> None:
        """Count one query, and add a record if one is due; `served` is the loss of the served ranking."""
        if served is not None:
            add_losses(self._served, (served,))
        self.n_queries += 1
        self.n_documents += n_documents
        self.values = values
        if round_ is not None:
            self.loss += round_.loss * round_.weight
            self.mistakes += round_.mass > 0.0 or round_.squared_gradient_norm > 0.0
            self.skipped += round_.skipped
        self._record_if_due()

    def _add_together(
        self, sizes: np.ndarray, rounds: np.ndarray, values: Sequence[dict[str, float]], losses: np.ndarray
    ) -> None:
        """As `_add` of each of q queries in turn, by their rounds (q, fields); `losses` (q,) are NaN for queries without one.

        `values` has the metrics after each query that is a multiple of `_spacing`, and after the last one.
        """
        counted = ~np.isnan(losses)
        served = running_sums(self._served, losses[counted])[np.cumsum(counted)]
        after, spacing = iter(values), self._spacing
        loss, weight, mass, square, skipped = (rounds[:, Round._fields.index(of)].tolist() for of in _COUNTED)
        for t, n_documents in enumerate(sizes.tolist()):
            self.n_queries += 1
            self.n_documents += n_documents
            self.loss += loss[t] * weight[t]
            # Rankers that no bound covers have updates without mass.
            self.mistakes += mass[t] > 0.0 or square[t] > 0.0
            self.skipped += bool(skipped[t])
            if self.n_queries % spacing == 0 or t == len(sizes) - 1:
                self.values, self._served = next(after), served[t].copy()
                self._record_if_due()

    def _record_if_due(self) -> None:
        """Add a record if it is time for one."""
        if self.n_queries % self._spacing == 0:
            self._records.append(self._record())
            if self.every is None and len(self._records) == _MAX_RECORDS:
                self._spacing *= 2
                self._records = self._records[1::2]


class Comparison:
    """Several models on one stream: the trace of each, and intervals for their differences.

    Attributes
    ----------
    traces : dict of str to Trace
        The trace of each model, by name. `elapsed` is the time of all models together.
    paired : PairedLosses
        The losses of the served rankings, compared pairwise: intervals of their differences that are valid at any time.
    """

    def __init__(self, traces: dict[str, Trace]) -> None:
        self.traces = traces
        self.paired = PairedLosses(list(traces))

    def better(self, level: float = 0.95) -> list[Better]:
        """Every statement "a is better than b by at least y" that holds, valid for all pairs and times at once
        (`PairedLosses.better`).
        """
        return self.paired.better(level)

    def difference(self, a: str, b: str, level: float = 0.95) -> Difference:
        """By how much the loss of `b` exceeds the loss of `a`, valid for this pair alone (`PairedLosses.difference`)."""
        return self.paired.difference(a, b, level)

    def to_dict(self) -> dict[str, Any]:
        """The final figures as plain numbers, for JSON."""
        return {
            "models": {name: trace.to_dict() for name, trace in self.traces.items()},
            "better": [statement._asdict() for statement in self.better()],
            "note": EXPECTATION,
        }

    def __repr__(self) -> str:
        width = max(map(len, self.traces))
        lines = [f"{name:<{width}}  mean loss {trace.served.mean:.4f}" for name, trace in self.traces.items()]
        said = [str(statement) for statement in self.better()] or ["no model is better than another at 95 %"]
        return "\n".join([*lines, *said, EXPECTATION])
