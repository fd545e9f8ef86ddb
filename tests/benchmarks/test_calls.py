"""One query takes few Python calls: each step happens once."""

import pytest

from benchmarks import calls


@pytest.mark.parametrize("row", calls.BARS)
def test_a_query_takes_no_more_calls_than_the_bar(row):
    found = calls.least(row)
    assert found.total() <= calls.BARS[row], found.most_common(10)
    assert calls.n_files(found) <= calls.MOST_FILES.get(row, 25)
    assert not any("_kernels" in name for name in found)


@pytest.mark.slow
@pytest.mark.parametrize("row", calls.DOOR_BARS)
def test_a_request_takes_no_more_calls_at_the_door_than_the_bar_with_what_it_puts_off(row):
    n_calls, n_files = calls.mean_of(calls.at_door(row))
    assert n_calls <= calls.DOOR_BARS[row]
    assert n_files <= calls.MOST_FILES[row]


def test_the_calls_of_a_query_are_counted_one_by_one():
    def twice():
        return once() + once()

    def once():
        return 1

    found = calls.counted(lambda: twice())
    assert sorted(found.values()) == [1, 2]
