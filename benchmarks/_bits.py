"""Digests of models after some queries, printed as JSON: what `benchmarks.portable` runs in many kinds of processes.

    python -m benchmarks._bits QUERIES[,QUERIES] [MODEL ...]

Needs numpy and what the library itself imports; where there is an object of kernels, not numba.
"""

import hashlib
import json
import platform
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import online_rank as o
from online_rank._kernels.ahead.loading import in_use
from online_rank.storage.files import to_bytes

#: A tenth of the values of its queries are missing.
MISSING = "AdditiveRanker(), missing values"
#: The models, and of how many features their queries are.
MODELS: dict[str, tuple[Callable[[], Any], int]] = {
    "PerceptronRanker()": (o.PerceptronRanker, 20),
    "StreamQuantileMap() | PerceptronRanker()": (lambda: o.StreamQuantileMap() | o.PerceptronRanker(), 20),
    "StreamScaler() | PerceptronRanker(credit='argmax', half_life=200)": (
        lambda: o.StreamScaler() | o.PerceptronRanker(credit="argmax", half_life=200),
        20,
    ),
    "LossTracker(PerceptronRanker(), measure_served=True)": (
        lambda: o.LossTracker(o.PerceptronRanker(), measure_served=True),
        20,
    ),
    "GradientRanker()": (o.GradientRanker, 20),
    "GradientRanker('listnet', optimizer='adagrad')": (lambda: o.GradientRanker("listnet", optimizer="adagrad"), 20),
    "AdditiveRanker()": (o.AdditiveRanker, 20),
    "AdditiveRanker(), 136 features": (o.AdditiveRanker, 136),
    MISSING: (o.AdditiveRanker, 20),
    "RidgeRanker()": (o.RidgeRanker, 20),
    "StreamScaler() | GradientRanker('logistic')": (lambda: o.StreamScaler() | o.GradientRanker("logistic"), 20),
    "KernelPerceptronRanker(budget=50)": (lambda: o.KernelPerceptronRanker(budget=50), 20),
    "SwapRanker(policy=PlackettLuce())": (lambda: o.SwapRanker(policy=o.PlackettLuce(seed=1)), 20),
    "DirectRanker()": (lambda: o.DirectRanker(seed=1), 20),
}


def query(t: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """A query made of uniform numbers and products, which are the same on every machine; draws of normal numbers are not."""
    rng = np.random.default_rng([1, t])
    X = rng.random((4 + t % 17, d)) * rng.choice([1.0, 1.0, 8.0, 64.0], size=d) * rng.random((1, d))
    X[:, 0] = np.rint(4.0 * X[:, 0])
    truth = X[:, 1] + 2.0 * X[:, 2] * (X[:, 3] > 0.25) + rng.random(len(X))
    return X, (truth > 1.0).astype(np.int64) + (truth > 2.5) + (truth > 8.0)


def learn(model: Any, t: int, d: int, is_holed: bool) -> None:
    X, y = query(t, d)
    if is_holed:
        X[np.random.default_rng([2, t]).random(X.shape) < 0.1] = np.nan
    if getattr(model, "policy", None) is None:
        model.learn_one(X, y)
        return
    shown = model.show_one(X)
    model.learn_one(X, shown.clicked([i for i in shown.order[:5] if y[i] > 1]))


def digests(name: str, checkpoints: list[int]) -> list[str]:
    """Of the whole state of a model, and of its scores of another query, after each of these numbers of queries."""
    make, d = MODELS[name]
    model = make()
    found = []
    for t in range(max(checkpoints)):
        learn(model, t, d, name == MISSING)
        if t + 1 in checkpoints:
            digest = hashlib.sha256(to_bytes(model))
            digest.update(np.asarray(model.predict_one(query(-1 % 2**32, d)[0])).tobytes())
            found.append(digest.hexdigest()[:12])
    return found


def main() -> None:
    checkpoints = sorted(map(int, sys.argv[1].split(",")))
    found = {name: digests(name, checkpoints) for name in sys.argv[2:] or MODELS}
    where = f"{platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}"
    print(json.dumps({"where": where, "kernels": in_use(), "numba": "numba" in sys.modules, "digests": found}))


if __name__ == "__main__":
    main()
