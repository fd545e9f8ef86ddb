"""What is it worth to follow a truth that changes?

    python -m benchmarks.drift [--queries 4000] [--seeds 3] [--processes N] [--keep FILE.json]

Rankers learn a stream whose truth changes abruptly at half time. Progressive NDCG@10 before and after the change, over several
seeds.
"""

import numpy as np

from benchmarks._common import environment, parser, save, table
from benchmarks._experiments import add_experiment, run
from online_rank import AdditiveRanker, PerceptronRanker
from online_rank.evaluate import Experiment, Results, Spread
from online_rank.stream.synth import Drifting

PLAIN, ADDITIVE = "average of all weights", "AdditiveRanker()"
MODELS = {
    PLAIN: PerceptronRanker(half_life=None),
    **{f"average with half-life {t}": PerceptronRanker(half_life=t) for t in (1000, 300, 100, 30)},
    "last weights": PerceptronRanker(half_life=0),
    ADDITIVE: AdditiveRanker(),
}


def halves(results: Results, model: str) -> np.ndarray:
    """NDCG@10 of both halves of the stream, (seeds, 2)."""
    runs = [one.queries["ndcg@10"] for one in results.runs if one.model == model]
    return np.array([[np.nanmean(half) for half in np.split(values, 2)] for values in runs])


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--queries", type=int, default=4000)
    add_experiment(arguments, seeds=3)
    given = arguments.parse_args()

    def stream(seed: int) -> Drifting:
        return Drifting(given.queries, drift_points=(given.queries // 2,), n_features=40, n_documents=(10, 40), seed=seed)

    results = run(Experiment(MODELS, stream, seeds=given.seeds), given)
    found = {model: halves(results, model) for model in MODELS}
    rows = []
    for model, both in found.items():
        away = (both[:, 1] - found[other][:, 1] for other in (PLAIN, ADDITIVE))
        less = ("" if model == other else f"{Spread.of(one):+.4f}" for other, one in zip((PLAIN, ADDITIVE), away, strict=True))
        rows.append((model, *(f"{Spread.of(half):.4f}" for half in both.T), *less))
    header = ("", "before the change", "after it", "after it, less the first row", f"after it, less {ADDITIVE}")
    save(
        "drift",
        f"""# A truth that changes at half time

Progressive NDCG@10 on {given.queries:,} queries of 10 to 40 documents with 40 features (`stream.synth.Drifting`); at query
{given.queries // 2:,} the teacher is replaced by another one. Mean and standard error over {given.seeds} seeds. Averages
are of a `PerceptronRanker`. {environment()}.

{table(header, rows)}

An average with a half-life forgets all the time, whether there is a reason or not, and its half-life has to be guessed: a short
one costs before the change, a long one after it. `AdditiveRanker` blends averages with several half-lives.
""",
    )


if __name__ == "__main__":
    main()
