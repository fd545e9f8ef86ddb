"""The campaigns, with small numbers. What takes seconds is marked as slow."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import types

import numpy as np
import pytest

from online_rank.base.undo import all_or_nothing
from online_rank.distributed.learners import Learner
from online_rank.storage.files import ModelFileError, from_bytes, load, to_bytes
from tests.campaigns import (
    children,
    costs,
    crashes,
    damage,
    extremes,
    files,
    hostile,
    interrupts,
    keyed,
    kills,
    kills_leaders,
    kills_learners,
    kills_readers,
    kills_served,
    kills_windows,
    lifetime,
    poison,
    races,
    rivers,
    rows,
    soak,
    threads,
)
from tests.campaigns.__main__ import Campaign, measured, section, write
from tests.campaigns.found import Found
from tests.reference import postgresql

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the campaigns fork")


@pytest.fixture(scope="module")
def compiled():
    kills.warm_up()


def test_rounds_come_in_turn_and_add_up(tmp_path, monkeypatch):
    order = []

    def run(name, seed):
        order.append((name, seed))
        found = Found(cases=10)
        found.expect(seed != 7002, "it broke")
        return found

    campaigns = {"a": Campaign(4, lambda seed: run("a", seed)), "b": Campaign(2, lambda seed: run("b", seed))}
    found = measured(campaigns, 1.0, 1.0, 7)
    assert order == [("a", 7000), ("b", 7000), ("a", 7001), ("a", 7002), ("b", 7001), ("a", 7003)]
    assert repr(found["a"]) == "(4, 40 cases; WRONG: it broke)"
    assert [n for n, _ in measured(campaigns, 1.0, 0.01, 7).values()] == [1, 1]
    page = tmp_path / "results.md"
    page.write_text("# Campaigns\n\n## other\n\nkept\n\n## part\n\nold\n")
    monkeypatch.setattr("tests.campaigns.__main__.RESULTS", page)
    write("part", section("part", found, 3.0))
    assert "## other\n\nkept\n\n## part\n\n| campaign" in page.read_text()
    assert "| a | 4 | 40 cases | 1 |\n| b | 2 | 20 cases | 0 |" in page.read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("options", [("--passes", "2"), ("--shuffle", "1")])
def test_training_that_is_killed_ends_as_if_it_had_not_been(options):
    found = kills.kill_train(4, seed=1, options=options)
    assert found.wrong == []
    assert found.counts["kills"] >= 4


@pytest.mark.slow
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(("feedback", "n"), [(kills.graded, 4), (kills.clicked, 2)])
def test_no_acknowledged_feedback_is_lost(feedback, n):
    found = kills.kill_stream(n, seed=1, n_queries=100, feedback=feedback)
    assert found.wrong == []
    assert found.counts["kills"] >= n
    assert found.counts["acknowledged"] > 0


@pytest.mark.slow
@pytest.mark.usefixtures("compiled")
def test_servers_and_workers_that_are_killed_lose_nothing():
    for found in (
        kills_served.kill_keyed(5, seed=1, n_queries=60),
        kills_served.kill_serve(2, seed=1, keys=("a", "b")),
        kills_windows.kill_windows(2, seed=1),
        kills_learners.kill_learners(3, seed=1, n_queries=200),
    ):
        assert found.wrong == []
        assert found.counts["kills"] > 1


@pytest.mark.slow
@pytest.mark.usefixtures("compiled")
@pytest.mark.skipif(postgresql.programs() is None, reason="needs PostgreSQL's programs: apt-get install postgresql")
def test_servers_on_postgresql_take_over_and_lose_nothing():
    found = kills_leaders.kill_leaders(5, seed=1)
    assert found.wrong == []
    assert found.counts["stops"] == 1
    assert found.counts["acknowledged"] > 0


@pytest.mark.slow
@pytest.mark.usefixtures("compiled")
def test_readers_continue_to_rank_while_their_learner_is_killed_and_lose_nothing():
    found = kills_readers.kill_learner(1, seed=1, n_clients=20)
    assert found.wrong == []
    assert found.counts["rankings_while_away"] > 0
    assert found.counts["acknowledged"] > 0


@pytest.mark.slow
@pytest.mark.usefixtures("compiled")
def test_a_learner_that_learns_again_what_is_in_the_mix_is_noticed(monkeypatch):
    begin = Learner._begin

    def behind(self, found):
        begin(self, found)
        if self.of > 1:
            self.offsets = {partition: max(offset - 3, 0) for partition, offset in self.offsets.items()}

    monkeypatch.setattr(Learner, "_begin", behind)
    found = kills_learners.kill_learners(2, seed=1, n_queries=300)
    assert any("queries were learned" in what for what in found.wrong)


@pytest.mark.parametrize(("fuzz", "n"), [(hostile.fuzz_letor, 100), (hostile.fuzz_protocol, 500)])
def test_damaged_input_gives_the_documented_error_or_an_answer(fuzz, n):
    found = fuzz(n, seed=2)
    assert found.wrong == []
    assert 0 < found.counts["refused"] < n


@pytest.mark.long
def test_a_server_answers_mutated_bodies():
    found = hostile.fuzz_http(300)
    assert found.wrong == []
    assert found.counts["accepted"] > 0


@pytest.mark.slow
def test_a_changed_model_file_is_refused_or_a_model():
    rng, x = random.Random(0), np.ones((5, 3))
    content = next(data for data, given in hostile.models() if isinstance(given, np.ndarray))
    loaded = 0
    for _ in range(150):
        try:
            model = from_bytes(hostile.changed(content, rng))
        except ModelFileError:
            continue
        loaded += 1
        hostile.use(model, x)
    assert 0 < loaded < 150


@pytest.mark.long
def test_changed_files_and_folders_are_refused_or_used():
    """Errors of Python came out of opening a folder, and rows that take the numbers of later queries stopped the service."""
    found = files.files(150, seed=1)
    assert found.wrong == []
    assert found.counts["refused"] + found.counts["loaded"] == 150
    assert found.counts["loaded"] > 5
    found = rows.rows(150, seed=1)
    assert found.wrong == []
    assert found.counts["refused"] > 50
    assert found.counts["opened"] > 20


@pytest.mark.slow
def test_an_error_of_numpy_is_noticed(monkeypatch):
    broken = files.Seed("broken", files.seeds()[-1].content, (lambda _: np.ones(2) + np.ones(3),))
    monkeypatch.setattr(files, "seeds", lambda: (broken,))
    monkeypatch.setattr(files, "changed", lambda content, rng: content)
    assert len(files.files(20, seed=1).wrong) > 10


@pytest.mark.slow
def test_a_damaged_folder_is_noticed_or_the_same():
    found = damage.damages(60, seed=1, flips=40, cuts=15)
    assert found.wrong == []
    assert found.counts["refused"] > 0
    assert found.counts["harmless"] > 0


def only(monkeypatch, *names):
    found = interrupts.scenarios()
    monkeypatch.setattr(interrupts, "scenarios", lambda: {name: found[name] for name in names})


@pytest.mark.parametrize("work", [interrupts.interrupts, interrupts.errors])
def test_what_is_interrupted_is_whole(work, monkeypatch):
    only(monkeypatch, "scaler | perceptron: learn_one", "waiting: windows, put", "service: learn")
    found = work(20, seed=1)
    assert found.wrong == []
    assert found.counts["cases"] == found.counts["before"] + found.counts["after"] > 30
    assert found.counts["before"] > 0


@pytest.mark.slow
def test_every_call_that_is_interrupted_can_be_made():
    for name, make in interrupts.scenarios().items():
        scenario = make()
        assert not interrupts._is_refusal(scenario.act(scenario.subject)), name
        scenario.go_on(scenario.subject)


def test_what_is_torn_or_lost_is_noticed(monkeypatch):
    def torn(pending):
        for i in range(50):
            pending.advance(all_or_nothing(), i)
            pending.n_evicted += 1

    def deaf(_):
        until = time.perf_counter() + 0.005
        while time.perf_counter() < until:
            try:
                time.sleep(0.0005)
            except KeyboardInterrupt:
                continue

    scenario = interrupts.scenarios()["waiting: leave"]()
    scenarios = {"torn": lambda: scenario._replace(act=torn)}
    monkeypatch.setattr(interrupts, "scenarios", lambda: scenarios)
    assert len(interrupts.errors(10, seed=1).wrong) > 5
    # How many of these come in its midst depends on what else the machine does.
    assert interrupts.interrupts(40, seed=1).wrong
    scenarios = {"deaf": lambda: scenario._replace(act=deaf)}
    assert "deaf, seed 1: the interrupt is lost" in interrupts.interrupts(20, seed=1).wrong


@pytest.mark.long
def test_requests_cost_little_beyond_their_weight():
    found = [*costs.request_costs(lambda _, name: name == "perceptron")]
    assert len(found) > 40
    assert [each for each in found if each.refused is None and each.bytes_a_byte > 64.0] == []


def test_a_child_that_dies_is_noticed():
    with pytest.raises(children.Died, match="SIGKILL"):
        children.in_child(lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert children.in_child(lambda: [1, 2]) == [1, 2]


@pytest.mark.slow
def test_queries_of_extreme_values_are_learned_or_refused():
    found = extremes.extremes(300, seed=1)
    assert found.wrong == []
    assert found.counts["learned"] > 50
    assert found.counts["refused"] > 50


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[pytest.mark.slow] * ("changed" in kind)) for kind in races.KINDS])
def test_threads_during_learning_tear_nothing(kind, monkeypatch):
    monkeypatch.setattr(races, "_LONGEST", 40)
    found = races.KINDS[kind](0.2)
    assert found.wrong == []
    assert found.counts["calls"] > 0


def test_threads_see_whole_states():
    assert threads.threads(0.3, n_readers=2).wrong == []


@pytest.mark.slow
def test_a_long_run_is_looked_at():
    found = soak.soak_grades(1000, seed=1)
    assert found.counts["feedback"] == found.counts["queries"] == found.counts["learned"] == 1000
    found = soak.soak_windows(2000, seed=1)
    assert found.counts["queries"] == 500
    assert 2000 < found.counts["feedback"] < 3000


def test_what_grows_is_noticed():
    found, first = Found(), soak.Reading(100.0, 10, 50, 1.0)
    soak._look_at([first, first._replace(memory_mb=104.0), first._replace(files=60)], found)
    assert found.wrong == []
    soak._look_at([first, first._replace(memory_mb=106.0, descriptors=10), first._replace(descriptors=40)], found)
    assert found.wrong == ["memory changed by 6.0 %", "descriptors went from 10 to 40"]


_WITH_FAULTS = """
import logging
logging.disable(logging.CRITICAL)
from tests.campaigns.faults import interpose
interpose()
from tests.campaigns import crashes
print(crashes.crashes(12, seed=3, n_queries=15))
print(crashes.points(3, seed=4, n_queries=9, kinds=["failed sync", "short write"]))
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_states_after_power_loss_and_calls_that_fail_lose_nothing():
    done = subprocess.run([sys.executable, "-c", _WITH_FAULTS], capture_output=True, text=True, check=True)
    states, points = done.stdout.splitlines()
    assert states.startswith("12 states, ")
    assert points.startswith("3 faults, ")
    assert "WRONG" not in done.stdout


def test_a_disk_holds_what_was_synced_and_any_of_the_rest():
    a, b = bytes([1]) * 1024, bytes([2]) * 1024
    steps = [crashes.Step("C", "/x", 0, b""), crashes.Step("S", "", 0, b""), crashes.Step("W", "/x", 0, a)]
    rng, disk = random.Random(0), crashes.Disk()
    assert disk.after_power_loss(rng, ordered=True) == {}
    for number, step in enumerate(steps):
        disk.take(number, step)
    sizes = {len(disk.after_power_loss(rng, ordered=True)["/x"]) for _ in range(50)}
    assert sizes == {0, 512, 1024}
    disk.take(3, crashes.Step("F", "/x", 0, b""))  # what was to be written never is, even if more is synced later
    disk.take(4, crashes.Step("W", "/x", 1024, b))
    disk.take(5, crashes.Step("S", "/x", 0, b""))
    assert disk.after_power_loss(rng, ordered=False) == {"/x": bytes(1024) + b}
    disk.take(6, crashes.Step("U", "/x", 0, b""))
    assert {*map(len, (disk.after_power_loss(rng, ordered=False) for _ in range(50)))} == {0, 1}


@pytest.mark.slow
@pytest.mark.parametrize("keeps_directory", [True, False])
def test_keys_whose_workers_are_killed_end_as_if_they_had_not_been(keeps_directory, monkeypatch):
    monkeypatch.setattr(keyed, "_EVERY", 16)
    monkeypatch.setattr(keyed, "_COMMIT_EVERY", 10)
    found = keyed.keyed(1200, 10, keeps_directory=keeps_directory, seed=1)
    assert found.wrong == []
    assert (found.counts["events"], found.counts["kills"]) == (1200, 10)
    assert found.counts["came_again"] > 0


def _busy(seconds):
    ended = time.process_time() + seconds
    while time.process_time() < ended:
        pass


@pytest.mark.slow
def test_a_hang_is_noticed_and_compiling_is_none():
    with pytest.raises(TimeoutError, match="hang"), hostile.at_most(1):
        _busy(3)
    compiler = types.FunctionType(_busy.__code__, {"__name__": "numba.core.compiler", "time": time})
    with hostile.at_most(1):
        compiler(1.3)


@pytest.mark.long
def test_a_life_continues_where_it_stopped_and_complains_of_what_grows(tmp_path, monkeypatch):
    monkeypatch.setenv("LIFETIME", str(tmp_path))
    for number in range(2):
        assert lifetime.lifetime(number, 1000).counts == {"queries": 1000}
    assert lifetime.lifetime(1, 1000).counts == {}
    assert [json.loads(line)[0] for line in (tmp_path / "readings.jsonl").read_text().splitlines()] == [1000, 2000]
    assert (tmp_path / "lifetime.png").stat().st_size > 1000
    same = lifetime.made()
    lifetime.live(same, 0, 2, 0)
    assert to_bytes(load(tmp_path / "model.npz")) == to_bytes(same)


@pytest.mark.slow
def test_a_pipeline_of_river_continues_from_its_file(monkeypatch):
    monkeypatch.setattr(rivers, "_look_at", lambda *_: None)  # It is young.
    found = rivers.rivers(500)
    assert (found.counts["queries"], [each for each in found.wrong if "loaded" in each]) == (500, [])


def test_a_pipeline_that_slows_down_or_grows_is_noticed():
    found, flat, rising = Found(), np.full(40, 2.0), np.linspace(1.0, 2.0, 40)
    rivers._look_at(found, flat, flat)
    assert found.wrong == []
    rivers._look_at(found, rising, flat)
    rivers._look_at(found, flat, rising)
    assert ["of the time" in found.wrong[0], "of the memory" in found.wrong[1]] == [True, True]


def test_readings_of_a_life_are_compared_with_their_median():
    readings = [lifetime.Reading(100 * t, 200.0, 300.0, 2.0) for t in range(1, 21)]
    for last, n in (
        (readings[-1], 0),
        (readings[-1]._replace(memory_mb=204.1), 1),
        (readings[-1]._replace(file_kb=290.0, loops=2.11), 2),
    ):
        found = Found()
        lifetime.look_at([*readings, last], found)
        assert len(found.wrong) == n, found


@pytest.mark.slow
def test_no_challenger_is_promoted_by_fewer_votes_than_its_interval_needs():
    assert poison.least_names(0.95) == 10
    assert poison.least_names(0.999) > 12
    assert poison.votes(1).counts == {"votes_of_one_name": 150, "names_that_promoted": 10}


@pytest.mark.slow
@pytest.mark.parametrize("attack", [poison.grades, poison.history], ids=["grades", "history"])
def test_an_attacker_moves_a_service_no_further_than_promised(attack):
    found = attack(1)
    assert found.wrong == []
    assert found.counts
