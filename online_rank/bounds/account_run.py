"""The run of a ranker that keeps an account of its losses, in the form that bounds take."""

import math
from typing import Any

import numpy as np

from online_rank.base import ranker_of
from online_rank.bounds.certificate import Run
from online_rank.bounds.comparators import blends
from online_rank.bounds.declaration import PLAIN
from online_rank.bounds.nested import Candidates, nested
from online_rank.rankers.additive import AdditiveRanker
from online_rank.rankers.blend import BlendRanker
from online_rank.rankers.growing_trees import MIXTURES as OF_TREES
from online_rank.rankers.hedge import BUDGET
from online_rank.rankers.inside import learns_as_it_answers
from online_rank.rankers.words import MIXTURES as OF_WORDS

_ONE_BLEND = "covers one blend, and what stands next to the curves is blended with curves that are a blend themselves"
#: The names of the members of the blends around the curves: with trees, and with words.
MIXED, WITH_WORDS = ("curves", "averages of leaves", "leaves"), ("without words", "words")
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
    account, losses, prior, step = blend.account, blend.candidate_losses, blend.candidate_prior, blend.step
    loss, of = account.served, "of the served rankings"
    if not math.isnan(served_loss) and not blend.fades:
        loss = served_loss
    elif moved or not learns_as_it_answers(blend):
        of = "of the blend's rankings on the features that were learned, or of those given as served"
    costs = -np.log(np.where(prior > 0.0, prior, 1.0))
    prices = np.where(prior > 0.0, costs / step if step > 0.0 else 0.0, np.inf)
    every, unknown = Candidates(losses, prices, blend.candidates, names_of_members(blend)), dict[str, str]()
    alone = np.flatnonzero((blend.candidates == 1.0).any(axis=1))
    member = int(alone[np.argmin(losses[alone])])
    facts: dict[str, Any] = {
        "loss_of": of, "rate": blend.rate, "variance": account.variance, "budget": BUDGET,
        "best_member": (int(np.argmax(blend.candidates[member])), float(losses[member])),
    }  # fmt: skip
    totals: dict[str, Any] = {
        "n_queries": blend.n_queries,
        "n_counted": int(account.n_counted),
        "counted_weight": account.counted_weight,
    }
    if blend.prior is not None and step > 0.0:
        favoured = int(alone[np.argmax(prior[alone])])
        limit = float(losses[favoured] + prices[favoured]) + account.mixability_gap + loss - account.mixed
        facts["favoured"] = int(np.argmax(blend.candidates[favoured])), float(losses[favoured]), limit
    if isinstance(blend, AdditiveRanker):
        for outer, weights, names in ((blend.trees_beside, OF_TREES, MIXED), (blend.words_beside, OF_WORDS, WITH_WORDS)):
            if outer is not None:
                every, account, step = nested(every, account, outer, weights, names), outer.account, outer.step
                loss = account.served if math.isnan(served_loss) else served_loss
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
    best, least = int(np.argmin(every.losses + every.prices)), int(np.argmin(every.losses))
    # Blends at rate 0 have no step, and no others inside.
    cost = every.prices[best] * step if step > 0.0 else costs[best]
    totals |= {"loss": loss, "n_drawn": int(account.n_drawn)}
    facts |= {
        "best_loss": float(every.losses[best]), "prior_cost": float(cost), "step": step,
        "mixability_gap": account.mixability_gap, "serving_gap": loss - account.mixed, "luck": account.luck,
        "least_loss": float(every.losses[least]), "n_candidates": len(every.losses),
        "best_blend": tuple(every.weights[least].tolist()), "members": every.members,
    }  # fmt: skip
    notes = (_DISCOUNTED, _LATE) if blend.fades else (_LATE,)
    return Run(_ALONE, totals, facts, unknown, size=account.mixed + float(losses.max()), notes=notes)


def names_of_members(blend: BlendRanker | AdditiveRanker) -> tuple[str, ...]:
    """Names of the members of a blend: as a ranker of curves has them, or classes of rankers, with numbers if they repeat."""
    if isinstance(blend, AdditiveRanker):
        return blend.members
    kinds = [type(ranker_of(one)).__name__ for one in blend.learners]
    return tuple(kind if kinds.count(kind) == 1 else f"{kind} {number}" for number, kind in enumerate(kinds, 1))
