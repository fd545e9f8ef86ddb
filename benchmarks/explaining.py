"""What does "why is A above B?" cost? `explain_one` beside `predict_one`, for the models whose contributions are exact.

    python -m benchmarks.explaining [--rounds 200]

Processor time of one call, the median of rounds in turn, on queries as a service reads them (dicts of features) and as arrays.
The sum of the contributions is compared with the difference of the two scores; the largest deviation is given in units of the
query's largest score.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._common import environment, parser, save, table
from online_rank import (
    BlendRanker,
    GradientRanker,
    PerceptronRanker,
    QueryNormalizer,
    RidgeRanker,
    StreamQuantileMap,
    StreamScaler,
    SwapRanker,
)
from online_rank.preprocessing import Ramps

BAR = 3.0
SIZES = ((20, 46), (120, 136))
MODELS: dict[str, Callable[[], Any]] = {
    "PerceptronRanker()": PerceptronRanker,
    "GradientRanker()": GradientRanker,
    "StreamScaler() | PerceptronRanker()": lambda: StreamScaler() | PerceptronRanker(),
    "StreamScaler() | RidgeRanker()": lambda: StreamScaler() | RidgeRanker(),
    "StreamScaler() | SwapRanker()": lambda: StreamScaler() | SwapRanker(),
    "QueryNormalizer() | PerceptronRanker()": lambda: QueryNormalizer() | PerceptronRanker(),
    "StreamQuantileMap() | PerceptronRanker()": lambda: StreamQuantileMap() | PerceptronRanker(),
    "StreamScaler() | Ramps(4) | PerceptronRanker()": lambda: StreamScaler() | Ramps(4) | PerceptronRanker(),
    'BlendRanker("light")': lambda: BlendRanker("light"),
}


def taught(make: Callable[[], Any], queries: list[tuple[Any, Any]]) -> Any:
    """A model that learned, from clicks on relevant documents if it takes no grades."""
    model = make()
    for x, y in queries:
        if model.abilities.draws:
            shown = model.show_one(x)
            model.learn_one(x, shown.clicked([i for i in shown.order if y[i] > 1]))
        else:
            model.learn_one(x, y)
    return model


def in_turn(calls: list[Callable[[], Any]], rounds: int, each: int = 10) -> list[float]:
    """Median processor seconds of each call."""
    spent: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, seconds in zip(calls, spent, strict=True):
            start = time.thread_time()
            for _ in range(each):
                call()
            seconds.append((time.thread_time() - start) / each)
    return [statistics.median(seconds) for seconds in spent]


def deviation(model: Any, x: Any) -> float:
    """How far contributions are from adding up, over pairs of documents, in units of the largest score."""
    scores = model.predict_one(x)
    found = [model.explain_one(x, 0, b) for b in range(1, len(scores))]
    worst = max(abs(sum(part for _, part in each.largest_first()) - (scores[0] - scores[each.b])) for each in found)
    return worst / max(1e-12, *map(abs, scores))


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=200)
    rounds = arguments.parse_args().rounds
    rows, ratios, worst = [], [], 0.0
    for name, make in MODELS.items():
        row = [f"`{name}`".replace("|", "\\|")]
        for m, d in SIZES:
            rng = np.random.default_rng(0)
            arrays = [(np.abs(rng.normal(size=(m, d))), rng.integers(0, 3, m)) for _ in range(50)]
            named = [([dict(zip(map(str, range(d)), x, strict=True)) for x in X.tolist()], y) for X, y in arrays]
            for queries in (named, arrays):
                model, x = taught(make, queries), queries[0][0]
                worst = max(worst, deviation(model, x))
                asked, explained = in_turn([lambda: model.predict_one(x), lambda: model.explain_one(x, 0, 1)], rounds)  # noqa: B023
                ratios.append(explained / asked)
                row.append(f"{1e6 * asked:.1f} / {1e6 * explained:.1f}: {explained / asked:.2f}")
        rows.append(row)
        print(*row, flush=True)
    header = ("model", *(f"{m} x {d}, {form}" for m, d in SIZES for form in ("dicts", "array")))
    save(
        "explaining",
        f"""# Explanations beside scores

Microseconds of `predict_one` / `explain_one`, and their ratio; median of {rounds} rounds in turn, processor time. The bar is
{BAR:g}: {sum(ratio <= BAR for ratio in ratios)} of {len(ratios)} cells are within it. Contributions add up to the difference
of the two scores within {worst:.1e} of the query's largest score.

{table(header, rows)}

{environment()}
""",
    )


if __name__ == "__main__":
    main()
