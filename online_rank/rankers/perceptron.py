"""The perceptron for ranking."""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from online_rank._kernels import perceptron as kernels
from online_rank._kernels.arrays import all_finite
from online_rank._kernels.codes import AVERAGED, CREDITS, DOCUMENTS, MASS, MASSES, N_COUNTERS, SQUARES
from online_rank._kernels.graded import judge_rankings
from online_rank.arguments import choice, number
from online_rank.base.anatomy import Abilities
from online_rank.base.rounds import Round, largest_norm
from online_rank.base.schema import Array, Derived, Schema
from online_rank.measures.learned import discounts, measure
from online_rank.measures.own import is_own, own_measure, share
from online_rank.query import Block, SparseRows
from online_rank.rankers.averaged import LinearRanker, averaging
from online_rank.rankers.own_pairs import GradeWeights, mean_pair, mixed_rows
from online_rank.rankers.signs import checked_signs, clip, project, project_rows

#: The measure whose pairs are learned from if a user's measure defines the loss.
_BASE = measure("ndcg")

_LOSS, _WEIGHT, _V_MAX, _N_DOCUMENTS, _LARGEST_NORM = map(
    Round._fields.index, ("loss", "weight", "v_max", "n_documents", "largest_norm")
)

#: A pair in the wrong order as a query: grades, offsets, scores that decide, and the loss of NDCG. The loss is written out,
#: because a kernel that computes it would compile at import.
_PAIR, _PAIR_OFFSETS, _PAIR_SCORES = np.array([1, 0]), np.array([0, 2]), np.array([0.0, 1.0])
_OF_A_PAIR = 1.0 - 1.0 / math.log2(3.0)

#: The updates are not added up.
_NOT_GAINED = np.empty(0)

_SPARSE_HINT = "credit='spread' learns little from a query of sparse features; for text and ids take the default, 'adaptive'"


class Weighed(NamedTuple):
    """A query as a perceptron's kernel learns it, and the loss of its ranking by a measure of the user's own, or NaN.

    `shares` (2, m) says what the documents are made of, if they are a pair of points; None if they are the query's own.
    """

    query: Block
    loss: float
    shares: np.ndarray | None = None


class PerceptronRanker(LinearRanker):
    r"""Linear ranker that learns from its mistakes, with a proven bound on its cumulative loss.

    In a round whose ranking loss RML (1 - measure, ties broken pessimistically) is positive, weights
    :math:`a_{ij} \ge 0` are put on pairs of documents in the wrong order, or in the right order by no more than a margin
    (:math:`R_i > R_j` and :math:`s_j \ge s_i - \tau_t`), and

    .. math:: w \leftarrow w + \sum_{ij} a_{ij} (x_i - x_j), \qquad RML_t \le V_t = \sum_{ij} a_{ij} \le B.

    Then for every sequence of queries and every comparator u (the mass theorem; `online_rank.bounds`)

    .. math::
        \sum_t RML_t \le \sum_t V_t \le F(u) + \|u\| \sqrt{\sum_t \|z_t\|^2 + 2 \tau_t V_t}
        \le 2 F(u) + 4 B (1 + 2 \beta) R_X^2 \|u\|^2.

    By default V_t is the square root of the loss and beta 0.3; with `credit="spread"` V_t is the loss itself and beta 0.
    There is no learning rate, and neither the number of documents nor the scale of the features has to be known: multiplying
    all updates, or all features, by a constant changes no rankings.

    Parameters
    ----------
    measure
        What to learn for: `"ndcg@10"`, `"ndcg"`, `"ap"`, `"ap>=2"` (grades from 2 on are relevant), `"linear_ndcg"`. Or
        a measure of your own: a function from the grades in the order of a ranking to its loss, an object with a method `loss`
        (`online_rank.measures.own`), or the name that it is registered under (Notes).
    credit
        Which pairs get the mass. Let v_i be the mean, over the documents of i's grade, of what each adds to the bound on the
        loss if a less relevant document outscores it ([CT]; `online_rank.surrogates.slam`). `"spread"` puts v_i in equal parts
        on all violators of document i, `"argmax"` on the best-scored one ([CT]'s subgradient). `"sort"`: all documents, by how
        far they are from where they should be, in normal scores; better the more features there are. `"adaptive"`: a mixture of
        `"spread"` and `"sort"`, each weighted by the inverse square of its sum of ||z||^2 so far.
    mass
        `"loss"` scales the a_ij so that V_t = RML_t. `"sqrt"`: V_t = sqrt(RML_t) >= RML_t, which bounds the loss less tightly
        and learns more from small losses. None: `"sqrt"` for `adaptive` and `sort`, `"loss"` for the others.
    relative_margin
        beta: tau is beta times the sum of the ||z_t||^2 over the sum of the V_t so far, 0 before the first. It needs no scale,
        and works for few features or many. None: 0.3 for `adaptive` and `sort`, 0 for the others.
    half_life
        Half-life of the average of weights that serves rankings, in queries, so that it follows a truth that drifts; None for
        the average of all weight vectors so far, 0 for the last weights. The last weights are the ones that learn, and the
        bounds hold for them. 1000 is chosen on validation parts and synthetic streams: where the truth stays as it is, NDCG@10
        is some .001 lower than with None.
    served
        Whose mistakes to learn from if `learn_one` gets no served scores: `"current"`, the weights that learn; `"average"`,
        the average that serves rankings, for which the bounds then hold (`averaged_bound`). `"average"` certifies the rankings
        as served; rankings are worse on MQ2008 and better on drifting streams.
    norm_cap
        kappa, 0 < kappa <= 1: after each update the weights are scaled down to a norm of kappa times the square root of the sum
        of ||z||^2 + 2 tau V, so that they follow drift (`capped_bound`). It changes all weights, so sparse queries become dense
        arrays. None for no cap.
    signs
        Known signs of weights: `{"price": -1, "clicks": 1}`. After each update a weight of the wrong sign becomes 0, so that of
        two documents that differ in the price alone the dearer one never scores higher. Names are those of the columns that the
        ranker gets; those of an array are "1" (column 0), "2", and so on. A pipeline refuses transformers whose columns do not
        rise with a feature, and signs of only some of the columns made of it. Bounds cover comparators with the same signs
        (Notes). None for no signs.

    Notes
    -----
    Algorithm 1 of [CT] is a `SlamRanker`.

    With a measure of your own the default credit weighs the violated pairs of grades g > h by W[g, h], the mean change of the
    loss by an exchange of two such documents in rankings in random order, computed numerically, and by the difference of the
    normal scores of their positions. V_t is the loss, or if it is larger the share of these weights that is in the wrong
    order, and by default its square root: a query whose first position is right still teaches. With `"spread"`, `"sort"` and
    `"argmax"` pairs are as for NDCG without a cutoff, the loss alone decides the mass, and a round whose loss is 0 has no
    update. The mass theorem covers every credit: all it needs is weights on violated pairs alone, and :math:`V_t \ge RML_t`.

    With `signs` the update is followed by the projection onto the cone K of weights with these signs. The bounds hold for every
    u in K: with :math:`v = w_t + z_t`, the projection :math:`\Pi(v)` sets to 0 each :math:`v_j` of the wrong sign, so that
    :math:`\langle u, \Pi(v) - v \rangle \ge 0` and :math:`\langle \Pi(v), \Pi(v) - v \rangle = 0`. Therefore
    :math:`\langle u, w_{T+1} \rangle \ge \sum_t \langle u, z_t \rangle`, :math:`\|\Pi(v)\| \le \|v\|` and
    :math:`\|\Pi(v) - u\| \le \|v - u\|`, and these are all that the proofs of the bounds use.

    References
    ----------
    [CT] Chaudhuri & Tewari, *Perceptron-like Algorithms and Generalization Bounds for Learning to Rank*, 2014.

    Examples
    --------
    >>> from online_rank import PerceptronRanker
    >>> model = PerceptronRanker()
    >>> query = {"old": {"clicks": 1.0, "age": 9.0}, "new": {"clicks": 4.0, "age": 1.0}}
    >>> model.rank_one(query)
    ['old', 'new']
    >>> model.learn_one(query, {"old": 0, "new": 2})
    >>> model.rank_one(query)
    ['new', 'old']
    >>> model.last_round.loss
    0.369...
    """

    #: `_learn` takes pairs, mass and loss from `Block.served` if given.
    _learns_atomically = True

    _schema = Schema(
        _counters=Array(N_COUNTERS, low=0.0),
        _config=Derived(),
        _learns_atomically=Derived(),
        _own=Derived(),
        _grade_weights=Derived(),
    )

    def __init__(
        self,
        measure: Any = "ndcg@10",
        *,
        credit: str = "adaptive",
        mass: str | None = None,
        relative_margin: float | None = None,
        half_life: float | None = 1000,
        served: str = "current",
        norm_cap: float | None = None,
        signs: Mapping[Any, int] | None = None,
    ) -> None:
        super().__init__(half_life, n_counters=N_COUNTERS)
        self.measure = measure
        self.credit = credit
        self.mass = mass
        self.relative_margin = relative_margin
        self.half_life = half_life
        self.served = served
        self.norm_cap = norm_cap
        self.signs = checked_signs(signs)
        self._own = own_measure(measure) if is_own(measure) else None
        self._grade_weights = None if self._own is None or credit != "adaptive" else GradeWeights(self._own)
        # With signs, the projection follows the kernel; with a measure of the user's own, Python goes before it.
        self._learns_atomically = type(self)._learns_atomically and signs is None and self._own is None
        self._config = self._checked()

    @property
    def in_force(self) -> dict[str, Any]:
        """`mass` and `relative_margin`, as given or as the credit's defaults.

        Examples
        --------
        >>> PerceptronRanker().in_force
        {'mass': 'sqrt', 'relative_margin': 0.3}
        >>> PerceptronRanker(credit="spread", relative_margin=0.1).in_force
        {'mass': 'loss', 'relative_margin': 0.1}
        """
        credit = CREDITS[self.credit]
        return {
            "mass": credit.mass if self.mass is None else self.mass,
            "relative_margin": credit.relative_margin if self.relative_margin is None else self.relative_margin,
        }

    def _abilities(self) -> Abilities:
        # A norm cap may scale down all weights in every query.
        return Abilities(takes_sparse=self.norm_cap is None, takes_served=True)

    def _project(self, columns: np.ndarray, signs: np.ndarray) -> None:
        """Project the weights that one round has changed onto the cone of weights with these signs, and correct the average."""
        if self._rows is None:
            project(self._weights, self._average, self._counters[AVERAGED], columns, signs)
            return
        lag = 0.0
        # Before the first round that counts, nothing is averaged, and the weights are those that the ranker began with.
        if self._averages and self._counters[AVERAGED] > 0.0:
            _, shift = self._scale_and_shift()
            lag = self._counters[AVERAGED] - 1.0 if self._decay == 1.0 else self._decay / shift
        project_rows(self._rows, lag, columns, signs)

    def _weighed(self, query: Block, scores: np.ndarray | None = None, margin: float | None = None) -> Weighed:
        """A query as the kernel learns it: with a measure of the user's own, at the share of NDCG's mass due.

        The mass of an update is proportional to the weight of its query, and so is a comparator's loss on its pairs. `scores`
        (m,) are those that decide the update, and `margin` is its tau; None for those that the ranker finds. With the credit
        `adaptive` all violated pairs become one (`own_pairs`). A query that the kernel will refuse, or skip, is as it was.
        """
        if self._own is None or not 0.0 <= query.w[0] < np.inf:
            return Weighed(query, np.nan)
        if scores is None:
            scores = self._score(query.X) if self.served == "average" else self._unaveraged_scores(query.X)
            scores = scores if query.served is None else query.served
        base = np.empty(1)
        levels = judge_rankings(*_BASE, scores[None], query.y, discounts(len(query.y)), base) if all_finite(scores) else 0
        if levels < 2:
            return Weighed(query, 0.0)
        loss, wrong, name = self._own.loss(scores, query.y), base.item(), self._own.name
        of_loss = self.in_force["mass"] == "loss"
        due = share(of_loss, loss, wrong, name)
        if self._grade_weights is None or wrong == 0.0:
            return Weighed(query._replace(w=query.w * due), loss)
        weights, margin = self._grade_weights(query.y), self._margin() if margin is None else margin
        pair = mean_pair(weights, scores, query.y, margin)
        if pair is None and loss > 0.0:
            # No exchange of these grades changes it in a random order, yet it has a loss.
            pair = mean_pair(np.tri(len(weights), k=-1), scores, query.y, margin)
        if pair is None:
            return Weighed(query._replace(w=np.zeros(1)), loss)
        due = share(of_loss, max(loss, pair.discordance), _OF_A_PAIR, name)
        return Weighed(
            Block(mixed_rows(query.X, pair.shares), _PAIR, _PAIR_OFFSETS, query.w * due, served=_PAIR_SCORES), loss, pair.shares
        )

    def _margin(self) -> float:
        """tau of the next round, as the kernel finds it."""
        mass = float(self._counters[MASS])
        return self.in_force["relative_margin"] * float(self._counters[SQUARES]) / mass if mass > 0.0 else 0.0

    def _learn_in_turn(self, block: Block, rounds: np.ndarray, gained: np.ndarray) -> int:
        """Learn queries one by one: an own measure weighs each, and with signs the weights are projected after each."""
        columns, signs = self._signed_columns()
        self._warn_of_unknown_signs(columns)
        for t, query in enumerate(block.each()):
            learned, loss, shares = self._weighed(query)
            if shares is not None and not np.isfinite(largest := largest_norm(query.X)):
                return t
            if not self._learn(learned, rounds[t : t + 1], gained, free=True):
                return t
            if self._own is not None:
                rounds[t, [_LOSS, _WEIGHT, _V_MAX]] = loss, query.w[0], 0.0
            if shares is not None:
                m = len(query.y)
                rounds[t, [_N_DOCUMENTS, _LARGEST_NORM]] = m, largest
                self._counters[DOCUMENTS] += m - 2
            if self.signs is not None:
                self._project(columns, signs)
        return len(block.w)

    def _learn(
        self, block: Block, rounds: np.ndarray, gained: np.ndarray = _NOT_GAINED, *, free: bool = False
    ) -> int:  # fmt: skip
        """As `Ranker._learn`; `gained` (d,), of arrays, grows by all updates; `free` is without signs and an own measure."""
        if not free and (self.signs is not None or self._own is not None):
            return self._learn_in_turn(block, rounds, gained)
        X, y, offsets, w, _, _, served, *_ = block
        if self._rows is None and type(X) is not SparseRows:
            documents, weights, average = X, self._weights, self._average
        else:
            if self._rows is None and self.credit == "spread":
                warnings.warn(_SPARSE_HINT, stacklevel=5)
            documents, weights, average = self._for_kernel(X)
        arguments = documents, y, offsets, w, discounts(len(y)), self._config, weights, average, self._counters, rounds
        if served is None and gained is _NOT_GAINED:
            return kernels.learn(*arguments)
        return kernels.learn_served(*arguments, served, gained)

    def _mix(self, shards: Sequence[Any], base: Any) -> None:
        self._mix_weights(shards, base)
        if self.signs is not None and self._rows is None:
            # Averages are mixed by differences of sums, whose rounding may leave a 0 with the wrong sign.
            clip(self._average if self._averages else self._weights, *self._signed_columns())

    def _begin_with(self, weights: np.ndarray, strength: float) -> None:
        super()._begin_with(weights, strength)
        self._check_state()

    def _checked(self) -> np.ndarray:
        """The arguments in the form that the kernel takes. Raises ValueError for arguments that contradict one another."""
        choice("credit", self.credit, CREDITS)
        target, (mass, relative_margin) = _BASE if is_own(self.measure) else measure(self.measure), self.in_force.values()
        choice("mass", mass, MASSES)
        choice("served", self.served, ("current", "average"))
        number("relative_margin", self.relative_margin, 0.0, optional=True)
        number("norm_cap", self.norm_cap, above=0.0, high=1.0, optional=True)
        if self.served == "average" and not self._averages:
            raise ValueError("served='average' learns from an average, but half_life=0")
        config = [
            *target,
            CREDITS[self.credit].code,
            MASSES[mass],
            relative_margin,
            averaging(self.half_life),
            0.0 if self.norm_cap is None else self.norm_cap,
            self.served == "average",
        ]
        return np.array(config, dtype=np.float64)
