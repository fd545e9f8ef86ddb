"""Measures the losses of a ranker while it learns, and of other weights on the same stream."""

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from online_rank._kernels.rounds import accumulate
from online_rank.arguments import flag, integer
from online_rank.base import Abilities, Ranker, Round, share_lock
from online_rank.base.anatomy import learned_measure
from online_rank.base.growth import with_zeros
from online_rank.base.lock import locked
from online_rank.base.reader import columns_of, own_names
from online_rank.base.schema import Array, Count, Derived, Integer, Nested, Real, Schema
from online_rank.bounds.account_run import keeps_account, run_of_account
from online_rank.bounds.certificate import Certificate, certify
from online_rank.bounds.comparators import (
    blends,
    copied,
    covered,
    extend_path,
    is_only_measured,
    outside_the_signs,
    require_perceptron,
)
from online_rank.bounds.mixed import mix
from online_rank.bounds.perceptron_run import run_of_perceptron
from online_rank.bounds.totals import Totals
from online_rank.intervals import Interval, LossInterval, PairedLosses
from online_rank.intervals.losses import add_losses
from online_rank.query import Block
from online_rank.rankers.averaged import scores_by
from online_rank.rankers.inside import (
    documents_met,
    learn_gaining,
    learns_as_it_answers,
    unaveraged_scores,
)
from online_rank.rankers.nested import NestedRanker, NestedReader, adopt_features, teach

_LOSS, _SERVED_LOSS, _MASS, _SQUARE, _MARGIN, _WEIGHT, _SKIPPED = map(
    Round._fields.index, ("loss", "served_loss", "mass", "squared_gradient_norm", "margin", "weight", "skipped")
)


class _Reader(NestedReader):
    """Reads features, with the divisors by which a scaler before the tracker has made them."""

    def align(self, step: Any, block: Block, grow: bool = False) -> Block:
        """As for every ranker that holds another."""
        aligned = super().align(step, block, grow)
        if block.scale is None or block.names is None or self.fits(step, block):
            return aligned
        return aligned._replace(scale=self.placed(step, block.scale[None], columns_of(step, block.names))[0])


class LossTracker(NestedRanker):
    """A wrapper that measures the losses of a ranker, and certifies them.

    It learns, scores and ranks exactly as `ranker` does, and can be used in its place. It computes its measurements from scores
    and grades, without affecting learning. Behind a transformer that learns, everything is measured on the transformed features
    that the ranker learns from, except `served_loss`, which is the loss of the pipeline's answers before learning.

    Around a `ClickPerceptron` the loss is estimated from clicks (see there), and `served_loss` is not measured.

    Parameters
    ----------
    ranker
        An `AdditiveRanker`, a `BlendRanker`, a `PerceptronRanker` or a `ClickPerceptron`; or a `GradientRanker` or a ranker of
        your own, whose losses are measured, but which no bound covers. A copy of it learns. The run begins with its weights;
        more bounds cover runs from w = 0, that is, of a ranker that has learned nothing.
    comparators
        Weights to compare with, by name: `{name: (d,) array}`, or `{name: {feature: weight}}` for queries whose features have
        names (a feature without a weight has weight 0). They are copied. Each costs about one more pass of scores.
    measure_served
        Whether to measure the served rankings too: `Totals.served_loss`, `served_interval`, and `paired`, in which they are
        compared with the rankings by each comparator. The first two cost nothing with `half_life=0` or `served="average"`, or
        if the served scores are given to `learn_one`; in all other cases every document is scored a second time.
    raw
        Whether the comparators are weights of raw features, behind a `StreamScaler` in a pipeline. They move with the scaler,
        and the certificate is against that path. Otherwise they are weights of the features that the
        ranker gets.

    Raises
    ------
    TypeError, ValueError
        `ranker` is of another type or overrides how it learns, or a comparator is not a vector of finite numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from online_rank import LossTracker, PerceptronRanker
    >>> rng = np.random.default_rng(0)
    >>> teacher = np.array([4.0, -2.0, 0.0])
    >>> tracker = LossTracker(PerceptronRanker(), comparators={"teacher": teacher})
    >>> for _ in range(200):
    ...     X = rng.normal(size=(8, 3))
    ...     tracker.learn_one(X, (X @ teacher > 2).astype(int) + (X @ teacher > 6))
    >>> tracker.totals.n_rounds
    200
    >>> certificate = tracker.certificate("teacher")
    >>> certificate.holds
    True
    >>> certificate.loss <= certificate.bound("mass_data_bound") <= certificate.bound("mass_bound")
    True
    """

    _reader = _Reader()

    #: Number of machines in every mixing of weights; 0: never mixed; -1: the number varied.
    _machines = 0
    #: Number of queries learned at the last mixing.
    _mixed_at = 0
    #: The sum of all updates less the weights (d,); None if the weights equal that sum.
    _offset: np.ndarray | None = None
    #: The sum of all updates (d,) of a ranker with a cap of its norm, whose weights do not tell it; None for any other.
    _gained: np.ndarray | None = None
    #: The initial weights of the run (d,); None: w = 0.
    _beginning: np.ndarray | None = None
    #: For each comparator the account of an interval of (1 + its loss - the served loss) / 2. Older files lack it: zeros.
    _paired: Any = None
    #: Number of queries whose served scores decided what was learned. Older files lack it: 0.
    _n_as_served = 0
    # One element for each feature: copying them for every query would cost more than learning it.
    _replaced = frozenset({"_shift", "_scaled_by", "_offset", "_beginning", "_aligned"})

    _schema = Schema(
        _learner=Nested(
            "PerceptronRanker",
            "ClickPerceptron",
            "AdditiveRanker",
            "BlendRanker",
            "GradientRanker",
            "Ranker",
            features=True,
        ),
        _served=Array(3, low=0.0),
        _n_served=Count(),
        _n_as_served=Count(),
        _n_moved=Count(),
        _path=Array(lambda tracker: len(tracker.comparators or {}), 3),
        _shift=Array(lambda tracker: len(tracker.comparators or {}), "d"),
        _scaled_by=Array("d"),
        _totals=Array(len(Totals._fields), finite=False),
        _sums=Array(lambda tracker: len(tracker.comparators or {}), 2, finite=False),
        _paired=Array(lambda tracker: len(tracker.comparators or {}), 3, low=0.0),
        _n_documents=Real(0.0),
        _machines=Integer(-1),
        _mixed_at=Count(),
        _offset=Array("d", optional=True),
        _beginning=Array("d", optional=True),
        _gained=Array("d", finite=False, optional=True),
        _aligned=Derived(lambda tracker: len(tracker.comparators or {}), "d"),
        _measure=Derived(),
    )

    def __init__(
        self, ranker: Ranker, comparators: Mapping[str, Any] | None = None, *, measure_served: bool = False, raw: bool = False
    ) -> None:
        super().__init__()
        require_perceptron(ranker)
        if comparators is not None and not isinstance(comparators, Mapping):
            raise TypeError(f"comparators is of type {type(comparators).__name__}; it is a dict {{name: weights}}")
        flag("measure_served", measure_served)
        flag("raw", raw)
        if comparators and (blends(ranker) or is_only_measured(ranker)):
            what = "is compared with its best fixed blend" if blends(ranker) else "is not one"
            raise TypeError(f"comparators are for perceptrons: a {type(ranker).__name__} {what}")
        if measure_served and ranker.abilities.takes_clicks:
            raise ValueError("measure_served=True: clicks do not reveal the loss of the served ranking")
        self.ranker = ranker
        self.comparators = None if comparators is None else {name: copied(name, u) for name, u in comparators.items()}
        self.measure_served = measure_served
        self.raw = raw
        self._learner: Any = copy.deepcopy(ranker)
        share_lock(self)
        self._measure = learned_measure(ranker)
        self._totals = np.zeros(len(Totals._fields))
        self._sums = np.zeros((len(comparators or {}), 2))
        self._paired = np.zeros((len(self._sums), 3))
        self._aligned = np.empty((len(self._sums), 0))
        # How much the learner has learned through this tracker.
        self._n_documents = 0.0
        self._served = np.zeros(3)
        self._n_served = 0
        # Number of queries, of those learned from given scores, that came through transformers that learn.
        self._n_moved = 0
        # For each comparator: P, the sum of <u_t - u_{t-1}, w_t>, the largest norm before it was moved, and the moves.
        self._path = np.zeros((len(self._sums), 3))
        self._shift = np.empty((len(self._sums), 0))
        # The latest divisors of raw features.
        self._scaled_by = np.empty(0)
        self._begin()

    @property
    def learner(self) -> Any:
        """The ranker that learns. Teach it only through the tracker: if something else teaches it, the next query or
        certificate raises an error.
        """
        return self._learner

    @property
    @locked
    def totals(self) -> Totals:
        """The `Totals` of all rounds so far."""
        values = Totals._make(self._totals.tolist())
        return values._replace(**{name: int(getattr(values, name)) for name in ("n_rounds", "n_skipped", "n_mistakes", "m")})

    @locked
    def served_interval(self, level: float = 0.95) -> Interval:
        """Interval for the mean expected loss of the rankings served so far, valid at all times with probability `level`.

        It is valid on any stream (`online_rank.intervals`); queries of one grade, and sample weights, are left out.

        Raises
        ------
        ValueError
            Served rankings are not measured.
        """
        if not self.abilities.measures_answers and self._totals[0] and not self._served[0]:
            raise ValueError("served rankings are not measured; LossTracker(ranker, measure_served=True) measures them")
        return LossInterval(self._served).interval(level)

    @locked
    def paired(self, comparator: str | None = None) -> PairedLosses:
        """The losses of the served rankings ("the ranker") and of the rankings by a comparator's weights, on the same queries.

        Its `difference` and `better` say at any time which of the two ranks better, on any stream; sample weights are left out.
        A comparator that was moved is compared with as it was at each query.

        Parameters
        ----------
        comparator
            Its name; not needed when there is only one.

        Raises
        ------
        KeyError, ValueError
            There is no such comparator, several and no name, or served rankings are not measured.

        Examples
        --------
        >>> from online_rank import LossTracker, PerceptronRanker
        >>> from online_rank.stream.synth import NoisyTeacher
        >>> tracker = LossTracker(PerceptronRanker(), {"first feature": [1.0] + [0.0] * 9}, measure_served=True)
        >>> tracker.learn_many(*NoisyTeacher(n_queries=500, n_features=10, n_documents=20).block())
        >>> print(*tracker.paired().better())
        the ranker is better than first feature by at least 0.4656 a query (measured 0.5146, n = 499, 95 %)
        """
        if not self.measure_served:
            raise ValueError(
                "served rankings are not measured; LossTracker(ranker, comparators, measure_served=True) measures them"
            )
        if comparator is None:
            if len(self._sums) != 1:
                raise ValueError(f"there are {len(self._sums)} comparators, {list(self.comparators or {})}: name one")
            comparator = next(iter(self.comparators or {}))
        row = self._row(comparator)
        return PairedLosses(["the ranker", comparator], sums=self._paired[row : row + 1])

    def move_comparator(self, name: str, weights: Any) -> None:
        """Move a comparator: from now on compare with other weights; the certificate is then against the path.

        Parameters
        ----------
        name
            The comparator.
        weights
            As in `comparators`. Named features that have not appeared in any query keep their weights.

        Raises
        ------
        KeyError, TypeError, ValueError
            There is no such comparator, or `weights` is not a valid vector for it; or the weights before or after violate the
            signs of the ranker (`PerceptronRanker(signs=...)`), so that no bound would cover the path.
        """
        with self._lock:
            row = self._row(name)
            before = self._aligned[row].copy()
            after = self._aligned_to_columns(name, copied(name, weights))
            for u in (before, after):
                if (wrong := outside_the_signs(self._learner, own_names(self), u)) is not None:
                    raise ValueError(f"comparators[{name!r}]: {wrong}: no bound covers its path")
            path, shift = self._path.copy(), self._shift.copy()
            extend_path(path[row], before * self._scaled_by, after * self._scaled_by, self._gains())
            shift[row] += after - before
            self._path, self._shift = path, shift
            self._aligned = self._align_comparators()

    def certificate(self, comparator: str | None = None, *, delay: int | None = None) -> Certificate:
        """Certify the loss so far, by every bound that covers the ranker's settings, against one of the comparators.

        Without comparators it shows how well any weights could have done on the pairs of the updates; around an
        `AdditiveRanker` or a `BlendRanker` it compares the loss with the loss of the best fixed blend.

        Parameters
        ----------
        comparator
            Its name; not needed when there is only one.
        delay
            The largest number of served queries waiting when grades arrived, for a run that learned from given served scores.

        Raises
        ------
        KeyError
            There is no such comparator.
        ValueError
            No name was given, and there is more than one; the learner was taught without the tracker; or no bound covers it.
        """
        names = list(self.comparators or {})
        if comparator is None and len(names) > 1:
            raise ValueError(f"there are {len(names)} comparators {names}; certificate(name) is against one of them")
        if comparator is None and names:
            comparator = names[0]
        if delay is not None:
            integer("delay", delay, low=0)
        with self._lock:
            if comparator is not None:
                self._row(comparator)
            self._require_complete()
            if is_only_measured(self._learner) or (self._blends and not keeps_account(self._learner)):
                sparse = " on sparse rows, as one covers a PerceptronRanker" if self._blends else ""
                raise ValueError(
                    f"no bound covers a {type(self._learner).__name__}{sparse}; totals and served_interval have its losses"
                )
            if comparator is None and keeps_account(self._learner):
                whole = self._blends and self._learner.n_queries == self._totals[0]
                served_loss = self.totals.served_loss if whole else math.nan
                return certify(self._learner, run_of_account(self._learner, served_loss, moved=True))
            return certify(self._learner, run_of_perceptron(self, comparator, delay))

    _forwards = ("takes_served", "takes_clicks", "takes_sparse", "draws")

    def _abilities(self) -> Abilities:
        able = super()._abilities()
        follows = not self._blends and learns_as_it_answers(self._learner)
        measures = not able.takes_clicks and (self.measure_served or follows)
        return able._replace(measures_answers=measures, wants_scale=self.raw)

    @property
    def _blends(self) -> bool:
        return blends(self._learner)

    def _begin(self) -> None:
        """Take over the features and weights of a ranker that has learned before."""
        adopt_features(self, [self._learner])
        self._n_documents = self._learned_so_far()
        if self._blends or is_only_measured(self._learner):
            return
        if self._learner.last_round is not None or self._learner.weights.any():
            self._beginning = self._learner.weights.copy()
            self._offset = -self._beginning
        if getattr(self._learner, "norm_cap", None) is not None:
            self._gained = np.zeros(self._n_features)

    def _gains(self) -> np.ndarray:
        """The sum of all updates of the weights that learn, (d,)."""
        if self._gained is not None:
            return self._gained.copy()
        return self._learner.weights if self._offset is None else self._learner.weights + self._offset

    def _row(self, name: str) -> int:
        names = list(self.comparators or {})
        if name not in names:
            raise KeyError(f"there is no comparator {name!r}; there are {names}")
        return names.index(name)

    @property
    def _wrapped(self) -> list[Ranker]:
        return [self._learner]

    def _derive(self) -> None:
        self._aligned = self._align_comparators()

    def _grow(self, n_new: int) -> None:
        self._shift = with_zeros(self._shift, n_new, axis=1)
        self._scaled_by = np.concatenate([self._scaled_by, np.full(n_new, 0.0 if self.raw else 1.0)])
        for name in ("_offset", "_beginning", "_gained"):
            if (grown := getattr(self, name)) is not None:
                setattr(self, name, with_zeros(grown, n_new))

    def _added(self, n_new: int) -> int:
        return super()._added(n_new) + n_new * len(self._shift)

    def _fork(self, number: int) -> None:
        self._learner._fork(number)

    def _shed(self, base: Any, of: int) -> None:
        self._learner._shed(base._learner, of)

    def _mix(self, shards: Sequence[Any], base: Any) -> None:
        mix(self, shards, base)

    def _extended(self, n_before: int) -> None:
        self._aligned = self._align_comparators()

    def _score(self, X: np.ndarray) -> np.ndarray:
        return self._learner._score(X)

    def _learn(self, block: Block, rounds: np.ndarray) -> int:
        self._require_complete()
        if self._n_features != self._learner._n_features or self._blends:
            self._share_columns()
        values = np.zeros((len(block.w), *self._sums.shape))
        observes = self._gained is not None or len(self._sums) > 0
        if observes or self._scores_answers(block):
            learned = self._learn_each(block, rounds, values)
        else:
            learned = self._learner._learn(block, rounds)
        if learned == len(block.w):
            self._add_up(block, rounds, values, answered=block.answered is not None)
        return learned

    def _add_up(self, block: Block, rounds: np.ndarray, values: np.ndarray, *, answered: bool) -> None:
        """Add the rounds of a block, and the losses of the comparators (q, n, 2), to the account.

        `answered` says whether transformers learned between the answers to the queries and these.
        """
        as_served = self._round_is_served(block, answered)
        if as_served:
            rounds[:, _SERVED_LOSS] = rounds[:, _LOSS]
        elif block.answered is not None:
            rounds[:, _SERVED_LOSS] = self._measure.losses(block.answered, block.y, block.offsets)
        if self.measure_served and len(self._sums):
            self._add_pairs(block, rounds)
        served = self.abilities.measures_answers or block.served is not None
        accumulate(rounds, values, self._totals, self._sums, self._served if served else np.empty(0))
        self._n_as_served += len(rounds) if as_served else 0
        if block.served is not None:
            self._n_served += len(rounds)
            self._n_moved += len(rounds) if answered else 0
        self._learner._last_round = rounds[-1:].copy()
        self._n_documents = self._learned_so_far()

    def _add_pairs(self, block: Block, rounds: np.ndarray) -> None:
        """Add by how much rankings by the comparators lose more than those that were served."""
        counted = rounds[:, _SKIPPED] == 0.0
        served = np.clip(rounds[:, _SERVED_LOSS], 0.0, 1.0)
        for sums, u in zip(self._paired, self._aligned * self._scaled_by, strict=True):
            losses = self._measure.losses(scores_by(u, block.X), block.y, block.offsets)
            add_losses(sums, (0.5 + 0.5 * (losses - served))[counted])

    def _round_is_served(self, block: Block, answered: bool) -> bool:
        """Whether a round counts the loss of the served ranking, because its scores decided the update (see `_add_up`)."""
        if self.abilities.takes_clicks:
            return False
        if block.served is not None or answered:
            return block.served is not None
        # Without `measure_served` it is unknown whether transformers have learned before a blend.
        return learns_as_it_answers(self._learner) and (self.measure_served or not self._blends)

    def _scores_answers(self, block: Block) -> bool:
        """Whether the ranker must compute what it would have answered."""
        return self.measure_served and block.answered is None and not self._round_is_served(block, False)

    def _learn_each(self, block: Block, rounds: np.ndarray, values: np.ndarray) -> int:
        """Learn query by query, and measure each by the weights before its update.

        `values` (q, n, 2) receives the losses of the comparators.
        """
        ask, compared = self._scores_answers(block), covered(self._learner) if len(self._sums) else None
        for t, query in enumerate(block.each()):
            row, ranker = rounds[t], self._learner
            decisive = None if compared is None else self._decisive_scores(ranker, query)
            answered = self._learner._score(query.X) if ask else None
            if self.raw:
                self._rescale(query)
            if not self._learn_query(query, rounds[t : t + 1]):
                return t
            if answered is not None:
                row[_SERVED_LOSS] = self._measure.losses(answered, query.y, query.offsets).item()
            if compared is not None and decisive is not None and (row[_LOSS] > 0.0 or row[_MASS] > 0.0):
                scores = np.array([scores_by(u, query.X) for u in self._aligned * self._scaled_by])
                compared.losses(ranker, query, decisive, Round.from_row(row), scores, values[t])
        return len(block.w)

    def _learn_query(self, query: Block, row: np.ndarray) -> bool:
        """Let the ranker learn one query; `row` (1, fields) receives its round. Returns whether it did."""
        if self._gained is None:
            return teach(self._learner, query, row)
        return learn_gaining(self._learner, query, row, self._gained)

    def _rescale(self, query: Block) -> None:
        """Let the comparators follow the scaler."""
        if query.scale is None:
            raise ValueError("raw=True is for a LossTracker behind a scaler: StreamScaler() | LossTracker(ranker, raw=True)")
        scale = np.broadcast_to(query.scale, self._scaled_by.shape)
        for row, u in zip(self._path, self._aligned, strict=True):
            # The first query only sets the beginning of the path.
            if self._learned_so_far():
                extend_path(row, u * self._scaled_by, u * scale, self._gains())
        self._scaled_by = scale.copy()

    def _decisive_scores(self, ranker: Any, query: Block) -> np.ndarray:
        """The scores that decide what a perceptron learns from a query, float64 (m,)."""
        if query.served is not None:
            return query.served
        if getattr(ranker, "served", None) == "average":
            return ranker._score(query.X)
        return unaveraged_scores(ranker, query.X)

    def _require_complete(self) -> None:
        if self._learned_so_far() != self._n_documents:
            raise ValueError(
                "the learner was taught without the tracker, whose account is now incomplete; teach it through the LossTracker"
            )

    def _learned_so_far(self) -> float:
        """Number of documents that the learner has learned from, or of queries for a blend."""
        return documents_met(self._learner)

    def _align_comparators(self) -> np.ndarray:
        """The comparators (n, d) in the order of the model's columns. Features that no document has had are left out."""
        rows = np.zeros((len(self._sums), self._n_features))
        for row, (name, u) in zip(rows, (self.comparators or {}).items(), strict=True):
            row[:] = self._aligned_to_columns(name, u)
        return rows + self._shift

    def _aligned_to_columns(self, name: str, u: Any) -> np.ndarray:
        """A comparator (d,) in the order of the columns."""
        if not self._n_features:
            return np.zeros(0)
        if isinstance(u, Mapping):
            if self.feature_names is None:
                raise TypeError(f"comparators[{name!r}] names its features, but the queries do not")
            return np.array([u.get(feature, 0.0) for feature in self.feature_names], dtype=np.float64)
        if self.feature_names is not None:
            raise TypeError(f"comparators[{name!r}] is an array, but the queries name their features: give a dict")
        if len(u) != self._n_features:
            raise ValueError(f"comparators[{name!r}] has {len(u)} weights, but the queries have {self._n_features} features")
        return np.asarray(u, dtype=np.float64)
