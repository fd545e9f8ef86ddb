"""Are the figures of a result the same when they are made again, and does its page say how they were made?"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks._common import ROOT

__all__ = ["commands_of", "differences", "made_again", "unsaid"]

_MADE_BY = re.compile(r"(?m)^`python -m (benchmarks\.\w+[^`]*)`$")
_TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
#: Headers and titles of what depends on the machine and its load.
_TIME = re.compile(
    r"µs|\bms\b|(?<!')\bs\b|seconds|time|/s\b|MB|MiB|speed|ratio|fast|cores|latency|p99|memory|load", re.IGNORECASE
)
_NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e-?\d+)?")


def unsaid(page: str) -> list[str]:
    """What a page does not say of how its figures were made."""
    wanted = {"command": _MADE_BY.search(page), "date, machine and versions": "Measured on 2" in page}
    return [what for what, said in wanted.items() if not said]


def commands_of(page: str) -> list[list[str]]:
    """The commands that made a page, each once, as module and arguments: those that stand alone on a line.

    `--keep FILE` is left out, since with it nothing would be made again.
    """
    commands = []
    for text in _MADE_BY.findall(page):
        words = shlex.split(text)
        if "--keep" in words:
            at = words.index("--keep")
            del words[at : at + 2]
        commands.append(words)
    return [words for n, words in enumerate(commands) if words not in commands[:n]]


def differences(before: str, after: str) -> tuple[int, list[str]]:
    """How many figures of tables, times apart, two pages share, and those that are not the same.

    A column is of times if its header says so; so is a table if the heading above it does.
    """
    n_same, changed = 0, []
    old, new = _tables(before), _tables(after)
    for title, number in sorted(old.keys() ^ new.keys()):
        changed.append(f"{title}: table {number} is in one of the pages alone")
    for (title, number), first in old.items():
        second = new.get((title, number))
        if second is None or _TIME.search(title):
            continue
        if first[0] != second[0] or len(first) != len(second):
            changed.append(f"{title}: other rows or columns")
            continue
        for row, other in zip(first[2:], _in_order(first[2:], second[2:]), strict=True):
            for header, cell, again in zip(first[0], row, other, strict=True):
                if _TIME.search(header) or not _NUMBER.search(cell):
                    continue
                if cell == again:
                    n_same += 1
                else:
                    changed.append(f"{title}: {row[0]}, {header}: {cell} became {again}")
    return n_same, changed


def _in_order(rows: list[list[str]], others: list[list[str]]) -> list[list[str]]:
    """`others` in the order of `rows`, by their names, if these are the same: fast ones may stand first."""
    by_name = {other[0]: other for other in others}
    same = len(by_name) == len(rows) and by_name.keys() == {row[0] for row in rows}
    return [by_name[row[0]] for row in rows] if same else others


def made_again(name: str, commands: list[list[str]], limit: float) -> str | None:
    """The page `name` as its commands write it now, in a new folder; None if one takes more than `limit` seconds, or fails."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "ONLINE_RANK_RESULTS": folder}
        try:
            for command in commands:
                run = [sys.executable, "-m", *command]
                subprocess.run(run, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=limit)
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
            return None
        page = Path(folder) / f"{name}.md"
        return page.read_text() if page.exists() else None


def _tables(page: str) -> dict[tuple[str, int], list[list[str]]]:
    """The tables of a page as rows of cells, by the heading above each and its number there."""
    found: dict[tuple[str, int], list[list[str]]] = {}
    for match in _TABLE.finditer(page):
        headings = re.findall(r"(?m)^#+ (.*)", page[: match.start()])
        title = headings[-1] if headings else ""
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in match[0].strip().splitlines()]
        found[title, 1 + sum(other == title for other, _ in found)] = rows
    return found
