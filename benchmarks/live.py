"""How good is what `serve --from-today` learns, and how soon does it take over?

    python -m benchmarks.live --part shop|taught|takeover --seeds 5 --keep FILE

- shop: NDCG@10 of what serves and of what waits after some lists, of `ClickCurves` and of `ClickRidge` behind a quantile map,
  which takes the numbers alone; and of `AdditiveRanker` after as many graded queries.
- taught: the same lists teach `ClickCurves`, `AdditiveRanker` by the clicks less the mean of their position, and
  `ClickBlendRanker`.
- takeover: lists until the model takes over, and DCG of what users saw in each block of 500 lists as a share of today's.

The shop has categories, dates, missing values, words and 3 % bots (`benchmarks._live_shop`); each list is a separate session.
"""

import argparse
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks._common import parser, table
from benchmarks._common import save as save_result
from benchmarks._kept import Kept, add_keep
from benchmarks._live_run import BLOCK, HELD_BACK, NEVER, TODAY, shop_run, takeover_run
from benchmarks._live_shop import Crowd, K, LiveShop, ndcg
from online_rank import AdditiveRanker, ClickBlendRanker, ClickCurves
from online_rank.serving.challenge import from_today
from online_rank.stream.clicks import user

PARTS = ("shop", "taught", "takeover")
USERS = ("perfect", "navigational", "informational", "trust", "position")
#: How much of the truth today's ranking knows.
KNOWN = 0.6


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


def taught_run(who: str, n: int, seed: int) -> list[list[float]]:
    """NDCG of ClickCurves, AdditiveRanker and ClickBlendRanker after a fifth, a half and all of the same lists."""
    shop, crowd = LiveShop(seed), Crowd(user(who, max_grade=2, seed=seed), seed=seed)
    held_back = list(shop.queries(seed + 10_000, HELD_BACK, first=n))
    curves, differences, blend = ClickCurves(TODAY), AdditiveRanker(), ClickBlendRanker()
    today, _ = from_today(TODAY, curves, keep=0.95, k=K, seed=seed)
    means, found = np.zeros((K, 2)), []
    for t, query in enumerate(shop.queries(seed, n)):
        shown = today.show_one(query.documents)
        clicks = crowd.clicks(shown, query.y, t)
        curves.learn_one(query.documents, clicks)
        blend.learn_one(query.documents, clicks)
        gains = np.array(clicks.gains)
        if gains.any():
            means += np.column_stack([gains, np.ones(K)])
            # Grades are whole numbers: 2 is what a position gains on average, 4 a click where nobody clicks.
            grades = np.rint(2.0 * (1.0 + gains - means[:, 0] / means[:, 1])).astype(int)
            seen = {document: query.documents[document] for document in shown.order}
            differences.learn_one(seen, dict(zip(shown.order, grades.tolist(), strict=True)))
        if t + 1 in (n // 5, n // 2, n):
            found.append([ndcg(lambda q, m=m: m.rank_one(q.documents), held_back) for m in (curves, differences, blend)])
    return found


def of_taught(n: int, seeds: Sequence[int], kept: Kept) -> str:
    """What lists around today's ranking teach three learners."""
    runs = [kept.part(f"taught {n} {s}", functools.partial(taught_run, USERS[s % len(USERS)], n, s)) for s in seeds]
    at = np.array(runs)
    names = ("`ClickCurves`", "`AdditiveRanker`, by differences", "`ClickBlendRanker`")
    rows = [(name, *(level(at[:, j, i]) for j in range(3)), level(at[:, -1, i] - at[:, -1, 0])) for i, name in enumerate(names)]
    return table(("NDCG@10", f"{n // 5:,} lists", f"{n // 2:,}", f"{n:,}", "less `ClickCurves`"), rows)


def of_takeover(n: int, seeds: Sequence[int], kept: Kept, options: argparse.Namespace) -> str:
    """Lists until a take-over, over users and seeds, and what users saw until then."""
    rows = []
    learners, budgets = options.model or ["curves", "ridge"], options.budget or [0.95, 0.99]
    often = itertools.product(learners[:1], budgets[:1], options.votes or [20])
    for name, keep, votes in [*itertools.product(learners, budgets, [1]), *often]:
        runs = []
        for who, seed in itertools.product(USERS, seeds):
            given = (name, who, keep, KNOWN, n, seed)
            key = " ".join(map(str, (*given, *([f"{votes} votes"] if votes > 1 else []))))
            runs.append(kept.part(f"takeover {key}", functools.partial(takeover_run, *given, votes)))
        lists = np.array([run[0] for run in runs])
        shares = [[run[1][b] for run in runs if len(run[1]) > b] for b in range(n // BLOCK)]
        # Blocks that a run did not reach are not counted.
        least = min((np.mean(s), np.std(s, ddof=1) / np.sqrt(len(s))) for s in shares if len(s) > 1)
        late = f"{(lists == NEVER).sum()} of {len(lists)}"
        quantiles = (f"{np.quantile(lists, q):,.0f}" for q in (0.5, 0.9))
        rows.append((name, keep, votes, *quantiles, late, f"{least[0]:.3f} ± {least[1]:.3f}"))
    head = ("model", "keep", "votes a person", "median", "90 %", f"none in {n:,}", "least share in a block of 500")
    return f"""Users of {len(USERS)} kinds, {len(seeds)} seeds each; today's ranking knows {KNOWN} of the truth. A run without a
take-over counts as {NEVER:,} lists. With more votes a person than one, a person gives these one after the other in one day,
and the first counts. The last column is about DCG of what users saw until the take-over, as a share of today's: the mean over
the runs that reached the block, where it is least.

{table(head, rows)}"""


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
    own.add_argument("--model", action="append", choices=("curves", "ridge"))
    own.add_argument("--budget", action="append", type=float)
    own.add_argument("--votes", action="append", type=int, help="how many votes a person gives in a day, as well as one")
    given = own.parse_args()
    kept, seeds = Kept(given.keep), range(given.seeds)
    pages = {
        "shop": lambda: f"## What serves after some lists\n\n{of_shop(given.lists, seeds, kept)}",
        "taught": lambda: f"## What teaches from the same lists\n\n{of_taught(given.lists, seeds, kept)}",
        "takeover": lambda: f"## Lists until a take-over\n\n{of_takeover(given.lists, seeds, kept, given)}",
    }
    sections = [f"{pages[part]()}\n\n{kept.code}" for part in given.part or PARTS]
    save_result("live", "\n\n".join(["# Learning behind the ranking of today", *sections]), part=True)


if __name__ == "__main__":
    main()
