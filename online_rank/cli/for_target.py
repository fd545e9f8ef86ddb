"""`online-rank train --for TARGET`: what a target of `export` can compute, and what it cannot distinguish in queries."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from online_rank.export.cells import cell
from online_rank.export.ensembles import ZERO_FILLED
from online_rank.export.reading import simplified
from online_rank.export.table import TARGETS
from online_rank.query.embeddings import is_vector


def require_target(name: str) -> None:
    """Raise ValueError for a name of no target that a model can be trained for."""
    targets = [name for name, target in TARGETS.items() if "fusion" not in target.kinds]
    if name not in targets:
        raise ValueError(f"--for {name}: it is one of {', '.join(targets)}")


def sees_queries(target: str) -> bool:
    """Whether a target computes scores that depend on the other documents of the query."""
    return "query" in TARGETS[target].kinds


def targets_of(form: Any) -> list[str]:
    """The targets that can compute a closed form."""
    kind = simplified(form)[1]
    return [name for name, target in TARGETS.items() if kind in target.kinds]


def beyond(queries: Sequence[tuple[Any, ...]], target: str) -> list[str]:
    """Lines on what a target cannot distinguish in queries (x, y, ...), or cannot compute."""
    return [*_missing_beside_zero(queries, target), *_vectors_beyond(queries, target)]


def _missing_beside_zero(queries: Iterable[tuple[Any, ...]], target: str) -> list[str]:
    """A line on features that are missing in some documents of queries, and 0 or less in others.

    There is none for a target that tells missing values from 0.
    """
    if target not in ZERO_FILLED:
        return []
    missing: set[str] = set()
    low: set[str] = set()
    for x, *_ in queries:
        rows = x.X if hasattr(x, "X") else x
        names = getattr(x, "names", None)
        if isinstance(rows, np.ndarray):
            known = [f"f{j + 1}" for j in range(rows.shape[1])] if names is None else [*map(str, names)]
            missing |= {known[j] for j in np.flatnonzero(np.isnan(rows).any(axis=0)).tolist()}
            low |= {known[j] for j in np.flatnonzero((rows <= 0.0).any(axis=0)).tolist()}
        elif isinstance(rows, list):
            for document in rows:
                missing |= {str(n) for n, v in document.items() if v is None or (type(v) is float and v != v)}
                low |= {str(n) for n, v in document.items() if isinstance(v, int | float) and v is not True and v <= 0.0}
    both = sorted(missing & low)
    if not both:
        return []
    return [
        f"--for {target}: missing in some documents, and 0 or less in others: {', '.join(both)}. {ZERO_FILLED[target]} takes a "
        "missing field for 0, and export will refuse the model: add a constant to these columns, so that they are always above "
        "0, or leave them out (--exclude COLUMN)"
    ]


def _vectors_beyond(queries: Iterable[tuple[Any, ...]], target: str) -> list[str]:
    """A line on the vectors in queries, if the target cannot compute what a model makes of them."""
    if cell(target, "vectors").how:
        return []
    found: dict[str, None] = {}
    for x, *_ in queries:
        rows = x.X if hasattr(x, "X") else x
        for document in rows if isinstance(rows, list) else ():
            found |= {str(name): None for name, value in document.items() if is_vector(value)}
    if not found:
        return []
    return [
        f"--for {target}: {', '.join(found)} {'is a vector' if len(found) == 1 else 'are vectors'}, and "
        f"{cell(target, 'vectors').reason}: export will refuse the model; leave them out (--exclude COLUMN)"
    ]
