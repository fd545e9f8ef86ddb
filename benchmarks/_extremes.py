"""Queries of extreme values, learned and ranked by kernels that check their indices.

`NUMBA_BOUNDSCHECK=1` has numba check each index, which the kernels compiled ahead do not; so this runs in a process of its own,
which compiles them anew. A query is learned or refused by an error of this library;
a warning of NumPy counts as an error that is not.
"""

import collections
import json
import os
import random
import subprocess
import sys
import tempfile
import traceback
import warnings
from typing import Any

import numpy as np

from benchmarks._files import is_own
from online_rank.query import SparseRows

_VALUES = [0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 1e-300, 1e-150, 1e15, 2.0**53, 1e38, 1e70, 1e150, -1e150, 1e154, 1e200, 1e300]
_VALUES += [-1e300, 1.7e308, -1.7e308]
_NOT_FINITE = [float("nan"), float("inf"), -float("inf")]
_GRADES = [0, 0, 1, 1, 2, 3, 4, 1000]
_BAD_GRADES = [-1, 1001, 2**31, 2**62, -(2**62)]
_WEIGHTS = [1.0, 1.0, 1.0, 0.0, 5e-324, 1e-300, 1e6, 1e12, 1e150, 1e300, 1.7e308]
_BAD_WEIGHTS = [-1.0, float("nan"), float("inf")]
_SIZES = [0, 1, 2, 2, 3, 3, 5, 8, 17, 60]


def extremes(n: int, seed: int) -> dict[str, Any]:
    """Learn and rank `n` queries, in a process whose kernels check bounds: how many were learned, refused, or went wrong."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "ONLINE_RANK_JIT": "1"}
        environment["NUMBA_CACHE_DIR"] = os.environ.get("CHECKED_CACHE", cache)
        arguments = [sys.executable, "-m", "benchmarks._extremes", str(n), str(seed)]
        done = subprocess.run(arguments, env=environment, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        return {"queries": n, "wrong": [f"the process ended with {done.returncode}"]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def learn_all(n: int, seed: int) -> dict[str, Any]:
    """As `extremes`, in this process."""
    from tests.serving.test_rule import MODELS

    rng = random.Random(seed)
    names = list(MODELS)
    models = {name: MODELS[name]() for name in names}
    counts: collections.Counter[str] = collections.Counter(queries=0, learned=0, refused=0, index_errors=0)
    wrong: list[str] = []
    for number in range(n):
        name = names[number % len(names)]
        if rng.random() < 0.02:
            models[name] = MODELS[name]()
        model = models[name]
        x, y, w = _query(rng)
        counts["queries"] += 1
        try:
            model.rank_one(x)
            if model.abilities.draws and rng.random() < 0.7:
                model.learn_one(x, model.show_one(x).clicked([]), w)
            else:
                model.learn_one(x, y, w)
            counts["learned"] += 1
        except Exception as error:
            counts["refused"] += 1
            counts["index_errors"] += isinstance(error, IndexError)
            if not is_own(error):
                at = traceback.extract_tb(error.__traceback__)[-1]
                wrong.append(f"{name}, query {number} of seed {seed}: {error!r} at {at.filename[-40:]}:{at.lineno}")
    return {**counts, "models": names, "wrong": wrong}


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


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        print(json.dumps(learn_all(int(sys.argv[1]), int(sys.argv[2]))))
