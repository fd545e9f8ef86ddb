"""Two transformers side by side."""

from typing import Any

import numpy as np

from online_rank.base.anatomy import Abilities, abilities_of, share_lock
from online_rank.base.names import numbers
from online_rank.base.reader import as_array, as_numbers
from online_rank.base.schema import Schema
from online_rank.base.transformer import QueryTransformer
from online_rank.query import Block


class QueryUnion(QueryTransformer):
    """The features of two transformers, side by side: `first + second`.

    Both get the original query. A feature's name begins with its transformer's: `"StreamScaler.clicks"`.

    Parameters
    ----------
    first, second
        Transformers of queries. `a + b + c` is the union of `a + b` and `c`.

    Raises
    ------
    TypeError
        One of them is not a transformer of queries.

    Examples
    --------
    >>> import numpy as np
    >>> from online_rank import QueryNormalizer
    >>> both = QueryNormalizer() + QueryNormalizer("minmax")
    >>> both.transform_one(np.array([[0.0], [1.0]]))
    array([[-1.,  0.],
           [ 1.,  1.]])
    >>> both.transform_one([{"age": 0.0}, {"age": 1.0}])[0]
    {'QueryNormalizer.age': -1.0, 'QueryNormalizer2.age': 0.0}
    """

    _schema = Schema()

    def __init__(self, first: Any, second: Any):
        super().__init__()
        for name, part in (("first", first), ("second", second)):
            if not isinstance(part, QueryTransformer):
                raise TypeError(
                    f"{name} is {part!r}; a union joins transformers of queries. Transformers of single documents are joined "
                    "before they are lifted: ForEachDocument(a + b)"
                )
        self.first: Any = first
        self.second: Any = second
        share_lock(self)

    @property
    def _supervised(self) -> bool:
        return self.first._supervised or self.second._supervised

    def __str__(self) -> str:
        return f"{self.first} + {self.second}"

    @property
    def _wrapped(self) -> tuple[Any, Any]:
        return self.first, self.second

    def _given(self, n_features: int) -> int:
        return sum(n_features if part._given is None else part._given(n_features) for part in self._wrapped)

    def _abilities(self) -> Abilities:
        # Text and categories are accepted if one of the two takes them.
        return Abilities(
            takes_documents=any(abilities_of(part).takes_documents for part in self._wrapped),
            takes_context=any(abilities_of(part).takes_context for part in self._wrapped),
            takes_time=any(abilities_of(part).takes_time for part in self._wrapped),
            remembers=any(abilities_of(part).remembers for part in self._wrapped),
        )

    def _transform_block(self, block: Block) -> Block:
        return self._beside(block, *(part._transform_block(_as_taken(part, block)) for part in self._wrapped))

    def _learn_block(self, block: Block) -> Block:
        return self._beside(block, *(part._learn_block(_as_taken(part, block)) for part in self._wrapped))

    def _beside(self, block: Block, one: Block, two: Block) -> Block:
        X = np.concatenate([as_array(one.X, self), as_array(two.X, self)], axis=1)
        if one.names is None and two.names is None:
            return block._replace(X=X, names=None)
        names = [part.names or numbers(part.X.shape[1]) for part in (one, two)]
        labels = [type(part).__name__ for part in (self.first, self.second)]
        if labels[0] == labels[1]:
            labels[1] += "2"
        # Names always get the prefix, even without a clash: a query may lack a feature that the next one has.
        told = (f"{label}.{name}" for label, given in zip(labels, names, strict=True) for name in given)
        return block._replace(X=X, names=tuple(told))


def _as_taken(part: Any, block: Block) -> Block:
    """A block in the form that a transformer takes: the user's documents, or numbers."""
    if hasattr(block.X, "shape") or abilities_of(part).takes_documents:
        return block
    return as_numbers(block)


QueryTransformer._union = QueryUnion
