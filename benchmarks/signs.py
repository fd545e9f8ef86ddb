"""What are known signs of weights worth while little has been learned?

`python -m benchmarks.signs` learns 100 queries of five synthetic streams whose teachers have known signs, and measures NDCG@10
of the served weights on 300 later queries, with and without `PerceptronRanker(signs=...)`, over the same seeds. The page
is benchmarks/results/signs.md.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from benchmarks._common import parser, save, table
from online_rank import PerceptronRanker, StreamQuantileMap, metrics
from online_rank.base.signs import signs_of_columns
from online_rank.evaluate import Spread

LEARNED, HELD_OUT, DOCUMENTS = 100, 300, 20


class Stream(NamedTuple):
    """Linear grades with noise: what is known of the teacher, and what the features look like."""

    title: str
    n_features: int
    known: float
    noise: float
    relevant: float = 1.0
    counts: bool = False
    correlated: bool = False


STREAMS = (
    Stream("20 features, all signs known", 20, 1.0, 1.0),
    Stream("20 features, a quarter of the signs known", 20, 0.25, 1.0),
    Stream("60 features, 15 of them relevant and their signs known", 60, 1.0, 1.0, relevant=0.25),
    Stream("20 correlated features, all signs known, grades half noise", 20, 1.0, 2.0, correlated=True),
    Stream("20 counts behind StreamQuantileMap, all signs known", 20, 1.0, 1.0, counts=True),
)


def world(stream: Stream, seed: int) -> tuple[np.ndarray, dict[str, int], np.random.Generator]:
    """A teacher of norm 1, the signs that are known of it, and the generator of its queries."""
    rng = np.random.default_rng([seed, STREAMS.index(stream)])
    d = stream.n_features
    teacher = rng.normal(size=d) * (rng.permutation(d) < stream.relevant * d)
    teacher /= np.linalg.norm(teacher)
    known = np.flatnonzero(teacher)[: max(1, round(stream.known * np.count_nonzero(teacher)))]
    return teacher, {str(j + 1): int(np.sign(teacher[j])) for j in known.tolist()}, rng


def queries(stream: Stream, teacher: np.ndarray, rng: np.random.Generator, n: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for _ in range(n):
        X = rng.normal(size=(DOCUMENTS, stream.n_features))
        if stream.correlated:
            X = (X + 2.0 * rng.normal(size=(DOCUMENTS, 1))) / np.sqrt(5.0)
        scores = X @ teacher + stream.noise * rng.normal(size=DOCUMENTS)
        y = np.digitize(scores, np.sqrt(1.0 + stream.noise**2) * np.array([0.0, 1.0, 1.5]))
        yield (np.floor(np.exp(2.0 * X)) if stream.counts else X), y


def quality(stream: Stream, seed: int, signed: bool) -> float:
    """NDCG@10 on later queries, after learning."""
    teacher, signs, rng = world(stream, seed)
    front = [StreamQuantileMap()] if stream.counts else []
    ranker = PerceptronRanker(signs=signs_of_columns(front, signs) if signed else None)
    model = front[0] | ranker if front else ranker
    for X, y in queries(stream, teacher, rng, LEARNED):
        model.learn_one(X, y)
    held = metrics.NDCG(k=10)
    for X, y in queries(stream, teacher, rng, HELD_OUT):
        held.update(y, model.predict_one(X))
    return held.get()


def gains(n_seeds: int) -> list[tuple[str, ...]]:
    rows = []
    for stream in STREAMS:
        free, signed = (np.array([quality(stream, seed, on) for seed in range(n_seeds)]) for on in (False, True))
        gain = signed - free
        rows.append((stream.title, f"{free.mean():.4f}", f"{signed.mean():.4f}", f"{Spread.of(gain):+.4f}",
                     f"{np.count_nonzero(gain > 0)} of {n_seeds}"))  # fmt: skip
    return rows


def report(n_seeds: int) -> str:
    header = ("stream", "without signs", "with signs", "gain ± standard error", "seeds that gain")
    return f"""# Known signs of weights

NDCG@10 on {HELD_OUT} later queries after learning {LEARNED} queries of {DOCUMENTS} documents, by the weights that serve; mean
over {n_seeds} seeds, the same queries for both. Only the signs of the teacher are given, not its weights.

{table(header, gains(n_seeds))}
"""


if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=40)
    save("signs", report(arguments.parse_args().seeds))
