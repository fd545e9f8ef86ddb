"""Every example of the README and of the guides prints what the page says; every link leads somewhere."""

import contextlib
import importlib
import io
import os
import re
import runpy
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest
import sklearn

from online_rank import extensions
from online_rank.support import registry
from tests.reference.guide import guide

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *TUTORIALS]
EXAMPLE = re.compile(r"```(python|sh)\n([^`]*)```\n+```text\n(.*?)```", re.DOTALL)
EXAMPLES = [(page.name, *example) for page in PAGES for example in EXAMPLE.findall(page.read_text())]
SINGLE = [example for example in EXAMPLES if example[0] not in {page.name for page in TUTORIALS}]


def printed_by(language, code, folder):
    """What an example prints, run in a separate folder: Python in this process, since another takes a second to begin."""
    with contextlib.chdir(folder):
        if language == "python":
            path = Path("example.py")
            path.write_text(code)
            # What it registers must not meet what other tests have registered; settings of scikit-learn end with it.
            with (
                extensions.no_names(),
                sklearn.config_context(),
                contextlib.redirect_stdout(io.StringIO()) as out,
            ):
                runpy.run_path(str(path), run_name="__main__")
            printed = out.getvalue()
        else:
            # In a subshell, which `&` begins, it takes the place of the shell, so that `kill $!` ends it.
            command = f'"{sys.executable}" -m online_rank "$@"'
            code = f"online-rank() {{ ((BASH_SUBSHELL)) && exec {command}; {command}; }}\n{code}"
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            printed = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True, env=environment).stdout
    return re.sub(r" +$", "", printed, flags=re.MULTILINE)


def slug(heading):
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def quick_or_slow(example):
    """Each command of a shell begins a process: only the README's are quick tests."""
    slow = example[1] == "sh" and example[0] != "README.md"
    return pytest.param(*example, marks=[pytest.mark.slow] if slow else [], id=example[2].partition("\n")[0][:40])


@pytest.mark.parametrize(("page", "language", "code", "printed"), [*map(quick_or_slow, SINGLE)])
def test_examples_print_what_the_page_says(page, language, code, printed, tmp_path):
    assert printed_by(language, code, tmp_path) == printed


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_prints_what_it_says(page, tmp_path):
    """Its examples run in one folder, one after the other: later ones read what earlier ones wrote."""
    for language, code, printed in EXAMPLE.findall(page.read_text()):
        assert printed_by(language, code, tmp_path) == printed


def test_every_python_block_is_an_example():
    blocks = {page.name: page.read_text().count("```python") for page in PAGES}
    assert blocks == {page.name: sum(example[:2] == (page.name, "python") for example in EXAMPLES) for page in PAGES}
    assert sum(blocks.values())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_has_its_target(page):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)]+)\)", text) + re.findall(r'src="([^"]+)"', text):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        if anchor:
            assert anchor in {slug(heading) for heading in re.findall(r"^#+ (.*)", file.read_text(), re.MULTILINE)}, target


@pytest.mark.slow
def test_the_site_has_the_pictures_of_tags(tmp_path):
    """A tag keeps its address as it is unless the reader of pages takes it for a picture: three pages had broken ones."""
    application = pytest.importorskip("sphinx.application")
    pytest.importorskip("myst_parser")
    settings = re.findall(r"(?m)^myst_\w+ = .*$", (ROOT / "docs" / "conf.py").read_text())
    (tmp_path / "conf.py").write_text("\n".join(['extensions = ["myst_parser"]', 'root_doc = "a/page"', *settings]))
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    (tmp_path / "b" / "bars.png").write_bytes((ROOT / "benchmarks" / "results" / "throughput.png").read_bytes())
    (tmp_path / "a" / "page.md").write_text('# Page\n\n<img src="../b/bars.png" alt="Bars" width="600">\n')
    out = tmp_path / "out"
    application.Sphinx(tmp_path, tmp_path, out, out / "doctrees", "html", status=None, warningiserror=True).build()
    (source,) = re.findall(r'<img [^>]*src="([^"]+)"', (out / "a" / "page.html").read_text())
    assert (out / "a" / source).resolve().exists()


def test_the_readme_leads_to_every_page_and_fits_a_page():
    text, index = PAGES[0].read_text(), ROOT / "docs" / "index.md"
    assert "](docs/index.md)" in text
    others = [str(page.relative_to(index.parent)) for page in PAGES[1:] if page != index]
    assert [name for name in others if f"]({name})" not in index.read_text()] == []
    assert text.count("\n") <= 150


def rewrite(*names):
    """Run the examples of the named pages, or of all, and write what they print (`python -m tests.test_docs [PAGE ...]`)."""

    def run(match):
        with tempfile.TemporaryDirectory() as folder:
            printed = printed_by(match[1], match[2], together or folder)
        return f"```{match[1]}\n{match[2]}```\n\n```text\n{printed}```"

    for page in (page for page in PAGES if not names or page.name in names):
        with tempfile.TemporaryDirectory() as folder:
            together = folder if page in TUTORIALS else None
            page.write_text(EXAMPLE.sub(run, page.read_text()))
    if names and "service.md" not in names:
        return
    page = ROOT / "docs" / "service.md"
    page.write_text(re.sub(r"(?<=## Requests\n\n)(\|.*\n|\n(?=\| field))+", lambda _: guide(), page.read_text()))


if __name__ == "__main__":
    rewrite(*sys.argv[1:])


def test_the_software_is_cited_alike_everywhere():
    yaml = pytest.importorskip("yaml")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    preferred = cited["preferred-citation"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    entry = (ROOT / "docs" / "research.md").read_text().replace("\\_", "_")
    bibtex = dict(re.findall(r"(\w+) = \{+(.*?)\}+,?\n", entry))
    # The version is in one place, the package.
    assert "version" in project["dynamic"]
    assert "version" not in {*cited, *preferred, *bibtex}
    assert {cited["license"], preferred["license"], bibtex["license"]} == {project["license"]}
    assert (preferred["title"], str(preferred["year"])) == (bibtex["title"], bibtex["year"])
    assert cited["authors"] == preferred["authors"] == [{"name": bibtex["author"]}]
    # What the schema of version 1.2.0 demands.
    assert cited["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= {*cited}
    assert all({"type", "title", "authors"} <= {*each} for each in (preferred, *cited["references"]))


def test_every_paper_of_the_table_is_among_the_references():
    text = (ROOT / "docs" / "papers.md").read_text()
    references = (ROOT / "docs" / "research.md").read_text().partition("## References")[2]
    assert [name for name in {*re.findall(r"\[(?:CT2?|DR|LW|JG)\]", text)} if f"- {name} " not in references] == []


def test_every_public_module_has_a_page():
    """Modules that a guide imports from, and modules of rooms whose names their room does not repeat."""
    pages = {*registry.ROOMS, *registry.MODULES}
    imported = {name for page in PAGES for name in re.findall(r"from online_rank\.([\w.]+) import", page.read_text())}
    assert {name for name in imported if not {name, name.rpartition(".")[0]} & pages} == set()
    for name in sorted(pages):
        assert importlib.import_module(f"online_rank.{name}").__all__
