"""The DirectRanker on the questions of its paper [DR]: sensitivity, neighbour gaps, MQ2008; and what a query costs.

    python -m benchmarks.direct_ranker [--paper] [--repetitions 5] [--only sensitivity noise gaps web mq2008 time]

Synthetic data ([DR], section 4.5): per grade and feature a Gaussian, mean uniform in [0, 100], deviation in [50, 100]; 5
grades and 70 features unless they are what varies; label noise is a rounded Gaussian in the grades of both parts, as in [DR]
and its authors' code. The test is NDCG@20 on 50 draws of 50 to 150 documents. [DR] trains on 10^5 documents (`--paper`), here
on 3 * 10^4, in queries of 100 documents. Everything is `StreamScaler() | DirectRanker()` with default settings; label
noise also with the cost of [DR]. *noise*: figure 2(c) and a network reimplemented from the paper
(`benchmarks/_paper_network.py`), with hidden layers of 70 and as many units as there are grades.
*gaps*, *web*: figure 3, on these data and on web data (`benchmarks/_direct_gaps.py`).

MQ2008: fold i trains on parts i, i+1, i+2 and tests on part i+4; nothing is tuned. *Graded*: as the data are. *Binarised*:
grades >= 1 are relevant, as in [DR]. Queries without a relevant document are left out, ties get their expected value.
"""

import functools
import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import _direct_gaps, _pictures
from benchmarks._common import RESULTS, environment, parser, save, table
from benchmarks._data import MQ2008, data_folder, folds, offsets_of, shuffled
from benchmarks._gaussians import GradedGaussians
from benchmarks._paper_network import PaperNetwork
from benchmarks._timing import seconds_of
from online_rank import StreamQuantileMap, StreamScaler
from online_rank.base import Ranker
from online_rank.evaluate import Spread
from online_rank.metrics import MAP, NDCG
from online_rank.rankers.direct import FIRST_WEIGHTS, DirectRanker
from online_rank.rankers.gradient import GradientRanker
from online_rank.stream import Documents
from online_rank.surrogates import squared

LENGTH = 100


def synthetic(repetition: int, n_documents: int, **settings: float) -> tuple[GradedGaussians, GradedGaussians]:
    """Training and test data of one world."""
    train = GradedGaussians(
        max(n_documents // LENGTH, 1), n_documents=LENGTH, seed=2 * repetition + 1, world_seed=repetition, **settings
    )
    return train, GradedGaussians(50, seed=2 * repetition + 2, world_seed=repetition, **settings)


#: After how many passes the curves are measured.
PASSES = (1, 3)


#: The cost of [DR]: every pair of neighbouring grades is drawn to an output of 1 by the unweighted square.
COST_OF_THE_PAPER: dict[str, Any] = {
    "output": "tanh",
    "surrogate": squared(output="tanh", pairs="neighbours", pair_weight="none"),
}

#: All settings of [DR]: that cost, Adam, and the last parameters, not an average of them.
TO_THE_LETTER: dict[str, Any] = {**COST_OF_THE_PAPER, "half_life": 0}


def ndcg_at_20(repetition: int, n_documents: int, cost: Mapping[str, Any] | None = None, **settings: float) -> list[float]:
    """NDCG@20 after each of `PASSES`."""
    train, test = synthetic(repetition, n_documents, **settings)
    model = StreamScaler() | DirectRanker(seed=repetition, **(cost or {}))
    scores = []
    for p in range(1, max(PASSES) + 1):
        model.learn_many(*train.block())
        if p in PASSES:
            metric = NDCG(k=20)
            for X, y in test:
                metric.update(y, model.predict_one(X))
            scores.append(metric.get())
    return scores


def sensitivity(n_documents: int, repetitions: int) -> str:
    """The curves."""
    curves: dict[str, tuple[str, Sequence[float], Callable[[float], dict]]] = {
        "grades": ("n_grades", (2, 3, 5, 7, 10), lambda v: {"n_grades": int(v), "n_documents": n_documents}),
        "features": ("n_features", (5, 10, 20, 40, 70, 120), lambda v: {"n_features": int(v), "n_documents": n_documents}),
        "label noise": (
            "label_noise",
            (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0),
            lambda v: {"label_noise": v, "n_documents": n_documents},
        ),
        "label noise, cost of [DR]": (
            "label_noise",
            (0.0, 0.5, 0.75, 1.0, 2.0),
            lambda v: {"label_noise": v, "n_documents": n_documents, "cost": COST_OF_THE_PAPER},
        ),
        "training documents": (
            "n_documents",
            (100, 300, 1000, 3000, 10_000, 30_000, *((100_000,) if n_documents > 30_000 else ())),
            lambda v: {"n_documents": int(v)},
        ),
    }
    figure, axes = plt.subplots(3, 2, figsize=(8.0, 8.4), layout="constrained")
    rows = []
    for ax, (name, (_, values, settings)) in zip(axes.ravel(), curves.items(), strict=False):
        results = np.array([[ndcg_at_20(repetition, **settings(v)) for repetition in range(repetitions)] for v in values])
        by_passes = {f"{p} pass{'es' if p > 1 else ''}": results[:, :, i] for i, p in enumerate(PASSES)}
        _pictures.sensitivity(name, values, by_passes, measured="NDCG@20", ax=ax)
        rows += [
            (f"{name} = {value:g}", *(f"{Spread.of(cell):.3f}" for cell in found.T))
            for value, found in zip(values, results, strict=True)
        ]
    for ax in axes.ravel()[len(curves) :]:
        ax.set_axis_off()
    figure.savefig(RESULTS / "direct_ranker_sensitivity.png", dpi=200)
    plt.close(figure)
    return f"""## Sensitivity ([DR], section 4.5)

{n_documents:,} training documents unless they are what varies; mean and standard error over {repetitions} worlds.

{table(("what varies", *(f"NDCG@20, {p} pass{'es' if p > 1 else ''}" for p in PASSES)), rows)}

![sensitivity](direct_ranker_sensitivity.png)

Lines are means, bands the range over the worlds.
"""


NOISE = (0.0, 0.5, 0.75, 1.0, 2.0)
WITHIN = 0.01


def noise(n_documents: int, repetitions: int, passes: int = 3) -> str:
    """Figure 2(c): the default, [DR] to the letter, and the same network written again, on the same documents."""
    rows = []
    for sigma in NOISE:
        found = []
        for repetition in range(repetitions):
            train, test = synthetic(repetition, n_documents, label_noise=sigma)
            X, y, qid = train.block()
            hidden = (70, train.n_grades)
            rankers = [
                StreamScaler() | DirectRanker(hidden, seed=repetition),
                StreamScaler() | DirectRanker(hidden, seed=repetition, **TO_THE_LETTER),
            ]
            networks = [PaperNetwork(X.shape[1], hidden, first=first, seed=repetition) for first in (FIRST_WEIGHTS, 1.0)]
            for network in networks:
                network.standardise(X)
            for _ in range(passes):
                for ranker in rankers:
                    ranker.learn_many(X, y, qid)
                for first in range(0, len(y), LENGTH):
                    for network in networks:
                        network.learn(X[first : first + LENGTH], y[first : first + LENGTH])
            metrics = [NDCG(k=20) for _ in (*rankers, *networks)]
            scorers = [*(ranker.predict_one for ranker in rankers), *(network.scores for network in networks)]
            for documents, grades in test:
                for metric, scores in zip(metrics, scorers, strict=True):
                    metric.update(grades, scores(documents))
            found.append([metric.get() for metric in metrics])
        values = np.array(found)
        default, ours, again, by_glorot, difference = (
            f"{Spread.of(column):{sign}.3f}"
            for column, sign in zip([*values.T, values[:, 1] - values[:, 2]], ["", "", "", "", "+"], strict=True)
        )
        within = "yes" if abs((values[:, 1] - values[:, 2]).mean()) <= WITHIN else "**no**"
        rows.append((f"sigma = {sigma:g}", default, ours, again, difference, within, by_glorot))
    header = (
        "label noise in both parts",
        "default",
        "[DR] to the letter",
        "[DR] written again",
        "difference",
        f"within {WITHIN}",
        "written again, initial weights of Glorot's size",
    )
    return f"""## Label noise ([DR], figure 2c)

{n_documents:,} training documents, {passes} passes, NDCG@20, mean and standard error over {repetitions} worlds. Noise is in the
grades of both parts, as in [DR]. *To the letter*: `DirectRanker((70, grades), output="tanh", half_life=0,
surrogate=squared(output="tanh", pairs="neighbours", pair_weight="none"))`.
*Written again*: the same network in numpy, from the paper alone. [DR] does not say how
weights begin: in the first layer and the output at {FIRST_WEIGHTS:g} of Glorot's size, as the library's do, and in the last
column at all of it. *Difference*: *to the letter* less *written again*, paired by world.

{table(header, rows)}
"""


def evaluate(model: Ranker, test: Documents, y: np.ndarray) -> tuple[float, float]:
    """NDCG@10 and MAP."""
    ndcg, ap = NDCG(k=10), MAP()
    scores = model.predict_many(test.X, test.qid)
    for start, stop in itertools.pairwise(offsets_of(test)):
        ndcg.update(y[start:stop], scores[start:stop])
        ap.update(y[start:stop], scores[start:stop])
    return ndcg.get(), ap.get()


MODELS: dict[str, tuple[Callable[[int], Ranker], int]] = {
    "DirectRanker, one pass": (lambda seed: StreamScaler() | DirectRanker(seed=seed), 1),
    "DirectRanker, three passes": (lambda seed: StreamScaler() | DirectRanker(seed=seed), 3),
    "DirectRanker behind StreamQuantileMap, one pass": (lambda seed: StreamQuantileMap() | DirectRanker(seed=seed), 1),
    "DirectRanker(output='tanh'), one pass": (lambda seed: StreamScaler() | DirectRanker(output="tanh", seed=seed), 1),
    "DirectRanker, [DR] to the letter, one pass": (lambda seed: StreamScaler() | DirectRanker(**TO_THE_LETTER, seed=seed), 1),
    "DirectRanker, cost of [DR], one pass": (lambda seed: StreamScaler() | DirectRanker(**COST_OF_THE_PAPER, seed=seed), 1),
    "RankNet (surrogate='logistic', output='half_tanh'), one pass": (
        lambda seed: StreamScaler() | DirectRanker(surrogate="logistic", output="half_tanh", seed=seed),
        1,
    ),
    "ListNet (surrogate='listnet'), one pass": (lambda seed: StreamScaler() | DirectRanker(surrogate="listnet", seed=seed), 1),
    "LambdaRank (surrogate='lambdarank'), one pass": (
        lambda seed: StreamScaler() | DirectRanker(surrogate="lambdarank", seed=seed),
        1,
    ),
    "GradientRanker, raw features, one pass": (lambda seed: GradientRanker(), 1),
    "GradientRanker, features times 10^-6 to 10^6, one pass": (lambda seed: GradientRanker(), 1),
}
PUBLISHED = {"DirectRanker, three passes": ("0.720", "0.636")}


def mq2008(shuffles: int) -> str:
    """NDCG@10 and MAP, mean of five folds, graded and binarised."""
    data = list(folds(data_folder() / MQ2008))
    rows = []
    for name, (make, passes) in MODELS.items():
        cells = [name]
        for binarised in (False, True):
            results = []
            for fold, seed in itertools.product(data, range(shuffles)):
                factor = 10.0 ** (np.arange(fold.train.X.shape[1]) % 13 - 6) if "10^" in name else 1.0
                model = make(seed)
                for p in range(passes):
                    X, y, qid = shuffled(fold.train, seed + 1000 * p)
                    model.learn_many(X * factor, np.minimum(y, 1) if binarised else y, qid)
                test = fold.test._replace(X=fold.test.X * factor)
                results.append(evaluate(model, test, np.minimum(test.y, 1) if binarised else test.y))
            cells += [f"{statistics.mean(values):.3f}" for values in zip(*results, strict=True)]
        rows.append((*cells, *PUBLISHED.get(name, ("", ""))))
    header = (
        "MQ2008, mean of 5 folds", "NDCG@10, graded", "MAP, graded", "NDCG@10, binarised", "MAP, binarised",
        "NDCG@10, published [DR]", "MAP, published [DR]",
    )  # fmt: skip
    return f"""## MQ2008

{shuffles} orders of the training queries. The *published* values are from [DR]: binarised grades, features mapped to a
normal by a batch quantile transform, many epochs, and settings found by grid search; they were not measured here.

{table(header, rows)}
"""


def cost_of_a_query(repetitions: int = 60) -> str:
    """One learn_one compared with the matrix products it consists of, interleaved; the best of many batches."""
    rows = []
    for dtype, threads in itertools.product(("float32", "float64"), (1, None)):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(120, 136)).astype(dtype), rng.choice(5, 120, p=[0.5, 0.3, 0.1, 0.07, 0.03])
        model = DirectRanker(dtype=dtype, seed=0)
        model.learn_one(X, y)
        W1, W2, w = (rng.normal(size=size).astype(dtype) for size in ((136, 70), (70, 5), 5))
        H1, H2, D1, D2 = (rng.normal(size=size).astype(dtype) for size in ((120, 70), (120, 5), (120, 70), (120, 5)))
        G1, G2 = np.empty_like(W1), np.empty_like(W2)

        def products() -> None:
            np.matmul(X, W1, out=H1)  # noqa: B023
            np.matmul(H1, W2, out=H2)  # noqa: B023
            np.matmul(H2, w)  # noqa: B023
            np.matmul(H1.T, D2, out=G2)  # noqa: B023
            np.matmul(D2, W2.T, out=D1)  # noqa: B023
            np.matmul(X.T, D1, out=G1)  # noqa: B023

        with threadpool_limits(threads):
            learning, scoring = functools.partial(model.learn_one, X, y), functools.partial(model.predict_one, X)
            pairs = [(seconds_of(products, 0.0, 30), seconds_of(learning, 0.0, 30)) for _ in range(repetitions)]
            shortest = min(seconds_of(scoring, 0.0, 30) for _ in range(repetitions))
        product, learn = (min(times) for times in zip(*pairs, strict=True))
        middle = statistics.median(b / a for a, b in pairs)
        rows.append(
            (
                f"{dtype}, {'one BLAS thread' if threads else 'BLAS threads as they come'}",
                *(f"{1e6 * t:.0f}" for t in (product, learn, shortest)),
                f"{learn / product:.2f}",
                f"{middle:.2f}",
            )
        )
    header = ("120 x 136, hidden (70, 5)", "products, µs", "learn_one, µs", "predict_one, µs", "ratio of best", "median ratio")
    return f"""## What a query costs

`learn_one` compared with the six BLAS products of its forward and backward pass (numpy, preallocated), in turns. *Ratio of
best*: fastest `learn_one` over fastest products. `predict_one` does not go through BLAS, so that a score depends on its
document alone.

{table(header, rows)}
"""


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--paper", action="store_true", help="10^5 training documents, as in [DR]")
    arguments.add_argument("--repetitions", type=int, default=5)
    arguments.add_argument("--shuffles", type=int, default=5)
    parts = ("time", "sensitivity", "noise", "gaps", "web", "mq2008")
    arguments.add_argument("--only", nargs="+", choices=parts, default=parts)
    chosen = arguments.parse_args()
    RESULTS.mkdir(exist_ok=True)
    n_documents = 100_000 if chosen.paper else 30_000
    run: dict[str, Callable[[], str]] = {
        "time": cost_of_a_query,
        "sensitivity": lambda: sensitivity(n_documents, chosen.repetitions),
        "noise": lambda: noise(n_documents, chosen.repetitions),
        "gaps": lambda: _direct_gaps.on_gaussians(*synthetic(0, n_documents)),
        "web": _direct_gaps.on_web_data,
        "mq2008": lambda: mq2008(chosen.shuffles),
    }
    sections = [run[part]() for part in chosen.only]
    whole = len(chosen.only) == len(parts)
    save("direct_ranker", "\n".join((f"# DirectRanker\n\n{environment('scipy')}\n", *sections)), part=not whole)


if __name__ == "__main__":
    main()
