"""What does a loss of one's own cost, in Python and compiled by numba, beside the same loss of the library?

    python -m benchmarks.own_losses [--queries 400] [--rounds 15]

All three are ListNet, learned from the same queries by turns: the built-in one, the same equation in numpy
(`surrogate=listnet`), and the same in loops under `numba.njit`. Processor time of the thread for a query by `learn_one` and in
a block, BLAS in one thread; the difference is the median over rounds of those within a round.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._common import parser, save, table
from online_rank import DirectRanker, GradientRanker

SHAPES = ((20, 46), (120, 136))
MOST_PYTHON, MOST_COMPILED = 20.0, 2.0


def listnet(s: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """ListNet in numpy."""
    p, q = np.exp(y - y.max()), np.exp(s - s.max())
    p, q = p / p.sum(), q / q.sum()
    return -(p @ np.log(q)), q - p


def compiled_listnet() -> Any:
    """ListNet in loops, compiled."""
    import numba

    @numba.njit
    def loss(s, y):  # type: ignore[no-untyped-def]
        m = len(s)
        gradient, top, best = np.empty(m), y.max(), s.max()
        grades = scores = value = 0.0
        for i in range(m):
            grades += np.exp(float(y[i] - top))
            scores += np.exp(s[i] - best)
        for i in range(m):
            p, q = np.exp(float(y[i] - top)) / grades, np.exp(s[i] - best) / scores
            gradient[i] = q - p
            value -= p * np.log(q)
        return value, gradient

    return loss


def one_by_one(model: Any, X: np.ndarray, y: np.ndarray, m: int) -> None:
    """Learn queries of m documents one after the other."""
    for first in range(0, len(y), m):
        model.learn_one(X[first : first + m], y[first : first + m])


def block(model: Any, X: np.ndarray, y: np.ndarray, m: int) -> None:
    """Learn them in a block."""
    model.learn_many(X, y, np.arange(len(y)) // m)


WAYS: dict[str, Callable[..., None]] = {"learn_one": one_by_one, "learn_many": block}


def seconds(way: Callable[..., None], *arguments: Any) -> float:
    """Processor seconds of this thread."""
    start = time.thread_time()
    way(*arguments)
    return time.thread_time() - start


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--queries", type=int, default=400)
    arguments.add_argument("--rounds", type=int, default=15)
    chosen = arguments.parse_args()
    losses = {"built-in": "listnet", "Python": listnet, "compiled": compiled_listnet()}
    rows = []
    for (m, d), make, (name, way) in [(s, r, w) for s in SHAPES for r in (GradientRanker, DirectRanker) for w in WAYS.items()]:
        rng = np.random.default_rng(1)
        X, y = rng.normal(size=(chosen.queries * m, d)), rng.integers(0, 3, chosen.queries * m)
        models = {kind: make(surrogate=loss) for kind, loss in losses.items()}
        for model in models.values():
            way(model, X[: 2 * m], y[: 2 * m], m)
        with threadpool_limits(1):
            rounds = [
                {kind: 1e6 * seconds(way, model, X, y, m) / chosen.queries for kind, model in models.items()}
                for _ in range(chosen.rounds)
            ]
        base = statistics.median(one["built-in"] for one in rounds)
        more = [statistics.median(one[kind] - one["built-in"] for one in rounds) for kind in ("Python", "compiled")]
        verdict = "met" if more[0] <= MOST_PYTHON and more[1] <= MOST_COMPILED else "missed"
        rows.append((f"{make.__name__}, {m} x {d}, {name}", f"{base:.1f}", *(f"{value:+.1f}" for value in more), verdict))
    header = ("ranker, documents x features", "built-in, µs", "Python, µs more", "compiled, µs more", "<= 20 and <= 2")
    save(
        "own_losses",
        f"""# What a loss of one's own costs

ListNet three times: of the library, in numpy as a function of one's own, and compiled by numba. {chosen.queries} queries,
{chosen.rounds} rounds in turn; processor time in microseconds a query, and how much more it is.

{table(header, rows)}""",
    )


if __name__ == "__main__":
    main()
