"""The kernel perceptron for ranking, with a budget."""

import numpy as np

from online_rank import arguments
from online_rank._kernels import kernel_machine as kernels
from online_rank._kernels.codes import KERNELS
from online_rank.base import Ranker
from online_rank.base.growth import with_zeros
from online_rank.base.schema import Array, Derived, Schema
from online_rank.measures.learned import discounts, measure
from online_rank.query import Block
from online_rank.rankers.averaged import averaging, begin_to_average, served

#: For this many documents the Cholesky factor takes 800 MB.
_LARGEST_BUDGET = 10_000
#: Each power is a multiplication; beyond this, values of a kernel are 0, 1 or infinite for most documents.
_LARGEST_DEGREE = 100

#: ||e|| / V of an exact projection: the square root of a difference keeps half of the digits.
_ROUNDING = 1e-6


class KernelPerceptronRanker(Ranker):
    r"""Non-linear ranker that learns from its mistakes within a fixed memory, with a proven bound on its cumulative loss.

    The mistake-driven perceptron of `PerceptronRanker` (credit spread, mass loss, grade-mean weights) in the feature space of
    a kernel k, where the weights are a function :math:`f = \sum_b \alpha_b k(z_b, \cdot)` of stored documents z_b. An update
    :math:`z_t = \sum_i c_i k(x_i, \cdot)` is projected on the stored documents when that costs at most

    .. math:: \|e_t\| \le \epsilon V_t, \qquad e_t = z_t - P z_t,

    with V_t the mass of the update. Otherwise the documents that reduce the error most are stored first, as long as the budget
    lasts (the Projectron of Orabona, Keshet & Caputo 2008, for rankings). For every comparator u of the feature space

    .. math::
        \sum_t RML_t \le \sum_t V_t \le F(u) + \|u\| \left( \sqrt{\sum_t \|P z_t\|^2 + 2 \tau_t V_t} + \sum_t \|e_t\| \right),

    whether the budget was used up or not. The proof, and a closed form as long as the budget lasts, are in
    `online_rank.bounds.projection`.

    It is meant for few features with a non-linear effect. A query of m documents takes O(m b d) with b stored documents, plus
    O(b^2) for an update. Features should have similar scales: put a scaler in front.

    Parameters
    ----------
    kernel
        `"rbf"`, exp(-gamma ||x - z||^2), or `"polynomial"`, (gamma x . z + coef0)^degree.
    gamma
        A number > 0. None: 1 / d, where d is the number of features of the first query.
    degree, coef0
        Parameters of the polynomial kernel: an integer from 1 to 100, and a number >= 0.
    budget
        The largest number of stored documents; memory is O(budget (budget + d)).
    tolerance
        epsilon >= 0: the largest accepted error of a projection, relative to the mass. The larger it is, the fewer documents
        are stored.
    measure
        What to learn for; as for `PerceptronRanker`.
    relative_margin
        beta: pairs ordered correctly by less than tau = beta sum ||P z||^2 / sum V, over the previous rounds, count as
        violated.
    half_life
        Half-life of the average of coefficients that serves rankings, as for `PerceptronRanker`. The bounds hold for the last
        ones, which learn.

    References
    ----------
    Orabona, Keshet & Caputo, *The Projectron: a bounded kernel-based Perceptron*, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from online_rank import KernelPerceptronRanker
    >>> model = KernelPerceptronRanker(gamma=1.0)
    >>> rng = np.random.default_rng(0)
    >>> for _ in range(200):
    ...     X = rng.normal(size=(8, 2))
    ...     model.learn_one(X, (np.hypot(*X.T) > 1.0).astype(int))  # relevant: far from the origin, in any direction
    >>> model.rank_one([[0.1, 0.1], [0.0, -2.0], [2.0, 0.0]])[-1]
    0
    >>> model.n_stored <= 500
    True
    """

    _served = served
    _averages: bool
    _weights: np.ndarray
    _average: np.ndarray
    _counters: np.ndarray

    _schema = Schema(
        _counters=Array(6, low=0.0),
        _weights=Array("n_stored", spare=True),
        _average=Array(lambda ranker: ranker.n_stored if ranker._averages else 0, spare=True),
        _stored=Array("n_stored", "d", spare=True),
        _factor=Array("n_stored", "budget", spare=True),
        _scale=Array(1, low=0.0),
        _averages=Derived(),
        _config=Derived(),
        _constants=Derived(),
    )

    #: The documents stored take 4 kB for each feature.
    max_features = 1 << 14

    def __init__(
        self,
        kernel: str = "rbf",
        *,
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        budget: int = 500,
        tolerance: float = 0.1,
        measure: str = "ndcg@10",
        relative_margin: float = 0.3,
        half_life: float | None = None,
    ) -> None:
        super().__init__()
        begin_to_average(self, half_life, n_counters=6)
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.budget = budget
        self.tolerance = tolerance
        self.measure = measure
        self.relative_margin = relative_margin
        self.half_life = half_life
        self._config, self._constants = self._checked()
        # Room for the whole budget is made when the first query is learned (`_reserve`).
        self._stored = np.zeros((0, 0))
        self._factor = np.zeros((0, budget))
        #: The gamma in use: the state keeps the value that None stood for.
        self._scale = np.ones(1) if gamma is None else np.array([float(gamma)])

    def _unit_test_skips(self) -> set[str]:
        # If gamma is None, it is one over the number of features of the first query.
        return {"late_features"} if self.gamma is None else set()

    @property
    def n_stored(self) -> int:
        """Number of stored documents."""
        return int(self._counters[kernels.STORED])

    @property
    def projection_error(self) -> float:
        """Sum of ||e_t||: the errors of all projections so far."""
        return float(self._counters[kernels.ERROR])

    @property
    def largest_projection(self) -> float:
        """Largest ||e_t|| / V_t so far: at most `tolerance` as long as the budget lasts."""
        return float(self._counters[kernels.WORST_ERROR])

    @property
    def budget_lasts(self) -> bool:
        """Whether every projection so far was within the tolerance, up to rounding."""
        return self.largest_projection <= self.tolerance + _ROUNDING

    def _grow(self, n_new: int) -> None:
        if self.gamma is None and not self._n_features and n_new:
            self._scale = np.array([1.0 / n_new])
        self._stored = with_zeros(self._stored, n_new, axis=1)

    def _added(self, n_new: int) -> int:
        return super()._added(n_new) + n_new * len(self._stored)

    def _score(self, X: np.ndarray) -> np.ndarray:
        return self._values(X, self._served)

    def _values(self, X: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        values = np.empty(len(X))
        n = self.n_stored
        kernels.score(X, self._stored[:n], coefficients[:n], *self._config[3:], self._in_use, values)
        return values

    @property
    def _in_use(self) -> np.ndarray:
        return np.concatenate((self._scale, self._constants))

    def _cells(self, n_documents: int, n_features: int) -> int:
        # Products of the documents with those stored, and with each other.
        return n_documents * max(n_features, n_documents, self._n_documents_kept)

    @property
    def _n_documents_kept(self) -> int:  # type: ignore[override]
        return self.budget

    def _reserve(self) -> None:
        """Make room for as many documents as the budget allows; a model from a file has room only for those stored."""
        room = self.budget - len(self._factor)
        if room:
            names = ("_weights", "_average", "_stored", "_factor") if self._averages else ("_weights", "_stored", "_factor")
            for name in names:
                array = getattr(self, name)
                setattr(self, name, np.concatenate((array, np.zeros((self.budget - len(array), *array.shape[1:])))))

    def _learn(self, block: Block, rounds: np.ndarray) -> int:
        self._reserve()
        X, y, offsets, w, *_ = block
        learner = kernels.Learner(self._weights, self._average, self._stored, self._factor, self._counters)
        return kernels.learn(X, y, offsets, w, discounts(len(X)), self._config, self._in_use, learner, rounds)

    def _check_state(self) -> None:
        """Raise ValueError unless the kernels can work with the state."""
        if not (0 <= self._counters[kernels.STORED] <= self.budget and float(self._counters[kernels.STORED]).is_integer()):
            raise ValueError("the number of stored documents does not fit the budget")
        if not (np.diagonal(self._factor)[: self.n_stored] > 0.0).all():
            raise ValueError("the factor of the stored documents has a diagonal that is not positive")

    def _checked(self) -> tuple[np.ndarray, np.ndarray]:
        """The arguments in the form that the kernel takes. Raises TypeError or ValueError for a value that is not allowed."""
        arguments.choice("kernel", self.kernel, KERNELS)
        arguments.integer("degree", self.degree, 1, _LARGEST_DEGREE)
        arguments.integer("budget", self.budget, 1, _LARGEST_BUDGET)
        arguments.number("gamma", self.gamma, above=0.0, optional=True)
        for name in ("coef0", "tolerance", "relative_margin"):
            arguments.number(name, getattr(self, name), 0.0)
        config = [*measure(self.measure), KERNELS.index(self.kernel), self.degree]
        constants = [self.coef0, self.tolerance, self.relative_margin, averaging(self.half_life)]
        return np.array(config, dtype=np.int64), np.array(constants, dtype=np.float64)
