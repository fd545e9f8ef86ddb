"""The paper against the program: functions, scripts and tests that it names exist, and its figures are on the pages."""

import importlib
import re
from pathlib import Path

import pytest

import online_rank
from online_rank import bounds
from online_rank.bounds.declaration import BOUNDS

ROOT = Path(__file__).resolve().parents[1]
PAPER = (ROOT / "docs" / "paper.md").read_text()
STATED = {int(number) for number in re.findall(r"^\*\*(\d+)\. ", PAPER, re.MULTILINE)}
CHECKED = re.findall(r"^\| (\d+) \| (.*?) \| `(.*?)` \| `(.*?)` \|$", PAPER, re.MULTILINE)
FIGURES = re.findall(r"^\| (.*?) \|.*\| ([^|]* ± [^|]*) \| \[\w+\]\((.*?)\) \|$", PAPER, re.MULTILINE)

#: Symbols of declared bounds that are not in the paper's table, as `online_rank.bounds` and its modules define them.
_ELSEWHERE = {
    "F", "w", "z", "u", "u_T", "w_1", "W1", "U", "tau", "eta", "eta_T", "e_t", "P", "K", "mu", "alpha", "epsilon", "kappa",
    "rho", "D", "m", "k", "v_max", "f", "L", "c", "luck", "gamma", "omega", "h", "u_t",
}  # fmt: skip
_WORDS = {
    "sqrt", "sum", "of", "with", "at", "ln", "e", "in", "expectation", "over", "the", "draws", "if", "grades", "do", "not",
    "depend", "on", "them", "max", "min", "Theorem", "Corollary", "CT",
}  # fmt: skip


def test_every_statement_is_checked_and_has_a_proof():
    assert [int(number) for number, *_ in CHECKED] == sorted(STATED) == list(range(1, max(STATED) + 1))
    for number in STATED:
        text = re.search(rf"^\*\*{number}\. .*?(?=^\*\*{number + 1}\. |^## )", PAPER, re.MULTILINE | re.DOTALL)[0]
        assert "roof" in text, number


@pytest.mark.parametrize(("number", "names", "script", "test"), CHECKED)
def test_what_a_statement_names_exists(number, names, script, test):
    for name in re.findall(r"`(.*?)`", names):
        home, _, attribute = f"online_rank.{name}".rpartition(".")
        assert hasattr(importlib.import_module(home), attribute), name
    module, *options = script.split()
    path = ROOT / f"{module.replace('.', '/')}.py"
    source = path.read_text()
    assert 'if __name__ == "__main__"' in source
    for option in options:
        assert option in source, (script, option)
    file, _, function = test.partition("::")
    assert f"\ndef {function}(" in (ROOT / file).read_text()


@pytest.mark.parametrize("script", sorted({script for _, _, script, _ in CHECKED}))
def test_the_command_of_a_statement_has_a_page(script):
    pages = "".join(path.read_text() for path in (ROOT / "benchmarks" / "results").glob("*.md"))
    module, *chosen = script.split()
    if module != "benchmarks.bounds":
        assert f"python -m {script}" in pages
        return
    headings = {section.__name__: section.__doc__ for section in importlib.import_module(module).SECTIONS}
    for name in chosen:
        assert f"\n## {headings[name]}\n" in pages, name


def test_figures_are_on_the_pages():
    assert len(FIGURES) > 10
    for question, figure, page in FIGURES:
        text = (ROOT / "docs" / page).resolve().read_text()
        assert figure in text, (figure, page)
        # Note (1): the default had curves alone when the page was measured.
        assert ("(1)" in question) == ("`AdditiveRanker()` had curves alone then." in text), (question, page)


def test_the_documented_bounds_have_the_numbers_of_the_paper():
    told = {int(n) for numbers in re.findall(r"^\*\*([\d, ]+): ", bounds.__doc__, re.MULTILINE) for n in numbers.split(",")}
    assert told <= STATED
    assert {1, 2, 3, 4, 7, 8, 10, 12} <= told


def test_labels_of_bounds_have_the_symbols_of_the_paper():
    table = PAPER.partition("## Symbols")[2].partition("\nA loss is")[0]
    known = {*re.findall(r"[A-Za-z]\w*", " ".join(row.split("|")[1] for row in table.splitlines() if row.startswith("| ")))}
    for bound in BOUNDS.values():
        assert {*re.findall(r"[A-Za-z]\w*", bound.statement)} <= known | _WORDS | _ELSEWHERE, bound.statement
    # These had two meanings: a step and a tolerance, a margin and the mixability gap, grades and norms.
    for bound in (bound for bound in BOUNDS.values() if not bound.name.startswith(("blend", "additive"))):
        assert not {"eta", "Delta", "G", "R"} & {*re.findall(r"[A-Za-z]\w*", bound.statement)}, bound.statement


def test_names_in_the_text_exist():
    for name in {*re.findall(r"`bounds\.(\w+)`", PAPER)} - {"mass"}:
        assert hasattr(bounds, name), name
    for name in {*re.findall(r"`([A-Z]\w+)(?:\(\))?`", PAPER)}:
        assert hasattr(online_rank, name), name
