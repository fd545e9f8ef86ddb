"""A learner with one curve for each feature, and trees."""

import itertools
import types
import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank._kernels import additive as kernels
from online_rank._kernels import beside, curves
from online_rank._kernels import hedge as blending
from online_rank._kernels.codes import ADAPTIVE, CAPPED_SQUARES, DOCUMENTS, MASS, ROOT
from online_rank.base import Abilities, share_lock
from online_rank.base.explain import Split
from online_rank.base.form import Blend, Form, Head, Layered, Linear
from online_rank.base.growth import grown_triangle, with_zeros
from online_rank.base.halving import halved
from online_rank.base.kinds import TEXT, Kinds, checked_kinds
from online_rank.base.lock import locked
from online_rank.base.reader import own_names
from online_rank.base.schema import Array, Count, Derived, Nested, Real, Schema
from online_rank.base.undo import Undo
from online_rank.measures.learned import discounts
from online_rank.measures.learned import measure as parse_measure
from online_rank.measures.own import is_own
from online_rank.preprocessing import StreamQuantileMap
from online_rank.preprocessing.vector_columns import VectorColumns
from online_rank.query import Block, single, with_features
from online_rank.query.embeddings import checked_dimensions
from online_rank.query.levels import is_level
from online_rank.query.words import Worded
from online_rank.rankers import hedge
from online_rank.rankers.curved import CurvedRanker, as_read, n_curves
from online_rank.rankers.fading import factor_of, left_after
from online_rank.rankers.growing_trees import GrowingTrees
from online_rank.rankers.hedge import LEAST, HedgeAccount, OuterHedge, opening
from online_rank.rankers.leaf_tables import form_of_leaves, mapped_for_trees, split_by_leaves
from online_rank.rankers.loose import may_meet_words
from online_rank.rankers.members import BY_NUMBER, CURVES, MEMBERS, Members, members_of, n_candidates, without_plain
from online_rank.rankers.mixed import mix
from online_rank.rankers.perceptron import PerceptronRanker
from online_rank.rankers.signs import checked_signs, require_in_array, signs_of_columns
from online_rank.rankers.weighed_levels import curves_of_levels, n_beyond
from online_rank.rankers.with_vectors import adapted
from online_rank.rankers.worded import columns_made, learn_words, length_of, with_words
from online_rank.rankers.words import Words

__all__ = ["MEMBERS", "AdditiveRanker"]

#: Of the perceptron; with less, blends lose .005 NDCG@10 on real data sets and on forests.
_MARGIN = 1.0
#: Queries after which a Hessian counts half, and the most columns of the second-order member.
_NEWTON_HALF_LIFE, _MOST_COLUMNS = 30.0, 300
#: Named tuples are made of tuples: by their class it takes three times as long.
_new = tuple.__new__
#: Half-lives in seconds, of averages whose half-lives are in queries.
_IN_QUERIES = (None, None)
#: A place that is still to be decided.
_OPEN = -4
#: It warns when names that were met one after the other are this many.
_MANY_CURVES = 1000
#: The most trees.
_MOST_TREES = 10_000
_HINT = (
    "AdditiveRanker has met 1,000 names of features, more than in its first query, and learns a curve of each; if they are "
    "words, give it their texts, whose words it learns sparsely: {'title': 'red shoe'}"
)


class AdditiveRanker(CurvedRanker):
    r"""Learns one curve for each feature, trees where features interact, and words of texts. It takes raw features as they are.

    >>> from online_rank import AdditiveRanker
    >>> model = AdditiveRanker()
    >>> query = {
    ...     "a": {"price": 10.0, "brand": "acme"},
    ...     "b": {"price": 90.0},
    ...     "c": {"price": None, "brand": "other"},
    ... }
    >>> for _ in range(3):
    ...     model.learn_one(query, {"a": 2, "b": 0, "c": 1})
    >>> model.rank_one(query)
    ['a', 'c', 'b']

    The score of a document is the sum of its curves, trees and words. `curve` and `explain_one` show the parts,
    `online_rank.plot.curves` draws them, and `online_rank.bounds.certificate_of` compares the loss of the served rankings with
    the loss of the best fixed candidate.

    **Missing values.** NaN, None, null and absent names are missing, and share a weight of the feature. A feature that most
    documents lack needs nothing else. Features may come at any time.

    **Categories.** In dicts, and in frames with a column of texts or booleans, these are categories with a column of ones and
    zeros for each level, up to `max_levels`; all others share one. A list of texts has all of its levels. Dates and times are
    seconds since 1970; their rank within the query is of use however far they grow. In arrays of numpy everything is a number.

    **Vectors.** A list of numbers is a vector, such as an embedding. It gives documents a score that is linear in it. If the
    context of the query has a vector of the same name, the query's or its user's, documents get three more features: the
    cosine, and two differences from it. These are of a matrix that begins as the cosine and learns from every query
    (`VectorRanker`): of its average, and of its last state. A missing vector, and one of length 0, is a missing value.

    **Texts**, whose values are new for the most part and have several words, are learned by their words: a regression of the
    standardised grades with a weight and a precision for each, next to what curves and trees serve (`words_beside`). Words that
    recur are categories, and ids that never recur are ignored. Once a category has `max_levels`, its levels have such weights
    too, and a level leaves its column for one that counts twice as much lately. With a text in the context of a query, texts
    also have the share of its words, by rarity, and whether they stand in a row. Pairs of its words with words of documents,
    and of entries of the context with levels, are learned once they recur. Engines cannot compute words yet.

    **Sparse rows** are learned by a `PerceptronRanker`, as they are: a stream that begins with `SparseRows`, a sparse matrix of
    scipy, or dicts of counts with many names of which each document has few, as of words. It warns when names that come
    one after the other reach 1,000.

    Parameters
    ----------
    measure
        The measure of the loss (see `online_rank.measure`).
    half_life
        Half-lives of the two averages, the long one first: in queries, or as texts in time, `("7d", "2h")`. Then `learn_one`
        needs `at=`, the time of each query.
    relative
        Whether the rank of a value within its query counts. If not, the score of a document depends on itself alone.
    max_levels
        Most levels of a category.
    signs
        `{feature: 1 or -1}`: its curves never fall, or never rise; of a boolean, true is never worse, or never better, than
        false. Such a feature has no target encodings, and the Newton learner leaves it out. Features of an array are called
        `"1"` (column 0), `"2"`, and so on.
    trees
        The most trees; the number follows the features, four for each and at least 200. 0 for curves alone.
    dimensions
        `{vector: length}` of vectors, if they are known; None for the lengths of the first query with vectors.
    kinds
        `{feature: kind}` for features, or entries of the context, whose values are texts: "text", "category" or "ignored". None
        lets the values decide.
    seed
        Seed of all draws.

    Raises
    ------
    TypeError, ValueError
        A parameter is of the wrong type, or out of its range.

    Notes
    -----
    **Columns.** g is the normal score of a value among the values of the stream (the sketches of `StreamQuantileMap`), q the
    normal score of its rank among the documents of the query. A feature has the columns g, 15 ramps :math:`r_k(g) - r_k(0)`
    with :math:`r_k(g) = \mathrm{clip}((g - P_k) / D, 0, 1)` on 16 knots from -2 to 2, q, two target encodings, of g and of q,
    and presence. A target encoding is :math:`10 S / (C + 20)`, S and C the sums of the standardised grades and of the weights
    of the documents that were near, linear between 20 points, as they were before the query. So a score is :math:`\sum_j
    f_j(g_j) + h_j(q_j)`, and `curve` gives f and h.

    **Members.** One perceptron learns all columns, as `PerceptronRanker(credit="adaptive", relative_margin=1.0)` does. Members
    are its last weights, two averages of them with different half-lives, and a Newton learner of the logistic loss of pairs on
    the columns g and presence: 300 of them have a whole Hessian, and g of the features beyond these its diagonal. A pair that
    is wrong by far keeps .07 of its push as curvature, so that a few contradicting queries cannot overturn it.

    Data that are noisy, few or wide bear no curves. So three members are linear in g: a ridge regression of the standardised
    grades, by which the long half-life forgets; such a perceptron; and the quotients :math:`z = S / n`, S the sum of t g and n
    the sum of squared deviations of g and 20, cut off: :math:`\mathrm{sign}(z) \max(|z| - 2 / \sqrt{n}, 0)`.

    Members are blended by the rule of `BlendRanker` on running scales: the first four alone and in pairs, with .65 of the
    prior, and the plain ones alone and halved with the long average and with the Newton learner. Their sum is one curve for
    each feature. `online_rank.bounds.certificate_of` compares the loss with the best candidate's, and bounds it by the mass of
    the updates (`additive_mass_bound`). A model that was saved before there were plain members keeps the first four, and their
    ten candidates.

    **Trees.** Where features interact, trees learn what no sum of curves can: up to `trees` of depth 4, on g in 31 bins. A
    tree grows from a window of the last queries, of at most 8 MB and 65,216 documents, in steps that are spread over queries.
    No query takes more operations than a query of the median size earns. It splits by a third of the features, drawn in
    proportion to the roots of what splits by them have gained, and a few by chance. The tree fits the residual t - s of the
    standardised grades t, by the scores s of the trees so far. Its leaves begin with the values .2 E / (n + 100), with E the
    sum of the residuals and n the number of documents, and all other trees fade by a hundredth. Then leaves learn at each
    query:

    .. math:: v \leftarrow v + \frac{E}{2 (n + 100)}

    A second blend has for members the curves, as they would be served alone, and the trees, by v and by averages of v. Half of
    its prior is on the curves. Trees are served once the best of its mixtures has lost less than the curves by half of a
    query. Until then the curves answer alone, and ranking costs no more. No tree splits by a feature with a sign, and a missing
    value goes left at every node. `trees_beside` has the account of this blend.

    References
    ----------
    Herbster & Warmuth, *Tracking the best expert*, 1998, for members that forget; Karnin, Lang & Liberty, *Optimal Quantile
    Approximation in Streams*, 2016.

    Examples
    --------
    >>> sorted(model.explain_one(query, "a", "b").contributions)
    ['brand', 'price']
    """

    _schema = Schema(
        _measure=Derived(),
        _config=Derived(),
        _keep=Derived(),
        _seconds=Derived(),
        _signs=Derived(),
        _front=Nested("StreamQuantileMap"),
        _linear=Nested("PerceptronRanker", features=True, optional=True),
        _weights=Array(n_curves, curves.N_COLUMNS, curves.N_MEMBERS),
        _scales=Array(None, 2, low=0.0),
        _plain=Array(n_curves, lambda ranker: _n_plain(ranker, curves.N_PLAIN + 1)),
        _marginals=Array(n_curves, lambda ranker: _n_plain(ranker, 2)),
        _sums=Array(n_curves, 2, 2, curves.POINTS + 1),
        _places=Array(n_curves, 2, dtype="int64", low=_OPEN, high=_MOST_COLUMNS),
        _pending=Array(None),
        _gram=Array(lambda ranker: len(ranker._pending) * (len(ranker._pending) + 1) // 2),
        _slow_gram=Array(lambda ranker: _n_plain(ranker, len(ranker._gram))),
        _left=Array(lambda ranker: _n_plain(ranker, len(ranker._pending))),
        _curvatures=Array(n_curves, low=0.0),
        _numbers=Array(kernels.N_NUMBERS, low=0.0),
        _losses=Array(lambda ranker: n_candidates(len(ranker._scales)), low=0.0),
        _account=Array(len(HedgeAccount._fields), low=LEAST),
        _n_queries=Count(),
        _n_served=Count(),
        _n_mixed=Count(),
        _at=Real(optional=True),
        _trees=Nested("GrowingTrees", optional=True),
        _vectors=Nested("VectorColumns", optional=True),
        _words=Nested("Words", optional=True),
        _kinds=Nested("Kinds", optional=True),
    )

    _replaced = frozenset({"_config", "_keep", "_seconds", "_signs"})

    #: The largest step of the blend. The prior of its candidates is in `members`; users favour none.
    rate = 1.0
    prior = None

    fades, step, account = hedge.never_fades, hedge.step, hedge.account
    candidates, candidate_losses = hedge.candidates, hedge.candidate_losses
    candidate_prior = hedge.candidate_prior

    #: A feature takes about 4 kB.
    max_features = 1 << 14

    _lets_leave = True

    _trees: GrowingTrees | None = None
    #: What is learned of vectors, once there was one.
    _vectors: VectorColumns | None = None
    #: What learns words, and what is known of the kinds of features: nothing before there are texts.
    _words: Words | None = None
    _kinds: Kinds | None = None

    #: Files of versions without trees are of learners without trees.
    _earlier = types.MappingProxyType({"trees": 0})

    def __init__(
        self,
        measure: str = "ndcg@10",
        *,
        half_life: Sequence[float | str] = (1000, 50),
        relative: bool = True,
        max_levels: int = 100,
        signs: Mapping[Any, int] | None = None,
        trees: int = 400,
        dimensions: Mapping[str, int] | None = None,
        kinds: Mapping[Any, str] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if is_own(measure):
            raise TypeError(
                f"measure is {measure!r:.80}: AdditiveRanker learns for measures of the library, by their names; for one of "
                "your own take StreamQuantileMap() | PerceptronRanker(measure)"
            )
        arguments.seed(seed)
        arguments.flag("relative", relative)
        arguments.integer("max_levels", max_levels, 1)
        arguments.integer("trees", trees, 0, _MOST_TREES)
        self.measure = measure
        self.half_life = half_life
        self.relative = relative
        self.max_levels = max_levels
        self.signs = checked_signs(signs)
        self.trees = trees
        self.dimensions = checked_dimensions(dimensions)
        self.kinds = checked_kinds(kinds)
        self.seed = seed
        self._measure = parse_measure(measure)
        self._config = np.array([*self._measure, ADAPTIVE, ROOT, _MARGIN, 1.0, 0.0, 0.0, relative], dtype=np.float64)
        self._keep, self._seconds = _factors(half_life)
        self._front = StreamQuantileMap.taking_missing(seed)
        # What learns instead if the first query is sparse.
        self._linear: PerceptronRanker | None = None
        self._weights = np.zeros((0, curves.N_COLUMNS, curves.N_MEMBERS))
        self._plain = np.zeros((0, curves.N_PLAIN + 1))
        self._marginals = np.zeros((0, 2))
        self._sums = np.zeros((0, 2, 2, curves.POINTS + 1))
        self._places = np.zeros((0, 2), dtype=np.int64)
        self._gram = np.zeros(0)
        self._pending = np.zeros(0)
        self._slow_gram = np.zeros(0)
        self._left = np.zeros(0)
        self._curvatures = np.zeros(0)
        self._numbers = np.zeros(kernels.N_NUMBERS)
        self._scales = np.zeros((len(CURVES.names), 2))
        self._losses = np.zeros(len(CURVES.candidates))
        self._account = opening()
        self._n_queries = self._n_served = self._n_mixed = 0
        self._at: float | None = None
        self._trees = GrowingTrees() if trees else None
        # Declared lengths are checked now.
        self._vectors = VectorColumns(measure, dimensions=self.dimensions) if self.dimensions else None
        self._derive()
        share_lock(self)

    @property
    def _parts(self) -> list[Any]:
        if self._linear is self._words is self._vectors is None:
            return [self._front]
        return [part for part in (self._front, self._linear, self._words, self._vectors) if part is not None]

    def _derive(self) -> None:
        self._signs = np.zeros(0, dtype=np.int64)
        if self._trees is not None:
            self._trees.draw(self.seed, self._n_queries)

    def _abilities(self) -> Abilities:
        return Abilities(
            takes_documents=True, takes_missing=True, takes_sparse=True, takes_served=True, takes_context=True,
            takes_vectors=True,
            takes_time=any(self._seconds),
        )  # fmt: skip

    @property
    @locked
    def weights(self) -> np.ndarray:
        """The weight of each of the `members` in what is served, over its scale, float64 (K,)."""
        return self._choice()[: len(self._scales)] * self._sigmas()

    @property
    def members(self) -> tuple[str, ...]:
        """The names of its members: `MEMBERS`, or the first four in a model that an earlier version saved."""
        return self._members.names

    @property
    def n_queries(self) -> int:
        """Number of queries learned."""
        return self._n_queries

    @property
    @locked
    def n_served(self) -> int:
        """Number of queries learned from scores that were served."""
        return self._n_served

    @property
    def n_mixed(self) -> int:
        """How often what several machines have learned was mixed; no bound covers the account of several."""
        return self._n_mixed

    @property
    @locked
    def mass(self) -> float:
        """V, the total mass of the updates of the perceptron."""
        return float(self._numbers[MASS])

    @property
    @locked
    def squares(self) -> float:
        """The sum of the squared norms of these updates, and of twice their margins times their masses."""
        return float(self._numbers[CAPPED_SQUARES])

    @property
    @locked
    def trees_beside(self) -> OuterHedge | None:
        """How curves and trees are blended, and what both have lost; None without trees.

        `account`, `candidates` and their losses speak of the curves alone.
        """
        return None if self._trees is None or self._linear is not None else self._trees.hedge

    @property
    @locked
    def n_trees(self) -> int:
        """How many trees there are."""
        return 0 if self._trees is None else self._trees.n_trees

    @locked
    def adapt(self, query: Any, vector: str | None = None) -> np.ndarray:
        """W' q of a vector: to search an index of the documents' vectors with, by the inner product.

        Parameters
        ----------
        query
            (p,): the vector of a query, of any length but 0.
        vector
            The name of the vector; None for the only one.

        Returns
        -------
        float64 (k,). Its product with a document's vector of length 1 is kappa times what is learned and the cosine. Curves of
        other features are not in it: rank what the index finds by the model.

        Raises
        ------
        TypeError, ValueError
            It is no vector, has length 0 or another number of dimensions; or no such vector was learned with vectors of
            queries.
        """
        return adapted(self._vectors, query, vector)

    @property
    @locked
    def words_beside(self) -> OuterHedge | None:
        """How words are blended with curves and trees, and what both have lost; None before there are words."""
        return None if self._words is None else self._words.hedge

    @property
    @locked
    def n_words(self) -> int:
        """How many words, pairs of words, and pairs of context and level have a weight."""
        return 0 if self._words is None else self._words.n_words

    @property
    @locked
    def n_left_words(self) -> int:
        """How many words have left for new ones."""
        return 0 if self._words is None else self._words.n_left

    @property
    @locked
    def feature_kinds(self) -> dict[Hashable, str]:
        """The kind of each feature: "number", "category", "text", or "ignored" for ids that never recur.

        Dates are numbers. `kinds` has what was declared; all other kinds follow the weight of evidence.
        """
        names = {name: "category" if is_level(whole) else "number" for whole in own_names(self)
                 for name in (whole[0] if is_level(whole) else whole,)}  # type: ignore[index]  # fmt: skip
        found, left = names | self._kinds_of_texts, {*self._adds, *self._only_in_context}
        return {name: kind for name, kind in found.items() if name not in left}

    @property
    @locked
    def n_levels_beyond(self) -> int:
        """How many levels without a column have a separate weight, which exports score as all others without one."""
        return n_beyond(self)

    @property
    def _kinds_of_texts(self) -> dict[Hashable, str]:
        """The kinds of features whose values are texts, decided or declared."""
        decided = {} if self._kinds is None else self._kinds.known()
        return {name: kind for name, kind in decided.items() if not isinstance(name, tuple)} | (self.kinds or {})

    @property
    def text_features(self) -> tuple[Hashable, ...]:
        """The features whose values are texts, of which it learns the words."""
        # Texts of the context are no features.
        own = {*own_names(self)}
        return tuple(name for name, kind in self._kinds_of_texts.items() if kind == TEXT and length_of(name) in own)

    @property
    def _only_in_context(self) -> set[Hashable]:
        """What was declared, and is no feature."""
        return {name for name, kind in (self.kinds or {}).items() if kind == TEXT and name not in self.text_features}

    @property
    def _adds(self) -> tuple[str, ...]:
        return columns_made(own_names(self), self.text_features)

    @property
    def _members(self) -> Members:
        return members_of(len(self._scales))

    @property
    def _candidates(self) -> np.ndarray:
        return self._members.candidates

    @property
    def _prior(self) -> np.ndarray:
        return self._members.prior

    def _sigmas(self) -> np.ndarray:
        squares, weights = self._scales.T
        return np.where(squares > 0.0, np.sqrt(squares / np.maximum(weights, 1.0)), 1.0)

    def _choice(self) -> np.ndarray:
        chosen = np.empty(len(self._scales) + len(self._losses))
        blending.choose(self._hedge(), self._n_queries, chosen)
        return chosen

    def _hedge(self) -> blending.Hedge:
        of = BY_NUMBER[len(self._scales)]
        state = of.candidates, of.prior, self._scales, self._losses, self._account, self.seed, self._n_queries
        return _new(blending.Hedge, state)

    def _grow(self, n_new: int) -> None:
        """Curves are added by what learns them, as sparse features have none."""

    def _add_curves(self) -> None:
        """Give the features that are new their curves."""
        before = len(self._weights)
        n_new, documents = self._n_features - before, self._numbers[DOCUMENTS]
        if not n_new:
            return
        # Numbers come with the first query, and words one after the other.
        if 0 < before < _MANY_CURVES <= self._n_features and self._columns is not None:
            warnings.warn(_HINT, stacklevel=2)
        self._front.widen(n_new)
        self._weights = with_zeros(self._weights, n_new)
        self._plain = with_zeros(self._plain, n_new)
        self._marginals = with_zeros(self._marginals, n_new)
        self._sums = with_zeros(self._sums, n_new)
        self._curvatures = with_zeros(self._curvatures, n_new)
        # Earlier documents lacked the new features; their standardised grades add up to 0.
        self._sums[before:, 0, 1, curves.POINTS] = documents
        if levels := [before + k for k, name in enumerate(own_names(self)[before:]) if is_level(name)]:
            # They did not have these levels: their value was 0, and so are g and q.
            self._front.were_zero(levels)
            self._sums[levels, 0, 1, curves.POINTS] = 0.0
            self._sums[levels, :, 1, curves.POINTS // 2 - 1 : curves.POINTS // 2 + 1] = documents / 2.0
        self._places = np.concatenate([self._places, np.full((n_new, 2), _OPEN)])
        if self._trees is not None:
            zero = np.zeros(n_new, dtype=bool)
            zero[[j - before for j in levels]] = True
            self._trees.add_features(zero)
        self._answers = self._drawn = None

    @property
    def _holds_features(self) -> bool:
        return self._linear is not None or self._front.is_shard

    def _keep_only(self, kept: np.ndarray) -> None:
        # The latest features may have no curves yet.
        kept = kept[kept < len(self._weights)]
        self._front.leave(kept)
        for name in ("_weights", "_plain", "_marginals", "_sums", "_curvatures", "_places"):
            setattr(self, name, getattr(self, name)[kept])
        columns = np.unique(self._places[self._places >= 0])
        d = len(self._pending)
        whole, kept_part = np.zeros((d, d)), np.triu_indices(len(columns))
        whole[np.triu_indices(d)] = self._gram
        self._gram = whole[np.ix_(columns, columns)][kept_part]
        self._pending = self._pending[columns]
        if self._plain.shape[1]:
            whole[np.triu_indices(d)] = self._slow_gram
            self._slow_gram = whole[np.ix_(columns, columns)][kept_part]
            self._left = self._left[columns]
        self._places = np.where(self._places >= 0, np.searchsorted(columns, self._places), self._places)
        self._signs = np.zeros(0, dtype=np.int64)
        if self._trees is not None:
            self._trees.keep_only(kept)
        self._answers = self._drawn = self._known_levels = self._read = None

    def _added(self, n_new: int) -> int:
        own = (
            curves.N_COLUMNS * curves.N_MEMBERS
            + curves.N_PLAIN
            + 3
            + 4 * (curves.POINTS + 1)
            + 2 * min(self._n_features + n_new, _MOST_COLUMNS)
        )
        return super()._added(n_new) + self._front._added(n_new) + n_new * own

    @property
    def _ends_in_kernel(self) -> bool:
        return self._linear is None

    @property
    def _in_kernel(self) -> Sequence[Any]:
        return () if self._trees is None else (self._trees,)

    def _record(self, log: list[Undo], block: Any = None) -> None:
        super()._record(log, block)
        if self._trees is not None:
            self._trees.record(log, block.n_documents if block is not None and len(block.w) == 1 else None)

    def _decide_places(self) -> None:
        """Give new features, and those that were missing for the first time, their columns in the second-order member."""
        places = self._places.copy()
        d = len(self._pending)
        for j in np.flatnonzero((places[:, 0] == _OPEN) | (places[:, 1] == kernels.WANTED)).tolist():
            if self._signs[j] != 0:
                places[j] = -1
            elif places[j, 0] == _OPEN:
                places[j] = (d, kernels.UNMET) if d < _MOST_COLUMNS else -1
                d += int(places[j, 0] >= 0)
            elif d < _MOST_COLUMNS:
                places[j, 1] = d
                d += 1
            else:
                places[j, 1] = -1
        before, n_new = len(self._pending), d - len(self._pending)
        self._gram = grown_triangle(self._gram, before, n_new)
        if self._plain.shape[1]:
            self._slow_gram, self._left = grown_triangle(self._slow_gram, before, n_new), with_zeros(self._left, n_new)
        self._pending = with_zeros(self._pending, n_new)
        self._places = places

    @classmethod
    def _of_earlier(cls, state: dict[str, Any]) -> dict[str, Any]:
        return without_plain(state)

    def _check_state(self) -> None:
        members_of(len(self._scales))
        columns = self._places[self._places >= 0]
        if len(columns) and (columns.max() >= len(self._pending) or len(np.unique(columns)) < len(columns)):
            raise ValueError(
                f"_places: each column of the second-order member is below {len(self._pending)}, and of one feature"
            )

    def _decide_signs(self) -> None:
        if self.feature_names is None:
            require_in_array(self.signs, self._n_features)
        self._signs = signs_of_columns(self.signs or {}, own_names(self))

    def _fork(self, number: int) -> None:
        for part in self._parts:
            if part is not self._vectors:
                part._fork(number)
        if self._trees is not None:
            self._trees.fork(number)

    def _shed(self, base: Any, of: int) -> None:
        if self._trees is not None:
            self._trees = self._trees.shed(base._n_queries, of)

    def _mix(self, shards: Sequence[Any], base: Any) -> None:
        mix(self, shards, base)

    def _kept(self, block: Block) -> np.ndarray:
        """The factors of the past for each query, (q, 3)."""
        n = len(block.w)
        if self._seconds == _IN_QUERIES:
            return np.repeat(self._keep, n, axis=0)
        if block.at is None:
            raise ValueError(
                f"half_life is {self.half_life!r}, with a time: learn_one and learn_many need at=, the time of the query"
            )
        keep, latest = np.repeat(self._keep, n, axis=0), self._at
        for row, at in zip(keep, block.at.tolist(), strict=True):
            gone = 0.0 if latest is None else max(at - latest, 0.0)
            latest = at if latest is None else max(at, latest)
            for k, seconds in enumerate(self._seconds):
                if seconds:
                    row[k] = left_after(gone, seconds)
        return keep

    def _is_learned_one_by_one(self, block: Block) -> bool:
        # What a text is, and the columns of a vector, follow from the queries before; so do names that are words.
        return self._linear is None and (type(block.X) is list or may_meet_words(self, block))

    def _learn(self, block: Block, rounds: np.ndarray) -> int:
        if self._linear is not None:
            learned = self._linear._learn(block, rounds)
            self._n_queries += learned
            return learned
        if block.X.dtype != np.float64:
            block = with_features(block, as_read(block.X), block.names)
        if self._trees is None:
            self._drawn = None
        if len(self._weights) != self._n_features:
            self._add_curves()
        if len(self._signs) != self._n_features:
            self._decide_signs()
        if len(self._places) and self._places[-1, 0] == _OPEN:
            self._decide_places()
        t, n = 0, len(block.w)
        while t < n:
            stop = n if n == 1 else self._run_from(block, t)
            run = block if stop - t == n else block.queries(t, stop)
            t += self._learn_run(run, rounds[t:stop])
            if t < stop:
                return t
        return n

    def _rule(self, n_documents: int) -> tuple[np.ndarray, np.ndarray]:
        """The measure, as kernels take it."""
        return self._config, discounts(n_documents)

    def _run_from(self, block: Block, t: int) -> int:
        """The end of a run of queries, from t on, during which the map of raw values stays the same."""
        if self._trees is not None or self._words is not None or type(block.X) is Worded:
            return t + 1
        stop = self._front.run_from(block.offsets, t)
        return stop if (block.w[t:stop] > 0.0).all() else t + 1

    def _learn_run(self, block: Block, rounds: np.ndarray) -> int:
        """Learn a run of queries, with their words."""
        if self._words is None and type(block.X) is not Worded:
            return self._learn_features(block, rounds)
        loss = learn_words(self, block, self._scores_before)
        if self._trees is None:
            # Those scores drew what was served: the next query draws again.
            self._drawn = None
        learned = self._learn_features(with_features(block, np.asarray(block.X), block.names), rounds)
        if learned and loss == loss:
            rounds[0, 0] = loss
        return learned

    def _scores_before(self, X: np.ndarray) -> np.ndarray:
        """The scores of one query by curves and trees; those that were answered last, if it is the same query."""
        read, answers = self._read, self._answers
        if read is not None and read[1] is self._front.table and answers is not None and np.array_equal(
            read[0].X, X, equal_nan=True
        ):  # fmt: skip
            return answers[1]
        return self._scores_of_features(X, single(len(X)))

    def _learn_features(self, block: Block, rounds: np.ndarray) -> int:
        """Learn queries for which the map of raw values stays as it is now; how many.

        The map learns them first, so that a kernel makes the last change; for the very first query that map counts. A query of
        weight 0 is not learned at all.
        """
        front, t, n = self._front, 0, len(block.w)
        table, begins = front.table, not front.n_documents
        if block.w[0] > 0.0:
            front.learn_run(block.X)
        learned = self._learn_mapped(block, front.table if begins else table, rounds)
        while learned < 0:
            # A feature had its first missing values, and gets a column for that.
            self._decide_places()
            t -= learned
            learned = self._learn_mapped(block.queries(t, n), table, rounds[t:]) if t < n else 0
        return t + learned

    def _learn_mapped(self, block: Block, table: Any, rounds: np.ndarray) -> int:
        """Learn queries by the kernel, as far as it goes (`kernels.learn`)."""
        served, blend = _NONE if block.served is None else block.served, self._hedge()
        keep = self._keep if len(block.w) == 1 and self._seconds == _IN_QUERIES else self._kept(block)
        learner = _new(kernels.Learner, (
            self._weights, self._plain, self._marginals, self._sums, self._signs, self._places, self._gram, self._pending,
            self._slow_gram, self._left, self._curvatures, self._numbers,
        ))  # fmt: skip
        n, m, latest = len(block.w), len(block.y), self._at
        if len(self._by_place) < m:
            self._by_place = discounts(m)
        self._n_queries += n
        self._n_served += n if len(served) else 0
        if block.at is not None:
            self._at = max(float(block.at.max()), -np.inf if latest is None else latest)
        given = (
            block.X, block.y, block.offsets, block.w, self._by_place, self._config, table, learner, blend, keep, served,
            _NO_OTHERS, self._read_before(table), rounds,
        )  # fmt: skip
        learned: int = kernels.learn(*given) if self._trees is None else self._learn_beside(self._trees, given)
        if abs(learned) < n:
            left = n - abs(learned)
            self._n_queries -= left
            self._n_served -= left if len(served) else 0
            if block.at is not None:
                self._at = max([*block.at[: abs(learned)].tolist(), *([] if latest is None else [latest])], default=None)
        return learned

    @property
    def _bytes_of_queries(self) -> int:
        return 0 if self._trees is None else self._trees.bytes_of_queries

    def _head(self) -> Head | Layered:
        if self._words is None or not self._words.share:
            return self._head_of_features()
        n, names = n_curves(self), self.feature_names
        names, head = None if names is None else names[:n], self._head_of_features()
        own: Any = head if isinstance(head, Blend) else Blend((Form(names, n, *head),), np.ones(1))
        added = curves_of_levels(self)
        levels = Form(names, n, (added,), Linear(np.ones(len(added.knots))))
        return Blend((*own.forms, levels), np.append(self._words.factor * own.weights, 1.0))

    def _head_of_features(self) -> Head | Layered:
        """The closed form of curves and trees."""
        trees = self._trees
        if trees is None or not trees.n_served or self._linear is not None:
            return super()._head()
        # Features that another ranker has met may have no curves yet.
        n, names = n_curves(self), self.feature_names
        names = None if names is None else names[:n]
        curves_alone: Any = super()._head()
        curved = Form(names, n, curves_alone.layers, curves_alone.head)
        grown = Form(names, n, (mapped_for_trees(self._mapped()),), form_of_leaves(*trees.served()))
        return Blend((curved, grown), np.array([trees.factor, 1.0]))

    def _split(self, block: Block, a: int, b: int) -> Split | None:
        block = self._without_vectors(block)
        told = self._split_of_features(block, a, b)
        return told if told is None or self._words is None else with_words(self, told, block, a, b)

    def _split_of_features(self, block: Block, a: int, b: int) -> Split | None:
        """The difference between the scores by curves and trees."""
        told, trees = super()._split(block, a, b), self._trees
        if told is None or trees is None or not trees.n_served:
            return told
        X = (block.X if self._reader.fits(self, block) else self._reader.align(self, block).X)[[a, b]]
        singles, pairs = split_by_leaves(*trees.served(), self._rows_of(X), self._columns_of_features())
        return told._replace(values=trees.factor * told.values + singles, pairs=pairs)

    def _rows_of(self, X: np.ndarray) -> curves.CurveRows:
        return self._score_rows(X, single(len(X)))[1]

    def _learn_beside(self, trees: GrowingTrees, given: tuple[Any, ...]) -> int:
        """Learn a query with curves and trees."""
        trees.make_room(len(given[1]), self.trees)
        drawn, hedge, answers = self._drawn, given[8], _NO_ANSWERS if self._answers is None else self._answers
        if drawn is None:
            chosen = np.empty(len(self._scales) + len(self._losses))
            blending.choose(hedge, hedge.first_query, chosen)
            drawn = self._drawn_by(chosen)
        self._drawn = self._answers = None
        learned: int = beside.learn(*given, drawn, answers, *trees.state(), trees.limits(self.trees))
        return learned

    def _score_queries(self, X: Any, offsets: np.ndarray) -> np.ndarray:
        if self._words is None:
            return self._scores_of_features(np.asarray(X) if type(X) is Worded else X, offsets)
        tokens = X.tokens if type(X) is Worded else None
        scores = self._scores_of_features(np.asarray(X), offsets)
        return self._words.factor * scores if tokens is None else self._words.served(tokens, scores)

    def _scores_of_features(self, X: Any, offsets: np.ndarray) -> np.ndarray:
        """The scores of queries by curves and trees."""
        trees = self._trees
        if trees is None or self._linear is not None:
            return super()._score_queries(X, offsets)
        if len(offsets) > 2:
            if not trees.n_served:
                return super()._score_queries(X, offsets)
            pairs = itertools.pairwise(offsets.tolist())
            return np.concatenate([self._scores_of_features(X[a:b], single(b - a)) for a, b in pairs])
        scores, rows = self._score_rows(X, offsets)
        self._answers = answers = trees.answers(rows, scores)
        served: np.ndarray = answers[1].copy()
        return served


#: No scores were served, or answered; and no members have scores that were computed elsewhere.
_NONE, _NO_ANSWERS, _NO_OTHERS = np.empty(0), np.empty((2, 0)), np.empty((0, 0))


def _n_plain(ranker: Any, n: int) -> int:
    """`n` if the ranker has plain members, else 0."""
    return n if len(ranker._scales) > curves.N_MEMBERS else 0


def _factors(half_life: Any) -> tuple[np.ndarray, tuple[float | None, ...]]:
    """The factors of the past in a query (1, 3), and half-lives in seconds, None for those in queries."""
    if not isinstance(half_life, list | tuple) or len(half_life) != 2:
        raise TypeError(f"half_life is {half_life!r}; it is a pair of half-lives: the long one and the short one")
    keep, seconds = zip(*(factor_of(f"half_life[{i}]", one) for i, one in enumerate(half_life)), strict=True)
    return np.array([[*keep, halved(1.0 / _NEWTON_HALF_LIFE)]]), seconds
