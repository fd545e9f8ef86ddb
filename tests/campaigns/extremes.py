"""Queries of extreme values, learned and ranked by kernels that check their indices.

`NUMBA_BOUNDSCHECK=1` has numba check each index, which the kernels compiled ahead do not. A query is learned or refused by an
error of this library; a warning of NumPy counts as an error that is not.
"""

import random
import traceback
import warnings
from typing import Any

import numpy as np

from online_rank.query import SparseRows
from tests.campaigns.files import is_own
from tests.campaigns.found import Found
from tests.models import SERVED

_VALUES = [0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 1e-300, 1e-150, 1e15, 2.0**53, 1e38, 1e70, 1e150, -1e150, 1e154, 1e200, 1e300]
_VALUES += [-1e300, 1.7e308, -1.7e308]
_NOT_FINITE = [float("nan"), float("inf"), -float("inf")]
_GRADES = [0, 0, 1, 1, 2, 3, 4, 1000]
_BAD_GRADES = [-1, 1001, 2**31, 2**62, -(2**62)]
_WEIGHTS = [1.0, 1.0, 1.0, 0.0, 5e-324, 1e-300, 1e6, 1e12, 1e150, 1e300, 1.7e308]
_BAD_WEIGHTS = [-1.0, float("nan"), float("inf")]
_SIZES = [0, 1, 2, 2, 3, 3, 5, 8, 17, 60]


def extremes(n: int, seed: int) -> Found:
    """Learn and rank `n` queries."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        return _extremes(n, seed)


def _extremes(n: int, seed: int) -> Found:
    rng, found = random.Random(seed), Found(queries=n)
    names = list(SERVED)
    models = {name: SERVED[name]() for name in names}
    for number in range(n):
        name = names[number % len(names)]
        if rng.random() < 0.02:
            models[name] = SERVED[name]()
        model = models[name]
        x, y, w = _query(rng)
        try:
            model.rank_one(x)
            if model.abilities.draws and rng.random() < 0.7:
                model.learn_one(x, model.show_one(x).clicked([]), w)
            else:
                model.learn_one(x, y, w)
            found.count(learned=1)
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            found.count(refused=1)
            place = f"{at.filename[-40:]}:{at.lineno}"
            found.expect(is_own(error), f"{name}, query {number} of seed {seed}: {error!r} at {place}")
    return found


def _query(rng: random.Random) -> tuple[Any, Any, float]:
    """A query with extreme values: an array, dicts, or sparse rows; grades or worse; a weight."""
    m, d = rng.choice(_SIZES), 3
    values = rng.choice(([0.0, 1.0], _VALUES, _VALUES[:8], [rng.choice(_VALUES)]))
    X = np.array([[rng.choice(values) for _ in range(d)] for _ in range(m)]).reshape(m, d)
    if m and rng.random() < 0.05:
        X[rng.randrange(m), rng.randrange(d)] = rng.choice(_NOT_FINITE)
    y = [rng.choice(_GRADES) for _ in range(m)]
    if m and rng.random() < 0.05:
        y[rng.randrange(m)] = rng.choice(_BAD_GRADES)
    w = rng.choice(_BAD_WEIGHTS) if rng.random() < 0.05 else rng.choice(_WEIGHTS)
    kind = rng.random()
    if kind < 0.5:
        return X, y, w
    if kind < 0.85:
        fields = ("1", "2", "3")
        return [dict(zip(fields, row, strict=True)) for row in X.tolist()], y, w
    starts = np.arange(0, m + 1, dtype=np.int64)
    return SparseRows(starts, np.array([i % d for i in range(m)], np.int32), X[:, 0].copy(), d), y, w
