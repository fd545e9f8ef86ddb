"""What are grades made of clicks worth, next to clicks as grades, true grades, and LightGBM with the position as a feature?

    python -m benchmarks.judgements [--users position trust ubm] [--seeds 5] [--keep FILE]

A shop with 100 query texts of 20 documents, whose grades, 0 to 4, are a sum of curves of 8 features and something that no
feature tells. Two rankers of today take turns, and 6,000 lists of 10 documents are shown to 1,500 users and to bots, which
click on each document with probability 1/2, 200 lists each. The log has no chance in it, but documents moved. The page is
benchmarks/results/judgements.md.
"""

import argparse
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from benchmarks._common import parser, save, table
from benchmarks._kept import Kept, add_keep
from online_rank import AdditiveRanker, Clicks, ExaminedRanker, Impression, measure
from online_rank.evaluate import Spread
from online_rank.feedback import NaturalVariation, judgements
from online_rank.stream.clicks import user

TEXTS, DOCUMENTS, FEATURES, LISTS, SHOWN, PEOPLE = 100, 20, 8, 6000, 10, 1500
#: The lists of one user that count, and those that a bot sees.
CAP, OF_BOT = 20, 200
PASSES = 5
USERS, BIASES, BOTS = ("position", "trust", "ubm"), (0.5, 1.0, 2.0), (0.0, 0.05, 0.2)

Queries = list[tuple[np.ndarray, np.ndarray]]


class Log(NamedTuple):
    """A shop, and what its users clicked."""

    train: Queries
    test: Queries
    lists: list[tuple[int, Clicks, dict[str, str]]]


def shop(seed: int) -> tuple[Queries, Queries, np.ndarray]:
    """Queries to learn from, queries to test on, and the curves' values of the first (TEXTS, DOCUMENTS)."""
    world, made, values = np.random.default_rng([seed, 1]), [], []
    weights, places = world.normal(size=FEATURES), world.normal(size=FEATURES)
    for part in range(2):
        rng = np.random.default_rng([seed, 2, part])
        z = rng.normal(size=(TEXTS, DOCUMENTS, FEATURES))
        curves = np.where(np.arange(FEATURES) % 2, np.abs(z - 0.5 * places), np.tanh(2.0 * (z - 0.5 * places)))
        value = curves @ weights
        value = (value - value.mean()) / value.std() + 0.5 * rng.normal(size=value.shape)
        grades = np.digitize(value, [0.0, 0.7, 1.2, 1.7])
        # Prices, counts and sales: none is near 0.
        made.append(list(zip(np.exp(z + 2.0), grades, strict=True)))
        values.append(value)
    return made[0], made[1], values[0]


def log(seed: int, who: str, bias: float, bots: float) -> Log:
    """The log of a shop, by users of a kind, whose attention falls with the position by `bias`."""
    train, test, value = shop(seed)
    rng, people = np.random.default_rng([seed, 3]), user(who, max_grade=4, seed=seed, eta=bias)
    popular = rng.permutation(1.0 / np.arange(1.0, TEXTS + 1.0) ** 0.7)
    # Today's rankers know a part of the truth, and disagree about the rest.
    today = [value + 1.2 * np.random.default_rng([seed, 4, which]).normal(size=value.shape) for which in range(2)]
    n_bots, lists = round(bots * LISTS), []
    from_bots = rng.permutation(LISTS) < n_bots
    for t, text in enumerate(rng.choice(TEXTS, LISTS, p=popular / popular.sum()).tolist()):
        order = np.argsort(-today[t // 50 % 2][text] - 0.3 * rng.normal(size=DOCUMENTS))[:SHOWN]
        shown = Impression(tuple(order.tolist()))
        if from_bots[t]:
            name = f"bot {rng.integers(max(1, n_bots // OF_BOT))}"
            lists.append((text, Clicks(shown, tuple((rng.random(SHOWN) < 0.5).astype(float).tolist())), {"user": name}))
        else:
            lists.append((text, people.clicks(shown, train[text][1], t), {"user": f"user {rng.integers(PEOPLE)}"}))
    return Log(train, test, lists)


def quality(scores: Callable[[np.ndarray], Any], test: Queries) -> float:
    """NDCG@10 on the true grades of queries that no log shows."""
    ndcg = measure("ndcg@10")
    return float(np.mean([ndcg.value(np.asarray(scores(X)), y) for X, y in test if y.any()]))


def taught(queries: Iterable[tuple[np.ndarray, Any]], passes: int = 1, model: Any = None) -> Any:
    """The scores of a model that has learned queries."""
    model, queries = AdditiveRanker() if model is None else model, list(queries)
    for _ in range(passes):
        for x, y in queries:
            model.learn_one(x, y)
    return model.predict_one


def from_true_grades(made: Log) -> Any:
    return taught(made.train, PASSES)


def from_judgements(made: Log, caps: dict[str, int] | None) -> Any:
    judged: dict[Any, list[tuple[Any, int]]] = {}
    for one in judgements(made.lists, caps=caps).judged:
        judged.setdefault(one.query, []).append((one.document, one.grade))
    return taught([(made.train[q][0][[d for d, _ in of]], np.array([g for _, g in of])) for q, of in judged.items()], PASSES)


def from_clicks(made: Log) -> Any:
    return taught((made.train[q][0][list(c.impression.order)], np.array(c.gains).astype(int)) for q, c, _ in made.lists)


def from_examined_clicks(made: Log) -> Any:
    positions = NaturalVariation(SHOWN)
    for q, clicks, _ in made.lists:
        positions.update(q, clicks)
    learner = ExaminedRanker(AdditiveRanker(), examination=positions.known_examination)
    return taught([(made.train[q][0], clicks) for q, clicks, _ in made.lists], model=learner)


def from_positions(made: Log) -> Any:
    """LightGBM on clicks, with the position as a feature, which is the first for all documents that are ranked."""
    import lightgbm

    def with_position(X: np.ndarray, position: Any) -> np.ndarray:
        return np.column_stack([X, np.broadcast_to(position, len(X))])

    X = [with_position(made.train[q][0][list(c.impression.order)], np.arange(1.0, SHOWN + 1.0)) for q, c, _ in made.lists]
    y = np.concatenate([np.array(c.gains) for _, c, _ in made.lists]).astype(int)
    model = lightgbm.LGBMRanker(objective="lambdarank", n_estimators=100, verbose=-1, n_jobs=1)
    model.fit(np.concatenate(X), y, group=[SHOWN] * len(made.lists))
    return lambda X: model.predict(with_position(X, 1.0))


CONTESTANTS: dict[str, Callable[[Log], Any]] = {
    "true grades": from_true_grades,
    "`grades`, per user 20": lambda made: from_judgements(made, {"user": CAP}),
    "`grades`, no cap": lambda made: from_judgements(made, None),
    "clicks as grades": from_clicks,
    "LightGBM, position": from_positions,
    "`ExaminedRanker`": from_examined_clicks,
}
OURS = "`grades`, per user 20"


def measured(seed: int, who: str, bias: float, bots: float) -> list[float]:
    """NDCG@10 of every contestant."""
    made = log(seed, who, bias, bots)
    return [quality(learn(made), made.test) for learn in CONTESTANTS.values()]


def report(options: argparse.Namespace) -> str:
    kept, rows, every, names = Kept(options.keep), [], [], list(CONTESTANTS)
    seeds = range(options.first, options.first + options.seeds)
    for who in options.users:
        for bias in BIASES:
            for bots in BOTS:
                found = np.array(
                    [
                        kept.part(f"{who} {bias:g} {bots:g} {s}", lambda s=s: measured(s, who, bias, bots))  # noqa: B023
                        for s in seeds
                    ]
                )
                every.append(found)
                ours = found[:, names.index(OURS)]
                others = [f"{Spread.of(ours - found[:, names.index(name)]):+.3f}" for name in names if name != OURS]
                rows.append((f"{who}, {bias:g}, {bots:.0%}", f"{ours.mean():.3f}", *others))
                print(*rows[-1], flush=True)
    # All settings of a seed share its shop.
    pooled = np.mean(every, axis=0)
    ours = pooled[:, names.index(OURS)]
    others = [f"{Spread.of(ours - pooled[:, names.index(name)]):+.3f}" for name in names if name != OURS]
    rows.append(("all", f"{ours.mean():.3f}", *others))
    header = ("users, bias, bots", OURS, *(f"less {name}" for name in names if name != OURS))
    return f"""# Grades from clicks

NDCG@10 on the true grades of {TEXTS} other query texts, of `AdditiveRanker()` trained on judgements made of a log of {LISTS:,}
lists (`online-rank grades --per-user {CAP}`). The other columns: by how much this is better than
others. The same ranker is trained on true grades of the same texts, on judgements without the cap, and on clicks as grades.
LightGBM is trained on clicks with the position as a feature. `ExaminedRanker(AdditiveRanker())` learns from the lists.
± standard errors, paired over {len(seeds)} seeds.

*Users* look at position p with probability p^-bias (position, trust), or by the distance to the last click (ubm);
*bots*: the share of the lists that bots click at random.

{table(header, rows)}
"""


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--users", nargs="+", default=list(USERS), choices=USERS)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--first", type=int, default=0, help="the first seed")
    add_keep(options)
    given = options.parse_args()
    save("judgements", report(given))


if __name__ == "__main__":
    main()
