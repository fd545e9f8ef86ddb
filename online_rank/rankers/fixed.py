"""A ranker with fixed weights."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from online_rank._kernels.arrays import all_finite
from online_rank._kernels.graded import judge_rankings
from online_rank.base import Abilities, Ranker
from online_rank.base.form import Head, Linear
from online_rank.base.growth import with_zeros
from online_rank.base.reader import Reader, read_for
from online_rank.base.rounds import largest_norm
from online_rank.base.schema import Derived, Schema
from online_rank.feedback.policies import Policy, require_policy
from online_rank.measures.learned import discounts
from online_rank.measures.learned import measure as parse_measure
from online_rank.query import Block, with_features
from online_rank.query.forms import from_dicts
from online_rank.rankers.averaged import scores_by
from online_rank.rankers.rules import as_parameter, as_weights


class _OwnFeatures(Reader):
    """Reads the features that have a weight; of a ranker of today's lists, next to texts, categories and missing values."""

    def align(self, step: Any, block: Block, grow: bool = False) -> Block:
        """As for every reader; with a policy, from the features that have a weight alone, of which missing ones are 0."""
        if step.policy is None or step._columns is None or not (type(block.X) is list or block.names is not None):
            return super().align(step, block, grow)
        names = step._columns.names
        if type(block.X) is list:
            own = [{name: x[name] for name in names if x.get(name) is not None} for x in block.X]
            block = block._replace(X=own, names=None) if not any(own) else _read(block, own)
        X = np.zeros((block.n_documents, len(names)))
        for k, name in enumerate(names):
            if name in (block.names or ()):
                values = np.asarray(block.X[:, (block.names or ()).index(name)], dtype=np.float64)
                X[:, k] = np.where(np.isnan(values), 0.0, values)
        return with_features(block, X, names)


def _read(block: Block, documents: list[dict[Hashable, Any]]) -> Block:
    """A block of these documents, read as numbers. Raises TypeError that names the first that is none."""
    read = from_dicts(documents, block.ids)
    return with_features(block, read.X if isinstance(read.X, np.ndarray) else read.X.toarray(), read.names)


class FixedRanker(Ranker):
    """Rank by given weights that never change: the present ranking formula, as a member of a blend or as a baseline.

    Learning measures the loss of its ranking and changes nothing.

    Parameters
    ----------
    weights
        `{feature: weight}`, or d numbers for features known by their position; other features have weight 0.
    measure
        The measure of the loss (see `online_rank.measure`).
    policy
        How `show_one` draws. With a policy it takes clicks too, which change nothing either, and ignores all features
        without a weight, texts among them.

    Raises
    ------
    TypeError, ValueError
        `weights` is of another type, is empty, or contains anything but finite numbers.

    Examples
    --------
    >>> from online_rank.rankers.fixed import FixedRanker
    >>> model = FixedRanker({"clicks": 1.0})
    >>> model.learn_one({"a": {"clicks": 3}, "b": {"clicks": 1}}, {"a": 0, "b": 2})
    >>> model.rank_one({"a": {"clicks": 3}, "b": {"clicks": 1}}), round(model.last_round.loss, 3)
    (['a', 'b'], 0.369)
    """

    _schema = Schema(_measure=Derived(), _aligned=Derived("d"))
    _reader = _OwnFeatures()

    def __init__(
        self,
        weights: Mapping[Hashable, float] | tuple[float, ...],
        *,
        measure: str = "ndcg@10",
        policy: Policy | None = None,
    ) -> None:
        super().__init__()
        require_policy(policy)
        self.weights = as_parameter(weights)
        self.measure = measure
        self.policy = policy
        self._measure = parse_measure(measure)
        self._aligned = np.empty(0)
        # So that it ranks by them at once.
        names, values = as_weights(self.weights)
        self._reader.extend(self, names, 0 if names else len(values))
        self._derive()

    def _abilities(self) -> Abilities:
        draws = self.policy is not None
        return Abilities(
            takes_documents=draws, takes_missing=draws, takes_sparse=True, takes_clicks=draws, takes_any_list=draws,
            takes_vectors=draws, draws=draws,
        )  # fmt: skip

    @property
    def _own_policy(self) -> Policy | None:
        return self.policy

    def explain_one(self, x: Any, a: Any, b: Any, *, context: Any = None, at: Any = None) -> Any:
        """Why one document scores higher than another, by the features with a weight: see `online_rank.base.explain`."""
        block = read_for(self, x, context=context, at=at)
        if self.policy is not None:
            block = self._reader.align(self, block)
        return super().explain_one(block, a, b)

    def _grow(self, n_new: int) -> None:
        self._aligned = with_zeros(self._aligned, n_new)

    def _derive(self) -> None:
        """The weights in the order of the columns, float64 (d,): those that were given come first, and all others count 0."""
        _, values = as_weights(self.weights)
        self._aligned = np.zeros(self._n_features)
        self._aligned[: len(values)] = values

    def _linear_weights(self, columns: Any = slice(None)) -> np.ndarray:
        return self._aligned[columns]

    def _head(self) -> Head:
        return Linear(self._aligned.copy())

    def _score(self, X: Any) -> np.ndarray:
        return scores_by(self._aligned, X)

    def _learn_query(self, query: Block, row: np.ndarray) -> bool:
        y, w, losses, scores = query.y, query.w[0], np.zeros(1), self._score(query.X)
        if not (all_finite(scores) and 0.0 <= w < np.inf):
            return False
        if isinstance(y, tuple):
            row[:] = 0.0, np.nan, 0.0, 0.0, 0.0, w, query.n_documents, largest_norm(query.X), 0.0, True
            return True
        levels = judge_rankings(*self._measure, scores[None], y, discounts(len(y)), losses)
        row[:] = losses[0], np.nan, 0.0, 0.0, 0.0, w, len(y), largest_norm(query.X), 0.0, levels < 2
        return levels >= 0
