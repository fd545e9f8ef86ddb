"""Which settings of a ranker each bound speaks of, and which numbers it takes."""

import math
from typing import Any

from online_rank._kernels.codes import KERNELS
from online_rank.measures import measure

__all__ = ["require_covered", "setting", "uncovered"]

_Settings = dict[str, tuple[Any, ...]]
_GRADIENT: _Settings = {"update": ("gradient",)}
_SUBGRADIENT: _Settings = {"update": ("gradient",), "credit": ("argmax",), "mass": ("slam",)}
_MISTAKE: _Settings = {"update": ("mistake",)}
_OWN_MISTAKE: _Settings = {"update": ("mistake",), "served": ("current",), "norm_cap": (None,)}
_UNCAPPED: _Settings = {"update": ("mistake",), "norm_cap": (None,)}
_PROJECTION: _Settings = {"kernel": KERNELS}
_CLICKS: _Settings = {"update": ("clicks",)}
_CLICKS_CLOSED: _Settings = {"update": ("clicks",), "credit": ("propensity",), "relative_margin": (0.0,)}

#: For each bound the settings that its proof needs; a setting that is not named may be anything.
_COVERS: dict[str, _Settings] = {
    "gradient_norm_bound": _SUBGRADIENT,
    "regret_bound": _SUBGRADIENT,
    "theorem_5": _SUBGRADIENT,
    "corollary_7": _SUBGRADIENT,
    "any_step_bound": _GRADIENT,
    "any_step_data_bound": _GRADIENT,
    "any_step_hindsight_bound": _GRADIENT,
    "mass_bound": _OWN_MISTAKE,
    "mass_data_bound": _OWN_MISTAKE,
    "mass_hindsight_bound": _OWN_MISTAKE,
    "running_margin_bound": _OWN_MISTAKE,
    "master_bound": {"update": ("mistake", "clicks")},
    "served_hindsight_bound": _UNCAPPED,
    "served_data_bound": _UNCAPPED,
    "served_norm_bound": _UNCAPPED,
    "averaged_bound": {"update": ("mistake",), "served": ("average",), "norm_cap": (None,)},
    "delay_bound": _UNCAPPED,
    "delay_data_bound": _UNCAPPED,
    "path_hindsight_bound": _OWN_MISTAKE,
    "path_norm_bound": _OWN_MISTAKE,
    "path_data_bound": _OWN_MISTAKE,
    "path_bound": _OWN_MISTAKE,
    "capped_bound": {"update": ("mistake",), "served": ("current",)},
    "restarts_hindsight_bound": _UNCAPPED,
    "restarts_data_bound": _OWN_MISTAKE,
    "restarts_bound": _OWN_MISTAKE,
    "mixing_hindsight_bound": _UNCAPPED,
    "mixing_data_bound": _OWN_MISTAKE,
    "mixing_bound": _OWN_MISTAKE,
    "truncation_bound": _OWN_MISTAKE,
    "projection_bound": _PROJECTION,
    "projection_data_bound": _PROJECTION,
    "projection_hindsight_bound": _PROJECTION,
    "click_bound": _CLICKS_CLOSED,
    "click_data_bound": _CLICKS,
    "click_hindsight_bound": _CLICKS,
}

#: What a ranker without such a setting does.
_DEFAULTS = {"served": "current", "norm_cap": None}


def setting(model: Any, name: str) -> Any:
    """What a ranker learns by: a setting, or where that is None what goes with the others (`PerceptronRanker.in_force`)."""
    in_force = getattr(model, "in_force", {})
    return in_force[name] if name in in_force else getattr(model, name, _DEFAULTS.get(name))


def uncovered(bound: str, model: Any) -> str | None:
    """Why `bound` does not speak of `model`, or None when it does.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> uncovered("mass_bound", PerceptronRanker()) is None
    True
    >>> uncovered("theorem_5", PerceptronRanker())
    "theorem_5 speaks of update='gradient', but the model has update='mistake'"
    """
    model = getattr(model, "learner", model)
    for name, allowed in _COVERS[bound].items():
        value = setting(model, name)
        if value not in allowed:
            wanted = " or ".join(f"{name}={option!r}" for option in allowed)
            has = f"the model has {name}={value!r}" if hasattr(model, name) else f"{type(model).__name__} has no {name}"
            return f"{bound} speaks of {wanted}, but {has}"
    if bound == "corollary_7" and not measure(model.measure).k:
        return f"{bound} speaks of a measure with a cutoff, but the model has measure={model.measure!r}"
    if bound == "projection_bound" and not model.budget_lasts:
        return f"{bound} speaks of a budget that lasts, but {model.largest_projection:.3g} of a mass was lost in one projection"
    return None


def require_covered(bound: str, model: Any) -> None:
    """Raise ValueError when `bound` does not speak of `model`; None is taken on trust."""
    reason = None if model is None else uncovered(bound, model)
    if reason is not None:
        raise ValueError(reason)


def require_positive(**values: float) -> None:
    """Raise ValueError that names the first value that is not a finite number > 0."""
    for name, value in values.items():
        if not 0.0 < value < math.inf:
            raise ValueError(f"{name} is {value}; it must be a finite number > 0")


def require_finite(**values: float) -> None:
    """Raise ValueError that names the first value that is not a finite number."""
    for name, value in values.items():
        if not math.isfinite(value):
            raise ValueError(f"{name} is {value}; it must be a finite number")


def square(x: float) -> float:
    """x^2; infinite where it is too large for a number."""
    return x * x


def require_non_negative(**values: float) -> None:
    """Raise ValueError that names the first value that is not a number >= 0."""
    for name, value in values.items():
        if not value >= 0.0:
            raise ValueError(f"{name} is {value}; it must be a number >= 0")
