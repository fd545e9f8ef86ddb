"""The harness of `benchmarks.reliability`, with small numbers."""

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

from benchmarks import (
    _children,
    _costs,
    _crashes,
    _damage,
    _extremes,
    _files,
    _hostile,
    _interrupts,
    _keyed,
    _kills,
    _kills_served,
    _kills_windows,
    _races,
    _rows,
    _soak,
    _threads,
    reliability,
)
from online_rank.base.undo import Staged
from online_rank.storage.files import ModelFileError, from_bytes

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the harness forks")


@pytest.fixture(scope="module", autouse=True)
def compiled():
    _kills.warm_up()


@pytest.mark.parametrize("options", [("--passes", "2"), ("--shuffle", "1")])
def test_training_that_is_killed_ends_as_if_it_had_not_been(options):
    result = _kills.kill_train(4, seed=1, options=options)
    assert result == (result.kills, True, True)
    assert result.kills >= 4


def test_no_acknowledged_grade_is_lost():
    result = _kills.kill_stream(4, seed=1, n_queries=150)
    assert result.kills >= 4
    assert result.acknowledged > 0
    assert result.lost == 0
    assert result.same_model


@pytest.mark.parametrize(
    ("fuzz", "n"), [(_hostile.fuzz_letor, 150), (_hostile.fuzz_protocol, 1000), (_hostile.fuzz_models, 2000)]
)
def test_damaged_input_gives_the_documented_error_or_an_answer(fuzz, n):
    result = fuzz(n, seed=2)
    assert result.crashes == []
    assert 0 < result.refused < result.inputs


def test_a_changed_model_file_is_refused_or_a_model():
    rng, x = random.Random(0), np.ones((5, 3))
    content = next(data for data, given in _hostile.models() if isinstance(given, np.ndarray))
    loaded = 0
    for _ in range(150):
        try:
            model = from_bytes(_hostile.changed(content, rng))
        except ModelFileError:
            continue
        loaded += 1
        _hostile.use(model, x)
    assert 0 < loaded < 150


def test_a_damaged_file_is_noticed_or_changes_nothing():
    found = _damage.damages(0, 6, seed=1, flips=40, cuts=15)
    assert [counts["other"] for counts in found.values()] == [[], [], []]
    assert all(counts["refused"] > 0 and counts["harmless"] > 0 for counts in found.values())
    assert [counts["untold"] > 0 for counts in found.values()] == [False, False, True]


def test_what_is_interrupted_is_whole(monkeypatch):
    some = (
        "scaler | perceptron: learn_one",
        "boosted: tree",
        "waiting: windows, put",
        "service: learn",
        "service: windows, close",
    )
    found = _interrupts.scenarios()
    monkeypatch.setattr(_interrupts, "scenarios", lambda: {name: found[name] for name in some})
    result = _interrupts.interrupts(6, seed=1)
    assert result["torn"] == []
    assert result["cases"] == result["before"] + result["after"] == 30
    assert 5 < result["doubled"] < 25


def test_every_call_that_is_interrupted_can_be_made():
    for name, make in _interrupts._others().items():
        scenario = make()
        given = scenario.act(scenario.subject)
        assert not _interrupts._is_refusal(given), name
        scenario.go_on(scenario.subject)


def test_what_is_torn_is_noticed(monkeypatch):
    def torn(pending):
        for i in range(50):
            pending._advance(Staged(pending), i)
            pending.n_evicted += 1

    scenario = _interrupts.scenarios()["waiting: take"]()._replace(act=torn)
    monkeypatch.setattr(_interrupts, "scenarios", lambda: {"torn": lambda: scenario})
    assert len(_interrupts.interrupts(6, seed=1)["torn"]) > 3


def test_changed_files_are_refused_or_models():
    found = _files.files(150, seed=1)
    assert found["wrong"] == []
    assert found["files"] == found["refused"] + found["loaded"] == 150
    assert found["loaded"] > 5


def test_folders_with_changed_rows_are_refused_or_services():
    """Errors of Python came out of opening one, and rows that take the numbers of later queries stopped the service."""
    found = _rows.rows(150, 1)
    assert found["wrong"] == []
    assert found["refused"] > 50
    assert found["opened"] > 20


def test_requests_cost_little_beyond_their_weight():
    found = [*_costs.request_costs(lambda _, name: name == "perceptron, challenged")]
    assert len(found) > 40
    assert [each for each in found if each.bytes_a_byte > 64.0] == []
    assert {each.refused is None for each in found} == {True, False}


def test_an_error_of_numpy_is_noticed(monkeypatch):
    broken = _files.Seed("broken", _files.seeds()[-1].content, (lambda _: np.ones(2) + np.ones(3),))
    monkeypatch.setattr(_files, "seeds", lambda: (broken,))
    monkeypatch.setattr(_files, "changed", lambda content, rng: content)
    assert len(_files.files(20, seed=1)["wrong"]) > 10


def test_a_child_that_dies_is_noticed():
    with pytest.raises(_children.Died, match="SIGKILL"):
        _children.in_child(lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert _children.in_child(lambda: [1, 2]) == [1, 2]


def test_queries_of_extreme_values_are_learned_or_refused():
    found = _extremes.learn_all(300, seed=1)
    assert (found["wrong"], found["index_errors"]) == ([], 0)
    assert found["learned"] > 50
    assert found["refused"] > 50


@pytest.mark.parametrize("kind", ["copy", "shared scaler", "changed y", "changed weights", "changed starts"])
def test_threads_beside_a_learner_tear_nothing(kind):
    found = _races.KINDS[kind](0.3)
    assert found["torn"] == []
    assert found["calls"] > 0


def test_threads_see_whole_states():
    result = _threads.threads(0.5, n_readers=2)
    assert (result.torn, result.errors) == (0, [])


def test_a_long_run_is_measured():
    result = _soak.soak_grades(1000, seed=1)
    assert result.feedback == result.queries == result.counts["learned"] == 1000
    first, *later = (reading.memory_mb for reading in result.readings)
    assert len(later) == 9
    assert result.largest_change == pytest.approx(max(abs(each / first - 1.0) for each in later))


def test_a_long_run_of_events_in_windows_is_measured():
    result = _soak.soak_windows(2000, seed=1)
    assert result.queries == 500
    assert 2000 < result.feedback < 3000
    assert reliability.soak_rows(result)[0][1:3] == ("500", f"{result.feedback:,}")


_WITH_FAULTS = """
import logging
logging.disable(logging.CRITICAL)
from benchmarks._faults import interpose
interpose()
from benchmarks import _crashes
print(_crashes.crashes(12, seed=3, n_queries=15))
print(_crashes.points(0, 60, seed=4, n_queries=9, kinds=["failed sync", "short write"]))
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_states_after_power_loss_and_calls_that_fail_lose_nothing():
    done = subprocess.run([sys.executable, "-c", _WITH_FAULTS], capture_output=True, text=True, check=True)
    crashes, points = done.stdout.splitlines()
    assert crashes.startswith("Crashes(states=12, acknowledged=")
    assert crashes.endswith("lost=0, other_models=0, refused=0)")
    assert points.startswith("Points(points=3, ")
    assert points.endswith("lost=0, other_models=0, refused=0)")


def test_a_disk_holds_what_was_synced_and_any_of_the_rest():
    a, b = bytes([1]) * 1024, bytes([2]) * 1024
    steps = [_crashes.Step("C", "/x", 0, b""), _crashes.Step("S", "", 0, b""), _crashes.Step("W", "/x", 0, a)]
    rng, disk = random.Random(0), _crashes.Disk()
    assert disk.after_power_loss(rng, ordered=True) == {}
    for number, step in enumerate(steps):
        disk.take(number, step)
    sizes = {len(disk.after_power_loss(rng, ordered=True)["/x"]) for _ in range(50)}
    assert sizes == {0, 512, 1024}
    disk.take(3, _crashes.Step("F", "/x", 0, b""))  # what was to be written never is, whatever is synced later
    disk.take(4, _crashes.Step("W", "/x", 1024, b))
    disk.take(5, _crashes.Step("S", "/x", 0, b""))
    assert disk.after_power_loss(rng, ordered=False) == {"/x": bytes(1024) + b}
    disk.take(6, _crashes.Step("U", "/x", 0, b""))
    assert {*map(len, (disk.after_power_loss(rng, ordered=False) for _ in range(50)))} == {0, 1}


def test_servers_and_workers_that_are_killed_lose_nothing():
    keyed = _kills_served.kill_keyed(5, seed=1, n_queries=60)
    assert keyed == (keyed.kills, keyed.learned, 0, True)
    assert keyed.kills >= 5
    served = _kills_served.kill_serve(2, seed=1, keys=("a", "b"))
    assert (served.lost, served.doubled) == (0, 0)
    clicks = _kills.kill_stream(2, seed=1, n_queries=60, feedback=_kills.clicked)
    assert clicks.lost == 0
    assert clicks.acknowledged > 0


def test_killed_in_the_middle_of_events_and_of_a_new_model_nothing_is_lost_or_doubled():
    result = _kills_windows.kill_windows(2, seed=1)
    assert (result.kills, result.same_model, result.same_counts) == (2, True, True)
    assert result.events > 0


@pytest.mark.parametrize("keeps_directory", [True, False])
def test_keys_whose_workers_are_killed_end_as_if_they_had_not_been(keeps_directory, monkeypatch):
    monkeypatch.setattr(_keyed, "_EVERY", 16)
    monkeypatch.setattr(_keyed, "_COMMIT_EVERY", 10)
    found = _keyed.keyed(1200, 10, keeps_directory=keeps_directory, seed=1)
    assert (found.events, found.kills, found.lost_keys, found.same) == (1200, 10, 0, True)
    assert found.again > 0
    assert 0 < found.largest <= 900_000


def _busy(seconds):
    ended = time.process_time() + seconds
    while time.process_time() < ended:
        pass


def test_a_hang_is_noticed_and_compiling_is_none():
    with pytest.raises(TimeoutError, match="hang"), _hostile.at_most(1):
        _busy(3)
    compiler = types.FunctionType(_busy.__code__, {"__name__": "numba.core.compiler", "time": time})
    with _hostile.at_most(1):
        compiler(1.3)
