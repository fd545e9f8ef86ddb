"""Vectors in requests in binary: features that have several values in a row."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np


def width_of(features: Sequence[str], vectors: Mapping[str, int]) -> int:
    """The number of values of a document.

    Raises
    ------
    ValueError
        A vector is not among the features.

    Examples
    --------
    >>> width_of(["price", "embedding"], {"embedding": 768})
    769
    """
    if others := vectors.keys() - {*features}:
        raise ValueError(f"vectors has {min(others)[:100]!r}, which is not among the features")
    return sum(vectors.get(name, 1) for name in features)


def documents_of(rows: np.ndarray, features: Sequence[str], vectors: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """The documents as dicts, with views of the rows (m, width) as vectors; NaN is a missing value, also a vector of NaN.

    Examples
    --------
    >>> [*documents_of(np.array([[2.0, 0.5, 1.5]], "<f4"), ["price", "embedding"], {"embedding": 2})]
    [{'price': 2.0, 'embedding': array([0.5, 1.5], dtype=float32)}]
    """
    for row in rows:
        document: dict[str, Any] = {}
        at = 0
        for name in features:
            k = vectors.get(name, 0)
            if k and row[at] == row[at]:
                document[name] = row[at : at + k]
            elif not k and row[at] == row[at]:
                document[name] = float(row[at])
            at += k or 1
        yield document
