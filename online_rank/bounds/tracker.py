"""What a ranker loses while it learns, and what other weights would have lost."""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from online_rank._kernels.comparators import accumulate
from online_rank.base import Ranker
from online_rank.base.schema import Array, Derived, Schema
from online_rank.base.undo import joined
from online_rank.bounds.certificate import Certificate, certify
from online_rank.query import Block
from online_rank.rankers.nested import share_columns
from online_rank.rankers.perceptron import PerceptronRanker

__all__ = ["LossTracker", "Totals"]

#: Largest norm of a comparator: its square, and its scores of documents that a ranker accepts, stay finite.
_LARGEST_NORM = 1e150


class Totals(NamedTuple):
    """What all rounds so far add up to. Losses and masses are multiplied by the sample weights.

    Attributes
    ----------
    n_rounds, n_skipped, n_mistakes
        Number of queries learned, of those from which nothing could be learned (`Round.skipped`), and of those with a loss.
    loss
        Cumulative loss of the weights that learn, ties broken pessimistically: what the bounds speak of.
    served_loss
        The same for the weights that serve rankings; NaN unless asked for. No bound speaks of it.
    mass
        Sum of the masses V_t.
    squared_gradient_norms
        Sum of the ||z_t||^2.
    margin_mass
        Sum of tau_t V_t.
    largest_mass
        B, the largest mass of a round.
    R_X
        Largest l2 norm of a document.
    m
        Largest number of documents of a query.
    v_max
        Largest ratio of two positive v_i of one query.
    largest_weight
        Largest sample weight.
    """

    n_rounds: int
    n_skipped: int
    n_mistakes: int
    loss: float
    served_loss: float
    mass: float
    squared_gradient_norms: float
    margin_mass: float
    largest_mass: float
    R_X: float
    m: int
    v_max: float
    largest_weight: float


class LossTracker(Ranker):
    """A ranker that keeps account of the losses of the ranker it holds, and certifies them.

    It learns, scores and ranks as `model` does, and goes wherever a ranker goes. Behind a transformer everything is measured on
    the transformed features.

    Parameters
    ----------
    model
        A `PerceptronRanker` that has learned nothing yet: the bounds start from w = 0.
    comparators
        Weights to compare with, by name: `{name: (d,) array}`, or `{name: {feature: weight}}` for queries whose features have
        names (a feature without a weight has weight 0). Each costs about one more pass of scores.
    served
        Whether to compute the loss of the weights that serve rankings too. With `average=False` these are the weights that
        learn, and it costs nothing; else it takes a second score of every document.

    Raises
    ------
    TypeError, ValueError
        `model` is of another kind, or a comparator is not a vector of finite numbers; or, from the first query, `model` had
        learned before.

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

    _schema = Schema(
        _totals=Array(len(Totals._fields), finite=False),
        _sums=Array(lambda tracker: len(tracker.comparators or {}), 2),
        _aligned=Derived(lambda tracker: len(tracker.comparators or {}), "d"),
    )

    def __init__(self, model: PerceptronRanker, comparators: Mapping[str, Any] | None = None, served: bool = False) -> None:
        super().__init__()
        # Not isinstance: river lets a pipeline pass for its last step.
        if not issubclass(type(model), PerceptronRanker):
            transformers = "; transformers go before it: scaler | LossTracker(ranker)" if hasattr(model, "steps") else ""
            raise TypeError(f"model is of type {type(model).__name__}; a LossTracker holds a PerceptronRanker{transformers}")
        self.model = model
        self.comparators = comparators
        self.served = served
        if comparators is not None and not isinstance(comparators, Mapping):
            raise TypeError(f"comparators is of type {type(comparators).__name__}; it is a dict {{name: weights}}")
        for name, u in (comparators or {}).items():
            _require_vector(name, u)
        self._totals = np.zeros(len(Totals._fields))
        self._sums = np.zeros((len(comparators or {}), 2))
        self._aligned = np.empty((len(self._sums), 0))

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"model": PerceptronRanker()}

    @property
    def totals(self) -> Totals:
        """The `Totals` of all rounds so far."""
        values = Totals._make(self._totals.tolist())
        return values._replace(**{name: int(getattr(values, name)) for name in ("n_rounds", "n_skipped", "n_mistakes", "m")})

    def certificate(self, comparator: str | None = None) -> Certificate:
        """The loss so far beside every bound that covers the model's settings, against one of the comparators.

        Parameters
        ----------
        comparator
            Its name; not needed when there is only one.

        Raises
        ------
        KeyError
            There is no such comparator.
        ValueError
            No name was given, and there is none or more than one.
        """
        names = list(self.comparators or {})
        if not names:
            raise ValueError("there is no comparator: give LossTracker(model, comparators={name: weights}) one to begin with")
        if comparator is None:
            if len(names) != 1:
                raise ValueError(f"there are {len(names)} comparators {names}; certificate(name) is against one of them")
            comparator = names[0]
        if comparator not in names:
            raise KeyError(f"there is no comparator {comparator!r}; there are {names}")
        row = names.index(comparator)
        pair_loss, surrogate_loss = self._sums[row].tolist()
        return certify(self.model, self.totals._asdict(), comparator, self._align_comparators()[row], pair_loss, surrogate_loss)

    def _check_state(self) -> None:
        if (self.model._columns, self.model._n_features) != (self._columns, self._n_features):
            raise ValueError(f"it has {self._n_features} features, but its model has {self.model._n_features}, or other names")

    def _derive(self) -> None:
        self._aligned = self._align_comparators()

    def _grow(self, n_new: int) -> None:
        """The columns of the state are the model's, which grows when it learns."""

    def _extend(self, names: Iterable[Hashable] | None, n_new: int = 0) -> None:
        super()._extend(names, n_new)
        self._aligned = self._align_comparators()

    def _score(self, X: np.ndarray) -> np.ndarray:
        return self.model._score(X)

    def _snapshot(self, block: Any = None) -> Callable[[], None]:
        return joined(super()._snapshot(block), self.model._snapshot(block))

    def _learn(self, block: Block, rounds: np.ndarray) -> int:
        model = self.model
        # Not in __init__, which also makes a tracker anew around a model that it has taught, from a file.
        if not self._totals[0] and model.last_round is not None:
            raise ValueError("model has learned already; the bounds start from w = 0, so give a LossTracker one that has not")
        share_columns(self, model)
        track = self.served or model.average is False
        values = np.empty((len(block.w), *self._sums.shape))
        learned = model._learn(block, rounds, track, self._aligned, values)
        if learned == len(block.w):
            accumulate(rounds, values, self._totals, self._sums)
            model._last_round = rounds[-1:].copy()
        return learned

    def _align_comparators(self) -> np.ndarray:
        """The comparators (n, d) in the order of the model's columns. A feature that no document has had does not count."""
        rows = np.zeros((len(self._sums), self._n_features))
        if not self._n_features:
            return rows
        for row, (name, u) in zip(rows, (self.comparators or {}).items(), strict=True):
            if isinstance(u, Mapping):
                if self.feature_names is None:
                    raise TypeError(f"comparators[{name!r}] names its features, but the queries do not")
                row[:] = [u.get(feature, 0.0) for feature in self.feature_names]
            elif self.feature_names is not None:
                raise TypeError(f"comparators[{name!r}] is an array, but the queries name their features: give a dict")
            elif len(u) != len(row):
                raise ValueError(f"comparators[{name!r}] has {len(u)} weights, but the queries have {len(row)} features")
            else:
                row[:] = u
        return rows


def _require_vector(name: Hashable, u: Any) -> None:
    values = np.asarray(list(u.values()) if isinstance(u, Mapping) else u)
    if values.ndim != 1 or (values.size and values.dtype.kind not in "biuf"):
        raise TypeError(f"comparators[{name!r}] must be a vector of numbers or a dict {{feature: weight}}")
    if not math.hypot(*values.tolist()) <= _LARGEST_NORM:
        raise ValueError(f"comparators[{name!r}] has weights that are not finite, or a norm above {_LARGEST_NORM:g}")
