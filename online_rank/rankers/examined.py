"""A ranker for grades that learns from clicks, each weighted by how often its position is looked at."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank.base import Abilities, Ranker, RankingPipeline, ranker_of, share_lock
from online_rank.base.draws import counted_generator
from online_rank.base.schema import Count, Nested, Schema
from online_rank.feedback import FairPairs, Greedy, Impression, Policy, PositionBias
from online_rank.feedback.arrays import propensities_of, shown_block
from online_rank.query import Block
from online_rank.rankers.nested import NestedRanker, adopt_features, require_model, teach


class ExaminedRanker(NestedRanker):
    r"""Let a ranker for grades learn from clicks, with inverse propensity weights.

    Position p is looked at with probability theta_p; or theta_p is the probability with which the document stands where it
    stands, if the impression says it (`Impression.placements`, or the product of `Impression.propensities` down to it). A click
    on document i at position p, with gain g, teaches the ranker that i alone is relevant, with weight g, and with probability

    .. math:: \frac{c}{\max(\theta_p, \mathrm{clip})}, \qquad c = \max(\min_p \theta_p, \mathrm{clip}),

    with c = clip for probabilities of impressions.

    These are inverse propensity weights in expectation. As weights proper, one click at the bottom would move a ranker that
    learns from mistakes ten times as far as one at the top, and teach it the reverse of the position. If a click means that the
    position is looked at and that the document attracts, which it does with probability r_i, then what is learned has the
    expectation

    .. math:: c \sum_i r_i \min(1, \theta_{p(i)} / \mathrm{clip}) \, \ell(i),

    with :math:`\ell(i)` what is learned where i alone is relevant. Up to the factor c, grades r_i would teach the same if no
    theta is below clip. **Clipping is biased**: documents at positions that are looked at more rarely count less, by the factor
    theta / clip. Without any correction, clicks teach the positions at which documents were shown.

    Parameters
    ----------
    ranker
        A ranker for grades, or a pipeline that ends in one. A copy of it learns and ranks.
    examination
        theta, one probability > 0 a position; lower positions have the last one; (1.0,) for lists in random order. None: clicks
        on impressions with probabilities are weighted by these, and theta is estimated from the clicks on the lists that it
        shows (`PositionBias`): neighbours are then in random order (`FairPairs`), which costs at most 9.2 % of the DCG.
    k
        How many documents `show_one` shows, best first.
    clip
        The least probability that a click is divided by. The smaller, the smaller the bias, and the fewer clicks at the top are
        learned.
    seed
        Seed of all draws.

    References
    ----------
    Joachims, Swaminathan & Schnabel, *Unbiased Learning-to-Rank with Biased Feedback*, 2017: a click alone is relevant, by its
    weight.

    Examples
    --------
    >>> from online_rank import ExaminedRanker, PerceptronRanker
    >>> model = ExaminedRanker(PerceptronRanker(), examination=(1.0, 0.5), k=2)  # half of the clicks at the top are learned
    >>> query = {"a": {"fresh": 0.0}, "b": {"fresh": 1.0}}
    >>> shown = model.show_one(query)
    >>> shown.order
    ('a', 'b')
    >>> model.learn_one(query, shown.clicked(["b"]))
    >>> model.rank_one(query)
    ['b', 'a']
    """

    _schema = Schema(
        _learner=Nested("Ranker", "RankingPipeline", features=True),
        _bias=Nested("PositionBias", optional=True),
        _n_clicked=Count(),
    )

    def __init__(
        self,
        ranker: Ranker | RankingPipeline,
        *,
        examination: Sequence[float] | None = None,
        k: int = 10,
        clip: float = 0.1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        require_model("ranker", ranker)
        self.ranker = ranker
        self._learner: Any = copy.deepcopy(ranker)
        adopt_features(self, [self._learner])
        if ranker_of(ranker).abilities.takes_clicks:
            raise TypeError(f"ranker is {ranker!r}, which learns from clicks directly")
        arguments.examination(examination)
        arguments.integer("k", k, 1)
        arguments.number("clip", clip, above=0.0, high=1.0)
        arguments.seed(seed)
        self.examination = examination
        self.k = k
        self.clip = clip
        self.seed = seed
        self._bias = PositionBias(k) if examination is None else None
        # Number of lists with clicks, which numbers the draws.
        self._n_clicked = 0
        share_lock(self)

    @property
    def learner(self) -> Ranker | RankingPipeline:
        """The ranker, or pipeline, that learns and ranks."""
        return self._learner

    @property
    def _wrapped(self) -> list[Ranker | RankingPipeline]:
        return [self._learner]

    @property
    def examined(self) -> tuple[float, ...]:
        """The probabilities in force, as given or as estimated so far."""
        return tuple(self.examination) if self._bias is None else self._bias.examination  # type: ignore[arg-type]

    _forwards = ("takes_sparse",)

    def _abilities(self) -> Abilities:
        return super()._abilities()._replace(takes_clicks=True, takes_any_list=self._bias is None, draws=True)

    @property
    def _own_policy(self) -> Policy:
        return Greedy(self.k) if self._bias is None else FairPairs(self.k, seed=self.seed)

    def _confidence(self) -> float:
        return 1.0

    @property
    def _parts(self) -> list[Any]:
        return [] if self._bias is None else [self._bias]

    def _learn_query(self, query: Block, row: np.ndarray) -> bool:
        if not isinstance(query.y, tuple):
            return teach(self._learner, query, row)
        shown, given = shown_block(query, drawn=False), self.examination is None and _has_chances(query.y[0].impression)
        if given:
            chances, least = np.maximum(propensities_of(query.y), self.clip), self.clip
        else:
            examined = np.maximum(self.examined, self.clip)
            chances, least = examined[np.minimum(shown.places, len(examined) - 1)], examined.min()
        draws = counted_generator(self, self.seed, self._n_clicked).random(len(shown.gains))
        learned = np.flatnonzero((shown.gains > 0.0) & (draws * chances < least))
        for i in learned.tolist():
            grades = np.zeros(query.n_documents, np.int64)
            grades[shown.rows[i]] = 1
            if not teach(self._learner, query._replace(y=grades, w=shown.gains[i] * query.w), row):
                return False
        self._n_clicked += bool(shown.gains.any())
        if self._bias is not None and not given:
            self._bias.update(query.y[0])
        # Otherwise nothing is taught, but features have been met.
        return len(learned) > 0 or teach(self._learner, query._replace(y=np.zeros(query.n_documents, np.int64)), row)


def _has_chances(shown: Impression) -> bool:
    """Whether an impression of another system says how probable its documents were."""
    return shown.placements is not None or shown.propensities is not None
