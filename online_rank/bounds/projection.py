r"""The mass theorem with a budget: bounds on the loss of a `KernelPerceptronRanker`, and its certificate.

An update g_t is projected on the stored documents, and e_t = g_t - P g_t is lost. The weights w_t lie in the span of the
stored documents, so <w_t, P g_t> = <w_t, g_t> <= tau_t V_t, and for every u of the feature space (notation as in
`online_rank.bounds`)

.. math:: \sum_t V_t \le F(u) + \langle u, w_{T+1} \rangle + \sum_t \langle u, e_t \rangle.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from online_rank.base import Round
from online_rank.bounds.certificate import Certificate, Run, certify
from online_rank.bounds.declaration import PLAIN, bound
from online_rank.query import read_query
from online_rank.rankers.inside import expansion, kernel_values
from online_rank.rankers.kernel import KernelPerceptronRanker

__all__ = ["certify_projection", "projection_bound", "projection_data_bound", "projection_hindsight_bound"]

#: Relative rounding error of a bound, as a multiple of that of other bounds. A projection error is the square root of a
#: difference, so only half of its digits are exact.
_ROUNDING = 100.0


def _budget_is_spent(model: KernelPerceptronRanker) -> str | None:
    if model.budget_lasts:
        return None
    return f"covers a budget that lasts, but {model.largest_projection:.3g} of a mass was lost in one projection"


@bound(
    "2 F(u) / (1 - eta ||u||) + 4 B R_X^2 (1 + 2 beta) ||u||^2 / (1 - eta ||u||)^2", of=KernelPerceptronRanker,
    unless=_budget_is_spent,
)  # fmt: skip
def projection_bound(
    *, comparator_loss: float, norm: float, R_X: float, tolerance: float, largest_mass: float, relative_margin: float
) -> float:
    r"""The closed form, as long as the budget lasts: every :math:`\|e_t\| \le \eta V_t`.

    .. math::
        \sum_t RML_t \le \sum_t V_t \le
        \frac{2 F(u)}{1 - \eta \|u\|} + \frac{4 B R_X^2 (1 + 2 \beta) \|u\|^2}{(1 - \eta \|u\|)^2}

    Infinite unless eta ||u|| < 1.

    Parameters
    ----------
    comparator_loss, norm
        F(u), and the norm of u in the feature space.
    R_X
        Largest norm of a document in the feature space, sqrt(k(x, x)); 1 for the RBF kernel.
    tolerance
        eta.
    largest_mass
        B, the largest mass of a round; 1 will do without sample weights.
    relative_margin
        beta.

    Examples
    --------
    >>> projection_bound(comparator_loss=1.0, norm=2.0, R_X=1.0, tolerance=0.25, largest_mass=1.0, relative_margin=0.0)
    68.0
    """
    kept = 1.0 - tolerance * norm
    if kept <= 0.0:
        return math.inf
    size = R_X * norm / kept
    return 2.0 * comparator_loss / kept + 4.0 * largest_mass * (1.0 + 2.0 * relative_margin) * size * size


@bound("F(u) + ||u|| (sqrt(Q) + sum ||e_t||)", of=KernelPerceptronRanker)
def projection_data_bound(
    *, comparator_loss: float, norm: float, squared_gradient_norms: float, projection_error: float, margin_mass: float
) -> float:
    r"""With measured norms and errors, whether or not the budget was used up.

    .. math::
        \sum_t V_t \le F(u) + \|u\| \left( \sqrt{\sum_t \|P g_t\|^2 + 2 \tau_t V_t} + \sum_t \|e_t\| \right)

    As long as the budget lasts, eta sum V stands for the sum of the errors, which gives (F(u) + ||u|| sqrt(Q)) / (1 - eta
    ||u||), the bound of the Projectron (Orabona, Keshet & Caputo 2009).

    Parameters
    ----------
    comparator_loss, norm
        F(u), and the norm of u in the feature space.
    squared_gradient_norms
        Sum of the squared norms of the projected updates.
    projection_error
        Sum of the ||e_t||: `KernelPerceptronRanker.projection_error`.
    margin_mass
        Sum of tau_t V_t.

    Examples
    --------
    >>> projection_data_bound(comparator_loss=1.0, norm=2.0, squared_gradient_norms=9.0, projection_error=0.5, margin_mass=0.0)
    8.0
    """
    return comparator_loss + norm * (math.sqrt(squared_gradient_norms + 2.0 * margin_mass) + projection_error)


@bound("F(u) + <u, w> + ||u|| sum ||e_t||", of=KernelPerceptronRanker)
def projection_hindsight_bound(*, comparator_loss: float, norm: float, inner_product: float, projection_error: float) -> float:
    r"""Once the stream is over: :math:`\sum_t V_t \le F(u) + \langle u, w_{T+1} \rangle + \|u\| \sum_t \|e_t\|`.

    Parameters
    ----------
    comparator_loss, norm, projection_error
        As in `projection_data_bound`.
    inner_product
        <u, w_{T+1}> in the feature space, with the last of the functions that learn.

    Examples
    --------
    >>> projection_hindsight_bound(comparator_loss=1.0, norm=2.0, inner_product=3.0, projection_error=0.5)  # 1 + 3 + 2 * 0.5
    5.0
    """
    return comparator_loss + inner_product + norm * projection_error


def certify_projection(
    model: KernelPerceptronRanker, queries: Iterable[tuple[Any, Any]], documents: np.ndarray, coefficients: np.ndarray
) -> Certificate:
    r"""Let a new ranker learn a stream, and compare its loss with the bounds.

    Parameters
    ----------
    model
        A `KernelPerceptronRanker` that has learned nothing yet; it learns the stream.
    queries
        Pairs (X, y) of features, arrays (m, d), and grades.
    documents, coefficients
        The comparator :math:`u = \sum_b \mu_b k(z_b, \cdot)`: n documents z_b (n, d) and the (n,) numbers mu_b.

    Raises
    ------
    ValueError
        `model` has learned already, or the comparator does not fit the queries.
    TypeError, ValueError
        A query is bad input.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> stream = [(X, (X[:, 0] * X[:, 1] > 0).astype(int)) for X in rng.normal(size=(300, 6, 2))]
    >>> corners = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])
    >>> model = KernelPerceptronRanker(gamma=0.5, budget=50)
    >>> certificate = certify_projection(model, stream, corners, np.array([3.0, 3.0, -3.0, -3.0]))
    >>> certificate.holds, certificate.bound("projection_bound") >= certificate.totals["mass"] >= certificate.loss
    (True, True)
    """
    if model.last_round is not None:
        raise ValueError("model has learned already; the bounds start from f = 0, so give one that has not")
    z = np.ascontiguousarray(documents, dtype=np.float64)
    mu = np.ascontiguousarray(coefficients, dtype=np.float64)
    if z.ndim != 2 or mu.shape != (len(z),) or not (np.isfinite(z).all() and np.isfinite(mu).all()):
        raise ValueError(f"documents {z.shape} and coefficients {mu.shape} must be finite, one coefficient a document")
    rows: list[np.ndarray] = []
    hinges = 0.0
    for x, y in queries:
        query = read_query(x, y)
        if query.n_documents and query.X.shape[1] != z.shape[1]:
            raise ValueError(f"documents has {z.shape[1]} features, but the queries have {query.X.shape[1]}")
        row, value = np.empty((1, len(Round._fields))), np.zeros(1)
        query = model._align(query, grow=True)
        if model._learn(query, row, (kernel_values(model, query.X, z, mu), value)) == 0:
            raise model._rejection(query)
        model._last_round = row
        hinges += float(value[0])
        rows.append(np.nan_to_num(row[0]))
    table = np.array(rows).reshape(-1, len(Round._fields))
    total, most = Round._make(table.sum(axis=0).tolist()), Round._make(table.max(axis=0, initial=0.0).tolist())
    norm = math.sqrt(max(float(mu @ kernel_values(model, z, z, mu)), 0.0))
    stored, weights = expansion(model)
    error = model.projection_error
    totals = {
        "n_rounds": len(rows),
        "n_mistakes": sum(row[0] > 0.0 for row in rows),
        "n_skipped": int(total.skipped),
        "loss": total.loss,
        "mass": total.mass,
        "squared_gradient_norms": total.squared_gradient_norm,
        "margin_mass": sum(round_.margin * round_.mass for round_ in map(Round._make, rows)),
        "largest_mass": most.mass,
        "R_X": most.largest_norm,
    }
    facts = {
        "comparator_loss": hinges,
        "norm": norm,
        "inner_product": float(kernel_values(model, stored, z, mu) @ weights),
        "projection_error": error,
        "tolerance": model.tolerance,
        "relative_margin": model.relative_margin,
    }
    size = _ROUNDING * (1.0 + total.mass + hinges + norm * (1.0 + error))
    return certify(model, Run(PLAIN, totals, facts, size=size, comparator="u"))
