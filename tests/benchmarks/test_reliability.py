"""The harness of `benchmarks.reliability`, with small numbers."""

import random
import sys

import numpy as np
import pytest

from benchmarks import _hostile, _kills, _threads, reliability
from online_rank.storage.files import ModelFileError, from_bytes

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the harness forks")


@pytest.fixture(scope="module", autouse=True)
def compiled():
    _kills.warm_up()


@pytest.mark.parametrize("options", [("--passes", "2"), ("--seed", "1")])
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


def test_a_changed_byte_of_the_state_is_noticed_or_changes_nothing():
    result = reliability.flips(step=101)
    assert result.refused > 0
    assert result.other_models == 0


def test_interrupts_and_threads_see_whole_states():
    assert _threads.interrupts(10, seed=1) == (10, 0)
    result = _threads.threads(0.5, n_readers=2)
    assert (result.torn, result.errors) == (0, [])


def test_a_long_run_is_measured():
    result = reliability.soak(300)
    assert result.queries == 300
    assert set(result.percentiles) == {"p50", "p99", "p99.9"}
