"""`online-rank demo hybrid`: retrievers over made-up documents, and users whose clicks teach how to fuse them."""

import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from online_rank import PlackettLuce, RunFeatures, Runs, SwapRanker
from online_rank.base import ranker_of
from online_rank.metrics import NDCG
from online_rank.rankers.fixed import FixedRanker
from online_rank.rankers.rules import rule_weights
from online_rank.stream.clicks import user

__all__ = ["RUNS", "Asked", "Search", "model", "run"]

#: The retrievers: BM25 of two columns by SQLite, cosine of vectors by NumPy, and the newest of the documents that match.
RUNS = ("title", "body", "vector", "newest")

_BARS = "▁▂▃▄▅▆▇█"
_WINDOWS = 40
_K = 10
_DEPTH = 50
_TOPICS, _SENSES, _DOCUMENTS, _DIMENSIONS = 12, 4, 800, 24
_SYLLABLES = ("ba", "de", "fi", "go", "ku", "la", "me", "no", "pi", "ra", "su", "ti", "vo", "we", "xa", "zu")


class Asked(NamedTuple):
    """A query.

    Attributes
    ----------
    text
        Its words.
    runs
        What the retrievers return.
    grades
        Of each candidate: 2 for documents of the same sense, 1 for others of the same topic.
    """

    text: str
    runs: Runs
    grades: dict[Any, int]


class Search:
    """A made-up collection, indexed twice: in an FTS5 table of SQLite, and as vectors.

    Each topic has words that all its documents use, and senses with words of their own, of which a document uses half: so
    vectors find documents that share no word with a query. Titles are short, and every other one advertises another topic.
    """

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        words = iter(rng.permutation([a + b + c for a in _SYLLABLES for b in _SYLLABLES for c in _SYLLABLES]).tolist())
        self._common = [next(words) for _ in range(60)]
        self._shared = [[next(words) for _ in range(5)] for _ in range(_TOPICS)]
        self._own = [[[next(words) for _ in range(10)] for _ in range(_SENSES)] for _ in range(_TOPICS)]
        self._about = [(int(rng.integers(_TOPICS)), int(rng.integers(_SENSES))) for _ in range(_DOCUMENTS)]
        self._ages = rng.exponential(size=_DOCUMENTS)
        texts = [self._written(rng, *about) for about in self._about]
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._database.execute("CREATE VIRTUAL TABLE documents USING fts5(title, body)")
        self._database.executemany("INSERT INTO documents(rowid, title, body) VALUES (?, ?, ?)", [
            (i, title, body) for i, (title, body) in enumerate(texts)
        ])  # fmt: skip
        self._index([f"{title} {body}".split() for title, body in texts])
        self._names = [f"{title} ({i})" for i, (title, _) in enumerate(texts)]
        self._place_of = {name: i for i, name in enumerate(self._names)}
        self._rng = rng

    def _written(self, rng: np.random.Generator, topic: int, sense: int) -> tuple[str, str]:
        """The title and the body of a document."""
        used = rng.permutation(self._own[topic][sense])[:5].tolist()
        body = rng.choice([*used * 3, *self._shared[topic] * 2, *self._common], 40).tolist()
        advertised = int(rng.integers(_TOPICS)) if rng.random() < 1 / 2 else topic
        title = [*rng.choice(self._shared[advertised], 2).tolist(), *rng.choice([*used, *self._common[:5]], 2).tolist()]
        return " ".join(title), " ".join(body)

    def _index(self, documents: list[list[str]]) -> None:
        """Vectors by latent semantic analysis: tf-idf, singular value decomposition."""
        self._place = {word: j for j, word in enumerate(sorted({word for document in documents for word in document}))}
        counts = np.zeros((len(documents), len(self._place)))
        for i, document in enumerate(documents):
            for word in document:
                counts[i, self._place[word]] += 1.0
        self._idf = np.log(len(documents) / (1.0 + (counts > 0.0).sum(axis=0)))
        _, _, axes = np.linalg.svd(np.log1p(counts) * self._idf, full_matrices=False)
        self._axes = axes[:_DIMENSIONS].T
        self._vectors = _of_length_1(np.log1p(counts) * self._idf @ self._axes)

    def __iter__(self) -> Iterator[Asked]:
        """Queries of two to four words of a sense, one of them shared by its topic, without end."""
        while True:
            topic, sense = int(self._rng.integers(_TOPICS)), int(self._rng.integers(_SENSES))
            own = self._rng.permutation(self._own[topic][sense])[: self._rng.integers(1, 4)].tolist()
            words = [str(self._rng.choice(self._shared[topic])), *own]
            runs = Runs(self._lists(words))
            about = {str(name): self._about[self._place_of[str(name)]] for name in runs.ids}
            grades = {name: 2 if found == (topic, sense) else int(found[0] == topic) for name, found in about.items()}
            yield Asked(" ".join(words), runs, grades)

    def _lists(self, words: list[str]) -> dict[Any, Any]:
        """What each retriever returns, best first."""
        either = " OR ".join(words)
        lists: dict[Any, Any] = {}
        for column in ("title", "body"):
            # SQLite's bm25() is smaller for better documents.
            found = self._database.execute(
                "SELECT rowid, -bm25(documents) AS score FROM documents WHERE documents MATCH ? "
                "ORDER BY score DESC, rowid LIMIT ?",
                (f"{column} : ({either})", _DEPTH),
            )
            lists[column] = [(self._names[i], score) for i, score in found]
        query = np.zeros(len(self._place))
        query[[self._place[word] for word in words if word in self._place]] = 1.0
        cosines = self._vectors @ _of_length_1((query * self._idf @ self._axes)[None])[0]
        best = np.argsort(-cosines, kind="stable")[:_DEPTH].tolist()
        lists["vector"] = [(self._names[i], float(cosines[i])) for i in best]
        matching = {self._place_of[d] for entries in lists.values() for d, _ in entries}
        newest = sorted(matching, key=lambda i: (self._ages[i], i))[:_DEPTH]
        lists["newest"] = [(self._names[i], -float(self._ages[i])) for i in newest]
        return lists


def _of_length_1(vectors: np.ndarray) -> np.ndarray:
    lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    return vectors / np.where(lengths > 0.0, lengths, 1.0)


def model(seed: int) -> Any:
    """A ranker that begins as the mean of min-max scores, shows lists drawn around it, and learns from their clicks."""
    ranker = SwapRanker.from_rule("minmax", RUNS, strength=1.0, wealth=10.0, policy=PlackettLuce(_K, seed=seed))
    return RunFeatures(RUNS, parts=("minmax",)) | ranker


def run(n_queries: int, seed: int) -> None:
    """Run the demonstration: live on a terminal, one table in a pipe."""
    console = Console(highlight=False)
    console.print(
        f"{_DOCUMENTS} made-up documents; BM25 of titles and of bodies by SQLite, vectors by NumPy, the newest.\n"
        "Today they are fused by the mean of min-max scores. Users click on what is shown; their clicks teach weights."
    )
    learner, window = _Learner(seed), max(1, -(-n_queries // _WINDOWS))
    starting = Text("Starting; the first run compiles.", style="dim")
    with Live(starting if console.is_terminal else "", console=console, refresh_per_second=12, transient=True) as live:
        for t, asked in zip(range(1, n_queries + 1), Search(seed), strict=False):
            learner.meet(asked, t, starts_window=(t - 1) % window == 0)
            if t % window == 0 and console.is_terminal:
                live.update(_screen(learner, t))
    console.print(_screen(learner, n_queries))
    console.print(
        "Next, your own retrievers: hybrid(['bm25', 'vector']) for grades, SwapRanker.from_rule for clicks: docs/hybrid.md.\n"
        "On a page: online-rank demo hybrid --live"
    )


class _Learner:
    """The model, its users, and how the greedy ranking does beside today's fusion."""

    def __init__(self, seed: int) -> None:
        self.model = model(seed)
        self.today = RunFeatures(RUNS, parts=("minmax",)) | FixedRanker(rule_weights("minmax", RUNS))
        self.user = user("navigational", max_grade=2, seed=seed)
        self.learned: list[NDCG] = []
        self.fixed: list[NDCG] = []

    def meet(self, asked: Asked, t: int, starts_window: bool) -> None:
        """Judge both rankings, show a list, let the user click, learn."""
        if starts_window:
            self.learned.append(NDCG(k=_K))
            self.fixed.append(NDCG(k=_K))
        self.learned[-1].update(asked.grades, self.model.predict_one(asked.runs))
        self.fixed[-1].update(asked.grades, self.today.predict_one(asked.runs))
        shown = self.model.show_one(asked.runs)
        self.model.learn_one(asked.runs, self.user.clicks(shown, asked.grades, t))


def _screen(learner: _Learner, t: int) -> Group:
    """The course of both rankings, and the weights of the retrievers beside today's."""
    values = [window.get() for window in (*learner.learned, *learner.fixed)]
    low, high = min(values, default=0.0), max(values, default=1.0)
    course = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    course.add_column("ranking")
    course.add_column(f"NDCG@{_K}, {low:.2f} to {high:.2f}")
    course.add_column("lately", justify="right", style="bold")
    for name, windows in (("learned from clicks", learner.learned), ("today's fusion", learner.fixed)):
        course.add_row(name, _sparkline([window.get() for window in windows], low, high), f"{windows[-1].get():.3f}")
    ranker = ranker_of(learner.model)
    known = dict(zip(ranker.feature_names, ranker.served_weights.tolist(), strict=True))
    total = sum(abs(value) for value in known.values()) or 1.0
    weights = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("retriever", "today", "learned"):
        weights.add_column(heading, justify="left" if heading == "retriever" else "right")
    for name in RUNS:
        weights.add_row(name, f"{1.0 / len(RUNS):.2f}", f"{known[f'{name} minmax'] / total:+.2f}")
    return Group("", course, weights, Text(f"{t:,} queries", style="dim"))


def _sparkline(values: list[float], low: float, high: float) -> Text:
    """A bar for each window of queries."""
    step = (high - low) / (len(_BARS) - 1) or 1.0
    return Text("".join(_BARS[int((value - low) / step + 0.5)] for value in values), style="cyan")
