"""What does exploring within a budget cost users, and how soon is a model better than today's ranking?

    python -m benchmarks.exploring --part budget|wrong|gains

- budget: the expected DCG@k of the lists as a share of the greedy list's, for the worst relevance: over all orders of up to 6
  documents, and by draws for real queries (MQ2008).
- wrong: users meet the lists of `serve --from-today`, of 30 documents with 8 features. Today's ranking is the truth, and the
  model sees noise: how often it takes over all the same.
- gains: how many lists a gain of .02 NDCG takes at given click rates, before and after.
"""

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks._clicks_data import offline, parts, queries_of
from benchmarks._common import parser, table
from benchmarks._common import save as save_result
from benchmarks._data import data_folder
from benchmarks._kept import Kept, add_keep
from online_rank import ClickRidge, PlackettLuce, StreamQuantileMap, SwapRanker
from online_rank.feedback import Impression
from online_rank.query import read_query
from online_rank.serving.challenge import drafted_by_challenge, from_today
from online_rank.stream.clicks import User, user

PARTS = ("budget", "wrong", "gains")
USERS = ("perfect", "navigational", "informational", "trust", "position")
BUDGETS = ((0.9, 0.0), (0.9, 0.01), (0.95, 0.0), (0.95, 0.01), (0.98, 0.0), (0.98, 0.01), (0.99, 0.0), (0.99, 0.005))
SHOWN = (1, 2, 5, 10, 20)
K, DOCUMENTS, FEATURES, GRADES = 10, 30, 8, (0.6, 0.85)
#: Today's ranking, by the first column.
TODAY = (1.0, *[0.0] * FEATURES)


class Shop:
    """Queries with a truth that is linear in 8 features; the first column is today's score."""

    def __init__(self, seed: int, *, known: float = 0.5) -> None:
        rng = np.random.default_rng([seed, 73])
        self.truth, self.known = rng.normal(size=FEATURES), known
        self.truth /= np.linalg.norm(self.truth)
        self.wrong = rng.normal(size=FEATURES)
        self.wrong -= self.wrong @ self.truth * self.truth
        self.wrong /= np.linalg.norm(self.wrong)

    def query(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Features (30, 9), and grades 0, 1, 2."""
        Z = rng.normal(size=(DOCUMENTS, FEATURES))
        utility = Z @ self.truth + 0.3 * rng.normal(size=DOCUMENTS)
        today = self.known * (Z @ self.truth) + np.sqrt(1.0 - self.known**2) * (Z @ self.wrong)
        y = np.searchsorted(np.quantile(utility, GRADES), utility)
        return np.column_stack((today, Z)), y

    def queries(self, seed: int, n: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """n queries, one after the other."""
        rng = np.random.default_rng([seed, n, 74])
        return (self.query(rng) for _ in range(n))


class Rare(NamedTuple):
    """A user, or with a click rate below 1 one who leaves without a look in most lists."""

    who: User
    rate: float = 1.0

    def clicks(self, shown: Impression, y: np.ndarray, t: int) -> Any:
        """Clicks on a list."""
        if np.random.default_rng([t, 75]).random() >= self.rate:
            return shown.clicked([])
        return self.who.clicks(shown, y, t)


def of_budget(draws: int) -> str:
    """Exact shares for few documents, and measured ones for real queries."""
    rows, queries = [], [(X, y) for X, y in queries_of(parts(data_folder() / "mq2008")[:1]) if len(y) >= 40][:5]
    for (keep, newcomers), k in itertools.product(BUDGETS, SHOWN):
        policy = PlackettLuce(k, keep=keep, newcomers=newcomers)
        exact = min(least_exact(policy, scores) for scores in few_scores())
        rng, measured, low, mean = np.random.default_rng(73), [], [], []
        for X, _ in queries:
            shares, errors = drawn_shares(policy, X[:, 24].astype(float), draws, rng)
            worst = int(np.argmin(shares))
            measured.append(shares[worst])
            low.append(float(np.min((shares - keep) / np.maximum(errors, 1e-12))))
            mean.append(shares.mean())
        figures = (f"{share:.4f}" for share in (exact, min(measured), float(np.mean(mean))))
        rows.append((f"{keep:g}", f"{newcomers:g}", k, *figures, f"{min(low):+.1f}"))
    head = ("keep", "newcomers", "k", "exact, least", "drawn, least", "drawn, mean", "least in standard errors above keep")
    return f"""## Budget

Share of the greedy list's DCG@k that users see if one document alone is relevant. *Exact*: the least over all places, and
over scores of 1 to 6 documents (equal, tied, far apart, one far ahead, random), by all orders. *Drawn*: {draws:,} draws for
each of {len(queries)} queries of MQ2008 with 40 documents or more, ranked by one feature; the least over queries and places,
and the mean. With k = 1 and 2 the budget is spent to the last, for any scores, so that measured shares are on both sides
of it.

{table(head, rows)}
"""


def few_scores() -> Iterator[np.ndarray]:
    """Scores of few documents, ties and outliers among them."""
    rng = np.random.default_rng(1)
    for m in range(1, 7):
        yield from (
            np.zeros(m),
            np.arange(m)[::-1] * 1.0,
            np.r_[1e6, np.zeros(m - 1)],
            rng.normal(size=m),
            rng.normal(size=m) ** 3,
        )


def least_exact(policy: PlackettLuce, scores: np.ndarray) -> float:
    """The least share over places, by all orders of the documents drawn."""
    m, greedy = len(scores), np.argsort(-scores, kind="stable")
    k = min(policy.k or m, m)
    n = min(k + (4 if k <= 2 else 0), m)
    logits = policy.logits(scores)[greedy[:n]]
    expected, discounts = np.zeros(n), 1.0 / np.log2(np.arange(2.0, k + 2.0))
    brings = discounts * np.r_[np.ones(k - 1), 1.0 - policy.newcomers * (m > n)]
    for order in itertools.permutations(range(n), k):
        left, chance = [*range(n)], 0.0
        for i in order:
            chance += logits[i] - np.logaddexp.reduce(logits[left])
            left.remove(i)
        expected[list(order)] += np.exp(chance) * brings
    return float(np.min(expected[:k] / discounts))


def drawn_shares(
    policy: PlackettLuce, scores: np.ndarray, draws: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The mean share of the discount of each greedy place that its document brings, and its standard error."""
    m, greedy = len(scores), np.argsort(-scores, kind="stable")
    k = min(policy.k or m, m)
    n = k + 4 if k <= 2 else k
    logits, discounts = policy.logits(scores)[greedy[:n]], 1.0 / np.log2(np.arange(2.0, k + 2.0))
    places = np.argsort(np.argsort(-(logits + rng.gumbel(size=(draws, n))), axis=1), axis=1)[:, :k]
    brings = np.where(places < k, discounts[np.minimum(places, k - 1)], 0.0)
    brings[(places == k - 1) & (rng.random(draws) < policy.newcomers)[:, None]] = 0.0
    shares = brings / discounts
    return shares.mean(axis=0), shares.std(axis=0) / np.sqrt(draws)


def of_wrong(runs: int, n: int, kept: Kept) -> str:
    """How often a model that sees noise takes over from the truth."""
    found = [kept.part(f"wrong 0.95 {n} {i}", functools.partial(wrong_run, n, i)) for i in range(runs)]
    rows = [("0.95", runs, f"{n:,}", sum(map(bool, found)))]
    return f"""## Wrong take-overs

Today's ranking is by the truth; the other features are noise. Users of five kinds in turn.

{table(("keep", "runs", "lists each", "runs in which the model took over"), rows)}
"""


def wrong_run(n: int, seed: int) -> int:
    """How often a model that sees noise and today's ranking, which is the truth, change places in n lists of a service."""
    shop, who = Shop(seed, known=1.0), user(USERS[seed % len(USERS)], max_grade=2, seed=seed)
    serving, challenge = from_today(TODAY, beginner(), keep=0.95, k=K, seed=seed)
    turns = 0
    for t, (X, y) in enumerate(shop.queries(seed, n)):
        X = np.column_stack((X[:, 0], np.random.default_rng([seed, t]).normal(size=(DOCUMENTS, FEATURES))))
        shown = serving.show_one(X)
        clicks = who.clicks(challenge.drafted(shown, serving, read_query(X)) or shown, y, t)
        challenge.count_list()
        if not drafted_by_challenge(clicks):
            serving.learn_one(X, clicks)
            challenge.learn(read_query(X), clicks)
            continue
        challenge.count(clicks)
        if challenge.is_won:
            serving, challenge = challenge.model, challenge.turned(serving, 0)
            turns += 1
    return turns


def of_gains(n: int, seeds: Sequence[int], kept: Kept) -> str:
    """How many lists a gain of .02 takes."""
    rows = []
    for known, rate in itertools.product((0.5, 0.9), (0.01, 0.03, 0.1)):
        asked = [(known, rate, n, seed) for seed in seeds]
        found = [kept.part(" ".join(map(str, ("gains", *given))), functools.partial(gain_run, *given)) for given in asked]
        gained = {name: np.array([run[name][2] for run in found]) for name in found[0]}
        setting = (f"{known:g}", f"{100 * rate:g} %")
        for name in LEARNERS:
            lists = [middle([run[name][i] for run in found], n) for i in (0, 1)]
            more = "" if name == BEFORE else level(gained[name] - gained[BEFORE])
            rows.append((*setting, name, *lists, level(gained[name]), more))
    head = ("today knows", "users who look", "the model", "first .02 better", ".02 better from", f"gain after {n:,}", "paired")
    return f"""## Gains

Today's score knows .5 or .9 of the truth. Navigational users of whom a share looks at a list at all; lists are drawn around
today's ranking at keep .95, the same for all models. The NDCG@10 of the model that learns less today's, on 300 held-back
queries, looked at every 500 lists: after how many lists it is .02 or more for the first time, and from when on it stays there;
median, least and most of {len(seeds)} seeds. Both are behind a quantile map; `{BEFORE}` begins with nothing, and `{AFTER}` with
today's score.

{table(head, rows)}
"""


BEFORE, AFTER = "SwapRanker", "ClickRidge"
LEARNERS: dict[str, Any] = {BEFORE: lambda: StreamQuantileMap() | SwapRanker(), AFTER: lambda: beginner()}


def beginner() -> Any:
    """What `serve --from-today` learns with: the map gives each of nine features a column and one relative to the query."""
    return StreamQuantileMap() | ClickRidge((1.0, *[0.0] * (2 * FEATURES + 1)))


def middle(lists: Sequence[int], n: int) -> str:
    """The median, the least and the most of numbers of lists, of which 0 is never."""
    found = sorted(each or n + 1 for each in lists)
    least, half, most = (f"{each:,}" if each <= n else "never" for each in (found[0], found[(len(found) - 1) // 2], found[-1]))
    return f"{half} ({least} to {most})"


def gain_run(known: float, rate: float, n: int, seed: int) -> dict[str, tuple[int, int, float]]:
    """For each learner: after how many lists it is .02 better than today's ranking for the first time, and for good (0 for
    never), and its gain at the end.
    """
    shop, who = Shop(seed, known=known), Rare(user("navigational", max_grade=2, seed=seed), rate)
    held_back = list(shop.queries(seed + 10_000, 300))
    models = {name: make() for name, make in LEARNERS.items()}
    serving, _ = from_today(TODAY, beginner(), keep=0.95, k=K, seed=seed)
    today = offline(lambda X: X[:, 0], held_back)
    gains: dict[str, list[float]] = {name: [] for name in models}
    for t, (X, y) in enumerate(shop.queries(seed, n), start=1):
        clicks = who.clicks(serving.show_one(X), y, t)
        for model in models.values():
            model.learn_one(X, clicks)
        if t % 500 == 0:
            for name, model in models.items():
                gains[name].append(offline(model.predict_one, held_back) - today)
    return {name: (*reached(found), found[-1]) for name, found in gains.items()}


def reached(gains: Sequence[float]) -> tuple[int, int]:
    """After how many lists gains, looked at every 500 lists, are .02 for the first time, and for good; 0 for never."""
    enough = [gain >= 0.02 for gain in gains]
    first = 500 * (enough.index(True) + 1) if any(enough) else 0
    lasting = len(enough) - next((i for i, fine in enumerate(reversed(enough)) if not fine), len(enough))
    return first, 500 * (lasting + 1) if lasting < len(enough) else 0


def level(values: Sequence[float] | np.ndarray) -> str:
    """Mean and its standard error."""
    error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{np.mean(values):.3f} ± {error:.3f}"


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--part", default="budget", choices=PARTS, help="what to measure; the page keeps its other sections")
    arguments.add_argument("--lists", type=int, help="lists of each run, in place of the default")
    arguments.add_argument("--runs", type=int, help="seeds, or runs of `wrong`")
    add_keep(arguments)
    chosen = arguments.parse_args()
    kept, seeds = Kept(chosen.keep), range(chosen.runs or 5)
    section = {
        "budget": lambda: of_budget(chosen.lists or 100_000),
        "wrong": lambda: of_wrong(chosen.runs or 200, chosen.lists or 2000, kept),
        "gains": lambda: of_gains(chosen.lists or 10_000, seeds, kept),
    }[chosen.part]
    save_result("exploring", section(), part=True)


if __name__ == "__main__":
    main()
