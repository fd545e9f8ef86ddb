r"""The bounds of [CT], as functions of numbers, with their errors corrected.

Notation as in `online_rank.bounds`. The proof of Theorem 5 takes from [CT, eq. 16] that in a round with a ranking loss
:math:`\|z_t\|^2 \le 4 m R_X^2 v_{max} f_t(w_t)`, times omega / mu with another margin and sample weights.

References
----------
[CT] Chaudhuri & Tewari, *Perceptron-like Algorithms and Generalization Bounds for Learning to Rank*, 2014.
"""

import math
from typing import Any

from online_rank.arguments import number
from online_rank.base.anatomy import learned_measure
from online_rank.bounds.declaration import bound
from online_rank.rankers.slam import SlamRanker


def _has_no_cutoff(model: Any) -> str | None:
    return None if learned_measure(model).k else f"covers a measure with a cutoff, but the model has {model.measure!r}"


def _require_positive(**values: float) -> None:
    """Raise for the first value that is not a finite number > 0."""
    for name, value in values.items():
        number(name, value, above=0.0)


def theory_learning_rate(*, m: int, R_X: float, v_max: float, margin: float = 1.0, weight: float = 1.0) -> float:
    r"""The step size for which Theorem 5 holds in its plain form: :math:`\alpha = \mu / (4 m R_X^2 v_{max} \omega)`.

    Parameters
    ----------
    m
        Largest number of documents of a query; for NDCG@k, k will do (Corollary 7).
    R_X
        Largest l2 norm of a document.
    v_max
        Largest ratio of two positive weights v_i.
    margin
        mu.
    weight
        Largest sample weight, omega.

    Examples
    --------
    >>> theory_learning_rate(m=5, R_X=2.0, v_max=10.0)  # 1 / (4 * 5 * 2**2 * 10)
    0.00125
    """
    _require_positive(m=m, R_X=R_X, v_max=v_max, margin=margin, weight=weight)
    return margin / (4.0 * m * R_X * R_X * v_max * weight)


@bound(
    "(f(u) + ||u||^2 / (2 alpha) + alpha / 2 sum ||z||^2) / mu", of=SlamRanker,
    takes={"comparator_loss": "surrogate_loss"},
)  # fmt: skip
def regret_bound(
    *, comparator_loss: float, norm: float, squared_gradient_norms: float, learning_rate: float, margin: float = 1.0
) -> float:
    r"""Regret of online gradient descent [CT, eq. 15], which bounds the cumulative ranking loss.

    .. math::
        \mu \sum_t RML_t \le \sum_t f_t(w_t) \le \sum_t f_t(u) + \frac{\|u\|^2}{2 \alpha} + \frac{\alpha}{2} \sum_t \|z_t\|^2

    The value returned is the right-hand side divided by mu.

    Parameters
    ----------
    comparator_loss
        sum f_t(u) over the rounds with an update (F(u) will do).
    norm
        The l2 norm of u.
    squared_gradient_norms
        Sum of the squared norms of z_t.
    learning_rate
        alpha.
    margin
        mu.

    Examples
    --------
    >>> regret_bound(comparator_loss=1.0, norm=2.0, squared_gradient_norms=8.0, learning_rate=0.5)  # 1 + 4/(2*0.5) + 0.5/2*8
    7.0
    """
    regret = norm * norm / (2.0 * learning_rate) + learning_rate / 2.0 * squared_gradient_norms
    return (comparator_loss + regret) / margin


@bound(
    "(f(u) + ||u||^2 / (2 alpha)) / (mu - 2 alpha m R_X^2 v_max omega), Theorem 5 of [CT]", of=SlamRanker,
    takes={"comparator_loss": "surrogate_loss", "weight": "largest_weight"},
)  # fmt: skip
def theorem_5(
    *,
    comparator_loss: float,
    norm: float,
    m: int,
    R_X: float,
    v_max: float,
    learning_rate: float | None = None,
    margin: float = 1.0,
    weight: float = 1.0,
) -> float:
    r"""Theorem 5 of [CT] (eq. 17, 18), restricted to the step sizes for which it holds.

    .. math:: \sum_t RML_t \le 2 \sum_t f_t(u) + 4 \|u\|^2 m R_X^2 v_{max}

    with the step of `theory_learning_rate`. [CT] claims it for step 1 too, on the grounds that rankings do not depend on the
    step size. But they do, and the claim is false: `docs/theorem_5.md` has a stream on which Algorithm 1 as printed exceeds the
    bound by any factor, with the proof.
    With c = m R_X^2 v_max omega / mu, any :math:`\alpha < 1 / (2 c)` gives

    .. math:: \mu \sum_t RML_t \le \frac{\sum_t f_t(u) + \|u\|^2 / (2 \alpha)}{1 - 2 \alpha c}.

    Parameters
    ----------
    comparator_loss
        sum f_t(u) over the rounds with an update.
    norm
        The l2 norm of u.
    m, R_X, v_max, margin, weight
        As in `theory_learning_rate`.
    learning_rate
        alpha; None for `theory_learning_rate`.

    Raises
    ------
    ValueError
        The learning rate is too large for the theorem.

    Examples
    --------
    >>> theorem_5(comparator_loss=3.0, norm=2.0, m=5, R_X=1.0, v_max=10.0)  # 2 * 3 + 4 * 2**2 * 5 * 1**2 * 10
    806.0
    """
    theory = theory_learning_rate(m=m, R_X=R_X, v_max=v_max, margin=margin, weight=weight)
    if learning_rate is None:
        return (2.0 * comparator_loss + norm * norm / theory) / margin
    if learning_rate >= 2.0 * theory:
        raise ValueError(
            f"learning_rate is {learning_rate:g}, but Theorem 5 holds for steps below {2.0 * theory:g} only "
            "(certificates have a bound for every step)"
        )
    return (comparator_loss + norm * norm / (2.0 * learning_rate)) / (1.0 - learning_rate / (2.0 * theory)) / margin


def corollary_6(*, gamma: float, m: int, R_X: float, v_max: float) -> float:
    r"""Corollary 6 of [CT]: Theorem 5 on separable streams, :math:`\sum_t RML_t \le 4 m R_X^2 v_{max} / \gamma^2`.

    Parameters
    ----------
    gamma
        The margin of the stream: some u of norm 1 has u . (x_i - x_j) >= gamma whenever y_i > y_j.
    m, R_X, v_max
        As in `theory_learning_rate`, which gives the step for margin 1.

    Examples
    --------
    >>> corollary_6(gamma=0.5, m=10, R_X=1.0, v_max=3.0)  # 4 * 10 * 1**2 * 3 / 0.5**2
    480.0
    """
    _require_positive(gamma=gamma)
    return theorem_5(comparator_loss=0.0, norm=1.0 / gamma, m=m, R_X=R_X, v_max=v_max)


@bound(
    "(f(u) + ||u||^2 / (2 alpha)) / (mu - 2 alpha k R_X^2 v_max omega), Corollary 7 of [CT]", of=SlamRanker,
    takes={"comparator_loss": "surrogate_loss", "weight": "largest_weight"}, unless=_has_no_cutoff,
)  # fmt: skip
def corollary_7(
    *,
    comparator_loss: float,
    norm: float,
    k: int,
    R_X: float,
    v_max: float,
    learning_rate: float | None = None,
    margin: float = 1.0,
    weight: float = 1.0,
) -> float:
    r"""Corollary 7 of [CT]: Theorem 5 for NDCG@k with k in place of m, :math:`2 \sum_t f_t(u) + 4 \|u\|^2 k R_X^2 v_{max}`.

    It holds for grade means too, which may give more than k documents a positive v_i. If n of them have one grade, all v_i are
    equal, and a loss means that a less relevant document is among the first k: then f_t(w_t) is at least
    n - k + 1 times v_i, and k times that is at least n v_i = sum v. If they have several grades, sum v is at most k times the
    largest v_i.

    Parameters
    ----------
    k
        The cutoff of NDCG@k.
    comparator_loss, norm, R_X, v_max, learning_rate, margin, weight
        As in `theorem_5`; the step of `theory_learning_rate(m=k, ...)` when `learning_rate` is None.

    Examples
    --------
    >>> corollary_7(comparator_loss=0.0, norm=1.0, k=5, R_X=1.0, v_max=2.0)  # 4 * 1**2 * 5 * 1**2 * 2
    40.0
    """
    return theorem_5(
        comparator_loss=comparator_loss,
        norm=norm,
        m=k,
        R_X=R_X,
        v_max=v_max,
        learning_rate=learning_rate,
        margin=margin,
        weight=weight,
    )


def theorem_8(*, n: int, norm: float, lipschitz: float) -> float:
    r"""Theorem 8 of [CT]: the expected excess loss of the regularised minimiser over the best weights, on new queries.

    .. math:: E\, L(\hat w) - L(w^*) \le 2 L_2 B \left(\frac{8}{n} + \sqrt{\frac{2}{n}}\right)

    where w_hat minimises [CT, eq. 4] (`batch_weights`) on n independent queries with `theorem_8_regularization`.

    Parameters
    ----------
    n
        Number of queries.
    norm
        B, the largest norm of the competing weights.
    lipschitz
        L_2, the l2-Lipschitz constant of the surrogate in w: at most R_X times L_1, which bounds the l1 norm of its gradient
        in the scores (Corollary 9): 2 for SLAM, since it is 2 sum v_i.

    Examples
    --------
    >>> theorem_8(n=200, norm=1.0, lipschitz=2.0)  # 2 * 2 * 1 * (8 / 200 + sqrt(2 / 200)) = 4 * 0.14
    0.56
    """
    _require_positive(n=n, norm=norm, lipschitz=lipschitz)
    return 2.0 * lipschitz * norm * (8.0 / n + math.sqrt(2.0 / n))


def theorem_8_regularization(*, n: int, norm: float, lipschitz: float) -> float:
    r"""The lambda of Theorem 8 of [CT], :math:`\lambda = \sqrt{(4 L_2^2 / n) / (B^2 / 2 + 4 B^2 / n)}`.

    Parameters
    ----------
    n, norm, lipschitz
        As in `theorem_8`.

    Examples
    --------
    >>> theorem_8_regularization(n=8, norm=1.0, lipschitz=2.0)  # sqrt((16 / 8) / (1 / 2 + 4 / 8))
    1.4142135623730951
    """
    _require_positive(n=n, norm=norm, lipschitz=lipschitz)
    return math.sqrt((4.0 * lipschitz**2 / n) / (norm**2 / 2.0 + 4.0 * norm**2 / n))
