"""The clicks of a block of queries as arrays, for kernels."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank._kernels.codes import ALL_PAIRS, PLACKETT_LUCE
from online_rank.feedback.impressions import Clicks

__all__ = ["ShownBlock", "as_clicks", "grades_as_shown", "shown_block"]


class ShownBlock(NamedTuple):
    """What was shown of q queries, and what was done with it; the documents shown of all queries stand one after the other.

    Attributes
    ----------
    rows
        int64, the number of each document within its query.
    starts
        (q + 1,) int64, where the documents of a query begin and end.
    gains, logits
        float64, one a document.
    rests
        (q,) float64, logsumexp of the logits not shown; -inf where all were shown.
    kinds
        (q,) int64, how the pairs are weighted: PLACKETT_LUCE, ALL_PAIRS, or the position of FairPairs' first pair.
    """

    rows: np.ndarray
    starts: np.ndarray
    gains: np.ndarray
    logits: np.ndarray
    rests: np.ndarray
    kinds: np.ndarray


def as_clicks(y: Any, n_queries: int) -> tuple[Clicks, ...] | None:
    """The clicks of a block, one a query: `y` is `Clicks` for a single query, or a sequence of them; None for anything else.

    Raises
    ------
    ValueError
        There is not one a query.
    """
    if isinstance(y, Clicks):
        clicks: tuple[Clicks, ...] = (y,)
    elif isinstance(y, list | tuple) and y and all(isinstance(each, Clicks) for each in y):
        clicks = tuple(y)
    else:
        return None
    if len(clicks) != n_queries:
        raise ValueError(f"y has the clicks of {len(clicks)} queries, but the block has {n_queries}")
    return clicks


def shown_block(
    clicks: Sequence[Clicks], ids: Sequence[Hashable] | None, offsets: np.ndarray, drawn: bool = True
) -> ShownBlock:
    """Find the documents shown among those of the queries.

    Parameters
    ----------
    clicks
        One a query.
    ids
        Ids of all documents of the block; None when they are known by their position in the query.
    offsets
        (q + 1,) where the queries begin and end.
    drawn
        Whether impressions must say how they were drawn.

    Raises
    ------
    ValueError
        A document that was shown is not in its query, or an impression does not say how it was drawn.
    """
    rows: list[int] = []
    gains: list[float] = []
    logits: list[float] = []
    starts, rests, kinds = [0], [], []
    for each, first, stop in zip(clicks, offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        shown = each.impression
        rows += _rows(shown.order, None if ids is None else ids[first:stop], stop - first)
        starts.append(len(rows))
        gains += each.gains
        if shown.logits is not None:
            logits += shown.logits
            kinds.append(PLACKETT_LUCE)
        elif shown.pairs_from is not None or not drawn:
            logits += [0.0] * len(shown.order)
            kinds.append(shown.pairs_from or 0)
        else:
            raise ValueError(
                "y: the impression has no logits, and a ranking that was not drawn at random says nothing about the order of its "
                "documents: show rankings by show_one of a ranker with a policy, and keep the Impression until the clicks come"
            )
        rests.append(-np.inf if shown.rest is None else shown.rest)
    return ShownBlock(
        np.array(rows, np.int64),
        np.array(starts),
        np.array(gains),
        np.array(logits),
        np.array(rests),
        np.array(kinds, np.int64),
    )


def grades_as_shown(grades: np.ndarray, offsets: np.ndarray) -> ShownBlock:
    """Grades as the gains of documents that were all seen, in no particular order."""
    n_queries = len(offsets) - 1
    rows = np.arange(len(grades)) - np.repeat(offsets[:-1], np.diff(offsets))
    gains = grades.astype(np.float64)
    return ShownBlock(rows, offsets, gains, np.zeros(len(gains)), np.zeros(n_queries), np.full(n_queries, ALL_PAIRS))


def _rows(order: tuple[Hashable, ...], ids: Sequence[Hashable] | None, m: int) -> Sequence[int]:
    """The numbers of the documents shown within their query of `m` documents."""
    if ids is None:
        for document in order:
            if not isinstance(document, int | np.integer) or isinstance(document, bool) or not 0 <= document < m:
                raise ValueError(f"y: document {document!r} was shown, but x has the documents 0 to {m - 1}")
        return order  # type: ignore[return-value]
    numbers = {document: i for i, document in enumerate(ids)}
    try:
        return [numbers[document] for document in order]
    except KeyError as error:
        raise ValueError(f"y: document {error.args[0]!r} was shown, but it is not in x") from None
