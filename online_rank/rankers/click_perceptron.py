"""The perceptron on clicks, with a certificate."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank._kernels import click_perceptron as kernels
from online_rank._kernels import sparse
from online_rank.base.anatomy import Abilities
from online_rank.base.growth import with_zeros
from online_rank.base.schema import Array, Derived, FeaturesWhere, Schema
from online_rank.feedback.arrays import ShownBlock, propensities_of, shown_block
from online_rank.feedback.policies import Greedy, Policy
from online_rank.measures.learned import discounts
from online_rank.query import Block
from online_rank.rankers import exploring
from online_rank.rankers.averaged import LinearRanker, averaging

CREDITS, COSTS = ("swap", "propensity"), ("rank", "dcg")
_GREEDY = Greedy()


class ClickPerceptron(LinearRanker):
    r"""Linear ranker that learns from the mistakes that clicks reveal, with a bound on their sum.

    Weights :math:`a_{ij} \ge 0` are put on pairs of a document i clicked and a document j that the scores do not rank below it
    by more than a margin, :math:`s_j \ge s_i - \tau`, and

    .. math:: w \leftarrow w + \sum_{ij} a_{ij} (x_i - x_j), \qquad V_t = \sum_{ij} a_{ij}.

    For every sequence of queries, users and draws, and every comparator u, with F(u) = sum of a_ij max(0, 1 - u'(x_i - x_j)),

    .. math:: \sum_t V_t \le F(u) + \|u\| \sqrt{\sum_t (\|z_t\|^2 + 2 \tau_t V_t)}.

    What V_t bounds depends on the credit:

    - `"swap"`: pairs and weights of `SwapRanker`, a_ij = rho (g_i - g_j): V_t is at least the weight of the shown pairs that
      the learning weights order wrongly or tie (`last_round.loss`). Nothing is assumed about users.
    - `"propensity"`: users look at position p with the known probability `examination[p - 1]`, for all documents. A click
      on i has the mass lambda(rank_i) / examination, in equal parts on the documents j of the whole query. In expectation V_t
      is then at least the cost sum_i r_i lambda(rank_i) of the ranking by the learning weights, over the documents i that were
      shown, with r_i the probability that i attracts a click (of all documents, where all are shown). Without `examination` a
      click is divided by the probability that its document stood where it stood: `Impression.placements`, or the product of
      `Impression.chances` down to it. r_i is then the expected number of clicks on i over all positions, which is the same for
      equally attractive documents: with placements if a click depends only on the document and its position, with the product
      for all users who read downwards.

    Parameters
    ----------
    policy
        How `show_one` draws. None for `PlackettLuce(k=10, seed=0)`, which swaps need; for `"propensity"`, whose weights say
        nothing of how far to trust them, for `Greedy(k=10)`.
    credit
        `"swap"` or `"propensity"`.
    examination
        For `"propensity"`: the probability > 0 that each position is looked at, counted from the top of the page.
        `PositionBias` and `NaturalVariation` give it relative to position 1: V_t is then relative to it too. None: the
        probabilities stored in the impressions.
    cost
        lambda of `"propensity"`: `"rank"` is rank - 1, `"dcg"` the discount that is lost, 1 - 1/log2(rank + 1).
    relative_margin
        beta: tau is beta times the mean squared norm of the documents seen so far.
    half_life
        Half-life of the average of weights that serves rankings, in queries; None for the average of all weight vectors so
        far, 0 for the last weights.
    signs
        Known signs of weights, `{"price": -1}`, as for `PerceptronRanker`. Sparse queries are then learned as dense ones.

    Notes
    -----
    Put a scaler in front, as for every perceptron. A `LossTracker` around it adds up V_t and F(u), and certifies them
    (`online_rank.bounds.mass_data_bound`). `SwapRanker` learns faster, without a certificate.

    Examples
    --------
    >>> from online_rank.feedback import PlackettLuce
    >>> from online_rank.rankers import ClickPerceptron
    >>> model = ClickPerceptron(PlackettLuce(k=2, seed=1), credit="propensity", examination=(1.0, 0.5))
    >>> query = {"a": {"fresh": 0.0}, "b": {"fresh": 1.0}}
    >>> shown = model.show_one(query)
    >>> shown.order
    ('b', 'a')
    >>> model.learn_one(query, shown.clicked(["a"]))
    >>> model.last_round.mass  # rank 2 among ties, so the cost is 1, over 0.5
    2.0
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        credit: str = "swap",
        examination: tuple[float, ...] | None = None,
        cost: str = "rank",
        relative_margin: float = 20.0,
        half_life: float | None = None,
        signs: Mapping[Any, int] | None = None,
    ) -> None:
        super().__init__(half_life, n_counters=exploring.N_COUNTERS)
        exploring.begin(self, policy, signs)
        arguments.choice("credit", credit, CREDITS)
        arguments.choice("cost", cost, COSTS)
        if credit == "swap" and examination is not None:
            raise ValueError("examination goes with credit='propensity'; exchanges of pairs need none")
        arguments.examination(examination)
        arguments.number("relative_margin", relative_margin, 0.0)
        self.credit = credit
        self.examination = examination
        self.cost = cost
        self.relative_margin = relative_margin
        self.half_life = half_life
        self._config = np.array([relative_margin, averaging(half_life), cost == "dcg"], np.float64)
        self._squares = np.empty(0)

    _schema = Schema(
        **exploring.STATE,
        _squares=Array(FeaturesWhere(lambda ranker: ranker._rows is None), low=0.0),
        _config=Derived(),
    )
    _row_width = sparse.OPTIMIZER + 1

    confidence = exploring.confidence
    policy: Policy | None
    _begun: bool

    @property
    def _own_policy(self) -> Policy:
        return _GREEDY if self.policy is None and self.credit == "propensity" else exploring.policy_of(self)

    def _abilities(self) -> Abilities:
        return exploring.abilities(self)

    def _confidence(self) -> float:
        # The weights are the sum of all updates.
        return exploring.confidence_of(self, self._weights, self._squares)

    def _grow(self, n_new: int) -> None:
        super()._grow(n_new)
        if self._rows is None:
            self._squares = with_zeros(self._squares, n_new)

    def _in_rows(self, rows: np.ndarray) -> dict[str, Any]:
        exploring.note_evidence(self, self._weights, self._squares)
        rows[:, sparse.OPTIMIZER] = self._squares
        return {"_squares": np.empty(0)}

    def _clicked(self, block: Block) -> ShownBlock:
        """The drawn ranking, with the divisors of clicks unless the credit is by exchanges of pairs."""
        shown = shown_block(block, drawn=self.credit == "swap")
        if self.credit == "swap" or not isinstance(block.y, tuple):
            return shown
        if self.examination is None:
            return shown._replace(chances=propensities_of(block.y))
        examination = np.array(self.examination, np.float64)
        places = np.minimum(shown.places, len(examination))
        # The documents held back, the last of each query, were not shown.
        for q in np.flatnonzero(shown.held):
            places[shown.starts[q + 1] - shown.held[q] : shown.starts[q + 1]] = 0
        if (places == len(examination)).any():
            raise ValueError(
                f"y: position {shown.places.max() + 1} was shown, but examination has {len(examination)} positions"
            )
        return shown._replace(chances=examination[places])

    def _begin_with(self, weights: np.ndarray, strength: float) -> None:
        super()._begin_with(weights, strength)
        self._check_state()
        self._begun = True

    def _learn(self, block: Block, rounds: np.ndarray) -> int:
        return exploring.learn_with_signs(self, block, rounds)

    def _descend(self, block: Block, rounds: np.ndarray) -> int:
        settings = self._clicked(block), block.w, discounts(block.n_documents), self._config
        X, weights, average = self._for_kernel(block.X)
        squares = None if self._rows is not None else self._squares[None]
        return kernels.learn(X, block.offsets, *settings, weights, average, squares, self._counters, rounds)
