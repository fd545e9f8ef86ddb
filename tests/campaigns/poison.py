"""How far an attacker moves a service who sends valid requests: each campaign has the figures that are promised."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.promises import SETTINGS, promise
from online_rank import AdditiveRanker, ClickCurves, History, PlackettLuce
from online_rank.intervals import PairedLosses
from online_rank.rankers.fixed import FixedRanker
from online_rank.serving import Challenge, RankingService
from tests.campaigns.found import Found

_DAY = 86_400.0
_BEGIN = 20_000 * _DAY
#: A challenger is promoted at this level.
_LEVEL = 0.95
#: Most that NDCG@10 falls, for each share of queries with reversed grades.
MOST_LOST = {0.01: 0.02, 0.03: 0.04, 0.1: 0.1}
#: Most that it falls if first values are of another kind.
MOST_LOST_FIRST = 0.02
#: Feedback of one name that counts in a day.
A_DAY = 100


def _send(service: RankingService, **fields: Any) -> Any:
    return service.handle(json.dumps(fields).encode())


def least_names(level: float) -> int:
    """Fewest votes that promote a challenger, whoever gives them: all are for it, and each is of another name.

    Nothing protects against invented names, but no limit that holds at all times is above 0 before that many losses
    (`online_rank.intervals`).
    """
    account = PairedLosses(["serving", "challenger"])
    while not account.n or account.difference("challenger", "serving", level=2.0 * level - 1.0).lower <= 0.0:
        account.update({"serving": 1.0, "challenger": 0.0})
    return account.n


def votes(seed: int) -> Found:
    """A name that votes for the worse challenger for three days; then as many invented names as are needed."""
    found, docs = Found(), {f"d{j}": {"good": float(j)} for j in range(3)}
    for invented in (False, True):
        best, worst = (FixedRanker({"good": sign}, policy=PlackettLuce(k=3, keep=0.99, seed=seed)) for sign in (1.0, -1.0))
        service = RankingService(best, challenge=Challenge(worst, promote_at=_LEVEL, seed=seed), wait=1e9)
        for i in range(300):
            at = _BEGIN + _DAY * (i // 100)
            _send(service, id=i, docs=docs, ts=at)
            drafted = service.challenge is not None and service.challenge.n_drafted
            if _send(service, id=i, clicks=["d0"], ts=at, user=f"u{i if invented else 0}").promoted:
                found.count(**{"names_that_promoted": drafted + 1})
                found.expect(invented, f"one name promoted a worse challenger, with seed {seed}")
                found.expect(
                    drafted + 1 >= least_names(_LEVEL), f"{drafted + 1} names promoted a worse challenger, with seed {seed}"
                )
                break
        if not invented:
            found.count(votes_of_one_name=150)
    return found


def _queries(rng: np.random.Generator, n: int) -> Iterator[tuple[dict[str, dict[str, float]], dict[str, int]]]:
    for _ in range(n):
        X = rng.normal(size=(8, 5))
        y = np.clip(np.floor(X @ [1.0, -1.0, 0.5, 0.0, 0.0] + 1.0), 0, 3).astype(int)
        yield (
            {f"d{j}": {f"f{k}": float(x) for k, x in enumerate(row)} for j, row in enumerate(X)},
            {f"d{j}": int(grade) for j, grade in enumerate(y)},
        )


def _quality(service: RankingService, seed: int) -> float:
    """The mean NDCG@10 of 60 other queries."""
    judge = RankingService(service.model)
    for i, (docs, given) in enumerate(_queries(np.random.default_rng([seed, 1]), 60)):
        _send(judge, id=i, docs=docs, greedy=False)
        _send(judge, id=i, grades=given)
    return 1.0 - float(judge.stats()["loss_mean"])


def grades(seed: int) -> Found:
    """Reversed grades in a share of the queries, and grades of one name beyond its share of a day."""
    found, reached = Found(), {}
    for share in (0.0, *MOST_LOST):
        rng, service = np.random.default_rng(seed), RankingService(AdditiveRanker())
        for i, (docs, given) in enumerate(_queries(rng, 400)):
            if rng.random() < share:
                given = {name: 3 - grade for name, grade in given.items()}
            _send(service, id=i, docs=docs, grades=given)
        reached[share] = _quality(service, seed)
        found.count(queries=460)
    for share, most in MOST_LOST.items():
        lost = reached[0.0] - reached[share]
        found.expect(lost <= most, f"{100 * share:g} % reversed grades cost {lost:.3f} NDCG, with seed {seed}")
    service, learned = RankingService(AdditiveRanker()), 0
    for i, (docs, given) in enumerate(_queries(np.random.default_rng(seed), A_DAY + 50)):
        learned += _send(service, id=i, docs=docs, grades=given, user="one", ts=_BEGIN).answer["learned"]
    found.expect(learned == A_DAY, f"{learned} queries of one name were learned in a day, with seed {seed}")
    return found


def texts(seed: int) -> Found:
    """Texts for numbers, numbers for texts, and invented levels: others are answered, and known levels keep their order."""
    found, rng = Found(), np.random.default_rng(seed)
    service = RankingService(AdditiveRanker(max_levels=50))
    docs = {"a": {"price": 1.0, "brand": "good"}, "b": {"price": 1.0, "brand": "bad"}}
    for i in range(60):
        _send(service, id=i, docs=docs, grades={"a": 1, "b": 0})
    for i in range(200):
        odd = (
            {"price": "9.99", "brand": int(rng.integers(1000))} if i % 2 else {"price": 1.0, "brand": f"x{rng.integers(10**9)}"}
        )
        attack = {"a": odd, "b": {"price": 2.0, "brand": f"y{rng.integers(10**9)}"}}
        _send(service, id=f"attack {i}", docs=attack, grades={"a": int(rng.integers(2)), "b": int(rng.integers(2))})
        answer = _send(service, id=f"other {i}", docs=docs, greedy=True).answer
        found.count(attacks=1)
        found.expect(answer.get("ranking") == ["a", "b"], f"after attack {i} with seed {seed} others get {answer}")
    return found


def first_values(seed: int) -> Found:
    """The first three queries have a value of another kind than all others: these decide."""
    found, reached = Found(), dict[str, float]()
    for odd in (None, "9.99", True, ["a"], [0.5, 0.25]):
        service = RankingService(AdditiveRanker())
        for i in range(0 if odd is None else 3):
            _send(service, id=f"odd {i}", docs={"a": {"f0": odd}, "b": {"f0": odd}}, grades={"a": i % 2, "b": 1 - i % 2})
        for i, (docs, given) in enumerate(_queries(np.random.default_rng(seed), 300)):
            found.expect(_send(service, id=i, docs=docs, grades=given).answer.get("learned"), f"{i} is refused after {odd!r}")
        reached[repr(odd)] = _quality(service, seed)
        found.count(queries=360)
    for odd, quality in reached.items():
        lost = reached["None"] - quality
        found.expect(lost <= MOST_LOST_FIRST, f"{odd} as the first value costs {lost:.3f} NDCG, with seed {seed}")
    return found


def engagement(seed: int) -> Found:
    """One click on the worst document is worth more than all others."""
    found = Found()
    for worth in (1e3, 1e75, 1e300):
        rng = np.random.default_rng(seed)
        service = RankingService(ClickCurves(policy=PlackettLuce(k=5, keep=0.9, seed=seed)))
        for i in range(250):
            docs = {f"d{j}": {"price": float(rng.random())} for j in range(6)}
            shown = sorted(_send(service, id=i, docs=docs).answer["ranking"][:5], key=lambda name, d=docs: d[name]["price"])
            clicks = {shown[-1]: worth} if i == 200 else dict.fromkeys(shown[:2], 1.0)
            found.expect(_send(service, id=i, clicks=clicks).answer.get("learned"), f"{i} is refused, with seed {seed}")
            found.count(clicks=len(clicks))
        docs = {f"d{j}": {"price": 0.1 + 0.2 * j} for j in range(5)}
        first = _send(service, id="judge", docs=docs, greedy=True).answer["ranking"][0]
        found.expect(first in ("d0", "d1"), f"after an engagement of {worth:g} {first} is first, with seed {seed}")
    return found


def history(seed: int) -> Found:
    """One name clicks one document all day: no more of its clicks count than a day's share."""
    model = History("document", half_life="7d") | FixedRanker({"document 7d rate": 1.0}, policy=PlackettLuce(k=2, seed=seed))
    found, service = Found(), RankingService(model, wait=1e9)
    docs = {"a": {"x": 1.0}, "b": {"x": 0.0}}
    learned = 0
    for i in range(A_DAY + 100):
        _send(service, id=i, docs=docs, ts=_BEGIN)
        learned += _send(service, id=i, clicks=["b"], user="one", ts=_BEGIN).answer["learned"]
    found.count(clicks=A_DAY + 100)
    found.expect(learned == A_DAY, f"{learned} clicks of one name count in a day, with seed {seed}")
    return found


def promises(runs: int, seed: int) -> Found:
    """Comparisons of equal models: at most 5 % may be decided, with more allowed for chance."""
    found = Found()
    for votes_each, bots in SETTINGS:
        ended = promise(runs, votes_each, bots, n_votes=2000, seed=seed)
        found.count(runs=runs, decided=ended.wrong)
        found.expect(ended.wrong <= 0.05 * runs + 4.0 * (0.05 * 0.95 * runs) ** 0.5, f"{ended} with seed {seed}")
    return found
