"""Models as JSON."""

from typing import Any

import numpy as np

from online_rank.export.linear import linear_form
from online_rank.export.reading import Names, prepared


def to_json(model: Any, *, name: str = "online_rank", names: Names = None) -> dict[str, Any]:
    """A model as JSON: weights of raw features if it is linear, otherwise layers and a head.

    A linear score is the sum of weight times raw feature, plus the constant. Otherwise each layer computes columns from the
    columns before it, and the head computes scores from the last ones; `online_rank.base.form` describes each kind. Layers
    of the kind "InQuery" need all documents of a query. Columns whose number is not in `categories` have the value of the
    feature, or NaN if it is missing; where nothing gives NaN a value, it is 0. `categories` has, for each category, pairs
    [level, number of its column], which is 1 in documents that have the level and 0 in others; the level null is for all
    others. `context` has the same for entries of the query's context, and the columns of its numbers.

    `vectors` has, for each vector, how its columns are made: a column is the product of M' u and d, over the length of d, with
    the matrix M, the vector u of the query, scaled to length 1, and d of the document. "linear" and "alone" have one row, and
    need no u; "alone" is missing if the query has a vector, and the others if it has none.

    Parameters
    ----------
    model
        Any model with a closed form.
    name
        Not used.
    names
        Names of the d features, in order, or `{name: other name}` for those that differ; None for the names that the model has
        learned, or f1, f2, ...

    Returns
    -------
    A dict for `json.dumps`; numbers read back from it are the same to the last bit.

    Raises
    ------
    TypeError, ValueError
        The model has no closed form, or no features yet.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> to_json(PerceptronRanker.from_weights({"clicks": 2.0, "age": -0.5}))
    {'features': ['clicks', 'age'], 'weights': [2.0, -0.5], 'constant': 0.0}
    """
    given = prepared(model, "json", names)
    if given.kind == "linear" and not given.vectors:
        form = linear_form(given.form)
        return {"features": given.texts, "weights": form.weights.tolist(), "constant": form.constant + 0.0}
    categories: dict[str, list[Any]] = {}
    for j, level in given.levels.items():
        categories.setdefault(level.field, []).append([level.level, j])
    made = {"layers": _plain(given.form.layers), "head": _plain(given.form.head)}
    context: dict[str, Any] = {name: j for j, name in given.context.items() if j not in given.levels}
    context |= {given.levels[j].field: categories.pop(name) for j, name in given.context.items() if name in categories}
    vectors = {
        own.field: {column.how: {"column": j, "matrix": _plain(column.matrix)} for j, column in own.columns.items()}
        for own in given.vectors
    }
    parts = {"categories": categories, "context": context, "vectors": vectors}
    return {"features": given.texts, **{name: part for name, part in parts.items() if part}, **made}


def _plain(value: Any) -> Any:
    """Convert arrays to lists, and parts of a form to dicts with their kind."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if hasattr(value, "_fields"):
        parts = {name: _plain(part) for name, part in value._asdict().items() if name not in ("names", "n_features")}
        return {"kind": type(value).__name__, **parts}
    return [_plain(part) for part in value] if isinstance(value, tuple | list) else value
