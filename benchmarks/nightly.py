"""Retrain every night, or learn along? Thirty days of queries whose truth drifts slowly and jumps twice.

    python -m benchmarks.nightly [--days 30] [--queries 60] [--rounds 100] [--keep FILE]

Streams of `WebLike` (136 raw features, 40 to 80 documents) with a linear and with an additive truth, which turns by a third of
a right angle over the whole time and jumps half of one before day 11 and before day 21. Every query is ranked by what is known
then. LightGBM's lambdarank is retrained after each day, on all days so far or on the last seven, and serves all of the next
day; online rankers learn from each query after they have ranked it. On the first day LightGBM has no model and ranks at random.

Shown are the mean NDCG@10 of what was served, with standard errors of the differences to the better LightGBM, paired over days;
processor seconds spent in all (ranking and learning); and what must be kept: the model and the days that are trained on again.
"""

import itertools
import json
import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._common import RESULTS, environment, parser, save, table
from online_rank import AdditiveRanker, BlendRanker, PerceptronRanker, RidgeRanker, StreamQuantileMap, measure
from online_rank.base import Ranker
from online_rank.evaluate import Spread
from online_rank.stream import WebLike

Query = tuple[np.ndarray, np.ndarray]
#: NDCG@10 of what was served, a mean a day; processor seconds; bytes kept at the end.
Result = tuple[np.ndarray, float, int]

ONLINE: dict[str, Callable[[], Ranker]] = {
    "map | PerceptronRanker()": lambda: StreamQuantileMap() | PerceptronRanker(),
    "map | RidgeRanker(half_life=500)": lambda: StreamQuantileMap() | RidgeRanker(half_life=500.0),
    "AdditiveRanker()": lambda: AdditiveRanker(),
    "BlendRanker()": lambda: BlendRanker(),
    "BlendRanker(half_life=500)": lambda: BlendRanker(half_life=500.0),
}
RETRAINED = {"LightGBM nightly, all days": None, "LightGBM nightly, last 7 days": 7}


class Nightly:
    """LightGBM, retrained after each day."""

    def __init__(self, keep_days: int | None, rounds: int) -> None:
        self.keep_days = keep_days
        self.rounds = rounds
        self.days: list[list[Query]] = []
        self.model: Any = None

    def serve(self, X: np.ndarray) -> np.ndarray:
        """Scores by the model of last night."""
        return np.zeros(len(X)) if self.model is None else self.model.predict(X)

    def end_of_day(self, queries: list[Query]) -> None:
        """Train on the days that are kept."""
        import lightgbm

        self.days = [*self.days, queries][-(self.keep_days or len(self.days) + 1) :]
        kept = [query for day in self.days for query in day]
        self.model = lightgbm.LGBMRanker(objective="lambdarank", n_estimators=self.rounds, verbose=-1, n_jobs=1)
        self.model.fit(
            np.concatenate([X for X, _ in kept]), np.concatenate([y for _, y in kept]), group=[len(y) for _, y in kept]
        )

    @property
    def n_bytes(self) -> int:
        """What must be kept for tomorrow."""
        data = sum(X.nbytes + y.nbytes for day in self.days for X, y in day)
        return data + len(pickle.dumps(self.model))


class Along:
    """An online ranker."""

    def __init__(self, model: Ranker) -> None:
        self.model = model

    def serve(self, X: np.ndarray) -> np.ndarray:
        """Scores by what is known now."""
        return np.asarray(self.model.predict_one(X))

    def end_of_day(self, queries: list[Query]) -> None:
        """Nothing is left to do."""

    @property
    def n_bytes(self) -> int:
        """What must be kept for tomorrow."""
        return len(pickle.dumps(self.model))


def lived(contestant: Nightly | Along, stream: WebLike, days: int, queries: int) -> Result:
    """NDCG@10 of what was served, a mean a day; processor seconds; bytes kept at the end."""
    ndcg, means, seconds = measure("ndcg@10"), [], 0.0
    source = iter(stream)
    for _ in range(days):
        today, values = list(itertools.islice(source, queries)), []
        for X, y in today:
            start = time.process_time()
            scores = contestant.serve(X)
            if isinstance(contestant, Along):
                contestant.model.learn_one(X, y)
            seconds += time.process_time() - start
            if y.any():
                values.append(ndcg.value(scores, y))
        start = time.process_time()
        contestant.end_of_day(today)
        seconds += time.process_time() - start
        means.append(float(np.mean(values)))
    return np.array(means), seconds, contestant.n_bytes


def run(truth: str, days: int, queries: int, rounds: int) -> dict[str, Result]:
    """What became of every contestant on one stream."""
    third = days // 3
    jumps = (third * queries, 2 * third * queries)
    stream = WebLike(None, truth=truth, n_documents=(40, 80), turn=3.0 * days * queries, jumps=jumps, seed=1)
    made: dict[str, Callable[[], Nightly | Along]] = {
        **{name: (lambda keep=keep: Nightly(keep, rounds)) for name, keep in RETRAINED.items()},
        **{name: (lambda make=make: Along(make())) for name, make in ONLINE.items()},
    }
    results = {}
    for name, make in made.items():
        means, seconds, n_bytes = results[name] = lived(make(), stream, days, queries)
        print(f"{truth}: {name} {means.mean():.4f}, {seconds:.0f} s, {n_bytes / 1e6:.1f} MB", file=sys.stderr, flush=True)
    return results


def all_results(
    truths: tuple[str, ...], keep: Path | None, days: int, queries: int, rounds: int
) -> dict[str, dict[str, Result]]:
    """`run` of each truth; what the file `keep` has is taken from there, and the rest written to it."""
    kept = json.loads(keep.read_text()) if keep and keep.exists() else {}
    for truth in truths:
        if truth not in kept:
            found = run(truth, days, queries, rounds)
            kept[truth] = {name: (means.tolist(), *others) for name, (means, *others) in found.items()}
            if keep:
                keep.write_text(json.dumps(kept))
    return {
        truth: {name: (np.array(means), seconds, n_bytes) for name, (means, seconds, n_bytes) in kept[truth].items()}
        for truth in truths
    }


def picture(results: dict[str, dict[str, Result]]) -> str:
    """NDCG@10 of each day, one panel a truth. Returns the image as Markdown."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(10, 3.8), constrained_layout=True)
    axes = figure.subplots(1, len(results), squeeze=False)[0]
    for ax, (truth, rows) in zip(axes, results.items(), strict=True):
        for name, (means, _, _) in rows.items():
            grey = name.startswith("LightGBM")
            ax.plot(np.arange(1, len(means) + 1), means, label=name, lw=1.2, ls="--" if grey else "-",
                    color=("black" if "all" in name else "grey") if grey else None)  # fmt: skip
        for jump in (len(means) // 3, 2 * (len(means) // 3)):
            ax.axvline(jump + 0.5, color="lightgrey", zorder=0)
        ax.set(title=f"{truth} truth", xlabel="day", ylabel="NDCG@10 of what was served")
        ax.grid(alpha=0.3)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=7, ncols=4, loc="outside lower center")
    figure.savefig(RESULTS / "nightly.png", dpi=150)
    plt.close(figure)
    return "![NDCG@10 of each day](nightly.png)"


def rows_of(results: dict[str, Result]) -> list[list[str]]:
    """One row a contestant."""
    best = max(RETRAINED, key=lambda name: results[name][0].mean())
    rows = []
    for name, (means, seconds, n_bytes) in results.items():
        compared = "" if name == best else f"{Spread.of(means - results[best][0]):+.4f}"
        rows.append([name.replace("|", r"\|"), f"{means.mean():.4f}", compared, f"{seconds:.1f}", f"{n_bytes / 1e6:.1f}"])
    return rows


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--days", type=int, default=30)
    arguments.add_argument("--queries", type=int, default=60)
    arguments.add_argument("--rounds", type=int, default=100)
    arguments.add_argument("--keep", type=Path, metavar="FILE", help="continue from the truths that this file has")
    chosen = arguments.parse_args()
    results = all_results(("linear", "additive"), chosen.keep, chosen.days, chosen.queries, chosen.rounds)
    header = ["served NDCG@10", "mean", "difference", "processor seconds", "MB kept"]
    parts = [f"## {truth.capitalize()} truth\n\n{table(header, rows_of(rows))}" for truth, rows in results.items()]
    save(
        "nightly",
        f"""# Retrain every night, or learn along?

{chosen.days} days of {chosen.queries} queries (136 raw features, 40 to 80 documents); the truth turns by a third of a
right angle in all, and jumps half of one after a third and after two thirds of the time. LightGBM: {chosen.rounds} rounds, its
other defaults.
*difference*: to the better LightGBM ± standard error, paired over days. {environment("lightgbm")}

{chr(10).join(f"{part}{chr(10)}" for part in parts)}
{picture(results)}
""",
    )


if __name__ == "__main__":
    main()
