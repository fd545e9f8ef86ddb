"""Synthetic fusion streams: retrievers of unknown quality over documents of unknown relevance."""

from collections.abc import Iterator

import numpy as np

from online_rank import Runs

#: Documents of a query, how many each retriever returns, and retrievers.
DOCUMENTS, DEPTH, RUNS = 400, 60, 5


def fusion_stream(
    n_queries: int, seed: int = 0, signals_of: tuple[float, float] = (0.2, 1.2)
) -> Iterator[tuple[Runs, dict[int, int]]]:
    """Queries of result lists, with the grades of the candidates, from 0 to 2.

    The world: each retriever sees the relevance of a document with its own signal (drawn from the range `signals_of`), separate
    noise, and noise that all share; its scores are a power of the sum, on its own scale. Each query shifts the signals, so that
    no fusion is best for all.
    """
    rng = np.random.default_rng(seed)
    signals, scales, powers = rng.uniform(*signals_of, RUNS), np.exp(rng.normal(size=RUNS)), rng.uniform(0.5, 2.0, RUNS)
    for _ in range(n_queries):
        relevance, common = rng.normal(size=DOCUMENTS), rng.normal(size=DOCUMENTS)
        grades = (relevance > 2.0).astype(int) + (relevance > 2.6)
        lists = {}
        for r in range(RUNS):
            seen = max(signals[r] + 0.3 * rng.normal(), 0.0) * relevance + 0.5 * common + rng.normal(size=DOCUMENTS)
            best = np.argsort(-seen)[:DEPTH]
            above = (seen[best] - seen[best].min()) ** powers[r]
            lists[f"r{r}"] = list(zip(best.tolist(), (scales[r] * above).tolist(), strict=True))
        query = Runs(lists)
        yield query, {d: int(grades[d]) for d in query.ids}
