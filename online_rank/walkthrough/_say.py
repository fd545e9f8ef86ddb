"""Output of walk-throughs: headings, paragraphs and bars, in plain text."""

import sys
import textwrap
from collections.abc import Sequence

_WIDTH = 88
_BARS = "▁▂▃▄▅▆▇█"


def heading(text: str) -> None:
    """A heading; bold on a terminal."""
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
    print(f"\n{bold}{text}{plain}")


def say(text: str) -> None:
    """A paragraph."""
    print(textwrap.fill(" ".join(text.split()), _WIDTH))


def show(text: str) -> None:
    """Indented output."""
    print(textwrap.indent(text, "    "))


def course(values: Sequence[float], low: float, high: float) -> str:
    """One bar for each value, from `low` to `high`."""
    step = (high - low) / (len(_BARS) - 1) or 1.0
    return "".join(_BARS[round((min(max(value, low), high) - low) / step)] for value in values)
