"""Which rankers should the default blend be made of, and which the light one?

    python -m benchmarks.blends [--queries 1000] [--orders 3] [--sets additive forest linear mq2008 lightgbm]

Chosen on development data alone: synthetic streams of `WebLike` with 400 held-out queries; the validation parts of MQ2008 (the
part that a fold neither trains nor tests on); LightGBM's example by five-fold cross-validation within its training part.
Members: R = ridge; A = ramps | logistic, adagrad, averaged; E = encodings | ridge; S = trees; P = ramps | the perceptron. The
milliseconds are of processor time a query, ranking and learning, on the first synthetic set.
"""

import itertools
import time
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks._common import environment, parser, save, table
from benchmarks._data import LIGHTGBM, MQ2008, Queries, data_folder, folds, offsets_of
from online_rank import (
    BlendRanker,
    BoostedRanker,
    GradientRanker,
    PerceptronRanker,
    RidgeRanker,
    StreamQuantileMap,
    StreamTargetEncoder,
    measure,
)
from online_rank._progress import progress
from online_rank.base import Ranker
from online_rank.preprocessing import Ramps
from online_rank.stream import WebLike
from online_rank.stream.letor import LetorBlock

Part = tuple[Queries, Queries]

MEMBERS: dict[str, Callable[[], Ranker]] = {
    "R": RidgeRanker,
    "A": lambda: Ramps() | GradientRanker("logistic", optimizer="adagrad"),
    "E": lambda: StreamTargetEncoder(keep="relative") | RidgeRanker(),
    "E'": lambda: StreamTargetEncoder() | RidgeRanker(),
    "S": BoostedRanker,
    "S'": lambda: BoostedRanker(window=1000),
    "D": lambda: BoostedRanker(window=1000, depth=4, rate=160.0, decay=0.002),
    "P": lambda: Ramps() | PerceptronRanker(relative_margin=0.1),
}
BLENDS = (
    "R",
    "A",
    "E",
    "E'",
    "S",
    "S'",
    "D",
    "P",
    "R A",
    "R E",
    "R A E",
    "R S",
    "R E S",
    "R A E S",
    "R P E",
    "R P E S",
    "R S' D",
)


def made(names: str) -> Ranker:
    """A pipeline of the map and one member, or a blend of several."""
    members = [MEMBERS[name]() for name in names.split()]
    return StreamQuantileMap() | (members[0] if len(members) == 1 else BlendRanker(members))


def queries_of(block: LetorBlock, chosen: np.ndarray | None = None) -> Queries:
    """Queries of a block in order: all, or those that `chosen` marks."""
    offsets = offsets_of(block)
    kept = np.arange(len(offsets) - 1) if chosen is None else np.flatnonzero(chosen)
    rows = np.concatenate([np.arange(offsets[q], offsets[q + 1]) for q in kept])
    return Queries(block.X[rows], block.y[rows], np.append(0, np.cumsum(np.diff(offsets)[kept])))


def parts_of(name: str, n_queries: int) -> Iterator[Part]:
    """What is learned from, and what is ranked then."""
    if name in ("additive", "forest", "linear"):
        X, y, qid = WebLike(n_queries + 400, name, n_documents=(40, 80)).block()
        block = LetorBlock(X, y, qid)
        first = np.arange(n_queries + 400) < n_queries
        yield queries_of(block, first), queries_of(block, ~first)
    elif name == "mq2008":
        for fold in folds(data_folder() / MQ2008):
            yield queries_of(fold.train), queries_of(fold.validation)
    else:
        train = next(folds(data_folder() / LIGHTGBM)).train
        part = np.random.default_rng(0).permutation(len(offsets_of(train)) - 1) % 5
        for i in range(5):
            yield queries_of(train, part != i), queries_of(train, part == i)


def run(names: str, parts: list[Part], orders: int) -> tuple[float, float]:
    """Mean NDCG@10 over parts and orders, and milliseconds a query of ranking and learning."""
    ndcg, values, seconds, n = measure("ndcg@10"), [], 0.0, 0
    for seed, (train, held_out) in itertools.product(range(orders), parts):
        model, queries = made(names), train.queries()
        start = time.process_time()
        for i in np.random.default_rng(seed).permutation(len(queries)):
            model.learn_one(*queries[i])
        seconds += time.process_time() - start
        n += len(queries)
        scores = model.predict_many(held_out.X, held_out.qid)
        values += [
            ndcg.value(scores[a:b], held_out.y[a:b]) for a, b in itertools.pairwise(held_out.offsets) if held_out.y[a:b].any()
        ]
    return float(np.mean(values)), 1e3 * seconds / n


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--queries", type=int, default=1000)
    arguments.add_argument("--orders", type=int, default=3)
    arguments.add_argument("--sets", nargs="+", default=["additive", "forest", "linear", "mq2008", "lightgbm"])
    arguments.add_argument("--blends", nargs="+", default=BLENDS)
    chosen = arguments.parse_args()
    sets = {name: list(parts_of(name, chosen.queries)) for name in chosen.sets}
    rows = []
    with progress("blends", len(chosen.blends) * len(sets), "runs") as show:
        for names in chosen.blends:
            cells = []
            for parts in sets.values():
                cells.append(run(names, parts, chosen.orders))
                show(len(rows) * len(sets) + len(cells))
            rows.append([names.replace(" ", " + "), *(f"{value:.4f}" for value, _ in cells), f"{cells[0][1]:.2f}"])
    save(
        "blends",
        f"""# Which blend?

NDCG@10 on development data after one pass over {chosen.queries} synthetic queries, or over the training part; mean over
{chosen.orders} orders. R: ridge; A: ramps | logistic; E: encodings | ridge (E': with all columns); S: trees (S': window 1,000;
D: deep); P: ramps | perceptron. All behind one `StreamQuantileMap`. {environment()}

{table(["blend", *sets, "ms a query"], rows)}
""",
    )


if __name__ == "__main__":
    main()
