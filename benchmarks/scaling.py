"""How does the cost grow with documents and features? Log-log slopes and a picture.

    python -m benchmarks.scaling [--repetitions 5]

Random features and random grades, so that every query is ranked wrongly and learned from, all the way: the costly case. One
axis varies, the other stays at a default. Methods take turns, on one thread; figures are minima, for slopes to be of the cost
and not of what else the machine did.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._common import RESULTS, environment, parser, save, table
from benchmarks._data import Queries
from benchmarks._timing import seconds_of
from online_rank import PerceptronRanker
from online_rank.plot._style import SIZE, lines, name_lines, styled

#: Numbers in the features of a block, which limit its queries.
BLOCK = 2_000_000
#: What does not vary, and the sizes of what does.
DEFAULTS, GRADES = {"documents": 120, "features": 16}, 5
AXES = {
    "documents": (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000),
    "features": (10, 30, 100, 300, 1000, 3000, 10_000),
}

Curve = dict[int, float]


def random_queries(documents: int, features: int) -> Queries:
    """Random features and random grades."""
    rng = np.random.default_rng(0)
    n = max(2, BLOCK // (documents * features)) * documents
    X = rng.standard_normal((n, features))
    return Queries(X, rng.integers(GRADES, size=n), np.arange(0, n + 1, documents))


def learn(credit: str, block: Queries) -> None:
    """One pass of a new perceptron."""
    PerceptronRanker(credit=credit).learn_many(block.X, block.y, block.qid)


def predict(block: Queries) -> Callable[[], Any]:
    """The scores of all documents."""
    model = PerceptronRanker()
    model.learn_many(block.X[:2], [0, 1], [0, 0])
    return functools.partial(model.predict_many, block.X)


#: Name -> how it is run.
METHODS: dict[str, Callable[[Queries], Callable[[], Any]]] = {
    **{credit: functools.partial(functools.partial, learn, credit) for credit in ("argmax", "adaptive", "spread")},
    "predict": predict,
}


def measure(axis: str, repetitions: int) -> dict[str, Curve]:
    """Seconds a query of each method at each size along an axis."""
    found: dict[str, Curve] = {name: {} for name in METHODS}
    for size in AXES[axis]:
        block = random_queries(**DEFAULTS | {axis: size})
        runs = {name: prepare(block) for name, prepare in METHODS.items()}
        for run in runs.values():
            run()
        seconds = [{name: seconds_of(run, shortest=0.005) for name, run in runs.items()} for _ in range(repetitions)]
        for name, curve in found.items():
            curve[size] = min(each[name] for each in seconds) / block.n_queries
    return found


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
        drawn = {
            f"{name} ({slope(curve):.2f})": (list(curve), [1e6 * t for t in curve.values()])
            for name, curve in by_method.items()
        }
        styled(panel, axis, "µs a query (slope)")
        lines(panel, drawn)
        for line in panel.lines:
            line.set(marker="o", markersize=4)
        logarithmic_axes(panel)
        name_lines(panel, drawn)
    figure.savefig(RESULTS / "scaling.png")


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--repetitions", type=int, default=5)
    repetitions = arguments.parse_args().repetitions
    with threadpool_limits(1):
        curves = {axis: measure(axis, repetitions) for axis in AXES}
    draw(curves)
    slopes = [[name, *(f"{slope(curves[axis][name]):.2f}" for axis in AXES)] for name in METHODS]
    parts = []
    for axis, by_method in curves.items():
        rows = [[f"{size:,}", *(f"{1e6 * curve[size]:,.4g}" for curve in by_method.values())] for size in AXES[axis]]
        parts.append(f"## µs a query, by {axis}\n\n{table([axis, *METHODS], rows)}")
    text = "\n\n".join(parts)
    save(
        "scaling",
        f"""# How the cost grows

Random features and grades: every query is learned from. Minima of {repetitions} runs, one thread, float64. What does not vary:
{DEFAULTS["documents"]} documents a query, {DEFAULTS["features"]} features, {GRADES} grades. {environment()}

Slopes of log time over log size, over the upper half of the sizes (on a log scale):

{table(["", *AXES], slopes)}

![Cost by size](scaling.png)

{text}
""",
    )


if __name__ == "__main__":
    main()
