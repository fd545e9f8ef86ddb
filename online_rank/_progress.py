"""The progress bar of an evaluation, on stderr (extra `cli`)."""

import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = ["ProgressBar"]

_REFRESH = 0.1


class ProgressBar:
    """A context that gives a function to call with the trace after every query."""

    def __init__(self, total: int | None = None, label: str = "learning", transient: bool = True) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:,} queries"),
            TextColumn("{task.fields[figures]}", style="bold"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=transient,
        )
        self._task = self._bar.add_task(label, total=total, figures="")
        self._next = 0.0

    def __enter__(self) -> "ProgressBar":
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._bar.stop()

    def __call__(self, trace: Any) -> None:
        """Show the present figures, a few times a second."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _REFRESH
            figures = "  ".join(f"{name} {value:.4f}" for name, value in trace.values.items())
            self._bar.update(self._task, completed=trace.n_queries, figures=figures)
