"""A service that begins with the ranking of today: the budget of draws and votes, taking over, and stepping back."""

import itertools
import json

import numpy as np
import pytest

from online_rank import History, PlackettLuce, RidgeRanker, StreamScaler, SwapRanker
from online_rank.feedback import Impression
from online_rank.rankers.fixed import FixedRanker
from online_rank.rankers.frozen import FrozenRanker
from online_rank.serving import Challenge, RankingService
from online_rank.serving.challenge import from_today
from online_rank.serving.votes import kept_by_draft, least_drafted
from online_rank.storage.files import from_bytes, to_bytes


class Coins:
    """All outcomes of the coins of a draft, one after the other."""

    def __init__(self, outcomes):
        self.outcomes = iter(outcomes)

    def random(self):
        return 0.25 if next(self.outcomes) else 0.75


@pytest.mark.parametrize("k", [3, 4, 5, 6])
def test_the_price_of_a_vote_over_all_orders_and_coins(k):
    discount, least = 1 / np.log2(np.arange(2, k + 2)), np.full(k, np.inf)
    for other in itertools.permutations(range(k)):
        kept = np.zeros(k)
        for coins in itertools.product((0, 1), repeat=(k + 1) // 2):
            order = Impression.drafted({"a": range(k), "b": other}, k, Coins(coins)).order
            kept[list(order)] += discount / 2 ** ((k + 1) // 2)
        least = np.minimum(least, kept / discount)
    assert least.min() >= least_drafted(k) - 1e-12
    assert least.min() == pytest.approx(least_drafted(k), abs=0.06)


@pytest.mark.parametrize("keep", [0.9, 0.95, 0.98, 0.99])
@pytest.mark.parametrize("k", [3, 10, 20])
def test_draws_and_votes_keep_the_budget_together(keep, k):
    today, challenge = from_today({"x": 1.0}, SwapRanker(), keep=keep, k=k)
    together = (1 - challenge.share) * today.policy.keep + challenge.share * least_drafted(k)
    assert together == pytest.approx(keep)
    assert challenge.share * (1 - least_drafted(k)) == pytest.approx((1 - keep) / 2)
    assert challenge.model.policy == today.policy
    assert RankingService(today, challenge=challenge).stats()["keep"] == keep


def test_a_budget_below_what_votes_keep_is_refused_by_its_name():
    for k in (3, 10):
        least = 0.5 * least_drafted(k)
        from_today({"x": 1.0}, SwapRanker(), keep=least + 1e-6, k=k)
        with pytest.raises(ValueError, match=f"keep is 0.1; it must be a number above {least:g}"):
            from_today({"x": 1.0}, SwapRanker(), keep=0.1, k=k)


def shop(good, seed, n=400, keep=0.9, **users):
    """A service that is asked, and clicked by users who look for `good`; the replies that exchanged the models."""
    rng, weights = np.random.default_rng(seed), users.get("weights", {"good": 1.0})
    learner = SwapRanker.from_weights(weights, wealth=1e-9)
    today, challenge = from_today({"today": 1.0}, learner, keep=keep, k=4, seed=seed)
    service, promoted, replies = RankingService(today, challenge=challenge), [], []
    saved = to_bytes(service)
    for i in range(n):
        x = rng.normal(size=(6, 2)).round(3)
        docs = {f"d{j}": {"good": a, "today": b} for j, (a, b) in enumerate(x.tolist())}
        replies.append(service.handle(json.dumps({"id": i, "docs": docs}).encode()))
        best = max(replies[-1].answer["ranking"][:4], key=lambda d: docs[d][good(i)])
        replies.append(service.handle(json.dumps({"id": i, "clicks": [best]}).encode()))
        if replies[-1].promoted:
            promoted.append((i, replies[-1].promoted))
    return service, promoted, saved, replies


def with_context(model, rival=None):
    if rival is None:
        today, challenge = from_today({"score": 1.0}, model, keep=0.5, k=3)
        return RankingService(today, challenge=challenge)
    return RankingService(model, challenge=Challenge(rival))


@pytest.mark.parametrize(
    "make",
    [
        lambda: with_context(History("user") | SwapRanker()),
        lambda: with_context(History("user") | SwapRanker(PlackettLuce(3)), SwapRanker(PlackettLuce(3))),
        lambda: with_context(SwapRanker(PlackettLuce(3)), History("user") | SwapRanker(PlackettLuce(3))),
    ],
)
def test_one_of_the_two_models_may_look_at_the_context(make):
    service, replies = make(), []
    docs = {name: {"score": i, "x": i % 2} for i, name in enumerate("abcd")}
    saved = to_bytes(service)
    for i in range(8):
        ask = {"id": i, "docs": docs, "context": {"user": "u"}}
        replies.append(service.handle(json.dumps(ask).encode()))
        clicks = replies[-1].answer["ranking"][1:2]
        replies.append(service.handle(json.dumps({"id": i, "clicks": clicks}).encode()))
        assert replies[-1].answer["learned"]
    assert service.handle(json.dumps({"id": 9, "docs": docs, "context": {"user": "u"}, "explain": ["a", "b"]}).encode()).answer[
        "explanation"
    ]
    assert service.challenge.n_failed == 0
    back = from_bytes(saved)
    for reply in replies:
        for outcome in reply.outcomes:
            back.replay(json.loads(json.dumps(outcome.fields)), outcome.number, outcome.waiting, outcome.feedback)
    assert to_bytes(back) == to_bytes(service)


def test_a_context_that_neither_model_looks_at_is_refused():
    today, challenge = from_today({"score": 1.0}, SwapRanker(), k=3)
    service = RankingService(today, challenge=challenge)
    ask = {"id": 1, "docs": {"a": {"score": 1}, "b": {"score": 2}}, "context": {"user": "u"}}
    assert service.handle(json.dumps(ask).encode()).answer["error"].startswith("context: no step of FixedRanker uses")


@pytest.mark.slow
def test_it_takes_over_and_steps_back():
    """Users want what is good, until they want what today's ranking has first."""
    service, promoted, saved, replies = shop(lambda i: "good" if i < 500 else "today", seed=1, n=1500, keep=0.5)
    assert len(promoted) == 2
    assert promoted[0][0] < 500 < promoted[1][0]
    assert all(text.startswith("the challenger is better than the serving model: +") for _, text in promoted)
    assert isinstance(service.model, FixedRanker)
    figures = service.stats()["challenger"]
    assert (figures["turns"], service.challenge.keep) == (2, 0.5)
    assert service.stats()["kept_mean"] >= 0.5
    back = from_bytes(saved)
    for reply in replies:
        for outcome in reply.outcomes:
            back.replay(json.loads(json.dumps(outcome.fields)), outcome.number, outcome.waiting, outcome.feedback)
    assert to_bytes(back) == to_bytes(service)


@pytest.mark.slow
def test_a_worse_one_never_takes_over():
    service, promoted, *_ = shop(lambda _: "today", seed=2)
    assert promoted == []
    # Drafts that cost less than the worst one leave room for more of them.
    assert service.challenge.n_drafted >= 400 * service.challenge.share - 1
    assert service.challenge.spent <= 0.5 * (1.0 - service.challenge.keep) * 400


def test_votes_are_within_what_today_would_show():
    today, challenge = from_today({"today": 1.0}, SwapRanker.from_weights({"good": 1.0}), keep=0.5, k=3)
    service = RankingService(today, challenge=challenge)
    docs = {f"d{j}": {"today": -j, "good": j} for j in range(8)}
    for i in range(8):
        reply = service.handle(json.dumps({"id": i, "docs": docs}).encode())
        drawn = Impression.from_dict(json.loads(reply.outcome.waiting[-1]))
        assert drawn.newcomer or {*drawn.order} == {"d0", "d1", "d2"}
        if drawn.teams is not None:
            assert drawn.kept == pytest.approx(kept_by_draft([2, 1, 0]))  # The opposite order.
    assert service.challenge.n_asked == 8


def test_who_does_not_learn_from_draws_is_compared_as_it_is():
    today, challenge = from_today({"x": 1.0}, RidgeRanker())
    assert (type(challenge.model), type(challenge.model.learner)) == (FrozenRanker, RidgeRanker)
    assert challenge.model.policy == today.policy
    assert RankingService(today, challenge=challenge).stats()["keep"] == 0.98
    _, challenge = from_today({"x": 1.0}, SwapRanker())
    assert type(challenge.model) is SwapRanker


def test_what_is_no_model_or_shows_too_little_is_refused():
    with pytest.raises(TypeError, match="model is of type StreamScaler; it is a ranker"):
        from_today({"x": 1.0}, StreamScaler())
    with pytest.raises(TypeError, match="uses the context of a query"):
        from_today({"x": 1.0}, History("user") | RidgeRanker())
    with pytest.raises(ValueError, match="k is 2"):
        from_today({"x": 1.0}, SwapRanker(), k=2)


def test_a_fixed_ranker_with_a_policy_takes_clicks():
    ranker = FixedRanker({"x": 1.0}, policy=PlackettLuce(k=2, keep=0.9))
    docs = {"a": {"x": 1.0}, "b": {"x": 2.0}, "c": {"x": 0.0}}
    shown = ranker.show_one(docs)
    ranker.learn_one(docs, shown.clicked([shown.order[0]]))
    assert ranker.rank_one(docs) == ["b", "a", "c"]
    assert (ranker.keep, FixedRanker({"x": 1.0}).keep) == (0.9, None)


@pytest.mark.parametrize("other", ["one document", "no today", "both agree"])
def test_lists_of_one_client_pay_for_no_row_of_drafts_for_others(other):
    """After 500 lists that cost nothing, each second or every list of the others was drafted, in place of one in eleven."""
    today, challenge = from_today({"today": 1.0}, FixedRanker({"price": -1.0}, policy=PlackettLuce(10)), keep=0.95)
    service = RankingService(today, challenge=challenge)
    cheap = {
        "one document": {"a": {"today": 1.0, "price": 1.0}},
        "no today": {"a": {"price": 1.0}, "b": {"price": 2.0}},
        "both agree": {d: {"today": -float(i), "price": float(i)} for i, d in enumerate("abc")},
    }

    def drafted(n, docs):
        before = service.challenge.n_shown
        for _ in range(n):
            asked = json.dumps({"id": service.n_changes, "docs": docs}).encode()
            assert "ranking" in service.handle(asked).answer
        return service.challenge.n_shown - before

    usual = {f"d{j}": {"today": float(j), "price": float(j)} for j in range(10)}
    before = drafted(100, usual)
    drafted(500, cheap[other])
    assert 5 <= before <= drafted(100, usual) <= before + 5
