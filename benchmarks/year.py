"""A year of queries: retrain every night, or learn along?

    python -m benchmarks.year [--days 365] [--queries 1000] [--only NAME ...]

Queries of `WebLike` with 20 documents and 30 raw features. The truth is additive with interactions; it turns by four right
angles over a year and jumps half of one before days 121 and 241. Every query is ranked by what is known then. LightGBM and
XGBoost are retrained after each day on the last 7 or 30 days, and serve all of the next day; how many rounds is chosen every
30 days, by training without the last day and ranking it. Online rankers learn from each query after they have ranked it. On the
first day the former have no model, and rank at random. river's logistic regression and Vowpal Wabbit learn as in
`benchmarks.online_peers`; Vowpal Wabbit's time includes writing its text.
"""

import pickle
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._common import RESULTS, environment, parser, save, table
from benchmarks.online_peers import CONTESTANTS as PEERS
from benchmarks.online_peers import Learner
from online_rank import AdditiveRanker, PerceptronRanker, StreamQuantileMap, measure
from online_rank.evaluate import Spread
from online_rank.stream import WebLike

Query = tuple[np.ndarray, np.ndarray]

YEAR, JUMPS, MONTH = 365, (120, 240), 30
ROUNDS = (20, 40, 80, 160)


class Along:
    """An online ranker."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def serve(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Scores by what is known now; then the query is learned."""
        scores = np.asarray(self.model.predict_one(X))
        self.model.learn_one(X, y)
        return scores

    def end_of_day(self, queries: list[Query]) -> None:
        """Nothing is left to do."""

    @property
    def n_bytes(self) -> int:
        """What must be kept for tomorrow."""
        return len(pickle.dumps(self.model))


class Peer:
    """An online learner of another library."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

    def serve(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Scores by what is known now; then the query is learned."""
        scores = self.learner.score(X)
        self.learner.learn(X, y)
        return scores

    def end_of_day(self, queries: list[Query]) -> None:
        """Nothing is left to do."""

    n_bytes = 0


class Nightly:
    """A batch learner, retrained after each day on the last days."""

    def __init__(self, make: Callable[[int], Any], n_days: int) -> None:
        self.make = make
        self.n_days = n_days
        self.days: list[list[Query]] = []
        self.rounds = ROUNDS[-1]
        self.nights = 0
        self.model: Any = None

    def serve(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Scores by the model of last night."""
        return np.zeros(len(X)) if self.model is None else self.model.predict(X)

    def end_of_day(self, queries: list[Query]) -> None:
        """Train on the days that are kept; every 30 days, choose the number of rounds first."""
        self.days = [*self.days, queries][-self.n_days :]
        if self.nights % MONTH == 1 or (self.nights and self.nights < 3):
            self.rounds = self._chosen()
        self.nights += 1
        self.model = self._trained(self.days, self.rounds)

    def _chosen(self) -> int:
        """The number of rounds that ranks the last day best, trained on those before it."""
        ndcg = measure("ndcg@10")
        values = []
        for rounds in ROUNDS:
            model = self._trained(self.days[:-1], rounds)
            values.append(np.mean([ndcg.value(model.predict(X), y) for X, y in self.days[-1] if y.any()]))
        return ROUNDS[int(np.argmax(values))]

    def _trained(self, days: list[list[Query]], rounds: int) -> Any:
        kept = [query for day in days for query in day]
        X, y = np.concatenate([X for X, _ in kept]), np.concatenate([y for _, y in kept])
        model = self.make(rounds)
        model.fit(X, y, group=[len(grades) for _, grades in kept])
        return model

    @property
    def n_bytes(self) -> int:
        """What must be kept for tomorrow."""
        return sum(X.nbytes + y.nbytes for day in self.days for X, y in day) + len(pickle.dumps(self.model))


def lightgbm(rounds: int) -> Any:
    """LightGBM's lambdarank with its other defaults."""
    from lightgbm import LGBMRanker

    return LGBMRanker(objective="lambdarank", n_estimators=rounds, verbose=-1, n_jobs=1)


def xgboost(rounds: int) -> Any:
    """XGBoost's rank:ndcg with its other defaults."""
    from xgboost import XGBRanker

    return XGBRanker(objective="rank:ndcg", n_estimators=rounds, n_jobs=1)


Contestant = Along | Peer | Nightly

#: Of the online learners of other libraries, one a library.
RIVER, WABBIT = "river StandardScaler | LogisticRegression()", "Vowpal Wabbit --csoaa_ldf m"

CONTESTANTS: dict[str, Callable[[], Contestant]] = {
    "AdditiveRanker()": lambda: Along(AdditiveRanker()),
    "map | PerceptronRanker()": lambda: Along(StreamQuantileMap() | PerceptronRanker()),
    RIVER: lambda: Peer(PEERS[RIVER](np.random.default_rng(0))),
    WABBIT: lambda: Peer(PEERS[WABBIT](np.random.default_rng(0))),
    "LightGBM, last 7 days": lambda: Nightly(lightgbm, 7),
    "LightGBM, last 30 days": lambda: Nightly(lightgbm, 30),
    "XGBoost, last 7 days": lambda: Nightly(xgboost, 7),
    "XGBoost, last 30 days": lambda: Nightly(xgboost, 30),
}
BATCH = tuple(name for name in CONTESTANTS if name.startswith(("LightGBM", "XGBoost")))


def day_of(day: int, n_queries: int) -> list[Query]:
    """The queries of a day, of which none depends on the days before."""
    jumps = tuple(n_queries * jump for jump in JUMPS)
    stream = WebLike(
        n_queries, truth="additive", n_features=30, n_documents=20, turn=YEAR / 4 * n_queries, jumps=jumps, seed=1000 + day,
        world_seed=1, first=day * n_queries,
    )  # fmt: skip
    return list(stream)


class Life:
    """What became of a contestant: NDCG@10 of what it served, a mean a day, and processor seconds."""

    def __init__(self, contestant: Contestant) -> None:
        self.contestant = contestant
        self.means: list[float] = []
        self.seconds = 0.0

    def live(self, queries: list[Query]) -> None:
        """One more day."""
        ndcg, values = measure("ndcg@10"), []
        for X, y in queries:
            start = time.process_time()
            scores = self.contestant.serve(X, y)
            self.seconds += time.process_time() - start
            if y.any():
                values.append(ndcg.value(scores, y))
        start = time.process_time()
        self.contestant.end_of_day(queries)
        self.seconds += time.process_time() - start
        self.means.append(float(np.mean(values)))


def all_lives(names: list[str], days: int, n_queries: int) -> dict[str, Life]:
    """Everybody's year, or the first `days` of it."""
    lives = {name: Life(CONTESTANTS[name]()) for name in names}
    for day in range(days):
        queries = day_of(day, n_queries)
        for life in lives.values():
            life.live(queries)
        if (day + 1) % MONTH == 0:
            print(f"day {day + 1}:", "; ".join(f"{name} {np.mean(life.means):.4f}" for name, life in lives.items()), flush=True)
    return lives


def picture(lives: dict[str, Life]) -> str:
    """NDCG@10 of each week. Returns the image as Markdown."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(10, 4.5), constrained_layout=True)
    for name, life in lives.items():
        weeks = len(life.means) // 7
        values = np.array(life.means[: 7 * weeks]).reshape(weeks, 7).mean(axis=1)
        batch = name in BATCH
        colour = ("black" if "30" in name else "grey") if batch else None
        ax.plot(
            7 * np.arange(weeks) + 4,
            values,
            label=name,
            lw=1.3,
            color=colour,
            ls=(":" if "XG" in name else "--") if batch else "-",
        )
    lived = max(len(life.means) for life in lives.values())
    for jump in JUMPS:
        if jump < lived:
            ax.axvline(jump + 0.5, color="lightgrey", zorder=0)
    ax.set(xlabel="day", ylabel="NDCG@10 of what was served, mean of a week")
    ax.grid(alpha=0.3)
    figure.legend(fontsize=8, ncols=4, loc="outside lower center")
    figure.savefig(RESULTS / "year.png", dpi=130)
    plt.close(figure)
    return "![NDCG@10 of each week](year.png)"


def rows_of(lives: dict[str, Life]) -> list[list[str]]:
    """One row a contestant."""
    batch = [name for name in lives if name in BATCH]
    best = max(batch or lives, key=lambda name: np.mean(lives[name].means))
    rows = []
    for name, life in lives.items():
        compared = "" if name == best else f"{Spread.of(np.array(life.means) - lives[best].means):+.4f}"
        size = f"{life.contestant.n_bytes / 1e6:.2f}" if life.contestant.n_bytes else ""
        rows.append([name.replace("|", r"\|"), f"{np.mean(life.means):.4f}", compared, f"{life.seconds:.1f}", size])
    return rows


def left_out(days: int, n_queries: int, names: list[str]) -> str:
    """What is missing to a year of 1,000 queries a day with all contestants, as a sentence; empty where nothing is."""
    missing = [f"{YEAR - days} of {YEAR} days"] if days < YEAR else []
    missing += [f"{1000 - n_queries} of 1,000 queries a day"] if n_queries < 1000 else []
    missing += [name for name in CONTESTANTS if name not in names]
    return f"Left out: {' and '.join(missing)}. " if missing else ""


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--days", type=int, default=YEAR)
    arguments.add_argument("--queries", type=int, default=1000, help="queries a day")
    arguments.add_argument("--only", nargs="+", choices=CONTESTANTS, default=[*CONTESTANTS], metavar="NAME")
    chosen = arguments.parse_args()
    # A package that is missing is found before the year, not after it.
    where = environment("lightgbm", "xgboost-cpu", "vowpalwabbit")
    lives = all_lives(chosen.only, chosen.days, chosen.queries)
    header = ["served NDCG@10", "mean", "difference", "processor seconds", "MB kept"]
    save(
        "year",
        f"""# A year: retrain every night, or learn along?

{chosen.days} days of {chosen.queries} queries (30 raw features, 20 documents). The truth is additive with interactions; it
turns by four right angles in a year, and jumps half of one before days 121 and 241. Batch learners: rounds chosen every
{MONTH} days among {", ".join(map(str, ROUNDS))}, other settings their defaults. *difference*: to the best of them ± standard
error, paired over days. {left_out(chosen.days, chosen.queries, chosen.only)}{where}

{table(header, rows_of(lives))}

{picture(lives)}
""",
    )


if __name__ == "__main__":
    main()
