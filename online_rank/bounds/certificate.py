"""Certificates: a measured loss beside what the theorems allow."""

import math
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from online_rank.bounds.candidates import Run, candidates
from online_rank.bounds.coverage import setting
from online_rank.rankers.click_perceptron import ClickPerceptron
from online_rank.rankers.perceptron import PerceptronRanker

__all__ = ["BoundCheck", "Certificate", "certify"]

#: A bound may be missed by rounding: by this part of the sizes that were added up.
_SLACK = 1e-9

#: A miss by rounding that is a larger part of the loss than this decides nothing.
_NEGLIGIBLE = 1e-6

_SETTINGS = (
    "measure", "update", "credit", "mass", "within_grade", "relative_margin", "learning_rate", "margin", "margin_scale",
    "cost", "examination", "average", "served", "norm_cap",
)  # fmt: skip


class BoundCheck(NamedTuple):
    """A bound that covers the model's settings, and whether the loss obeys it.

    Attributes
    ----------
    name
        The function of `online_rank.bounds`; `_surrogate` is added where its comparator loss is sum f_t(u) in place of F(u).
    statement
        The bound in words and symbols.
    value
        What the loss is at most.
    slack
        `value` less the loss.
    verdict
        `"holds"`: the loss is at most `value`, up to rounding. `"VIOLATED"`: it is more, or one of them is not a number.
        `"undecided by rounding"`: it is more, by less than the rounding errors of what was added up may amount to.
    """

    name: str
    statement: str
    value: float
    slack: float
    verdict: str

    @property
    def holds(self) -> bool:
        """Whether the loss is at most `value`, up to rounding."""
        return self.verdict == "holds"


@dataclass(frozen=True)
class Certificate:
    """On this stream, against this comparator, the loss was `loss`, and each bound says at most so much.

    Prints as a table.

    Attributes
    ----------
    comparator
        Name of the comparator u.
    norm
        Its l2 norm, over the features that were met.
    pair_loss
        F(u), its loss on the pairs of the updates.
    surrogate_loss
        sum f_t(u), its SLAM surrogate over the rounds with an update; NaN for clicks.
    settings
        The parameters of the `PerceptronRanker` or `ClickPerceptron`.
    totals
        The `LossTracker.totals` that the bounds were computed from.
    bounds
        Every bound that covers the settings.
    not_covered
        The others, with the reason.
    raw
        Whether the comparator is one of raw features, which moves behind a scaler that moves.
    """

    comparator: str
    norm: float
    pair_loss: float
    surrogate_loss: float
    settings: dict[str, Any]
    totals: dict[str, float]
    bounds: tuple[BoundCheck, ...]
    not_covered: dict[str, str]
    raw: bool = False

    @property
    def loss(self) -> float:
        """Cumulative loss of the weights that learn, which the bounds speak of."""
        return self.totals["loss"]

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

    def to_dict(self) -> dict[str, Any]:
        """Everything as dicts, lists, strings and numbers, ready for JSON."""
        content = asdict(self)
        content["bounds"] = [{**check._asdict(), "holds": check.holds} for check in self.bounds]
        if math.isnan(content["totals"]["served_loss"]):
            content["totals"]["served_loss"] = None
        if math.isnan(content["surrogate_loss"]):
            content["surrogate_loss"] = None
        return {**content, "loss": self.loss, "holds": self.holds}

    def __str__(self) -> str:
        t = self.totals
        other = ("relative_margin",) if self.settings["update"] == "gradient" else ("learning_rate", "margin", "margin_scale")
        plain = {"served": "current", "norm_cap": None}
        shown = {name: value for name, value in self.settings.items() if plain.get(name, "") != value}
        settings = ", ".join(f"{name}={value!r}" for name, value in shown.items() if name not in (*other, "average"))
        served = "not tracked" if math.isnan(t["served_loss"]) else f"{t['served_loss']:,.6g}"
        speaks = any(check.name.startswith(("served", "averaged", "delay")) for check in self.bounds)
        of_what = "of what was served" if speaks else "of the weights that learn"
        surrogate = "" if math.isnan(self.surrogate_loss) else f"f(u) {self.surrogate_loss:,.6g}, "
        width = max((len(check.statement) for check in self.bounds), default=0)
        lines = [
            f"Certificate against {self.comparator!r}",
            f"  model                    {settings}",
            f"  queries                  {t['n_rounds']:,}: {t['n_mistakes']:,} with a loss, {t['n_skipped']:,} skipped",
            f"  cumulative loss          {self.loss:,.6g} ({of_what}: what the bounds speak of)",
            *([] if speaks else [f"  loss of what was served  {served} (no bound speaks of it)"]),
            f"  comparator               F(u) {self.pair_loss:,.6g}, {surrogate}norm {self.norm:,.6g}",
            f"  {'the loss is at most':<{width}}  {'bound':>12}  {'slack':>12}",
        ]
        for check in self.bounds:
            lines.append(f"  {check.statement:<{width}}  {check.value:>12,.6g}  {check.slack:>12,.6g}  {check.verdict}")
        if not self.bounds:
            lines.append("  NOTHING IS CERTIFIED: no bound covers these settings")
        lines += [
            *_not_covered(self.not_covered),
            "  The comparator's weights are those of raw features; its norm is that behind the scaler."
            if self.raw
            else "  Everything is measured on the features that the ranker gets, behind any transformer.",
        ]
        return "\n".join(lines)


def certify(model: PerceptronRanker | ClickPerceptron, comparator: str, run: Run) -> Certificate:
    """Evaluate every bound on what a tracker knows of a run that began at w = 0."""
    loss = run.totals["loss"]
    # By what F(u) and <u, w> are divided, at most.
    unit = (getattr(model, "learning_rate", None) or 1.0) * getattr(model, "margin", 1.0)
    size = loss + run.pair_loss + run.norm * float(np.linalg.norm(run.gains)) / unit + abs(run.path_product)
    checks, not_covered = [], {}
    for candidate in candidates(model, run):
        if candidate.reason is not None:
            not_covered[candidate.name] = candidate.reason
            continue
        try:
            value = candidate.function(**candidate.arguments, model=model)
        except ValueError as reason:
            not_covered[candidate.name] = str(reason)
            continue
        checks.append(BoundCheck(candidate.name, candidate.statement, value, value - loss, _verdict(loss, value, size)))
    return Certificate(
        comparator=comparator,
        norm=run.norm,
        pair_loss=run.pair_loss,
        surrogate_loss=run.surrogate_loss,
        settings={name: setting(model, name) for name in _SETTINGS if hasattr(model, name)},
        totals=dict(run.totals),
        bounds=tuple(checks),
        not_covered=not_covered,
        raw=run.raw,
    )


def _verdict(loss: float, value: float, size: float) -> str:
    """What a bound says of a loss, where `size` is what was added up."""
    if loss <= value:
        return "holds"
    tolerance = _SLACK * max(size, value)
    # Also false for NaN.
    if not loss - value <= tolerance:
        return "VIOLATED"
    return "holds" if tolerance <= _NEGLIGIBLE * loss else "undecided by rounding"


def _not_covered(reasons: Mapping[str, str]) -> list[str]:
    """Lines that name the bounds that do not speak of the model, those with the same reason together."""
    groups: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        groups.setdefault(reason.removeprefix(f"{name.removesuffix('_surrogate')} "), []).append(name)
    lines = [f"  not covered: {', '.join(names)} ({reason})" for reason, names in groups.items()]
    return [textwrap.fill(line, 128, subsequent_indent="    ", break_long_words=False) for line in lines]
