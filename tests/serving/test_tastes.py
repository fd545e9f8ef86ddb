"""`Tastes` in a service: users whose tastes rank a feed, are saved, replayed and forgotten."""

import json
import warnings

import numpy as np
import pytest

from online_rank import AdditiveRanker, Tastes
from online_rank.base.schema import declared_state
from online_rank.serving import FeedbackPlan, RankingService
from online_rank.serving.durable import DurableService
from online_rank.serving.forgetting import forget
from online_rank.serving.messages import Forget
from online_rank.serving.reading import remembered_in
from online_rank.storage.files import from_bytes, to_bytes
from tests.serving.topics import of_failing_workers

K, M = 3, 5
LABEL = 'of the query: ["user", "embedding", 50.0]'


def service(**settings):
    return RankingService(Tastes("user") | AdditiveRanker(trees=0), **settings)


def answer(handler, request):
    reply = handler.handle(json.dumps(request).encode())
    assert "error" not in reply.answer, reply.answer
    return reply


def feed(number, user, k=K, **others):
    rng = np.random.default_rng(number)
    docs = {f"d{i}": {"age": float(i), "embedding": rng.normal(size=k).round(3).tolist()} for i in range(M)}
    return {"id": number, "docs": docs, "context": {"user": user}, **others}


def engaged(number, k=K):
    """Grades of a feed: every user likes the document with most of the first dimension."""
    first = {name: x["embedding"][0] for name, x in feed(number, "", k)["docs"].items()}
    return {"id": number, "grades": {name: int(value == max(first.values())) for name, value in first.items()}}


def rounds(n, delay=2, partial=False):
    """Feeds, and grades that come `delay` feeds later, every third without the last document."""
    for t in range(n):
        yield feed(t, f"u{t % 3}", ts=10 * t)
        if t >= delay:
            given = engaged(t - delay)
            if partial and t % 3 == 0:
                given["grades"].popitem()
                given["ungraded"] = "skip"
            yield given | {"ts": 10 * t + 1}


def waiting(one, number):
    return remembered_in(declared_state(one).pending.get(number)[0])


def test_a_query_is_learned_with_the_taste_that_ranked_it(monkeypatch):
    one, ranked, learned = service(), {}, {}
    own = AdditiveRanker._learn_block

    def watched(self, block, changes=None):
        learned[block.context[0]["user"]] = block.context[0].get("embedding")
        return own(self, block, changes)

    monkeypatch.setattr(AdditiveRanker, "_learn_block", watched)
    for request in rounds(30, partial=True):
        answer(one, request)
        if "docs" in request:
            ranked[request["id"]] = waiting(one, request["id"])[LABEL]
        else:
            ((_, taste),) = learned.items()
            learned.clear()
            assert ([] if taste is None else taste.tolist()) == ranked[request["id"]]
    assert [] in ranked.values()
    assert one.model["Tastes"].n_keys == 3
    assert one.stats()["histories"] == {"Tastes('user', vector='embedding')": {"keys": 3, "left": 0}}
    assert "embedding learned" in one.model["AdditiveRanker"].feature_names
    # Scores depend on who asks.
    told = [answer(one, feed(99, user, greedy=True)).answer["scores"] for user in ("u0", "u1", "new")]
    assert len({*map(tuple, told)}) == 3


@pytest.mark.parametrize("window", [None, 25.0])
def test_the_journal_and_files_reproduce_tastes_to_the_bit(tmp_path, window):
    def make():
        return service(plan=None if window is None else FeedbackPlan(window=window, events={"click": 1}))

    kept, once = DurableService(make(), tmp_path / "folder", every=1000), make()
    for n, request in enumerate(rounds(16, partial=True)):
        for handler in (kept.service, once):
            reply = answer(handler, request)
            if handler is kept.service:
                kept.append(reply.outcomes, sync=True)
        if n == 11:
            # The process is killed; a checkpoint and a journal are read again.
            kept.store.close()
            kept = DurableService(make(), tmp_path / "folder", every=1000)
        if n == 20:
            kept.save()
    assert to_bytes(kept.service.model) == to_bytes(once.model)
    assert kept.service.model["Tastes"].n_keys == 3
    taste = kept.service.model["Tastes"].taste("u0")
    np.testing.assert_array_equal(from_bytes(to_bytes(once.model))["Tastes"].taste("u0"), taste)
    kept.close()


def test_tastes_of_a_topic_continue_after_a_failure():
    by_workers, at_once = of_failing_workers(service, rounds(14), after=(5, 11, 20))
    assert by_workers == at_once


def test_a_user_is_forgotten():
    one = service()
    for n, user in enumerate(["lovelace", 17, "bob"]):
        answer(one, feed(n, user))
        answer(one, engaged(n))
    answer(one, feed(9, "lovelace"))
    assert LABEL in waiting(one, 9)
    assert forget(one, Forget(context={"user": "lovelace"})).answer()["forgotten"]["keys"] == 1
    assert forget(one, Forget(context={"user": "17"})).keys == 1
    step = one.model["Tastes"]
    assert step.n_keys == 1
    assert step.taste("bob") is not None
    assert b"lovelace" not in to_bytes(one.model)
    # The query that waits has the taste; it went with the user.
    assert declared_state(one).pending.get(9) is None
    assert not forget(one, Forget(context={"user": "lovelace"})).keys


def test_vectors_of_another_length_are_missing_and_the_first_does_not_decide():
    one = service()
    answer(one, feed(0, "first", k=2))
    answer(one, engaged(0, k=2))
    assert one.model["Tastes"].taste("first").shape == (2,)
    for n in range(1, 6):
        answer(one, feed(n, "u0"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer(one, engaged(n))
    assert one.model["Tastes"].taste("first") is None
    assert one.model["Tastes"].taste("u0").shape == (K,)
    before = one.model["Tastes"].taste("u0")
    answer(one, feed(7, "u0", k=2))
    assert answer(one, engaged(7, k=2)).answer["learned"]
    np.testing.assert_array_equal(one.model["Tastes"].taste("u0"), before)
    # A vector in place of a user is nobody.
    answer(one, feed(8, [1.0, 2.0]))
    answer(one, engaged(8))
