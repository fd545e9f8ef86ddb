"""What engines get with a query, of models that use the context of queries."""

from collections.abc import Mapping
from typing import Any

from online_rank.export.reading import Names, prepared


def query_inputs(model: Any, to: str, context: Mapping[str, Any], *, names: Names = None) -> dict[str, Any]:
    """What an engine gets with a query, of a model that uses the context: parameters of a script, or inputs of a profile.

    Parameters
    ----------
    model, names
        As for `export`.
    to
        "painless" for `params` of the script, or "vespa" for parameters of the request.
    context
        The context of the query: vectors by their names, and what `CrossFeatures` crosses features with.

    Raises
    ------
    TypeError, ValueError
        As `export`; or the vector of the query has another length than was learned.

    Examples
    --------
    >>> from online_rank import VectorRanker
    >>> model = VectorRanker(kappa=2.0)
    >>> x, context = {"a": {"embedding": [1.0, 0.0]}, "b": {"embedding": [0.0, 1.0]}}, {"embedding": [0.0, 3.0]}
    >>> model.learn_one(x, {"a": 0, "b": 1}, context=context)
    >>> query_inputs(model, "painless", context)
    {'embedding_score': [0.0, 2.0]}
    >>> query_inputs(model, "vespa", context)
    {'input.query(embedding_score)': [0.0, 2.0], 'input.query(embedding_given)': 1.0}
    """
    if to not in ("painless", "vespa"):
        raise ValueError(f"to is {to!r}; painless and vespa take inputs with a query, other targets the context itself")
    given = prepared(model, to, names)
    made: dict[str, Any] = {}
    flags: dict[str, float] = {}
    for own in given.vectors:
        found = own.parameters(context.get(own.name))
        made |= found
        flags |= {own.given: float(any(vector is not None for vector in found.values()))} if own.p else {}
    categories = {given.levels[j].field for j in given.context if j in given.levels}
    for j, name in given.context.items():
        made[given.levels[j].field if j in given.levels else given.texts[j]] = context.get(name)
        if j not in given.levels and given.form.takes_missing:
            flags[f"{given.texts[j]}_given"] = float(context.get(name) is not None)
    if to == "painless":
        return {name: str(value) if name in categories and value is not None else value for name, value in made.items()}
    made = {name: {str(value): 1.0} if name in categories else value for name, value in made.items() if value is not None}
    return {f"input.query({name})": value for name, value in (made | flags).items()}
