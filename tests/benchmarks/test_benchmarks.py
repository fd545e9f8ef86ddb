import json
import re

import pytest

from benchmarks import report
from benchmarks._common import RESULTS, ROOT, merged

RESULT = """# Speed

| who | rate |
|---|---:|
| we | 2 |

| who | size |
|---|---:|
| we | 3 |

Measured on 2026-01-02: 2 cores, numpy 2.4.6.
"""


@pytest.fixture
def results(tmp_path):
    (tmp_path / "speed.md").write_text(RESULT)
    return tmp_path


@pytest.mark.parametrize("page", report.PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_pages_show_what_was_measured(page):
    text = page.read_text()
    assert "<!-- begin " in text
    assert report.rewritten(text, linked=report.PAGES[page]) == text


def test_tables_are_put_between_the_markers(results):
    text = "Before\n<!-- begin speed -->\nold\n<!-- end speed -->\n<!-- begin speed 2 -->\n<!-- end speed -->\nAfter\n"
    source = (
        "`python -m benchmarks.speed`, [in full](benchmarks/results/speed.md). Measured on 2026-01-02: 2 cores, numpy 2.4.6."
    )
    once = report.rewritten(text, results)
    assert once == (
        f"Before\n<!-- begin speed -->\n| who | rate |\n|---|---:|\n| we | 2 |\n\n{source}\n<!-- end speed -->\n"
        f"<!-- begin speed 2 -->\n| who | size |\n|---|---:|\n| we | 3 |\n\n{source}\n<!-- end speed -->\nAfter\n"
    )
    assert report.rewritten(once, results) == once


def test_the_figures_of_the_papers_page_are_on_the_pages_of_their_commands(results):
    assert report.unmade(report.PAPERS.read_text()) == []
    (results / "speed.md").write_text("| we | 0.738 |")
    row = "| table 1 | `python -m benchmarks.speed` | .720 | {} |\n| more | the same | | .738 |\n| none | | .1 | .999 |\n"
    assert report.unmade(row.format(".738 / .123"), results) == ["table 1: .123"]


def test_errors_of_the_papers_page_are_deviations_between_five_folds_over_the_root_of_five():
    cells = [line.split("|") for line in report.PAPERS.read_text().splitlines() if line.startswith("| ")]
    rows = [row[4] for row in cells if "±" in row[4]]
    page = (RESULTS / "direct_quality.md").read_text()
    for mean, error in re.findall(r"(\.\d{3}) ± (\.\d{3})", " ".join(rows)):
        deviations = re.findall(rf"0{re.escape(mean)} ± (0\.\d+)", page)
        assert any(f"{float(one) / 5**0.5:.3f}" == f"0{error}" for one in deviations), (mean, error)
    assert len(rows) == 6


def test_a_table_is_known_by_its_heading(results):
    page = "# R\n\n## one\n\n| a |\n|---|\n| 1 |\n\n`python -m x`\n\nMeasured on 2026-01-01: here.\n"
    (results / "parts.md").write_text(page + page.partition("\n")[2].replace("one", "two").replace("| 1 |", "| 2 |"))
    shown = report.rewritten("<!-- begin parts two -->\n<!-- end parts -->", results)
    assert "| 2 |\n\n`python -m x`, [in full]" in shown
    assert "| 1 |" not in shown
    with pytest.raises(SystemExit, match="no table under three"):
        report.block("parts", "three", results)


def test_the_picture_shows_what_was_measured():
    import PIL.Image as image

    assert json.loads(image.open(RESULTS / "throughput.png").text["Description"]) == report.rates()


def test_some_rows_and_columns(results, monkeypatch):
    (results / "speed.md").write_text(RESULT.replace("| we | 2 |", "| a \\| b | 2 |\n| c, one | 1 |\n| c, two | 4 |", 1))
    monkeypatch.setitem(report.SHOWN, "speed", report.Part(("c, two", "a | *"), ("rate", "who")))
    assert report.block("speed", 1, results).startswith("| rate | who |\n|---|---:|\n| 2 | a \\| b |\n| 4 | c, two |\n\n")
    assert "| we | 3 |" in report.block("speed", 2, results)
    monkeypatch.setitem(report.SHOWN, "speed", report.Part(("c",), None))
    with pytest.raises(SystemExit, match="no row 'c'"):
        report.block("speed", 1, results)
    monkeypatch.setitem(report.SHOWN, "speed", report.Part(None, ("price",)))
    with pytest.raises(SystemExit, match="no column"):
        report.block("speed", 1, results)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- begin slow -->\n<!-- end slow -->", r"run python -m benchmarks\.slow"),
        ("<!-- begin speed 3 -->\n<!-- end speed -->", "has 2 tables, not 3"),
        ("<!-- begin speed -->\n<!-- end sped -->", "has no <!-- end"),
    ],
)
def test_what_cannot_be_put_there(results, text, message):
    with pytest.raises(SystemExit, match=message):
        report.rewritten(text, results)


def test_every_result_says_when_it_was_measured():
    for path in RESULTS.glob("*.md"):
        assert report._MEASURED.search(path.read_text()), path


def test_commands_of_results_name_no_folder_of_one_machine():
    commands = [command for page in RESULTS.glob("*.md") for command in re.findall(r"`(python -m [^`]*)`", page.read_text())]
    assert [command for command in commands if re.search(r"[ =]/", command)] == []


def test_every_benchmark_has_its_question():
    text = (ROOT / "benchmarks" / "README.md").read_text()
    names = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if not path.stem.startswith("_")}
    for name in names - {"report"}:
        assert f"`{name}.py`" in text, name


def test_a_part_that_is_run_again_leaves_the_rest_of_its_page():
    page = "# Title\n\nabout\n\n## One\n\n1\n\n## Two\n\n2\n\n`old`\n\nMeasured on 2026-01-01: here.\n"
    again = merged(
        page, "# Title\n\nother\n\n## Two\n\n3\n\n## Three\n\n4\n", lambda title: f"`{title}`\n\nMeasured on 2026-02-02: there."
    )
    assert again == (
        "# Title\n\nabout\n\n## One\n\n1\n\n## Two\n\n3\n\n`Two`\n\nMeasured on 2026-02-02: there.\n\n"
        "## Three\n\n4\n\n`Three`\n\nMeasured on 2026-02-02: there.\n"
    )


@pytest.mark.slow
def test_the_table_of_river_transformers_is_on_the_page():
    from benchmarks.transformers import tables

    page = (ROOT / "benchmarks" / "results" / "transformers.md").read_text()
    wanted = [line for line in tables().splitlines() if line.startswith("| `") or line.startswith("| Op")]
    assert len(wanted) > 40
    assert [line for line in wanted if line not in page] == []
