"""Certificates: a measured loss beside what the theorems allow."""

import math
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from online_rank.bounds import mass, theorems
from online_rank.measures import measure
from online_rank.rankers.perceptron import PerceptronRanker

__all__ = ["BoundCheck", "Certificate", "certify"]

#: A bound may be missed by rounding: by this part of the sizes that were added up.
_SLACK = 1e-9

#: A miss by rounding that is a larger part of the loss than this decides nothing.
_NEGLIGIBLE = 1e-6

_SETTINGS = (
    "measure", "update", "credit", "mass", "within_grade", "relative_margin", "learning_rate", "margin", "margin_scale",
    "average",
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
        sum f_t(u), its SLAM surrogate over the rounds with an update.
    settings
        The parameters of the `PerceptronRanker`.
    totals
        The `LossTracker.totals` that the bounds were computed from.
    bounds
        Every bound that covers the settings.
    not_covered
        The others, with the reason.
    """

    comparator: str
    norm: float
    pair_loss: float
    surrogate_loss: float
    settings: dict[str, Any]
    totals: dict[str, float]
    bounds: tuple[BoundCheck, ...]
    not_covered: dict[str, str]

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
        return {**content, "loss": self.loss, "holds": self.holds}

    def __str__(self) -> str:
        t = self.totals
        other = ("learning_rate", "margin", "margin_scale") if self.settings["update"] == "mistake" else ("relative_margin",)
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings.items() if name not in (*other, "average"))
        served = "not tracked" if math.isnan(t["served_loss"]) else f"{t['served_loss']:,.6g}"
        width = max((len(check.statement) for check in self.bounds), default=0)
        lines = [
            f"Certificate against {self.comparator!r}",
            f"  model                    {settings}",
            f"  queries                  {t['n_rounds']:,}: {t['n_mistakes']:,} with a loss, {t['n_skipped']:,} skipped",
            f"  cumulative loss          {self.loss:,.6g} (of the weights that learn: what the bounds speak of)",
            f"  loss of served weights   {served} (no bound speaks of it)",
            f"  comparator               F(u) {self.pair_loss:,.6g}, f(u) {self.surrogate_loss:,.6g}, norm {self.norm:,.6g}",
            f"  {'the loss is at most':<{width}}  {'bound':>12}  {'slack':>12}",
        ]
        for check in self.bounds:
            lines.append(f"  {check.statement:<{width}}  {check.value:>12,.6g}  {check.slack:>12,.6g}  {check.verdict}")
        if not self.bounds:
            lines.append("  NOTHING IS CERTIFIED: no bound covers these settings")
        lines += [
            *_not_covered(self.not_covered),
            "  Everything is measured on the features that the ranker gets, behind any transformer.",
        ]
        return "\n".join(lines)


def certify(
    model: PerceptronRanker,
    totals: Mapping[str, float],
    comparator: str,
    u: np.ndarray,
    pair_loss: float,
    surrogate_loss: float,
) -> Certificate:
    """Evaluate every bound on the totals of a model that learned from w = 0, against a comparator u and its losses."""
    # A comparator has columns for the features that were met, and so have the weights.
    w = model.weights
    norm, inner_product = float(np.linalg.norm(u)), float(u @ w)
    loss = totals["loss"]
    step = model.learning_rate if model.learning_rate is not None else 1.0
    size = loss + pair_loss + norm * float(np.linalg.norm(w)) / (step * model.margin)
    checks, not_covered = [], {}
    for candidate in _candidates(model, totals, norm, inner_product, pair_loss, surrogate_loss):
        try:
            value = candidate.function(**candidate.arguments, model=model)
        except ValueError as reason:
            not_covered[candidate.name] = str(reason)
            continue
        checks.append(BoundCheck(candidate.name, candidate.statement, value, value - loss, _verdict(loss, value, size)))
    return Certificate(
        comparator=comparator,
        norm=norm,
        pair_loss=pair_loss,
        surrogate_loss=surrogate_loss,
        settings={name: getattr(model, name) for name in _SETTINGS},
        totals=dict(totals),
        bounds=tuple(checks),
        not_covered=not_covered,
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


class _Candidate(NamedTuple):
    """A bound that may cover the model, with the numbers that it takes."""

    name: str
    statement: str
    function: Callable[..., float]
    arguments: dict[str, Any]


def _candidates(
    model: PerceptronRanker, t: Mapping[str, float], norm: float, inner_product: float, pair_loss: float, surrogate_loss: float
) -> list[_Candidate]:
    """Every bound, sharpest first within the mistake-driven and the gradient update."""
    on_pairs, on_surrogate = {"comparator_loss": pair_loss}, {"comparator_loss": surrogate_loss}
    step = {"learning_rate": model.learning_rate, "margin": model.margin}
    product = {"inner_product": inner_product}
    data = {"norm": norm, "squared_gradient_norms": t["squared_gradient_norms"]}
    closed = {"norm": norm, "R_X": t["R_X"], "largest_mass": t["largest_mass"]}
    relative = {"relative_margin": model.relative_margin}
    theory = {"norm": norm, "R_X": t["R_X"], "v_max": t["v_max"], "weight": t["largest_weight"], **step}
    candidates = [
        _Candidate("mass_hindsight_bound", "F(u) + <u, w>", mass.mass_hindsight_bound, on_pairs | product),
        _Candidate(
            "mass_data_bound",
            "F(u) + ||u|| sqrt(sum ||z||^2 + 2 tau V)",
            mass.mass_data_bound,
            on_pairs | data | {"margin_mass": t["margin_mass"]},
        ),
        _Candidate("mass_bound", "2 F(u) + (4 B + 2 beta) R_X^2 ||u||^2", mass.mass_bound, on_pairs | closed | relative),
        _Candidate(
            "any_step_hindsight_bound",
            "(F(u) + <u, w> / eta) / Delta",
            mass.any_step_hindsight_bound,
            on_pairs | product | step,
        ),
        _Candidate(
            "any_step_data_bound",
            "V with Delta V = F(u) + ||u|| sqrt(2 Delta V / eta + sum ||z||^2)",
            mass.any_step_data_bound,
            on_pairs | data | step,
        ),
        _Candidate(
            "any_step_bound",
            "2 F(u) / Delta + (4 B R_X^2 + 2 Delta / eta) ||u||^2 / Delta^2",
            mass.any_step_bound,
            on_pairs | closed | step,
        ),
        _Candidate(
            "regret_bound",
            "(f(u) + ||u||^2 / (2 eta) + eta / 2 sum ||z||^2) / Delta",
            theorems.regret_bound,
            on_surrogate | data | step,
        ),
        _Candidate("theorem_5", "Theorem 5 of [CT], with f(u)", theorems.theorem_5, on_surrogate | theory | {"m": t["m"]}),
        _Candidate(
            "corollary_7",
            "Corollary 7 of [CT], with f(u)",
            theorems.corollary_7,
            on_surrogate | theory | {"k": measure(model.measure).k},
        ),
    ]
    if model.credit in ("argmax", "spread"):
        candidates[3:3] = [
            _Candidate(
                "mass_bound_surrogate",
                "2 f(u) + (4 B + 2 beta) R_X^2 ||u||^2",
                mass.mass_bound,
                on_surrogate | closed | relative,
            )
        ]
        candidates[7:7] = [
            _Candidate(
                "any_step_bound_surrogate",
                "2 f(u) / Delta + (4 B R_X^2 + 2 Delta / eta) ||u||^2 / Delta^2",
                mass.any_step_bound,
                on_surrogate | closed | step,
            )
        ]
    return candidates
