"""The run of a ranker that keeps an account of its losses, in the form that bounds take."""

import math
from typing import Any

import numpy as np

from online_rank.base import ranker_of
from online_rank.bounds.certificate import Run
from online_rank.bounds.comparators import blends
from online_rank.bounds.declaration import PLAIN
from online_rank.rankers.additive import AdditiveRanker
from online_rank.rankers.blend import BlendRanker
from online_rank.rankers.growing_trees import MIXTURES, HedgeOfTrees
from online_rank.rankers.hedge import BUDGET, HedgeAccount
from online_rank.rankers.inside import learns_as_it_answers
from online_rank.rankers.words import HedgeOfWords

_ONE_BLEND = "covers one blend, and what stands next to the curves is blended with curves that are a blend themselves"
#: The names of the members of the outer blend of curves and trees.
MIXED = ("curves", "averages of leaves", "leaves")
_ALONE = PLAIN | {"comparator": "none"}
_DISCOUNTED = "All losses are discounted with the half-life of the model."
_LATE = (
    "The served rankings are those just before each query is learned; if grades are late, learn_one needs served=. "
    "Candidates are measured by the scores of the inner rankers when grades arrive."
)


def keeps_account(ranker: Any) -> bool:
    """Whether a ranker keeps an account, which allows a certificate without a comparator: sparse rows have none."""
    return blends(ranker) and getattr(ranker, "has_curves", True)


def run_of_account(blend: BlendRanker | AdditiveRanker, served_loss: float = math.nan, *, moved: bool) -> Run:
    """The run of a `BlendRanker` or `AdditiveRanker` so far.

    Parameters
    ----------
    blend
        The ranker.
    served_loss
        The cumulative loss of the answers of a pipeline around it on the same queries, if measured.
    moved
        Whether transformers before it may have learned from each query before it did.
    """
    account, losses, prior = blend.account, blend.candidate_losses, blend.candidate_prior
    loss, of = account.served, "of the served rankings"
    if not math.isnan(served_loss) and not blend.fades:
        loss = served_loss
    elif moved or not learns_as_it_answers(blend):
        of = "of the blend's rankings on the features that were learned, or of those given as served"
    possible = prior > 0.0
    costs = -np.log(np.where(possible, prior, 1.0))
    step = blend.step
    totals_by_candidate = np.where(possible, losses + (costs / step if step > 0.0 else 0.0), np.inf)
    best, least = int(np.argmin(totals_by_candidate)), int(np.argmin(losses))
    alone = np.flatnonzero((blend.candidates == 1.0).any(axis=1))
    member = int(alone[np.argmin(losses[alone])])
    totals = {
        "loss": loss, "n_queries": blend.n_queries, "n_counted": int(account.n_counted), "n_drawn": int(account.n_drawn),
        "counted_weight": account.counted_weight,
    }  # fmt: skip
    facts: dict[str, Any] = {
        "loss_of": of,
        "best_loss": float(losses[best]),
        "prior_cost": float(costs[best]),
        "step": step,
        "mixability_gap": account.mixability_gap,
        "serving_gap": loss - account.mixed,
        "least_loss": float(losses[least]),
        "n_candidates": len(losses),
        "rate": blend.rate,
        "variance": account.variance,
        "luck": account.luck,
        "budget": BUDGET,
        "best_blend": tuple(blend.candidates[least].tolist()),
        "best_member": (int(np.argmax(blend.candidates[member])), float(losses[member])),
        "members": names_of_members(blend),
    }
    if blend.prior is not None and step > 0.0:
        favoured = int(alone[np.argmax(prior[alone])])
        limit = float(totals_by_candidate[favoured]) + account.mixability_gap + facts["serving_gap"]
        facts["favoured"] = int(np.argmax(blend.candidates[favoured])), float(losses[favoured]), limit
    unknown: dict[str, str] = {}
    if isinstance(blend, AdditiveRanker):
        if (trees := blend.trees_beside) is not None:
            facts |= _with_trees(blend, trees, served_loss)
            totals["loss"] = loss = facts["serving_gap"] + trees.account.mixed
            totals["n_drawn"] = int(trees.account.n_drawn)
            account = trees.account
            unknown["variance"] = _ONE_BLEND
        if (words := blend.words_beside) is not None:
            facts |= _with_words(facts, words, account, served_loss)
            totals["loss"] = loss = facts["serving_gap"] + words.account.mixed
            totals["n_drawn"] = int(words.account.n_drawn)
            account = words.account
            unknown["variance"] = _ONE_BLEND
        if blend.n_mixed:
            unknown |= dict.fromkeys(("step", "variance"), "covers one machine, and this one mixes what several learned")
        if not (blend.n_served or blend.n_mixed):
            # The norm of the last weights is at most the root of the squares.
            totals["mass"] = blend.mass
            facts |= {"weight_norm": math.sqrt(blend.squares), "signs": bool(blend.signs), "unit_margin": True}
    if account.largest_weight > 1.0:
        unknown["rate"] = "covers sample weights of at most 1"
    if loss != account.served:
        unknown["variance"] = "covers blends that are served on the features that are learned"
    notes = (_DISCOUNTED, _LATE) if blend.fades else (_LATE,)
    return Run(_ALONE, totals, facts, unknown, size=account.mixed + float(losses.max()), notes=notes)


def _with_trees(blend: AdditiveRanker, trees: HedgeOfTrees, served_loss: float) -> dict[str, Any]:
    """What changes if trees are blended with the curves, which are one of the candidates then.

    The served loss is at most L(c) + ln(1 / pi_c) / eta + Delta + G for each candidate c of the outer blend; and the loss of
    the curves alone is at most the same of each of their candidates, with their own eta, Delta and G. So against a candidate
    of the curves the cost of the prior, as a fact, is eta times all that both blends may lose by it.
    """
    account, step, own_step = trees.account, trees.step, blend.step
    own, own_costs, costs = blend.candidate_losses, -np.log(blend.candidate_prior), -np.log(trees.prior)
    inner = blend.account.mixability_gap + float(trees.losses[0]) - blend.account.mixed
    prices = np.concatenate([own_costs / own_step + inner + costs[0] / step, costs[1:] / step])
    losses = np.concatenate([own, trees.losses[1:]])
    best, least = int(np.argmin(losses + prices)), int(np.argmin(losses))
    loss = account.served if math.isnan(served_loss) else served_loss
    return {
        "best_loss": float(losses[best]),
        "prior_cost": float(prices[best] * step),
        "step": step,
        "mixability_gap": account.mixability_gap,
        "serving_gap": loss - account.mixed,
        "least_loss": float(losses[least]),
        "n_candidates": len(losses),
        "luck": account.luck,
        "best_blend": _weights_with_trees(blend, least),
        "members": (*blend.members, *MIXED),
    }


def _with_words(facts: dict[str, Any], words: HedgeOfWords, inner: HedgeAccount, served_loss: float) -> dict[str, Any]:
    """What changes if words are blended with curves and trees, whose blend is one of the candidates then (`_with_trees`)."""
    account, step, costs = words.account, words.step, -np.log(words.prior)
    # What is next to the words loses at most so much more than its own candidates.
    gap = facts["mixability_gap"] + float(words.losses[0]) - inner.mixed
    within = facts["prior_cost"] / facts["step"] if facts["step"] > 0.0 else 0.0
    prices = np.array([within + gap + costs[0] / step, *(costs[1:] / step)])
    losses = np.array([facts["best_loss"], *words.losses[1:]])
    best, loss = int(np.argmin(losses + prices)), account.served if math.isnan(served_loss) else served_loss
    least = int(np.argmin(np.array([facts["least_loss"], *words.losses[1:]])))
    weights = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])[least]
    own = facts["best_blend"]
    return {
        "best_loss": float(losses[best]),
        "prior_cost": float(prices[best] * step),
        "step": step,
        "mixability_gap": account.mixability_gap,
        "serving_gap": loss - account.mixed,
        "least_loss": min(facts["least_loss"], float(words.losses[1:].min())),
        "n_candidates": facts["n_candidates"] + 2,
        "luck": account.luck,
        "best_blend": (*own, 0.0, 0.0) if not least else (*[0.0] * len(own), *weights.tolist()),
        "members": (*facts["members"], "without words", "words"),
    }


def names_of_members(blend: BlendRanker | AdditiveRanker) -> tuple[str, ...]:
    """Names of the members of a blend: as a ranker of curves has them, or classes of rankers, with numbers if they repeat."""
    if isinstance(blend, AdditiveRanker):
        return blend.members
    kinds = [type(ranker_of(one)).__name__ for one in blend.learners]
    return tuple(kind if kinds.count(kind) == 1 else f"{kind} {number}" for number, kind in enumerate(kinds, 1))


def _weights_with_trees(blend: AdditiveRanker, number: int) -> tuple[float, ...]:
    """The weights of a candidate: of the members of the curves, of the curves as served, of averages of leaves, of leaves."""
    own = blend.candidates
    if number < len(own):
        return (*own[number].tolist(), 0.0, 0.0, 0.0)
    return (*[0.0] * own.shape[1], *MIXTURES[1 + number - len(own)].tolist())
