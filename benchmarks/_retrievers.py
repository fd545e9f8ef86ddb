"""Five retrievers over a small collection with text, and what each returns: material for fusion."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.preprocessing import normalize

from online_rank import Runs

#: How many documents each retriever returns.
DEPTH = 100

_SUFFIXES = ("ations", "ation", "ings", "ing", "edly", "ed", "ies", "es", "s", "ly")


class Fused(NamedTuple):
    """A query with what was returned for it.

    Attributes
    ----------
    text
        The question.
    runs
        The candidates.
    grades
        Of each candidate.
    ideal
        Grades of all relevant documents, largest first, whether they were returned or not.
    """

    text: str
    runs: Runs
    grades: dict[str, int]
    ideal: list[int]


class Collection(NamedTuple):
    """Documents, questions, grades: `{question: {document: grade}}`, and what is left out of the lists of a question."""

    documents: list[dict[str, str]]
    questions: dict[str, str]
    grades: dict[str, dict[str, int]]
    left_out: dict[str, set[str]]


def read(folder: Path) -> Collection:
    """A collection of documents.jsonl, queries.jsonl and qrels.txt; a negative grade leaves the document out."""
    documents = [json.loads(line) for line in (folder / "documents.jsonl").open()]
    questions = {row["id"]: row["text"] for row in map(json.loads, (folder / "queries.jsonl").open())}
    grades: dict[str, dict[str, int]] = {}
    left_out: dict[str, set[str]] = {}
    for line in (folder / "qrels.txt").open():
        query, _, document, grade = line.split()
        if int(grade) > 0:
            grades.setdefault(query, {})[document] = int(grade)
        elif int(grade) < 0:
            left_out.setdefault(query, set()).add(document)
    return Collection(documents, questions, grades, left_out)


def tokens(text: str) -> list[str]:
    """Words without common endings."""
    return [_stem(word) for word in re.findall(r"[a-z0-9]+", text.lower()) if len(word) > 1]


def _stem(word: str) -> str:
    return next((word[: -len(s)] for s in _SUFFIXES if word.endswith(s) and len(word) - len(s) >= 4), word)


def bm25(texts: list[str], k1: float = 1.2, b: float = 0.75) -> Callable[[str], np.ndarray]:
    """Okapi BM25."""
    counts = CountVectorizer(analyzer=tokens)
    terms = counts.fit_transform(texts).tocsr().astype(float)
    lengths = np.asarray(terms.sum(1)).ravel()
    frequency = np.asarray((terms > 0).sum(0)).ravel()
    row = np.repeat(np.arange(terms.shape[0]), np.diff(terms.indptr))
    terms.data = terms.data * (k1 + 1) / (terms.data + k1 * (1 - b + b * lengths[row] / lengths.mean()))
    weighted = terms.multiply(np.log(1 + (terms.shape[0] - frequency + 0.5) / (frequency + 0.5))).tocsr()
    return lambda text: np.asarray((weighted @ counts.transform([text]).T.minimum(1)).todense()).ravel()


def language_model(texts: list[str], mu: float = 200.0) -> Callable[[str], np.ndarray]:
    """Query likelihood with Dirichlet smoothing."""
    counts = CountVectorizer(analyzer=tokens)
    terms = counts.fit_transform(texts).tocsc().astype(float)
    lengths, share = np.asarray(terms.sum(1)).ravel(), np.asarray(terms.sum(0)).ravel() / terms.sum()

    def score(text: str) -> np.ndarray:
        query, found = counts.transform([text]), np.zeros(terms.shape[0])
        for j, count in zip(query.indices, query.data, strict=True):
            column = np.asarray(terms[:, [j]].todense()).ravel()
            found += count * np.log((column + mu * share[j]) / (lengths + mu) / share[j])
        return found - found.min()

    return score


def latent(texts: list[str], dimensions: int = 100) -> tuple[np.ndarray, Callable[[str], np.ndarray]]:
    """LSA: unit vectors of the documents, and the function that gives the vector of a text."""
    weights = TfidfVectorizer(analyzer=tokens, sublinear_tf=True)
    reduced = TruncatedSVD(dimensions, random_state=0)
    vectors = normalize(reduced.fit_transform(weights.fit_transform(texts)))
    return vectors, lambda text: normalize(reduced.transform(weights.transform([text]))).ravel()


def characters(texts: list[str]) -> Callable[[str], np.ndarray]:
    """Cosine of tf-idf weights of character n-grams."""
    weights = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True, min_df=2)
    terms = weights.fit_transform(texts)
    return lambda text: np.asarray((terms @ weights.transform([text]).T).todense()).ravel()


def retrieved(collection: Collection) -> list[Fused]:
    """Every question with what five retrievers return for it."""
    documents = collection.documents
    ids, titles = [x["id"] for x in documents], [x["title"] for x in documents]
    whole = [f"{x['title']} {x['body']}" for x in documents]
    vectors, vector_of = latent(whole)
    retrievers: dict[str, Callable[[str], np.ndarray]] = {
        "bm25 title": bm25(titles),
        "bm25 body": bm25([x["body"] or x["title"] for x in documents]),
        "language model": language_model(whole),
        "vector": lambda text: vectors @ vector_of(text),
        "characters": characters(whole),
    }
    found = []
    for query, text in collection.questions.items():
        left_out, relevant = collection.left_out.get(query, set()), collection.grades.get(query, {})
        allowed = np.array([document not in left_out for document in ids])
        lists = {}
        for name, retrieve in retrievers.items():
            scores = np.where(allowed, retrieve(text), -np.inf)
            best = np.argsort(-scores, kind="stable")[:DEPTH]
            lists[name] = [(ids[i], float(scores[i])) for i in best if scores[i] > (0.0 if name != "vector" else -np.inf)]
        runs = Runs(lists)
        grades = {document: relevant.get(document, 0) for document in runs.ids}
        found.append(Fused(text, runs, grades, sorted(relevant.values(), reverse=True)))
    return found
