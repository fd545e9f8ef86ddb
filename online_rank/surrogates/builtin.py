"""The surrogates of this library."""

import dataclasses

import numpy as np

from online_rank import arguments
from online_rank._kernels import surrogates as kernels
from online_rank._kernels.codes import SURROGATES, WITHIN_GRADE
from online_rank.base.schema import Schema
from online_rank.measures.learned import discounts
from online_rank.measures.learned import measure as parse_measure
from online_rank.query import as_grades, require_grades

#: tau of r(x, y) = tau(g(x) - g(y)), as the slope of tanh(slope s / 2); 0 for the identity.
OUTPUTS = {"identity": 0.0, "tanh": 2.0, "half_tanh": 1.0}
PAIR_WEIGHTS = {"none": (1.0, 0.0, 0.0), "grade": (0.0, 1.0, 0.0), "difference": (0.0, 1.0, -1.0)}


@dataclasses.dataclass(frozen=True)
class Surrogate:
    """A surrogate with its parameters; made by the functions of this module, each of which states its equation.

    Attributes
    ----------
    name
        `"slam"`, `"hinge"`, `"logistic"`, `"squared"`, `"listnet"` or `"lambdarank"`.
    measure
        The measure that SLAM and LambdaRank approximate. With average precision every surrogate sees
        two grades: relevant and not relevant.
    margin, margin_scale, within_grade, output, pairs, pair_weight, reduction
        See the functions; a surrogate uses the parameters that its function takes.

    Raises
    ------
    ValueError
        A parameter has a value that is not allowed.
    """

    name: str
    measure: str = "ndcg@10"
    margin: float = 1.0
    margin_scale: str = "constant"
    within_grade: str = "mean"
    output: str = "identity"
    pairs: str = "all"
    pair_weight: str = "none"
    reduction: str = "mean"

    _schema = Schema()

    def __init_subclass__(cls, **kwargs: object) -> None:
        # Rankers read the parameters and compute the loss in a kernel: an overridden method would silently have no effect.
        raise TypeError(
            "Surrogate cannot be subclassed: rankers compute it in compiled code, from its parameters; a class of your own "
            "with a method value_and_gradient(s, y) is a surrogate without subclassing anything"
        )

    def __post_init__(self) -> None:
        parse_measure(self.measure)
        arguments.choice("surrogate", self.name, SURROGATES)
        arguments.choice("margin_scale", self.margin_scale, ("constant", "grade"))
        arguments.choice("within_grade", self.within_grade, WITHIN_GRADE)
        arguments.choice("output", self.output, OUTPUTS)
        arguments.choice("pairs", self.pairs, ("all", "neighbours"))
        arguments.choice("pair_weight", self.pair_weight, PAIR_WEIGHTS)
        arguments.choice("reduction", self.reduction, ("mean", "sum"))
        arguments.number("margin", self.margin, above=0.0)

    @property
    def kernel_arguments(self) -> tuple[np.ndarray, np.ndarray]:
        """The parameters in the form that the kernel takes: integers and floats."""
        config = [
            *parse_measure(self.measure),
            SURROGATES.index(self.name),
            WITHIN_GRADE.index(self.within_grade),
            self.margin_scale == "grade",
            self.pairs == "neighbours",
            self.reduction == "mean",
            0,
        ]
        return np.array(config, dtype=np.int64), np.array([self.margin, self._slope, *PAIR_WEIGHTS[self.pair_weight]])

    @property
    def _slope(self) -> float:
        # The identity's r is the log-odds of the logistic costs: that is half_tanh, which maps log-odds to r.
        return OUTPUTS[self.output] or (0.0 if self.name == "squared" else 1.0)

    def value(self, s: np.ndarray, y: np.ndarray) -> float:
        """phi(s, y) for scores `s` and grades `y`, both of shape (m,); 0 when all grades are equal."""
        return self.value_and_gradient(s, y)[0]

    def gradient(self, s: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Gradient (at a kink: a subgradient) in s, float64 (m,). Its elements sum to 0."""
        return self.value_and_gradient(s, y)[1]

    def value_and_gradient(self, s: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
        """Both in one pass.

        Parameters
        ----------
        s
            (m,) finite scores.
        y
            (m,) integer grades >= 0.

        Raises
        ------
        ValueError
            Lengths differ, a score is NaN or infinite, or a grade is out of range.

        Examples
        --------
        >>> from online_rank.surrogates import hinge
        >>> hinge(reduction="sum").value_and_gradient([0.0, 0.5, 2.0], [1, 0, 0])
        (4.5, array([-2.,  1.,  1.]))
        """
        scores = np.ascontiguousarray(s, dtype=np.float64)
        grades = self._grades(y)
        if scores.shape != grades.shape:
            raise ValueError(f"s has shape {scores.shape}, but there are {len(grades)} grades")
        if not np.isfinite(scores).all():
            raise ValueError(f"s: the score of document {int(np.argmin(np.isfinite(scores)))} is not finite")
        gradient = np.empty(len(scores))
        value, *_ = kernels.value_and_gradient(*self.kernel_arguments, scores, grades, discounts(len(scores)), gradient)
        return value, gradient

    def _grades(self, y: np.ndarray) -> np.ndarray:
        grades = as_grades(y, len(y))
        require_grades(grades)
        return grades


def slam(
    measure: str = "ndcg@10", *, margin: float = 1.0, margin_scale: str = "constant", within_grade: str = "mean"
) -> Surrogate:
    r"""The SLAM family: with the weight vector v of a measure, an upper bound on its loss when `margin` is 1 [CT, eq. 3, 11].

    .. math:: \phi_v(s, y) = \sum_i v_i \max(0, \max_{j: y_j < y_i} \mu + s_j - s_i).

    The l1 constant is :math:`2 \sum_i v_i \le 2`.

    Parameters
    ----------
    measure
        Whose v: `"ndcg"` [CT, eq. 9], `"ndcg@10"` [CT, eq. 31], `"ap"` [CT, eq. 6], `"linear_ndcg"`.
    margin
        mu.
    margin_scale
        `"constant"`, or `"grade"`: the margin of a pair is mu (y_i - y_j).
    within_grade
        How v treats documents of one grade: their `"mean"` v; by `"document"` order; `"tight"`, the largest v for the highest
        score (the smallest bound; not convex).

    Examples
    --------
    >>> from online_rank.surrogates import slam
    >>> value, gradient = slam("ndcg").value_and_gradient([0.0, 0.5], [1, 0])
    >>> round(value / (1 - 0.6309297535714575), 12)
    1.5
    """
    return Surrogate("slam", measure, margin=margin, margin_scale=margin_scale, within_grade=within_grade)


def hinge(
    *,
    margin: float = 1.0,
    margin_scale: str = "constant",
    pairs: str = "all",
    pair_weight: str = "none",
    reduction: str = "mean",
) -> Surrogate:
    r"""The pairwise hinge of RankSVM (Herbrich, Graepel & Obermayer 2000; Joachims 2002), in O(m log m).

    .. math:: \phi(s, y) = \sum_{ij} w_{ij} \max(0, \mu - (s_i - s_j)), \qquad \|\nabla_s\|_1 \le 2 \sum_{ij} w_{ij}.

    With `reduction="mean"` it is divided by the sum of the w_ij, and the l1 constant is 2.

    Parameters
    ----------
    margin, margin_scale
        As for `slam`.
    pairs, pair_weight, reduction
        See the module.

    Examples
    --------
    >>> from online_rank.surrogates import hinge
    >>> hinge(reduction="sum").value([3.0, 2.5, 0.0], [2, 1, 0])
    0.5
    """
    return Surrogate(
        "hinge", margin=margin, margin_scale=margin_scale, pairs=pairs, pair_weight=pair_weight, reduction=reduction
    )


def logistic(*, output: str = "half_tanh", pairs: str = "all", pair_weight: str = "none", reduction: str = "mean") -> Surrogate:
    r"""RankNet's cross-entropy (Burges et al. 2005): the target of every pair is that i beats j.

    .. math:: \phi(s, y) = -\sum_{ij} w_{ij} \log \frac{1 + \tau(s_i - s_j)}{2} = \sum_{ij} w_{ij} \log(1 + e^{-c (s_i - s_j)}),

    c = 1 for :math:`\tau(x) = \tanh(x / 2)`, c = 2 for tanh. With the identity the output is the log-odds, and c = 1. The l1
    constant is :math:`2 c \sum_{ij} w_{ij}`, with `reduction="mean"` 2 c. O(m^2) in scalars.

    Parameters
    ----------
    output
        tau: `"half_tanh"`, `"tanh"` or `"identity"`.
    pairs, pair_weight, reduction
        See the module.

    Examples
    --------
    >>> from online_rank.surrogates import logistic
    >>> logistic().value([0.0, 0.0], [1, 0])
    0.693147180559945...
    """
    return Surrogate("logistic", output=output, pairs=pairs, pair_weight=pair_weight, reduction=reduction)


def squared(
    *, output: str = "identity", pairs: str = "all", pair_weight: str = "difference", reduction: str = "mean"
) -> Surrogate:
    r"""The cost of the DirectRanker [DR]: the squared distance of each pair's output from 1.

    .. math:: \phi(s, y) = \sum_{ij} w_{ij} (1 - \tau(s_i - s_j))^2.

    For the identity it comes from per-grade sums, in O(m + L^2) for L distinct grades, and its gradient has no bound; for
    :math:`\tau(x) = \tanh(c x / 2)` it takes O(m^2) scalars, and the l1 constant is :math:`(64 c / 27) \sum_{ij} w_{ij}`
    (without the sum for `reduction="mean"`).

    Parameters
    ----------
    output
        tau: `"identity"`, `"tanh"` (c = 2) or `"half_tanh"` (c = 1).
    pairs, pair_weight, reduction
        See the module.

    Examples
    --------
    >>> from online_rank.surrogates import squared
    >>> squared(reduction="sum").value_and_gradient([0.25, 0.0, 0.5], [2, 0, 0])
    (4.25, array([-8.,  3.,  5.]))
    """
    return Surrogate("squared", output=output, pairs=pairs, pair_weight=pair_weight, reduction=reduction)


def listnet() -> Surrogate:
    r"""ListNet's top-one cross-entropy (Cao et al. 2007): softmax of the grades against softmax of the scores.

    .. math:: \phi(s, y) = -\sum_i p_i \log \frac{e^{s_i}}{\sum_k e^{s_k}}, \qquad p_i = \frac{e^{y_i}}{\sum_k e^{y_k}}, \qquad
        \|\nabla_s\|_1 \le 2.

    Examples
    --------
    >>> from online_rank.surrogates import listnet
    >>> listnet().value([0.0, 0.0], [1, 0])
    0.693147180559945...
    """
    return Surrogate("listnet")


def lambdarank(measure: str = "ndcg@10", *, output: str = "half_tanh") -> Surrogate:
    r"""LambdaRank (Burges, Ragno & Le 2006): the logistic cost of a pair times the change of the measure when it swaps places.

    .. math:: \phi(s, y) = \sum_{ij} |\Delta M_{ij}| \log(1 + e^{-c (s_i - s_j)}),

    the :math:`|\Delta M_{ij}|` of the present ranking (ties broken pessimistically) taken as constants in the gradient. With a
    cutoff k only pairs with a document among the first k count: O(m k). The l1 constant is
    :math:`2 c \sum_{ij} |\Delta M_{ij}|`, bounded over all rankings.

    Parameters
    ----------
    measure
        M.
    output
        tau, which sets c as in `logistic`.

    Examples
    --------
    >>> from online_rank.surrogates import lambdarank
    >>> round(lambdarank("ndcg").value([0.0, 0.0], [1, 0]) / 0.6931471805599453, 12) == round(1 - 0.6309297535714575, 12)
    True
    """
    return Surrogate("lambdarank", measure, output=output)
