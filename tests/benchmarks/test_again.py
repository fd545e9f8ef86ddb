"""Results that are made again and compared with those that are committed."""

from benchmarks._again import commands_of, differences, unsaid

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
    assert sorted(differences(PAGE, "# Rankers\n")[1]) == [
        "How fast: table 1 is in one of the pages alone",
        "Rankers: table 1 is in one of the pages alone",
    ]
    sections = PAGE.partition("## ")
    assert differences(PAGE, "## " + sections[2] + sections[0]) == (2, [])  # In whatever order.


def test_rows_may_come_in_another_order():
    one, two = PAGE.splitlines()[4:6]
    assert differences(PAGE, PAGE.replace(f"{one}\n{two}", f"{two}\n{one}")) == (2, [])


def test_somebody_s_set_is_no_time():
    page = PAGE.replace("NDCG@10", "NDCG@10 on LightGBM's set")
    assert differences(page, page.replace("0.750", "0.751"))[0] == 1
    assert len(differences(page, page.replace("0.750", "0.751"))[1]) == 1


def test_the_commands_are_those_of_the_page():
    assert commands_of(PAGE) == [["benchmarks.rankers", "--seeds", "3"]]
    assert commands_of("As `python -m benchmarks.rankers` says.\n") == []
    more = "\n`python -m benchmarks.rankers --keep kept.json --seeds 5`\n"
    assert commands_of(PAGE + more + more) == [*commands_of(PAGE), ["benchmarks.rankers", "--seeds", "5"]]


def test_what_a_page_does_not_say():
    assert unsaid(PAGE) == []
    assert unsaid("# Rankers\n") == ["command", "date, machine and versions"]
