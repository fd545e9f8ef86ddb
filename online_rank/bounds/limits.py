r"""Conclusions from a run without a comparator, and how far a comparator is from the best one.

For a run let w be the sum of its updates, V the sum of its masses, and F(u) the loss of u on its pairs. Since max(0, 1 - y) = 1
- y + max(0, y - 1),

.. math:: F(u) + \langle u, w \rangle - V = \sum a_{ij} \max(0, u \cdot (x_i - x_j) - 1) \ge 0.

So the smallest hindsight bound over all comparators is V, at u = 0, and no bound of the mass theorem is below V. But the run
also proves a lower bound: no weights do much better on its pairs.
"""

from online_rank.bounds.numbers import require_non_negative, require_positive

__all__ = ["duality_gap", "hinge_limit", "margin_limit"]


def hinge_limit(*, norm: float, mass: float, weight_norm: float) -> float:
    r"""Lower bound on the mean hinge of any weights of norm U, on the pairs of the updates.

    .. math:: F(u) / V \ge 1 - \|u\| \, \|w\| / V

    Proof: F(u) >= V - <u, w>; Cauchy and Schwarz.

    Parameters
    ----------
    norm
        U.
    mass
        V.
    weight_norm
        ||w||, the norm of the sum of the updates.

    Examples
    --------
    >>> hinge_limit(norm=2.0, mass=10.0, weight_norm=1.0)  # 1 - 2 * 1 / 10
    0.8
    """
    require_non_negative(norm=norm)
    return max(0.0, 1.0 - norm * margin_limit(mass=mass, weight_norm=weight_norm))


def margin_limit(*, mass: float, weight_norm: float) -> float:
    r"""The margin that no weights of norm 1 exceed on all pairs of the updates: :math:`\|w\| / V`.

    Proof: a margin gamma on all pairs gives gamma V <= <u, w> <= ||w||.

    Parameters
    ----------
    mass, weight_norm
        As in `hinge_limit`.

    Examples
    --------
    >>> margin_limit(mass=10.0, weight_norm=1.0)
    0.1
    """
    require_positive(mass=mass)
    require_non_negative(weight_norm=weight_norm)
    return weight_norm / mass


def duality_gap(*, comparator_loss: float, norm: float, mass: float, weight_norm: float) -> float:
    r"""Upper bound on the excess of F(u) over the least F of all weights of the same norm: :math:`F(u) + \|u\| \|w\| - V`.

    Proof: F(u') >= V - ||u'|| ||w|| for every u'. A small gap says that u is nearly the best of its norm on these pairs, not
    that the learner is good.

    Parameters
    ----------
    comparator_loss, norm
        F(u), and the norm of u.
    mass, weight_norm
        As in `hinge_limit`.

    Examples
    --------
    >>> duality_gap(comparator_loss=4.0, norm=2.0, mass=5.0, weight_norm=1.0)  # 4 + 2 * 1 - 5
    1.0
    """
    require_non_negative(comparator_loss=comparator_loss, norm=norm, mass=mass, weight_norm=weight_norm)
    return max(0.0, comparator_loss + norm * weight_norm - mass)
