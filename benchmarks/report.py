"""Puts the tables of the benchmarks into the README: no number there is typed by hand.

    python -m benchmarks.report [--run [NAME ...]]

Between `<!-- begin NAME -->` and `<!-- end NAME -->` comes the first table of benchmarks/results/NAME.md (of
`<!-- begin NAME 2 -->` the second), and a line with date, machine and versions. `--run` measures the named benchmarks anew
before, or without a name all that the README shows; that can take long.
"""

import re
import subprocess
import sys
from pathlib import Path

from benchmarks._common import RESULTS, ROOT, parser

README = ROOT / "README.md"

_BLOCK = re.compile(r"<!-- begin (?P<name>\w+)(?: (?P<number>\d+))? -->\n.*?<!-- end (?P=name) -->", re.DOTALL)
_TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
_MEASURED = re.compile(r"^Measured on (\d{4}-\d\d-\d\d): (.*)\.$", re.MULTILINE)


def shown(text: str) -> list[str]:
    """Names of the benchmarks whose tables a text shows."""
    return list(dict.fromkeys(match["name"] for match in _BLOCK.finditer(text)))


def block(name: str, number: int = 1, results: Path = RESULTS) -> str:
    """A table of a result and where it comes from. Raises SystemExit when the result does not have it."""
    path = results / f"{name}.md"
    if not path.exists():
        raise SystemExit(f"there is no result {path}: run python -m benchmarks.{name}")
    text = path.read_text()
    tables, measured = _TABLE.findall(text), _MEASURED.search(text)
    if number > len(tables) or measured is None:
        what = f"has {len(tables)} tables, not {number}" if number > len(tables) else "has no date"
        raise SystemExit(f"{path} {what}: run python -m benchmarks.{name}")
    source = f"`python -m benchmarks.{name}`, [in full](benchmarks/results/{name}.md)"
    return f"{tables[number - 1]}\n{source}. Measured on {measured[1]}: {measured[2]}."


def rewritten(text: str, results: Path = RESULTS) -> str:
    """A text with every block as the results have it now. Raises SystemExit when a begin has no end."""

    def replacement(match: re.Match[str]) -> str:
        name, number = match["name"], match["number"]
        begin = f"<!-- begin {name}{f' {number}' if number else ''} -->"
        return f"{begin}\n{block(name, int(number or 1), results)}\n<!-- end {name} -->"

    if text.count("<!-- begin ") != len(_BLOCK.findall(text)):
        raise SystemExit("a <!-- begin NAME --> has no <!-- end NAME --> of the same name")
    return _BLOCK.sub(replacement, text)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--run", nargs="*", metavar="NAME")
    given = arguments.parse_args()
    if given.run is not None:
        for name in given.run or shown(README.read_text()):
            print(f"python -m benchmarks.{name}", file=sys.stderr)
            subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=ROOT, check=True)
    text = README.read_text()
    README.write_text(rewritten(text))
    print(f"{README.name}: {', '.join(shown(text)) or 'shows no benchmark'}")


if __name__ == "__main__":
    main()
