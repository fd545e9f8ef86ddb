"""Features from the result lists of retrievers."""

import itertools
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank.base.anatomy import Abilities
from online_rank.base.reader import require_array_room
from online_rank.base.schema import Schema
from online_rank.base.transformer import QueryTransformer
from online_rank.query import Block, Retrieved, require_finite
from online_rank.query.forms import rows_of_dicts
from online_rank.query.names import are_nfc, names_in_nfc

#: The features that `RunFeatures` can make of a run, in the order of its columns.
PARTS = ("minmax", "zscore", "reciprocal_rank", "found")

#: Reciprocal ranks and the floor are multiples of its inverse.
_GRID = 2.0**44


class RunFeatures(QueryTransformer):
    r"""Turn the result lists of retrievers into features that a linear model can fuse.

    From the score s of a document in a run, relative to the scores of the same query and run:

    - `"minmax"`: (s - min) / (max - min), `floor` for the smallest score; 1 where all scores of the run are equal;
    - `"zscore"`: (s - mean) / standard deviation, and 0 where all are equal;
    - `"reciprocal_rank"`: 1 / (k + rank), rank 1 for the best score;
    - `"found"`: 1.

    A document that the retriever did not return gets 0 for `"minmax"`, `"reciprocal_rank"` and `"found"`. For `"zscore"` it
    gets the smallest z-score of the run, since 0 would be average.

    Reciprocal rank fusion ([1]) is the sum of the columns `reciprocal_rank`, and the usual convex combination of normalised
    scores a weighted sum of the columns `minmax`. So a linear ranker can begin as either, and learn from there.

    It learns nothing, and must be the first step, where missing documents are still visible. A column is named after its run
    and part, as in `"bm25 minmax"`. Features that are not runs follow unchanged; a missing one is 0.

    Reciprocal ranks and `floor` are rounded to multiples of 2^-44, so that their sum over runs does not depend on the order of
    the runs: a document at ranks 1, 2, 3 ties with one at ranks 3, 1, 2, and the two keep the order of the candidates.

    Queries are `Runs`, in which equal scores stand in the order of their list. In any other form of a query, features are
    scores, a document without one was not returned, and equal scores share the mean of their ranks.

    Parameters
    ----------
    runs
        Names of the retrievers. None: the retrievers of the query's `Runs`; in other forms, all features.
    parts
        The features to make of each run: some of `"minmax"`, `"zscore"`, `"reciprocal_rank"` and `"found"`.
    k
        The constant of the reciprocal rank.
    floor
        The `"minmax"` of the smallest score of a run: 0.001 in OpenSearch's `normalization-processor`, which so tells the last
        of a run from documents that the run lacks.

    Raises
    ------
    TypeError, ValueError
        An argument is out of its range. Later: a query has a run that `runs` does not name; or it is not given as `Runs`, and
        no document has a score of a named run.

    References
    ----------
    [1] Cormack, Clarke & Büttcher, *Reciprocal Rank Fusion Outperforms Condorcet and Individual Rank Learning Methods*, SIGIR
    2009.

    Examples
    --------
    >>> from online_rank import RunFeatures, Runs
    >>> query = Runs({"bm25": [("a", 9.0), ("b", 5.0), ("c", 1.0)], "vector": [("c", 0.5)]})
    >>> for name, features in RunFeatures(parts=("minmax", "found")).transform_one(query).items():
    ...     print(name, features)
    a {'bm25 minmax': 1.0, 'bm25 found': 1.0, 'vector minmax': 0.0, 'vector found': 0.0}
    b {'bm25 minmax': 0.5, 'bm25 found': 1.0, 'vector minmax': 0.0, 'vector found': 0.0}
    c {'bm25 minmax': 0.0, 'bm25 found': 1.0, 'vector minmax': 1.0, 'vector found': 1.0}
    """

    _schema = Schema()

    def _abilities(self) -> Abilities:
        return Abilities(takes_documents=True, takes_sparse=True, learns=False)

    @property
    def _n_numbers_a_score(self) -> int:
        # Its output, scores, ranks, and what their parts are made of.
        return len(self.parts) + 8

    def _cells(self, n_documents: int, n_features: int) -> int:
        # Half of it all is the largest of two arrays.
        return n_documents * n_features * self._n_numbers_a_score // 2

    # Signs name its columns, since runs are no features.
    _rises = True

    def __init__(
        self,
        runs: Sequence[str] | None = None,
        *,
        parts: Sequence[str] = ("minmax", "reciprocal_rank", "found"),
        k: float = 60.0,
        floor: float = 0.0,
    ) -> None:
        super().__init__()
        arguments.names("runs", runs, "names of retrievers", optional=True)
        if isinstance(parts, str) or not parts or len(set(parts)) < len(parts):
            raise ValueError(f"parts is {parts!r}; it must be different ones of {', '.join(map(repr, PARTS))}")
        for part in parts:
            arguments.choice("parts", part, PARTS)
        arguments.number("k", k, 0)
        arguments.number("floor", floor, 0, 1)
        self.runs = runs if runs is None or are_nfc(runs) else names_in_nfc(runs, "runs")
        self.parts = parts
        self.k = k
        self.floor = floor

    def _transform_block(self, block: Block) -> Block:
        values, ranks, names = _read(block, self)
        # Columns that come from a retriever; none in other forms than `Runs`, where this is unknown.
        retrieved = ~np.isnan(ranks).all(axis=0)
        if self.runs is None:
            runs = np.flatnonzero(retrieved | (not retrieved.any())).tolist()
        else:
            if names is None:
                raise ValueError("runs are named, but the features of x are known by position: leave runs out, or name them")
            for name, is_run in zip(names, retrieved.tolist(), strict=True):
                if is_run and name not in self.runs:
                    raise ValueError(f"x has the run {name!r}, but runs names {', '.join(map(repr, self.runs))}")
            if not retrieved.any() and block.n_documents and not {*names} & {*self.runs}:
                listed = " or ".join(map(repr, self.runs))
                raise ValueError(f"x: no document has a score of {listed}; give lists of retrievers as Runs({{name: list}})")
            names = (*names, *(name for name in self.runs if name not in names))
            absent = np.full((len(values), len(names) - values.shape[1]), np.nan)
            values, ranks = np.hstack([values, absent]), np.hstack([ranks, absent])
            runs = [names.index(name) for name in self.runs]
        made = [part for part in PARTS if part in self.parts]
        others = np.setdiff1d(np.arange(values.shape[1]), runs).tolist()
        out = np.empty((block.n_documents, len(runs) * len(made) + len(others)))
        for first, last in itertools.pairwise(block.offsets.tolist()):
            of_query = out[first:last, : len(runs) * len(made)].reshape(last - first, len(runs), len(made))
            scores, places = values[first:last, runs], ranks[first:last, runs]
            for place, part in enumerate(made):
                of_query[:, :, place] = _part_of(scores, places, part, self.k, self.floor)
        out[:, len(runs) * len(made) :] = np.nan_to_num(values[:, others], nan=0.0)
        if names is None:
            return block._replace(X=out, names=None)
        columns = (*(f"{names[j]} {part}" for j in runs for part in made), *(names[j] for j in others))
        if others and len(set(columns)) < len(columns):  # Columns of runs differ.
            raise ValueError(f"x: a feature is called {max(columns, key=columns.count)!r}, as a column of a run is")
        return block._replace(X=out, names=columns)


def _part_of(scores: np.ndarray, ranks: np.ndarray, part: str, k: float, floor: float) -> np.ndarray:
    """One feature of the runs of one query.

    Parameters
    ----------
    scores
        float64 (m, r), NaN where a run lacks the document.
    ranks
        float64 (m, r), NaN where only the score is known.
    part, k, floor
        As in `RunFeatures`.

    Returns
    -------
    float64 array of shape (m, r).
    """
    found = ~np.isnan(scores)
    if part == "found":
        return found.astype(np.float64)
    if part == "reciprocal_rank":
        places = np.where(np.isnan(ranks), _ranks_by_score(scores, found), ranks)
        return np.where(found, np.rint(_GRID / (k + places)) / _GRID, 0.0)
    low = np.where(found, scores, np.inf).min(axis=0, initial=np.inf)
    high = np.where(found, scores, -np.inf).max(axis=0, initial=-np.inf)
    # Halves, so that the range of any two scores is finite; for the two smallest numbers it is 0.
    half = 0.5 * high - 0.5 * low
    constant = ~(half > 0.0)
    spread = np.where(constant, 1.0, half)
    unit = np.where(found & ~constant, (0.5 * scores - 0.5 * np.where(constant, 0.0, low)) / spread, 0.0)
    if part == "minmax":
        return np.where(found, np.where(constant, 1.0, np.where(unit > 0.0, unit, round(floor * _GRID) / _GRID)), 0.0)
    n_found = np.maximum(found.sum(axis=0), 1)
    centred = np.where(found, unit - unit.sum(axis=0) / n_found, 0.0)
    deviation = np.sqrt((centred * centred).sum(axis=0) / n_found)
    z = centred / np.where(deviation > 0.0, deviation, 1.0)
    return np.where(found, z, np.where(found, z, np.inf).min(axis=0, initial=0.0))


def _ranks_by_score(scores: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Ranks (m, r) from 1, best score first; equal scores share the mean of their ranks."""
    ranks = np.ones(scores.shape)
    for column, own, known in zip(ranks.T, scores.T, found.T, strict=True):
        ascending = np.sort(own[known])
        above = len(ascending) - np.searchsorted(ascending, own[known], "right")
        at_least = len(ascending) - np.searchsorted(ascending, own[known], "left")
        column[known] = 0.5 * (above + 1 + at_least)
    return ranks


def _read(block: Block, step: RunFeatures) -> tuple[np.ndarray, np.ndarray, tuple[Hashable, ...] | None]:
    """What a block says of its documents. Raises an error that names the value that is no finite number.

    Returns
    -------
    float64 arrays (n, d) of scores and features, and of places in the retrievers' lists, NaN where there is nothing; and the
    names of the columns, None if they are known by position.
    """
    documents = block.X if isinstance(block.X, list) else []
    if isinstance(block.X, list):
        scores = [{name: value.score if type(value) is Retrieved else value for name, value in x.items()} for x in documents]
        rows, names = rows_of_dicts(scores, block.ids)
        block = block._replace(X=rows, names=names)
    require_finite(block)
    X = block.X
    if isinstance(X, np.ndarray):
        return X.astype(np.float64), np.full(X.shape, np.nan), block.names
    require_array_room(X, step)
    values: Any = np.full(X.shape, np.nan)
    ranks: Any = values.copy()
    places = np.repeat(np.arange(X.shape[0]), np.diff(X.starts)), X.columns
    values[places] = X.values
    if documents:
        ranks[places] = [value.rank if type(value) is Retrieved else np.nan for x in documents for value in x.values()]
    return values, ranks, block.names
