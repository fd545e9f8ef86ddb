"""What is it worth to follow a truth that changes?

    python -m benchmarks.drift [--other PYTHON] [--queries 4000] [--seeds 10]

Rankers learn a stream whose truth changes abruptly at half time. Progressive NDCG@10 before and after the change, over several
seeds. PYTHON is the interpreter of a checkout that has `DriftAwareRanker`, such as 8e619ce; without it these rows are left out.
"""

import statistics
from collections.abc import Callable
from typing import Any

from benchmarks._common import environment, parser, save, table
from benchmarks._other import add_other, commit_of, scores_of
from online_rank import AdditiveRanker, PerceptronRanker, Ranker
from online_rank.metrics import NDCG
from online_rank.stream.synth import Drifting
from online_rank.support.progress import progress

PLAIN, ADDITIVE = "average of all weights", "AdditiveRanker()"

CONTESTANTS: dict[str, Callable[[], Ranker]] = {
    PLAIN: lambda: PerceptronRanker(half_life=None),
    "average with half-life 1000": lambda: PerceptronRanker(half_life=1000),
    "average with half-life 300": lambda: PerceptronRanker(half_life=300),
    "average with half-life 100": lambda: PerceptronRanker(half_life=100),
    "average with half-life 30": lambda: PerceptronRanker(half_life=30),
    "last weights": lambda: PerceptronRanker(half_life=0),
    ADDITIVE: AdditiveRanker,
}
#: Rankers of another checkout.
OTHERS = ("DriftAwareRanker(PerceptronRanker())", "DriftAwareRanker(BlendRanker())")


def learned(model: Ranker, stream: list[Any]) -> list[Any]:
    """The scores of each query before it is learned."""
    scores = []
    for X, y in stream:
        scores.append(model.predict_one(X))
        model.learn_one(X, y)
    return scores


def halves(scores: list[Any], stream: list[Any]) -> tuple[float, float]:
    """NDCG@10 of both halves of a stream."""
    both, half = (NDCG(k=10), NDCG(k=10)), len(stream) // 2
    for t, (given, (_, y)) in enumerate(zip(scores, stream, strict=True)):
        both[t >= half].update(y, given)
    return both[0].get(), both[1].get()


def measure_all(given: Any) -> dict[str, list[tuple[float, float]]]:
    """For each contestant and seed the two values."""
    others = () if given.other is None else OTHERS
    results: dict[str, list[tuple[float, float]]] = {name: [] for name in (*CONTESTANTS, *others)}
    with progress("drift", given.seeds * len(results), "runs") as show:
        for seed in range(given.seeds):
            points = (given.queries // 2,)
            stream = list(Drifting(given.queries, drift_points=points, n_features=40, n_documents=(10, 40), seed=seed))
            for name, found in results.items():
                scores = learned(CONTESTANTS[name](), stream) if name in CONTESTANTS else scores_of(given.other, name, stream)
                found.append(halves(scores, stream))
                show(sum(map(len, results.values())))
    return results


def spread(values: list[float]) -> str:
    return f"{statistics.mean(values):.4f}" + (f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else "")


def report(given: Any) -> str:
    results = measure_all(given)

    def less(name: str, other: str) -> str:
        margins = [a - b for (_, a), (_, b) in zip(results[name], results[other], strict=True)]
        return "" if name == other else f"{statistics.mean(margins):+.4f} (least {min(margins):+.4f})"

    rows = [
        (name, *map(spread, map(list, zip(*runs, strict=True))), less(name, PLAIN), less(name, ADDITIVE))
        for name, runs in results.items()
    ]
    header = ("", "before the change", "after it", "after it, to the first row", f"after it, to {ADDITIVE}")
    source = "" if given.other is None else f" `DriftAwareRanker` is from commit {commit_of(given.other)}."
    return f"""# A truth that changes at half time

Progressive NDCG@10 on {given.queries:,} queries of 10 to 40 documents with 40 features (`stream.synth.Drifting`); at query
{given.queries // 2:,} the teacher is replaced by another one. Mean and standard deviation over {given.seeds} seeds. Averages
are of a `PerceptronRanker`.{source} {environment()}.

{table(header, rows)}

An average with a half-life forgets all the time, whether there is a reason or not, and its half-life has to be guessed: a short
one costs before the change, a long one after it. `AdditiveRanker` blends averages with several half-lives.
"""


if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("--queries", type=int, default=4000)
    arguments.add_argument("--seeds", type=int, default=10)
    add_other(arguments)
    save("drift", report(arguments.parse_args()))
