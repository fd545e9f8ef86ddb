"""Base class of rankers for which what they have learned counts less and less."""

from typing import Any

from online_rank import arguments
from online_rank.base import Abilities, Ranker
from online_rank.base.halving import halved
from online_rank.base.schema import Derived, Real, Schema
from online_rank.query import Block

#: The longest pause that counts, in half-lives: after it a thousandth is left of what was learned before.
_LONGEST_PAUSE = 10.0


def factor_of(name: str, half_life: Any) -> tuple[float, float | None]:
    """The factor of the past in a query, and the half-life in seconds if it is a text ("7d"), which leaves the factor at 1.

    Raises TypeError or ValueError, which names the argument.
    """
    if isinstance(half_life, str):
        return 1.0, arguments.seconds_of(half_life, name)
    arguments.number(name, half_life, above=0.0)
    return halved(min(1.0 / half_life, 300.0)), None


def left_after(gone: float, half_life: float) -> float:
    """The factor of the past after a pause, both in seconds."""
    return halved(min(max(gone / half_life, 0.0), _LONGEST_PAUSE))


class FadingRanker(Ranker):
    """A ranker with a half-life, in queries or in the time of queries.

    With a half-life H in seconds the weight of the past is multiplied by 2^(-(t - t') / H) when a query is learned whose time t
    is later than the latest time t' before. What has an earlier time than that is learned as if it came at t'.
    """

    _schema = Schema(_at=Real(optional=True), _keep=Derived(), _seconds=Derived())

    half_life: float | str | None

    #: The latest time of a query that was learned. Older files lack it.
    _at: float | None = None

    def _fade_by(self, half_life: Any) -> None:
        """Take a half-life in queries, or in seconds as a text ("7d"); None for none. Raises TypeError, ValueError."""
        self._at = None
        self._keep, self._seconds = (1.0, None) if half_life is None else factor_of("half_life", half_life)
        self.half_life = half_life

    def _abilities(self) -> Abilities:
        able = super()._abilities()
        return able if self._seconds is None else able._replace(takes_time=True)

    def _kept(self, block: Block, t: int = 0) -> float:
        """The factor of what was learned before, when query t is learned. Raises ValueError for a query without a time."""
        if self._seconds is None:
            return self._keep
        at = self._time_of(block, t)
        return 1.0 if self._at is None else left_after(at - self._at, self._seconds)

    def _pass_time(self, block: Block, t: int = 0) -> None:
        """Query t was learned: the latest time may be its own."""
        if self._seconds is not None:
            at = self._time_of(block, t)
            self._at = at if self._at is None else max(self._at, at)

    def _time_of(self, block: Block, t: int) -> float:
        if block.at is None:
            raise ValueError(f"half_life is {self.half_life!r}: learn_one and learn_many need at=, the time of the query")
        return float(block.at[t])
