"""What the benchmarks share: their arguments, and how results are written."""

import argparse
import datetime
import importlib.metadata
import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


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


def save(name: str, markdown: str) -> None:
    """Print a result and write it, with date and machine, to `benchmarks/results/NAME.md`."""
    RESULTS.mkdir(exist_ok=True)
    measured = f"Measured on {datetime.date.today().isoformat()}: {environment()}."
    (RESULTS / f"{name}.md").write_text(f"{markdown.rstrip()}\n\n{measured}\n")
    print(markdown)
