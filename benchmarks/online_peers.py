"""How well do online learners of other libraries rank after one pass over real data, with options that their users would take?

    python -m benchmarks.online_peers [FOLDER ...] [--orders 5]

FOLDER: as `benchmarks._data.folds` reads it; without one, the sets in `../shared/data`. All learners get each training query
once, in the same random orders. river and scikit-learn learn the differences of at most 120 random pairs of documents with
different grades of a query, raw or standardised by the library's own scaler as it learns. Vowpal Wabbit learns the query as a
cost-sensitive example, with cost 4 - grade. Differences are to `AdditiveRanker()`, paired over the held-out queries.
"""

import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks._common import environment, parser, save, table
from benchmarks._contestants import PAIRS
from benchmarks._data import LIGHTGBM, MQ2008, Fold, folds, known_folders, offsets_of, shuffled
from benchmarks.quality import each_ndcg
from online_rank import AdditiveRanker, PerceptronRanker, StreamScaler
from online_rank.evaluate import Spread

REFERENCE = "AdditiveRanker()"


class Learner(Protocol):
    """An online learner of queries."""

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        """Learn one query."""

    def score(self, X: np.ndarray) -> np.ndarray:
        """The scores (m,) of documents."""


class Ours:
    """A ranker of this library."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        self.model.learn_one(X, y)

    def score(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.model.predict_one(X))


class OnPairs:
    """A classifier of another library, which learns which document of a pair is the better one."""

    def __init__(self, classifier: Any, *, scaled: bool, rng: np.random.Generator) -> None:
        self.classifier, self.rng = classifier, rng
        self.scaler = self._scaler() if scaled else None

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        X = self._scaled(X, learned=True)
        i, j = (np.concatenate(ends) for ends in zip(*(np.nonzero(y[:, None] > y), np.nonzero(y[:, None] < y)), strict=True))
        chosen = self.rng.permutation(len(i))[:PAIRS]
        if len(chosen):
            self._learn_pairs(X[i[chosen]] - X[j[chosen]], y[i[chosen]] > y[j[chosen]])

    def score(self, X: np.ndarray) -> np.ndarray:
        return self._scaled(X) @ self._weights(X.shape[1])


class River(OnPairs):
    """river's logistic regression, by its calls for frames."""

    def _scaler(self) -> Any:
        from river.preprocessing import StandardScaler

        return StandardScaler()

    def _scaled(self, X: np.ndarray, learned: bool = False) -> np.ndarray:
        if self.scaler is None:
            return X
        # By documents: a variance that frames round to less than 0 is an error.
        documents = [dict(enumerate(x)) for x in X.tolist()]
        for document in documents if learned else ():
            self.scaler.learn_one(document)
        return np.array([[*self.scaler.transform_one(document).values()] for document in documents])

    def _learn_pairs(self, D: np.ndarray, better: np.ndarray) -> None:
        import pandas as pd

        self.classifier.learn_many(_frame(D), pd.Series(better))

    def _weights(self, d: int) -> np.ndarray:
        return np.array([self.classifier.weights.get(str(k), 0.0) for k in range(d)])


def _frame(X: np.ndarray) -> Any:
    import pandas as pd

    return pd.DataFrame(X, columns=[*map(str, range(X.shape[1]))])


class ScikitLearn(OnPairs):
    """scikit-learn's linear classifier."""

    def _scaler(self) -> Any:
        from sklearn.preprocessing import StandardScaler

        return StandardScaler()

    def _scaled(self, X: np.ndarray, learned: bool = False) -> np.ndarray:
        if self.scaler is None:
            return X
        return (self.scaler.partial_fit(X) if learned else self.scaler).transform(X)

    def _learn_pairs(self, D: np.ndarray, better: np.ndarray) -> None:
        self.classifier.partial_fit(D, better, classes=[False, True])

    def _weights(self, d: int) -> np.ndarray:
        return self.classifier.coef_[0]


class Wabbit:
    """Vowpal Wabbit's cost-sensitive one-against-all with features of labels."""

    def __init__(self, options: str) -> None:
        from vowpalwabbit import Workspace

        self.model = Workspace(f"--csoaa_ldf m {options} --quiet")

    def learn(self, X: np.ndarray, y: np.ndarray) -> None:
        self.model.learn([f"{k}:{4 - g} | {_row(x)}" for k, (x, g) in enumerate(zip(X.tolist(), y.tolist(), strict=True), 1)])

    def score(self, X: np.ndarray) -> np.ndarray:
        return -X @ np.array([self.model.get_weight_from_name(str(j)) for j in range(X.shape[1])])


def _row(x: list[float]) -> str:
    return " ".join(f"{j}:{value:.6g}" for j, value in enumerate(x) if value)


def _river(optimizer: str | None, scaled: bool) -> Callable[[np.random.Generator], Learner]:
    def make(rng: np.random.Generator) -> Learner:
        from river import optim
        from river.linear_model import LogisticRegression

        return River(LogisticRegression(optimizer and getattr(optim, optimizer)()), scaled=scaled, rng=rng)

    return make


def _scikit(scaled: bool, **options: Any) -> Callable[[np.random.Generator], Learner]:
    def make(rng: np.random.Generator) -> Learner:
        from sklearn.linear_model import SGDClassifier

        return ScikitLearn(SGDClassifier(loss="log_loss", random_state=0, **options), scaled=scaled, rng=rng)

    return make


CONTESTANTS: dict[str, Callable[[np.random.Generator], Learner]] = {
    REFERENCE: lambda rng: Ours(AdditiveRanker()),
    "StreamScaler() | PerceptronRanker()": lambda rng: Ours(StreamScaler() | PerceptronRanker()),
    "river LogisticRegression(), raw": _river(None, scaled=False),
    "river StandardScaler | LogisticRegression()": _river(None, scaled=True),
    "river StandardScaler | LogisticRegression(Adam)": _river("Adam", scaled=True),
    "river StandardScaler | LogisticRegression(AdaGrad)": _river("AdaGrad", scaled=True),
    "scikit-learn SGDClassifier, raw": _scikit(scaled=False),
    "scikit-learn SGDClassifier(average=True), raw": _scikit(scaled=False, average=True),
    "scikit-learn StandardScaler, SGDClassifier": _scikit(scaled=True),
    "scikit-learn StandardScaler, SGDClassifier(average=True)": _scikit(scaled=True, average=True),
    "Vowpal Wabbit --csoaa_ldf m": lambda rng: Wabbit(""),
}


def one_pass(name: str, fold: Fold, order: int) -> np.ndarray:
    """NDCG@10 of each held-out query after one pass in a random order; NaN for a query without a relevant document."""
    learner, (X, y, qid) = CONTESTANTS[name](np.random.default_rng(order)), shuffled(fold.train, order)
    bounds = np.concatenate(([0], np.flatnonzero(np.diff(qid)) + 1, [len(y)]))
    for a, b in itertools.pairwise(bounds.tolist()):
        learner.learn(X[a:b], y[a:b])
    held_out = itertools.pairwise(offsets_of(fold.test).tolist())
    return each_ndcg(np.concatenate([learner.score(fold.test.X[a:b]) for a, b in held_out]), fold.test)


def values_of(name: str, parts: list[Fold], orders: int) -> np.ndarray:
    """NDCG@10 of every held-out query of all folds, (orders, queries)."""
    return np.array([np.concatenate([one_pass(name, fold, order) for fold in parts]) for order in range(orders)])


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    arguments.add_argument("--orders", type=int, default=5)
    chosen = arguments.parse_args()
    header, rows = ["NDCG@10, one pass"], {name: [name.replace("|", r"\|")] for name in CONTESTANTS}
    for folder in chosen.folders or known_folders(MQ2008, LIGHTGBM):
        header += [folder.name, f"{folder.name}, each order", f"{folder.name}, difference"]
        parts, reference = list(folds(folder)), np.empty(0)
        for name in CONTESTANTS:
            start = time.process_time()
            values = values_of(name, parts, chosen.orders)
            mean = values.mean(axis=0)
            reference = mean if name == REFERENCE else reference
            compared = "" if name == REFERENCE else f"{Spread.of(mean - reference):+.4f}"
            each = " / ".join(f"{value:.4f}" for value in np.nanmean(values, axis=1))
            rows[name] += [f"{np.nanmean(mean):.4f}", each, compared]
            print(f"{folder.name}: {name} {each}, {time.process_time() - start:.0f} s", file=sys.stderr, flush=True)
    save(
        "online_peers",
        f"""# Online learners after one pass over real data

NDCG@10 on held-out queries: mean over folds and {chosen.orders} orders of the training queries, the value of each order, and
the difference to `{REFERENCE}` ± standard error, paired over queries. river and scikit-learn learn at most {PAIRS} random
pairs of each query. {environment("scikit-learn", "vowpalwabbit")}

{table(header, rows.values())}
""",
    )


if __name__ == "__main__":
    main()
