"""Lists as `serve --from-today` shows them, learned and compared."""

from collections.abc import Sequence
from typing import Any

from benchmarks._live_shop import Crowd, K, LiveShop, Query, ndcg, worth
from online_rank import ClickCurves, ClickRidge, StreamQuantileMap
from online_rank.base.calls import read_for
from online_rank.serving.challenge import drafted_by_challenge, from_today
from online_rank.stream.clicks import user

TODAY = {"score": 1.0}
BLOCK, NEVER, HELD_BACK = 500, 40_000, 200


def beginner(name: str) -> Any:
    """The model that learns: `ClickCurves`, or `ClickRidge` behind a quantile map."""
    return StreamQuantileMap() | ClickRidge(TODAY) if name == "ridge" else ClickCurves(TODAY)


def taken(name: str, query: Query) -> dict[int, Any]:
    """The documents of a query as a model takes them."""
    return query.documents if name == "curves" else query.numbers


def live(
    name: str,
    shop: LiveShop,
    who: Crowd,
    keep: float,
    n: int,
    seed: int,
    *,
    looks: Sequence[int] = (),
    until: bool = False,
    votes: int = 1,
) -> tuple[list[int], list[float], list[tuple[float, float]]]:
    """Serve n lists, or until a take-over: the exchanges, the share of today's DCG in each block, and NDCG at some looks.

    Each person gives that many votes, one after the other, in one day.
    """
    learner, value, today = beginner(name), [], []
    serving, challenge = from_today(TODAY, learner, keep=keep, k=K, seed=seed)
    turns: list[int] = []
    found, held_back = [], list(shop.queries(seed + 10_000, HELD_BACK, first=n)) if looks else []
    n_votes = 0
    for t, query in enumerate(shop.queries(seed, n)):
        x = taken(name, query)
        shown = serving.show_one(x)
        shown = challenge.drafted(shown, serving, read_for(challenge.model, x)) or shown
        challenge.count_list()
        clicks = who.clicks(shown, query.y, t)
        value.append(worth(query.y, shown.order))
        today.append(worth(query.y, sorted(x, key=lambda i: -query.documents[i]["score"])))
        if not drafted_by_challenge(clicks):
            serving.learn_one(x, clicks)
            challenge.learn(read_for(challenge.model, x), clicks)
        else:
            challenge.count(clicks, *([n_votes % votes == 0] if votes > 1 else []))
            n_votes += 1
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


def takeover_run(name: str, who: str, keep: float, known: float, n: int, seed: int, votes: int = 1) -> Any:
    """The first exchange, or `NEVER`, and the shares of today's DCG until then."""
    crowd = Crowd(user(who, max_grade=2, seed=seed), seed=seed)
    turns, blocks, _ = live(name, LiveShop(seed, known=known), crowd, keep, n, seed, until=True, votes=votes)
    return [turns[0] if turns else NEVER, blocks]
