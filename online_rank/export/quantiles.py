"""The pieces of `StreamGaussianizer`: a piecewise linear distribution function, and the normal quantile."""

from typing import NamedTuple

import numpy as np

from online_rank.base.form import Quantiles

__all__ = ["MIDDLE_DOWN", "MIDDLE_UP", "TAIL", "TAIL_DOWN", "TAIL_UP", "Sketch", "intervals", "shares"]

#: Below this share, and above 1 minus it, the rational function for the tails applies.
TAIL = 0.02425
#: Acklam's rational approximations of Phi^-1, as in `_kernels.quantiles.normal_quantile`: coefficients from the highest power.
TAIL_UP = (-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838, -2.549732539343734, 4.374664141464968,
           2.938163982698783)  # fmt: skip
TAIL_DOWN = (7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996, 3.754408661907416, 1.0)
MIDDLE_UP = (-3.969683028665376e01, 2.209460984245205e02, -2.759285104469687e02, 1.383577518672690e02, -3.066479806614716e01,
             2.506628277459239)  # fmt: skip
MIDDLE_DOWN = (-5.447609879822406e01, 1.615858368580409e02, -1.556989798598866e02, 6.680131188771972e01,
               -1.328068155288572e01, 1.0)  # fmt: skip


class Sketch(NamedTuple):
    """The piecewise linear share of documents below a value.

    Attributes
    ----------
    limits
        Ascending, float64 (k,).
    lines
        k + 1 pairs (a, b): the share is a + b x for lines[i], where i limits are <= x.
    """

    limits: list[float]
    lines: list[tuple[float, float]]


def shares(values: np.ndarray, weights: np.ndarray, n_documents: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For n centroids the share at each (n,), and at the left and the right end of each gap between neighbours (n - 1,).

    The share jumps at a centroid of one value (weight > 0): its documents count half at the value. It does not jump at a
    centroid of several values.
    """
    upper = np.cumsum(np.abs(weights)) / n_documents
    middle = (np.concatenate(([0.0], np.cumsum(np.abs(weights))[:-1])) + 0.5 * np.abs(weights)) / n_documents
    left = np.where(weights[:-1] < 0.0, middle[:-1], upper[:-1])
    right = np.where(weights[1:] < 0.0, middle[1:], upper[:-1])
    return middle, left, right


def intervals(layer: Quantiles) -> list[Sketch]:
    """The piecewise linear function of each feature: at centroids and between them."""
    made = []
    for v, weights in zip(layer.values, layer.weights, strict=True):
        if not len(v):
            made.append(Sketch([], [(0.5, 0.0)]))
            continue
        middle, left, right = shares(v, weights, layer.n_documents)
        limits, lines = [], [(float(middle[0]), 0.0)]
        for k in range(len(v)):
            # The centroid itself is a piece of its own, which ends at the next float.
            limits += [float(v[k]), float(np.nextafter(v[k], np.inf))]
            lines.append((float(middle[k]), 0.0))
            if k < len(v) - 1:
                slope = (right[k] - left[k]) / (v[k + 1] - v[k])
                lines.append((float(left[k] - slope * v[k]), float(slope)))
        made.append(Sketch(limits, [*lines, (float(middle[-1]), 0.0)]))
    return made
