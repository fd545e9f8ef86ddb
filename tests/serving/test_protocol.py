import json
import os
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import online_rank
from online_rank import AdditiveRanker, BlendRanker, LossTracker, PerceptronRanker, StreamScaler, SwapRanker, load
from online_rank.bounds import certificate_of
from online_rank.measures.learned import measure
from online_rank.metrics import metric
from online_rank.serving import windows
from online_rank.serving.journalled import parsed, written
from online_rank.serving.pending import PendingQueries
from online_rank.serving.plan import FeedbackPlan
from online_rank.serving.protocol import RankingService
from online_rank.storage.files import from_bytes, to_bytes
from tests.helpers import leave, let_wait, run_command

ROOT = Path(online_rank.__file__).resolve().parents[1]
DOCS = {"a": {"x": 3.0, "y": 0.0}, "b": {"x": 1.0, "y": 1.0}, "c": {"y": 2.0}}


def ask(query_id, docs=DOCS):
    return json.dumps({"id": query_id, "docs": docs}).encode()


def grade(query_id, **grades):
    return json.dumps({"id": query_id, "grades": grades or {"a": 0, "b": 2, "c": 1}}).encode()


def test_the_oldest_queries_go_first():
    pending = PendingQueries(max_bytes=2)
    for i in range(5):
        let_wait(pending, i, i * 10, 1)
    assert [i in pending for i in range(5)] == [False, False, False, True, True]
    assert (len(pending), pending.n_evicted, pending.get(3), pending.get(0)) == (2, 3, 30, None)


def test_pending_queries_are_bounded_by_time():
    pending = PendingQueries(max_seconds=20)
    for i in range(4):
        let_wait(pending, i, i, at=10 * i)
        if i == 1:
            leave(pending, 1)
    # 0 went when 3 came, 30 seconds after it; 1 was taken.
    assert [i in pending for i in range(4)] == [False, False, True, True]
    assert pending.n_evicted == 1


def test_only_some_of_the_queries_whose_time_is_over_go_at_once():
    """After a pause of days, one request would have to drop all of them."""
    pending = PendingQueries(max_seconds=20)
    for i in range(100):
        let_wait(pending, i, i, at=0)
    lengths = []
    for i in range(5):
        let_wait(pending, f"later {i}", i, at=100)
        lengths.append(len(pending))
    assert lengths == [69, 38, 7, 4, 5]


@pytest.mark.slow
def test_queries_wait_for_a_time_and_no_others_are_dropped_for_them():
    """10,000 could wait, of any size: with 200 rankings a second, the rankings of the last 50 seconds."""
    service = RankingService(PerceptronRanker(), wait=3600.0)
    for i in range(10_500):
        service.handle(ask(i), at=1000.0 + 0.01 * i)
    assert service.stats()["pending"] == 10_500
    assert service.handle(grade(0), at=1200.0).answer["learned"]
    service.handle(ask("later"), at=1000.0 + 3600.0 + 10.0)
    assert "no query is waiting" in service.handle(grade(1)).answer["error"]
    assert service.handle(grade(1100), at=5000.0).answer["learned"]


def test_a_step_of_the_clock_drops_no_queries(monkeypatch):
    service = RankingService(PerceptronRanker(), wait=3600.0)
    service.handle(ask(1))
    monkeypatch.setattr("online_rank.serving.clock._system", lambda: time.time() + 1e6)
    service.handle(ask(2))
    assert service.handle(grade(1)).answer["learned"]


def test_a_query_asked_again_waits_again():
    pending = PendingQueries(max_bytes=2)
    for i in (1, 2, 1, 3):
        let_wait(pending, i, i, 1)
    assert [i in pending for i in (1, 2, 3)] == [True, False, True]


def test_pending_queries_are_bounded_by_bytes():
    pending = PendingQueries(max_bytes=100)
    for i in range(4):
        let_wait(pending, i, i, 40)
    assert [i in pending for i in range(4)] == [False, False, True, True]
    let_wait(pending, 3, "again", 90)
    assert [i in pending for i in range(4)] == [False, False, False, True]
    with pytest.raises(ValueError, match="takes 101 bytes, but all waiting queries together may take 100"):
        let_wait(pending, 9, 9, 101)
    assert (len(pending), pending.n_evicted) == (1, 3)


def test_large_queries_do_not_wait_in_unbounded_memory():
    """As many queries as may wait, of a megabyte each, would be 10 GB."""
    service = RankingService(PerceptronRanker(), wait_bytes=200_000)
    docs = {f"d{i}": {f"f{j}": 0.123456789 for j in range(20)} for i in range(100)}
    for i in range(20):
        assert "ranking" in service.handle(ask(i, docs)).answer
    assert 1 <= service.stats()["pending"] <= 5
    assert service.stats()["pending"] + service.stats()["evicted"] == 20
    small = RankingService(PerceptronRanker(), wait_bytes=1000)
    before = to_bytes(small)
    assert "takes" in small.handle(ask(1, docs)).answer["error"]
    assert to_bytes(small) == before


def seconds(act):
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


@pytest.mark.slow
def test_a_repeated_key_is_found_in_linear_time():
    """428 kB, a key twice at the end of 40,000: 197 s when every key was counted."""
    keys = ",".join(f'"k{i}":0' for i in range(40_000))
    request = f'{{"id":1,"grades":{{{keys},"k39999":1}}}}'.encode()
    service = RankingService(PerceptronRanker())
    answers = []
    assert seconds(lambda: answers.append(service.handle(request).answer)) < 1.0
    assert "'k39999' stands twice" in answers[0]["error"]


@pytest.mark.slow
def test_documents_without_a_feature_in_common_do_not_become_a_large_array():
    """110 kB, each document with another feature: 200 MB as an array."""
    docs = {f"d{i}": {f"f{i}": 1.0} for i in range(5000)}
    service = RankingService(StreamScaler() | PerceptronRanker())
    service.handle(ask(1, docs))  # What is compiled takes memory, too.
    tracemalloc.start()
    try:
        answer = service.handle(ask(1, docs)).answer
        assert tracemalloc.get_traced_memory()[1] < 64 * len(ask(1, docs))
    finally:
        tracemalloc.stop()
    assert "have 5000 features" in answer["error"]


def test_memory_that_runs_out_is_an_error_line_and_changes_nothing(monkeypatch):
    service = RankingService(StreamScaler() | PerceptronRanker())
    service.handle(ask(1))
    before = to_bytes(service)

    def full(*arguments, **options):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(PerceptronRanker, "_learn", full)
        assert "not enough memory" in service.handle(grade(1)).answer["error"]
        patched.setattr(json, "loads", full)
        assert "not enough memory" in service.handle(grade(1), 3).answer["error"]
    assert to_bytes(service) == before
    assert service.handle(grade(1)).answer["learned"]


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, None])
def test_bad_limits(wrong):
    with pytest.raises((ValueError, TypeError), match="max_bytes is"):
        PendingQueries(max_bytes=wrong)
    if wrong != 1.5:
        with pytest.raises((ValueError, TypeError), match="max_seconds is"):
            PendingQueries(max_seconds=wrong)


def test_the_service_learns_what_the_model_would_from_delayed_grades():
    service, model, ndcg = (
        RankingService(StreamScaler() | PerceptronRanker()),
        StreamScaler() | PerceptronRanker(),
        metric("ndcg@10"),
    )
    first = service.handle(ask(1)).answer
    served = model.predict_one(DOCS)
    other = {"a": {"x": 1.0}, "b": {"z": 5.0}}
    service.handle(ask("two", other))
    served_other = model.predict_one(other)
    reply = service.handle(grade("two", a=1, b=0))
    model.learn_one(other, {"a": 1, "b": 0})
    ndcg.update({"a": 1, "b": 0}, served_other)
    # The loss of what was served, not of what the model would answer by now.
    loss = measure("ndcg@10").loss([served_other["a"], served_other["b"]], [1, 0], ties="pessimistic")
    assert reply.answer == {"id": "two", "learned": True, "loss": pytest.approx(loss, abs=1e-12)}
    service.handle(grade(1))
    model.learn_one(DOCS, {"a": 0, "b": 2, "c": 1})
    ndcg.update({"a": 0, "b": 2, "c": 1}, served)
    loss += measure("ndcg@10").loss([served[name] for name in "abc"], [0, 2, 1], ties="pessimistic")
    assert first == {"id": 1, "ranking": ["a", "b", "c"], "scores": [0.0, 0.0, 0.0]}
    assert to_bytes(service.model) == to_bytes(model)
    assert service.stats() == {
        "ranked": 2, "learned": 2, "duplicates": 0, "pending": 0, "evicted": 0, "ndcg@10": ndcg.get(),
        "loss_sum": pytest.approx(loss), "loss_mean": pytest.approx(loss / 2),
        "loss_mean_interval": list(service.served_interval()[:2]), "longest_delay": 1,
            "accepted": 0, "late": 0, "unknown_documents": 0, "unanswered": 0, "refused": 0, "early": 0, "expired": 0,
                "displayed": 0, "limited": 0,
    }  # fmt: skip
    assert service.served_interval().mean == pytest.approx(loss / 2)
    scores = model.predict_one(DOCS)
    answer = service.handle(ask(3)).answer
    assert answer["ranking"] == model.rank_one(DOCS)
    assert answer["scores"] == [scores[name] for name in answer["ranking"]]


def test_grades_that_come_twice_are_learned_once():
    service = RankingService(PerceptronRanker())
    service.handle(ask(1))
    service.handle(grade(1))
    before = to_bytes(service.model)
    assert service.handle(grade(1)).answer == {"id": 1, "learned": False, "duplicate": True}
    service.handle(ask(1))  # a client that sends everything again
    assert service.handle(grade(1)).answer["duplicate"]
    assert to_bytes(service.model) == before
    assert len(service._pending) == 0


def test_an_evicted_query_and_an_unknown_one_are_errors():
    service = RankingService(PerceptronRanker(), wait_bytes=1500)
    service.handle(ask(1))
    service.handle(ask(2))
    assert "no query is waiting" in service.handle(grade(1)).answer["error"]
    assert "no query is waiting" in service.handle(grade(77)).answer["error"]
    assert service.stats()["evicted"] == 1


def test_remembered_ids_are_bounded_without_a_folder(monkeypatch):
    monkeypatch.setattr("online_rank.serving.service_state._IN_MEMORY", 2)
    service = RankingService(PerceptronRanker())
    for i in range(4):
        service.handle(ask(i))
        service.handle(grade(i))
    assert list(service._learned) == [2, 3]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (b"", "not a JSON object"),
        (b"[1]", "not a JSON object: Expected `object`, got `array`"),
        (b"\xff", "not a JSON object"),
        (b"[" * 100_000, "not a JSON object"),
        (b'{"id": 1, "docs": {}', "not a JSON object"),
        (b'{"id": 1, "docs": {"a": {"x": NaN}}}', "not a JSON object: JSON is malformed: invalid character"),
        (b'{"id": 1, "docs": {"a": {"x": 1e999}}}', "docs['a']['x'] is 1e999: number out of range"),
        (b'{"id": 1, "docs": {"a": {"x": ' + b"9" * 400 + b"}}}", "too large|inf"),
        (b'{"id": 1, "docs": {"a": {"x": ' + b"9" * 5000 + b"}}}", "integer value out of range"),
        (b'{"id": 1, "docs": {"a": {"x": "3"}}}', "features are numbers"),
        (b'{"id": 1, "docs": {"a": {"x": [1]}}}', "'x' of document 'a' is [1]; features are numbers: AdditiveRanker and"),
        (b'{"id": 1, "docs": {"a": 3}}', "docs['a'] is 3: expected `object`, got `int`"),
        (b'{"id": 1, "docs": [{"x": 3}]}', 'docs is [{"x": 3}]: expected `object`, got `array`'),
        (b'{"id": 1, "docs": {"a": {}, "a": {}}}', "'a' stands twice"),
        (b'{"id": 1, "docs": {"a": {"x": 1, "x": 2}}}', "'x' stands twice"),
        (b'{"id": true, "docs": {}}', "id is true: expected `int | str`, got `bool`"),
        (b'{"id": 1.0, "docs": {}}', "id is 1.0: expected `int | str`, got `float`"),
        (b'{"id": null, "docs": {}}', "id is null: expected `int | str`, got `null`"),
        (b'{"id": 9223372036854775808, "docs": {}}', "expected `int` <= 9223372036854775807"),
        (b'{"id": "' + b"x" * 1001 + b'", "docs": {}}', "expected `str` of length <= 1000"),
        (b'{"id": 1}', "a request has the fields"),
        (b"{}", "this one has none"),
        (b'{"id": 1, "docs": {}, "clicks": {}}', "a request has the fields"),
        (b'{"cmd": "reset"}', "cmd is \"reset\": invalid enum value 'reset' (`stats` answers"),
        (b'{"cmd": {"a": 1}}', 'cmd is {"a": 1}: expected `str`'),
        (b'{"id": 7, "grades": {"a": 1, "b": 0}}', "no grade for document 'c'"),
        (b'{"id": 7, "grades": {"a": 1, "b": 0, "c": 0, "d": 1}}', "'d', which is not in x|no grade|'d'"),
        (b'{"id": 7, "grades": {"a": 1.5, "b": 0, "c": 0}}', "grades['a'] is 1.5: expected `int`"),
        (b'{"id": 7, "grades": {"a": -1, "b": 0, "c": 0}}', "grades['a'] is -1: expected `int` >= 0"),
        (b'{"id": 7, "grades": {"a": 0, "b": 1001, "c": 0}}', "grades['b'] is 1001: expected `int` <= 1000"),
        (b'{"id": 7, "grades": {"a": 0, "b": 0, "c": "1"}}', "grades['c'] is \"1\": expected `int`"),
        (b'{"id": 7, "grades": {"a": null, "b": 0, "c": 0}}', "grades['a'] is null: expected `int`"),
        (b'{"id": 7, "grades": [1, 0, 0]}', "grades is [1, 0, 0]: expected `object`"),
    ],
)
def test_bad_requests_are_answered_with_their_line_and_change_nothing(request_, message):
    service = RankingService(StreamScaler() | PerceptronRanker())
    service.handle(ask(1))
    service.handle(grade(1))
    service.handle(ask(7))
    before = to_bytes(service)
    reply = service.handle(request_, 17)
    assert reply.answer["line"] == 17
    assert any(part in reply.answer["error"] for part in message.split("|"))
    assert not reply.changed
    assert to_bytes(service) == before
    assert service.handle(grade(7)).answer["learned"]  # the right grades may still come


def test_grades_that_the_model_refuses_do_not_count_in_the_metric_either():
    service = RankingService(PerceptronRanker())
    service.handle(ask(1, {"a": {"x": 1e308}, "b": {"x": -1e308}}))
    before = to_bytes(service)
    assert "non-finite" in service.handle(grade(1, a=0, b=2)).answer["error"]
    assert to_bytes(service) == before


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "docs", "grades", "a", "x"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@pytest.mark.slow
@settings(max_examples=200)
@given(st.fixed_dictionaries({}, optional={"id": json_values, "docs": json_values, "grades": json_values, "cmd": json_values}))
def test_any_json_gets_an_answer(fields):
    service = RankingService(PerceptronRanker())
    service.handle(ask(1))
    before = to_bytes(service)
    reply = service.handle(json.dumps(fields).encode())
    json.dumps(reply.answer, allow_nan=False)
    if "error" in reply.answer:
        assert to_bytes(service) == before


def test_a_service_is_saved_with_everything():
    service = RankingService(StreamScaler() | PerceptronRanker())
    for i in range(5):
        service.handle(ask(i))
    service.handle(grade(2))
    again = from_bytes(to_bytes(service))
    for each in (service, again):
        each.handle(grade(4))
        each.handle(ask("new", {"a": {"new": 1.0}}), at=1e9)
    assert to_bytes(again) == to_bytes(service)
    assert again.stats() == service.stats()


@pytest.fixture
def serve(capfd, tmp_path):
    """Exit status, answers and errors of `online-rank stream`, which reads and writes the files 0 and 1 themselves."""

    def serve(*options, lines):
        (tmp_path / "lines").write_bytes(lines)
        kept = os.dup(0)
        try:
            with open(tmp_path / "lines", "rb") as file:
                os.dup2(file.fileno(), 0)
            code, out, err = run_command(capfd, "stream", *options)
        finally:
            os.dup2(kept, 0)
            os.close(kept)
        return code, [json.loads(line) for line in out.splitlines()], err

    return serve


@pytest.mark.slow
def test_the_command_answers_line_by_line_and_saves_at_the_end(tmp_path):
    long = b"x" * ((1 << 22) + 1)
    lines = b"\n".join([ask(1), b"", b"nonsense", grade(1), b'{"cmd": "stats"}', b'{"cmd": "save"}', long, ask(2)])
    command = [sys.executable, "-m", "online_rank", "stream", "--save", str(tmp_path / "m.npz")]
    done = subprocess.run(command, cwd=ROOT, input=lines, capture_output=True, timeout=120, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    # Without kernels compiled ahead it says what it is waiting for.
    assert all(line.startswith(b"online-rank: compiling") for line in done.stderr.splitlines())
    assert [answer.get("line") for answer in answers] == [None, 2, 3, None, None, None, 7, None]
    assert answers[1]["error"] == "an empty line"
    assert answers[3]["learned"]
    assert answers[4]["stats"]["learned"] == 1
    assert answers[5] == {"saved": str(tmp_path / "m.npz")}
    assert "more than 4194304 bytes" in answers[6]["error"]
    model = AdditiveRanker()
    model.learn_one(DOCS, {"a": 0, "b": 2, "c": 1})
    assert answers[7]["ranking"] == model.rank_one(DOCS) != ["a", "b", "c"]
    assert to_bytes(load(tmp_path / "m.npz")) == to_bytes(model)


def test_the_command_continues_where_it_was(serve, tmp_path):
    state = tmp_path / "state"
    assert serve("--checkpoint", state, "--every", 2, lines=b"\n".join([ask(1), ask(2), grade(1)]) + b"\n")[0] == 0
    code, answers, err = serve("--checkpoint", state, lines=grade(1) + b"\n" + grade(2) + b'\n{"cmd":"stats"}\n')
    assert code == 0
    assert f"continuing from {state}: 2 queries ranked, 1 learned, 1 waiting" in err
    assert answers[0]["duplicate"]
    assert answers[1]["learned"]
    assert answers[2]["stats"]["ranked"] == 2
    code, _, err = serve("--checkpoint", state, "--measure", "ap", lines=b"")
    assert (code, err.count("\n")) == (2, 1)
    assert "other options" in err


def test_saving_without_a_place_is_an_error_answer(serve):
    _, answers, _ = serve(lines=b'{"cmd": "save"}\n')
    assert "nowhere to save to" in answers[0]["error"]


@pytest.mark.slow
def test_grades_that_come_late_are_certified_for_what_was_served():
    rng = np.random.default_rng(0)
    teacher = {"x": 2.0, "y": -1.0}
    services = {
        learn_served: RankingService(
            LossTracker(PerceptronRanker(half_life=0), {"u": teacher}), measure="ndcg", learn_served=learn_served
        )
        for learn_served in (False, True)
    }
    queries = {}
    for t in range(60):
        docs = {name: {"x": float(rng.normal()), "y": float(rng.normal())} for name in "abcd"}
        scores = [2.0 * d["x"] - d["y"] + rng.normal() for d in docs.values()]
        queries[t] = docs, dict(zip(docs, np.digitize(scores, [0.0, 2.0]).tolist(), strict=True))
    losses = dict.fromkeys(services, 0.0)
    for learn_served, service in services.items():
        served = {}
        for t, (docs, _) in queries.items():
            answer = service.handle(ask(t, docs)).answer
            served[t] = dict(zip(answer["ranking"], answer["scores"], strict=True))
            if t >= 7:
                late = t - 7
                _, grades = queries[late]
                reply = service.handle(grade(late, **grades)).answer
                scores = [served[late][name] for name in "abcd"]
                expected = measure("ndcg@10").loss(scores, list(grades.values()), ties="pessimistic")
                assert reply["loss"] == pytest.approx(expected, abs=1e-12)
                losses[learn_served] += expected
        assert service.stats()["longest_delay"] == 7
        assert service.stats()["loss_sum"] == pytest.approx(losses[learn_served], abs=1e-9)
        assert service.served_interval().mean == pytest.approx(losses[learn_served] / service.served_interval().n)
    tracker = services[True].model
    certificate = tracker.certificate(delay=7)
    assert certificate.loss == pytest.approx(losses[True], abs=1e-9) == tracker.totals.served_loss
    assert certificate.holds
    assert certificate.bound("delay_bound") >= certificate.bound("mass_hindsight_bound") >= certificate.loss
    # Scored again on arrival: the certified loss is not the loss of the served rankings.
    again = services[False].model.certificate()
    assert again.holds
    assert again.loss != pytest.approx(losses[False], abs=1e-3)


def test_a_correction_after_learning_comes_too_late_and_a_repetition_does_not():
    def feedback(**more):
        return service.handle(json.dumps({"id": 1, **more}).encode()).answer

    service = RankingService(PerceptronRanker())
    service.handle(b'{"id": 1, "docs": {"a": {"x": 1}, "b": {"x": 2}}}')
    assert feedback(grades={"a": 2, "b": 0})["learned"]
    weights = service.model.weights.copy()
    assert feedback(grades={"b": 0, "a": 2}, ts=7, meta="again") == {
        "id": 1,
        "learned": False,
        "duplicate": True,
        "meta": "again",
    }
    assert feedback(grades={"a": 0, "b": 2}) == {"id": 1, "learned": False, "late": True}
    assert feedback(grades={"a": 2}, ungraded=0) == {"id": 1, "learned": False, "late": True}
    assert (service.stats()["duplicates"], service.stats()["late"], service.stats()["learned"]) == (1, 2, 1)
    assert (service.model.weights == weights).all()


def test_a_request_without_a_grade_hears_what_requests_can_say():
    service = RankingService(PerceptronRanker())
    docs = {"a": {"x": 1}, "b": {"x": 2}}
    service.handle(json.dumps({"id": 1, "docs": docs}).encode())
    for more in ({"id": 1}, {"id": 2, "docs": docs}):
        missing, strange = (
            service.handle(json.dumps({**more, "grades": {"a": 1, **grades}}).encode()).answer["error"]
            for grades in ({}, {"b": 0, "c": 1})
        )
        assert missing.startswith("y has no grade for document 'b' of x (1 missing); ")
        assert missing.endswith("; requests have 'ungraded'")
        assert strange == "y grades document 'c', which is not in x"


def test_what_came_too_late_is_replayed(tmp_path):
    from online_rank.serving.durable import DurableService

    requests = [
        b'{"id": 1, "docs": {"a": {"x": 1}, "b": {"x": 2}}}',
        b'{"id": 1, "grades": {"a": 2, "b": 0}}',
        b'{"id": 1, "grades": {"a": 0, "b": 2}}',
    ]
    for every in (1000, 1):
        folder = tmp_path / str(every)
        durable = DurableService(RankingService(PerceptronRanker()), folder, every=every)
        for request in requests:
            durable.append([durable.service.handle(request).outcome], sync=True)
            durable.between_commits()
        durable.close()
        again = DurableService(RankingService(PerceptronRanker()), folder)
        assert again.service.stats()["late"] == 1
        # The digest of what was learned is known after a restart, too.
        assert again.service.handle(requests[1]).answer == {"id": 1, "learned": False, "duplicate": True}
        assert again.service.handle(requests[2]).answer == {"id": 1, "learned": False, "late": True}
        again.close()


def test_a_blend_that_draws_is_certified_for_the_lists_that_the_service_gave():
    """A service refused `served=` for a blend, so its certificate was not of what users had seen."""
    members = [PerceptronRanker.from_weights(weights) for weights in ({"x": 1.0, "y": 0.0}, {"x": 0.0, "y": 1.0})]
    service, lost, waiting = RankingService(BlendRanker(members, measure="ndcg"), learn_served=True), 0.0, []
    docs = {"a": {"x": 1.0, "y": -1.0}, "b": {"x": -1.0, "y": 1.0}}
    for t in range(80):
        first, again = (service.handle(ask(t, docs)).answer for _ in range(2))
        assert (first["ranking"], first["scores"]) == (again["ranking"], again["scores"])
        # The document that was put last is the relevant one.
        waiting.append((t, {name: place for place, name in enumerate(first["ranking"])}))
        if len(waiting) > 2:
            late, grades = waiting.pop(0)
            lost += service.handle(grade(late, **grades)).answer["loss"]
    certificate = certificate_of(service.model)
    assert certificate.totals["n_drawn"] > 0
    assert certificate.loss == pytest.approx(lost)
    assert certificate.holds
    assert "if grades are late" in str(certificate)


def test_what_has_changed_is_answered_and_journalled_where_memory_runs_out_afterwards(monkeypatch):
    """Otherwise a restart would not know of it."""

    def full(*_):
        raise MemoryError

    service = RankingService(PerceptronRanker(), plan=FeedbackPlan(window=10))
    monkeypatch.setattr(PendingQueries, "_spill", full)
    for part, name in ((windows, "_close_due"), (service._pending, "put")):
        reply = service.handle(b'{"id": "%s", "docs": {"a": {"x": 1}, "b": {}}, "ts": 1}' % name.encode())
        assert reply.answer["ranking"] == ["a", "b"]
        assert reply.outcome is not None
        monkeypatch.setattr(part, name, full)
    reply = service.handle(b'{"id": "third", "docs": {"a": {"x": 1}, "b": {}}, "ts": 2}')
    assert "memory" in reply.answer["error"]
    assert (reply.outcome, service.n_waiting) == (None, 2)


@pytest.mark.parametrize("counts", [(2**63 - 1, [], 0), (None, [], 2**63), ("1", [], 0)])
def test_a_journal_with_counts_that_no_file_holds_is_refused(counts):
    """The service continued, and could not be saved any more."""
    service = RankingService(PerceptronRanker())
    with pytest.raises(ValueError, match="counts that no file can hold"):
        service.replay(["rank", *counts], 1, ("q", 500, None, "{}", [], None), b"")


#: What a journal may have of a query that was ranked; each change below makes it of another kind, or no number.
RANKED = (["rank", 1, [], 0, 1.0], 1, ["q", 10, None, json.dumps({"id": "q", "docs": DOCS}), [0.0, 0.0, 0.0], None])


@pytest.mark.parametrize(
    ("part", "place", "value"),
    [
        (0, 4, float("inf")),
        (0, 4, -1.0),
        (0, 4, "x"),
        (1, None, True),
        (2, 0, True),
        (2, 1, -1),
        (2, 2, "x"),
        (2, 4, [0.0, None, 0.0]),
        (2, 4, {"a": 1.0}),
        (2, 4, [0.0, float("nan"), 0.0]),
        (2, 5, 7),
    ],
)
def test_what_could_not_be_saved_is_not_done_again(part, place, value):
    def again(outcome):
        fields, number, waiting = outcome
        service = RankingService(SwapRanker())
        try:
            service.replay(fields, number, parsed(written(waiting)), b"")
        finally:
            to_bytes(service)
            assert service.n_waiting == (outcome == RANKED)

    again(RANKED)
    outcome = [*RANKED]
    if place is None:
        outcome[part] = value
    else:
        outcome[part] = [*outcome[part]]
        outcome[part][place] = value
    with pytest.raises((ValueError, TypeError), match=r"."):
        again(outcome)


@pytest.mark.parametrize("time_", ["x", True, float("inf"), 1e300])
def test_a_time_that_is_none_is_not_done_again(time_):
    service = RankingService(PerceptronRanker(), plan=FeedbackPlan(window=10, events={"click": 1}))
    for fields in (["late", time_], ["time", time_], ["feedback", time_]):
        with pytest.raises(ValueError, match="a time"):
            service.replay(fields, None, (), b'{"id": "q", "event": "click", "doc": "a"}')
    to_bytes(service)
