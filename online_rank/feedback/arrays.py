"""The clicks of a block of queries as arrays, for kernels."""

import itertools
import struct
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from online_rank._kernels.codes import ALL_PAIRS, PLACKETT_LUCE
from online_rank.feedback.impressions import Clicks, Impression
from online_rank.query import Block

#: Least probability that a click is divided by.
_SMALLEST = 1e-100

#: `struct` reads lists from here on in half the time of numpy.
_LONG = 64

_NONE = np.empty(0)


class ShownBlock(NamedTuple):
    """The documents drawn for q queries, one query after the other, and the users' feedback on them.

    Attributes
    ----------
    rows
        int64, the number of each document within its query.
    starts
        (q + 1,) int64, where the documents of each query begin and end.
    held
        (q,) int64, how many of them, the last, were held back; the others were shown.
    gains, logits
        float64, one a document.
    places
        int64, the position of each on the page, from 0; documents held back come after the last one shown.
    rests
        (q,) float64, logsumexp of the logits not drawn; -inf if all were drawn.
    kinds
        (q,) int64, how the pairs are weighted: PLACKETT_LUCE, ALL_PAIRS, or the position of FairPairs' first pair.
    chances
        float64, what a click on each document is divided by; (0,) for credit by exchanges of pairs.
    """

    rows: np.ndarray
    starts: np.ndarray
    held: np.ndarray
    gains: np.ndarray
    places: np.ndarray
    logits: np.ndarray
    rests: np.ndarray
    kinds: np.ndarray
    chances: np.ndarray


def shown_block(block: Block, drawn: bool = True) -> ShownBlock:
    """The documents shown for the queries of a block, and the feedback on them.

    Grades are taken as gains of documents that were all seen, in random order.

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
    held: list[int] = []
    elsewhere: dict[int, list[int]] = {}
    offsets = block.offsets.tolist()
    for each, first, stop in zip(block.y, offsets, offsets[1:], strict=False):
        shown = each.impression
        order, n_held = shown.order, len(shown.held_back)
        if n_held or shown.positions is not None:
            n_compared = shown.n_compared if drawn else len(order)
            elsewhere[len(held)] = _places(shown, n_compared)
            order = order[:n_compared] + shown.held_back
            gains += [*each.gains[:n_compared], *[0.0] * n_held]
        else:
            gains += each.gains
        rows += order if ids is None else _numbers(order, ids[first:stop])
        held.append(n_held)
        if shown.logits is not None and len(shown.logits) == len(order):
            logits += shown.logits
            kinds.append(PLACKETT_LUCE)
        elif shown.pairs_from is not None or not drawn:
            logits += [0.0] * len(order)
            kinds.append(shown.pairs_from or 0)
        else:
            raise ValueError(f"y: {_WITHOUT_LAW if shown.chances is shown.placements is None else _WITHOUT_EXCHANGES}")
        if drawn and len(order) == 1 < stop - first:
            raise ValueError(f"y: {_WITHOUT_OTHERS}")
        starts.append(len(rows))
        rests.append(-np.inf if shown.rest is None else shown.rest)
    if ids is None:
        _require_numbers(rows, starts, offsets)
    array = np.array if len(rows) < _LONG else _packed
    firsts = array(starts, np.int64)
    places = np.arange(len(rows))
    if len(held) > 1:
        places -= np.repeat(firsts[:-1], firsts[1:] - firsts[:-1])
    for q, own in elsewhere.items():
        places[starts[q] : starts[q + 1]] = own
    return ShownBlock(
        array(rows, np.int64),
        firsts,
        array(held, np.int64),
        array(gains, np.float64),
        places,
        array(logits, np.float64),
        array(rests, np.float64),
        array(kinds, np.int64),
        _NONE,
    )


def _places(shown: Impression, n: int) -> list[int]:
    """The positions, from 0, of the first n documents shown; those held back come after them."""
    places = list(range(n)) if shown.positions is None else [position - 1 for position in shown.positions[:n]]
    return places + [places[-1] + 1 if places else 0] * len(shown.held_back)


def _packed(numbers: Sequence[float], dtype: type[np.generic]) -> np.ndarray:
    """A list of integers or of floats as an array of int64 or float64."""
    array = np.empty(len(numbers), dtype)
    struct.pack_into(f"{len(numbers)}{array.dtype.char}", array.data, 0, *numbers)
    return array


_WITHOUT_LAW = (
    "the impression has no logits, and clicks on a ranking that was not random say nothing about the order of its documents: "
    "show rankings drawn by show_one of a ranker with a policy, and keep the Impression until clicks come. From fixed lists "
    "ClickPerceptron(credit='propensity', examination=...) can learn, if the examination of positions is known "
    "(feedback.NaturalVariation)"
)
_WITHOUT_OTHERS = (
    "the impression has one document and holds none back, so there is nothing to compare it with: show_one of a policy holds "
    "some back, and Impression.shuffled takes held_back. From single slots with propensities ClickPerceptron("
    "credit='propensity') learns"
)
_WITHOUT_EXCHANGES = (
    "the impression has propensities or placements, which do not give the probability of the same list with two documents "
    "exchanged: ClickPerceptron(credit='propensity') learns from them"
)


def propensities_of(clicks: Sequence[Clicks]) -> np.ndarray:
    """The probability of each drawn document at its position, one query after the other; 1 for those held back.

    Raises
    ------
    ValueError
        An impression does not contain them.
    """
    chances: list[float] = []
    for each in clicks:
        shown = each.impression
        if shown.placements is not None:
            chances += shown.placements
        elif shown.chances is not None:
            # Logarithms would not help: a click weighted by the inverse of such a number cannot be learned from.
            chances += np.maximum(np.cumprod(shown.chances), _SMALLEST).tolist()
        else:
            raise ValueError(
                "y: the impression has neither placements nor propensities nor logits, and the ranker has no examination: "
                "nothing is known about how its documents got their positions"
            )
        chances += [1.0] * len(shown.held_back)
    return np.array(chances)


def _graded(grades: np.ndarray, offsets: np.ndarray) -> ShownBlock:
    n_queries = len(offsets) - 1
    rows = np.arange(len(grades)) - np.repeat(offsets[:-1], np.diff(offsets))
    gains = grades.astype(np.float64)
    none = np.zeros(n_queries, np.int64)
    kinds = np.full(n_queries, ALL_PAIRS)
    return ShownBlock(rows, offsets, none, gains, rows, np.zeros(len(gains)), np.zeros(n_queries), kinds, _NONE)


def _numbers(order: Sequence[Hashable], ids: Sequence[Hashable]) -> list[int]:
    """The numbers of documents within their query, whose documents have these ids."""
    numbers = dict(zip(ids, range(len(ids)), strict=True))
    try:
        return [*map(numbers.__getitem__, order)]
    except KeyError as error:
        raise ValueError(f"y: document {error.args[0]!r} was shown, but it is not in x") from None


def _require_numbers(rows: Sequence[Hashable], starts: Sequence[int], offsets: Sequence[int]) -> None:
    """Require that documents without ids are numbers of documents of their query."""
    sizes = [stop - first for first, stop in itertools.pairwise(offsets)]
    # Most often all are plain numbers that every query has, which is cheaper to tell of a whole block.
    plain = set(map(type, rows)) <= {int} and min(rows, default=0) >= 0  # type: ignore[type-var, operator]
    if plain and max(rows, default=-1) < min(sizes, default=0):  # type: ignore[type-var, operator]
        return
    for m, first, stop in zip(sizes, starts, starts[1:], strict=False):
        order = rows[first:stop]
        if plain and max(order, default=-1) < m:  # type: ignore[type-var, operator]
            continue
        for document in order:
            if not isinstance(document, int | np.integer) or isinstance(document, bool) or not 0 <= document < m:
                raise ValueError(f"y: document {document!r} was shown, but x has the documents 0 to {m - 1}")
