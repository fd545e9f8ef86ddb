"""Curves as tables of C: how a value finds its place among the knots without a branch."""

from typing import Any, NamedTuple

import numpy as np

#: Cells of a look-up table, and most knots: places are bytes.
_CELLS = 256
#: Bits of a number after the point.
_MANTISSA = 52


class CurveTable(NamedTuple):
    """A curve: the numbers that find a value's cell, the first place of each cell, and at each place value, height and slope.

    Attributes
    ----------
    finder
        The first and the last knot. The scale: cells a unit of values, or a power of two by which values are multiplied before
        their logarithm is taken. The cell of 0. How many bits of a number are left out, 0 if cells have one width. How often
        the search halves.
    cells
        For each cell how many knots after the first are below all of its values.
    u, y, slopes
        The knots, the curve there, and its slopes after them.
    """

    finder: tuple[float, ...]
    cells: np.ndarray
    u: np.ndarray
    y: np.ndarray
    slopes: np.ndarray


def curve_table(xs: np.ndarray, ys: np.ndarray, slopes: np.ndarray) -> CurveTable:
    """The table of a curve through points (xs, ys), with the slopes between them, and the cells that need fewest steps."""
    if len(xs) > _CELLS:
        raise ValueError(f"a curve has {len(xs)} knots; in C it has at most {_CELLS}")
    found = min((_steps(xs, finder), k, finder) for k, finder in enumerate(_finders(xs)))
    steps, _, (scale, origin, shift) = found
    own = _cell_of(xs, xs[0], scale, origin, shift)
    # Cells ascend with the values: knots of earlier cells are below.
    cells = np.maximum(np.searchsorted(own, np.arange(_CELLS)) - 1, 0)
    beyond = 2**steps - 1
    padded = [
        np.append(values, np.full(beyond, fill)) for values, fill in ((xs, np.inf), (ys, 0.0), (np.append(slopes, 0.0), 0.0))
    ]
    return CurveTable((xs[0], xs[-1], scale, origin, shift, steps), cells, *padded)


def _steps(xs: np.ndarray, finder: tuple[float, int, int]) -> int:
    """How often the search halves in the fullest cell."""
    return int(np.bincount(_cell_of(xs, xs[0], *finder)).max()).bit_length()


def _finders(xs: np.ndarray) -> list[tuple[float, int, int]]:
    """Ways to cells: of one width, and of the logarithm of the distance from 0, by several units."""
    low, high = float(xs[0]), float(xs[-1])
    with np.errstate(over="ignore"):
        scale = (_CELLS - 1) / (high - low) if high > low else 0.0
    ways: list[tuple[float, int, int]] = [(scale if np.isfinite(scale) else 0.0, 0, 0)]
    sizes = np.abs(xs[xs != 0.0])
    for share in (0.0, 0.1, 0.3, 0.5, 0.7) if len(sizes) else ():
        unit = 2.0 ** -np.floor(np.log2(max(np.quantile(sizes, share), 1e-30)))
        if not max(-low, high) * unit < 1e300:
            continue
        for shift in range(_MANTISSA, 38, -1):
            below, above = (int(_logarithms(np.array([max(end, 0.0)]), unit, shift)[0]) for end in (-low, high))
            if below + above < _CELLS:
                ways.append((unit, below, shift))
            else:
                break
    return ways


def _logarithms(sizes: np.ndarray, unit: float, shift: int) -> np.ndarray:
    # The product with a power of two is exact, so that a fused addition gives the same.
    bits = (1.0 + sizes * unit).view(np.int64) - np.float64(1.0).view(np.int64)
    return bits >> shift


def _cell_of(x: np.ndarray, low: float, scale: float, origin: int, shift: int) -> Any:
    """The cells of values, computed as in C."""
    if not shift:
        return ((x - low) * scale).astype(np.int64)
    cells = _logarithms(np.abs(x), scale, shift)
    return origin + np.where(x < 0.0, -cells, cells)
