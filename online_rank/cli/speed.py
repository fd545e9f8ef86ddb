"""The time that a run spent on reading, learning and compiling."""

from collections.abc import Mapping
from typing import Any

from online_rank.cli.settings import Made
from online_rank.evaluate import Trace

__all__ = ["Speed", "speed_in_words"]

#: Number of first queries of a pass that may have waited for kernels to compile.
_FIRST = 10

#: A run that takes this many seconds to begin has compiled kernels.
_COMPILES = 2.0


class Speed:
    """Measures the time of an evaluation: reading; ranking, measuring and learning; starting.

    The first ten queries of each pass may wait for compilation; their excess time is counted as starting.
    """

    #: It may be called once for several queries.
    counts_together = True

    def __init__(self) -> None:
        #: The queries that are being read.
        self.queries: Made | None = None
        self._trace: Trace | None = None
        self._met = 0
        self._elapsed = self._read = 0.0
        self._n = self._n_first = 0
        self._reading = self._learning = self._first = 0.0

    def __call__(self, trace: Trace) -> None:
        """Count what was learned since the last call."""
        if trace is not self._trace:
            self._trace, self._met = trace, 0
            self._elapsed = self._read = 0.0
        more, self._met = trace.n_queries - self._met, trace.n_queries
        read = self.queries.seconds if self.queries is not None else 0.0
        reading, learning = read - self._read, trace.elapsed - self._elapsed - (read - self._read)
        self._read, self._elapsed = read, trace.elapsed
        self._reading += reading
        if self._met > _FIRST:
            self._n += more
            self._learning += learning
        else:
            self._n_first += more
            self._first += learning

    def to_dict(self) -> dict[str, Any]:
        """Queries per second, and the seconds of each part."""
        rate = self._n / self._learning if self._learning > 0.0 else 0.0
        usual = min(self._first, self._n_first / rate) if rate else 0.0
        learning = self._learning + usual
        whole = learning + self._reading
        return {
            "queries_per_second": rate,
            "queries_per_second_with_reading": (self._n + self._n_first) / whole if whole > 0.0 and rate else 0.0,
            "seconds": {"reading": self._reading, "learning": learning, "starting": self._first - usual},
        }


def speed_in_words(report: Mapping[str, Any]) -> str:
    """The figures of `Speed.to_dict` for people."""
    seconds = report["seconds"]
    starting = f"{seconds['starting']:.1f} s to begin" + (", most of it compiling" if seconds["starting"] > _COMPILES else "")
    if not report["queries_per_second"]:
        return starting
    return (
        f"{report['queries_per_second']:,.0f} queries/s ranked, measured and learned; "
        f"{report['queries_per_second_with_reading']:,.0f} with reading; {starting}"
    )
