"""Memory for one query at a time, allocated once for each block, so that a query allocates nothing.

Every row has one meaning and one name: `work.reals[KEYS]`. Rows are taken one by one, because only then does the compiler know
that they are contiguous. (With one array for each meaning, every function would take twenty arrays and compile slowly.)
"""

from typing import NamedTuple

import numpy as np

from online_rank._kernels._jit import inner, leaf
from online_rank._kernels.codes import MAX_GRADE

# Rows of `reals`, one element for each document: scores, weight vector v, credit c, keys with a margin between grades,
# thresholds of `sort_violators`, v_i / n_i of `spread`; for sorting, keys and a spare.
SCORES, WEIGHTS, CREDIT, MARGIN_KEYS, BARS, SHARES, KEYS, SPARE_KEYS = range(8)
# One element for each level or position, and one more: gain of a level, mean of its v, two Fenwick trees, sums before each
# position (`listwise.swap_change`).
GAIN, LEVEL_WEIGHTS, COUNTS, SUMS, HARMONIC, RELEVANT_BEFORE = range(8, 14)
# For surrogates: scores, gradient and weights of pairs, of documents that are listed by level.
LISTED_SCORES, LISTED_GRADIENT, PAIR_WEIGHTS = range(14, 17)
# For the credit `sort`: normal scores of positions; and the second credit of a mixture.
NORMAL_SCORES, OTHER_CREDIT = range(17, 19)
# For terms that are stored before they are added up (`primitives.lane_sum`).
TERMS, OTHER_TERMS = range(19, 21)
_REALS = 21

# Rows of `integers`: level of a document; grade, size and workspace of a level; documents in the order of a ranking, their
# rank in it, a spare for sorting; pairs (`credit`).
LEVEL, GRADE, COUNT, PER_LEVEL, ORDER, RANK, SPARE_ITEMS = range(7)
PREFERRED, FIRST_VIOLATED, START, VIOLATORS, BEST = range(7, 12)
# For surrogates: documents listed by level, and where each level begins.
LISTED, LEVEL_START = range(12, 14)
_INTEGERS = 14


class Workspace(NamedTuple):
    """Rows of numbers by name, and a table (MAX_GRADE + 1,) of all grades."""

    reals: np.ndarray
    integers: np.ndarray
    table: np.ndarray


@inner
def workspace(longest):
    """A `Workspace` for queries of up to `longest` documents; rows have two elements more."""
    integers = np.empty(_INTEGERS * (longest + 2) + MAX_GRADE + 1, dtype=np.int64)
    rows = integers[: _INTEGERS * (longest + 2)].reshape((_INTEGERS, longest + 2))
    return Workspace(np.empty((_REALS, longest + 2)), rows, integers[_INTEGERS * (longest + 2) :])


@leaf
def longest_query(offsets):
    """The largest number of documents of a query in a block."""
    longest = 0
    for q in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest
