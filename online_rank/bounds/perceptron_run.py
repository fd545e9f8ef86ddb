"""The run of a `LossTracker` around a perceptron, in the form that bounds take."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from online_rank.base.anatomy import learned_measure
from online_rank.base.reader import own_names
from online_rank.bounds.certificate import Run
from online_rank.bounds.comparators import covered, outside_the_signs
from online_rank.bounds.declaration import setting
from online_rank.measures.own import OwnMeasure
from online_rank.rankers.click_perceptron import ClickPerceptron
from online_rank.rankers.signs import signs_inside

_MOVING_FEATURES = (
    "covers scores by the weights that learn on exactly the features of the update, but transformers that learn precede "
    "the ranker"
)
_NO_SURROGATE = "covers measures of the library, whose losses a surrogate bounds, but the model learns for a user's measure"


def run_of_perceptron(tracker: Any, comparator: str | None, delay: int | None) -> Run:
    """The run of a tracker so far, against one of its comparators or none."""
    model, totals = tracker.learner, tracker.totals._asdict()
    machines = tracker._machines if tracker._mixed_at == tracker._totals[0] or not tracker._machines else -1
    row = None if comparator is None else tracker._row(comparator)
    # Machines with different scaler states have different comparators behind the scaler.
    moved = row is not None and (tracker._path[row, 0] > 0.0 or (tracker.raw and machines != 0))
    properties = {
        "comparator": "none" if row is None else "moved" if moved else "fixed",
        "beginning": "zero" if tracker._beginning is None else "given",
        "scores": "served" if tracker._n_served or setting(model, "served") == "average" else "own",
        "machines": "one" if not machines else "several" if machines > 0 else "uneven",
    }
    facts, unknown = _facts_of_model(tracker, model, totals), {}
    facts["loss_of"], facts["estimated"] = _what_the_loss_is_of(tracker, model, totals), tracker.abilities.takes_clicks
    if machines > 0:
        facts["n_machines"] = machines
    if delay is not None:
        facts["delay"] = delay
        if tracker._n_moved:
            unknown["delay"] = _MOVING_FEATURES
    if setting(model, "served") == "average" and not tracker._n_served and model.half_life is not None:
        facts["half_life"] = float(model.half_life)
    size = 0.0
    if row is not None:
        size = _add_facts_of_comparator(facts, unknown, tracker, row, model, totals)
        if tracker.measure_served and comparator is not None:
            facts["difference"] = tracker.paired(comparator).difference("the ranker", comparator)
        if (wrong := outside_the_signs(tracker.learner, own_names(tracker), tracker._aligned[row])) is not None:
            reason = f"covers comparators with the signs of the ranker, and {wrong}"
            unknown |= dict.fromkeys(("comparator_loss", "surrogate_loss", "norm"), reason)
    return Run(properties, totals, facts, unknown, size, comparator, (_note(tracker),))


def _facts_of_model(tracker: Any, model: Any, totals: dict[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {"Q": totals["squared_gradient_norms"] + 2.0 * totals["margin_mass"]}
    for name in ("learning_rate", "margin", "relative_margin"):
        facts[name] = setting(model, name)
    if (cap := setting(model, "norm_cap")) is not None:
        facts["cap"] = cap
    facts["weight_norm"] = float(np.linalg.norm(tracker._gains()))
    facts["signs"] = bool(signs_inside(tracker.learner))
    facts["unit_margin"] = _unit_of(model) is None
    if not isinstance(model, ClickPerceptron):
        facts["k"] = learned_measure(model).k
    return facts


def _unit_of(model: Any) -> Callable[[Any], float] | None:
    found = covered(model)
    return None if found is None else found.unit


def _add_facts_of_comparator(
    facts: dict[str, Any], unknown: dict[str, str], tracker: Any, row: int, model: Any, totals: dict[str, Any]
) -> float:
    """Add the facts about a comparator. Returns the sum of the absolute values that were added up."""
    u, gains = tracker._aligned[row] * tracker._scaled_by, tracker._gains()
    norm, product = float(np.linalg.norm(u)), float(u @ gains)
    pair_loss, surrogate_loss = tracker._sums[row].tolist()
    path_length, path_product, largest = tracker._path[row].tolist()
    facts |= {
        "comparator_loss": pair_loss,
        "surrogate_loss": math.nan if tracker.abilities.takes_clicks else surrogate_loss,
        "norm": norm,
        "inner_product": product,
        "gain_product": product - path_product,
        "path_length": path_length,
        "path_product": path_product,
        "largest_norm": max(largest, norm),
    }
    begun_with = np.zeros(len(u)) if tracker._beginning is None else tracker._beginning
    if isinstance(learned_measure(model), OwnMeasure):
        facts["surrogate_loss"], unknown["surrogate_loss"] = math.nan, _NO_SURROGATE
    facts["beginning_norm"] = float(np.linalg.norm(begun_with))
    facts["beginning_product"] = float(u @ begun_with)
    facts["distance"] = float(np.linalg.norm(u - begun_with))
    # Largest divisor of F(u) and <u, w>.
    unit = _unit_of(model)
    weights = (float(np.linalg.norm(gains)) + facts["beginning_norm"]) / (1.0 if unit is None else unit(model))
    # The score of a pair has a rounding error proportional to ||u|| R_X, and pairs of total weight V are added up.
    return pair_loss + norm * (weights + totals["R_X"] * totals["mass"]) + abs(path_product)


def _what_the_loss_is_of(tracker: Any, model: Any, totals: dict[str, Any]) -> str:
    """A description of the rankings whose loss is bounded."""
    if tracker.abilities.takes_clicks:
        return "of the weights that learn, from the documents that were shown"
    if tracker._n_served == totals["n_rounds"] > 0:
        return "of the scores given as served"
    if tracker._n_as_served == totals["n_rounds"]:
        return "of the served rankings"
    if tracker._n_served:
        return f"of the scores that decided the updates, {tracker._n_served:,} of them given as served"
    if setting(model, "served") == "average":
        return "of the averaged weights on the features that were learned"
    return "of the weights that learn"


def _note(tracker: Any) -> str:
    if tracker.raw:
        return "The comparator's weights are for raw features; its norm is measured behind the scaler."
    return "Everything is measured on the features that the ranker gets, behind any transformer."
