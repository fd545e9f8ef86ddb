"""What a log of clicks decides, and what to do next with it: the last lines of `train --clicks`."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from online_rank.cli.held_out import HeldOut
from online_rank.intervals import PairedLosses

#: The least examination that a click is divided by.
_LEAST_LOOKED_AT = 0.05
#: Where more lists than this would decide, the difference is too small to find.
_MOST_LISTS = 10_000_000
_NEIGHBOURS = (
    "show some lists with neighbours in random order (FairPairs keeps .908 of the DCG), and log the probability of each "
    "document at its position: train --clicks place then needs no estimate of positions, and compare --clicks place decides"
)


def after_moved(held: HeldOut, examination: Sequence[float], judged: tuple[int, int] | None) -> list[str]:
    """The next steps after a log of lists that were not drawn.

    `judged` is how many pairs of a text and a document have enough clicks for a grade, and the number of all pairs; None if
    documents did not move.
    """
    share, error, votes = votes_of(held, examination)
    lists = lists_for(share, votes) if share - 2.0 * error > 0.5 else None
    if lists is None:
        return [f"next: held-out clicks do not say that the model is better than the displayed ranking. {_NEIGHBOURS}"]
    lines = [
        f"next: compare on live traffic (serve MODEL --from-today FIELD). A decision takes about {lists:,} lists that both "
        f"rankings draft, if users look at positions as above: {share:.0%} of {votes:.2f} votes a list would be for the model"
    ]
    if judged is None:
        return [*lines, f"or {_NEIGHBOURS}"]
    enough, pairs = judged
    if 2 * enough > pairs:
        return [*lines, f"grades can judge {enough:,} of {pairs:,} pairs of a text and a document: test models on them offline"]
    return lines


def after_drawn(logged: Any, value: Any) -> list[str]:
    """The next step after a log of lists that were drawn, by the gain of the first document as shown and of the model."""
    shown, model, n = logged.interval(0.975), value.interval(0.975), logged.n
    lead = model.mean - shown.mean
    if model.lower > shown.upper:
        return ["next: serve the model (serve MODEL --from-today FIELD keeps comparing)"]
    if model.upper < shown.lower:
        return ["next: do not serve the model: it is worse than the logged ranking. Give it more lists or features"]
    if lead <= 0.0:
        return [
            "next: nothing in this log says that the model is better. Give it more lists or features, or compare on live "
            "traffic (serve MODEL --from-today FIELD)"
        ]
    # Widths of intervals shrink with the root of the number of lists.
    widths = 0.5 * (shown.upper - shown.lower + model.upper - model.lower)
    lists = math.ceil(n * (widths / lead) ** 2)
    if lists > _MOST_LISTS:
        return [
            "next: the difference is too small to find in such lists. Compare on live traffic (serve MODEL --from-today FIELD)"
        ]
    return [
        f"next: if the difference is {lead:+.4f}, as measured, about {lists - n:,} more lists like these decide; or compare on "
        "live traffic (serve MODEL --from-today FIELD)"
    ]


def votes_of(held: HeldOut, examination: Sequence[float]) -> tuple[float, float, float]:
    """The share of votes that the model would get with its standard error, and votes a list, if both rankings drafted lists.

    A click on a drafted list is a vote for the ranking that has its document higher. A held-out click on a document at position
    p stands for 1 / theta_p users whom the document attracts; in a draft it is about where the better one of both ranks puts
    it.
    """
    theta, votes, won, squares = np.maximum(np.asarray(examination, dtype=np.float64), _LEAST_LOOKED_AT), 0.0, 0.0, 0.0
    for scores, places, gains in held.lists:
        ranks, shown = np.argsort(np.argsort(-scores, kind="stable")), np.argsort(np.argsort(places))
        drafted = np.minimum(places, np.sort(places)[ranks])
        weights = theta[np.minimum(drafted, len(theta) - 1)] / theta[np.minimum(places, len(theta) - 1)]
        weights = weights * ((gains > 0.0) & (ranks != shown))
        votes += float(weights.sum())
        squares += float((weights**2).sum())
        won += float(weights[ranks < shown].sum())
    if not votes:
        return 0.5, 0.0, 0.0
    return won / votes, 0.5 * math.sqrt(squares) / votes, votes / max(1, held.n_lists)


def lists_for(share: float, votes: float) -> int | None:
    """How many drafted lists it takes to know at 95 % that the model is better.

    Its share of the votes and the number of votes a list are given. None if the share says that it is not better, or hardly.

    Examples
    --------
    >>> lists_for(0.7, 0.25), lists_for(0.5, 0.25)
    (312, None)
    """
    if share <= 0.5 or votes <= 0.0:
        return None
    left = PairedLosses(["model", "shown"], sums=[[1.0, share, share * (1.0 - share)]]).n_left("model", "shown")
    lists = None if left is None else math.ceil((1 + left) / votes)
    return None if lists is None or lists > _MOST_LISTS else lists


def against(old: Any, new: Any, what: str, rival: str) -> str:
    """Whether what is new is known to earn more than what is old, or less, in words; `old` and `new` have intervals."""
    if old is None or new is None:
        return f"this log cannot tell whether {what} beats {rival}: its lists were not drawn. Compare them on live traffic"
    a, b = old.interval(0.975), new.interval(0.975)
    told = f"{b.lower:.4f} to {b.upper:.4f} against {a.lower:.4f} to {a.upper:.4f}, at 95 % together"
    if b.lower > a.upper:
        return f"{what} beats {rival}: {told}"
    if b.upper < a.lower:
        return f"{what} is WORSE than {rival}: {told}"
    return f"this log cannot tell whether {what} beats {rival}: {told}"
