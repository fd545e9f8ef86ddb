"""A challenger on live traffic: is a better one promoted, and an equal one left alone?

    python -m benchmarks.challenger [--better 20] [--equal 40] [--queries 8000] [--seed 0]

Streams of queries with ten documents go through the service (`RankingService`, in this process): each is ranked, gets its
grades, and is learned, with a challenger that is to be promoted at 95 %. Both models rank by one feature, the grade plus noise
of their own, so that on a stream of equals the two are alike but for their names. Where the challenger is better, its noise is
less, by so much that its NDCG@10 is .02 higher on 20,000 other queries.
"""

import json
import time
from typing import NamedTuple

import numpy as np

from benchmarks._common import parser, save, table
from online_rank.measures.learned import measure
from online_rank.rankers.fixed import FixedRanker
from online_rank.serving import Challenge, RankingService

DOCUMENTS, NOISE, GAIN, LEVEL = 10, 1.0, 0.02, 0.95


class Stream(NamedTuple):
    """What happened on a stream: after how many queries the challenger was promoted, if it was, and what was known of it."""

    promoted_after: int | None
    difference: float
    lower: float


def grades_and_features(rng: np.random.Generator, noise: float) -> tuple[np.ndarray, np.ndarray]:
    grades = rng.choice(4, p=[0.55, 0.25, 0.15, 0.05], size=DOCUMENTS)
    return grades, grades[:, None] + rng.normal(size=(DOCUMENTS, 2)) * [NOISE, noise]


def ndcg_gain(noise: float, n_queries: int = 20_000) -> float:
    """By how much the challenger's NDCG@10 is higher, in expectation."""
    rng, ndcg = np.random.default_rng(12_345), measure("ndcg@10")
    gains = []
    for _ in range(n_queries):
        grades, features = grades_and_features(rng, noise)
        if len({*grades.tolist()}) > 1:
            gains.append(ndcg.loss(features[:, 0], grades) - ndcg.loss(features[:, 1], grades))
    return float(np.mean(gains))


def noise_of(gain: float) -> float:
    """The noise with which a challenger is better by so much."""
    low, high = 0.3, NOISE
    for _ in range(10):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if ndcg_gain(middle) > gain else (low, middle)
    return 0.5 * (low + high)


def through_the_service(n_queries: int, noise: float, seed: int) -> Stream:
    rng = np.random.default_rng([seed, 1])
    challenge = Challenge(FixedRanker({"b": 1.0}), promote_at=LEVEL)
    service = RankingService(FixedRanker({"a": 1.0}), challenge=challenge)
    for i in range(n_queries):
        grades, features = grades_and_features(rng, noise)
        docs = {f"d{j}": {"a": a, "b": b} for j, (a, b) in enumerate(features.tolist())}
        service.handle(json.dumps({"id": i, "docs": docs}).encode())
        judged = {f"d{j}": grade for j, grade in enumerate(grades.tolist())}
        if service.handle(json.dumps({"id": i, "grades": judged}).encode()).promoted:
            break
    difference = challenge.difference(LEVEL)
    return Stream(i + 1 if service.challenge is None else None, difference.mean, difference.lower)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--better", type=int, default=20)
    arguments.add_argument("--equal", type=int, default=40)
    arguments.add_argument("--queries", type=int, default=8000)
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    started, noise, rows = time.perf_counter(), noise_of(GAIN), []
    kinds = (("better", given.better, noise, 0), ("equal", given.equal, NOISE, 1_000_000))
    for name, n_streams, own_noise, first in kinds:
        streams = [through_the_service(given.queries, own_noise, given.seed + first + k) for k in range(n_streams)]
        after = sorted(stream.promoted_after for stream in streams if stream.promoted_after is not None)
        gain = ndcg_gain(own_noise) if name == "better" else 0.0
        median = f"{after[len(after) // 2]:,}" if after else "-"
        rows.append((name, f"{gain:+.4f}", f"{len(after)} of {n_streams}", median, f"{after[-1]:,}" if after else "-"))
    columns = ("the challenger is", "NDCG@10 higher by", "promoted", "median number of queries", "largest")
    note = f"Streams of at most {given.queries:,} queries; {time.perf_counter() - started:.0f} s."
    save("challenger", f"# A challenger on live traffic\n\n{table(columns, rows)}\n\n{note}")


if __name__ == "__main__":
    main()
