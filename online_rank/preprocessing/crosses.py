"""Crosses features with the context of a query: separate weights for each user, tenant or kind of query."""

import warnings
import weakref
from collections.abc import Hashable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from online_rank.base.anatomy import Abilities
from online_rank.base.form import Layer
from online_rank.base.names import numbers
from online_rank.base.schema import Schema
from online_rank.base.transformer import QueryTransformer
from online_rank.query import Block, SparseRows, require_finite
from online_rank.query.sparse import as_rows

# Those that have learned a query, and have told if it had no context.
_TOLD: "weakref.WeakSet[CrossFeatures]" = weakref.WeakSet()


class CrossFeatures(QueryTransformer):
    r"""Give every feature unchanged, and crossed with the context of the query.

    A linear ranker behind it has shared and individual weights in one model: with x the features and u the user, the score is

    .. math:: \langle w, x \rangle + \langle w_u, x \rangle.

    Feedback of one user moves the shared weights for all, and the individual weights only for that user ([1]). Unknown users,
    and queries without a context, are ranked by the shared weights. The map is fixed, so every bound on the ranker behind it
    holds, on the crossed features.

    The context is an argument: `learn_one(x, y, context={"user": "u17", "length": 3})`. It must have a value for every key;
    None means unknown, and nothing is crossed with it. If the first query that it learns has no context at all, it warns.
    Before a ranker that takes text, such as `AdditiveRanker`, text is crossed with categories too.

    A crossed column is named `"price*user=u17"`, or `"price*length"` if the key is a number. The output is sparse: a query has
    one further entry for each feature and key, and a ranker one further weight for each feature and value seen (limited by
    `max_features`). Put scalers in front, and `HashedFeatures` behind it for fixed memory.

    Parameters
    ----------
    key
        The name of an entry of the context, or a tuple of names; None for none. Values are categories: strings, integers and
        booleans.
    numbers
        The same for numbers, by which features are multiplied: the weight of a feature is then a linear function of the number.

    Raises
    ------
    TypeError, ValueError
        A name is not a string, or there are no names. Later: a context lacks a name, or has a value of another type.

    References
    ----------
    [1] Daumé, *Frustratingly Easy Domain Adaptation*, ACL 2007.

    Examples
    --------
    >>> from online_rank import CrossFeatures, PerceptronRanker
    >>> model = CrossFeatures("user") | PerceptronRanker()
    >>> query = {"long": {"words": 9.0, "price": 1.0}, "short": {"words": 1.0, "price": 1.0}}
    >>> for _ in range(3):
    ...     model.learn_one(query, {"long": 2, "short": 0}, context={"user": "ada"})
    ...     model.learn_one(query, {"long": 0, "short": 2}, context={"user": "bob"})
    >>> model.rank_one(query, context={"user": "ada"}), model.rank_one(query, context={"user": "bob"})
    (['long', 'short'], ['short', 'long'])
    >>> CrossFeatures("user", numbers="length").transform_one({"a": {"bm25": 2.0}}, context={"user": 7, "length": 3.0})
    {'a': {'bm25': 2.0, 'bm25*user=7': 2.0, 'bm25*length': 6.0}}
    """

    _schema = Schema()

    def _abilities(self) -> Abilities:
        return Abilities(passes_documents=True, takes_sparse=True, takes_context=True, learns=False)

    def __init__(self, key: str | tuple[str, ...] | None = None, *, numbers: str | tuple[str, ...] | None = None) -> None:
        super().__init__()
        given = [(name, each) for name, value in (("key", key), ("numbers", numbers)) for each in _names(name, value)]
        if not given:
            raise ValueError("key names nothing to cross features with")
        names = [each for _, each in given]
        for name, each in given:
            if not each or "=" in each or "*" in each:
                raise ValueError(f"{name} has the name {each!r}; it is not empty, and has neither = nor *")
            if names.count(each) > 1:
                raise ValueError(f"{name} has the name {each!r}, which stands there twice")
        self.key = key
        self.numbers = numbers

    @property
    def keys(self) -> tuple[str, ...]:
        """The names that it looks up in a query's context."""
        return (*self.categories, *_names("numbers", self.numbers))

    @property
    def categories(self) -> tuple[str, ...]:
        """The names of entries of the context whose values are categories."""
        return _names("key", self.key)

    def _layers(self, n_features: int) -> tuple[Layer, ...]:
        raise TypeError("its columns depend on the context of the query")

    def _transform_block(self, block: Block) -> Block:
        joins = [self._joins_of(context) for context in block.context or ()]
        if isinstance(block.X, list):
            return block._replace(X=_crossed_documents(block, joins)) if any(joins) else block
        require_finite(block)
        X, names = _named(block)
        if not any(joins):
            return block._replace(X=X, names=names)
        crossed, added = _crossed(as_rows(X), block.offsets, joins, names)
        columns = (*names, *added)
        if len(set(columns)) < len(columns):
            raise ValueError(f"x: a feature is called {max(added, key=columns.count)!r}, as a joined one is")
        made = block._replace(X=crossed, names=columns)
        require_finite(made)
        return made

    def _learn_block(self, block: Block) -> Block:
        if self not in _TOLD:
            _TOLD.add(self)
            if block.context is None:
                lacking = ", ".join(map(repr, self.keys))
                warnings.warn(
                    f"{type(self).__name__}: the first query to learn has no context, so nothing is crossed with {lacking}; "
                    f"give it as learn_one(x, y, context={{{self.keys[0]!r}: ...}}), with None where it is not known",
                    stacklevel=2,
                )
        return self._transform_block(block)

    def _joins_of(self, context: Mapping[str, Any]) -> list[tuple[str, float]]:
        """The suffixes and factors of a query's crossed features."""
        joins = []
        for key in self.keys:
            if key not in context:
                raise ValueError(f"context has no {key!r}; give None where it is not known")
            value = context[key]
            if key in self.categories:
                if isinstance(value, float):
                    raise TypeError(f"context[{key!r}] is {value}; it is a category: a text, or CrossFeatures(numbers={key!r})")
                join = suffix_of(key, value), 1.0
            else:
                if isinstance(value, str | bool):
                    raise TypeError(f"context[{key!r}] is {value!r:.60}; it is a number: of a category, CrossFeatures({key!r})")
                join = f"*{key}", float(value or 0.0)
            if value is not None:
                joins.append(join)
        return joins


def suffix_of(key: str, value: Any) -> str:
    """What is added to the name of a feature that is crossed with a category."""
    return f"*{key}={value}"


def _names(name: str, value: Any) -> tuple[str, ...]:
    """The names in an argument that is one, or a tuple of them."""
    names = () if value is None else (value,) if isinstance(value, str) else value
    if not isinstance(names, tuple) or not all(isinstance(each, str) for each in names):
        raise TypeError(f"{name} is {value!r:.60}; it must be a name, a tuple of names, or None")
    return names


def _named(block: Block) -> tuple[Any, tuple[Hashable, ...]]:
    """The features of a block with names: "1", "2", ... if they have none; of sparse rows only the columns in use."""
    X = block.X
    if block.names is not None:
        return X, block.names
    if isinstance(X, np.ndarray):
        return X, numbers(X.shape[1])
    used, columns = np.unique(X.columns, return_inverse=True)
    return X._replace(columns=columns.astype(np.int32), n_columns=len(used)), tuple(str(j + 1) for j in used.tolist())


def _crossed_documents(block: Block, joins: list[list[tuple[str, float]]]) -> list[dict[Hashable, Any]]:
    """Feature dicts with what they have crossed; text is crossed with categories alone."""
    made = []
    for joined, query in zip(joins, block.each(), strict=True):
        for x in query.X:
            whole = dict(x)
            for suffix, factor in joined:
                for name, value in x.items():
                    if (own := f"{name}{suffix}") in x:
                        raise ValueError(f"x: a feature is called {own!r}, as a joined one is")
                    if value is None or factor == 1.0:
                        whole[own] = value
                    elif isinstance(value, Real) and not isinstance(value, bool):
                        whole[own] = float(value) * factor
            made.append(whole)
    return made


def _crossed(
    rows: SparseRows, offsets: np.ndarray, joins: list[list[tuple[str, float]]], names: tuple[Hashable, ...]
) -> tuple[SparseRows, list[str]]:
    """Rows with the crossed entries appended, and the names of their columns.

    Parameters
    ----------
    rows, names
        The documents of q queries, and the names of their d columns.
    offsets
        int64 (q + 1,): where each query's documents begin.
    joins
        For each query, the suffixes and factors of its crossed features.
    """
    place: dict[str, int] = {}
    documents, codes, values = [], [], []
    of_entry = np.repeat(np.arange(rows.shape[0]), np.diff(rows.starts))
    for t, joined in enumerate(joins):
        first, last = (int(rows.starts[offsets[t + i]]) for i in (0, 1))
        for suffix, factor in joined:
            documents.append(of_entry[first:last])
            codes.append(place.setdefault(suffix, len(place)) * rows.n_columns + rows.columns[first:last].astype(np.int64))
            with np.errstate(over="ignore"):  # Infinite values are refused later, by name.
                values.append(rows.values[first:last] * rows.dtype.type(factor))
    used, columns = np.unique(np.concatenate(codes), return_inverse=True)
    row = np.concatenate([of_entry, *documents])
    order = np.argsort(row, kind="stable")
    starts = np.append(0, np.cumsum(np.bincount(row, minlength=rows.shape[0])))
    made = SparseRows(
        starts,
        np.concatenate([rows.columns, rows.n_columns + columns]).astype(np.int32)[order],
        np.concatenate([rows.values, *values])[order],
        rows.n_columns + len(used),
    )
    suffixes = [*place]
    return made, [f"{names[j]}{suffixes[i]}" for i, j in (divmod(code, rows.n_columns) for code in used.tolist())]
