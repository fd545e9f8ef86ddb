"""Credit of documents from clicks: each is compared with what is clicked at its position on the average."""

import numpy as np

from online_rank.feedback.arrays import shown_block
from online_rank.query import Block

#: The number of positions that teach.
POSITIONS = 50


def no_clicks() -> np.ndarray:
    """What is known of positions before the first click: (2, POSITIONS), numbers of lists and sums of gains."""
    return np.stack([np.ones(POSITIONS), np.zeros(POSITIONS)])


def credit_of_clicks(query: Block, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""The credit of the documents of one query with clicks.

    In a list with a click, the document at position p has the surplus :math:`r_p = g_p - m_p` over the mean gain m_p of the
    earlier lists with clicks, and the credit :math:`c_p = w (r_p - \bar r)`, whose sum is 0. If whether a position is examined
    does not depend on the documents, positions alone give no credit. Any list teaches, also one that was not drawn.

    Parameters
    ----------
    query
        One query with `Clicks`.
    known
        (2, POSITIONS): numbers of lists, and sums of gains, at each position.

    Returns
    -------
    The credit, float64 (m,), 0 for a list without a click; and what is known of positions then, a new array.

    Raises
    ------
    ValueError
        A document that was shown is not in the query, or the weight of the query is no finite number >= 0.

    Examples
    --------
    >>> from online_rank import Greedy
    >>> from online_rank.query import read_query
    >>> shown = Greedy(k=2).show({"a": 2.0, "b": 1.0}, 0)
    >>> query = read_query({"a": {"x": 1.0}, "b": {"x": 0.0}}, shown.clicked(["b"]))
    >>> credit, known = credit_of_clicks(query, no_clicks())
    >>> credit, known[:, :2]
    (array([-0.5,  0.5]), array([[2., 2.],
           [0., 1.]]))
    """
    w = float(query.w[0])
    if not 0.0 <= w < np.inf:
        raise ValueError(f"w is {w}; the weight of a query is a finite number >= 0")
    shown, credit = shown_block(query, drawn=False), np.zeros(query.n_documents)
    n = len(shown.rows) - int(shown.held[0])
    inside = shown.places[:n] < POSITIONS
    rows, places, gains = shown.rows[:n][inside], shown.places[:n][inside], shown.gains[:n][inside]
    if not (gains > 0.0).any() or w == 0.0:
        return credit, known
    surplus = gains - known[1, places] / known[0, places]
    credit[rows] = w * (surplus - surplus.mean())
    known = known.copy()
    known[0, places] += w
    known[1, places] += w * gains
    return credit, known
