"""The service on clicks: shows, learns, survives being killed, and never lets out how a ranking was drawn."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import online_rank
from online_rank import (
    ClickCurves,
    ClickPerceptron,
    ClickRidge,
    PerceptronRanker,
    PlackettLuce,
    StreamQuantileMap,
    StreamScaler,
    SwapRanker,
)
from online_rank.feedback import FairPairs, Impression
from online_rank.metrics import NDCG
from online_rank.serving import FeedbackPlan, ranking
from online_rank.serving.challenge import Challenge
from online_rank.serving.metrics import Figures
from online_rank.serving.models import Models
from online_rank.serving.protocol import RankingService
from online_rank.storage.files import from_bytes, to_bytes

ROOT = Path(online_rank.__file__).resolve().parents[1]


def queries(n, seed=0):
    rng = np.random.default_rng(seed)
    return [{f"d{i}": {"x": float(x), "y": float(y)} for i, (x, y) in enumerate(rng.normal(size=(6, 2)))} for _ in range(n)]


def request(**fields):
    return json.dumps(fields).encode()


def test_shows_and_learns_what_the_model_alone_would():
    service, model = RankingService(SwapRanker(PlackettLuce(k=3, seed=1))), SwapRanker(PlackettLuce(k=3, seed=1))
    waiting = []
    for t, docs in enumerate(queries(30)):
        answer = service.handle(request(id=t, docs=docs)).answer
        shown = model.show_one(docs)
        assert answer["ranking"][: answer["shown"]] == list(shown.order)
        assert set(answer) == {"id", "ranking", "scores", "shown"}  # and no more: nothing says how it was drawn
        waiting.append((t, docs, shown))
        if t >= 5:  # clicks come late
            late, docs, shown = waiting.pop(0)
            clicked = [d for d in shown.order if docs[d]["x"] > 0.5]
            reply = service.handle(request(id=late, clicks=clicked))
            model.learn_one(docs, shown.clicked(clicked))
            assert reply.changed
            assert reply.learned
            assert reply.answer == {"id": late, "learned": True, "loss": model.last_round.loss}
    assert service.model.weights.tobytes() == model.weights.tobytes()
    assert service.stats()["learned"] == 25
    assert service.stats()["pending"] == 5


def test_engagement_no_click_and_twice():
    service = RankingService(SwapRanker(PlackettLuce(k=2, seed=1)))
    first = service.handle(request(id="q", docs=queries(1)[0])).answer["ranking"][0]
    assert service.handle(request(id="q", clicks={first: 0.7})).answer["learned"] is True
    assert service.handle(request(id="q", clicks={first: 0.7})).answer == {"id": "q", "learned": False, "duplicate": True}
    assert service.handle(request(id="q", clicks=[])).answer == {"id": "q", "learned": False, "late": True}
    service.handle(request(id="r", docs=queries(1)[0]))
    assert service.handle(request(id="r", clicks=[])).answer == {"id": "r", "learned": True, "loss": 0.0}


def test_grades_on_what_was_shown_measure_what_was_shown():
    service = RankingService(SwapRanker(PlackettLuce(k=2, seed=1)))
    docs = queries(1)[0]
    order = service.handle(request(id="q", docs=docs)).answer["ranking"]
    grades = {d: int(d == order[1]) for d in docs}
    assert service.handle(request(id="q", grades=grades)).answer["learned"] is True
    metric = NDCG(k=10)
    metric.update(grades, {d: -order.index(d) if d in order else -9 for d in docs})
    assert service.stats()["ndcg@10"] == metric.get() < 1.0


@pytest.mark.parametrize(
    ("clicks", "message"),
    [
        (["e"], "document 'e' was not shown"),
        ("d1", r"clicks is \"d1\": expected `object . array`, got `str` \(documents"),
        (3, "clicks is 3: expected `object . array`"),
        ({"d1": "long"}, r"clicks\['d1'\] is \"long\": expected `float`"),
        ({"d1": True}, "is true: expected `float`, got `bool`"),
        ({"d1": -1}, "is -1: expected `float` >= 0.0"),
        ([["d1"]], r"clicks\[0\] is \[\"d1\"\]: expected `str`"),
    ],
)
def test_bad_clicks_change_nothing(clicks, message):
    service = RankingService(StreamScaler() | SwapRanker(PlackettLuce(k=6)))
    service.handle(request(id="q", docs=queries(1)[0]))
    before = to_bytes(service)
    reply = service.handle(request(id="q", clicks=clicks), line=2)
    assert not reply.changed
    assert reply.answer["id"] == "q"
    with pytest.raises(ValueError, match=message):
        raise ValueError(reply.answer["error"])
    assert to_bytes(service) == before


def test_stats_say_what_exploring_costs():
    assert RankingService(SwapRanker(PlackettLuce(seed=1))).stats()["keep"] is None  # it has nothing to keep yet
    begun = RankingService(SwapRanker.from_weights({"a": 1.0}, policy=PlackettLuce(keep=0.95)))
    assert begun.stats()["keep"] == 0.95
    assert "online_rank_keep 0.95" in Figures(Models(lambda: begun), set()).text()
    assert "keep" not in RankingService(PerceptronRanker()).stats()


def test_what_exploring_costs_is_summed_over_the_lists_drawn():
    policy = PlackettLuce(k=3, keep=0.9, seed=1)
    service = RankingService(SwapRanker.from_weights({"x": 1.0}, policy=policy))
    assert service.stats()["kept_mean"] is None
    saved, since, kept, docs = to_bytes(service), [], [], queries(3)
    for t, query in enumerate(docs):
        kept.append(policy.show(service.model.predict_one([*query.values()]), t).kept)
        since.append(service.handle(request(id=t, docs=query)).outcome)
        service.handle(request(id=t, docs=query, greedy=True))  # draws nothing
    stats = service.stats()
    assert (stats["kept_sum"], stats["kept_mean"]) == (pytest.approx(sum(kept)), pytest.approx(sum(kept) / 3))
    assert stats["keep"] <= min(kept) < max(kept) < 1.0
    assert f"online_rank_kept_share {stats['kept_mean']}" in Figures(Models(lambda: service), set()).text()
    drawn = [Impression.from_dict(json.loads(outcome.waiting[-1])) for outcome in since]
    assert [impression.kept for impression in drawn] == kept
    assert from_bytes(to_bytes(service)).stats()["kept_sum"] == stats["kept_sum"]
    # From the journal, and from one of before.
    for fields, total in ((5, sum(kept)), (4, 0.0)):
        back = from_bytes(saved)
        for outcome in since:
            back.replay(list(outcome.fields[:fields]), outcome.number, outcome.waiting, b"")
        assert back.stats()["kept_sum"] == pytest.approx(total)


def test_a_file_of_before_what_exploring_costs_was_summed_is_read():
    service = RankingService(SwapRanker(PlackettLuce(k=3, seed=1)))
    del service._kept
    assert from_bytes(to_bytes(service)).stats()["kept_sum"] == 0.0


@pytest.mark.parametrize("policy", [PlackettLuce(k=3, keep=0.9, seed=1), FairPairs(k=3, seed=1), FairPairs(k=1)])
def test_every_policy_can_be_served(policy):
    service = RankingService(SwapRanker(policy))
    for t, docs in enumerate(queries(5)):
        reply = service.handle(request(id=t, docs=docs))
        assert reply.answer["shown"] == policy.k
        assert Impression.from_dict(json.loads(reply.outcome.waiting[-1])).kept >= policy.keep
        assert service.handle(request(id=t, clicks=reply.answer["ranking"][:1])).answer["learned"]
    assert 0.0 < service.stats()["kept_mean"] <= 1.0


def test_a_drafted_list_explores_without_a_share():
    policy = PlackettLuce(k=3, keep=0.9, seed=1)
    service = RankingService(SwapRanker(policy), challenge=Challenge(SwapRanker(policy)))
    for t, query in enumerate(queries(4)):
        service.handle(request(id=t, docs=query))
    assert service._kept[0] == 2.0  # the other two were drafted


def test_a_service_of_grades_refuses_clicks():
    service = RankingService(PerceptronRanker())
    service.handle(request(id="q", docs=queries(1)[0]))
    assert "learns from grades" in service.handle(request(id="q", clicks=[])).answer["error"]


def test_replay_is_exact():
    """A service that is brought back from a checkpoint and the requests since draws and learns what it would have."""
    service = RankingService(SwapRanker(PlackettLuce(k=3, seed=4)))
    saved, since, stream = b"", [], queries(40)
    for t, docs in enumerate(stream):
        asked = request(id=t, docs=docs)
        order = service.handle(asked, at=t).answer["ranking"]
        clicked = request(id=t, clicks=[d for d in order[:3] if docs[d]["x"] > 0])
        service.handle(clicked, at=t)
        if t == 20:
            saved = to_bytes(service)
        elif t > 20:
            since += [(asked, t), (clicked, t)]
    back = from_bytes(saved)
    assert all(back.handle(record, at=at).changed for record, at in since)
    assert to_bytes(back) == to_bytes(service)
    assert back.handle(request(id="new", docs=stream[0]), at=40) == service.handle(request(id="new", docs=stream[0]), at=40)


@pytest.mark.slow
def test_command_line_is_killed_and_continues(tmp_path):
    command = [sys.executable, "-m", "online_rank", "stream", "--ranker", "swap", "--checkpoint", str(tmp_path / "state")]
    uninterrupted, expected = (
        RankingService(StreamQuantileMap() | SwapRanker(), measure="ndcg@10"),
        [],
    )
    stream = queries(12)
    for t, docs in enumerate(stream):
        expected.append(uninterrupted.handle(request(id=t, docs=docs)).answer)
        expected.append(uninterrupted.handle(request(id=t, clicks=expected[-1]["ranking"][:1])).answer)
    answers = []
    for part in (range(6), range(6, 12)):
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
            for t in part:
                for make in (
                    lambda t=t: request(id=t, docs=stream[t]),
                    lambda t=t: request(id=t, clicks=answers[-1]["ranking"][:1]),
                ):
                    process.stdin.write(make() + b"\n")
                    process.stdin.flush()
                    answers.append(json.loads(process.stdout.readline()))
            process.send_signal(signal.SIGKILL)
    assert answers == expected
    assert not any(set(answer) & set(Impression.__dataclass_fields__) for answer in answers)


def test_all_documents_are_answered_those_that_were_drawn_first():
    service = RankingService(SwapRanker(PlackettLuce(k=3, seed=2)))
    for t, docs in enumerate(queries(20)):
        answer = service.handle(request(id=t, docs=docs)).answer
        scores = service.model.predict_one(docs)
        assert sorted(answer["ranking"]) == sorted(docs)
        assert answer["scores"] == [scores[name] for name in answer["ranking"]]
        assert answer["shown"] == 3
        behind = answer["scores"][3:]
        assert behind == sorted(behind, reverse=True)
        assert service.answer_again(request(id=t, docs=docs)).answer == answer
        refused = service.handle(request(id=t, clicks=answer["ranking"][3:4])).answer
        assert "was not shown" in refused["error"]
        assert service.handle(request(id=t, clicks=answer["ranking"][:1])).answer["learned"]


def test_a_greedy_request_is_answered_by_the_scores_and_changes_nothing():
    for model in (SwapRanker(PlackettLuce(k=3)), PerceptronRanker()):
        service = RankingService(model)
        docs = queries(1)[0]
        service.handle(request(id="q", docs=docs))
        before = to_bytes(service)
        reply = service.handle(request(id="g", docs=docs, greedy=True))
        scores = service.model.predict_one(docs)
        assert reply.answer["scores"] == sorted(scores.values(), reverse=True)
        assert not reply.changed
        assert to_bytes(service) == before
        assert "no query is waiting" in service.handle(request(id="g", clicks=[])).answer["error"]
        assert service.handle(request(id="g", docs=docs, greedy=1)).answer["error"].startswith("greedy is 1: expected `bool`")


def test_grades_for_a_drawn_ranking_measure_all_of_it():
    service = RankingService(SwapRanker(PlackettLuce(k=2, seed=1)), measure="ndcg")
    docs = {name: {"x": 0.0} for name in "abcd"}
    ranking = service.handle(request(id=1, docs=docs)).answer["ranking"]
    grades = {name: int(place == 2) for place, name in enumerate(ranking)}
    # The only relevant document stood on the third place.
    assert service.handle(request(id=1, grades=grades)).answer["learned"]
    assert service.stats()["ndcg"] == pytest.approx(1 / np.log2(4))


def test_a_ranking_that_cannot_wait_was_not_drawn(monkeypatch):
    service, same = (RankingService(SwapRanker(PlackettLuce(k=3, seed=1))) for _ in range(2))
    first, second = queries(2)
    with monkeypatch.context() as patched:
        patched.setattr(ranking, "let_wait", lambda *_: (_ for _ in ()).throw(MemoryError))
        assert "error" in service.handle(request(id=0, docs=first)).answer
    assert service.model.n_shown == 0
    assert service.handle(request(id=1, docs=second)).answer == same.handle(request(id=1, docs=second)).answer


@pytest.mark.parametrize("engagement", [1e6, 1e75, 1e150, 1e308])
@pytest.mark.parametrize("ranker", [SwapRanker, ClickPerceptron, ClickCurves, ClickRidge])
def test_the_engagement_of_one_click_overturns_no_model(ranker, engagement):
    """NDCG fell from .96 to .57, and later clicks of others were refused, as they would make the model non-finite."""
    rng = np.random.default_rng(0)
    service = RankingService(ranker(policy=PlackettLuce(k=5, keep=0.9)))

    def ask(i, clicks):
        docs = {f"d{j}": {"price": float(rng.random())} for j in range(6)}
        shown = service.handle(request(id=i, docs=docs)).answer["ranking"][:5]
        assert service.handle(request(id=i, clicks=clicks(docs, shown))).answer["learned"]

    def cheap(docs, shown):
        return [name for name in shown if docs[name]["price"] < 0.4][:2]

    def dearest(docs, shown):
        return {max(shown, key=lambda name: docs[name]["price"]): engagement}

    for i in range(200):
        ask(i, cheap)
    ask("attack", dearest)
    for i in range(200, 230):
        ask(i, cheap)
    docs = {f"d{j}": {"price": 0.1 + 0.2 * j} for j in range(5)}
    assert service.handle(request(id="q", docs=docs, greedy=True)).answer["ranking"][0] in ("d0", "d1")


def test_what_is_usual_follows_the_unit_of_engagement():
    service = RankingService(SwapRanker(policy=PlackettLuce(k=2)))
    learned = [service.bounded({"a": 30_000.0})["a"] for _ in range(500)]
    # 20; then 20 times the geometric mean of 1 and 20.
    assert learned[:2] == pytest.approx([20.0, 20.0 * 20.0 ** (1.0 / (1.0 + 0.999))])
    assert learned[40] == 30_000.0
    for _ in range(100):
        service.bounded({"a": 1e-75})
    assert service.bounded({"a": 30_000.0})["a"] == 30_000.0
    assert service.bounded(["a"]) == ["a"]


def test_the_value_of_one_event_overturns_no_model_and_declared_events_keep_theirs():
    plan = FeedbackPlan(window=10.0, events={"click": 1, "purchase": 50})
    service = RankingService(SwapRanker(policy=PlackettLuce(k=2)), plan=plan)
    docs, begin = {"a": {"x": 1.0}, "b": {"x": 0.0}}, 1.7e9
    for i in range(3):
        ts = begin + 100.0 * i
        shown = service.handle(request(id=i, docs=docs, ts=ts)).answer["ranking"]
        value = [{"event": "click"}, {"event": "click", "value": 1000}, {"event": "purchase"}][i]
        assert service.handle(request(id=i, doc=shown[1], ts=ts, **value)).answer["accepted"]
    service.handle(request(id="later", docs=docs, ts=begin + 1000.0))
    # 1, 51 as all events together, and 50; each weighs a thousandth less after each later click.
    weight, logarithms = service._engagement
    assert weight == pytest.approx(((1.0 * 0.999 + 1.0) * 0.999 + 1.0) * 0.999 + 1.0)
    assert logarithms == pytest.approx(np.log(51.0) * 0.999 + np.log(50.0))
