"""Ridge regression on clicks, for lists around the ranking of today."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from online_rank._kernels import ridge as kernels
from online_rank.base import Abilities, Ranker
from online_rank.base.form import Head, Linear
from online_rank.base.growth import grown_triangle, with_zeros
from online_rank.base.lock import locked
from online_rank.base.rounds import largest_norm
from online_rank.base.schema import Array, Count, Derived, Schema
from online_rank.feedback.arrays import shown_block
from online_rank.feedback.policies import Policy, require_policy
from online_rank.query import Block
from online_rank.rankers.averaged import scores_by
from online_rank.rankers.exploring import BEGUN
from online_rank.rankers.rules import as_parameter, as_weights

#: How many positions of a page teach.
_PLACES = 50
#: lambda: as much evidence speaks for the initial weights.
_LAMBDA = 10.0
#: The weights are solved for again when the number of lists with clicks has grown by this factor.
_GROWTH = 1.02
#: Entries of the equations from which on rounding may take lambda away.
_LARGE = 1e15


class ClickRidge(Ranker):
    r"""Linear ranker that learns from clicks by ridge regression, comparing each document with what stands there on average.

    In a list with a click, the document at position p has the features :math:`x_p` and the gain :math:`g_p`. Over the earlier
    lists with clicks, documents at p had the mean features :math:`M_p` and gains of mean :math:`m_p` and variance :math:`v_p`.
    With :math:`z_p = x_p - M_p` less its mean in the list, weighted by v, and initial weights :math:`w_0`,

    .. math:: A \mathrel{+}= \sum_p v_p z_p z_p^\top, \qquad b \mathrel{+}= \sum_p (g_p - m_p) z_p, \qquad
        w = w_0 + (A + 10 I)^{-1} (b - A w_0).

    - Every list teaches, also one that nothing was drawn for: over time other documents stand at each position. The draws
      of a policy add the comparisons that a fixed ranking never makes.
    - A position that nobody examines has gains of variance 0 and counts nothing: two documents of a list count as a pair
      with the weight :math:`v_p v_q / \sum v`. So does a position where everybody clicks.
    - The solution takes into account that features go together, and that today's score hardly varies at a position.

    M, m and v count one more list, of features and gains 0 and with variance 1. A list without clicks teaches nothing.

    Assumptions: whether a position is examined does not depend on the features of its document; and the positions were assigned
    by features that the ranker sees, or at random. So give it the score of the ranking of today as a feature. Put
    `StreamQuantileMap` in front, or a scaler: the initial weights and lambda are for columns of about unit scale.

    Parameters
    ----------
    today
        The initial weights, on the scale of the columns: `{"score": 1.0}` behind `StreamQuantileMap` ranks by `score`. Or d
        numbers for features known by their position. None for zeros: it ranks documents in the order given until the first
        click.
    policy
        How `show_one` draws; None for `PlackettLuce(k=10, keep=0.98, newcomers=0.01)`.

    Raises
    ------
    TypeError, ValueError
        `today` is empty or of another type, or a weight is not a finite number.

    Notes
    -----
    A query takes O(k d^2) for k documents shown, and the memory is 4 d^2 bytes: use it for up to a few hundred columns.
    Documents below position 50 teach nothing. Grades are learned as gains of documents shown in the order given.
    `last_round.loss` is 0: clicks do not say how good another order would have been.

    References
    ----------
    Effects of position and list: Baltagi, *Econometric Analysis of Panel Data*, chapter 3. Agarwal et al., *Estimating Position
    Bias without Intrusive Interventions*, 2019: what can be learned from documents that moved.

    Examples
    --------
    >>> from online_rank import ClickRidge, PlackettLuce, StreamQuantileMap
    >>> model = StreamQuantileMap() | ClickRidge({"score": 1.0}, policy=PlackettLuce(k=2, keep=0.98))
    >>> for i in range(30):
    ...     query = {"a": {"score": 3, "price": i % 3}, "b": {"score": 2, "price": i % 5}, "c": {"score": 1, "price": 0}}
    ...     shown = model.show_one(query)
    ...     cheap = min(shown.order, key=lambda document: query[document]["price"])
    ...     model.learn_one(query, shown.clicked([cheap]))
    >>> weights = model["ClickRidge"].weights
    >>> bool(weights[model["ClickRidge"].feature_names.index("price")] < 0)
    True
    """

    _schema = Schema(
        _gram=Array(lambda ranker: ranker._n_features * (ranker._n_features + 1) // 2),
        _moment=Array("d"),
        _learned=Array("d"),
        _gains=Array(_PLACES, 3, low=0.0),
        _features=Array(_PLACES, "d"),
        _n_clicked=Count(),
        _due=Count(),
        _initial=Derived("d"),
    )

    #: The stored triangle has half the square of this many entries.
    max_features = 2048
    _changes_in_place = False

    def __init__(
        self, today: Mapping[Hashable, float] | tuple[float, ...] | None = None, *, policy: Policy | None = None
    ) -> None:
        super().__init__()
        require_policy(policy)
        self.today = None if today is None else as_parameter(today, "today")
        self.policy = policy
        self._gram = np.empty(0)
        self._moment = np.empty(0)
        # What is added to the initial weights.
        self._learned = np.empty(0)
        # For each position: weight of the lists, sum of gains and of their squares; and the sum of features.
        self._gains = np.zeros((_PLACES, 3))
        self._features = np.empty((_PLACES, 0))
        self._n_clicked = 0
        self._due = 1
        self._initial = np.empty(0)
        if self.today is not None:
            names, values = as_weights(self.today)
            self._reader.extend(self, names, 0 if names else len(values))
        self._derive()

    def _abilities(self) -> Abilities:
        return Abilities(takes_clicks=True, takes_any_list=True, draws=True)

    @property
    def _own_policy(self) -> Policy:
        return BEGUN if self.policy is None else self.policy

    @property
    @locked
    def weights(self) -> np.ndarray:
        """The weights that serve rankings, float64 (d,), a copy; in the order of `feature_names` when features are named."""
        return self._initial + self._learned

    def _derive(self) -> None:
        """The initial weights in the order of the columns: those that were given come first."""
        self._initial = np.zeros(self._n_features)
        if self.today is not None:
            _, values = as_weights(self.today)
            self._initial[: len(values)] = values

    def _grow(self, n_new: int) -> None:
        self._gram = grown_triangle(self._gram, self._n_features, n_new)
        self._moment = with_zeros(self._moment, n_new)
        self._learned = with_zeros(self._learned, n_new)
        self._features = with_zeros(self._features, n_new, axis=1)
        self._initial = with_zeros(self._initial, n_new)

    def _added(self, n_new: int) -> int:
        d = self._n_features
        return super()._added(n_new) + _PLACES * n_new + (d + n_new) ** 2 - d**2

    def _linear_weights(self, columns: Any = slice(None)) -> np.ndarray:
        return self.weights[columns]

    def _head(self) -> Head:
        return Linear(self.weights)

    def _score(self, X: Any) -> np.ndarray:
        return scores_by(self._initial + self._learned, X)

    def _learn_query(self, query: Block, row: np.ndarray) -> bool:
        return self._learn_shown(query, row, largest_norm(query.X), lambda rows: query.X[rows].astype(np.float64))

    def _learn_shown(self, query: Block, row: np.ndarray, norm: float, columns: Callable[[np.ndarray], np.ndarray]) -> bool:
        """As `_learn_query`, from columns (n, d) of the documents in some rows, all of a largest norm."""
        shown, weight = shown_block(query, drawn=False), float(query.w[0])
        n = int(np.searchsorted(shown.places[: len(shown.rows) - shown.held[0]], _PLACES))
        gains = shown.gains[:n]
        if not (np.isfinite(norm) and 0.0 <= weight < np.inf and (gains >= 0.0).all()):
            return False
        if weight > 0.0 and gains.any() and (X := columns(shown.rows[:n])).shape[1]:
            with np.errstate(all="ignore"):  # What is not finite is refused.
                learned = self._add(X, gains, shown.places[:n], weight)
            if not learned:
                return False
        row[:] = 0.0, np.nan, 0.0, 0.0, 0.0, weight, query.n_documents, norm, 0.0, True
        return True

    def _add(self, X: np.ndarray, gains: np.ndarray, places: np.ndarray, weight: float) -> bool:
        """Add a list to the equations and the means, and solve if it is due. Returns whether all is finite."""
        counts, total, squares = self._gains[places].T
        number = 1.0 + counts
        mean = total / number
        variance = np.maximum((1.0 + squares) / number - mean**2, 1.0 / number)  # not below that but by rounding
        rows = X - self._features[places] / number[:, None]
        rows -= (variance[:, None] * rows).sum(axis=0) / variance.sum()
        moment = ((gains - mean)[:, None] * rows).sum(axis=0)
        rows *= np.sqrt(variance)[:, None]
        moment -= (rows * (rows * self._initial).sum(axis=1)[:, None]).sum(axis=0)
        moment = self._moment + weight * moment
        gram, learned = np.empty_like(self._gram), self._learned[None]
        kernels.add_rows(np.sqrt(weight) * rows, 1.0, self._gram, gram)
        means, features = self._gains.copy(), self._features.copy()
        means[places] += weight * np.column_stack((np.ones(len(gains)), gains, gains**2))
        features[places] += weight * X
        if not all(np.isfinite(array).all() for array in (gram, moment, means, features)):
            return False
        # Next to large entries lambda may be lost: the list after which no solution is found is refused, not those that follow.
        if is_due := self._n_clicked + 1 >= self._due or gram.max() > _LARGE:
            learned = np.full((1, len(moment)), np.nan)
            kernels.solve(gram, moment, np.array([_LAMBDA]), learned)
            if not np.isfinite(learned).all():
                return False
        vars(self).update(
            _gram=gram,
            _moment=moment,
            _learned=learned[0],
            _gains=means,
            _features=features,
            _n_clicked=self._n_clicked + 1,
            _due=int(_GROWTH * (self._n_clicked + 1)) + 1 if is_due else self._due,
        )
        return True
