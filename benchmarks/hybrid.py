"""Fusing several retrievers: what today's rules rank, and what learning one query at a time adds.

    python -m benchmarks.hybrid [--orders 20] [--part clicks] [--runs 40]

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
from benchmarks._hybrid_checks import beginnings, certificate, engines, exports, robust
from benchmarks._hybrid_clicks import Prepared, logs, strengths
from benchmarks._hybrid_clicks import section as clicks
from benchmarks._hybrid_ranx import EVERY, beside_ranx, costs
from benchmarks._hybrid_vectors import click_strengths
from benchmarks._hybrid_vectors import section as vectors
from benchmarks._hybrid_vectors import strengths as cosine_strengths
from benchmarks._kept import Kept, add_keep
from benchmarks._retrievers import Fused, read, retrieved
from online_rank import RunFeatures, hybrid
from online_rank.base import ranker_of
from online_rank.evaluate import Spread
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
PARTS = (
    *("grades", "ranx", "cost", "clicks", "beginnings", "strength", "logs"),
    *("robust", "cosine", "cosine-clicks", "vectors", "exports", "engines", "certificate"),
)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--orders", type=int, default=20)
    arguments.add_argument("--part", choices=PARTS, default="grades")
    arguments.add_argument(
        "--runs", type=int, default=40, help="of users; half as many worlds, 250 times as many lists, 25 times as many streams"
    )
    add_keep(arguments)
    given = arguments.parse_args()
    alone = {
        "beginnings": beginnings,
        "cost": costs,
        "strength": lambda: strengths(max(2, given.runs // 2)),
        "logs": lambda: logs(max(2, given.runs // 2)),
        "cosine": lambda: cosine_strengths(max(2, given.runs // 2)),
        "cosine-clicks": lambda: click_strengths(max(2, given.runs // 2)),
        "robust": lambda: robust(max(2, given.runs // 2)),
        "engines": lambda: engines(250 * given.runs),
        "certificate": lambda: certificate(25 * given.runs),
    }
    if given.part in alone:
        save("hybrid", alone[given.part](), part=True)
        return
    collection = read(data_folder() / "cranfield")
    if given.part == "vectors":
        save("hybrid", vectors(collection, given.orders, given.runs), part=True)
        return
    queries = retrieved(collection)
    names = list(dict.fromkeys(name for query in queries for x in query.runs.documents.values() for name in x))
    if given.part == "clicks":
        save("hybrid", clicks([*map(prepared, queries)], given.runs), part=True)
    elif given.part == "exports":
        save("hybrid", exports(queries, names), part=True)
    elif given.part == "ranx":
        save("hybrid", ranx(queries, names, given.orders, Kept(given.keep)), part=True)
    else:
        save("hybrid", grades(queries, names, given.orders), part=True)


def prepared(query: Fused) -> Prepared:
    """A question with min-max scores as features."""
    made = RunFeatures(parts=("minmax",)).transform_one(query.runs)
    y = np.array([query.grades[document] for document in query.runs.ids])
    discount = 1.0 / np.log2(np.arange(len(query.ideal[:10])) + 2.0)
    return Prepared(np.array([[*x.values()] for x in made.values()]), y, float((np.exp2(query.ideal[:10]) - 1.0) @ discount))


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


def grades(queries: list[Fused], names: list[str], orders: int) -> str:
    """The sections on learning from grades."""
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


def ranx(queries: list[Fused], names: list[str], orders: int, kept: Kept) -> str:
    """The sections on ranx: its methods compared with learned fusion, and costs."""
    rules = {rule: by_rule(rule, names, queries) for rule in ("rrf", "minmax")}
    cells, rows = Table(rules), []
    for today in ("rrf", "minmax"):
        learned = Learned(today, names, queries, orders)
        rows.append(cells.row(f"`hybrid(runs, today={today!r})`", learned.values, learned.places, learned.seconds))
    rows += beside_ranx(queries, names, orders, ndcg, cells.row, kept)
    return f"""## Compared with ranx

The fusion methods of ranx on min-max scores of the same lists. Those with parameters are optimised for NDCG@10, or estimated,
on all past questions whenever {EVERY} more have come, over grids: weights by quarters (by halves for `w_bordafuse`), k by tens,
gamma, phi and sigma by tenths, up to 20 segments and windows up to 20. Until then weights are equal, gamma is 1, phi .9,
sigma .5, k 60, and what must be estimated ranks as `sum`. `w_condorcet` is left out: 50 ms a fusion and 70 combinations of
weights make nearly an hour of each order. Orders of the questions: {orders}, the same for all rows; errors over questions.
Processor time of one thread for a question, with learning or optimising, without compiling. {environment("ranx")}

{table(cells.header, rows)}
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
