"""What is it worth to notice that the truth has changed?

`python -m benchmarks.drift` teaches rankers a stream whose truth changes abruptly at half time, and writes their progressive
NDCG@10 before and after the change, over several seeds, to benchmarks/results/drift.md.
"""

import statistics
from collections.abc import Callable

from river import drift

from benchmarks._common import environment, parser, save, table
from online_rank import DriftAwareRanker, PerceptronRanker, Ranker
from online_rank.metrics import NDCG
from online_rank.stream.synth import Drifting
from online_rank.support.progress import progress

PLAIN = "average of all weights"
AWARE = "DriftAwareRanker, reset"

CONTESTANTS: dict[str, Callable[[], Ranker]] = {
    PLAIN: lambda: PerceptronRanker(half_life=None),
    "average with half-life 1000": lambda: PerceptronRanker(half_life=1000),
    "average with half-life 300": lambda: PerceptronRanker(half_life=300),
    "average with half-life 100": lambda: PerceptronRanker(half_life=100),
    "average with half-life 30": lambda: PerceptronRanker(half_life=30),
    "last weights": lambda: PerceptronRanker(half_life=0),
    AWARE: lambda: DriftAwareRanker(PerceptronRanker()),
    "DriftAwareRanker, restart_average": lambda: DriftAwareRanker(PerceptronRanker(), on_drift="restart_average"),
    "DriftAwareRanker, reset, ADWIN(clock=4)": lambda: DriftAwareRanker(PerceptronRanker(), detector=drift.ADWIN(clock=4)),
}


def run(model: Ranker, stream: list, half: int) -> tuple[float, float]:
    """Progressive NDCG@10 of the first `half` queries, and of the others."""
    before, after = NDCG(k=10), NDCG(k=10)
    for t, (X, y) in enumerate(stream):
        (before if t < half else after).update(y, model.predict_one(X))
        model.learn_one(X, y)
    return before.get(), after.get()


def measure_all(n_queries: int, seeds: int) -> dict[str, list[tuple[float, float, tuple[int, ...]]]]:
    """For each contestant and seed: the two values, and where drifts were noticed."""
    results: dict[str, list] = {name: [] for name in CONTESTANTS}
    half = n_queries // 2
    with progress("drift", seeds * len(CONTESTANTS), "runs") as show:
        for seed in range(seeds):
            stream = list(Drifting(n_queries, drift_points=(half,), n_features=40, n_documents=(10, 40), seed=seed))
            for name, make in CONTESTANTS.items():
                model = make()
                results[name].append((*run(model, stream, half), getattr(model, "drift_positions", ())))
                show(sum(map(len, results.values())))
    return results


def spread(values: list[float]) -> str:
    return f"{statistics.mean(values):.3f} ± {statistics.stdev(values):.3f}"


def report(n_queries: int, seeds: int) -> str:
    results = measure_all(n_queries, seeds)
    half = n_queries // 2
    plain = [after for _, after, _ in results[PLAIN]]
    rows = []
    for name, runs in results.items():
        after = [value for _, value, _ in runs]
        margins = [a - b for a, b in zip(after, plain, strict=True)]
        positions = [position for *_, found in runs for position in found]
        late = [position - half for position in positions if position > half]
        rows.append(
            (
                name,
                spread([before for before, *_ in runs]),
                spread(after),
                "" if name == PLAIN else f"{statistics.mean(margins):+.3f} (least {min(margins):+.3f})",
                f"{statistics.median(late):.0f}" if late else "",
                len(positions) - len(late) if late else "",
            )
        )
    header = (
        "",
        "before the change",
        "after it",
        "after it, to the first row",
        "noticed after (median)",
        "false alarms before",
    )
    return f"""# A truth that changes at half time

Progressive NDCG@10 of `PerceptronRanker` on {n_queries:,} queries of 10 to 40 documents with 40 features
(`stream.synth.Drifting`); at query {half:,} the teacher is replaced by another one. Mean and standard deviation over
{seeds} seeds. {environment()}.
`python -m benchmarks.drift`

{table(header, rows)}

An average with a half-life forgets all the time, whether there is a reason or not, and its half-life has to be guessed: a short
one costs before the change, a long one after it. "Noticed after" counts the queries from the change to the alarm.
"""


if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("--queries", type=int, default=4000)
    arguments.add_argument("--seeds", type=int, default=10)
    options = arguments.parse_args()
    save("drift", report(options.queries, options.seeds))
