"""A function as a step of a pipeline."""

from typing import Any

import numpy as np

from online_rank.base.anatomy import Abilities
from online_rank.base.reader import as_array
from online_rank.base.transformer import QueryTransformer
from online_rank.query import Block, feature_dicts, in_form, read_query, require_finite


class QueryFunction(QueryTransformer):
    """A function of a query as a step of a pipeline. It learns nothing.

    A function in a pipeline is wrapped automatically: `f | PerceptronRanker()`.

    Parameters
    ----------
    func
        Takes a query in the form in which the user gave it (a list of rows as an array) and returns the same documents, in the
        same order and in any form of a query. It must not change its argument.

    Examples
    --------
    >>> from online_rank.base import QueryFunction
    >>> def add_product(query):
    ...     return {i: {**x, "both": x["clicks"] * x["age"]} for i, x in query.items()}
    >>> QueryFunction(add_product).transform_one({"a": {"clicks": 2.0, "age": 3.0}})
    {'a': {'clicks': 2.0, 'age': 3.0, 'both': 6.0}}
    """

    def __init__(self, func: Any):
        super().__init__()
        if not callable(func):
            raise TypeError(f"func is of type {type(func).__name__}; it is a function of a query")
        self.func = func

    def _abilities(self) -> Abilities:
        return Abilities(takes_documents=True, learns=False)

    def __str__(self) -> str:
        return getattr(self.func, "__name__", str(self.func))

    def _transform_block(self, block: Block) -> Block:
        parts = []
        for query in block.each():
            result = read_query(self.func(in_form(query)))
            given = None if isinstance(query.ids, range) else query.ids
            if result.n_documents != query.n_documents or (result.ids is not None and result.ids != given):
                raise ValueError(f"function {self} must return the documents that it was given, in their order")
            require_finite(result._replace(ids=query.ids))
            parts.append(result)
        if not parts:
            return read_query(in_form(block))
        stacked = _stack(parts)
        return block._replace(X=stacked.X, names=stacked.names, form=stacked.form)


def _stack(parts: list[Block]) -> Block:
    """Stack queries into one block, with columns in the order in which their names first appear."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if all(part.names == first.names and part.X.shape[1] == first.X.shape[1] for part in parts):
        return first._replace(X=np.concatenate([as_array(part.X, None) for part in parts]))
    if any(part.names is None for part in parts):
        raise ValueError("a function in a pipeline must give every query the same features, unless it names them")
    return read_query([document for part in parts for document in feature_dicts(part)])
