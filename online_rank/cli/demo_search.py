"""What `online-rank demo hybrid` searches: made-up documents, or Cranfield, in SQLite and as vectors."""

import abc
import json
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from online_rank import Runs

__all__ = ["Asked", "Cranfield", "MadeUp", "Search", "search"]

_DEPTH = 50
_TOPICS, _SENSES, _DOCUMENTS = 12, 4, 800
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
        Of each candidate, from 0 to `Search.best`.
    """

    text: str
    runs: Runs
    grades: dict[Any, int]


class Search(abc.ABC):
    """Documents, indexed twice: in an FTS5 table of SQLite, and as vectors; and queries about them, without end.

    Parameters
    ----------
    texts
        Title and body of each document.
    names
        What the documents are called.
    dimensions
        Of the vectors.
    tokenizer
        That of SQLite.
    """

    #: The retrievers: BM25 of two columns by SQLite, cosine of vectors by NumPy, and what else there is.
    runs: tuple[str, ...] = ("title", "body", "vector")
    #: The largest grade.
    best: int
    #: What there is to search, in a sentence.
    about: str

    def __init__(self, texts: Sequence[tuple[str, str]], names: Sequence[str], dimensions: int, tokenizer: str) -> None:
        self._names = names
        self._place_of = {name: i for i, name in enumerate(names)}
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._database.execute(f"CREATE VIRTUAL TABLE documents USING fts5(title, body, tokenize='{tokenizer}')")
        self._database.executemany("INSERT INTO documents(rowid, title, body) VALUES (?, ?, ?)", [
            (i, title, body) for i, (title, body) in enumerate(texts)
        ])  # fmt: skip
        self._index([_words(f"{title} {body}") for title, body in texts], dimensions)

    @abc.abstractmethod
    def __iter__(self) -> Iterator[Asked]:
        """Queries, without end."""

    def _index(self, documents: list[list[str]], dimensions: int) -> None:
        """Vectors by latent semantic analysis: tf-idf, singular value decomposition."""
        self._place = {word: j for j, word in enumerate(sorted({word for document in documents for word in document}))}
        counts = np.zeros((len(documents), len(self._place)))
        for i, document in enumerate(documents):
            for word in document:
                counts[i, self._place[word]] += 1.0
        self._idf = np.log(len(documents) / (1.0 + (counts > 0.0).sum(axis=0)))
        weights = np.log1p(counts) * self._idf
        # The right singular vectors, from the products of documents, of which there are fewer than words.
        squares, left = np.linalg.eigh(weights @ weights.T)
        kept = np.argsort(-squares)[:dimensions]
        self._axes = weights.T @ left[:, kept] / np.sqrt(squares[kept])
        self._vectors = _of_length_1(weights @ self._axes)

    def _lists(self, words: list[str]) -> dict[str, Any]:
        """What each retriever returns, best first."""
        either = " OR ".join(f'"{word}"' for word in words)
        lists: dict[str, Any] = {}
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
        return lists


class MadeUp(Search):
    """A made-up collection; a fourth retriever returns the newest of the documents that match.

    Each topic has words that all its documents use, and senses with words of their own, of which a document uses half: so
    vectors find documents that share no word with a query. Titles are short, and every other one advertises another topic. A
    document of the sense of a query has grade 2, another one of its topic 1.
    """

    runs = ("title", "body", "vector", "newest")
    best = 2
    about = f"{_DOCUMENTS} made-up documents; BM25 of titles and of bodies by SQLite, vectors by NumPy, the newest."

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        words = iter(rng.permutation([a + b + c for a in _SYLLABLES for b in _SYLLABLES for c in _SYLLABLES]).tolist())
        self._common = [next(words) for _ in range(60)]
        self._shared = [[next(words) for _ in range(5)] for _ in range(_TOPICS)]
        self._own = [[[next(words) for _ in range(10)] for _ in range(_SENSES)] for _ in range(_TOPICS)]
        self._about = [(int(rng.integers(_TOPICS)), int(rng.integers(_SENSES))) for _ in range(_DOCUMENTS)]
        self._ages = rng.exponential(size=_DOCUMENTS)
        texts = [self._written(rng, *about) for about in self._about]
        super().__init__(texts, [f"{title} ({i})" for i, (title, _) in enumerate(texts)], 24, "unicode61")
        self._rng = rng

    def _written(self, rng: np.random.Generator, topic: int, sense: int) -> tuple[str, str]:
        """The title and the body of a document."""
        used = rng.permutation(self._own[topic][sense])[:5].tolist()
        body = rng.choice([*used * 3, *self._shared[topic] * 2, *self._common], 40).tolist()
        advertised = int(rng.integers(_TOPICS)) if rng.random() < 1 / 2 else topic
        title = [*rng.choice(self._shared[advertised], 2).tolist(), *rng.choice([*used, *self._common[:5]], 2).tolist()]
        return " ".join(title), " ".join(body)

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

    def _lists(self, words: list[str]) -> dict[str, Any]:
        lists = super()._lists(words)
        matching = {self._place_of[d] for entries in lists.values() for d, _ in entries}
        newest = sorted(matching, key=lambda i: (self._ages[i], i))[:_DEPTH]
        return lists | {"newest": [(self._names[i], -float(self._ages[i])) for i in newest]}


class Cranfield(Search):
    """The Cranfield collection: abstracts on aerodynamics, and questions with judgements, drawn at random.

    Parameters
    ----------
    folder
        With documents.jsonl, queries.jsonl and qrels.txt; a grade below 0 counts as 0.
    seed
        Of the order of the questions.
    """

    about = "Cranfield: 1,400 abstracts; BM25 of titles and of bodies by SQLite, vectors by NumPy."

    def __init__(self, folder: Path, seed: int = 0) -> None:
        documents = _lines_of(folder / "documents.jsonl")
        names = [f"{x['title'][:60]} ({x['id']})" for x in documents]
        super().__init__([(x["title"], x["body"]) for x in documents], names, 100, "porter")
        called = {x["id"]: name for x, name in zip(documents, names, strict=True)}
        self._questions = {x["id"]: x["text"] for x in _lines_of(folder / "queries.jsonl")}
        self._grades: dict[str, dict[str, int]] = {}
        for line in (folder / "qrels.txt").read_text(encoding="utf-8").splitlines():
            question, _, document, grade = line.split()
            self._grades.setdefault(question, {})[called[document]] = max(int(grade), 0)
        self.best = max(grade for grades in self._grades.values() for grade in grades.values())
        self._rng = np.random.default_rng(seed)

    def __iter__(self) -> Iterator[Asked]:
        """Questions with a relevant candidate, in random order, again and again."""
        while True:
            for question in self._rng.permutation([*self._questions]).tolist():
                text, known = self._questions[question], self._grades.get(question, {})
                runs = Runs(self._lists(_words(text)))
                grades = {name: known.get(str(name), 0) for name in runs.ids}
                if any(grades.values()):
                    yield Asked(text, runs, grades)


def search(seed: int, environment: Mapping[str, str] = os.environ) -> Search:
    """Cranfield if it is in the folder that `ONLINE_RANK_DATA` names, else made-up documents."""
    folder = Path(environment.get("ONLINE_RANK_DATA", "")) / "cranfield"
    there = "ONLINE_RANK_DATA" in environment and (folder / "documents.jsonl").exists()
    return Cranfield(folder, seed) if there else MadeUp(seed)


def _lines_of(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def _of_length_1(vectors: np.ndarray) -> np.ndarray:
    lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    return vectors / np.where(lengths > 0.0, lengths, 1.0)
