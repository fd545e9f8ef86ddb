"""Half-lives of rankers for which what they have learned counts less and less."""

from typing import Any

from online_rank import arguments
from online_rank.base.halving import halved
from online_rank.base.schema import Derived, Field, Real
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


#: The state of a ranker with a half-life: the latest time of a query that was learned, None before the first.
STATE: dict[str, Field] = {"_at": Real(optional=True), "_keep": Derived(), "_seconds": Derived()}


def fade_by(ranker: Any, half_life: Any) -> None:
    """Give a ranker a half-life, in queries, or in seconds as a text ("7d"); None for none. Raises TypeError, ValueError.

    With a half-life H in seconds the weight of the past is multiplied by 2^(-(t - t') / H) when a query is learned whose time t
    is later than the latest time t' before. What has an earlier time than that is learned as if it came at t'.
    """
    ranker._at = None
    ranker._keep, ranker._seconds = (1.0, None) if half_life is None else factor_of("half_life", half_life)
    ranker.half_life = half_life


def kept(ranker: Any, block: Block, t: int = 0) -> float:
    """The factor of what was learned before, when query t is learned. Raises ValueError for a query without a time."""
    if ranker._seconds is None:
        return float(ranker._keep)
    at = _time_of(ranker, block, t)
    return 1.0 if ranker._at is None else left_after(at - ranker._at, ranker._seconds)


def pass_time(ranker: Any, block: Block, t: int = 0) -> None:
    """Query t was learned: the latest time may be its own."""
    if ranker._seconds is not None:
        at = _time_of(ranker, block, t)
        ranker._at = at if ranker._at is None else max(ranker._at, at)


def _time_of(ranker: Any, block: Block, t: int) -> float:
    if block.at is None:
        raise ValueError(f"half_life is {ranker.half_life!r}: learn_one and learn_many need at=, the time of the query")
    return float(block.at[t])
