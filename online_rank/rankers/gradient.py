"""A linear ranker for any surrogate and any optimizer."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank._kernels.codes import N_GRADIENT_COUNTERS, OPTIMIZER_ROWS, OPTIMIZERS
from online_rank._kernels.gradient import learn
from online_rank._kernels.sparse import OPTIMIZER
from online_rank.base.anatomy import Abilities
from online_rank.base.schema import Array, Derived, FeaturesWhere, Schema
from online_rank.measures.learned import discounts
from online_rank.query import Block
from online_rank.rankers.averaged import LinearRanker, averaging
from online_rank.surrogates.own import KernelArguments, learned_by, resolve

#: Step sizes for features of standard deviation about 1; for "scale_free" the initial wealth of the bets.
LEARNING_RATES = {"sgd": 0.1, "adagrad": 0.1, "adam": 0.01, "scale_free": 0.1}


class GradientRanker(LinearRanker):
    r"""Linear ranker that follows the gradient of a surrogate, one query at a time.

    .. math:: s = X w, \qquad z = X^\top \nabla_s \phi(s, y), \qquad w \leftarrow \text{optimizer}(w, z).

    With the logistic surrogate this is linear RankNet (Rank LR), with `"hinge"` online RankSVM, with `"listnet"` linear
    ListNet, with `"slam"` and `optimizer="sgd"` online gradient descent on SLAM [CT, section 4], and so on.

    Parameters
    ----------
    surrogate
        `"logistic"`, `"hinge"`, `"squared"`, `"listnet"`, `"lambdarank"` or `"slam"`: these weigh pairs by the
        difference of their grades. Other settings come with a `Surrogate`, such as
        `online_rank.surrogates.hinge(margin=2.0, pair_weight="none")`. Or a loss of your own: a function (s, y) -> (value,
        gradient), an object with a method `value_and_gradient(s, y)`, or the name under which one is registered
        (`online_rank.register`).
    optimizer
        `"scale_free"`: no step size to set, and no scaler needed in front. Multiplying a feature by a constant, or adding one
        to it, changes no ranking (ScInOL2 of Kempka, Kotłowski & Warmuth 2019). `"adagrad"`, `"adam"`, `"sgd"`: for features of
        similar scale. Sparse queries are learned in time proportional to their entries, except with `"adam"` and `l2`, which
        move every weight in every query and need dense arrays.
    learning_rate
        Step size; for `"scale_free"` the initial wealth of each coordinate's bets, which matters little. None: 0.1, or 0.01 for
        `"adam"`.
    measure
        The measure of `last_round.loss`, and the one that LambdaRank and SLAM approximate.
    l2
        Adds l2 ||w||^2 / 2 to the cost of every query. Not for `"scale_free"`, since a norm depends on the features' scale.
    half_life
        Half-life of the average of weights that serves rankings, in queries; 0 for the last weights. None for the average of
        all weight vectors so far; with `"scale_free"`, whose first weights are small bets, None is for the last weights.

    References
    ----------
    [CT] Chaudhuri & Tewari, *Perceptron-like Algorithms and Generalization Bounds for Learning to Rank*, 2014.

    Examples
    --------
    >>> from online_rank.rankers.gradient import GradientRanker
    >>> model = GradientRanker()
    >>> query = {"old": {"clicks": 1e6, "age": 9e-6}, "new": {"clicks": 4e6, "age": 1e-6}}
    >>> model.learn_one(query, {"old": 0, "new": 2})
    >>> model.rank_one(query)
    ['new', 'old']
    """

    _learns_atomically = True

    _schema = Schema(
        _counters=Array(N_GRADIENT_COUNTERS, low=0.0),
        _state=Array("_n_kept", FeaturesWhere(lambda ranker: ranker._rows is None)),
        _surrogate=Derived(),
        _own=Derived(),
        _config=Derived(),
        _constants=Derived(),
    )

    def __init__(
        self,
        surrogate: Any = "logistic",
        *,
        optimizer: str = "scale_free",
        learning_rate: float | None = None,
        measure: str = "ndcg@10",
        l2: float = 0.0,
        half_life: float | None = None,
    ) -> None:
        super().__init__(half_life, n_counters=N_GRADIENT_COUNTERS)
        self._averages = self._averages and not (half_life is None and optimizer == "scale_free")
        self.surrogate = surrogate
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.measure = measure
        self.l2 = l2
        self.half_life = half_life
        arguments.choice("optimizer", optimizer, OPTIMIZERS)
        arguments.number("learning_rate", learning_rate, above=0.0, optional=True)
        arguments.number("l2", l2, 0.0)
        rate = LEARNING_RATES[optimizer] if learning_rate is None else learning_rate
        if l2 and optimizer == "scale_free":
            raise ValueError("l2 does not go with optimizer='scale_free': the norm of w depends on the scale of the features")
        self._surrogate, self._own = resolve(surrogate, measure, pair_weight="difference")
        self._config = np.array([OPTIMIZERS.index(optimizer)])
        self._constants = np.array([rate, l2, averaging(half_life)])
        self._state = np.empty((self._n_kept, 0))

    @property
    def _n_kept(self) -> int:
        """Number of values that the optimizer keeps for a feature."""
        return OPTIMIZER_ROWS[OPTIMIZERS.index(self.optimizer)]

    @property
    def _row_width(self) -> int:  # type: ignore[override]
        return OPTIMIZER + self._n_kept

    def _abilities(self) -> Abilities:
        # Adam's momentum and l2 also move the weights of features that are not in the query.
        return Abilities(takes_sparse=self.optimizer != "adam" and not self.l2)

    def _unit_test_skips(self) -> set[str]:
        # "scale_free" learns the scale of a query's features before it ranks them; a prediction does not.
        return {"honest_loss"} if self.optimizer == "scale_free" else set()

    def _mix(self, shards: Sequence[Any], base: Any) -> None:
        if self.optimizer != "sgd":
            raise TypeError(
                f"GradientRanker(optimizer={self.optimizer!r}) has no rule for mixing what several machines have learned: the "
                "state of its optimizer does not add up; optimizer='sgd' has none"
            )
        self._mix_weights(shards, base)

    def _begin_with(self, weights: np.ndarray, strength: float) -> None:
        if self.optimizer == "scale_free":
            raise ValueError(
                "optimizer='scale_free' begins with bets, not with weights: take optimizer='adagrad', 'adam' or 'sgd'"
            )
        super()._begin_with(weights, strength)

    def _grow(self, n_new: int) -> None:
        n = self._n_features
        super()._grow(n_new)
        new = np.zeros((self._n_kept, n_new))
        if self.optimizer == "scale_free":
            new[3] = self._constants[0]
        if self._rows is None:
            self._state = np.concatenate((self._state, new), axis=1)
        else:
            self._rows[n : n + n_new, OPTIMIZER:] = new.T

    def _in_rows(self, rows: np.ndarray) -> dict[str, Any]:
        rows[:, OPTIMIZER:] = self._state.T
        return {"_state": self._state[:, :0].copy()}

    def _learn(self, block: Block, rounds: np.ndarray) -> int:
        return learned_by(self._own, self._surrogate, lambda surrogate: self._descend(block, surrogate, rounds), len(block.w))

    def _descend(self, block: Block, surrogate: KernelArguments, rounds: np.ndarray) -> int:
        X, weights, average = self._for_kernel(block.X)
        return learn(
            X, block.y, block.offsets, block.w, discounts(block.n_documents), surrogate, self._config, self._constants, weights,
            average, None if self._rows is not None else self._state, self._counters, rounds,
        )  # fmt: skip
