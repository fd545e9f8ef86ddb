"""Retrain every night, or learn along? Thirty days with few queries, whose truth drifts slowly and jumps twice.

    python -m benchmarks.nightly [--days 30] [--queries 30] [--seeds 3] [--processes N] [--keep FILE.json]

Streams of `WebLike` (136 raw features, 40 to 80 documents) with a linear and with an additive truth, which turns by a third of
a right angle over the whole time and jumps half of one before day 11 and before day 21. Every query is ranked by what is known
then. LightGBM's lambdarank is retrained after each day on the last seven days, and serves all of the next day; on the first day
it has no model. Shown is the mean NDCG@10 of what was served.
"""

from lightgbm import LGBMRanker

from benchmarks._common import RESULTS, environment, parser, save
from benchmarks._experiments import add_experiment, compared, run
from online_rank import AdditiveRanker, PerceptronRanker, StreamQuantileMap, plot
from online_rank.evaluate import Experiment, Retrained
from online_rank.stream import WebLike

LIGHTGBM, ROUNDS, DAYS_KEPT = "LightGBM", 100, 7


def experiment(days: int, queries: int, seeds: int) -> Experiment:
    """Each seed is another truth."""
    trees = LGBMRanker(objective="lambdarank", n_estimators=ROUNDS, verbose=-1, n_jobs=1, random_state=0)
    models = {
        "AdditiveRanker()": AdditiveRanker(),
        "AdditiveRanker(trees=0)": AdditiveRanker(trees=0),
        "map | PerceptronRanker()": StreamQuantileMap() | PerceptronRanker(),
        LIGHTGBM: Retrained(trees, every=queries, window=DAYS_KEPT * queries),
    }
    n, jumps = days * queries, tuple(third * (days // 3) * queries for third in (1, 2))
    streams = {
        truth: WebLike(n, truth=truth, n_documents=(40, 80), turn=3.0 * n, jumps=jumps, seed=1)
        for truth in ("linear", "additive")
    }
    return Experiment(models, streams, seeds=seeds)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--days", type=int, default=30)
    arguments.add_argument("--queries", type=int, default=30, help="queries a day")
    add_experiment(arguments, seeds=3)
    given = arguments.parse_args()
    results = run(experiment(given.days, given.queries, given.seeds), given)
    plot.bands(results).figure.savefig(RESULTS / "nightly.png", dpi=150)
    save(
        "nightly",
        f"""# Retrain every night, or learn along?

NDCG@10 of what was served in {given.days} days of {given.queries} queries (136 raw features, 40 to 80 documents), mean over
{given.seeds} truths ± standard error, and differences paired over them. The truth turns by a third of a right angle in all, and
jumps half of one after a third and after two thirds of the time. LightGBM: {ROUNDS} rounds, its other defaults, retrained every
night on the last {DAYS_KEPT} days. `map` is `StreamQuantileMap()`. Seconds of the processor are of one run.
{environment("lightgbm")}

{compared(results, LIGHTGBM)}

![NDCG@10 of the first queries where the truth is linear](nightly.png)
""",
    )


if __name__ == "__main__":
    main()
