"""Fusing several retrievers: what today's rules rank, and what learning one query at a time adds.

    python -m benchmarks.hybrid [--orders 20] [--part strength] [--worlds 20]

Cranfield (`ONLINE_RANK_DATA`): five retrievers made from the text, 100 documents of each; each question is ranked, then
learned, in random orders of the questions, so nothing is held out. NDCG@10 is over all relevant documents, returned or not.
Differences are paired by question, after the mean over the orders; the standard error is over questions.
"""

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks._common import environment, parser, save, table
from benchmarks._data import data_folder
from benchmarks._fusion_streams import fusion_stream
from benchmarks._hybrid_clicks import logs, strengths
from benchmarks._retrievers import Fused, read, retrieved
from online_rank import RunFeatures, hybrid
from online_rank.base import ranker_of
from online_rank.evaluate import Experiment, Spread
from online_rank.rankers.fixed import FixedRanker
from online_rank.rankers.rules import rule_weights

#: Questions at the beginning of a stream.
FIRST = 20
RULES = {"rrf": "reciprocal rank fusion, k = 60", "minmax": "mean of min-max scores", "zscore": "mean of z-scores"}


def ndcg(ranking: list[Any], query: Fused) -> float:
    """NDCG@10 of a ranking, over the grades of all relevant documents."""
    discount = 1.0 / np.log2(np.arange(10) + 2.0)
    gains = np.exp2([query.grades[document] for document in ranking[:10]]) - 1.0
    ideal = np.exp2(query.ideal[:10]) - 1.0
    return float(gains @ discount[: len(gains)] / (ideal @ discount[: len(ideal)]))


def by_rule(rule: str, names: list[str], queries: list[Fused]) -> np.ndarray:
    """NDCG@10 of each question by a rule that never changes."""
    model = RunFeatures(names, parts=("minmax", "zscore", "reciprocal_rank")) | FixedRanker(rule_weights(rule, names))
    return np.array([ndcg(model.rank_one(query.runs), query) for query in queries])


class Learned:
    """NDCG@10 of rank, then learn over several orders of the questions, and what a certificate says at the end of each.

    Attributes
    ----------
    values
        (orders, questions), in the order of the questions themselves.
    places
        The same shape: the place of each question in the stream.
    losses
        (orders, 3): what today's rule lost, what was served, and what the bound says; of 1 - NDCG@10 of the candidates.
    seconds
        Processor time of ranking and learning, for a question.
    """

    def __init__(self, today: str, names: list[str], queries: list[Fused], orders: int) -> None:
        shape = orders, len(queries)
        self.values, self.places, self.losses = np.empty(shape), np.empty(shape, int), np.empty((orders, 3))
        spent = 0.0
        for number in range(orders):
            model = hybrid(names, today=today)
            for place, i in enumerate(np.random.default_rng(number).permutation(len(queries)).tolist()):
                start = time.thread_time()
                ranking = model.rank_one(queries[i].runs)
                model.learn_one(queries[i].runs, queries[i].grades)
                spent += time.thread_time() - start
                self.values[number, i], self.places[number, i] = ndcg(ranking, queries[i]), place
            blend = ranker_of(model)
            rule = int(np.argmax(blend.candidates[:, 0]))
            account, lost = blend.account, blend.candidate_losses
            costs = lost + np.log(1.0 / blend.candidate_prior) / blend.step + account.mixability_gap
            costs += account.served - account.mixed
            self.losses[number] = lost[rule], account.served, costs[rule]
        self.seconds = spent / (orders * len(queries))


def paired(difference: np.ndarray) -> str:
    """Mean and standard error over questions of (orders, questions), NaN where a question does not count."""
    counted = ~np.isnan(difference).all(axis=0)
    means = np.nanmean(difference[:, counted], axis=0)
    return f"{Spread.of(means):+.4f}"


#: What can be measured alone; the page keeps its other sections.
PARTS = ("grades", "beginnings", "strength", "logs")


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--orders", type=int, default=20)
    arguments.add_argument("--part", choices=PARTS, default="grades")
    arguments.add_argument("--worlds", type=int, default=20, help="of strength and logs")
    given = arguments.parse_args()
    section = {
        "grades": lambda: grades(given.orders),
        "beginnings": beginnings,
        "strength": lambda: strengths(given.worlds),
        "logs": lambda: logs(given.worlds),
    }[given.part]
    save("hybrid", section(), part=True)


class Table:
    """Cells of the tables: what a way to rank is worth, compared with today's rules.

    Parameters
    ----------
    rules
        NDCG@10 of each question by reciprocal rank fusion and by the mean of min-max scores.
    """

    header = (
        "", "NDCG@10", "less RRF", "less min-max", f"first {FIRST}, less min-max", "second half, less min-max", "ms a question"
    )  # fmt: skip

    def __init__(self, rules: Mapping[str, np.ndarray]) -> None:
        self._rules = rules

    def row(self, label: str, values: np.ndarray, places: np.ndarray, seconds: float) -> tuple[str, ...]:
        """The cells for NDCG@10 (orders, questions), the places of the questions in the streams, and seconds for a question."""
        over = {rule: values - self._rules[rule] for rule in ("rrf", "minmax")}
        first = np.where(places < FIRST, over["minmax"], np.nan)
        second = np.where(places >= values.shape[1] // 2, over["minmax"], np.nan)
        differences = (paired(difference) for difference in (over["rrf"], over["minmax"], first, second))
        return label, f"{values.mean():.4f}", *differences, f"{1e3 * seconds:.2f}"


def grades(orders: int) -> str:
    """The sections on learning from grades."""
    queries = retrieved(read(data_folder() / "cranfield"))
    names = list(dict.fromkeys(name for query in queries for x in query.runs.documents.values() for name in x))
    rules = {rule: by_rule(rule, names, queries) for rule in RULES}
    single = {name: np.mean([ndcg(FixedOrder(name).rank(query), query) for query in queries]) for name in names}
    best = max(single, key=single.__getitem__)
    cells = Table(rules)
    rows = [(f"best single retriever: {best}", f"{single[best]:.4f}", *[""] * 5)]
    rows += [(RULES[rule], f"{values.mean():.4f}", *[""] * 5) for rule, values in rules.items()]
    certified = []
    for today in ("rrf", "minmax"):
        learned = Learned(today, names, queries, orders)
        rows.append(cells.row(f"`hybrid(runs, today={today!r})`", learned.values, learned.places, learned.seconds))
        certified.append((RULES[today], *(f"{value:.2f}" for value in learned.losses.mean(axis=0))))
    candidates = np.mean([len(query.runs) for query in queries])
    return f"""## From grades

{len(queries)} questions of Cranfield, {len(names)} retrievers, {candidates:.0f} candidates in the mean;
{orders} orders. {environment("scikit-learn")}

{table(cells.header, rows)}

## Certified against the rule that ranks today

Sums of 1 - NDCG@10 over the candidates of all questions, ties broken pessimistically, mean over the orders. *At most*: what the
bound of `BlendRanker` says of what was served, from its account alone.

{table(("today's rule", "it lost", "served", "at most"), certified)}
"""


def beginnings(worlds: int = 6, first: int = 20) -> str:
    """The section on the rule to begin with."""
    names, rules = [f"r{r}" for r in range(5)], ("minmax", "zscore", "rrf")
    features = RunFeatures(names, parts=("minmax", "zscore", "reciprocal_rank"))
    models = {rule: features | FixedRanker(rule_weights(rule, names)) for rule in rules}
    models |= {f"hybrid, {rule}": hybrid(names, today=rule) for rule in rules}
    results = Experiment(models, lambda seed: fusion_stream(100, seed=seed), seeds=range(10, 10 + worlds)).run()
    found = {way: [run.queries["ndcg@10"] for run in results.runs if run.model == way] for way in models}
    rows = []
    for way, values in found.items():
        ahead = [own - base for own, base in zip(values, found["minmax"], strict=True)]
        ahead = [x[~np.isnan(x)] for x in ahead]
        parts = ([x[:first].mean() for x in ahead], [x.mean() for x in ahead], [x[len(x) // 2 :].mean() for x in ahead])
        rows.append((way, *(f"{Spread.of(part):+.4f}" for part in parts)))
    header = ("", f"first {first}, less min-max", "all 100, less min-max", "second half, less min-max")
    return f"""## Which rule to begin with

{worlds} synthetic fusion streams of 100 queries (`benchmarks/_fusion_streams.py`): NDCG@10 minus NDCG@10 of the mean of min-max
scores, and its standard error over streams. Rank, then learn.

{table(header, rows)}
"""


class FixedOrder:
    """The ranking by one retriever; what it did not return stands last."""

    def __init__(self, name: str) -> None:
        self.name = name

    def rank(self, query: Fused) -> list[Any]:
        """The candidates, best first."""
        documents = query.runs.documents
        return sorted(documents, key=lambda d: documents[d][self.name].rank if self.name in documents[d] else math.inf)


if __name__ == "__main__":
    main()
