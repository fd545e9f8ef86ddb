"""Features that grow with the stream, such as a date of publication: most new values lie beyond all that a map has seen."""

import warnings
import weakref
from typing import Any

import numpy as np

from online_rank.base.reader import own_names

#: The share of the documents of a stretch that lie beyond one end, in this many stretches, one after the other.
_MOST, _STRETCHES = 0.5, 3
#: The fewest documents before a stretch that tell something.
_FEWEST = 500

#: For each map and each of its features, in how many of the last stretches most values were beyond; -1 once it has warned. It
#: is not state: the map of these values stays as it is.
_BEYOND: "weakref.WeakKeyDictionary[Any, np.ndarray]" = weakref.WeakKeyDictionary()


def note_growing(step: Any, lowest: np.ndarray, highest: np.ndarray, rows: np.ndarray, n_before: int) -> None:
    """Look at the documents of a stretch, and warn once if most values of a feature tie because they lie beyond the map.

    Parameters
    ----------
    step
        The map.
    lowest, highest
        float64 (d,): the values beyond which all values have one score; NaN for a feature without values.
    rows
        float64 (n, d): documents drawn from the stretch.
    n_before
        Number of documents before it.
    """
    if n_before < _FEWEST or not len(rows):
        return
    beyond = np.maximum((rows > highest).mean(axis=0), (rows < lowest).mean(axis=0)) > _MOST
    before = _BEYOND.get(step, np.zeros(0, dtype=np.int64))
    if not beyond.any() and not before.any():
        return
    runs = np.zeros(rows.shape[1], dtype=np.int64)
    runs[: len(before)] = before[: len(runs)]
    runs = np.where(runs < 0, runs, np.where(beyond, runs + 1, 0))
    for j in np.flatnonzero(runs >= _STRETCHES).tolist():
        name = own_names(step)[j]
        warnings.warn(
            f"{type(step).__name__}: most values of feature {name!r} lie beyond all that came before, as of a date or a "
            "counter that grows with the stream, and tie: give its difference from the time of the query, such as an age, or "
            "take AdditiveRanker, which ranks such values within the query",
            stacklevel=2,
        )
        runs[j] = -1
    _BEYOND[step] = runs
