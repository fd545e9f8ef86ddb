"""The curves of a served model, for the page."""

import copy
import threading
from collections.abc import Iterable
from typing import Any

from online_rank.base import serving_ranker
from online_rank.rankers.shapes import shapes_of
from online_rank.serving.monitor import short_name

#: Curves that the page shows at first, those that it shows on request, and levels of a category.
FIRST, MOST, _LEVELS = 12, 300, 8
#: One thread draws at a time.
_drawing = threading.Lock()


def copied(model: Any) -> Any:
    """A copy of what ranks by curves in a model, for `curves_of` in another thread; None without curves."""
    ranker = serving_ranker(model)
    return copy.deepcopy(ranker) if getattr(ranker, "has_curves", False) else None


def curves_of(ranker: Any, n: int) -> dict[str, Any]:
    """The curves of the `n` features that matter most, and the number of all, for JSON."""
    with _drawing:
        shapes = [] if ranker is None else shapes_of(ranker)
    return {"features": len(shapes), "curves": [_shown(shape) for shape in shapes[:n]]}


def _shown(shape: Any) -> dict[str, Any]:
    name = short_name(shape.name)
    if shape.levels:
        levels = sorted(shape.levels, key=lambda level: -abs(level.height))[:_LEVELS]
        shown = [
            ["others" if one.name is None else short_name(one.name), *_rounded(one[1:])]
            for one in shape.levels
            if one in levels
        ]
        return {"name": name, "levels": shown, "more": len(shape.levels) - len(shown)}
    missing = None if shape.missing is None else _rounded([shape.missing, shape.missing_share])
    return {
        "name": name, "values": _rounded(shape.values, 10), "line": _rounded(shape.line), "low": _rounded(shape.low),
        "high": _rounded(shape.high), "shown": shape.shown, "log": shape.is_logarithmic, "density": _rounded(shape.density),
        "missing": missing,
    }  # fmt: skip


def _rounded(numbers: Iterable[Any], digits: int = 4) -> list[float]:
    """Numbers with few digits, so that pages stay small."""
    return [float(f"{number:.{digits}g}") for number in numbers]
