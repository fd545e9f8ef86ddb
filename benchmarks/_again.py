"""Are the figures of a result the same when they are made again, and does its page say how they were made?"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks._common import ROOT

__all__ = ["command_of", "differences", "made_again", "unsaid"]

_COMMAND = re.compile(r"`python -m (benchmarks\.\w+[^`]*)`")
_TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
#: Headers and titles of what depends on the machine and its load.
_TIME = re.compile(r"µs|\bms\b|\bs\b|seconds|time|/s\b|MB|MiB|speed|ratio|fast|cores|latency|p99|memory|load", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e-?\d+)?")


def unsaid(page: str) -> list[str]:
    """What a page does not say of how its figures were made."""
    wanted = {"command": _COMMAND.search(page), "date, machine and versions": "Measured on 2" in page}
    return [what for what, said in wanted.items() if not said]


def command_of(page: str, name: str) -> list[str] | None:
    """The arguments of the benchmark `name` that made a page; None where it does not say, or was made in several runs."""
    said = {text for text in _COMMAND.findall(page) if shlex.split(text)[0] == f"benchmarks.{name}"}
    return shlex.split(said.pop())[1:] if len(said) == 1 else None


def differences(before: str, after: str) -> tuple[int, list[str]]:
    """How many figures of tables, times apart, two pages share, and those that are not the same.

    A column is of times if its header says so; so is a table if the heading above it does.
    """
    n_same, changed = 0, []
    old, new = _tables(before), _tables(after)
    if len(old) != len(new):
        return 0, [f"{len(old)} tables became {len(new)}"]
    for (title, first), (_, second) in zip(old, new, strict=True):
        if _TIME.search(title):
            continue
        if first[0] != second[0] or len(first) != len(second):
            changed.append(f"{title}: other rows or columns")
            continue
        for row, other in zip(first[2:], second[2:], strict=True):
            for header, cell, again in zip(first[0], row, other, strict=True):
                if _TIME.search(header) or not _NUMBER.search(cell):
                    continue
                if cell == again:
                    n_same += 1
                else:
                    changed.append(f"{title}: {row[0]}, {header}: {cell} became {again}")
    return n_same, changed


def made_again(name: str, options: list[str], limit: float) -> str | None:
    """The page that a benchmark writes now, to a folder of its own; None if that takes more than `limit` seconds, or fails."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "ONLINE_RANK_RESULTS": folder}
        command = [sys.executable, "-m", f"benchmarks.{name}", *options]
        try:
            subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=limit)
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
            return None
        page = Path(folder) / f"{name}.md"
        return page.read_text() if page.exists() else None


def _tables(page: str) -> list[tuple[str, list[list[str]]]]:
    """The tables of a page, each with the heading above it, as rows of cells."""
    found = []
    for match in _TABLE.finditer(page):
        headings = re.findall(r"(?m)^#+ (.*)", page[: match.start()])
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in match[0].strip().splitlines()]
        found.append((headings[-1] if headings else "", rows))
    return found
