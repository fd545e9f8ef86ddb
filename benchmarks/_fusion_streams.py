"""Synthetic fusion streams: retrievers of unknown quality over documents of unknown relevance."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from online_rank import Runs

#: Documents of a query, and how many each retriever returns.
DOCUMENTS, DEPTH = 400, 60

#: Worlds that a rule for fusion may meet: arguments of `fusion_stream`.
KINDS: Mapping[str, Mapping[str, Any]] = {
    "retrievers differ": {},
    "as good as one another": {"signals_of": (0.7, 0.7)},
    "one good, four random": {"signals": (1.2, 0.0, 0.0, 0.0, 0.0)},
    "one random, four good": {"signals": (0.0, 0.8, 0.8, 0.8, 0.8)},
    "all weak": {"signals_of": (0.0, 0.3)},
    "two retrievers": {"n_runs": 2},
    "twelve retrievers": {"n_runs": 12},
    "many candidates": {"documents": 2000, "depth": 250},
    "short lists": {"depth": 8},
    "lists of any length": {"depth": 60, "shortest": 2},
    "scores of four values": {"levels": 4},
    "one relevant document": {"relevant": 1},
}


def fusion_stream(
    n_queries: int,
    n_runs: int = 5,
    seed: int = 0,
    signals_of: tuple[float, float] = (0.2, 1.2),
    *,
    signals: tuple[float, ...] | None = None,
    documents: int = DOCUMENTS,
    depth: int = DEPTH,
    shortest: int | None = None,
    levels: int | None = None,
    relevant: int | None = None,
) -> Iterator[tuple[Runs, dict[int, int]]]:
    """Queries of result lists, with the grades of the candidates, from 0 to 2.

    The world: each retriever sees the relevance of a document with its own signal (drawn from the range `signals_of`, or
    given), separate noise, and noise that all share; its scores are a power of the sum, on its own scale. Each query shifts the
    signals, so that no fusion is best for all. Lists have `depth` documents, or from `shortest` to `depth`; scores are rounded
    to this many `levels`; and grades are above 0 for the most relevant documents alone, as many as `relevant` says.
    """
    rng = np.random.default_rng(seed)
    drawn, scales, powers = rng.uniform(*signals_of, n_runs), np.exp(rng.normal(size=n_runs)), rng.uniform(0.5, 2.0, n_runs)
    of_run = drawn if signals is None else np.array(signals)
    for _ in range(n_queries):
        relevance, common = rng.normal(size=documents), rng.normal(size=documents)
        grades = (relevance > 2.0).astype(int) + (relevance > 2.6)
        if relevant is not None:
            grades = (np.argsort(np.argsort(-relevance)) < relevant).astype(int)
        lists = {}
        for r in range(n_runs):
            seen = max(of_run[r] + 0.3 * rng.normal(), 0.0) * relevance + 0.5 * common + rng.normal(size=documents)
            best = np.argsort(-seen)[: depth if shortest is None else rng.integers(shortest, depth + 1)]
            above = (seen[best] - seen[best].min()) ** powers[r]
            if levels is not None:
                above = np.floor(above / (above.max() or 1.0) * (levels - 1) + 0.5)
            lists[f"r{r}"] = list(zip(best.tolist(), (scales[r] * above).tolist(), strict=True))
        query = Runs(lists)
        yield query, {d: int(grades[d]) for d in query.ids}
