"""What an export changes, on queries: the scores of its target, as far as curves, trees and missing values decide them."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from online_rank.base import serving_steps
from online_rank.base.form import Form, Trees
from online_rank.base.reader import as_numbers, read_for
from online_rank.export.ensembles import ZERO_FILLED, as_trees
from online_rank.export.reading import Names, Prepared, prepared
from online_rank.export.table import TARGETS
from online_rank.metrics import metric


class Change(NamedTuple):
    """What an export changes.

    Attributes
    ----------
    n_queries
        How many queries were ranked.
    otherwise, first
        The shares of them that the target ranks differently, and whose first document has a lower score in the model.
    here, there
        Mean NDCG@10 of the model, and of the target.
    """

    n_queries: int
    otherwise: float
    first: float
    here: float
    there: float


def changes(model: Any, to: str, queries: Iterable[tuple[Any, Any]], *, names: Names = None) -> Change:
    """What the export of a model to a target changes on graded queries.

    The target is computed here, from the trees, curves or weights that are written, with 0 for missing fields where the target
    does so; single precision and other roundings of the target are not.

    Parameters
    ----------
    model
        A ranker, or a pipeline that ends in one.
    to
        A target that takes features.
    queries
        Pairs (x, y): a query in any form, and its grades.
    names
        As in `export`.

    Raises
    ------
    TypeError, ValueError
        As `export`; or there are no queries.

    Examples
    --------
    >>> from online_rank import AdditiveRanker
    >>> model = AdditiveRanker(relative=False)
    >>> queries = [([[1.0, 2.0], [3.0, 1.0], [2.0, 5.0]], [0, 2, 1])] * 20
    >>> for X, y in queries:
    ...     model.learn_one(X, y)
    >>> changes(model, "lightgbm", queries).otherwise
    0.0
    """
    if to not in TARGETS or "fusion" in TARGETS[to].kinds:
        raise ValueError(f"to is {to!r}: changes are counted for targets that take features")
    given = prepared(model, to, names)
    score, n, otherwise, first = scorer(given, to), 0, 0, 0
    here, there = metric("ndcg@10"), metric("ndcg@10")
    for n, (x, y) in enumerate(queries, start=1):  # noqa: B007
        own, found = np.array(_values(model.predict_one(x))), score(_raw(model, given.form, x))
        here.update(y, own)
        there.update(y, found)
        otherwise += bool((np.argsort(-own, kind="stable") != np.argsort(-found, kind="stable")).any())
        first += bool(len(own)) and bool(own[np.argmax(found)] < own.max())
    if not n:
        raise ValueError("there are no queries to check the export on")
    return Change(n, otherwise / n, first / n, here.get(), there.get())


def _values(scores: Any) -> list[float]:
    return [*scores.values()] if isinstance(scores, dict) else [*scores]


def _raw(model: Any, form: Form, x: Any) -> np.ndarray:
    """The raw features of a query, in the order of a form."""
    block, known = read_for(model, x), form.names
    for step in serving_steps(model):
        if getattr(step, "n_features", 0) == form.n_features and getattr(step, "feature_names", None) == known:
            X = (block if step._reader.fits(step, block) else step._reader.align(step, block)).X
            return np.asarray(X if isinstance(X, np.ndarray) else X.toarray(), dtype=np.float64)
    # The first steps learn nothing, and know no names.
    block = as_numbers(block) if type(block.X) is list else block
    X = block.X if isinstance(block.X, np.ndarray) else block.X.toarray()
    if known is None or block.names is None:
        return np.asarray(X, dtype=np.float64)
    places = {name: j for j, name in enumerate(block.names)}
    return np.column_stack([X[:, places[name]] if name in places else np.zeros(len(X)) for name in known])


def scorer(given: Prepared, to: str) -> Callable[[np.ndarray], np.ndarray]:
    """What gives the scores of a target to the raw features of a query."""
    computed: Form | Trees = given.form
    if given.kind in ("trees", "curves") and "document" not in TARGETS[to].kinds:
        computed = Trees(as_trees(given, zero_filled=ZERO_FILLED.get(to, "")))
    filled = to in ZERO_FILLED or not given.form.takes_missing
    return lambda X: computed(np.nan_to_num(X) if filled else X)
