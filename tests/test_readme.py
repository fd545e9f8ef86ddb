import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
EXAMPLE = re.compile(r"```python\n(.*?)```\n+```text\n(.*?)```", re.DOTALL)
EXAMPLES = EXAMPLE.findall(README.read_text())


@pytest.mark.parametrize(("code", "printed"), EXAMPLES, ids=lambda text: text.partition("\n")[0][:40])
def test_examples_print_what_the_readme_says(code, printed):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == printed


def test_every_python_block_is_an_example():
    assert README.read_text().count("```python") == len(EXAMPLES) > 0


def rewrite():
    """Run every example and write what it prints into the README (`python -m tests.test_readme`)."""

    def run(match):
        done = subprocess.run([sys.executable, "-c", match[1]], capture_output=True, text=True, check=True)
        return f"```python\n{match[1]}```\n\n```text\n{done.stdout}```"

    README.write_text(EXAMPLE.sub(run, README.read_text()))


if __name__ == "__main__":
    rewrite()
