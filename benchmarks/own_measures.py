"""Does learning for a measure improve that measure? Six measures learned, six measured, on four streams.

    python -m benchmarks.own_measures [--seeds 8] [--queries 500] [--processes N] [--keep FILE.json]

Three measures of the library and three functions of a user's, which the library knows by their losses alone. Each is learned by
`StreamQuantileMap() | PerceptronRanker(measure)`, and all are measured on each query before it is learned. A column is met if
what learned for its measure is the best of the column, or behind the best of the others by no more than two standard errors of
their difference, paired over the seeds (of files: orders of the queries). `--keep` continues an interrupted run.
"""

from collections.abc import Callable

import numpy as np

from benchmarks._common import parser, save, table
from benchmarks._data import LIGHTGBM, MQ2008, data_folder, mq2008_parts
from benchmarks._experiments import add_experiment, run
from online_rank import PerceptronRanker, StreamQuantileMap
from online_rank.evaluate import Experiment, Results
from online_rank.metrics import QueryMetric
from online_rank.stream import NoisyTeacher, WebLike


def nerr(ranked: np.ndarray) -> float:
    """1 - ERR / ERR of the best order."""
    stops = (2.0**ranked - 1.0) / 2.0**4

    def err(chances: np.ndarray) -> float:
        goes_on = np.cumprod(np.append(1.0, 1.0 - chances))[:-1]
        return float((goes_on * chances / np.arange(1.0, len(chances) + 1.0)).sum())

    best = err(np.sort(stops)[::-1])
    return float(np.clip(1.0 - err(stops) / best, 0.0, 1.0)) if best > 0.0 else 0.0


def first(ranked: np.ndarray) -> float:
    """1 - 1 / position of the first relevant document."""
    return 1.0 - 1.0 / (1.0 + float(np.argmax(ranked > 0)))


def top_five(ranked: np.ndarray) -> float:
    """The share of the relevant documents that could stand among the first five and do not."""
    return 1.0 - float((ranked[:5] > 0).sum()) / min(5, int((ranked > 0).sum()))


class Own(QueryMetric):
    """1 - the loss of a measure of the user's own; a query of one grade is left out."""

    def __init__(self, loss: Callable[[np.ndarray], float]) -> None:
        super().__init__()
        self.loss = loss

    def value_of(self, scores: np.ndarray, grades: np.ndarray) -> float:
        """As `QueryMetric.value_of`, ties in the worst order."""
        return 1.0 - self.loss(grades[np.lexsort((grades, -scores))]) if grades.min() < grades.max() else np.nan


_MISSES = """## What the misses have in common

In most missed columns what learned for linear NDCG is ahead, also by the measures that others learned for. It weighs
pairs by the difference of the grades and by all positions. The others put much of their weight on the few documents
of the highest grades, on the first positions, or on relevant documents alone, so that fewer pairs decide an update,
and updates vary more. Where one order of the documents is the best one by every measure, as on the synthetic streams,
a measure decides only how much updates vary, and the one that uses most pairs wins. On MQ2008, with two grades above
0 and few relevant documents, this is "top five", which takes all relevant documents for equal. Where the measures
disagree about the best order, as on LightGBM's example, learning for NDCG, AP and linear NDCG improves what is
learned for: AP is .007 higher than by NDCG@10, and NDCG@10 is .036 higher than by AP. This is what the tables
suggest; variances were not measured.
"""

OWN = {"nERR": nerr, "first relevant": first, "top five": top_five}
LEARNED = {"NDCG@10": "ndcg@10", "AP": "ap", "linear NDCG": "linear_ndcg", **OWN}
MEASURED = {"NDCG@10": "ndcg@10", "AP": "map", "linear NDCG": "linear_ndcg", **{name: Own(loss) for name, loss in OWN.items()}}


def experiment(n_queries: int, n_seeds: int) -> Experiment:
    """The experiment; data sets that are not there are left out."""
    streams = {
        "NoisyTeacher": NoisyTeacher(n_queries=n_queries, n_features=20, n_documents=20, seed=100),
        "WebLike, additive": WebLike(n_queries, truth="additive", n_documents=20, seed=100),
    }
    if (folder := data_folder() / MQ2008).exists():
        streams["MQ2008"] = list(map(str, mq2008_parts(folder)))
    if (folder := data_folder() / LIGHTGBM).exists():
        streams["LightGBM's example"] = [str(folder / "rank.train"), str(folder / "rank.test")]
    models = {name: StreamQuantileMap() | PerceptronRanker(measure) for name, measure in LEARNED.items()}
    metrics = {name: _metric(one) for name, one in MEASURED.items()}
    return Experiment(models, streams, metrics, seeds=range(1, n_seeds + 1))


def _metric(one: object) -> object:
    from online_rank.metrics.names import metric

    return metric(one) if isinstance(one, str) else one


def section(results: Results, stream: str) -> tuple[str, int]:
    """The table of a stream, and how many of its columns are met."""
    rows, verdicts, met = [], [], 0
    for learned in LEARNED:
        cells = []
        for measured in LEARNED:
            mean = results.spread(learned, measured, stream).mean
            cells.append(f"**{mean:.4f}**" if learned == measured else f"{mean:.4f}")
        rows.append((learned, *cells))
    for measured in LEARNED:
        others = {name: results.spread(name, measured, stream).mean for name in LEARNED if name != measured}
        best = max(others, key=others.__getitem__)
        away = results.change(measured, best, measured, stream)
        holds = away.mean >= -2.0 * away.error
        met += holds
        verdicts.append(f"{away:+.4f} ({best})" + ("" if holds else ", missed"))
    rows.append(("its own, less the best other", *verdicts))
    return f"## {stream}\n\n{table(('learned, measured', *LEARNED), rows)}", met


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--queries", type=int, default=500)
    add_experiment(arguments, seeds=8)
    given = arguments.parse_args()
    results = run(experiment(given.queries, given.seeds), given)
    found = [section(results, stream) for stream in results.streams]
    met, tables = sum(one for _, one in found), "\n\n".join(text for text, _ in found)
    save(
        "own_measures",
        f"""# Measures learned and measures measured

`StreamQuantileMap() | PerceptronRanker(measure)`, measured on each query before it is learned; means over {given.seeds} seeds,
or orders of a file. In the last row of a table is what the measure of the column gains for itself, with the standard error of
the paired difference. {met} of {len(found) * len(LEARNED)} columns are met: their own measure is the best, or within two
standard errors of the best.

{tables}

{_MISSES}""",
    )


if __name__ == "__main__":
    main()
