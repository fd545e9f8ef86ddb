"""The lines of a certificate.

Each line is a function decorated with `_line`; text, pages and JSON are made from these functions.
"""

import math
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

from online_rank.bounds.declaration import BOUNDS


class Row(NamedTuple):
    """A line of a certificate.

    Attributes
    ----------
    part
        `"run"`: a measurement; `"bound"`: an upper bound on the loss; `"not covered"`: a bound that does not cover the run;
        `"note"`: an explanation.
    name
        The key in JSON; for a bound the name of its function.
    label
        A description in words, or the statement of a bound.
    value
        The number; None for a row without one.
    text
        The text printed next to the label.
    verdict
        The verdict of a bound (`BoundCheck.verdict`), and whether it says anything.
    """

    part: str
    name: str
    label: str
    value: Any
    text: str
    verdict: str = ""


_Line = Callable[[Any], tuple[Any, str] | None]

#: Every line: its key, its label, and the function that gives value and text.
_LINES: list[tuple[str, str, _Line]] = []

#: Most characters of the statement of a bound on a line.
_WIDEST_LABEL = 84

#: The symbols of the facts that bounds take, as their statements have them; Q, N, and what a comparator loses are elsewhere.
_SYMBOLS = {
    "inner_product": "<u, w>", "gain_product": "<u, w - w_1>", "weight_norm": "||w||", "beginning_norm": "||w_1||",
    "beginning_product": "<u, w_1>", "distance": "||u - w_1||", "largest_norm": "U", "path_length": "P",
    "path_product": "sum <u_t - u_t-1, w_t>", "rounded": "rho", "projection_error": "sum ||e_t||", "tolerance": "epsilon",
    "squares": "Q", "R_X": "R_X", "largest_mass": "B", "relative_margin": "beta", "learning_rate": "alpha", "margin": "mu",
    "cap": "kappa", "half_life": "h", "delay": "D", "n_machines": "K", "m": "m", "k": "k", "v_max": "v_max",
    "largest_weight": "omega", "best_loss": "L", "prior_cost": "c", "step": "eta_T", "mixability_gap": "Delta",
    "serving_gap": "G", "rate": "eta", "variance": "W", "budget": "b", "luck": "luck",
}  # fmt: skip
_OF_COMPARATOR = {"comparator_loss": "F(u)", "comparator_norm": "||u||"}

#: Settings that are not printed if they have this value, or never printed (`...`).
_UNSAID = {"served": "current", "margin": 1.0, "margin_scale": "constant", "half_life": 1000, "seed": ...}


def rows_of(certificate: Any) -> list[Row]:
    """The lines of a `Certificate`."""
    rows = []
    for name, label, line in _LINES:
        if (said := line(certificate)) is not None:
            rows.append(Row("run", name, label, *said))
    for check in certificate.bounds:
        verdict = check.verdict + (", says nothing" if check.says_nothing else "")
        rows.append(Row("bound", check.name, check.statement, check.value, f"{check.value:,.6g}", verdict))
    for reason, names in _by_reason(certificate.not_covered).items():
        rows.append(Row("not covered", "not_covered", ", ".join(names), None, reason))
    rows += [Row("note", "note", "", None, note) for note in certificate.notes]
    return rows


def printed(certificate: Any) -> str:
    """The lines of a `Certificate` as text."""
    rows = certificate.rows()
    measured, bounds = ([row for row in rows if row.part == part] for part in ("run", "bound"))
    against = "" if certificate.comparator is None else f" against {certificate.comparator!r}"
    width = max((len(row.label) for row in measured), default=0)
    lines = [f"Certificate{against}"]
    for row in measured:
        indent = " " * (width + 4)
        lines.append(textwrap.fill(row.text, 128, initial_indent=f"  {row.label:<{width}}  ", subsequent_indent=indent))
    if bounds:
        width = min(max(len(row.label) for row in bounds), _WIDEST_LABEL)
        lines.append(f"  {'the loss is at most':<{width}}  {'bound':>12}  {'slack':>12}")
        for row in bounds:
            first, *more = textwrap.wrap(row.label, width)
            lines.append(f"  {first:<{width}}  {row.text:>12}  {row.value - certificate.loss:>12,.6g}  {row.verdict}")
            lines += [f"    {line}" for line in more]
    elif certificate.comparator is not None or not measured:
        lines.append("  NOTHING IS CERTIFIED: no bound covers these settings")
    for row in rows:
        if row.part in ("not covered", "note"):
            text = f"not covered: {row.label} ({row.text})" if row.part == "not covered" else row.text
            lines.append(textwrap.fill(text, 128, initial_indent="  ", subsequent_indent="    ", break_long_words=False))
    return "\n".join(lines)


def _by_reason(reasons: dict[str, str]) -> dict[str, list[str]]:
    """The bounds that do not cover the run, grouped by reason."""
    groups: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        groups.setdefault(reason.removeprefix(f"{name} "), []).append(name)
    return groups


def _line(name: str, label: str) -> Callable[[_Line], _Line]:
    """Declare a line: a function of the certificate that returns value and text, or None if the line does not apply."""

    def declare(line: _Line) -> _Line:
        _LINES.append((name, label, line))
        return line

    return declare


@_line("model", "model")
def _model(c: Any) -> tuple[Any, str] | None:
    shown = {n: v for n, v in c.settings.items() if v is not None and _UNSAID.get(n) not in (v, ...)}
    return None, ", ".join(f"{name}={value!r}" for name, value in shown.items())


@_line("n_rounds", "queries")
def _queries(c: Any) -> tuple[Any, str] | None:
    t = c.totals
    if "n_queries" in t:
        return t["n_queries"], f"{t['n_queries']:,}: {t['n_counted']:,} that can be ranked wrongly"
    return t["n_rounds"], f"{t['n_rounds']:,}: {t['n_mistakes']:,} with a loss, {t['n_skipped']:,} skipped"


@_line("loss", "cumulative loss")
def _loss(c: Any) -> tuple[Any, str] | None:
    return None if c.facts.get("estimated") else (c.loss, _of_what(c))


@_line("estimated_cost", "estimated cost")
def _estimate(c: Any) -> tuple[Any, str] | None:
    return (c.loss, _of_what(c)) if c.facts.get("estimated") else None


def _of_what(c: Any) -> str:
    return f"{c.loss:,.6g} ({c.facts.get('loss_of', 'of the weights that learn')}: limited by the bounds)"


@_line("served_loss", "loss of served rankings")
def _served(c: Any) -> tuple[Any, str] | None:
    served = c.totals.get("served_loss")
    if served is None or served == c.loss or c.facts.get("estimated"):
        return None
    return served, "not measured" if math.isnan(served) else f"{served:,.6g} (no bound covers it)"


@_line("mass", "mass V")
def _mass(c: Any) -> tuple[Any, str] | None:
    mass = c.totals.get("mass")
    if mass is None:
        return None
    return mass, f"{mass:,.6g} (total weight of the updates; no bound of the mass theorem is below it)"


@_line("comparator_loss", "comparator")
def _comparator(c: Any) -> tuple[Any, str] | None:
    if c.comparator is None:
        return None
    surrogate = "" if math.isnan(c.surrogate_loss) else f"f(u) {c.surrogate_loss:,.6g}, "
    return c.pair_loss, f"F(u) {c.pair_loss:,.6g}, {surrogate}norm {c.norm:,.6g}"


@_line("difference", "its rankings")
def _difference(c: Any) -> tuple[Any, str] | None:
    difference = c.facts.get("difference")
    if difference is None or not difference.n:
        return None
    return difference.mean, f"lose more than the served ones, a query, by {difference}"


@_line("mean_hinge", "F(u) / V")
def _mean_hinge(c: Any) -> tuple[Any, str] | None:
    if c.comparator is None or not c.totals.get("mass") or not c.facts.get("unit_margin"):
        return None
    ratio = c.pair_loss / c.totals["mass"]
    return ratio, f"{ratio:.4g}" + (", no better than zero weights on these pairs" if ratio >= 1.0 else "")


@_line("margin_limit", "without a comparator")
def _limits(c: Any) -> tuple[Any, str] | None:
    mass, weight_norm = c.totals.get("mass"), c.facts.get("weight_norm")
    if not mass or weight_norm is None or not c.facts.get("unit_margin"):
        return None
    limit = weight_norm / mass
    text = (
        f"no weights of norm U{_with_signs(c)} have a mean hinge below 1 - {limit:.4g} U on these pairs, "
        f"none a margin above {limit:.4g}"
    )
    return limit, text


def _with_signs(c: Any) -> str:
    """The words for the weights that a run with signs speaks of."""
    return " with these signs" if c.facts.get("signs") else ""


@_line("duality_gap", "duality gap")
def _gap(c: Any) -> tuple[Any, str] | None:
    mass, weight_norm = c.totals.get("mass"), c.facts.get("weight_norm")
    if c.comparator is None or not mass or weight_norm is None or not c.facts.get("unit_margin"):
        return None
    gap = max(0.0, c.pair_loss + c.norm * weight_norm - mass)
    return gap, f"{gap:,.6g}: no weights of this norm{_with_signs(c)} have a smaller F by more"


@_line("best_blend", "best fixed blend")
def _best_blend(c: Any) -> tuple[Any, str] | None:
    if "best_blend" not in c.facts:
        return None
    given = [(weight, name) for weight, name in zip(c.facts["best_blend"], c.facts["members"], strict=True) if weight]
    alone = len(given) == 1 and given[0][0] == 1.0
    of = given[0][1] if alone else " + ".join(f"{weight:g} {name}" for weight, name in given)
    return c.facts["least_loss"], f"L* = {c.facts['least_loss']:,.6g}, of N = {c.facts['n_candidates']}: {of}"


@_line("regret", "regret")
def _regret(c: Any) -> tuple[Any, str] | None:
    if "best_blend" not in c.facts or "blend_bound" in c.not_covered:
        return None
    regret, limit = c.loss - c.facts["least_loss"], c.bound("blend_bound") - c.facts["least_loss"]
    return regret, f"{regret:,.4g}: the loss less L*; the first bound allows {limit:,.4g}"


@_line("best_member", "best ranker alone")
def _best_member(c: Any) -> tuple[Any, str] | None:
    if "best_member" not in c.facts:
        return None
    number, loss = c.facts["best_member"]
    return loss, f"{loss:,.6g}, {c.facts['members'][number]}"


@_line("favoured", "favoured by the prior")
def _favoured(c: Any) -> tuple[Any, str] | None:
    if "favoured" not in c.facts:
        return None
    number, loss, limit = c.facts["favoured"]
    silent = ", which says nothing yet" if limit >= c.totals["counted_weight"] else ""
    return limit, f"{c.facts['members'][number]} lost {loss:,.6g}, so the loss is at most {limit:,.6g}{silent}"


@_line("terms", "terms of the bounds")
def _terms(c: Any) -> tuple[Any, str] | None:
    known = {**c.totals, **c.facts}
    needed = {fact for check in c.bounds for fact in BOUNDS[check.name].needs.values() if fact in known}
    symbols = _SYMBOLS if c.comparator is not None else _OF_COMPARATOR | _SYMBOLS
    terms = {symbol: float(known[fact]) for fact, symbol in symbols.items() if fact in needed}
    if "margin_mass" in needed:
        terms["Q"] = float(known["squared_gradient_norms"]) + 2.0 * float(known["margin_mass"])
    elif "squared_gradient_norms" in needed:
        terms["sum ||z||^2"] = float(known["squared_gradient_norms"])
    return (terms, ", ".join(f"{symbol} = {value:.7g}" for symbol, value in terms.items())) if terms else None


@_line("n_drawn", "draws")
def _draws(c: Any) -> tuple[Any, str] | None:
    drawn = c.totals.get("n_drawn")
    return None if drawn is None else (drawn, f"{drawn:,} queries were ranked by a drawn candidate")
