"""The perceptron on clicks, with a certificate."""

import numpy as np

from online_rank._kernels import click_perceptron as kernels
from online_rank._kernels.clicks import confidence
from online_rank.base.anatomy import Abilities
from online_rank.base.schema import Array, Derived, Schema
from online_rank.feedback.arrays import shown_block
from online_rank.feedback.policies import PlackettLuce, Policy, require_policy
from online_rank.measures import discounts
from online_rank.query import Block
from online_rank.rankers.averaged import LinearRanker, averaging
from online_rank.surrogates import require_choice

__all__ = ["ClickPerceptron"]

CREDITS, COSTS = ("swap", "propensity"), ("rank", "dcg")


class ClickPerceptron(LinearRanker):
    r"""Linear ranker that learns from clicks by the mistakes that they show, with a bound on their sum.

    Weights :math:`a_{ij} \ge 0` are put on pairs of a document i clicked and a document j that the scores do not rank below it
    by more than a margin, :math:`s_j \ge s_i - \tau`, and

    .. math:: w \leftarrow w + \sum_{ij} a_{ij} (x_i - x_j), \qquad V_t = \sum_{ij} a_{ij}.

    For every sequence of queries, users and draws, and every comparator u, with F(u) = sum of a_ij max(0, 1 - u'(x_i - x_j)),

    .. math:: \sum_t V_t \le F(u) + \|u\| \sqrt{\sum_t (\|z_t\|^2 + 2 \tau_t V_t)}.

    What V_t bounds depends on the credit:

    - `"swap"`: pairs and weights of `SwapRanker`, a_ij = rho (g_i - g_j): V_t is at least the weight of the pairs shown that
      the learning weights have wrong or tied (`last_round.loss`). Nothing is assumed of users.
    - `"propensity"`: users look at position p with the known probability `examination[p - 1]`, whatever the documents. A click
      on i has the mass lambda(rank_i) / examination, in equal parts on the documents j of the whole query. In expectation V_t
      is then at least the cost sum_i r_i lambda(rank_i) of the ranking by the learning weights, over the documents i that were
      shown, with r_i the probability that i attracts a click (of all documents, where all are shown).

    Parameters
    ----------
    policy
        How `show_one` draws; None for `PlackettLuce(k=10, seed=0)`.
    credit
        `"swap"` or `"propensity"`.
    examination
        For `"propensity"`: the probability > 0 that each position shown is looked at, for example `PositionBias.examination`.
    cost
        lambda of `"propensity"`: `"rank"` is rank - 1, `"dcg"` the discount that is lost, 1 - 1/log2(rank + 1).
    relative_margin
        beta: tau is beta times the mean squared norm of the documents seen so far.
    average
        Which weights serve rankings: True, the average of all weight vectors so far; a number, an average with that half-life
        in queries; False, the last.

    Notes
    -----
    Put a scaler in front: like every perceptron it adds features up. A `LossTracker` around it adds up V_t and F(u), and
    certifies (`online_rank.bounds.click_data_bound`). `SwapRanker` learns faster, without a certificate.

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
        average: bool | float = True,
    ) -> None:
        super().__init__(averages=average is not False, n_counters=4)
        require_policy(policy)
        require_choice(credit=(credit, CREDITS), cost=(cost, COSTS))
        if (credit == "propensity") != (examination is not None):
            raise ValueError(f"credit={credit!r} goes {'without' if examination is not None else 'with'} examination")
        if examination is not None and not all(0.0 < p <= 1.0 for p in examination):
            raise ValueError(f"examination is {examination}; it is one probability > 0 for each position shown")
        if not 0.0 <= relative_margin < np.inf:
            raise ValueError(f"relative_margin is {relative_margin}; it must be a finite number >= 0")
        self.policy = policy
        self.credit = credit
        self.examination = examination
        self.cost = cost
        self.relative_margin = relative_margin
        self.average = average
        self._constants = np.array([relative_margin, averaging(average)])
        self._squares = np.empty(0)

    _schema = Schema(_counters=Array(4, low=0.0), _squares=Array("d", low=0.0), _constants=Derived())
    _learns_atomically = True
    #: What bounds speak of (`online_rank.bounds.coverage`).
    update = "clicks"

    def _abilities(self) -> Abilities:
        return Abilities(takes_clicks=True, draws=True)

    @property
    def _own_policy(self) -> Policy:
        return _DEFAULT if self.policy is None else self.policy

    def _confidence(self) -> float:
        # The weights are the sum of all updates.
        return confidence(self._weights, self._squares)

    def _grow(self, n_new: int) -> None:
        super()._grow(n_new)
        self._squares = np.concatenate((self._squares, np.zeros(n_new)))

    def _learn(self, block: Block, rounds: np.ndarray) -> int:
        examination = np.array(self.examination or (), np.float64)
        shown = shown_block(block, drawn=self.credit == "swap")
        if len(examination) and isinstance(block.y, tuple) and (longest := int(np.diff(shown.starts).max())) > len(examination):
            raise ValueError(f"y: {longest} documents were shown, but examination has {len(examination)} positions")
        return kernels.learn(
            block.X,
            block.offsets,
            *shown,
            block.w,
            examination,
            self.cost == "dcg",
            discounts(block.n_documents),
            self._constants,
            self._weights,
            self._average,
            self._squares,
            self._counters,
            rounds,
        )


_DEFAULT = PlackettLuce()
