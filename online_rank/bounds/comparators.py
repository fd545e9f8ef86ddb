"""Checks of the rankers and comparators of a `LossTracker`, and the losses of comparators on clicks."""

import math
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from online_rank._kernels.click_perceptron import compare_on_clicks
from online_rank.base import Ranker, Round, steps_of
from online_rank.measures.learned import discounts
from online_rank.query import Block
from online_rank.query.names import names_in_nfc, plain_names
from online_rank.rankers.additive import AdditiveRanker
from online_rank.rankers.blend import BlendRanker
from online_rank.rankers.click_perceptron import ClickPerceptron
from online_rank.rankers.gradient import GradientRanker
from online_rank.rankers.inside import clicks_of
from online_rank.rankers.perceptron import PerceptronRanker
from online_rank.rankers.signs import against_signs, signs_inside
from online_rank.rankers.slam import SlamRanker

#: Largest norm of a comparator: its square, and its scores of documents that a ranker accepts, stay finite.
_LARGEST_NORM = 1e150


def is_only_measured(ranker: Any) -> bool:
    """Whether the losses of a ranker are measured, though no bound covers it: a ranker of a user's own, or one of gradients."""
    return issubclass(type(ranker), GradientRanker) or getattr(type(ranker), "learn", Ranker.learn) is not Ranker.learn


def blends(ranker: Any) -> bool:
    """Whether a ranker is a blend, which keeps its own account for certificates."""
    return issubclass(type(ranker), AdditiveRanker | BlendRanker)


def require_perceptron(ranker: Any) -> None:
    """Raise TypeError unless the bounds cover what `ranker` learns, or it is only measured."""
    if blends(ranker) or is_only_measured(ranker):
        return
    # Not isinstance: river lets a pipeline pass for its last step.
    if not issubclass(type(ranker), PerceptronRanker | SlamRanker | ClickPerceptron):
        transformers = "; transformers go before it: scaler | LossTracker(ranker)" if steps_of(ranker) != [ranker] else ""
        raise TypeError(f"ranker is of type {type(ranker).__name__}; a LossTracker holds a PerceptronRanker{transformers}")
    if type(ranker)._learn not in (PerceptronRanker._learn, SlamRanker._learn, ClickPerceptron._learn):
        raise TypeError(f"ranker is a {type(ranker).__name__}, which learns in its own way: no bound covers it")


def outside_the_signs(learner: Any, features: tuple[Hashable, ...], u: np.ndarray) -> str | None:
    """The feature, weight and sign by which a comparator has another sign than a ranker; None if it has none such."""
    for signs in signs_inside(learner):
        if (wrong := against_signs(signs, features, u)) is not None:
            return f"{wrong[0]!r} has weight {wrong[1]:g}, but sign {signs[wrong[0]]} in the ranker"
    return None


def losses_on_clicks(
    ranker: ClickPerceptron, query: Block, decisive: np.ndarray, learned: Round, scores: np.ndarray
) -> np.ndarray:
    """F(u) of comparators, (n,), on the pairs that a round of clicks learned from.

    Parameters
    ----------
    ranker
        The ranker; only its settings are read.
    query
        The query, with its clicks.
    decisive
        (m,) scores by the weights that learn, before the update.
    learned
        The round.
    scores
        (n, m) scores by the comparators.
    """
    losses = np.zeros(len(scores))
    by_discount, table = ranker.cost == "dcg", discounts(query.n_documents)
    shown = clicks_of(ranker, query)
    compare_on_clicks(shown, by_discount, table, decisive, learned.margin, learned.weight, scores, losses)
    return losses


def extend_path(row: np.ndarray, before: np.ndarray, after: np.ndarray, weights: np.ndarray) -> None:
    """Add a comparator's move to its P, sum of <u_t - u_{t-1}, w_t>, and largest norm."""
    step = after - before
    row[0] += np.linalg.norm(step)
    row[1] += step @ weights
    row[2] = max(row[2], np.linalg.norm(before), np.linalg.norm(after))


def copied(name: Hashable, u: Any) -> Any:
    """A private copy of a comparator. Raises TypeError or ValueError if it, or its name, is not valid."""
    if type(name) is not str:  # Files hold no other names of them.
        raise TypeError(f"comparators has the name {name!r:.60} of type {type(name).__name__}; names are of type str")
    values = np.array(list(u.values()) if isinstance(u, Mapping) else u)
    if values.ndim != 1 or (values.size and values.dtype.kind not in "biuf"):
        raise TypeError(f"comparators[{name!r}] must be a vector of numbers or a dict {{feature: weight}}")
    if not math.hypot(*values.tolist()) <= _LARGEST_NORM:
        raise ValueError(f"comparators[{name!r}] has weights that are not finite, or a norm above {_LARGEST_NORM:g}")
    if not isinstance(u, Mapping):
        return values
    where = f"comparators[{name!r}]"
    return dict(zip(plain_names(names_in_nfc(u, where), where), u.values(), strict=True))
