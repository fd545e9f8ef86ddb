"""A model given with a folder that continues another one: refused, or in its place, never ignored."""

import json

import pytest

from online_rank import ClickCurves, PerceptronRanker, StreamScaler, SwapRanker
from online_rank.serving import RankingService
from online_rank.serving.challenge import Challenge, from_today
from online_rank.serving.durable import DurableService
from online_rank.serving.outcomes import Outcome
from online_rank.serving.windows import promote
from online_rank.storage import CheckpointError
from online_rank.storage.files import to_bytes


def query(number):
    return json.dumps({"id": number, "docs": {"a": {"x": 1.0, "y": number % 3}, "b": {"x": 0.5}, "c": {"y": 2.0}}}).encode()


def grades(number):
    return json.dumps({"id": number, "grades": {"a": 2, "b": 0, "c": 1}}).encode()


def taught(n=20):
    model = PerceptronRanker()
    for t in range(n):
        model.learn_one({"a": {"x": 1.0}, "b": {"y": float(t)}}, {"a": 0, "b": 1})
    return model


def run(folder, requests, service, **options):
    durable = DurableService(service, folder, **options)
    replies = [durable.service.handle(request) for request in requests]
    durable.append([reply.outcome for reply in replies], sync=True)
    durable.close()
    return durable.service


def test_another_model_is_refused_until_it_is_to_take_the_place(tmp_path):
    folder, before, after = tmp_path / "state", taught(20), taught(40)
    run(folder, [query(1), query(2), grades(1)], RankingService(before, origin="one"))
    with pytest.raises(CheckpointError, match="began with another model than this one"):
        DurableService(RankingService(after, origin="two"), folder)
    service = run(folder, [], RankingService(after, origin="two"), replace_model=True)
    assert service.model.served_weights.tolist() == taught(40).served_weights.tolist()
    # Queries that wait still do, and learned ids are known.
    again = run(folder, [grades(2), grades(1)], RankingService(taught(40), origin="two"))
    assert again.stats()["learned"] == 2
    assert again.stats()["duplicates"] == 1
    with pytest.raises(CheckpointError, match="began with another"):
        DurableService(RankingService(before, origin="one"), folder)


def test_the_same_file_continues_with_what_was_learned(tmp_path):
    service = run(tmp_path / "state", [query(1), grades(1)], RankingService(taught(), origin="one"))
    again = run(tmp_path / "state", [], RankingService(taught(), origin="one"))
    assert again.model.served_weights.tolist() == service.model.served_weights.tolist() != taught().served_weights.tolist()
    # Without a file, the model in the folder continues; so it does with --replace-model, once it is there.
    assert run(tmp_path / "state", [], RankingService(PerceptronRanker())).stats()["learned"] == 1
    kept = run(tmp_path / "state", [], RankingService(taught(), origin="one"), replace_model=True)
    assert kept.model.served_weights.tolist() == service.model.served_weights.tolist()


def test_a_file_given_with_a_folder_that_began_without_one_is_refused(tmp_path):
    run(tmp_path / "state", [query(1)], RankingService(PerceptronRanker()))
    with pytest.raises(CheckpointError, match="began with another"):
        DurableService(RankingService(taught(), origin="one"), tmp_path / "state")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: RankingService(PerceptronRanker(), measure="ap"), "measure is 'ndcg@10', here 'ap'"),
        (lambda: RankingService(PerceptronRanker(), learn_served=True), "learn_served is False, here True"),
        (lambda: RankingService(PerceptronRanker("ap")), "PerceptronRanker.measure is 'ndcg@10', here 'ap'"),
        (lambda: RankingService(StreamScaler() | PerceptronRanker()), "is a PerceptronRanker, here a RankingPipeline"),
    ],
)
def test_what_differs_is_named(tmp_path, other, message):
    run(tmp_path / "state", [query(1)], RankingService(PerceptronRanker()))
    with pytest.raises(CheckpointError, match="with other options: .*" + message):
        DurableService(other(), tmp_path / "state")


def test_clicks_and_grades_do_not_take_each_others_place(tmp_path):
    run(tmp_path / "state", [query(1)], RankingService(taught(), origin="one"))
    with pytest.raises(CheckpointError, match="one model learns from clicks, the other from grades"):
        DurableService(RankingService(SwapRanker(), origin="two"), tmp_path / "state", replace_model=True)


def test_limits_may_change(tmp_path):
    run(tmp_path / "state", [query(i) for i in range(9)], RankingService(PerceptronRanker()))
    service = run(tmp_path / "state", [query(9)], RankingService(PerceptronRanker(), wait_bytes=3900))
    assert (service.n_waiting, service.wait_bytes) == (3, 3900)
    assert run(tmp_path / "state", [], RankingService(PerceptronRanker())).n_waiting == 3


def of_today(origin=None):
    """A service that compares the ranking of today with a model of a file, or a new one."""
    today, challenge = from_today({"x": 1.0}, ClickCurves({"x": 1.0}), keep=0.95, k=3)
    challenge.origin = origin
    return RankingService(today, challenge=challenge)


def clicks(number):
    return json.dumps({"id": number, "clicks": ["a"]}).encode()


def learned(service):
    return service.challenge.model.n_columns, service.challenge.n_asked


@pytest.mark.parametrize("origin", ["one", None])
def test_the_model_that_waits_behind_the_ranking_of_today_is_kept_or_another_one_is_refused(origin, tmp_path):
    folder = tmp_path / "state"
    before = run(folder, [query(1), clicks(1), query(2), clicks(2)], of_today(origin))
    assert learned(before)[0] > 1
    with pytest.raises(CheckpointError, match=r"with another model than this one\. --replace-model begins a comparison"):
        DurableService(of_today("two"), folder)
    # Without a MODEL, and with the same one, it continues.
    for same in (None, origin):
        assert learned(run(folder, [], of_today(same))) == learned(before)
    assert learned(run(folder, [], of_today("two"), replace_model=True))[0] == 1
    with pytest.raises(CheckpointError, match="with another model than this one"):
        DurableService(of_today("one"), folder)


def test_a_comparison_does_not_end_because_an_option_was_forgotten(tmp_path):
    folder = tmp_path / "state"
    run(folder, [query(1), clicks(1)], of_today("one"))
    for given in (RankingService(taught(), origin="one"), RankingService(PerceptronRanker())):
        with pytest.raises(CheckpointError, match="start it with --from-today again"):
            DurableService(given, folder)
    assert learned(run(folder, [], of_today("one")))[0] > 1


@pytest.mark.parametrize("has_turned", [False, True])
def test_another_ranking_of_today_or_budget_is_refused_by_its_option(has_turned, tmp_path):
    def given(**options):
        today, challenge = from_today(
            options.pop("today", {"x": 1.0}), ClickCurves({"x": 1.0}), k=3, **{"keep": 0.95} | options
        )
        return RankingService(today, challenge=challenge)

    begun = DurableService(given(), tmp_path / "state")
    if has_turned:
        promote(begun.service)
        begun.append([Outcome(("promote",))], sync=True)
    begun.close()
    for options, says in (({"keep": 0.9}, "--keep is 0.95, here 0.9"), ({"today": {"y": 1.0}}, "--from-today")):
        with pytest.raises(CheckpointError, match=says):
            DurableService(given(**options), tmp_path / "state")
    DurableService(given(), tmp_path / "state").close()


def turned(folder):
    """A folder in which the model `one` has taken the place of the ranking of today."""
    begun = DurableService(of_today("one"), folder)
    promote(begun.service, 1.7e9, "won")
    begun.append([Outcome(("promote", 1.7e9, "won"))], sync=True)
    begun.close()


def test_after_a_take_over_another_model_is_compared_with_the_ranking_of_today(tmp_path):
    turned(folder := tmp_path / "state")
    replaced = run(folder, [], of_today("two"), replace_model=True)
    assert replaced.model.weights == {"x": 1.0}
    assert type(replaced.challenge.model) is ClickCurves
    assert "--replace-model" in replaced.serving_since[1]
    for same in ("two", None):
        again = run(folder, [query(1), clicks(1)], of_today(same))
        assert (again.model.weights, again.challenge.n_turns) == ({"x": 1.0}, 0)
    with pytest.raises(CheckpointError, match="with another model than this one"):
        DurableService(of_today("one"), folder)


@pytest.mark.parametrize("is_turned", [False, True])
def test_another_model_does_not_bring_another_ranking_of_today(is_turned, tmp_path):
    (turned if is_turned else lambda folder: run(folder, [], of_today("one")))(tmp_path / "state")
    given = of_today("two")
    given.model = from_today({"y": 1.0}, ClickCurves(), keep=0.95, k=3)[0]
    with pytest.raises(CheckpointError, match=r"--from-today is \{'x': 1.0\}, here \{'y': 1.0\}"):
        DurableService(given, tmp_path / "state", replace_model=True)


@pytest.mark.parametrize(
    "begun", [lambda: RankingService(ClickCurves({"x": 1.0}), origin="one"), lambda: RankingService(taught(), origin="one")]
)
def test_a_model_that_serves_does_not_become_the_ranking_of_today(begun, tmp_path):
    run(tmp_path / "state", [query(1)], begun())
    for replaces in (False, True):
        with pytest.raises(CheckpointError, match="does not compare the ranking of today with a model: start it without"):
            DurableService(of_today("two" if replaces else None), tmp_path / "state", replace_model=replaces)
    assert run(tmp_path / "state", [], begun()).challenge is None


def test_a_model_that_is_replaced_at_a_start_serves_since_then(tmp_path):
    folder = tmp_path / "state"
    durable, model = DurableService(RankingService(taught(), origin="one"), folder), taught(30)
    durable.append([durable.service.exchange_model(model, to_bytes(model), 1.7e9, "replaced by a file")], sync=True)
    durable.close()
    since, why = run(folder, [], RankingService(taught(40), origin="two"), replace_model=True).serving_since
    assert since > 1.7e9
    assert "--replace-model" in why
    assert run(folder, [], RankingService(taught(40), origin="two")).serving_since == (since, why)


def test_the_log_says_that_a_comparison_ends_with_its_option(tmp_path, caplog):
    challenged = lambda: RankingService(taught(), origin="one", challenge=Challenge(taught(40), origin="two"))  # noqa: E731
    run(tmp_path / "state", [query(1), grades(1)], challenged())
    run(tmp_path / "state", [], challenged())
    assert not caplog.messages
    run(tmp_path / "state", [], RankingService(taught(), origin="one"))
    assert "the comparison with another model ends (there is no --challenger now)" in caplog.text
    assert "n = 1" in caplog.text
