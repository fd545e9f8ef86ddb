"""How good is the ranking after one pass? NDCG@10 on held-out queries of real data, beside a random ranking and LightGBM.

    python -m benchmarks.quality [FOLDER ...] [--shuffles 5]

FOLDER holds one of
- S1.txt .. S5.txt (LETOR): fold i trains on parts i, i+1, i+2 and tests on part i+4, counted round as LETOR's folds are;
- Fold1/ .. Fold5/ with train.txt and test.txt (LETOR, MSLR);
- rank.train, rank.test and their .query files (LightGBM's example).
Without FOLDER, the sets in `../shared/data`. Nothing is tuned: every row is the same settings on every set; part i+3
(validation) is not used. Queries without a relevant document are left out of the mean; ties get their expected value.
"""

import itertools
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks._common import environment, parser, save, table
from benchmarks._data import LIGHTGBM, MQ2008, Fold, folds, known_folders, offsets_of, shuffled
from benchmarks._models import LambdaMART
from online_rank import PerceptronRanker, StreamScaler
from online_rank._progress import progress
from online_rank.base import Ranker
from online_rank.metrics import NDCG
from online_rank.stream.letor import LetorBlock


def ndcg(scores: np.ndarray, block: LetorBlock) -> float:
    """Mean NDCG@10 over the queries of a block."""
    metric = NDCG(k=10)
    for start, stop in itertools.pairwise(offsets_of(block)):
        metric.update(block.y[start:stop], scores[start:stop])
    return metric.get()


class Result(NamedTuple):
    """NDCG@10 of the weights that serve rankings, and of the last weights where they are others."""

    served: float
    last: float | None = None


def online(ranker: Callable[[], Ranker]) -> Callable[[Fold, int], Result]:
    """One pass of `StreamScaler() | ranker` over shuffled queries."""

    def run(fold: Fold, seed: int) -> Result:
        scaler, model = StreamScaler(), ranker()
        (scaler | model).learn_many(*shuffled(fold.train, seed))
        test = scaler.transform_many(fold.test.X, fold.test.qid)
        served = ndcg(model.predict_many(test), fold.test)
        return Result(served, ndcg(test @ model.weights, fold.test) if isinstance(model, PerceptronRanker) else None)

    return run


def random_ranking(fold: Fold, seed: int) -> Result:
    """All documents tie: the expected value over all rankings."""
    return Result(ndcg(np.zeros(len(fold.test.y)), fold.test))


def lambdamart(fold: Fold, seed: int) -> Result:
    """LightGBM's lambdarank, batch: 200 trees, its other defaults."""
    model = LambdaMART(n_estimators=200, random_state=seed)
    model.learn_many(fold.train.X, fold.train.y, fold.train.qid)
    return Result(ndcg(model.predict_many(fold.test.X), fold.test))


#: Name of a row -> how it is run, and whether the order of the queries (the seed) matters to it.
METHODS: dict[str, tuple[Callable[[Fold, int], Result], bool]] = {
    "random ranking": (random_ranking, False),
    "PerceptronRanker() (default: spread, mass loss)": (online(PerceptronRanker), True),
    "relative_margin=0.1": (online(lambda: PerceptronRanker(relative_margin=0.1)), True),
    "relative_margin=0.3": (online(lambda: PerceptronRanker(relative_margin=0.3)), True),
    "relative_margin=1": (online(lambda: PerceptronRanker(relative_margin=1.0)), True),
    "mass='slam'": (online(lambda: PerceptronRanker(mass="slam")), True),
    "credit='argmax', mass='slam' ([CT]'s subgradient)": (
        online(lambda: PerceptronRanker(credit="argmax", mass="slam")),
        True,
    ),
    "credit='pairs'": (online(lambda: PerceptronRanker(credit="pairs")), True),
    "credit='gain'": (online(lambda: PerceptronRanker(credit="gain")), True),
    "credit='delta'": (online(lambda: PerceptronRanker(credit="delta")), True),
    "LightGBM lambdarank, batch, 200 trees": (lambdamart, False),
}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    arguments.add_argument("--shuffles", type=int, default=5)
    chosen = arguments.parse_args()
    folders = chosen.folders or known_folders(MQ2008, LIGHTGBM)
    if not folders:
        raise SystemExit("no data: name a folder of LETOR folds")
    columns = {folder.name: evaluate(list(folds(folder)), chosen.shuffles) for folder in folders}
    header = ["NDCG@10, one pass", *(f"{name}, {what}" for name in columns for what in ("served", "last"))]
    rows = [[method, *(cell for column in columns.values() for cell in column[method])] for method in METHODS]
    save(
        "quality",
        f"""# Quality of the ranking after one pass

NDCG@10 (gain 2^r - 1) on held-out queries, mean over folds and {chosen.shuffles} orders of the training queries ± standard
deviation over the orders. *served*: the weights that serve rankings (averaged); *last*: the last weights, of which the bounds
speak. `StreamScaler()` in front of every ranker; nothing tuned. {environment("lightgbm")}

{table(header, rows)}
""",
    )


def evaluate(parts: list[Fold], shuffles: int) -> dict[str, tuple[str, str]]:
    """For each method: NDCG@10 of served and last weights, as text."""
    cells = {}
    with progress("quality", len(METHODS), "methods") as show:
        for name, (run, seeded) in METHODS.items():
            seeds = range(shuffles if seeded else 1)
            results = [[run(fold, seed) for fold in parts] for seed in seeds]
            served = [statistics.fmean(r.served for r in row) for row in results]
            last = [statistics.fmean(r.last for r in row if r.last is not None) for row in results if row[0].last is not None]
            cells[name] = (_spread(served), _spread(last))
            show(len(cells))
    return cells


def _spread(values: list[float]) -> str:
    if not values:
        return ""
    deviation = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.4f}{deviation}"


if __name__ == "__main__":
    main()
