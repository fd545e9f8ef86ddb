"""Which rankers should the default blend be made of?

    python -m benchmarks.blends [--queries 1000] [--orders 2] [--sets additive forest linear mq2008 lightgbm] [--keep FILE]

Chosen on development data alone (`benchmarks/_development.py`), among them a stream whose truth turns. Members learn
independently of the blend that they are in. So each learns once, and all blends are judged by the scores that it gave: over
running scales, as `BlendRanker` does, and standardised in each query. Shown is what was served before a query was learned.
`--keep` continues from the parts that FILE has.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._common import environment, parser, save, table
from benchmarks._development import SYNTHETIC, Query, parts_of
from benchmarks._kept import Kept, add_keep
from online_rank import AdditiveRanker, BoostedRanker, PerceptronRanker, RidgeRanker, StreamQuantileMap
from online_rank import measure as parse_measure
from online_rank._kernels import blend as kernels
from online_rank.evaluate import Spread
from online_rank.measures.learned import discounts
from online_rank.rankers.blend import _grid
from online_rank.rankers.hedge import choose, opening, shares_of, step_of
from online_rank.support.progress import progress

#: `C` and `c` get raw features, `c` without relative columns; the others the columns of a quantile map, in small letters those
#: that are not relative to the query.
_TREES = {"decay": 0.012, "learning_rate": 0.2, "longest_gap": 20}
_FAST = {"window": 150, "depth": 3, "rate": 30.0, "decay": 0.06, "learning_rate": 0.6, "longest_gap": 10}
MEMBERS: dict[str, Callable[[], Any]] = {
    "C": AdditiveRanker,
    "c": lambda: AdditiveRanker(relative=False),
    "P": PerceptronRanker,
    "R": lambda: RidgeRanker(half_life=500),
    "T": lambda: BoostedRanker(**_TREES),
    "t": lambda: BoostedRanker(**_TREES),
    "s": lambda: BoostedRanker(window=500, **_TREES),
    "f": lambda: BoostedRanker(**_FAST),
}
BLENDS = (*MEMBERS, "C T", "C t", "C s", "C f", "C f t", "C R t", "C P t", "c t")
CHOSEN = "C t"
NDCG = parse_measure("ndcg@10")


class Blend:
    """What `BlendRanker` makes of the scores of its rankers; or of them standardised in each query."""

    def __init__(self, names: str, running: bool) -> None:
        self.members = [list(MEMBERS).index(name) for name in names.split()]
        self.running = running
        self.candidates, self.scales = _grid(4, len(self.members)), np.zeros((len(self.members), 2))
        self.losses, self.account = np.zeros(len(self.candidates)), opening()

    def serve(self, S: np.ndarray, y: np.ndarray) -> float:
        """NDCG@10 of a query by the scores of all members, from which the blend then learns."""
        S, n = S[self.members], len(self.losses)
        if not self.running:
            self.scales[:] = 0.0
            kernels.learn_scales(S, self.scales)
        step = step_of(self.account, 1.0, n, False)
        shares = shares_of(self.losses, np.full(n, 1.0 / n), step)
        served, scores, losses = choose(shares, self.candidates, None), np.empty(S.shape[1]), np.empty(n + 1)
        kernels.blend(S, self.scales, served, scores)
        if kernels.judge_blends(*NDCG, S, self.scales, y, discounts(len(y)), self.candidates, served, losses) > 1:
            kernels.settle(losses, 1.0, shares, step, 1.0, False, self.losses, self.account)
            if self.running:
                kernels.learn_scales(S, self.scales)
        return 1.0 - NDCG.loss(scores, y, ties="expected")


def run(queries: list[Query]) -> tuple[list[list[float]], list[float]]:
    """NDCG@10 of each query, as it came, by each blend on running scales, and by the chosen one on the other; milliseconds."""
    quantiles, members = StreamQuantileMap(), {name: make() for name, make in MEMBERS.items()}
    blends = [*(Blend(names, True) for names in BLENDS), Blend(CHOSEN, False)]
    seconds, values = dict.fromkeys(MEMBERS, 0.0), []
    for X, y in queries:
        quantiles.learn_one(X)
        mapped = np.asarray(quantiles.transform_one(X))
        S = np.empty((len(members), len(y)))
        for scores, (name, member) in zip(S, members.items(), strict=True):
            given = X if name in "Cc" else mapped if name.isupper() else np.ascontiguousarray(mapped[:, ::2])
            start = time.thread_time()
            scores[:] = member.predict_one(given)
            member.learn_one(given, y)
            seconds[name] += time.thread_time() - start
        if y.min() < y.max():
            values.append([blend.serve(S, y) for blend in blends])
    return values, [1e3 * spent / len(queries) for spent in seconds.values()]


def measured(name: str, n_queries: int, orders: int) -> dict[str, list]:
    """All queries and orders."""
    values, milliseconds = [], []
    with progress(name, orders, "orders") as show:
        for order in range(orders):
            for train, _ in parts_of(name, n_queries, order):
                part, spent = run(train)
                values += part
                milliseconds.append(spent)
            show(order + 1)
    return {"values": values, "milliseconds": np.mean(milliseconds, axis=0).tolist()}


def cell(values: np.ndarray, k: int, reference: int) -> str:
    """Mean NDCG@10 of blend k, and its paired difference to the chosen one with its standard error."""
    difference = Spread.of(values[:, k] - values[:, reference])
    return f"{values[:, k].mean():.4f}" + (f" ({difference:+.4f})" if k != reference else "")


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--queries", type=int, default=1000)
    arguments.add_argument("--orders", type=int, default=2)
    arguments.add_argument("--sets", nargs="+", default=[*SYNTHETIC, "drifting", "mq2008", "lightgbm"])
    add_keep(arguments)
    chosen = arguments.parse_args()
    kept = Kept(chosen.keep)
    size = chosen.queries, chosen.orders
    found = {name: kept.part(f"{name} {size}", lambda name=name: measured(name, *size)) for name in chosen.sets}
    values = {name: np.array(part["values"]) for name, part in found.items()}
    milliseconds = dict(zip(MEMBERS, found[chosen.sets[0]]["milliseconds"], strict=True))
    rows = [
        [
            names.replace(" ", " + "),
            *(cell(own, k, BLENDS.index(CHOSEN)) for own in values.values()),
            f"{sum(milliseconds[name] for name in names.split()):.2f}",
        ]
        for k, names in enumerate(BLENDS)
    ]
    standardised = [cell(own, -1, BLENDS.index(CHOSEN)) for own in values.values()]
    rows.append([f"{CHOSEN.replace(' ', ' + ')}, standardised in each query", *standardised, ""])
    save(
        "blends",
        f"""# Which blend?

NDCG@10 on development data of what was served before a query was learned, in one pass over {chosen.queries} synthetic queries,
or over the training parts, in {chosen.orders} orders; in parentheses the difference to {CHOSEN.replace(" ", " + ")} ± its
standard error, paired over queries. The milliseconds are of processor time a query, of the first column.

C: `AdditiveRanker()`; c: `AdditiveRanker(relative=False)`; P: `PerceptronRanker()`; R:
`RidgeRanker(half_life=500)`; T, t:
`BoostedRanker(decay=0.012, learning_rate=0.2, longest_gap=20)`; s: the same with `window=500`; f: small trees that forget fast.
All but C and c are behind a `StreamQuantileMap()`; t, s and f get its absolute columns alone, which takes half the memory.
`BlendRanker()` is {CHOSEN.replace(" ", " + ")}, with the map of the curves. {environment()}

{table(["blend", *chosen.sets, "ms a query"], rows)}
""",
    )


if __name__ == "__main__":
    main()
