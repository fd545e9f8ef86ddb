"""How fast, how small and how good is learning from millions of sparse features, compared with other libraries?

`python -m benchmarks.sparse` learns queries of Zipf text (`_zipf.py`) at 10^5 and 10^6 words, by everybody in turn, and writes
benchmarks/results/sparse.md.
"""

import importlib.util
import itertools
import multiprocessing
import statistics
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks._common import environment, parser, save, table
from benchmarks._timing import interleaved, megabytes
from benchmarks._zipf import ZipfText
from online_rank import PerceptronRanker
from online_rank._kernels.sparse import score_with_norms
from online_rank.metrics import NDCG
from online_rank.query import SparseRows
from online_rank.support.progress import progress

PAIRS = 100
BITS = 22


class Texts(NamedTuple):
    """Queries to learn from, held-out ones, and a folder for files made of them."""

    X: SparseRows
    y: np.ndarray
    qid: np.ndarray
    held_out: SparseRows
    held_out_y: np.ndarray
    m: int
    folder: Path

    @property
    def n_queries(self) -> int:
        return len(self.y) // self.m

    @property
    def n_words(self) -> int:
        return self.X.n_columns

    def first(self, n_queries: int) -> "Texts":
        """The first queries to learn from."""
        n = min(n_queries, self.n_queries) * self.m
        return self._replace(X=self.X.rows(0, n), y=self.y[:n], qid=self.qid[:n])

    def queries(self) -> list[tuple[SparseRows, np.ndarray]]:
        """(X, y) of each query to learn from."""
        bounds = range(0, len(self.y) + 1, self.m)
        return [(self.X.rows(a, b), self.y[a:b]) for a, b in itertools.pairwise(bounds)]

    def ndcg(self, scores: np.ndarray) -> float:
        """NDCG@10 of the held-out queries."""
        metric = NDCG(k=10)
        for a in range(0, len(scores), self.m):
            metric.update(self.held_out_y[a : a + self.m], scores[a : a + self.m])
        return metric.get()


#: A pass over the queries; returns the scores of the held-out documents, made when they are asked for.
Pass = Callable[[], Callable[[], np.ndarray]]


class Contestant(NamedTuple):
    """Who learns how; `queries` limits how many are learned, for the slow."""

    name: str
    prepare: Callable[[Texts], Pass]
    remark: str = ""
    queries: int | None = None


def gather(data: Texts) -> Pass:
    w, scores = np.random.default_rng(0).standard_normal(data.n_words), np.empty(len(data.y))

    def run() -> Callable[[], np.ndarray]:
        score_with_norms(data.X, w[:, None], scores)
        return lambda: np.full(len(data.held_out_y), np.nan)

    return run


def rows(**settings: Any) -> Callable[[Texts], Pass]:
    """A perceptron on rows, a block at once."""

    def prepare(data: Texts) -> Pass:
        def run() -> Callable[[], np.ndarray]:
            model = PerceptronRanker(**settings)
            model.learn_many(data.X, data.y, data.qid)
            return lambda: model.predict_many(data.held_out)

        return run

    return prepare


def as_dicts(X: SparseRows) -> list[dict[str, float]]:
    """Documents as feature dicts; every name is a separate object, as a parser would make it."""
    features = [(f"word{j}", value) for j, value in zip(X.columns.tolist(), X.values.tolist(), strict=True)]
    return [dict(features[a:b]) for a, b in itertools.pairwise(X.starts.tolist())]


def vowpal_wabbit(data: Texts) -> Pass:
    """Cost-sensitive one-against-all with label-dependent features, from a cache; the cost is 4 - grade."""
    from vowpalwabbit import Workspace

    text = data.folder / "train.vw"
    cache, used = text.with_suffix(".cache"), np.unique(data.held_out.columns)
    write_vw(text, data.X, data.y, data.m)
    Workspace(f"--csoaa_ldf m -b {BITS} -d {text} --cache_file {cache} --quiet").finish()

    def run() -> Callable[[], np.ndarray]:
        model = Workspace(f"--csoaa_ldf m -b {BITS} --passes 1 --cache_file {cache} --quiet")

        def score() -> np.ndarray:
            w = np.zeros(data.n_words)
            w[used] = [-model.get_weight_from_name(f"w{j}") for j in used.tolist()]
            model.finish()
            return scores_by(w, data)

        return score

    return run


def write_vw(path: Path, X: SparseRows, y: np.ndarray, m: int) -> None:
    features = [f"w{j}:{x:.6g}" for j, x in zip(X.columns.tolist(), X.values.tolist(), strict=True)]
    with path.open("w") as file:
        for i, (a, b) in enumerate(itertools.pairwise(X.starts.tolist())):
            file.write(f"1:{4 - y[i]} | {' '.join(features[a:b])}\n" + ("\n" if (i + 1) % m == 0 else ""))


def scores_by(w: np.ndarray, data: Texts) -> np.ndarray:
    scores, X = np.empty(len(data.held_out_y)), data.held_out
    score_with_norms(X, w[:, None], scores)
    return scores


def pairs(data: Texts) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each query the documents (better, worse) of pairs with different grades."""
    rng, drawn = np.random.default_rng(0), []
    for a in range(0, len(data.y), data.m):
        i, j = a + rng.integers(data.m, size=(2, 10 * PAIRS))
        kept = np.flatnonzero(data.y[i] > data.y[j])[:PAIRS]
        drawn.append((i[kept], j[kept]))
    return drawn


def scikit_learn(data: Texts) -> Pass:
    from scipy.sparse import csr_array
    from sklearn.linear_model import SGDClassifier

    X = csr_array((data.X.values, data.X.columns, data.X.starts.astype(np.int32)), shape=data.X.shape)
    drawn = pairs(data)

    def run() -> Callable[[], np.ndarray]:
        model = SGDClassifier(loss="log_loss", random_state=0)
        for better, worse in drawn:
            D = X[better] - X[worse]
            D[1::2] *= -1.0
            model.partial_fit(D, np.arange(len(better)) % 2 == 0, classes=[False, True])
        return lambda: scores_by(model.coef_[0], data)

    return run


def river(data: Texts) -> Pass:
    from river.linear_model import LogisticRegression

    documents, drawn = as_dicts(data.X), pairs(data)

    def run() -> Callable[[], np.ndarray]:
        model = LogisticRegression()
        for better, worse in drawn:
            for t, (i, j) in enumerate(zip(better.tolist(), worse.tolist(), strict=True)):
                sign = 1.0 if t % 2 == 0 else -1.0
                x = {name: sign * value for name, value in documents[i].items()}
                for name, value in documents[j].items():
                    x[name] = x.get(name, 0.0) - sign * value
                model.learn_one(x, t % 2 == 0)
        w = np.zeros(data.n_words)
        for name, value in model.weights.items():
            w[int(name.removeprefix("word"))] = value
        return lambda: scores_by(w, data)

    return run


GATHER = "one gather pass of the scores"
CONTESTANTS = [
    Contestant(GATHER, gather, "the limit"),
    Contestant("spread, rows", rows(credit="spread"), "`learn_many`"),
    Contestant("adaptive, rows", rows(), "the default"),
    Contestant("sort, rows", rows(credit="sort")),
    Contestant("Vowpal Wabbit --csoaa_ldf m, cache", vowpal_wabbit, "cost 4 - grade"),
    Contestant("scikit-learn SGDClassifier, CSR pairs", scikit_learn, f"{PAIRS} pairs a query", 100),
    Contestant("river LogisticRegression, dict pairs", river, f"{PAIRS} pairs a query", 10),
]
#: What a contestant needs in addition to this library.
NEEDS = {"Vowpal": "vowpalwabbit", "scikit-learn": "sklearn"}


def generated(n_words: int, n_queries: int, n_held_out: int, folder: Path) -> Texts:
    """Queries of Zipf text."""
    X, y, qid = ZipfText(n_queries + n_held_out, n_words=n_words).block()
    n, m = n_queries * 100, 100
    return Texts(X.rows(0, n), y[:n], qid[:n], X.rows(n, len(y)), y[n:], m, folder)


def present(contestant: Contestant) -> bool:
    """Whether what a contestant needs is installed."""
    needed = next((module for start, module in NEEDS.items() if contestant.name.startswith(start)), None)
    return needed is None or importlib.util.find_spec(needed) is not None


def alone(run: Pass, data: Texts, pipe: Any) -> None:
    """One pass in a separate process: NDCG@10, and the memory that the pass took."""
    before = megabytes("VmHWM")
    scores = run()
    memory = megabytes("VmHWM") - before
    pipe.send((data.ndcg(scores()), memory))


def measured(run: Pass, data: Texts) -> tuple[float, float]:
    """NDCG@10 and megabytes of one pass."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=alone, args=(run, data, there))
    process.start()
    answer = here.recv()
    process.join()
    return answer


def compare(data: Texts, rounds: int, only: list[str] | None) -> list[tuple]:
    """A row for each contestant."""
    found: dict[str, tuple[Pass, Texts, float, float]] = {}
    chosen = [c for c in CONTESTANTS if c.name == GATHER or only is None or any(part in c.name for part in only)]
    with progress("sparse", len(chosen), "contestants") as show:
        for k, contestant in enumerate(chosen):
            if present(contestant):
                part = data if contestant.queries is None else data.first(contestant.queries)
                run = contestant.prepare(part)
                run()
                ndcg, memory = (np.nan, np.nan) if contestant.name == GATHER else measured(run, data)
                found[contestant.name] = run, part, ndcg, memory
            show(k + 1)
    seconds = interleaved({name: run for name, (run, *_) in found.items()}, rounds)
    a_value = {name: statistics.median(seconds[name]) / len(part.X.values) * 1e9 for name, (_, part, *_) in found.items()}
    lines = []
    for contestant in chosen:
        name = contestant.name
        if name not in found:
            lines.append((name, "", "", "", "", "not installed"))
            continue
        _, _, ndcg, memory = found[name]
        shown = ("", "") if np.isnan(ndcg) else (f"{ndcg:.4f}", f"{memory:.0f}")
        lines.append((name, f"{a_value[name] / a_value[GATHER]:.2f}", f"{a_value[name]:.1f}", *shown, contestant.remark))
    return lines


def report(parts: dict[str, list[tuple]], options: Any) -> str:
    header = ["", "time / gather pass", "ns a non-zero", "NDCG@10", "memory, MB", "remark"]
    sections = "\n\n".join(f"## {title}\n\n{table(header, lines)}" for title, lines in parts.items())
    return f"""# Sparse features

One pass over {options.queries} queries of 100 documents with about 150 words each, by contestants in turn on one thread;
medians of {options.rounds} passes. NDCG@10 is of {options.held_out} held-out queries. Memory is by how much the largest memory
of a process grows in a pass. Credits are settings of `PerceptronRanker`; `adaptive` and `sort` go with mass="sqrt" and
relative_margin=0.3. Peers have their default settings, nothing is tuned.
{environment()}.
`python -m benchmarks.sparse`

{sections}

The gather pass reads one weight of 8 bytes for each word that is there, and adds up the scores: no learner can take less.
"""


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--words", type=float, nargs="*", default=[1e5, 1e6])
    arguments.add_argument("--queries", type=int, default=400)
    arguments.add_argument("--held-out", type=int, default=150)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--only", nargs="*", help="parts of the names of contestants")
    options = arguments.parse_args()
    warnings.filterwarnings("ignore", "credit='spread'")
    parts = {}
    for n_words in options.words:
        with tempfile.TemporaryDirectory() as folder:
            data = generated(int(n_words), options.queries, options.held_out, Path(folder))
            parts[f"{data.n_words:,} words"] = compare(data, options.rounds, options.only)
            # Written each time, so that an interruption loses little.
            save("sparse", report(parts, options))


if __name__ == "__main__":
    main()
