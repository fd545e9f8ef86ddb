"""What does `AdditiveRanker` learn of a shop with brands and categories, next to encodings by hand and LightGBM?

    python -m benchmarks.additive [--seeds 5]

NDCG@10 of each query before it is learned, one pass. LightGBM learns the first half, and all are compared on the second.
"""

from typing import Any

import numpy as np

from benchmarks._additive_streams import Query, coded, shop
from benchmarks._common import RESULTS, parser, save, table
from benchmarks._models import LambdaMART
from online_rank import AdditiveRanker, PerceptronRanker, StreamQuantileMap, measure, plot
from online_rank.evaluate import Spread

NDCG = measure("ndcg@10")
OURS, PLAIN = "AdditiveRanker()", "AdditiveRanker() without brands and categories"
BY_HAND, BOOSTED = "map, perceptron, one-hot by hand", "LightGBM with categorical features"


def ndcgs(scores: list[Any], queries: list[Query]) -> np.ndarray:
    """NDCG@10 of queries by scores; NaN where all grades are equal."""
    found = np.full(len(queries), np.nan)
    for t, (given, (_, y)) in enumerate(zip(scores, queries, strict=True)):
        if min(y) < max(y):
            found[t] = 1.0 - NDCG.loss(np.array(given), np.array(y), ties="expected")
    return found


def online(model: Any, queries: list[Query]) -> np.ndarray:
    """NDCG@10 of each query before it is learned."""
    scores = []
    for X, y in queries:
        scores.append(model.predict_one(X))
        model.learn_one(X, y)
    return ndcgs(scores, queries)


def batch(queries: list[Query]) -> np.ndarray:
    """NDCG@10 of the second half by LightGBM, which has learned the first; NaN for the first."""
    half = len(queries) // 2
    learned, ranked = queries[:half], queries[half:]
    qid = np.repeat(np.arange(half), [len(y) for _, y in learned])
    model = LambdaMART(n_jobs=1, categories=(4, 5))
    model.learn_many(np.vstack([X for X, _ in learned]), np.concatenate([y for _, y in learned]), qid)
    return np.append(np.full(half, np.nan), ndcgs([model.predict_many(X) for X, _ in ranked], ranked))


def measured(seed: int) -> dict[str, tuple[float, float]]:
    """Of each model the mean over all queries, NaN for LightGBM, and over the second half."""
    queries = shop(seed)
    hot, numbers = coded(queries, one_hot=True), coded(queries, one_hot=False)
    each = {
        OURS: online(AdditiveRanker(), queries),
        PLAIN: online(AdditiveRanker(), [(X[:, :4], y) for X, y in numbers]),
        BY_HAND: online(StreamQuantileMap() | PerceptronRanker(), hot),
        BOOSTED: batch(numbers),
    }
    half = len(queries) // 2
    return {
        name: (np.nan if name == BOOSTED else float(np.nanmean(one)), float(np.nanmean(one[half:])))
        for name, one in each.items()
    }


def drawn() -> str:
    """The curves of a shop in which every fourth rating is missing, as a picture."""
    rng, model = np.random.default_rng(0), AdditiveRanker()
    for documents, y in shop(0):
        model.learn_one([{**x, "rating": None} if rng.random() < 0.25 else x for x in documents], y)
    figure: Any = plot.curves(model)[0].figure
    figure.savefig(RESULTS / "additive_shop.png", dpi=150)
    return "![What an AdditiveRanker learned of a shop in which every fourth rating is missing](additive_shop.png)"


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=5)
    seeds = arguments.parse_args().seeds
    found = [measured(seed) for seed in range(seeds)]
    values, rows = {name: np.array([one[name] for one in found]) for name in found[0]}, []
    for name, both in values.items():
        means = ["" if np.isnan(mean) else f"{mean:.4f}" for mean in both.mean(axis=0)]
        away = ["" if name == OURS or np.isnan(less).any() else f"{Spread.of(less):+.4f}" for less in (values[OURS] - both).T]
        rows.append((name, *means, *away))
    header = ("model", "all queries", "second half", f"{OURS} less it, all", "second half")
    save("additive", f"# A shop with 40 brands and 10 categories\n\n{table(header, rows)}\n\n{drawn()}\n")


if __name__ == "__main__":
    main()
