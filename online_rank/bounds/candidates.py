"""Which bounds a certificate evaluates, and the numbers that each takes."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from online_rank.bounds import clicks, drift, mass, mixing, served, theorems
from online_rank.bounds.coverage import setting
from online_rank.measures import measure

__all__ = ["Candidate", "Run", "candidates"]


class Run(NamedTuple):
    """What a tracker knows of a run against one comparator.

    Attributes
    ----------
    totals
        The `LossTracker.totals`.
    u
        The comparator (d,), the last one where it was moved.
    gains
        (d,): the sum of what all rounds added to the weights that learn; the weights themselves where these began at 0 and were
        never replaced.
    pair_loss, surrogate_loss
        F(u) and sum f_t(u), which is NaN for clicks.
    path_length, path_product, largest_norm
        P, the sum of <u_t - u_{t-1}, w_t>, and the largest norm of a comparator.
    n_served
        Number of rounds learned from scores that were given as served.
    delay
        The largest delay, where it is known.
    segments
        Number of rankers that learned one after the other, each from w = 0, and the sum of the square roots of their Q; None
        where one ranker learned throughout.
    raw
        Whether u was given on raw features.
    machines
        Where the weights were mixed from those of several machines: their number, or -1 where it was not always the same or the
        machines did not count alike. 0 for one machine.
    """

    totals: Mapping[str, float]
    u: np.ndarray
    gains: np.ndarray
    pair_loss: float
    surrogate_loss: float
    path_length: float = 0.0
    path_product: float = 0.0
    largest_norm: float = 0.0
    n_served: int = 0
    delay: int | None = None
    segments: tuple[int, float] | None = None
    raw: bool = False
    machines: int = 0

    @property
    def norm(self) -> float:
        """The l2 norm of u."""
        return float(np.linalg.norm(self.u))

    @property
    def inner_product(self) -> float:
        """<u, sum of the gains>."""
        return float(self.u @ self.gains)


class Candidate(NamedTuple):
    """A bound that may cover the model, with the numbers that it takes, or the reason why it does not cover the run."""

    name: str
    statement: str
    function: Callable[..., float]
    arguments: dict[str, Any]
    reason: str | None = None


def candidates(model: Any, run: Run) -> list[Candidate]:
    """Every bound, sharpest first within its kind."""
    if model.update == "clicks":
        return list(_clicks(run))
    if run.machines:
        own = list(_mixed(model, run))
    elif run.segments is not None:
        own = list(_restarts(model, run))
    elif run.path_length > 0.0:
        own = list(_path(model, run))
    elif model.norm_cap is not None:
        own = [_capped(run)]
    elif run.n_served or model.served == "average":
        own = list(_served(model, run))
    else:
        return _classic(model, run)
    why = _why_not_classic(model, run)
    others = [candidate for candidate in _classic(model, run) if candidate.name.startswith("mass")]
    return own + [other._replace(reason=f"{other.name.removesuffix('_surrogate')} {why}") for other in others]


def _beta(model: Any, t: Mapping[str, float]) -> float:
    """A beta with tau_t <= beta R_X^2: the margin is `relative_margin` times sum ||z||^2 / sum V, at most 4 B R_X^2."""
    return 4.0 * t["largest_mass"] * setting(model, "relative_margin")


def _why_not_classic(model: Any, run: Run) -> str:
    if run.machines:
        of = f"those of {run.machines}" if run.machines > 0 else "those of several, not always the same number or alike"
        return f"speaks of one machine, but the weights were mixed from {of}"
    if run.segments is not None:
        return "speaks of one ranker that learned throughout, but rankers followed one another"
    if run.path_length > 0.0:
        return "speaks of one comparator, but it was moved"
    if model.norm_cap is not None:
        return f"speaks of norm_cap=None, but the model has norm_cap={model.norm_cap}"
    return "speaks of learning from its own scores, but it was learned from those that were served"


def _clicks(run: Run) -> Iterator[Candidate]:
    t, loss = run.totals, {"comparator_loss": run.pair_loss}
    if run.path_length > 0.0:
        yield Candidate(
            "master_bound", "F + <u_T, w> - sum <u_t - u_t-1, w_t>", served.master_bound,
            {**loss, "inner_product": run.inner_product, "path_product": run.path_product},
        )  # fmt: skip
        return
    yield Candidate(
        "click_hindsight_bound", "F(u) + <u, w>", clicks.click_hindsight_bound, {**loss, "inner_product": run.inner_product}
    )
    yield Candidate(
        "click_data_bound", "F(u) + ||u|| sqrt(sum ||z||^2 + 2 tau V)", clicks.click_data_bound,
        {**loss, "norm": run.norm, "squared_gradient_norms": t["squared_gradient_norms"] + 2.0 * t["margin_mass"]},
    )  # fmt: skip
    yield Candidate(
        "click_bound", "2 F(u) + 4 B R_X^2 ||u||^2", clicks.click_bound,
        {**loss, "norm": run.norm, "R_X": t["R_X"], "largest_mass": t["largest_mass"]},
    )  # fmt: skip


def _restarts(model: Any, run: Run) -> Iterator[Candidate]:
    t, (n, roots) = run.totals, run.segments or (1, math.nan)
    if run.path_length > 0.0:
        yield Candidate(
            "master_bound", "F + <u_T, gains> - sum <u_t - u_t-1, gains_t>", served.master_bound,
            {"comparator_loss": run.pair_loss, "inner_product": run.inner_product, "path_product": run.path_product},
        )  # fmt: skip
        return
    yield Candidate(
        "restarts_hindsight_bound", "F(u) + <u, sum of all gains>", drift.restarts_hindsight_bound,
        {"comparator_loss": run.pair_loss, "inner_product": run.inner_product},
    )  # fmt: skip
    # A ranker that had learned before it served has weights that no Q of its rounds here accounts for.
    if math.isfinite(roots) and not run.n_served:
        yield Candidate(
            "restarts_data_bound", "F(u) + ||u|| sum of sqrt(Q_k)", drift.restarts_data_bound,
            {"comparator_loss": run.pair_loss, "norms": [run.norm], "squared_gradient_norms": [roots * roots]},
        )  # fmt: skip
        yield Candidate(
            "restarts_bound", "2 F(u) + (4 B + 8 B beta) R_X^2 K ||u||^2", drift.restarts_bound,
            {"comparator_loss": run.pair_loss, "norms": [run.norm * math.sqrt(n)], "R_X": t["R_X"],
             "largest_mass": t["largest_mass"], "relative_margin": _beta(model, t)},
        )  # fmt: skip


def _mixed(model: Any, run: Run) -> Iterator[Candidate]:
    t, loss = run.totals, {"comparator_loss": run.pair_loss}
    moved = run.path_length > 0.0
    yield Candidate(
        "mixing_hindsight_bound", "F + sum of <u_t, gain_t>" if moved else "F(u) + <u, sum of all gains>",
        mixing.mixing_hindsight_bound, loss | {"inner_product": run.inner_product - run.path_product},
    )  # fmt: skip
    if run.machines < 0 or moved or run.n_served:
        return
    loss |= {"norm": run.norm, "penalty": run.machines}
    yield Candidate(
        "mixing_data_bound", "F(u) + ||u|| sqrt(K Q)", mixing.mixing_data_bound,
        loss | {"squared_gradient_norms": t["squared_gradient_norms"], "margin_mass": t["margin_mass"]},
    )  # fmt: skip
    yield Candidate(
        "mixing_bound", "2 F(u) + K (4 B + 8 B beta) R_X^2 ||u||^2", mixing.mixing_bound,
        loss | {"R_X": t["R_X"], "largest_mass": t["largest_mass"], "relative_margin": _beta(model, t)},
    )  # fmt: skip


def _path(model: Any, run: Run) -> Iterator[Candidate]:
    t, moved = run.totals, {"comparator_loss": run.pair_loss, "path_length": run.path_length}
    product = {"inner_product": run.inner_product, "path_product": run.path_product}
    data = {"squared_gradient_norms": t["squared_gradient_norms"], "margin_mass": t["margin_mass"]}
    exact = "F + <u_T, w> - sum <u_t - u_t-1, w_t>"
    if model.norm_cap is not None:
        yield _capped(run)
        return
    if run.n_served or model.served == "average":
        # The master inequality asks nothing of the pairs.
        yield Candidate("master_bound", exact, served.master_bound, {"comparator_loss": run.pair_loss, **product})
        return
    yield Candidate("path_hindsight_bound", exact, drift.path_hindsight_bound, {"comparator_loss": run.pair_loss, **product})
    yield Candidate("path_data_bound", "F + (||u_T|| + P) sqrt(Q)", drift.path_data_bound, {**moved, "norm": run.norm, **data})
    closed = {"R_X": t["R_X"], "largest_mass": t["largest_mass"], "relative_margin": _beta(model, t)}
    yield Candidate(
        "path_bound", "2 F + (4 B + 8 B beta) R_X^2 (||u_T|| + P)^2", drift.path_bound, {**moved, "norm": run.norm, **closed}
    )


def _capped(run: Run) -> Candidate:
    t = run.totals
    # The scores that were served bound nothing of the weights that the cap is for.
    reason = "capped_bound speaks of learning from its own scores, but it was learned from those that were served"
    return Candidate(
        "capped_bound", "F + sqrt(Q) (kappa P + U / kappa)", _capped_by_model,
        {"comparator_loss": run.pair_loss, "largest_norm": max(run.largest_norm, run.norm), "path_length": run.path_length,
         "squared_gradient_norms": t["squared_gradient_norms"], "margin_mass": t["margin_mass"]},
        reason if run.n_served else None,
    )  # fmt: skip


def _capped_by_model(*, model: Any, **numbers: float) -> float:
    return drift.capped_bound(cap=model.norm_cap, model=model, **numbers)


def _served(model: Any, run: Run) -> Iterator[Candidate]:
    t = run.totals
    loss = {"comparator_loss": run.pair_loss}
    closed = {
        **loss, "norm": run.norm, "R_X": t["R_X"], "largest_mass": t["largest_mass"], "relative_margin": _beta(model, t),
    }  # fmt: skip
    yield Candidate(
        "served_hindsight_bound", "F(u) + <u, w>", served.served_hindsight_bound, {**loss, "inner_product": run.inner_product}
    )
    yield Candidate(
        "served_norm_bound", "F(u) + ||u|| ||w||", served.served_norm_bound,
        {**loss, "norm": run.norm, "weight_norm": float(np.linalg.norm(run.gains))},
    )  # fmt: skip
    if run.n_served and run.delay is not None:
        yield Candidate(
            "delay_bound",
            "2 F(u) + (4 B (1 + 2 D) + 8 B beta) R_X^2 ||u||^2",
            served.delay_bound,
            {**closed, "delay": run.delay},
        )
    if not run.n_served and not isinstance(model.average, bool):
        yield Candidate(
            "averaged_bound", "2 F(u) + (4 B (1 + 2 rho / (1 - rho)) + 8 B beta) R_X^2 ||u||^2", served.averaged_bound,
            {**closed, "half_life": float(model.average)},
        )  # fmt: skip


def _classic(model: Any, run: Run) -> list[Candidate]:
    """The bounds of one ranker that learned from its own mistakes, against one comparator."""
    t, norm = run.totals, run.norm
    on_pairs, on_surrogate = {"comparator_loss": run.pair_loss}, {"comparator_loss": run.surrogate_loss}
    step = {"learning_rate": model.learning_rate, "margin": model.margin}
    product = {"inner_product": run.inner_product}
    data = {"norm": norm, "squared_gradient_norms": t["squared_gradient_norms"]}
    closed = {"norm": norm, "R_X": t["R_X"], "largest_mass": t["largest_mass"]}
    relative = {"relative_margin": _beta(model, t)}
    theory = {"norm": norm, "R_X": t["R_X"], "v_max": t["v_max"], "weight": t["largest_weight"], **step}
    candidates = [
        Candidate("mass_hindsight_bound", "F(u) + <u, w>", mass.mass_hindsight_bound, on_pairs | product),
        Candidate(
            "mass_data_bound",
            "F(u) + ||u|| sqrt(sum ||z||^2 + 2 tau V)",
            mass.mass_data_bound,
            on_pairs | data | {"margin_mass": t["margin_mass"]},
        ),
        Candidate("mass_bound", "2 F(u) + (4 B + 8 B beta) R_X^2 ||u||^2", mass.mass_bound, on_pairs | closed | relative),
        Candidate(
            "any_step_hindsight_bound",
            "(F(u) + <u, w> / eta) / Delta",
            mass.any_step_hindsight_bound,
            on_pairs | product | step,
        ),
        Candidate(
            "any_step_data_bound",
            "V with Delta V = F(u) + ||u|| sqrt(2 Delta V / eta + sum ||z||^2)",
            mass.any_step_data_bound,
            on_pairs | data | step,
        ),
        Candidate(
            "any_step_bound",
            "2 F(u) / Delta + (4 B R_X^2 + 2 Delta / eta) ||u||^2 / Delta^2",
            mass.any_step_bound,
            on_pairs | closed | step,
        ),
        Candidate(
            "regret_bound",
            "(f(u) + ||u||^2 / (2 eta) + eta / 2 sum ||z||^2) / Delta",
            theorems.regret_bound,
            on_surrogate | data | step,
        ),
        Candidate("theorem_5", "Theorem 5 of [CT], with f(u)", theorems.theorem_5, on_surrogate | theory | {"m": t["m"]}),
        Candidate(
            "corollary_7",
            "Corollary 7 of [CT], with f(u)",
            theorems.corollary_7,
            on_surrogate | theory | {"k": measure(model.measure).k},
        ),
    ]
    if model.credit in ("argmax", "spread"):
        candidates[3:3] = [
            Candidate(
                "mass_bound_surrogate",
                "2 f(u) + (4 B + 8 B beta) R_X^2 ||u||^2",
                mass.mass_bound,
                on_surrogate | closed | relative,
            )
        ]
        candidates[7:7] = [
            Candidate(
                "any_step_bound_surrogate",
                "2 f(u) / Delta + (4 B R_X^2 + 2 Delta / eta) ||u||^2 / Delta^2",
                mass.any_step_bound,
                on_surrogate | closed | step,
            )
        ]
    return candidates
