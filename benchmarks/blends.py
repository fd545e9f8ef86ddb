"""Which rankers should the default blend be made of, and which the light one?

    python -m benchmarks.blends [--queries 1000] [--orders 2] [--sets additive forest linear mq2008 lightgbm] [--keep FILE]

Chosen on development data alone: synthetic streams of `WebLike` with 400 held-out queries, another truth for each order; the
validation parts of MQ2008 (the part that a fold neither trains nor tests on); LightGBM's example by five-fold cross-validation
within its training part. Members learn independently of the blend that they are in. So each learns once, and all blends are
judged by the scores that it gave. `--keep` continues from the parts that FILE has.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks._common import environment, parser, save, table
from benchmarks._development import SYNTHETIC, Query, parts_of
from online_rank import (
    BoostedRanker,
    GradientRanker,
    PerceptronRanker,
    RidgeRanker,
    StreamQuantileMap,
    StreamTargetEncoder,
    measure,
)
from online_rank._kernels import blend as kernels
from online_rank.base import Ranker
from online_rank.measures.learned import discounts
from online_rank.preprocessing import Ramps
from online_rank.query import read_query
from online_rank.rankers.blend import _answered, _grid, _Made, _scores
from online_rank.support.progress import progress

#: Behind one map.
MEMBERS: dict[str, Callable[[], Ranker]] = {
    "R": RidgeRanker,
    "D": lambda: PerceptronRanker(half_life=None),
    "A": lambda: Ramps() | GradientRanker("logistic", optimizer="adagrad"),
    "P": lambda: Ramps() | PerceptronRanker(credit="spread", relative_margin=0.1, half_life=None),
    "E": lambda: StreamTargetEncoder(keep="relative") | RidgeRanker(),
    "F": lambda: StreamTargetEncoder(keep="none") | RidgeRanker(),
    "S": lambda: BoostedRanker(window=300, depth=3),
    "T": BoostedRanker,
    "Q": lambda: Ramps() | PerceptronRanker(credit="spread", relative_margin=0.1, half_life=100),
    "G": lambda: StreamTargetEncoder(keep="relative") | RidgeRanker(half_life=500),
    "V": lambda: BoostedRanker(decay=0.012, learning_rate=0.2, longest_gap=20),
    "U": lambda: BoostedRanker(window=150, depth=3, rate=30.0, decay=0.06, learning_rate=0.6, longest_gap=10),
}
BLENDS = (
    *MEMBERS,
    "R E", "P E", "A E", "D E", "P F", "R A E", "R P E", "A P E", "D P E", "D A E", "D R E", "D A P E",
    "E S", "P E S", "R E S", "A E S", "R A E S", "A P E S",
    "E T", "P E T", "R E T", "A E T", "P F T", "R A E T", "R P E T", "A P E T", "R A P E T",
    "D E T", "D A E T", "D P E T", "D R E T", "D A P E T",
    "D Q E", "D Q E T", "D A Q E T", "D Q E U", "D P E U T", "D Q E U T", "D A Q E U T",
    "D Q G", "D Q G U T", "D Q E U V", "D Q G U V",
)  # fmt: skip
#: The default, and the light one.
CHOSEN, LIGHT = "D Q G U V", "D Q G"


class Blend:
    """What `BlendRanker` makes of the scores of its rankers."""

    def __init__(self, names: str) -> None:
        self.members = [list(MEMBERS).index(name) for name in names.split()]
        self.candidates = _grid(4, len(self.members))
        self.losses = np.zeros(len(self.candidates))

    @property
    def weights(self) -> np.ndarray:
        """The weight of each member in what is served."""
        shares = np.exp(-(self.losses - self.losses.min()))
        return (shares / shares.sum()) @ self.candidates

    def learn(self, S: np.ndarray, y: np.ndarray) -> None:
        """Judge the candidates by the scores of all members."""
        losses = np.empty(len(self.losses) + 1)
        arguments = (S[self.members], y, discounts(len(y)), self.candidates, self.weights, losses)
        if kernels.judge_blends(*measure("ndcg@10"), *arguments) > 1:
            self.losses += losses[:-1]

    def scores(self, S: np.ndarray) -> np.ndarray:
        """The blend of the scores of all members for one query."""
        blended = np.empty(S.shape[1])
        kernels.blend(S[self.members], self.weights, blended)
        return blended


def run(train: list[Query], held_out: list[Query]) -> tuple[np.ndarray, np.ndarray]:
    """NDCG@10 of each held-out query by each blend, and milliseconds a query of the map and of each member."""
    quantiles, members, blends = StreamQuantileMap(), [make() for make in MEMBERS.values()], [Blend(names) for names in BLENDS]
    seconds = np.zeros(1 + len(members))
    for X, y in train:
        start = time.thread_time()
        block = quantiles._learn_block(read_query(X, y))
        seconds[0] += time.thread_time() - start
        S = np.empty((len(members), len(block.y)))
        for k, member in enumerate(members):
            start = time.thread_time()
            S[k] = _answered(member, block, _Made())
            seconds[k + 1] += time.thread_time() - start
        for blend in blends:
            blend.learn(S, block.y)
    ndcg, values = measure("ndcg@10"), []
    for X, y in held_out:
        if y.any():
            block = quantiles._transform_block(read_query(X))
            S = np.stack([_scores(member, block, _Made()) for member in members])
            values.append([ndcg.value(blend.scores(S), y) for blend in blends])
    return np.array(values), 1e3 * seconds / len(train)


def measured(name: str, queries: int, orders: int) -> dict[str, list]:
    """Mean over all held-out queries and orders; standard error of the difference to the first blend of each, paired."""
    values, milliseconds, n = [], [], 0
    with progress(name, orders, "orders") as show:
        for order in range(orders):
            done = [run(*part) for part in parts_of(name, queries, order)]
            values.append(np.concatenate([part for part, _ in done]))
            milliseconds += [part for _, part in done]
            n += 1
            print(f"{name}: order {n} of {orders}", flush=True)
            show(n)
    return {"values": [part.tolist() for part in values], "milliseconds": np.mean(milliseconds, axis=0).tolist()}


def cell(values: np.ndarray, k: int, reference: int) -> str:
    """Mean NDCG@10 of blend k, and its paired difference to another one with its standard error."""
    difference = values[:, k] - values[:, reference]
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    return (
        f"{values[:, k].mean():.4f} ({difference.mean():+.4f} ± {error:.4f})"
        if k != reference
        else f"{values[:, k].mean():.4f}"
    )


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--queries", type=int, default=1000)
    arguments.add_argument("--orders", type=int, default=2)
    arguments.add_argument("--sets", nargs="+", default=[*SYNTHETIC, "mq2008", "lightgbm"])
    arguments.add_argument("--keep", type=Path, metavar="FILE")
    chosen = arguments.parse_args()
    kept = json.loads(chosen.keep.read_text()) if chosen.keep and chosen.keep.exists() else {}
    for name in chosen.sets:
        if name not in kept:
            kept[name] = measured(name, chosen.queries, chosen.orders)
            if chosen.keep:
                chosen.keep.write_text(json.dumps(kept))
    values = {name: np.concatenate(kept[name]["values"]) for name in chosen.sets}
    milliseconds = kept[chosen.sets[0]]["milliseconds"]
    reference = BLENDS.index(CHOSEN)
    rows = []
    for k, names in enumerate(BLENDS):
        cost = milliseconds[0] + sum(milliseconds[1 + i] for i in Blend(names).members)
        rows.append([names.replace(" ", " + "), *(cell(values[name], k, reference) for name in chosen.sets), f"{cost:.2f}"])
    save(
        "blends",
        f"""# Which blend?

NDCG@10 on development data after one pass over {chosen.queries} synthetic queries, or over the training part, over
{chosen.orders} orders; in parentheses the difference to {CHOSEN.replace(" ", " + ")} ± its standard error, paired over
queries. The milliseconds are of processor time a query, learning the queries of the first column.

All behind one `StreamQuantileMap()`. R: `RidgeRanker()`; D: `PerceptronRanker(half_life=None)`; A:
`Ramps() | GradientRanker("logistic", optimizer="adagrad")`; P:
`Ramps() | PerceptronRanker(credit="spread", relative_margin=0.1, half_life=None)`; E:
`StreamTargetEncoder(keep="relative") | RidgeRanker()`; F: the same with `keep="none"`; trees, S:
`BoostedRanker(window=300, depth=3)`, T: `BoostedRanker()`. Those that forget, Q:
`Ramps() | PerceptronRanker(credit="spread", relative_margin=0.1, half_life=100)`, U:
`BoostedRanker(window=150, depth=3, rate=30, decay=0.06, learning_rate=0.6, longest_gap=10)`, V:
`BoostedRanker(decay=0.012, learning_rate=0.2, longest_gap=20)`, G:
`StreamTargetEncoder(keep="relative") | RidgeRanker(half_life=500)`. `BlendRanker()` is
{CHOSEN.replace(" ", " + ")}, `BlendRanker("light")` is {LIGHT.replace(" ", " + ")}. {environment()}

{table(["blend", *chosen.sets, "ms a query"], rows)}
""",
    )


if __name__ == "__main__":
    main()
