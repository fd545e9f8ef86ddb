"""What does it cost when a value is missing, and which treatment gets most of it back?

`python -m benchmarks.missing` learns tables of 14 features with heavy tails of which none, a tenth or 30 % of the values are
missing, at random and where the value is high, and measures NDCG@10 of each query before it is learned. The page is
benchmarks/results/missing.md.
"""

from functools import partial
from typing import Any

import numpy as np
import polars as pl

from benchmarks._common import parser, save, table
from online_rank import AdditiveRanker, PerceptronRanker, StreamQuantileMap, read
from online_rank.evaluate import Experiment

FEATURES, DOCUMENTS = 14, 20
#: Models, and what they do with missing values.
MODELS = {
    "curves, whole": (AdditiveRanker, None),
    "curves, missing values kept": (AdditiveRanker, "keep"),
    "weights, whole": (lambda: StreamQuantileMap() | PerceptronRanker(), None),
    'weights, `missing="zero"`': (lambda: StreamQuantileMap() | PerceptronRanker(), "zero"),
}
CASES = (("at random", 0.1), ("at random", 0.3), ("where it is high", 0.3))


def log(n_queries: int, seed: int, how: str, share: float) -> tuple[pl.DataFrame, pl.DataFrame]:
    """A table of queries: whole, and with a share of its values missing."""
    rng = np.random.default_rng(seed)
    n = n_queries * DOCUMENTS
    Z, teacher = rng.normal(size=(n, FEATURES)), rng.normal(size=FEATURES)
    score = Z @ teacher / np.linalg.norm(teacher) + 0.5 * rng.normal(size=n)
    # Lengths, prices and counts: none is near 0.
    X = np.exp(1.5 * Z + 2.0)
    chance = rng.random((n, FEATURES))
    absent = chance < share if how == "at random" else chance < 2.0 * share * (np.median(Z) < Z)
    ids = {"query": np.repeat(np.arange(n_queries), DOCUMENTS), "grade": np.digitize(score, [0.5, 1.0, 1.8])}
    names = [f"f{j}" for j in range(FEATURES)]
    whole = pl.DataFrame(ids | dict(zip(names, X.T, strict=True)))
    return whole, pl.DataFrame(ids | dict(zip(names, np.where(absent, np.nan, X).T, strict=True)))


def queries(seed: int, n_queries: int, how: str, share: float, missing: str | None) -> Any:
    """The queries of a table, whole if `missing` is None."""
    return read(log(n_queries, seed, how, share)[missing is not None], grade="grade", missing=missing)


def report(n_queries: int, n_seeds: int) -> str:
    rows = []
    for how, share in CASES:
        cells = []
        for make, missing in MODELS.values():
            stream = partial(queries, n_queries=n_queries, how=how, share=share, missing=missing)
            cells.append(f"{Experiment({'model': make()}, stream, seeds=n_seeds).run().spread('model'):.4f}")
        rows.append((f"{share:.0%} {how}", *cells))
    header = ("missing", *MODELS)
    return f"""# Missing values

NDCG@10 of each of {n_queries:,} queries of {DOCUMENTS} documents before it is learned, mean ± standard error over {n_seeds}
seeds: curves by `AdditiveRanker()`, which takes missing values, weights by `StreamQuantileMap() | PerceptronRanker()`. The
{FEATURES} features are positive and have heavy tails, so that 0 is an unlikely value.

{table(header, rows)}
"""


if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("--queries", type=int, default=1500)
    arguments.add_argument("--seeds", type=int, default=5)
    given = arguments.parse_args()
    save("missing", report(given.queries, given.seeds))
