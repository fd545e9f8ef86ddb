"""Results that are made again and compared with those that are committed."""

import subprocess

import pytest

from benchmarks import _again, report
from benchmarks._again import Compared, check_page, compared, sections_of, unsaid
from benchmarks._catalogue import CATALOGUE, Entry
from benchmarks._common import RESULTS

PAGE = """# Rankers

Over 40 streams; it took 12 s.

| ranker | NDCG@10 | time, ms |
|---|---:|---:|
| one | 0.500 ± 0.010 | 3.1 |
| two | 0.750 | 9.2 |

## How fast

| µs a query | mean | NDCG@10 |
|---|---:|---:|
| one | 100 | 0.5 |

`python -m benchmarks.rankers --seeds 3`

Measured on 2026-11-23: 2 cores.
Seeds: 0 to 2. It took 0.1 minutes, 0.1 of the processor.
"""


def both(before, after, **how):
    pairs = zip(sections_of(before), sections_of(after), strict=True)
    total = Compared()
    for a, b in pairs:
        total = total.plus(compared(a, b.text, **how))
    return total


def test_figures_are_compared_and_times_are_not():
    again = PAGE.replace("3.1", "7.7").replace("| one | 100 |", "| one | 90 |").replace("12 s", "15 s")
    assert both(PAGE, PAGE) == both(PAGE, again) == Compared(same=4, times=4)
    assert both(PAGE, again.replace("0.750", "0.751")).changed == ("Rankers: two, NDCG@10: 0.750 became 0.751",)
    assert both(PAGE, again.replace("40 streams", "41 streams")).changed == ("Rankers: it says no more: Over 40 streams;",)
    assert both(PAGE, again.replace("0.5 |", "0.6 |")).changed == ("How fast: one, NDCG@10: 0.5 became 0.6",)
    row = "| two | 0.750 | 9.2 |\n"
    assert both(PAGE, again.replace(row, "")).changed == ("Rankers: two, NDCG@10: 0.750 became nothing",)
    assert both(PAGE, again.replace(row, row + "| new | 1 | 1 |\n")).changed == ("Rankers: table 1 has more rows",)


def test_the_speed_of_a_measure_is_a_time():
    table = "# Metrics\n\n| metric | NDCG@10 queries/s | NDCG@10 differs |\n|---|---:|---:|\n| ours | 969,051 | 2e-16 |\n"
    assert both(table, table.replace("969,051", "7"), times=True) == Compared(same=1, times=1)
    assert both(table, table.replace("2e-16", "2e-12"), times=True).changed


def test_verdicts_in_words_are_compared():
    page = PAGE.replace("0.750", "equal")
    assert both(page, page) == both(PAGE, PAGE)
    assert both(page, page.replace("equal", "refused")).changed == ("Rankers: two, NDCG@10: equal became refused",)


def test_rows_may_come_in_another_order():
    one, two = PAGE.splitlines()[6:8]
    assert both(PAGE, PAGE.replace(f"{one}\n{two}", f"{two}\n{one}")) == both(PAGE, PAGE)


def test_rows_of_one_name_are_distinguished_by_the_next_cells_also_when_one_of_them_is_left_out():
    page = "# R\n\n| | at | value |\n|---|---|---|\n| a | x | 1 |\n| a | y | 2 |\n| b | x | 3 |\n"
    part = page.replace("| a | x | 1 |\n", "").replace("| b | x | 3 |\n", "")
    assert both(page, part, part=True) == Compared(same=2, left=4)
    assert both(page, part.replace("2 |", "5 |"), part=True).changed == ("R: a y, value: 2 became 5",)


def test_columns_of_one_header_are_distinguished():
    page = "# R\n\n| | own | shared | own |\n|---|---|---|---|\n| a | 1 | 2 | 3 |\n"
    assert both(page, page) == Compared(same=3)
    assert both(page, page.replace("3 |\n", "4 |\n")).changed == ("R: a, own (2): 3 became 4",)


@pytest.mark.parametrize("header", ["NDCG@10 on LightGBM's set", "numbers", "largest ratio", "coverage at all of 500 times"])
def test_what_only_sounds_like_a_time_is_compared(header):
    page = PAGE.replace("NDCG@10 | time", f"{header} | time").replace("## How fast", "## Numbers of half the time")
    assert both(page, page.replace("0.750", "0.751")) == Compared(3, (f"Rankers: two, {header}: 0.750 became 0.751",), 0, 4)


def test_a_part_may_leave_out_rows_columns_and_text():
    part = PAGE.replace("| one | 0.500 ± 0.010 | 3.1 |\n", "").replace("Over 40 streams", "Over 1 stream")
    assert both(PAGE, part, part=True) == Compared(same=2, left=2, times=4)
    assert both(PAGE, part.replace("0.750", "0.751"), part=True).changed == ("Rankers: two, NDCG@10: 0.750 became 0.751",)
    assert compared(sections_of(PAGE)[0], None).left == 3
    assert compared(sections_of(PAGE)[0], None, times=True) == Compared(left=2, times=4)


def test_the_command_of_a_section_is_the_next_below_it_or_the_command_of_the_page():
    assert [section.command for section in sections_of(PAGE)] == [("benchmarks.rankers", "--seeds", "3")] * 2
    more = "\n## More\n\n1\n\n`python -m benchmarks.rankers --keep kept.json --seeds 5`\n\n## Last\n\n2\n"
    assert [section.command for section in sections_of(PAGE + more)][2:] == [("benchmarks.rankers", "--seeds", "5"), ()]
    page = "# Title\n\n`python -m benchmarks.rankers`\n\n## Last\n\n2\n"
    assert [section.command for section in sections_of(page)] == [("benchmarks.rankers",)] * 2
    assert sections_of("As `python -m benchmarks.rankers` says.\n")[0].command == ()


def test_what_a_page_does_not_say():
    assert unsaid(PAGE) == []
    assert unsaid("# Rankers\n") == ["command", "date, machine and versions", "seeds", "time"]


def test_reasons_are_given_for_what_is_not_made_again(monkeypatch):
    made = PAGE.replace("0.750", "0.751")
    asked = []

    def again(name, commands, limit):
        asked.extend(commands)
        return sections_of(made), {} if made else {("benchmarks.x", "--a", "1"): "it failed"}

    monkeypatch.setattr(_again, "made_again", again)
    found, reasons = check_page("rankers", PAGE, 1.0)
    assert (found.same, len(found.changed), found.left, reasons) == (3, 1, 0, [])
    monkeypatch.setitem(
        CATALOGUE, "rankers", [Entry("Rankers", "0", reason="hours"), Entry("How", "0", by="benchmarks.x --a 1")]
    )
    made = ""
    asked.clear()
    found, reasons = check_page("rankers", PAGE, 1.0)
    assert reasons == [
        "3 figures under 'Rankers': hours",
        "1 figures under 'How fast': it failed",
    ]
    assert asked == [("benchmarks.x", "--a", "1")]


def test_a_command_that_fails_or_takes_too_long_is_named(monkeypatch):
    page = PAGE.replace("benchmarks.rankers --seeds 3", "benchmarks.no_such_benchmark")
    found, reasons = check_page("rankers", page, 60.0)
    assert found == Compared(left=4, times=4)
    assert "it failed: " in reasons[0]
    assert "No module named benchmarks.no_such_benchmark" in reasons[0]

    def hang(command, *, timeout, **_):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(_again.subprocess, "run", hang)
    assert "it takes more than 60 s" in check_page("rankers", page, 60.0)[1][0]


def test_a_page_shows_its_seeds_and_about_how_long_it_takes(monkeypatch):
    monkeypatch.setitem(CATALOGUE, "rankers", [Entry("How", "0 to 2", "5 minutes")])
    took = "It took 0.1 minutes, 0.1 of the processor."
    bare = PAGE.replace(f"Seeds: 0 to 2. {took}\n", "")
    assert report.described("rankers", bare) == bare + "Seeds: 0 to 2. It takes about 5 minutes.\n"
    assert report.described("rankers", bare + took + "\n") == report.described("rankers", PAGE) == PAGE
    assert report.described("another", bare) == bare


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.md")), ids=lambda path: path.stem)
def test_every_page_says_how_it_was_made(path):
    page = path.read_text()
    assert page.startswith("# ")  # Otherwise the site has no title for it.
    assert unsaid(page) == []
    assert report.described(path.stem, page) == page  # The seeds are under every section that was measured separately.
    for section in sections_of(page):
        assert section.command or compared(section, None).left == 0, section.title
        for table in _again._tables(section.text):
            assert {len(row) for row in table.rows} <= {len(table.header)}, section.title  # A bar in a cell is written \\|.


def test_the_catalogue_has_every_page_and_no_other():
    assert {*CATALOGUE} == {path.stem for path in RESULTS.glob("*.md")}
    for name, entries in CATALOGUE.items():
        titles = [section.title for section in sections_of((RESULTS / f"{name}.md").read_text())]
        for each in entries:
            assert any(title.startswith(each.title) for title in titles), (name, each.title)
