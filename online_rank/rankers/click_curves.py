"""Curves, categories, words and vectors from clicks, for lists around the ranking of today."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank._kernels import curves
from online_rank._kernels.drawn import draw_curves
from online_rank.base import Abilities, share_lock
from online_rank.base.explain import Split
from online_rank.base.form import Head, Layered
from online_rank.base.kinds import Kinds, checked_kinds
from online_rank.base.lock import locked
from online_rank.base.reader import own_names
from online_rank.base.rounds import largest_norm
from online_rank.base.schema import Array, Derived, Nested, Schema
from online_rank.feedback.policies import Policy, require_policy
from online_rank.preprocessing import StreamQuantileMap
from online_rank.preprocessing.vector_columns import VectorColumns
from online_rank.query import Block, single
from online_rank.query.embeddings import checked_dimensions
from online_rank.query.levels import is_level
from online_rank.query.words import Worded
from online_rank.rankers.click_ridge import ClickRidge
from online_rank.rankers.click_words import ClickWords
from online_rank.rankers.curved import CurvedRanker, as_read, n_curves
from online_rank.rankers.exploring import BEGUN
from online_rank.rankers.rules import as_parameter, as_weights
from online_rank.rankers.worded import with_words

#: The columns that a feature may have: g, q, whether it is missing, and wide ramps, each of three ramps of the grid.
_LINE, _RANK, _LACKED, _RAMPS = 0, 1, 2, 3
_N_WIDE, _WIDTH = curves.N_RAMPS // 3, 3
_N_OWN = _RAMPS + _N_WIDE
#: Where wide ramps begin, and how long they rise.
_BEGIN = curves.FIRST + (curves.RISES - 1) * curves.STEP + _WIDTH * curves.STEP * np.arange(_N_WIDE)
_LONG = _WIDTH * curves.STEP
#: Columns that ranks and ramps leave to features and words that come later.
_LEFT_BY_RANKS, _LEFT_BY_RAMPS = 64, 128
_ONE_MEMBER = np.eye(curves.N_MEMBERS)[0]


class ClickCurves(CurvedRanker):
    r"""Learns from clicks a curve for each feature, categories, words and vectors, comparing documents as `ClickRidge` does.

    It takes documents as they are: numbers, dates, texts, booleans, lists of texts, vectors, missing values. g is the normal
    score of a value in the stream (the sketches of `StreamQuantileMap`), q the normal score of its rank in the query. The
    columns of a feature are g, q, five ramps :math:`r_k(g) - r_k(0)`, each .8 wide, from -2 to 2, and -1 if the value is
    missing; of a level of a category, g alone. A `ClickRidge` has all of these columns. A score is a sum of one curve of g and
    one line in q for each feature, as in `AdditiveRanker`: `curve` gives them, and engines can compute them.

    - Words of texts, and levels beyond `max_levels`, get a column once 20 lists with clicks showed them, the most frequent
      first. With a text in the context, texts have the share of its words, and whether they stand in a row.
    - Vectors have the columns of `AdditiveRanker`, learned from clicks less the mean of their position.
    - There are at most `max_columns` columns. Ranks and ramps leave room for features that come later, and so does each query
      that brings very many; a feature that finds no room does not count.

    Parameters
    ----------
    today
        Initial weights of the g of some features: `{"score": 1.0}` ranks by `score` until the first click, and `{"rank": -1.0}`
        by `rank`, less being better. Before the first list that it learns, g is 0, and so are all scores. None for zeros.
    policy
        How `show_one` draws; None for `PlackettLuce(k=10, keep=0.98, newcomers=0.01)`.
    max_levels
        Most levels of a category that have a feature each.
    kinds
        `{feature: kind}` of features whose values are texts: "text", "category" or "ignored". None lets the values decide.
    dimensions
        `{vector: length}` of vectors, if they are known.

    Raises
    ------
    TypeError, ValueError
        `today` is empty or of another type, or a parameter is out of its range.

    Notes
    -----
    The assumptions of `ClickRidge` hold: documents got their positions by features that the ranker sees, or at random. A list
    with a click takes O(k D^2) for k documents shown and D columns. Sparse rows are refused: `ClickRidge` learns these.

    Examples
    --------
    >>> from online_rank import ClickCurves, PlackettLuce
    >>> model = ClickCurves({"score": 1.0}, policy=PlackettLuce(k=3, keep=0.98))
    >>> brands = ("acme", "other", None)
    >>> for i in range(60):
    ...     query = {"abc"[j]: {"score": 3 - j, "brand": brands[(i + j) % 3]} for j in range(3)}
    ...     shown = model.show_one(query)
    ...     model.learn_one(query, shown.clicked([d for d in query if query[d]["brand"] == "acme"]))
    >>> model.rank_one({"a": {"score": 2, "brand": "other"}, "b": {"score": 2, "brand": "acme"}})
    ['b', 'a']
    """

    _schema = Schema(
        _front=Nested("StreamQuantileMap"),
        _ridge=Nested("ClickRidge"),
        _taken=Array(n_curves, _N_OWN, dtype="int64", low=-1),
        _words=Nested("ClickWords", optional=True),
        _kinds=Nested("Kinds", optional=True),
        _vectors=Nested("VectorColumns", optional=True),
        _linear=Derived(),
    )

    #: The most columns: for more, solving takes longer than a request may wait.
    max_columns = 512
    max_features = 4096

    measure, relative, signs, members = "ndcg@10", True, None, ()
    _changes_in_place = False
    _holds_features = True
    _linear = None

    def __init__(
        self,
        today: Mapping[Hashable, float] | None = None,
        *,
        policy: Policy | None = None,
        max_levels: int = 30,
        kinds: Mapping[Any, str] | None = None,
        dimensions: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__()
        require_policy(policy)
        arguments.integer("max_levels", max_levels, 1)
        if today is not None and not isinstance(today, Mapping):
            raise TypeError(f"today is of type {type(today).__name__}; it has weights by the names of features")
        self.today = None if today is None else as_parameter(today, "today")
        self.policy = policy
        self.max_levels = max_levels
        self.kinds = checked_kinds(kinds)
        self.dimensions = checked_dimensions(dimensions)
        names, values = ([], ()) if self.today is None else as_weights(self.today)
        self._front = StreamQuantileMap.taking_missing(0)
        self._ridge = ClickRidge(tuple(values) if names else None)
        self._taken = np.zeros((0, _N_OWN), dtype=np.int64)
        self._words: ClickWords | None = None
        self._kinds: Kinds | None = None
        self._vectors = VectorColumns(self.measure, dimensions=self.dimensions) if self.dimensions else None
        if names:
            self._reader.extend(self, names)
            self._front.widen(len(names))
            self._taken = np.full((len(names), _N_OWN), -1)
            self._taken[:, _LINE] = np.arange(len(names))
        share_lock(self)

    def _abilities(self) -> Abilities:
        return Abilities(
            takes_documents=True, takes_missing=True, takes_clicks=True, takes_any_list=True, draws=True, takes_context=True,
            takes_vectors=True,
        )  # fmt: skip

    @property
    def _parts(self) -> list[Any]:
        return [part for part in (self._front, self._ridge, self._words, self._vectors) if part is not None]

    @property
    def _own_policy(self) -> Policy:
        return BEGUN if self.policy is None else self.policy

    @property
    def _weights(self) -> np.ndarray:  # type: ignore[override]
        """The columns of each feature, as the reader asks for them."""
        return self._taken

    @property
    def _places(self) -> np.ndarray:  # type: ignore[override]
        """Of each feature the columns g and missing."""
        return self._taken[:, [_LINE, _LACKED]]

    def _choice(self) -> np.ndarray:
        """There are no members, whose curves might differ."""
        return np.zeros(0)

    _sigmas = _choice

    @property
    @locked
    def n_columns(self) -> int:
        """How many columns have a weight."""
        return int(self._ridge.n_features)

    @property
    @locked
    def n_words(self) -> int:
        """How many words, and levels beyond `max_levels`, have a weight."""
        return 0 if self._words is None else self._words.n_words

    def _begin_linear(self) -> None:
        raise ValueError("x is sparse: ClickCurves learns curves of features that most documents have; ClickRidge takes rows")

    def _grow(self, n_new: int) -> None:
        """Features get columns when they are learned."""

    def _added(self, n_new: int) -> int:
        d = self._ridge.n_features
        n_columns = max(min(_N_OWN * n_new, self.max_columns - d), 0)
        return super()._added(n_new) + self._front._added(n_new) + self._ridge._added(n_columns)

    def _curves(self) -> np.ndarray:
        if self._drawn is None:
            taken, weights = self._taken, np.append(self._ridge.weights, 0.0)  # A column of -1 has the last one, 0.
            W = np.zeros((len(taken), curves.N_COLUMNS, curves.N_MEMBERS))
            W[:, curves.LINE, 0] = weights[taken[:, _LINE]]
            W[:, curves.RANK, 0] = weights[taken[:, _RANK]]
            W[:, curves.PRESENT, 0] = weights[taken[:, _LACKED]]
            wide = weights[taken[:, _RAMPS:]] / _WIDTH
            W[:, curves.RAMPS : curves.RAMPS + curves.N_RAMPS, 0] = np.repeat(wide, _WIDTH, axis=1)
            self._drawn = np.empty((len(taken), 2, 2, curves.N_CELLS))
            draw_curves(_ONE_MEMBER, W, np.zeros((len(taken), 0)), np.zeros((len(taken), 2, 2, curves.POINTS + 1)), self._drawn)
        return self._drawn

    def _columns_made(self, rows: curves.CurveRows, tokens: Any, shown: np.ndarray) -> np.ndarray:
        """The columns of some documents of a query, float64 (n, D)."""
        made, taken = np.zeros((len(shown), self._ridge.n_features)), self._taken
        g, q = rows.g[:, shown].astype(np.float64), rows.q[:, shown].astype(np.float64)
        lacked = rows.cells[:, shown] == curves.MISSING
        for k, values in ((_LINE, g), (_RANK, q), (_LACKED, -1.0 * lacked)):
            own = taken[:, k] >= 0
            made[:, taken[own, k]] = values[own].T
        for k in range(_N_WIDE):
            own = taken[:, _RAMPS + k] >= 0
            risen = np.clip((g[own] - _BEGIN[k]) / _LONG, 0.0, 1.0) - np.clip(-_BEGIN[k] / _LONG, 0.0, 1.0)
            made[:, taken[own, _RAMPS + k]] = np.where(lacked[own], 0.0, risen).T
        if tokens is not None and self._words is not None:
            own = tokens.rows(shown)
            columns = self._words.columns_of(own.keys)
            documents = np.repeat(np.arange(len(shown)), np.diff(own.starts))
            known = columns >= 0
            np.add.at(made, (documents[known], columns[known]), own.values[known])
        return made

    def _score_queries(self, X: Any, offsets: np.ndarray) -> np.ndarray:
        scores = super()._score_queries(np.asarray(X) if type(X) is Worded else X, offsets)
        if self._words is not None and type(X) is Worded and X.tokens is not None:
            return scores + self._words.scores(X.tokens)
        return scores

    def _is_learned_one_by_one(self, _block: Block) -> bool:
        # What a text is, and the columns of a vector, follow from the queries before.
        return True

    def _learn_query(self, query: Block, row: np.ndarray) -> bool:
        X, tokens = as_read(np.asarray(query.X)), query.X.tokens if type(query.X) is Worded else None
        if np.isinf(X).any() or not 0.0 <= query.w[0] < np.inf:
            return False
        if tokens is not None and query.X.seen:
            self._kinds = (self._kinds or Kinds()).learned(query.X.seen)
        self._add_features()
        if query.w[0] > 0.0:
            self._front.learn_run(X)
        _, rows = self._score_rows(X, single(len(X)))
        norm = largest_norm(np.concatenate([rows.g, rows.q]).T.astype(np.float64))

        def columns(shown: np.ndarray) -> np.ndarray:
            self._choose_columns(X, tokens, shown)
            return self._columns_made(rows, tokens, shown)

        learned = self._ridge._learn_shown(query, row, norm, columns)
        self._drawn = None
        if self._words is not None:
            self._words.follow(self._ridge.weights)
        return learned

    def _add_features(self) -> None:
        """Give new features their maps."""
        before = len(self._taken)
        n_new = self._n_features - before
        if not n_new:
            return
        self._front.widen(n_new)
        if levels := [before + k for k, name in enumerate(own_names(self)[before:]) if is_level(name)]:
            # Earlier documents did not have these levels: their value was 0.
            self._front.were_zero(levels)
        self._taken = np.concatenate([self._taken, np.full((n_new, _N_OWN), -1)])
        self._drawn = None

    def _choose_columns(self, X: np.ndarray, tokens: Any, shown: np.ndarray) -> None:
        """Give features and words their columns, as far as there is room: features first, ramps last.

        Only features of displayed documents get some. A query that brings more than half of the room that is left fills that
        half: nobody's invented features take the room of all others.
        """
        taken = self._taken.copy()
        numbers = np.array([not is_level(name) for name in own_names(self)], dtype=bool)
        # Missing in all documents it tells them apart as little as a feature that nobody has met.
        missing = np.isnan(X[shown])
        lacked = missing.any(axis=0) & ~missing.all(axis=0)
        here = np.where(numbers, ~missing.all(axis=0), (X[shown] > 0.0).any(axis=0))
        n = first = self._ridge.n_features
        most = self.max_columns
        if 2 * np.count_nonzero(here & (taken[:, _LINE] < 0)) > most - n:
            most -= (most - n) // 2
        for columns, which, left in (
            (slice(_LINE, _RANK), here, 0),
            (slice(_RANK, _LACKED), here & numbers, _LEFT_BY_RANKS),
            (slice(_LACKED, _RAMPS), numbers & lacked, _LEFT_BY_RANKS),
            (slice(_RAMPS, _N_OWN), here & numbers, _LEFT_BY_RAMPS),
        ):
            own = taken[:, columns]
            wanted = np.flatnonzero(which & (own[:, 0] < 0))[: max(most - left - n, 0) // own.shape[1]]
            own[wanted] = np.arange(n, n + own[wanted].size).reshape(own[wanted].shape)
            n += own[wanted].size
        wanted_words = np.zeros(0, dtype=np.int64)
        if tokens is not None:
            self._words = ClickWords() if self._words is None else self._words
            own = tokens.rows(shown)
            # Pairs with what is known of the query are too many for columns.
            self._words.meet(own.keys[own.of_query == 0])
            wanted_words = self._words.wanted(self.max_columns - n)
            self._words.give(wanted_words, n)
        if n + len(wanted_words) > first:
            self._ridge._reader.extend(self._ridge, None, n + len(wanted_words) - first)
        self._taken = taken

    def _head(self) -> Head | Layered:
        if self.n_words:
            raise TypeError(
                "it has learned words of texts or levels beyond max_levels, which engines cannot compute yet; declare texts "
                "ignored (kinds=), or raise max_levels"
            )
        return super()._head()

    def _split(self, block: Block, a: int, b: int) -> Split | None:
        block = self._without_vectors(block)
        told = super()._split(block, a, b)
        return told if told is None or self._words is None else with_words(self, told, block, a, b)
