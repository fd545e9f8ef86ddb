"""The mass theorem, for any initial weights.

It is new in this library. Notation as in `online_rank.bounds`.

If the run begins with given weights w_1 = w_0, from another model or a fusion rule, Q sums over the rounds of the run,
and the sum of the updates is w_{T+1} - w_0. Initial weights in the direction of u, w_0 = lambda u, give a bound of F(u) + Q /
(2 lambda): the longer they are, the smaller it gets. Initial weights in the opposite direction cost up to 2 ||u|| ||w_0|| more.
To guard against that, put the ranker into a `BlendRanker` together with one that begins at zero.
"""

import math

from online_rank.arguments import number
from online_rank.bounds.declaration import ANY_RUN, OWN_MISTAKES, bound
from online_rank.rankers.click_perceptron import ClickPerceptron
from online_rank.rankers.perceptron import PerceptronRanker

#: Settings for which F(u) <= sum f_t(u): a_ij is at most v_i, or v_i in equal parts.
_ON_SURROGATE = OWN_MISTAKES | {"credit": ("argmax", "spread"), "mass": ("loss",)}

_GIVEN = {"beginning": ("given",)}


def growth(largest_mass: float, relative_margin: float) -> float:
    """The factor 4 B (1 + 2 beta): in a round the squared norm of the weights grows by at most this times R_X^2 V.

    ||z||^2 + 2 tau V, with ||z||^2 <= 4 R_X^2 B V and the margin of a `PerceptronRanker`, tau = beta sum ||z||^2 / sum V over
    the rounds before, which is at most 4 beta B R_X^2.
    """
    return 4.0 * largest_mass * (1.0 + 2.0 * relative_margin)


@bound(
    "F + <u_T, w> - sum <u_t - u_t-1, w_t>", of=(PerceptronRanker, ClickPerceptron),
    runs=ANY_RUN | {"comparator": ("moved",)},
)  # fmt: skip
def master_bound(
    *, comparator_loss: float, inner_product: float, path_product: float = 0.0, error_product: float = 0.0
) -> float:
    r"""The master inequality: any recursion w_{t+1} = w_t + z_t - e_t from w_1 = 0, any pairs, any comparators u_1..u_T.

    .. math::
        \sum_t V_t \le \sum_t F_t(u_t) + \langle u_T, w_{T+1} \rangle - \sum_{t \ge 2} \langle u_t - u_{t-1}, w_t \rangle
        + \sum_t \langle u_t, e_t \rangle

    Proof: max(0, 1 - y) >= 1 - y, so V_t - F_t(u_t) <= <u_t, z_t> = <u_t, w_{t+1} - w_t> + <u_t, e_t>; sum by parts. It holds
    for any pairs; that they are in the wrong order only serves to bound ||w||. If K machines mix their weights, or rankers
    follow one another, the same holds for the sum of all their updates.

    Parameters
    ----------
    comparator_loss
        Sum of the F_t(u_t).
    inner_product
        <u_T, w_{T+1}>.
    path_product
        Sum of <u_t - u_{t-1}, w_t>; 0 for one comparator.
    error_product
        Sum of <u_t, e_t>; 0 if nothing is subtracted from the weights.

    Examples
    --------
    >>> master_bound(comparator_loss=3.0, inner_product=2.0, path_product=-1.0, error_product=0.5)  # 3 + 2 + 1 + 0.5
    6.5
    """
    return comparator_loss + inner_product - path_product + error_product


@bound("F(u) + <u, w>", of=(PerceptronRanker, ClickPerceptron), runs=ANY_RUN | {"comparator": ("fixed",)})
def mass_hindsight_bound(*, comparator_loss: float, inner_product: float) -> float:
    r"""The mass theorem once the stream is over: :math:`\sum_t RML_t \le \sum_t V_t \le F(u) + \langle u, w_{T+1} \rangle`.

    It holds for clicks, with their estimates, for weights that were served late or averaged, for restarts, and for machines
    that mix their weights, by any shares. Proof: `master_bound` with one comparator.

    Parameters
    ----------
    comparator_loss
        F(u).
    inner_product
        <u, w_{T+1}>, where w_{T+1} is the sum of all updates, over restarts and on all machines. The weights that learn differ
        from it by their initial weights, and by the parts that a cap of their norm has removed.

    Examples
    --------
    >>> mass_hindsight_bound(comparator_loss=1.0, inner_product=2.0)
    3.0
    """
    return comparator_loss + inner_product


@bound("F(u) + ||u|| sqrt(Q)", of=(PerceptronRanker, ClickPerceptron), covers=OWN_MISTAKES)
def mass_data_bound(*, comparator_loss: float, norm: float, squared_gradient_norms: float, margin_mass: float = 0.0) -> float:
    r"""The mass theorem with measured norms.

    .. math:: \sum_t RML_t \le \sum_t V_t \le F(u) + \|u\| \sqrt{\sum_t (\|z_t\|^2 + 2 \tau_t V_t)}

    There are streams on which it is attained.

    Proof: <w_t, z_t> = sum a_ij (s_i - s_j) <= tau_t V_t, so ||w_{T+1}||^2 is at most the term under the root; put that into
    `mass_hindsight_bound`. For clicks it also bounds the expected cost, with expectations of F and of the term under the root:
    V and F are linear in the clicks, and the root is concave.

    Parameters
    ----------
    comparator_loss
        F(u).
    norm
        The l2 norm of u.
    squared_gradient_norms
        Sum of the squared norms of z_t.
    margin_mass
        Sum of tau_t V_t; 0 for the pure rule.

    Examples
    --------
    >>> mass_data_bound(comparator_loss=1.0, norm=2.0, squared_gradient_norms=9.0)  # 1 + 2 * sqrt(9)
    7.0
    """
    return comparator_loss + norm * math.sqrt(squared_gradient_norms + 2.0 * margin_mass)


@bound("2 F(u) + 4 B (1 + 2 beta) R_X^2 ||u||^2", of=PerceptronRanker, covers=OWN_MISTAKES)
def mass_bound(
    *, comparator_loss: float, norm: float, R_X: float, largest_mass: float = 1.0, relative_margin: float = 0.0
) -> float:
    r"""The mass theorem, closed form.

    .. math:: \sum_t RML_t \le \sum_t V_t \le 2 F(u) + 4 B (1 + 2 \beta) R_X^2 \|u\|^2

    It holds for every credit and every mass, without a learning rate, a number of documents or a v_max.

    Proof: the margin of a `PerceptronRanker`, :math:`\tau_t = \beta \sum_{s<t} \|z_s\|^2 / \sum_{s<t} V_s`, is at most
    4 beta B R_X^2, since ||z_t||^2 <= 4 R_X^2 B V_t; put both into `mass_data_bound` and solve for sum V_t. For a margin of
    another kind take `mass_data_bound`.

    Parameters
    ----------
    comparator_loss
        F(u).
    norm
        The l2 norm of u.
    R_X
        Largest l2 norm of a document.
    largest_mass
        B, the largest mass of a round; 1 will do without sample weights.
    relative_margin
        beta: that of the ranker, 0.3 by default in a `PerceptronRanker`.

    Examples
    --------
    >>> mass_bound(comparator_loss=3.0, norm=2.0, R_X=1.0)  # 2 * 3 + 1**2 * 2**2 * 4
    22.0
    >>> mass_bound(comparator_loss=3.0, norm=2.0, R_X=1.0, relative_margin=0.5)  # 2 * 3 + 2**2 * 4 * (1 + 2 * 0.5)
    38.0
    """
    size = R_X * norm
    return 2.0 * comparator_loss + size * size * growth(largest_mass, relative_margin)


@bound("2 f(u) + 4 B (1 + 2 beta) R_X^2 ||u||^2", of=PerceptronRanker, covers=_ON_SURROGATE)
def mass_surrogate_bound(
    *, surrogate_loss: float, norm: float, R_X: float, largest_mass: float, relative_margin: float
) -> float:
    r"""`mass_bound` with the surrogate of the comparator in place of its loss on the pairs.

    .. math:: \sum_t RML_t \le \sum_t V_t \le 2 \sum_t f_t(u) + 4 B (1 + 2 \beta) R_X^2 \|u\|^2

    Proof: with credit `argmax` or `spread` and mass `loss` a_ij is at most v_i, or v_i in equal parts, so that
    F(u) <= sum f_t(u). With mass `sqrt` that is false.

    Parameters
    ----------
    surrogate_loss
        Sum of the f_t(u) over the rounds with an update.
    norm, R_X, largest_mass, relative_margin
        As in `mass_bound`.

    Examples
    --------
    >>> mass_surrogate_bound(surrogate_loss=3.0, norm=2.0, R_X=1.0, largest_mass=1.0, relative_margin=0.0)
    22.0
    """
    return mass_bound(
        comparator_loss=surrogate_loss, norm=norm, R_X=R_X, largest_mass=largest_mass, relative_margin=relative_margin
    )


def mass_separable_bound(*, gamma: float, R_X: float, largest_mass: float = 1.0, relative_margin: float = 0.0) -> float:
    r"""The mass theorem on separable streams: :math:`\sum_t RML_t \le 4 B (1 + 2 \beta) R_X^2 / \gamma^2`.

    Parameters
    ----------
    gamma
        The margin of the stream: some u of norm 1 has u . (x_i - x_j) >= gamma for all pairs with y_i > y_j.
    R_X, largest_mass, relative_margin
        As in `mass_bound`.

    Examples
    --------
    >>> mass_separable_bound(gamma=0.5, R_X=1.0)  # 4 * 1**2 / 0.5**2
    16.0
    """
    number("gamma", gamma, above=0.0)
    return mass_bound(
        comparator_loss=0.0, norm=1.0 / gamma, R_X=R_X, largest_mass=largest_mass, relative_margin=relative_margin
    )


@bound("F(u) + ||u|| sqrt(||w_1||^2 + Q) - <u, w_1>", of=PerceptronRanker, covers=OWN_MISTAKES, runs=_GIVEN)
def beginning_data_bound(
    *,
    comparator_loss: float,
    norm: float,
    beginning_norm: float,
    beginning_product: float,
    squared_gradient_norms: float,
    margin_mass: float,
) -> float:
    r"""A run that began with given weights, with measured norms; for w_0 = 0 it is `mass_data_bound`.

    .. math:: \sum_t RML_t \le \sum_t V_t \le F(u) + \|u\| \sqrt{\|w_0\|^2 + Q} - \langle u, w_0 \rangle

    Proof: `beginning_distance_bound` for c u, with hinges at c in place of 1, says that c sum V is at most
    c F(u) + (||c u - w_0||^2 + Q) / 2. Divide by c, and take c = sqrt(||w_0||^2 + Q) / ||u||.

    Parameters
    ----------
    comparator_loss, norm, squared_gradient_norms, margin_mass
        As in `mass_data_bound`.
    beginning_norm, beginning_product
        The norm of w_0, and <u, w_0>.

    Examples
    --------
    >>> w0 = {"beginning_norm": 3.0, "beginning_product": 4.0}
    >>> beginning_data_bound(comparator_loss=1.0, norm=2.0, squared_gradient_norms=16.0, margin_mass=0.0, **w0)  # 1 + 2 * 5 - 4
    7.0
    """
    root = math.hypot(beginning_norm, math.sqrt(squared_gradient_norms + 2.0 * margin_mass))
    return comparator_loss + norm * root - beginning_product


@bound("F(u) + (||u - w_1||^2 + Q) / 2", of=PerceptronRanker, covers=OWN_MISTAKES, runs=_GIVEN)
def beginning_distance_bound(
    *, comparator_loss: float, distance: float, squared_gradient_norms: float, margin_mass: float
) -> float:
    r"""A run that began with given weights, in terms of their distance from the comparator.

    .. math:: \sum_t RML_t \le \sum_t V_t \le F(u) + \frac{1}{2} \left(\|u - w_0\|^2 + Q\right)

    Proof: ||w_{t+1} - u||^2 = ||w_t - u||^2 + 2 <z_t, w_t - u> + ||z_t||^2 with <z_t, w_t> <= tau_t V_t and
    <z_t, u> >= V_t - F_t(u). Add up; the left side is >= 0.

    Parameters
    ----------
    distance
        The l2 norm of u - w_0.
    comparator_loss, squared_gradient_norms, margin_mass
        As in `mass_data_bound`.

    Examples
    --------
    >>> beginning_distance_bound(comparator_loss=1.0, distance=2.0, squared_gradient_norms=6.0, margin_mass=0.0)
    6.0
    """
    return comparator_loss + 0.5 * (distance * distance + squared_gradient_norms + 2.0 * margin_mass)
