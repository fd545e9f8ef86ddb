"""Long runs in parts: each part is written to a file as soon as it is measured, and a later run measures what is missing."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._common import add_earlier, commit, seconds_so_far


class Kept:
    """What was measured so far.

    Parameters
    ----------
    path
        A JSON file; None keeps everything in memory only. Delete it to measure everything again.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._parts: dict[str, dict[str, Any]] = {}
        self._counted: set[str] = set()
        if path is not None and path.exists():
            self._parts = json.loads(path.read_text())

    def part(self, name: str, measure: Callable[[], Any]) -> Any:
        """What `measure` returned for this part, now or in an earlier run: numbers, strings, and lists of them."""
        if name not in self._parts:
            begun = seconds_so_far()
            value = measure()
            took = [now - then for now, then in zip(seconds_so_far(), begun, strict=True)]
            self._parts[name] = {"commit": commit(), "value": value, "seconds": took}
            self._counted.add(name)
            if self._path is not None:
                new = self._path.with_suffix(".new")
                new.write_text(json.dumps(self._parts, indent=1))
                new.replace(self._path)
        elif name not in self._counted:
            add_earlier(self._parts[name].get("seconds", (0.0, 0.0)))
            self._counted.add(name)
        return self._parts[name]["value"]

    def forget(self, name: str) -> None:
        """Measure a part again."""
        self._parts.pop(name, None)

    def __contains__(self, name: str) -> bool:
        return name in self._parts

    def code_of(self, *names: str) -> str:
        """Which code some parts were measured on."""
        commits = list(dict.fromkeys(self._parts[name]["commit"] for name in names))
        return f"Measured on commit{'s' * (len(commits) > 1)} {', '.join(commits)}."

    @property
    def code(self) -> str:
        """Which code the parts were measured on."""
        return self.code_of(*self._parts)


def add_keep(options: argparse.ArgumentParser) -> None:
    """The option `--keep FILE`."""
    options.add_argument("--keep", type=Path, metavar="FILE", help="keep measurements here, and continue from them")
