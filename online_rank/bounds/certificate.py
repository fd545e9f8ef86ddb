"""Certificates: a measured loss and the bounds that the theorems give for it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from online_rank.bounds.declaration import BOUNDS, Bound, declare_for, declared, setting
from online_rank.bounds.rows import Row, printed, rows_of
from online_rank.measures.own import is_own, own_measure

#: The rounding error allowed in a bound, relative to the sizes that were added up.
_SLACK = 1e-9

#: If the allowed rounding error is a larger part of the loss than this, a miss within it is undecided.
_NEGLIGIBLE = 1e-6

_MISSING = object()


class Run(NamedTuple):
    """The facts about a run, and about a comparator on it.

    Attributes
    ----------
    properties
        What kind of run it was (`online_rank.bounds.declaration.PLAIN`).
    totals
        The measured totals; "loss" is the loss that the bounds limit.
    facts
        Further numbers that bounds take, by name, including facts of the comparator.
    unknown
        Facts that cannot be known of this run, with the reason.
    size
        The sum of the absolute values that were added up for a bound; rounding errors are proportional to it.
    comparator
        Name of the comparator; None for none.
    notes
        Sentences that explain the figures.
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
        The upper bound on the loss.
    slack
        `value` less the loss.
    verdict
        `"holds"`: the loss is at most `value`, up to rounding. `"VIOLATED"`: it is larger, or one of them is not a number.
        `"undecided by rounding"`: it is larger, but by less than rounding errors may amount to. `"exceeded by luck"`: it is
        larger, and the bound is one on the expected loss.
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
    """The certificate of a run: its measured `loss` on this stream, and the bounds on it against one comparator.

    It prints as a table; `rows` has the lines of the table, `to_dict` is for JSON.

    Attributes
    ----------
    comparator
        Name of the comparator u; None for a certificate that needs none.
    settings
        The parameters of the ranker.
    totals
        The measured totals; for perceptrons, as in `LossTracker.totals`.
    facts
        The other numbers that the bounds were computed from: F(u) is "comparator_loss".
    bounds
        Every bound that covers the settings and the run.
    not_covered
        The other bounds, each with the reason.
    notes
        Explanations of the figures.
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
        """The cumulative loss that the bounds limit."""
        return self.totals["loss"]

    @property
    def norm(self) -> float:
        """The l2 norm of the comparator, over the features seen; NaN without a comparator."""
        return self.facts.get("norm", math.nan)

    @property
    def pair_loss(self) -> float:
        """F(u), the comparator's loss on the pairs of the updates; NaN without a comparator."""
        return self.facts.get("comparator_loss", math.nan)

    @property
    def surrogate_loss(self) -> float:
        """sum f_t(u), the comparator's SLAM surrogate over the rounds with an update; NaN without a comparator, and for
        clicks.
        """
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
        if (reason := self.not_covered.get(name)) is None and (other := declared(name)) is not None:
            kinds = " or ".join(kind.__name__ for kind in other.of)
            reason = f"{name} is a bound for another ranker or another kind of run; it covers a {kinds}"
        raise ValueError(reason or f"there is no bound {name!r}; there are {[b.name for b in self.bounds]}")

    def rows(self) -> list[Row]:
        """The lines of the certificate, from which text, pages, JSON and plots are made."""
        return rows_of(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as dicts, lists, strings and numbers, ready for JSON."""
        measured = {row.name: _plain(row.value) for row in self.rows() if row.part == "run"}
        return {
            "comparator": self.comparator,
            "settings": {name: _with_text_keys(value) for name, value in self.settings.items()},
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
    """Evaluate every declared bound on the facts of a run.

    Parameters
    ----------
    model
        The ranker that learned.
    run
        The run. A bound is omitted if it needs a fact that is neither known nor in `unknown`, or if it is only for special runs
        and this run is plain; for any other reason it is listed in `not_covered`.
    """
    loss = run.totals["loss"]
    size, counted = loss + run.size, run.totals.get("counted_weight", math.inf)
    checks, not_covered = [], {}
    declare_for(type(model))
    for known in BOUNDS.values():
        value = _value(known, model, run)
        if isinstance(value, str):
            not_covered[known.name] = value
        elif value is not None:
            verdict, says_nothing = _verdict(loss, value, size, known.in_expectation), value >= counted > 0.0
            checks.append(BoundCheck(known.name, known.statement, value, value - loss, verdict, says_nothing))
    values: dict[str, Any] = getattr(model, "_get_params", dict)()
    return Certificate(
        comparator=run.comparator,
        settings={name: value for name in values if _is_plain(value := _told(model, name))},
        totals=dict(run.totals),
        facts=dict(run.facts),
        bounds=tuple(checks),
        not_covered=not_covered,
        notes=run.notes,
    )


def _value(declared: Bound, model: Any, run: Run) -> float | str | None:
    """The value of a bound, or the reason why it does not cover the run, or None if it is irrelevant here."""
    numbers, unknown = {}, None
    for parameter, fact in declared.needs.items():
        value = run.facts.get(fact, run.totals.get(fact, _MISSING))
        if fact in run.unknown:
            unknown = f"{declared.name} {run.unknown[fact]}"
        elif value is not _MISSING:
            numbers[parameter] = value
        elif parameter not in declared.optional:
            return None
    # Not isinstance: river lets a pipeline pass for its last step.
    if not issubclass(type(model), declared.of):
        return None
    another_run = declared.misses(run.properties)
    if another_run is not None and not declared.is_plain:
        return None
    reason = declared.excludes(model) or another_run or unknown
    if reason is not None:
        return reason
    try:
        return declared.value(**numbers)
    except ValueError as error:
        return str(error)


def _verdict(loss: float, value: float, size: float, in_expectation: bool) -> str:
    """The verdict of a bound on a loss, or on the expected loss; `size` is the sum of the absolute values added up."""
    if loss <= value:
        return "holds"
    tolerance = _SLACK * max(size, value)
    # Also false for NaN.
    if not loss - value <= tolerance:
        return "exceeded by luck" if in_expectation and math.isfinite(value) else "VIOLATED"
    return "holds" if tolerance <= _NEGLIGIBLE * loss else "undecided by rounding"


def _told(model: Any, name: str) -> Any:
    """A setting as a certificate shows it: a measure of the user's own by its name."""
    value = setting(model, name)
    return own_measure(value).name if name == "measure" and is_own(value) else value


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | tuple | Mapping)


def _with_text_keys(value: Any) -> Any:
    return {str(key): item for key, item in value.items()} if isinstance(value, Mapping) else value


def _plain(value: Any) -> Any:
    """A number, or a dict of them, for JSON: None for NaN, a string for infinity."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)
