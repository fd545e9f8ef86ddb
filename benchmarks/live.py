"""How good is what `serve --from-today` learns, how soon does it take over, and how often wrongly?

    python -m benchmarks.live --part shop|takeover|wrong --seeds 5 --keep FILE

- shop: NDCG@10 of what serves and of what waits after some lists, of `ClickCurves` and of `ClickRidge` behind a quantile map,
  which takes the numbers alone; and of `AdditiveRanker` after as many graded queries.
- takeover: lists until the model takes over, and DCG of what users saw in each block of 500 lists as a share of today's.
- wrong: how often a model takes over that is worse than today's ranking, or as good: only drafted lists are simulated.

The shop has categories, dates, missing values, words and 3 % bots (`benchmarks._live_shop`); each list is a separate session.
"""

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks._common import parser, table
from benchmarks._common import save as save_result
from benchmarks._kept import Kept, add_keep
from benchmarks._live_shop import Crowd, K, LiveShop, Query, ndcg, worth
from online_rank import AdditiveRanker, ClickCurves, ClickRidge, StreamQuantileMap
from online_rank.base.reader import read_for
from online_rank.feedback import Impression
from online_rank.rankers.fixed import FixedRanker
from online_rank.serving import Challenge
from online_rank.serving.challenge import SURE, drafted_by_challenge, from_today
from online_rank.stream.clicks import user

PARTS = ("shop", "takeover", "wrong")
USERS = ("perfect", "navigational", "informational", "trust", "position")
TODAY = {"score": 1.0}
BLOCK, NEVER, HELD_BACK = 500, 40_000, 200


def beginner(name: str) -> Any:
    """The model that learns: ClickCurves, or ClickRidge as it was."""
    return ClickCurves(TODAY) if name == "curves" else StreamQuantileMap() | ClickRidge(TODAY)


def taken(name: str, query: Query) -> dict[int, Any]:
    """The documents of a query as a model takes them."""
    return query.documents if name == "curves" else query.numbers


def live(
    name: str, shop: LiveShop, who: Crowd, keep: float, n: int, seed: int, *, looks: Sequence[int] = (), until: bool = False
) -> tuple[list[int], list[float], list[tuple[float, float]]]:
    """Serve n lists, or until a take-over: the exchanges, the share of today's DCG in each block, and NDCG at some looks."""
    learner, value, today = beginner(name), [], []
    serving, challenge = from_today(TODAY, learner, keep=keep, k=K, seed=seed)
    turns: list[int] = []
    found, held_back = [], list(shop.queries(seed + 10_000, HELD_BACK, first=n)) if looks else []
    for t, query in enumerate(shop.queries(seed, n)):
        x = taken(name, query)
        shown = serving.show_one(x)
        shown = challenge.drafted(shown, serving, read_for(challenge.model, x)) or shown
        challenge.n_asked += 1
        clicks = who.clicks(shown, query.y, t)
        value.append(worth(query.y, shown.order))
        today.append(worth(query.y, sorted(x, key=lambda i: -query.documents[i]["score"])))
        if not drafted_by_challenge(clicks):
            serving.learn_one(x, clicks)
            challenge.learn(read_for(challenge.model, x), clicks)
        else:
            challenge.count(clicks)
            if challenge.is_won:
                serving, challenge = challenge.model, challenge.turned(serving, 0)
                turns.append(t + 1)
        if t + 1 in looks:
            served, learned = (ndcg(lambda q, m=m: m.rank_one(taken(name, q)), held_back) for m in (serving, learner))
            found.append((served, learned))
        if turns and until and len(value) % BLOCK == 0:
            break
    blocks = [sum(value[b : b + BLOCK]) / sum(today[b : b + BLOCK]) for b in range(0, len(value) - BLOCK + 1, BLOCK)]
    return turns, blocks, found


def shop_run(name: str, who: str, n: int, seed: int) -> Any:
    """Exchanges, shares, and NDCG of what serves and of what waits after a fifth, a half and all of the lists."""
    crowd = Crowd(user(who, max_grade=2, seed=seed), seed=seed)
    return live(name, LiveShop(seed), crowd, 0.95, n, seed, looks=(n // 5, n // 2, n))


def graded_run(n: int, seed: int) -> list[float]:
    """NDCG of today's ranking, and of the default after n graded queries."""
    shop, model = LiveShop(seed), AdditiveRanker()
    held_back = list(shop.queries(seed + 10_000, HELD_BACK, first=n))
    for query in shop.queries(seed, n):
        model.learn_one(query.documents, dict(enumerate(query.y.tolist())))
    today = ndcg(lambda q: sorted(q.documents, key=lambda i: -q.documents[i]["score"]), held_back)
    return [today, ndcg(lambda q: model.rank_one(q.documents), held_back)]


def of_shop(n: int, seeds: Sequence[int], kept: Kept) -> str:
    """What serves and what waits, next to the graded model."""
    graded = np.array([kept.part(f"graded {n} {seed}", functools.partial(graded_run, n, seed)) for seed in seeds])
    rows = [("today", *[level(graded[:, 0])] * 3, ""), ("graded", "", "", level(graded[:, 1]), "")]
    for name in ("curves", "ridge"):
        found = []
        for seed in seeds:
            who = USERS[seed % len(USERS)]
            found.append(kept.part(f"shop {name} {n} {seed}", functools.partial(shop_run, name, who, n, seed)))
        for k, what in enumerate(("serves", "waits or serves")):
            at = np.array([[look[k] for look in run[2]] for run in found])
            way = (at[:, -1] - graded[:, 0]) / (graded[:, 1] - graded[:, 0])
            rows.append((f"{name}: {what}", *(level(at[:, j]) for j in range(3)), level(way)))
    return table(("NDCG@10", f"{n // 5:,} lists", f"{n // 2:,}", f"{n:,}", "share of the way to graded"), rows)


def takeover_run(name: str, who: str, keep: float, known: float, n: int, seed: int) -> Any:
    """The first exchange, or `NEVER`, and the shares of today's DCG until then."""
    crowd = Crowd(user(who, max_grade=2, seed=seed), seed=seed)
    turns, blocks, _ = live(name, LiveShop(seed, known=known), crowd, keep, n, seed, until=True)
    return [turns[0] if turns else NEVER, blocks]


def of_takeover(n: int, seeds: Sequence[int], kept: Kept, names: Sequence[str], keeps: Sequence[float]) -> str:
    """Lists until a take-over, over users and seeds, and what users saw until then."""
    rows = []
    for name, keep, known in itertools.product(names, keeps, (0.6,)):
        runs = []
        for who, seed in itertools.product(USERS, seeds):
            given = (name, who, keep, known, n, seed)
            runs.append(kept.part("takeover " + " ".join(map(str, given)), functools.partial(takeover_run, *given)))
        lists = np.array([run[0] for run in runs])
        shares = [[run[1][b] for run in runs if len(run[1]) > b] for b in range(n // BLOCK)]
        # Blocks that a run did not reach are not counted.
        least = min((np.mean(s), np.std(s) / np.sqrt(len(s))) for s in shares if len(s) > 1)
        late = f"{(lists == NEVER).sum()} of {len(lists)}"
        quantiles = (f"{np.quantile(lists, q):,.0f}" for q in (0.5, 0.9))
        rows.append((name, keep, known, *quantiles, late, f"{least[0]:.3f} ± {least[1]:.3f}"))
    head = ("model", "keep", "today knows", "median", "90 %", f"none in {n:,}", "least share in a block of 500")
    return f"""Users of {len(USERS)} kinds, {len(seeds)} seeds each; each list is of another session, and a run without a
take-over counts as {NEVER:,} lists. The last column is about DCG of what users saw until the take-over, as a share of
today's: the mean over the runs that reached the block, where it is least.

{table(head, rows)}"""


def wrong_run(kind: str, n: int, seed: int) -> bool:
    """Whether a model wins that is as good as today's ranking, or worse, by n drafted lists."""
    rng, who = np.random.default_rng([seed, 931]), user(USERS[seed % len(USERS)], max_grade=2, seed=seed)
    fixed = FixedRanker({"score": 1.0})
    challenge = Challenge(fixed, promote_at=SURE, keep=0.95, seed=seed)
    for t in range(n):
        truth = rng.normal(size=K)
        y = np.searchsorted((0.4, 1.0), truth + 0.3 * rng.normal(size=K))
        own, other = (truth + noise * rng.normal(size=K) for noise in ((1.0, 1.0) if kind == "equal" else (0.5, 1.0)))
        lists = [np.argsort(-scores).tolist() for scores in (own, other)]
        shown = Impression.drafted(dict(zip(("serving", "challenger"), lists, strict=True)), K, rng)
        challenge.count(Crowd(who, seed=seed).clicks(shown, y, t))
        if challenge.is_won:
            return True
    return False


def of_wrong(runs: int, n: int, kept: Kept) -> str:
    """How often a model wins that should not."""
    rows = []
    for kind in ("equal", "worse"):
        found = kept.part(f"wrong {kind} {runs} {n}", lambda kind=kind: sum(wrong_run(kind, n, i) for i in range(runs)))
        rows.append((kind, runs, n, found, f"{found / runs:.1%}"))
    return table(("the new model is", "runs", "votes each", "wrong take-overs", "share"), rows)


def level(values: Any) -> str:
    """A mean with its standard error."""
    values = np.asarray(values, dtype=np.float64)
    return f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}" if len(values) > 1 else f"{values[0]:.3f}"


def main() -> None:
    """Measure the parts that are asked for."""
    own = parser(__doc__)
    add_keep(own)
    own.add_argument("--part", action="append", choices=PARTS)
    own.add_argument("--seeds", type=int, default=5)
    own.add_argument("--lists", type=int, default=10_000)
    own.add_argument("--runs", type=int, default=200)
    own.add_argument("--model", action="append", choices=("curves", "ridge"))
    own.add_argument("--budget", action="append", type=float)
    given = own.parse_args()
    kept, seeds = Kept(given.keep), range(given.seeds)
    names, budgets = given.model or ["curves", "ridge"], given.budget or [0.95, 0.99]
    pages = {
        "shop": lambda: f"## What serves after some lists\n\n{of_shop(given.lists, seeds, kept)}",
        "takeover": lambda: f"## Lists until a take-over\n\n{of_takeover(given.lists, seeds, kept, names, budgets)}",
        "wrong": lambda: f"## Wrong take-overs\n\n{of_wrong(given.runs, 1000, kept)}",
    }
    sections = [pages[part]() for part in given.part or PARTS]
    save_result("live", "\n\n".join(["# Learning behind the ranking of today", *sections]), part=True)


if __name__ == "__main__":
    main()
