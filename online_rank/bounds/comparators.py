"""Checks of the rankers and comparators of a `LossTracker`, and the losses of comparators on a round."""

import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from online_rank._kernels.click_perceptron import compare_on_clicks
from online_rank._kernels.perceptron import compare
from online_rank.base import Ranker, Round, steps_of
from online_rank.bounds.declaration import declare_for
from online_rank.measures.learned import discounts
from online_rank.query import Block
from online_rank.query.names import names_in_nfc, plain_names
from online_rank.rankers.additive import AdditiveRanker
from online_rank.rankers.blend import BlendRanker
from online_rank.rankers.click_perceptron import ClickPerceptron
from online_rank.rankers.inside import as_learned, clicks_of, kernel_state
from online_rank.rankers.perceptron import PerceptronRanker
from online_rank.rankers.signs import against_signs, signs_inside

#: Largest norm of a comparator: its square, and its scores of documents that a ranker accepts, stay finite.
_LARGEST_NORM = 1e150


class Covered(NamedTuple):
    """What a tracker needs to know of a class of rankers that learn from pairs.

    Attributes
    ----------
    losses
        Adds the losses of n comparators on one round: called with the ranker, the query, the (m,) scores that decided the
        update, the round, the (n, m) scores by the comparators, and the (n, 2) sums of F(u) and f_t(u).
    unit
        Given a ranker, by what its bounds divide F(u) and <u, w>; None if its pairs have a margin of 1.
    """

    losses: Callable[[Any, Block, np.ndarray, Round, np.ndarray, np.ndarray], None]
    unit: Callable[[Any], float] | None = None


#: By class. What declares the bounds of another class adds it (`online_rank.support.registry.BOUNDS`).
COVERED: dict[type, Covered] = {}

#: Classes whose losses are measured although no bound covers them; a module of `online_rank.support.registry.BOUNDS` adds them.
MEASURED: set[type] = set()


def covered(ranker: Any) -> Covered | None:
    """What is known of a ranker's class, or of the class that it extends; None if no bound covers it."""
    kind = _kind(ranker)
    return None if kind is None else COVERED[kind]


def _kind(ranker: Any) -> type | None:
    # Not isinstance: river lets a pipeline pass for its last step.
    declare_for(type(ranker))
    return next((kind for kind in type(ranker).__mro__ if kind in COVERED), None)


def is_only_measured(ranker: Any) -> bool:
    """Whether the losses of a ranker are measured, though no bound covers it: a ranker of a user's own, or one of gradients."""
    declare_for(type(ranker))
    own = getattr(type(ranker), "learn", Ranker.learn) is not Ranker.learn
    return own or not MEASURED.isdisjoint(type(ranker).__mro__)


def blends(ranker: Any) -> bool:
    """Whether a ranker is a blend, which keeps its own account for certificates."""
    return issubclass(type(ranker), AdditiveRanker | BlendRanker)


def require_perceptron(ranker: Any) -> None:
    """Raise TypeError unless the bounds cover what `ranker` learns, or it is only measured."""
    if blends(ranker) or is_only_measured(ranker):
        return
    kind: Any = _kind(ranker)
    if kind is None:
        transformers = "; transformers go before it: scaler | LossTracker(ranker)" if steps_of(ranker) != [ranker] else ""
        raise TypeError(f"ranker is of type {type(ranker).__name__}; a LossTracker holds a PerceptronRanker{transformers}")
    if type(ranker)._learn is not kind._learn:
        raise TypeError(f"ranker is a {type(ranker).__name__}, which learns in its own way: no bound covers it")


def outside_the_signs(learner: Any, features: tuple[Hashable, ...], u: np.ndarray) -> str | None:
    """The feature, weight and sign by which a comparator has another sign than a ranker; None if it has none such."""
    for signs in signs_inside(learner):
        if (wrong := against_signs(signs, features, u)) is not None:
            return f"{wrong[0]!r} has weight {wrong[1]:g}, but sign {signs[wrong[0]]} in the ranker"
    return None


def _losses_on_grades(
    ranker: Any, query: Block, decisive: np.ndarray, learned: Round, scores: np.ndarray, losses: np.ndarray
) -> None:
    table, (config, _, _, counters) = discounts(query.n_documents), kernel_state(ranker)
    met = as_learned(ranker, query, decisive, learned.margin)
    if met.shares is not None:
        decisive, scores = met.query.served, scores @ met.shares.T
    compare(met.query.y, decisive, float(met.query.w[0]), learned.margin, scores, table, config, counters, losses)


def _losses_on_clicks(
    ranker: Any, query: Block, decisive: np.ndarray, learned: Round, scores: np.ndarray, losses: np.ndarray
) -> None:
    found = np.zeros(len(scores))
    by_discount, table = ranker.cost == "dcg", discounts(query.n_documents)
    shown = clicks_of(ranker, query)
    compare_on_clicks(shown, by_discount, table, decisive, learned.margin, learned.weight, scores, found)
    losses[:, 0] = found


COVERED |= {PerceptronRanker: Covered(_losses_on_grades), ClickPerceptron: Covered(_losses_on_clicks)}


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
