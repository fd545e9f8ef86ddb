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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks._common import data_folder, environment, parser, save, table
from online_rank import PerceptronRanker, StreamScaler
from online_rank._progress import progress
from online_rank.base import Ranker
from online_rank.metrics import NDCG
from online_rank.query import query_offsets
from online_rank.stream.letor import LetorBlock, read_letor


class Fold(NamedTuple):
    """Training and test part of one fold."""

    train: LetorBlock
    test: LetorBlock


def folds(folder: Path) -> Iterator[Fold]:
    """The folds of a folder, in whichever of the three layouts it has."""
    if (folder / "S1.txt").exists():
        parts = [folder / f"S{i}.txt" for i in range(1, 6)]
        width = read_letor(parts[0]).X.shape[1]
        for i in range(5):
            train = [parts[(i + k) % 5] for k in range(3)]
            yield Fold(read_letor(*train, n_features=width), read_letor(parts[(i + 4) % 5], n_features=width))
    elif (folder / "Fold1").is_dir():
        for fold in sorted(folder.glob("Fold*")):
            train = read_letor(fold / "train.txt")
            yield Fold(train, read_letor(fold / "test.txt", n_features=train.X.shape[1]))
    elif (folder / "rank.train").exists():
        train = read_letor(folder / "rank.train")
        yield Fold(train, read_letor(folder / "rank.test", n_features=train.X.shape[1]))
    else:
        raise SystemExit(f"{folder} holds neither S1.txt, nor Fold1/, nor rank.train")


def shuffled(block: LetorBlock, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The block with its queries in random order."""
    offsets = query_offsets(block.qid, len(block.y))
    order = np.random.default_rng(seed).permutation(len(offsets) - 1)
    rows = np.concatenate([np.arange(offsets[q], offsets[q + 1]) for q in order])
    return block.X[rows], block.y[rows], np.repeat(np.arange(len(order)), np.diff(offsets)[order])


def ndcg(scores: np.ndarray, block: LetorBlock) -> float:
    """Mean NDCG@10 over the queries of a block."""
    metric = NDCG(k=10)
    offsets = query_offsets(block.qid, len(block.y))
    for start, stop in itertools.pairwise(offsets):
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
    import lightgbm

    sizes = np.diff(query_offsets(fold.train.qid, len(fold.train.y)))
    model = lightgbm.LGBMRanker(objective="lambdarank", n_estimators=200, verbose=-1, n_jobs=2, random_state=seed)
    model.fit(fold.train.X, fold.train.y, group=sizes)
    return Result(ndcg(np.asarray(model.predict(fold.test.X)), fold.test))


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
    known = [data_folder() / name for name in ("mq2008", "lightgbm_lambdarank")]
    folders = chosen.folders or [folder for folder in known if folder.exists()]
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
