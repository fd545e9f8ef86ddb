"""How does the cost grow with documents, features, grades and queries? Log-log slopes and a picture.

    python -m benchmarks.scaling [--repetitions 5]

Random features and random grades, so that every query is ranked wrongly and learned from, all the way: the costly case. One
axis varies, the others stay at a default. Methods take turns, on one thread; figures are minima, for slopes to be of the cost
and not of what else the machine did.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._common import RESULTS, environment, parser, save, table
from benchmarks._data import Queries
from benchmarks._timing import seconds_of
from online_rank import PerceptronRanker
from online_rank.metrics import MAP, NDCG
from online_rank.plot._style import SIZE, lines, name_lines, styled

#: Numbers in the features of a block, which limit its queries.
BLOCK = 2_000_000

Run = Callable[[], Any]


class Shape(NamedTuple):
    """A block of queries."""

    documents: int = 120
    features: int = 16
    grades: int = 5
    queries: int = 0
    """0: as many as make a block of `BLOCK` numbers, at least 2."""

    @property
    def n_queries(self) -> int:
        return self.queries or max(2, BLOCK // (self.documents * self.features))


def random_queries(shape: Shape) -> Queries:
    """Random features and random grades."""
    rng = np.random.default_rng(0)
    n = shape.n_queries * shape.documents
    X = rng.standard_normal((n, shape.features))
    return Queries(X, rng.integers(shape.grades, size=n), np.arange(0, n + 1, shape.documents))


def learn(credit: str) -> Callable[[Queries], Run]:
    return lambda block: functools.partial(learn_block, credit, block.X, block.y, block.qid)


def learn_block(credit: str, X: np.ndarray, y: np.ndarray, qid: np.ndarray) -> None:
    PerceptronRanker(credit=credit).learn_many(X, y, qid)


def predict(block: Queries) -> Run:
    model = PerceptronRanker()
    model.learn_many(block.X[:2], [0, 1], [0, 0])
    return lambda: model.predict_many(block.X)


def value(metric: Any) -> Callable[[Queries], Run]:
    def prepare(block: Queries) -> Run:
        scores = np.random.default_rng(1).standard_normal(len(block.y))
        return functools.partial(metric.value_many, block.y, scores, block.qid)

    return prepare


#: Name -> how it is run.
METHODS: dict[str, Callable[[Queries], Run]] = {
    "argmax": learn("argmax"),
    "adaptive": learn("adaptive"),
    "spread": learn("spread"),
    "predict": predict,
    "NDCG@10": value(NDCG(k=10)),
    "MAP": value(MAP()),
}

#: They do not look at features.
METRICS = ("NDCG@10", "MAP")

#: What a user of the defaults waits for.
DEFAULT_PATH = ("adaptive", "predict", "NDCG@10")

#: Field of `Shape` -> the sizes, and what a time is of.
AXES: dict[str, tuple[list[int], str]] = {
    "documents": ([10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000], "a query"),
    "features": ([10, 30, 100, 300, 1000, 3000, 10_000], "a query"),
    "grades": ([2, 4, 10, 30, 100, 300, 1000], "a query"),
    "queries": ([10, 30, 100, 300, 1000, 3000, 10_000], "the block"),
}

X_LABELS = {
    "documents": "documents a query",
    "features": "features a document",
    "grades": "grades that occur",
    "queries": "queries",
}

#: What the picture shows.
DRAWN = ("adaptive", "spread", "argmax", "predict", "NDCG@10")

Curve = dict[int, float]


def measure(axis: str, repetitions: int) -> dict[str, Curve]:
    """Seconds (a query; along "queries", the block) of each method at each size along an axis."""
    seconds: dict[tuple[str, int], list[float]] = {}
    for size in AXES[axis][0]:
        shape = Shape(**{axis: size})
        block = random_queries(shape)
        runs = {name: prepare(block) for name, prepare in METHODS.items() if not (axis == "features" and name in METRICS)}
        for run in runs.values():
            run()
        share = 1 if axis == "queries" else shape.n_queries
        for _, (name, run) in itertools.product(range(repetitions), runs.items()):
            seconds.setdefault((name, size), []).append(seconds_of(run, shortest=0.005) / share)
    return {name: {s: min(t) for (n, s), t in seconds.items() if n == name} for name in METHODS}


def slope(curve: Curve) -> float:
    """Least-squares slope of log time over log size, over the upper half of the sizes (on a log scale), where it shows."""
    sizes = [size for size in curve if size**2 >= min(curve) * max(curve)]
    return float(np.polyfit(np.log(sizes), np.log([curve[size] for size in sizes]), 1)[0])


def draw(curves: dict[str, dict[str, Curve]]) -> None:
    """One panel an axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    from benchmarks._pictures import logarithmic_axes

    figure, panels = plt.subplots(len(curves), figsize=(SIZE[0], 0.95 * SIZE[1] * len(curves)), dpi=100, layout="constrained")
    for panel, (axis, by_method) in zip(panels, curves.items(), strict=True):
        drawn = {f"{name} ({slope(by_method[name]):.2f})": by_method[name] for name in DRAWN if by_method[name]}
        drawn_lines = {name: (list(curve), [1e6 * t for t in curve.values()]) for name, curve in drawn.items()}
        styled(panel, X_LABELS[axis], f"µs {AXES[axis][1]} (slope)")
        lines(panel, drawn_lines)
        for line in panel.lines:
            line.set(marker="o", markersize=4)
        logarithmic_axes(panel)
        name_lines(panel, drawn_lines)
    RESULTS.mkdir(exist_ok=True)
    figure.savefig(RESULTS / "scaling.png")


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--repetitions", type=int, default=5)
    repetitions = arguments.parse_args().repetitions
    with threadpool_limits(1):
        curves = {axis: measure(axis, repetitions) for axis in AXES}
    draw(curves)
    slopes = [[name, *(f"{slope(curves[axis][name]):.2f}" if curves[axis][name] else "" for axis in AXES)] for name in METHODS]
    parts = []
    for axis, by_method in curves.items():
        rows = [
            [f"{size:,}", *(f"{1e6 * curve[size]:,.4g}" if size in curve else "" for curve in by_method.values())]
            for size in AXES[axis][0]
        ]
        parts.append(f"## µs {AXES[axis][1]}, by {axis}\n\n{table([axis, *METHODS], rows)}")
    steepest = max(DEFAULT_PATH, key=lambda name: slope(curves["documents"][name]))
    reached = slope(curves["documents"][steepest])
    text = "\n\n".join(parts)
    shape = Shape()
    save(
        "scaling",
        f"""# How the cost grows

Random features and grades: every query is learned from. Minima of {repetitions} runs, one thread, float64. What does not vary:
{shape.documents} documents a query, {shape.features} features, {shape.grades} grades. {environment()}

Slopes of log time over log size, over the upper half of the sizes (on a log scale):

{table(["", *AXES], slopes)}

On the default path ({", ".join(DEFAULT_PATH)}) no slope is above 1.1 up to 100,000 documents in a query:
{"met" if reached <= 1.1 else "missed"} (steepest: {steepest}, {reached:.2f}).

![Cost by size](scaling.png)

{text}
""",
    )


if __name__ == "__main__":
    main()
