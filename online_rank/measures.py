"""Ranking measures: what a ranker learns for."""

import re
from typing import NamedTuple

import numpy as np

from online_rank._kernels.codes import AP, LINEAR_NDCG, NDCG

__all__ = ["Measure", "discounts", "measure"]


class Measure(NamedTuple):
    """A parsed measure name; numbers only, so that kernels can take it.

    Attributes
    ----------
    kind
        `NDCG`, `AP` or `LINEAR_NDCG`.
    k
        Cutoff; 0 for none.
    threshold
        The smallest grade that counts as relevant (AP only; 1 otherwise).
    """

    kind: int
    k: int = 0
    threshold: int = 1

    @property
    def name(self) -> str:
        """The canonical name, which `measure` parses back."""
        if self.kind == AP:
            return "ap" if self.threshold == 1 else f"ap>={self.threshold}"
        return ("ndcg" if self.kind == NDCG else "linear_ndcg") + (f"@{self.k}" if self.k else "")


def measure(name: str | Measure) -> Measure:
    """Parse the name of a measure.

    Parameters
    ----------
    name
        `"ndcg"`, `"ndcg@10"`, `"ap"` (or `"map"`), `"ap>=2"` (grades from 2 on are relevant), `"linear_ndcg"`.

    Raises
    ------
    ValueError
        There is no such measure.

    Examples
    --------
    >>> measure("ndcg@10")
    Measure(kind=0, k=10, threshold=1)
    >>> measure("map").name
    'ap'
    """
    if isinstance(name, Measure):
        return name
    if match := re.fullmatch(r"ndcg(?:@([1-9]\d*))?", name, re.IGNORECASE):
        return Measure(NDCG, int(match[1] or 0))
    if match := re.fullmatch(r"m?ap(?:>=([1-9]\d*))?", name, re.IGNORECASE):
        return Measure(AP, threshold=int(match[1] or 1))
    if name.lower() == "linear_ndcg":
        return Measure(LINEAR_NDCG)
    raise ValueError(f"measure {name!r} is unknown; there are 'ndcg', 'ndcg@K', 'ap', 'ap>=GRADE' and 'linear_ndcg'")


_table = np.empty(0)


def discounts(n: int) -> np.ndarray:
    """D(p) = 1 / log2(p + 1) for the positions p = 1, 2, ... of at least `n` documents, as a read-only float64 array."""
    global _table
    if len(_table) < n:
        table = 1.0 / np.log2(np.arange(max(256, 1 << (n - 1).bit_length())) + 2.0)
        table.flags.writeable = False
        _table = table
    return _table
