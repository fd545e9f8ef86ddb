"""Certificates: a measured loss beside what the theorems allow."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from online_rank.bounds.declaration import BOUNDS, Bound, setting, uncovered
from online_rank.bounds.rows import Row, printed, rows_of

__all__ = ["BoundCheck", "Certificate", "Run", "certify"]

#: A bound may be missed by rounding: by this part of the sizes that were added up.
_SLACK = 1e-9

#: A miss by rounding that is a larger part of the loss than this decides nothing.
_NEGLIGIBLE = 1e-6

_MISSING = object()


class Run(NamedTuple):
    """What is known of a run, and of a comparator on it.

    Attributes
    ----------
    properties
        What kind of run it was (`online_rank.bounds.declaration.PLAIN`).
    totals
        What was measured; "loss" is what bounds speak of.
    facts
        Further numbers that bounds take, by name: those of the comparator among them.
    unknown
        Facts that cannot be known of this run, with the reason.
    size
        What was added up on the way to a bound, in absolute values: rounding errors are a part of it.
    comparator
        Name of the comparator; None for none.
    notes
        Sentences on what the figures are of.
    """

    properties: Mapping[str, str]
    totals: Mapping[str, Any]
    facts: Mapping[str, Any]
    unknown: Mapping[str, str] = {}
    size: float = 0.0
    comparator: str | None = None
    notes: tuple[str, ...] = ()


class BoundCheck(NamedTuple):
    """A bound that covers the model's settings, and whether the loss obeys it.

    Attributes
    ----------
    name
        The function of `online_rank.bounds`.
    statement
        The bound in words and symbols.
    value
        What the loss is at most.
    slack
        `value` less the loss.
    verdict
        `"holds"`: the loss is at most `value`, up to rounding. `"VIOLATED"`: it is more, or one of them is not a number.
        `"undecided by rounding"`: it is more, by less than the rounding errors of what was added up may amount to.
    says_nothing
        Whether `value` is not below the weighted number of queries, which no loss exceeds.
    """

    name: str
    statement: str
    value: float
    slack: float
    verdict: str
    says_nothing: bool = False

    @property
    def holds(self) -> bool:
        """Whether the loss is at most `value`, up to rounding."""
        return self.verdict == "holds"


@dataclass(frozen=True)
class Certificate:
    """What a run certifies: on this stream, against this comparator, the loss was `loss`, and each bound says at most so much.

    Prints as a table; `rows` are what it prints, `to_dict` is for JSON.

    Attributes
    ----------
    comparator
        Name of the comparator u; None for a certificate that needs none.
    settings
        The parameters of the ranker.
    totals
        What was measured, for perceptrons the `LossTracker.totals`.
    facts
        The other numbers that the bounds were computed from: F(u) is "comparator_loss".
    bounds
        Every bound that covers the settings and the run.
    not_covered
        The others, with the reason.
    notes
        What the figures are of.
    """

    comparator: str | None
    settings: dict[str, Any]
    totals: dict[str, Any]
    facts: dict[str, Any]
    bounds: tuple[BoundCheck, ...]
    not_covered: dict[str, str]
    notes: tuple[str, ...] = ()

    @property
    def loss(self) -> float:
        """Cumulative loss which the bounds speak of."""
        return self.totals["loss"]

    @property
    def norm(self) -> float:
        """The l2 norm of the comparator, over the features that were met; NaN without one."""
        return self.facts.get("norm", math.nan)

    @property
    def pair_loss(self) -> float:
        """F(u), the comparator's loss on the pairs of the updates; NaN without one."""
        return self.facts.get("comparator_loss", math.nan)

    @property
    def surrogate_loss(self) -> float:
        """sum f_t(u), the comparator's SLAM surrogate over the rounds with an update; NaN without one, and for clicks."""
        return self.facts.get("surrogate_loss", math.nan)

    @property
    def holds(self) -> bool:
        """Whether a bound holds and none is violated; a certificate without any bound does not hold."""
        return any(check.holds for check in self.bounds) and all(check.verdict != "VIOLATED" for check in self.bounds)

    def bound(self, name: str) -> float:
        """The value of a bound.

        Raises
        ------
        ValueError
            The bound does not cover the settings of the model, or there is no such bound.
        """
        for check in self.bounds:
            if check.name == name:
                return check.value
        raise ValueError(self.not_covered.get(name) or f"there is no bound {name!r}; there are {[b.name for b in self.bounds]}")

    def rows(self) -> list[Row]:
        """What the certificate says, line by line: the only account of it, for text, pages, JSON and pictures."""
        return rows_of(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as dicts, lists, strings and numbers, ready for JSON."""
        measured = {row.name: _plain(row.value) for row in self.rows() if row.part == "run"}
        return {
            "comparator": self.comparator,
            "settings": dict(self.settings),
            "loss": _plain(self.loss),
            "holds": self.holds,
            "measured": measured,
            "totals": {name: _plain(value) for name, value in self.totals.items()},
            "bounds": [{**check._asdict(), "value": _plain(check.value), "slack": _plain(check.slack), "holds": check.holds}
                       for check in self.bounds],
            "not_covered": dict(self.not_covered),
            "notes": list(self.notes),
        }  # fmt: skip

    def __str__(self) -> str:
        return printed(self)


def certify(model: Any, run: Run) -> Certificate:
    """Evaluate every bound that is declared on what is known of a run.

    Parameters
    ----------
    model
        The ranker that learned.
    run
        The run. A bound is left out without a word where it needs a fact that is neither known nor in `unknown`, and where it
        speaks of another kind of run that plain ones are not; any other reason stands in `not_covered`.
    """
    loss = run.totals["loss"]
    size, counted = loss + run.size, run.totals.get("counted_weight", math.inf)
    checks, not_covered = [], {}
    for declared in BOUNDS.values():
        value = _value(declared, model, run)
        if isinstance(value, str):
            not_covered[declared.name] = value
        elif value is not None:
            verdict, says_nothing = _verdict(loss, value, size), value >= counted > 0.0
            checks.append(BoundCheck(declared.name, declared.statement, value, value - loss, verdict, says_nothing))
    values: dict[str, Any] = getattr(model, "_get_params", dict)()
    return Certificate(
        comparator=run.comparator,
        settings={name: setting(model, name) for name in values if _is_plain(setting(model, name))},
        totals=dict(run.totals),
        facts=dict(run.facts),
        bounds=tuple(checks),
        not_covered=not_covered,
        notes=run.notes,
    )


def _value(declared: Bound, model: Any, run: Run) -> float | str | None:
    """The value of a bound; or the reason why it does not speak of a run; or None where nobody would ask."""
    numbers, unknown = {}, None
    for parameter, fact in declared.needs.items():
        value = run.facts.get(fact, run.totals.get(fact, _MISSING))
        if fact in run.unknown:
            unknown = f"{declared.name} {run.unknown[fact]}"
        elif value is not _MISSING:
            numbers[parameter] = value
        elif parameter not in declared.optional:
            return None
    if not issubclass(type(model), declared.of):
        return None
    another_run = declared.misses(run.properties)
    if another_run is not None and not declared.is_plain:
        return None
    reason = uncovered(declared.name, model) or another_run or unknown
    if reason is not None:
        return reason
    try:
        return declared.value(**numbers, model=model)
    except ValueError as error:
        return str(error)


def _verdict(loss: float, value: float, size: float) -> str:
    """What a bound says of a loss, where `size` is what was added up."""
    if loss <= value:
        return "holds"
    tolerance = _SLACK * max(size, value)
    # Also false for NaN.
    if not loss - value <= tolerance:
        return "VIOLATED"
    return "holds" if tolerance <= _NEGLIGIBLE * loss else "undecided by rounding"


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | tuple)


def _plain(value: Any) -> Any:
    """A number as JSON has it: None for one that is none, a string for infinity."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)
