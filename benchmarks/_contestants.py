"""Who takes part in `benchmarks.throughput`: the limits, the rankers of this package, and what people would use instead.

A contestant prepares what is not timed and answers with a *pass*: a function that learns once from every query, in order, and
answers with a function that scores documents (None for a limit, which learns nothing).
"""

import importlib.util
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks._data import Queries
from benchmarks._models import LambdaMART
from online_rank import GradientRanker, PerceptronRanker, StreamScaler
from online_rank.base import Ranker

PAIRS = 120
TREES = 100

Score = Callable[[np.ndarray], Any]
Pass = Callable[[], Score | None]


class Contestant(NamedTuple):
    """Who, how, and on how many queries."""

    name: str
    prepare: Callable[[Queries], Pass]
    remark: str = ""
    module: str = "online_rank"
    """What must be importable."""
    timed: int = 1_000_000
    """The most queries that are timed: it is slow."""
    learned: int = 1_000_000
    """The most queries that are learned before NDCG@10 is measured: it is very slow."""
    streams: int = 5
    """The number of synthetic streams, over which NDCG@10 is averaged."""

    @property
    def missing(self) -> bool:
        """Whether what it needs is not installed."""
        return importlib.util.find_spec(self.module) is None


# The limits: what it costs to look at the features, without learning anything.


def one_product(data: Queries) -> Pass:
    """X @ w of the whole block at once."""
    w = np.linspace(-1, 1, data.X.shape[1])

    def run() -> None:
        data.X @ w

    return run


# This package.


def learn_many(make: Callable[[], Ranker]) -> Callable[[Queries], Pass]:
    def prepare(data: Queries) -> Pass:
        qid = data.qid

        def run() -> Score:
            model = make()
            model.learn_many(data.X, data.y, qid)
            return model.predict_many

        return run

    return prepare


def learn_one(data: Queries) -> Pass:
    queries = data.queries()

    def run() -> Score:
        model = PerceptronRanker()
        for X, y in queries:
            model.learn_one(X, y)
        return model.predict_many

    return run


def scaled_perceptron() -> Ranker:
    return StreamScaler() | PerceptronRanker()


def direct_ranker() -> Ranker:
    from online_rank.rankers.direct import DirectRanker

    return DirectRanker(seed=0)


# Learners of single examples, on differences of two documents of different grades.


def pairs(data: Queries) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """For each query with two grades, 120 random pairs: the rows i, the rows j, and whether i is the better one."""
    rng = np.random.default_rng(0)
    drawn = []
    for a, b in itertools.pairwise(data.offsets):
        y = data.y[a:b]
        if len(np.unique(y)) > 1:
            i, j = rng.integers(b - a, size=(2, 40 * PAIRS))
            kept = np.flatnonzero(y[i] != y[j])[:PAIRS]
            i, j = i[kept], j[kept]
            drawn.append((a + i, a + j, y[i] > y[j]))
    return drawn


def differences(data: Queries) -> Callable[[], Iterator[tuple[np.ndarray, np.ndarray]]]:
    """Pairs are drawn beforehand; their differences are taken in the timed pass, as on a stream."""
    drawn = pairs(data)
    return lambda: ((data.X[i] - data.X[j], better) for i, j, better in drawn)


def river_dicts(data: Queries) -> Pass:
    from river.linear_model import LogisticRegression

    examples, names = differences(data), [str(j) for j in range(data.X.shape[1])]

    def run() -> Score:
        model = LogisticRegression()
        for D, better in examples():
            for row, target in zip(D.tolist(), better.tolist(), strict=True):
                model.learn_one(dict(zip(names, row, strict=True)), target)
        w = np.array([model.weights.get(name, 0.0) for name in names])
        return lambda X: X @ w

    return run


def river_frames(data: Queries) -> Pass:
    import pandas as pd
    from river.linear_model import LogisticRegression

    examples, names = differences(data), [str(j) for j in range(data.X.shape[1])]

    def run() -> Score:
        model = LogisticRegression()
        for D, better in examples():
            model.learn_many(pd.DataFrame(D, columns=names), pd.Series(better))
        w = np.array([model.weights.get(name, 0.0) for name in names])
        return lambda X: X @ w

    return run


def scikit_learn(data: Queries) -> Pass:
    from sklearn.linear_model import SGDClassifier

    examples = differences(data)

    def run() -> Score:
        model = SGDClassifier(loss="log_loss", random_state=0)
        for D, better in examples():
            model.partial_fit(D, better, classes=[False, True])
        w = model.coef_[0]
        return lambda X: X @ w

    return run


def vowpal_wabbit(reduction: str) -> Callable[[Queries], Pass]:
    """Cost-sensitive one-against-all with label-dependent features, read from VW's binary cache; the cost is 4 - grade."""

    def prepare(data: Queries) -> Pass:
        from vowpalwabbit import Workspace

        text = data.folder / f"{data.n_queries}.txt"
        cache = text.with_suffix(".cache")
        if not cache.exists():
            row = " ".join(f"{j}:%.6g" for j in range(data.X.shape[1]))
            with text.open("w") as file:
                for X, y in data.queries():
                    file.writelines(f"1:{4 - g} | {row % tuple(x)}\n" for x, g in zip(X.tolist(), y.tolist(), strict=True))
                    file.write("\n")
            Workspace(f"{reduction} -d {text} --cache_file {cache} --quiet").finish()
            text.unlink()

        def run() -> Score:
            model = Workspace(f"{reduction} --passes 1 --cache_file {cache} --quiet")
            w = np.array([model.get_weight_from_name(str(j)) for j in range(data.X.shape[1])])
            model.finish()
            return lambda X: X @ -w

        return run

    return prepare


# Batch learners: a pass is a whole training.


def lightgbm(data: Queries) -> Pass:
    def run() -> Score:
        model = LambdaMART(n_estimators=TREES, n_jobs=1)
        model.learn_many(data.X, data.y, data.qid)
        return model.predict_many

    return run


def xgboost(data: Queries) -> Pass:
    from xgboost import XGBRanker

    def run() -> Score:
        model = XGBRanker(objective="rank:ndcg", n_estimators=TREES, n_jobs=1)
        model.fit(data.X, data.y, qid=data.qid)
        return model.predict

    return run


def argmax() -> Ranker:
    return PerceptronRanker(credit="argmax")


def spread() -> Ranker:
    return PerceptronRanker(credit="spread")


def adagrad() -> Ranker:
    return GradientRanker(optimizer="adagrad")


LIMIT = "X @ w, the whole block at once"

VW_REMARK = "from its cache; cost 4 - grade"
BATCH = f"batch, {TREES} trees"

CONTESTANTS = [
    Contestant(LIMIT, one_product, "the limit"),
    Contestant("PerceptronRanker(credit='argmax'), learn_many", learn_many(argmax)),
    Contestant("PerceptronRanker(credit='spread'), learn_many", learn_many(spread)),
    Contestant("PerceptronRanker(), learn_many", learn_many(PerceptronRanker), "adaptive"),
    Contestant("PerceptronRanker(), learn_one", learn_one, "a Python loop"),
    Contestant("StreamScaler() \\| PerceptronRanker(), learn_many", learn_many(scaled_perceptron)),
    Contestant("GradientRanker(), learn_many", learn_many(GradientRanker)),
    Contestant("GradientRanker(optimizer='adagrad'), learn_many", learn_many(adagrad)),
    Contestant("DirectRanker(), learn_many", learn_many(direct_ranker), "a network", "online_rank.rankers.direct"),
    Contestant("river LogisticRegression, learn_one, 120 pairs", river_dicts, "dicts", "river", timed=100),
    Contestant("river LogisticRegression, learn_many, 120 pairs", river_frames, "frames", "pandas", 400),
    Contestant("scikit-learn SGDClassifier, partial_fit, 120 pairs", scikit_learn, "log loss", "sklearn", 400),
    Contestant("Vowpal Wabbit --csoaa_ldf m", vowpal_wabbit("--csoaa_ldf m"), VW_REMARK, "vowpalwabbit"),
    Contestant("Vowpal Wabbit --wap_ldf m", vowpal_wabbit("--wap_ldf m"), VW_REMARK, "vowpalwabbit", 20, 300),
    Contestant("LightGBM lambdarank", lightgbm, BATCH, "lightgbm", streams=1),
    Contestant("XGBoost rank:ndcg", xgboost, BATCH, "xgboost", streams=1),
]  # fmt: skip
