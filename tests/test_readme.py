import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
EXAMPLE = re.compile(r"```(python|sh)\n([^`]*)```\n+```text\n(.*?)```", re.DOTALL)
EXAMPLES = EXAMPLE.findall(README.read_text())


def printed_by(language, code, folder):
    """What an example prints, run in a folder of its own."""
    commands = {"python": [sys.executable, "-c"], "sh": ["bash", "-c"]}
    if language == "sh":
        code = f'online-rank() {{ "{sys.executable}" -m online_rank "$@"; }}\n{code}'
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"}
    run = [*commands[language], code]
    return subprocess.run(run, capture_output=True, text=True, check=True, cwd=folder, env=environment).stdout


@pytest.mark.parametrize(("language", "code", "printed"), EXAMPLES, ids=lambda text: text.partition("\n")[0][:40])
def test_examples_print_what_the_readme_says(language, code, printed, tmp_path):
    assert printed_by(language, code, tmp_path) == printed


def test_every_python_block_is_an_example():
    languages = [language for language, _, _ in EXAMPLES]
    assert README.read_text().count("```python") == languages.count("python") > 0


def test_every_link_has_its_target():
    text = README.read_text()
    headings = {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)", text, re.MULTILINE)
    }
    for target in re.findall(r"\]\(([^)]+)\)", text) + re.findall(r'src="([^"]+)"', text):
        if target.startswith("#"):
            assert target[1:] in headings, target
        elif not target.startswith("http"):
            assert (ROOT / target.partition("#")[0]).exists(), target


def rewrite():
    """Run every example and write what it prints into the README (`python -m tests.test_readme`)."""

    def run(match):
        with tempfile.TemporaryDirectory() as folder:
            printed = printed_by(match[1], match[2], folder)
        return f"```{match[1]}\n{match[2]}```\n\n```text\n{printed}```"

    README.write_text(EXAMPLE.sub(run, README.read_text()))


if __name__ == "__main__":
    rewrite()
