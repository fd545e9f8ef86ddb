"""The harness of `benchmarks.reliability`, with small numbers."""

import sys

import pytest

from benchmarks import reliability

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the harness forks")


@pytest.fixture(scope="module", autouse=True)
def compiled():
    reliability.warm_up()


@pytest.mark.parametrize("options", [("--passes", "2"), ("--seed", "1")])
def test_training_that_is_killed_ends_as_if_it_had_not_been(options):
    result = reliability.kill_train(4, seed=1, options=options)
    assert result == (result.kills, True, True)
    assert result.kills >= 4


def test_no_acknowledged_grade_is_lost():
    result = reliability.kill_stream(4, seed=1, n_queries=150)
    assert result.kills >= 4
    assert result.acknowledged > 0
    assert result.lost == 0
    assert result.same_model


@pytest.mark.parametrize(
    ("fuzz", "n"), [(reliability.fuzz_letor, 150), (reliability.fuzz_protocol, 1000), (reliability.fuzz_models, 2000)]
)
def test_damaged_input_gives_the_documented_error_or_an_answer(fuzz, n):
    result = fuzz(n, seed=2)
    assert result.crashes == []
    assert 0 < result.refused < result.inputs
