"""What are words worth in the default, and what do they cost?

    python -m benchmarks.words [--seeds 5] [--peers FILE]

FILE has the stream `sparse_categories`: titles, brands in a long tail, a price, and a segment in the context. Each query is
ranked, then learned; quality is NDCG@10 over the 250 queries after 250 and after 900. Vowpal Wabbit learns each query as a
cost-sensitive example, with cost 4 - grade. Times are processor time of ranking and learning a query, medians, in turns.
"""

import importlib
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._common import parser
from online_rank import AdditiveRanker, HashedFeatures, MaxAbsStreamScaler, PerceptronRanker
from online_rank.storage.files import to_bytes

MARKS, AFTER = (250, 900), 250


class Wabbit:
    """Vowpal Wabbit on words, brand and price, with the segment where quadratic features are asked for."""

    def __init__(self, options: str) -> None:
        from vowpalwabbit import Workspace

        self.model = Workspace(f"--csoaa_ldf m --csoaa_rank {options} --quiet")

    def _lines(self, x: list[dict[str, Any]], segment: str, costs: Any = None) -> list[str]:
        # By numbers from 0 on, which are the places of the predictions.
        labels = [f"{k}" if costs is None else f"{k}:{4 - costs[k]}" for k in range(len(x))]
        return [
            f"{label} |t {one['title']} |b {one['brand']} |s {segment} |p price:{np.log(one['price']):.6g}"
            for label, one in zip(labels, x, strict=True)
        ]

    def learn(self, x: list[dict[str, Any]], y: list[int], segment: str) -> None:
        """Learn a query."""
        self.model.learn(self._lines(x, segment, y))

    def score(self, x: list[dict[str, Any]], segment: str) -> np.ndarray:
        """Minus the predicted costs."""
        costs = self.model.predict(self._lines(x, segment))
        return -np.array(costs)


class Ours:
    """A ranker of this library, with the segment as context or without."""

    def __init__(self, model: Any, segmented: bool = False) -> None:
        self.model, self.segmented = model, segmented

    def _context(self, segment: str) -> dict[str, Any]:
        return {"context": {"segment": segment}} if self.segmented else {}

    def learn(self, x: list[dict[str, Any]], y: list[int], segment: str) -> None:
        """Learn a query."""
        self.model.learn_one(x, y, **self._context(segment))

    def score(self, x: list[dict[str, Any]], segment: str) -> np.ndarray:
        """The scores."""
        return np.array(self.model.predict_one(x, **self._context(segment)))


CONTESTANTS: dict[str, Any] = {
    "AdditiveRanker()": lambda: Ours(AdditiveRanker()),
    "AdditiveRanker(), segment": lambda: Ours(AdditiveRanker(), segmented=True),
    "HashedFeatures | MaxAbs | Perceptron": lambda: Ours(
        HashedFeatures(text=("title",)) | MaxAbsStreamScaler() | PerceptronRanker()
    ),
    "Vowpal Wabbit csoaa": lambda: Wabbit("--ignore s"),
    "Vowpal Wabbit csoaa -q sb": lambda: Wabbit("-q sb"),
}


def stream(peers: Any, seed: int, n: int) -> Any:
    """Queries: documents, grades, segment."""
    for query in peers.sparse_categories(seed, n=n):
        x = [
            {"brand": f"b{brand}", "price": float(price), "title": " ".join(f"w{word}" for word in words)}
            for brand, price, words in zip(query["brand"], query["price"], query["tok"], strict=True)
        ]
        yield x, query["y"].tolist(), query["context"]["segment"]


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--queries", type=int, default=1150)
    arguments.add_argument("--peers", type=Path, default=Path("../shared/generate/peers_streams.py"))
    chosen = arguments.parse_args()
    sys.path.insert(0, str(chosen.peers.parent))
    peers = importlib.import_module(chosen.peers.stem)
    found: dict[str, list[list[float]]] = {name: [] for name in CONTESTANTS}
    for seed in range(chosen.seeds):
        models = {name: make() for name, make in CONTESTANTS.items()}
        values: dict[str, list[float]] = {name: [] for name in models}
        times: dict[str, list[float]] = {name: [] for name in models}
        for x, y, segment in stream(peers, seed, chosen.queries):
            for name, model in models.items():
                start = time.process_time()
                scores = model.score(x, segment)
                model.learn(x, y, segment)
                times[name].append(time.process_time() - start)
                values[name].append(peers.ndcg10(scores, y))
        for name, own in values.items():
            found[name].append([*(float(np.nanmean(own[a : a + AFTER])) for a in MARKS), 1e3 * float(np.median(times[name]))])
        model = models["AdditiveRanker()"].model
        print(f"seed {seed}: {model.n_words:,} words, {len(to_bytes(model)):,} bytes", flush=True)
    hashed = np.mean(found["HashedFeatures | MaxAbs | Perceptron"], axis=0)[2]
    for name, rows in found.items():
        mean = np.mean(rows, axis=0)
        print(
            f"{name:38s} after 250 {mean[0]:.4f}  after 900 {mean[1]:.4f}  {mean[2]:.2f} ms  {mean[2] / hashed:.2f} of hashed"
        )


if __name__ == "__main__":
    main()
