r"""A bound for learning from clicks, in closed form. The mass theorem (`mass_data_bound`) gives the other forms.

The cost of a ranking is additive, :math:`C_t = \sum_i r_i \lambda(rank_i)` with relevances r_i in [0, 1] and lambda(1) = 0:
rank - 1, or 1 - D(rank), the DCG lost. rank_i counts ties against document i: the number of documents with s_j >= s_i. A click
c_i has mean p_i r_i given the past, with a known p_i > 0 that may depend on what was shown.

The pairs are (i, j) with i clicked and j **any** document with s_j >= s_i, each with
:math:`a_{ij} = \lambda(rank_i) / (p_i (rank_i - 1))`, so that the mass is
:math:`\hat V_t = \sum_i c_i \lambda(rank_i) / p_i`, an unbiased estimate of C_t.

There is no such estimate for NDCG and AP, whose normaliser needs all grades: Chaudhuri & Tewari, *Online learning to rank with
top-k feedback*, 2017.
"""

from online_rank.bounds.declaration import bound
from online_rank.bounds.mass import growth
from online_rank.rankers.click_perceptron import ClickPerceptron


@bound("2 F(u) + 4 B R_X^2 ||u||^2", of=ClickPerceptron, covers={"credit": ("propensity",), "relative_margin": (0.0,)})
def click_bound(*, comparator_loss: float, norm: float, R_X: float, largest_mass: float) -> float:
    r"""Clicks, in closed form, in expectation: :math:`E \sum_t C_t \le 2 E F(u) + 4 \hat B R_X^2 \|u\|^2`.

    Without the expectations it bounds the sum of the V^_t. Propensities clipped at c certify
    :math:`\sum_i r_i \lambda(rank_i) \min(1, p_i / c)` only. Feedback from the first k documents alone needs exploration, so
    that p_i > 0 for all.

    Proof: `mass_data_bound` in expectation, with ||z_t||^2 <= 4 R_X^2 B^ V^_t; solve for E sum C_t = E sum V^_t.

    Parameters
    ----------
    comparator_loss
        E F(u).
    norm
        The l2 norm of u.
    R_X
        Largest l2 norm of a document.
    largest_mass
        B^, which no V^_t exceeds; more than 1 where propensities are small.

    Examples
    --------
    >>> click_bound(comparator_loss=3.0, norm=2.0, R_X=1.0, largest_mass=5.0)  # 2 * 3 + 4 * 5 * 2**2
    86.0
    """
    size = R_X * norm
    return 2.0 * comparator_loss + size * size * growth(largest_mass, 0.0)
