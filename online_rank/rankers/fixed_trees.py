"""A ranker by trees that another library has trained, which never changes."""

import os
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from online_rank import arguments
from online_rank._kernels.arrays import all_finite
from online_rank._kernels.file_trees import score_file_trees
from online_rank._kernels.graded import judge_rankings
from online_rank.base import Abilities, Ranker
from online_rank.base.form import Head, Tree, Trees
from online_rank.base.reader import Reader, own_names, read_for
from online_rank.base.rounds import largest_norm
from online_rank.base.schema import Derived, Schema
from online_rank.measures.learned import discounts
from online_rank.measures.learned import measure as parse_measure
from online_rank.query import Block, SparseRows, require_finite, with_features
from online_rank.query.levels import Levels, read_documents
from online_rank.rankers.boosters import Booster, closed
from online_rank.rankers.lightgbm_text import read_lightgbm
from online_rank.rankers.xgboost_json import read_xgboost

#: Largest file, in bytes.
_MOST_BYTES = 1 << 28


def _with_documents_read(step: Any, block: Block) -> Block:
    """A block of documents as an array."""
    if type(block.X) is not list:
        return block
    levels = Levels(own_names(step), 1)
    return with_features(block, *read_documents(block.X, block.ids, levels))


def _missing(step: Any, m: int, _dtype: Any) -> np.ndarray:
    """The columns of documents that have none of the features."""
    return np.full((m, step._n_features), np.nan)


class _TreeReader(Reader):
    """Reads raw features; a feature that a document lacks is missing, not 0."""

    def __init__(self) -> None:
        super().__init__(makes_rows=False, blank=_missing)

    def align(self, step: Any, block: Block, grow: bool = False) -> Block:
        """As for every reader; texts of documents are levels, which no tree splits by."""
        return super().align(step, _with_documents_read(step, block), grow)


class FixedTrees(Ranker):
    r"""Rank by the trees of a LightGBM or XGBoost model, which never change: the model that a team serves today.

    A member of a blend, so that a team begins with its model and learning only adds to it: in
    `BlendRanker([AdditiveRanker(), FixedTrees.from_file("model.txt")], prior=(0.0, 0.5))` half of the prior is on the trees. On
    any stream the blend then loses at most as much as the trees, plus :math:`\ln 2 / \eta + \Delta + G`
    (`online_rank.bounds.certificate_of` has the numbers), and before the first feedback it ranks exactly as they do. Learning
    measures the loss of the ranking of the trees.

    Scores are the raw scores of the library: of `booster.predict(X, raw_score=True)` and `booster.predict(D,
    output_margin=True)`. Splits of numbers are read with everything that decides where missing values go: the default direction
    of each node, `zero_as_missing`, and the comparisons of XGBoost in single precision. Trees of dart and random forests are
    read. Splits by categories, linear leaves, several scores a document and other boosters raise. No code of the file is run.

    Features are known by the names in the file, or by their position if it has none (names such as `Column_0` of LightGBM are
    none). A feature that a document lacks is missing.

    Parameters
    ----------
    model
        The text of the file; `from_file` reads it.
    names
        The names of the features, in the order of the file. LightGBM writes _ for white space. None: the names in the file.
    measure
        The measure of the loss (see `online_rank.measure`).

    Raises
    ------
    TypeError, ValueError
        The text is no model of this kind; the message names the line or the place. Or `names` are not as many as features.

    Examples
    --------
    >>> from online_rank import FixedTrees
    >>> stump = '''tree
    ... max_feature_idx=0
    ... feature_names=clicks
    ... Tree=0
    ... num_leaves=2
    ... split_feature=0
    ... threshold=1.5
    ... decision_type=2
    ... left_child=-1
    ... right_child=-2
    ... leaf_value=-0.25 0.75
    ... end of trees'''
    >>> model = FixedTrees(stump)
    >>> model.predict_one([{"clicks": 1}, {"clicks": 2}, {}])
    [-0.25, 0.75, -0.25]
    """

    _schema = Schema(_measure=Derived(), _booster=Derived(), _nodes=Derived(), _roots=Derived())

    _reader = _TreeReader()

    def __init__(self, model: str, *, names: Sequence[str] | None = None, measure: str = "ndcg@10") -> None:
        super().__init__()
        if not isinstance(model, str):
            raise TypeError(f"model is of type {type(model).__name__}; it is the text of a file, which from_file reads")
        self._measure = parse_measure(measure)
        booster: Booster = read_xgboost(model) if model.lstrip()[:1] == "{" else read_lightgbm(model)
        own = booster.names
        if names is not None:
            arguments.names("names", names, "names of features")
            own = tuple(names)
        if own is not None and len(own) != booster.n_features:
            raise ValueError(f"names has {len(own)} names; the model has {booster.n_features} features")
        self.model = model
        self.names = None if names is None else tuple(names)
        self.measure = measure
        self._booster = booster
        self._nodes, self._roots = booster.joined()
        # So that it ranks by them at once.
        self._reader.extend(self, own, 0 if own else booster.n_features)

    @classmethod
    def from_file(cls, path: str | os.PathLike, *, names: Sequence[str] | None = None, measure: str = "ndcg@10") -> Self:
        """Read the text of `booster.save_model` of LightGBM, or the JSON of `booster.save_model("model.json")` of XGBoost.

        Parameters
        ----------
        path
            The file.
        names, measure
            As in the class.

        Raises
        ------
        OSError
            The file cannot be read.
        ValueError
            It is no model that can be read; the message names the file and the line or the place in it.

        Examples
        --------
        >>> FixedTrees.from_file("model.ubj")  # doctest: +SKIP
        Traceback (most recent call last):
        ValueError: model.ubj: it is no text; XGBoost writes JSON for a name that ends in .json
        """
        file = Path(path)
        if (size := file.stat().st_size) > _MOST_BYTES:
            raise ValueError(f"{path}: it has {size} bytes; at most {_MOST_BYTES} are read")
        try:
            text = file.read_bytes().decode()
        except UnicodeDecodeError:
            raise ValueError(f"{path}: it is no text; XGBoost writes JSON for a name that ends in .json") from None
        try:
            return cls(text, names=names, measure=measure)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    @property
    def used_features(self) -> list[Hashable]:
        """The features that trees split by, in the order of the file; numbers "1", "2", ... if they have no names."""
        names = own_names(self)
        return [names[j] for j in np.unique(self._nodes.columns[self._nodes.columns >= 0]).tolist()]

    def __repr__(self) -> str:
        return f"FixedTrees({len(self._roots)} trees of {self._booster.library}, {self._booster.n_features} features)"

    def _abilities(self) -> Abilities:
        return Abilities(takes_documents=True, takes_missing=True)

    def explain_one(self, x: Any, a: Any, b: Any, *, context: Any = None, at: Any = None) -> Any:
        """Why one document scores higher than another: see `online_rank.base.explain`; no tree splits by texts."""
        return super().explain_one(_with_documents_read(self, read_for(self, x, context=context, at=at)), a, b)

    def _grow(self, n_new: int) -> None:
        """Trees know no new feature."""

    def _require_values(self, block: Block) -> None:
        """Raise ValueError that names the first document and feature that is infinite; NaN is a missing value."""
        block = _with_documents_read(self, block)
        if not isinstance(block.X, SparseRows):
            block = with_features(block, np.where(np.isnan(block.X), 0.0, block.X), block.names)
        require_finite(block)

    def _head(self) -> Head:
        trees: tuple[Tree, ...] = tuple(map(closed, self._booster.trees))
        if self._booster.base:
            none = np.zeros(1, np.int64)
            trees += (Tree(none - 1, np.zeros(1), none, none, np.full(1, self._booster.base)),)
        return Trees(trees, takes_missing=True)

    def _score(self, X: np.ndarray) -> np.ndarray:
        scores = np.empty(len(X))
        score_file_trees(np.ascontiguousarray(X, dtype=np.float64), *self._nodes, self._roots, self._booster.base, scores)
        # NaN for a document with an infinite value.
        scores[np.isinf(X).any(axis=1)] = np.nan
        return scores

    def _learn_query(self, query: Block, row: np.ndarray) -> bool:
        y, w, losses, scores = query.y, query.w[0], np.zeros(1), self._score(query.X)
        if not (all_finite(scores) and 0.0 <= w < np.inf):
            return False
        levels = judge_rankings(*self._measure, scores[None], y, discounts(len(y)), losses)
        norm = largest_norm(np.nan_to_num(query.X))
        row[:] = losses[0], np.nan, 0.0, 0.0, 0.0, w, len(y), norm, 0.0, levels < 2
        return levels >= 0
