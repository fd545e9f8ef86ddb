"""Explains why one document ranks above another: the contribution of each feature to the difference of their scores."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank.base.anatomy import ranker_of, serving_steps
from online_rank.base.asked import read_for
from online_rank.base.form import sources_of
from online_rank.query import Block

__all__ = ["Explanation", "explain_one"]

#: Number of random orders for shares; each is also used in reverse.
_ORDERS = 8


class Explanation(NamedTuple):
    """The difference between the scores of two documents, split among the features.

    Attributes
    ----------
    a, b
        The documents.
    difference
        The score of a minus the score of b.
    contributions
        The contribution of each feature, largest first; they add up to the difference. Features in which the two documents do
        not differ, as the model sees them, are left out.
    exact
        Whether the contributions follow from the model alone, as when a score is a sum of functions of one feature each. For
        trees, networks and kernels they are shares: the changes of the score as the features of b are replaced by those of a
        one after another, averaged over 16 orders (Strumbelj & Kononenko 2010; Shapley values average over all orders).
    """

    a: Hashable
    b: Hashable
    difference: float
    contributions: dict[Hashable, float]
    exact: bool

    def in_words(self, most: int = 10) -> str:
        """The difference, and a line for each of the largest contributions."""
        kind = "contributions" if self.exact else "shares"
        lines = [f"{self.a} scores {self.difference:+.6g} beside {self.b}; {kind} of the features:"]
        shown = list(self.contributions.items())[:most]
        lines += [f"  {value:+.6g}  {name}" for name, value in shown]
        if rest := list(self.contributions.values())[most:]:
            lines.append(f"  {sum(rest):+.6g}  {len(rest)} others")
        return "\n".join(lines)


def explain_one(model: Any, x: Any, a: Hashable, b: Hashable, *, context: Any = None) -> Explanation:
    """Explain the difference between the scores of two documents of a query.

    Contributions are traced back through scalers, logarithms, quantile maps, ramps and encodings to the raw features, and
    through blends in the standardised units of this query.

    Parameters
    ----------
    model
        A ranker, or a pipeline that ends in one.
    x
        The query, in any form.
    a, b
        Two of its documents: ids if the query has them, otherwise positions.
    context
        What is known of the query itself, where the model looks at it.

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
    new scores +2 beside old; contributions of the features:
      +4  age
      -2  clicks
    """
    ranker_of(model)
    block = read_for(model, x, context=context)
    i, j = (_place(document, block) for document in (a, b))
    with model._lock:
        labels: Sequence[Hashable] = _names(block)
        found, exact = _contributions(model, block, labels, i, j)
    parts = sorted(((name, value) for name, value in found.items() if value != 0.0), key=lambda part: -abs(part[1]))
    return Explanation(a, b, float(sum(value for _, value in parts)), dict(parts), exact)


def _place(document: Hashable, block: Block) -> int:
    """The row of a document."""
    ids = range(block.n_documents) if block.ids is None else block.ids
    try:
        return list(ids).index(document)
    except ValueError:
        raise ValueError(f"x has no document {document!r}") from None


def _names(block: Block) -> Sequence[Hashable]:
    """The labels of a block's columns: their names, or numbers from 1, as in files."""
    if block.names is not None:
        return block.names
    return [str(j + 1) for j in range(block.X.shape[1])] if hasattr(block.X, "shape") else []


def _contributions(model: Any, block: Block, labels: Sequence[Hashable], a: int, b: int) -> tuple[dict[Hashable, float], bool]:
    """The contribution of each raw feature to the difference of the scores of rows a and b, and whether it is exact."""
    *transformers, ranker = serving_steps(model)
    block, labels = _through(transformers, block, labels)
    parts = ranker._blended()
    if parts is not None:
        front, models, shares = parts
        return _of_blend(models, shares, *_through(front, block, labels), a, b)
    aligned = ranker._align(block)
    labels = _arranged(ranker, labels, block)
    X = aligned.X if isinstance(aligned.X, np.ndarray) else aligned.X.toarray()
    weights = ranker._linear_weights()
    values = _shares(ranker, X[a], X[b]) if weights is None else weights * (X[a].astype(np.float64) - X[b])
    found: dict[Hashable, float] = {}
    for label, value in zip(labels, values.tolist(), strict=False):
        found[label] = found.get(label, 0.0) + value
    return found, weights is not None


def _through(steps: Sequence[Any], block: Block, labels: Sequence[Hashable]) -> tuple[Block, Sequence[Hashable]]:
    """A block after some transformers, and for each column the label of the feature it is made from."""
    for step in steps:
        labels = _arranged(step, labels, block)
        made = step._transform_block(block)
        try:
            sources = sources_of(step._layers(len(labels)), len(labels))
            labels = [labels[k] for k in sources.tolist()]
        except (TypeError, AttributeError):  # The columns of such a step are explained as features of their own.
            labels = _names(made)
        block = made
    return block, labels


def _arranged(step: Any, labels: Sequence[Hashable], block: Block) -> Sequence[Hashable]:
    """The labels of the columns in the order in which a step knows them."""
    own = getattr(step, "feature_names", None)
    if own is None or block.names is None or own == block.names:
        return labels
    known = dict(zip(block.names, labels, strict=True))
    return [known.get(name, name) for name in own]


def _of_blend(
    models: Sequence[Any], weights: np.ndarray, block: Block, labels: Sequence[Hashable], a: int, b: int
) -> tuple[dict[Hashable, float], bool]:
    """The contributions in a blend: those of each model over the deviation of its scores in the query, times its weight."""
    found: dict[Hashable, float] = {}
    exact = True
    for model, weight in zip(models, weights.tolist(), strict=True):
        scores = np.asarray(model._score_block(block) if hasattr(model, "steps") else model._score_all(block))
        deviation = scores.std() if scores.max() > scores.min() else 0.0
        if not weight or not deviation:
            continue
        own, is_exact = _contributions(model, block, labels, a, b)
        exact &= is_exact
        for label, value in own.items():
            found[label] = found.get(label, 0.0) + weight * value / deviation
    return found, exact


def _shares(ranker: Any, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The change of the score as each feature of b is replaced by that of a, (d,), averaged over several orders."""
    shares = np.zeros(len(a))
    differ = np.flatnonzero(a != b)
    if not len(differ):
        return shares
    rng = np.random.default_rng(0)
    for _ in range(_ORDERS):
        order = rng.permutation(differ)
        for way in (order, order[::-1]):
            rows = np.tile(b, (len(way) + 1, 1))
            for step, j in enumerate(way.tolist(), start=1):
                rows[step:, j] = a[j]
            shares[way] += np.diff(ranker._score(np.ascontiguousarray(rows)))
    return shares / (2 * _ORDERS)
