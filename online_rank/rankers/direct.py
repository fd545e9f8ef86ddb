"""The DirectRanker: a neural network that compares documents, learned one query at a time."""

import itertools
import math
from collections.abc import Hashable
from typing import Any

import numpy as np

from online_rank import arguments
from online_rank._kernels import direct as kernels
from online_rank._kernels.codes import ACTIVATIONS, OPTIMIZER_ROWS, OPTIMIZERS
from online_rank._kernels.network import LANES, layer, score
from online_rank.base import Ranker
from online_rank.base.form import Head, Network
from online_rank.base.lock import locked
from online_rank.base.schema import Array, Derived, Schema
from online_rank.measures.learned import discounts, measure
from online_rank.query import MAX_GRADE, Block, answer_in_kind, read_query
from online_rank.rankers.averaged import averaging, begin_to_average, served
from online_rank.rankers.breaks import natural_breaks
from online_rank.surrogates.builtin import OUTPUTS
from online_rank.surrogates.own import KernelArguments, learned_by, resolve

#: Largest norm of a gradient that is learned from, so that no sum of squares overflows.
LARGEST_GRADIENT = {"float32": 1e15, "float64": 1e150}
#: Largest `learning_rate` and `l2`: with these gradients no step makes a parameter overflow.
LARGEST_RATE = 1000.0

#: Most parameters of a network, for a single feature.
MOST_PARAMETERS = 1 << 24

#: Size of the initial weights of the first layer and of the output, relative to Glorot's.
FIRST_WEIGHTS = 0.1


class DirectRanker(Ranker):
    r"""Neural ranker whose comparisons form a consistent order by construction [DR].

    .. math:: r(x, y) = \tau(g(x) - g(y)), \qquad g(x) = w \cdot f(x),

    f a network that both inputs share, without a bias after it, and tau odd. So r(x, x) = 0, r(x, y) = -r(y, x), and
    r(x, y) >= 0 with r(y, z) >= 0 give r(x, z) >= 0: exactly, also in floating point, since g is computed once for each
    document and depends on nothing else. One query costs one forward and one backward pass over its m documents, not one over
    its m^2 pairs.

    RankNet is `surrogate="logistic", output="half_tanh"`. Features should have similar scales: put a scaler in front.

    The matrix products of learning go through BLAS, which may take several threads for them. For networks of this size one
    thread is as fast, and much faster on busy machines: set `OPENBLAS_NUM_THREADS=1`, or the equivalent of your BLAS.

    Parameters
    ----------
    hidden
        Widths of the layers of f.
    activation
        `"tanh"` or `"relu"`.
    output
        tau: `"identity"`, `"tanh"`, or `"half_tanh"`, tanh(x / 2). Ranking does not depend on it; comparisons do, and
        surrogates given by name.
    surrogate
        `"squared"`, the cost of [DR]; `"logistic"`, RankNet's; `"lambdarank"`, `"listnet"`, `"slam"` or `"hinge"`;
        a `Surrogate` with other settings; or a loss of your own: see `GradientRanker`.
    optimizer
        `"adam"`, `"adagrad"` or `"sgd"`.
    learning_rate
        Step size.
    l2
        Adds l2 ||parameters||^2 / 2 to the cost of every step.
    measure
        The measure of `last_round.loss`, and the one that LambdaRank and SLAM approximate.
    half_life
        Half-life of the average of parameters that serves rankings, in steps; None for the average of all, 0 for the last.
    dtype
        `"float32"` or `"float64"`: the precision of the network. Scores and costs are float64 in any case.
    seed
        Seed of the initial weights.

    References
    ----------
    [DR] Köppel et al., *Pairwise Learning to Rank by Neural Networks Revisited: Reconstruction, Theoretical Analysis and
    Practical Performance*, 2019.

    Examples
    --------
    >>> from online_rank.rankers.direct import DirectRanker
    >>> model = DirectRanker()
    >>> for _ in range(50):
    ...     model.learn_one([[0.0, 1.0], [0.5, 0.0], [1.0, 1.0]], [0, 1, 2])
    >>> model.rank_one([[1.0, 1.0], [0.0, 1.0], [0.5, 0.0]])
    [0, 2, 1]
    >>> model.compare_one([1.0, 1.0], [0.0, 1.0]) == -model.compare_one([0.0, 1.0], [1.0, 1.0])
    True
    """

    _learns_atomically = True

    _served = served
    _averages: bool
    _weights: np.ndarray
    _average: np.ndarray
    _counters: np.ndarray

    _schema = Schema(
        _counters=Array(3, low=0.0),
        _weights=Array("_size", dtype="dtype"),
        _average=Array(lambda ranker: ranker._size if ranker._averages else 0, dtype="dtype"),
        _state=Array(lambda ranker: OPTIMIZER_ROWS[OPTIMIZERS.index(ranker.optimizer)], "_size", dtype="dtype"),
        _surrogate=Derived(),
        _own=Derived(),
        _averages=Derived(),
        _config=Derived(),
        _constants=Derived(),
        _widths=Derived(),
    )

    #: Weights, their average and the optimizer's state take 2 kB for each feature.
    max_features = 1 << 14

    def __init__(
        self,
        hidden: tuple[int, ...] = (70, 5),
        *,
        activation: str = "tanh",
        output: str = "identity",
        surrogate: Any = "squared",
        optimizer: str = "adam",
        learning_rate: float = 1e-3,
        l2: float = 0.0,
        measure: str = "ndcg@10",
        half_life: float | None = 1000,
        dtype: str = "float32",
        seed: int = 0,
    ) -> None:
        super().__init__()
        begin_to_average(self, half_life, n_counters=3)
        self.hidden = hidden
        self.activation = activation
        self.output = output
        self.surrogate = surrogate
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.l2 = l2
        self.measure = measure
        self.dtype = dtype
        self.half_life = half_life
        self.seed = seed
        self._check()
        self._surrogate, self._own = resolve(surrogate, measure, output=output, pair_weight="difference")
        self._config = np.array([OPTIMIZERS.index(optimizer), ACTIVATIONS.index(activation)])
        self._constants = np.array([learning_rate, l2, averaging(half_life), LARGEST_GRADIENT[dtype]])
        self._widths = np.array([0, *(-(-width // LANES) * LANES for width in hidden)])
        self._weights = np.empty(0, dtype)
        self._state = np.empty((OPTIMIZER_ROWS[OPTIMIZERS.index(optimizer)], 0), dtype)
        self._average = np.empty(0, dtype)

    def _unit_test_skips(self) -> set[str]:
        # Initial weights are drawn column by column, in the order in which features appear.
        return {"check_shuffle_features_no_impact", "late_features"}

    @property
    def _size(self) -> int:
        """Length of the parameter vector, whose layers are padded to whole lanes; 0 before the first feature."""
        if not self._n_features:
            return 0
        widths = [self._n_features, *self._widths[1:].tolist()]
        return sum(above * (below + 1) for below, above in itertools.pairwise(widths)) + widths[-1]

    def _derive(self) -> None:
        self._widths[0] = self._n_features

    @locked
    def compare_one(self, x_a: Any, x_b: Any) -> float:
        """r(a, b) = tau(g(a) - g(b)) of two documents: positive when a ranks before b; exactly antisymmetric.

        Parameters
        ----------
        x_a, x_b
            One document each: a feature dict, or a sequence of d numbers.

        Raises
        ------
        TypeError, ValueError
            A document is bad input.
        """
        g_a, g_b = (float(self._score_all(read_query([x]))[0]) for x in (x_a, x_b))
        return float(self._tau(np.array([g_a - g_b]))[0])

    @locked
    def neighbour_gaps_one(self, x: Any) -> list[float]:
        """r between neighbours of the ranked list of a query: it peaks where the grade changes [DR, section 5.3].

        Returns
        -------
        A list of m - 1 numbers >= 0, from the top of `rank_one(x)` down.
        """
        ranked = np.sort(self._score_all(read_query(x)))[::-1]
        return self._tau(ranked[:-1] - ranked[1:]).tolist()

    @locked
    def segment_one(self, x: Any, n_grades: int | None = None) -> list[int] | dict[Hashable, int]:
        """Cut the ranked list of a query into grades, without knowing any of its grades [DR, section 5.3].

        The cuts minimise the squared deviations of g within grades (natural breaks; Fisher 1958). This takes all gaps into
        account: the largest gaps alone are often those around a single outlier.

        Parameters
        ----------
        x
            A query in any form.
        n_grades
            Number of grades. None: the largest number of grades in any query learned.

        Returns
        -------
        A list of m grades 0, 1, ... in the order of the documents, or `{document id: grade}` for a query with ids. Documents
        with equal scores get one grade, so there can be fewer.

        Raises
        ------
        ValueError
            `n_grades` is not positive.
        """
        if n_grades is not None and n_grades < 1:
            raise ValueError(f"n_grades is {n_grades}; it must be at least 1")
        query = read_query(x)
        most = max(int(self._counters[2]), 1) if n_grades is None else n_grades
        grades: Any = answer_in_kind(natural_breaks(self._score_all(query), most), query)
        return grades

    def _tau(self, difference: np.ndarray) -> np.ndarray:
        slope = OUTPUTS[self.output]
        if not slope:
            return difference
        # tanh of the magnitude, then the sign: odd even if the library's tanh is not.
        return np.copysign(np.tanh(0.5 * slope * np.abs(difference)), difference)

    def _grow(self, n_new: int) -> None:
        first = self._n_features == 0
        width = int(self._widths[1])
        new = self._first_parameters(n_new) if first else np.zeros(n_new * width, self.dtype)
        self._widths = np.append(self._n_features + n_new, self._widths[1:])
        self._weights = np.append(new[:0] if first else self._weights, new)
        grown = np.zeros((len(self._state), len(self._weights)), self.dtype)
        kept = 0 if first else self._state.shape[1]
        grown[:, :kept] = self._state[:, :kept]
        self._state = grown
        if self._averages:
            self._average = np.append(new[:0] if first else self._average, new)

    def _added(self, n_new: int) -> int:
        return super()._added(n_new) + n_new * int(self._widths[1]) * (len(self._state) + 2)

    def _first_parameters(self, n_features: int) -> np.ndarray:
        """A flat parameter vector in the layout of `_kernels.network`.

        Weights are uniform by Glorot & Bengio 2010, but smaller in the first layer and in the output: the units begin in the
        linear part of their activation, and the random order given by the initial weights is soon outweighed.
        """
        rng = np.random.default_rng(self.seed)
        rng.integers(1 << 63)  # Weights are drawn from the second number on.
        widths = [n_features, *self.hidden, 1]
        parts = []
        for number in range(len(self.hidden), -1, -1):
            below, above = widths[number], widths[number + 1]
            bound = math.sqrt(6.0 / max(below + above, 1)) * (FIRST_WEIGHTS if number in (0, len(self.hidden)) else 1.0)
            padded_below = int(self._widths[number]) if number else n_features
            padded_above = int(self._widths[number + 1]) if number < len(self.hidden) else 1
            matrix = np.zeros((padded_below, padded_above), self.dtype)
            matrix[:below, :above] = rng.uniform(-bound, bound, (below, above))
            if number < len(self.hidden):
                parts.append(np.zeros(padded_above, self.dtype))
            parts.append(matrix.ravel())
        return np.concatenate(parts)

    def _head(self) -> Head:
        layers = []
        for number in range(1, len(self._widths)):
            weights, biases = layer.py_func(self._served, self._widths, number)
            layers.append((weights.astype(np.float64), biases.astype(np.float64)))
        return Network(tuple(layers), self.activation, self._served[: self._widths[-1]].astype(np.float64))

    def _score(self, X: np.ndarray) -> np.ndarray:
        scores = np.empty(len(X))
        score(X, self._served, self._widths, self._config[1], scores)
        return scores

    def _learn(self, block: Block, rounds: np.ndarray) -> int:
        if not self._n_features:
            # Documents without any feature: there are no parameters yet for a kernel to read or write.
            return super()._learn(block, rounds)
        return learned_by(self._own, self._surrogate, lambda surrogate: self._descend(block, surrogate, rounds), len(block.w))

    def _descend(self, block: Block, surrogate: KernelArguments, rounds: np.ndarray) -> int:
        X, y, offsets, w, *_ = block
        learner = kernels.Learner(self._weights, self._state, self._average, self._counters)
        settings = surrogate, self._widths, self._config, self._constants
        return kernels.learn(X, y, offsets, w, discounts(len(X)), *settings, learner, rounds)

    def _learn_query(self, query: Block, row: np.ndarray) -> bool:
        """Documents without features are all alike: nothing is learned, and the round is skipped."""
        w, m = float(query.w[0]), query.n_documents
        if not (0.0 <= w < np.inf and query.y.min(initial=0) >= 0 and query.y.max(initial=0) <= MAX_GRADE):
            return False
        loss = measure(self.measure).loss(np.zeros(m), query.y, ties="pessimistic")
        row[:] = loss, np.nan, 0.0, 0.0, 0.0, w, m, 0.0, 0.0, True
        return True

    def _check(self) -> None:
        """Raise ValueError for an argument whose value is not allowed."""
        arguments.choice("activation", self.activation, ACTIVATIONS)
        arguments.choice("optimizer", self.optimizer, ("adam", "adagrad", "sgd"))
        arguments.choice("dtype", self.dtype, LARGEST_GRADIENT)
        widths = self.hidden if isinstance(self.hidden, tuple | list) else ()
        if not widths or any(not isinstance(width, int | np.integer) or width < 1 for width in widths):
            raise ValueError(f"hidden is {self.hidden!r}; it is a tuple of widths >= 1 (GradientRanker is the linear one)")
        if sum(above * (below + 1) for below, above in itertools.pairwise([1, *widths])) > MOST_PARAMETERS:
            raise ValueError(f"hidden is {self.hidden!r}; that is more than {MOST_PARAMETERS} parameters")
        arguments.number("learning_rate", self.learning_rate, above=0.0, high=LARGEST_RATE)
        arguments.number("l2", self.l2, 0.0, LARGEST_RATE)
        if self.learning_rate * self.l2 > 1.0:
            raise ValueError(f"l2 is {self.l2}; times learning_rate it is at most 1, or each step makes the weights larger")
        arguments.seed(self.seed)
