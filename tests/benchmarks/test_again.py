"""Results that are made again and compared with those that are committed."""

from benchmarks._again import command_of, differences, unsaid

PAGE = """# Rankers

| ranker | NDCG@10 | time, ms |
|---|---:|---:|
| one | 0.500 ± 0.010 | 3.1 |
| two | 0.750 | 9.2 |

## How fast

| ranker | queries |
|---|---:|
| one | 100 |

`python -m benchmarks.rankers --seeds 3`

Measured on 2026-11-23: 2 cores.
"""


def test_figures_are_compared_and_times_are_not():
    again = PAGE.replace("3.1", "7.7").replace("| one | 100 |", "| one | 90 |")
    assert differences(PAGE, PAGE) == differences(PAGE, again) == (2, [])
    assert differences(PAGE, again.replace("0.750", "0.751")) == (1, ["Rankers: two, NDCG@10: 0.750 became 0.751"])
    assert differences(PAGE, again.replace("| two |", "| three |"))[1] == []  # A name is no figure.
    assert differences(PAGE, again.replace("| two | 0.750 | 9.2 |\n", ""))[1] == ["Rankers: other rows or columns"]
    assert differences(PAGE, "# Rankers\n")[1] == ["2 tables became 0"]


def test_the_command_is_that_of_the_page():
    assert command_of(PAGE, "rankers") == ["--seeds", "3"]
    assert command_of(PAGE, "other") is None
    assert command_of(PAGE + "`python -m benchmarks.rankers --seeds 5`\n", "rankers") is None


def test_what_a_page_does_not_say():
    assert unsaid(PAGE) == []
    assert unsaid("# Rankers\n") == ["command", "date, machine and versions"]
