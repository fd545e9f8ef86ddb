"""The DirectRanker on the questions of its paper [DR]: sensitivity to data, and MQ2008.

    python -m benchmarks.direct_ranker [--paper] [--seeds 5] [--processes N] [--only sensitivity mq2008]

Synthetic data ([DR], section 4.5): per grade and feature a Gaussian, mean uniform in [0, 100], deviation in [50, 100]; 5
grades and 70 features unless they are what varies; label noise is a rounded Gaussian in the grades of both parts, as in [DR]
and its authors' code. The test is NDCG@20 on 50 draws of 50 to 150 documents. [DR] trains on 10^5 documents (`--paper`), here
on 3 * 10^4, in queries of 100 documents. Everything is `StreamScaler() | DirectRanker()` with default settings; label noise
also with the cost of [DR]. Each seed is another world.

MQ2008: fold i trains on parts i, i+1, i+2 and tests on part i+4; nothing is tuned. *Graded*: as the data are. *Binarised*:
grades >= 1 are relevant, as in [DR]. Queries without a relevant document are left out, ties get their expected value.
"""

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from benchmarks import _pictures
from benchmarks._common import RESULTS, environment, parser, save, table
from benchmarks._data import MQ2008, Fold, data_folder, folds, queries_of, shuffled
from benchmarks._gaussians import GradedGaussians
from online_rank import DirectRanker, GradientRanker, StreamQuantileMap, StreamScaler
from online_rank.evaluate import Experiment, Spread
from online_rank.metrics import NDCG
from online_rank.surrogates import squared

LENGTH = 100
#: After how many passes the curves are measured.
PASSES = {1: "1 pass", 3: "3 passes"}

#: The cost of [DR]: every pair of neighbouring grades is drawn to an output of 1 by the unweighted square.
COST_OF_THE_PAPER: dict[str, Any] = {
    "output": "tanh",
    "surrogate": squared(output="tanh", pairs="neighbours", pair_weight="none"),
}
#: What varies: the setting, its values, and the cost.
VARIED: dict[str, tuple[str, tuple[float, ...], dict[str, Any]]] = {
    "grades": ("n_grades", (2, 3, 5, 7, 10), {}),
    "features": ("n_features", (5, 10, 20, 40, 70, 120), {}),
    "label noise": ("label_noise", (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0), {}),
    "label noise, cost of [DR]": ("label_noise", (0.0, 0.5, 0.75, 1.0, 2.0), COST_OF_THE_PAPER),
    "training documents": ("n_documents", (100, 300, 1000, 3000, 10_000, 30_000, 100_000), {}),
}


def training(seed: int, passes: int, n_documents: int, **settings: Any) -> Iterator[Any]:
    """Queries of one world, again in each pass."""
    n = max(n_documents // LENGTH, 1)
    stream = GradedGaussians(n, n_documents=LENGTH, seed=2 * seed + 1, world_seed=seed, **settings)
    return itertools.chain.from_iterable(itertools.repeat(stream, passes))


def testing(seed: int, n_documents: int, **settings: Any) -> GradedGaussians:
    """Other queries of the same world."""
    return GradedGaussians(50, seed=2 * seed + 2, world_seed=seed, **settings)


def sensitivity(n_documents: int, seeds: int, processes: int) -> str:
    """The curves."""
    figure, axes = plt.subplots(3, 2, figsize=(8.0, 8.4), layout="constrained")
    rows = []
    for ax, (name, (setting, values, cost)) in zip(axes.ravel(), VARIED.items(), strict=False):
        values = tuple(value for value in values if setting != "n_documents" or value <= n_documents)
        streams, tests = dict[str, Any](), dict[str, Any]()
        for value, passes in itertools.product(values, PASSES):
            given = {"n_documents": n_documents, setting: value}
            streams[f"{value:g}, {passes}"] = partial(training, passes=passes, **given)
            tests[f"{value:g}, {passes}"] = partial(testing, **given)
        models = {"": lambda seed, cost=cost: StreamScaler() | DirectRanker(seed=seed, **cost)}
        results = Experiment(models, streams, NDCG(k=20), test=tests, seeds=seeds).run(processes=processes)
        found = {shown: [results.values("", stream=f"{value:g}, {p}") for value in values] for p, shown in PASSES.items()}
        _pictures.sensitivity(name, values, found, measured="NDCG@20", ax=ax)
        for value, *cells in zip(values, *found.values(), strict=True):
            rows.append((f"{name} = {value:g}", *(f"{Spread.of(cell):.3f}" for cell in cells)))
    axes.ravel()[-1].set_axis_off()
    figure.savefig(RESULTS / "direct_ranker_sensitivity.png", dpi=200)
    plt.close(figure)
    return f"""## Sensitivity ([DR], section 4.5)

{n_documents:,} training documents unless they are what varies; mean and standard error over {seeds} worlds.

{table(("what varies", *(f"NDCG@20, {shown}" for shown in PASSES.values())), rows)}

![sensitivity](direct_ranker_sensitivity.png)

Lines are means, bands the range over the worlds.
"""


#: By name: the network's settings, and the number of passes.
NETWORKS: dict[str, tuple[dict[str, Any], int]] = {
    "DirectRanker, one pass": ({}, 1),
    "DirectRanker, three passes": ({}, 3),
    "DirectRanker(output='tanh'), one pass": ({"output": "tanh"}, 1),
    # All settings of [DR]: that cost, Adam, and the last parameters, not an average of them.
    "DirectRanker, [DR] to the letter, one pass": (COST_OF_THE_PAPER | {"half_life": 0}, 1),
    "DirectRanker, cost of [DR], one pass": (COST_OF_THE_PAPER, 1),
    "RankNet (surrogate='logistic', output='half_tanh'), one pass": ({"surrogate": "logistic", "output": "half_tanh"}, 1),
    "ListNet (surrogate='listnet'), one pass": ({"surrogate": "listnet"}, 1),
    "LambdaRank (surrogate='lambdarank'), one pass": ({"surrogate": "lambdarank"}, 1),
}
MAPPED, LINEAR = "DirectRanker behind StreamQuantileMap, one pass", "GradientRanker, raw features, one pass"
PUBLISHED = {"DirectRanker, three passes": ("0.720", "0.636")}


def graded(X: np.ndarray, y: np.ndarray, qid: np.ndarray, binarised: bool) -> list[Any]:
    """The queries of a part."""
    return queries_of(X, np.minimum(y, 1) if binarised else y, qid)


def passes_over(fold: Fold, binarised: bool, passes: int, seed: int) -> list[Any]:
    """The training queries, each pass in another order."""
    return [query for p in range(passes) for query in graded(*shuffled(fold.train, seed + 1000 * p), binarised)]


def mq2008(seeds: int, processes: int) -> str:
    """NDCG@10 and MAP, mean of five folds, graded and binarised."""
    makers: dict[int, dict[str, Any]] = {1: {MAPPED: _mapped, LINEAR: lambda seed: GradientRanker()}, 3: {}}
    for name, (settings, passes) in NETWORKS.items():
        makers[passes][name] = lambda seed, settings=settings: StreamScaler() | DirectRanker(seed=seed, **settings)
    found: dict[str, list[str]] = {}
    for binarised, (passes, models) in itertools.product((False, True), makers.items()):
        parts = {str(k): fold for k, fold in enumerate(folds(data_folder() / MQ2008))}
        streams = {k: partial(passes_over, fold, binarised, passes) for k, fold in parts.items()}
        tests = {k: graded(*fold.test[:3], binarised) for k, fold in parts.items()}
        results = Experiment(models, streams, ["ndcg@10", "map"], test=tests, seeds=seeds).run(processes=processes)
        for name, metric in itertools.product(models, results.metrics):
            means = [results.values(name, metric, k).mean() for k in parts]
            found.setdefault(name, []).append(f"{np.mean(means):.3f}")
    rows = [(name, *found[name], *PUBLISHED.get(name, ("", ""))) for name in (*NETWORKS, MAPPED, LINEAR)]
    header = (
        "MQ2008, mean of 5 folds", "NDCG@10, graded", "MAP, graded", "NDCG@10, binarised", "MAP, binarised",
        "NDCG@10, published [DR]", "MAP, published [DR]",
    )  # fmt: skip
    return f"""## MQ2008

{seeds} orders of the training queries. The *published* values are from [DR]: binarised grades, features mapped to a
normal by a batch quantile transform, many epochs, and settings found by grid search; they were not measured here.

{table(header, rows)}
"""


def _mapped(seed: int) -> Any:
    return StreamQuantileMap() | DirectRanker(seed=seed)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--paper", action="store_true", help="10^5 training documents, as in [DR]")
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--processes", type=int, default=1)
    arguments.add_argument("--only", nargs="+", choices=("sensitivity", "mq2008"), default=("sensitivity", "mq2008"))
    given = arguments.parse_args()
    sections = []
    if "sensitivity" in given.only:
        sections.append(sensitivity(100_000 if given.paper else 30_000, given.seeds, given.processes))
    if "mq2008" in given.only:
        sections.append(mq2008(given.seeds, given.processes))
    save("direct_ranker", "\n".join((f"# DirectRanker\n\n{environment('scipy')}\n", *sections)), part=True)


if __name__ == "__main__":
    main()
