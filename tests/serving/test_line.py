"""The ranking of today against a model of a file: who serves, who waits, a line of models, and a rollback in one request."""

import json
import re

import numpy as np
import pytest

from online_rank import (
    AdditiveRanker,
    ClickBlendRanker,
    ClickCurves,
    FixedTrees,
    PerceptronRanker,
    StreamQuantileMap,
    SwapRanker,
    load,
)  # fmt: skip
from online_rank.intervals import PairedLosses
from online_rank.rankers.click_ridge import ClickRidge
from online_rank.rankers.fixed import FixedRanker
from online_rank.rankers.frozen import FrozenRanker
from online_rank.serving import RankingService
from online_rank.serving.challenge import from_today
from online_rank.serving.durable import DurableService
from online_rank.serving.votes import kept_by_draft, least_drafted
from online_rank.serving.windows import promote
from online_rank.storage.files import from_bytes, to_bytes
from tests.serving.test_readers import run

OF_FILE = {"Content-Type": "application/octet-stream"}
STUMP = """tree
max_feature_idx=0
feature_names=good
Tree=0
num_leaves=2
split_feature=0
threshold=1.5
decision_type=2
left_child=-1
right_child=-2
leaf_value=-0.25 0.75
end of trees"""


def service(model=None, keep=0.5, k=3):
    today, challenge = from_today({"today": 1.0}, PerceptronRanker.from_weights({"good": 1.0}) if model is None else model,
                                  keep=keep, k=k)  # fmt: skip
    return RankingService(today, challenge=challenge)


def docs(rng):
    """Documents of which today's ranking knows nothing."""
    return {f"d{j}": {"today": float(rng.normal()), "good": float(rng.normal()), "brand": "acme"} for j in range(3)}


async def fed(client, first, n):
    """Users who click the best document of lists, until another model serves; how many lists."""
    rng = np.random.default_rng(first)
    for i in range(first, first + n):
        query = docs(rng)
        status, answer = await client.post("/rank", {"id": i, "docs": query})
        assert status == 200, answer
        best = max(query, key=lambda d: query[d]["good"])
        status, _ = await client.post("/learn", {"id": i, "clicks": [best], "session": f"s{i}"})
        assert status == 200
        if client.models.open_models[""].n_promotions:
            return i - first + 1
    return None


async def stats(client):
    return (await client.http.get("/stats")).json()


@pytest.mark.slow
def test_a_frozen_model_takes_over_and_a_rollback_is_one_request():
    async def scenario(learner, link):
        found = await stats(learner)
        assert found["models"]["serving"]["name"] == "the ranking of today"
        assert found["models"]["waiting"] == "the model of the file (PerceptronRanker)"
        assert found["stats"]["challenger"]["left"] is None
        assert await fed(learner, 0, 1500) is not None
        found = await stats(learner)
        assert (found["models"]["waiting"], found["stats"]["challenger"]["turns"]) == ("the ranking of today", 1)
        assert "promoted" in found["models"]["serving"]["why"]
        files = [(await learner.http.get(path)).content for path in ("/model", "/model/waiting")]
        assert [type(from_bytes(each)) for each in files] == [FrozenRanker, FixedRanker]
        assert await learner.post("/model/rollback", {}) == (200, {"replaced": True})
        found = await stats(learner)
        assert (found["models"]["serving"]["name"], found["stats"]["challenger"]["n"]) == ("the ranking of today", 0)
        assert found["models"]["waiting"] == "the model of the file (PerceptronRanker)"

    run(scenario, service, n_readers=0)


@pytest.mark.slow
def test_a_model_of_the_same_line_keeps_the_evidence_and_another_one_begins():
    other = to_bytes(PerceptronRanker.from_weights({"good": 2.0}))

    async def scenario(learner, link):
        await fed(learner, 0, 20)
        before = (await stats(learner))["stats"]["challenger"]
        assert before["n"] > 3
        post = learner.http.post
        assert (await post("/model", content=other, headers=OF_FILE, params={"line": "same"})).json() == {"replaced": True}
        after = (await stats(learner))["stats"]["challenger"]
        assert (after["n"], after["difference"]) == (before["n"], before["difference"])
        assert (await post("/model", content=other, headers=OF_FILE)).status_code == 200
        found = await stats(learner)
        assert (found["stats"]["challenger"]["n"], found["models"]["serving"]["name"]) == (0, "the ranking of today")
        refused = await post("/model", content=other, headers=OF_FILE, params={"line": "x"})
        assert (refused.status_code, refused.json()["error"][:14]) == (400, "line is 'x'; i")

    run(scenario, service, n_readers=0)


@pytest.mark.slow
def test_a_model_of_lightgbm_is_sent_and_kept(tmp_path):
    async def scenario(learner, link):
        await fed(learner, 0, 5)
        answer = await learner.http.post("/model", content=STUMP.encode(), headers=OF_FILE, params={"line": "same"})
        assert answer.json() == {"replaced": True}
        assert (await stats(learner))["models"]["waiting"] == "the model of the file (FixedTrees)"
        model = from_bytes((await learner.http.get("/model/waiting")).content)
        assert model.rank_one({"a": {"good": 1.0}, "b": {"good": 2.0}}) == ["b", "a"]
        refused = await learner.http.post("/model", content=b"tree\nnum_class=3", headers=OF_FILE)
        assert (refused.status_code, refused.json()["error"][:40]) == (400, "this is not a model that can be served: ")

    run(scenario, service, n_readers=0)


def test_a_line_needs_a_ranking_of_today():
    async def scenario(learner, link):
        answer = await learner.http.post("/model", content=b"", headers=OF_FILE, params={"line": "same"})
        assert answer.status_code == 409
        assert (await learner.http.get("/model/waiting")).status_code == 404

    run(scenario, n_readers=0)


@pytest.mark.slow
def test_a_folder_continues_with_the_line_and_the_budget(tmp_path):
    begun = DurableService(service(keep=0.9), tmp_path / "state")
    state, rng, outcomes = begun.service, np.random.default_rng(0), []
    for i in range(40):
        outcomes += state.handle(json.dumps({"id": i, "docs": docs(rng)}).encode()).outcomes
        outcomes += state.handle(json.dumps({"id": i, "clicks": ["d0"], "session": f"s{i}"}).encode()).outcomes
    other = to_bytes(PerceptronRanker.from_weights({"good": 2.0}))
    outcomes.append(state.exchange_line(from_bytes(other), other, True))
    begun.append(outcomes, sync=True)
    kept = (state.challenge.spent, state.challenge.n_shown, state.challenge.sums.tolist())
    assert kept[0] > 0.0
    assert kept[1] > 0
    begun.close()
    again = DurableService(service(keep=0.9), tmp_path / "state")
    challenge = again.service.challenge
    assert (challenge.spent, challenge.n_shown, challenge.sums.tolist()) == kept
    assert challenge.model.learner.weights.tolist() == [2.0]
    again.close()


def test_weights_behind_a_map_that_has_met_queries_start_again(tmp_path):
    model = StreamQuantileMap() | ClickRidge({"x": 1.0})
    with pytest.raises(ValueError, match="has met no query"):
        RankingService(model)
    for i in range(5):
        query = {"a": {"x": i}, "b": {"x": 2.0 * i + 1}}
        model.steps["StreamQuantileMap"].learn_one(query)
        model["ClickRidge"].learn_one(model.steps["StreamQuantileMap"].transform_one(query), {"a": 0, "b": 0})
    DurableService(RankingService(model), tmp_path / "state").close()
    DurableService(RankingService(model), tmp_path / "state").close()


def test_a_model_of_lightgbm_is_compared_and_texts_are_not_its_business(tmp_path):
    file = tmp_path / "model.txt"
    file.write_text(STUMP)
    from online_rank.cli.files import load_model

    assert type(load_model(str(file))) is FixedTrees
    state, rng = service(load_model(str(file))), np.random.default_rng(1)
    for i in range(6):
        assert "ranking" in state.handle(json.dumps({"id": i, "docs": docs(rng)}).encode()).answer
    assert (state.challenge.n_failed, state.challenge.n_shown > 0) == (0, True)


def test_votes_are_paid_from_half_of_the_budget_at_every_list():
    state, rng = service(ClickCurves({"today": 1.0}), keep=0.95, k=10), np.random.default_rng(2)
    challenge = state.challenge
    for i in range(120):
        query = {f"d{j}": {"today": float(rng.normal()), "good": float(rng.normal())} for j in range(12)}
        state.handle(json.dumps({"id": i, "docs": query}).encode())
        assert challenge.spent <= 0.5 * 0.05 * challenge.n_asked + 1e-12
    # Lists that cost less than the worst one leave more votes than the worst ones would.
    assert challenge.n_shown >= challenge.share * 120 - 2


def test_what_a_draft_costs_is_never_more_than_the_worst_one_and_how_many_votes_are_left():
    rng = np.random.default_rng(3)
    for k in (1, 2, 3, 5, 10):
        found = [kept_by_draft(rng.permutation(k).tolist()) for _ in range(20)]
        assert least_drafted(k) - 1e-12 <= min(found) <= max(found) <= 1.0
    assert kept_by_draft([*range(9)]) == pytest.approx(1.0)
    # By hand: of (0, 1) against (1, 0) either is first in half of the drafts.
    assert kept_by_draft([1, 0]) == pytest.approx(0.5 + 0.5 / np.log2(3))
    account = PairedLosses(["old", "new"], sums=[[100.0, 40.0, 20.0]])
    left = account.n_left("new", "old")
    later = PairedLosses(["old", "new"], sums=account.sums * (100 + left) / 100)
    before = PairedLosses(["old", "new"], sums=account.sums * (98 + left) / 100)
    # One side of a 90 % interval holds with 95 %.
    assert before.difference("new", "old", 0.9).lower <= 0.0 < later.difference("new", "old", 0.9).lower
    assert account.n_left("old", "new") is None


def test_models_of_files_are_saved(tmp_path):
    from online_rank import save

    save(FrozenRanker(PerceptronRanker.from_weights({"good": 1.0})), tmp_path / "m.npz")
    assert load(tmp_path / "m.npz").rank_one({"a": {"good": 1.0}, "b": {"good": 2.0}}) == ["b", "a"]


@pytest.mark.slow
def test_since_when_the_ranking_of_today_serves_and_what_a_second_rollback_takes_back():
    other = to_bytes(ClickCurves({"good": 1.0}))

    async def scenario(learner, link):
        begun = (await stats(learner))["models"]["serving"]
        assert (await learner.http.post("/model", content=other, headers=OF_FILE)).status_code == 200
        found = (await stats(learner))["models"]
        assert (found["serving"], found["waiting"]) == (begun, "the model that learns (ClickCurves)")
        assert await learner.post("/model/rollback", {}) == (200, {"replaced": True})
        found = (await stats(learner))["models"]
        assert (found["serving"], found["waiting"]) == (begun, "the model of the file (PerceptronRanker)")

        assert await fed(learner, 0, 1500) is not None
        assert (await learner.http.post("/model", content=other, headers=OF_FILE)).status_code == 200
        found = (await stats(learner))["models"]
        assert found["serving"]["name"] == "the model that learns (ClickCurves)"
        assert found["serving"]["why"] == f"the model was replaced by a file of {len(other)} bytes"
        assert await learner.post("/model/rollback", {}) == (200, {"replaced": True})
        today = (await stats(learner))["models"]
        assert today["waiting"] == "the model that learns (ClickCurves)"
        # It takes back the last change of the model that waits, and today's ranking has served since the first rollback.
        assert await learner.post("/model/rollback", {}) == (200, {"replaced": True})
        found = (await stats(learner))["models"]
        assert (found["serving"], found["waiting"]) == (today["serving"], "the model of the file (PerceptronRanker)")
        decided = [text for _, text in learner.models.open_models[""].monitor.decisions]
        assert decided[0] == "rolled back to the model before; it waits"

    run(scenario, service, n_readers=0)


@pytest.mark.slow
def test_what_is_shown_of_the_ranking_that_serves_stays_while_the_one_that_waits_is_replaced():
    other = to_bytes(PerceptronRanker.from_weights({"good": 2.0}))

    async def scenario(learner, link):
        await fed(learner, 0, 10)
        before = (await stats(learner))["served"]
        assert before["n"] == 10
        assert (await learner.http.post("/model", content=other, headers=OF_FILE)).status_code == 200
        assert (await stats(learner))["served"] == before

    run(scenario, service, n_readers=0)


@pytest.mark.slow
def test_a_restart_knows_since_when_a_model_serves_and_why(tmp_path):
    state = DurableService(service(keep=0.9), tmp_path / "state")
    outcomes, rng = [], np.random.default_rng(0)
    for i in range(2000):
        query = docs(rng)
        outcomes += state.service.handle(json.dumps({"id": i, "docs": query}).encode()).outcomes
        best = max(query, key=lambda d: query[d]["good"])
        reply = state.service.handle(json.dumps({"id": i, "clicks": [best], "session": f"s{i}"}).encode())
        outcomes += reply.outcomes
        if reply.promoted:
            break
    at, why = state.service.serving_since
    assert why == f"promoted: {reply.promoted}"
    state.append(outcomes, sync=True)
    state.close()  # Without a checkpoint, as after a crash.
    again = DurableService(service(keep=0.9), tmp_path / "state")
    assert again.service.serving_since == (at, why)
    other = to_bytes(PerceptronRanker.from_weights({"good": 2.0}))
    again.append([again.service.exchange_line(from_bytes(other), other, True, at + 1.0, "replaced")], sync=True)
    again.close()
    again = DurableService(service(keep=0.9), tmp_path / "state")
    assert again.service.serving_since == (at + 1.0, "replaced")
    again.close()


def asked(state, n, change):
    """Rankings of documents with a vector, a text and a list of texts, and clicks on them."""
    rng = np.random.default_rng(4)
    for i in range(n):
        query = {
            d: change({**x, "embedding": [float(x["good"]), 1.0], "skills": ["sql", "java"]}) for d, x in docs(rng).items()
        }
        state.handle(json.dumps({"id": f"{n} {i}", "docs": query, "context": {"embedding": [1.0, 0.5]}}).encode())
        state.handle(json.dumps({"id": f"{n} {i}", "clicks": ["d0"], "session": f"{n} {i}"}).encode())


@pytest.mark.parametrize("make", ["trees", "curves", "clicks"])
def test_what_a_model_of_a_file_does_not_take_is_not_its_business(make, tmp_path):
    from online_rank.cli.files import load_model

    (tmp_path / "model.txt").write_text(STUMP)
    models = {"trees": lambda: load_model(str(tmp_path / "model.txt")), "curves": AdditiveRanker, "clicks": ClickBlendRanker}
    state = service(models[make]())
    asked(state, 12, lambda x: x)
    assert state.challenge.n_failed == 0
    assert state.challenge.n_shown > 0


def test_values_of_another_kind_are_counted_and_the_model_that_waits_learns_the_others():
    state = service(ClickCurves({"today": 1.0}))
    asked(state, 20, lambda x: x)
    n = state.challenge.n_shown
    asked(state, 21, lambda x: {**x, "good": "a lot", "brand": 3})
    assert state.challenge.n_failed == 0
    assert state.challenge.n_shown > n
    assert {*state.odd} == {"good", "brand"}


@pytest.mark.slow
def test_the_log_and_the_figures_have_why_a_model_is_not_compared(caplog):
    async def scenario(learner, link):
        await fed(learner, 0, 5)
        found = (await stats(learner))["stats"]["challenger"]
        assert (found["failed"] > 0, found["share"]) == (True, 0.0)
        assert "feature 'brand' of document 'd0' is 'acme'" in found["failure"]

    run(scenario, lambda: service(StreamQuantileMap() | SwapRanker()), n_readers=0)
    said = [each.getMessage() for each in caplog.records if "could not rank or learn" in each.getMessage()]
    assert "the model that waits could not rank or learn a query 1 times so far" in said[0]


@pytest.mark.parametrize("make", ["trees", "curves"])
def test_rankings_of_documents_as_they_are_sent_are_explained(make):
    state = service(FixedTrees(STUMP) if make == "trees" else ClickCurves({"today": 1.0}))
    asked(state, 12, lambda x: x)
    query = {"a": {"today": 3.0, "good": 2.0}, "b": {"today": 1.0, "good": 1.0}}
    query = {d: {**x, "brand": "acme", "skills": ["sql"], "embedding": [1.0, 0.0]} for d, x in query.items()}
    request = json.dumps({"id": 1, "docs": query, "explain": ["a", "b"]}).encode()
    found = state.handle(request).answer["explanation"]
    assert (found["difference"], found["contributions"]) == (2.0, [["today", 2.0]])
    promote(state)
    found, scores = state.handle(request).answer["explanation"], state.model.predict_one(query)
    assert found["difference"] == pytest.approx(scores["a"] - scores["b"])
    if make == "trees":
        assert found["contributions"] == [["good", 0.75 - -0.25]]


def test_queries_that_a_model_could_not_rank_are_counted_after_a_kill(tmp_path):
    killed = DurableService(service(SwapRanker()), tmp_path / "state")
    rng = np.random.default_rng(1)
    for i in range(20):
        reply = killed.service.handle(json.dumps({"id": i, "docs": docs(rng)}).encode())  # With texts.
        killed.append(reply.outcomes if reply.closed else [reply.outcome], sync=True)
    n_failed = killed.service.challenge.n_failed
    killed.close()
    again = DurableService(service(SwapRanker()), tmp_path / "state")
    again.close()
    assert again.service.challenge.n_failed == n_failed > 0


def test_failures_are_of_the_model_that_waits_and_not_of_the_one_before():
    rng = np.random.default_rng(1)

    def failed(change):
        state = service(SwapRanker())
        for i in range(20):
            assert "ranking" in state.handle(json.dumps({"id": i, "docs": docs(rng)}).encode()).answer  # With texts.
        assert state.challenge.n_failed > 0
        change(state)
        return state.challenge.n_failed, state.challenge.failure

    other = ClickCurves({"today": 1.0})
    assert failed(lambda state: state.exchange_line(other, to_bytes(other), False)) == (0, None)
    assert failed(promote) == (0, None)
    assert failed(lambda state: state.exchange_line(other, to_bytes(other), True))[0] > 0


@pytest.mark.slow
def test_the_log_begins_again_with_another_model_that_waits(caplog):
    other = to_bytes(StreamQuantileMap() | SwapRanker())

    async def scenario(learner, link):
        await fed(learner, 0, 9)
        assert (await learner.http.post("/model", content=other, headers=OF_FILE)).status_code == 200
        await fed(learner, 100, 2)

    run(scenario, lambda: service(StreamQuantileMap() | SwapRanker()), n_readers=0)
    said = [re.search(r"query (\d+) times so far", each.getMessage()) for each in caplog.records]
    counts = [int(each[1]) for each in said if each]
    assert counts != sorted(counts), counts
