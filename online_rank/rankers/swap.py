"""A ranker that learns from clicks on its own random rankings."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank._kernels import clicks as kernels
from online_rank._kernels import sparse
from online_rank._kernels.codes import OPTIMIZER_ROWS, SCALE_FREE
from online_rank.base.anatomy import Abilities
from online_rank.base.growth import with_zeros
from online_rank.base.schema import Array, FeaturesWhere, Real, Schema
from online_rank.feedback.arrays import ShownBlock, shown_block
from online_rank.feedback.policies import Policy
from online_rank.query import Block
from online_rank.rankers import exploring
from online_rank.rankers.averaged import LinearRanker, RowReader
from online_rank.rankers.rules import SWAP_BEGINNING

_N_KEPT = OPTIMIZER_ROWS[SCALE_FREE]


class _Reader(RowReader):
    """Reads features; the first query scales all initial weights, before anything is learned from it."""

    def fits(self, step: Any, block: Block) -> bool:
        """As for other linear rankers, once the initial weights have their scale."""
        return not step._strength and super().fits(step, block)

    def touched(self, step: Any, block: Block) -> np.ndarray | None:
        """As for other linear rankers, once the initial weights have their scale."""
        return None if step._strength else super().touched(step, block)


class SwapRanker(LinearRanker):
    r"""Linear ranker that learns from clicks, by comparing pairs of documents whose order on the page was random.

    If anything is clicked, each pair of shown documents, i at position a and j at b > a, with gains g, contributes

    .. math:: c_i \mathrel{+}= \rho\,\sigma'(s_i - s_j)\,(g_i - g_j - \beta_{ab}), \qquad
        c_j \mathrel{-}= \rho\,\sigma'(s_i - s_j)\,(g_i - g_j - \beta_{ab}), \qquad \rho = \frac{P(R^*)}{P(R) + P(R^*)},

    with the logistic function sigma, P(R) the probability of the ranking that was shown, and P(R*) of the same ranking with i
    and j exchanged. :math:`\beta_{ab}`, the mean of :math:`g_i - g_j` so far, weighted by rho, is the average effect of the two
    positions; subtracting it removes most of the variance. A document gains nothing from its position: equally attractive
    documents are not pushed apart, for any users and any beta [PDGD]. If only one or two documents are shown, they are also
    compared with the documents drawn next and held back, whether or not anything is clicked.

    The gradient -X'c goes to a scale-free optimizer: there is no learning rate and no schedule, and the scale of features
    affects neither learning nor exploration.

    `rank_one` is deterministic and serves the best ranking; `show_one` draws one that can be learned from.

    Parameters
    ----------
    policy
        How `show_one` draws; None for `PlackettLuce(k=10)`, and, if it begins with weights or a rule, for
        `PlackettLuce(k=10, keep=0.98, newcomers=0.01)`.
    wealth
        Initial wealth of the bets of each coordinate in the optimizer. It matters little for a ranker that begins with nothing;
        one that begins with weights or a rule moves away from them the faster, the larger it is. `from_rule` has
        its own default.
    signs
        Known signs of weights, `{"price": -1}`: weights of the wrong sign serve as 0. Sparse queries are then
        learned as dense ones.

    Notes
    -----
    `last_round.loss` is the weighted share of pairs that the scores ordered wrongly or tied before the update. Grades can be
    learned too (for a start from judged queries): they count as gains of documents that were all seen, in an order drawn
    uniformly.

    If clicks are unrelated to documents, the confidence of `show_one` should be 0; it wanders between 0 and about 0.2 instead,
    so some documents are shown more often than others even if users have no preference.

    A ranker made by `from_weights` or `from_rule` trusts its scores from the first query: its confidence is 1, and it draws its
    lists within a budget (`keep`). It learns from there, but slowly if the initial order is wrong, since documents that are
    rarely shown are rarely clicked.

    References
    ----------
    [PDGD] Oosterhuis & de Rijke, *Differentiable Unbiased Online Learning to Rank*, 2018: the pairs and their weight.
    Optimizer: Kempka, Kotłowski & Warmuth, *Adaptive Scale-Invariant Online Algorithms for Learning Linear Models*, 2019.

    Examples
    --------
    >>> from online_rank import SwapRanker
    >>> from online_rank.feedback import PlackettLuce
    >>> model = SwapRanker(PlackettLuce(k=2, seed=0))
    >>> query = {"a": {"fresh": 0.0}, "b": {"fresh": 1.0}, "c": {"fresh": 0.5}}
    >>> shown = model.show_one(query)
    >>> shown.order
    ('a', 'b')
    >>> model.learn_one(query, shown.clicked(["b"]))
    >>> model.rank_one(query)
    ['b', 'c', 'a']
    """

    def __init__(self, policy: Policy | None = None, *, wealth: float = 0.1, signs: Mapping[Any, int] | None = None) -> None:
        super().__init__(half_life=0, n_counters=exploring.N_COUNTERS)
        exploring.begin(self, policy, signs)
        arguments.number("wealth", wealth, above=0.0)
        self.wealth = wealth
        self._state = np.empty((_N_KEPT, 0))
        self._baseline = np.zeros((2, kernels.PLACES, kernels.PLACES))
        # The initial weights, to which the bets of the optimizer are added.
        self._beginning = np.empty(0)
        # The standard deviation that its initial scores are still to be scaled to; 0 once that is done.
        self._strength = 0.0

    _schema = Schema(
        **exploring.STATE,
        _state=Array(_N_KEPT, FeaturesWhere(lambda ranker: ranker._rows is None)),
        _baseline=Array(2, kernels.PLACES, kernels.PLACES),
        _strength=Real(low=0.0),
        _beginning=Array(FeaturesWhere(lambda ranker: ranker._begun and ranker._rows is None)),
    )

    _row_width = sparse.OPTIMIZER + _N_KEPT
    _rule_beginning = SWAP_BEGINNING
    _reader = _Reader(touched_only="_rows")

    confidence = exploring.confidence
    policy: Policy | None
    _begun: bool

    @property
    def _own_policy(self) -> Policy:
        return exploring.policy_of(self)

    def _abilities(self) -> Abilities:
        return exploring.abilities(self)

    def _confidence(self) -> float:
        return exploring.confidence_of(self, *self._state[:2])

    def _begin_with(self, weights: np.ndarray, strength: float) -> None:
        super()._begin_with(weights, 1.0)
        self._check_state()
        self._begun = True
        self._beginning = self._weights.copy()
        self._strength = strength

    def _scale_beginning(self, block: Block, shown: ShownBlock) -> None:
        """Scale the initial scores to a standard deviation of `strength`, in the first query in which they vary.

        Bets are in units of scores on every scale of the features, so the initial weights must be too.
        """
        scores = self._unaveraged_scores(block.X)
        for q, first in enumerate(block.offsets[:-1].tolist()):
            drawn = scores[first + shown.rows[shown.starts[q] : shown.starts[q + 1]]]
            spread = float(drawn.std()) if len(drawn) else 0.0
            if spread > 0.0 and np.isfinite(self._strength / spread):
                factor, self._strength = self._strength / spread, 0.0
                self._weights, self._beginning = factor * self._weights, factor * self._beginning
                if self._rows is not None:
                    self._rows[:, [sparse.WEIGHT, sparse.BEGINNING]] *= factor
                return

    def _grow(self, n_new: int) -> None:
        n = self._n_features
        super()._grow(n_new)
        new = np.zeros((_N_KEPT, n_new))
        new[3] = self.wealth
        if self._rows is None:
            self._state = np.concatenate((self._state, new), axis=1)
            if self._begun:
                self._beginning = with_zeros(self._beginning, n_new)
        else:
            self._rows[n : n + n_new, sparse.OPTIMIZER :] = new.T

    def _in_rows(self, rows: np.ndarray) -> dict[str, Any]:
        exploring.note_evidence(self, *self._state[:2])
        rows[:, sparse.OPTIMIZER :] = self._state.T
        if self._begun:
            rows[:, sparse.BEGINNING] = self._beginning
        return {"_state": self._state[:, :0].copy(), "_beginning": np.empty(0)}

    def _learn(self, block: Block, rounds: np.ndarray) -> int:
        return exploring.learn_with_signs(self, block, rounds)

    def _descend(self, block: Block, rounds: np.ndarray) -> int:
        shown = shown_block(block)
        if self._strength:
            before = self._strength, self._weights, self._beginning, None if self._rows is None else self._rows.copy()
            self._scale_beginning(block, shown)
            learned = self._update_weights(block, shown, rounds)
            if not learned:
                self._strength, self._weights, self._beginning, self._rows = before
            return learned
        return self._update_weights(block, shown, rounds)

    def _update_weights(self, block: Block, shown: ShownBlock, rounds: np.ndarray) -> int:
        X, weights, average = self._for_kernel(block.X)
        state, beginning = (self._state, self._beginning) if self._rows is None else (None, None)
        return kernels.learn(
            X, block.offsets, shown, block.w, self.wealth, weights, average, state, beginning, self._baseline, self._counters,
            rounds,
        )  # fmt: skip
