"""The window of the last queries that trees grow from: bins, targets, and what the trees have given their documents so far.

Documents of a query lie side by side; the window is a ring, which the next query overwrites from its oldest queries on. Queries
have consecutive numbers, by which a growing tree knows them.
"""

from typing import NamedTuple

import numpy as np

from online_rank._kernels._jit import kernel, leaf
from online_rank._kernels.arrays import copy_to
from online_rank._kernels.fits import require

#: Integers of the state. Of the window: the place of the oldest query, the number of queries, the next document, how many
#: queries have been in it, and its documents.
FIRST, COUNT, HEAD, PUSHED, HELD = range(5)
#: Of the trees: how many are there, and how many have grown.
N_TREES, N_GROWN = 5, 6
#: A row of queries: the first document, the number of documents, the weight, and the number of the query in the stream.
START, SIZE, WEIGHT, NUMBER, N_OF_QUERY = range(5)
#: Rows of documents: score by the values of trees, and target.
GIVEN, TARGET, N_OF_DOCUMENT = range(3)


class Window(NamedTuple):
    """Bins (d, n) of documents; two float32 of each (2, n); a row of each query (q, 4); integers of the state."""

    bins: np.ndarray
    documents: np.ndarray
    queries: np.ndarray
    integers: np.ndarray


@leaf
def oldest(integers):
    """The number of the oldest query of the window."""
    return integers[PUSHED] - integers[COUNT]


@leaf
def place_of(integers, queries, number):
    """The row of a query of the window."""
    return (integers[FIRST] + number - oldest(integers)) % queries.shape[0]


@leaf
def _drop_oldest(window):
    integers, queries = window.integers, window.queries
    integers[HELD] -= np.int64(queries[integers[FIRST], SIZE])
    integers[FIRST] = (integers[FIRST] + 1) % queries.shape[0]
    integers[COUNT] -= 1


@leaf
def push(window, bins, m, given, target, weight, number):
    """Add a query: bins (d, M) of its m documents, their scores and targets (m,). The oldest queries make room for it.

    A query that is larger than the whole window is left out.
    """
    integers, queries, n = window.integers, window.queries, window.bins.shape[1]
    if m > n or queries.shape[0] == 0:
        return
    at = integers[HEAD]
    if at + m > n:
        # The queries behind lie in the way of the next round.
        while integers[COUNT] > 0 and queries[integers[FIRST], START] >= at:
            _drop_oldest(window)
        at = 0
    while integers[COUNT] > 0:
        begins = np.int64(queries[integers[FIRST], START])
        if begins + np.int64(queries[integers[FIRST], SIZE]) <= at or begins >= at + m:
            break
        _drop_oldest(window)
    if integers[COUNT] == queries.shape[0]:
        _drop_oldest(window)
    row = queries[(integers[FIRST] + integers[COUNT]) % queries.shape[0]]
    row[START], row[SIZE], row[WEIGHT], row[NUMBER] = at, m, weight, number
    for j in range(bins.shape[0]):
        copy_to(window.bins[j, at : at + m], bins[j, :m])
    for i in range(m):
        window.documents[GIVEN, at + i] = given[i]
        window.documents[TARGET, at + i] = target[i]
    integers[COUNT] += 1
    integers[PUSHED] += 1
    integers[HELD] += m
    integers[HEAD] = at + m


@kernel
def arrange(bins, documents, queries, integers, new_bins, new_documents, new_queries):
    """Copy the window to larger or smaller arrays, the oldest query first; queries that do not fit are left out, oldest first.

    new_bins may have more features, whose bins stay as they are.
    """
    d, n = bins.shape[0], new_bins.shape[1]
    require(new_bins.shape[0] >= d and new_documents.shape[1] == n and documents.shape[1] == bins.shape[1])
    window = Window(bins, documents, queries, integers)
    while integers[COUNT] > 0 and (integers[HELD] > n or integers[COUNT] > new_queries.shape[0]):
        _drop_oldest(window)
    to, k = 0, 0
    while k < integers[COUNT]:
        # Queries that lie side by side are copied at once.
        begin = end = int(queries[(integers[FIRST] + k) % queries.shape[0], START])
        while k < integers[COUNT]:
            row = queries[(integers[FIRST] + k) % queries.shape[0]]
            if row[START] != end:
                break
            new_queries[k, START], new_queries[k, SIZE] = to + end - begin, row[SIZE]
            new_queries[k, WEIGHT], new_queries[k, NUMBER] = row[WEIGHT], row[NUMBER]
            end += int(row[SIZE])
            k += 1
        stop = to + end - begin
        for j in range(d):
            copy_to(new_bins[j, to:stop], bins[j, begin:end])
        for r in range(N_OF_DOCUMENT):
            copy_to(new_documents[r, to:stop], documents[r, begin:end])
        to = stop
    integers[FIRST], integers[HEAD] = 0, to
