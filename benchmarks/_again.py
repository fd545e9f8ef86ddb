"""Are the figures of a result the same when they are made again, and does its page say how they were made?

A page is compared section by section, each with the command that wrote it. `benchmarks._catalogue` says which command makes a
section again, the whole or a part of its rows, and gives the reason if no command does. Times, and what follows from them, are
not compared.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks._catalogue import entry
from benchmarks._common import ROOT

__all__ = ["Compared", "Section", "check_page", "compared", "sections_of", "unsaid"]

_MADE_BY = re.compile(r"(?m)^`python -m (benchmarks\.\w+[^`]*)`$")
_TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
#: Headers of speeds.
_SPEED = re.compile(r"/ ?s\b|to full sort")
#: Headers of what depends on the machine and its load; a header of the first column speaks of all others.
_TIME = re.compile(
    r"µs|(?<!['\w])(?:ns|ms|s|seconds|minutes|MB|p50|p99|processor|clock|memory|speed|latency)\b"
    rf"|\btime\b|ratio of times|times as fast|{_SPEED.pattern}"
)
#: Columns of a table of times that are no times: they are compared all the same.
_QUALITY = re.compile(r"NDCG|MAP\b|differs|error")
_NUMBER = re.compile(r"\d[\d,]*\.?\d*(?:e-?\d+)?")
#: Lines that say where and when something was measured, and pictures.
_OF_THE_RUN = re.compile(
    r"(?m)^(?:Measured on|Seeds:|!\[|`python -m|\d+ cores,).*$|Measured on commits? [^.]*\.|\d+ cores, .*$"
)


class Section(NamedTuple):
    """A part of a page under one heading, with the command that wrote it."""

    title: str
    text: str
    command: tuple[str, ...]
    """Module and arguments, without `--keep FILE`: with it nothing would be made again."""


class Compared(NamedTuple):
    """How many figures of a section came back, which did not, and how many were not made again or are times."""

    same: int = 0
    changed: tuple[str, ...] = ()
    left: int = 0
    times: int = 0

    def plus(self, other: "Compared") -> "Compared":
        """Both together."""
        return Compared(*(a + b for a, b in zip(self, other, strict=True)))


def unsaid(page: str) -> list[str]:
    """What a page does not say of how its figures were made."""
    wanted = {
        "command": _MADE_BY.search(page),
        "date, machine and versions": "Measured on 2" in page,
        "seeds": re.search(r"(?m)^Seeds: ", page),
        "time": re.search(r"It took |It takes ", page),
    }
    return [what for what, said in wanted.items() if not said]


def sections_of(page: str) -> list[Section]:
    """The parts of a page. A part without a command takes the next command below it, or else the command of the page."""
    texts = [text for text in re.split(r"(?m)^(?=##? )", page) if text.strip()]
    found = [tuple(_without_keep(shlex.split(named[-1]))) if (named := _MADE_BY.findall(text)) else () for text in texts]
    return [
        Section(text.partition("\n")[0].lstrip("# "), text, next(filter(None, [*found[number:], *found[:1]]), ()))
        for number, text in enumerate(texts)
    ]


def _without_keep(words: list[str]) -> list[str]:
    if "--keep" in words:
        at = words.index("--keep")
        del words[at : at + 2]
    return words


def compared(before: Section, after: str | None, *, times: bool = False, part: bool = False) -> Compared:
    """The figures of a section compared with the same section made again, or None.

    Parameters
    ----------
    before
        What the page has.
    after
        The section made again.
    times
        Whether all its figures are times, except figures of ranking quality.
    part
        Whether only some rows and columns were made again, and no text.
    """
    same, changed, left, n_times = 0, [], 0, 0
    again = list(_tables(after)) if after is not None else None
    for number, table in enumerate(_tables(before.text)):
        other = _Cells(again[number], table.width()) if again is not None and number < len(again) else None
        for row, header, cell, is_time in table.figures(times):
            if is_time:
                n_times += 1
            elif other is None:
                left += 1
            elif (found := other.get(row, header)) == cell:
                same += 1
            elif part and not found:
                left += 1
            else:
                changed.append(f"{before.title}: {row}, {header}: {cell} became {found or 'nothing'}")
        if other is not None and not part and len(other.table.rows) > len(table.rows):
            changed.append(f"{before.title}: table {number + 1} has more rows")
    for sentence in _sentences(before.text):
        n = len(_NUMBER.findall(sentence))
        if times or _TIME.search(sentence):
            n_times += n
        elif after is None or part:
            left += n
        elif sentence in _sentences(after):
            same += n
        else:
            changed.append(f"{before.title}: it says no more: {sentence}")
    return Compared(same, tuple(changed), left, n_times)


class _Table(NamedTuple):
    header: list[str]
    rows: list[list[str]]

    def width(self) -> int:
        """How many cells, as few as can be, tell the rows apart; 0 if none do."""
        enough = (n for n in range(1, len(self.header) + 1) if len({*self.names(n)}) == len(self.rows))
        return next(enough, 0)

    def names(self, width: int) -> list[str]:
        """A name of each row: its first `width` cells, or, where that is 0, its number."""
        return [" ".join(row[:width]) or f"row {number}" for number, row in enumerate(self.rows, 1)]

    def columns(self) -> list[str]:
        """A name of each column: the header, and which of that header it is from the second on."""
        seen = [self.header[: place + 1].count(header) for place, header in enumerate(self.header)]
        return [f"{header} ({number})" if number > 1 else header for header, number in zip(self.header, seen, strict=True)]

    def figures(self, times: bool) -> Iterator[tuple[str, str, str, bool]]:
        """Row, column and text of each cell, figure or verdict, and whether it is a time. The first column is of names."""
        times = times or bool(_TIME.search(self.header[0]))
        for name, row in zip(self.names(self.width()), self.rows, strict=True):
            for header, cell in zip(self.columns()[1:], row[1:], strict=True):
                if cell:
                    is_time = times or bool(_TIME.search(header))
                    yield name, header, cell, bool(_SPEED.search(header)) or (is_time and not _QUALITY.search(header))


class _Cells:
    """The cells of a table by names of rows and columns, in any order: fast ones may stand first."""

    def __init__(self, table: _Table, width: int) -> None:
        self.table = table
        self._rows = dict(zip(table.names(width), table.rows, strict=True))

    def get(self, row: str, header: str) -> str | None:
        """The text of a cell, or None."""
        columns = self.table.columns()
        return self._rows[row][columns.index(header)] if row in self._rows and header in columns else None


def _tables(text: str) -> Iterator[_Table]:
    for match in _TABLE.finditer(text + "\n"):
        header, _, *rows = (
            [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in match[0].strip().splitlines()
        )
        yield _Table(header, rows)


def _sentences(text: str) -> list[str]:
    """What a section says between its tables, as far as it contains figures."""
    plain = _OF_THE_RUN.sub("", _TABLE.sub("\n\n", text + "\n"))
    plain = re.sub(r"`[^`]*`", "", plain)
    found = [" ".join(each.split()) for block in plain.split("\n\n") for each in re.split(r"(?<=[.;:])\s", block)]
    return [each for each in found if _NUMBER.search(each)]


def made_again(name: str, commands: Sequence[Sequence[str]], limit: float) -> tuple[list[Section], dict[tuple[str, ...], str]]:
    """The page `name` as commands write it now, in a new folder; and those that failed or took more than `limit` seconds."""
    failed = {}
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "ONLINE_RANK_RESULTS": folder}
        sections: list[Section] = []
        for command in commands:
            run = [sys.executable, "-m", *command]
            try:
                subprocess.run(run, cwd=ROOT, env=environment, check=True, capture_output=True, text=True, timeout=limit)
            except subprocess.TimeoutExpired:
                failed[tuple(command)] = f"it takes more than {limit:g} s"
            except subprocess.CalledProcessError as error:
                failed[tuple(command)] = f"it failed: {(error.stderr.strip().splitlines() or ['without a word'])[-1]}"
        page = Path(folder) / f"{name}.md"
        if page.exists():
            sections = sections_of(page.read_text())
        return sections, failed


def check_page(name: str, page: str, limit: float) -> tuple[Compared, list[str]]:
    """Make again what can be made again of a page. Returns the counts, and why the others were not made again."""
    sections = sections_of(page)
    entries = {section.title: entry(name, section.title) for section in sections}
    commands: dict[tuple[str, ...], None] = {}
    for section in sections:
        found = entries[section.title]
        if found.by is not None:
            commands[tuple(shlex.split(found.by))] = None
        elif not found.reason and section.command and _has_figures(section, found.times):
            commands[section.command] = None
    again, failed = made_again(name, list(commands), limit)
    texts = {section.title: section.text for section in again}
    total, reasons = Compared(), []
    for section in sections:
        found = entries[section.title]
        command = tuple(shlex.split(found.by)) if found.by is not None else section.command
        text = texts.get(section.title)
        result = compared(section, text, times=found.times, part=found.by is not None)
        total = total.plus(result)
        if result.left:
            why = failed.get(command) or found.reason or ("no command is named" if not command else "")
            what = f"{result.left} figures under {section.title!r}"
            reasons.append(f"{what}: {why or 'the command does not write this section'}")
    return total, reasons


def _has_figures(section: Section, times: bool) -> bool:
    return compared(section, None, times=times).left > 0
