"""Explains why one document ranks above another: the contribution of each feature to the difference of their scores."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank.base.anatomy import names_added, serving_steps
from online_rank.base.names import numbers
from online_rank.base.reader import as_array, as_numbers, read_for
from online_rank.query import Block, SparseRows
from online_rank.query.blocks import single

#: Most numbers of documents that are scored for each of the orders: features that differ times all features, and for a kernel
#: times a sixteenth of the documents that it keeps. About a third of a second in all.
_MOST_SCORED = 1 << 21
#: Numbers of documents that are scored at a time.
_AT_A_TIME = 1 << 17

#: Number of random orders for shares; each is also used in reverse.
_ORDERS = 8


#: The effects of pairs of features.
_Pairs = dict[tuple[Hashable, Hashable], float]


class Split(NamedTuple):
    """How a ranker splits the difference between the scores of two documents among the raw features.

    Attributes
    ----------
    names, values
        The features, and their parts.
    exact
        Whether these are exact contributions.
    pairs
        The parts of pairs of features, by their places in `names`.
    """

    names: Sequence[Hashable]
    values: np.ndarray
    exact: bool
    pairs: Mapping[tuple[int, int], float]


class Explanation(NamedTuple):
    """The difference between the scores of two documents, split among the features, and pairs of features.

    Attributes
    ----------
    a, b
        The documents.
    difference
        The score of a minus the score of b.
    contributions
        The contribution of each feature; they and `pairs` add up to the difference. For features with names, `{name:
        contribution}` in the order of the model, without features in which the two documents do not differ, as the model sees
        them. For an array, a list with one number a column.
    exact
        Whether the contributions follow from the model alone, as when a score is a sum of functions of one feature each. For
        trees, networks and kernels they are shares: the changes of the score as the features of a replace the features of b
        one after another, averaged over 16 orders (Strumbelj & Kononenko 2010; Shapley values average over all orders).
    pairs
        The contributions of pairs of features that the trees of an `AdditiveRanker` combine, `{(name, other): contribution}`;
        columns are called "1", "2", ... A pair has what both features do together beyond what each does on the average over
        the values of the stream (`online_rank.base.effects.Boxes`).
    """

    a: Hashable
    b: Hashable
    difference: float
    contributions: dict[Hashable, float] | list[float]
    exact: bool
    pairs: _Pairs

    def largest_first(self) -> list[tuple[Hashable, float]]:
        """The contributions that are not 0, the largest ones first: of features, and of pairs, called "name x other".

        Columns are called "1", "2", ...
        """
        parts: Any = self.contributions
        if isinstance(parts, list):
            parts = {name: part for name, part in zip(numbers(len(parts)), parts, strict=True) if part}
        together = {f"{one} x {other}": part for (one, other), part in self.pairs.items()}
        return sorted([*parts.items(), *together.items()], key=lambda item: -abs(item[1]))

    def in_words(self, most: int = 10) -> str:
        """The difference, and a line for each of the largest contributions."""
        kind = "contributions" if self.exact else "shares"
        lines = [f"score of {self.a} minus score of {self.b}: {self.difference:+.6g}; {kind} of the features:"]
        ordered = self.largest_first()
        lines += [f"  {value:+.6g}  {name}" for name, value in ordered[:most]]
        if rest := [value for _, value in ordered[most:]]:
            lines.append(f"  {sum(rest):+.6g}  {len(rest)} others")
        return "\n".join(lines)


def explain_one(model: Any, x: Any, a: Hashable, b: Hashable, *, context: Any = None, at: Any = None) -> Explanation:
    """Explain the difference between the scores of two documents of a query.

    Contributions are traced back through scalers, logarithms, quantile maps, ramps and encodings to the raw features, and
    through blends.

    Parameters
    ----------
    model
        A ranker, or a pipeline that ends in one.
    x
        The query, in any form.
    a, b
        Two of its documents: ids if the query has them, otherwise positions.
    context, at
        Facts about the query, and its time in seconds, if the model uses them.

    Raises
    ------
    ValueError
        A document is not in the query, or the query is bad input.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> model = PerceptronRanker.from_weights({"clicks": 2.0, "age": -0.5})
    >>> query = {"new": {"clicks": 3.0, "age": 1.0}, "old": {"clicks": 4.0, "age": 9.0}}
    >>> print(explain_one(model, query, "new", "old").in_words())
    score of new minus score of old: +2; contributions of the features:
      +4  age
      -2  clicks
    """
    block = read_for(model, x, context=context, at=at)
    i, j = _place(a, block), _place(b, block)
    with model._lock:
        columns, values, exact, pairs = _contributions(serving_steps(model), block, _columns_of(block), i, j)
    names, own = columns.names, columns.own()
    if type(block.X) is np.ndarray and isinstance(names, range):
        contributions: Any = np.bincount(own, values, len(names)).tolist()
        parts = contributions
    else:
        used, places = np.unique(own, return_inverse=True)
        parts = np.bincount(places, values, len(used)).tolist()
        named = (names[j] for j in used.tolist())
        contributions = {name: part for name, part in zip(_as_names(named, names), parts, strict=True) if part}
    difference = float(sum(parts) + sum(pairs.values()))
    if not math.isfinite(difference):
        raise ValueError("x: the difference of the scores is not finite; scale the features")
    return Explanation(a, b, difference, contributions, exact, pairs)


def feature_weights(model: Any) -> dict[str, float]:
    """The features that queries must bring for a model, by name, the most important first.

    Parameters
    ----------
    model
        A ranker, or a pipeline that ends in one.

    Returns
    -------
    The sum of the absolute weights of all that the model makes of each feature, without features of weight 0; NaN for each if
    the model is not linear. Empty if the model has met no feature yet, and if its first step knows none by its name.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> feature_weights(PerceptronRanker.from_weights({"age": -0.5, "clicks": 2.0, "stock": 0.0}))
    {'clicks': 2.0, 'age': 0.5}
    """
    *transformers, ranker = serving_steps(model)
    transformers, added = [step for step in transformers if not step._adds], names_added(model)
    names = getattr([*transformers, ranker][0], "feature_names", None) or ()
    if not names or not all(isinstance(name, str) for name in names):
        return {}
    block = Block(np.zeros((1, len(names))), None, single(1), np.ones(1), names=names)
    block, columns = _through(transformers, block, _columns_of(block))
    if ranker._linear_weights(slice(0)) is None:
        return dict.fromkeys((name for name in names if name not in added), math.nan)
    columns = _arranged(ranker, columns, block)
    own = columns.own()
    found = np.bincount(own, np.abs(ranker._linear_weights()[: len(own)]), len(columns.names))
    weights = dict(zip(columns.names, found.tolist(), strict=True))
    needed = [name for name in names if weights[name] and name not in added]
    return {name: weights[name] for name in sorted(needed, key=lambda name: -weights[name])}


class _Columns(NamedTuple):
    """The columns of a block: the features of which they are made, as indices into the names of all features.

    Columns without names are numbered from 1. Where `features` is None, each column is one feature. Of the millions of columns
    of hashed features few are used.
    """

    names: Sequence[Hashable]
    features: np.ndarray | None = None

    @property
    def n(self) -> int:
        """Their number."""
        return len(self.names if self.features is None else self.features)

    def own(self) -> np.ndarray:
        """The feature of each column."""
        return np.arange(len(self.names)) if self.features is None else self.features

    def taken(self, places: np.ndarray) -> "_Columns":
        """The columns at some places."""
        return self._replace(features=places if self.features is None else self.features[places])


def _as_names(some: Iterable[Hashable], names: Sequence[Hashable]) -> Iterable[Hashable]:
    """Some of the names, as texts if they are numbers of columns."""
    return map(str, some) if isinstance(names, range) else some


def _place(document: Any, block: Block) -> int:
    """The row of a document."""
    try:
        return (range(block.n_documents) if block.ids is None else block.ids).index(document)
    except ValueError:
        raise ValueError(f"x has no document {document!r}") from None


def _columns_of(block: Block) -> _Columns:
    """The columns of a block, each one feature: their names, or numbers from 1, as in files."""
    n = block.X.shape[1] if hasattr(block.X, "shape") else 0
    return _Columns(range(1, n + 1) if block.names is None else block.names)


def _contributions(
    steps: Sequence[Any], block: Block, columns: _Columns, a: int, b: int
) -> tuple[_Columns, np.ndarray, bool, _Pairs]:
    """The contribution of each column that a ranker gets to the difference of the scores of rows a and b.

    Returns the columns, their contributions, whether these are exact, and the contributions of pairs of features.
    """
    *transformers, ranker = steps
    if transformers:
        block, columns = _through(transformers, block, columns)
    own = ranker._split(block, a, b)
    if own is not None:
        names, values, exact, pairs = own
        # Behind transformers that keep the columns in order, the names belong to the raw features.
        columns = columns if len(names) == columns.n and not isinstance(block.X, list) else _Columns(names)
        return columns, values, exact, _named(pairs, columns)
    parts = None if ranker._blended is None else ranker._blended()
    if parts is not None:
        models, weights = parts
        return _of_blend(models, weights, block, columns, a, b)
    if isinstance(block.X, list):
        block = as_numbers(block)
        columns = _columns_of(block)
    ranker._score_all(block)  # Raises for bad values.
    is_linear = ranker._linear_weights(slice(0)) is not None
    if not ranker._n_features:
        return columns.taken(np.arange(0)), np.empty(0), is_linear, {}
    X = _two_rows(ranker, block, a, b)
    columns = _arranged(ranker, columns, block)
    if is_linear and isinstance(X, SparseRows):
        used, places = np.unique(X.columns, return_inverse=True)
        X = X._replace(columns=places.astype(np.int32), n_columns=len(used))
    else:
        used = np.arange(X.shape[1])
    X = as_array(X, ranker)
    values = (
        ranker._linear_weights(used) * (X[0].astype(np.float64) - X[1]) if is_linear else shares_of_features(ranker, X[0], X[1])
    )
    n = int(np.searchsorted(used, columns.n))
    return columns.taken(used[:n]), values[:n], is_linear, {}


def _named(pairs: Mapping[tuple[int, int], float], columns: _Columns) -> _Pairs:
    """The contributions of pairs by the names of their features, in the order of these; a feature is no pair with itself."""
    own, names, found = columns.own(), columns.names, dict[tuple[Hashable, Hashable], float]()
    for places, value in pairs.items():
        one, other = _as_names((names[own[place]] for place in places), names)
        found[one, other] = found.get((one, other), 0.0) + value
    return found


def _two_rows(ranker: Any, block: Block, a: int, b: int) -> Any:
    """Two documents in the columns of a ranker."""
    if isinstance(block.X, SparseRows):
        one, two = block.X.rows(a, a + 1), block.X.rows(b, b + 1)
        starts = np.append(one.starts, one.starts[-1] + two.starts[1:])
        columns, values = (np.concatenate(both) for both in ((one.columns, two.columns), (one.values, two.values)))
        X: Any = SparseRows(starts, columns, values, block.X.n_columns)
    else:
        X = block.X[[a, b]]
    return ranker._reader.align(ranker, block._replace(X=X, y=None, offsets=single(2), ids=None)).X


def _through(steps: Sequence[Any], block: Block, columns: _Columns) -> tuple[Block, _Columns]:
    """A block after some transformers, and its columns."""
    for step in steps:
        columns = _arranged(step, columns, block)
        made = step._transform_block(block)
        try:
            columns = columns.taken(step._sources(columns.n))
        except (TypeError, AttributeError):  # The columns of such a step are explained as they are.
            columns = _columns_of(made)
        if block.names is None and made.names is not None and len(columns.names) in (0, len(made.names)):
            columns = _columns_of(made)  # The step names the columns of arrays, or makes columns of documents.
        block = made
    return block, columns


def _arranged(step: Any, columns: _Columns, block: Block) -> _Columns:
    """The columns in the order in which a step knows them."""
    own = getattr(step, "feature_names", None)
    if own is None or block.names is None or own == block.names:
        return columns
    known, names = dict(zip(block.names, columns.own().tolist(), strict=True)), [*_as_names(columns.names, columns.names)]
    features = []
    for name in own:
        if name not in known:
            known[name] = len(names)
            names.append(name)
        features.append(known[name])
    return _Columns(names, np.array(features, dtype=np.int64))


def _of_blend(
    models: Sequence[Any], weights: np.ndarray, block: Block, columns: _Columns, a: int, b: int
) -> tuple[_Columns, np.ndarray, bool, _Pairs]:
    """The contributions in a blend: the contributions in each model, times its weight."""
    names: dict[Hashable, int] | None = None
    features, values, pairs = [], [np.empty(0)], dict[tuple[Hashable, Hashable], float]()
    exact = True
    for model, weight in zip(models, weights.tolist(), strict=True):
        if not weight:
            continue
        own, contributions, is_exact, of_pairs = _contributions(serving_steps(model), block, columns, a, b)
        exact &= is_exact
        for pair, value in of_pairs.items():
            pairs[pair] = pairs.get(pair, 0.0) + weight * value
        if own.names is columns.names:
            features.append(own.own())
        else:
            if names is None:
                names = {name: j for j, name in enumerate(_as_names(columns.names, columns.names))}
            places = np.array([names.setdefault(name, len(names)) for name in _as_names(own.names, own.names)], dtype=np.int64)
            features.append(places[own.own()])
        values.append(weight * contributions)
    whole = np.concatenate([np.empty(0, np.int64), *features])
    return _Columns(columns.names if names is None else tuple(names), whole), np.concatenate(values), exact, pairs


def shares_of_features(ranker: Any, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The change of the score as each feature of a replaces the same feature of b, (d,), averaged over several orders."""
    shares = np.zeros(len(a))
    differ = np.flatnonzero(a != b)
    if not len(differ):
        return shares
    a_feature = len(a) * max(1, ranker._n_documents_kept // 16)
    if len(differ) * a_feature > _MOST_SCORED:
        raise ValueError(
            f"x: the documents differ in {len(differ)} features; this {type(ranker).__name__} of {len(a)} features can share "
            f"the difference among {_MOST_SCORED // a_feature}"
        )
    rng = np.random.default_rng(0)
    for _ in range(_ORDERS):
        order = rng.permutation(differ)
        for way in (order, order[::-1]):
            shares[way] += np.diff(_scores_on_the_way(ranker, a, b, way))
    return shares / (2 * _ORDERS)


def _scores_on_the_way(ranker: Any, a: np.ndarray, b: np.ndarray, way: np.ndarray) -> np.ndarray:
    """The scores of b, then of b with the first feature of `way` taken from a, with the first two, and so on."""
    scores = np.empty(len(way) + 1)
    at_once = max(1, _AT_A_TIME // len(b))
    for first in range(0, len(scores), at_once):
        begun = b.copy()
        begun[way[:first]] = a[way[:first]]
        rows = np.tile(begun, (min(at_once, len(scores) - first), 1))
        for step, j in enumerate(way[first : first + len(rows) - 1].tolist(), start=1):
            rows[step:, j] = a[j]
        scores[first : first + len(rows)] = ranker._score(rows)
    return scores
