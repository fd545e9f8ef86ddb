"""The clicks of a block of queries as arrays, for kernels."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from online_rank._kernels.codes import ALL_PAIRS, PLACKETT_LUCE
from online_rank.query import Block

__all__ = ["ShownBlock", "shown_block"]


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


def shown_block(block: Block, drawn: bool = True) -> ShownBlock:
    """What was shown of the queries of a block, and what was done with it.

    Grades are the gains of documents that were all seen, in no particular order.

    Parameters
    ----------
    block
        Queries with clicks or grades.
    drawn
        Whether impressions must say how they were drawn.

    Raises
    ------
    ValueError
        A document that was shown is not in its query, or an impression does not say how it was drawn.
    """
    if not isinstance(block.y, tuple):
        return _graded(block.y, block.offsets)
    ids = None if isinstance(block.ids, range) else block.ids
    rows: list[int] = []
    gains: list[float] = []
    logits: list[float] = []
    starts, rests, kinds = [0], [], []
    for each, first, stop in zip(block.y, block.offsets[:-1].tolist(), block.offsets[1:].tolist(), strict=True):
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
                "y: the impression has no logits, and a ranking that was not drawn at random says nothing about the order of "
                "its documents: show rankings by show_one of a ranker with a policy, and keep the Impression until clicks come"
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


def _graded(grades: np.ndarray, offsets: np.ndarray) -> ShownBlock:
    n_queries = len(offsets) - 1
    rows = np.arange(len(grades)) - np.repeat(offsets[:-1], np.diff(offsets))
    gains = grades.astype(np.float64)
    return ShownBlock(rows, offsets, gains, np.zeros(len(gains)), np.zeros(n_queries), np.full(n_queries, ALL_PAIRS))


def _rows(order: tuple[Hashable, ...], ids: Sequence[Hashable] | None, m: int) -> Sequence[int]:
    """The numbers of the documents shown within their query of `m` documents."""
    if ids is None:
        if set(map(type, order)) == {int} and min(order) >= 0 and max(order) < m:  # type: ignore[type-var, operator]
            return order  # type: ignore[return-value]
        for document in order:
            if not isinstance(document, int | np.integer) or isinstance(document, bool) or not 0 <= document < m:
                raise ValueError(f"y: document {document!r} was shown, but x has the documents 0 to {m - 1}")
        return order  # type: ignore[return-value]
    numbers = {document: i for i, document in enumerate(ids)}
    try:
        return [numbers[document] for document in order]
    except KeyError as error:
        raise ValueError(f"y: document {error.args[0]!r} was shown, but it is not in x") from None
