"""What are words worth in the default, what do they cost, and what happens to levels that come and go?

    python -m benchmarks.words [--seeds 5] [--first 0] [--part quality|levels|memory]

The streams are in `benchmarks._word_streams`. Each query is ranked, then learned. Times are processor time of ranking and
learning a query. Vowpal Wabbit learns each query as a cost-sensitive example, with cost 4 - grade. `memory` takes 100,000
queries of words drawn from a million.
"""

import functools
import gc
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import _word_streams as streams
from benchmarks._common import parser, save, table
from benchmarks._timing import megabytes
from online_rank import (
    AdditiveRanker,
    HashedFeatures,
    MaxAbsStreamScaler,
    PerceptronRanker,
    measure,
)
from online_rank.base.forgetting import parts_of
from online_rank.rankers.growing_trees import GrowingTrees
from online_rank.storage.files import to_bytes

MARKS, AFTER, QUERIES = (250, 900), 250, 1150
NDCG = measure("ndcg@10")
#: Made-up brands of the one query of the flood; queries after it, and brands in them.
FLOOD, FLOODED, IN_USE = 120, 1500, 30
#: Brands in use where they turn over, queries until a tenth is replaced, and a number of levels that none misses.
TURNING, EACH, ENOUGH, TURNED = 100, 200, 10_000, 2000
#: Queries, words, and queries between looks at memory.
LONG, VOCABULARY, LOOK = 100_000, 1_000_000, 10_000


class Wabbit:
    """Vowpal Wabbit on words, brand and price, with the segment where quadratic features are asked for."""

    def __init__(self, options: str) -> None:
        from vowpalwabbit import Workspace

        self.model = Workspace(f"--csoaa_ldf m --csoaa_rank {options} --quiet")

    def _lines(self, x: list[dict[str, Any]], segment: str, costs: Any = None) -> list[str]:
        # By numbers from 0 on, which are the places of the predictions.
        labels = [f"{k}" if costs is None else f"{k}:{4 - costs[k]}" for k in range(len(x))]
        return [
            f"{label} |t {one['title']} |b {one['brand']} |s {segment} |p price:{np.log(one['price']):.6g}"
            for label, one in zip(labels, x, strict=True)
        ]

    def learn(self, x: list[dict[str, Any]], y: list[int], segment: str) -> None:
        """Learn a query."""
        self.model.learn(self._lines(x, segment, y))

    def score(self, x: list[dict[str, Any]], segment: str) -> np.ndarray:
        """Minus the predicted costs."""
        costs = self.model.predict(self._lines(x, segment))
        return -np.array(costs)


class Ours:
    """A ranker of this library, with the segment as context or without."""

    def __init__(self, model: Any, segmented: bool = False) -> None:
        self.model, self.segmented = model, segmented

    def _context(self, segment: str) -> dict[str, Any]:
        return {"context": {"segment": segment}} if self.segmented else {}

    def learn(self, x: list[dict[str, Any]], y: list[int], segment: str) -> None:
        """Learn a query."""
        self.model.learn_one(x, y, **self._context(segment))

    def score(self, x: list[dict[str, Any]], segment: str) -> np.ndarray:
        """The scores."""
        return np.array(self.model.predict_one(x, **self._context(segment)))


#: What the costs are compared with.
_HASHED = r"`HashedFeatures \| MaxAbsStreamScaler \| PerceptronRanker`"
CONTESTANTS: dict[str, Any] = {
    "`AdditiveRanker()`": lambda: Ours(AdditiveRanker()),
    "`AdditiveRanker()`, segment": lambda: Ours(AdditiveRanker(), segmented=True),
    _HASHED: lambda: Ours(HashedFeatures(text=("title",)) | MaxAbsStreamScaler() | PerceptronRanker()),
    "Vowpal Wabbit csoaa": lambda: Wabbit("--ignore s"),
    "Vowpal Wabbit csoaa -q sb": lambda: Wabbit("-q sb"),
}


def ndcg(scores: Any, grades: list[int]) -> float:
    """NDCG@10; NaN of a query without a relevant document."""
    return float(NDCG.value(scores, grades)) if any(grades) else np.nan


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call gives, and its milliseconds of the processor."""
    start = time.process_time()
    given = call()
    return given, 1e3 * (time.process_time() - start)


def _one_seed(seed: int) -> tuple[dict[str, list[float]], str]:
    """Of each contestant NDCG@10 after both marks and the median milliseconds of a query; and the default's words and bytes."""
    models = {name: make() for name, make in CONTESTANTS.items()}
    values: dict[str, list[float]] = {name: [] for name in models}
    times: dict[str, list[float]] = {name: [] for name in models}
    for x, y, segment in streams.titles(seed, QUERIES):
        for name, model in models.items():
            scores, scored = timed(functools.partial(model.score, x, segment))
            _, learned = timed(functools.partial(model.learn, x, y, segment))
            times[name].append(scored + learned)
            values[name].append(ndcg(scores, y))
    default = models["`AdditiveRanker()`"].model
    whole, window = len(to_bytes(default)), sum(trees.bytes_of_queries for trees in parts_of(default, GrowingTrees))
    size = f"{whole / 1e6:.2f} MB with {default.n_words:,} words, {(whole - window) / 1e6:.2f} without these queries"
    return {
        name: [*(float(np.nanmean(values[name][a : a + AFTER])) for a in MARKS), float(np.median(times[name]))]
        for name in models
    }, size


def quality(seeds: range) -> str:
    """The page's section on titles."""
    runs = [_one_seed(seed) for seed in seeds]
    hashed = np.mean([found[_HASHED][2] for found, _ in runs])
    rows = []
    for name in CONTESTANTS:
        mean = np.mean([found[name] for found, _ in runs], axis=0)
        rows.append((name, f"{mean[0]:.4f}", f"{mean[1]:.4f}", f"{mean[2]:.2f}", f"{mean[2] / hashed:.2f}"))
    sizes = "; ".join(size for _, size in runs)
    return (
        "## Titles, brands and prices\n\nNDCG@10 of the 250 queries after 250 and after 900, and processor time of ranking and "
        "learning a query. Files of the default at the end, which have the last queries, of which "
        f"trees grow: {sizes}. {_file_of_many_words()}\n\n"
        + table(("", "after 250", "after 900", "ms", "times the hashed perceptron"), rows)
    )


def _file_of_many_words() -> str:
    """The size of the file of a model with 10,000 words."""
    model = AdditiveRanker()
    for x, y in streams.open_titles(0, 1000, 10_000, m=10):
        model.learn_one(x, y)
    return f"After 1,000 queries of an open vocabulary: {model.n_words:,} words, {len(to_bytes(model)) / 1e6:.2f} MB."


def _first_values(model: Any, queries: Any) -> float:
    """What the first documents of rankings are worth, over what the best ones are worth."""
    got = best = 0.0
    for x, y, worth in queries:
        got += worth[int(np.argmax(model.predict_one(x)))]
        best += worth.max()
        model.learn_one(x, y)
    return float(got / best)


def levels(seeds: range) -> str:
    """The page's section on levels."""
    flooded, calm, least, most = [], [], [], []
    for seed in seeds:
        model, rng = AdditiveRanker(), np.random.default_rng(seed)
        model.learn_one([{"brand": f"made up {i}"} for i in range(FLOOD)], rng.integers(0, 3, FLOOD).tolist())
        flooded.append(_first_values(model, streams.brands(seed, FLOODED, IN_USE)))
        calm.append(_first_values(AdditiveRanker(), streams.brands(seed, FLOODED, IN_USE)))
        for given, values in (({}, least), ({"max_levels": ENOUGH}, most)):
            own = AdditiveRanker(**given)  # type: ignore[arg-type]
            values.append(_ndcg_of(own, streams.brands(seed, TURNED, TURNING, EACH)))
    found = flooded, calm, least, most, np.subtract(least, most)
    return (
        f"## Levels that come and go\n\nA flood: {FLOOD} made-up brands in one query, then {FLOODED:,} queries of {IN_USE} "
        "brands; what the first document is worth, over the best of the query, from the first of these on. Turnover: of "
        f"{TURNING} brands a tenth is replaced every {EACH} queries; NDCG@10 of {TURNED:,} queries, with `max_levels` 100 "
        f"and {ENOUGH:,}.\n\n"
        + table(
            ("seed", "after the flood", "without it", "turnover", f"turnover, {ENOUGH:,} levels", "less"),
            [
                *((k, *(f"{v:.4f}" for v in row)) for k, *row in zip(seeds, *found, strict=True)),
                ("mean", *(f"{np.mean(own):.4f}" for own in found)),
            ],
        )
    )


def _ndcg_of(model: Any, queries: Any) -> float:
    values = []
    for x, y, _ in queries:
        values.append(ndcg(model.predict_one(x), y))
        model.learn_one(x, y)
    return float(np.nanmean(values))


def memory(seeds: range) -> str:
    """The page's section on memory with an open vocabulary."""
    model, rows, times = AdditiveRanker(), [], []
    for t, (x, y) in enumerate(streams.open_titles(seeds[0], LONG, VOCABULARY), 1):
        _, scored = timed(functools.partial(model.predict_one, x))
        _, learned = timed(functools.partial(model.learn_one, x, y))
        times.append(scored + learned)
        if t % LOOK == 0:
            gc.collect()
            held, size = megabytes("VmRSS"), len(to_bytes(model)) / 1e6
            rows.append(
                (
                    f"{t:,}",
                    f"{np.median(times[-LOOK:]):.2f}",
                    f"{held:.0f}",
                    f"{size:.1f}",
                    f"{model.n_words:,}",
                    f"{model.n_left_words:,}",
                )
            )
    return (
        f"## {LONG:,} queries of {VOCABULARY:,} words\n\nFive documents of six words each; medians of milliseconds of ranking "
        "and learning a query, memory of the process before it is saved, and the file.\n\n"
        + table(("queries", "ms", "memory, MB", "file, MB", "words", "words that left"), rows)
    )


PARTS: dict[str, Callable[[range], str]] = {"quality": quality, "levels": levels, "memory": memory}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--first", type=int, default=0, help="the first seed")
    arguments.add_argument("--part", choices=PARTS)
    chosen = arguments.parse_args()
    warnings.simplefilter("ignore")
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    parts = [make(seeds) for name, make in PARTS.items() if chosen.part in (None, name)]
    save("words", "\n\n".join(["# Words and levels", *parts]), part=chosen.part is not None)


if __name__ == "__main__":
    main()
