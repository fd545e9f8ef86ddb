"""What the benchmarks share: their arguments, and how results are written."""

import argparse
import contextlib
import datetime
import importlib.metadata
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from benchmarks._catalogue import entry

ROOT = Path(__file__).resolve().parents[1]
#: Where results are written; `report --check` makes them again elsewhere.
RESULTS = Path(os.environ.get("ONLINE_RANK_RESULTS", ROOT / "benchmarks" / "results"))

_BEGUN = time.monotonic()
#: Seconds, by the clock and of the processor, that parts took which an earlier run has measured and kept.
_EARLIER = [0.0, 0.0]
#: How long the process had run when a result was last written.
_SAVED = [0.0, 0.0]


def parser(doc: str | None) -> argparse.ArgumentParser:
    """An argument parser that shows the module's docstring."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; the first column is text, the others are numbers."""
    lines = ["| " + " | ".join(header) + " |", "|---" + "|---:" * (len(header) - 1) + "|"]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join(lines)


def environment(*packages: str) -> str:
    """One line on where a result was measured."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "numba", "river", *packages))
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, {versions}"


def commit(root: Path = ROOT) -> str:
    """The commit that is checked out in a folder; with a + where files other than results were changed since."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks/results")
        return git("rev-parse", "--short=7", "HEAD") + "+" * bool(changed)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def save(name: str, markdown: str, *, part: bool = False) -> None:
    """Print a result and write it, with command, date, commit and machine, to `benchmarks/results/NAME.md`.

    Where only a part of the benchmark was run, its sections (`## ...`) take the place of those that the page has under the same
    headings, each with its own command and date, and all others stay.
    """
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.md"
    # A benchmark may write several pages.
    ran = getattr(getattr(sys.modules["__main__"], "__spec__", None), "name", "")
    module = ran if ran.startswith("benchmarks.") else f"benchmarks.{name}"
    # A page says nothing of the folders of the machine that made it.
    given = (os.path.relpath(value, ROOT) if value.startswith("/") else value for value in sys.argv[1:])
    command = shlex.join(["python", "-m", module, *given])
    lines = f"`{command}`\n\nMeasured on {datetime.date.today().isoformat()} at {commit()}: {environment()}.\n"
    duration = took()

    def measured(title: str) -> str:
        return f"{lines}{seeds_of(name, title)}{duration}"

    print(markdown)
    if part and path.exists():
        path.write_text(merged(path.read_text(), markdown, measured))
    else:
        path.write_text(f"{markdown.rstrip()}\n\n{measured(markdown.partition(chr(10))[0].lstrip('# '))}\n")


def seeds_of(name: str, title: str) -> str:
    """The seeds of a section of a page, as the page says them."""
    seeds = entry(name, title).seeds
    return f"Seeds: {seeds}. " if seeds else ""


def seconds_so_far() -> tuple[float, float]:
    """How long this process has run, and what it and its children that ended took of the processor."""
    now = os.times()
    return time.monotonic() - _BEGUN, now.user + now.system + now.children_user + now.children_system


def add_earlier(seconds: Sequence[float]) -> None:
    """Count what an earlier run has measured and kept: seconds by the clock and of the processor."""
    for place, each in enumerate(seconds):
        _EARLIER[place] += each


def took() -> str:
    """How long it took since the process began or a result was written, as its page says it."""
    now = seconds_so_far()
    clock, processor = (a - b + earlier for a, b, earlier in zip(now, _SAVED, _EARLIER, strict=True))
    _SAVED[:], _EARLIER[:] = now, (0.0, 0.0)
    return f"It took {clock / 60.0:.1f} minutes, {processor / 60.0:.1f} of the processor."


@contextlib.contextmanager
def in_memory() -> Iterator[Path]:
    """A folder in memory if the system has one, for figures that do not depend on this machine's disk."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


def merged(page: str, markdown: str, measured: Callable[[str], str]) -> str:
    """A page with the sections that `markdown` has replaced; under each comes what `measured` says of its title."""
    fresh = {title: f"{text.rstrip()}\n\n{measured(title.lstrip('# '))}" for title, text in _sections(markdown)[1].items()}
    head, kept = _sections(page)
    return "\n\n".join([head.rstrip(), *(text.rstrip() for text in (kept | fresh).values())]) + "\n"


def _sections(page: str) -> tuple[str, dict[str, str]]:
    """What stands before the first section, and the sections by heading."""
    head, *sections = re.split(r"(?m)^(?=## )", page)
    return head, {text.partition("\n")[0]: text for text in sections}
